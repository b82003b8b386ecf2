#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# fio with verification on the mounted file; then ext4, xfs and btrfs on a loop
# device above it under stress-ng's file tests and a verifying fio, with kill -9 of
# the mounting process in the middle: after a restart the volume is clean, the file
# system recovers and checks clean, and every file that was synced is there whole.
#
#   SHINGLE_FS_SECONDS=N   length of the load for each of them (default 4)
#   SHINGLE_FS_TYPES=...   which ones (default: raw ext4 xfs btrfs)
source "$(dirname "$0")/../functions.sh"
source "$(dirname "$0")/lib.sh"
requires_fuse
requires_loop
requires_program mkfs.ext4 mkfs.xfs mkfs.btrfs fio stress-ng

budget=${SHINGLE_FS_SECONDS:-4}
half=$(((budget + 1) / 2))
export TMPDIR=$tmp
cd "$tmp"
new_folder fs

# -- what runs on the file system --------------------------------------------------

content () { yes "file $1 of round $round" 2>/dev/null | head -c 300000 || true; }

# Writes files, syncs each, and then notes it outside as safe; the last 60 stay.
write_files ()
{
  local i
  for ((i = 0; ; ++i)); do
    content $i >"$tmp/fs/safe.$i" && [ "$(stat -c %s "$tmp/fs/safe.$i")" = 300000 ] &&
      sync "$tmp/fs/safe.$i" || return 0
    echo $i >>"$tmp/safe"
    [ $i -lt 60 ] || rm -f "$tmp/fs/safe.$((i - 60))"
  done
}

# files_are_whole: as many of them as the writer cannot have been removing.
files_are_whole ()
{
  local last i
  last=$(tail -n 1 "$tmp/safe")
  for ((i = last > 58 ? last - 58 : 0; i <= last; ++i)); do
    content $i | cmp - "$tmp/fs/safe.$i" || fail "$type: file $i of $last is not whole"
  done
}

# In a group of its own: after errors some of its processes outlive the first.
stress ()
{
  mkdir -p "$tmp/fs/stress"
  exec setsid stress-ng --temp-path "$tmp/fs/stress" --timeout "$1" --hdd 1 --hdd-bytes 24M \
    --iomix 1 --iomix-bytes 16M --dentry 1 --dentries 200 --rename 1 --fallocate 1 \
    --fallocate-bytes 16M --link 1 >"$tmp/stress.log" 2>&1
}

# In place of the shell that calls it, so that a kill of the job ends it.
verify ()
{
  exec fio --name=verify --filename="$1" --size="$2" --rw=randrw --bs=4k-64k --direct=1 \
    --ioengine=psync --verify=crc32c --verify_fatal=1 --verify_state_save=0 \
    --verify_backlog=256 --time_based --runtime="$3" --randrepeat=0 \
    --thread >"$tmp/fio.log" 2>&1
}

stresser=''
stop_stress ()
{
  [ -n "$stresser" ] || return 0
  kill -KILL -- "-$stresser" 2>/dev/null || true
  wait "$stresser" 2>/dev/null || true
  stresser=''
}
# Bash lists the jobs that it has not waited for.
# shellcheck disable=SC2046
stop_load () { stop_stress; kill -KILL $(jobs -p) 2>/dev/null; }
cleanup stop_load

# load SECONDS: all three of them, in the background.
load ()
{
  : >"$tmp/safe"
  started=$SECONDS
  round=$((round + 1))
  write_files 2>/dev/null &
  writer=$!
  stress "$1" &
  stresser=$!
  verify "$tmp/fs/verify" 24M "$1" &
  verifier=$!
}
get_on () { wait_for 120 grep -q '^3$' "$tmp/safe" || fail "$type: the writer does not get on"; }

# -- up and down --------------------------------------------------------------------

up ()
{
  mount_drive drive
  loop_attach --direct-io=on "$volume"
}
down ()
{
  loop_detach "$loop"
  unmount "$tmp/drive.d"
}

check_fs ()
{
  case $type in
    ext4) fsck.ext4 -fn "$loop" ;;
    xfs) xfs_repair -n "$loop" ;;
    btrfs) btrfs check --readonly "$loop" ;;
  esac >"$tmp/check" 2>&1 || { cat "$tmp/check" >&2; fail "$type: damaged $1"; }
}

kill_in_the_middle ()
{
  kill -KILL "$mount_pid"
  wait "$verifier" 2>/dev/null && fail "$type: fio saw no error after the kill"
  stop_stress                   # some of it spins on errors
  wait_for 180 server_gone "$writer" || fail "$type: a user hangs after the kill"
  wait "$writer" 2>/dev/null || true
  timeout 180 umount "$tmp/fs" || timeout 60 umount -l "$tmp/fs"
  loop_detach "$loop"
  fusermount3 -u -z "$tmp/drive.d"
  "$SHINGLE" check "$tmp/drive" >"$tmp/check" || { cat "$tmp/check" >&2; fail "the volume is damaged"; }
}

round=0
for type in ${SHINGLE_FS_TYPES:-raw ext4 xfs btrfs}; do
  new_drive drive --size=1G --zone-size=16M --conventional=20 --force
  if [ "$type" = raw ]; then
    mount_drive drive
    (verify "$volume" 256M "$budget") || { cat "$tmp/fio.log" >&2; fail "fio's verification"; }
    unmount "$tmp/drive.d"
    checked drive
    continue
  fi

  up
  make_fs "$type" -q "$loop"
  mount "$loop" "$tmp/fs"
  load $((half + 600))          # ended by the kill
  get_on
  while [ $SECONDS -lt $((started + half)) ]; do sleep 0.2; done
  kill_in_the_middle

  up
  mount "$loop" "$tmp/fs"
  files_are_whole
  umount "$tmp/fs"
  check_fs 'after the kill'

  mount "$loop" "$tmp/fs"
  rm -rf "$tmp/fs"/*
  load "$half"
  wait "$verifier" || { cat "$tmp/fio.log" >&2; fail "$type: fio's verification"; }
  get_on
  wait "$stresser" || { cat "$tmp/stress.log" >&2; fail "$type: stress-ng"; }
  stresser=''
  kill "$writer"
  wait "$writer" 2>/dev/null || true
  files_are_whole
  umount "$tmp/fs"
  check_fs 'after the load'
  down
  checked drive
done
