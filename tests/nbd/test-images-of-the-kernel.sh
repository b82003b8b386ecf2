#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Drives that the kernel's dm-zoned wrote: imported, clean, served, every
# block right; and still so after we wrote to them, flushed and opened again.
. "$(dirname "$0")/../functions.sh"
requires_program nbdkit python3 zstd

folders=${SHINGLE_TEST_IMAGES:-$(echo "$top_srcdir"/tests/data/images/*/)}
count=0
for folder in $folders; do
  name=$(basename "$folder")
  raw=$tmp/raw
  zstd -dqf --sparse "$folder/device.img.zst" -o "$raw"
  "$SHINGLE" emu import "$tmp/$name" --raw="$raw" --zones="$folder/zones.txt" >/dev/null
  rm "$raw"
  checked "$name"

  start_server "$name" "$ZONED" "$tmp/$name"
  nbd_python "$top_srcdir/tests/nbd/compare-manifest.py" "$uri" "$folder" "$tmp/$name.seen"
  # A write over a block of zeroes and back: the drive has been written to.
  with_nbd "$uri" "$folder" <<'PYTHON'
import os
import sys
from client import *

h = connect(sys.argv[1])
wanted = None
for line in open(os.path.join(sys.argv[2], "manifest.txt")):
    if line[0] != "#":
        first, count, value, step = line.split()
        if int(value, 16) == 0 and int(count) > 64:
            wanted = int(first) + 8
h.pwrite(stamp(1), wanted * BLOCK)
h.pwrite(stamp(2) * 4, (wanted + 8) * BLOCK)
h.flush()
expect(h.pread(BLOCK, wanted * BLOCK), stamp(1), "our block")
h.trim(BLOCK, wanted * BLOCK)
h.zero(4 * BLOCK, (wanted + 8) * BLOCK)
h.flush()
PYTHON
  kill_server
  checked "$name"
  start_server "$name" "$ZONED" "$tmp/$name"
  nbd_python "$top_srcdir/tests/nbd/compare-manifest.py" "$uri" "$folder" "$tmp/$name.seen"
  stop_server
  checked "$name"
  start_server "$name" "$ZONED" "$tmp/$name" readonly=true
  nbd_python "$top_srcdir/tests/nbd/compare-manifest.py" "$uri" "$folder" "$tmp/$name.seen"
  stop_server
  rm -rf "${tmp:?}/$name"
  count=$((count + 1))
done
[ "$count" -ge 4 ] || [ -n "${SHINGLE_TEST_IMAGES:-}" ] || fail "only $count images"
