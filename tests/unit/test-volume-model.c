/* SPDX-License-Identifier: BSD-3-Clause */
/* Random work on a volume against a model of its content.  SHINGLE_SEED: other work;
   SHINGLE_STEPS_TIMES: so many times as long. */
#undef NDEBUG
#include <config.h>
#include <assert.h>
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/bytes.h"
#include "rig.h"

static void
random_range (struct rig *rig, uint64_t max, uint64_t *offset, uint64_t *count)
{
  *offset = rig_random (rig, rig->size);
  *count = rig_random (rig, MIN (max, rig->size - *offset)) + 1;
  switch (rig_random (rig, 4)) {
  case 0:                       /* any byte */
    return;
  case 1:                       /* sectors */
    *offset &= ~UINT64_C (511);
    *count = MAX (512u, *count & ~UINT64_C (511));
    return;
  default:                      /* blocks */
    *offset &= ~UINT64_C (4095);
    *count = MAX (4096u, *count & ~UINT64_C (4095));
  }
}

/* The next piece of a stream that starts anew at a random chunk now and then. */
static void
stream_step (struct rig *rig, uint64_t *at)
{
  uint64_t n = (rig_random (rig, 24) + 1) * 4096;

  if (*at >= rig->size || rig_random (rig, 40) == 0)
    *at = rig_random (rig, rig->size / rig->zone_bytes) * rig->zone_bytes;
  n = MIN (n, rig->size - *at);
  rig_write (rig, *at, n, 0);
  *at += n;
}

static void
step (struct rig *rig, uint64_t *stream)
{
  uint64_t offset, count;

  switch (rig_random (rig, 20)) {
  case 0 ... 4:
    random_range (rig, 64 * KiB, &offset, &count);
    rig_write (rig, offset, count, 0);
    break;
  case 5:
    random_range (rig, 16 * KiB, &offset, &count);
    rig_write (rig, offset, count, SH_FUA);
    break;
  case 6 ... 11:
    stream_step (rig, stream);
    break;
  case 12:
    random_range (rig, 512 * KiB, &offset, &count);
    rig_trim (rig, offset, count, 0);
    break;
  case 13:
    random_range (rig, 128 * KiB, &offset, &count);
    rig_zero (rig, offset, count, rig_random (rig, 2) ? SH_FUA : 0);
    break;
  case 14:
    rig_flush (rig);
    break;
  case 15:
    if (rig_random (rig, 4) == 0)
      assert (sh_volume_reclaim_now (rig->v) == 0);
    break;
  case 16:
    if (rig_random (rig, 8) == 0)
      rig_reopen (rig);
    break;
  default:
    random_range (rig, 256 * KiB, &offset, &count);
    rig_verify_read (rig, offset, count);
  }
}

static void
work (const struct rig_config *config, int steps)
{
  const char *const times = getenv ("SHINGLE_STEPS_TIMES");
  struct rig rig;
  uint64_t stream = 0;
  int i;

  if (times != NULL)
    steps *= atoi (times);
  rig_init (&rig, config);
  for (i = 0; i < steps; ++i) {
    step (&rig, &stream);
    rig_verify_invariants (&rig);
    if (i % 100 == 99)
      rig_verify_all (&rig);
  }
  rig_verify_all (&rig);
  rig_reopen (&rig);
  rig_verify_all (&rig);
  rig_free (&rig);
}

START_TEST (random_work_reads_back_as_written)
{
  work (&(struct rig_config) {
    .drive = { .nr_zones = 24, .nr_conv = 8, .no_urswrz = true },
  }, 4000);
}
END_TEST

START_TEST (the_same_with_one_free_random_zone_and_reserve_1)
{
  work (&(struct rig_config) {
    .drive = { .nr_zones = 14, .nr_conv = 3 },
    .reserved = 1,
  }, 3000);
}
END_TEST

START_TEST (the_same_on_4kn_without_fua)
{
  work (&(struct rig_config) {
    .drive = { .nr_zones = 20, .nr_conv = 6, .lbs_bytes = 4096 },
    .no_fua = true,
  }, 2000);
}
END_TEST

START_TEST (the_same_with_a_cache_of_few_bitmaps)
{
  work (&(struct rig_config) {
    .drive = { .zone_bytes = 64 * KiB, .nr_zones = 200, .nr_conv = 60 },
    .reserved = 8,
    .options = { .cache_bytes = 1 },
  }, 3000);
}
END_TEST

int
main (void)
{
  Suite *const s = suite_create ("volume-model");
  TCase *const t = tcase_create ("model");

  tcase_add_test (t, random_work_reads_back_as_written);
  tcase_add_test (t, the_same_with_one_free_random_zone_and_reserve_1);
  tcase_add_test (t, the_same_on_4kn_without_fua);
  tcase_add_test (t, the_same_with_a_cache_of_few_bitmaps);
  suite_add_tcase (s, t);
  return run_suite (s);
}
