#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A drive without unrestricted reads refuses to read what was never written, and
# to read across zone borders.  A client that reads all of it (a partition scan,
# a copy) must get zeroes instead of errors.
. "$(dirname "$0")/../functions.sh"
requires_program nbdkit nbdcopy qemu-io

"$SHINGLE" emu create "$tmp/smr" --size=32M --zone-size=4M --conventional=2 --urswrz=0 >/dev/null
start_server smr "$SG" "$tmp/smr" raw=true
qemu-io -f raw "$uri" -c 'write -P 1 4M 4M' -c 'write -P 2 8M 4M' -c 'write -P 3 12M 1M' \
  -c 'write -P 4 20M 512' >"$tmp/io"
qemu-io -f raw "$uri" -c 'read -P 3 12M 1M' -c 'read -P 0 13M 7M' -c 'read -P 4 20M 512' \
  -c 'read -P 0 20972032 1000' -c 'read -P 0 22M 10M' -c 'read 6M 16M' -c 'read 0 32M' \
  >"$tmp/io" || fail "$(cat "$tmp/io")"
! grep -i failed "$tmp/io" || fail "$(cat "$tmp/io")"
nbdcopy --no-extents "$uri" "$tmp/copy1"
nbdcopy "$uri" "$tmp/copy2"
cmp "$tmp/copy1" "$tmp/copy2"
equal "$(stat -c %s "$tmp/copy1")" 33554432
stop_server
