#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Over a file, or in a folder; a URI, or a command; and what is written through
# the file and synced is what NBD clients read (reports.md, J6).
source "$(dirname "$0")/../functions.sh"
source "$(dirname "$0")/lib.sh"
requires_fuse
requires_program nbdcopy

new_file file
new_folder folder
pattern 8 1 > "$tmp/pattern"
start_server memory memory 8M

shingle_mount "$uri" "$tmp/file"
equal "$(stat -c '%s %F' "$tmp/file")" "8388608 regular file" "the volume as a file"
dd if="$tmp/pattern" of="$tmp/file" bs=64k conv=notrunc,fsync status=none
nbdcopy "$uri" "$tmp/read-over-nbd"
cmp "$tmp/pattern" "$tmp/read-over-nbd"

# Twice at once; several volumes in one folder; equal names are told apart.
timeout 60 "$SHINGLE" mount "$uri" [ nbdkit memory 4M ] "$tmp/folder"
for name in nbd nbd-2; do [ -f "$tmp/folder/$name" ] || fail "no $name in the folder"; done
cmp "$tmp/pattern" "$tmp/folder/nbd"
equal "$(stat -c %s "$tmp/folder/nbd-2")" 4194304 "size of the second volume"
fusermount3 -u "$tmp/folder"

# As `dd of=` and `cp` open it: O_TRUNC means what it means on a disk, nothing.
tr '0-9' 'g-p' < "$tmp/pattern" > "$tmp/other"
cp "$tmp/other" "$tmp/file"
cmp "$tmp/other" "$tmp/file"
unmount "$tmp/file"
equal "$(stat -c %s "$tmp/file")" 0 "the file below the mount"
stop_server
