/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where the metadata of a volume lies and how large everything is.
 *
 * A set starts with its superblock, then the mapping table, then the bitmaps,
 * all contiguous.  Set 0 starts at the superblock zone, set 1 nr_meta_zones
 * behind it.  Every zone of the drive, whatever it is, has `zbm` bitmap
 * blocks of its own.  Plain data, pure functions.
 */
#ifndef ZONED_LAYOUT_H
#define ZONED_LAYOUT_H

#include <stdint.h>
#include "zoned/super.h"
#include "zoned/zones.h"

struct sh_error;

#define LAYOUT_RESERVED_DEFAULT 16u
#define MAP_ENTRIES  512u       /* of 8 bytes, in one map block */
#define MAP_ENTRY_BYTES 8u      /* data zone, buffer zone; ZONE_NONE where none */
#define BITMAP_BITS  32768u     /* in one bitmap block */

struct layout {
  uint32_t zone_blocks;
  uint32_t zbm;                 /* bitmap blocks a zone */
  uint32_t nr_zones;            /* all of them, runt included */
  uint32_t nr_usable;           /* full length, neither read-only nor offline */
  uint32_t nr_reserved;
  uint32_t nr_chunks;
  uint32_t nr_map_blocks;
  uint32_t nr_bitmap_blocks;
  uint32_t nr_meta_blocks;
  uint32_t nr_meta_zones;       /* of one set */
  uint32_t sb_zone;             /* first zone of set 0 */
};

/* The layout of a new volume with `reserved` zones wanted as reserve, by
   dmzadm's formula.  Refused with a reason that has the figures in it: no
   conventional zone, too few of them for the metadata or none left for data,
   a metadata zone that is read-only or offline, no room for the reserve.
   ENOTSUP, ENOSPC or EINVAL. */
int layout_make (const struct zone_table *table, uint32_t reserved,
                 struct layout *layout, struct sh_error *err);

/* The layout that a superblock found at the start of zone `sb_zone` (set 0) or
   of sb_zone + nr_meta_zones (set 1) states, checked against the drive: all
   that the kernel requires, and the counts of map and bitmap blocks, which it
   does not look at.  EINVAL with the reason. */
int layout_from_super (const struct zone_table *table, const struct super *super,
                       uint32_t sb_zone, struct layout *layout, struct sh_error *err);

/* Sizes of a layout into a superblock. */
void layout_to_super (const struct layout *layout, struct super *super);

/* Absolute block numbers on the drive; set is 0 or 1. */
static inline uint64_t
layout_set_block (const struct layout *l, int set)
{
  return ((uint64_t) l->sb_zone + (set ? l->nr_meta_zones : 0)) * l->zone_blocks;
}

static inline uint64_t
layout_map_block (const struct layout *l, int set)
{
  return layout_set_block (l, set) + 1;
}

static inline uint64_t
layout_bitmap_block (const struct layout *l, int set, uint32_t zone)
{
  return layout_set_block (l, set) + 1 + l->nr_map_blocks + (uint64_t) zone * l->zbm;
}

/* One of the 2 * nr_meta_zones zones of the sets. */
static inline bool
layout_is_meta_zone (const struct layout *l, uint32_t zone)
{
  return zone >= l->sb_zone && zone - l->sb_zone < 2 * l->nr_meta_zones;
}

static inline uint64_t
layout_volume_bytes (const struct layout *l)
{
  return (uint64_t) l->nr_chunks * l->zone_blocks * BLOCK_BYTES;
}

#endif
