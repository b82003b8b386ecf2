#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Plugin sg on an ordinary disk, both block sizes: what goes in comes out, at any
# offset and length, and lands in the drive's own blocks.
. "$(dirname "$0")/../functions.sh"
requires_program nbdkit nbdcopy nbdinfo qemu-io qemu-img

head -c 5M /dev/urandom >"$tmp/in"
for lbs in 512 4096; do
  "$SHINGLE" emu create "$tmp/disk" --model=regular --size=64M --lbs=$lbs --force >/dev/null
  start_server disk "$SG" "$tmp/disk"
  contains "$(nbdinfo "$uri")" 'block_size_minimum: 1$'
  qemu-io -f raw "$uri" >"$tmp/io" -c 'write -P 1 0 1M' -c 'write -P 2 1000 5000' \
    -c 'write -P 3 4095 2' -c 'write -f -P 4 65535 65537' -c 'write -z 200000 100000' \
    -c 'flush' -c 'read -P 1 0 1000' -c 'read -P 2 1000 3095' -c 'read -P 3 4095 2' \
    -c 'read -P 2 4097 1903' -c 'read -P 1 6000 59535' -c 'read -P 4 65535 65537' \
    -c 'read -P 1 131072 68928' -c 'read -P 0 200000 100000' -c 'read -P 1 300000 748576' ||
    { cat "$tmp/io" >&2; fail "qemu-io with blocks of $lbs bytes"; }
  ! grep -i 'failed' "$tmp/io" || fail "pattern with blocks of $lbs bytes"
  nbdcopy "$tmp/in" "$uri"
  nbdcopy "$uri" "$tmp/out"
  cmp -n 5242880 "$tmp/in" "$tmp/out"
  stop_server

  # the same bytes, seen from below
  "$SHINGLE" emu export "$tmp/disk" --raw="$tmp/raw" --zones="$tmp/zones"
  cmp "$tmp/raw" "$tmp/out"
  rm -f "$tmp/raw" "$tmp/out" "$tmp/zones"
done
