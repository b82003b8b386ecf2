#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The whole disk filled by nbdcopy (four connections, out of order), read back
# and compared; again after a restart; then overwritten from the other end.
. "$(dirname "$0")/../functions.sh"
requires_program nbdkit nbdcopy

new_drive drive --size=128M --zone-size=4M --conventional=10
start_server nbd "$ZONED" "$tmp/drive"
size=$(nbdinfo --size "$uri")

head -c "$size" /dev/urandom >"$tmp/in"
nbdcopy --flush "$tmp/in" "$uri"
nbdcopy "$uri" "$tmp/out"
cmp "$tmp/in" "$tmp/out"

stop_server
checked drive
start_server nbd "$ZONED" "$tmp/drive"
nbdcopy "$uri" - | cmp - "$tmp/in"

# One request at a time, sizes that are no power of two, a second full pass.
{ tail -c +1048577 "$tmp/in"; head -c 1048576 "$tmp/in"; } >"$tmp/in2"
mv "$tmp/in2" "$tmp/in"
nbdcopy --flush --synchronous --request-size=1048576 "$tmp/in" "$uri"
nbdcopy "$uri" - | cmp - "$tmp/in"
stop_server
checked drive
