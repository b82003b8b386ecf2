/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A bdev around another one that watches what the running volume does.
 *
 * It aborts when a rule is broken: two writes of one sequential zone at once, a
 * write beside its write pointer, a read at or behind it, a read or write across
 * a zone border, a reset while a command is in flight on the zone, anything at
 * all after it was told that nothing may come any more.  It can fail commands,
 * remember them, and keep a volatile write cache that loses things.
 */
#ifndef GUARD_BDEV_H
#define GUARD_BDEV_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/bdev.h"

/* One command that changed something. */
struct guard_entry {
  enum bdev_op op;
  unsigned flags;
  uint64_t off_bytes, len_bytes;
  uint8_t *data;                /* of a write */
  size_t issued;                /* entries there were when the command came */
};

struct guard {
  struct bdev bdev;             /* first */
  struct bdev *inner;           /* closed with it, unless keep_inner */
  bool keep_inner;
  pthread_mutex_t lock;
  struct guard_zone {
    uint32_t reads, writes;     /* in flight */
    uint64_t wp_bytes;          /* expected; absolute */
    bool seq, resetting;
  } *zones;
  bool lenient;                 /* do not abort at a wrong position: let it fail */

  /* Counters. */
  uint64_t nr_ops[BDEV_NR_OPS];
  uint64_t bytes_read, bytes_written;
  uint64_t nr_reports;
  uint64_t nr_failed;

  /* Asked before each command (no lock held); -1 with errno fails it.  A write may
     set req->done_bytes: so much is written before it fails. */
  int (*fault) (struct guard *guard, struct bdev_req *req, void *opaque);
  void *opaque;

  /* The journal, when wanted. */
  bool journal;
  struct guard_entry *entries;
  size_t nr_entries, room;
};

struct guard *guard_new (struct bdev *inner);
void guard_forget_journal (struct guard *guard);
static inline uint64_t
guard_zone_of (const struct guard *guard, const struct bdev_req *req)
{
  return req->off_bytes / guard->bdev.info.zone_bytes;
}

#endif
