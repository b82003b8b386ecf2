/* SPDX-License-Identifier: BSD-3-Clause */
#include <config.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "pairs.h"

#define TRIES 5                 /* at a slice that is disturbed */
#define DISTURBED 0.06          /* by this part of all processors */

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

void
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
  m->commands = device_commands (d);
  for (i = 0; i < 64; ++i)
    if (set[i])
      tagset_close (set[i]);
  free (d);
}

/* -- what the machine takes back ------------------------------------------------------------------ */

static unsigned repeated;       /* slices, since the program began */

/* Processor time that the host of a virtual machine kept for itself, of all processors. */
static double
stolen_seconds (void)
{
  unsigned long long steal = 0;
  FILE *fp = fopen ("/proc/stat", "r");

  if (fp == NULL)
    return 0;
  if (fscanf (fp, "cpu %*u %*u %*u %*u %*u %*u %*u %llu", &steal) != 1)
    steal = 0;
  fclose (fp);
  return (double) steal / sysconf (_SC_CLK_TCK);
}

/* The part of the processors that was stolen while `u` was measured; or, where threads never
   wait because the device completes at once, the part of what they could use that they did not
   get, if that is more. */
static double
measure_and_look (measure_fn *fn, const struct set_up *u, struct measured *m)
{
  const double before = stolen_seconds (), processors = sysconf (_SC_NPROCESSORS_ONLN);
  const uint64_t began = sh_now (&sh_clock_monotonic);
  double stolen, missed = 0;

  fn (u, m);
  stolen = (stolen_seconds () - before) /
    ((sh_now (&sh_clock_monotonic) - began) / 1e9 * processors);
  if (u->at_once)
    missed = 1 - m->r.cpu_seconds / (m->r.seconds * MIN (u->submitters, processors));
  return MAX (stolen, missed);
}

/* A slice that was disturbed is taken again; if none was quiet, the quietest counts. */
static void
measure_quietly (measure_fn *fn, const struct set_up *u, struct measured *best)
{
  double least = 2;
  unsigned i;

  for (i = 0; i < TRIES && least > DISTURBED; ++i) {
    struct measured m;
    const double lost = measure_and_look (fn, u, &m);

    repeated += i > 0;
    if (lost < least) {
      least = lost;
      *best = m;
    }
  }
}

/* -- pairs ------------------------------------------------------------------------------------ */

/* Adds one more slice of a measurement to what the round has. */
static void
measure_slice (measure_fn *fn, const struct set_up *u, struct measured *sum)
{
  struct measured m = { .done = 0 };

  measure_quietly (fn, u, &m);
  sum->seconds += m.r.seconds;
  sum->cpu_seconds += m.r.cpu_seconds;
  sum->done += m.r.done;
  sum->commands += m.commands;
  sum->useless_runs += m.stats.total.useless_runs;
  sum->longest_turn_ns = MAX (sum->longest_turn_ns, m.stats.longest_turn_ns);
  sum->longest_wait_ns = MAX (sum->longest_wait_ns, m.stats.longest_wait_ns);
  sum->r = m.r;
  sum->stats = m.stats;
}

void
compare_by (measure_fn *fn_a, const struct set_up *a, measure_fn *fn_b, const struct set_up *b,
            struct pair *p)
{
  double va[32], vb[32], ratio[32], cpu[32], cpu_a[32], cpu_b[32];
  unsigned i, slice;

  memset (p, 0, sizeof *p);
  for (i = 0; i < rounds; ++i) {
    struct measured ma = { .done = 0 }, mb = { .done = 0 };

    for (slice = 0; slice < SLICES; ++slice) {
      if (slice % 2 == 0)
        measure_slice (fn_a, a, &ma);
      measure_slice (fn_b, b, &mb);
      if (slice % 2 == 1)
        measure_slice (fn_a, a, &ma);
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
    p->per_command_a = (double) ma.done / MAX (ma.commands, 1);
    p->per_command_b = (double) mb.done / MAX (mb.commands, 1);
    if (verbose)
      printf ("    %.0f / %.0f = %.3f; CPU us %.3f / %.3f = %.3f; busy %.2f %.2f; "
              "slices again: %u\n", va[i], vb[i], ratio[i], cpu_a[i], cpu_b[i], cpu[i],
              ma.cpu_seconds / ma.seconds, mb.cpu_seconds / mb.seconds, repeated);
  }
  p->a = median (va, rounds);
  p->b = median (vb, rounds);
  p->ratio = median (ratio, rounds);
  p->cpu_a = median (cpu_a, rounds);
  p->cpu_b = median (cpu_b, rounds);
  p->cpu_ratio = median (cpu, rounds);
}

void
compare (const struct set_up *a, const struct set_up *b, struct pair *p)
{
  compare_by (measure, a, measure, b, p);
}

void
by_cpu (const struct pair *p)
{
  printf ("    by CPU time: %.3f (%.2f and %.2f us a request)\n", 1 / p->cpu_ratio,
          p->cpu_a, p->cpu_b);
}

void
line (const char *what, double a, double b, double ratio, const char *bar, bool met)
{
  printf ("%-58s %10.0f %10.0f %8.3f  %-9s %s\n", what, a, b, ratio, bar, met ? "ok" : "MISSED");
  fflush (stdout);
}
