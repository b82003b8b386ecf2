#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Unaligned edges: zero clears exactly its range, trim nothing outside it and
# every whole block inside it.
. "$(dirname "$0")/../functions.sh"
requires_program nbdkit python3

new_drive drive
start_server nbd "$ZONED" "$tmp/drive"
with_nbd "$uri" <<'PYTHON'
import sys
from client import *

h = connect(sys.argv[1])
SPAN = 112 * K
ranges = [(0, 100000), (1, 1), (511, 1), (4095, 2), (4095, 4097), (1, 4095), (1, 4096),
          (511, 8192), (4096, 4096), (4097, 4095), (8191, 65537), (12345, 54321)]
# In a fresh chunk, across a chunk's border, in one written in order.
for base in (0, 4 * M - 16 * K, 64 * M):
    for offset, length in ranges:
        for what in ("zero", "zero_no_hole", "trim"):
            old = bytes([0x21]) * SPAN
            h.pwrite(old, base)
            wanted = bytearray(old)
            if what == "trim":
                h.trim(length, base + offset)
                first = (offset + BLOCK - 1) // BLOCK * BLOCK
                last = (offset + length) // BLOCK * BLOCK
                if first < last:
                    wanted[first:last] = bytes(last - first)
                got = h.pread(SPAN, base)
                # Edges inside the range may be zero or kept.
                for i in list(range(offset, min(first, offset + length))) + \
                        list(range(max(last, offset), offset + length)):
                    if got[i] == 0:
                        wanted[i] = 0
            else:
                h.zero(length, base + offset,
                       nbd.CMD_FLAG_NO_HOLE if what == "zero_no_hole" else 0)
                wanted[offset:offset + length] = bytes(length)
                got = h.pread(SPAN, base)
            expect(got, bytes(wanted), "%s(%d, %d+%d)" % (what, length, base, offset))
h.flush()
# FAST_ZERO is honest: fast where it says so, refused where an edge must be written.
h.pwrite(b"\x21" * (64 * K), 0)
h.zero(32 * K, 0, nbd.CMD_FLAG_FAST_ZERO)
expect(h.pread(64 * K, 0), bytes(32 * K) + b"\x21" * (32 * K), "fast zero")
try:
    h.zero(1000, 40 * K + 1, nbd.CMD_FLAG_FAST_ZERO)
    expect(h.pread(4 * K, 40 * K), b"\x21" + bytes(1000) + b"\x21" * 3095, "fast zero of an edge")
except nbd.Error as e:
    expect(e.errno, "ENOTSUP", "refusal of a slow zero")
    expect(h.pread(4 * K, 40 * K), b"\x21" * (4 * K), "content after the refusal")
PYTHON
stop_server
checked drive
