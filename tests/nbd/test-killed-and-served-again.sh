#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# kill -9 in the middle of writing, a power cut that empties the drive's cache
# included: served again at once, every flushed block there, `check` clean.
. "$(dirname "$0")/../functions.sh"
requires_program nbdkit python3

new_drive drive "${small_drive[@]}" --cache=tracked
for round in 1 2 3 4; do
  start_server nbd "$ZONED" "$tmp/drive"
  with_nbd "$uri" "$tmp/held" $round "$server_pid" <<'PYTHON'
import json
import os
import random
import signal
import sys
from client import *

h = connect(sys.argv[1])
path, turn, server = sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
dice = random.Random(turn)
blocks = min(h.get_size() // BLOCK, 20000)
held = {int(k): v for k, v in json.load(open(path)).items()} if os.path.exists(path) else {}
for block, values in sorted(held.items()):
    got = h.pread(BLOCK, block * BLOCK)
    match = [v for v in values if got == stamp(v)]
    if not match:
        sys.exit("FAILED: turn %d: block %d holds none of %r" % (turn, block, values))
    held[block] = [match[0]]
for step in range(400):
    first, count = dice.randrange(blocks - 32), dice.randrange(1, 32)
    if dice.random() < 0.3:
        first = step * 32 % (blocks - 32)
    value = turn << 40 | step << 8
    fua = dice.random() < 0.05
    h.pwrite(b"".join(stamp(value + i + 1) for i in range(count)), first * BLOCK,
             nbd.CMD_FLAG_FUA if fua else 0)
    for i in range(count):
        if fua:
            held[first + i] = [value + i + 1]
        else:
            held.setdefault(first + i, [0]).append(value + i + 1)
    if dice.random() < 0.05:
        h.flush()
        held = {b: [v[-1]] for b, v in held.items()}
json.dump(held, open(path, "w"))
os.kill(server, signal.SIGKILL)
PYTHON
  kill_server 2>/dev/null || true
  [ $((round % 2)) -eq 0 ] || "$SHINGLE" emu set "$tmp/drive" power_cut=$round >/dev/null
  checked drive
done
