#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# ext4, xfs and btrfs on a loop device above the mounted file, with and without
# the loop's direct I/O: files written, removed, trimmed, and a clean check
# (reports.md, J1).  SHINGLE_FS_SECONDS: length of the load for each (default 1).
source "$(dirname "$0")/../functions.sh"
source "$(dirname "$0")/lib.sh"
requires_fuse
requires_loop
requires_program mkfs.ext4 mkfs.xfs mkfs.btrfs fstrim

new_drive drive --size=1G --zone-size=16M --conventional=20
new_folder fs

load ()
{
  local end=$((SECONDS + ${SHINGLE_FS_SECONDS:-1})) i=0
  while [ $SECONDS -lt $end ]; do
    mkdir -p "$tmp/fs/$((i % 5))"
    pattern 2 $i > "$tmp/fs/$((i % 5))/$((i % 7))"
    [ $((i % 3)) != 0 ] || rm -f "$tmp/fs/$((i * 3 % 5))/$((i * 5 % 7))"
    [ $((i % 4)) != 0 ] || sync -f "$tmp/fs"
    i=$((i + 1))
  done
  pattern 4 77 > "$tmp/fs/last"
}

check_fs ()
{
  case $1 in
    ext4) fsck.ext4 -fn "$2" ;;
    xfs) xfs_repair -n "$2" ;;
    btrfs) btrfs check --readonly "$2" ;;
  esac
}

pattern 4 77 > "$tmp/expected"
for direct in on off; do
  for type in ext4 xfs btrfs; do
    mount_drive drive
    loop_attach --direct-io=$direct "$volume"
    wipefs -qa "$loop"
    make_fs "$type" -q "$loop"
    mount "$loop" "$tmp/fs"
    load
    timeout 60 fstrim "$tmp/fs"
    timeout 60 umount "$tmp/fs"
    loop_detach "$loop"
    unmount "$tmp/drive.d"

    # After another mount all is there.
    mount_drive drive
    loop_attach --direct-io=$direct "$volume"
    timeout 60 mount "$loop" "$tmp/fs"
    cmp "$tmp/expected" "$tmp/fs/last"
    timeout 60 umount "$tmp/fs"
    check_fs $type "$loop" >"$tmp/check" 2>&1 || { cat "$tmp/check"; fail "$type: damaged"; }
    loop_detach "$loop"
    unmount "$tmp/drive.d"
  done
done
"$SHINGLE" check "$tmp/drive" >/dev/null
