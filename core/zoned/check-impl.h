/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by check.c, check-map.c and check-bitmap.c only. */
#ifndef ZONED_CHECK_IMPL_H
#define ZONED_CHECK_IMPL_H

#include "zoned/check.h"
#include "zoned/sets.h"
#include "zoned/zones.h"

#define WINDOW_BLOCKS 256u      /* read at a time: 1 MiB */

/* A run of metadata blocks of both sets. */
struct window {
  uint32_t first;               /* relative to the start of a set */
  uint32_t nr;
  uint8_t *have[2];             /* as read from base and other: index FROM_* */
  bool ok[2][WINDOW_BLOCKS];    /* could be read */
  uint8_t *want;                /* what should be there */
};
#define FROM_BASE  0
#define FROM_OTHER 1

/* Who uses a zone: chunk * 2 + (1 for its buffer zone); ZONE_NONE: nobody. */
typedef uint32_t owner_t;

struct check {
  struct bdev *bdev;
  const struct check_options *o;
  struct check_result *r;
  struct sh_error *err;
  struct zone_table *table;
  struct meta_sets sets;
  const struct layout *l;
  int base, other;              /* set numbers: the one that counts, and the second */
  bool compare;                 /* both sound and of one generation: must be equal */
  owner_t *owner;               /* nr_zones */
  uint32_t *data, *buffer;      /* nr_chunks each: the map as it should be */
  struct window w;
};

void check_say (struct check *c, enum check_kind kind, const char *fmt, ...)
  __attribute__ ((format (printf, 3, 4)));

/* Reads blocks of set base or other (from: FROM_*), piecewise where the drive
   cannot read some; those are zero and not ok. */
void check_read (struct check *c, int from, uint32_t first, uint32_t nr,
                 uint8_t *buf, bool *ok);

/* Reads window [first, first + nr) of both sets; the other one only where it is
   compared or rewritten. */
void check_read_window (struct check *c, uint32_t first, uint32_t nr);

/* With repair: writes c->w.want wherever a set has something else. */
int check_write_window (struct check *c);

/* "set 0" or "set 1". */
const char *check_set_name (int set);

int check_map (struct check *c);
int check_bitmaps (struct check *c);

#endif
