/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bitmaps, streamed in zone order in windows of 1 MiB of both sets.
 *
 * Each block is judged on its own: bits must be clear in zones that nobody
 * uses, behind the end of the zone, at and behind the write pointer of a
 * sequential zone, and in a buffer zone where the data zone has the block (a
 * read takes the data zone's).  Where the sets must be equal and differ, the
 * one that counts is taken unless it breaks a rule and the other does not.
 */
#include <config.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "base/bytes.h"
#include "base/error.h"
#include "zoned/check-impl.h"

/* A bitmap block: number `part` of zone `zone`. */
struct place {
  uint32_t zone, part;
};

/* What is wrong with one version of a block. */
struct faults {
  uint32_t stray;               /* bits that must be clear */
  uint32_t first;               /* the first of them, in blocks from the zone's start */
  uint32_t overlap;             /* bits that the data zone has too */
  uint32_t first_overlap;
};

static bool
is_zero (const uint8_t *block)
{
  static const uint8_t zero[BLOCK_BYTES];

  return memcmp (block, zero, BLOCK_BYTES) == 0;
}

static uint32_t
count_bits (const uint8_t *block)
{
  uint32_t n = 0;
  uint64_t word;
  size_t i;

  for (i = 0; i < BLOCK_BYTES; i += sizeof word) {
    memcpy (&word, block + i, sizeof word);
    n += __builtin_popcountll (word);
  }
  return n;
}

/* How many bits from the block's start may be set. */
static uint32_t
limit_of (const struct check *c, struct place p)
{
  const struct zone *z = &c->table->zones[p.zone];
  const uint32_t from = p.part * BITMAP_BITS;
  uint32_t end = c->l->zone_blocks;

  if (c->owner[p.zone] == ZONE_NONE)
    return 0;
  /* What an offline zone held is lost, but not said to be zeroes. */
  if (zone_is_seq (c->table, p.zone) && z->cond != ZONE_OFFLINE && !z->wp_unknown)
    end = z->wp;
  return end <= from ? 0 : MIN (end - from, BITMAP_BITS);
}

/* Clears the bits from `limit` on, and counts them. */
static void
clip (uint8_t *block, uint32_t limit, struct faults *f)
{
  uint32_t i = limit / 8;
  uint8_t stray;

  f->stray = 0;
  for (; i < BLOCK_BYTES; ++i) {
    stray = block[i] & (i == limit / 8 ? 0xff << limit % 8 : 0xff);
    if (stray == 0)
      continue;
    if (f->stray == 0)
      f->first = i * 8 + __builtin_ctz (stray);
    f->stray += __builtin_popcount (stray);
    block[i] &= ~stray;
  }
}

/* Clears what the data zone's block has too. */
static void
subtract (uint8_t *block, const uint8_t *data, struct faults *f)
{
  uint8_t both;
  uint32_t i;

  f->overlap = 0;
  for (i = 0; i < BLOCK_BYTES; ++i) {
    both = block[i] & data[i];
    if (both == 0)
      continue;
    if (f->overlap == 0)
      f->first_overlap = i * 8 + __builtin_ctz (both);
    f->overlap += __builtin_popcount (both);
    block[i] &= ~both;
  }
}

static uint32_t
block_number (const struct check *c, struct place p)
{
  return 1 + c->l->nr_map_blocks + p.zone * c->l->zbm + p.part;
}

/* The versions of one block: the base's and, where it may stand in, the
   other's (NULL: not readable or not to be used). */
struct versions {
  const uint8_t *base, *other;
};

static const uint8_t *choose (struct check *c, struct place p, struct versions v,
                              uint8_t *want, struct faults *f);

/* The block of the data zone that belongs to a buffer zone's block, as it
   should be.  False: it cannot be read. */
static bool
data_block_of_buffer (struct check *c, struct place p, uint8_t *want)
{
  const struct place data = { c->data[c->owner[p.zone] / 2], p.part };
  const uint64_t errors = c->r->errors;
  uint8_t have[2][BLOCK_BYTES];
  bool ok[2] = { false, false };
  struct faults f;

  check_read (c, FROM_BASE, block_number (c, data), 1, have[FROM_BASE], &ok[FROM_BASE]);
  if (c->compare)
    check_read (c, FROM_OTHER, block_number (c, data), 1, have[FROM_OTHER],
                &ok[FROM_OTHER]);
  /* Unreadable ones are counted when the data zone's turn comes. */
  c->r->errors = errors;
  return choose (c, data, (struct versions) { ok[0] ? have[0] : NULL, ok[1] ? have[1] : NULL },
                 want, &f) != NULL;
}

/* One version made lawful in `to`; f says what had to go. */
static void
judge (struct check *c, struct place p, const uint8_t *from, const uint8_t *data,
       uint8_t *to, struct faults *f)
{
  memset (f, 0, sizeof *f);
  memcpy (to, from, BLOCK_BYTES);
  if (is_zero (to))
    return;
  clip (to, limit_of (c, p), f);
  if (data != NULL)
    subtract (to, data, f);
}

static bool
is_buffer (const struct check *c, uint32_t zone)
{
  return c->owner[zone] != ZONE_NONE && c->owner[zone] & 1;
}

/* Decides what a block should be.  Returns the version it was made from; NULL:
   none could be read (want is then zero).  f: what that version had wrong. */
static const uint8_t *
choose (struct check *c, struct place p, struct versions v, uint8_t *want,
        struct faults *f)
{
  uint8_t data_buf[BLOCK_BYTES], second[BLOCK_BYTES];
  const uint8_t *data = NULL;
  struct faults g;

  memset (f, 0, sizeof *f);
  memset (want, 0, BLOCK_BYTES);
  if (v.base == NULL && v.other == NULL)
    return NULL;
  if (is_buffer (c, p.zone) && data_block_of_buffer (c, p, data_buf))
    data = data_buf;
  if (v.base == NULL) {
    judge (c, p, v.other, data, want, f);
    return v.other;
  }
  judge (c, p, v.base, data, want, f);
  if (f->stray + f->overlap == 0 || v.other == NULL)
    return v.base;
  judge (c, p, v.other, data, second, &g);
  if (g.stray + g.overlap != 0)
    return v.base;
  memcpy (want, second, BLOCK_BYTES);
  *f = g;
  return v.other;
}

/* "zone 12 (buffer zone of chunk 3)" */
static const char *
name_zone (const struct check *c, uint32_t zone, char *text, size_t size)
{
  if (layout_is_meta_zone (c->l, zone))
    snprintf (text, size, "zone %" PRIu32 " (metadata)", zone);
  else if (zone_is_runt (c->table, zone))
    snprintf (text, size, "zone %" PRIu32 " (shorter than the others)", zone);
  else if (c->owner[zone] == ZONE_NONE)
    snprintf (text, size, "zone %" PRIu32 " (free)", zone);
  else
    snprintf (text, size, "zone %" PRIu32 " (%s of chunk %" PRIu32 ")", zone,
              c->owner[zone] & 1 ? "buffer zone" : "data zone", c->owner[zone] / 2);
  return text;
}

static void
say_faults (struct check *c, struct place p, const struct faults *f)
{
  const uint32_t from = p.part * BITMAP_BITS;
  const uint32_t wp = c->table->zones[p.zone].wp;
  char zone[80];

  name_zone (c, p.zone, zone, sizeof zone);
  if (f->stray && c->owner[p.zone] == ZONE_NONE)
    check_say (c, CHECK_ERROR, "%s: %" PRIu32 " blocks are marked valid in a zone without "
               "data (first: block %" PRIu32 ")", zone, f->stray, from + f->first);
  else if (f->stray && from + f->first >= c->l->zone_blocks)
    check_say (c, CHECK_ERROR, "%s: %" PRIu32 " bits are set behind the end of the zone",
               zone, f->stray);
  else if (f->stray)
    check_say (c, CHECK_ERROR, "%s: %" PRIu32 " blocks are marked valid at or behind the "
               "write pointer (block %" PRIu32 "; first: block %" PRIu32 ")",
               zone, f->stray, wp, from + f->first);
  if (f->overlap)
    check_say (c, CHECK_ERROR, "%s: %" PRIu32 " blocks are valid in the data zone too "
               "(first: block %" PRIu32 "); the data zone's are what is read",
               zone, f->overlap, from + f->first_overlap);
}

/* Block `i` of the window. */
static void
check_block (struct check *c, uint32_t i)
{
  const uint32_t rel = c->w.first + i - 1 - c->l->nr_map_blocks;
  const struct place p = { rel / c->l->zbm, rel % c->l->zbm };
  const uint8_t *base = c->w.have[FROM_BASE] + (size_t) i * BLOCK_BYTES;
  const uint8_t *other = c->w.have[FROM_OTHER] + (size_t) i * BLOCK_BYTES;
  const bool base_ok = c->w.ok[FROM_BASE][i];
  const bool other_ok = c->compare && c->w.ok[FROM_OTHER][i];
  uint8_t *const want = c->w.want + (size_t) i * BLOCK_BYTES;
  const uint8_t *from;
  struct faults f;
  char zone[80];

  if (base_ok && is_zero (base) && (!other_ok || is_zero (other))) {
    memset (want, 0, BLOCK_BYTES);
    return;
  }
  from = choose (c, p, (struct versions) { base_ok ? base : NULL, other_ok ? other : NULL },
                 want, &f);
  if (from == NULL) {
    c->r->unrepaired++;
    check_say (c, CHECK_ERROR, "%s: which of its blocks are valid cannot be read in any set "
               "that counts", name_zone (c, p.zone, zone, sizeof zone));
    return;
  }
  if (base_ok && other_ok && memcmp (base, other, BLOCK_BYTES) != 0)
    check_say (c, CHECK_ERROR, "%s: the sets differ in bitmap block %" PRIu32 "; %s is taken",
               name_zone (c, p.zone, zone, sizeof zone), p.part,
               check_set_name (from == base ? c->base : c->other));
  say_faults (c, p, &f);
  c->r->valid_blocks += count_bits (want);
}

/* A block that no set can tell is left alone. */
static void
keep_unreadable (struct check *c)
{
  uint32_t i;

  for (i = 0; i < c->w.nr; ++i)
    if (!c->w.ok[FROM_BASE][i] && !(c->compare && c->w.ok[FROM_OTHER][i])) {
      c->w.ok[FROM_BASE][i] = c->w.ok[FROM_OTHER][i] = true;
      memset (c->w.want + (size_t) i * BLOCK_BYTES, 0, BLOCK_BYTES);
      memset (c->w.have[FROM_BASE] + (size_t) i * BLOCK_BYTES, 0, BLOCK_BYTES);
      memset (c->w.have[FROM_OTHER] + (size_t) i * BLOCK_BYTES, 0, BLOCK_BYTES);
    }
}

int
check_bitmaps (struct check *c)
{
  const uint32_t end = c->l->nr_meta_blocks;
  uint32_t first, n, i;

  for (first = 1 + c->l->nr_map_blocks; first < end; first += n) {
    n = MIN (end - first, WINDOW_BLOCKS);
    check_read_window (c, first, n);
    for (i = 0; i < n; ++i)
      check_block (c, i);
    keep_unreadable (c);
    if (check_write_window (c) == -1)
      return -1;
  }
  return 0;
}
