#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Long work draws a bar on a terminal, and nothing into a file.
. "$(dirname "$0")/../functions.sh"
requires_program script

new_drive drive
for command in check 'format --force'; do
  script -qec "$SHINGLE $command $tmp/drive" /dev/null </dev/null >"$tmp/terminal"
  # shellcheck disable=SC2086
  "$SHINGLE" $command "$tmp/drive" >"$tmp/file"
  contains "$(tr '\r' '\n' <"$tmp/terminal")" '\[#+\] 100%'
  ! grep -q '%' "$tmp/file" || fail "a bar in a file: $(cat "$tmp/file")"
  ! grep -q $'\r' "$tmp/file" || fail 'carriage returns in a file'
done
