#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Through a URI, the data of a large request goes between the socket and the kernel
# through a pipe, that of a write only if a pipe may hold all of it.  Every byte is
# where it belongs after requests of all sizes, of one user and of several at once; a
# request that is refused or goes past the end leaves nothing behind for the next.
source "$(dirname "$0")/../functions.sh"
source "$(dirname "$0")/lib.sh"
requires_fuse

new_file file
new_folder both

# mixed_requests THREADS SEED: each has its own part of the file, and a picture
# of it in memory that every read is held against.
mixed_requests ()
{
  timeout 100 python3 - "$tmp/file" "$1" "$2" <<'PYTHON'
import mmap, os, random, sys, threading
name, threads, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
KIB, MIB = 1024, 1024 * 1024
sizes = [512, 4 * KIB, 64 * KIB, 128 * KIB, 132 * KIB, 256 * KIB, 777 * 512,
         MIB - 4 * KIB, MIB, MIB, MIB, 3 * MIB]
end = os.stat(name).st_size
bad = []

def requests(number):
    dice = random.Random(seed * 100 + number)
    fd = os.open(name, os.O_RDWR | os.O_DIRECT)
    share = end // threads
    first = number * share
    picture = bytearray(os.pread(fd, share, first))
    buf = mmap.mmap(-1, 3 * MIB)
    for turn in range(120):
        size = min(dice.choice(sizes), share)
        at = dice.randrange(0, share - size + 1, 512)
        view = memoryview(buf)[:size]
        if dice.random() < 0.5:
            view[:] = dice.randbytes(size)
            done = 0
            while done < size:
                done += os.pwrite(fd, view[done:], first + at + done)
            picture[at:at + size] = view
        else:
            done = 0
            while done < size:
                done += os.preadv(fd, [view[done:]], first + at + done)
            if view != picture[at:at + size]:
                bad.append(f"thread {number}, turn {turn}: {size} bytes at {first + at}")
        if dice.random() < 0.05:
            os.fsync(fd)
    if os.pread(fd, share, first) != picture:
        bad.append(f"thread {number}: at the end")
    os.close(fd)

users = [threading.Thread(target=requests, args=(i,)) for i in range(threads)]
for user in users:
    user.start()
for user in users:
    user.join()
sys.exit("wrong data: " + "; ".join(bad) if bad else 0)
PYTHON
}

pipes () { find "/proc/$mount_pid/fd" -lname 'pipe:*' | wc -l; }

# -- one user, and several -------------------------------------------------------------
several_users ()
{
  local before
  start_server ram memory 16M
  shingle_mount "$uri" "$tmp/file"
  before=$(pipes)
  dd if=/dev/zero of="$tmp/file" bs=1M count=16 oflag=direct conv=notrunc status=none
  case $1 in
    large) [ "$(pipes)" -gt "$before" ] || fail "no pipe was made for writes" ;;
    small) [ "$(pipes)" -eq "$before" ] || fail "a pipe was made for writes" ;;
  esac
  dd if="$tmp/file" of=/dev/null bs=1M iflag=direct status=none
  [ "$(pipes)" -gt "$before" ] || fail "no pipe was made for reads"
  mixed_requests 1 1
  mixed_requests 3 2
  unmount "$tmp/file"
  stop_server
}

# -- what a write leaves when it is refused, or goes past the end ----------------------------
refused_writes ()
{
  start_server odd --filter=protect memory 5767168 protect=1048576-1052671
  shingle_mount "$uri" "$tmp/file"
  timeout 60 python3 - "$tmp/file" <<'PYTHON'
import errno, mmap, os, sys
MIB = 1024 * 1024
fd = os.open(sys.argv[1], os.O_RDWR | os.O_DIRECT)
end = os.fstat(fd).st_size

def pages(byte, count):
    buf = mmap.mmap(-1, count)
    buf.write(bytes([byte]) * count)
    return buf

def write(byte, count, at):
    try:
        return os.pwrite(fd, pages(byte, count), at)
    except OSError as e:
        return -e.errno

def read(count, at):
    buf = mmap.mmap(-1, count)
    return buf[:os.preadv(fd, [buf], at)]

def same(what, have, want):
    if have != want:
        sys.exit(f"{what}: {have!r:.60} instead of {want!r:.60}")

for turn in range(3):
    same("a first write", write(1, MIB, 0), MIB)
    same("a refused write", write(2, MIB, MIB), -errno.EPERM)
    same("the next one", write(3, MIB, 2 * MIB), MIB)
    same("a write past the end", write(4, MIB, end - MIB // 2), MIB // 2)
    same("one behind the end", write(5, MIB, end + MIB), -errno.ENOSPC)
    same("a small one after it", write(6, 4096, 4 * MIB), 4096)
    same("what the first wrote", read(MIB, 0), b"\x01" * MIB)
    same("what the third wrote", read(MIB, 2 * MIB), b"\x03" * MIB)
    same("what the last wrote", read(4096, 4 * MIB), b"\x06" * 4096)
    same("a read past the end", read(MIB, end - MIB // 2), b"\x04" * (MIB // 2))
PYTHON
  unmount "$tmp/file"
  stop_server
}

# -- a folder with two kinds of files --------------------------------------------------------
# What a thread took to its pipe, as the last write was to the export, goes to a drive.
two_kinds ()
{
  start_server two memory 16M
  shingle_mount --format=true emu:ram:size=256M,zone-size=4M,conventional=12 "$uri" "$tmp/both"
  timeout 60 python3 - "$tmp/both" <<'PYTHON'
import mmap, os, sys
MIB = 1024 * 1024
names = [e.path for e in os.scandir(sys.argv[1]) if e.is_file()]
if len(names) != 2:
    sys.exit(f"not two files: {names}")
fds = [os.open(name, os.O_RDWR | os.O_DIRECT) for name in names]
buf = mmap.mmap(-1, MIB)
for turn in range(16):
    for i in (0, 1):
        buf[:] = bytes([16 * i + turn + 1]) * MIB
        if os.pwrite(fds[i], buf, turn * MIB) != MIB:
            sys.exit(f"turn {turn}: a short write")
for turn in range(16):
    for i in (0, 1):
        os.preadv(fds[i], [buf], turn * MIB)
        if buf[:] != bytes([16 * i + turn + 1]) * MIB:
            sys.exit(f"turn {turn}: wrong data in {names[i]}")
PYTHON
  unmount "$tmp/both"
  stop_server
}

# -- a server that goes in the middle ---------------------------------------------------
# Its end of the socket is gone while we write to it: an error, and the mount lives.
server_goes ()
{
  local writer
  start_server gone memory 64M
  shingle_mount "$uri" "$tmp/file"
  while dd if=/dev/zero of="$tmp/file" bs=1M count=64 oflag=direct conv=notrunc status=none
  do :; done 2>"$tmp/dd" &
  writer=$!
  sleep 0.5
  kill_server
  wait "$writer"
  grep -q 'Input/output error' "$tmp/dd" || fail "no error: $(cat "$tmp/dd")"
  stat -c %s "$tmp/file" >/dev/null || fail "the mount has gone with its server"
  unmount "$tmp/file"
}

# -- users who may have a pipe for all of a write, and those who may not ---------------------
limit=/proc/sys/fs/pipe-max-size
limit_before=$(cat $limit)
put_limit_back () { echo "$limit_before" >$limit; }

everything () { several_users "$1"; refused_writes; two_kinds; server_goes; }

if ! may_have_large_pipe && { echo 2097152 >$limit; } 2>/dev/null; then
  cleanup put_limit_back
fi
if may_have_large_pipe; then
  everything large
  { echo 1048576 >$limit; } 2>/dev/null && cleanup put_limit_back
else
  echo "not tested: pipes of 2 MiB, which nobody may have here"
fi
# Root may have what it wants, unless it lacks the capability.
printf '#!/bin/sh\nexec setpriv --bounding-set=-sys_resource "%s" "$@"\n' "$SHINGLE" >"$tmp/plain"
chmod +x "$tmp/plain"
SHINGLE=$tmp/plain
everything small
