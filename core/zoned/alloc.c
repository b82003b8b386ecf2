/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Zones that come and go: free lists, the map, and waiting for space.
 *
 * Why nobody waits for ever.  Let U be the zones that may hold data, M the chunks
 * that are mapped, K those with a buffer zone: U - M - K zones are free or on
 * their way to be.  The format keeps M <= U - R, R >= 1.  When a writer waits for
 * a random zone, space_step finds one of these:
 *   - zones are pending: a commit makes them free;
 *   - a seq zone is free: some random zone holds a chunk's data or is its buffer
 *     (there is at least one random zone, and none is free), and a cycle moves
 *     that chunk into the seq zone, which gives the random zone back;
 *   - nothing is free: then K = U - M >= R >= 1, so some chunk has a buffer, and
 *     its data zone is merged into the buffer zone, which needs no free zone and
 *     gives a seq zone back.
 * The random zones that a crowd leaves (nr_spare) do not matter here: when a cycle
 * gains nothing, they are handed out as well.
 * Each step is finite, so the zone comes.  It goes to the chunk with the most
 * waiting writers, or to one that was passed too often, and to all its writers
 * at once.
 */
#include <config.h>
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include "zoned/running.h"

#define RESET_ALL_MIN 8         /* fewer zones are reset one by one */
#define PASSED_MAX 8            /* grants to others, then the oldest waiter is next */

/* ---- lists ---- */

void
list_push (struct sh_volume *v, struct zone_list *l, uint32_t z)
{
  v->zones[z].next = ZONE_NONE;
  if (l->count++ == 0)
    l->head = z;
  else
    v->zones[l->tail].next = z;
  l->tail = z;
}

uint32_t
list_pop (struct sh_volume *v, struct zone_list *l)
{
  const uint32_t z = l->head;

  if (l->count == 0)
    return ZONE_NONE;
  l->count--;
  l->head = v->zones[z].next;
  return z;
}

uint32_t
free_seq_locked (const struct sh_volume *v)
{
  return v->free_seq.count + v->unreset.count;
}

/* ---- taking ---- */

static void
take (struct sh_volume *v, uint32_t z)
{
  struct rzone *const zone = &v->zones[z];

  assert (zone->state == ZS_FREE && zone->refs == 0);
  zone->state = ZS_TARGET;
  zone->vain = 0;
  bits_zero_locked (v, z);
}

/* Random zones that may be taken now.  A crowd leaves some: its writers wait for
   reclaim anyhow, one after the other, whoever is served first; but one who comes
   alone, as a program that writes a little and syncs, gets his zone at once
   and without a chunk being copied for it. */
static uint32_t
random_to_be_had (const struct sh_volume *v)
{
  const uint32_t left = v->crowded ? v->nr_spare : 0;

  return v->free_random.count - MIN (v->free_random.count, left);
}

static uint32_t
take_random (struct sh_volume *v)
{
  const uint32_t z = list_pop (v, &v->free_random);

  if (z != ZONE_NONE) {
    take (v, z);
    v->zones[z].last_ms = now_ms (v);
  }
  return z;
}

uint32_t
alloc_random_locked (struct sh_volume *v)
{
  return v->waits == NULL && random_to_be_had (v) > 0 ? take_random (v) : ZONE_NONE;
}

/* The lock is not held.  */
int
zone_reset (struct sh_volume *v, uint32_t z)
{
  struct bdev_req req = {
    .op = BDEV_ZONE_RESET,
    .prio = BDEV_PRIO_BE,
    .off_bytes = zone_byte (v, z, 0),
    .len_bytes = v->table->zone_bytes,
  };
  const int r = dev_io (v, &req);

  pthread_mutex_lock (&v->lock);
  v->st.zone_resets++;
  if (r == 0) {
    v->zones[z].wp = 0;
    v->zones[z].flags &= ~RZ_NO_APPEND;
  }
  pthread_mutex_unlock (&v->lock);
  return r;
}

static void
give_up_zone (struct sh_volume *v, uint32_t z)
{
  v->zones[z].state = ZS_UNUSABLE;
  sh_log (v->opt.log, SH_LOG_WARNING, "%s: zone %" PRIu32 " cannot be reset or written; "
          "it is left out until the volume is opened again", v->bdev->info.name, z);
}

/* Resets z, which was taken from `unreset`; on failure it is left out. */
static bool
reset_taken (struct sh_volume *v, uint32_t z)
{
  int r;

  pthread_mutex_unlock (&v->lock);
  r = zone_reset (v, z);
  pthread_mutex_lock (&v->lock);
  if (r == -1 && !v->dying)
    give_up_zone (v, z);
  return r == 0;
}

/* Nothing is in any sequential zone of the drive: one command can reset them all. */
static bool
all_seq_unused (const struct sh_volume *v)
{
  uint32_t z;

  if (v->nr_mapped > v->nr_random - v->free_random.count)
    return false;               /* more chunks than random zones: no need to look */
  for (z = 0; z < v->l.nr_zones; ++z) {
    const struct rzone *const zone = &v->zones[z];

    if ((zone->flags & RZ_SEQ) && zone->state != ZS_FREE && zone->wp > 0 &&
        !(zone->flags & (RZ_READ_ONLY | RZ_OFFLINE)))
      return false;
    if ((zone->flags & RZ_SEQ) && zone->state != ZS_FREE && zone->state != ZS_UNUSABLE)
      return false;
  }
  return true;
}

/* As after a trim of the whole volume.  No sequential zone can be taken meanwhile. */
static bool
reset_all_free (struct sh_volume *v)
{
  struct bdev_req req = { .op = BDEV_ZONE_RESET, .flags = BDEV_ALL, .prio = BDEV_PRIO_BE };
  struct zone_list all = { 0 };
  uint32_t z;
  int r;

  while ((z = list_pop (v, &v->free_seq)) != ZONE_NONE ||
         (z = list_pop (v, &v->unreset)) != ZONE_NONE) {
    v->zones[z].state = ZS_TARGET;
    list_push (v, &all, z);
  }
  pthread_mutex_unlock (&v->lock);
  r = dev_io (v, &req);
  pthread_mutex_lock (&v->lock);
  v->st.zone_resets += r == 0;
  v->no_reset_all = r == -1;
  while ((z = list_pop (v, &all)) != ZONE_NONE) {
    if (r == 0) {
      v->zones[z].wp = 0;
      v->zones[z].flags &= ~RZ_NO_APPEND;
    }
    v->zones[z].state = ZS_FREE;
    list_push (v, v->zones[z].wp == 0 && !(v->zones[z].flags & RZ_NO_APPEND) ?
               &v->free_seq : &v->unreset, z);
  }
  return r == 0;
}

bool
reset_one (struct sh_volume *v)
{
  uint32_t z;

  if (v->unreset.count >= RESET_ALL_MIN && !v->no_reset_all && all_seq_unused (v) &&
      reset_all_free (v))
    return true;
  z = list_pop (v, &v->unreset);
  if (z == ZONE_NONE)
    return false;
  v->zones[z].state = ZS_TARGET;
  if (reset_taken (v, z)) {
    v->zones[z].state = ZS_FREE;
    list_push (v, &v->free_seq, z);
  }
  else if (v->dying)
    v->zones[z].state = ZS_UNUSABLE;
  return true;
}

uint32_t
alloc_seq (struct sh_volume *v)
{
  uint32_t z = list_pop (v, &v->free_seq);

  while (z == ZONE_NONE && !v->dying) {
    z = list_pop (v, &v->unreset);
    if (z == ZONE_NONE)
      return ZONE_NONE;
    v->zones[z].state = ZS_TARGET;
    if (reset_taken (v, z))
      v->zones[z].state = ZS_FREE;
    else {
      v->zones[z].state = ZS_UNUSABLE;
      z = ZONE_NONE;
    }
  }
  if (z != ZONE_NONE) {
    take (v, z);
    v->zones[z].last_ms = now_ms (v);
  }
  return z;
}

/* ---- the map ---- */

static void
own (struct sh_volume *v, uint32_t z, uint32_t c, enum zone_state state)
{
  if (z != ZONE_NONE) {
    v->zones[z].chunk = c;
    v->zones[z].state = state;
  }
}

/* Writers that wait for a zone for chunk c look again. */
static void
wake_waiters_of (struct sh_volume *v, uint32_t c)
{
  struct space_wait **p = &v->waits;

  while (*p != NULL) {
    struct space_wait *const w = *p;

    if (w->chunk != c) {
      p = &w->next;
      continue;
    }
    *p = w->next;
    w->again = true;
    pthread_cond_signal (&w->cond);
  }
  v->crowded &= v->waits != NULL;
}

void
map_set_locked (struct sh_volume *v, uint32_t c, uint32_t data, uint32_t buffer)
{
  struct map_entry *const m = &v->map[c];
  const uint32_t unit = map_unit (v, c);

  v->nr_mapped += (data != ZONE_NONE) - (m->data != ZONE_NONE);
  v->nr_buffered += (buffer != ZONE_NONE) - (m->buffer != ZONE_NONE);
  *m = (struct map_entry) { data, buffer };
  own (v, data, c, ZS_DATA);
  own (v, buffer, c, ZS_BUFFER);
  if (!(v->map_flags[unit] & MAP_DIRTY)) {
    v->map_flags[unit] |= MAP_DIRTY;
    v->map_dirty++;
  }
  if (v->waits != NULL)
    wake_waiters_of (v, c);
}

/* ---- giving back ---- */

void
zone_free_locked (struct sh_volume *v, uint32_t z)
{
  struct rzone *const zone = &v->zones[z];

  zone->state = ZS_PENDING;
  zone->chunk = CHUNK_NONE;
  bits_zero_locked (v, z);
  list_push (v, &v->pending, z);
}

static void space_grant_locked (struct sh_volume *v);

static void
put_on_free_list (struct sh_volume *v, uint32_t z)
{
  struct rzone *const zone = &v->zones[z];

  zone->flags &= ~(RZ_RELEASED | RZ_STUCK);
  if ((zone->flags & (RZ_READ_ONLY | RZ_OFFLINE)) || zone->errors >= ZONE_ERRORS_MAX) {
    zone->state = ZS_UNUSABLE;
    return;
  }
  zone->state = ZS_FREE;
  if (!(zone->flags & RZ_SEQ)) {
    list_push (v, &v->free_random, z);
    if (v->waits != NULL)
      space_grant_locked (v);
  }
  else if (zone->wp == 0 && !(zone->flags & RZ_NO_APPEND))
    list_push (v, &v->free_seq, z);
  else
    list_push (v, &v->unreset, z);
}

void
zones_committed_locked (struct sh_volume *v)
{
  uint32_t z;

  while ((z = list_pop (v, &v->committing)) != ZONE_NONE) {
    if (v->zones[z].refs == 0)
      put_on_free_list (v, z);
    else {
      v->zones[z].flags |= RZ_RELEASED;
      v->nr_waiting_readers++;
    }
  }
}

void
zone_unref_locked (struct sh_volume *v, uint32_t z)
{
  struct rzone *const zone = &v->zones[z];

  assert (zone->refs > 0);
  if (--zone->refs == 0 && (zone->flags & RZ_RELEASED)) {
    v->nr_waiting_readers--;
    put_on_free_list (v, z);
    pthread_cond_broadcast (&v->reclaimed);
    if (v->worker_runs)
      worker_kick_locked (v);
  }
}

void
zone_discard_locked (struct sh_volume *v, uint32_t z)
{
  assert (v->zones[z].state == ZS_TARGET && v->zones[z].refs == 0);
  v->zones[z].chunk = CHUNK_NONE;
  put_on_free_list (v, z);
}

/* ---- waiting for a random zone ---- */

/* The chunk to serve next. */
static uint32_t
choose_waiter (struct sh_volume *v)
{
  uint32_t best = CHUNK_NONE, most = 0;
  struct space_wait *w, *o;

  if (v->waits->passed >= PASSED_MAX)
    return v->waits->chunk;
  for (w = v->waits; w != NULL; w = w->next) {
    uint32_t n = 0;

    for (o = w; o != NULL; o = o->next)
      n += o->chunk == w->chunk;
    if (n > most) {
      most = n;
      best = w->chunk;
    }
  }
  return best;
}

/* All that wait for chunk c look again; the others were passed. */
static void
serve_chunk (struct sh_volume *v, uint32_t c, int errnum)
{
  struct space_wait **p = &v->waits;

  while (*p != NULL) {
    struct space_wait *const w = *p;

    if (w->chunk != c && c != CHUNK_NONE) {
      w->passed++;
      p = &w->next;
      continue;
    }
    *p = w->next;
    w->again = true;
    w->errnum = errnum;
    pthread_cond_signal (&w->cond);
  }
  v->crowded &= v->waits != NULL;
}

static void
space_grant_locked (struct sh_volume *v)
{
  while (v->waits != NULL && random_to_be_had (v) > 0) {
    const uint32_t c = choose_waiter (v);
    const struct map_entry m = v->map[c];

    if (m.data == ZONE_NONE)
      map_set_locked (v, c, take_random (v), ZONE_NONE);
    else if (m.buffer == ZONE_NONE && is_seq (v, m.data))
      map_set_locked (v, c, m.data, take_random (v));
    serve_chunk (v, c, 0);
  }
}

void
space_fail_all_locked (struct sh_volume *v, int errnum)
{
  if (v->waits != NULL)
    serve_chunk (v, CHUNK_NONE, errnum);
}

/* Nothing can be done until somebody else's call ends: a read that holds a zone
   given back, or the first write to a zone that was just handed out. */
static int
wait_for_others (struct sh_volume *v)
{
  if (v->nr_waiting_readers == 0 && !v->chunk_busy)
    return 0;
  v->stalled = true;
  pthread_cond_wait (&v->reclaimed, &v->lock);
  v->stalled = false;
  return 1;
}

int
space_step (struct sh_volume *v)
{
  int r;

  if (v->pending.count > 0 || v->committing.count > 0) {
    if (commit_join (v) == -1)
      return -1;
    return 1;
  }
  r = reclaim_cycle (v, RECLAIM_NEED);
  if (r == -1)
    return -1;
  if (r != 2 && v->free_random.count > 0) {     /* now the spare ones must do */
    v->crowded = false;
    space_grant_locked (v);
    return 1;
  }
  return r != 0 ? 1 : wait_for_others (v);
}

/* Without a worker one of the waiting writers does its work. */
static void
make_space (struct sh_volume *v, struct space_wait *w)
{
  v->making_space = true;
  while (!w->again && !v->dying) {
    const int r = space_step (v);

    if (r != 1) {
      space_fail_all_locked (v, r == 0 ? EIO : errno);
      break;
    }
  }
  v->making_space = false;
  if (v->waits != NULL)         /* hand the work on */
    pthread_cond_signal (&v->waits->cond);
}

int
space_wait (struct sh_volume *v, uint32_t c)
{
  struct space_wait w = { .chunk = c };
  struct space_wait **p;

  if (v->dying) {
    errno = ENODEV;
    return -1;
  }
  v->st.space_waits++;
  v->retry_stuck = true;
  sh_cond_init (&w.cond);
  for (p = &v->waits; *p != NULL; p = &(*p)->next)
    v->crowded |= (*p)->chunk != c;
  *p = &w;
  if (v->victim != NULL)        /* it would be copied in vain otherwise */
    v->victim->frozen = true;
  if (v->worker_runs)
    worker_kick_locked (v);
  dev_want_reclaim_locked (v);
  while (!w.again) {
    if (!v->worker_runs && !v->making_space)
      make_space (v, &w);
    else
      pthread_cond_wait (&w.cond, &v->lock);
  }
  v->wanted--;
  pthread_cond_destroy (&w.cond);
  if (w.errnum != 0) {
    errno = w.errnum;
    return -1;
  }
  return 0;
}
