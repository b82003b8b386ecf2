#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The block of README.md that anybody can type in works as printed, line by
# line; and every `shingle COMMAND` it names exists.
. "$(dirname "$0")/../functions.sh"
requires_program nbdkit nbdinfo nbdcopy

mkdir "$tmp/tree"
cd "$tmp/tree"
ln -s "$top_builddir/server" "$top_builddir/plugins" .
ln -s "$top_srcdir/README.md" .

# The indented block behind the mark "try", with /tmp made private.
awk '/^<!-- try -->/ { on = 1; next } on && /^    / { print substr ($0, 5); seen = 1 } on && seen && /^[^ ]/ { exit }' \
  README.md | sed "s|/tmp/|$tmp/|g" >"$tmp/commands"
[ "$(wc -l <"$tmp/commands")" -ge 8 ] || fail 'no commands found in README.md'
stop_background () { [ ! -s "$tmp/nbd.pid" ] || kill "$(cat "$tmp/nbd.pid")" 2>/dev/null || true; }
cleanup stop_background
timeout 120 bash -ex "$tmp/commands"

known=$("$SHINGLE" --help | sed -nE 's/^  ([a-z]+) .*/\1/p')
grep -oE '`shingle [a-z]+|^    shingle [a-z]+' README.md | awk '{ print $NF }' | sort -u |
  while read -r command; do
    grep -qx "$command" <<<"$known" || fail "README.md names 'shingle $command', which does not exist"
  done
