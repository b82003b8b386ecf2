/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The copying of reclaim.
 *
 * APPEND and MERGE go piece by piece (1 MiB) from one legal state to the next: a
 * piece is read and written under its block range, then its bits change place.
 * They can stop after any piece.  A writer does the same as APPEND for a gap before
 * him (append.c), with a buffer of his own.
 *
 * MOVE fills a fresh seq zone from its start.  Only the reading of a piece holds
 * its range, so that no block is caught half written; writers go on beside the
 * copy, in the old random zone, and note their blocks in chunk.redo.  At the end,
 * under one hold of the lock, the fresh zone becomes the data zone for all blocks
 * that were not written meanwhile, and the old random zone stays, as buffer zone,
 * only if there were such blocks or if a write is still on its way to it.
 * While somebody waits for a random zone the chunk is closed to new writers
 * (frozen): otherwise writes to a much-used chunk would make its copy worthless,
 * and with it the wait.
 */
#include <config.h>
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "zoned/copy.h"

/* ---- devices; the lock is not held ---- */

static int
copy_rw (struct sh_volume *v, enum bdev_op op, uint32_t zone, uint32_t block,
         uint32_t count, uint8_t *buf)
{
  return dev_rw_idle (v, op, zone_byte (v, zone, block), buf, (size_t) count * BLOCK_BYTES);
}

static uint8_t *
at_block (uint8_t *buf, uint32_t block)
{
  return buf + (size_t) block * BLOCK_BYTES;
}

/* ---- reading a piece ---- */

#define SPANS_MAX 64

/* What to read for a piece, in this order; later spans lie over earlier ones. */
struct spans {
  int nr;
  uint32_t next;                /* first block that is not covered any more */
  struct run span[SPANS_MAX];
};

/* Valid blocks of zone z in [b, end): from the first to the last one. */
static bool
outer_span (const struct sh_volume *v, uint32_t z, uint32_t b, uint32_t end,
            struct run *span)
{
  uint32_t first = end, last = b, n;
  bool set;

  for (; b < end; b += n) {
    n = bits_run_locked (v, z, b, end - b, &set);
    if (set) {
      first = MIN (first, b);
      last = b + n;
    }
  }
  *span = (struct run) { z, first, last > first ? last - first : 0 };
  return first < last;
}

/* The data zone in one span, with the invalid blocks between; over it each run of
   the buffer zone. */
static void
plan_spans (const struct sh_volume *v, const struct map_entry *m, uint32_t b,
            uint32_t end, struct spans *s)
{
  uint32_t n;
  bool set;

  s->nr = 0;
  s->next = end;
  if (outer_span (v, m->data, b, end, &s->span[0]))
    s->nr = 1;
  if (m->buffer == ZONE_NONE)
    return;
  if (s->nr == 0) {
    s->nr = outer_span (v, m->buffer, b, end, &s->span[0]);
    return;
  }
  for (; b < end; b += n) {
    n = bits_run_locked (v, m->buffer, b, end - b, &set);
    if (!set)
      continue;
    if (s->nr == SPANS_MAX) {
      s->next = b;
      return;
    }
    s->span[s->nr++] = (struct run) { m->buffer, b, n };
  }
}

/* Reads blocks [b, end) of the chunk into buf, zeroes where there is nothing;
   returns how many it could do.  The caller holds the range.  Drops the lock. */
static int64_t
read_piece (struct sh_volume *v, const struct map_entry *m, uint32_t b, uint32_t end,
            uint8_t *buf)
{
  struct spans s;
  uint64_t bytes = 0;
  int i, r = 0, e = 0;

  plan_spans (v, m, b, end, &s);
  pthread_mutex_unlock (&v->lock);
  memset (buf, 0, (size_t) (s.next - b) * BLOCK_BYTES);
  for (i = 0; i < s.nr && r == 0; ++i) {
    const struct run *const run = &s.span[i];
    const uint32_t n = MIN (run->first + run->count, s.next) - run->first;

    r = copy_rw (v, BDEV_READ, run->zone, run->first, n, at_block (buf, run->first - b));
    e = errno;
    bytes += (uint64_t) n * BLOCK_BYTES;
  }
  pthread_mutex_lock (&v->lock);
  v->st.reclaim_read_bytes += bytes;
  errno = e;
  return r == -1 ? -1 : (int64_t) s.next - b;
}

/* ---- MOVE ---- */

static void
hold_write_pointer (struct sh_volume *v, struct chunk *ch)
{
  ch->no_append = true;
  append_redecide_locked (v, ch);
  while (ch->append_busy)
    pthread_cond_wait (&v->thaw, &v->lock);
}

/* Copies everything valid into `target`.  Blocks that become valid behind its end
   meanwhile are in redo.  0: done; 1: the target failed; -1: the chunk did. */
static int
fill_target (struct sh_volume *v, struct chunk *ch, uint32_t target)
{
  struct rzone *const t = &v->zones[target];

  for (;;) {
    struct map_entry m;
    struct range range;
    uint32_t end, n;
    int64_t got;
    int r, e;

    if (v->dying) {
      errno = ENODEV;
      return -1;
    }
    if (bits_load_chunk (v, ch->id, &m) == -1)
      return -1;
    end = MAX (bits_end_locked (v, m.data),
               m.buffer != ZONE_NONE ? bits_end_locked (v, m.buffer) : 0);
    if (t->wp >= end)
      return 0;
    n = MIN (COPY_BLOCKS, end - t->wp);
    range_lock (v, ch, &range, t->wp, t->wp + n, false);
    got = bits_load_chunk (v, ch->id, &m);
    if (got == 0)
      got = read_piece (v, &m, t->wp, t->wp + n, v->copy_buf);
    e = errno;
    range_unlock_locked (v, ch, &range);
    if (got == -1) {
      errno = e;
      return -1;
    }
    pthread_mutex_unlock (&v->lock);
    r = copy_rw (v, BDEV_WRITE, target, t->wp, got, v->copy_buf);
    e = errno;
    pthread_mutex_lock (&v->lock);
    if (r == -1) {              /* the target's fault, not the chunk's */
      t->flags |= RZ_NO_APPEND;         /* it must be reset before it is used */
      if (!v->dying)
        t->errors = MIN (t->errors + 1u, ZONE_ERRORS_MAX);
      return 1;
    }
    t->wp += got;
    v->unsynced = true;
    v->st.reclaim_written_bytes += (uint64_t) got * BLOCK_BYTES;
  }
}

static bool
writer_inside (const struct chunk *ch)
{
  const struct range *r;

  for (r = ch->held; r != NULL; r = r->next)
    if (r->write)
      return true;
  return false;
}

/* The bits after the move: `kept` is what stays in the old random zone.  Returns
   the weight of the target's. */
static uint32_t
divide_bits (struct sh_volume *v, const struct map_entry *m, const uint64_t *redo,
             uint64_t *moved, uint64_t *kept)
{
  uint32_t i;

  bits_copy_locked (v, m->data, moved);
  if (m->buffer != ZONE_NONE) {
    bits_copy_locked (v, m->buffer, kept);
    for (i = 0; i < v->zone_words; ++i)
      moved[i] |= kept[i];
  }
  for (i = 0; i < v->zone_words; ++i) {
    kept[i] = moved[i] & redo[i];
    moved[i] &= ~redo[i];
  }
  return words_weight (moved, v->zone_words);
}

/* The switch.  1: the random zone came back. */
static int
switch_to (struct sh_volume *v, struct chunk *ch, uint32_t target)
{
  const struct map_entry m = v->map[ch->id];
  const uint32_t random = m.buffer != ZONE_NONE ? m.buffer : m.data;
  uint64_t *const moved = v->redo_buf + v->zone_words, *const kept = moved + v->zone_words;
  bool keep;

  if (divide_bits (v, &m, ch->redo, moved, kept) == 0) {
    zone_discard_locked (v, target);    /* all of it was written anew */
    return 0;
  }
  keep = writer_inside (ch) || words_weight (kept, v->zone_words) > 0;
  map_set_locked (v, ch->id, target, keep ? random : ZONE_NONE);
  bits_replace_locked (v, target, moved);
  if (keep)
    bits_replace_locked (v, random, kept);
  else
    zone_free_locked (v, random);
  if (random != m.data)
    zone_free_locked (v, m.data);
  return !keep;
}

int
copy_move (struct sh_volume *v, struct chunk *ch)
{
  const uint32_t target = alloc_seq (v);
  struct map_entry m;
  int r, e;

  if (target == ZONE_NONE)
    return 0;
  hold_write_pointer (v, ch);
  ch->redo = v->redo_buf;
  memset (ch->redo, 0, (size_t) v->zone_words * sizeof ch->redo[0]);
  r = v->map[ch->id].data != ZONE_NONE ? fill_target (v, ch, target) : 0;
  if (r == 0)
    r = bits_load_chunk (v, ch->id, &m);
  e = errno;
  if (r != 0 || v->map[ch->id].data == ZONE_NONE) {
    zone_discard_locked (v, target);
    r = r == -1 ? -1 : 0;
  }
  else
    r = switch_to (v, ch, target);
  ch->redo = NULL;
  errno = e;
  return r;
}

/* ---- APPEND ---- */

/* One piece of the buffer zone behind the write pointer, by way of buf; the caller
   holds the range.  Drops the lock. */
static int
append_piece (struct sh_volume *v, struct chunk *ch, const struct map_entry *m,
              uint32_t count, uint8_t *buf)
{
  struct rzone *const d = &v->zones[m->data];
  const uint32_t wp = d->wp;
  const struct map_entry only_buffer = { m->buffer, ZONE_NONE };
  uint32_t b, n;
  int64_t got;
  int r, e;

  got = read_piece (v, &only_buffer, wp, wp + count, buf);
  if (got == -1)
    return -1;
  pthread_mutex_unlock (&v->lock);
  r = copy_rw (v, BDEV_WRITE, m->data, wp, got, buf);
  e = errno;
  pthread_mutex_lock (&v->lock);
  if (r == -1) {
    d->flags |= RZ_NO_APPEND;   /* where its write pointer is now, matters no more */
    errno = e;
    return 0;
  }
  d->wp = wp + got;
  v->st.reclaim_written_bytes += (uint64_t) got * BLOCK_BYTES;
  for (b = wp; b < wp + got; b += n) {
    struct map_entry now;
    bool set;

    if (bits_load_chunk (v, ch->id, &now) == -1)
      return -1;
    n = bits_run_locked (v, m->buffer, b, wp + got - b, &set);
    if (set && write_complete (v, ch, m->data, b, n, false) == -1)
      return -1;
  }
  return 0;
}

int
copy_append (struct sh_volume *v, struct chunk *ch)
{
  for (;;) {
    struct map_entry m;
    struct range range;
    uint32_t wp, end;
    int r = 0, e;

    if (bits_load_chunk (v, ch->id, &m) == -1)
      return -1;
    if (m.data == ZONE_NONE || m.buffer == ZONE_NONE || v->zones[m.buffer].weight == 0)
      return 1;
    wp = v->zones[m.data].wp;
    end = MIN (bits_end_locked (v, m.buffer), wp + COPY_BLOCKS);
    if (end <= wp || (v->zones[m.data].flags & RZ_NO_APPEND))
      return 0;
    range_lock (v, ch, &range, wp, end, false);
    if (v->zones[m.data].wp == wp && !ch->append_busy) {
      ch->append_busy = true;
      ch->append_end = end;
      r = append_piece (v, ch, &m, end - wp, v->copy_buf);
      ch->append_busy = false;
    }
    e = errno;
    range_unlock_locked (v, ch, &range);
    append_redecide_locked (v, ch);
    errno = e;
    if (r == -1)
      return -1;
  }
}

void
copy_gap (struct sh_volume *v, struct chunk *ch, uint32_t end)
{
  const uint32_t z = v->map[ch->id].data;
  struct rzone *const d = &v->zones[z];
  uint8_t *const buf = aligned_alloc (BLOCK_BYTES, (size_t) COPY_BLOCKS * BLOCK_BYTES);
  struct map_entry m;
  int r = buf != NULL ? 0 : -1;

  while (r == 0 && d->wp < end && !(d->flags & RZ_NO_APPEND)) {
    r = bits_load_chunk (v, ch->id, &m);
    if (r == 0)
      r = append_piece (v, ch, &m, MIN (COPY_BLOCKS, end - d->wp), buf);
  }
  free (buf);
  if (r == -1)
    d->flags |= RZ_NO_APPEND;   /* the gap will stay */
}

/* ---- MERGE ---- */

/* Valid blocks of the data zone in [b, end) go into the buffer zone; the caller
   holds the range. */
static int
merge_piece (struct sh_volume *v, struct chunk *ch, const struct map_entry *m,
             uint32_t b, uint32_t end)
{
  const struct map_entry only_data = { m->data, ZONE_NONE };
  const uint32_t from = b;
  const int64_t got = read_piece (v, &only_data, b, end, v->copy_buf);
  uint32_t n;

  if (got == -1)
    return -1;
  for (; b < end; b += n) {
    struct map_entry now;
    bool set;
    int r, e;

    if (bits_load_chunk (v, ch->id, &now) == -1)
      return -1;
    n = bits_run_locked (v, m->data, b, end - b, &set);
    if (!set)
      continue;
    pthread_mutex_unlock (&v->lock);
    r = copy_rw (v, BDEV_WRITE, m->buffer, b, n, at_block (v->copy_buf, b - from));
    e = errno;
    pthread_mutex_lock (&v->lock);
    if (r == -1) {
      if (e == EROFS)
        v->zones[m->buffer].flags |= RZ_READ_ONLY;
      errno = e;
      return -1;
    }
    v->st.reclaim_written_bytes += (uint64_t) n * BLOCK_BYTES;
    if (write_complete (v, ch, m->buffer, b, n, false) == -1)
      return -1;
  }
  return 0;
}

int
copy_merge (struct sh_volume *v, struct chunk *ch)
{
  hold_write_pointer (v, ch);
  for (;;) {
    struct map_entry m;
    struct range range;
    uint32_t b = 0, end;
    bool set;
    int r, e;

    if (v->dying) {
      errno = ENODEV;
      return -1;
    }
    if (bits_load_chunk (v, ch->id, &m) == -1)
      return -1;
    if (m.data == ZONE_NONE || m.buffer == ZONE_NONE || v->zones[m.data].weight == 0)
      return 1;
    if (!bits_test_locked (v, m.data, 0))
      b = bits_run_locked (v, m.data, 0, v->l.zone_blocks, &set);
    end = MIN (b + COPY_BLOCKS, bits_end_locked (v, m.data));
    range_lock (v, ch, &range, b, end, false);
    r = bits_load_chunk (v, ch->id, &m);
    if (r == 0)
      r = merge_piece (v, ch, &m, b, end);
    e = errno;
    range_unlock_locked (v, ch, &range);
    errno = e;
    if (r == -1)
      return -1;
  }
}
