/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Offline check and repair of a volume's metadata.  Data is not looked at.
 *
 * What is checked: superblocks, the mapping table, the bitmaps against the map
 * and the write pointers, both sets against each other, free zones.  The
 * volume is not in use meanwhile (the caller opened the drive exclusively).
 *
 * Memory: 12 bytes a zone and 24 a chunk at most, and three buffers of 1 MiB;
 * the bitmaps are streamed.
 */
#ifndef ZONED_CHECK_H
#define ZONED_CHECK_H

#include <stdbool.h>
#include <stdint.h>
#include "base/bdev.h"
#include "base/log.h"
#include "base/progress.h"
#include "zoned/layout.h"
#include "zoned/super.h"

struct sh_error;

enum check_kind {
  CHECK_NOTE,                   /* legal, worth saying: what a power cut leaves */
  CHECK_ERROR,                  /* wrong; repair mends it unless it says otherwise */
};

struct check_options {
  bool repair;
  /* One line for each finding, without a newline.  May be NULL. */
  void (*report) (void *opaque, enum check_kind kind, const char *text);
  void *report_opaque;
  const struct sh_progress *progress;   /* may be NULL */
};

struct check_result {
  uint64_t errors, notes;
  uint64_t repaired;            /* blocks rewritten and zones reset */
  uint64_t unrepaired;          /* errors that repair could not mend */

  struct layout layout;
  struct super super;           /* of the set that counts */
  int primary;
  uint32_t chunks_mapped, chunks_buffered;
  uint32_t random_free, random_used, seq_free, seq_used;        /* data zones */
  uint64_t valid_blocks;
};

/* 0: the check ran to its end; the result says what it found (and, with
   repair, did).  -1 with err: there is nothing to check (no volume, neither
   superblock usable), or the drive failed. */
int check_volume (struct bdev *bdev, const struct check_options *options,
                  struct check_result *result, struct sh_error *err);

#endif
