#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Readers race with a trim of whole chunks (which resets their zones): each
# block is data or zeroes, and zeroes on every connection once the trim is
# done.
. "$(dirname "$0")/../functions.sh"
requires_program nbdkit python3

new_drive drive
start_server nbd "$ZONED" "$tmp/drive"
with_nbd "$uri" <<'PYTHON'
import sys
import threading
from client import *

uri = sys.argv[1]
main = connect(uri)
others = [connect(uri) for _ in range(3)]
SPAN = 8 * M
data = b"\x5a" * SPAN
stop = threading.Event()
trouble = []


def reader(h):
    while not stop.is_set():
        got = h.pread(M, 3 * M + M // 2)
        for i in range(0, M, BLOCK):
            if got[i:i + BLOCK] not in (b"\x5a" * BLOCK, bytes(BLOCK)):
                trouble.append("a third content")
                return


threads = [threading.Thread(target=reader, args=(h,)) for h in others]
for t in threads:
    t.start()
for turn in range(12):
    for at in range(0, SPAN, M):
        main.pwrite(data[at:at + M], at)
    main.trim(SPAN, 0)
    check = connect(uri)
    for h in (main, check):
        expect(h.pread(SPAN, 0), bytes(SPAN), "content after the trim")
    check.shutdown()
    if turn % 3 == 0:
        main.flush()
stop.set()
for t in threads:
    t.join()
if trouble:
    sys.exit("FAILED: " + trouble[0])
PYTHON
stop_server
checked drive
