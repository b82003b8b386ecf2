/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Chunks that someone works on, and the block ranges that writers hold in them.
 *
 * Ranges make overlapping writes, trims and read-modify-writes take turns, in
 * the order of their arrival.  Writers of different blocks of a chunk do not
 * meet.  Readers take none.
 */
#include <config.h>
#include <assert.h>
#include <stdlib.h>
#include "zoned/running.h"

static struct chunk **
bucket (struct sh_volume *v, uint32_t c)
{
  return &v->hash[c % ARRAY_SIZE (v->hash)];
}

struct chunk *
chunk_find_locked (struct sh_volume *v, uint32_t c)
{
  struct chunk *ch;

  for (ch = *bucket (v, c); ch != NULL; ch = ch->next)
    if (ch->id == c)
      return ch;
  return NULL;
}

struct chunk *
chunk_get_locked (struct sh_volume *v, uint32_t c)
{
  struct chunk *ch = chunk_find_locked (v, c);

  if (ch == NULL) {
    struct chunk **const b = bucket (v, c);

    ch = v->chunk_pool;
    if (ch != NULL)
      v->chunk_pool = ch->next;
    else if ((ch = malloc (sizeof *ch)) == NULL)
      abort ();                 /* 80 bytes, once for each thread at most */
    *ch = (struct chunk) { .next = *b, .id = c };
    *b = ch;
  }
  ch->users++;
  return ch;
}

/* Nobody else works on the chunk: zones of it that hold nothing are given back.
   A data zone that holds nothing is replaced by its buffer zone. */
static void
give_back_empty (struct sh_volume *v, uint32_t c)
{
  const struct map_entry m = v->map[c];
  const struct rzone *d, *b;

  if (m.data == ZONE_NONE || v->read_only || chunk_is_bad (v, c))
    return;
  d = &v->zones[m.data];
  b = m.buffer != ZONE_NONE ? &v->zones[m.buffer] : NULL;
  if (b != NULL && (b->flags & RZ_KNOWN) && b->weight == 0) {
    map_set_locked (v, c, m.data, ZONE_NONE);
    zone_free_locked (v, m.buffer);
    b = NULL;
  }
  if ((d->flags & RZ_KNOWN) && d->weight == 0) {
    map_set_locked (v, c, b != NULL ? m.buffer : ZONE_NONE, ZONE_NONE);
    zone_free_locked (v, m.data);
  }
}

void
chunk_put_locked (struct sh_volume *v, struct chunk *ch)
{
  struct chunk **p;

  assert (ch->users > 0);
  if (v->stalled)
    pthread_cond_broadcast (&v->reclaimed);
  if (--ch->users > 0)
    return;
  assert (ch->held == NULL && ch->waiting == NULL && ch->appends == NULL);
  assert (!ch->append_busy && !ch->frozen && ch->redo == NULL);
  give_back_empty (v, ch->id);
  for (p = bucket (v, ch->id); *p != ch; p = &(*p)->next)
    ;
  *p = ch->next;
  ch->next = v->chunk_pool;
  v->chunk_pool = ch;
}

void
chunk_pool_free (struct sh_volume *v)
{
  while (v->chunk_pool != NULL) {
    struct chunk *const ch = v->chunk_pool;

    v->chunk_pool = ch->next;
    free (ch);
  }
}

/* ---- ranges ---- */

static bool
meets_any (const struct range *r, const struct range *list, const struct range *end)
{
  for (; list != end; list = list->next)
    if (r->first < list->end && list->first < r->end)
      return true;
  return false;
}

static void
hold (struct chunk *ch, struct range *r)
{
  r->next = ch->held;
  ch->held = r;
  r->granted = true;
}

/* of_victim: reclaim may be who holds it, or stands before us in the line. */
static void
wait_for_range (struct sh_volume *v, struct range *r, bool of_victim)
{
  if (of_victim)
    dev_want_reclaim_locked (v);
  while (!r->granted)
    pthread_cond_wait (&r->cond, &v->lock);
  v->wanted -= of_victim;
  pthread_cond_destroy (&r->cond);
}

void
range_lock (struct sh_volume *v, struct chunk *ch, struct range *r,
            uint32_t first, uint32_t end, bool user)
{
  struct range **p;

  while (user && ch->frozen) {
    dev_want_reclaim_locked (v);
    pthread_cond_wait (&v->thaw, &v->lock);
    v->wanted--;
  }
  r->first = first;
  r->end = end;
  r->write = false;
  r->granted = false;
  r->has_cond = false;
  if (!meets_any (r, ch->held, NULL) && !meets_any (r, ch->waiting, NULL)) {
    hold (ch, r);
    return;
  }
  sh_cond_init (&r->cond);
  r->has_cond = true;
  r->next = NULL;
  for (p = &ch->waiting; *p != NULL; p = &(*p)->next)
    ;
  *p = r;
  wait_for_range (v, r, user && ch == v->victim);
}

bool
range_is_free_locked (const struct chunk *ch, uint32_t first, uint32_t end)
{
  const struct range r = { .first = first, .end = end };

  return !meets_any (&r, ch->held, NULL) && !meets_any (&r, ch->waiting, NULL);
}

void
range_hold_locked (struct chunk *ch, struct range *r, uint32_t first, uint32_t end)
{
  *r = (struct range) { .first = first, .end = end };
  hold (ch, r);
}

/* Those that meet neither a holder nor one that waits before them go on. */
static void
grant_waiting (struct chunk *ch)
{
  struct range **p = &ch->waiting;

  while (*p != NULL) {
    struct range *const r = *p;

    if (meets_any (r, ch->held, NULL) || meets_any (r, ch->waiting, r))
      p = &r->next;
    else {
      *p = r->next;
      hold (ch, r);
      pthread_cond_signal (&r->cond);
    }
  }
}

void
range_unlock_locked (struct sh_volume *v, struct chunk *ch, struct range *r)
{
  struct range **p;

  for (p = &ch->held; *p != r; p = &(*p)->next)
    ;
  *p = r->next;
  if (ch->waiting != NULL)
    grant_waiting (ch);
  /* What has just reached the buffer zone may have been all that the next append
     waits for. */
  if (ch->appends != NULL && ch->appends->has_cond &&
      v->map[ch->id].buffer != ZONE_NONE)
    pthread_cond_signal (&ch->appends->cond);
}
