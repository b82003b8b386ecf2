#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# What is announced fits the drive, and what a careless client sends anyway
# (512 bytes to a drive of 4096-byte blocks, single bytes) is right all the
# same, beside concurrent neighbours.
. "$(dirname "$0")/../functions.sh"
requires_program nbdkit python3 fio

cd "$tmp"
for format in 512e 512n 4Kn; do
  new_drive "$format" "${small_drive[@]}" --format=$format
  start_server "$format" "$ZONED" "$tmp/$format"
  info=$(nbdinfo "$uri")
  contains "$info" "block_size_minimum: 1\$"
  contains "$info" "block_size_preferred: 4096"
  contains "$info" "block_size_maximum: 33554432"
  with_nbd "$uri" <<'PYTHON'
import sys
from client import *

h = connect(sys.argv[1])
old = pattern(3, 64 * K)
for base in (0, 4 * M - 32 * K, 32 * M):
    h.pwrite(old, base)
    wanted = bytearray(old)
    for offset, length in ((0, 512), (512, 512), (3, 7), (4095, 2), (8191, 1), (12288, 1536), (20000, 20000),
                           (65535, 1)):
        data = pattern(offset + 1, length)
        h.pwrite(data, base + offset)
        wanted[offset:offset + length] = data
        expect(h.pread(length, base + offset), data, "%d bytes at %d" % (length, base + offset))
    expect(h.pread(64 * K, base), bytes(wanted), "the whole at %d" % base)
    # Reads of odd ranges.
    for offset, length in ((1, 1), (511, 2), (513, 8191), (4097, 40001)):
        expect(h.pread(length, base + offset), bytes(wanted[offset:offset + length]), "odd read")
size = h.get_size()
expect(size % (4 * M), 0, "size is whole chunks")
PYTHON
  # 512-byte writes in flight at once, eight to a block.
  timeout 60 fio --ioengine=nbd --uri="$uri" --name=small --rw=randwrite --bs=512 --size=1M \
      --offset=48M --iodepth=8 --verify=crc32c --verify_fatal=1 >"$tmp/fio.log" ||
    { cat "$tmp/fio.log" >&2; exit 1; }
  stop_server
  checked "$format"
done
