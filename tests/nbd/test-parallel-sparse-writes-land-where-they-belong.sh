#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Blocks scattered over chunks, 2 TiB and 16 TiB, written from many
# connections at once, sub-block neighbours among them: the whole picture is
# right, and extents tell where data are.
. "$(dirname "$0")/../functions.sh"
requires_program nbdkit python3

new_drive drive --size=17T --zone-size=256M --conventional=64
start_server nbd "$ZONED" "$tmp/drive"
with_nbd "$uri" <<'PYTHON'
import sys
import threading
from client import *

uri = sys.argv[1]
probe = nbd.NBD()
probe.set_strict_mode(0)
probe.add_meta_context("base:allocation")
probe.connect_uri(uri)
size = probe.get_size()
ZONE = 256 * M
places = sorted({40 * K, 400 * K, 4 * M} |
                {z * ZONE + o for z in (1, 2, 7, 8191, 8192, 8193, 65535, 65536) if z * ZONE < size
                 for o in (-4 * K, 0, 4 * K)} | {size - 4 * K})
trouble = []


def work(number):
    try:
        h = connect(uri)
        for p in places[number::8]:
            h.pwrite(stamp(p + 1), p)
        h.flush()
    except nbd.Error as e:
        trouble.append(str(e))


threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
for t in threads:
    t.start()
for t in threads:
    t.join()
if trouble:
    sys.exit("FAILED: " + trouble[0])
for p in places:
    expect(probe.pread(BLOCK, p), stamp(p + 1), "block at %d" % p)
    expect(probe.pread(BLOCK, (p + 16 * K) % size), bytes(BLOCK), "unwritten block behind %d" % p)
data = [(l, f) for l, f in extents(probe, size, 0) if not f & 1]
expect(sum(l for l, f in data), len(places) * BLOCK, "bytes that hold data")

# Neighbours inside one block, written byte by byte by different clients.
for t in range(4):
    h = [connect(uri) for _ in range(4)]
    cookies = []
    for i in range(64):
        c = h[i % 4]
        cookies.append((c, c.aio_pwrite(nbd.Buffer.from_bytearray(bytearray([i + 1] * 64)), 100 * M + i * 64)))
    for c, cookie in cookies:
        while not c.aio_command_completed(cookie):
            c.poll(-1)
    expect(probe.pread(BLOCK, 100 * M), b"".join(bytes([i + 1] * 64) for i in range(64)), "64 neighbours")
    probe.zero(BLOCK, 100 * M)
PYTHON
stop_server
checked drive
