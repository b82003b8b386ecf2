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
    return;
  }
  /* Whoever sets `wanted` raises what is queued; this one was on its way. */
  if (rq->dl.prio_class == DL_IDLE && mq_is_wanted (rq))
    mq_change_class (mq, rq, DL_BE);
  if (mq_may_write_zone (mq, rq))
    mq_enqueue (mq, rq);
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
  mq_count_alone (&hwq->dispatched);
  mq_tell_longest (&mq->longest_wait_ns, b->now - rq->arrived_ns);
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
    struct mq_request *rq = mq_of_link (l);
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
  if (mq_is_deadline (mq)) {
    dl_count_completed (&mq->dl, rq->dl.prio_class);
    mq->dl.in_flight_outside[rq->dl.prio_class]++;
  }
  mq_unlist (mq, rq);
}

static struct mq_request *
next_by_deadline (struct mq *mq, uint64_t now)
{
  struct dl_request *rq = dl_dispatch (&mq->dl, now);

  return rq ? mq_of_dl (rq) : NULL;
}

/* The hwq that is being run first, if it has no more in flight than the one whose
   turn it is; else they take turns. */
static struct mq_request *
next_in_turn (struct mq *mq, struct hwq **prefer)
{
  struct hwq *hwq = *prefer;

  *prefer = NULL;
  if (hwq == NULL || list_empty (&hwq->queued) ||
      mq_hwq_in_flight (hwq) > mq_hwq_in_flight (mq_of_busy (mq->busy.next)))
    hwq = mq_of_busy (mq->busy.next);
  list_remove (&hwq->busy);
  list_push_back (&mq->busy, &hwq->busy);
  return mq_of_link (hwq->queued.next);
}

static enum outcome
pull_sched (struct mq *mq, struct hwq *hwq, struct batch *b)
{
  const unsigned keep = mq_headroom (mq);
  const unsigned want = MIN (BATCH - b->n, mq->nr_sched);
  const bool sorted = mq_is_deadline (mq);
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
    struct hwq *hwq = mq_of_busy (l);
    struct mq_request *rq = mq_of_link (hwq->queued.next);
    int tag;

    next = l->next;
    /* To the end, so that the next look begins with others. */
    list_remove (l);
    list_push_back (&mq->busy, l);
    if (mq_hwq_in_flight (hwq) || (mq_is_deadline (mq) && !class_may_go (mq, rq->dl.prio_class)))
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
    if (mq_is_deadline (mq))
      tell_in_flight (mq);
    direct = pull_direct (mq, b);
    sched = direct == NO_TAG ? NO_TAG : pull_sched (mq, hwq, b);
    if (sched == NO_TAG && mq->nr_sched)
      pull_unserved (mq, b);
    if (direct != NO_TAG && sched != NO_TAG)
      return;
    mq_tell_alone (&mq->refused);
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
  if (atomic_load_explicit (&mq->raised, memory_order_relaxed) &&
      atomic_exchange (&mq->raised, false))
    mq_raise_wanted (mq);
  if (atomic_load_explicit (&mq->zones_released, memory_order_acquire))
    mq_release_plugged (mq);
  if (mq->nr_held)
    mq_admit_held (mq);
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
  mq_tell_alone (&hwq->run);
  if (!had_work)
    mq_tell_alone (&hwq->useless_runs);
}

static bool
has_pending (struct mq *mq)
{
  return (atomic_load (&mq->state) & STATE_QUEUED) || atomic_load (&mq->incoming);
}

/* Any thread.  Whether there is something to do is looked at in the role only: before,
   another dispatcher may just be taking it all.  False: nothing to do, or the one who
   has the role sees our kick and does it. */
static bool
take_role (struct mq *mq)
{
  do {
    if (atomic_fetch_add (&mq->kicks, 1) != 0)
      return false;
    if (has_pending (mq))
      return true;
  } while (atomic_exchange (&mq->kicks, 0) != 1);
  return false;
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
    if (!take_role (mq))
      break;
    if (b.now - began > TURN_NS && others_will_run (mq) &&
        (atomic_exchange (&mq->kicks, 0) == 1 || !take_role (mq)))
      break;
  }
  if (MQ_TELLS && (b.n || b.now != began))
    mq_tell_longest (&mq->longest_turn_ns, sh_now (mq->clock) - began);
}

/* Any thread. */
void
mq_run_queue (struct mq *mq, struct hwq *hwq)
{
  if (take_role (mq))
    be_dispatcher (mq, hwq);
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

/* Any thread.  The dispatcher looks at all that is queued after it has seen the flag; what
   comes in later is looked at then. */
void
mq_raise (struct mq *mq)
{
  atomic_store (&mq->raised, true);
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
    mq_unlist (mq, rq);
    break;
  case MQ_HELD:
    mq_unhold (mq, rq);
    break;
  case MQ_PLUGGED:
    mq_unplug (mq, rq);
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
    rq = mq_of_link (mq_of_busy (mq->busy.next)->queued.next);
    if (rq->dl.state != DL_OUT)
      dl_withdraw (&mq->dl, &rq->dl);
    mq_unlist (mq, rq);
    for (l = all->prev; l != all && mq_of_link (l)->arrived_ns > rq->arrived_ns; l = l->prev)
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
    mq_insert (mq, mq_of_link (l));
}
