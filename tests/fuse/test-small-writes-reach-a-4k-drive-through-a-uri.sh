#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A drive of 4096-byte blocks tells NBD clients so, but takes any request: a
# file of the mount, whose users know nothing of blocks, can be written in
# pieces of 512 bytes and of odd lengths.
source "$(dirname "$0")/../functions.sh"
source "$(dirname "$0")/lib.sh"
requires_fuse

new_drive drive --format=4Kn --size=128M --zone-size=4M --conventional=8
new_file file
start_server zoned "$ZONED" "$tmp/drive"
shingle_mount "$uri" "$tmp/file"
pattern 1 5 > "$tmp/pattern"
dd if="$tmp/pattern" of="$tmp/file" bs=512 count=64 conv=notrunc oflag=direct status=none
dd if="$tmp/pattern" of="$tmp/file" bs=32768 skip=1 seek=1 count=1 conv=notrunc status=none
dd if="$tmp/pattern" of="$tmp/file" bs=777 skip=84 seek=84 count=80 conv=notrunc status=none
cmp -n $((777 * 164)) "$tmp/pattern" "$tmp/file"
unmount "$tmp/file"
stop_server
