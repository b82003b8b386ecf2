#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""deadline-model.py SEED: a random run of a scheduler that decides as Linux 6.12's
mq-deadline does, in the format of data/mq-deadline/README.md.

Written from the description of the scheduler alone and as plainly as possible (lists,
searched from end to end), so that it shares no mistake with core/mq/deadline.c.
"""
import random
import sys

TICK_US = 4000
READ, WRITE = 0, 1


def ticks(ms):
    return (ms * 1000 + TICK_US - 1) // TICK_US


class Request:
    def __init__(self, direction, sector, nr, ioprio, number):
        self.direction, self.sector, self.nr, self.ioprio = direction, sector, nr, ioprio
        self.cls = {1: 0, 3: 2}.get(ioprio, 1)
        self.number = number            # order in the tree among equal sectors
        self.fifo = 0

    def end(self):
        return self.sector + self.nr

    def text(self):
        return f"{'RW'[self.direction]} {self.sector} {self.nr} {self.ioprio}"


class Model:
    def __init__(self, tunables):
        self.t = tunables
        self.fifo = {(c, d): [] for c in range(3) for d in (READ, WRITE)}
        self.latest = {(c, d): 0 for c in range(3) for d in (READ, WRITE)}
        self.pending = [0, 0, 0]        # inserted and not completed
        self.last_dir, self.batching, self.starved = WRITE, 0, 0
        self.cache = None
        self.numbers = 0

    def expire(self, direction):
        return ticks(self.t["write_expire" if direction == WRITE else "read_expire"])

    def number(self):
        self.numbers += 1
        return self.numbers

    def insert(self, rq, now):
        rq.fifo = now // TICK_US + self.expire(rq.direction)
        rq.number = self.number()
        self.fifo[rq.cls, rq.direction].append(rq)
        self.pending[rq.cls] += 1
        if self.cache is None:
            self.cache = rq

    def tree(self, cls, direction):
        return sorted(self.fifo[cls, direction], key=lambda r: (r.sector, r.number))

    # Where would the new data go?  ("back"|"front", request) or None.
    def find_merge(self, new):
        def alike(r):
            return r.direction == new.direction and r.cls == new.cls
        queued = [r for f in self.fifo.values() for r in f]
        c = self.cache
        if c and alike(c) and c.end() == new.sector:
            return "back", c
        if c and alike(c) and c.sector == new.end():
            return "front", c
        behind = [r for r in queued if alike(r) and r.end() == new.sector]
        if behind:
            return "back", behind
        if self.t["front_merges"]:
            before = [r for r in queued if alike(r) and r.sector == new.end()]
            if before:
                return "front", before
        return None

    def remove(self, rq):
        self.fifo[rq.cls, rq.direction].remove(rq)
        if self.cache is rq:
            self.cache = None

    # The lower of two neighbours takes the higher one in.
    def absorb(self, low, high):
        if high.fifo < low.fifo:
            queue = self.fifo[low.cls, low.direction]
            queue.remove(low)
            queue[queue.index(high)] = low
            low.fifo = high.fifo
        else:
            self.fifo[high.cls, high.direction].remove(high)
        if self.cache is high:
            self.cache = None
        low.nr += high.nr
        self.pending[high.cls] -= 1
        self.cache = low

    def neighbours(self, rq, how):
        order = self.tree(rq.cls, rq.direction)
        i = order.index(rq)
        if how == "back" and i + 1 < len(order) and order[i + 1].sector == rq.end():
            return rq, order[i + 1]
        if how == "front" and i > 0 and order[i - 1].end() == rq.sector:
            return order[i - 1], rq
        return None

    def candidate(self, cls, direction):
        for r in self.tree(cls, direction):
            if r.sector >= self.latest[cls, direction]:
                return r
        return None

    def from_class(self, cls, limit, now):
        rq = self.candidate(cls, self.last_dir)
        if not (rq and self.batching < self.t["fifo_batch"]):
            direction = None
            if self.fifo[cls, READ]:
                direction = READ
                if self.fifo[cls, WRITE]:
                    if self.starved >= self.t["writes_starved"]:
                        direction = WRITE
                    self.starved += 1
            elif self.fifo[cls, WRITE]:
                direction = WRITE
            if direction is None:
                return None
            if direction == WRITE:
                self.starved = 0
            rq = self.candidate(cls, direction)
            head = self.fifo[cls, direction][0]
            if rq is None or head.fifo <= now:
                rq = head
            self.last_dir, self.batching = direction, 0
        if rq.fifo - self.expire(rq.direction) > limit:
            return None
        self.batching += 1
        self.remove(rq)
        self.latest[cls, rq.direction] = rq.sector
        return rq

    def pop(self, time_us):
        now = time_us // TICK_US
        if sum(1 for p in self.pending if p) >= 2:
            for cls in (1, 2):
                rq = self.from_class(cls, now - ticks(self.t["prio_aging_expire"]), now)
                if rq:
                    return rq
        for cls in range(3):
            rq = self.from_class(cls, now, now)
            if rq:
                return rq
            if self.pending[cls]:
                return None
        return None


def arrive(model, rng, now, out, space, classes, merging):
    direction = int(rng.random() < 0.5)
    sector = 8 * rng.randrange(1, space)
    if merging and rng.random() < 0.6:
        queued = [r for f in model.fifo.values() for r in f]
        if queued:
            r = rng.choice(queued)
            direction = r.direction
            sector = r.end() if rng.random() < 0.6 else r.sector - 8
    if sector <= 0:
        sector = 8
    new = Request(direction, sector, 8, rng.choice(classes), 0)
    found = model.find_merge(new) if merging else None
    if found is None:
        model.insert(new, now)
        out(now, "insert", new.text())
        return
    how, rq = found
    if isinstance(rq, list):
        if len(rq) > 1:
            return                      # which one the kernel takes is not told: do not ask
        rq = rq[0]
    if rq.nr + new.nr > 128:
        model.insert(new, now)
        out(now, "insert", new.text())
        return
    out(now, how + "merge", new.text())
    rq.nr += new.nr
    if how == "front":
        rq.sector = new.sector
        rq.number = model.number()
    model.cache = rq
    pair = model.neighbours(rq, how)
    if pair:
        out(now, "rqmerge", pair[1].text())
        model.absorb(*pair)


def main():
    rng = random.Random(int(sys.argv[1]))
    tunables = {
        "async_depth": 256,
        "fifo_batch": rng.choice([0, 1, 2, 3, 4, 16, 16, 16]),
        "front_merges": rng.choice([0, 1, 1]),
        "prio_aging_expire": rng.choice([0, 10, 100, 300, 10000]),
        "read_expire": rng.choice([0, 20, 50, 200, 500, 500]),
        "write_expire": rng.choice([0, 20, 100, 400, 5000, 5000]),
        "writes_starved": rng.choice([-1, 0, 1, 2, 2, 5]),
    }
    merging = rng.random() < 0.5
    classes = rng.choice([[0], [2], [1, 2], [1, 2, 3], [2, 3], [0, 1, 3]])
    space = rng.choice([20, 200, 100000])
    depth = rng.choice([1, 1, 2, 8])
    model, flying, now = Model(tunables), [], 100
    print("#", *(f"{k}={v}" for k, v in tunables.items()), *([] if merging else ["nomerges=2"]))

    def out(time, event, text):
        print(time, event, text)

    for _ in range(500):
        now += rng.choice([1, 10, 100, 1000, 5000, 20000])
        what = rng.random()
        if what < 0.55:
            arrive(model, rng, now, out, space, classes, merging)
        elif what < 0.75 and flying:
            rq = flying.pop(rng.randrange(len(flying)))
            model.pending[rq.cls] -= 1
            out(now, "complete", rq.text())
        elif len(flying) < depth:
            rq = model.pop(now)
            out(now, "pop", rq.text() if rq else "- 0 0 0")
            if rq:
                flying.append(rq)


main()
