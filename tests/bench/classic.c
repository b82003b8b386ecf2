/* SPDX-License-Identifier: BSD-3-Clause */
/* The classic way, to compare with: one lock, taken for each request. */
#include <config.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "pairs.h"

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

static void
measure_classic (const struct set_up *u, struct measured *m)
{
  struct device *d = device_new ();
  struct classic *c = calloc (1, sizeof *c);
  const struct dl_limits limits = { .max_sectors = 2048, .max_segments = 128 };
  struct load load = {
    .submit = classic_submit, .queue_of = same_queue, .opaque = c, .submitters = u->submitters,
    .depth = u->depth, .batch = u->batch, .hwqs = u->hwqs, .sequential = u->sequential,
    .dir = u->dir, .seconds = seconds / SLICES,
  };

  memset (m, 0, sizeof *m);
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
  run_load (&load, &m->r);
  device_stop (d);
  m->commands = device_commands (d);
  free (c);
  free (d);
}

static void
compare_with_classic (const char *what, const struct set_up *u, double bar, const char *bar_text,
                      bool merging)
{
  struct pair p;

  compare_by (measure, u, measure_classic, u, &p);
  line (what, p.a, p.b, p.ratio, bar_text, p.ratio >= bar);
  if (merging)
    printf ("    requests per command: %.1f / %.1f\n", p.per_command_a, p.per_command_b);
  else
    by_cpu (&p);
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

void
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

void
merge_guard (void)
{
  const struct set_up u = {
    .queues = 1, .tags = 4, .hwqs = 64, .submitters = 64, .depth = 1, .batch = 1,
    .latency_ns = 5 * NS_PER_MS, .units = 1, .sequential = true, .dir = DL_WRITE,
  };

  compare_with_classic ("sequential 4 KiB writes, 64 submitters / merge at insertion", &u, 0.99,
                        ">= 0.99", true);
}
