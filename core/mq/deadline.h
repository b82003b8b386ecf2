/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The deadline scheduler: which of the queued requests is next.
 *
 * The decisions are those of Linux 6.12's mq-deadline.  Each of three
 * priority classes has, for reads and for writes, a tree in sector order and
 * a list in order of arrival.  Requests leave in sector order, `fifo_batch` in
 * a row, then the direction is chosen anew: reads go first, unless writes have
 * been passed over `writes_starved` times; and where the oldest request of that
 * direction has passed its deadline, or nothing lies further up, the sweep
 * starts again at the oldest.
 *
 * What surprises: a class counts as populated until its requests have
 * *completed*, and a lower class gets nothing while a higher one is populated,
 * except for what has waited longer than prio_aging_expire.
 *
 * This is a plain data structure.  It has no thread, no lock and no clock:
 * the caller makes sure that one thread at a time is inside and passes `now`.
 * Only dl_count_completed may be used from any thread, and the counters be read.
 */
#ifndef MQ_DEADLINE_H
#define MQ_DEADLINE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "mq/list.h"
#include "mq/tree.h"

enum dl_dir { DL_READ, DL_WRITE };
enum dl_class { DL_RT, DL_BE, DL_IDLE };
#define DL_NR_DIRS 2
#define DL_NR_CLASSES 3

/* Out-of-range values are brought into range by dl_set_tunables, as the
   kernel does with what is written to sysfs. */
struct dl_tunables {
  int64_t read_expire_ms;       /* 500; 0..INT_MAX */
  int64_t write_expire_ms;      /* 5000; 0..INT_MAX */
  int64_t fifo_batch;           /* 16 requests; 0..INT_MAX; 0: no batches */
  int64_t writes_starved;       /* 2 choices of reads; INT_MIN..INT_MAX */
  int64_t front_merges;         /* 1; 0..1: look for front merges */
  int64_t prio_aging_expire_ms; /* 10000; 0..INT_MAX */
};
extern const struct dl_tunables dl_default_tunables;

/* What a merged request must not exceed. */
struct dl_limits {
  uint64_t max_sectors;         /* 0: no merging at all */
  unsigned max_segments;
  uint64_t zone_sectors;        /* merges stay inside a zone; 0: no zones */
};

enum dl_state {
  DL_OUT,                       /* not held by the scheduler */
  DL_SORTED,                    /* on a tree and a FIFO */
  DL_AT_HEAD,                   /* on a head list */
};

struct dl_request {
  /* Set by the owner before dl_insert; sectors are any unit, always the same. */
  uint64_t sector, nr_sectors;
  unsigned nr_segments;
  uint32_t merge_key;           /* only requests with equal keys are merged */
  uint8_t dir;                  /* enum dl_dir */
  uint8_t prio_class;           /* enum dl_class */
  bool mergeable;

  /* The scheduler's. */
  bool counted;                 /* inserted++ was done; survives a requeue */
  uint8_t state;                /* enum dl_state */
  int64_t fifo_tick;            /* deadline if sorted, insertion if at the head */
  struct tree_node node;
  struct list fifo;             /* FIFO or head list */
  struct list hash;             /* merge hash, by end sector */
};

/* 32 bits, and wrap: only differences mean something.  Only completed changes outside. */
struct dl_counters {
  atomic_uint inserted, merged, dispatched, completed;
};

#define DL_HASH_BUCKETS 64

struct dl_per_class {
  struct tree tree[DL_NR_DIRS];
  struct list fifo[DL_NR_DIRS];
  struct list head;
  uint64_t latest_sector[DL_NR_DIRS]; /* start of the last one dispatched */
  struct dl_counters count;
};

struct deadline {
  struct dl_per_class class[DL_NR_CLASSES];
  struct list hash[DL_HASH_BUCKETS];
  struct dl_request *last_merge;
  struct dl_tunables tunables;  /* clamped */
  struct dl_limits limits;
  uint64_t tick_ns;             /* times are compared in whole ticks */
  enum dl_dir last_dir;
  unsigned batching;            /* how many of the current batch have left */
  int starved;                  /* how often reads were chosen over writes */
  unsigned nr_queued;           /* held by the scheduler now */

  /* Requests of each class that are in flight but are counted elsewhere; they
     make the class populated.  Set before dl_dispatch; 0 by default. */
  unsigned in_flight_outside[DL_NR_CLASSES];
};

/* tick_ns: 1 to compare exact times; the kernel's is 4 ms at 250 Hz. */
void dl_init (struct deadline *dl, uint64_t tick_ns);
void dl_set_tunables (struct deadline *dl, const struct dl_tunables *tunables);
void dl_set_limits (struct deadline *dl, const struct dl_limits *limits);

void dl_request_init (struct dl_request *rq);

/* Queues `rq`; at_head: before everything of its class, unsorted and never
   merged (requests that come back from the device). */
void dl_insert (struct deadline *dl, struct dl_request *rq, bool at_head,
                uint64_t now_ns);

/* The next request, which thereby leaves the scheduler; NULL when there is
   none that may go now. */
struct dl_request *dl_dispatch (struct deadline *dl, uint64_t now_ns);

/* Take this queued request out of turn: batch and starvation stay as they
   are; it counts as dispatched. */
void dl_take (struct deadline *dl, struct dl_request *rq);

/* Take this queued request back, as if it had never come. */
void dl_withdraw (struct deadline *dl, struct dl_request *rq);

/* A dispatched request has completed.  Any thread. */
static inline void
dl_count_completed (struct deadline *dl, enum dl_class class)
{
  atomic_fetch_add_explicit (&dl->class[class].count.completed, 1,
                             memory_order_release);
}

/* Lock-free; may say true when there is nothing, never the reverse as seen by
   the thread that inserted. */
static inline bool
dl_has_work (const struct deadline *dl)
{
  return dl->nr_queued > 0;
}

/* Inserted and not completed. */
unsigned dl_populated (const struct deadline *dl, enum dl_class class);

/* Merging.  dl_find_merge says where data at [sector, sector + nr) could join
   a queued request of the same class, direction and key: behind it, before it,
   or nowhere.  dl_merge does it: `rq` grows.  dl_join then tries to join the
   grown request with its neighbour; the lower one absorbs the higher one, which
   leaves the scheduler, takes over the earlier deadline, and is returned for
   its owner to complete; *by is the one that stays. */
enum dl_merge { DL_NO_MERGE, DL_BACK_MERGE, DL_FRONT_MERGE };
enum dl_merge dl_find_merge (struct deadline *dl, const struct dl_request *data,
                             struct dl_request **rq);
void dl_merge (struct deadline *dl, enum dl_merge how, struct dl_request *rq,
               uint64_t nr_sectors, unsigned nr_segments);
struct dl_request *dl_join (struct deadline *dl, struct dl_request *rq,
                            struct dl_request **by);
/* The queued request right behind `rq`, if the two could be joined. */
struct dl_request *dl_joinable_after (struct deadline *dl, struct dl_request *rq);

/* For listings: the FIFO of a class and direction, oldest first, and what would
   be next in sector order. */
struct dl_request *dl_fifo_first (struct deadline *dl, enum dl_class class,
                                  enum dl_dir dir);
struct dl_request *dl_fifo_next (struct deadline *dl, struct dl_request *rq);
struct dl_request *dl_next_sorted (struct deadline *dl, enum dl_class class,
                                   enum dl_dir dir);

/* The invariants: asserts. */
void dl_check (struct deadline *dl);

#endif
