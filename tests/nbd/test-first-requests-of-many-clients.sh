#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The first thing that reaches a fresh server is a probe of small reads, as
# udev and blkid send them, from four connections at once.
. "$(dirname "$0")/../functions.sh"
requires_program nbdkit python3

new_drive drive
for _ in 1 2 3; do
  start_server nbd "$ZONED" "$tmp/drive"
  with_nbd "$uri" "${SHINGLE_TEST_CONNECTIONS:-40}" <<'PYTHON'
import sys
import threading
from client import *

barrier = threading.Barrier(4)
trouble = []


def probe(turns):
    for _ in range(turns):
        h = connect(sys.argv[1])
        barrier.wait()
        size = h.get_size()
        for at in (0, 512, 1024, 32256, 64 * K, size - 512, size - 4096, size - 64 * K, 4 * M - 512):
            if h.pread(512, at) != bytes(512):
                trouble.append("an empty disk is not empty at %d" % at)
        h.shutdown()


threads = [threading.Thread(target=probe, args=(int(sys.argv[2]) // 4,)) for _ in range(4)]
for t in threads:
    t.start()
for t in threads:
    t.join()
if trouble:
    sys.exit("FAILED: " + trouble[0])
PYTHON
  stop_server
done
checked drive
