/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The I/O path: admits, queues, schedules and issues requests.
 *
 * Words.  A *queue* (struct mq) is one drive or export.  It has *hardware
 * queues* (hwq), one for each NBD connection or submitter, and a *scheduler*
 * (none or deadline) for all of them.  A request takes a *tag* from the host's
 * tag set, is issued to the device, completes, and gives the tag back.
 *
 * Asynchronous use: mq_submit hands in requests, never sleeps; the device's
 * `issue` starts them and later calls mq_complete; `end_io` of each request
 * follows.  Synchronous use: mq_begin returns when it is this request's turn,
 * the caller does the work itself in its own thread, and calls mq_end.  With
 * a tag free and nothing queued both start at once in the caller's thread: no
 * lock, no wake-up, no allocation.  A queued request's owner is woken alone.
 *
 * How it works.  Submitters push onto a lock-free list (`incoming`) and then
 * run the queue.  To run is to be the *dispatcher*, the one thread that may
 * touch the scheduler; `kicks` elects it.  Who kicks while there is one leaves
 * at once: the dispatcher looks again before it goes.  The dispatcher sorts what
 * came in, merging as it inserts, takes tags for as many requests as may go,
 * steps down, and only then issues them.  So sorting costs no lock per request,
 * nobody waits to insert, and merging happens before every decision.
 *
 * While one class is in use and nothing is queued, requests touch only what belongs
 * to their hwq (the express path, express.h).
 *
 * Why nothing hangs.  `state` counts the populated classes and holds one bit,
 * QUEUED, set before a request is pushed and cleared by the dispatcher once
 * nothing is held.  A completion gives back its tag, then subtracts from
 * `state`; in the modification order of that one word it either comes before
 * the bit was set, and the pusher's run finds the tag, or after, and the
 * completion runs the queue.  A dispatcher whose turn has lasted for long may
 * leave only while this queue holds tags: those will complete, and run it again.
 *
 * Fairness between hwqs: of the tags that the queue may use the sorted
 * order gets all but a few, when several hwqs are busy; those few go to hwqs that
 * have nothing in flight, so that a polite client need not wait for a greedy one.
 *
 * Order in zones: at most one write to a sequential zone is between mq_begin
 * (or issue) and its completion; the others wait without a tag, in order of
 * arrival, under either scheduler.  The first write of a zone also waits for the
 * writes of the zone before it, so that a stream goes out in order.  With
 * zoned_writes=qd1 there is at most one in all zones together, and whoever is next in the
 * same zone goes before others, fifo_batch times in a row.  What waits lends its class
 * to the write it waits for.
 *
 * Lock order: there are no locks.  The dispatcher role comes before the tag set.
 */
#ifndef MQ_MQ_H
#define MQ_MQ_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/bdev.h"
#include "mq/deadline.h"
#include "mq/list.h"
#include "mq/tagset.h"

struct mq;
struct mq_request;
struct sh_clock;
struct sh_error;
struct sh_log;

enum mq_sched { MQ_DEADLINE, MQ_NONE };

/* Which hardware queues a completion runs: its own (and another only if it
   waits for a tag), or all of them, as SCSI did before Linux 5.10. */
enum mq_run { MQ_RUN_OWN, MQ_RUN_ALL };

/* How many writes to sequential zones are between begin and completion at once: one to
   each zone, or one altogether (then no drive has to move between zones that are written at
   the same time). */
enum mq_zoned_writes { MQ_ONE_A_ZONE, MQ_QD1 };

#define MQ_MAX_HWQS 1024

struct mq_options {
  unsigned tags;                /* 128 */
  char tagset[TAGSET_NAME_MAX + 1]; /* "": the tags are this process's own */
  unsigned reserved_tags;       /* 4 */
  unsigned hwqs;                /* 64; later connections share */
  unsigned depth;               /* requests of a class inside; 0: twice the tags */
  unsigned async_depth;         /* of them, not reads; 0: depth */
  enum mq_sched sched;
  enum mq_run run;
  enum mq_zoned_writes zoned_writes;
  enum bdev_prio prio;          /* of requests that name none */
  struct dl_tunables tunables;
  char control[108];            /* path of the control socket; "": none */
  uint64_t given;               /* which were set by mq_option, a bit each */
};
void mq_options_init (struct mq_options *options);

enum mq_kind {
  MQ_SCHEDULED,                 /* reads and writes: sorted, by class */
  MQ_DIRECT,                    /* flushes, probes, zone operations: in order, first */
};

struct mq_request {
  /* The owner's, before the request is handed in. */
  struct dl_request dl;         /* sector, nr_sectors, dir, class, merge_key, mergeable */
  uint8_t kind;                 /* enum mq_kind */
  bool reserved;                /* may use a reserved tag */
  uint32_t zone;                /* of a write to a sequential zone; else MQ_NO_ZONE.  Writes
                                   next to each other of one merge_key agree in this */
  unsigned hwq;                 /* below mq_nr_hwqs */
  void (*end_io) (struct mq_request *rq);     /* asynchronous requests; else NULL */
  void *opaque;
  const atomic_uint *wanted;    /* of class idle: while it is not 0, the request is BE; also
                                   one that is queued, by mq_raise; or NULL */

  /* Result, in end_io. */
  int error;                    /* 0 or an errno */

  /* For `issue` and mq_end's caller: this request and those merged into it,
     in sector order. */
  struct mq_request *first, *next_merged;

  /* The queue's. */
  struct mq_request *last_merged;
  struct mq_request *next;      /* incoming list */
  struct list link;             /* its hwq's list, or held, plugged, direct */
  uint64_t arrived_ns;
  int tag;
  uint8_t place;                /* enum mq_place */
  uint32_t waits_for_gate;      /* while plugged */
  bool owns_zone, counted_async, at_head;
  bool apart;                   /* counted by its hwq (express.h) */
  _Atomic uint32_t turn;        /* futex of a synchronous owner */
};
#define MQ_NO_ZONE UINT32_MAX

struct mq_device_ops {
  /* Start these; each will be passed to mq_complete, or mq_requeue, once, by
     any thread, also from inside this call.  Must not sleep. */
  void (*issue) (void *device, struct mq_request **rq, unsigned n);
  /* Polled while a synchronous caller waits: true makes mq_begin give up.  May
     be NULL. */
  bool (*give_up) (void *device);
};

struct mq_config {
  const char *name;             /* for listings; copied */
  struct mq_options options;
  struct tagset *tagset;        /* borrowed */
  const struct mq_device_ops *ops;
  void *device;
  struct dl_limits limits;      /* max_sectors 0: no merging */
  uint64_t zone_sectors;        /* with nr_zones: writes keep order in zones */
  uint32_t nr_zones;
  const struct sh_clock *clock; /* NULL: monotonic */
};

int mq_create (const struct mq_config *config, struct mq **mq, struct sh_error *err);
/* Nothing is in flight or queued. */
void mq_destroy (struct mq *mq);

unsigned mq_nr_hwqs (const struct mq *mq);

/* Fills a request with defaults; cheap enough for each use. */
void mq_request_init (struct mq_request *rq);

/* -- asynchronous ------------------------------------------------------------------ */

/* All have the same hwq.  They are the queue's until their end_io. */
void mq_submit (struct mq *mq, struct mq_request **rq, unsigned n);
void mq_complete (struct mq *mq, struct mq_request *rq, int error);
void mq_complete_batch (struct mq *mq, struct mq_request **rq, unsigned n, int error);
/* The device cannot take it now: before all others, as soon as something
   completes, or after 3 ms when nothing is in flight. */
void mq_requeue (struct mq *mq, struct mq_request *rq);

/* -- synchronous --------------------------------------------------------------------- */

enum mq_turn {
  MQ_GO,                        /* do it (all of rq->first ...), then mq_end */
  MQ_DONE,                      /* another request did it for us: rq->error; no mq_end */
  MQ_GAVE_UP,                   /* give_up said so; rq is out; no mq_end */
};
enum mq_turn mq_begin (struct mq *mq, struct mq_request *rq);
void mq_end (struct mq *mq, struct mq_request *rq, int error);

/* A `wanted` is no longer 0: what is queued of it goes on as BE.  Any thread; does not
   sleep. */
void mq_raise (struct mq *mq);

/* -- changes while I/O runs ------------------------------------------------------------ */

void mq_set_sched (struct mq *mq, enum mq_sched sched);
void mq_set_tunables (struct mq *mq, const struct dl_tunables *tunables);
void mq_set_run (struct mq *mq, enum mq_run run);
/* By the names of struct mq_options; for the control socket. */
int mq_set_option (struct mq *mq, const char *key, const char *value, struct sh_error *err);

/* -- counters ------------------------------------------------------------------------------ */

struct mq_class_stats {
  uint64_t inserted, merged, dispatched, completed;
  unsigned populated;
};
struct mq_hwq_stats {
  uint64_t queued;              /* requests that came in */
  uint64_t run;                 /* attempts to dispatch on its behalf */
  uint64_t useless_runs;        /* of them, with nothing to dispatch */
  uint64_t dispatched, completed, merged;
};
struct mq_stats {
  struct mq_class_stats class[DL_NR_CLASSES];
  struct mq_hwq_stats total;
  uint64_t inline_requests;     /* issued at once by their submitter */
  uint64_t owner_wakes;         /* synchronous owners that were woken */
  uint64_t refused;             /* turns that ended for lack of a tag */
  uint64_t requeued;
  uint64_t longest_turn_ns;     /* of a dispatcher that dispatched something */
  uint64_t longest_wait_ns;     /* in the queue */
  unsigned queued, in_flight;
};
void mq_get_stats (struct mq *mq, struct mq_stats *stats);
void mq_get_hwq_stats (struct mq *mq, unsigned hwq, struct mq_hwq_stats *stats);
struct tagset *mq_tagset (struct mq *mq);
const struct mq_options *mq_get_options (const struct mq *mq);

/* A JSON object (struct json_object of json-c; the caller puts it): counters,
   and with `queues` what is queued where, as debugfs shows it in Linux. */
struct json_object *mq_dump (struct mq *mq, bool queues);

/* Nothing queued, nothing in flight, counters agree.  Asserts. */
void mq_check_idle (struct mq *mq);

/* -- a bdev in front of another ---------------------------------------------------------------- */

/* Every command of `lower` goes through a queue of its own on `set`.  *out owns
   `lower` from success on, and the set when `own_set`. */
int mq_bdev_create (struct bdev *lower, struct tagset *set, bool own_set,
                    const struct mq_options *options, struct bdev **out,
                    struct sh_error *err);
/* The queue inside such a bdev. */
struct mq *mq_of_bdev (struct bdev *bdev);

/* -- options by name ------------------------------------------------------------------------------ */

/* 1: key is one of ours and was set; 0: not ours; -1: refused (err). */
int mq_option (struct mq_options *options, const char *key, const char *value,
               struct sh_error *err);
/* `KEY=...  text` lines for nbdkit's --help. */
extern const char mq_options_help[];

#endif
