/* SPDX-License-Identifier: BSD-3-Clause */
/* What requests do: they start, queue, complete, come back, wait for their turn.
 * dispatch.c has the dispatcher, life.c the life of a queue. */
#include <config.h>
#include <assert.h>
#include <errno.h>
#include <string.h>
#include "base/bytes.h"
#include "base/error.h"
#include "mq/express.h"
#include "mq/futex.h"
#include "mq/internal.h"

#define REQUEUE_NS (3 * NS_PER_MS)
#define GIVE_UP_POLL_NS (100 * NS_PER_MS)

/* -- requests ----------------------------------------------------------------------- */

void
mq_request_init (struct mq_request *rq)
{
  dl_request_init (&rq->dl);
  rq->kind = MQ_SCHEDULED;
  rq->reserved = false;
  rq->zone = MQ_NO_ZONE;
  rq->hwq = 0;
  rq->end_io = NULL;
  rq->opaque = NULL;
  rq->wanted = NULL;
}

/* What a queue does not find set by mq_request_init. */
static void
prepare (struct mq_request *rq)
{
  rq->error = 0;
  rq->first = rq->last_merged = rq;
  rq->next_merged = NULL;
  rq->place = MQ_OUTSIDE;
  rq->arrived_ns = 0;
  rq->owns_zone = rq->counted_async = rq->at_head = rq->apart = false;
}

static bool
is_async (const struct mq_request *rq)
{
  return rq->dl.dir == DL_WRITE;
}

/* Room for one more that is not a read. */
static inline bool
async_room (struct mq *mq, struct mq_request *rq)
{
  atomic_uint *inside = &mq->async_inside[rq->dl.prio_class];

  if (!is_async (rq) || !atomic_load_explicit (&mq->async_limited, memory_order_relaxed))
    return true;
  if (atomic_fetch_add (inside, 1) >= atomic_load (&mq->async_depth)) {
    atomic_fetch_sub (inside, 1);
    return false;
  }
  rq->counted_async = true;
  return true;
}

/* -- at once, in the submitter's thread ------------------------------------------------- */

/* A busy hwq leaves a few tags to those that have nothing in flight. */
static inline unsigned
inline_keep (struct mq *mq, struct hwq *hwq)
{
  if (atomic_load_explicit (&mq->headroom, memory_order_relaxed) == 0 ||
      mq_hwq_in_flight (hwq) == 0)
    return 0;
  return mq_headroom (mq);
}

static inline bool
start_direct_at_once (struct mq *mq, struct mq_request *rq)
{
  if (atomic_load (&mq->state) & STATE_QUEUED)
    return false;
  rq->tag = rq->reserved ? tag_get_reserved (mq->user) : -1;
  if (rq->tag == -1)
    rq->tag = tag_get (mq->user, rq->hwq, 0);
  return rq->tag != -1;
}

static __attribute__ ((noinline)) bool
zone_at_once (struct mq *mq, struct mq_request *rq)
{
  const uint32_t before = mq_zone_before (mq, rq);

  if (before != MQ_NO_ZONE && atomic_load (&mq->zone_state[before]) != ZONE_QUIET)
    return false;
  return mq_zone_try_own (mq, rq);
}

/* `before` is the state before the request was counted. */
static inline bool
start_scheduled_at_once (struct mq *mq, struct mq_request *rq, uint64_t before)
{
  const unsigned c = rq->dl.prio_class;

  if (before & atomic_load_explicit (&mq->blocks_inline[c], memory_order_relaxed))
    return false;
  if (STATE_COUNT (before, c) >= atomic_load_explicit (&mq->depth, memory_order_relaxed))
    return false;
  if (!async_room (mq, rq))
    return false;
  if (rq->zone != MQ_NO_ZONE && !rq->owns_zone && !zone_at_once (mq, rq))
    return false;
  rq->tag = tag_get (mq->user, rq->hwq, inline_keep (mq, &mq->hwq[rq->hwq]));
  return rq->tag != -1;
}

/* Counted in `state` from here on; the state before. */
static inline uint64_t
count_in (struct mq *mq, unsigned c, unsigned n)
{
  const uint64_t before = atomic_fetch_add (&mq->state, STATE_ONE (c) * n);

  if (__builtin_expect ((before & STATE_EXPRESS) && !(before & STATE_APART (c)), 0))
    express_end (mq, true);
  return before;
}

static inline void
count_apart (struct mq *mq, struct hwq *hwq, unsigned c, unsigned n)
{
  if (__builtin_expect (atomic_fetch_add (&hwq->apart_begun[c], n) == 0, 0))
    express_note_hwq (mq, hwq);
}

/* Counted by its hwq, with a tag that lies there if one does. */
static inline bool
start_apart (struct mq *mq, struct hwq *hwq, struct mq_request *rq)
{
  const unsigned c = rq->dl.prio_class;

  if (!express_is_open (atomic_load_explicit (&mq->state, memory_order_relaxed), c) ||
      rq->zone != MQ_NO_ZONE)
    return false;
  rq->tag = express_tag (hwq);
  if (rq->tag == -1)
    rq->tag = tag_get (mq->user, rq->hwq, 0);
  if (rq->tag == -1)
    return false;
  rq->apart = true;
  count_apart (mq, hwq, c, 1);
  return true;
}

/* The others: true: it has a tag and its turn; false: it has been counted, and is to be
   pushed. */
static __attribute__ ((noinline)) bool
start_counted (struct mq *mq, struct hwq *hwq, struct mq_request *rq)
{
  const unsigned c = rq->dl.prio_class;
  bool started;

  if (rq->kind == MQ_DIRECT)
    started = start_direct_at_once (mq, rq);
  else
    started = start_scheduled_at_once (mq, rq, count_in (mq, c, 1));
  if (!started) {
    mq_count (&hwq->came_in[c]);
    return false;
  }
  if (atomic_fetch_add_explicit (&hwq->at_once[c], 1, memory_order_relaxed) % EXPRESS_STREAK ==
      EXPRESS_STREAK - 1 && rq->kind == MQ_SCHEDULED)
    express_consider (mq, hwq, c);
  return true;
}

/* As start_counted. */
static inline bool
start_at_once (struct mq *mq, struct mq_request *rq)
{
  struct hwq *hwq = &mq->hwq[rq->hwq];

  assert (rq->hwq < mq->nr_hwqs);
  prepare (rq);
  if (rq->kind == MQ_SCHEDULED && start_apart (mq, hwq, rq))
    return true;
  return start_counted (mq, hwq, rq);
}

/* -- into the queue ------------------------------------------------------------------------- */

/* A chain of requests, first to last in order of submission. */
static void
push (struct mq *mq, struct mq_request *newest, struct mq_request *oldest)
{
  struct mq_request *head = atomic_load_explicit (&mq->incoming, memory_order_relaxed);

  do
    oldest->next = head;
  while (!atomic_compare_exchange_weak (&mq->incoming, &head, newest));
}

/* All of one class, unzoned, counted apart; how many. */
static unsigned
start_batch_apart (struct mq *mq, struct hwq *hwq, struct mq_request **rq, int *tags, unsigned n)
{
  const unsigned c = rq[0]->dl.prio_class;
  unsigned got = 0, i;

  if (!express_is_open (atomic_load_explicit (&mq->state, memory_order_relaxed), c))
    return 0;
  got = express_tags (hwq, tags, n);
  if (got < n)
    got += tag_get_batch (mq->user, rq[0]->hwq, 0, tags + got, n - got);
  for (i = 0; i < got; ++i)
    rq[i]->apart = true;
  if (got)
    count_apart (mq, hwq, c, got);
  return got;
}

/* The same, counted in `state`. */
static unsigned
start_batch_counted (struct mq *mq, struct hwq *hwq, struct mq_request **rq, int *tags,
                     unsigned n)
{
  const unsigned c = rq[0]->dl.prio_class;
  const uint64_t before = count_in (mq, c, n);
  uint64_t old;
  unsigned got = 0;

  if (!(before & atomic_load_explicit (&mq->blocks_inline[c], memory_order_relaxed)) &&
      STATE_COUNT (before, c) + n <= atomic_load_explicit (&mq->depth, memory_order_relaxed))
    got = tag_get_batch (mq->user, rq[0]->hwq, inline_keep (mq, hwq), tags, n);
  if (got) {
    old = atomic_fetch_add_explicit (&hwq->at_once[c], got, memory_order_relaxed);
    if (old / EXPRESS_STREAK != (old + got) / EXPRESS_STREAK)
      express_consider (mq, hwq, c);
  }
  if (got < n)
    atomic_fetch_add_explicit (&hwq->came_in[c], n - got, memory_order_relaxed);
  return got;
}

/* Those that got no tag have been counted, and are to be pushed. */
static unsigned
start_batch_at_once (struct mq *mq, struct mq_request **rq, unsigned n)
{
  struct hwq *hwq = &mq->hwq[rq[0]->hwq];
  unsigned got, i;
  int tags[64];

  assert (n <= ARRAY_SIZE (tags) && rq[0]->hwq < mq->nr_hwqs);
  for (i = 0; i < n; ++i)
    prepare (rq[i]);
  got = start_batch_apart (mq, hwq, rq, tags, n);
  if (got < n)
    got += start_batch_counted (mq, hwq, rq + got, tags + got, n - got);
  for (i = 0; i < got; ++i)
    rq[i]->tag = tags[i];
  return got;
}

static bool
alike (struct mq *mq, struct mq_request **rq, unsigned n)
{
  unsigned i;

  if (atomic_load_explicit (&mq->async_limited, memory_order_relaxed))
    return false;
  for (i = 0; i < n; ++i)
    if (rq[i]->kind != MQ_SCHEDULED || rq[i]->zone != MQ_NO_ZONE ||
        rq[i]->dl.prio_class != rq[0]->dl.prio_class)
      return false;
  return true;
}

static void
push_all (struct mq *mq, struct mq_request **rq, unsigned n)
{
  unsigned i;

  for (i = 1; i < n; ++i)
    rq[i]->next = rq[i - 1];
  push (mq, rq[n - 1], rq[0]);
  mq_run_queue (mq, &mq->hwq[rq[0]->hwq]);
}

static void
submit_alike (struct mq *mq, struct mq_request **rq, unsigned n)
{
  const unsigned got = start_batch_at_once (mq, rq, n);

  if (got < n)
    push_all (mq, rq + got, n - got);
  if (got)
    mq->ops->issue (mq->device, rq, got);
}

void
mq_submit (struct mq *mq, struct mq_request **rq, unsigned n)
{
  unsigned i, step;

  for (i = 0; i < n; i += step) {
    step = MIN (n - i, 64);
    if (step > 1 && alike (mq, rq + i, step)) {
      submit_alike (mq, rq + i, step);
      continue;
    }
    step = 1;
    if (start_at_once (mq, rq[i]))
      mq->ops->issue (mq->device, rq + i, 1);
    else
      push_all (mq, rq + i, 1);
  }
}

/* -- completion --------------------------------------------------------------------------------- */

static __attribute__ ((noinline)) void
release_zone (struct mq *mq, struct mq_request *rq)
{
  _Atomic uint8_t *state = &mq->zone_state[mq_gate (mq, rq->zone)];
  uint8_t busy = ZONE_BUSY;

  rq->owns_zone = false;
  if (atomic_compare_exchange_strong (state, &busy, ZONE_QUIET))
    return;
  atomic_store (state, ZONE_WAITED_FOR);
  atomic_store (&mq->zones_released, true);
}

/* The tag of a request that is through: kept for the hwq's next one, or given back. */
static inline void
part_with_tag (struct mq *mq, struct hwq *hwq, int tag)
{
  const uint64_t state = atomic_load_explicit (&mq->state, memory_order_relaxed);

  if ((state & (STATE_EXPRESS | STATE_QUEUED)) != STATE_EXPRESS || !express_park (mq, hwq, tag))
    tag_put (mq->user, tag);
}

/* A request that is not apart (nor merged into another) is through, and its tag parted with:
   what it held beside.  What is to be taken off `state`. */
static inline uint64_t
let_go (struct mq *mq, struct mq_request *rq)
{
  const unsigned c = rq->dl.prio_class;

  if (rq->owns_zone)
    release_zone (mq, rq);
  if (rq->counted_async)
    atomic_fetch_sub (&mq->async_inside[c], 1);
  return rq->kind == MQ_DIRECT ? 0 : STATE_ONE (c);
}

/* The same, counted; also of one that is apart. */
static inline uint64_t
leave_counters (struct mq *mq, struct hwq *hwq, struct mq_request *rq)
{
  const unsigned c = rq->dl.prio_class;

  if (rq->apart) {
    atomic_fetch_add (&hwq->apart_ended[c], 1);
    return 0;
  }
  mq_count (&hwq->completed[c]);
  return let_go (mq, rq);
}

/* The state after the counters and the tag. */
static inline uint64_t
leave (struct mq *mq, struct hwq *hwq, struct mq_request *rq)
{
  const bool apart = rq->apart;
  const uint64_t less = leave_counters (mq, hwq, rq);

  return apart ? atomic_load (&mq->state) : atomic_fetch_sub (&mq->state, less);
}

static __attribute__ ((noinline)) void
run_all_hwqs (struct mq *mq)
{
  unsigned i;

  for (i = 0; i < mq->nr_hwqs; ++i)
    mq_run_queue_anyway (mq, &mq->hwq[i]);
}

/* Somebody waits here, or may be waiting elsewhere. */
static inline bool
must_unpark (uint64_t state)
{
  return __builtin_expect ((state & (STATE_EXPRESS | STATE_QUEUED)) != STATE_EXPRESS, 0);
}

/* n tags came back from `hwq`, whose requests have left `state`. */
static inline void
after_completion (struct mq *mq, struct hwq *hwq, uint64_t state, unsigned n)
{
  if (!must_unpark (state))
    return;
  if (atomic_load_explicit (&mq->run, memory_order_relaxed) == MQ_RUN_ALL)
    while (n--)
      run_all_hwqs (mq);
  else if (state & STATE_QUEUED && !tag_others_first (mq->user))
    mq_run_queue (mq, hwq);
  tag_pass_on (mq->user);
}

/* The requests that were merged into `leader` share its fate. */
static __attribute__ ((noinline)) void
finish_merged (struct mq *mq, struct mq_request *leader)
{
  struct mq_request *rq, *next;

  for (rq = leader->first; rq; rq = next) {
    next = rq->next_merged;
    if (rq == leader)
      continue;
    rq->error = leader->error;
    if (rq->end_io)
      rq->end_io (rq);
    else
      mq_owner_wake (mq, rq, TURN_DONE);
  }
}

static inline void
end_io (struct mq *mq, struct mq_request *rq, int error)
{
  rq->error = error;
  if (rq->first != rq || rq->next_merged)
    finish_merged (mq, rq);
  if (rq->end_io)
    rq->end_io (rq);
}

void
mq_complete (struct mq *mq, struct mq_request *rq, int error)
{
  struct hwq *hwq = &mq->hwq[rq->hwq];
  uint64_t state;

  part_with_tag (mq, hwq, rq->tag);
  state = leave (mq, hwq, rq);
  if (must_unpark (state))
    express_unpark_hwq (mq, hwq);
  end_io (mq, rq, error);
  after_completion (mq, hwq, state, 1);
}

/* The tags of several requests that are through. */
static void
part_with_tags (struct mq *mq, struct mq_request **rq, unsigned n)
{
  const uint64_t state = atomic_load_explicit (&mq->state, memory_order_relaxed);
  struct hwq *hwq = &mq->hwq[rq[0]->hwq];
  unsigned i, kept = 0;
  int tags[64];

  for (i = 0; i < n; ++i)
    tags[i] = rq[i]->tag;
  if ((state & (STATE_EXPRESS | STATE_QUEUED)) == STATE_EXPRESS)
    kept = express_park_several (mq, hwq, tags, n);
  if (kept < n)
    tag_put_batch (mq->user, tags + kept, n - kept);
}

/* What is to be taken off `state`, for requests of one hwq.  Those of a class are counted
   at once. */
static uint64_t
leave_counters_of (struct mq *mq, struct mq_request **rq, unsigned n)
{
  unsigned apart[DL_NR_CLASSES] = { 0 }, together[DL_NR_CLASSES] = { 0 };
  struct hwq *hwq = &mq->hwq[rq[0]->hwq];
  uint64_t less = 0;
  unsigned i, c;

  for (i = 0; i < n; ++i)
    if (rq[i]->apart)
      ++apart[rq[i]->dl.prio_class];
    else {
      ++together[rq[i]->dl.prio_class];
      less += let_go (mq, rq[i]);
    }
  for (c = 0; c < DL_NR_CLASSES; ++c) {
    if (apart[c])
      atomic_fetch_add (&hwq->apart_ended[c], apart[c]);
    if (together[c])
      atomic_fetch_add_explicit (&hwq->completed[c], together[c], memory_order_relaxed);
  }
  return less;
}

/* How many, 64 at most, from the first on are of its hwq. */
static unsigned
of_one_hwq (struct mq_request **rq, unsigned n)
{
  unsigned same = 1;

  while (same < n && same < 64 && rq[same]->hwq == rq[0]->hwq)
    ++same;
  return same;
}

void
mq_complete_batch (struct mq *mq, struct mq_request **rq, unsigned n, int error)
{
  struct hwq *hwq = &mq->hwq[rq[0]->hwq];
  uint64_t state, less = 0;
  unsigned i, same;

  for (i = 0; i < n; i += same) {
    same = of_one_hwq (rq + i, n - i);
    part_with_tags (mq, rq + i, same);
    less += leave_counters_of (mq, rq + i, same);
  }
  state = less ? atomic_fetch_sub (&mq->state, less) : atomic_load (&mq->state);
  if (must_unpark (state))
    for (i = 0; i < n; i += same) {
      same = of_one_hwq (rq + i, n - i);
      express_unpark_hwq (mq, &mq->hwq[rq[i]->hwq]);
    }
  for (i = 0; i < n; ++i)
    end_io (mq, rq[i], error);
  after_completion (mq, hwq, state, n);
}

/* -- requests that the device refused -------------------------------------------------------------- */

static void *
run_later (void *opaque)
{
  struct mq *mq = opaque;

  pthread_mutex_lock (&mq->timer_lock);
  while (!mq->timer_stop) {
    if (mq->timer_ns == 0) {
      pthread_cond_wait (&mq->timer_cond, &mq->timer_lock);
      continue;
    }
    if (sh_now (mq->clock) < mq->timer_ns) {
      sh_cond_wait_until (mq->clock, &mq->timer_cond, &mq->timer_lock, mq->timer_ns);
      continue;
    }
    mq->timer_ns = 0;
    pthread_mutex_unlock (&mq->timer_lock);
    mq_run_queue (mq, &mq->hwq[0]);
    pthread_mutex_lock (&mq->timer_lock);
  }
  pthread_mutex_unlock (&mq->timer_lock);
  return NULL;
}

static void
run_in_a_while (struct mq *mq)
{
  pthread_mutex_lock (&mq->timer_lock);
  if (!mq->timer_started)
    mq->timer_started = pthread_create (&mq->timer, NULL, run_later, mq) == 0;
  mq->timer_ns = sh_now (mq->clock) + REQUEUE_NS;
  pthread_cond_signal (&mq->timer_cond);
  pthread_mutex_unlock (&mq->timer_lock);
}

/* Pushed without a run: the completions of others will run the queue, because
   the bit is set before we look whether there are any.  If there are none, the
   timer does. */
void
mq_requeue (struct mq *mq, struct mq_request *rq)
{
  struct hwq *hwq = &mq->hwq[rq->hwq];
  const unsigned c = rq->dl.prio_class;

  mq_tell (&mq->requeued);
  if (rq->apart) {
    rq->apart = false;
    count_in (mq, c, 1);
    mq_count (&hwq->at_once[c]);
    atomic_fetch_sub (&hwq->apart_begun[c], 1);
  }
  mq_count (&hwq->came_back);
  rq->at_head = true;
  rq->dl.counted = false;
  tag_put (mq->user, rq->tag);
  push (mq, rq, rq);
  atomic_fetch_or (&mq->state, STATE_QUEUED);
  express_unpark_all (mq);
  if (tag_user_in_use (mq->user) == 0)
    run_in_a_while (mq);
  tag_pass_on (mq->user);
}

/* -- synchronous owners --------------------------------------------------------------------------------- */

void
mq_owner_wake (struct mq *mq, struct mq_request *rq, uint32_t turn)
{
  if (atomic_exchange (&rq->turn, turn) == TURN_ASLEEP) {
    mq_tell (&mq->owner_wakes);
    futex_wake_one (&rq->turn, false);
  }
}

struct withdrawal {
  struct mq_request *rq;
  bool done;
};

static void
withdraw (struct mq *mq, void *opaque)
{
  struct withdrawal *w = opaque;

  w->done = mq_withdraw_locked (mq, w->rq);
  if (w->done)
    mq_count_alone (&mq->hwq[w->rq->hwq].dispatched);
}

/* Out of the queue, unless it is too late for that. */
static bool
give_up (struct mq *mq, struct mq_request *rq)
{
  struct withdrawal w = { .rq = rq };
  struct hwq *hwq = &mq->hwq[rq->hwq];

  mq_as_dispatcher (mq, withdraw, &w);
  if (w.done) {
    leave (mq, hwq, rq);
    mq_run_queue (mq, hwq);
  }
  return w.done;
}

static bool
should_give_up (struct mq *mq)
{
  return mq->ops->give_up && mq->ops->give_up (mq->device);
}

static enum mq_turn
wait_for_turn (struct mq *mq, struct mq_request *rq)
{
  uint32_t turn = TURN_WAIT;
  bool giving_up = false;

  for (;;) {
    if (turn == TURN_WAIT)
      atomic_compare_exchange_strong (&rq->turn, &turn, TURN_ASLEEP);
    turn = atomic_load (&rq->turn);
    if (turn == TURN_GO)
      return MQ_GO;
    if (turn == TURN_DONE)
      return MQ_DONE;
    futex_wait (&rq->turn, TURN_ASLEEP, GIVE_UP_POLL_NS, false);
    turn = atomic_load (&rq->turn);
    if (turn == TURN_ASLEEP && !giving_up && should_give_up (mq)) {
      giving_up = true;
      if (give_up (mq, rq))
        return MQ_GAVE_UP;
    }
  }
}

static __attribute__ ((noinline)) enum mq_turn
queue_and_wait (struct mq *mq, struct mq_request *rq)
{
  atomic_store_explicit (&rq->turn, TURN_WAIT, memory_order_relaxed);
  push (mq, rq, rq);
  mq_run_queue (mq, &mq->hwq[rq->hwq]);
  return wait_for_turn (mq, rq);
}

enum mq_turn
mq_begin (struct mq *mq, struct mq_request *rq)
{
  return start_at_once (mq, rq) ? MQ_GO : queue_and_wait (mq, rq);
}

void
mq_end (struct mq *mq, struct mq_request *rq, int error)
{
  mq_complete (mq, rq, error);
}
