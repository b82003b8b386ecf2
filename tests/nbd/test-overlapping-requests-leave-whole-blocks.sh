#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Writes, trims and zeroes in flight at once over the same blocks, in all six
# ways in which two ranges can overlap: every block is wholly old or wholly
# one of them, a second read gives the same, and so does one after a restart.
. "$(dirname "$0")/../functions.sh"
requires_program nbdkit python3

new_drive drive
start_server nbd "$ZONED" "$tmp/drive"
with_nbd "$uri" "$tmp/seen" <<'PYTHON'
import sys
from client import *

h = [connect(sys.argv[1]) for _ in range(2)]
N = 16 * BLOCK
# (offset, length) in blocks of the two: equal, inside, around, left, right, touching.
shapes = [((4, 8), (4, 8)), ((4, 8), (6, 2)), ((6, 2), (4, 8)), ((2, 8), (6, 8)), ((6, 8), (2, 8)),
          ((0, 8), (8, 8))]
bases = [0, 4 * M - 8 * BLOCK, 40 * M]
seen = b""
for base in bases:
    for (ao, al), (bo, bl) in shapes:
        for other in ("write", "trim", "zero"):
            for turn in range(4):
                old, one, two = b"\x01", b"\x02", b"\x03"
                h[0].pwrite(old * N, base)
                a = h[0].aio_pwrite(nbd.Buffer.from_bytearray(bytearray(one * (al * BLOCK))),
                                    base + ao * BLOCK)
                if other == "write":
                    b = h[1].aio_pwrite(nbd.Buffer.from_bytearray(bytearray(two * (bl * BLOCK))),
                                        base + bo * BLOCK)
                elif other == "trim":
                    b, two = h[1].aio_trim(bl * BLOCK, base + bo * BLOCK), b"\0"
                else:
                    b, two = h[1].aio_zero(bl * BLOCK, base + bo * BLOCK), b"\0"
                while not h[0].aio_command_completed(a):
                    h[0].poll(-1)
                while not h[1].aio_command_completed(b):
                    h[1].poll(-1)
                got = h[0].pread(N, base)
                for i in range(16):
                    may = []
                    if ao <= i < ao + al:
                        may.append(one)
                    if bo <= i < bo + bl:
                        may.append(two)
                    block = got[i * BLOCK:(i + 1) * BLOCK]
                    if block not in [m * BLOCK for m in (may or [old])]:
                        sys.exit("FAILED: block %d of %r: a third content" % (i, (ao, al, bo, bl)))
                expect(h[1].pread(N, base), got, "the other connection's view")
    h[0].flush()
    seen += h[0].pread(N, base)
open(sys.argv[2], "wb").write(seen)
PYTHON
stop_server
checked drive
start_server nbd "$ZONED" "$tmp/drive"
with_nbd "$uri" "$tmp/seen" <<'PYTHON'
import sys
from client import *
h = connect(sys.argv[1])
N = 16 * BLOCK
expect(b"".join(h.pread(N, b) for b in (0, 4 * M - 8 * BLOCK, 40 * M)), open(sys.argv[2], "rb").read(),
       "content after the restart")
PYTHON
stop_server
