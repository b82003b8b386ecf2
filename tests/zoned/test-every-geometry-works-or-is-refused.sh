#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The geometry matrix: zones of 1 to 512 MiB, 512n/512e/4Kn, 0 to all zones
# conventional, with and without a runt, capacity below size.  Each is formatted
# and checks clean, or is refused for the reason expected here.
. "$(dirname "$0")/../functions.sh"

nr=0 worked=0
# try EXPECTED-REFUSAL CREATE-OPTION...; an empty expectation: works
try ()
{
  local reason=$1
  shift
  "$SHINGLE" emu create "$tmp/drive" --force "$@" >/dev/null
  nr=$((nr + 1))
  if [ -n "$reason" ]; then
    refused "$SHINGLE" format "$tmp/drive"
    contains "$output" "$reason"
    return
  fi
  "$SHINGLE" format "$tmp/drive" >/dev/null 2>&1 || fail "format of $*"
  "$SHINGLE" check "$tmp/drive" >"$tmp/log" || { cat "$tmp/log"; fail "check of $*"; }
  contains "$(cat "$tmp/log")" ': clean$'
  worked=$((worked + 1))
}

zones=40
for mib in 1 4 64 128 256 512; do
  for conv in 0 1 2 3 12 all; do
    case $conv in
      0) reason='no usable conventional zone';;
      1 | 2) reason="has $conv usable conventional zones?; at least 3";;
      *) reason='';;
    esac
    for format in 512n 512e 4Kn; do
      try "$reason" --size=$((zones * mib))M --zone-size=${mib}M --conventional=$conv --format=$format
    done
    try "$reason" --size=$((zones * mib * 1024 + 512))K --zone-size=${mib}M --conventional=$conv --format=512e
    [ $conv = all ] || try 'holds only [0-9]+ of its' \
      --size=$((zones * mib))M --zone-size=${mib}M --zone-cap=$((mib * 768))K --conventional=$conv
  done
done
echo "$nr geometries, $worked of them work"
[ "$worked" -eq 72 ] || fail "$worked geometries work"

# 28 TB with zones of 256 MiB, and what lies beyond 2 and 16 TiB in 32 bits.
for terabytes in 2 14 28; do
  zones=$((terabytes * 1000 * 1000 * 1000 * 1000 / (256 << 20)))
  "$SHINGLE" emu create "$tmp/drive" --force --size=$((zones * 256))M --zone-size=256M --conventional=$((zones / 100)) >/dev/null
  "$SHINGLE" format "$tmp/drive" >/dev/null
  "$SHINGLE" check "$tmp/drive" >"$tmp/log"
  contains "$(cat "$tmp/log")" ': clean$'
  "$SHINGLE" zones "$tmp/drive" --from=$((zones - 1)) >"$tmp/log"
  contains "$(cat "$tmp/log")" "^$((zones - 1)) +$(((zones - 1) * 524288)) "
done
