/* SPDX-License-Identifier: BSD-3-Clause */
/* The dispatcher: sorts in what came, decides what goes, issues it.  Functions
 * here are called by the thread that is the dispatcher, except where said. */
#include <config.h>
#include <assert.h>
#include <limits.h>
#include "base/bytes.h"
#include "mq/express.h"
#include "mq/internal.h"

#define BATCH 16                /* most requests taken in one turn at the scheduler */
#define TURN_NS NS_PER_MS       /* then the dispatcher leaves, if it may */
#define LOOK_NS (100 * NS_PER_MS)
#define UNSERVED_LOOKS 8

static struct mq_request *
of_link (struct list *link)
{
  return LIST_ENTRY (link, struct mq_request, link);
}

static struct mq_request *
of_dl (struct dl_request *dl)
{
  return LIST_ENTRY (dl, struct mq_request, dl);
}

static struct hwq *
of_busy (struct list *link)
{
  return LIST_ENTRY (link, struct hwq, busy);
}

static bool
is_deadline (struct mq *mq)
{
  return atomic_load_explicit (&mq->sched, memory_order_relaxed) == MQ_DEADLINE;
}

/* -- merging ---------------------------------------------------------------------- */

/* `low`'s chain goes before `high`'s; `leader` is who stays. */
static void
chain (struct mq_request *leader, struct mq_request *low, struct mq_request *high)
{
  struct mq_request *first = low->first, *last = high->last_merged;

  low->last_merged->next_merged = high->first;
  leader->first = first;
  leader->last_merged = last;
}

/* `rq`, which `state` does not count, is part of another request from now on. */
static void
count_merged_uncounted (struct mq *mq, struct mq_request *rq)
{
  mq_count (&mq->merged[rq->dl.prio_class]);
  mq_count (&mq->hwq[rq->hwq].merged);
  if (rq->counted_async)
    atomic_fetch_sub (&mq->async_inside[rq->dl.prio_class], 1);
  rq->counted_async = false;
}

static void
count_merged (struct mq *mq, struct mq_request *rq)
{
  atomic_fetch_sub (&mq->state, STATE_ONE (rq->dl.prio_class));
  count_merged_uncounted (mq, rq);
}

static void
unlist (struct mq *mq, struct mq_request *rq)
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
    struct mq_request *absorbed = of_dl (gone);

    rq = of_dl (by);
    chain (rq, rq, absorbed);
    dl_count_completed (&mq->dl, gone->prio_class);
    unlist (mq, absorbed);
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
  leader = of_dl (found);
  if (how == DL_BACK_MERGE)
    chain (leader, leader, rq);
  else
    chain (leader, rq, leader);
  dl_merge (&mq->dl, how, found, rq->dl.nr_sectors, rq->dl.nr_segments);
  count_merged (mq, rq);
  join_neighbours (mq, leader);
  return true;
}

/* -- into the scheduler --------------------------------------------------------------- */

static void
insert (struct mq *mq, struct mq_request *rq)
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
  if (is_deadline (mq))
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

static void
unhold (struct mq *mq, struct mq_request *rq)
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

static void
enqueue (struct mq *mq, struct mq_request *rq)
{
  if (rq->at_head) {
    insert (mq, rq);
    return;
  }
  if (is_deadline (mq) && merge_into_queued (mq, rq))
    return;
  if (window_full (mq, rq))
    hold (mq, rq);
  else
    insert (mq, rq);
}

/* Requests of one class and direction that a full window kept out, one of each
   hwq in turn. */
static void
admit_class (struct mq *mq, unsigned c, unsigned d)
{
  struct list *ring = &mq->held_ring[c][d], *link;

  while (!list_empty (ring)) {
    struct hwq *hwq = LIST_ENTRY (ring->next, struct hwq, held_link[c][d]);
    struct mq_request *rq = of_link (hwq->held[c][d].next);

    unhold (mq, rq);
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
    if (!is_deadline (mq) || !merge_into_queued (mq, rq))
      insert (mq, rq);
  }
}

static void
admit_held (struct mq *mq)
{
  unsigned c, d;

  for (c = 0; c < DL_NR_CLASSES && mq->nr_held; ++c)
    for (d = 0; d < DL_NR_DIRS; ++d)
      admit_class (mq, c, d);
}

/* -- zones ------------------------------------------------------------------------------- */

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
    unhold (mq, rq);
    change_class (mq, rq, class);
    insert (mq, rq);
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
    for (l = of_busy (h)->queued.next; l != &of_busy (h)->queued; l = l->next)
      if (of_link (l)->owns_zone && of_link (l)->zone == zone)
        return of_link (l);
  for (i = 0; i < mq->nr_hwqs && mq->nr_held; ++i)
    for (c = 0; c < DL_NR_CLASSES; ++c)
      for (l = mq->hwq[i].held[c][DL_WRITE].next; l != &mq->hwq[i].held[c][DL_WRITE]; l = l->next)
        if (of_link (l)->owns_zone && of_link (l)->zone == zone)
          return of_link (l);
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
    if (of_link (l)->waits_for_zone == zone)
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
static bool
may_write_zone (struct mq *mq, struct mq_request *rq)
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

static void
unplug (struct mq *mq, struct mq_request *rq)
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
    struct mq_request *f = of_link (l);

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
      unplug (mq, f);
      chain (rq, rq, f);
      rq->dl.nr_sectors += f->dl.nr_sectors;
      rq->dl.nr_segments += f->dl.nr_segments;
      count_merged_uncounted (mq, f);
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
  unplug (mq, rq);
  if (!rq->owns_zone) {
    atomic_store (&mq->zone_state[rq->zone], ZONE_BUSY);
    rq->owns_zone = true;
  }
  if (gather_followers (mq, rq))
    atomic_fetch_or (&mq->zone_state[rq->zone], ZONE_WAITED_FOR);
  atomic_fetch_add (&mq->state, STATE_ONE (rq->dl.prio_class));
  enqueue (mq, rq);
}

/* Zones whose write is done: the next in order of arrival gets each.  Only the
   dispatcher takes a zone out of this state. */
static void
release_plugged (struct mq *mq)
{
  struct list *l, *next;

  atomic_store (&mq->zones_released, false);
  for (l = mq->plugged.next; l != &mq->plugged; l = next) {
    struct mq_request *rq = of_link (l);
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

/* -- from outside --------------------------------------------------------------------------- */

static void
place (struct mq *mq, struct mq_request *rq, uint64_t now)
{
  if (rq->arrived_ns == 0)
    rq->arrived_ns = now;       /* a request that comes back keeps its time */
  if (rq->kind == MQ_DIRECT) {
    if (rq->at_head)
      list_push_front (&mq->direct, &rq->link);
    else
      list_push_back (&mq->direct, &rq->link);
    rq->at_head = false;
    rq->place = MQ_IN_DIRECT;
    mq->nr_direct++;
  }
  else if (may_write_zone (mq, rq))
    enqueue (mq, rq);
}

static void
drain_incoming (struct mq *mq, uint64_t now)
{
  struct mq_request *rq, *next, *in_order = NULL;

  if (atomic_load_explicit (&mq->incoming, memory_order_relaxed) == NULL)
    return;
  for (rq = atomic_exchange (&mq->incoming, NULL); rq; rq = next) {
    next = rq->next;
    rq->next = in_order;
    in_order = rq;
  }
  for (rq = in_order; rq; rq = next) {
    next = rq->next;
    place (mq, rq, now);
  }
}

static bool
holds_anything (const struct mq *mq)
{
  return mq->nr_sched || mq->nr_direct || mq->nr_plugged || mq->nr_held;
}

/* Completions that find the bit set run the queue.  Set before tags are asked
   for (pairs with the subtraction in leave, mq.c). */
static void
set_queued_bit (struct mq *mq)
{
  const bool queued = atomic_load_explicit (&mq->state, memory_order_relaxed) & STATE_QUEUED;

  if (holds_anything (mq)) {
    if (!queued) {
      atomic_fetch_or (&mq->state, STATE_QUEUED);
      express_unpark_all (mq);
    }
  }
  else if (queued) {
    atomic_fetch_and (&mq->state, ~STATE_QUEUED);
    tag_wait_end (mq->user);
  }
}

/* Averages over several looks, in sixteenths. */
static unsigned
average_load (struct hwq *hwq)
{
  const struct list *l;
  unsigned load = mq_hwq_in_flight (hwq);

  for (l = hwq->queued.next; l != &hwq->queued && load < 1024; l = l->next)
    ++load;
  hwq->load = (hwq->load * 3 + load * 16) / 4;
  return hwq->load;
}

static bool
had_requests (struct hwq *hwq)
{
  uint64_t n = 0;
  unsigned c;

  for (c = 0; c < DL_NR_CLASSES; ++c)
    n += atomic_load_explicit (&hwq->at_once[c], memory_order_relaxed) +
      atomic_load_explicit (&hwq->apart_begun[c], memory_order_relaxed) +
      atomic_load_explicit (&hwq->came_in[c], memory_order_relaxed);
  if (n == hwq->seen)
    return false;
  hwq->seen = n;
  return true;
}

/* Now and then: which hwqs are in use, and how.  Where one asks for far less than
   an equal part, a few tags are kept for those that have nothing in flight, so
   that it need not wait for those that ask for more. */
static void
look_at_hwqs (struct mq *mq, uint64_t now)
{
  const unsigned limit = tag_user_limit (mq->user);
  unsigned i, active = 0, least = UINT_MAX, headroom = 0;

  mq->looked_ns = now;
  for (i = 0; i < mq->nr_hwqs; ++i) {
    if (!had_requests (&mq->hwq[i])) {
      mq->hwq[i].load = 0;
      continue;
    }
    ++active;
    least = MIN (least, average_load (&mq->hwq[i]));
  }
  if (active >= 2 && limit >= 4 && least * 4 <= limit * 16 / active)
    headroom = limit < 16 ? 1 : MIN (limit / 16, 4);
  atomic_store (&mq->headroom, headroom);
  if (headroom && atomic_load (&mq->state) & STATE_EXPRESS)
    express_end (mq, false);
}

/* -- out --------------------------------------------------------------------------------------- */

struct batch {
  struct mq_request *rq[BATCH];
  unsigned n;
  uint64_t now;
};

static void
take (struct mq *mq, struct batch *b, struct mq_request *rq, int tag)
{
  struct hwq *hwq = &mq->hwq[rq->hwq];

  rq->tag = tag;
  mq_count (&hwq->dispatched);
  mq_note_longest (&mq->longest_wait_ns, b->now - rq->arrived_ns);
  b->rq[b->n++] = rq;
}

static int
direct_tag (struct mq *mq, struct mq_request *rq)
{
  int tag = -1;

  if (rq->reserved)
    tag = tag_get_reserved (mq->user);
  return tag != -1 ? tag : tag_get (mq->user, rq->hwq, 0);
}

enum outcome { NOTHING_LEFT, BATCH_FULL, NOT_ALLOWED, NO_TAG };

/* One that may use a reserved tag goes past those that may not. */
static enum outcome
pull_direct (struct mq *mq, struct batch *b)
{
  struct list *l, *next;
  bool refused = false;

  for (l = mq->direct.next; l != &mq->direct; l = next) {
    struct mq_request *rq = of_link (l);
    int tag;

    next = l->next;
    if (b->n == BATCH)
      return BATCH_FULL;
    if (refused && !rq->reserved)
      continue;
    tag = direct_tag (mq, rq);
    if (tag == -1) {
      refused = true;
      continue;
    }
    list_remove (&rq->link);
    rq->place = MQ_OUTSIDE;
    mq->nr_direct--;
    take (mq, b, rq, tag);
  }
  return refused ? NO_TAG : NOTHING_LEFT;
}

/* The scheduler's class counts end at dispatch; those in flight are in `state`, or
   apart.  These matter to lower classes only. */
static void
tell_in_flight (struct mq *mq)
{
  const uint64_t state = atomic_load (&mq->state);
  int c;

  for (c = 0; c < DL_NR_CLASSES; ++c) {
    mq->dl.in_flight_outside[c] = 0;
    mq->dl.in_flight_outside[c] = STATE_COUNT (state, c) - dl_populated (&mq->dl, c);
    if (state & STATE_APART (c) && (state & STATE_COUNTS) >> STATE_SHIFT (c + 1))
      mq->dl.in_flight_outside[c] += express_inside (mq, c);
  }
}

static void
leave_scheduler (struct mq *mq, struct mq_request *rq)
{
  if (is_deadline (mq)) {
    dl_count_completed (&mq->dl, rq->dl.prio_class);
    mq->dl.in_flight_outside[rq->dl.prio_class]++;
  }
  unlist (mq, rq);
}

static struct mq_request *
next_by_deadline (struct mq *mq, uint64_t now)
{
  struct dl_request *rq = dl_dispatch (&mq->dl, now);

  return rq ? of_dl (rq) : NULL;
}

/* The hwq that is being run first, if it has no more in flight than the one whose
   turn it is; else they take turns. */
static struct mq_request *
next_in_turn (struct mq *mq, struct hwq **prefer)
{
  struct hwq *hwq = *prefer;

  *prefer = NULL;
  if (hwq == NULL || list_empty (&hwq->queued) ||
      mq_hwq_in_flight (hwq) > mq_hwq_in_flight (of_busy (mq->busy.next)))
    hwq = of_busy (mq->busy.next);
  list_remove (&hwq->busy);
  list_push_back (&mq->busy, &hwq->busy);
  return of_link (hwq->queued.next);
}

static enum outcome
pull_sched (struct mq *mq, struct hwq *hwq, struct batch *b)
{
  const unsigned keep = mq_headroom (mq);
  const unsigned want = MIN (BATCH - b->n, mq->nr_sched);
  const bool sorted = is_deadline (mq);
  unsigned got, used = 0;
  int tags[BATCH];

  if (want == 0)
    return mq->nr_sched ? BATCH_FULL : NOTHING_LEFT;
  got = tag_get_batch (mq->user, (unsigned) (hwq - mq->hwq), keep, tags, want);
  while (used < got) {
    struct mq_request *rq = sorted ? next_by_deadline (mq, b->now) : next_in_turn (mq, &hwq);

    if (rq == NULL)
      break;
    leave_scheduler (mq, rq);
    take (mq, b, rq, tags[used++]);
  }
  if (used == got)
    return mq->nr_sched == 0 ? NOTHING_LEFT : got < want ? NO_TAG : BATCH_FULL;
  while (used < got)
    tag_put (mq->user, tags[used++]);
  return NOT_ALLOWED;
}

static bool
class_may_go (struct mq *mq, enum dl_class class)
{
  int c;

  for (c = 0; c < (int) class; ++c)
    if (dl_populated (&mq->dl, c))
      return false;
  return true;
}

/* The tags that sorted order leaves: to the oldest request of an hwq that has
   nothing in flight. */
static void
pull_unserved (struct mq *mq, struct batch *b)
{
  struct list *l = mq->busy.next, *next;
  unsigned looks;

  if (mq_headroom (mq) == 0)
    return;
  for (looks = 0; looks < UNSERVED_LOOKS && l != &mq->busy && b->n < BATCH; ++looks, l = next) {
    struct hwq *hwq = of_busy (l);
    struct mq_request *rq = of_link (hwq->queued.next);
    int tag;

    next = l->next;
    /* To the end, so that the next look begins with others. */
    list_remove (l);
    list_push_back (&mq->busy, l);
    if (mq_hwq_in_flight (hwq) || (is_deadline (mq) && !class_may_go (mq, rq->dl.prio_class)))
      continue;
    tag = tag_get (mq->user, rq->hwq, 0);
    if (tag == -1)
      return;
    if (rq->dl.state != DL_OUT)
      dl_take (&mq->dl, &rq->dl);
    leave_scheduler (mq, rq);
    take (mq, b, rq, tag);
  }
}

/* More tags in the map would not help; our own completions will. */
static bool
own_limit_is_reached (struct mq *mq)
{
  const unsigned in_use = tag_user_in_use (mq->user);

  return in_use > 0 && in_use + mq_headroom (mq) >= tag_user_limit (mq->user);
}

/* Everything that may go now, up to a batch. */
static void
pull (struct mq *mq, struct hwq *hwq, struct batch *b)
{
  enum outcome direct, sched;

  for (;;) {
    if (is_deadline (mq))
      tell_in_flight (mq);
    direct = pull_direct (mq, b);
    sched = direct == NO_TAG ? NO_TAG : pull_sched (mq, hwq, b);
    if (sched == NO_TAG && mq->nr_sched)
      pull_unserved (mq, b);
    if (direct != NO_TAG && sched != NO_TAG)
      return;
    mq_count (&mq->refused);
    /* Known to wait, then look once more: a tag given back before we were
       known has woken nobody (pairs with tag_pass_on). */
    if (tag_is_waiting (mq->user) || b->n == BATCH || own_limit_is_reached (mq))
      return;
    tag_wait (mq->user);
  }
}

static void
sort_in (struct mq *mq, uint64_t now)
{
  if (now - mq->looked_ns > LOOK_NS)
    look_at_hwqs (mq, now);
  drain_incoming (mq, now);
  if (atomic_load_explicit (&mq->zones_released, memory_order_acquire))
    release_plugged (mq);
  if (mq->nr_held)
    admit_held (mq);
  if (atomic_load_explicit (&mq->state, memory_order_relaxed) &
      (STATE_APART (0) | STATE_APART (1) | STATE_APART (2)))
    express_look (mq);
  set_queued_bit (mq);
}

/* Not as the dispatcher. */
static void
issue (struct mq *mq, struct batch *b)
{
  unsigned i, n = 0;

  for (i = 0; i < b->n; ++i)
    if (b->rq[i]->end_io == NULL)
      mq_owner_wake (mq, b->rq[i], TURN_GO);
    else
      b->rq[n++] = b->rq[i];
  if (n)
    mq->ops->issue (mq->device, b->rq, n);
}

static void
count_run (struct hwq *hwq, bool had_work)
{
  mq_count (&hwq->run);
  if (!had_work)
    mq_count (&hwq->useless_runs);
}

static bool
has_pending (struct mq *mq)
{
  return (atomic_load (&mq->state) & STATE_QUEUED) || atomic_load (&mq->incoming);
}

/* A turn that lasts too long ends here, if what is in flight is sure to run the queue
   again: it completes after the bit was set, and so sees it.  Only the dispatcher may
   say that something is queued: another one may have taken it all meanwhile. */
static bool
others_will_run (struct mq *mq)
{
  if (atomic_load (&mq->incoming))
    atomic_fetch_or (&mq->state, STATE_QUEUED);
  express_unpark_all (mq);
  return tag_user_in_use (mq->user) > 0;
}

/* The role has been taken.  Sorts and pulls, gives up the role, issues; and again,
   while there is more or somebody has kicked meanwhile. */
static void
be_dispatcher (struct mq *mq, struct hwq *hwq)
{
  const uint64_t began = sh_now (mq->clock);
  struct batch b;
  unsigned kicked;
  bool had_work;

  b.now = began;
  for (;;) {
    b.n = 0;
    sort_in (mq, b.now);
    had_work = holds_anything (mq);
    if (had_work) {
      pull (mq, hwq, &b);
      if (!holds_anything (mq))
        set_queued_bit (mq);
    }
    count_run (hwq, had_work);
    kicked = atomic_exchange (&mq->kicks, 0);
    issue (mq, &b);
    if (b.n < BATCH && kicked == 1)
      break;
    b.now = sh_now (mq->clock);
    if (!has_pending (mq))
      break;
    if (atomic_fetch_add (&mq->kicks, 1) != 0)
      return;
    if (b.now - began > TURN_NS && others_will_run (mq)) {
      if (atomic_exchange (&mq->kicks, 0) == 1)
        break;
      if (atomic_fetch_add (&mq->kicks, 1) != 0)
        return;
    }
  }
  if (b.n || b.now != began)
    mq_note_longest (&mq->longest_turn_ns, sh_now (mq->clock) - began);
}

/* Any thread. */
void
mq_run_queue (struct mq *mq, struct hwq *hwq)
{
  if (atomic_fetch_add (&mq->kicks, 1) != 0)
    return;
  if (has_pending (mq)) {
    be_dispatcher (mq, hwq);
    return;
  }
  /* Nothing to do; but whoever kicked meanwhile has left it to us. */
  if (atomic_exchange (&mq->kicks, 0) != 1)
    mq_run_queue (mq, hwq);
}

void
mq_run_queue_anyway (struct mq *mq, struct hwq *hwq)
{
  if (atomic_fetch_add (&mq->kicks, 1) == 0)
    be_dispatcher (mq, hwq);
}

/* Any thread. */
void
mq_as_dispatcher (struct mq *mq, void (*fn) (struct mq *mq, void *opaque), void *opaque)
{
  unsigned nobody = 0;

  while (!atomic_compare_exchange_strong (&mq->kicks, &nobody, 1)) {
    nobody = 0;
    sh_sleep (mq->clock, 20 * NS_PER_US);
  }
  fn (mq, opaque);
  atomic_exchange (&mq->kicks, 0);
  mq_run_queue (mq, &mq->hwq[0]);
}

/* -- taking back, switching --------------------------------------------------------------- */

bool
mq_withdraw_locked (struct mq *mq, struct mq_request *rq)
{
  drain_incoming (mq, sh_now (mq->clock));
  switch (rq->place) {
  case MQ_OUTSIDE:
    return false;               /* in flight, or part of another */
  case MQ_IN_DIRECT:
    list_remove (&rq->link);
    mq->nr_direct--;
    break;
  case MQ_IN_SCHED:
    if (rq->first != rq || rq->next_merged)
      return false;             /* others depend on it */
    if (rq->dl.state != DL_OUT)
      dl_withdraw (&mq->dl, &rq->dl);
    unlist (mq, rq);
    break;
  case MQ_HELD:
    unhold (mq, rq);
    break;
  case MQ_PLUGGED:
    unplug (mq, rq);
    atomic_fetch_add (&mq->state, STATE_ONE (rq->dl.prio_class));
    break;
  }
  rq->place = MQ_OUTSIDE;
  return true;
}

/* All requests of the scheduler, in order of arrival. */
static void
collect_queued (struct mq *mq, struct list *all)
{
  struct mq_request *rq;
  struct list *l;

  while (!list_empty (&mq->busy)) {
    rq = of_link (of_busy (mq->busy.next)->queued.next);
    if (rq->dl.state != DL_OUT)
      dl_withdraw (&mq->dl, &rq->dl);
    unlist (mq, rq);
    for (l = all->prev; l != all && of_link (l)->arrived_ns > rq->arrived_ns; l = l->prev)
      ;
    list_insert_between (&rq->link, l, l->next);
  }
}

void
mq_switch_sched_locked (struct mq *mq, enum mq_sched sched)
{
  struct list all;
  struct list *l;
  int c;

  list_init (&all);
  collect_queued (mq, &all);
  atomic_store (&mq->sched, sched);
  mq->options.sched = sched;
  for (c = 0; c < DL_NR_CLASSES; ++c) {
    const uint64_t higher = (STATE_ONE (c) - 1) | (STATE_APART (c) - STATE_APART (0));

    atomic_store (&mq->blocks_inline[c],
                  STATE_QUEUED | (sched == MQ_DEADLINE ? higher : 0));
  }
  while ((l = list_pop_front (&all)) != NULL)
    insert (mq, of_link (l));
}
