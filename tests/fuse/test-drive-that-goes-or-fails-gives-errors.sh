#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The drive leaves the bus with 32 requests in flight: each gets exactly one
# answer (reports.md, J9).  A flush that the drive refuses is an error of fsync
# (H14), and of the command when it ends.
source "$(dirname "$0")/../functions.sh"
source "$(dirname "$0")/lib.sh"
requires_fuse
requires_program fio

new_drive drive --size=256M --zone-size=4M --conventional=16
"$SHINGLE" emu set "$tmp/drive" fault=write:skip=200:count=0:gone
mount_drive drive
status=0
timeout 60 fio --name=load --filename="$volume" --size=64M --rw=randwrite --bs=4k \
    --numjobs=32 --thread --ioengine=psync --direct=1 --allow_file_create=0 \
    --continue_on_error=none >"$tmp/fio.log" 2>&1 || status=$?
[ $status != 124 ] || fail "requests hang after the drive has gone"
[ $status != 0 ] || fail "no error after the drive has gone"
contains "$(cat "$tmp/fio.log")" "Input/output error"
refused dd if=/dev/zero of="$volume" bs=4k count=1 conv=notrunc oflag=direct
contains "$("$SHINGLE" stat "$control" --json | tr -d '\n')" '"errors": *[1-9]'
unmount "$tmp/drive.d"

new_drive second --size=256M --zone-size=4M --conventional=16
"$SHINGLE" emu set "$tmp/second" fault=flush:count=0:sense=04/3e/00
mount_drive second
head -c 4096 /dev/urandom >"$tmp/block"     # zeroes would need no write
refused dd if="$tmp/block" of="$volume" bs=4k count=1 conv=notrunc,fsync
contains "$output" "fsync failed.*Input/output error|error.*Input/output error"
refused python3 -c 'import os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
os.pwrite(fd, b"x" * 4096, 0)
os.fsync(fd)' "$volume"
contains "$output" "OSError.*Input/output error"
unmount "$tmp/second.d"
