#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Volumes that we formatted and filled, exported as a raw drive and judged by
# a reader that shares no code with us.  The fill: sequential, scattered,
# overwritten, trimmed, reclaimed.
. "$(dirname "$0")/../functions.sh"
requires_program nbdkit python3

for shape in '1 --size=128M --zone-size=4M --conventional=10' \
             '2 --size=256M --zone-size=16M --conventional=6 --format=4Kn' \
             '2 --size=64M --zone-size=1M --conventional=24' \
             '1 --size=64M --zone-size=1M --conventional=24'; do
  version=${shape%% *} shape=${shape#* }
  rm -rf "$tmp"/drive* "$tmp/image"
  # shellcheck disable=SC2086
  "$SHINGLE" emu create "$tmp/drive" $shape >/dev/null
  "$SHINGLE" format "$tmp/drive" --metadata-version=$version >/dev/null
  mkdir "$tmp/image"
  start_server nbd "$ZONED" "$tmp/drive"
  with_nbd "$uri" "$tmp/image/manifest.txt" $version <<'PYTHON'
import random
import sys
from client import *

h = connect(sys.argv[1])
dice = random.Random(int(sys.argv[3]))
blocks = h.get_size() // BLOCK
held = [0] * blocks
number = 0


def write(first, count):
    global number
    number += 1
    base = number << 32
    for i in range(count):
        held[first + i] = base | (first + i)
    h.pwrite(b"".join(stamp(held[first + i]) for i in range(count)), first * BLOCK)


third = blocks // 3
for first in range(0, third, 64):                       # in order
    write(first, min(64, third - first))
for _ in range(1500):                                   # scattered, overwritten
    first = dice.randrange(blocks - 16)
    write(first, dice.randrange(1, 16))
for _ in range(40):                                     # trimmed, zeroed
    first, count = dice.randrange(blocks - 200), dice.randrange(1, 200)
    (h.trim if dice.random() < 0.5 else h.zero)(count * BLOCK, first * BLOCK)
    held[first:first + count] = [0] * count
for _ in range(300):
    first = dice.randrange(blocks - 16)
    write(first, dice.randrange(1, 16))
h.flush()
for first in range(0, blocks, 256):
    n = min(256, blocks - first)
    expect(h.pread(n * BLOCK, first * BLOCK), b"".join(stamp(v) for v in held[first:first + n]),
           "our own view of block %d" % first)
with open(sys.argv[2], "w") as f:
    for i, v in enumerate(held):
        f.write("%d 1 %x 0\n" % (i, v))
PYTHON
  # Half of the times as a crash leaves it.
  if [ $version = 1 ]; then kill_server; else stop_server; fi
  checked drive
  "$SHINGLE" emu export "$tmp/drive" --raw="$tmp/image/device.img" --zones="$tmp/image/zones.txt" >/dev/null
  PYTHONDONTWRITEBYTECODE=1 timeout 120 python3 "$top_srcdir/tests/data/tools/verify_image.py" "$tmp/image"
done
