#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Trims and zeroes of 4 GiB less a sector, at 0, at 4 GiB and at 2 TiB, and of
# a whole disk of 2049 GiB with 4096-byte blocks: exact, no 32-bit arithmetic
# anywhere, neighbours untouched, space given back.
. "$(dirname "$0")/../functions.sh"
requires_program nbdkit python3

new_drive drive --size=2056G --zone-size=256M --conventional=64 --format=4Kn
start_server nbd "$ZONED" "$tmp/drive"
with_nbd "$uri" <<'PYTHON'
import sys
from client import *

h = nbd.NBD()
h.add_meta_context("base:allocation")
h.set_strict_mode(0)
h.connect_uri(sys.argv[1])
size = h.get_size()
HUGE = 4 * G - 4096
places = [0, 4 * K, 2 * G, 4 * G - 8 * K, 4 * G - 4 * K, 4 * G, 8 * G - 4 * K, 2 * T - 4 * K, 2 * T,
          2 * T + 2 * G, size - 4 * K]


def fill():
    for at in places:
        h.pwrite(stamp(at + 1), at)


def left(call, at):
    call(HUGE, at)
    for p in places:
        gone = at <= p < at + HUGE
        expect(h.pread(BLOCK, p), bytes(BLOCK) if gone else stamp(p + 1),
               "block at %d after %d bytes at %d" % (p, HUGE, at))


for call in (h.trim, h.zero):
    for at in (0, 4 * G - 4 * K, 2 * T - 2 * G):
        fill()
        left(call, at)
# The unaligned length that kernels send.
fill()
h.trim(4 * G - 512, 0)
expect(h.pread(BLOCK, 4 * G), stamp(4 * G + 1), "block behind the trim")
expect(h.pread(BLOCK, 0), bytes(BLOCK), "first block of the trim")
# The whole disk, in the largest pieces that fit a request.
fill()
at = 0
while at < size:
    n = min(HUGE, size - at)
    h.trim(n, at)
    at += n
for p in places:
    expect(h.pread(BLOCK, p), bytes(BLOCK), "block at %d after a trim of all" % p)
expect(extents(h, size, 0), [(size, 3)], "extents of an empty disk")
expect(fails(h.trim, 4096, size), "EINVAL", "trim behind the end")
expect(fails(h.zero, 4096, size), "ENOSPC", "zero behind the end")
h.flush()
PYTHON
stop_server
checked drive
contains "$("$SHINGLE" info "$tmp/drive" --json)" '"chunks_mapped": *0[,}]'
