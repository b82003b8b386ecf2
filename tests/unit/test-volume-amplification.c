/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What reaches the drive, counted by the drive, for workloads that the kernel's
 * dm-zoned was measured with on a drive of the same shape (768 MiB, zones of
 * 16 MiB, 12 of them conventional, sectors of 512 bytes, default reserve).
 *
 * SHINGLE_BENCH=1 adds the long workload; the table is printed in any case.
 */
#undef NDEBUG
#include <config.h>
#include <assert.h>
#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/bytes.h"
#include "base/error.h"
#include "emu-volume.h"

#define START (300 * MiB)

struct counts {
  uint64_t writes, write_bytes, reads, read_bytes, syncs, resets, probes;
};

static uint64_t
both (struct emu *emu, const char *a, const char *b)
{
  return emu_counter (emu, a) + emu_counter (emu, b);
}

static struct counts
count (struct emu *emu)
{
  return (struct counts) {
    both (emu, "write-10", "write-16"), emu_counter (emu, "written-bytes"),
    both (emu, "read-10", "read-16"), emu_counter (emu, "read-bytes"),
    both (emu, "synchronize-cache-10", "synchronize-cache-16"),
    emu_counter (emu, "zones-reset"), emu_counter (emu, "test-unit-ready"),
  };
}

/* ---- work, queue depth as threads ---- */

struct job {
  struct sh_volume *v;
  uint64_t next, total;         /* bytes; next is atomic */
  uint64_t range;               /* random: over so many bytes; 0: in order */
  size_t size;                  /* of a request */
  unsigned flush_every;
  uint64_t seed;
  bool read;
};

static uint64_t
mix (uint64_t x)
{
  x = (x ^ (x >> 30)) * UINT64_C (0xbf58476d1ce4e5b9);
  x = (x ^ (x >> 27)) * UINT64_C (0x94d049bb133111eb);
  return x ^ (x >> 31);
}

static void *
job_main (void *opaque)
{
  struct job *const j = opaque;
  uint8_t *const buf = aligned_alloc (4096, j->size);

  assert (buf != NULL);
  memset (buf, 0x77, j->size);
  for (;;) {
    const uint64_t n = __atomic_fetch_add (&j->next, j->size, __ATOMIC_RELAXED);
    const uint64_t at = START + (j->range == 0 ? n :
      mix (j->seed + n) % (j->range / j->size) * j->size);

    if (n >= j->total)
      break;
    if (j->read)
      assert (sh_volume_pread (j->v, buf, j->size, at, 0) == 0);
    else
      assert (sh_volume_pwrite (j->v, buf, j->size, at, 0, 0) == 0);
    if (j->flush_every && (n / j->size + 1) % j->flush_every == 0)
      assert (sh_volume_flush (j->v) == 0);
  }
  free (buf);
  return NULL;
}

static struct counts
run (struct emu *emu, const char *what, struct job job, unsigned depth)
{
  const struct counts before = count (emu);
  pthread_t t[16];
  struct counts c;
  unsigned i;

  for (i = 0; i < depth; ++i)
    assert (pthread_create (&t[i], NULL, job_main, &job) == 0);
  for (i = 0; i < depth; ++i)
    pthread_join (t[i], NULL);
  assert (sh_volume_flush (job.v) == 0);
  c = count (emu);
  c.writes -= before.writes;
  c.write_bytes -= before.write_bytes;
  c.reads -= before.reads;
  c.read_bytes -= before.read_bytes;
  c.syncs -= before.syncs;
  c.resets -= before.resets;
  c.probes -= before.probes;
  printf ("%-34s %8llu writes %9.1f MB (%7.2f x) %9.1f MB read %6llu syncs %5llu resets "
          "%4llu probes\n", what, (unsigned long long) c.writes, c.write_bytes / 1e6,
          job.read ? 0. : (double) c.write_bytes / job.total, c.read_bytes / 1e6,
          (unsigned long long) c.syncs, (unsigned long long) c.resets,
          (unsigned long long) c.probes);
  fflush (stdout);
  return c;
}

START_TEST (no_more_reaches_the_drive_than_must)
{
  static const char *const shape[] = {
    "dev_size_mb=768", "zone_size_mb=16", "zone_nr_conv=12", "lbs=512", NULL
  };
  const struct sh_volume_options o = { 0 };
  struct emu *const emu = emu_drive (shape);
  struct sh_error err = { 0 };
  struct sh_volume *v;
  struct counts c;

  emu_format (emu, 0);
  v = emu_volume (emu, &o, true);
  c = run (emu, "sequential write, 256 MiB, depth 8",
           (struct job) { v, 0, 256 * MiB, 0, 256 * KiB, 0, 0, false }, 8);
  ck_assert_uint_le (c.write_bytes, 256 * MiB * 105 / 100);
  c = run (emu, "random overwrite, 2 MiB, depth 16",
           (struct job) { v, 0, 2 * MiB, 256 * MiB, 4 * KiB, 0, 1, false }, 16);
  ck_assert_uint_le (c.write_bytes, UINT64_C (2373000000));
  if (getenv ("SHINGLE_BENCH") != NULL) {
    c = run (emu, "random overwrite, 64 MiB, depth 16",
             (struct job) { v, 0, 64 * MiB, 256 * MiB, 4 * KiB, 0, 2, false }, 16);
    ck_assert_uint_le (c.write_bytes, UINT64_C (76600000000));
  }
  /* Reclaim has done its work and does none meanwhile: on a slow machine it would fall
     into this by the clock. */
  ck_assert_int_eq (sh_volume_reclaim_now (v), 0);
  sh_volume_reclaim_pause (v, true);
  c = run (emu, "random write, 8 MiB, fsync every 8",
           (struct job) { v, 0, 8 * MiB, 32 * MiB, 4 * KiB, 8, 3, false }, 1);
  ck_assert_uint_le (c.write_bytes, UINT64_C (10700000));
  ck_assert_uint_le (c.syncs, 2 * 257);
  sh_volume_reclaim_pause (v, false);
  c = run (emu, "random read, 8 MiB, depth 16",
           (struct job) { v, 0, 8 * MiB, 256 * MiB, 4 * KiB, 0, 4, true }, 16);
  ck_assert_uint_eq (c.probes, 0);
  ck_assert_int_eq (sh_volume_close (v, &err), 0);
  emu_close (emu);
}
END_TEST

int
main (void)
{
  Suite *const s = suite_create ("volume-amplification");
  TCase *const t = tcase_create ("counts");

  tcase_add_test (t, no_more_reaches_the_drive_than_must);
  suite_add_tcase (s, t);
  return run_suite (s);
}
