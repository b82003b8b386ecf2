/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mq-bench: the ratios that core/mq promises, measured A B A B ... in one run.
 *
 *   mq-bench [--seconds=S] [--rounds=N] [--only=NAME] [--verbose]
 *
 * S is the time of one side of a round (0.6), in four slices that alternate; N the number of
 * rounds (5).  Slices of which others had a part are taken again.
 * Each line shows the median of A, of B, of the ratios of the rounds, and the bar.
 * Comparing lines with each other means nothing.
 */
#include <config.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "pairs.h"
#include "scsi/disk.h"
#include "transport/transport.h"

double seconds = 0.6;
bool verbose;
unsigned rounds = 5;
static const char *only;

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
  line ("  CPU per I/O, ns", p.cpu_a * 1e3, p.cpu_b * 1e3, p.cpu_ratio, "<= 1.05",
        p.cpu_ratio <= 1.05);
}

/* With 260 tags, what waits at the device beyond its 128 units lasts it for about one
   latency: the shorter one is also a test of how late the machine runs a thread. */
static void
scarce_tags (void)
{
  static const unsigned latency_ms[] = { 2, 6 };
  struct set_up scarce = {
    .queues = 1, .tags = 260, .hwqs = 24, .submitters = 24, .depth = 64, .batch = 16,
    .units = 128,
  };
  struct set_up plentiful;
  char what[80];
  struct pair p;
  unsigned i;

  for (i = 0; i < 2 * ARRAY_SIZE (latency_ms); ++i) {
    scarce.latency_ns = latency_ms[i / 2] * NS_PER_MS;
    scarce.sched = i % 2 ? MQ_NONE : MQ_DEADLINE;
    plentiful = scarce;
    plentiful.tags = 4000;
    compare (&scarce, &plentiful, &p);
    snprintf (what, sizeof what, "260 / 4000 tags, device of %u ms saturated, %s",
              latency_ms[i / 2], i % 2 ? "none" : "deadline");
    line (what, p.a, p.b, p.ratio, ">= 0.98", p.ratio >= 0.98);
    by_cpu (&p);
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


/* A drive in RAM that answers at once, through its CDBs; NULL when there is none. */
struct bdev *
open_emulated_drive (const char *uri)
{
  const struct disk_options options = { 0 };
  struct sh_error err = { 0 };
  struct transport t;
  struct bdev *bdev;

  if (transport_open (uri, 0, &t, &err) == -1 ||
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
  /* As in the thread that the bars come from, no data is moved: then nothing but the
     commands themselves is shared or not. */
  struct bdev *bdev = open_emulated_drive (DRIVE ",fake_rw=1");

  threads_and_batches ("device at once", NULL);
  if (bdev) {
    threads_and_batches ("emulated drive", bdev);
    bdev_close (bdev);
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
  { "counting", counting },
};

static int
usage (void)
{
  size_t i;

  fprintf (stderr, "Usage: mq-bench [--seconds=S] [--rounds=N] [--only=NAME]\nnames:");
  for (i = 0; i < ARRAY_SIZE (benches); ++i)
    fprintf (stderr, " %s", benches[i].name);
  fprintf (stderr, " instructions\n");
  return 2;
}

static bool
exists (const char *name)
{
  size_t i;

  for (i = 0; i < ARRAY_SIZE (benches); ++i)
    if (strcmp (name, benches[i].name) == 0)
      return true;
  return strcmp (name, "instructions") == 0;
}

int
main (int argc, char **argv)
{
  static const struct option long_options[] = {
    { "seconds", required_argument, NULL, 's' },
    { "rounds", required_argument, NULL, 'r' },
    { "verbose", no_argument, NULL, 'v' },
    { "only", required_argument, NULL, 'o' },
    { "inline-loop", required_argument, NULL, 'i' },
    { "slice", required_argument, NULL, 'l' },
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
    case 'l': return counting_slice (optarg);
    default: return usage ();
    }
  if (optind < argc || (only && !exists (only)))
    return usage ();
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
