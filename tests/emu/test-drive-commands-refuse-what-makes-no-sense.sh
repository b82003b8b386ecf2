#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Bad command lines and bad files: a clear error, a status, and nothing changed.
. "$(dirname "$0")/../functions.sh"

d=$tmp/drive

# refused_with PATTERN COMMAND...
refused_with ()
{
  local pattern=$1
  shift
  refused "$SHINGLE" emu "$@"
  contains "$output" "$pattern"
}

refused_with 'what is to be done'
refused_with 'no subcommand is named frobnicate' frobnicate
refused_with 'file is missing' create
refused_with 'no setting named .colour' create "$d" --colour=red
refused_with 'too many zones' create "$d" --size=64M --zone-size=64K --virtual-gb=1000000
for bad in --size=0 --size=12345 --size=-1 --size=1Q --zone-size=3M --zone-size=2T --lbs=513 \
  --lbs=8192 --pbs=3000 --conventional=x --conventional=5-3 --conventional=999 --zone-cap=3T \
  --model=square --wp=maybe --physblk-exp=16 --opts=zz --inq-vendor=ninecharss --units=0 \
  --every-nth=99999999999 --lbprz=3 --segment=5 --size=99999999999999999999; do
  refused_with "$(sed -E 's/^--([a-z]*).*/\1/' <<<"$bad")" create "$d" "$bad"
  [ ! -e "$d" ] || fail "$bad left a file"
done

echo precious >"$d"
refused_with 'File exists' create "$d" --size=1G
equal "$(cat "$d")" precious
refused_with 'not an emulated drive' show "$d"
refused_with 'not an emulated drive' set "$d" wp=1
refused_with 'not an emulated drive' export "$d" --raw="$tmp/r" --zones="$tmp/z"
[ ! -e "$tmp/r" ] || fail "a refused export left a file"
refused_with 'No such file' show "$tmp/nothing"
refused_with 'No such file' create "$tmp/no/folder" --size=1G
rm "$d"

"$SHINGLE" emu create "$d" --size=64M --zone-size=4M >"$tmp/out"
before=$("$SHINGLE" emu show "$d")
refused_with 'fixed when the drive was made' set "$d" size=1G
refused_with 'fixed when the drive was made' set "$d" zbc=none
refused_with 'no setting named' set "$d" colour=red
refused_with 'not KEY=VALUE' set "$d" wp
refused_with 'no setting named' set "$d" wp=1 dsense=1 colour=red
refused_with 'wp=2' set "$d" dsense=1 wp=2
refused_with 'a file each' export "$d" --raw="$tmp/one" --zones="$tmp/one"
refused_with 'not overwritten' export "$d" --raw="$d" --zones="$tmp/one"
[ ! -e "$tmp/one" ] || fail "a refused export left a file"
refused_with 'nodir/z: No such file' export "$d" --raw="$tmp/one" --zones="$tmp/nodir/z"
refused_with 'nodir/r: No such file' export "$d" --raw="$tmp/nodir/r" --zones="$tmp/one"
[ ! -e "$tmp/one" ] || fail "a refused export left a file"
echo mine >"$tmp/one"
refused_with 'nodir/z: No such file' export "$d" --raw="$tmp/one" --zones="$tmp/nodir/z"
equal "$(cat "$tmp/one")" mine "what the image's file held"
refused_with 'what is to be set' set "$d"
refused_with 'no operation is named' set "$d" fault=eat:gone
refused_with 'not understood' set "$d" fault=read:often
refused_with '16 zones' set "$d" zone=16:offline
refused_with 'read-only, offline or good' set "$d" zone=3:tired
refused_with 'no write pointer' set "$d" write_pointer=0:5
refused_with 'write pointer of zone 2' set "$d" write_pointer=2:5
refused_with 'only be set to 0' set "$d" counters=7
refused_with 'seed' set "$d" power_cut=now
refused_with 'takes no settings' show "$d" --size=1G
refused_with 'takes one file' show "$d" "$d"
refused_with 'needs --raw' export "$d"
equal "$("$SHINGLE" emu show "$d")" "$before" "the drive after all these"

# One user at a time; looking is allowed.
exec {hold}<"$d"
flock -x "$hold"
refused_with 'in use by another process' set "$d" wp=1
refused_with 'in use by another process' create "$d" --size=1G --force
equal "$("$SHINGLE" emu show "$d")" "$before" "the drive in use"
exec {hold}<&-
"$SHINGLE" emu set "$d" wp=1
