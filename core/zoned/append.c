/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Appending to a sequential zone.
 *
 * One device write at a time goes to a zone, at its write pointer.  Writers that
 * come meanwhile queue by block.  The one at the write pointer leads: it takes
 * all that follow without a gap into one device write and wakes them with their
 * results.  Who stands behind a gap waits for a few milliseconds, since requests
 * of a stream that arrive through several queues are out of order by little; then
 * he goes to the buffer zone.  A zone where such waits were in vain gets no more
 * until its appends go on in order.  When the missing piece comes later than that,
 * the next ones wait for longer: how late is late depends on the client, and on how
 * busy its machine is and ours.
 *
 * When the one that was late has come after all, what went to the buffer zone before
 * is a gap in the line.  Who stands next behind a gap that the buffer zone fills
 * copies it and goes on: a piece that is late costs the few that had passed it
 * another write, and not the rest of the chunk.
 *
 * When a device write fails, what the drive took is counted; everybody else
 * decides again, and the zone takes no more appends unless the drive told a write
 * pointer that we can go on from.
 */
#include <config.h>
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include "zoned/copy.h"

/* ---- the queue ---- */

static bool
can_append (const struct sh_volume *v, const struct chunk *ch)
{
  const uint32_t z = v->map[ch->id].data;

  if (ch->no_append)
    return false;
  return z == ZONE_NONE ||
         ((v->zones[z].flags & RZ_SEQ) &&
          !(v->zones[z].flags & (RZ_NO_APPEND | RZ_READ_ONLY | RZ_OFFLINE)));
}

/* Where the line of appends without a gap ends, up to node `to`. */
static uint32_t
line_end (const struct sh_volume *v, const struct chunk *ch, const struct append *to)
{
  const uint32_t z = v->map[ch->id].data;
  uint32_t end = ch->append_busy ? ch->append_end : z != ZONE_NONE ? v->zones[z].wp : 0;
  const struct append *a;

  for (a = ch->appends; a != to && a->first <= end; a = a->next)
    end = MAX (end, a->first + a->count);
  return end;
}

/* Are all blocks from the write pointer up to `first` in the buffer zone, not too many
   of them for one writer to copy, and nobody at work there? */
static bool
gap_is_buffered (const struct sh_volume *v, const struct chunk *ch, uint32_t first)
{
  const struct map_entry m = v->map[ch->id];
  uint32_t wp;

  if (m.data == ZONE_NONE || m.buffer == ZONE_NONE || ch->append_busy ||
      !(v->zones[m.buffer].flags & RZ_KNOWN))
    return false;
  wp = v->zones[m.data].wp;
  return wp < first && first - wp <= GAP_MAX_BLOCKS &&
         bits_all_set_locked (v, m.buffer, wp, first - wp) &&
         range_is_free_locked (ch, wp, first);
}

bool
append_wanted_locked (struct sh_volume *v, struct chunk *ch, uint32_t first,
                      uint32_t count, bool late)
{
  const uint32_t z = v->map[ch->id].data;
  const struct rzone *const d = z != ZONE_NONE ? &v->zones[z] : NULL;
  const uint32_t end = line_end (v, ch, NULL);

  if (!can_append (v, ch) || first < end)
    return false;
  if (first == end)
    return d != NULL || end > 0;
  if (first - end > MAX (COPY_BLOCKS, 32 * (uint64_t) count))
    return false;
  if ((ch->appends == NULL || first < ch->appends->first) &&
      gap_is_buffered (v, ch, first))
    return true;
  if (late || v->opt.reorder_window_ns == 0)
    return false;
  if (d == NULL)
    return true;
  return d->vain < REORDER_VAIN_MAX &&
         (ch->append_busy || ch->appends != NULL ||
          (d->wp > 0 && now_ms (v) - d->last_ms <= STREAM_RECENT_MS));
}

static void
queue_insert (struct chunk *ch, struct append *a)
{
  struct append **p = &ch->appends;

  while (*p != NULL && (*p)->first < a->first)
    p = &(*p)->next;
  a->next = *p;
  *p = a;
}

static void
queue_remove (struct chunk *ch, struct append *a)
{
  struct append **p = &ch->appends;

  while (*p != a)
    p = &(*p)->next;
  *p = a->next;
}

static void
finish (struct append *a, int state, uint32_t done, int errnum)
{
  a->state = state;
  a->done = done;
  a->errnum = errnum;
  if (a->has_cond)
    pthread_cond_signal (&a->cond);
}

void
append_redecide_locked (struct sh_volume *v, struct chunk *ch)
{
  while (ch->appends != NULL) {
    struct append *const a = ch->appends;

    ch->appends = a->next;
    finish (a, APPEND_AGAIN, 0, 0);
  }
}

/* ---- leading ---- */

struct batch {
  struct append *nodes;         /* taken off the queue, in order */
  uint32_t first, count;
  unsigned hwq;
  int iovcnt;
  struct iovec iov[JOIN_MAX_IOV];
};

/* Takes the head of the queue and what follows it without a gap. */
static void
gather (struct chunk *ch, struct batch *b)
{
  struct append **end = &b->nodes;

  b->nodes = NULL;
  b->first = ch->appends->first;
  b->hwq = ch->appends->hwq;
  b->count = 0;
  b->iovcnt = 0;
  while (ch->appends != NULL) {
    struct append *const a = ch->appends;

    if (a->first != b->first + b->count || b->iovcnt + a->iovcnt > JOIN_MAX_IOV ||
        (b->count > 0 && (uint64_t) (b->count + a->count) * BLOCK_BYTES > JOIN_MAX_BYTES))
      break;
    ch->appends = a->next;
    a->next = NULL;
    a->state = APPEND_TAKEN;
    *end = a;
    end = &a->next;
    memcpy (b->iov + b->iovcnt, a->iov, a->iovcnt * sizeof a->iov[0]);
    b->iovcnt += a->iovcnt;
    b->count += a->count;
  }
}

/* Bits at or behind the write pointer refer to data that is gone. */
static void
data_lost (struct sh_volume *v, uint32_t z, uint32_t wp)
{
  sh_log (v->opt.log, SH_LOG_ERROR, "%s: the write pointer of zone %" PRIu32 " went back from "
          "block %" PRIu32 " to %" PRIu32 ": somebody else writes to this drive; what stood "
          "behind it is lost", v->bdev->info.name, z, v->zones[z].wp, wp);
  if (v->zones[z].flags & RZ_KNOWN)
    bits_clear_locked (v, z, wp, v->l.zone_blocks - wp);
}

/* The drive refused the position, so it took nothing of ours: asks where its
   write pointer is.  Drops the lock. */
static void
settle (struct sh_volume *v, uint32_t z)
{
  struct rzone *const zone = &v->zones[z];
  struct zone found;
  int r;

  pthread_mutex_unlock (&v->lock);
  r = zone_report_one (v->bdev, v->table, z, &found);
  pthread_mutex_lock (&v->lock);
  if (r == -1 || found.wp_odd || found.wp_unknown || ++zone->errors > ZONE_ERRORS_MAX)
    zone->flags |= RZ_NO_APPEND;
  if (r == -1)
    return;
  if (found.cond == ZONE_OFFLINE)
    zone->flags |= RZ_OFFLINE;
  else if (found.cond == ZONE_READ_ONLY)
    zone->flags |= RZ_READ_ONLY;
  else {
    if (found.wp < zone->wp)
      data_lost (v, z, found.wp);
    zone->wp = found.wp;
  }
}

/* What a failed append got done, in blocks; what it means for the zone. */
static uint32_t
append_failed (struct sh_volume *v, uint32_t z, uint32_t count, uint64_t done_bytes,
               int errnum)
{
  struct rzone *const zone = &v->zones[z];

  if (errnum == EREMOTEIO) {
    settle (v, z);
    return 0;
  }
  zone->flags |= RZ_NO_APPEND;
  if (errnum == EROFS)
    zone->flags |= RZ_READ_ONLY;
  return MIN (done_bytes / BLOCK_BYTES, count);
}

/* Everyone in the batch learns his result. */
static void
hand_out (struct batch *b, uint32_t done, int errnum)
{
  while (b->nodes != NULL) {
    struct append *const a = b->nodes;
    const uint32_t n = MIN (done, a->count);

    b->nodes = a->next;
    finish (a, n == a->count ? APPEND_DONE : APPEND_AGAIN, n, errnum);
    done -= n;
  }
}

static void
wake_next (struct sh_volume *v, struct chunk *ch)
{
  struct append *const a = ch->appends;

  if (ch->no_append)
    pthread_cond_broadcast (&v->thaw);
  if (a == NULL)
    return;
  if (!can_append (v, ch))
    append_redecide_locked (v, ch);
  else if (a->has_cond)
    pthread_cond_signal (&a->cond);
}

/* Blocks [first, end) were appended.  Had one waited for them, and not long enough?
   It takes two to tell a stream from one who writes backwards. */
static bool
was_late (struct sh_volume *v, const struct chunk *ch, uint32_t first, uint32_t end)
{
  const bool so = v->gap.chunk == ch->id && end >= v->gap.block;

  if (!so)
    return false;
  if (first < v->gap.block && v->gap.waits > 1)
    v->reorder_ns = MAX (v->reorder_ns,
                         MIN (2 * (sh_now (v->clock) - v->gap.since_ns),
                              MAX (v->opt.reorder_window_ns, REORDER_MAX_NS)));
  v->gap.chunk = CHUNK_NONE;
  return true;
}

/* One device write for the head of the queue and those behind it. */
static void
lead (struct sh_volume *v, struct chunk *ch)
{
  const uint32_t z = v->map[ch->id].data;
  struct rzone *const zone = &v->zones[z];
  struct batch b;
  uint64_t done_bytes;
  uint32_t done;
  bool failed;
  int r, e = 0;

  gather (ch, &b);
  assert (b.first == zone->wp && b.first + b.count <= v->l.zone_blocks);
  ch->append_busy = true;
  ch->append_end = b.first + b.count;
  zone_ref (v, z);
  /* Its bitmap is seen, and masked at the old write pointer, before that moves. */
  r = bits_load (v, z);
  if (r == 0) {
    pthread_mutex_unlock (&v->lock);
    r = dev_rw (v, BDEV_WRITE, 0, zone_byte (v, z, b.first), b.iov, b.iovcnt, b.hwq,
                &done_bytes);
    e = errno;
    pthread_mutex_lock (&v->lock);
    done = r == 0 ? b.count : append_failed (v, z, b.count, done_bytes, e);
    e = 0;
    if (done > 0)
      zone->wp = b.first + done;
  }
  else {
    e = errno;
    done = 0;
  }
  if (done > 0) {
    v->st.direct_bytes += (uint64_t) done * BLOCK_BYTES;
    if (!was_late (v, ch, b.first, b.first + done) && zone->vain > 0)
      zone->vain--;
    if (write_complete (v, ch, z, b.first, done, false) == -1) {
      e = errno;
      done = 0;
    }
  }
  zone_unref_locked (v, z);
  ch->append_busy = false;
  failed = done < b.count;
  hand_out (&b, done, e);
  /* After a failure the line has a gap where nobody may come, and those behind it
     wait without a limit: all decide again. */
  if (failed)
    append_redecide_locked (v, ch);
  wake_next (v, ch);
}

/* ---- gaps ---- */

/* Closes the gap before the head of the queue. */
static void
catch_up (struct sh_volume *v, struct chunk *ch, uint32_t first)
{
  struct rzone *const zone = &v->zones[v->map[ch->id].data];
  struct range range;

  range_hold_locked (ch, &range, zone->wp, first);
  ch->append_busy = true;
  ch->append_end = first;
  v->wanted++;
  copy_gap (v, ch, first);
  v->wanted--;
  ch->append_busy = false;
  range_unlock_locked (v, ch, &range);
  wake_next (v, ch);
}

/* ---- waiting ---- */

/* Somebody fills the gap, or the time is over (-1).  *since: when the wait began. */
static int
wait_for_gap (struct sh_volume *v, struct append *a, uint64_t *since)
{
  const uint64_t now = sh_now (v->clock);

  if (*since == 0)
    *since = now;
  if (now - *since >= v->reorder_ns)
    return -1;
  sh_cond_wait_until (v->clock, &a->cond, &v->lock, *since + v->reorder_ns);
  return 0;
}

static void
note_vain (struct sh_volume *v, struct chunk *ch, uint32_t first, uint64_t since)
{
  const uint32_t z = v->map[ch->id].data;

  if (z == ZONE_NONE)
    v->start_vain = MIN (v->start_vain + 1u, REORDER_VAIN_MAX);
  else if (v->zones[z].vain < REORDER_VAIN_MAX)
    v->zones[z].vain++;
  v->reorder_ns = MAX (v->reorder_ns / 2, v->opt.reorder_window_ns);
  if (v->gap.chunk != ch->id) {
    v->gap.chunk = ch->id;
    v->gap.block = first;
    v->gap.waits = 0;
    v->gap.since_ns = since;
  }
  v->gap.block = MIN (v->gap.block, first);
  v->gap.waits++;
}

static void
wait_turn (struct sh_volume *v, struct chunk *ch, struct append *a, bool *late)
{
  uint64_t since = 0;

  while (a->state == APPEND_WAITS) {
    const uint32_t z = v->map[ch->id].data;

    if (v->dying || !can_append (v, ch)) {
      queue_remove (ch, a);
      a->state = APPEND_AGAIN;
    }
    else if (z != ZONE_NONE && !ch->append_busy && ch->appends == a &&
             a->first == v->zones[z].wp)
      lead (v, ch);
    else if (z != ZONE_NONE && a->first < v->zones[z].wp) {
      queue_remove (ch, a);
      a->state = APPEND_AGAIN;
    }
    else if (ch->appends == a && gap_is_buffered (v, ch, a->first))
      catch_up (v, ch, a->first);
    else {
      if (!a->has_cond) {
        sh_cond_init (&a->cond);
        a->has_cond = true;
      }
      if (line_end (v, ch, a) == a->first && z != ZONE_NONE)
        pthread_cond_wait (&a->cond, &v->lock);
      else if (wait_for_gap (v, a, &since) == -1) {
        queue_remove (ch, a);
        a->state = APPEND_AGAIN;
        *late = true;
        note_vain (v, ch, a->first, since);
      }
    }
  }
  /* A leader takes us off the queue and writes without the lock. */
  while (a->state == APPEND_TAKEN)
    pthread_cond_wait (&a->cond, &v->lock);
}

int64_t
append_write (struct sh_volume *v, struct chunk *ch, uint32_t first, uint32_t count,
              const struct iovec *iov, int iovcnt, unsigned hwq, bool *late)
{
  struct append a = {
    .first = first,
    .count = count,
    .iov = iov,
    .iovcnt = iovcnt,
    .hwq = hwq,
    .state = APPEND_WAITS,
  };

  queue_insert (ch, &a);
  wait_turn (v, ch, &a, late);
  if (a.has_cond)
    pthread_cond_destroy (&a.cond);
  if (a.errnum != 0) {
    errno = a.errnum;
    return -1;
  }
  return a.done;
}
