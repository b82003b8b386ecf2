#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Length 0, the last byte, one byte too far: an answer every time, the same
# one every time, and the server lives.
. "$(dirname "$0")/../functions.sh"
requires_program nbdkit python3

new_drive drive
start_server nbd "$ZONED" "$tmp/drive"
with_nbd "$uri" <<'PYTHON'
import sys
from client import *

h = nbd.NBD()
h.add_meta_context("base:allocation")
h.set_strict_mode(0)
h.connect_uri(sys.argv[1])
size = h.get_size()


def outcome(call, *args):
    try:
        call(*args)
        return "done"
    except nbd.Error as e:
        return e.errno


nothing = lambda *args: 0
for at in (0, 1, 4096, size - 1, size):
    for call, args in ((h.pread, (0, at)), (h.pwrite, (b"", at)), (h.trim, (0, at)),
                       (h.zero, (0, at)), (h.cache, (0, at)),
                       (h.block_status, (0, at, nothing))):
        first = outcome(call, *args)
        expect(first in ("done", "EINVAL", "ENOSPC"), True, "%r%r: %s" % (call, args, first))
        for _ in range(3):
            expect(outcome(call, *args), first, "%r%r again" % (call, args))
h.pwrite(b"z", size - 1)
expect(h.pread(1, size - 1), b"z", "last byte")
expect(h.pread(4096, size - 4096), bytes(4095) + b"z", "last block")
h.cache(4096, size - 4096)
h.cache(1, size - 1)
h.cache(100 * M, size - 100 * M)
h.cache(64 * M, 0)
for call, args in ((h.pread, (2, size - 1)), (h.cache, (2, size - 1)), (h.trim, (2, size - 1)),
                   (h.block_status, (2, size - 1, nothing))):
    expect(outcome(call, *args), "EINVAL", "%r%r" % (call, args))
for call, args in ((h.pwrite, (b"zz", size - 1)), (h.zero, (2, size - 1))):
    expect(outcome(call, *args), "ENOSPC", "%r%r" % (call, args))
# A client that asks for everything in one block status request.
h.block_status(2**32 - 1 if size > 2**32 - 1 else size, 0, nothing)
expect(h.pread(1, size - 1), b"z", "last byte at the end")
PYTHON
stop_server
checked drive
