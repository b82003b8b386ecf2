#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The calls of file-calls.py (reports.md, J4, H2, H4), and fio with verification
# by several jobs, on a volume in the mounting process.
source "$(dirname "$0")/../functions.sh"
source "$(dirname "$0")/lib.sh"
requires_fuse
requires_program fio

new_drive drive --size=256M --zone-size=4M --conventional=20
for mode in "" --cache; do
  # shellcheck disable=SC2086
  mount_drive drive $mode
  fallocate --punch-hole --offset 0 --length "$(stat -c %s "$volume")" "$volume"
  timeout 120 python3 "$top_srcdir/tests/fuse/file-calls.py" "$volume" \
      $(($(stat -c %s "$volume") >> 20))
  unmount "$tmp/drive.d"
done

mount_drive drive
timeout 120 fio --name=verify --filename="$volume" --direct=1 --ioengine=libaio --iodepth=8 \
    --numjobs=3 --size=12M --offset_increment=16M --rw=randwrite --bs=4k --bsrange=4k-64k \
    --verify=crc32c --verify_fatal=1 --verify_state_save=0 --allow_file_create=0 --group_reporting >"$tmp/fio.log" ||
  { cat "$tmp/fio.log"; fail "fio found wrong data"; }
blocks=$(stat -c %b "$volume")
[ "$blocks" -gt 0 ] && [ $((blocks * 512)) -lt "$(stat -c %s "$volume")" ] ||
  fail "st_blocks is $blocks"
unmount "$tmp/drive.d"
"$SHINGLE" check "$tmp/drive" >/dev/null

# Read-only: no write gets through, and nothing on the drive changes.
content ()
{
  "$SHINGLE" emu export "$tmp/drive" --raw="$tmp/raw" --zones="$tmp/zones" >/dev/null
  cat "$tmp/raw" "$tmp/zones" | sha256sum
  rm -f "$tmp/raw" "$tmp/zones"
}
before=$(content)
mount_drive drive --read-only
refused dd if=/dev/zero of="$volume" bs=4k count=1 conv=notrunc
dd if="$volume" of=/dev/null bs=1M count=4 status=none
unmount "$tmp/drive.d"
equal "$(content)" "$before" "the drive after a read-only mount"
