#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The first request may come before any thread waits for it (reports.md, J2).
source "$(dirname "$0")/../functions.sh"
source "$(dirname "$0")/lib.sh"
requires_fuse

new_file file
start_server memory memory 1M
for ((i = 0; i < ${SHINGLE_MOUNT_ROUNDS:-200}; ++i)); do
  timeout 20 "$SHINGLE" mount "$uri" "$tmp/file"
  timeout 20 dd if="$tmp/file" of=/dev/null bs=4k count=1 status=none
  timeout 20 fusermount3 -u "$tmp/file"
done
stop_server
