#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Drives that answer nonsense - zones, sizes, blocks, pages: every command refuses with a
# message (or, where it only lists, lists), none crashes, none writes.
. "$(dirname "$0")/../functions.sh"
requires_program nbdkit
mkdir "$tmp/mountpoint"

"$SHINGLE" emu create "$tmp/drive" --size=128M --zone-size=4M --conventional=8 >/dev/null
"$SHINGLE" format "$tmp/drive" --label=kept >/dev/null
"$SHINGLE" emu export "$tmp/drive" --raw="$tmp/before.raw" --zones="$tmp/before.zones" >/dev/null

# The data: a header of 64 bytes (0: list length, 8: last LBA), then 64 bytes a
# zone (0: type, 1: condition << 4, 8: length, 16: start, 24: write pointer).
at () { echo $((64 + 64 * $1 + $2)); }

# survives COMMAND...: refuses or not, but by its own decision and without a crash
survives ()
{
  local status=0
  output=$(timeout 60 "$@" 2>&1 </dev/null) || status=$?
  [ $status -lt 124 ] || fail "$name: status $status: $*: $output"
  ! grep -Eq 'Sanitizer|runtime error:|Assertion' <<<"$output" || fail "$name: $*: $output"
}

# nonsense NAME PATTERN PATCH [OPERATION]: every answer to it (REPORT ZONES) is patched so
nonsense ()
{
  local name=$1 pattern=$2 command
  "$SHINGLE" emu set "$tmp/drive" fault=none fault="${4:-report-zones}:patch=$3:count=0" >/dev/null
  for command in 'format --force' 'check --repair' check; do
    # shellcheck disable=SC2086
    refused "$SHINGLE" $command "$tmp/drive"
    contains "$output" '^shingle: '
    contains "$output" "$pattern"
  done
  echo "$name: $output"
  refused "$SHINGLE" mount "$tmp/drive" "$tmp/mountpoint"
  contains "$output" '^shingle: '
  refused nbdkit -U "$(own_socket)" "$ZONED" "$tmp/drive" --run true
  contains "$output" '^nbdkit: '
  survives "$SHINGLE" info "$tmp/drive"
  survives "$SHINGLE" info --json "$tmp/drive"
  survives "$SHINGLE" zones "$tmp/drive" --all
  survives "$SHINGLE" zones "$tmp/drive" --map --svg "$tmp/picture"
  survives "$SHINGLE" doctor "$tmp/drive"
  # shellcheck disable=SC2016
  survives nbdkit -U "$(own_socket)" "$SG" "$tmp/drive" --run 'nbdinfo --map "$uri"'
}

nonsense 'zones that overlap' . "$(at 5 16)/0000000000008000"
nonsense 'a hole' . "$(at 5 16)/000000000000b000"
nonsense 'a start that overflows' . "$(at 5 16)/ffffffffffffff00"
nonsense 'a length that overflows' . "$(at 5 8)/ffffffffffffffff"
nonsense 'a length of 0' . "$(at 5 8)/0000000000000000"
nonsense 'the first zone has another length' . "$(at 0 8)/0000000000001000"
nonsense 'a zone of an unknown type' . "$(at 9 0)/0f"
nonsense 'a zone of type 4h' 'type 4h|4h' "$(at 9 0)/04"
nonsense 'a gap zone' 'gap zone .type 5h' "$(at 9 0)/05"
nonsense 'an unknown condition' . "$(at 9 1)/90"
# Zone 9, implicitly open, with its true length and start.
open_9="$(at 9 1)/2000000000000000000000000020000000000000012000"
nonsense 'a write pointer outside of its zone' . "${open_9}ffffffffffffffff"
nonsense 'a write pointer before its zone' . "${open_9}0000000000000000"
nonsense 'a list length of 0' . 0/00000000

# READ CAPACITY (16): 0 the last block, 8 the length of a block, 13 the exponent of the
# physical block.
nonsense 'a size that overflows' . 0/ffffffffffffffff read-capacity-16
nonsense 'a size of 2^63 blocks' . 0/7fffffffffffffff read-capacity-16
nonsense 'a size that does not hold the zones' . 0/00000000000000ff read-capacity-16
nonsense 'a size beyond the zones' . 0/000000000fffffff read-capacity-16
nonsense 'a block of 0 bytes' . 8/00000000 read-capacity-16
nonsense 'a block of 3 bytes' . 8/00000003 read-capacity-16
nonsense 'a block of 2^31 bytes' . 8/80000000 read-capacity-16

"$SHINGLE" emu set "$tmp/drive" fault=none >/dev/null
"$SHINGLE" emu export "$tmp/drive" --raw="$tmp/after.raw" --zones="$tmp/after.zones" >/dev/null
cmp "$tmp/before.raw" "$tmp/after.raw"
cmp "$tmp/before.zones" "$tmp/after.zones"
checked drive
