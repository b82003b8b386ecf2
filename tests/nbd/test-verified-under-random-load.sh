#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# fio with checksums: random and sequential writes of mixed sizes on several
# connections, enough of them that reclaim has to work, trims between.
. "$(dirname "$0")/../functions.sh"
requires_program nbdkit fio

new_drive drive
start_server nbd "$ZONED" "$tmp/drive"
cd "$tmp"
fio_nbd () { timeout 120 fio --ioengine=nbd --uri="$uri" --output="$tmp/fio.log" "$@" || { cat "$tmp/fio.log" >&2; exit 1; }; }

fio_nbd --name=seq --rw=write --bs=64k --size=64M --iodepth=16 --verify=crc32c --verify_fatal=1
fio_nbd --name=random --rw=randwrite --bsrange=4k-64k --size=96M --io_size=64M --iodepth=16 \
        --verify=crc32c --verify_fatal=1 --fsync=64
fio_nbd --name=four --rw=randwrite --bs=4k --size=24M --io_size=12M --offset_increment=40M \
        --numjobs=4 --iodepth=8 --verify=crc32c --verify_fatal=1 --group_reporting
fio_nbd --name=mix --rw=randtrimwrite --bs=16k --size=64M --io_size=32M --iodepth=8
stop_server
checked drive
