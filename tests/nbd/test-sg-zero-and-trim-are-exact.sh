#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Zero touches exactly its range, trim no more than whole blocks inside it, on
# drives with and without UNMAP and WRITE SAME, also beyond 64 MiB at a time.
. "$(dirname "$0")/../functions.sh"
requires_program nbdkit

exercise ()
{
  with_nbd "$uri" "$@" <<'PY'
import sys
import nbd
from client import connect, expect, fails, M

uri, can_trim, fast = sys.argv[1], sys.argv[2] == "trim", sys.argv[3] == "fast"
h = connect(uri)
size = h.get_size()
expect(h.can_trim(), can_trim, "can_trim")
expect(h.can_fast_zero(), True, "can_fast_zero")
expect(h.can_multi_conn(), True, "can_multi_conn")
for at in range(0, size, 16 * M):
    h.pwrite(b"\xff" * (16 * M), at)

# every edge, one block and many
for offset, count in ((512, 512), (1, 1), (511, 2), (4095, 4098), (1000, 100000), (8192, 65536)):
    base = 2 * M
    h.pwrite(b"\xff" * M, base)
    h.zero(count, base + offset)
    got = h.pread(M, base)
    want = b"\xff" * offset + b"\0" * count + b"\xff" * (M - offset - count)
    expect(bytes(got), want, "zero %d at %d" % (count, offset))
    h.pwrite(b"\xff" * M, base)
    if can_trim:
        h.trim(count, base + offset)
        got = bytes(h.pread(M, base))
        expect(got[:offset], b"\xff" * offset, "in front of trim %d at %d" % (count, offset))
        expect(got[offset + count:], b"\xff" * (M - offset - count), "behind trim")

# 80 MiB at a time: all of it, nothing else
start, end = 8 * M + 512, 88 * M + 512
h.zero(end - start, start, nbd.CMD_FLAG_FUA)
for at in range(0, size, 8 * M):
    got = bytes(h.pread(8 * M, at))
    first, last = min(max(start - at, 0), 8 * M), min(max(end - at, 0), 8 * M)
    if last <= first:
        first = last = 8 * M
    expect(got[first:last].count(0), last - first, "zeroes in the part at %d" % at)
    expect(got[:first][-4096:].count(255), min(first, 4096), "in front, in the part at %d" % at)
    expect(got[last:][:4096].count(255), min(8 * M - last, 4096), "behind, in the part at %d" % at)

# fast zero: only where it is
if fast:
    h.zero(8 * M, 96 * M, nbd.CMD_FLAG_FAST_ZERO)
    expect(bytes(h.pread(8 * M, 96 * M)), b"\0" * (8 * M), "fast zero")
else:
    expect(fails(h.zero, 8 * M, 96 * M, nbd.CMD_FLAG_FAST_ZERO), "ENOTSUP", "fast zero")
expect(fails(h.zero, 8 * M, 96 * M + 1, nbd.CMD_FLAG_FAST_ZERO), "ENOTSUP", "fast zero of a part")
h.flush()
h.shutdown()
PY
}

"$SHINGLE" emu create "$tmp/plain" --model=regular --size=112M >/dev/null
start_server plain "$SG" "$tmp/plain"
exercise no slow
stop_server
"$SHINGLE" emu create "$tmp/thin" --model=regular --size=112M --lbpu=1 --lbpws=1 --lbprz=1 \
  --unmap-granularity=8 >/dev/null
start_server thin "$SG" "$tmp/thin"
exercise trim fast
stop_server
