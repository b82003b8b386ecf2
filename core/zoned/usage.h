/* SPDX-License-Identifier: BSD-3-Clause */
/* Who uses which zone, from the mapping table of the set that counts: for
 * people who look at a drive.  Trusts nothing, refuses nothing. */
#ifndef ZONED_USAGE_H
#define ZONED_USAGE_H

#include <stdint.h>
#include "base/bdev.h"
#include "zoned/sets.h"
#include "zoned/zones.h"

struct sh_error;

enum zone_use {
  USE_FREE,
  USE_METADATA,
  USE_DATA,
  USE_BUFFER,
  USE_NONE,                     /* runt, or free but read-only or offline */
};

struct usage {
  uint32_t *chunk;              /* nr_zones; of zones in use, else ZONE_NONE */
  uint8_t *use;                 /* nr_zones; enum zone_use */
  uint32_t chunks_mapped, chunks_buffered;
  uint32_t random, random_free; /* data zones in good condition, metadata left out */
  uint32_t seq, seq_free;
  uint32_t bad_entries;         /* that name impossible zones, or one twice */
};

/* 0, or -1 with err (a map block that cannot be read, ENOMEM). */
int usage_read (struct bdev *bdev, const struct zone_table *table,
                const struct meta_sets *sets, struct usage *usage,
                struct sh_error *err);
void usage_free (struct usage *usage);

/* Valid blocks of all zones: reads the bitmaps of the zones in use. */
int usage_count_valid (struct bdev *bdev, const struct zone_table *table,
                       const struct meta_sets *sets, const struct usage *usage,
                       uint64_t *blocks, struct sh_error *err);

#endif
