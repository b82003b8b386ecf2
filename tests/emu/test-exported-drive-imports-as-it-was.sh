#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Export and import: the identity, for images made elsewhere and for drives of
# every shape; tables and images that do not fit are refused.
. "$(dirname "$0")/../functions.sh"

# zone lines without comments
lines () { grep -v '^#' "$1"; }

# same_again NAME: export, import, export; both times the same.
same_again ()
{
  "$SHINGLE" emu export "$tmp/$1" --raw="$tmp/1.raw" --zones="$tmp/1.txt"
  "$SHINGLE" emu import "$tmp/$1.again" --raw="$tmp/1.raw" --zones="$tmp/1.txt" >"$tmp/out"
  "$SHINGLE" emu export "$tmp/$1.again" --raw="$tmp/2.raw" --zones="$tmp/2.txt"
  cmp "$tmp/1.raw" "$tmp/2.raw" || fail "$1: another image"
  diff "$tmp/1.txt" "$tmp/2.txt" || fail "$1: another table"
  rm "$tmp/$1.again"
}

number=0
for shape in "--conventional=4" "--conventional=0" "--conventional=all" "--conventional=0-2+9" \
  "--conventional=2-3" "--zone-cap=3M --lbs=4096" "--model=host-aware --format=512e" \
  "--size=66M" "--model=regular"; do
  number=$((number + 1))
  # shellcheck disable=SC2086
  "$SHINGLE" emu create "$tmp/d$number" --size=64M --zone-size=4M --inq-vendor=ACME $shape >"$tmp/out"
  same_again "d$number"
done

# Something in it, with zones of several conditions.
"$SHINGLE" emu create "$tmp/full" --size=256M --zone-size=4M --conventional=12 >"$tmp/out"
"$SHINGLE" format "$tmp/full" >"$tmp/out"
"$SHINGLE" emu set "$tmp/full" write_pointer=20:163848 write_pointer=21:180224 \
  zone=22:read-only zone=23:offline
same_again full
lines "$tmp/1.txt" >"$tmp/zones"
sed -n 21p "$tmp/zones" | grep -qx '163840 8192 SWR CLOSED 163848' || fail "zone 20"
sed -n 22p "$tmp/zones" | grep -qx '172032 8192 SWR FULL 180224' || fail "zone 21"
sed -n 23p "$tmp/zones" | grep -q 'SWR READONLY' || fail "zone 22"
sed -n 24p "$tmp/zones" | grep -q 'SWR OFFLINE' || fail "zone 23"

# The drive and its image are both sparse.
[ "$(du -k "$tmp/1.raw" | cut -f1)" -lt 20000 ] || fail "the image is not sparse"

# bad PATTERN TABLE-EDIT: an import of the edited table is refused.
cp "$tmp/1.txt" "$tmp/good.txt"
cp "$tmp/1.raw" "$tmp/good.raw"
bad ()
{
  sed -E "$2" "$tmp/good.txt" >"$tmp/bad.txt"
  refused "$SHINGLE" emu import "$tmp/new" --raw="$tmp/good.raw" --zones="$tmp/bad.txt"
  contains "$output" "$1"
  [ ! -e "$tmp/new" ] || fail "a refused import left a drive"
}
bad 'lists no zone' '/^[0-9]/d'
bad 'does not begin where' '/^8192 /d'
bad 'not as long as the others' 's/^0 8192 /0 4096 /; s/^8192 8192/4096 12288/'
bad 'not .start length' 's/^8192 8192.*/nonsense/'
bad 'a type is' 's/^8192 8192 CONV/8192 8192 ROUND/'
bad 'condition is not known' 's/^8192 8192 CONV NOT_WP/8192 8192 CONV SAD/'
bad 'has no write pointer' 's/^8192 8192 CONV NOT_WP -/8192 8192 CONV NOT_WP 8192/'
bad 'outside the zone' 's/^163840 8192 SWR CLOSED .*/163840 8192 SWR CLOSED 1/'
bad 'contradict each other' 's/^163840 8192 SWR CLOSED .*/163840 8192 SWR EMPTY 163848/'
bad 'needs a write pointer' 's/^163840 8192 SWR CLOSED .*/163840 8192 SWR CLOSED -/'
bad 'image has' '$d'
bad 'image has' '$s/ 8192 / 4096 /'
bad 'does not begin|length' 's/^8192 8192/8192 99999999999999999999/'
bad 'no setting named' '1i # setting colour=red'
refused "$SHINGLE" emu import "$tmp/new" --raw="$tmp/none" --zones="$tmp/good.txt"
contains "$output" 'No such file'
refused "$SHINGLE" emu export "$tmp/full" --raw="$tmp/full" --zones="$tmp/z.txt"
contains "$output" 'not overwritten'
refused "$SHINGLE" emu export "$tmp/full" --raw="$tmp/d1" --zones="$tmp/z.txt"
contains "$output" 'not overwritten'

# Images that another implementation made, compressed or not.
requires_program zstd
for image in "$top_srcdir"/tests/data/images/*/; do
  name=$(basename "$image")
  zstd -dqf --sparse "$image/device.img.zst" -o "$tmp/$name.raw"
  "$SHINGLE" emu import "$tmp/$name" --raw="$tmp/$name.raw" --zones="$image/zones.txt" >"$tmp/out"
  "$SHINGLE" emu export "$tmp/$name" --raw="$tmp/2.raw" --zones="$tmp/2.txt"
  cmp "$tmp/$name.raw" "$tmp/2.raw" || fail "$name: another image"
  diff <(lines "$image/zones.txt") <(lines "$tmp/2.txt") || fail "$name: another table"
  if "$SHINGLE" emu import "$tmp/$name" --force --raw="$image/device.img.zst" \
      --zones="$image/zones.txt" >"$tmp/out" 2>&1; then
    "$SHINGLE" emu export "$tmp/$name" --raw="$tmp/3.raw" --zones="$tmp/3.txt"
    cmp "$tmp/2.raw" "$tmp/3.raw" || fail "$name: compressed, another image"
  else
    contains "$(cat "$tmp/out")" 'no libzstd'
  fi
  rm -f "$tmp/$name"*
done
