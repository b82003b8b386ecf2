#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A volume that somebody uses is neither checked nor repaired nor formatted.
. "$(dirname "$0")/../functions.sh"
requires_program flock

new_drive drive
# The lock that every user of an emulated drive holds.
exec 9<"$tmp/drive"
flock 9
for command in check 'check --repair' format 'format --force'; do
  # shellcheck disable=SC2086
  refused "$SHINGLE" $command "$tmp/drive"
  contains "$output" 'in use'
done
exec 9<&-
checked drive
