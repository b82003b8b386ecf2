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

# capture NAME: what README.md shows there
capture ()
{
  awk -v m="<!-- $1 -->" '$0 == m { on = 1; next } on && /^<!-- end/ { exit }
                          on && /^    / { print substr ($0, 5) }' "$top_srcdir/README.md"
}

# The captures show the lines that the commands print today, with figures of their own.
top_lines () { sed -nE '1d; /^ +hwq/d; s/^  (this mount|[a-z][a-z ]*[a-z])  +[^ ].*/\1/p'; }
shingle_mount --control="$tmp/disk.control" "$tmp/disk" "$tmp/mnt"
"$SHINGLE" top --once "$tmp/disk.control" >"$tmp/top"
unmount "$tmp/mnt"
equal "$(capture top | top_lines)" "$(top_lines <"$tmp/top")" "the lines of README.md's capture of top"
contains "$(top_lines <"$tmp/top")" '^write amplification$'
wait_for 20 "$SHINGLE" check "$tmp/disk"
"$SHINGLE" zones "$tmp/disk" --map >"$tmp/map"
map_legend () { sed -nE 's/^  +(.)  ([a-z, ]+): [0-9]+$/\1 \2/p' | sort; }
unknown=$(comm -23 <(capture map | map_legend) <({ map_legend <"$tmp/map"; echo 'B buffer'; } | sort -u))
equal "$unknown" '' "what README.md's map shows and the command does not"
[ "$(capture map | map_legend | wc -l)" -ge 4 ] || fail 'README.md has no capture of map'
