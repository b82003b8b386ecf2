/* SPDX-License-Identifier: BSD-3-Clause */
/* Clients, connections and drives that share tags. */
#include <config.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include "pairs.h"

static void *
same_queue (void *opaque, unsigned submitter)
{
  return opaque;
}

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

void
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

void
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
