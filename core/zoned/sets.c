/* SPDX-License-Identifier: BSD-3-Clause */
#include <config.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "base/bytes.h"
#include "base/error.h"
#include "zoned/sets.h"

/* First conventional zone: of those in good condition, or of all. */
static uint32_t
first_random (const struct zone_table *table, bool good)
{
  uint32_t id;

  for (id = 0; id < table->nr_zones; ++id)
    if (zone_is_random (table, id) && !(good && zone_is_bad (table, id)))
      return id;
  return ZONE_NONE;
}

static void
say_why (struct meta_set *set, const char *what, const char *more)
{
  snprintf (set->why, sizeof set->why, "%.120s%.130s", what, more);
}

/* Reads what should be the superblock of set `nr` in zone `zone` and judges
   it; `layout` is what it states, when it is good.  Returns an errno of a
   failed read, else 0. */
static int
read_set (struct bdev *bdev, const struct zone_table *table, uint32_t sb_zone,
          uint32_t zone, struct meta_set *set, struct layout *layout)
{
  struct sh_error err = { 0 };
  const char *wrong;

  memset (set, 0, sizeof *set);
  if (zone >= table->nr_zones || !zone_is_random (table, zone)) {
    say_why (set, "", "there is no conventional zone for it");
    return 0;
  }
  if (bdev_read (bdev, set->block, BLOCK_BYTES, zone_start_bytes (table, zone)) == -1) {
    const int e = errno;

    memset (set->block, 0, sizeof set->block);
    say_why (set, "it cannot be read: ", sh_drive_error (e));
    return e;
  }
  super_decode (set->block, &set->super);
  set->present = set->super.magic == SUPER_MAGIC;
  wrong = super_verify (set->block, &set->super, zone_start_block (table, zone));
  if (wrong != NULL)
    say_why (set, "", wrong);
  else if (layout_from_super (table, &set->super, sb_zone, layout, &err) == -1)
    say_why (set, "", err.message);
  else
    set->good = true;
  return 0;
}

/* Superblock 0 is bad: set 1 lies nr_meta_zones behind it, and the geometry
   leaves few values for that. */
static int
search_set_1 (struct bdev *bdev, const struct zone_table *table, uint32_t sb_zone,
              struct meta_set *set, struct layout *layout)
{
  const uint64_t zbm = MAX (1u, table->zone_blocks / BITMAP_BITS);
  const uint64_t bitmap = zbm * table->nr_zones;
  const uint64_t least = DIV_ROUND_UP (1 + 1 + bitmap, table->zone_blocks);
  const uint64_t most = DIV_ROUND_UP (1 + DIV_ROUND_UP (table->nr_zones, MAP_ENTRIES) + bitmap,
                                      table->zone_blocks);
  bool present = false;
  uint64_t distance;
  int failed = 0, e;

  for (distance = least; distance <= most; ++distance) {
    if (sb_zone + distance >= table->nr_zones)
      break;
    e = read_set (bdev, table, sb_zone, sb_zone + distance, set, layout);
    failed = failed ? failed : e;
    if (set->good && layout->nr_meta_zones == distance)
      return 0;
    present = present || set->present;
    set->good = false;
  }
  set->present = present;
  if (set->why[0] == '\0')
    say_why (set, "", "it was not found");
  return failed;
}

/* Both sets of a volume whose first zone is `sb_zone`.  Returns an errno of a
   failed read, else 0. */
static int
read_pair (struct bdev *bdev, const struct zone_table *table, uint32_t sb_zone,
           struct meta_sets *sets)
{
  struct meta_set *const s = sets->set;
  struct layout layout[2] = { 0 };
  int e, e1;

  e = read_set (bdev, table, sb_zone, sb_zone, &s[0], &layout[0]);
  if (s[0].good)
    e1 = read_set (bdev, table, sb_zone, sb_zone + layout[0].nr_meta_zones,
                   &s[1], &layout[1]);
  else
    e1 = search_set_1 (bdev, table, sb_zone, &s[1], &layout[1]);
  sets->primary = s[1].good && (!s[0].good || s[1].super.gen > s[0].super.gen);
  if (s[0].good && s[1].good && !super_same_volume (&s[0].super, &s[1].super)) {
    /* Set 0 found set 1's place, so it is the one to believe. */
    s[1].good = false;
    say_why (&s[1], "", "it belongs to another volume, or its sizes differ from set 0's");
    sets->primary = 0;
  }
  sets->layout = layout[sets->primary];
  return e ? e : e1;
}

static int
no_set (const struct bdev *bdev, const struct meta_sets *sets, int errnum,
        struct sh_error *err)
{
  if (!sets->set[0].present && !sets->set[1].present && errnum == 0) {
    sh_fail (err, EINVAL, "%s: there is no dm-zoned volume on this drive", bdev->info.name);
    return sh_hint (err, "'shingle format' makes one; it destroys what is on the drive");
  }
  sh_fail (err, errnum ? errnum : EINVAL,
           "%s: neither superblock can be used (set 0: %s; set 1: %s)",
           bdev->info.name, sets->set[0].why, sets->set[1].why);
  return sh_hint (err, "the volume cannot be opened or repaired; if the drive is the right "
                  "one, its metadata is lost");
}

int
meta_sets_read (struct bdev *bdev, const struct zone_table *table,
                struct meta_sets *sets, struct sh_error *err)
{
  const uint32_t good = first_random (table, true), any = first_random (table, false);
  int e = 0;

  memset (sets, 0, sizeof *sets);
  if (good != ZONE_NONE) {
    e = read_pair (bdev, table, good, sets);
    if (sets->set[0].good && sets->set[1].good)
      return 0;
  }
  else {
    say_why (&sets->set[0], "", "the drive has no usable conventional zone");
    sets->set[1] = sets->set[0];
  }
  /* The zone of set 0 may have gone bad after the format: then what stands at
     the first good zone is set 1, or nothing. */
  if (any != good) {
    struct meta_sets other = { 0 };

    read_pair (bdev, table, any, &other);
    if (other.set[0].good || other.set[1].good ||
        !(sets->set[0].good || sets->set[1].good))
      *sets = other;
  }
  if (sets->set[0].good || sets->set[1].good)
    return 0;
  return no_set (bdev, sets, e, err);
}
