/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Trim, zero and extents: work on the bitmaps alone.
 *
 * A trimmed block loses its bits; no data is written.  A chunk that is trimmed as
 * a whole is unmapped without a look at its bitmaps, so a range of terabytes costs
 * a step for each chunk.  The zones come back after the next commit.
 */
#include <config.h>
#include <errno.h>
#include "zoned/running.h"

/* The whole chunk; the caller holds all of it. */
static void
unmap_chunk (struct sh_volume *v, uint32_t c)
{
  const struct map_entry m = v->map[c];

  map_set_locked (v, c, ZONE_NONE, ZONE_NONE);
  zone_free_locked (v, m.data);
  if (m.buffer != ZONE_NONE)
    zone_free_locked (v, m.buffer);
}

int
trim_blocks (struct sh_volume *v, struct chunk *ch, uint32_t first, uint32_t count)
{
  struct map_entry m;

  if (bits_load_chunk (v, ch->id, &m) == -1)
    return -1;
  if (m.data == ZONE_NONE)
    return 0;
  if (m.buffer != ZONE_NONE) {
    zone_ref (v, m.data);       /* keeps its bitmap in the cache */
    bits_clear_locked (v, m.buffer, first, count);
    zone_unref_locked (v, m.data);
  }
  bits_clear_locked (v, m.data, first, count);
  return 0;
}

/* Blocks [first, end) of chunk c. */
static int
trim_chunk (struct sh_volume *v, uint32_t c, uint32_t first, uint32_t end)
{
  struct range range;
  struct chunk *ch;
  int r = 0, e = 0;

  pthread_mutex_lock (&v->lock);
  if (v->dying || chunk_is_bad (v, c)) {
    e = v->dying ? ENODEV : EIO;
    r = -1;
  }
  else if (v->map[c].data != ZONE_NONE || chunk_find_locked (v, c) != NULL) {
    worker_note_activity_locked (v);
    ch = chunk_get_locked (v, c);
    range_lock (v, ch, &range, first, end, true);
    if (first == 0 && end == v->l.zone_blocks && v->map[c].data != ZONE_NONE &&
        ch->redo == NULL && !ch->no_append && v->victim != ch)
      unmap_chunk (v, c);
    else {
      r = trim_blocks (v, ch, first, end - first);
      e = errno;
    }
    range_unlock_locked (v, ch, &range);
    chunk_put_locked (v, ch);
  }
  pthread_mutex_unlock (&v->lock);
  errno = e;
  return r;
}

/* Chunks of [c, end) that are unmapped and not in use are passed over here. */
static uint32_t
skip_unmapped (struct sh_volume *v, uint32_t c, uint32_t end)
{
  pthread_mutex_lock (&v->lock);
  while (c < end && v->map[c].data == ZONE_NONE && chunk_find_locked (v, c) == NULL)
    c++;
  pthread_mutex_unlock (&v->lock);
  return c;
}

int
trim_range (struct sh_volume *v, uint64_t first_block, uint64_t end_block)
{
  const uint32_t zb = v->l.zone_blocks;

  while (first_block < end_block) {
    const uint32_t c = first_block / zb, last = DIV_ROUND_UP (end_block, zb);
    const uint32_t from = skip_unmapped (v, c, last);
    uint64_t stop;

    if (from > c) {
      first_block = (uint64_t) from * zb;
      continue;
    }
    stop = MIN (end_block, (uint64_t) (c + 1) * zb);
    if (trim_chunk (v, c, first_block % zb, stop - (uint64_t) c * zb) == -1)
      return -1;
    first_block = stop;
  }
  return 0;
}

static int
zero_edge (struct sh_volume *v, uint64_t from, uint64_t to, bool fua, bool *need_commit)
{
  const uint64_t zone_bytes = v->table->zone_bytes;

  if (from >= to)
    return 0;
  return write_zero_edge (v, from / zone_bytes, from & (zone_bytes - 1), to - from, fua,
                          need_commit);
}

int
zero_range (struct sh_volume *v, uint64_t from, uint64_t to, bool fua, bool *need_commit)
{
  const uint64_t first = DIV_ROUND_UP (from, BLOCK_BYTES), end = to / BLOCK_BYTES;

  if (first > end)              /* inside one block */
    return zero_edge (v, from, to, fua, need_commit);
  if (zero_edge (v, from, first * BLOCK_BYTES, fua, need_commit) == -1 ||
      zero_edge (v, end * BLOCK_BYTES, to, fua, need_commit) == -1)
    return -1;
  if (first < end) {
    *need_commit |= fua;
    return trim_range (v, first, end);
  }
  return 0;
}

/* ---- extents ---- */

/* Whether block `b` (of the volume) starts a hole, and for how many blocks, at
   most up to `end`. */
static int
extent_at (struct sh_volume *v, uint64_t b, uint64_t end, uint64_t *count, bool *hole)
{
  const uint32_t zb = v->l.zone_blocks, c = b / zb;
  const uint64_t max = MIN (end - b, zb - b % zb);
  struct map_entry m;
  int r;

  pthread_mutex_lock (&v->lock);
  if (v->dying || chunk_is_bad (v, c)) {
    errno = v->dying ? ENODEV : EIO;
    r = -1;
  }
  else
    r = bits_load_chunk (v, c, &m);
  if (r == 0 && m.data == ZONE_NONE) {
    uint32_t next = c + 1;

    while ((uint64_t) next * zb < end && v->map[next].data == ZONE_NONE &&
           !chunk_is_bad (v, next))
      next++;
    *hole = true;
    *count = MIN (end, (uint64_t) next * zb) - b;
  }
  else if (r == 0) {
    const struct run first = run_at_locked (v, &m, b % zb, max);
    uint32_t n = first.count;

    *hole = first.zone == ZONE_NONE;
    while (n < max) {
      const struct run run = run_at_locked (v, &m, b % zb + n, max - n);

      if ((run.zone == ZONE_NONE) != *hole)
        break;
      n += run.count;
    }
    *count = n;
  }
  pthread_mutex_unlock (&v->lock);
  return r;
}

struct extent_sink {
  int (*fn) (void *opaque, uint64_t offset, uint64_t length, bool hole);
  void *opaque;
  uint64_t from, to;            /* the piece collected so far, bytes */
  bool hole;
};

static int
sink_flush (struct extent_sink *s)
{
  const uint64_t from = s->from;

  s->from = s->to;
  return from < s->to ? s->fn (s->opaque, from, s->to - from, s->hole) : 0;
}

static int
sink_add (struct extent_sink *s, uint64_t to, bool hole)
{
  if (hole != s->hole) {
    const int r = sink_flush (s);

    if (r != 0)
      return r;
    s->hole = hole;
  }
  s->to = to;
  return 0;
}

static int
walk_extents (struct sh_volume *v, uint64_t end, struct extent_sink sink)
{
  int r = 0;

  while (sink.to < end && r == 0) {
    const uint64_t b = sink.to / BLOCK_BYTES;
    uint64_t n = 0;
    bool hole = true;

    if (extent_at (v, b, DIV_ROUND_UP (end, BLOCK_BYTES), &n, &hole) == -1)
      return -1;
    r = sink_add (&sink, MIN (end, (b + n) * BLOCK_BYTES), hole);
  }
  if (r == 0)
    r = sink_flush (&sink);
  return r == -1 ? -1 : 0;
}

int
sh_volume_extents (struct sh_volume *v, uint64_t count, uint64_t offset,
                   int (*fn) (void *opaque, uint64_t offset, uint64_t length, bool hole),
                   void *opaque)
{
  const struct extent_sink sink = { fn, opaque, offset, offset, false };

  if (offset > v->size_bytes || count > v->size_bytes - offset) {
    errno = EINVAL;
    return -1;
  }
  if (!volume_enter (v))
    return -1;
  return volume_leave (v, walk_extents (v, offset + count, sink));
}
