/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mq-bench: the ratios that core/mq promises, measured A B A B ... in one run.
 *
 *   mq-bench [--seconds=S] [--rounds=N] [--only=NAME]
 *
 * S is the time of one measurement (0.3), N the number of pairs (5); the whole takes
 * about 2 x N x S x 16.  Each line shows the median of A, of B, of the ratios of
 * the pairs, and the bar.  Comparing lines with each other means nothing.
 */
#include <config.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "load.h"
#include "scsi/disk.h"
#include "transport/transport.h"

#define SLICES 4

static double seconds = 0.6;
static bool verbose;
static unsigned rounds = 5;
static const char *only;

/* -- one measurement ---------------------------------------------------------------------- */

struct set_up {
  unsigned queues;              /* the submitters are spread over them */
  unsigned tags;                /* of each set */
  bool own_sets;                /* one a queue; else one for all */
  enum mq_sched sched;
  enum mq_run run;
  unsigned hwqs;
  unsigned submitters, depth, batch;
  uint64_t latency_ns;
  unsigned units;
  bool at_once;
  struct bdev *bdev;
  bool sequential;
  enum dl_dir dir;
  enum dl_class (*class_of) (unsigned);
};

struct measured {
  struct result r;
  struct mq_stats stats;        /* of all queues together */
  double requests_per_command;

  /* Of all slices of a round. */
  double seconds, cpu_seconds;
  uint64_t done, useless_runs, longest_turn_ns, longest_wait_ns;
};

static void *
queue_of (void *opaque, unsigned submitter)
{
  struct mq **mq = opaque;
  unsigned n = 0;

  while (mq[n])
    ++n;
  return mq[submitter % n];
}

static void
add_stats (struct mq_stats *sum, struct mq *mq)
{
  struct mq_stats s;

  mq_get_stats (mq, &s);
  sum->total.run += s.total.run;
  sum->total.useless_runs += s.total.useless_runs;
  sum->total.completed += s.total.completed;
  sum->total.merged += s.total.merged;
  sum->inline_requests += s.inline_requests;
  sum->longest_turn_ns = MAX (sum->longest_turn_ns, s.longest_turn_ns);
  sum->longest_wait_ns = MAX (sum->longest_wait_ns, s.longest_wait_ns);
}

/* A device for each queue would be another device: they share one, which finds
   the queue of a request through its submitter. */
static struct mq **all_queues;

static void
complete_in_own_queue (void *queue, struct mq_request **rq, unsigned n)
{
  unsigned i;

  if (all_queues[1] == NULL) {
    mq_complete_batch (all_queues[0], rq, n, 0);
    return;
  }
  for (i = 0; i < n; ++i)
    mq_complete (queue_of (all_queues, ((struct io *) rq[i])->submitter->number), rq[i], 0);
}

static void
measure (const struct set_up *u, struct measured *m)
{
  struct device *d = device_new ();
  struct tagset *set[64] = { NULL };
  struct mq *mq[65] = { NULL };
  struct mq_options o;
  struct load load = {
    .submit = submit_to_mq, .queue_of = queue_of, .opaque = mq,
    .submitters = u->submitters, .depth = u->depth, .batch = u->batch, .hwqs = u->hwqs,
    .sequential = u->sequential, .dir = u->dir, .class_of = u->class_of, .seconds = seconds / SLICES,
  };
  unsigned i;

  d->complete = complete_in_own_queue;
  d->latency_ns = u->latency_ns;
  d->units = u->units;
  d->at_once = u->at_once;
  d->bdev = u->bdev;
  all_queues = mq;
  mq_options_init (&o);
  o.hwqs = u->hwqs;
  o.sched = u->sched;
  o.run = u->run;
  for (i = 0; i < u->queues; ++i) {
    if (i == 0 || u->own_sets)
      set[i] = bench_tagset (u->tags, NULL);
    mq[i] = bench_queue (&o, set[u->own_sets ? i : 0], d);
  }
  device_start (d);
  run_load (&load, &m->r);
  device_stop (d);
  memset (&m->stats, 0, sizeof m->stats);
  for (i = 0; i < u->queues; ++i) {
    add_stats (&m->stats, mq[i]);
    mq_destroy (mq[i]);
  }
  m->requests_per_command = (double) (m->stats.total.completed + m->stats.total.merged) /
    device_commands (d);
  for (i = 0; i < 64; ++i)
    if (set[i])
      tagset_close (set[i]);
  free (d);
}

/* -- pairs ------------------------------------------------------------------------------------ */

struct pair {
  double a, b, ratio, cpu_a, cpu_b, cpu_ratio;
  uint64_t useless_a, useless_b;
  uint64_t longest_turn_a, longest_wait_a;
};

/* Adds one more slice of a measurement to what the round has. */
static void
measure_slice (const struct set_up *u, struct measured *sum)
{
  struct measured m;

  measure (u, &m);
  sum->seconds += m.r.seconds;
  sum->cpu_seconds += m.r.cpu_seconds;
  sum->done += m.r.done;
  sum->useless_runs += m.stats.total.useless_runs;
  sum->longest_turn_ns = MAX (sum->longest_turn_ns, m.stats.longest_turn_ns);
  sum->longest_wait_ns = MAX (sum->longest_wait_ns, m.stats.longest_wait_ns);
  sum->r = m.r;
  sum->stats = m.stats;
}

/* A and B in turns, in slices (A B B A A B B A): what disturbs the machine for a
   while disturbs both alike. */
static void
compare (const struct set_up *a, const struct set_up *b, struct pair *p)
{
  double va[32], vb[32], ratio[32], cpu[32], cpu_a[32], cpu_b[32];
  unsigned i, slice;

  memset (p, 0, sizeof *p);
  for (i = 0; i < rounds; ++i) {
    struct measured ma = { .done = 0 }, mb = { .done = 0 };

    for (slice = 0; slice < SLICES; ++slice) {
      if (slice % 2 == 0)
        measure_slice (a, &ma);
      measure_slice (b, &mb);
      if (slice % 2 == 1)
        measure_slice (a, &ma);
    }
    va[i] = ma.done / ma.seconds;
    vb[i] = mb.done / mb.seconds;
    ratio[i] = va[i] / vb[i];
    cpu_a[i] = ma.cpu_seconds * 1e6 / ma.done;
    cpu_b[i] = mb.cpu_seconds * 1e6 / mb.done;
    cpu[i] = cpu_a[i] / cpu_b[i];
    p->useless_a += ma.useless_runs;
    p->useless_b += mb.useless_runs;
    p->longest_turn_a = MAX (p->longest_turn_a, ma.longest_turn_ns);
    p->longest_wait_a = MAX (p->longest_wait_a, ma.longest_wait_ns);
    if (verbose)
      printf ("    %.0f / %.0f = %.3f; CPU us %.3f / %.3f = %.3f; busy %.2f %.2f\n", va[i], vb[i], ratio[i],
              cpu_a[i], cpu_b[i], cpu[i], ma.cpu_seconds / ma.seconds, mb.cpu_seconds / mb.seconds);
  }
  p->a = median (va, rounds);
  p->b = median (vb, rounds);
  p->ratio = median (ratio, rounds);
  p->cpu_a = median (cpu_a, rounds);
  p->cpu_b = median (cpu_b, rounds);
  p->cpu_ratio = median (cpu, rounds);
}

/* What the machine's other work cannot spoil: by CPU time instead of the wall's. */
static void
by_cpu (const struct pair *p)
{
  printf ("    by CPU time: %.3f (%.2f and %.2f us a request)\n", 1 / p->cpu_ratio,
          p->cpu_a, p->cpu_b);
}

static void
line (const char *what, double a, double b, double ratio, const char *bar, bool met)
{
  printf ("%-58s %10.0f %10.0f %8.3f  %-9s %s\n", what, a, b, ratio, bar, met ? "ok" : "MISSED");
  fflush (stdout);
}

static bool
wanted (const char *name)
{
  return only == NULL || strcmp (only, name) == 0;
}

/* -- the bars ------------------------------------------------------------------------------------ */

static void
shared_map (void)
{
  const struct set_up shared = {
    .queues = 1, .tags = 128, .hwqs = 16, .submitters = 16, .depth = 64, .batch = 16,
    .latency_ns = 1 * NS_PER_MS, .units = 64,
  };
  struct set_up apart = shared;
  struct pair p;

  apart.queues = 16;
  apart.own_sets = true;
  apart.tags = 8;
  apart.hwqs = 1;
  compare (&shared, &apart, &p);
  line ("shared map / per-queue maps, deadline, 128 tags", p.a, p.b, p.ratio, ">= 0.99",
        p.ratio >= 0.99);
  line ("  CPU per I/O, us", p.cpu_a, p.cpu_b, p.cpu_ratio,
        "<= 1.05", p.cpu_ratio <= 1.05);
}

static void
scarce_tags (void)
{
  struct set_up scarce = {
    .queues = 1, .tags = 260, .hwqs = 24, .submitters = 24, .depth = 64, .batch = 16,
    .latency_ns = 2 * NS_PER_MS, .units = 128,
  };
  struct set_up plentiful;
  struct pair p;
  int sched;

  for (sched = MQ_DEADLINE; sched <= MQ_NONE; ++sched) {
    scarce.sched = sched;
    plentiful = scarce;
    plentiful.tags = 4000;
    compare (&scarce, &plentiful, &p);
    line (sched == MQ_NONE ? "260 / 4000 tags, device saturated, none"
                           : "260 / 4000 tags, device saturated, deadline",
          p.a, p.b, p.ratio, ">= 0.98", p.ratio >= 0.98);
  }
}

static void
completing_queue (void)
{
  struct set_up own = {
    .queues = 1, .tags = 32, .hwqs = 24, .submitters = 24, .depth = 32, .batch = 16,
    .latency_ns = 0, .units = 32,
  };
  struct set_up all;
  struct pair p;
  char text[80];
  unsigned hwqs;

  for (hwqs = 24; hwqs <= 48; hwqs += 24) {
    own.hwqs = own.submitters = hwqs;
    all = own;
    all.run = MQ_RUN_ALL;
    compare (&own, &all, &p);
    snprintf (text, sizeof text, "run=own / run=all, %u queues, deadline", hwqs);
    line (text, p.a, p.b, p.ratio, ">= 2.2", p.ratio >= 2.2);
    by_cpu (&p);
    line ("  useless runs of run=own", p.useless_a, p.useless_b, 0, "0",
          p.useless_a == 0);
  }
}

static void
deadline_against_none (void)
{
  static const struct { const char *name; bool at_once; uint64_t latency_ns; } devices[] = {
    { "device at once", true, 0 },
    { "device 0.5 ms", false, NS_PER_MS / 2 },
  };
  struct set_up deadline = { .queues = 1, .tags = 64, .hwqs = 32, .submitters = 32, .units = 64 };
  struct set_up none;
  struct pair p;
  char text[80];
  size_t d;

  for (d = 0; d < ARRAY_SIZE (devices); ++d)
    for (deadline.depth = 1; deadline.depth <= 8; deadline.depth *= 2) {
      deadline.at_once = devices[d].at_once;
      deadline.latency_ns = devices[d].latency_ns;
      deadline.batch = MIN (deadline.depth, 4);
      none = deadline;
      none.sched = MQ_NONE;
      compare (&deadline, &none, &p);
      snprintf (text, sizeof text, "deadline / none, 32 queues, depth %u, %s", deadline.depth,
                devices[d].name);
      line (text, p.a, p.b, p.ratio, ">= 0.90", p.ratio >= 0.90);
      by_cpu (&p);
    }
}

static enum dl_class
half_rt (unsigned submitter)
{
  return submitter % 2 ? DL_RT : DL_BE;
}

static void
priorities (void)
{
  struct set_up used = {
    .queues = 1, .tags = 64, .hwqs = 32, .submitters = 32, .depth = 8, .batch = 4,
    .latency_ns = NS_PER_MS, .units = 64, .class_of = half_rt,
  };
  struct set_up unused = used;
  struct pair p;

  unused.class_of = NULL;
  compare (&used, &unused, &p);
  line ("RT and BE / one class, 32 queues, depth 8", p.a, p.b, p.ratio, ">= 0.98",
        p.ratio >= 0.98);
  by_cpu (&p);
  compare (&unused, &used, &p);
  line ("  longest dispatcher turn, us", p.longest_turn_a / 1e3, 0, 0, "<= 2000",
        p.longest_turn_a <= 2 * NS_PER_MS);
  line ("  longest wait, reads in one class, ms", p.longest_wait_a / 1e6, 0, 0, "<= 517",
        p.longest_wait_a <= 517 * NS_PER_MS);
}

/* -- the classic way, to compare with: one lock, taken for each request ----------------------- */

struct classic {
  struct deadline dl;
  pthread_mutex_t lock;
  unsigned in_flight, tags;
  struct device *device;
  uint64_t held_ns, holds;      /* of the lock, sampled */
};

static void classic_run (struct classic *c);

static void
classic_lock (struct classic *c)
{
  pthread_mutex_lock (&c->lock);
}

static void
classic_submit (void *queue, struct mq_request **rq, unsigned n)
{
  struct classic *c = queue;
  unsigned i;

  for (i = 0; i < n; ++i) {
    struct dl_request *into;
    enum dl_merge how;

    rq[i]->first = rq[i]->last_merged = rq[i];
    rq[i]->next_merged = NULL;
    classic_lock (c);
    how = dl_find_merge (&c->dl, &rq[i]->dl, &into);
    if (how == DL_NO_MERGE)
      dl_insert (&c->dl, &rq[i]->dl, false, sh_now (&sh_clock_monotonic));
    else {
      struct mq_request *leader = LIST_ENTRY (into, struct mq_request, dl);

      rq[i]->next_merged = leader->next_merged;
      leader->next_merged = rq[i];
      dl_merge (&c->dl, how, into, rq[i]->dl.nr_sectors, 1);
    }
    pthread_mutex_unlock (&c->lock);
  }
  classic_run (c);
}

static void
classic_run (struct classic *c)
{
  for (;;) {
    struct dl_request *dl = NULL;
    struct mq_request *rq;

    classic_lock (c);
    if (c->in_flight < c->tags) {
      dl = dl_dispatch (&c->dl, sh_now (&sh_clock_monotonic));
      c->in_flight += dl != NULL;
    }
    pthread_mutex_unlock (&c->lock);
    if (dl == NULL)
      return;
    rq = LIST_ENTRY (dl, struct mq_request, dl);
    device_issue (c->device, &rq, 1);
  }
}

static void
classic_complete (void *queue, struct mq_request **rq, unsigned n)
{
  struct classic *c = queue;
  unsigned i;

  for (i = 0; i < n; ++i) {
    struct mq_request *part, *next;

    classic_lock (c);
    c->in_flight--;
    dl_count_completed (&c->dl, rq[i]->dl.prio_class);
    pthread_mutex_unlock (&c->lock);
    for (part = rq[i]; part; part = next) {
      next = part->next_merged;
      part->end_io (part);
    }
  }
  classic_run (c);
}

static void *
same_queue (void *opaque, unsigned submitter)
{
  return opaque;
}

static double
measure_classic (const struct set_up *u, double *requests_per_command)
{
  struct device *d = device_new ();
  struct classic *c = calloc (1, sizeof *c);
  const struct dl_limits limits = { .max_sectors = 2048, .max_segments = 128 };
  struct load load = {
    .submit = classic_submit, .queue_of = same_queue, .opaque = c, .submitters = u->submitters,
    .depth = u->depth, .batch = u->batch, .hwqs = u->hwqs, .sequential = u->sequential,
    .dir = u->dir, .seconds = seconds,
  };
  struct result r;

  dl_init (&c->dl, 1);
  dl_set_limits (&c->dl, &limits);
  pthread_mutex_init (&c->lock, NULL);
  c->tags = u->tags;
  c->device = d;
  d->complete = classic_complete;
  d->queue = c;
  d->latency_ns = u->latency_ns;
  d->units = u->units;
  d->at_once = u->at_once;
  device_start (d);
  run_load (&load, &r);
  device_stop (d);
  *requests_per_command = (double) r.done / device_commands (d);
  free (c);
  free (d);
  return r.iops;
}

static void
compare_with_classic (const char *what, const struct set_up *u, double bar, const char *bar_text,
                      bool merging)
{
  double va[32], vb[32], ratio[32], rpc_b = 0;
  struct measured m;
  unsigned i;

  for (i = 0; i < rounds; ++i) {
    measure (u, &m);
    vb[i] = measure_classic (u, &rpc_b);
    va[i] = m.r.iops;
    ratio[i] = va[i] / vb[i];
  }
  line (what, median (va, rounds), median (vb, rounds), median (ratio, rounds), bar_text,
        median (ratio, rounds) >= bar);
  if (merging)
    printf ("    requests per command: %.1f / %.1f\n", m.requests_per_command, rpc_b);
}

/* Nanoseconds of serialised work a request costs: what bounds many cores. */
static double
serial_ns (bool batched)
{
  enum { N = 4096 };
  struct deadline *dl = calloc (1, sizeof *dl);
  struct dl_request *rq = calloc (N, sizeof *rq);
  uint64_t began;
  unsigned i, done = 0, round;

  dl_init (dl, 1);
  for (i = 0; i < N; ++i)
    dl_request_init (&rq[i]);
  began = sh_now (&sh_clock_monotonic);
  for (round = 0; round < 50; ++round) {
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

    for (i = 0; i < 128; ++i) {
      rq[i].sector = (i * 7919u + round) % 100000;
      if (!batched || i % 16 == 0)
        pthread_mutex_lock (&lock);
      dl_insert (dl, &rq[i], false, batched ? began : sh_now (&sh_clock_monotonic));
      if (!batched || i % 16 == 15)
        pthread_mutex_unlock (&lock);
    }
    for (i = 0; i < 128; ++i) {
      if (!batched || i % 16 == 0)
        pthread_mutex_lock (&lock);
      dl_dispatch (dl, batched ? began : sh_now (&sh_clock_monotonic))->counted = false;
      dl_count_completed (dl, DL_BE);
      if (!batched || i % 16 == 15)
        pthread_mutex_unlock (&lock);
      ++done;
    }
  }
  began = sh_now (&sh_clock_monotonic) - began;
  free (rq);
  free (dl);
  return (double) began / done;
}

static void
batched_dispatch (void)
{
  const struct set_up u = {
    .queues = 1, .tags = 64, .hwqs = 32, .submitters = 32, .depth = 8, .batch = 4,
    .latency_ns = 0, .units = 64,
  };
  const double classic = serial_ns (false), batched = serial_ns (true);

  compare_with_classic ("batched / one lock a request, 32 submitters", &u, 1, "(report)", false);
  printf ("    lock held per request, one thread: %.0f ns classic, %.0f ns batched\n", classic,
          batched);
  /* A lock that 32 cores fight for moves its line for every hand-over: about
     150 ns each on a machine of two sockets. */
  printf ("    model of 32 cores, 150 ns a hand-over: %.2fM / %.2fM IOPS = %.2f\n",
          1e3 / (batched + 2 * 150.0 / 16), 1e3 / (classic + 2 * 150.0),
          (classic + 2 * 150.0) / (batched + 2 * 150.0 / 16));
}

static void
merge_guard (void)
{
  const struct set_up u = {
    .queues = 1, .tags = 4, .hwqs = 64, .submitters = 64, .depth = 1, .batch = 1,
    .latency_ns = 5 * NS_PER_MS, .units = 1, .sequential = true, .dir = DL_WRITE,
  };

  compare_with_classic ("sequential 4 KiB writes, 64 submitters / merge at insertion", &u, 0.99,
                        ">= 0.99", true);
}

/* A drive in RAM that answers at once, through its CDBs; NULL when there is none. */
static struct bdev *
open_emulated_drive (void)
{
  const struct disk_options options = { 0 };
  struct sh_error err = { 0 };
  struct transport t;
  struct bdev *bdev;

  if (transport_open ("emu:ram:size=256M,zone_size=4M,conventional=64,fake_rw=1", 0, &t, &err) == -1 ||
      disk_open (&t, &options, &bdev, &err) == -1) {
    printf ("the emulated drive: %s\n", err.message);
    return NULL;
  }
  return bdev;
}

static void
threads_and_batches (const char *device, struct bdev *bdev)
{
  struct set_up one = {
    .queues = 1, .tags = 128, .hwqs = 2, .submitters = 1, .depth = 16, .batch = 1,
    .at_once = true, .units = 1, .bdev = bdev,
  };
  struct set_up sixteen = one, two = one;
  struct pair p;
  char text[80];

  sixteen.batch = 16;
  two.submitters = 2;
  compare (&sixteen, &one, &p);
  snprintf (text, sizeof text, "batch 16 / batch 1, %s", device);
  line (text, p.a, p.b, p.ratio, ">= 1.2", p.ratio >= 1.2);
  by_cpu (&p);
  compare (&two, &one, &p);
  snprintf (text, sizeof text, "2 threads / 2 x 1 thread, %s", device);
  /* Without a device there is nothing but the shared counters: no bar. */
  line (text, p.a, 2 * p.b, p.ratio / 2, bdev ? ">= 0.90" : "(report)",
        bdev == NULL || p.ratio / 2 >= 0.90);
  by_cpu (&p);
}

static void
batches (void)
{
  struct bdev *bdev = open_emulated_drive ();

  threads_and_batches ("device at once", NULL);
  if (bdev) {
    threads_and_batches ("emulated drive", bdev);
    bdev_close (bdev);
  }
}

/* -- fairness --------------------------------------------------------------------------------------- */

struct client {
  unsigned depth;
  uint64_t latency_ns;
  unsigned units;
};

/* Loads one queue on a set; p99 and IOPS. */
static void
run_client (const struct client *c, struct tagset *set, double *p99, double *iops)
{
  struct device *d = device_new ();
  struct mq_options o;
  struct load load = {
    .submit = submit_to_mq, .queue_of = same_queue, .submitters = 1, .depth = c->depth,
    .batch = 1, .hwqs = 1, .seconds = MAX (seconds * 3, 1.0),
  };
  struct result r;
  struct mq *mq;

  mq_options_init (&o);
  o.hwqs = 1;
  d->complete = complete_into_mq;
  d->latency_ns = c->latency_ns;
  d->units = c->units;
  mq = bench_queue (&o, set, d);
  device_start (d);
  load.opaque = mq;
  run_load (&load, &r);
  device_stop (d);
  mq_destroy (mq);
  *p99 = r.p99_us[0];
  *iops = r.iops;
  free (d);
}

struct client_thread {
  const struct client *client;
  struct tagset *set;
  double p99, iops;
};

static void *
client_thread (void *opaque)
{
  struct client_thread *t = opaque;

  run_client (t->client, t->set, &t->p99, &t->iops);
  return NULL;
}

/* `one` beside `other` (NULL: alone), in this process or another. */
static void
beside (const struct client *one, const struct client *other, bool two_processes, unsigned tags,
        double *p99, double *iops)
{
  struct tagset *set;
  struct client_thread t = { .client = other };
  pthread_t thread;
  char name[40];
  pid_t pid = -1;

  snprintf (name, sizeof name, "bench-%d", (int) getpid ());
  if (other && two_processes && (pid = fork ()) == 0) {
    set = bench_tagset (tags, name);
    t.set = set;
    client_thread (&t);
    tagset_close (set);
    _exit (0);
  }
  set = bench_tagset (tags, two_processes ? name : NULL);
  t.set = set;
  if (other && !two_processes)
    pthread_create (&thread, NULL, client_thread, &t);
  sh_sleep (&sh_clock_monotonic, 20 * NS_PER_MS);
  run_client (one, set, p99, iops);
  if (pid != -1)
    waitpid (pid, NULL, 0);
  else if (other)
    pthread_join (thread, NULL);
  tagset_close (set);
}

static void
fairness (void)
{
  const struct client polite = { .depth = 1, .latency_ns = 2 * NS_PER_MS, .units = 32 };
  const struct client greedy = { .depth = 64, .latency_ns = 2 * NS_PER_MS, .units = 32 };
  const struct client slow = { .depth = 64, .latency_ns = 100 * NS_PER_MS, .units = 64 };
  const struct client fast = { .depth = 32, .latency_ns = 1 * NS_PER_MS, .units = 16 };
  double alone[32], with[32], ratio[32], p99, iops;
  unsigned i;
  int two;

  for (two = 0; two <= 1; ++two) {
    for (i = 0; i < rounds; ++i) {
      beside (&polite, NULL, two, 32, &alone[i], &iops);
      beside (&polite, &greedy, two, 32, &with[i], &iops);
      ratio[i] = with[i] / alone[i];
    }
    line (two ? "p99 of a polite client beside a greedy one, 2 processes, us"
              : "p99 of a polite client beside a greedy one, us",
          median (with, rounds), median (alone, rounds), median (ratio, rounds), "<= 2",
          median (ratio, rounds) <= 2);
  }
  for (two = 0; two <= 1; ++two) {
    for (i = 0; i < rounds; ++i) {
      beside (&fast, NULL, two, 64, &p99, &alone[i]);
      beside (&fast, &slow, two, 64, &p99, &with[i]);
      ratio[i] = with[i] / alone[i];
    }
    line (two ? "fast drive beside a slow one on one set / alone, 2 processes"
              : "fast drive beside a slow one on one set / alone",
          median (with, rounds), median (alone, rounds), median (ratio, rounds), ">= 0.8",
          median (ratio, rounds) >= 0.8);
  }
}

/* Two connections of one queue. */
static void *
hwq_queue (void *opaque, unsigned submitter)
{
  return opaque;
}

struct two_hwqs {
  struct mq *mq;
  bool greedy;
  struct result r;
};

static void *
load_hwq (void *opaque)
{
  struct two_hwqs *t = opaque;
  const struct load load = {
    .submit = submit_to_mq, .queue_of = hwq_queue, .opaque = t->mq, .submitters = 1,
    .depth = t->greedy ? 64 : 1, .batch = 1, .hwqs = 1, .seconds = MAX (seconds * 3, 1.0),
  };

  run_load (&load, &t->r);
  return NULL;
}

/* The greedy one has hwq 0 by its number; the polite one is moved to hwq 1. */
static void
submit_as_second (void *queue, struct mq_request **rq, unsigned n)
{
  unsigned i;

  for (i = 0; i < n; ++i)
    rq[i]->hwq = 1;
  mq_submit (queue, rq, n);
}

static double
polite_hwq_p99 (bool with_greedy, enum mq_sched sched)
{
  struct device *d = device_new ();
  struct tagset *set = bench_tagset (32, NULL);
  struct two_hwqs g = { .greedy = true };
  struct load load = {
    .submit = submit_as_second, .queue_of = hwq_queue, .submitters = 1, .depth = 1, .batch = 1,
    .hwqs = 1, .seconds = MAX (seconds * 3, 1.0),
  };
  struct mq_options o;
  struct result r;
  pthread_t thread;
  struct mq *mq;

  mq_options_init (&o);
  o.hwqs = 2;
  o.sched = sched;
  d->complete = complete_into_mq;
  d->latency_ns = 2 * NS_PER_MS;
  d->units = 32;
  g.mq = mq = bench_queue (&o, set, d);
  device_start (d);
  load.opaque = mq;
  if (with_greedy)
    pthread_create (&thread, NULL, load_hwq, &g);
  run_load (&load, &r);
  if (with_greedy)
    pthread_join (thread, NULL);
  device_stop (d);
  mq_destroy (mq);
  tagset_close (set);
  free (d);
  return r.p99_us[0];
}

static void
fair_connections (void)
{
  double alone[32], with[32], ratio[32];
  unsigned i;
  int sched;

  for (sched = MQ_DEADLINE; sched <= MQ_NONE; ++sched) {
    for (i = 0; i < rounds; ++i) {
      alone[i] = polite_hwq_p99 (false, sched);
      with[i] = polite_hwq_p99 (true, sched);
      ratio[i] = with[i] / alone[i];
    }
    line (sched == MQ_NONE ? "p99 of a polite connection beside a greedy one, none, us"
                           : "p99 of a polite connection beside a greedy one, deadline, us",
          median (with, rounds), median (alone, rounds), median (ratio, rounds), "<= 2",
          median (ratio, rounds) <= 2);
  }
}

/* -- instructions ------------------------------------------------------------------------------------ */

static void
inline_loop (unsigned n)
{
  struct device *d = device_new ();
  struct tagset *set = bench_tagset (64, NULL);
  struct mq_options o;
  struct mq *mq;

  mq_options_init (&o);
  mq = bench_queue (&o, set, d);
  while (n--) {
    struct mq_request rq;

    mq_request_init (&rq);
    rq.dl.sector = n;
    rq.dl.nr_sectors = 8;
    mq_begin (mq, &rq);
    mq_end (mq, &rq, 0);
  }
  mq_destroy (mq);
  tagset_close (set);
  free (d);
}

/* Instructions of a run with n requests, as callgrind counts them; 0: no valgrind. */
static double
count_instructions (const char *self, unsigned n)
{
  char command[512], text[256];
  double found = 0;
  FILE *fp;

  snprintf (command, sizeof command, "valgrind --tool=callgrind --callgrind-out-file=/dev/null "
            "'%s' --inline-loop=%u 2>&1", self, n);
  fp = popen (command, "r");
  while (fp && fgets (text, sizeof text, fp)) {
    const char *at = strstr (text, "Collected : ");

    if (at)
      found = strtod (at + 12, NULL);
  }
  if (fp)
    pclose (fp);
  return found;
}

static void
instructions (const char *self)
{
  const double few = count_instructions (self, 10000), many = count_instructions (self, 30000);

  if (few == 0 || many == 0) {
    printf ("instructions of the inline path: valgrind is missing\n");
    return;
  }
  line ("instructions of the inline path, begin and end together", (many - few) / 20000, 0, 0,
        "< 300", (many - few) / 20000 < 300);
}

/* -- */

static const struct { const char *name; void (*run) (void); } benches[] = {
  { "shared-map", shared_map },
  { "scarce-tags", scarce_tags },
  { "completing-queue", completing_queue },
  { "deadline-none", deadline_against_none },
  { "priorities", priorities },
  { "batched", batched_dispatch },
  { "batches", batches },
  { "merge-guard", merge_guard },
  { "fairness", fairness },
  { "connections", fair_connections },
};

int
main (int argc, char **argv)
{
  static const struct option long_options[] = {
    { "seconds", required_argument, NULL, 's' },
    { "rounds", required_argument, NULL, 'r' },
    { "verbose", no_argument, NULL, 'v' },
    { "only", required_argument, NULL, 'o' },
    { "inline-loop", required_argument, NULL, 'i' },
    { NULL, 0, NULL, 0 }
  };
  char self[512];
  ssize_t n;
  size_t i;
  int c;

  while ((c = getopt_long (argc, argv, "", long_options, NULL)) != -1)
    switch (c) {
    case 's': seconds = strtod (optarg, NULL); break;
    case 'r': rounds = MAX (1, MIN (31, atoi (optarg))); break;
    case 'v': verbose = true; break;
    case 'o': only = optarg; break;
    case 'i': inline_loop (atoi (optarg)); return 0;
    default:
      fprintf (stderr, "Usage: mq-bench [--seconds=S] [--rounds=N] [--only=NAME]\nnames:");
      for (i = 0; i < ARRAY_SIZE (benches); ++i)
        fprintf (stderr, " %s", benches[i].name);
      fprintf (stderr, " instructions\n");
      return 2;
    }
  printf ("%-58s %10s %10s %8s  %s\n", "", "A", "B", "A/B", "bar");
  for (i = 0; i < ARRAY_SIZE (benches); ++i)
    if (wanted (benches[i].name))
      benches[i].run ();
  n = readlink ("/proc/self/exe", self, sizeof self - 1);
  if (n > 0 && wanted ("instructions")) {
    self[n] = '\0';
    instructions (self);
  }
  return 0;
}
