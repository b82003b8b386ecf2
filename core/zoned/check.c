/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The order: superblocks, map, bitmaps, then (repair) superblocks and free
 * zones.  Repair mends each block where it stands, without a new generation:
 * every single block it writes is better than what was there, so an
 * interrupted repair is finished by the next one.  A set that does not count
 * gets its superblock last, and zones are reset only after the metadata that
 * says they are free is durable.
 */
#include <config.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/bytes.h"
#include "base/error.h"
#include "zoned/check-impl.h"

void
check_say (struct check *c, enum check_kind kind, const char *fmt, ...)
{
  char text[512];
  va_list ap;

  if (kind == CHECK_ERROR)
    c->r->errors++;
  else
    c->r->notes++;
  if (c->o->report == NULL)
    return;
  va_start (ap, fmt);
  vsnprintf (text, sizeof text, fmt, ap);
  va_end (ap);
  c->o->report (c->o->report_opaque, kind, text);
}

const char *
check_set_name (int set)
{
  return set ? "set 1" : "set 0";
}

/* --- blocks of the sets --- */

static int
set_number (const struct check *c, int from)
{
  return from == FROM_BASE ? c->base : c->other;
}

static uint64_t
place_bytes (const struct check *c, int from, uint32_t block)
{
  return (layout_set_block (c->l, set_number (c, from)) + block) * BLOCK_BYTES;
}

void
check_read (struct check *c, int from, uint32_t first, uint32_t nr,
            uint8_t *buf, bool *ok)
{
  uint32_t i;

  if (bdev_read (c->bdev, buf, (uint64_t) nr * BLOCK_BYTES,
                 place_bytes (c, from, first)) == 0) {
    memset (ok, true, nr);
    return;
  }
  for (i = 0; i < nr; ++i) {
    uint8_t *const to = buf + (size_t) i * BLOCK_BYTES;

    ok[i] = bdev_read (c->bdev, to, BLOCK_BYTES, place_bytes (c, from, first + i)) == 0;
    if (!ok[i]) {
      memset (to, 0, BLOCK_BYTES);
      check_say (c, CHECK_ERROR, "%s: metadata block %" PRIu32 " (block %" PRIu64
                 " of the drive) cannot be read: %s",
                 check_set_name (set_number (c, from)), first + i,
                 place_bytes (c, from, first + i) / BLOCK_BYTES, sh_drive_error (errno));
    }
  }
}

void
check_read_window (struct check *c, uint32_t first, uint32_t nr)
{
  struct window *w = &c->w;

  w->first = first;
  w->nr = nr;
  check_read (c, FROM_BASE, first, nr, w->have[FROM_BASE], w->ok[FROM_BASE]);
  if (c->compare || c->o->repair)
    check_read (c, FROM_OTHER, first, nr, w->have[FROM_OTHER], w->ok[FROM_OTHER]);
  sh_progress (c->o->progress, c->o->repair ? "checking and repairing" : "checking",
               first, c->l->nr_meta_blocks);
}

static bool
needs_write (const struct window *w, int from, uint32_t i)
{
  return !w->ok[from][i] ||
         memcmp (w->have[from] + (size_t) i * BLOCK_BYTES,
                 w->want + (size_t) i * BLOCK_BYTES, BLOCK_BYTES) != 0;
}

static int
write_run (struct check *c, int from, uint32_t i, uint32_t n)
{
  if (bdev_write (c->bdev, c->w.want + (size_t) i * BLOCK_BYTES, (uint64_t) n * BLOCK_BYTES,
                  place_bytes (c, from, c->w.first + i), 0) == -1)
    return sh_fail (c->err, errno, "%s: writing metadata block %" PRIu32 " of %s failed: %s",
                    c->bdev->info.name, c->w.first + i,
                    check_set_name (set_number (c, from)), sh_drive_error (errno));
  c->r->repaired += n;
  return 0;
}

int
check_write_window (struct check *c)
{
  const struct window *w = &c->w;
  int from;

  if (!c->o->repair)
    return 0;
  for (from = FROM_BASE; from <= FROM_OTHER; ++from) {
    uint32_t i = 0, end;

    while (i < w->nr) {
      for (end = i; end < w->nr && needs_write (w, from, end); ++end)
        ;
      if (end > i && write_run (c, from, i, end - i) == -1)
        return -1;
      i = end + 1;
    }
  }
  return 0;
}

/* --- superblocks --- */

static void
check_supers (struct check *c)
{
  const struct meta_set *base = &c->sets.set[c->base], *other = &c->sets.set[c->other];
  const char *const b = check_set_name (c->base), *const o = check_set_name (c->other);

  if (!other->good) {
    check_say (c, CHECK_ERROR, "%s: the superblock is bad: %s; %s counts", o, other->why, b);
    return;
  }
  if (base->super.gen == other->super.gen)
    c->compare = true;
  else
    check_say (c, CHECK_NOTE, "%s is at generation %" PRIu64 ", %s at %" PRIu64
               ": the volume was not closed in order; %s counts",
               o, other->super.gen, b, base->super.gen, b);
}

/* Sound for us, but with something to say. */
static void
note_layout (struct check *c)
{
  const struct layout *l = c->l;
  struct sh_error err = { 0 };
  struct layout fresh;

  if ((uint64_t) l->nr_chunks + 2 * l->nr_meta_zones + l->nr_reserved > l->nr_usable)
    check_say (c, CHECK_NOTE, "%" PRIu32 " zones went bad after the format; the kernel's "
               "dm-zoned refuses the volume for that, Shingle does not", c->table->nr_bad);
  else if (layout_make (c->table, l->nr_reserved, &fresh, &err) == 0 &&
           fresh.nr_chunks > l->nr_chunks)
    check_say (c, CHECK_NOTE, "the volume has %" PRIu32 " chunks; the drive could hold %"
               PRIu32, l->nr_chunks, fresh.nr_chunks);
  if (c->table->runt)
    check_say (c, CHECK_NOTE, "the last zone is shorter than the others: do not give this "
               "volume to the kernel's dm-zoned");
}

/* The second set's superblock, as a copy of the first's. */
static int
mend_super (struct check *c)
{
  const struct meta_set *base = &c->sets.set[c->base], *other = &c->sets.set[c->other];
  const uint64_t place = layout_set_block (c->l, c->other);
  struct super super = base->super;
  uint8_t *const block = c->w.want;

  memcpy (block, base->block, BLOCK_BYTES);
  super.sb_block = place;
  super_encode (&super, block);
  if (other->good && memcmp (block, other->block, BLOCK_BYTES) == 0)
    return 0;
  if (bdev_write (c->bdev, block, BLOCK_BYTES, place * BLOCK_BYTES, 0) == -1)
    return sh_fail (c->err, errno, "%s: writing the superblock of %s failed: %s",
                    c->bdev->info.name, check_set_name (c->other), sh_drive_error (errno));
  c->r->repaired++;
  return 0;
}

/* --- zones --- */

static int
reset_zone (struct check *c, uint32_t id)
{
  if (bdev_zone_reset (c->bdev, zone_start_bytes (c->table, id)) == -1)
    return sh_fail (c->err, errno, "%s: resetting zone %" PRIu32 " failed: %s",
                    c->bdev->info.name, id, sh_drive_error (errno));
  c->r->repaired++;
  return 0;
}

/* A free sequential zone is empty after an orderly close; a power cut between
   copy and commit, or between commit and reset, leaves it written. */
static int
check_free_seq (struct check *c, uint32_t id)
{
  const struct zone *z = &c->table->zones[id];

  c->r->seq_free++;
  if (z->cond == ZONE_EMPTY)
    return 0;
  if (z->wp > 0 || z->wp_odd)
    check_say (c, CHECK_NOTE, "zone %" PRIu32 " is free but not empty (%s, %" PRIu32
               " blocks written)", id, zone_cond_name (z->cond), z->wp);
  return c->o->repair ? reset_zone (c, id) : 0;
}

static void
note_bad_zone (struct check *c, uint32_t id)
{
  const char *const cond = zone_cond_name (c->table->zones[id].cond);

  if (layout_is_meta_zone (c->l, id))
    check_say (c, CHECK_NOTE, "zone %" PRIu32 " (metadata) is %s", id, cond);
  else if (c->owner[id] != ZONE_NONE)
    check_say (c, CHECK_NOTE, "zone %" PRIu32 " (%s of chunk %" PRIu32 ") is %s", id,
               c->owner[id] & 1 ? "buffer zone" : "data zone", c->owner[id] / 2, cond);
}

static int
check_zones (struct check *c)
{
  uint32_t id;

  for (id = 0; id < c->table->nr_zones; ++id) {
    if (zone_is_bad (c->table, id))
      note_bad_zone (c, id);
    if (zone_is_runt (c->table, id) || layout_is_meta_zone (c->l, id))
      continue;
    if (c->owner[id] != ZONE_NONE) {
      c->r->random_used += zone_is_random (c->table, id);
      c->r->seq_used += zone_is_seq (c->table, id);
    }
    else if (zone_is_bad (c->table, id))
      continue;
    else if (zone_is_random (c->table, id))
      c->r->random_free++;
    else if (check_free_seq (c, id) == -1)
      return -1;
  }
  return 0;
}

/* --- all of it --- */

static int
flush (struct check *c)
{
  if (bdev_flush (c->bdev) == -1)
    return sh_fail (c->err, errno, "%s: flushing the write cache failed: %s",
                    c->bdev->info.name, sh_drive_error (errno));
  return 0;
}

static int
allocate (struct check *c)
{
  const size_t window = (size_t) WINDOW_BLOCKS * BLOCK_BYTES;

  c->owner = malloc ((size_t) c->l->nr_zones * sizeof *c->owner);
  c->data = malloc ((size_t) c->l->nr_chunks * sizeof *c->data);
  c->buffer = malloc ((size_t) c->l->nr_chunks * sizeof *c->buffer);
  c->w.have[0] = aligned_alloc (BLOCK_BYTES, window);
  c->w.have[1] = aligned_alloc (BLOCK_BYTES, window);
  c->w.want = aligned_alloc (BLOCK_BYTES, window);
  if (!c->owner || !c->data || !c->buffer || !c->w.have[0] || !c->w.have[1] || !c->w.want)
    return sh_fail (c->err, ENOMEM, "no memory to check a volume of %" PRIu32 " chunks",
                    c->l->nr_chunks);
  memset (c->owner, 0xff, (size_t) c->l->nr_zones * sizeof *c->owner);
  return 0;
}

static void
release (struct check *c)
{
  zone_table_free (c->table);
  free (c->owner);
  free (c->data);
  free (c->buffer);
  free (c->w.have[0]);
  free (c->w.have[1]);
  free (c->w.want);
}

static int
run (struct check *c)
{
  if (allocate (c) == -1)
    return -1;
  check_supers (c);
  note_layout (c);
  if (check_map (c) == -1 || check_bitmaps (c) == -1)
    return -1;
  if (c->o->repair && flush (c) == -1)
    return -1;
  if (c->o->repair && c->r->unrepaired == 0 && (mend_super (c) == -1 || flush (c) == -1))
    return -1;
  if (check_zones (c) == -1)
    return -1;
  if (c->o->repair && flush (c) == -1)
    return -1;
  sh_progress (c->o->progress, c->o->repair ? "checking and repairing" : "checking",
               c->l->nr_meta_blocks, c->l->nr_meta_blocks);
  return 0;
}

int
check_volume (struct bdev *bdev, const struct check_options *options,
              struct check_result *result, struct sh_error *err)
{
  struct check *c = calloc (1, sizeof *c);
  int r = -1;

  memset (result, 0, sizeof *result);
  if (c == NULL)
    return sh_fail (err, ENOMEM, "no memory for a check");
  c->bdev = bdev;
  c->o = options;
  c->r = result;
  c->err = err;
  c->l = &c->sets.layout;
  if (options->repair && bdev->info.read_only)
    sh_fail (err, EROFS, "%s: the drive is write protected: nothing can be repaired",
             bdev->info.name);
  else if (zone_table_read (bdev, &c->table, err) == 0 &&
           meta_sets_read (bdev, c->table, &c->sets, err) == 0) {
    c->base = c->sets.primary;
    c->other = !c->base;
    result->layout = c->sets.layout;
    result->super = c->sets.set[c->base].super;
    result->primary = c->base;
    r = run (c);
  }
  release (c);
  free (c);
  if (r == -1)
    errno = err->errnum;
  return r;
}
