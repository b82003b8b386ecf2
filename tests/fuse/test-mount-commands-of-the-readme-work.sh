#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The block "mount" of README.md, line by line, and that the captures are there.
source "$(dirname "$0")/../functions.sh"
source "$(dirname "$0")/lib.sh"
requires_fuse

cleanup unmount_quietly "$tmp/mnt"
PATH=$(dirname "$SHINGLE"):$PATH
awk '/^<!-- mount -->/ { on = 1; next }
     on && /^    / { print substr ($0, 5); seen = 1 }
     on && seen && /^[^ ]/ { exit }' "$top_srcdir/README.md" |
  sed "s|/tmp/|$tmp/|g" >"$tmp/commands"
[ "$(wc -l <"$tmp/commands")" -ge 8 ] || fail 'no commands found in README.md'
timeout 120 bash -ex "$tmp/commands"
for mark in top map; do
  lines=$(awk -v m="<!-- $mark -->" '$0 == m { on = 1; next } on && /^<!-- end/ { exit }
                                     on && /^    / { n++ } END { print n + 0 }' \
            "$top_srcdir/README.md")
  [ "$lines" -ge 5 ] || fail "README.md has no capture of '$mark'"
done
