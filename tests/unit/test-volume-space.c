/* SPDX-License-Identifier: BSD-3-Clause */
/* Space, wake-ups, and what an operation costs: counts, and nobody waits for ever. */
#undef NDEBUG
#include <config.h>
#include <assert.h>
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/bytes.h"
#include "rig.h"
#include "zoned/running.h"

#define BLOCK 4096u

static uint64_t
all_commands (struct rig *rig)
{
  uint64_t n = 0;
  int i;

  pthread_mutex_lock (&rig->guard->lock);
  for (i = 0; i < BDEV_NR_OPS; ++i)
    n += rig->guard->nr_ops[i];
  pthread_mutex_unlock (&rig->guard->lock);
  return n;
}

/* ---- full volumes ---- */

struct writer {
  pthread_t thread;
  struct rig *rig;
  uint64_t seed;
  unsigned count;
};

static void *
write_anywhere (void *opaque)
{
  struct writer *const w = opaque;
  uint8_t buf[BLOCK];
  unsigned i;

  for (i = 0; i < w->count; ++i) {
    w->seed = w->seed * 6364136223846793005u + 1442695040888963407u;
    memset (buf, w->seed >> 40, sizeof buf);
    assert (sh_volume_pwrite (w->rig->v, buf, BLOCK,
                              (w->seed >> 33) % (w->rig->size / BLOCK) * BLOCK, 0, 0) == 0);
  }
  return NULL;
}

/* Every chunk is mapped and full; then 16 writers at random, everywhere.  `random`
   zones for data, and as many zones in all as `seq` sequential ones more. */
static void
full_volume (uint32_t random, uint32_t seq, uint32_t reserved, bool worker)
{
  struct writer w[16];
  struct rig rig;
  uint64_t at;
  unsigned i;

  rig_init (&rig, &(struct rig_config) {
    .drive = { .zone_bytes = 128 * KiB, .nr_zones = 2 + random + seq, .nr_conv = 2 + random },
    .reserved = reserved,
    .worker = worker,
  });
  ck_assert_uint_eq (rig.v->nr_random, random);
  memset (rig.model, 0x5a, rig.size);   /* zeroes would not be stored */
  for (at = 0; at < rig.size; at += 128 * KiB)
    assert (sh_volume_pwrite (rig.v, rig.model, 128 * KiB, at, 0, 0) == 0);
  for (i = 0; i < 16; ++i) {
    w[i] = (struct writer) { .rig = &rig, .seed = i + 1, .count = 80 };
    assert (pthread_create (&w[i].thread, NULL, write_anywhere, &w[i]) == 0);
  }
  for (i = 0; i < 16; ++i)
    pthread_join (w[i].thread, NULL);
  rig_verify_invariants (&rig);
  rig_trim (&rig, 0, rig.size, 0);
  rig_flush (&rig);
  ck_assert_uint_eq (rig_stats (&rig).chunks_mapped, 0);
  for (i = 0; i < 1000 && rig_stats (&rig).seq_free < seq; ++i)
    usleep (10000);             /* the worker may be resetting one */
  ck_assert_uint_eq (rig_stats (&rig).random_free, random);
  /* The one that is being reset is not counted as free meanwhile. */
  for (i = 0; i < 10000 && rig_stats (&rig).seq_free != seq; ++i)
    usleep (1000);
  ck_assert_uint_eq (rig_stats (&rig).seq_free, seq);
  memset (rig.model, 0, rig.size);
  rig_verify_all (&rig);
  rig_free (&rig);
}

START_TEST (a_full_volume_takes_writes_whatever_few_zones_are_free)
{
  const uint32_t random = 1 + _i % 3, reserved = 1 + _i / 3 % 2;

  full_volume (random, 6 + random, MIN (reserved, random + 1), _i % 2);
}
END_TEST

START_TEST (a_drive_of_random_zones_alone_is_no_problem)
{
  full_volume (6, 0, 1, true);
}
END_TEST

/* ---- trim ---- */

START_TEST (a_trim_of_everything_gives_every_zone_back)
{
  struct sh_volume_stats fresh, st;
  struct rig rig;
  uint64_t i;

  rig_init (&rig, &(struct rig_config) { .drive = { .nr_zones = 24, .nr_conv = 8 } });
  fresh = rig_stats (&rig);
  for (i = 0; i < 60; ++i)
    rig_write (&rig, rig_random (&rig, rig.size - 80000), 70000, 0);
  rig_trim (&rig, 0, rig.size, 0);
  rig_flush (&rig);
  st = rig_stats (&rig);
  ck_assert_uint_eq (st.random_free, fresh.random_free);
  ck_assert_uint_eq (st.seq_free, fresh.seq_free);
  rig_verify_all (&rig);
  rig_free (&rig);
}
END_TEST

START_TEST (a_volume_without_data_resets_its_zones_with_one_command)
{
  struct rig rig;
  uint64_t resets;

  rig_init (&rig, &(struct rig_config) {
    .drive = { .nr_zones = 40, .nr_conv = 8, .max_zeroes_bytes = 16 * MiB },
  });
  rig_write (&rig, 0, 20 * rig.zone_bytes, 0);
  rig_trim (&rig, 0, rig.size, SH_FUA);
  resets = rig.guard->nr_ops[BDEV_ZONE_RESET];
  ck_assert_int_eq (sh_volume_reclaim_now (rig.v), 0);
  ck_assert_uint_eq (rig.guard->nr_ops[BDEV_ZONE_RESET], resets + 1);
  ck_assert_uint_eq (rig.v->unreset.count, 0);
  rig_write (&rig, 5 * rig.zone_bytes, 10 * rig.zone_bytes, 0);
  rig_verify_all (&rig);
  rig_free (&rig);
}
END_TEST

static uint64_t test_ns;

static uint64_t
test_now (void *opaque)
{
  return test_ns;
}

static int
slow_reset (struct fake *fake, const struct bdev_req *req, void *opaque)
{
  if (req->op == BDEV_ZONE_RESET)
    test_ns += NS_PER_S;
  return 0;
}

START_TEST (a_close_after_a_large_trim_is_bounded_and_the_rest_is_reset_later)
{
  struct sh_clock clock = sh_clock_monotonic;
  struct rig rig;
  uint64_t resets;
  int i;

  clock.now_ns = test_now;
  rig_init (&rig, &(struct rig_config) {
    .drive = { .nr_zones = 40, .nr_conv = 8 },
    .options.clock = &clock,
    .notes_expected = true,
  });
  rig.fake->hook = slow_reset;
  rig_write (&rig, 0, 24 * rig.zone_bytes, 0);
  rig_flush (&rig);
  resets = rig.guard->nr_ops[BDEV_ZONE_RESET];
  rig_trim (&rig, 0, 20 * rig.zone_bytes, SH_FUA);
  ck_assert_uint_eq (rig.guard->nr_ops[BDEV_ZONE_RESET], resets);
  for (i = 0; i < 4; ++i) {
    const uint64_t before = test_ns;

    rig_close (&rig);
    ck_assert_uint_le (test_ns - before, 6 * NS_PER_S);
    rig_open (&rig);
    rig_verify_all (&rig);
  }
  ck_assert_uint_eq (rig.v->unreset.count, 0);
  rig_write (&rig, 0, 20 * rig.zone_bytes, 0);
  rig_verify_all (&rig);
  rig_free (&rig);
}
END_TEST

START_TEST (chunks_are_unmapped_without_a_look_at_their_bitmaps)
{
  struct rig rig;
  uint64_t reads;

  rig_init (&rig, &(struct rig_config) { .drive = { .nr_zones = 24, .nr_conv = 8 } });
  rig_write (&rig, 0, 4 * rig.zone_bytes, 0);
  rig_write (&rig, 3 * BLOCK, BLOCK, 0);
  rig_reopen (&rig);
  reads = rig.guard->nr_ops[BDEV_READ];
  rig_trim (&rig, 0, rig.size, 0);
  ck_assert_uint_eq (rig.guard->nr_ops[BDEV_READ], reads);
  rig_free (&rig);
}
END_TEST

START_TEST (a_trimmed_chunk_reads_as_zeroes_while_others_read_it)
{
  struct rig rig;
  uint8_t *buf;
  int i;

  rig_init (&rig, &(struct rig_config) { .drive = { .nr_zones = 24, .nr_conv = 8 },
                                         .worker = true });
  buf = malloc (rig.zone_bytes);
  assert (buf != NULL);
  for (i = 0; i < 50; ++i) {
    rig_write (&rig, 0, rig.zone_bytes, 0);
    rig_trim (&rig, 0, rig.zone_bytes, i % 2 ? SH_FUA : 0);
    rig_verify_read (&rig, 0, rig.zone_bytes);
  }
  free (buf);
  rig_free (&rig);
}
END_TEST

/* ---- what it costs ---- */

START_TEST (a_flush_of_nothing_costs_nothing)
{
  struct rig rig;
  uint64_t n;

  rig_init (&rig, &(struct rig_config) { .drive = { .nr_zones = 24, .nr_conv = 8 } });
  n = all_commands (&rig);
  rig_flush (&rig);
  ck_assert_uint_eq (all_commands (&rig), n);
  rig_write (&rig, 0, BLOCK, 0);
  rig_flush (&rig);
  n = all_commands (&rig);
  rig_flush (&rig);
  ck_assert_uint_eq (all_commands (&rig), n);
  /* Data in place, no metadata: one SYNCHRONIZE CACHE. */
  rig_write (&rig, 0, BLOCK, 0);
  rig_flush (&rig);
  ck_assert_uint_eq (all_commands (&rig), n + 2);
  /* With FUA: one write and nothing else. */
  rig_write (&rig, 0, BLOCK, SH_FUA);
  ck_assert_uint_eq (all_commands (&rig), n + 3);
  rig_free (&rig);
}
END_TEST

/* mkfs clears the place of the superblock first and writes it last, after a flush. */
START_TEST (a_block_of_zeroes_that_is_written_later_changes_no_metadata_then)
{
  struct sh_volume_stats st;
  struct rig rig;

  rig_init (&rig, &(struct rig_config) { .drive = { .nr_zones = 24, .nr_conv = 8 } });
  memset (rig.model, 0, 4 * KiB);
  assert (sh_volume_pwrite (rig.v, rig.model, 4 * KiB, 0, 0, 0) == 0);
  rig_write (&rig, 4 * KiB, 16 * KiB, 0);
  rig_flush (&rig);
  st = rig_stats (&rig);
  ck_assert_uint_eq (st.commits, 1);
  rig_write (&rig, 0, 4 * KiB, 0);
  rig_flush (&rig);
  ck_assert_uint_eq (rig_stats (&rig).commits, 1);
  ck_assert_uint_eq (rig_stats (&rig).commit_blocks, st.commit_blocks);
  rig_verify_all (&rig);
  rig_reopen (&rig);
  rig_verify_all (&rig);
  rig_free (&rig);
}
END_TEST

/* A few blocks far behind the start of a chunk make a long copy. */
START_TEST (the_shortest_copy_is_made_first)
{
  struct rig rig;

  rig_init (&rig, &(struct rig_config) { .drive = { .nr_zones = 24, .nr_conv = 8 } });
  rig_write (&rig, rig.zone_bytes + BLOCK, 12 * BLOCK, 0);
  rig_write (&rig, 40 * BLOCK, BLOCK, 0);
  rig_flush (&rig);
  pthread_mutex_lock (&rig.v->lock);
  ck_assert_int_eq (reclaim_cycle (rig.v, RECLAIM_IDLE), 2);
  ck_assert (!is_seq (rig.v, rig.v->map[0].data));
  ck_assert (is_seq (rig.v, rig.v->map[1].data));
  pthread_mutex_unlock (&rig.v->lock);
  rig_verify_all (&rig);
  rig_free (&rig);
}
END_TEST

/* One of a bitmap, one of a superblock. */
START_TEST (a_commit_writes_only_the_physical_blocks_that_changed)
{
  const uint32_t physical = _i ? 4096 : 512;
  struct rig rig;
  uint64_t written;
  int i;

  rig_init (&rig, &(struct rig_config) {
    .drive = { .nr_zones = 24, .nr_conv = 8, .pbs_bytes = physical }
  });
  for (i = 0; i < 4; ++i) {
    written = rig.guard->bytes_written;
    rig_write (&rig, i * BLOCK, BLOCK, 0);
    rig_flush (&rig);
  }
  ck_assert_uint_eq (rig.guard->bytes_written - written, BLOCK + 2 * physical);
  rig_verify_all (&rig);
  rig_reopen (&rig);
  rig_verify_all (&rig);
  rig_free (&rig);
}
END_TEST

static bool
sets_compared (struct rig *rig)
{
  bool so;

  pthread_mutex_lock (&rig->v->lock);
  so = rig->v->trusted;
  pthread_mutex_unlock (&rig->v->lock);
  return so;
}

/* The first who writes and flushes need not wait for that. */
START_TEST (the_sets_are_compared_before_anybody_writes)
{
  struct rig rig;
  uint64_t read;
  int i;

  rig_init (&rig, &(struct rig_config) {
    .drive = { .nr_zones = 24, .nr_conv = 8 }, .worker = true
  });
  for (i = 0; i < 3000 && !sets_compared (&rig); ++i)
    usleep (10000);
  ck_assert (sets_compared (&rig));
  ck_assert_uint_eq (rig.guard->nr_ops[BDEV_WRITE], 0);
  read = rig.guard->bytes_read;
  rig_write (&rig, 0, BLOCK, 0);
  rig_flush (&rig);
  ck_assert_uint_eq (rig.guard->bytes_read, read);
  rig_free (&rig);
}
END_TEST

START_TEST (sets_that_differ_are_left_so_until_somebody_writes)
{
  struct rig rig;

  rig_init (&rig, &(struct rig_config) {
    .drive = { .nr_zones = 24, .nr_conv = 8 }, .worker = true
  });
  rig_close (&rig);
  /* The last entry of the mapping table, which no chunk has. */
  rig.fake->data[(layout_map_block (&rig.l, 1) + 1) * BLOCK - 1] ^= 1;
  rig_open (&rig);
  usleep (300000);
  ck_assert (!sets_compared (&rig));
  ck_assert_uint_eq (rig.guard->nr_ops[BDEV_WRITE], 0);
  rig_write (&rig, 0, BLOCK, 0);
  rig_flush (&rig);
  ck_assert (sets_compared (&rig));
  rig_reopen (&rig);
  rig_verify_all (&rig);
  rig_free (&rig);
}
END_TEST

START_TEST (a_commit_costs_one_synchronize_cache)
{
  struct rig rig;
  uint64_t syncs;
  int i;

  rig_init (&rig, &(struct rig_config) { .drive = { .nr_zones = 24, .nr_conv = 8 } });
  rig_write (&rig, 0, BLOCK, 0);
  rig_flush (&rig);
  syncs = rig.guard->nr_ops[BDEV_FLUSH];
  for (i = 1; i < 20; ++i) {
    rig_write (&rig, i * BLOCK, BLOCK, 0);
    rig_flush (&rig);
  }
  ck_assert_uint_eq (rig.guard->nr_ops[BDEV_FLUSH] - syncs, 19);
  rig_free (&rig);
}
END_TEST

/* The first flush takes until all have asked for theirs. */
static atomic_uint about_to_flush;

static int
slow_flush (struct guard *g, struct bdev_req *req, void *opaque)
{
  unsigned i;

  for (i = 0; req->op == BDEV_FLUSH && i < 20000 && about_to_flush < 16; ++i)
    usleep (1000);
  if (req->op == BDEV_FLUSH)
    usleep (20000);
  return 0;
}

static void *
write_and_flush (void *opaque)
{
  struct writer *const w = opaque;
  uint8_t buf[BLOCK] = { 7 };

  assert (sh_volume_pwrite (w->rig->v, buf, BLOCK, w->seed * BLOCK, 0, 0) == 0);
  about_to_flush++;
  assert (sh_volume_flush (w->rig->v) == 0);
  return NULL;
}

START_TEST (sixteen_flushes_at_once_share_few_commits)
{
  struct writer w[16];
  struct rig rig;
  uint64_t i;

  rig_init (&rig, &(struct rig_config) { .drive = { .nr_zones = 24, .nr_conv = 8 } });
  rig.guard->fault = slow_flush;
  about_to_flush = 0;
  for (i = 0; i < 16; ++i) {
    w[i] = (struct writer) { .rig = &rig, .seed = i };
    assert (pthread_create (&w[i].thread, NULL, write_and_flush, &w[i]) == 0);
  }
  for (i = 0; i < 16; ++i)
    pthread_join (w[i].thread, NULL);
  ck_assert_uint_le (rig.guard->nr_ops[BDEV_FLUSH], 8);
  for (i = 0; i < 16; ++i) {
    memset (rig.model + i * BLOCK, 0, BLOCK);
    rig.model[i * BLOCK] = 7;
  }
  rig_verify_all (&rig);
  rig_free (&rig);
}
END_TEST

START_TEST (probes_are_reclaim_cycles_and_nothing_else)
{
  struct sh_volume_stats st;
  struct writer w[4];
  struct rig rig;
  unsigned i;

  rig_init (&rig, &(struct rig_config) {
    .drive = { .zone_bytes = 128 * KiB, .nr_zones = 24, .nr_conv = 8 },
    .worker = true,
  });
  for (i = 0; i < 4; ++i) {
    w[i] = (struct writer) { .rig = &rig, .seed = i + 1, .count = 600 };
    assert (pthread_create (&w[i].thread, NULL, write_anywhere, &w[i]) == 0);
  }
  for (i = 0; i < 4; ++i)
    pthread_join (w[i].thread, NULL);
  sh_volume_reclaim_pause (rig.v, true);
  while (pthread_mutex_lock (&rig.v->lock), rig.v->reclaiming) {
    pthread_mutex_unlock (&rig.v->lock);
    usleep (1000);
  }
  pthread_mutex_unlock (&rig.v->lock);
  st = rig_stats (&rig);
  ck_assert_uint_gt (st.reclaim_cycles, 100);
  ck_assert_uint_eq (st.probes, st.reclaim_cycles);
  ck_assert_uint_eq (rig.guard->nr_ops[BDEV_PROBE], st.probes);
  rig_verify_invariants (&rig);
  sh_volume_close (rig.v, &(struct sh_error) { 0 });
  rig.v = NULL;
  rig_free (&rig);
}
END_TEST

START_TEST (an_idle_volume_sends_nothing)
{
  struct rig rig;
  uint64_t n;
  int i;

  rig_init (&rig, &(struct rig_config) { .drive = { .nr_zones = 24, .nr_conv = 8 },
                                         .worker = true });
  rig_write (&rig, 0, BLOCK, 0);
  /* After a quiet second it commits by itself and makes the sets equal. */
  for (i = 0; i < 100; ++i) {
    usleep (100000);
    pthread_mutex_lock (&rig.v->lock);
    if (!commit_needed_locked (rig.v) && !sets_differ_locked (rig.v) &&
        !rig.v->committing_now)
      i = 1000;
    pthread_mutex_unlock (&rig.v->lock);
  }
  ck_assert_int_ge (i, 1000);
  n = all_commands (&rig);
  usleep (700000);
  ck_assert_uint_eq (all_commands (&rig), n);
  rig_free (&rig);
}
END_TEST

/* ---- extents ---- */

struct seen {
  uint64_t next, data;
  int nr;
};

static int
see (void *opaque, uint64_t offset, uint64_t length, bool hole)
{
  struct seen *const s = opaque;

  assert (offset == s->next && length > 0);
  s->next += length;
  s->data += hole ? 0 : length;
  s->nr++;
  return 0;
}

static int
stop_at_once (void *opaque, uint64_t offset, uint64_t length, bool hole)
{
  ++*(int *) opaque;
  return 1;
}

START_TEST (extents_cover_the_range_and_nothing_else)
{
  struct seen s = { .next = 1000 };
  struct rig rig;
  int calls = 0;

  rig_init (&rig, &(struct rig_config) { .drive = { .nr_zones = 24, .nr_conv = 8 } });
  rig_write (&rig, 0, 3 * rig.zone_bytes, 0);
  rig_write (&rig, 6 * rig.zone_bytes + 5 * BLOCK, 2 * BLOCK, 0);
  rig_trim (&rig, 8 * BLOCK, BLOCK, 0);
  rig_write (&rig, 9 * BLOCK, BLOCK, 0);        /* from data zone to buffer zone */
  ck_assert_int_eq (sh_volume_extents (rig.v, rig.size - 2000, 1000, see, &s), 0);
  ck_assert_uint_eq (s.next, rig.size - 1000);
  ck_assert_uint_eq (s.data, 3 * rig.zone_bytes - 1000 - BLOCK + 2 * BLOCK);
  ck_assert_int_eq (s.nr, 6);
  ck_assert_int_eq (sh_volume_extents (rig.v, rig.size, 0, stop_at_once, &calls), 0);
  ck_assert_int_eq (calls, 1);
  ck_assert_int_eq (sh_volume_extents (rig.v, 0, rig.size, see, &s), 0);
  ck_assert_int_eq (sh_volume_extents (rig.v, 1, rig.size, see, &s), -1);
  ck_assert_int_eq (errno, EINVAL);
  rig_free (&rig);
}
END_TEST

START_TEST (ranges_outside_the_volume_are_refused)
{
  uint8_t buf[16];
  struct rig rig;

  rig_init (&rig, &(struct rig_config) { .drive = { .nr_zones = 24, .nr_conv = 8 } });
  ck_assert_int_eq (sh_volume_pread (rig.v, buf, 0, rig.size, 0), 0);
  ck_assert_int_eq (sh_volume_pwrite (rig.v, buf, 0, rig.size, 0, 0), 0);
  ck_assert_int_eq (sh_volume_trim (rig.v, 0, rig.size, 0), 0);
  ck_assert_int_eq (sh_volume_zero (rig.v, 0, 17, 0), 0);
  ck_assert_int_eq (sh_volume_pread (rig.v, buf, 2, rig.size - 1, 0), -1);
  ck_assert_int_eq (errno, EINVAL);
  ck_assert_int_eq (sh_volume_pwrite (rig.v, buf, 2, rig.size - 1, 0, 0), -1);
  ck_assert_int_eq (errno, ENOSPC);
  ck_assert_int_eq (sh_volume_zero (rig.v, UINT64_MAX, 5, 0), -1);
  ck_assert_int_eq (sh_volume_trim (rig.v, UINT64_MAX, 5, 0), -1);
  ck_assert_int_eq (sh_volume_zero (rig.v, 100, 5, SH_FAST), -1);
  ck_assert_int_eq (errno, ENOTSUP);
  ck_assert_int_eq (sh_volume_zero (rig.v, 9000, 5, SH_FAST), 0);
  rig_free (&rig);
}
END_TEST

int
main (void)
{
  Suite *const s = suite_create ("volume-space");
  TCase *const t = tcase_create ("space");

  tcase_add_loop_test (t, a_full_volume_takes_writes_whatever_few_zones_are_free, 0, 6);
  tcase_add_test (t, a_drive_of_random_zones_alone_is_no_problem);
  tcase_add_test (t, a_trim_of_everything_gives_every_zone_back);
  tcase_add_test (t, a_volume_without_data_resets_its_zones_with_one_command);
  tcase_add_test (t, a_close_after_a_large_trim_is_bounded_and_the_rest_is_reset_later);
  tcase_add_test (t, chunks_are_unmapped_without_a_look_at_their_bitmaps);
  tcase_add_test (t, a_trimmed_chunk_reads_as_zeroes_while_others_read_it);
  tcase_add_test (t, a_flush_of_nothing_costs_nothing);
  tcase_add_test (t, a_block_of_zeroes_that_is_written_later_changes_no_metadata_then);
  tcase_add_test (t, the_shortest_copy_is_made_first);
  tcase_add_loop_test (t, a_commit_writes_only_the_physical_blocks_that_changed, 0, 2);
  tcase_add_test (t, the_sets_are_compared_before_anybody_writes);
  tcase_add_test (t, sets_that_differ_are_left_so_until_somebody_writes);
  tcase_add_test (t, a_commit_costs_one_synchronize_cache);
  tcase_add_test (t, sixteen_flushes_at_once_share_few_commits);
  tcase_add_test (t, probes_are_reclaim_cycles_and_nothing_else);
  tcase_add_test (t, an_idle_volume_sends_nothing);
  tcase_add_test (t, extents_cover_the_range_and_nothing_else);
  tcase_add_test (t, ranges_outside_the_volume_are_refused);
  suite_add_tcase (s, t);
  return run_suite (s);
}
