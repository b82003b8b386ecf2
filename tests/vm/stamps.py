#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes stamped blocks to a volume and later says which of them must be there.

stamps.py write DEVICE JOURNAL --seed=N [--chunks=FIRST:COUNT] [--zone=BLOCKS]
                [--operations=N] [--writers=N]
stamps.py verify DEVICE JOURNAL... [--after-crash] [--settle=FILE]

A block that is written holds one 64-bit stamp 512 times.  The journal gets a
line before each operation (what may be there from now on) and one after each
flush that succeeded (what must be there from then on), so it may be cut off
at any instant.  `verify` wants of each block of the journals' chunks the last
stamp, or after a crash the last flushed one or a later one; zeroes where
nothing was written or all was discarded.  --settle writes what was found as a
journal that stands for the earlier ones from then on.  An operation that fails
ends `write` with status 3.
"""
import argparse, fcntl, mmap, os, random, struct, sys, threading

BLOCK = 4096
BLKDISCARD = 0x1277


class Writer:
    """One stream of operations on its own chunks, one at a time."""

    def __init__(self, args, number):
        self.args = args
        self.number = number
        self.dice = random.Random(args.seed * 100 + number)
        self.fd = os.open(args.device, os.O_RDWR | os.O_DIRECT)
        first, count = args.chunks
        self.chunks = [c for c in range(first, first + count)
                       if c % args.writers == number]
        self.ends = {c: 0 for c in self.chunks}
        self.buffer = mmap.mmap(-1, 256 * BLOCK)
        self.serial = 0
        self.failed = None

    def note(self, *words):
        self.args.journal_file.write(' '.join(map(str, words)) + '\n')

    def stamp(self, block):
        return (self.args.seed << 48 | self.number << 44 | self.serial << 24 | block)

    def write(self, block, count):
        self.serial += 1
        self.note('w', self.number, self.serial, block, count, self.args.seed)
        for i in range(count):
            self.buffer[i * BLOCK:(i + 1) * BLOCK] = struct.pack('<Q', self.stamp(block + i)) * 512
        done = 0
        while done < count * BLOCK:
            done += os.pwritev(self.fd, [memoryview(self.buffer)[done:count * BLOCK]],
                               block * BLOCK + done)

    def discard(self, block, count):
        self.serial += 1
        self.note('d', self.number, self.serial, block, count, self.args.seed)
        fcntl.ioctl(self.fd, BLKDISCARD, struct.pack('<QQ', block * BLOCK, count * BLOCK))

    def flush(self):
        os.fsync(self.fd)
        self.note('f', self.number, self.serial)

    def step(self):
        """A stream that goes on, an overwrite, a hole past the end, a discard."""
        zone, dice = self.args.zone, self.dice
        chunk = dice.choice(self.chunks)
        base, end = chunk * zone, self.ends[chunk]
        what = dice.random()
        if what < 0.5 and end < zone:
            count = min(zone - end, dice.choice((16, 64, 128, 256)))
            self.write(base + end, count)
            self.ends[chunk] = end + count
        elif what < 0.85:
            at = dice.randrange(max(end, 1))
            self.write(base + at, min(dice.randint(1, 16), zone - at))
        elif what < 0.92:
            at = dice.randrange(zone)
            count = min(dice.randint(1, 16), zone - at)
            self.write(base + at, count)
            self.ends[chunk] = max(end, at + count)
        elif what < 0.96 and self.args.discards:
            at = dice.randrange(zone)
            self.discard(base + at, min(dice.randint(1, 256), zone - at))
        else:
            self.flush()

    def run(self):
        try:
            for _ in range(self.args.operations // self.args.writers):
                self.step()
            self.flush()
        except OSError as e:
            self.failed = e


def write(args):
    args.journal_file = open(args.journal[0], 'a', buffering=1)
    args.journal_file.write('c %d %d\n' % (args.chunks[0] * args.zone, args.chunks[1] * args.zone))
    writers = [Writer(args, n) for n in range(args.writers)]
    threads = [threading.Thread(target=w.run) for w in writers]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    failed = [w for w in writers if w.failed]
    for w in failed:
        print('writer %d stopped: %s' % (w.number, w.failed))
    return 3 if failed else 0


class Block:
    """durable: what a flush has covered; later: what came after, in order."""
    __slots__ = ('durable', 'later')

    def __init__(self):
        self.durable, self.later = 0, []


def read_journal(name, blocks, ranges):
    """Adds a journal's operations; an earlier journal's are all settled."""
    for b in blocks.values():
        if b.later:
            b.durable, b.later = b.later[-1][2], []
    touched = {}
    for line in open(name):
        word = line.split()
        if not line.endswith('\n'):
            break                           # cut off in the middle
        if word[0] == 'c':
            ranges.append((int(word[1]), int(word[2])))
        elif word[0] == 's':
            blocks.setdefault(int(word[1]), Block()).durable = int(word[2])
        elif word[0] == 'f':
            number, serial = int(word[1]), int(word[2])
            for block in touched.pop(number, ()):
                b = blocks[block]
                for k in range(len(b.later) - 1, -1, -1):
                    if b.later[k][0] == number and b.later[k][1] <= serial:
                        b.durable, b.later = b.later[k][2], b.later[k + 1:]
                        break
        else:
            number, serial, block, count, seed = map(int, word[1:])
            for i in range(block, block + count):
                value = 0 if word[0] == 'd' else (seed << 48 | number << 44 | serial << 24 | i)
                blocks.setdefault(i, Block()).later.append((number, serial, value))
                touched.setdefault(number, set()).add(i)


def verify(args):
    blocks, ranges = {}, []
    for name in args.journal:
        read_journal(name, blocks, ranges)
    fd = os.open(args.device, os.O_RDONLY | os.O_DIRECT)
    buffer = mmap.mmap(-1, 256 * BLOCK)
    bad = checked = newer = 0
    settled = open(args.settle, 'w') if args.settle else None
    for first, count in sorted(set(ranges)):
        if settled:
            settled.write('c %d %d\n' % (first, count))
        for start in range(first, first + count, 256):
            n = min(256, first + count - start)
            if os.preadv(fd, [memoryview(buffer)[:n * BLOCK]], start * BLOCK) != n * BLOCK:
                raise OSError('short read at block %d' % start)
            for i in range(n):
                data = buffer[i * BLOCK:(i + 1) * BLOCK]
                value = struct.unpack_from('<Q', data)[0]
                b = blocks.get(start + i)
                if b is None:
                    good = {0}
                elif args.after_crash:
                    good = {b.durable} | {v for _, _, v in b.later}
                else:
                    good = {b.later[-1][2] if b.later else b.durable}
                checked += 1
                if settled and value:
                    settled.write('s %d %d\n' % (start + i, value))
                if value not in good or data != struct.pack('<Q', value) * 512:
                    bad += 1
                    if bad <= 8:
                        print('block %d holds %#x, not one of %s'
                              % (start + i, value, ', '.join('%#x' % v for v in sorted(good))))
                elif b is not None and value != b.durable:
                    newer += 1
    print('%d blocks checked, %d hold what was not flushed yet, %d wrong' % (checked, newer, bad))
    return 1 if bad else 0


def pair(text):
    a, b = text.split(':')
    return int(a), int(b)


parser = argparse.ArgumentParser()
parser.add_argument('verb', choices=('write', 'verify'))
parser.add_argument('device')
parser.add_argument('journal', nargs='+')
parser.add_argument('--seed', type=int, default=1)
parser.add_argument('--chunks', type=pair, default=(0, 8))
parser.add_argument('--zone', type=int, default=1024)
parser.add_argument('--operations', type=int, default=400)
parser.add_argument('--writers', type=int, default=4)
parser.add_argument('--discards', type=int, default=1)
parser.add_argument('--settle')
parser.add_argument('--after-crash', action='store_true')
arguments = parser.parse_args()
sys.exit(write(arguments) if arguments.verb == 'write' else verify(arguments))
