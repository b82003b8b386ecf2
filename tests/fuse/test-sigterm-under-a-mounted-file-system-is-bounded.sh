#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# SIGTERM while a file system on a loop device above our own file is mounted in
# the same mount namespace: the process does not wait for the file system, which
# would wait for it (reports.md, J7).  It flushes and ends; the file system sees
# errors and can be unmounted.
source "$(dirname "$0")/../functions.sh"
source "$(dirname "$0")/lib.sh"
requires_fuse
requires_loop
requires_program mkfs.ext4

new_drive drive --size=256M --zone-size=4M --conventional=16
new_folder fs

mount_drive drive
loop_attach "$volume"
mkfs.ext4 -q "$loop"
mount "$loop" "$tmp/fs"
pattern 2 1 > "$tmp/fs/synced"
sync "$tmp/fs/synced"
pattern 8 2 > "$tmp/fs/dirty"           # in the page cache, on its way
kill -TERM "$mount_pid"
wait_for 30 server_gone "$mount_pid" || fail "it waits for the file system above"
timeout 60 umount "$tmp/fs" || timeout 60 umount -l "$tmp/fs"
loop_detach "$loop"

"$SHINGLE" check "$tmp/drive" >/dev/null
mount_drive drive
loop_attach "$volume"
mount "$loop" "$tmp/fs"
pattern 2 1 | cmp - "$tmp/fs/synced"
umount "$tmp/fs"
loop_detach "$loop"
unmount "$tmp/drive.d"
