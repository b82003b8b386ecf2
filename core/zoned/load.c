/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Loading a volume: the zone report, both superblocks, the mapping table.  No
 * bitmap is read here; bits.c reads those that are needed.
 *
 * A table entry that makes no sense takes its chunk out of service (I/O to it
 * fails with EIO) and leaves every zone that it names alone.
 */
#include <config.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "zoned/running.h"

#define LOAD_BLOCKS 256u        /* map blocks of one read */

static int
no_memory (struct sh_volume *v, struct sh_error *err)
{
  return sh_fail (err, ENOMEM, "%s: not enough memory to load the volume",
                  v->bdev->info.name);
}

/* ---- zones ---- */

static void
init_zone (struct sh_volume *v, uint32_t z)
{
  const struct zone *const d = &v->table->zones[z];
  struct rzone *const zone = &v->zones[z];

  *zone = (struct rzone) {
    .wp = v->l.zone_blocks,
    .chunk = CHUNK_NONE,
    .next = ZONE_NONE,
    .flags = RZ_UNCHECKED,
    .state = ZS_UNUSABLE,
  };
  if (zone_is_seq (v->table, z)) {
    zone->flags |= RZ_SEQ;
    if (!d->wp_unknown && d->cond != ZONE_OFFLINE)
      zone->wp = d->wp;
    if (d->wp_odd || d->wp_unknown)
      zone->flags |= RZ_NO_APPEND;
  }
  if (d->cond == ZONE_READ_ONLY)
    zone->flags |= RZ_READ_ONLY;
  if (d->cond == ZONE_OFFLINE)
    zone->flags |= RZ_OFFLINE;
}

static void
init_zones (struct sh_volume *v)
{
  uint32_t z;

  for (z = 0; z < v->l.nr_zones; ++z) {
    init_zone (v, z);
    if (layout_is_meta_zone (&v->l, z))
      v->zones[z].state = ZS_META;
    else if (!zone_is_runt (v->table, z)) {
      if (v->zones[z].flags & RZ_SEQ)
        v->nr_seq++;
      else
        v->random[v->nr_random++] = z;
    }
  }
}

/* Everything that no chunk uses and that takes data is free. */
static void
init_free (struct sh_volume *v)
{
  uint32_t z;

  for (z = 0; z < v->l.nr_zones; ++z) {
    struct rzone *const zone = &v->zones[z];

    if (zone->state != ZS_UNUSABLE || zone_is_runt (v->table, z) ||
        (zone->flags & (RZ_READ_ONLY | RZ_OFFLINE)) || zone->chunk != CHUNK_NONE)
      continue;
    zone->state = ZS_FREE;
    if (!(zone->flags & RZ_SEQ))
      list_push (v, &v->free_random, z);
    else if (zone->wp == 0 && !(zone->flags & RZ_NO_APPEND))
      list_push (v, &v->free_seq, z);
    else
      list_push (v, &v->unreset, z);
  }
}

/* ---- the mapping table ---- */

static void
bad_entry (struct sh_volume *v, uint32_t c, const char *why)
{
  if (v->chunk_bad == NULL)
    v->chunk_bad = calloc (1, v->l.nr_chunks / 8 + 1);
  if (v->chunk_bad == NULL)
    abort ();                   /* one bit a chunk */
  v->chunk_bad[c >> 3] |= 1u << (c & 7);
  sh_log (v->opt.log, SH_LOG_ERROR, "%s: chunk %" PRIu32 " is out of service: its table entry "
          "(zones %" PRIu32 ", %" PRIu32 ") %s; 'shingle check --repair' mends the table",
          v->bdev->info.name, c, v->map[c].data, v->map[c].buffer, why);
}

/* NULL when z can be a zone of chunk c. */
static const char *
zone_wrong (struct sh_volume *v, uint32_t z)
{
  if (z >= v->l.nr_zones)
    return "names a zone that the drive does not have";
  if (layout_is_meta_zone (&v->l, z))
    return "names a zone of the metadata";
  if (zone_is_runt (v->table, z))
    return "names the short last zone";
  if (v->zones[z].chunk != CHUNK_NONE)
    return "names a zone of another chunk";
  return NULL;
}

/* Zones of bad entries are in nobody's use but must not be handed out. */
static void
claim (struct sh_volume *v, uint32_t z, uint32_t c)
{
  if (z < v->l.nr_zones && v->zones[z].chunk == CHUNK_NONE)
    v->zones[z].chunk = c;
}

static void
check_entry (struct sh_volume *v, uint32_t c)
{
  const struct map_entry m = v->map[c];
  const char *why;

  if (m.data == ZONE_NONE) {
    v->map[c].buffer = ZONE_NONE;       /* the kernel ignores it too */
    return;
  }
  why = zone_wrong (v, m.data);
  if (why == NULL && m.buffer != ZONE_NONE) {
    why = zone_wrong (v, m.buffer);
    if (why == NULL && (m.buffer == m.data || is_seq (v, m.buffer)))
      why = "names a buffer zone that cannot be one";
    if (why == NULL && !is_seq (v, m.data))
      why = "has a buffer zone to a random data zone";
  }
  if (why != NULL) {
    /* The other owner of a zone of two chunks is no better. */
    uint32_t z = m.data, i;

    for (i = 0; i < 2; ++i, z = m.buffer)
      if (z < v->l.nr_zones && v->zones[z].chunk != CHUNK_NONE && v->zones[z].chunk != c &&
          !chunk_is_bad (v, v->zones[z].chunk))
        bad_entry (v, v->zones[z].chunk, "names a zone of another chunk");
    bad_entry (v, c, why);
  }
  claim (v, m.data, c);
  if (m.buffer != ZONE_NONE)
    claim (v, m.buffer, c);
}

static void
own_zones (struct sh_volume *v)
{
  uint32_t c;

  for (c = 0; c < v->l.nr_chunks; ++c)
    check_entry (v, c);
  for (c = 0; c < v->l.nr_chunks; ++c) {
    const struct map_entry m = v->map[c];

    if (m.data == ZONE_NONE)
      continue;
    v->nr_mapped++;
    v->nr_buffered += m.buffer != ZONE_NONE;
    if (chunk_is_bad (v, c))
      continue;
    v->zones[m.data].state = ZS_DATA;
    if (m.buffer != ZONE_NONE)
      v->zones[m.buffer].state = ZS_BUFFER;
  }
}

static void
decode_map (struct sh_volume *v, uint32_t block, uint32_t count, const uint8_t *buf)
{
  struct map_entry *const m = v->map + (size_t) block * MAP_ENTRIES;
  size_t i;

  for (i = 0; i < (size_t) count * MAP_ENTRIES; ++i) {
    m[i].data = get_le32 (buf + i * MAP_ENTRY_BYTES);
    m[i].buffer = get_le32 (buf + i * MAP_ENTRY_BYTES + 4);
  }
}

static int
read_map (struct sh_volume *v, struct sh_error *err)
{
  uint8_t *const buf = aligned_alloc (BLOCK_BYTES, (size_t) LOAD_BLOCKS * BLOCK_BYTES);
  uint32_t at, n;
  int r = 0;

  if (buf == NULL)
    return no_memory (v, err);
  for (at = 0; at < v->l.nr_map_blocks && r == 0; at += n) {
    n = MIN (LOAD_BLOCKS, v->l.nr_map_blocks - at);
    r = bdev_read (v->bdev, buf, (uint64_t) n * BLOCK_BYTES,
                   (layout_map_block (&v->l, v->cur) + at) * BLOCK_BYTES);
    if (r == 0)
      decode_map (v, at, n, buf);
    else
      sh_fail (err, errno, "%s: the mapping table of the volume cannot be read: %s",
               v->bdev->info.name, sh_drive_error (errno));
  }
  free (buf);
  return r;
}

/* ---- memory ---- */

static int
allocate (struct sh_volume *v, struct sh_error *err)
{
  const size_t zones = v->l.nr_zones;
  const size_t entry = sizeof (struct zone_bits);
  size_t words;

  v->meta_unit = MIN (MAX (v->bdev->info.pbs_bytes, v->bdev->info.lbs_bytes), BLOCK_BYTES);
  v->zone_words = MAX (1u, v->l.zone_blocks / 64);
  words = (size_t) v->zone_words * sizeof (uint64_t);
  v->max_bits = MAX (64u, v->opt.cache_bytes / (words + entry));
  v->zones = malloc (zones * sizeof v->zones[0]);
  v->random = malloc (zones * sizeof v->random[0]);
  v->dirty = malloc (zones * sizeof v->dirty[0]);
  v->in_commit = malloc (zones * sizeof v->in_commit[0]);
  v->stale = malloc (zones * sizeof v->stale[0]);
  v->map = malloc ((size_t) v->l.nr_map_blocks * BLOCK_BYTES);
  v->map_flags = calloc ((size_t) v->l.nr_map_blocks * (BLOCK_BYTES / v->meta_unit), 1);
  v->copy_buf = aligned_alloc (BLOCK_BYTES, (size_t) COPY_BLOCKS * BLOCK_BYTES);
  v->redo_buf = malloc (3 * words);
  if (v->zones == NULL || v->random == NULL || v->dirty == NULL || v->in_commit == NULL ||
      v->stale == NULL || v->map == NULL || v->map_flags == NULL || v->copy_buf == NULL ||
      v->redo_buf == NULL)
    return no_memory (v, err);
  return 0;
}

/* ---- superblocks ---- */

static int
take_sets (struct sh_volume *v, const struct meta_sets *sets, struct sh_error *err)
{
  const struct meta_set *const cur = &sets->set[sets->primary];
  const struct meta_set *const other = &sets->set[!sets->primary];

  v->sb = aligned_alloc (BLOCK_BYTES, 2 * BLOCK_BYTES);
  if (v->sb == NULL)
    return no_memory (v, err);
  v->cur = sets->primary;
  v->gen = cur->super.gen;
  v->other_gen = other->good ? other->super.gen : 0;
  memcpy (v->sb[v->cur], cur->block, BLOCK_BYTES);
  v->super[v->cur] = cur->super;
  memset (v->sb[!v->cur], 0, BLOCK_BYTES);
  v->sb_known[v->cur] = true;
  v->sb_known[!v->cur] = other->good;
  if (other->good)
    memcpy (v->sb[!v->cur], other->block, BLOCK_BYTES);
  else {
    sh_log (v->opt.log, SH_LOG_WARNING, "%s: metadata set %d is bad (%s); it is made anew from "
            "set %d by the first commit", v->bdev->info.name, !v->cur, other->why, v->cur);
  }
  v->super[!v->cur] = other->good ? other->super : cur->super;
  v->l = sets->layout;
  v->size_bytes = layout_volume_bytes (&v->l);
  memcpy (v->label, cur->super.label, sizeof v->label);
  return 0;
}

/* The first zone of a set that is offline (or, writing: read-only too), else
   ZONE_NONE. */
static uint32_t
bad_meta_zone (const struct sh_volume *v, const struct layout *l, int set, bool writing)
{
  const uint32_t first = layout_set_block (l, set) / l->zone_blocks;
  uint32_t z;

  for (z = first; z < first + l->nr_meta_zones; ++z)
    if (v->table->zones[z].cond == ZONE_OFFLINE ||
        (writing && v->table->zones[z].cond == ZONE_READ_ONLY))
      return z;
  return ZONE_NONE;
}

/* A set with an offline zone is not the one to read while the other is whole. */
static void
choose_readable (const struct sh_volume *v, struct meta_sets *sets)
{
  const int other = !sets->primary;

  if (sets->set[other].good &&
      bad_meta_zone (v, &sets->layout, sets->primary, false) != ZONE_NONE &&
      bad_meta_zone (v, &sets->layout, other, false) == ZONE_NONE)
    sets->primary = other;
}

/* Nothing can be made durable when one of the sets cannot be written: each commit
   needs the older one.  What is there can still be read. */
static void
read_only_without_both_sets (struct sh_volume *v)
{
  int set;

  for (set = 0; set < 2; ++set) {
    const uint32_t z = bad_meta_zone (v, &v->l, set, true);

    if (z == ZONE_NONE)
      continue;
    v->read_only = true;
    sh_log (v->opt.log, SH_LOG_ERROR, "%s: zone %" PRIu32 ", of metadata set %d, is %s: nothing "
            "can be made durable any more, so the volume is read-only; copy what it holds to "
            "another drive, then format this one anew", v->bdev->info.name, z, set,
            v->table->zones[z].cond == ZONE_OFFLINE ? "offline" : "read-only");
  }
}

static int
read_sets (struct sh_volume *v, struct sh_error *err)
{
  struct meta_sets *const sets = malloc (sizeof *sets);
  int r;

  if (sets == NULL)
    return no_memory (v, err);
  r = meta_sets_read (v->bdev, v->table, sets, err);
  if (r == 0) {
    choose_readable (v, sets);
    r = take_sets (v, sets, err);
  }
  if (r == 0)
    read_only_without_both_sets (v);
  free (sets);
  return r;
}

int
volume_load (struct sh_volume *v, struct sh_error *err)
{
  if (zone_table_read (v->bdev, &v->table, err) == -1 ||
      read_sets (v, err) == -1 || allocate (v, err) == -1)
    return -1;
  init_zones (v);
  /* Where no chunk can move to a seq zone, reclaim would not make up for them. */
  v->nr_spare = v->nr_seq > 0 ? MIN (SPARE_RANDOM_MAX, v->nr_random / 4) : 0;
  if (v->nr_random == 0)
    return sh_fail (err, ENOSPC, "%s: the metadata fills every conventional zone; none is left "
                    "for data", v->bdev->info.name);
  if (read_map (v, err) == -1)
    return -1;
  own_zones (v);
  init_free (v);
  return 0;
}
