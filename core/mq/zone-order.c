/* SPDX-License-Identifier: BSD-3-Clause */
/* The dispatcher keeps writes to sequential zones in order and one at a time; what has to
 * wait is plugged, without a tag.  A write owns a gate (mq_gate): that of its zone, or with
 * zoned_writes=qd1 the one that all zones have together. */
#include <config.h>
#include <assert.h>
#include "mq/internal.h"

/* The gate is the request's. */
static void
own (struct mq *mq, struct mq_request *rq)
{
  rq->owns_zone = true;
  if (!mq->one_zone_writer)
    return;
  mq->gate_batch = rq->zone == mq->gate_zone ? mq->gate_batch + 1 : 1;
  mq->gate_zone = rq->zone;
}

/* Any thread. */
bool
mq_zone_try_own (struct mq *mq, struct mq_request *rq)
{
  uint8_t quiet = ZONE_QUIET;

  if (!atomic_compare_exchange_strong (&mq->zone_state[mq_gate (mq, rq->zone)], &quiet,
                                       ZONE_BUSY))
    return false;
  own (mq, rq);
  return true;
}

static bool
owns (struct mq *mq, const struct mq_request *rq, uint32_t gate)
{
  return rq->owns_zone && mq_gate (mq, rq->zone) == gate;
}

/* The write that has `gate`, if it still waits; NULL once it is in flight. */
static struct mq_request *
waiting_owner (struct mq *mq, uint32_t gate)
{
  struct list *h, *l;
  unsigned i, c;

  for (h = mq->busy.next; h != &mq->busy; h = h->next)
    for (l = mq_of_busy (h)->queued.next; l != &mq_of_busy (h)->queued; l = l->next)
      if (owns (mq, mq_of_link (l), gate))
        return mq_of_link (l);
  for (i = 0; i < mq->nr_hwqs && mq->nr_held; ++i)
    for (c = 0; c < DL_NR_CLASSES; ++c)
      for (l = mq->hwq[i].held[c][DL_WRITE].next; l != &mq->hwq[i].held[c][DL_WRITE]; l = l->next)
        if (owns (mq, mq_of_link (l), gate))
          return mq_of_link (l);
  return NULL;
}

/* Somebody of this class waits for `gate`. */
static void
lend_to_owner (struct mq *mq, uint32_t gate, enum dl_class class)
{
  struct mq_request *owner = waiting_owner (mq, gate);

  if (owner && owner->dl.prio_class > class)
    mq_lend_class (mq, owner, class);
}

/* A plugged request is not counted as populated: it holds nothing that a lower
   class could be waiting for.  What it waits for gets its class. */
static void
plug (struct mq *mq, struct mq_request *rq, uint32_t gate)
{
  const enum dl_class class = rq->dl.prio_class;
  uint64_t state;

  list_push_back (&mq->plugged, &rq->link);
  rq->place = MQ_PLUGGED;
  rq->waits_for_gate = gate;
  mq->nr_plugged++;
  state = atomic_fetch_sub (&mq->state, STATE_ONE (class)) & STATE_COUNTS;
  if (state >> STATE_SHIFT (class + 1))         /* somebody of a lower class is inside */
    lend_to_owner (mq, gate, class);
}

void
mq_lend_class_plugged (struct mq *mq, struct mq_request *rq, enum dl_class class)
{
  mq_change_class_uncounted (mq, rq, class);
  lend_to_owner (mq, rq->waits_for_gate, class);
}

static bool
anyone_waits_for (struct mq *mq, uint32_t gate)
{
  struct list *l;

  for (l = mq->plugged.next; l != &mq->plugged; l = l->next)
    if (mq_of_link (l)->waits_for_gate == gate)
      return true;
  return false;
}

/* Nobody owns the gate and nobody waits for it: true.  Else whoever gives it back will
   know that somebody waits. */
static bool
quiet_or_announce (struct mq *mq, uint32_t gate)
{
  _Atomic uint8_t *state = &mq->zone_state[gate];
  uint8_t old = atomic_load (state);

  do {
    if (old == ZONE_QUIET)
      return true;
    /* Who waited has been taken back. */
    if (old == ZONE_WAITED_FOR && !anyone_waits_for (mq, gate)) {
      if (atomic_compare_exchange_strong (state, &old, ZONE_QUIET))
        return true;
      continue;
    }
  } while (!atomic_compare_exchange_weak (state, &old, old | ZONE_WAITED_FOR));
  return false;
}

/* The gate is ours, or somebody knows that we wait for it. */
static bool
own_or_announce (struct mq *mq, struct mq_request *rq)
{
  while (quiet_or_announce (mq, mq_gate (mq, rq->zone)))
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
    plug (mq, rq, mq_gate (mq, rq->zone));
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

/* May `f`, which waits, become the end of `rq`? */
static bool
continues (struct mq *mq, const struct mq_request *rq, const struct mq_request *f)
{
  const struct dl_limits *limits = &mq->dl.limits;

  return rq->dl.mergeable && f->dl.mergeable && f->dl.merge_key == rq->dl.merge_key &&
    f->dl.sector == rq->dl.sector + rq->dl.nr_sectors &&
    rq->dl.nr_sectors + f->dl.nr_sectors <= limits->max_sectors &&
    rq->dl.nr_segments + f->dl.nr_segments <= limits->max_segments;
}

static void
join (struct mq *mq, struct mq_request *rq, struct mq_request *f)
{
  mq_unplug (mq, f);
  mq_chain (rq, rq, f);
  rq->dl.nr_sectors += f->dl.nr_sectors;
  rq->dl.nr_segments += f->dl.nr_segments;
  mq_count_merged_uncounted (mq, f);
}

/* What else waits for the gate: joins `rq` where it continues it, and lends it its
   class.  True when something is left. */
static bool
gather_followers (struct mq *mq, struct mq_request *rq)
{
  const uint32_t gate = mq_gate (mq, rq->zone);
  struct list *l, *next;
  bool left = false, apart = false;

  for (l = mq->plugged.next; l != &mq->plugged; l = next) {
    struct mq_request *f = mq_of_link (l);

    next = l->next;
    if (f->waits_for_gate != gate)
      continue;
    if (f->dl.prio_class < rq->dl.prio_class)
      mq_change_class_uncounted (mq, rq, f->dl.prio_class);
    if (f->zone == rq->zone && !apart && continues (mq, rq, f)) {
      join (mq, rq, f);
      continue;
    }
    left = true;
    apart |= f->zone == rq->zone;       /* those behind it stay behind it */
  }
  return left;
}

/* The gate that `rq` waited for is free.  If that is its own it gets it; if it is that of
   the zone before, others may be waiting for that one too. */
static void
release (struct mq *mq, struct mq_request *rq)
{
  const uint32_t gate = mq_gate (mq, rq->zone);

  mq_unplug (mq, rq);
  if (!rq->owns_zone) {
    atomic_store (&mq->zone_state[gate], ZONE_BUSY);
    own (mq, rq);
  }
  if (gather_followers (mq, rq))
    atomic_fetch_or (&mq->zone_state[gate], ZONE_WAITED_FOR);
  atomic_fetch_add (&mq->state, STATE_ONE (rq->dl.prio_class));
  mq_enqueue (mq, rq);
}

/* Order of arrival in a zone, and from a zone into the next: what goes before `rq`, or
   itself. */
static struct mq_request *
first_of_stream (struct mq *mq, struct mq_request *rq)
{
  const bool begins_zone = rq->dl.sector == rq->zone * mq->dl.limits.zone_sectors;
  struct list *l;

  for (l = mq->plugged.next; mq_of_link (l) != rq; l = l->next) {
    const uint32_t zone = mq_of_link (l)->zone;

    if (zone == rq->zone || (begins_zone && zone + 1 == rq->zone))
      return mq_of_link (l);
  }
  return rq;
}

/* For the one gate: in the best class, what goes on in the zone written last, for a batch;
   else the oldest. */
static struct mq_request *
next_of_all (struct mq *mq)
{
  const bool stay = mq->gate_batch < mq->dl.tunables.fifo_batch;
  struct mq_request *best = NULL;
  struct list *l;

  for (l = mq->plugged.next; l != &mq->plugged; l = l->next) {
    struct mq_request *rq = mq_of_link (l);

    if (best == NULL || rq->dl.prio_class < best->dl.prio_class ||
        (rq->dl.prio_class == best->dl.prio_class && stay && rq->zone == mq->gate_zone &&
         best->zone != mq->gate_zone))
      best = rq;
  }
  return first_of_stream (mq, best);
}

static void
release_the_gate (struct mq *mq)
{
  if (!list_empty (&mq->plugged) && atomic_load (&mq->zone_state[0]) == ZONE_WAITED_FOR)
    release (mq, next_of_all (mq));
}

/* Gates whose write is done: the next in order of arrival gets each.  Only the
   dispatcher takes a gate out of this state. */
void
mq_release_plugged (struct mq *mq)
{
  struct list *l, *next;

  atomic_store (&mq->zones_released, false);
  if (mq->one_zone_writer) {
    release_the_gate (mq);
    return;
  }
  for (l = mq->plugged.next; l != &mq->plugged; l = next) {
    struct mq_request *rq = mq_of_link (l);
    const uint32_t gate = rq->waits_for_gate;

    next = l->next;
    if (atomic_load (&mq->zone_state[gate]) != ZONE_WAITED_FOR)
      continue;
    release (mq, rq);
    if (gate != rq->zone)
      quiet_or_announce (mq, gate);
    next = mq->plugged.next;    /* others may have gone with it */
  }
}
