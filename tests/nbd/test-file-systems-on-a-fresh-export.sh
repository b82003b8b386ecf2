#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# mkfs.ext4, mkfs.xfs, mkfs.btrfs, a partition table and blkid on an empty
# export, through nbdfuse: made, checked, recognised after a restart.
. "$(dirname "$0")/../functions.sh"
requires_program nbdkit nbdfuse fusermount3 mkfs.ext4 mkfs.xfs mkfs.btrfs sgdisk blkid
[ -w /dev/fuse ] || skip 'no /dev/fuse here'

"$SHINGLE" emu create "$tmp/drive" --size=768M --zone-size=4M --conventional=20 >/dev/null
mkdir "$tmp/mnt"
unmount () { fusermount3 -u "$tmp/mnt" 2>/dev/null || true; }
cleanup unmount
mounted ()
{
  start_server nbd "$ZONED" "$tmp/drive"
  nbdfuse "$tmp/mnt" "$uri" &
  fuse_pid=$!
  wait_for 20 test -f "$tmp/mnt/nbd" || fail 'nbdfuse does not start'
  disk=$tmp/mnt/nbd
}
unmounted ()
{
  fusermount3 -u "$tmp/mnt"
  wait "$fuse_pid"
  stop_server
  checked drive
}

for kind in ext4 xfs btrfs gpt; do
  "$SHINGLE" format "$tmp/drive" --force >/dev/null
  mounted
  case $kind in
    ext4) mkfs.ext4 -q -F "$disk"; e2fsck -fn "$disk" >/dev/null 2>&1 ;;
    xfs) mkfs.xfs -q -f "$disk" ;;
    btrfs) make_fs btrfs -q -f "$disk" ;;
    gpt) sgdisk --new=1:2048:+64M --new=2:0:0 "$disk" >/dev/null ;;
  esac
  unmounted
  mounted
  if [ $kind = gpt ]; then
    contains "$(blkid -p "$disk")" 'PTTYPE="gpt"'
    contains "$(sgdisk --verify "$disk")" 'No problems found'
  else
    contains "$(blkid -p "$disk")" "TYPE=\"$kind\""
  fi
  case $kind in
    ext4) e2fsck -fn "$disk" >/dev/null 2>&1 ;;
    xfs) xfs_repair -n -f "$disk" >/dev/null 2>&1 ;;
    btrfs) btrfs check --readonly "$disk" >/dev/null 2>&1 ;;
  esac
  unmounted
done
