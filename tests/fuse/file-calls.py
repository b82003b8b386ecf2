# SPDX-License-Identifier: BSD-3-Clause
"""What system calls on the mounted file must answer: file-calls.py FILE MIB
The file's content is all zero at the start."""
import ctypes
import errno
import os
import sys

path, size = sys.argv[1], int(sys.argv[2]) << 20
libc = ctypes.CDLL(None, use_errno=True)
KEEP, PUNCH, ZERO = 1, 2, 16


def fails(code, call, *args):
    try:
        result = call(*args)
    except OSError as e:
        assert e.errno == code, (call, args, e)
        return
    raise AssertionError((call, args, "did not fail but gave", result))


def fallocate(fd, mode, offset, length):
    if libc.fallocate(fd, mode, ctypes.c_long(offset), ctypes.c_long(length)) == -1:
        raise OSError(ctypes.get_errno(), "fallocate")


fd = os.open(path, os.O_RDWR)
st = os.fstat(fd)
assert st.st_size == size and st.st_blksize >= 512
assert st.st_blocks <= size // 512

# The end.
assert os.pread(fd, 8192, size - 4096) == bytes(4096)
assert os.pread(fd, 4096, size) == b""
assert os.pread(fd, 4096, size + 12345) == b""
fails(errno.ENOSPC, os.pwrite, fd, b"x" * 4096, size)
fails(errno.ENOSPC, os.pwrite, fd, b"x", size + (1 << 40))
assert os.fstat(fd).st_size == size
if os.get_blocking(fd) and "--cache" not in sys.argv:
    os.pwrite(fd, b"y" * 4096, size - 4096)
    assert os.pread(fd, 4096, size - 4096) == b"y" * 4096

# The size stays.
for length in 0, size - 4096, size + 4096:
    fails(errno.EPERM, os.ftruncate, fd, length)
    fails(errno.EPERM, os.truncate, path, length)
os.ftruncate(fd, size)
os.close(os.open(path, os.O_RDWR | os.O_TRUNC))
assert os.fstat(fd).st_size == size
fails(errno.EPERM, os.chmod, path, 0o777)

# Holes of every alignment: zero exactly the range.
for mode in PUNCH | KEEP, ZERO, ZERO | KEEP:
    for offset, length in (0, 4096), (4096, 65536), (1, 4095), (511, 8193), (8191, 2), (0, 1 << 20):
        os.pwrite(fd, b"\x21" * (2 << 20), 0)
        fallocate(fd, mode, offset, length)
        data = os.pread(fd, 2 << 20, 0)
        while len(data) < 2 << 20:
            data += os.pread(fd, (2 << 20) - len(data), len(data))
        expected = b"\x21" * offset + bytes(length)
        expected += b"\x21" * ((2 << 20) - len(expected))
        assert data == expected, (mode, offset, length)
fallocate(fd, PUNCH | KEEP, size - 4096, 1 << 20)
assert os.pread(fd, 4096, size - 4096) == bytes(4096)
fails(errno.ENOSPC, fallocate, fd, ZERO, size - 4096, 8192)
fails(errno.EOPNOTSUPP, fallocate, fd, 0, 0, 4096)
fails(errno.EOPNOTSUPP, fallocate, fd, 0x20, 0, 4096)   # insert range

# Data and holes.
fallocate(fd, PUNCH | KEEP, 0, size)
where = 16 << 20
os.pwrite(fd, b"d" * (1 << 20), where)
data = os.lseek(fd, 0, os.SEEK_DATA)
assert data <= where
hole = os.lseek(fd, where, os.SEEK_HOLE)
assert where + (1 << 20) <= hole <= size
assert os.lseek(fd, where + 4096, os.SEEK_DATA) == where + 4096
fails(errno.ENXIO, os.lseek, fd, size, os.SEEK_DATA)
fails(errno.ENXIO, os.lseek, fd, size, os.SEEK_HOLE)

# Durable writes, and every way to ask for a flush.
sync = os.open(path, os.O_RDWR | os.O_DSYNC)
assert os.pwrite(sync, b"s" * 4096, 0) == 4096
os.fsync(fd)
os.fdatasync(fd)
os.close(sync)
assert os.pread(fd, 4096, 0) == b"s" * 4096
os.close(fd)
