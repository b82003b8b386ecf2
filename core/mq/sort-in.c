/* SPDX-License-Identifier: BSD-3-Clause */
/* The dispatcher puts a request where it will wait: into another one, into the
 * scheduler, or, while its class's window is full, aside. */
#include <config.h>
#include <assert.h>
#include "mq/internal.h"

/* -- merging ---------------------------------------------------------------------- */

/* `low`'s chain goes before `high`'s; `leader` is who stays. */
void
mq_chain (struct mq_request *leader, struct mq_request *low, struct mq_request *high)
{
  struct mq_request *first = low->first, *last = high->last_merged;

  low->last_merged->next_merged = high->first;
  leader->first = first;
  leader->last_merged = last;
}

/* `rq`, which `state` does not count, is part of another request from now on. */
void
mq_count_merged_uncounted (struct mq *mq, struct mq_request *rq)
{
  assert (!rq->owns_zone);      /* else nobody would give the zone back */
  mq_tell_alone (&mq->merged[rq->dl.prio_class]);
  mq_tell_alone (&mq->hwq[rq->hwq].merged);
  if (rq->counted_async)
    atomic_fetch_sub (&mq->async_inside[rq->dl.prio_class], 1);
  rq->counted_async = false;
}

static void
count_merged (struct mq *mq, struct mq_request *rq)
{
  atomic_fetch_sub (&mq->state, STATE_ONE (rq->dl.prio_class));
  mq_count_merged_uncounted (mq, rq);
}

void
mq_unlist (struct mq *mq, struct mq_request *rq)
{
  struct hwq *hwq = &mq->hwq[rq->hwq];

  list_remove (&rq->link);
  if (list_empty (&hwq->queued))
    list_remove (&hwq->busy);
  rq->place = MQ_OUTSIDE;
  mq->nr_sched--;
}

/* The grown request may now touch its neighbours. */
static void
join_neighbours (struct mq *mq, struct mq_request *rq)
{
  struct dl_request *gone, *by;

  while ((gone = dl_join (&mq->dl, &rq->dl, &by)) != NULL) {
    struct mq_request *absorbed = mq_of_dl (gone);

    rq = mq_of_dl (by);
    mq_chain (rq, rq, absorbed);
    dl_count_completed (&mq->dl, gone->prio_class);
    mq_unlist (mq, absorbed);
    count_merged (mq, absorbed);
  }
}

static bool
merge_into_queued (struct mq *mq, struct mq_request *rq)
{
  struct dl_request *found;
  struct mq_request *leader;
  enum dl_merge how;

  how = dl_find_merge (&mq->dl, &rq->dl, &found);
  if (how == DL_NO_MERGE)
    return false;
  leader = mq_of_dl (found);
  if (how == DL_BACK_MERGE)
    mq_chain (leader, leader, rq);
  else
    mq_chain (leader, rq, leader);
  dl_merge (&mq->dl, how, found, rq->dl.nr_sectors, rq->dl.nr_segments);
  count_merged (mq, rq);
  join_neighbours (mq, leader);
  return true;
}

/* -- into the scheduler --------------------------------------------------------------- */

void
mq_insert (struct mq *mq, struct mq_request *rq)
{
  struct hwq *hwq = &mq->hwq[rq->hwq];

  if (list_empty (&hwq->queued))
    list_push_back (&mq->busy, &hwq->busy);
  if (rq->at_head)
    list_push_front (&hwq->queued, &rq->link);
  else
    list_push_back (&hwq->queued, &rq->link);
  rq->place = MQ_IN_SCHED;
  mq->nr_sched++;
  if (mq_is_deadline (mq))
    dl_insert (&mq->dl, &rq->dl, rq->at_head, rq->arrived_ns);
  rq->at_head = false;
}

/* Is the window of its class full?  What is inside: counted, and not held. */
static bool
window_full (struct mq *mq, struct mq_request *rq)
{
  const unsigned c = rq->dl.prio_class;
  const unsigned inside = STATE_COUNT (atomic_load (&mq->state), c);

  if (inside - mq->held[c] > atomic_load_explicit (&mq->depth, memory_order_relaxed))
    return true;
  if (rq->dl.dir == DL_READ || rq->counted_async || !atomic_load (&mq->async_limited))
    return false;
  if (atomic_load (&mq->async_inside[c]) >= atomic_load (&mq->async_depth))
    return true;
  atomic_fetch_add (&mq->async_inside[c], 1);
  rq->counted_async = true;
  return false;
}

static void
hold (struct mq *mq, struct mq_request *rq)
{
  const unsigned c = rq->dl.prio_class, d = rq->dl.dir;
  struct hwq *hwq = &mq->hwq[rq->hwq];

  if (list_empty (&hwq->held[c][d]))
    list_push_back (&mq->held_ring[c][d], &hwq->held_link[c][d]);
  list_push_back (&hwq->held[c][d], &rq->link);
  rq->place = MQ_HELD;
  mq->held[c]++;
  mq->nr_held++;
}

void
mq_unhold (struct mq *mq, struct mq_request *rq)
{
  const unsigned c = rq->dl.prio_class, d = rq->dl.dir;
  struct hwq *hwq = &mq->hwq[rq->hwq];

  list_remove (&rq->link);
  if (list_empty (&hwq->held[c][d]))
    list_remove (&hwq->held_link[c][d]);
  rq->place = MQ_OUTSIDE;
  mq->held[c]--;
  mq->nr_held--;
}

void
mq_enqueue (struct mq *mq, struct mq_request *rq)
{
  if (rq->at_head) {
    mq_insert (mq, rq);
    return;
  }
  if (mq_is_deadline (mq) && merge_into_queued (mq, rq))
    return;
  if (window_full (mq, rq))
    hold (mq, rq);
  else
    mq_insert (mq, rq);
}

/* Requests of one class and direction that a full window kept out, one of each
   hwq in turn. */
static void
admit_class (struct mq *mq, unsigned c, unsigned d)
{
  struct list *ring = &mq->held_ring[c][d], *link;

  while (!list_empty (ring)) {
    struct hwq *hwq = LIST_ENTRY (ring->next, struct hwq, held_link[c][d]);
    struct mq_request *rq = mq_of_link (hwq->held[c][d].next);

    mq_unhold (mq, rq);
    if (window_full (mq, rq)) {
      /* Back to where it was: first of its hwq, its hwq first of the ring. */
      if (list_empty (&hwq->held[c][d]))
        list_push_front (ring, &hwq->held_link[c][d]);
      list_push_front (&hwq->held[c][d], &rq->link);
      rq->place = MQ_HELD;
      mq->held[c]++;
      mq->nr_held++;
      return;
    }
    link = &hwq->held_link[c][d];
    if (!list_empty (&hwq->held[c][d])) {
      list_remove (link);
      list_push_back (ring, link);
    }
    if (!mq_is_deadline (mq) || !merge_into_queued (mq, rq))
      mq_insert (mq, rq);
  }
}

void
mq_admit_held (struct mq *mq)
{
  unsigned c, d;

  for (c = 0; c < DL_NR_CLASSES && mq->nr_held; ++c)
    for (d = 0; d < DL_NR_DIRS; ++d)
      admit_class (mq, c, d);
}
