#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Damage from outside, seen through the command: exit status, the line that
# names it, and a repair after which all is as before, or clean.  The full list
# of damages is unit/test-zoned-check.
. "$(dirname "$0")/../functions.sh"
requires_program python3

# 64 zones of 1 MiB, 12 conventional: sets at blocks 0 and 256, one map block and
# 64 bitmap blocks each; chunk 3 is mapped to sequential zone 20 by hand.
new_drive made --size=64M --zone-size=1M --conventional=12
"$SHINGLE" emu export "$tmp/made" --raw="$tmp/good.raw" --zones="$tmp/zones" >/dev/null
poke () { python3 -c 'import sys
with open(sys.argv[1], "r+b") as f:
    for p in sys.argv[2:]:
        at, data = p.split("=")
        f.seek(int(at)); f.write(bytes.fromhex(data))' "$@"; }
set_0=0 set_1=$((256 * 4096)) map=4096 bitmap=$((2 * 4096))
poke "$tmp/good.raw" $((set_0 + map + 3 * 8))=14000000 $((set_1 + map + 3 * 8))=14000000 \
     $((set_0 + bitmap + 20 * 4096))=ff01 $((set_1 + bitmap + 20 * 4096))=ff01
awk '$1 == 20 * 2048 { $4 = "CLOSED"; $5 = $1 + 16 * 8 } { print }' "$tmp/zones" >"$tmp/written"

# damaged WHAT-IS-SAID OFFSET=HEX...: makes $tmp/drive, expects status 1
damaged ()
{
  local said=$1 status=0
  shift
  cp "$tmp/good.raw" "$tmp/raw"
  poke "$tmp/raw" "$@"
  "$SHINGLE" emu import "$tmp/drive" --force --raw="$tmp/raw" --zones="$tmp/written" >/dev/null
  "$SHINGLE" check "$tmp/drive" >"$tmp/log" 2>&1 || status=$?
  cat "$tmp/log"
  equal "$status" 1 "exit status"
  contains "$(cat "$tmp/log")" "$said"
}
# mended [same]: repair, then clean; `same`: every byte as before the damage
mended ()
{
  "$SHINGLE" check "$tmp/drive" --repair >"$tmp/log" 2>&1 || { cat "$tmp/log"; fail "repair"; }
  "$SHINGLE" check "$tmp/drive" >"$tmp/log" 2>&1 || { cat "$tmp/log"; fail "not clean"; }
  [ "${1:-}" = same ] || return 0
  "$SHINGLE" emu export "$tmp/drive" --raw="$tmp/after.raw" --zones="$tmp/after.zones" >/dev/null
  cmp "$tmp/good.raw" "$tmp/after.raw"
}

"$SHINGLE" emu import "$tmp/drive" --raw="$tmp/good.raw" --zones="$tmp/written" >/dev/null
"$SHINGLE" check "$tmp/drive"

# One copy: every field of either superblock, an entry, a bit.
for at in 4 8 32 44 96; do
  damaged 'set 0: the superblock is bad' $((set_0 + at))=aa; mended same
  damaged 'set 1: the superblock is bad' $((set_1 + at))=aa; mended same
done
damaged 'chunk 3: the sets differ \(set 0: zone 255; set 1: zone 20\); set 1 is taken' \
  $((set_0 + map + 24))=ff; mended same
damaged 'chunk 3: the sets differ .*; set 0 is taken' $((set_1 + map + 24))=00; mended same
damaged 'zone 20 \(data zone of chunk 3\): the sets differ in bitmap block 0; set 1 is taken' \
  $((set_0 + bitmap + 20 * 4096 + 2))=01; mended same

# Both copies.
for bad in 40000000 ffffff7f 01000000; do
  damaged 'chunk 3: its data zone [0-9]+ (does not exist|is a metadata zone)' \
    $((set_0 + map + 24))=$bad $((set_1 + map + 24))=$bad; mended
done
damaged 'chunk 3: its buffer zone 30 is a buffer zone, but not conventional' \
  $((set_0 + map + 28))=1e000000 $((set_1 + map + 28))=1e000000; mended
damaged 'chunk 9: its data zone 20 is used twice \(also by chunk 3\)' \
  $((set_0 + map + 72))=14000000 $((set_1 + map + 72))=14000000; mended
damaged 'at or behind the write pointer \(block 16; first: block 16\)' \
  $((set_0 + bitmap + 20 * 4096 + 2))=01 $((set_1 + bitmap + 20 * 4096 + 2))=01; mended
damaged 'neither superblock can be used \(set 0: the checksum is wrong; set 1: the checksum is wrong' \
  $((set_0 + 8))=aa $((set_1 + 8))=aa
refused "$SHINGLE" check "$tmp/drive" --repair
refused "$SHINGLE" info "$tmp/drive"
contains "$output" 'none that can be used: .*neither superblock'
damaged 'the metadata version is unknown' $((set_0 + 4))=03 $((set_1 + 4))=03

# No volume at all.
"$SHINGLE" emu create "$tmp/drive" --force "${small_drive[@]}" >/dev/null
refused "$SHINGLE" check "$tmp/drive"
contains "$output" 'no dm-zoned volume'
"$SHINGLE" info "$tmp/drive" >"$tmp/log"
contains "$(cat "$tmp/log")" "volume +none \('shingle format' makes one\)"
