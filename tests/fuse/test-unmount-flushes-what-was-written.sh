#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Write, close, unmount, mount again: the data is there (reports.md, J3), and
# the flush was sent when the file was closed.
source "$(dirname "$0")/../functions.sh"
source "$(dirname "$0")/lib.sh"
requires_fuse

new_file file
pattern 4 3 > "$tmp/pattern"
truncate -s 16M "$tmp/disk"
start_server log --filter=log file "$tmp/disk" logfile="$tmp/requests"

flushes () { grep -c ' Flush ' "$tmp/requests" || true; }

for mode in "" --cache; do
  # shellcheck disable=SC2086
  shingle_mount "$uri" "$tmp/file" $mode
  : > "$tmp/requests"
  dd if="$tmp/file" of=/dev/null bs=1M count=1 status=none
  equal "$(flushes)" 0 "flushes after only reading"
  dd if="$tmp/pattern" of="$tmp/file" bs=1M seek=2 conv=notrunc status=none
  equal "$(flushes)" 1 "flushes when the file is closed"
  unmount "$tmp/file"
  equal "$(flushes)" 2 "flushes at the end"

  # shellcheck disable=SC2086
  shingle_mount "$uri" "$tmp/file" $mode
  cmp -n $((4 << 20)) "$tmp/pattern" "$tmp/file" 0 $((2 << 20))
  unmount "$tmp/file"
  dd if=/dev/zero of="$tmp/disk" bs=1M seek=2 count=4 conv=notrunc status=none
done
stop_server
