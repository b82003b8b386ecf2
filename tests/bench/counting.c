/* SPDX-License-Identifier: BSD-3-Clause */
/* What counting costs: this program and the same one with a core/mq that does without all
   counters that nothing is decided by (core/mq/count.h), a slice each in turn.  What a request
   that starts at once is counted by tells also what is in flight: nothing to be left out. */
#include <config.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/bytes.h"
#include "base/bdev.h"
#include "pairs.h"

static struct set_up set_ups[] = {
  { .name = "at-once", .queues = 1, .tags = 128, .hwqs = 1, .submitters = 1, .depth = 16,
    .batch = 1, .at_once = true, .units = 1 },
  { .name = "queued", .queues = 1, .tags = 32, .hwqs = 24, .submitters = 24, .depth = 32,
    .batch = 16, .latency_ns = 0, .units = 32 },
};

static void
write_everything (struct bdev *bdev)
{
  static char buf[1 << 20];
  uint64_t at;

  memset (buf, 'x', sizeof buf);
  for (at = 0; at < 16 * MiB; at += sizeof buf)
    if (bdev_write (bdev, buf, sizeof buf, at, 0) == -1)
      abort ();
}

int
counting_slice (const char *name)
{
  struct measured m;
  size_t i;

  for (i = 0; i < ARRAY_SIZE (set_ups); ++i)
    if (strcmp (name, set_ups[i].name) == 0)
      break;
  if (i == ARRAY_SIZE (set_ups))
    return 2;
  if (set_ups[i].at_once) {
    set_ups[i].bdev = open_emulated_drive (DRIVE);
    if (set_ups[i].bdev == NULL)
      return 1;
    write_everything (set_ups[i].bdev);
  }
  measure (&set_ups[i], &m);
  printf ("%.9f %.9f %llu\n", m.r.seconds, m.r.cpu_seconds, (unsigned long long) m.r.done);
  if (set_ups[i].bdev)
    bdev_close (set_ups[i].bdev);
  return 0;
}

static void
measure_in_program (const struct set_up *u, struct measured *m)
{
  unsigned long long done;
  char command[1200];
  FILE *fp;

  snprintf (command, sizeof command, "'%s' --seconds=%f --slice=%s", u->program, seconds,
            u->name);
  memset (m, 0, sizeof *m);
  fp = popen (command, "r");
  if (fp == NULL || fscanf (fp, "%lf %lf %llu", &m->r.seconds, &m->r.cpu_seconds, &done) != 3) {
    fprintf (stderr, "%s: gives no result\n", command);
    exit (1);
  }
  pclose (fp);
  m->r.done = done;
}

void
counting (void)
{
  static const char *const what[] = {
    "counting / not, 4 KiB from the emulated drive", "counting / not, queued requests"
  };
  char self[512], other[600];
  ssize_t n = readlink ("/proc/self/exe", self, sizeof self - 1);
  size_t i;

  if (n <= 0)
    return;
  self[n] = '\0';
  snprintf (other, sizeof other, "%.*s/mq-bench-uncounted",
            (int) (strrchr (self, '/') - self), self);
  for (i = 0; i < ARRAY_SIZE (set_ups); ++i) {
    struct set_up with = set_ups[i], without = set_ups[i];
    struct pair p;

    with.program = self;
    without.program = other;
    compare_by (measure_in_program, &with, measure_in_program, &without, &p);
    line (what[i], p.a, p.b, p.ratio, ">= 0.98", p.ratio >= 0.98);
    by_cpu (&p);
  }
}
