#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Someone else's client: patterns across zone borders, FUA, zero, discard.
. "$(dirname "$0")/../functions.sh"
requires_program nbdkit qemu-io

new_drive drive
start_server nbd "$ZONED" "$tmp/drive"
q () { timeout 60 qemu-io -f raw "$uri" "$@" >"$tmp/q" 2>&1 || { cat "$tmp/q" >&2; return 1; }; }

q -c "write -P 0x11 0 64k" -c "write -P 0x22 4190208 12288" -c "write -f -P 0x33 8M 1M" \
  -c "read -P 0x11 0 64k" -c "read -P 0x22 4190208 12288" -c "read -P 0x33 8M 1M" \
  -c "read -P 0 64k 64k" -c flush
q -c "write -z 8M 512k" -c "read -P 0 8M 512k" -c "read -P 0x33 8912896 512k" \
  -c "write -z -u 0 64k" -c "read -P 0 0 64k" \
  -c "discard 4190208 12288" -c "read -P 0 4190208 12288"
# Many at once, overlapping zones.
q -c "aio_write -P 1 16M 2M" -c "aio_write -P 2 18M 2M" -c "aio_write -P 3 20M 2M" \
  -c "aio_write -P 4 22M 2M" -c aio_flush -c "read -P 1 16M 2M" -c "read -P 2 18M 2M" \
  -c "read -P 3 20M 2M" -c "read -P 4 22M 2M"
stop_server
checked drive
start_server nbd -r "$ZONED" "$tmp/drive"
q -r -c "read -P 1 16M 2M" -c "read -P 4 22M 2M" -c "read -P 0 8M 512k"
stop_server
