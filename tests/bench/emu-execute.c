/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a command to the emulated drive costs: ns of processor time per 4 KiB
 * random read and write through emu_execute on a RAM drive, with 1 and 2
 * threads, next to memcpy over as much memory; the median of 5 alternating
 * rounds.  Processor time, so that a busy machine does not count.
 * And what a power cut costs in a sweep: clone, cut, close of a drive of 96 MiB
 * with 64 blocks in its cache.
 *
 *   emu-execute [SIZE-IN-MIB [SECONDS-PER-FIGURE]]
 */
#include <config.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include "base/bytes.h"
#include "base/error.h"
#include "transport/emu/emu.h"

#define BLOCK  4096u
#define ROUNDS 5
#define MAX_THREADS 2

enum what { COPY_READ, DRIVE_READ, COPY_WRITE, DRIVE_WRITE, NR_WHAT };
static const char *const names[NR_WHAT] = {
  "memcpy from", "emu read", "memcpy to", "emu write",
};

static struct emu *emu;
static char *memory;
static uint64_t nr_blocks;
static double seconds = 0.2;

struct worker {
  pthread_t thread;
  enum what what;
  uint64_t random, done;
  double cpu;                   /* seconds of processor time */
};

static double
now (void)
{
  struct timespec ts;

  clock_gettime (CLOCK_MONOTONIC, &ts);
  return (double) ts.tv_sec + (double) ts.tv_nsec / 1e9;
}

static double
cpu_now (void)
{
  struct timespec ts;

  clock_gettime (CLOCK_THREAD_CPUTIME_ID, &ts);
  return (double) ts.tv_sec + (double) ts.tv_nsec / 1e9;
}

static void
command (bool write, uint64_t block, void *buf)
{
  const struct iovec iov = { buf, BLOCK };
  struct sh_command c;

  /* Only the members that count, as a careful caller would. */
  memset (c.cdb, 0, 16);
  c.cdb[0] = write ? 0x8a : 0x88;
  put_be64 (c.cdb + 2, block);
  put_be32 (c.cdb + 10, 1);
  c.cdb_len = 16;
  c.xfer = write ? SH_XFER_TO_DEVICE : SH_XFER_FROM_DEVICE;
  c.iov = &iov;
  c.iovcnt = 1;
  c.data_len = BLOCK;
  c.timeout_ms = 30000;
  if (emu_execute (emu, &c) == -1 || c.status != 0)
    abort ();
}

static void
one (enum what what, uint64_t block, char *buf)
{
  switch (what) {
  case COPY_READ:
    memcpy (buf, memory + block * BLOCK, BLOCK);
    break;
  case COPY_WRITE:
    memcpy (memory + block * BLOCK, buf, BLOCK);
    break;
  default:
    command (what == DRIVE_WRITE, block, buf);
  }
  __asm__ volatile ("" : : "r" (buf) : "memory");
}

static void *
work (void *arg)
{
  struct worker *w = arg;
  static _Thread_local char buf[BLOCK];
  const double end = now () + seconds, cpu = cpu_now ();
  unsigned i;

  do {
    for (i = 0; i < 256; ++i) {
      w->random = w->random * UINT64_C (6364136223846793005) + UINT64_C (1442695040888963407);
      one (w->what, (w->random >> 20) % nr_blocks, buf);
    }
    w->done += 256;
  } while (now () < end);
  w->cpu = cpu_now () - cpu;
  return NULL;
}

/* ns per operation and thread. */
static double
measure (enum what what, unsigned threads)
{
  struct worker w[MAX_THREADS] = { { 0 } };
  double cpu = 0;
  uint64_t done = 0;
  unsigned i;

  for (i = 0; i < threads; ++i) {
    w[i].what = what;
    w[i].random = i + 1;
    pthread_create (&w[i].thread, NULL, work, &w[i]);
  }
  for (i = 0; i < threads; ++i) {
    pthread_join (w[i].thread, NULL);
    done += w[i].done;
    cpu += w[i].cpu;
  }
  return cpu * 1e9 / (double) done;
}

static int
compare (const void *a, const void *b)
{
  const double x = *(const double *) a, y = *(const double *) b;

  return x < y ? -1 : x > y;
}

static void
prepare (uint64_t mib)
{
  struct emu_settings s;
  struct sh_error err = { 0 };
  struct sh_command first = { .cdb_len = 6, .timeout_ms = 1 };
  uint64_t i;
  char buf[BLOCK];

  emu_settings_init (&s);
  s.size_bytes = mib * MiB;
  s.zone_bytes = 16 * MiB;
  s.nr_conv = EMU_CONV_ALL;
  s.lbs_bytes = BLOCK;
  nr_blocks = s.size_bytes / BLOCK;
  if (emu_open_ram (&s, &emu, &err) == -1) {
    fprintf (stderr, "%s\n", err.message);
    exit (EXIT_FAILURE);
  }
  emu_execute (emu, &first);    /* the unit attention */
  memory = mmap (NULL, s.size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memset (buf, 0x5a, sizeof buf);
  for (i = 0; i < nr_blocks; ++i) {
    command (true, i, buf);
    memcpy (memory + i * BLOCK, buf, BLOCK);
  }
}

#define NR_CUTS 2000

static void
measure_cuts (void)
{
  struct emu_settings s;
  struct sh_error err = { 0 };
  struct sh_command first = { .cdb_len = 6, .timeout_ms = 1 };
  char buf[BLOCK] = { 1 };
  double start;
  unsigned i;

  emu_settings_init (&s);
  s.size_bytes = 96 * MiB;
  s.zone_bytes = 4 * MiB;
  s.nr_conv = EMU_CONV_ALL;
  s.lbs_bytes = BLOCK;
  s.cache = EMU_CACHE_TRACKED;
  if (emu_open_ram (&s, &emu, &err) == -1)
    exit (EXIT_FAILURE);
  emu_execute (emu, &first);
  for (i = 0; i < 5000; ++i)
    command (true, i * 3 % 20000, buf);
  emu_power_cut (emu, 0, EMU_CUT_KEEP_ALL, false);
  emu_execute (emu, &first);
  for (i = 0; i < 64; ++i)
    command (true, i * 37, buf);
  start = cpu_now ();
  for (i = 0; i < NR_CUTS; ++i) {
    struct emu *clone = emu_clone (emu);

    emu_power_cut (clone, i, EMU_CUT_RANDOM, false);
    emu_close (clone);
  }
  printf ("clone, power cut, close: %.0f us\n", (cpu_now () - start) * 1e6 / NR_CUTS);
  emu_close (emu);
}

int
main (int argc, char **argv)
{
  double ns[NR_WHAT][MAX_THREADS + 1][ROUNDS];
  unsigned round, threads;
  int what;

  prepare (argc > 1 ? strtoull (argv[1], NULL, 10) : 1024);
  if (argc > 2)
    seconds = atof (argv[2]);
  for (round = 0; round < ROUNDS; ++round)
    for (threads = 1; threads <= MAX_THREADS; ++threads)
      for (what = 0; what < NR_WHAT; ++what)
        ns[what][threads][round] = measure (what, threads);
  printf ("%-12s %14s %14s %16s\n", "4 KiB random", "1 thread", "2 threads", "efficiency");
  for (what = 0; what < NR_WHAT; ++what) {
    double median[MAX_THREADS + 1];

    for (threads = 1; threads <= MAX_THREADS; ++threads) {
      qsort (ns[what][threads], ROUNDS, sizeof (double), compare);
      median[threads] = ns[what][threads][ROUNDS / 2];
    }
    printf ("%-12s %11.0f ns %11.0f ns %14.2f x\n", names[what], median[1], median[2],
            median[1] / median[2]);
  }
  emu_close (emu);
  measure_cuts ();
  return EXIT_SUCCESS;
}
