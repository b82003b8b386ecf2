/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The formula.  NC is the number of zones that dmzadm calls cache zones:
 * conventional and (on host-aware drives) sequential write preferred.  dmzadm
 * counts them whatever their condition; we leave out the read-only and offline
 * ones, because the kernel does when it opens the volume and would otherwise
 * refuse it.  On a drive without such zones the result is dmzadm's.
 */
#include <config.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include "base/bytes.h"
#include "base/error.h"
#include "zoned/layout.h"

#define RANDOM_MIN 3            /* two for metadata, one for data */

struct counts {
  uint32_t usable;              /* U */
  uint32_t cache;               /* NC */
  uint32_t random;              /* conventional ones among them */
  uint32_t first_random;        /* the kernel's superblock zone; ZONE_NONE */
};

static struct counts
count_zones (const struct zone_table *table)
{
  struct counts c = { .first_random = ZONE_NONE };
  uint32_t id;

  for (id = 0; id < table->nr_zones; ++id) {
    if (zone_is_runt (table, id) || zone_is_bad (table, id))
      continue;
    c.usable++;
    if (table->zones[id].type != ZONE_SEQ_REQUIRED)
      c.cache++;
    if (zone_is_random (table, id)) {
      c.random++;
      if (c.first_random == ZONE_NONE)
        c.first_random = id;
    }
  }
  return c;
}

static uint32_t
bitmap_blocks_per_zone (uint32_t zone_blocks)
{
  return MAX (1u, zone_blocks / BITMAP_BITS);
}

static int
refuse_few_random (const struct counts *c, struct sh_error *err)
{
  if (c->random == 0)
    sh_fail (err, ENOTSUP, "the drive has no usable conventional zone: there is no randomly "
             "writable space for the metadata");
  else
    sh_fail (err, ENOSPC, "the drive has %" PRIu32 " usable conventional zone%s; at least "
             "%d are needed: two for the metadata and one for data",
             c->random, c->random == 1 ? "" : "s", RANDOM_MIN);
  return sh_hint (err, "a drive like this needs a second, ordinary device beside it for the "
                  "metadata, which Shingle does not support");
}

/* The kernel looks for the sets at the first good conventional zone, so there
   they must fit. */
static int
check_meta_zones (const struct zone_table *table, const struct counts *c,
                  const struct layout *l, struct sh_error *err)
{
  uint32_t id;

  for (id = l->sb_zone; id < l->sb_zone + 2 * l->nr_meta_zones; ++id) {
    if (id < table->nr_zones && zone_is_random (table, id) && !zone_is_bad (table, id))
      continue;
    sh_fail (err, ENOSPC, "the metadata needs the %" PRIu32 " conventional zones "
             "from zone %" PRIu32 " on, but zone %" PRIu32 " is %s",
             2 * l->nr_meta_zones, l->sb_zone, id,
             id >= table->nr_zones ? "behind the end of the drive" :
             zone_is_runt (table, id) ? "shorter than the others" :
             zone_is_random (table, id) ? zone_cond_name (table->zones[id].cond) :
             zone_type_name (table->zones[id].type));
    return sh_hint (err, "both metadata sets lie in one run that starts at the first good "
                    "conventional zone; this drive cannot offer it");
  }
  if (c->random == 2 * l->nr_meta_zones) {
    sh_fail (err, ENOSPC, "the metadata takes all %" PRIu32 " usable conventional zones; at "
             "least one must be left for data", c->random);
    return sh_hint (err, "the drive has too few conventional zones for its %" PRIu32
                    " zones", table->nr_zones);
  }
  return 0;
}

static int
refuse_no_room (const struct counts *c, uint32_t reserved, struct sh_error *err)
{
  sh_fail (err, ENOSPC, "the drive is too small: %" PRIu32 " usable zones do not hold the "
           "metadata, a reserve of %" PRIu32 " and one chunk", c->usable, reserved);
  return sh_hint (err, "a smaller reserve (--reserved) may fit");
}

int
layout_make (const struct zone_table *table, uint32_t reserved,
             struct layout *layout, struct sh_error *err)
{
  const struct counts c = count_zones (table);
  const uint32_t zb = table->zone_blocks;
  struct layout l = { .zone_blocks = zb, .nr_zones = table->nr_zones };
  uint64_t bitmap, estimate, meta_zones;

  if (reserved == 0)
    return sh_fail (err, EINVAL, "the reserve must be at least 1 zone");
  if (c.random < RANDOM_MIN)
    return refuse_few_random (&c, err);
  if (reserved > c.cache)
    reserved = c.cache - 1;
  l.zbm = bitmap_blocks_per_zone (zb);
  bitmap = (uint64_t) l.zbm * table->nr_zones;
  if (DIV_ROUND_UP (bitmap, zb) + reserved >= c.usable)
    return refuse_no_room (&c, reserved, err);
  estimate = c.usable - (DIV_ROUND_UP (bitmap, zb) + reserved);
  meta_zones = DIV_ROUND_UP (1 + DIV_ROUND_UP (estimate, MAP_ENTRIES) + bitmap, zb);
  if (2 * meta_zones > c.random) {
    sh_fail (err, ENOSPC, "the metadata of %" PRIu32 " zones needs %" PRIu64
             " conventional zones and one must be left for data; the drive has %" PRIu32
             " usable ones", table->nr_zones, 2 * meta_zones, c.random);
    return sh_hint (err, "the drive has too few conventional zones for its size");
  }
  if (2 * meta_zones + reserved >= c.usable)
    return refuse_no_room (&c, reserved, err);

  l.nr_usable = c.usable;
  l.nr_reserved = reserved;
  l.sb_zone = c.first_random;
  l.nr_chunks = c.usable - (2 * meta_zones + reserved);
  l.nr_map_blocks = DIV_ROUND_UP (l.nr_chunks, MAP_ENTRIES);
  l.nr_bitmap_blocks = bitmap;
  l.nr_meta_blocks = 1 + l.nr_map_blocks + l.nr_bitmap_blocks;
  l.nr_meta_zones = DIV_ROUND_UP (l.nr_meta_blocks, zb);
  if (check_meta_zones (table, &c, &l, err) == -1)
    return -1;
  *layout = l;
  return 0;
}

#define REFUSE(err, fmt, ...) sh_fail (err, EINVAL, "the superblock " fmt, __VA_ARGS__)

/* The counts of blocks must follow from each other and from the drive. */
static int
check_counts (const struct layout *l, const struct super *s, struct sh_error *err)
{
  const uint64_t bitmap = (uint64_t) l->zbm * l->nr_zones;

  if (s->nr_chunks == 0 || s->nr_chunks > l->nr_zones)
    return REFUSE (err, "says %" PRIu32 " chunks on a drive of %" PRIu32 " zones",
                   s->nr_chunks, l->nr_zones);
  if (s->nr_map_blocks != DIV_ROUND_UP (s->nr_chunks, MAP_ENTRIES))
    return REFUSE (err, "says %" PRIu32 " map blocks, but %" PRIu32 " chunks need %" PRIu32,
                   s->nr_map_blocks, s->nr_chunks, DIV_ROUND_UP (s->nr_chunks, MAP_ENTRIES));
  if (s->nr_bitmap_blocks != bitmap)
    return REFUSE (err, "says %" PRIu32 " bitmap blocks, but %" PRIu32 " zones of %" PRIu32
                   " blocks need %" PRIu64,
                   s->nr_bitmap_blocks, l->nr_zones, l->zone_blocks, bitmap);
  if (s->nr_meta_blocks != UINT64_C (1) + s->nr_map_blocks + s->nr_bitmap_blocks)
    return REFUSE (err, "says %" PRIu32 " metadata blocks, but the parts add up to %" PRIu64,
                   s->nr_meta_blocks, UINT64_C (1) + s->nr_map_blocks + s->nr_bitmap_blocks);
  return 0;
}

/* Reserve, metadata and chunks must fit on the drive.  The kernel counts only
   zones in good condition; we count all, so that a drive on which one zone
   went bad can still be opened. */
static int
check_fit (const struct zone_table *table, const struct layout *l, struct sh_error *err)
{
  const uint64_t full = table->nr_zones - table->runt;
  uint64_t id, end;

  if (l->nr_meta_zones >= table->nr_random)
    return REFUSE (err, "needs %" PRIu32 " zones a metadata set, but the drive has %" PRIu32
                   " conventional zones", l->nr_meta_zones, table->nr_random);
  if (l->nr_reserved == 0 || l->nr_reserved >= full - l->nr_meta_zones)
    return REFUSE (err, "says a reserve of %" PRIu32 " zones, impossible on this drive",
                   l->nr_reserved);
  if (l->nr_chunks + 2 * (uint64_t) l->nr_meta_zones + l->nr_reserved > full)
    return REFUSE (err, "says %" PRIu32 " chunks, %" PRIu32 " metadata and %" PRIu32
                   " reserved zones, more than the drive's %" PRIu64 " zones",
                   l->nr_chunks, 2 * l->nr_meta_zones, l->nr_reserved, full);
  end = l->sb_zone + 2 * (uint64_t) l->nr_meta_zones;
  for (id = l->sb_zone; id < end; ++id)
    if (id >= table->nr_zones || !zone_is_random (table, id))
      return REFUSE (err, "puts metadata into zone %" PRIu64 ", which is not a "
                     "conventional zone of this drive", id);
  return 0;
}

int
layout_from_super (const struct zone_table *table, const struct super *super,
                   uint32_t sb_zone, struct layout *layout, struct sh_error *err)
{
  struct layout l = {
    .zone_blocks = table->zone_blocks,
    .zbm = bitmap_blocks_per_zone (table->zone_blocks),
    .nr_zones = table->nr_zones,
    .nr_usable = table->nr_zones - table->runt - table->nr_bad,
    .nr_reserved = super->nr_reserved,
    .nr_chunks = super->nr_chunks,
    .nr_map_blocks = super->nr_map_blocks,
    .nr_bitmap_blocks = super->nr_bitmap_blocks,
    .nr_meta_blocks = super->nr_meta_blocks,
    .nr_meta_zones = DIV_ROUND_UP (super->nr_meta_blocks, table->zone_blocks),
    .sb_zone = sb_zone,
  };

  if (check_counts (&l, super, err) == -1 || check_fit (table, &l, err) == -1)
    return -1;
  *layout = l;
  return 0;
}

void
layout_to_super (const struct layout *layout, struct super *super)
{
  super->nr_meta_blocks = layout->nr_meta_blocks;
  super->nr_reserved = layout->nr_reserved;
  super->nr_chunks = layout->nr_chunks;
  super->nr_map_blocks = layout->nr_map_blocks;
  super->nr_bitmap_blocks = layout->nr_bitmap_blocks;
}
