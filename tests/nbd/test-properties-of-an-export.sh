#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# What nbdinfo and nbdkit --dump-plugin show: every property as promised, also
# read-only, and the drive untouched by a read-only server.
. "$(dirname "$0")/../functions.sh"
requires_program nbdkit nbdinfo

new_drive drive
start_server nbd "$ZONED" "$tmp/drive"
info=$(nbdinfo "$uri")
for line in 'is_rotational: true' 'is_read_only: false' 'can_cache: true' 'can_fast_zero: true' \
            'can_flush: true' 'can_fua: true' 'can_multi_conn: true' 'can_trim: true' \
            'can_zero: true' 'can_df: true' 'base:allocation'; do
  contains "$info" "$line"
done
equal "$(nbdinfo --map --totals "$uri" | awk '{ print $3 }' | sort -u | tr '\n' ' ')" '3 ' 'map of an empty disk'
qemu-io -f raw "$uri" -c 'write 4M 1M' -c flush >/dev/null
contains "$(nbdinfo --map "$uri")" '4194304 +1048576 +0 +data'
stop_server
checked drive

before=$(drive_sum drive)
start_server ro "$ZONED" "$tmp/drive" readonly=true
info=$(nbdinfo "$uri")
contains "$info" 'is_read_only: true'
contains "$info" 'can_trim: false'
qemu-io -r -f raw "$uri" -c 'read 4M 1M' >/dev/null
refused qemu-io -f raw "$uri" -c 'write 0 4k'
stop_server
equal "$(drive_sum drive)" "$before" 'the drive behind a read-only server'
start_server r -r "$ZONED" "$tmp/drive"
contains "$(nbdinfo "$uri")" 'is_read_only: true'
stop_server

dump=$(nbdkit --dump-plugin "$ZONED")
for line in 'name=zoned' 'thread_model=parallel' 'magic_config_key=device' 'shingle_version=' \
            'has_extents=1' 'has_block_size=1' 'has_cleanup=1'; do
  contains "$dump" "$line"
done
contains "$(nbdkit "$ZONED" --help)" 'device=DEVICE'
contains "$(nbdkit "$ZONED" --version)" 'zoned [0-9]'
