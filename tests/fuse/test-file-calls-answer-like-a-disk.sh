#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Sizes, ends, truncation, holes, allocation (reports.md, J4), with direct I/O
# and with the page cache.
source "$(dirname "$0")/../functions.sh"
source "$(dirname "$0")/lib.sh"
requires_fuse

new_file file
for mode in "" --cache; do
  # shellcheck disable=SC2086
  shingle_mount [ nbdkit memory 64M ] "$tmp/file" $mode
  timeout 120 python3 "$top_srcdir/tests/fuse/file-calls.py" "$tmp/file" 64
  unmount "$tmp/file"
done
