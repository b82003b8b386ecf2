#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Whatever a drive holds is named and left alone, until --force.
. "$(dirname "$0")/../functions.sh"
requires_program mkfs.ext4 mkfs.xfs mkfs.btrfs mkfs.vfat sgdisk mkswap

# all_conventional SIZE: a zone table in $tmp/zones, as `emu export` writes it.
all_conventional ()
{
  "$SHINGLE" emu create "$tmp/empty" --force --size="$1" --zone-size=4M --conventional=all >/dev/null
  "$SHINGLE" emu export "$tmp/empty" --raw="$tmp/empty.raw" --zones="$tmp/zones" >/dev/null
}

content () { "$SHINGLE" emu export "$1" --raw="$tmp/$2.raw" --zones="$tmp/$2.zones" >/dev/null; }

# refuses DRIVE PATTERN
refuses ()
{
  content "$1" before
  refused "$SHINGLE" format "$1"
  echo "$output"
  contains "$output" "$2"
  contains "$output" 'nothing was changed'
  contains "$output" '--force'
  content "$1" after
  cmp "$tmp/before.raw" "$tmp/after.raw"
  cmp "$tmp/before.zones" "$tmp/after.zones"
  "$SHINGLE" format "$1" --force >/dev/null
  "$SHINGLE" check "$1" >/dev/null
}

# holds PATTERN COMMAND...: the command makes something in its last argument.
holds ()
{
  local pattern=$1
  shift
  rm -f "$tmp/raw"
  truncate -s "$size" "$tmp/raw"
  "$@" "$tmp/raw" >"$tmp/log" 2>&1 || { cat "$tmp/log"; fail "$*"; }
  "$SHINGLE" emu import "$tmp/drive" --force --raw="$tmp/raw" --zones="$tmp/zones" >/dev/null
  refuses "$tmp/drive" "$pattern"
}

gpt () { sgdisk -n 1:2048:+16M "$1"; }
# Only what stands at the drive's end is left of it.
backup_gpt () { gpt "$1"; dd if=/dev/zero of="$1" bs=1M count=1 conv=notrunc; }
mbr ()
{
  printf '\0\0\x02\0\x83\0\0\0\0\x08\0\0\0\x80\0\0' | dd of="$1" bs=1 seek=446 conv=notrunc
  printf '\x55\xaa' | dd of="$1" bs=1 seek=510 conv=notrunc
}
truncated () { mkfs.ext4 -q "$1"; truncate -s 2M "$1"; truncate -s "$size" "$1"; }

size=128M
all_conventional $size
holds 'an ext4 file system "photos"' mkfs.ext4 -q -L photos
holds 'an ext4 file system' truncated
holds 'a btrfs file system' make_fs btrfs -q
holds 'a vfat file system' mkfs.vfat
holds 'a swap area' mkswap
holds 'a gpt partition table' gpt
holds 'a gpt partition table' backup_gpt
holds 'a dos partition table' mbr
size=320M
all_conventional $size
holds 'an xfs file system' mkfs.xfs -q -f

# A volume, whole, half and damaged.
"$SHINGLE" emu create "$tmp/drive" --force --size=128M --zone-size=4M --conventional=8 >/dev/null
"$SHINGLE" format "$tmp/drive" --label=precious >/dev/null
refuses "$tmp/drive" 'a dm-zoned volume "precious"'

"$SHINGLE" emu export "$tmp/drive" --raw="$tmp/raw" --zones="$tmp/smr" >/dev/null
dd if=/dev/urandom of="$tmp/raw" bs=4096 count=1 conv=notrunc 2>/dev/null
"$SHINGLE" emu import "$tmp/drive" --force --raw="$tmp/raw" --zones="$tmp/smr" >/dev/null
refuses "$tmp/drive" 'a dm-zoned volume "dmz-'

"$SHINGLE" emu export "$tmp/drive" --raw="$tmp/raw" --zones="$tmp/smr" >/dev/null
for block in 0 1024; do
  printf 'X' | dd of="$tmp/raw" bs=1 seek=$((block * 4096 + 40)) conv=notrunc 2>/dev/null
done
"$SHINGLE" emu import "$tmp/drive" --force --raw="$tmp/raw" --zones="$tmp/smr" >/dev/null
refuses "$tmp/drive" 'a damaged dm-zoned volume'

# Data that nobody knows: written sequential zones.
"$SHINGLE" emu create "$tmp/drive" --force --size=128M --zone-size=4M --conventional=8 >/dev/null
"$SHINGLE" emu export "$tmp/drive" --raw="$tmp/raw" --zones="$tmp/smr" >/dev/null
awk '$1 == 9 * 8192 || $1 == 13 * 8192 { $4 = "FULL"; $5 = $1 + $2 }
     $1 == 11 * 8192 { $4 = "CLOSED"; $5 = $1 + 4096 } { print }' "$tmp/smr" >"$tmp/written"
"$SHINGLE" emu import "$tmp/drive" --force --raw="$tmp/raw" --zones="$tmp/written" >/dev/null
refuses "$tmp/drive" '3 written sequential zones \(the first is zone 9\)'
# ... and after the format every one of them is empty.
equal "$("$SHINGLE" zones "$tmp/drive" --type=sequential --condition=empty --json |
         grep -c '"zone"')" 24 "empty sequential zones"

# ... and bytes in a conventional zone.
"$SHINGLE" emu create "$tmp/drive" --force --size=128M --zone-size=4M --conventional=8 >/dev/null
"$SHINGLE" emu export "$tmp/drive" --raw="$tmp/raw" --zones="$tmp/smr" >/dev/null
for zone in 3 5; do
  printf x | dd of="$tmp/raw" bs=1 seek=$((zone * 4 * 1024 * 1024 + 65536)) conv=notrunc status=none
done
"$SHINGLE" emu import "$tmp/drive" --force --raw="$tmp/raw" --zones="$tmp/smr" >/dev/null
refuses "$tmp/drive" 'data in 2 conventional zones \(the first is zone 3\)'
