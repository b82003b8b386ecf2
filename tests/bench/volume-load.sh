#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Time to open a volume and resident memory, for sparse emulated drives of 3.5 to
# 28 TB with zones of 256 MiB, 1 % conventional; empty and with every chunk mapped.
. "$(dirname "$0")/../functions.sh"

for terabytes in 3.5 7 14 28; do
  zones=$(python3 -c "print(int($terabytes * 10**12 / (256 << 20)))")
  "$SHINGLE" emu create "$tmp/drive" --force --size=$((zones * 256))M --zone-size=256M \
    --conventional=$((zones / 100)) >/dev/null
  "$SHINGLE" format "$tmp/drive" --force >/dev/null
  printf '%-14s' "$terabytes TB empty"
  "$top_builddir/tests/bench/volume-load" "$tmp/drive"
  "$top_builddir/tests/bench/map-all" "$tmp/drive"
  printf '%-14s' "$terabytes TB mapped"
  "$top_builddir/tests/bench/volume-load" "$tmp/drive"
done
