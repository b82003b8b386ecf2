/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of the queue share; see mq.h for how it works. */
#ifndef MQ_INTERNAL_H
#define MQ_INTERNAL_H

#include <pthread.h>

#include "base/clock.h"
#include "mq/count.h"
#include "mq/mq.h"

/* struct mq.state: how many requests of each class are inside, 19 bits each, but for
   those that are counted apart; and bits.  APART: requests of the class may be inside that
   are counted apart; EXPRESS: more may become so (express.h); QUEUED: something is held
   back. */
#define STATE_SHIFT(class) (19 * (class))
#define STATE_ONE(class) (UINT64_C (1) << STATE_SHIFT (class))
#define STATE_COUNT(state, class) ((unsigned) ((state) >> STATE_SHIFT (class)) & 0x7ffff)
#define STATE_COUNTS (STATE_ONE (3) - 1)
#define STATE_APART(class) (UINT64_C (1) << (57 + (class)))
#define STATE_EXPRESS (UINT64_C (1) << 60)
#define STATE_QUEUED (UINT64_C (1) << 63)

/* Where a request is; the dispatcher's. */
enum mq_place {
  MQ_OUTSIDE,                   /* not handed in, in flight, or on the incoming list */
  MQ_IN_DIRECT,
  MQ_IN_SCHED,                  /* on its hwq's list; with deadline in the scheduler too */
  MQ_HELD,                      /* the class's window is full */
  MQ_PLUGGED,                   /* waits for its zone */
};

/* struct mq_request.turn */
enum { TURN_WAIT, TURN_ASLEEP, TURN_GO, TURN_DONE };

#define PARKED_WORDS 4

struct hwq {
  /* Any thread; on cache lines of their own. */
  _Alignas (64) atomic_ullong parked[PARKED_WORDS]; /* tags for the next requests (express.h) */
  atomic_ullong apart_begun[DL_NR_CLASSES]; /* queued, run and dispatched in one, apart */
  atomic_ullong apart_ended[DL_NR_CLASSES]; /* of them, completed */
  _Alignas (64) atomic_ullong at_once[DL_NR_CLASSES]; /* queued, run and dispatched in one */
  atomic_ullong completed[DL_NR_CLASSES];
  atomic_ullong came_in[DL_NR_CLASSES]; /* to the queue, not at once */
  atomic_ullong came_back;      /* from the device, to be dispatched again */

  /* The dispatcher's; others read the counters. */
  _Alignas (64) atomic_ullong dispatched;       /* from the queue */
  atomic_ullong run, useless_runs, merged;
  struct list queued;           /* of requests, by arrival */
  struct list busy;             /* on mq.busy while `queued` is not empty */
  struct list held[DL_NR_CLASSES][DL_NR_DIRS];
  struct list held_link[DL_NR_CLASSES][DL_NR_DIRS];
  uint64_t seen;                /* requests at the last look */
  unsigned load;                /* in flight or queued at recent looks, in 16ths */
};

struct mq {
  /* Changed by every request. */
  _Alignas (64) atomic_ullong state;
  _Alignas (64) _Atomic (struct mq_request *) incoming;
  atomic_uint kicks;

  /* Read by every request, seldom changed. */
  _Alignas (64) struct hwq *hwq;
  unsigned nr_hwqs;
  struct tag_user *user;
  atomic_ullong blocks_inline[DL_NR_CLASSES]; /* bits of state */
  atomic_uint depth, async_depth;
  atomic_uint headroom;         /* tags kept for hwqs with nothing in flight */
  atomic_bool async_limited;    /* async_depth is below depth */
  atomic_uint park_below;       /* tags that may be parked; 0: none */
  atomic_uint park_words;       /* of an hwq, that may be used */
  atomic_uint hwqs_seen;        /* those below have been used */
  atomic_bool parked_any;       /* some hwq may have a parked tag */
  atomic_ullong mixed_ns;       /* when classes were last mixed; 0: never */
  atomic_int sched, run;
  _Atomic uint8_t *zone_state;  /* enum zone_state of each gate (mq_gate); NULL: no zones */
  bool one_zone_writer;         /* zoned_writes=qd1; never changes */
  const struct mq_device_ops *ops;
  void *device;
  const struct sh_clock *clock;
  struct tagset *set;

  /* The dispatcher's. */
  _Alignas (64) struct deadline dl;
  struct list busy;             /* hwqs with requests in the scheduler, in turn */
  struct list direct, plugged;  /* requests */
  struct list held_ring[DL_NR_CLASSES][DL_NR_DIRS]; /* hwqs */
  unsigned nr_sched, nr_direct, nr_plugged, nr_held;
  unsigned held[DL_NR_CLASSES];
  uint64_t looked_ns;           /* at which hwqs are in use */
  atomic_uint async_inside[DL_NR_CLASSES];

  atomic_bool zones_released;   /* a write that others wait for is done */
  atomic_bool raised;           /* idle requests in the queue may be wanted */

  /* With one_zone_writer: the zone written last, and how many writes in a row.  Of who owns
     the gate; of the dispatcher while nobody does and others wait. */
  uint32_t gate_zone;
  int64_t gate_batch;

  /* Counters. */
  atomic_ullong owner_wakes, requeued;
  atomic_ullong longest_turn_ns;
  /* Of the dispatcher. */
  atomic_ullong refused, longest_wait_ns;
  atomic_ullong merged[DL_NR_CLASSES];

  /* The timer of requests that the device refused. */
  pthread_mutex_t timer_lock;
  pthread_cond_t timer_cond;
  pthread_t timer;
  bool timer_started, timer_stop;
  uint64_t timer_ns;            /* when to run; 0: not */

  struct mq_options options;
  char name[64];
};

enum zone_state {               /* of a gate */
  ZONE_QUIET = 0,
  ZONE_BUSY = 1,                /* a write is inside */
  ZONE_WAITED_FOR = 2,          /* others are plugged */
};

/* Runs the queue on behalf of hwq: dispatches what may go. */
void mq_run_queue (struct mq *mq, struct hwq *hwq);
/* The same, also with nothing to do: counts as a run. */
void mq_run_queue_anyway (struct mq *mq, struct hwq *hwq);

/* Runs fn as the dispatcher, then the queue. */
void mq_as_dispatcher (struct mq *mq, void (*fn) (struct mq *mq, void *opaque),
                       void *opaque);

/* The dispatcher only. */
bool mq_withdraw_locked (struct mq *mq, struct mq_request *rq);
void mq_switch_sched_locked (struct mq *mq, enum mq_sched sched);

/* What a write to `zone` must own: the gate of that zone, or the only one. */
static inline uint32_t
mq_gate (const struct mq *mq, uint32_t zone)
{
  return mq->one_zone_writer ? 0 : zone;
}

/* A write takes its gate, if nobody has it or waits for it. */
bool mq_zone_try_own (struct mq *mq, struct mq_request *rq);

/* The zone before, where `rq` begins at the start of its own and the gate of that one is
   another; else MQ_NO_ZONE. */
static inline uint32_t
mq_zone_before (const struct mq *mq, const struct mq_request *rq)
{
  return !mq->one_zone_writer && rq->zone > 0 &&
         rq->dl.sector == rq->zone * mq->dl.limits.zone_sectors
         ? rq->zone - 1 : MQ_NO_ZONE;
}

/* -- the dispatcher's, between its files ------------------------------------------ */

static inline struct mq_request *
mq_of_link (struct list *link)
{
  return LIST_ENTRY (link, struct mq_request, link);
}

static inline struct mq_request *
mq_of_dl (struct dl_request *dl)
{
  return LIST_ENTRY (dl, struct mq_request, dl);
}

static inline struct hwq *
mq_of_busy (struct list *link)
{
  return LIST_ENTRY (link, struct hwq, busy);
}

static inline bool
mq_is_deadline (struct mq *mq)
{
  return atomic_load_explicit (&mq->sched, memory_order_relaxed) == MQ_DEADLINE;
}

/* sort-in.c */

/* `low`'s chain goes before `high`'s; `leader` is who stays. */
void mq_chain (struct mq_request *leader, struct mq_request *low, struct mq_request *high);
/* `rq`, which `state` does not count, is part of another request from now on. */
void mq_count_merged_uncounted (struct mq *mq, struct mq_request *rq);
void mq_insert (struct mq *mq, struct mq_request *rq);
void mq_unlist (struct mq *mq, struct mq_request *rq);
void mq_unhold (struct mq *mq, struct mq_request *rq);
/* Merged, inserted or held. */
void mq_enqueue (struct mq *mq, struct mq_request *rq);
void mq_admit_held (struct mq *mq);

/* class.c */

/* A request that is outside goes on in another class; _uncounted: one that `state` does
   not count. */
void mq_change_class (struct mq *mq, struct mq_request *rq, enum dl_class class);
void mq_change_class_uncounted (struct mq *mq, struct mq_request *rq, enum dl_class class);
/* The same of one that is held or in the scheduler. */
void mq_lend_class (struct mq *mq, struct mq_request *rq, enum dl_class class);
/* Idle work that somebody waits for: of `rq` and what was merged into it. */
bool mq_is_wanted (const struct mq_request *rq);
/* All such that are queued become BE. */
void mq_raise_wanted (struct mq *mq);

/* zone-order.c */

/* A write to a sequential zone: where it has to wait, it is plugged. */
bool mq_may_write_zone (struct mq *mq, struct mq_request *rq);
/* The class of a plugged request, and of what it waits for, becomes at least `class`. */
void mq_lend_class_plugged (struct mq *mq, struct mq_request *rq, enum dl_class class);
void mq_unplug (struct mq *mq, struct mq_request *rq);
/* Gates whose write is done: the next one gets each. */
void mq_release_plugged (struct mq *mq);

/* -- */

void mq_owner_wake (struct mq *mq, struct mq_request *rq, uint32_t turn);

static inline unsigned
mq_hwq_in_flight (struct hwq *hwq)
{
  uint64_t n = atomic_load_explicit (&hwq->dispatched, memory_order_relaxed) -
    atomic_load_explicit (&hwq->came_back, memory_order_relaxed);
  int c;

  for (c = 0; c < DL_NR_CLASSES; ++c)
    n += atomic_load_explicit (&hwq->at_once[c], memory_order_relaxed) -
      atomic_load_explicit (&hwq->completed[c], memory_order_relaxed) +
      atomic_load_explicit (&hwq->apart_begun[c], memory_order_relaxed) -
      atomic_load_explicit (&hwq->apart_ended[c], memory_order_relaxed);
  return (unsigned) n;
}

/* Tags that are left to hwqs with nothing in flight; never all of them. */
static inline unsigned
mq_headroom (struct mq *mq)
{
  const unsigned headroom = atomic_load_explicit (&mq->headroom, memory_order_relaxed);

  if (headroom == 0)
    return 0;
  const unsigned quarter = tag_user_limit (mq->user) / 4;

  return headroom < quarter ? headroom : quarter;
}

#endif
