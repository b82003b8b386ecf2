# SPDX-License-Identifier: BSD-3-Clause
"""What the NBD tests share: connections, patterns, sizes."""
import os
import struct
import sys
import threading

import nbd

K = 1024
M = K * K
G = K * M
T = K * G
BLOCK = 4096


def die(args):
    """A thread that ends badly ends the test."""
    print("FAILED: %s: %s" % (args.exc_type.__name__, args.exc_value), file=sys.stderr, flush=True)
    os._exit(1)


threading.excepthook = die


def connect(uri):
    """A careless client: it sends what it is told to, aligned or not."""
    h = nbd.NBD()
    h.set_strict_mode(0)
    h.connect_uri(uri)
    return h


def stamp(number, length=BLOCK):
    """A block that names itself: the number, over and over."""
    return struct.pack("<Q", number) * (length // 8)


def pattern(seed, length):
    """Bytes without a period that a block could hide behind."""
    out = bytearray()
    state = seed * 2654435761 % 2**32 or 1
    while len(out) < length:
        state ^= state << 13 & 0xFFFFFFFF
        state ^= state >> 17
        state ^= state << 5 & 0xFFFFFFFF
        out += struct.pack("<I", state)
    return bytes(out[:length])


def fails(call, *args, **kwargs):
    """The error that the call must end with, as the name of an errno."""
    try:
        call(*args, **kwargs)
    except nbd.Error as e:
        return e.errno
    sys.exit("FAILED: %s%r succeeds" % (getattr(call, "__name__", call), args))


def expect(got, wanted, what):
    if got != wanted:
        if isinstance(got, (bytes, bytearray)):
            at = next((i for i, (a, b) in enumerate(zip(got, wanted)) if a != b), -1)
            sys.exit("FAILED: %s: differs at byte %d of %d" % (what, at, len(wanted)))
        sys.exit("FAILED: %s: got %r, expected %r" % (what, got, wanted))


def extents(h, count, offset):
    """[(length, flags)] of base:allocation, all of the range."""
    out = []
    end = offset + count
    while offset < end:
        got = []

        def hear(context, at, entries, err):
            got.extend(entries)
            return 0

        h.block_status(min(end - offset, 2**32 - BLOCK), offset, hear)
        for length, flags in zip(got[::2], got[1::2]):
            length = min(length, end - offset)
            if out and out[-1][1] == flags:
                out[-1] = (out[-1][0] + length, flags)
            else:
                out.append((length, flags))
            offset += length
    return out
