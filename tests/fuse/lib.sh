# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Sourced by the tests of `shingle mount` after functions.sh.

requires_fuse ()
{
  [ -w /dev/fuse ] || skip "needs /dev/fuse"
  requires_program fusermount3 mountpoint
}

# A mount point of either kind, unmounted at exit.
new_folder () { mkdir "$tmp/$1"; cleanup unmount_quietly "$tmp/$1"; }
new_file () { touch "$tmp/$1"; cleanup unmount_quietly "$tmp/$1"; }

# unmount_quietly MOUNTPOINT: whatever is mounted there, and what lies above it; as a
# last resort it is left to the kernel to take away when its last user has gone.
unmount_quietly ()
{
  local i
  for ((i = 0; i < 5; ++i)); do
    grep -q " $1 " /proc/self/mountinfo || return 0
    timeout 60 umount "$1" 2>/dev/null || fusermount3 -u -z "$1" 2>/dev/null ||
      umount -l "$1" 2>/dev/null
  done
}

# shingle_mount ARGUMENT...: in the background; its pid is left in $mount_pid.
shingle_mount ()
{
  timeout 60 "$SHINGLE" mount --pid-file="$tmp/mount.pid" "$@"
  mount_pid=$(cat "$tmp/mount.pid")
}

# unmount MOUNTPOINT: and waits until its process has ended.
unmount ()
{
  wait_for 60 fusermount3 -u "$1" || fail "cannot unmount $1: $(fusermount3 -u "$1" 2>&1)"
  wait_for 30 server_gone "$mount_pid" || fail "the process of $1 does not end"
}

# A pattern that names each of its 4 KiB blocks: pattern BYTES-IN-MIB SEED > file
pattern ()
{
  python3 - "$1" "$2" <<'PYTHON'
import sys
out, mib, seed = sys.stdout.buffer, int(sys.argv[1]), int(sys.argv[2])
for i in range(mib * 256):
    out.write((b"%08x:%08x " % (seed, i)) * 227 + b"." * 10)
PYTHON
}

# mount_drive NAME ARGUMENT...: the emulated drive $tmp/NAME in the folder
# $tmp/NAME.d; its volume's file is $volume, its control socket $control.
mount_drive ()
{
  local name=$1
  shift
  [ -d "$tmp/$name.d" ] || new_folder "$name.d"
  control=$tmp/$name.control
  shingle_mount --control="$control" "$tmp/$name" "$tmp/$name.d" "$@"
  volume=$(find "$tmp/$name.d" -maxdepth 1 -type f)
  [ -f "$volume" ] || fail "no volume in $tmp/$name.d"
}

# loop_attach ARGUMENT... FILE: the loop device is $loop.
declare -A loop_files
loop_attach ()
{
  loop=$(losetup --find --show "$@") || fail "losetup $*"
  loop_files[$loop]=${*: -1}
  cleanup loop_let_go "$loop"
}

# Loop devices are the whole machine's: one that was detached may be another
# test's by now, so only a device that still stands on our file is touched.  (Of
# a mount that is gone the kernel tells but the file's name.)
loop_is_ours ()
{
  local file
  file=$(losetup -n -O BACK-FILE "$1" 2>/dev/null) &&
    [ "${file##*/}" = "${loop_files[$1]##*/}" ]
}
loop_let_go () { ! loop_is_ours "$1" || timeout 60 losetup -d "$1"; }

# loop_detach DEVICE: and waits until it is free.
loop_detach ()
{
  loop_let_go "$1" || fail "cannot detach $1"
  wait_for 180 loop_is_free "$1" || fail "$1 is still in use"
}
loop_is_free () { ! loop_is_ours "$1"; }
requires_loop ()
{
  requires_root
  [ -c /dev/loop-control ] || skip "needs /dev/loop-control"
  requires_program losetup
}
