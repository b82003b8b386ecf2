/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The mapping table.  Where both sets must be equal and an entry differs, the
 * entry of the set that counts is taken unless it is impossible and the other
 * set's is not.  Entries that the sets agree on claim their zones first, so
 * that a spoiled entry cannot push out a good one.
 */
#include <config.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/bytes.h"
#include "base/error.h"
#include "zoned/check-impl.h"

struct entry {
  uint32_t data, buffer;
};

/* Both tables as they are on disk, and which blocks could be read. */
struct tables {
  uint8_t *raw[2];              /* FROM_*; [FROM_OTHER] NULL where not compared */
  bool *ok[2];
};

static struct entry
entry_at (const struct tables *t, int from, uint32_t chunk)
{
  const uint8_t *p = t->raw[from] + (size_t) chunk * MAP_ENTRY_BYTES;

  return (struct entry) { get_le32 (p), get_le32 (p + 4) };
}

static bool
same (struct entry a, struct entry b)
{
  return a.data == b.data && a.buffer == b.buffer;
}

/* Why zone `id` cannot hold data of a chunk; NULL: it can. */
static const char *
zone_problem (const struct check *c, uint32_t id)
{
  if (id >= c->l->nr_zones)
    return "does not exist";
  if (layout_is_meta_zone (c->l, id))
    return "is a metadata zone";
  if (zone_is_runt (c->table, id))
    return "is shorter than the others";
  if (c->owner[id] != ZONE_NONE)
    return "is used twice";
  return NULL;
}

/* What is wrong with an entry as a whole; NULL: nothing.  *buffer_only: the data
   zone is fine. */
static const char *
entry_problem (const struct check *c, struct entry e, bool *buffer_only, uint32_t *zone)
{
  const char *problem;

  *buffer_only = false;
  *zone = e.data;
  if (e.data == ZONE_NONE) {
    *buffer_only = e.buffer != ZONE_NONE;
    *zone = e.buffer;
    return e.buffer == ZONE_NONE ? NULL : "is a buffer zone without a data zone";
  }
  problem = zone_problem (c, e.data);
  if (problem != NULL)
    return problem;
  if (e.buffer == ZONE_NONE)
    return NULL;
  *buffer_only = true;
  *zone = e.buffer;
  problem = e.buffer == e.data ? "is used twice" : zone_problem (c, e.buffer);
  if (problem != NULL)
    return problem;
  if (!zone_is_random (c->table, e.buffer))
    return "is a buffer zone, but not conventional";
  if (!zone_is_seq (c->table, e.data))
    return "is the buffer zone of a conventional data zone";
  return NULL;
}

static void
take (struct check *c, uint32_t chunk, struct entry e)
{
  c->data[chunk] = e.data;
  c->buffer[chunk] = e.buffer;
  if (e.data == ZONE_NONE)
    return;
  c->owner[e.data] = chunk * 2;
  c->r->chunks_mapped++;
  if (e.buffer != ZONE_NONE) {
    c->owner[e.buffer] = chunk * 2 + 1;
    c->r->chunks_buffered++;
  }
}

/* Takes an entry, or what is left of it, and says what is wrong with it. */
static void
take_checked (struct check *c, uint32_t chunk, struct entry e)
{
  const struct entry none = { ZONE_NONE, ZONE_NONE };
  bool buffer_only;
  uint32_t zone, user = ZONE_NONE;
  const char *const problem = entry_problem (c, e, &buffer_only, &zone);

  if (problem != NULL) {
    if (zone < c->l->nr_zones)
      user = c->owner[zone];
    if (user != ZONE_NONE)
      check_say (c, CHECK_ERROR, "chunk %" PRIu32 ": its %s zone %" PRIu32 " %s (also by "
                 "chunk %" PRIu32 ")", chunk, buffer_only ? "buffer" : "data", zone,
                 problem, user / 2);
    else
      check_say (c, CHECK_ERROR, "chunk %" PRIu32 ": its %s zone %" PRIu32 " %s",
                 chunk, buffer_only ? "buffer" : "data", zone, problem);
    if (buffer_only)
      e.buffer = ZONE_NONE;
    else
      e = none;
  }
  take (c, chunk, e);
}

static void
say_differ (struct check *c, uint32_t chunk, struct entry base, struct entry other,
            bool other_taken)
{
  struct entry e[2];
  char text[2][40];
  int i;

  e[c->base] = base;
  e[c->other] = other;
  for (i = 0; i < 2; ++i)
    if (e[i].data == ZONE_NONE && e[i].buffer == ZONE_NONE)
      snprintf (text[i], sizeof text[i], "unmapped");
    else if (e[i].buffer == ZONE_NONE)
      snprintf (text[i], sizeof text[i], "zone %" PRIu32, e[i].data);
    else
      snprintf (text[i], sizeof text[i], "zone %" PRIu32 " + %" PRIu32,
                e[i].data, e[i].buffer);
  check_say (c, CHECK_ERROR, "chunk %" PRIu32 ": the sets differ (set 0: %s; set 1: %s); "
             "%s is taken", chunk, text[0], text[1],
             check_set_name (other_taken ? c->other : c->base));
}

/* An entry on which the sets do not agree. */
static void
settle (struct check *c, const struct tables *t, uint32_t chunk)
{
  const struct entry base = entry_at (t, FROM_BASE, chunk);
  const struct entry other = entry_at (t, FROM_OTHER, chunk);
  const uint32_t block = chunk / MAP_ENTRIES;
  bool buffer_only, other_taken;
  uint32_t zone;

  if (!t->ok[FROM_OTHER][block])
    other_taken = false;
  else if (!t->ok[FROM_BASE][block])
    other_taken = true;
  else {
    other_taken = entry_problem (c, base, &buffer_only, &zone) != NULL &&
                  entry_problem (c, other, &buffer_only, &zone) == NULL;
    say_differ (c, chunk, base, other, other_taken);
  }
  take_checked (c, chunk, other_taken ? other : base);
}

static int
both_unreadable (struct check *c, uint32_t block)
{
  return sh_fail (c->err, EIO, "%s: block %" PRIu32 " of the mapping table cannot be read "
                  "in any set that counts; the volume cannot be checked further",
                  c->bdev->info.name, block);
}

static int
settle_all (struct check *c, const struct tables *t)
{
  uint32_t chunk, block;

  for (block = 0; block < c->l->nr_map_blocks; ++block)
    if (!t->ok[FROM_BASE][block] && !(c->compare && t->ok[FROM_OTHER][block]))
      return both_unreadable (c, block);
  for (chunk = 0; chunk < c->l->nr_chunks; ++chunk)
    if (!c->compare || same (entry_at (t, FROM_BASE, chunk), entry_at (t, FROM_OTHER, chunk)))
      take_checked (c, chunk, entry_at (t, FROM_BASE, chunk));
  if (!c->compare)
    return 0;
  for (chunk = 0; chunk < c->l->nr_chunks; ++chunk)
    if (!same (entry_at (t, FROM_BASE, chunk), entry_at (t, FROM_OTHER, chunk)))
      settle (c, t, chunk);
  return 0;
}

/* One block of the table as it should be. */
static void
encode_block (const struct check *c, uint32_t block, uint8_t *to)
{
  uint32_t chunk = block * MAP_ENTRIES, i;

  memset (to, 0xff, BLOCK_BYTES);
  for (i = 0; i < MAP_ENTRIES && chunk < c->l->nr_chunks; ++i, ++chunk) {
    put_le32 (to + i * MAP_ENTRY_BYTES, c->data[chunk]);
    put_le32 (to + i * MAP_ENTRY_BYTES + 4, c->buffer[chunk]);
  }
}

/* Entries behind the last chunk are never used, and 0xff as formatted. */
static void
check_tail (struct check *c, const struct tables *t, int from)
{
  const size_t end = (size_t) c->l->nr_map_blocks * BLOCK_BYTES;
  size_t i;

  if (!t->ok[from][c->l->nr_map_blocks - 1])
    return;
  for (i = (size_t) c->l->nr_chunks * MAP_ENTRY_BYTES; i < end; ++i)
    if (t->raw[from][i] != 0xff) {
      check_say (c, CHECK_ERROR, "%s: the mapping table has entries behind its last chunk",
                 check_set_name (from == FROM_BASE ? c->base : c->other));
      return;
    }
}

static int
write_table (struct check *c, const struct tables *t)
{
  uint32_t block, n, i;
  int from;

  for (block = 0; block < c->l->nr_map_blocks; block += n) {
    n = MIN (c->l->nr_map_blocks - block, WINDOW_BLOCKS);
    c->w.first = 1 + block;
    c->w.nr = n;
    for (from = FROM_BASE; from <= FROM_OTHER; ++from) {
      memcpy (c->w.have[from], t->raw[from] + (size_t) block * BLOCK_BYTES,
              (size_t) n * BLOCK_BYTES);
      memcpy (c->w.ok[from], t->ok[from] + block, n);
    }
    for (i = 0; i < n; ++i)
      encode_block (c, block + i, c->w.want + (size_t) i * BLOCK_BYTES);
    if (check_write_window (c) == -1)
      return -1;
  }
  return 0;
}

static int
read_table (struct check *c, struct tables *t, int from)
{
  uint32_t block, n;

  t->raw[from] = malloc ((size_t) c->l->nr_map_blocks * BLOCK_BYTES);
  t->ok[from] = calloc (c->l->nr_map_blocks, sizeof (bool));
  if (t->raw[from] == NULL || t->ok[from] == NULL)
    return sh_fail (c->err, ENOMEM, "no memory for a mapping table of %" PRIu32 " blocks",
                    c->l->nr_map_blocks);
  for (block = 0; block < c->l->nr_map_blocks; block += n) {
    n = MIN (c->l->nr_map_blocks - block, WINDOW_BLOCKS);
    check_read (c, from, 1 + block, n, t->raw[from] + (size_t) block * BLOCK_BYTES,
                t->ok[from] + block);
  }
  return 0;
}

static int
read_and_settle (struct check *c, struct tables *t)
{
  const bool both = c->compare || c->o->repair;

  if (read_table (c, t, FROM_BASE) == -1 ||
      (both && read_table (c, t, FROM_OTHER) == -1) || settle_all (c, t) == -1)
    return -1;
  check_tail (c, t, FROM_BASE);
  if (c->compare)
    check_tail (c, t, FROM_OTHER);
  return c->o->repair ? write_table (c, t) : 0;
}

int
check_map (struct check *c)
{
  struct tables t = { 0 };
  const int r = read_and_settle (c, &t);
  int from;

  for (from = FROM_BASE; from <= FROM_OTHER; ++from) {
    free (t.raw[from]);
    free (t.ok[from]);
  }
  return r;
}
