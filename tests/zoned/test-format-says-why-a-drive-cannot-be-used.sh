#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Drives that cannot hold a volume: a precise message, and nothing changed.
. "$(dirname "$0")/../functions.sh"

# unusable STATUS PATTERN CREATE-OPTION...
unusable ()
{
  local want=$1 pattern=$2 status=0
  shift 2
  "$SHINGLE" emu create "$tmp/drive" --force "$@" >/dev/null
  still_unusable "$want" "$pattern"
}
still_unusable ()
{
  local want=$1 pattern=$2 status=0
  output=$("$SHINGLE" format "$tmp/drive" --force 2>&1) || status=$?
  echo "$output"
  equal "$status" "$want" "exit status"
  contains "$output" "$pattern"
  contains "$output" '^shingle: '
  # Whatever it is, info and zones can say something of it.
  "$SHINGLE" info "$tmp/drive" >"$tmp/info" 2>&1 || true
  contains "$(cat "$tmp/info")" '^drive '
}
set_drive () { "$SHINGLE" emu set "$tmp/drive" "$@" >/dev/null; }

small=(--size=128M --zone-size=4M)

# No zones at all: its own exit status.
unusable 3 'not a zoned drive' --size=128M --model=regular
contains "$output" 'host-managed'
refused "$SHINGLE" zones "$tmp/drive"
contains "$output" 'not a zoned drive'

# Too few conventional zones.
unusable 1 'no usable conventional zone' "${small[@]}" --conventional=0
unusable 1 'has 1 usable conventional zone; at least 3' "${small[@]}" --conventional=1
unusable 1 'has 2 usable conventional zones; at least 3' "${small[@]}" --conventional=2
unusable 1 'no usable conventional zone' "${small[@]}" --conventional=0 --model=host-aware
unusable 1 'takes all 4 usable conventional zones' --size=300M --zone-size=1M --conventional=4
unusable 1 'needs 4 conventional zones' --size=300M --zone-size=1M --conventional=3
unusable 1 'too small' --size=16M --zone-size=4M --conventional=3
unusable 1 'zone 3 is sequential write required' --size=300M --zone-size=1M --conventional=0-2+9-20

# Zones that are not like the others.
unusable 1 'zone [0-9]+: holds only 3145728 of its 4194304 bytes' "${small[@]}" --conventional=4 --zone-cap=3M
unusable 1 'zone [0-9]+: holds only 3145728 of its 4194304 bytes' "${small[@]}" --conventional=0 --zone-cap=3M
"$SHINGLE" emu create "$tmp/drive" --force "${small[@]}" --conventional=8 >/dev/null
set_drive zone_type=20:4
still_unusable 1 'zone 20: zone type 4h \(sequential or before required\)'

# Bad zones.
"$SHINGLE" emu create "$tmp/drive" --force "${small[@]}" --conventional=8 >/dev/null
set_drive zone=1:offline
still_unusable 1 'zone 1 is offline'
"$SHINGLE" emu create "$tmp/drive" --force "${small[@]}" --conventional=8 >/dev/null
set_drive zone=1:read-only
still_unusable 1 'zone 1 is read-only'

# The first conventional zone bad: the metadata starts behind it.  Bad zones
# elsewhere are left out.
"$SHINGLE" emu create "$tmp/drive" --force "${small[@]}" --conventional=8 >/dev/null
set_drive zone=0:offline
set_drive zone=5:read-only
set_drive zone=31:offline
"$SHINGLE" format "$tmp/drive" --label=around >"$tmp/log" 2>&1
contains "$(cat "$tmp/log")" 'warning: .*3 zones are read-only or offline'
"$SHINGLE" check "$tmp/drive"
"$SHINGLE" zones "$tmp/drive" | tee "$tmp/zones"
contains "$(cat "$tmp/zones")" '^1-2 .*metadata'
contains "$(cat "$tmp/zones")" '^31 .*offline +not used'

# A write protected drive.
"$SHINGLE" emu create "$tmp/drive" --force "${small[@]}" --conventional=8 >/dev/null
set_drive wp=1
still_unusable 1 'write.protected'

# Options out of range, each before the drive is looked at.
for option in --reserved=0 --reserved=-1 --reserved=x --reserved=4294967296 \
              --metadata-version=0 --metadata-version=3 --bogus; do
  status=0
  "$SHINGLE" format "$tmp/drive" "$option" 2>"$tmp/log" || status=$?
  equal "$status" 2 "exit status of $option"
  contains "$(cat "$tmp/log")" "${option%%=*}"
done
set_drive wp=0
for label in '' 'longer than the thirty-one characters' $'two\nlines' 'a/b'; do
  refused "$SHINGLE" format "$tmp/drive" --label="$label"
  contains "$output" 'label'
done
refused "$SHINGLE" format "$tmp/drive" --label=x --metadata-version=1
contains "$output" 'version 1 has no label'
