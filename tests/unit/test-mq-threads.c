/* SPDX-License-Identifier: BSD-3-Clause */
/* core/mq with threads: synchronous owners, a device with its own completion
 * thread, and everything that may change while they run.  Each test ends with
 * every request ended exactly once, every tag free and no wake-up lost: a lost
 * one shows as a test that hangs. */
#include <config.h>
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include <json-c/json.h>
#include "mq/internal.h"
#include "run-suite.h"

static struct sh_error err;
static atomic_uint rounds_done, inside, most_inside;

static void
nothing (void *device, struct mq_request **rq, unsigned n)
{
  abort ();
}

static const struct mq_device_ops sync_ops = { .issue = nothing };

static struct tagset *
make_set (unsigned tags)
{
  const struct tagset_options to = { .tags = tags, .reserved = 2 };
  struct tagset *set;

  ck_assert_msg (tagset_open (&to, &set, &err) == 0, "%s", err.message);
  return set;
}

static struct mq *
make_queue (struct tagset *set, const struct mq_options *options,
            const struct mq_device_ops *ops, void *device)
{
  const struct mq_config config = {
    .name = "test",
    .options = *options,
    .tagset = set,
    .ops = ops,
    .device = device,
    .limits = { .max_sectors = 64, .max_segments = 16 },
    .zone_sectors = 1000,
    .nr_zones = 8,
  };
  struct mq *mq;

  ck_assert_msg (mq_create (&config, &mq, &err) == 0, "%s", err.message);
  return mq;
}

static unsigned
random_below (unsigned *seed, unsigned n)
{
  *seed = *seed * 1103515245u + 12345u;
  return (*seed >> 8) % n;
}

/* -- synchronous owners ---------------------------------------------------------------- */

struct worker {
  struct mq *mq;
  unsigned number, rounds, zones;
  bool mixed;                   /* classes, directions, direct requests */
  atomic_uint *zone_inside;
};

static void
describe (struct worker *w, struct mq_request *rq, unsigned *seed)
{
  mq_request_init (rq);
  rq->hwq = w->number % mq_nr_hwqs (w->mq);
  rq->dl.sector = random_below (seed, 8000);
  rq->dl.nr_sectors = 1;
  rq->dl.nr_segments = 1;
  rq->dl.mergeable = true;
  if (!w->mixed)
    return;
  rq->dl.dir = random_below (seed, 2);
  rq->dl.prio_class = random_below (seed, 3);
  if (random_below (seed, 16) == 0) {
    rq->kind = MQ_DIRECT;
    rq->reserved = random_below (seed, 2);
  }
  else if (w->zones && rq->dl.dir == DL_WRITE)
    rq->zone = rq->dl.sector / 1000;
}

/* The work of one request; sometimes it takes a while. */
static void
work (struct worker *w, struct mq_request *rq, unsigned *seed)
{
  const unsigned now = atomic_fetch_add (&inside, 1) + 1;

  if (now > atomic_load (&most_inside))
    atomic_store (&most_inside, now);
  if (rq->zone != MQ_NO_ZONE)
    ck_assert_uint_eq (atomic_fetch_add (&w->zone_inside[rq->zone], 1), 0);
  if (random_below (seed, 8) == 0)
    sh_sleep (&sh_clock_monotonic, 20 * NS_PER_US);
  if (rq->zone != MQ_NO_ZONE)
    atomic_fetch_sub (&w->zone_inside[rq->zone], 1);
  atomic_fetch_sub (&inside, 1);
}

static void *
run_worker (void *opaque)
{
  struct worker *w = opaque;
  unsigned seed = w->number + 1, i;

  for (i = 0; i < w->rounds; ++i) {
    struct mq_request rq;

    describe (w, &rq, &seed);
    if (mq_begin (w->mq, &rq) == MQ_GO) {
      work (w, &rq, &seed);
      mq_end (w->mq, &rq, 0);
    }
    atomic_fetch_add (&rounds_done, 1);
  }
  return NULL;
}

#define MAX_WORKERS 1000

static void
run_workers (struct mq *mq, unsigned n, unsigned rounds, bool mixed, unsigned zones,
             void (*meanwhile) (struct mq *mq, unsigned total))
{
  static struct worker worker[MAX_WORKERS];
  static pthread_t thread[MAX_WORKERS];
  static atomic_uint zone_inside[16];
  unsigned i;

  atomic_store (&rounds_done, 0);
  for (i = 0; i < n; ++i) {
    worker[i] = (struct worker) { mq, i, rounds, zones, mixed, zone_inside };
    ck_assert_int_eq (pthread_create (&thread[i], NULL, run_worker, &worker[i]), 0);
  }
  if (meanwhile)
    meanwhile (mq, n * rounds);
  for (i = 0; i < n; ++i)
    pthread_join (thread[i], NULL);
  ck_assert_uint_eq (atomic_load (&rounds_done), n * rounds);
  mq_check_idle (mq);
}

static const struct { unsigned tags, workers, rounds, hwqs; bool mixed; unsigned zones; }
shapes[] = {
  { 1, 8, 400, 4, false, 0 },
  { 1, 200, 20, 16, true, 8 },
  { 2, 50, 80, 7, true, 8 },
  { 4, 200, 20, 64, true, 0 },
  { 4, 16, 300, 16, false, 0 },
  { 64, 32, 150, 8, true, 8 },
};

START_TEST (every_owner_gets_its_turn)
{
  struct mq_options options;
  struct tagset *set;
  struct mq *mq;
  struct mq_stats s;
  const unsigned shape = _i / 2;

  mq_options_init (&options);
  options.tags = shapes[shape].tags;
  options.hwqs = shapes[shape].hwqs;
  options.sched = _i % 2;
  set = make_set (options.tags);
  mq = make_queue (set, &options, &sync_ops, NULL);
  run_workers (mq, shapes[shape].workers, shapes[shape].rounds, shapes[shape].mixed,
               shapes[shape].zones, NULL);
  ck_assert_uint_le (atomic_load (&most_inside), options.tags + 2);
  mq_get_stats (mq, &s);
  ck_assert_uint_eq (s.total.useless_runs, 0);
  mq_destroy (mq);
  tagset_check_idle (set);
  tagset_close (set);
}
END_TEST

START_TEST (a_thousand_waiting_owners_are_woken_once_each)
{
  struct mq_options options;
  struct tagset *set;
  struct mq_stats s;
  struct mq *mq;

  mq_options_init (&options);
  options.tags = 32;
  options.hwqs = 64;
  set = make_set (32);
  mq = make_queue (set, &options, &sync_ops, NULL);
  run_workers (mq, 1000, 5, false, 0, NULL);
  mq_get_stats (mq, &s);
  ck_assert_uint_le (s.owner_wakes, s.total.queued);
  mq_destroy (mq);
  tagset_close (set);
}
END_TEST

static void
change_everything (struct mq *mq, unsigned total)
{
  static const char *const tags[] = { "1", "3", "16", "2", "64" };
  unsigned i = 0;
  struct sh_error e = { 0 };

  while (atomic_load (&rounds_done) < total) {
    mq_set_sched (mq, i % 2);
    ck_assert_int_eq (mq_set_option (mq, "tags", tags[i % ARRAY_SIZE (tags)], &e), 0);
    ck_assert_int_eq (mq_set_option (mq, "async_depth", i % 3 ? "2" : "100", &e), 0);
    ck_assert_int_eq (mq_set_option (mq, "fifo_batch", i % 5 ? "4" : "0", &e), 0);
    ck_assert_int_eq (mq_set_option (mq, "run", i % 7 ? "own" : "all", &e), 0);
    json_object_put (mq_dump (mq, true));
    sh_sleep (&sh_clock_monotonic, NS_PER_MS);
    ++i;
  }
}

START_TEST (everything_may_change_while_requests_run)
{
  struct mq_options options;
  struct tagset *set;
  struct mq *mq;

  mq_options_init (&options);
  options.tags = 8;
  options.hwqs = 5;
  set = make_set (options.tags);
  mq = make_queue (set, &options, &sync_ops, NULL);
  run_workers (mq, 24, 200, true, 8, change_everything);
  mq_destroy (mq);
  tagset_close (set);
}
END_TEST

/* -- several queues on one set ----------------------------------------------------------- */

struct group {
  struct mq *mq;
  unsigned rounds;
  pthread_t thread;
};

static void *
run_group (void *opaque)
{
  struct group *g = opaque;
  struct worker w = { .mq = g->mq, .rounds = g->rounds };

  return run_worker (&w);
}

START_TEST (queues_that_share_few_tags_all_make_progress)
{
  enum { QUEUES = 24 };
  static struct group g[QUEUES * 2];
  struct mq_options options;
  struct tagset *set;
  struct mq *mq[QUEUES];
  unsigned i;

  mq_options_init (&options);
  options.tags = _i;
  set = make_set (_i);
  for (i = 0; i < QUEUES; ++i)
    mq[i] = make_queue (set, &options, &sync_ops, NULL);
  for (i = 0; i < QUEUES * 2; ++i) {
    g[i] = (struct group) { .mq = mq[i / 2], .rounds = 200 };
    pthread_create (&g[i].thread, NULL, run_group, &g[i]);
  }
  for (i = 0; i < QUEUES * 2; ++i)
    pthread_join (g[i].thread, NULL);
  ck_assert_uint_le (atomic_load (&most_inside), (unsigned) _i);
  for (i = 0; i < QUEUES; ++i)
    mq_destroy (mq[i]);
  tagset_check_idle (set);
  tagset_close (set);
}
END_TEST

/* -- giving up -------------------------------------------------------------------------------- */

static atomic_bool stopping;

static bool
is_stopping (void *device)
{
  return atomic_load (&stopping);
}

static const struct mq_device_ops stoppable_ops = { .issue = nothing, .give_up = is_stopping };

static void *
wait_and_give_up (void *opaque)
{
  struct mq *mq = opaque;
  struct mq_request rq;

  mq_request_init (&rq);
  rq.dl.nr_sectors = 1;
  ck_assert_int_eq (mq_begin (mq, &rq), MQ_GAVE_UP);
  return NULL;
}

START_TEST (waiting_owners_leave_when_the_server_stops)
{
  struct mq_options options;
  struct tagset *set;
  struct mq_request holder;
  pthread_t thread[16];
  struct mq *mq;
  int i;

  mq_options_init (&options);
  options.tags = 1;
  options.sched = _i;
  options.depth = 4;
  set = make_set (1);
  mq = make_queue (set, &options, &stoppable_ops, NULL);
  mq_request_init (&holder);
  ck_assert_int_eq (mq_begin (mq, &holder), MQ_GO);
  for (i = 0; i < 16; ++i)
    pthread_create (&thread[i], NULL, wait_and_give_up, mq);
  sh_sleep (&sh_clock_monotonic, 20 * NS_PER_MS);
  atomic_store (&stopping, true);
  for (i = 0; i < 16; ++i)
    pthread_join (thread[i], NULL);
  mq_end (mq, &holder, 0);
  mq_destroy (mq);
  tagset_close (set);
}
END_TEST

/* -- an asynchronous device with a thread of its own ----------------------------------------------- */

struct device {
  struct mq *mq;
  pthread_mutex_t lock;
  pthread_cond_t cond;
  struct mq_request *head, *tail;       /* by `next` */
  bool stop;
  unsigned busy_every, issued;  /* refuse each so-manieth */
  pthread_t thread;
};

static void
device_issue (void *opaque, struct mq_request **rq, unsigned n)
{
  struct device *d = opaque;
  unsigned i;

  pthread_mutex_lock (&d->lock);
  for (i = 0; i < n; ++i) {
    rq[i]->next = NULL;
    if (d->head)
      d->tail->next = rq[i];
    else
      d->head = rq[i];
    d->tail = rq[i];
  }
  pthread_cond_signal (&d->cond);
  pthread_mutex_unlock (&d->lock);
}

static void *
device_thread (void *opaque)
{
  struct device *d = opaque;

  pthread_mutex_lock (&d->lock);
  for (;;) {
    struct mq_request *rq = d->head;

    if (rq) {
      d->head = rq->next;
      pthread_mutex_unlock (&d->lock);
      if (d->busy_every && ++d->issued % d->busy_every == 0)
        mq_requeue (d->mq, rq);
      else
        mq_complete (d->mq, rq, 0);
      pthread_mutex_lock (&d->lock);
    }
    else if (d->stop)
      break;
    else
      pthread_cond_wait (&d->cond, &d->lock);
  }
  pthread_mutex_unlock (&d->lock);
  return NULL;
}

static const struct mq_device_ops async_ops = { .issue = device_issue };

struct submitter {
  struct mq *mq;
  unsigned number, batches, depth;
  atomic_uint outstanding, ended;
  pthread_t thread;
  struct mq_request rq[64];
};

static void
end_one (struct mq_request *rq)
{
  struct submitter *s = rq->opaque;

  atomic_fetch_add (&s->ended, 1);
  atomic_fetch_sub (&s->outstanding, 1);
}

static void *
run_submitter (void *opaque)
{
  struct submitter *s = opaque;
  unsigned seed = s->number, i, b;

  for (b = 0; b < s->batches; ++b) {
    struct mq_request *rq[64];

    while (atomic_load (&s->outstanding))
      sh_sleep (&sh_clock_monotonic, 10 * NS_PER_US);
    atomic_store (&s->outstanding, s->depth);
    for (i = 0; i < s->depth; ++i) {
      rq[i] = &s->rq[i];
      mq_request_init (rq[i]);
      rq[i]->dl.sector = random_below (&seed, 1000);
      rq[i]->dl.nr_sectors = 1;
      rq[i]->dl.nr_segments = 1;
      rq[i]->dl.mergeable = true;
      rq[i]->dl.dir = random_below (&seed, 2);
      rq[i]->hwq = s->number % mq_nr_hwqs (s->mq);
      rq[i]->end_io = end_one;
      rq[i]->opaque = s;
    }
    mq_submit (s->mq, rq, s->depth);
  }
  while (atomic_load (&s->outstanding))
    sh_sleep (&sh_clock_monotonic, 10 * NS_PER_US);
  return NULL;
}

static void
submit_from_many (unsigned tags, enum mq_sched sched, unsigned busy_every)
{
  enum { SUBMITTERS = 12 };
  static struct submitter s[SUBMITTERS];
  struct device d = { .busy_every = busy_every };
  struct mq_options options;
  struct tagset *set = make_set (tags);
  unsigned i;

  mq_options_init (&options);
  options.tags = tags;
  options.sched = sched;
  options.hwqs = 6;
  d.mq = make_queue (set, &options, &async_ops, &d);
  pthread_mutex_init (&d.lock, NULL);
  pthread_cond_init (&d.cond, NULL);
  pthread_create (&d.thread, NULL, device_thread, &d);
  for (i = 0; i < SUBMITTERS; ++i) {
    s[i].mq = d.mq;
    s[i].number = i;
    s[i].batches = busy_every ? 4 : 40;
    s[i].depth = 1 + i * 5;
    pthread_create (&s[i].thread, NULL, run_submitter, &s[i]);
  }
  for (i = 0; i < SUBMITTERS; ++i) {
    pthread_join (s[i].thread, NULL);
    ck_assert_uint_eq (atomic_load (&s[i].ended), s[i].batches * s[i].depth);
  }
  pthread_mutex_lock (&d.lock);
  d.stop = true;
  pthread_cond_signal (&d.cond);
  pthread_mutex_unlock (&d.lock);
  pthread_join (d.thread, NULL);
  mq_destroy (d.mq);
  tagset_check_idle (set);
  tagset_close (set);
}

START_TEST (batches_from_many_submitters_all_end_once)
{
  submit_from_many (_i / 2 ? 32 : 2, _i % 2, 0);
}
END_TEST

START_TEST (a_device_that_is_often_busy_gets_everything_done)
{
  submit_from_many (_i / 2 ? 8 : 1, _i % 2, _i / 2 ? 4 : 30);
}
END_TEST

/* -- while somebody dispatches ------------------------------------------------------------ */

static atomic_bool dispatching, may_stop;

static void
dispatch_for_long (struct mq *mq, void *opaque)
{
  atomic_store (&dispatching, true);
  while (!atomic_load (&may_stop))
    sh_sleep (&sh_clock_monotonic, 100 * NS_PER_US);
}

static void *
be_dispatcher (void *mq)
{
  mq_as_dispatcher (mq, dispatch_for_long, NULL);
  return NULL;
}

static struct mq_request *kept[64];
static atomic_uint nr_kept;

static void
keep (void *device, struct mq_request **rq, unsigned n)
{
  while (n--)
    kept[atomic_fetch_add (&nr_kept, 1)] = *rq++;
}

static void
forget (struct mq_request *rq)
{
}

struct visitor {
  struct mq *mq;
  unsigned number;
  pthread_t thread;
  struct mq_request rq[4];
};

/* Completes one that the device holds, and brings three more. */
static void *
come_and_go (void *opaque)
{
  struct visitor *v = opaque;
  unsigned i;

  mq_complete (v->mq, kept[v->number], 0);
  for (i = 1; i < 4; ++i) {
    struct mq_request *rq = &v->rq[i];

    rq->dl.sector = 1000 * i + 10 * (16 - v->number);
    mq_submit (v->mq, &rq, 1);
  }
  return NULL;
}

START_TEST (who_finds_a_dispatcher_leaves_at_once)
{
  enum { VISITORS = 16 };
  static const struct mq_device_ops ops = { .issue = keep };
  static struct visitor v[VISITORS];
  struct tagset *set = make_set (VISITORS);
  struct mq_options options;
  struct mq_stats before, after;
  pthread_t dispatcher;
  struct mq *mq;
  unsigned i, k;

  mq_options_init (&options);
  options.sched = _i;
  options.hwqs = VISITORS;
  mq = make_queue (set, &options, &ops, NULL);
  for (i = 0; i < VISITORS; ++i) {
    v[i].mq = mq;
    v[i].number = i;
    for (k = 0; k < 4; ++k) {
      mq_request_init (&v[i].rq[k]);
      v[i].rq[k].dl.nr_sectors = 1;
      v[i].rq[k].hwq = i;
      v[i].rq[k].end_io = forget;
    }
    mq_submit (mq, (struct mq_request *[]) { &v[i].rq[0] }, 1);
  }
  mq_submit (mq, (struct mq_request *[]) { &v[0].rq[1] }, 1);   /* waits: nobody starts at once */
  mq_complete (mq, kept[0], 0);
  kept[0] = kept[VISITORS];
  atomic_store (&nr_kept, VISITORS);
  mq_request_init (&v[0].rq[0]);
  v[0].rq[0].dl.nr_sectors = 1;
  v[0].rq[0].end_io = forget;
  mq_submit (mq, (struct mq_request *[]) { &v[0].rq[0] }, 1);

  pthread_create (&dispatcher, NULL, be_dispatcher, mq);
  while (!atomic_load (&dispatching))
    sh_sleep (&sh_clock_monotonic, 100 * NS_PER_US);
  mq_get_stats (mq, &before);
  for (i = 1; i < VISITORS; ++i)
    pthread_create (&v[i].thread, NULL, come_and_go, &v[i]);
  for (i = 1; i < VISITORS; ++i)
    pthread_join (v[i].thread, NULL);
  /* All are back, and nobody else has dispatched meanwhile. */
  mq_get_stats (mq, &after);
  ck_assert_uint_eq (after.total.run, before.total.run);
  ck_assert_uint_eq (atomic_load (&nr_kept), VISITORS);
  atomic_store (&may_stop, true);
  pthread_join (dispatcher, NULL);
  /* What they brought goes in few turns, as many as there are tags. */
  mq_get_stats (mq, &after);
  ck_assert_uint_le (after.total.run - before.total.run, 4);
  ck_assert_uint_ge (atomic_load (&nr_kept), VISITORS + VISITORS - 3);
  mq_complete (mq, kept[0], 0);
  for (i = VISITORS; i < atomic_load (&nr_kept); ++i)
    mq_complete (mq, kept[i], 0);
  mq_destroy (mq);
  tagset_check_idle (set);
  tagset_close (set);
}
END_TEST

static struct mq *lone_queue;
static atomic_uint lone_issued, lone_ended;

static void
refuse_once (void *device, struct mq_request **rq, unsigned n)
{
  if (atomic_fetch_add (&lone_issued, 1) == 0)
    mq_requeue (lone_queue, rq[0]);
  else
    mq_complete (lone_queue, rq[0], 0);
}

static void
end_lone (struct mq_request *rq)
{
  atomic_fetch_add (&lone_ended, 1);
}

START_TEST (a_lone_request_that_the_device_refuses_once_completes_without_another)
{
  static const struct mq_device_ops ops = { .issue = refuse_once };
  struct tagset *set = make_set (4);
  struct mq_request rq, *list[1] = { &rq };
  struct mq_options options;
  unsigned i;

  mq_options_init (&options);
  options.sched = _i;
  lone_queue = make_queue (set, &options, &ops, NULL);
  mq_request_init (&rq);
  rq.dl.nr_sectors = 1;
  rq.end_io = end_lone;
  mq_submit (lone_queue, list, 1);
  for (i = 0; i < 10000 && atomic_load (&lone_ended) == 0; ++i)
    sh_sleep (&sh_clock_monotonic, NS_PER_MS);
  ck_assert_uint_eq (atomic_load (&lone_issued), 2);
  ck_assert_uint_eq (atomic_load (&lone_ended), 1);
  mq_destroy (lone_queue);
  tagset_close (set);
}
END_TEST

int
main (void)
{
  Suite *s = suite_create ("mq-threads");
  TCase *tc = tcase_create ("threads");

  tcase_add_loop_test (tc, every_owner_gets_its_turn, 0, 2 * ARRAY_SIZE (shapes));
  tcase_add_test (tc, a_thousand_waiting_owners_are_woken_once_each);
  tcase_add_loop_test (tc, everything_may_change_while_requests_run, 0, 2);
  tcase_add_loop_test (tc, queues_that_share_few_tags_all_make_progress, 1, 6);
  tcase_add_loop_test (tc, waiting_owners_leave_when_the_server_stops, 0, 2);
  tcase_add_loop_test (tc, who_finds_a_dispatcher_leaves_at_once, 0, 2);
  tcase_add_loop_test (tc, a_lone_request_that_the_device_refuses_once_completes_without_another,
                       0, 2);
  tcase_add_loop_test (tc, batches_from_many_submitters_all_end_once, 0, 4);
  tcase_add_loop_test (tc, a_device_that_is_often_busy_gets_everything_done, 0, 4);
  suite_add_tcase (s, tc);
  return run_suite (s);
}
