/* SPDX-License-Identifier: BSD-3-Clause */
/* The dispatcher keeps writes to sequential zones in order and one at a time; what has to
 * wait is plugged, without a tag. */
#include <config.h>
#include <assert.h>
#include "mq/internal.h"

/* Any thread. */
bool
mq_zone_try_own (struct mq *mq, struct mq_request *rq)
{
  uint8_t quiet = ZONE_QUIET;

  if (!atomic_compare_exchange_strong (&mq->zone_state[rq->zone], &quiet, ZONE_BUSY))
    return false;
  rq->owns_zone = true;
  return true;
}

/* Of a request that `state` does not count. */
static void
change_class_uncounted (struct mq *mq, struct mq_request *rq, enum dl_class class)
{
  if (rq->counted_async) {
    atomic_fetch_add (&mq->async_inside[class], 1);
    atomic_fetch_sub (&mq->async_inside[rq->dl.prio_class], 1);
  }
  rq->dl.prio_class = class;
}

static void
change_class (struct mq *mq, struct mq_request *rq, enum dl_class class)
{
  atomic_fetch_add (&mq->state, STATE_ONE (class));
  atomic_fetch_sub (&mq->state, STATE_ONE (rq->dl.prio_class));
  change_class_uncounted (mq, rq, class);
}

/* Moves a waiting request to a better class. */
static void
lend_class (struct mq *mq, struct mq_request *rq, enum dl_class class)
{
  if (rq->place == MQ_HELD) {
    mq_unhold (mq, rq);
    change_class (mq, rq, class);
    mq_insert (mq, rq);
    return;
  }
  assert (rq->place == MQ_IN_SCHED);
  if (rq->dl.state != DL_OUT) {
    dl_withdraw (&mq->dl, &rq->dl);
    change_class (mq, rq, class);
    dl_insert (&mq->dl, &rq->dl, false, rq->arrived_ns);
  }
  else
    change_class (mq, rq, class);
}

/* The write that has `zone`, if it still waits; NULL once it is in flight. */
static struct mq_request *
waiting_owner (struct mq *mq, uint32_t zone)
{
  struct list *h, *l;
  unsigned i, c;

  for (h = mq->busy.next; h != &mq->busy; h = h->next)
    for (l = mq_of_busy (h)->queued.next; l != &mq_of_busy (h)->queued; l = l->next)
      if (mq_of_link (l)->owns_zone && mq_of_link (l)->zone == zone)
        return mq_of_link (l);
  for (i = 0; i < mq->nr_hwqs && mq->nr_held; ++i)
    for (c = 0; c < DL_NR_CLASSES; ++c)
      for (l = mq->hwq[i].held[c][DL_WRITE].next; l != &mq->hwq[i].held[c][DL_WRITE]; l = l->next)
        if (mq_of_link (l)->owns_zone && mq_of_link (l)->zone == zone)
          return mq_of_link (l);
  return NULL;
}

/* A plugged request is not counted as populated: it holds nothing that a lower
   class could be waiting for.  What it waits for gets its class. */
static void
plug (struct mq *mq, struct mq_request *rq, uint32_t zone)
{
  const enum dl_class class = rq->dl.prio_class;
  struct mq_request *owner;
  uint64_t state;

  list_push_back (&mq->plugged, &rq->link);
  rq->place = MQ_PLUGGED;
  rq->waits_for_zone = zone;
  mq->nr_plugged++;
  state = atomic_fetch_sub (&mq->state, STATE_ONE (class)) & STATE_COUNTS;
  if (state >> STATE_SHIFT (class + 1) == 0)
    return;                     /* nobody of a lower class is inside */
  owner = waiting_owner (mq, zone);
  if (owner && owner->dl.prio_class > class)
    lend_class (mq, owner, class);
}

static bool
anyone_waits_for (struct mq *mq, uint32_t zone)
{
  struct list *l;

  for (l = mq->plugged.next; l != &mq->plugged; l = l->next)
    if (mq_of_link (l)->waits_for_zone == zone)
      return true;
  return false;
}

/* Nobody is inside the zone and nobody waits for it: true.  Else whoever leaves
   it will know that somebody waits. */
static bool
quiet_or_announce (struct mq *mq, uint32_t zone)
{
  _Atomic uint8_t *state = &mq->zone_state[zone];
  uint8_t old = atomic_load (state);

  do {
    if (old == ZONE_QUIET)
      return true;
    /* Who waited has been taken back. */
    if (old == ZONE_WAITED_FOR && !anyone_waits_for (mq, zone)) {
      if (atomic_compare_exchange_strong (state, &old, ZONE_QUIET))
        return true;
      continue;
    }
  } while (!atomic_compare_exchange_weak (state, &old, old | ZONE_WAITED_FOR));
  return false;
}

/* The zone is ours, or somebody knows that we wait for it. */
static bool
own_or_announce (struct mq *mq, struct mq_request *rq)
{
  while (quiet_or_announce (mq, rq->zone))
    if (mq_zone_try_own (mq, rq))
      return true;
  return false;
}

/* A write to a sequential zone: where it has to wait, it is plugged. */
bool
mq_may_write_zone (struct mq *mq, struct mq_request *rq)
{
  uint32_t before;

  if (rq->zone == MQ_NO_ZONE || rq->owns_zone)
    return true;
  if (!own_or_announce (mq, rq)) {
    plug (mq, rq, rq->zone);
    return false;
  }
  before = mq_zone_before (mq, rq);
  if (before == MQ_NO_ZONE || quiet_or_announce (mq, before))
    return true;
  plug (mq, rq, before);
  return false;
}

void
mq_unplug (struct mq *mq, struct mq_request *rq)
{
  list_remove (&rq->link);
  rq->place = MQ_OUTSIDE;
  mq->nr_plugged--;
}

/* What else waits for the zone: joins `rq` where it continues it, else lends it its
   class.  True when something is left. */
static bool
gather_followers (struct mq *mq, struct mq_request *rq)
{
  const struct dl_limits *limits = &mq->dl.limits;
  struct list *l, *next;
  bool left = false;

  for (l = mq->plugged.next; l != &mq->plugged; l = next) {
    struct mq_request *f = mq_of_link (l);

    next = l->next;
    if (f->waits_for_zone != rq->zone)
      continue;
    if (f->zone != rq->zone) {  /* the first of the zone behind */
      left = true;
      continue;
    }
    if (f->dl.prio_class < rq->dl.prio_class)
      change_class_uncounted (mq, rq, f->dl.prio_class);
    if (!left && rq->dl.mergeable && f->dl.mergeable &&
        f->dl.merge_key == rq->dl.merge_key &&
        f->dl.sector == rq->dl.sector + rq->dl.nr_sectors &&
        rq->dl.nr_sectors + f->dl.nr_sectors <= limits->max_sectors &&
        rq->dl.nr_segments + f->dl.nr_segments <= limits->max_segments) {
      mq_unplug (mq, f);
      mq_chain (rq, rq, f);
      rq->dl.nr_sectors += f->dl.nr_sectors;
      rq->dl.nr_segments += f->dl.nr_segments;
      mq_count_merged_uncounted (mq, f);
      continue;
    }
    left = true;
  }
  return left;
}

/* The zone that `rq` waited for is free.  If that is its own it gets it; if it is the one
   before, others may be waiting for that one too. */
static void
release (struct mq *mq, struct mq_request *rq)
{
  mq_unplug (mq, rq);
  if (!rq->owns_zone) {
    atomic_store (&mq->zone_state[rq->zone], ZONE_BUSY);
    rq->owns_zone = true;
  }
  if (gather_followers (mq, rq))
    atomic_fetch_or (&mq->zone_state[rq->zone], ZONE_WAITED_FOR);
  atomic_fetch_add (&mq->state, STATE_ONE (rq->dl.prio_class));
  mq_enqueue (mq, rq);
}

/* Zones whose write is done: the next in order of arrival gets each.  Only the
   dispatcher takes a zone out of this state. */
void
mq_release_plugged (struct mq *mq)
{
  struct list *l, *next;

  atomic_store (&mq->zones_released, false);
  for (l = mq->plugged.next; l != &mq->plugged; l = next) {
    struct mq_request *rq = mq_of_link (l);
    const uint32_t zone = rq->waits_for_zone;

    next = l->next;
    if (atomic_load (&mq->zone_state[zone]) != ZONE_WAITED_FOR)
      continue;
    release (mq, rq);
    if (zone != rq->zone)
      quiet_or_announce (mq, zone);
    next = mq->plugged.next;    /* others may have gone with it */
  }
}
