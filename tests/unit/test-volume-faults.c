/* SPDX-License-Identifier: BSD-3-Clause */
/* Drives that fail under a running volume. */
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

static const struct rig_config small = {
  .drive = { .nr_zones = 24, .nr_conv = 8 },
};

/* ---- faults ---- */

struct fault {
  enum bdev_op op;
  int errnum;
  int skip, count;              /* spare so many first, then fail so many; -1: all */
  uint64_t from, to;            /* bytes; to 0: anywhere */
  uint64_t done_bytes;          /* of a failed write */
  bool everything;              /* any command */
  bool gone_then;               /* everything, once those to spare are through */
};

static int
fault_fn (struct guard *g, struct bdev_req *req, void *opaque)
{
  struct fault *const f = opaque;

  if (!f->everything && req->op != f->op)
    return 0;
  if (f->to > 0 && (req->off_bytes >= f->to || req->off_bytes + req->len_bytes <= f->from))
    return 0;
  if (f->skip > 0) {
    if (__atomic_sub_fetch (&f->skip, 1, __ATOMIC_RELAXED) <= 0 && f->gone_then)
      __atomic_store_n (&f->everything, true, __ATOMIC_RELAXED);
    return 0;
  }
  if (f->count == 0)
    return 0;
  if (f->count > 0)
    f->count--;
  req->done_bytes = MIN (f->done_bytes, req->len_bytes);
  errno = f->errnum;
  return -1;
}

static void
inject (struct rig *rig, struct fault *f)
{
  rig->guard->opaque = f;
  rig->guard->fault = fault_fn;
}

static uint32_t
data_zone (struct rig *rig, uint32_t c)
{
  return rig->v->map[c].data;
}

/* Chunk c gets a stream of `blocks` blocks, straight into a sequential zone. */
static void
stream (struct rig *rig, uint32_t c, uint32_t blocks)
{
  rig_write (rig, c * rig->zone_bytes, (uint64_t) blocks * BLOCK, 0);
  assert (rig->v->zones[data_zone (rig, c)].flags & RZ_SEQ);
  assert (rig->v->zones[data_zone (rig, c)].wp == blocks);
}

/* ---- writes that fail ---- */

START_TEST (the_rest_of_a_failed_append_goes_elsewhere_and_nobody_else_fails)
{
  struct fault f = { .op = BDEV_WRITE, .errnum = ENODATA, .skip = 1, .count = 1,
                     .done_bytes = 8 * BLOCK };
  struct rig rig;
  uint64_t reports;
  int i;

  rig_init (&rig, &small);
  reports = rig.guard->nr_reports;
  stream (&rig, 0, 16);
  inject (&rig, &f);
  for (i = 1; i < 4; ++i)
    rig_write (&rig, i * 16 * BLOCK, 16 * BLOCK, 0);
  ck_assert_int_eq (f.count, 0);
  rig_verify_all (&rig);
  ck_assert_uint_eq (rig.guard->nr_reports, reports);
  rig_flush (&rig);
  ck_assert_int_eq (sh_volume_reclaim_now (rig.v), 0);
  rig_verify_all (&rig);
  rig_free (&rig);
}
END_TEST

START_TEST (a_write_pointer_in_the_middle_of_a_block_is_left_alone)
{
  struct fault f = { .op = BDEV_WRITE, .errnum = EIO, .skip = 1, .count = 1,
                     .done_bytes = 3 * BLOCK + 512 };
  struct rig rig;

  rig_init (&rig, &small);
  stream (&rig, 0, 16);
  inject (&rig, &f);
  rig_write (&rig, 16 * BLOCK, 16 * BLOCK, 0);
  rig_write (&rig, 32 * BLOCK, 16 * BLOCK, 0);
  rig_verify_all (&rig);
  rig_reopen (&rig);
  rig_verify_all (&rig);
  rig_write (&rig, 48 * BLOCK, 16 * BLOCK, 0);
  rig_verify_all (&rig);
  rig_free (&rig);
}
END_TEST

START_TEST (a_zone_that_was_reset_behind_our_back_is_found_out_by_one_report)
{
  struct rig rig;
  uint64_t reports;

  rig_init (&rig, &small);
  stream (&rig, 0, 32);
  stream (&rig, 1, 32);
  rig.guard->lenient = true;
  fake_set_wp (rig.fake, data_zone (&rig, 0), 4 * BLOCK);
  reports = rig.guard->nr_reports;
  rig_write (&rig, 32 * BLOCK, 8 * BLOCK, 0);
  ck_assert_uint_eq (rig.guard->nr_reports, reports + 1);
  memset (rig.model + 4 * BLOCK, 0, 28 * BLOCK);        /* lost, and said so */
  rig_verify_all (&rig);
  rig_free (&rig);
}
END_TEST

START_TEST (what_somebody_else_appended_is_not_taken_for_ours)
{
  struct rig rig;

  rig_init (&rig, &small);
  stream (&rig, 0, 32);
  rig.guard->lenient = true;
  fake_set_wp (rig.fake, data_zone (&rig, 0), 34 * BLOCK);
  rig_write (&rig, 32 * BLOCK, 8 * BLOCK, 0);
  rig_write (&rig, 40 * BLOCK, 8 * BLOCK, 0);
  rig_verify_all (&rig);
  rig_free (&rig);
}
END_TEST

START_TEST (a_zone_that_turns_read_only_keeps_its_data_and_takes_no_more)
{
  struct rig rig;
  uint32_t z;

  rig_init (&rig, &small);
  stream (&rig, 0, 32);
  z = data_zone (&rig, 0);
  fake_set_cond (rig.fake, z, ZONE_READ_ONLY);
  rig_write (&rig, 32 * BLOCK, 8 * BLOCK, 0);
  rig_write (&rig, 2 * BLOCK, BLOCK, 0);
  rig_verify_all (&rig);
  ck_assert_int_eq (sh_volume_reclaim_now (rig.v), 0);
  ck_assert_uint_ne (data_zone (&rig, 0), z);
  ck_assert_uint_eq (rig.v->zones[z].state, ZS_UNUSABLE);
  rig_verify_all (&rig);
  fake_set_cond (rig.fake, z, ZONE_EMPTY);
  fake_set_wp (rig.fake, z, 0);
  rig_free (&rig);
}
END_TEST

START_TEST (an_offline_zone_costs_its_chunk_alone)
{
  uint8_t buf[BLOCK];
  struct rig rig;
  uint32_t z;

  rig_init (&rig, &small);
  stream (&rig, 0, 64);
  stream (&rig, 1, 64);
  rig_flush (&rig);
  z = data_zone (&rig, 0);
  fake_set_cond (rig.fake, z, ZONE_OFFLINE);
  ck_assert_int_eq (sh_volume_pread (rig.v, buf, BLOCK, 0, 0), -1);
  ck_assert_int_eq (errno, EIO);
  rig_verify_read (&rig, rig.zone_bytes, rig.zone_bytes);
  rig_write (&rig, rig.zone_bytes + 5, 6000, 0);
  rig_write (&rig, 2 * rig.zone_bytes, 6000, SH_FUA);
  rig_verify_read (&rig, rig.zone_bytes, 2 * rig.zone_bytes);
  ck_assert (!rig_stats (&rig).dying);
  fake_set_cond (rig.fake, z, ZONE_FULL);
  rig_verify_all (&rig);
  rig_free (&rig);
}
END_TEST

/* ---- flushes that fail ---- */

START_TEST (every_flush_fails_until_the_data_is_safe)
{
  struct fault f = { .op = BDEV_FLUSH, .errnum = EIO, .count = 3 };
  struct rig rig;
  int i;

  rig_init (&rig, &small);
  rig_write (&rig, 5 * BLOCK, BLOCK, 0);
  inject (&rig, &f);
  for (i = 0; i < 3; ++i) {
    ck_assert_int_eq (sh_volume_flush (rig.v), -1);
    ck_assert_int_eq (errno, EIO);
  }
  ck_assert_int_eq (sh_volume_flush (rig.v), 0);
  rig_verify_all (&rig);
  /* The same for data alone, without metadata. */
  rig_write (&rig, 5 * BLOCK, BLOCK, 0);
  f.count = 2;
  ck_assert_int_eq (sh_volume_flush (rig.v), -1);
  ck_assert_int_eq (sh_volume_flush (rig.v), -1);
  ck_assert_int_eq (sh_volume_flush (rig.v), 0);
  /* And for FUA.  (Zeroes into a hole would change nothing.) */
  f.count = 1;
  memcpy (rig.model + BLOCK, rig.model + 5 * BLOCK, BLOCK);
  ck_assert_int_eq (sh_volume_pwrite (rig.v, rig.model + BLOCK, BLOCK, BLOCK, SH_FUA, 0), -1);
  ck_assert_int_eq (sh_volume_flush (rig.v), 0);
  rig_verify_all (&rig);
  rig_free (&rig);
}
END_TEST

START_TEST (a_superblock_of_unknown_fate_is_written_again_before_anything_else)
{
  struct fault f = { .op = BDEV_WRITE, .errnum = EIO };
  struct rig rig;
  uint64_t set[2], gen;
  int i;

  rig_init (&rig, &small);
  rig_write (&rig, 0, BLOCK, 0);
  rig_flush (&rig);
  for (i = 0; i < 2; ++i)
    set[i] = layout_set_block (&rig.l, i) * BLOCK;
  inject (&rig, &f);
  for (i = 0; i < 4; ++i) {
    gen = rig_stats (&rig).generation;
    f.from = set[!rig.v->cur];
    f.to = f.from + BLOCK;
    f.count = 1 + i % 2;
    rig_write (&rig, (i + 1) * rig.zone_bytes, 3 * BLOCK, 0);
    ck_assert_int_eq (sh_volume_flush (rig.v), -1);
    if (i % 2)
      ck_assert_int_eq (sh_volume_flush (rig.v), -1);
    rig_write (&rig, (i + 1) * rig.zone_bytes + 10 * BLOCK, 3 * BLOCK, 0);
    rig_flush (&rig);
    ck_assert_uint_ge (rig_stats (&rig).generation, gen + 1);
    rig_verify_all (&rig);
  }
  rig_reopen (&rig);
  rig_verify_all (&rig);
  rig_free (&rig);
}
END_TEST

/* ---- a drive that is gone ---- */

struct client {
  pthread_t thread;
  struct rig *rig;
  uint64_t seed;
  int errnum;
};

static void *
write_until_error (void *opaque)
{
  struct client *const c = opaque;
  uint8_t buf[BLOCK] = { 1 };

  for (;;) {
    c->seed = c->seed * 6364136223846793005u + 1442695040888963407u;
    if (sh_volume_pwrite (c->rig->v, buf, BLOCK,
                          (c->seed >> 33) % (c->rig->size / BLOCK) * BLOCK, 0, 0) == -1) {
      c->errnum = errno;
      return NULL;
    }
  }
}

static uint64_t
all_commands (struct rig *rig)
{
  uint64_t n = 0;
  int i;

  for (i = 0; i < BDEV_NR_OPS; ++i)
    n += rig->guard->nr_ops[i];
  return n;
}

/* Eight writers; the drive goes away at the n-th command of a kind. */
static void
lose_drive (enum bdev_op op, int skip)
{
  struct fault f = {
    .op = op, .errnum = ENODEV, .skip = skip, .count = -1, .gone_then = true
  };
  struct sh_error err = { 0 };
  struct sh_volume_stats st;
  struct client c[8];
  struct rig rig;
  uint64_t commands, keep, i;

  rig_init (&rig, &(struct rig_config) {
    .drive = { .nr_zones = 24, .nr_conv = 8 },
    .worker = true,
  });
  keep = rig.zone_bytes;
  rig_write (&rig, 0, keep, 0);
  rig_flush (&rig);
  inject (&rig, &f);
  for (i = 0; i < 8; ++i) {
    c[i] = (struct client) { .rig = &rig, .seed = i };
    assert (pthread_create (&c[i].thread, NULL, write_until_error, &c[i]) == 0);
  }
  while (__atomic_load_n (&f.skip, __ATOMIC_RELAXED) > 0) {
    usleep (1000);
    if (op == BDEV_FLUSH)
      sh_volume_flush (rig.v);
  }
  for (i = 0; i < 8; ++i) {
    pthread_join (c[i].thread, NULL);
    ck_assert_msg (c[i].errnum == ENODEV || c[i].errnum == EIO, "a writer got %s",
                   strerror (c[i].errnum));
  }
  ck_assert_int_eq (sh_volume_flush (rig.v), -1);
  st = rig_stats (&rig);
  ck_assert (st.dying);
  /* Not one command more, whatever is asked. */
  commands = all_commands (&rig);
  ck_assert_int_eq (sh_volume_pwrite (rig.v, rig.model, BLOCK, 0, SH_FUA, 0), -1);
  ck_assert_int_eq (sh_volume_trim (rig.v, rig.size, 0, 0), -1);
  ck_assert_int_eq (sh_volume_flush (rig.v), -1);
  ck_assert_uint_eq (all_commands (&rig), commands);
  ck_assert_int_eq (sh_volume_close (rig.v, &err), -1);
  rig.v = NULL;
  /* It is back. */
  rig_open (&rig);
  for (i = 0; i < keep; i += BLOCK) {
    uint8_t buf[BLOCK], one[BLOCK] = { 1 };

    assert (sh_volume_pread (rig.v, buf, BLOCK, i, 0) == 0);
    ck_assert (memcmp (buf, rig.model + i, BLOCK) == 0 || memcmp (buf, one, BLOCK) == 0);
  }
  rig_free (&rig);
}

START_TEST (a_drive_that_goes_away_under_writes_fails_everybody_at_once)
{
  lose_drive (BDEV_WRITE, 400);
}
END_TEST

START_TEST (a_drive_that_goes_away_in_reclaim_fails_everybody_at_once)
{
  lose_drive (BDEV_ZONE_RESET, 3);
}
END_TEST

START_TEST (a_drive_that_goes_away_in_a_commit_fails_everybody_at_once)
{
  lose_drive (BDEV_FLUSH, 5);
}
END_TEST

START_TEST (one_lost_probe_is_not_the_end_of_the_drive)
{
  struct fault f = { .op = BDEV_PROBE, .errnum = EIO, .count = 1 };
  struct rig rig;

  rig_init (&rig, &small);
  rig_write (&rig, 5 * BLOCK, BLOCK, 0);
  inject (&rig, &f);
  ck_assert_int_eq (sh_volume_reclaim_now (rig.v), 0);
  ck_assert_int_eq (f.count, 0);
  ck_assert (!rig_stats (&rig).dying);
  rig_write (&rig, 5 * BLOCK, BLOCK, 0);
  rig_verify_all (&rig);
  rig_free (&rig);
}
END_TEST

START_TEST (one_doubtful_error_costs_one_probe)
{
  struct fault f = { .op = BDEV_READ, .errnum = ETIMEDOUT, .count = 1 };
  uint8_t buf[BLOCK];
  struct rig rig;

  rig_init (&rig, &small);
  rig_write (&rig, 0, 16 * BLOCK, 0);
  inject (&rig, &f);
  ck_assert_int_eq (sh_volume_pread (rig.v, buf, BLOCK, 0, 0), -1);
  ck_assert_int_eq (errno, EIO);
  ck_assert_uint_eq (rig.guard->nr_ops[BDEV_PROBE], 1);
  ck_assert (!rig_stats (&rig).dying);
  f = (struct fault) { .op = BDEV_READ, .errnum = ENODATA, .count = 1 };
  ck_assert_int_eq (sh_volume_pread (rig.v, buf, BLOCK, 0, 0), -1);
  ck_assert_uint_eq (rig.guard->nr_ops[BDEV_PROBE], 1);
  rig_verify_all (&rig);
  rig_free (&rig);
}
END_TEST

/* ---- metadata that cannot be read ---- */

START_TEST (blocks_of_the_other_set_that_cannot_be_read_are_all_written_anew)
{
  struct fault f = { .op = BDEV_READ, .errnum = ENODATA, .count = -1 };
  uint8_t garbage[BLOCK];
  struct rig rig;
  uint32_t z;

  rig_init (&rig, &small);
  rig_reopen (&rig);
  z = rig.v->free_seq.head;
  f.from = layout_bitmap_block (&rig.l, !rig.v->cur, z) * BLOCK;
  f.to = f.from + BLOCK;
  memset (garbage, 0x5a, sizeof garbage);
  ck_assert_int_eq (bdev_write (&rig.fake->bdev, garbage, BLOCK, f.from, 0), 0);
  inject (&rig, &f);
  rig_write (&rig, 3 * rig.zone_bytes + 5 * BLOCK, BLOCK, 0);
  rig_flush (&rig);
  ck_assert_int_eq (bdev_read (&rig.fake->bdev, garbage, BLOCK, f.from), 0);
  ck_assert_uint_eq (garbage[0], 0);
  ck_assert_int_eq (memcmp (garbage, garbage + 1, BLOCK - 1), 0);
  rig_free (&rig);
}
END_TEST

static struct rig *held_rig;
static bool load_waits;         /* under its lock */

/* Until `n` writers stand in line in chunk 0 and the load of its bitmap waits. */
static void
wait_for_line (unsigned n)
{
  for (;;) {
    const struct chunk *ch;
    const struct append *a;
    unsigned found = 0;
    bool waits;

    pthread_mutex_lock (&held_rig->v->lock);
    ch = chunk_find_locked (held_rig->v, 0);
    for (a = ch != NULL ? ch->appends : NULL; a != NULL; a = a->next)
      found++;
    waits = load_waits;
    pthread_mutex_unlock (&held_rig->v->lock);
    if (waits && found == n)
      return;
    usleep (1000);
  }
}

/* Fails the first load of a bitmap, when two more writers stand behind it. */
static int
fail_load_with_a_queue (struct guard *g, struct bdev_req *req, void *opaque)
{
  struct fault *const f = opaque;

  if (req->op != BDEV_READ || f->count == 0)
    return 0;
  f->count = 0;
  pthread_mutex_lock (&held_rig->v->lock);
  load_waits = true;
  pthread_mutex_unlock (&held_rig->v->lock);
  wait_for_line (2);
  errno = EIO;
  return -1;
}

struct late_writer {
  pthread_t thread;
  uint64_t first;
  int r;
};

static void *
write_eight_blocks (void *opaque)
{
  struct late_writer *const w = opaque;

  w->r = sh_volume_pwrite (held_rig->v, held_rig->model + w->first * BLOCK, 8 * BLOCK,
                           w->first * BLOCK, 0, 0);
  return NULL;
}

START_TEST (writers_in_line_behind_a_failed_append_go_on)
{
  struct fault f = { .count = 1 };
  struct late_writer w[3];
  struct rig rig;
  int i, failed = 0;

  rig_init (&rig, &small);
  held_rig = &rig;
  stream (&rig, 0, 16);
  rig_reopen (&rig);
  rig.guard->opaque = &f;
  rig.guard->fault = fail_load_with_a_queue;
  for (i = 0; i < 3; ++i) {
    w[i] = (struct late_writer) { .first = 16 + 8 * i };
    rig_fill (&rig, rig.model + w[i].first * BLOCK, 8 * BLOCK);
    assert (pthread_create (&w[i].thread, NULL, write_eight_blocks, &w[i]) == 0);
    if (i < 2)
      wait_for_line (i);
  }
  for (i = 0; i < 3; ++i) {
    assert (pthread_join (w[i].thread, NULL) == 0);
    if (w[i].r == -1) {
      failed++;
      memset (rig.model + w[i].first * BLOCK, 0, 8 * BLOCK);
    }
  }
  ck_assert_int_le (failed, 1);
  rig_verify_all (&rig);
  rig_free (&rig);
}
END_TEST

/* ---- reclaim ---- */

START_TEST (unreadable_data_stays_where_it_is_and_reclaim_goes_on)
{
  struct fault f = { .op = BDEV_READ, .errnum = ENODATA, .count = -1 };
  struct rig rig;
  uint32_t i, z;

  rig_init (&rig, &small);
  for (i = 0; i < 5; ++i)
    rig_write (&rig, i * rig.zone_bytes + 7 * BLOCK, 4 * BLOCK, 0);
  z = data_zone (&rig, 2);
  f.from = (uint64_t) z * rig.zone_bytes + 8 * BLOCK;
  f.to = f.from + BLOCK;
  inject (&rig, &f);
  ck_assert_int_eq (sh_volume_reclaim_now (rig.v), 0);
  ck_assert_uint_eq (data_zone (&rig, 2), z);
  ck_assert_uint_eq (rig_stats (&rig).random_free, rig_stats (&rig).random_zones - 1);
  f.count = 0;
  rig_verify_all (&rig);
  rig_free (&rig);
}
END_TEST

START_TEST (a_zone_that_takes_no_data_is_left_out_after_two_tries)
{
  struct fault f = { .op = BDEV_WRITE, .errnum = ENODATA, .count = -1 };
  struct rig rig;
  uint32_t i, z;

  rig_init (&rig, &small);
  for (i = 0; i < 5; ++i)
    rig_write (&rig, i * rig.zone_bytes + 7 * BLOCK, 4 * BLOCK, 0);
  z = rig.v->free_seq.head;
  f.from = (uint64_t) z * rig.zone_bytes;
  f.to = f.from + rig.zone_bytes;
  inject (&rig, &f);
  for (i = 0; i < 20; ++i)
    ck_assert_int_eq (sh_volume_reclaim_now (rig.v), 0);
  ck_assert_uint_eq (rig_stats (&rig).random_free, rig_stats (&rig).random_zones);
  rig_verify_all (&rig);
  rig_verify_invariants (&rig);
  rig_free (&rig);
}
END_TEST

int
main (void)
{
  Suite *const s = suite_create ("volume-faults");
  TCase *const t = tcase_create ("faults");

  tcase_add_test (t, the_rest_of_a_failed_append_goes_elsewhere_and_nobody_else_fails);
  tcase_add_test (t, a_write_pointer_in_the_middle_of_a_block_is_left_alone);
  tcase_add_test (t, a_zone_that_was_reset_behind_our_back_is_found_out_by_one_report);
  tcase_add_test (t, what_somebody_else_appended_is_not_taken_for_ours);
  tcase_add_test (t, a_zone_that_turns_read_only_keeps_its_data_and_takes_no_more);
  tcase_add_test (t, an_offline_zone_costs_its_chunk_alone);
  tcase_add_test (t, every_flush_fails_until_the_data_is_safe);
  tcase_add_test (t, a_superblock_of_unknown_fate_is_written_again_before_anything_else);
  tcase_add_test (t, a_drive_that_goes_away_under_writes_fails_everybody_at_once);
  tcase_add_test (t, a_drive_that_goes_away_in_reclaim_fails_everybody_at_once);
  tcase_add_test (t, a_drive_that_goes_away_in_a_commit_fails_everybody_at_once);
  tcase_add_test (t, one_lost_probe_is_not_the_end_of_the_drive);
  tcase_add_test (t, one_doubtful_error_costs_one_probe);
  tcase_add_test (t, blocks_of_the_other_set_that_cannot_be_read_are_all_written_anew);
  tcase_add_test (t, writers_in_line_behind_a_failed_append_go_on);
  tcase_add_test (t, unreadable_data_stays_where_it_is_and_reclaim_goes_on);
  tcase_add_test (t, a_zone_that_takes_no_data_is_left_out_after_two_tries);
  suite_add_tcase (s, t);
  return run_suite (s);
}
