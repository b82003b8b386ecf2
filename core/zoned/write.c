/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writing: where a piece goes, and what its completion means.
 *
 *   chunk unmapped        a stream's beginning: a seq zone; else a random zone
 *   data zone random      in place; where a stream begins in a chunk that holds
 *                         little, a seq zone comes before it, and it is the buffer
 *   data zone seq         at the write pointer: append
 *                         a little behind it, in a stream: wait for its turn
 *                         before it, or far behind it: buffer zone
 * A piece that crosses the write pointer is split there.
 */
#include <config.h>
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include "zoned/running.h"

#define EDGE_IOV 3              /* first block, middle, last block */
#define KEEP_FREE_SEQ 2u        /* seq zones that no chunk takes that has a zone */

/* One write call's part in one chunk, in whole blocks. */
struct piece {
  struct chunk *ch;
  uint32_t first, count;        /* blocks */
  struct iovec iov[EDGE_IOV];
  int iovcnt;
  unsigned hwq;
  bool fua;                     /* asked for */
  bool need_commit;             /* FUA needs metadata that is not durable */
  bool late;                    /* waited for its turn to append in vain */
};

int
iov_slice (struct iovec *out, const struct iovec *iov, int iovcnt,
           uint64_t skip, uint64_t len)
{
  int n = 0, i;

  for (i = 0; i < iovcnt && len > 0; ++i) {
    uint64_t take;

    if (skip >= iov[i].iov_len) {
      skip -= iov[i].iov_len;
      continue;
    }
    take = MIN (iov[i].iov_len - skip, len);
    out[n++] = (struct iovec) { (uint8_t *) iov[i].iov_base + skip, take };
    skip = 0;
    len -= take;
  }
  return n;
}

/* ---- completion ---- */

int
write_complete (struct sh_volume *v, struct chunk *ch, uint32_t zone,
                uint32_t first, uint32_t count, bool durable)
{
  struct map_entry m;
  uint32_t other;

  if (bits_load_chunk (v, ch->id, &m) == -1)
    return -1;
  /* Reclaim may have made a buffer zone of the data zone meanwhile. */
  assert (zone == m.data || zone == m.buffer);
  other = zone == m.data ? m.buffer : m.data;
  if (other == ZONE_NONE)
    bits_set_locked (v, zone, first, count);
  else {
    zone_ref (v, other);        /* keeps its bitmap in the cache */
    bits_set_locked (v, zone, first, count);
    bits_clear_locked (v, other, first, count);
    zone_unref_locked (v, other);
  }
  if (ch->redo != NULL)
    words_fill (ch->redo, first, count, true);
  v->zones[zone].last_ms = now_ms (v);
  if (!durable)
    v->unsynced = true;
  return 0;
}

/* Does the state of this chunk rest on metadata that no commit has made
   durable? */
static bool
meta_pending_locked (const struct sh_volume *v, uint32_t c)
{
  const struct map_entry m = v->map[c];
  const unsigned not_durable = RZ_DIRTY | RZ_COMMIT;

  return (v->map_flags[map_unit (v, c)] & (MAP_DIRTY | MAP_COMMIT)) ||
         (v->zones[m.data].flags & not_durable) ||
         (m.buffer != ZONE_NONE && (v->zones[m.buffer].flags & not_durable));
}

/* ---- random and buffer zones ---- */

static int
write_random (struct sh_volume *v, struct piece *p, uint32_t zone, uint32_t first,
              uint32_t count)
{
  const uint64_t at = zone_byte (v, zone, first);
  struct iovec iov[EDGE_IOV];
  const int n = iov_slice (iov, p->iov, p->iovcnt,
                           (uint64_t) (first - p->first) * BLOCK_BYTES,
                           (uint64_t) count * BLOCK_BYTES);
  const bool buffered = v->zones[zone].state == ZS_BUFFER;
  unsigned flags = 0;
  int r, e;

  if (p->fua && v->bdev->info.fua && !meta_pending_locked (v, p->ch->id) &&
      (v->zones[zone].flags & RZ_KNOWN) && bits_all_set_locked (v, zone, first, count))
    flags = BDEV_FUA;
  zone_ref (v, zone);
  pthread_mutex_unlock (&v->lock);
  r = dev_rw (v, BDEV_WRITE, flags, at, iov, n, p->hwq, NULL);
  e = errno;
  pthread_mutex_lock (&v->lock);
  zone_unref_locked (v, zone);
  if (r == 0) {
    *(buffered ? &v->st.buffered_bytes : &v->st.in_place_bytes) +=
      (uint64_t) count * BLOCK_BYTES;
    r = write_complete (v, p->ch, zone, first, count, flags & BDEV_FUA);
    e = errno;
    if (!(flags & BDEV_FUA) || meta_pending_locked (v, p->ch->id))
      p->need_commit = p->fua;
  }
  else if (e == EROFS && !is_seq (v, zone)) {
    v->zones[zone].flags |= RZ_READ_ONLY;       /* reclaim moves the chunk away */
    e = EIO;
  }
  errno = e;
  return r;
}

/* ---- unmapped chunks ---- */

/* The chunk before was just written near its end. */
static bool
stream_comes_locked (const struct sh_volume *v, uint32_t c)
{
  const uint32_t near = MAX (COPY_BLOCKS, v->l.zone_blocks / 16);
  const struct rzone *z;
  uint32_t d;

  if (c == 0 || v->map[c - 1].data == ZONE_NONE)
    return false;
  d = v->map[c - 1].data;
  z = &v->zones[d];
  return now_ms (v) - z->last_ms <= STREAM_RECENT_MS && (z->flags & RZ_KNOWN) &&
         v->l.zone_blocks - ((z->flags & RZ_SEQ) ? z->wp : bits_end_locked (v, d)) <= near;
}

/* Is a write in an unmapped chunk, behind its start, a piece of a stream whose first
   piece is late? */
static bool
early_piece_locked (const struct sh_volume *v, uint32_t c, uint32_t first,
                    uint32_t count)
{
  if (first == 0 || free_seq_locked (v) == 0)
    return false;
  return stream_comes_locked (v, c) ||
         (count >= STREAM_START_BLOCKS && first / 16 <= count &&
          v->start_vain < REORDER_VAIN_MAX);
}

/* Maps an unmapped chunk for a write at block `first`.  0: look again.  Drops
   the lock. */
static int
map_new (struct sh_volume *v, struct piece *p, uint32_t first, uint32_t count)
{
  const uint32_t c = p->ch->id;
  const bool stream = count >= MIN (STREAM_START_BLOCKS, v->l.zone_blocks) ||
                      stream_comes_locked (v, c);
  const uint32_t keep = v->free_random.count > 0 ? 1 : 0;
  uint32_t z;

  if (first == 0 && stream && free_seq_locked (v) > keep) {
    z = alloc_seq (v);
    if (z != ZONE_NONE) {
      if (v->map[c].data != ZONE_NONE) {        /* somebody was faster */
        zone_discard_locked (v, z);
        return 0;
      }
      map_set_locked (v, c, z, ZONE_NONE);
      v->start_vain = 0;
      return 0;
    }
    if (v->map[c].data != ZONE_NONE)
      return 0;
  }
  z = alloc_random_locked (v);
  if (z == ZONE_NONE)
    return space_wait (v, c);
  map_set_locked (v, c, z, ZONE_NONE);
  append_redecide_locked (v, p->ch);    /* those that hoped for a stream */
  return 0;
}

/* Does a stream begin here, over a random zone that holds little? */
static bool
stream_begins_locked (const struct sh_volume *v, const struct piece *p, uint32_t first,
                      uint32_t count)
{
  const struct rzone *const d = &v->zones[v->map[p->ch->id].data];

  return first == 0 && count >= MIN (STREAM_START_BLOCKS, v->l.zone_blocks) &&
         (d->flags & RZ_KNOWN) && d->weight <= v->l.zone_blocks / 4 &&
         free_seq_locked (v) > KEEP_FREE_SEQ && v->victim != p->ch;
}

/* Puts a seq zone before the random data zone.  Its blocks stay where they are until
   the stream comes over them, or the reclaim of the buffer zone.  Drops the lock; the
   caller looks again. */
static bool
put_seq_before (struct sh_volume *v, struct piece *p)
{
  const uint32_t c = p->ch->id, random = v->map[c].data;
  const uint32_t z = alloc_seq (v);

  if (z == ZONE_NONE)
    return false;
  if (v->map[c].data != random || v->victim == p->ch)
    zone_discard_locked (v, z);         /* somebody was faster */
  else {
    map_set_locked (v, c, z, random);
    v->start_vain = 0;
  }
  return true;
}

static int
add_buffer (struct sh_volume *v, uint32_t c)
{
  const uint32_t z = alloc_random_locked (v);

  if (z == ZONE_NONE)
    return space_wait (v, c);
  map_set_locked (v, c, v->map[c].data, z);
  return 0;
}

/* ---- the decision ---- */

static int64_t
write_appending (struct sh_volume *v, struct piece *p, uint32_t first, uint32_t count)
{
  struct iovec iov[EDGE_IOV];
  const int n = iov_slice (iov, p->iov, p->iovcnt,
                           (uint64_t) (first - p->first) * BLOCK_BYTES,
                           (uint64_t) count * BLOCK_BYTES);
  const int64_t r = append_write (v, p->ch, first, count, iov, n, p->hwq,
                                  &p->late);

  if (r > 0)
    p->need_commit = p->fua;
  return r;
}

/* Writes some blocks at the front of what is left.  Blocks written, 0: decide
   again, -1 errno. */
static int64_t
write_some (struct sh_volume *v, struct piece *p, uint32_t first, uint32_t count)
{
  const struct map_entry m = v->map[p->ch->id];
  const struct rzone *d;

  if (m.data == ZONE_NONE) {
    if (early_piece_locked (v, p->ch->id, first, count) &&
        append_wanted_locked (v, p->ch, first, count, p->late))
      return write_appending (v, p, first, count);
    return map_new (v, p, first, count);
  }
  d = &v->zones[m.data];
  if (!(d->flags & RZ_SEQ)) {
    if (d->flags & (RZ_READ_ONLY | RZ_OFFLINE)) {
      errno = EIO;
      return -1;
    }
    if (stream_begins_locked (v, p, first, count) && put_seq_before (v, p))
      return 0;
    return write_random (v, p, m.data, first, count) == -1 ? -1 : (int64_t) count;
  }
  if (first < d->wp)
    count = MIN (count, d->wp - first);
  else if (append_wanted_locked (v, p->ch, first, count, p->late))
    return write_appending (v, p, first, count);
  if (m.buffer == ZONE_NONE)
    return add_buffer (v, p->ch->id);
  return write_random (v, p, m.buffer, first, count) == -1 ? -1 : (int64_t) count;
}

static int
write_piece_blocks (struct sh_volume *v, struct piece *p)
{
  uint32_t done = 0;

  while (done < p->count) {
    int64_t r;

    if (v->dying) {
      errno = ENODEV;
      return -1;
    }
    r = write_some (v, p, p->first + done, p->count - done);
    if (r < 0)
      return -1;
    done += r;
  }
  return 0;
}

/* ---- blocks that are written in part ---- */

/* The current content of block b; the caller holds its range. */
static int
read_edge (struct sh_volume *v, struct piece *p, uint32_t b, uint8_t *block)
{
  int r;

  pthread_mutex_unlock (&v->lock);
  r = read_blocks (v, p->ch->id, (uint64_t) b * BLOCK_BYTES, BLOCK_BYTES, block, p->hwq);
  pthread_mutex_lock (&v->lock);
  return r;
}

struct edges {
  uint8_t head[BLOCK_BYTES] __attribute__ ((aligned (BLOCK_BYTES)));
  uint8_t tail[BLOCK_BYTES] __attribute__ ((aligned (BLOCK_BYTES)));
};

static void
add_iov (struct piece *p, void *base, size_t len)
{
  if (len > 0)
    p->iov[p->iovcnt++] = (struct iovec) { base, len };
}

/* Fills p->iov with whole blocks that hold buf at byte `offset` of the chunk. */
static int
fill_edges (struct sh_volume *v, struct piece *p, struct edges *e, uint64_t offset,
            uint64_t count, const uint8_t *buf)
{
  const uint32_t skip = offset % BLOCK_BYTES;
  const uint32_t n = skip ? MIN (BLOCK_BYTES - skip, count) : 0;
  const uint64_t rest = count - n, whole = rest - rest % BLOCK_BYTES;

  if (skip) {
    if (read_edge (v, p, p->first, e->head) == -1)
      return -1;
    memcpy (e->head + skip, buf, n);
    add_iov (p, e->head, BLOCK_BYTES);
  }
  add_iov (p, (void *) (buf + n), whole);
  if (rest > whole) {
    if (read_edge (v, p, p->first + p->count - 1, e->tail) == -1)
      return -1;
    memcpy (e->tail, buf + n + whole, rest - whole);
    add_iov (p, e->tail, BLOCK_BYTES);
  }
  return 0;
}

static int
write_unaligned (struct sh_volume *v, struct piece *p, uint64_t offset, uint64_t count,
                 const uint8_t *buf)
{
  struct edges e;

  if (fill_edges (v, p, &e, offset, count, buf) == -1)
    return -1;
  return write_piece_blocks (v, p);
}

/* ---- one piece ---- */

static bool
may_write_locked (struct sh_volume *v, uint32_t c)
{
  if (v->dying || chunk_is_bad (v, c)) {
    errno = v->dying ? ENODEV : EIO;
    return false;
  }
  return true;
}

/* ---- zeroes ---- */

static bool
all_zero (const uint8_t *buf, uint64_t count)
{
  return count > 0 && buf[0] == 0 && memcmp (buf, buf + 1, count - 1) == 0;
}

/* Blocks without a bit read as zeroes, so whole blocks of zeroes need no data:
   a client that has no other way to zero (the kernel's NBD client before 6.14)
   sends them as writes, mkfs a journal full of them.  What belongs to a stream
   is stored all the same, so that the stream is not interrupted; and so are a few
   blocks, where a change of metadata, now or when they are written again, is dearer:
   mkfs clears the place of the superblock, and writes that last. */
static bool
may_leave_out (struct sh_volume *v, const struct piece *p)
{
  const struct map_entry m = v->map[p->ch->id];

  if (p->count < STREAM_START_BLOCKS)
    return false;
  if (m.data == ZONE_NONE)
    return p->ch->appends == NULL && !stream_comes_locked (v, p->ch->id);
  if (!is_seq (v, m.data))
    return true;
  return p->first + p->count <= v->zones[m.data].wp;
}

static int
write_whole (struct sh_volume *v, struct piece *p, uint64_t count, const uint8_t *buf,
             bool zeroes)
{
  if (zeroes && may_leave_out (v, p)) {
    p->need_commit = p->fua;
    return trim_blocks (v, p->ch, p->first, p->count);
  }
  add_iov (p, (void *) buf, count);
  return write_piece_blocks (v, p);
}

/* Writes [offset, offset + count) of chunk c. */
static int
write_chunk (struct sh_volume *v, uint32_t c, uint64_t offset, uint64_t count,
             const uint8_t *buf, struct piece *p)
{
  const uint32_t end = DIV_ROUND_UP (offset + count, BLOCK_BYTES);
  const bool whole = (offset | count) % BLOCK_BYTES == 0;
  const bool zeroes = whole && all_zero (buf, count);
  struct range range;
  int r = -1, e;

  p->first = offset / BLOCK_BYTES;
  p->count = end - p->first;
  p->iovcnt = 0;
  pthread_mutex_lock (&v->lock);
  if (may_write_locked (v, c)) {
    worker_note_activity_locked (v);
    p->ch = chunk_get_locked (v, c);
    range_lock (v, p->ch, &range, p->first, end, true);
    range.write = true;
    r = whole ? write_whole (v, p, count, buf, zeroes) :
                write_unaligned (v, p, offset, count, buf);
    e = errno;
    range_unlock_locked (v, p->ch, &range);
    chunk_put_locked (v, p->ch);
    errno = e;
  }
  pthread_mutex_unlock (&v->lock);
  return r;
}

int
write_zero_edge (struct sh_volume *v, uint32_t c, uint64_t offset, uint32_t count,
                 bool fua, bool *need_commit)
{
  static const uint8_t zeroes[BLOCK_BYTES];
  struct piece p = { .fua = fua };
  const uint32_t b = offset / BLOCK_BYTES;
  struct map_entry m;
  bool hole;
  int r;

  pthread_mutex_lock (&v->lock);
  r = may_write_locked (v, c) ? bits_load_chunk (v, c, &m) : -1;
  hole = r == 0 && run_at_locked (v, &m, b, 1).zone == ZONE_NONE &&
         chunk_find_locked (v, c) == NULL;
  pthread_mutex_unlock (&v->lock);
  if (r == -1 || hole)
    return r;
  r = write_chunk (v, c, offset, count, zeroes, &p);
  *need_commit |= p.need_commit;
  return r;
}

int
write_range (struct sh_volume *v, const uint8_t *buf, uint64_t count, uint64_t offset,
             unsigned hwq, bool fua, bool *need_commit)
{
  const uint64_t zone_bytes = v->table->zone_bytes;

  while (count > 0) {
    struct piece p = { .hwq = hwq, .fua = fua };
    const uint64_t in_chunk = offset & (zone_bytes - 1);
    const uint64_t n = MIN (count, zone_bytes - in_chunk);

    if (write_chunk (v, offset / zone_bytes, in_chunk, n, buf, &p) == -1)
      return -1;
    *need_commit |= p.need_commit;
    offset += n;
    buf += n;
    count -= n;
  }
  return 0;
}
