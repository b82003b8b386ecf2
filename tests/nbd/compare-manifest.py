#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""compare-manifest.py URI FOLDER [SEEN]: every block of an export against
FOLDER/manifest.txt; a block of FOLDER/later.txt may hold either value.

SEEN, a file, keeps what the doubtful blocks held the first time: a second run
with the same SEEN wants the same again."""
import os
import struct
import sys

import nbd

BLOCK = 4096
BATCH = 256


def lines(path):
    with open(path) as f:
        for line in f:
            if line.strip() and line[0] != "#":
                yield line.split()


def read_later(folder):
    path = os.path.join(folder, "later.txt")
    if not os.path.exists(path):
        return {}
    return {int(block): int(value, 16) for block, value in lines(path)}


def content(value):
    return struct.pack("<Q", value) * (BLOCK // 8)


class Reader:
    """Blocks in ascending order, fetched many at a time."""

    def __init__(self, h):
        self.h = h
        self.blocks = h.get_size() // BLOCK
        self.first = self.last = 0
        self.data = b""

    def block(self, number):
        if not self.first <= number < self.last:
            self.first = number
            self.last = min(number + BATCH, self.blocks)
            self.data = self.h.pread((self.last - number) * BLOCK, number * BLOCK)
        at = (number - self.first) * BLOCK
        return self.data[at:at + BLOCK]


def main(uri, folder, seen_path=None):
    h = nbd.NBD()
    h.connect_uri(uri)
    reader = Reader(h)
    later = read_later(folder)
    seen, now_seen = {}, {}
    if seen_path and os.path.exists(seen_path):
        seen = {int(block): int(value, 16) for block, value in lines(seen_path)}
    following = wrong = newer = 0
    for first, count, value, step in lines(os.path.join(folder, "manifest.txt")):
        first, count, value, step = int(first), int(count), int(value, 16), int(step, 16)
        if first != following:
            sys.exit("%s: the manifest has a gap at block %d" % (folder, following))
        following = first + count
        for i in range(count):
            number, expected = first + i, value + i * step
            got = reader.block(number)
            allowed = {expected, later.get(number, expected)}
            if number in seen:
                allowed = {seen[number]}
            match = [a for a in allowed if got == content(a)]
            if not match:
                wrong += 1
                if wrong <= 10:
                    print("block %d: holds %s..., expected %s"
                          % (number, got[:8].hex(), " or ".join("%x" % a for a in allowed)))
            elif number in later:
                now_seen[number] = match[0]
                newer += match[0] != expected
    if following != reader.blocks:
        sys.exit("%s: the manifest has %d blocks, the export %d"
                 % (folder, following, reader.blocks))
    if seen_path:
        with open(seen_path, "w") as f:
            for number, value in sorted(now_seen.items()):
                f.write("%d %x\n" % (number, value))
    print("%s: %d blocks, %d wrong, %d of %d doubtful ones newer"
          % (os.path.basename(folder.rstrip("/")), following, wrong, newer, len(later)))
    return 1 if wrong else 0


sys.exit(main(*sys.argv[1:]))
