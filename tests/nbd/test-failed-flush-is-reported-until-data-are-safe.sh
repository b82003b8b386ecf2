#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# SYNCHRONIZE CACHE fails: the client's flush fails, so does a write with FUA
# that needed it, and a later flush does not say yes before the data are safe.
. "$(dirname "$0")/../functions.sh"
requires_program nbdkit python3

new_drive drive "${small_drive[@]}" --cache=tracked
"$SHINGLE" emu set "$tmp/drive" fault=flush:count=24:sense=04/3e/00 >/dev/null
start_server nbd "$ZONED" "$tmp/drive"
with_nbd "$uri" <<'PYTHON'
import sys
from client import *

h = connect(sys.argv[1])
expect(h.can_flush() and h.can_fua(), True, "flush and FUA are announced")
h.pwrite(stamp(7), 40 * K)
expect(fails(h.flush), "EIO", "flush while the drive cannot")
expect(fails(lambda: h.pwrite(stamp(8), 44 * K, nbd.CMD_FLAG_FUA)), "EIO",
       "FUA write that needs a flush while the drive cannot")
if h.pread(BLOCK, 44 * K) not in (stamp(8), bytes(BLOCK)):
    sys.exit("the block of the failed write is neither old nor new")
results = []
for _ in range(60):
    try:
        h.flush()
        results.append("done")
        break
    except nbd.Error as e:
        expect(e.errno, "EIO", "later flush")
        results.append(e.errno)
expect(results[-1], "done", "flush once the drive can again")
expect(h.pread(BLOCK, 40 * K), stamp(7), "block after the flushes")
h.pwrite(stamp(9), 48 * K, nbd.CMD_FLAG_FUA)
PYTHON
# Not closed: what the good flush and the good FUA write covered must be there after
# a power cut.
kill_server
"$SHINGLE" emu set "$tmp/drive" power_cut=1 >/dev/null
start_server nbd "$ZONED" "$tmp/drive"
with_nbd "$uri" <<'PYTHON'
import sys
from client import *
h = connect(sys.argv[1])
expect(h.pread(BLOCK, 40 * K), stamp(7), "flushed block after the power cut")
expect(h.pread(BLOCK, 48 * K), stamp(9), "block of the FUA write after the power cut")
PYTHON
stop_server
checked drive
