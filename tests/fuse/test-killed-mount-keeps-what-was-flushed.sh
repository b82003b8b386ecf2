#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# kill -9 of the mounting process under a file system on a loop device: its
# users get errors, nothing hangs, and after a new mount the volume is clean, the
# file system recovers, and every file that was synced is there whole.
# SHINGLE_KILL_ROUNDS: how often (default 1).
source "$(dirname "$0")/../functions.sh"
source "$(dirname "$0")/lib.sh"
requires_fuse
requires_loop
requires_program mkfs.ext4

new_drive drive --size=512M --zone-size=8M --conventional=16
new_folder fs

# Writes files, syncs each, and then notes it as safe outside.
write_files ()
{
  local i=0
  while pattern 1 $i > "$tmp/fs/file.$((i % 40))" && sync "$tmp/fs/file.$((i % 40))"; do
    echo $i >> "$tmp/safe"
    i=$((i + 1))
  done
}

mount_drive drive
loop_attach --direct-io=on "$volume"
mkfs.ext4 -q "$loop"
for ((round = 0; round < ${SHINGLE_KILL_ROUNDS:-1}; ++round)); do
  mount "$loop" "$tmp/fs"
  : > "$tmp/safe"
  write_files 2>/dev/null &
  writer=$!
  wait_for 60 grep -q '^7$' "$tmp/safe" || fail "the writer does not get on"
  kill -KILL "$mount_pid"
  wait_for 30 server_gone "$writer" || fail "a user hangs after the kill"
  timeout 60 umount "$tmp/fs" || timeout 60 umount -l "$tmp/fs"
  loop_detach "$loop"
  fusermount3 -u -z "$tmp/drive.d"

  "$SHINGLE" check "$tmp/drive" >/dev/null || fail "the volume is damaged"
  mount_drive drive
  loop_attach --direct-io=on "$volume"
  mount "$loop" "$tmp/fs"               # replays the journal
  last=$(tail -n 1 "$tmp/safe")
  # The file after the last safe one may have been half written over its old self.
  for ((i = last > 38 ? last - 38 : 0; i <= last; ++i)); do
    pattern 1 $i | cmp - "$tmp/fs/file.$((i % 40))" || fail "file $i of $last is not whole"
  done
  rm -f "$tmp/fs"/file.*
  umount "$tmp/fs"
  fsck.ext4 -fn "$loop" >"$tmp/check" || { cat "$tmp/check"; fail "ext4 is damaged"; }
done
loop_detach "$loop"
unmount "$tmp/drive.d"
