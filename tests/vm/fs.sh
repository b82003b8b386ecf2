# SPDX-License-Identifier: BSD-3-Clause
# File systems on a volume's block device, and trees of files with known sums.

# fs_make FS DEVICE, fs_check FS DEVICE (changes nothing), fs_mount FS DEVICE DIR
fs_make () {
  case $1 in
    ext4) mkfs.ext4 -F -q "$2" ;;
    xfs) mkfs.xfs -f -q "$2" ;;
    btrfs) modprobe btrfs; mkfs.btrfs -f -q "$2" ;;
    f2fs) mkfs.f2fs -f -q "$2" ;;
  esac
}
fs_check () {
  local status=0
  case $1 in
    ext4) e2fsck -fn "$2" ;;
    xfs) xfs_repair -n "$2" ;;
    btrfs) btrfs check --readonly "$2" ;;
    f2fs) fsck.f2fs --dry-run "$2" ;;
  esac > "/tmp/fsck.$1" 2>&1 || status=$?
  [ $status = 0 ] || { tail -n 30 "/tmp/fsck.$1"; fail "$1 is damaged"; }
}
fs_mount () {
  mkdir -p "$3"
  modprobe "$1"
  mount -t "$1" "$2" "$3"
}

# tree_make DIR FILES BIG_MIB: small files (0 to 8 KiB) in folders of 100, and
# a large one.  The same contents each time.
tree_make () {
  python3 - "$@" <<'END'
import os, random, sys
where, files, big = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
dice = random.Random(files)
for i in range(files):
    folder = '%s/%d' % (where, i // 100)
    if i % 100 == 0:
        os.makedirs(folder)
    with open('%s/file-%d' % (folder, i), 'wb') as f:
        f.write(dice.randbytes(dice.randrange(8192)))
with open(where + '/large', 'wb') as f:
    for i in range(big):
        f.write(dice.randbytes(1 << 20))
END
}
# tree_copy FROM TO, tree_sums DIR: one process, few system calls a file, which are
# what takes the time on these machines.
tree_copy () {
  python3 - "$@" <<'END'
import os, sys
source, target = sys.argv[1:]
for folder, folders, files in os.walk(source):
    there = target + folder[len(source):]
    os.makedirs(there, exist_ok=True)
    for name in files:
        into = os.open(there + '/' + name, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        of = os.open(folder + '/' + name, os.O_RDONLY)
        while data := os.read(of, 1 << 20):
            done = 0
            while done < len(data):
                done += os.write(into, data[done:])
        os.close(of)
        os.close(into)
END
}
# The kernel is told of many files before the first is read, so that it can read them in
# large pieces.
tree_sums () {
  python3 - "$1" <<'END'
import hashlib, os, sys
os.chdir(sys.argv[1])
names = sorted(folder + '/' + name for folder, _, files in os.walk('.') for name in files)
for first in range(0, len(names), 500):
    batch = [(name, os.open(name, os.O_RDONLY)) for name in names[first:first + 500]]
    for name, fd in batch:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_WILLNEED)
    for name, fd in batch:
        sum = hashlib.md5()
        while data := os.read(fd, 1 << 20):
            sum.update(data)
        os.close(fd)
        print(sum.hexdigest(), name)
END
}

# tree_same LIST DIR: DIR holds exactly the files and contents of LIST.
tree_same () {
  tree_sums "$2" > /tmp/sums.now
  cmp "$1" /tmp/sums.now || { diff "$1" /tmp/sums.now | head -n 20; fail "the files of $2 differ"; }
}
