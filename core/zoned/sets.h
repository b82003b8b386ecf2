/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds the two metadata sets of a volume and says which one counts.
 */
#ifndef ZONED_SETS_H
#define ZONED_SETS_H

#include <stdbool.h>
#include <stdint.h>
#include "base/bdev.h"
#include "zoned/layout.h"
#include "zoned/super.h"
#include "zoned/zones.h"

struct sh_error;

struct meta_set {
  bool good;                    /* superblock sound, sizes fit the drive */
  bool present;                 /* its block carries the magic number */
  struct super super;           /* valid when good */
  char why[256];                /* what is wrong when not good */
  uint8_t block[BLOCK_BYTES];   /* the superblock as read; zero where unreadable */
};

struct meta_sets {
  struct meta_set set[2];
  int primary;                  /* the set that counts: higher generation, 0 on a tie */
  struct layout layout;         /* from the primary */
};

/* Reads both superblocks.  Set 0 is at the first conventional zone that is in
 * good condition (as the kernel looks for it) or, where that one holds none,
 * at the first conventional zone.  When superblock 0 is bad, set 1 is looked
 * for at every place where the geometry lets it be.  A set of another volume,
 * or of other sizes than the primary's, is not good.
 *
 * -1 with err (and sets->set[].why filled): EINVAL no set is good; errno of a
 * failed read when that is why.  sets->set[i].present tells whether there was
 * a volume once. */
int meta_sets_read (struct bdev *bdev, const struct zone_table *table,
                    struct meta_sets *sets, struct sh_error *err);

#endif
