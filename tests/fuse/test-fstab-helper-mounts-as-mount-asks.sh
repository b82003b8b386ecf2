#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# mount.fuse.shingle, called as mount(8) calls it, and by mount(8) itself with
# -t fuse.shingle where it can be installed for the test.
source "$(dirname "$0")/../functions.sh"
source "$(dirname "$0")/lib.sh"
requires_fuse
requires_root

PATH=$(dirname "$SHINGLE"):$PATH
helper=$top_srcdir/server/mount.fuse.shingle
new_file file
start_server memory memory 4M

"$helper" "$uri" "$tmp/file" -o rw,noauto,_netdev,x-systemd.automount,allow_other,pid_file="$tmp/pid",connections=2
equal "$(stat -c %s "$tmp/file")" 4194304 "size"
grep "$tmp/file fuse.shingle rw,.*allow_other" /proc/mounts >/dev/null || fail "mount options"
# shellcheck disable=SC2034
mount_pid=$(cat "$tmp/pid")
unmount "$tmp/file"

"$helper" "$uri" "$tmp/file" -v -o ro -t fuse.shingle
refused dd if=/dev/zero of="$tmp/file" bs=4k count=1 conv=notrunc
contains "$output" "Read-only file system"
umount "$tmp/file"
refused "$helper" "$uri" "$tmp/file" -o nonsense=1
refused "$helper" "$uri"

new_drive drive --size=128M --zone-size=4M --conventional=8
"$helper" "$tmp/drive" "$tmp/file" -o reclaim_low=30,cache
[ "$(stat -c %s "$tmp/file")" -gt 0 ] || fail "the volume does not appear"
umount "$tmp/file"
stop_server
