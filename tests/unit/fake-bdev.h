/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A zoned drive in memory, for unit tests: strict about the rules of zones,
 * without a write cache (what returned is durable), sparse (28 TB are fine).
 * Not thread-safe unless the caller serialises (a lock around each call is
 * taken inside, so concurrent I/O is safe; the knobs are not).
 */
#ifndef FAKE_BDEV_H
#define FAKE_BDEV_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/bdev.h"

struct fake_config {
  uint64_t zone_bytes;          /* default 4 MiB */
  uint32_t nr_zones;            /* of full length; default 32 */
  uint32_t nr_conv;             /* first zones; default 8 (say no_conv for 0) */
  bool no_conv;
  uint64_t runt_bytes;          /* one more, shorter zone at the end */
  uint32_t lbs_bytes;           /* default 512 */
  uint32_t pbs_bytes;           /* default 4096 */
  bool host_aware;              /* sequential zones are "preferred" */
  bool no_urswrz;               /* reads at or behind the write pointer fail */
  uint64_t max_zeroes_bytes;    /* 0: BDEV_WRITE_ZEROES is not supported */
  bool no_reset_all;            /* BDEV_ZONE_RESET with BDEV_ALL fails */
};

struct fake {
  struct bdev bdev;             /* first: a struct fake is a struct bdev */
  pthread_mutex_t lock;
  struct bdev_zone *zones;      /* what the drive reports; tests may change it */
  uint32_t nr_zones;            /* runt included */
  uint8_t *data;                /* sparse mapping of size_bytes */
  bool no_urswrz, no_reset_all;

  /* Faults: 0 = none. */
  unsigned fail_report;         /* the n-th report from now on fails ... */
  int fail_report_errno;        /* ... with this */
  uint64_t fail_read_from, fail_read_to;        /* reads that touch [from, to) fail EIO */
  uint64_t fail_write_from, fail_write_to;
  uint32_t reset_all_skips;     /* zone that a reset of all forgets */
  uint32_t reset_lies;          /* zone that stays as it is whatever resets it */

  /* Called for each operation before it is done, when set; -1 (errno set)
     fails it. */
  int (*hook) (struct fake *fake, const struct bdev_req *req, void *opaque);
  void *hook_opaque;

  /* Counters. */
  uint64_t nr_ops[BDEV_NR_OPS];
  uint64_t nr_reports;
  uint64_t bytes_read, bytes_written, bytes_zeroed;
  uint64_t changes;             /* operations that changed anything */
};

/* Never NULL.  Freed by bdev_close (&fake->bdev). */
struct fake *fake_new (const struct fake_config *config);

/* Marks `blocks` 4096-byte blocks of a sequential zone as written (implicitly
   open, full at its end, empty at 0), without data. */
void fake_set_wp (struct fake *fake, uint32_t zone, uint64_t bytes);
void fake_set_cond (struct fake *fake, uint32_t zone, enum bdev_zone_cond cond);

#endif
