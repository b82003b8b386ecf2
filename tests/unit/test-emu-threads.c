/* SPDX-License-Identifier: BSD-3-Clause */
/* The emulated drive under many threads; also run under ThreadSanitizer. */
#include <config.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "emu-fixture.h"

/* 32 zones of 64 blocks of 4 KiB, 8 conventional. */
#define SHAPE "size=8M,zone-size=256K,conventional=8,lbs=4096"
#define Z 64u
#define NR_ZONES 32u
#define NR_CONV 8u
#define LBS 4096u
#define NR_THREADS 4u
#define ROUNDS 60u

static struct emu *emu;

struct worker {
  pthread_t thread;
  unsigned number;
};

static void
run (unsigned nr, void *(*fn) (void *))
{
  struct worker w[16];
  unsigned i;

  for (i = 0; i < nr; ++i) {
    w[i].number = i;
    ck_assert_int_eq (pthread_create (&w[i].thread, NULL, fn, &w[i]), 0);
  }
  for (i = 0; i < nr; ++i)
    ck_assert_int_eq (pthread_join (w[i].thread, NULL), 0);
}

/* Fills, reads back and resets zones of its own. */
static void *
own_zones (void *arg)
{
  const struct worker *w = arg;
  uint8_t *buf = malloc (8 * LBS);
  unsigned round, i, j;

  for (round = 0; round < ROUNDS; ++round) {
    const uint32_t zone = NR_CONV + w->number + NR_THREADS * (round % 6);

    for (i = 0; i < Z; i += 8) {
      fx_stamp (buf, zone * Z + i, 8, LBS, round + 1);
      ck_answer (fx_write (emu, zone * Z + i, 8, buf), 0);
      ck_answer (fx_read (emu, zone * Z + i, 8, buf), 0);
      for (j = 0; j < 8; ++j)
        fx_must (fx_stamp_of (buf + j * LBS, zone * Z + i + j, LBS) == round + 1);
    }
    ck_answer (fx_zone (emu, FX_RESET, zone * Z), 0);
  }
  free (buf);
  return NULL;
}

START_TEST (writers_of_different_zones_do_not_disturb_each_other)
{
  emu = fx_drive (_i == 0 ? SHAPE ",zone_max_open=4" : _i == 1 ? SHAPE ",zone_max_open=0"
                  : SHAPE ",zone_max_open=6,cache=tracked");
  run (NR_THREADS, own_zones);
  emu_check (emu);
  ck_assert_uint_eq (emu_counter (emu, "zones-reset"), NR_THREADS * ROUNDS);
  ck_assert_uint_eq (emu_counter (emu, "written-bytes"), NR_THREADS * ROUNDS * Z * LBS);
  emu_close (emu);
}
END_TEST

/* More writers than zones may be open: each write makes room for itself. */
static void *
hunt_for_room (void *arg)
{
  const struct worker *w = arg;
  uint8_t *buf = calloc (1, LBS);
  unsigned i, zone;

  for (i = 0; i < Z; ++i)
    for (zone = NR_CONV + w->number * 4; zone < NR_CONV + w->number * 4 + 4; ++zone)
      ck_answer (fx_write (emu, zone * Z + i, 1, buf), 0);
  free (buf);
  return NULL;
}

START_TEST (more_writers_than_open_zones_make_progress)
{
  unsigned i;

  emu = fx_drive (SHAPE ",zone_max_open=2");
  run (6, hunt_for_room);
  emu_check (emu);
  for (i = NR_CONV; i < NR_ZONES; ++i)
    ck_assert_uint_eq (fx_get_zone (emu, i * Z).cond, ZONE_FULL);
  emu_close (emu);
}
END_TEST

/* All threads write and read the same few blocks. */
static void *
same_blocks (void *arg)
{
  const struct worker *w = arg;
  uint8_t *buf = malloc (4 * LBS);
  unsigned i, j;

  for (i = 0; i < 400; ++i) {
    const uint64_t lba = (i * 7) % 60;

    fx_stamp (buf, lba, 4, LBS, w->number * 1000 + i + 1);
    ck_answer (fx_write (emu, lba, 4, buf), 0);
    ck_answer (fx_read (emu, lba, 4, buf), 0);
    for (j = 0; j < 4; ++j)
      fx_must (fx_stamp_of (buf + j * LBS, lba + j, LBS) > 0);
  }
  free (buf);
  return NULL;
}

START_TEST (reads_never_see_half_a_block)
{
  emu = fx_drive (SHAPE);
  run (NR_THREADS, same_blocks);
  emu_close (emu);
}
END_TEST

/* One zone: reads go on while it is written and reset. */
static void *
read_all_the_time (void *arg)
{
  const struct worker *w = arg;
  uint8_t *buf = malloc (8 * LBS);
  unsigned i, j;

  for (i = 0; i < 2000; ++i) {
    const uint64_t lba = NR_CONV * Z + (i + w->number) % 56;

    ck_answer (fx_read (emu, lba, 8, buf), 0);
    for (j = 0; j < 8; ++j)
      fx_must (fx_stamp_of (buf + j * LBS, lba + j, LBS) >= 0);
  }
  free (buf);
  return NULL;
}

static void *
write_and_reset (void *arg)
{
  uint8_t *buf = malloc (8 * LBS);
  unsigned round, i;

  for (round = 1; round <= ROUNDS; ++round) {
    for (i = 0; i < Z; i += 8) {
      fx_stamp (buf, NR_CONV * Z + i, 8, LBS, round);
      ck_answer (fx_write (emu, NR_CONV * Z + i, 8, buf), 0);
    }
    ck_answer (fx_zone (emu, FX_RESET, NR_CONV * Z), 0);
  }
  free (buf);
  return NULL;
}

static void *
either (void *arg)
{
  const struct worker *w = arg;

  return w->number == 0 ? write_and_reset (arg) : read_all_the_time (arg);
}

START_TEST (reads_of_a_zone_that_is_reset_see_old_data_or_zeroes)
{
  emu = fx_drive (SHAPE);
  run (3, either);
  emu_check (emu);
  emu_close (emu);
}
END_TEST

/* Clones and cuts of a tracked drive while it is written. */
static void *
clone_and_cut (void *arg)
{
  unsigned i;

  for (i = 0; i < 20; ++i) {
    struct emu *clone = emu_clone (emu);

    fx_must (clone != NULL);
    emu_check (clone);
    fx_must (emu_power_cut (clone, i, EMU_CUT_RANDOM, false) == 0);
    emu_check (clone);
    emu_close (clone);
  }
  return NULL;
}

static void *
writer_or_cloner (void *arg)
{
  const struct worker *w = arg;

  return w->number == NR_THREADS ? clone_and_cut (arg) : own_zones (arg);
}

START_TEST (tracked_drive_can_be_cloned_while_it_is_written)
{
  emu = fx_drive (SHAPE ",cache=tracked,zone_max_open=6");
  run (NR_THREADS + 1, writer_or_cloner);
  emu_check (emu);
  emu_close (emu);
}
END_TEST

/* The drive itself is cut under its writers, who take what they get. */
static void *
write_whatever_comes (void *arg)
{
  const struct worker *w = arg;
  uint8_t *buf = calloc (1, 4 * LBS);
  unsigned i;

  for (i = 0; i < 400; ++i) {
    const uint32_t zone = NR_CONV + (w->number * 5 + i / 16) % (NR_ZONES - NR_CONV);
    const struct fx_zone *z = NULL;
    struct fx_zone one;
    uint32_t length;
    size_t nr;

    if (w->number == NR_THREADS) {
      if (i % 20 == 0)
        fx_must (emu_power_cut (emu, i, EMU_CUT_RANDOM, false) == 0);
      continue;
    }
    if (fx_report (emu, zone * Z, 0x80, &one, 1, &nr, &length) == 0)
      z = &one;
    if (z && z->wp + 4 <= z->start + z->len)
      fx_write (emu, z->wp, 4, buf);
    else
      fx_zone (emu, FX_RESET, zone * Z);
    fx_write (emu, i % 60, 4, buf);
  }
  free (buf);
  return NULL;
}

START_TEST (tracked_drive_can_be_cut_while_it_is_written)
{
  emu = fx_drive (SHAPE ",cache=tracked,zone_max_open=4");
  run (NR_THREADS + 1, write_whatever_comes);
  emu_check (emu);
  emu_close (emu);
}
END_TEST

static void *
flush_and_operate (void *arg)
{
  const struct worker *w = arg;
  unsigned i;

  for (i = 0; i < 100; ++i) {
    switch ((i + w->number) % 5) {
    case 0:
      ck_answer (fx_zone_all (emu, FX_CLOSE), 0);
      break;
    case 1:
      ck_answer (fx_zone_all (emu, FX_RESET), 0);
      break;
    case 2:
      ck_answer (fx_zone_all (emu, FX_FINISH), 0);
      break;
    case 3:
      fx_zone_all (emu, FX_OPEN);
      break;
    default:
      ck_answer (fx_sync (emu), 0);
    }
    fx_zone (emu, FX_OPEN, (NR_CONV + (i * 5 + w->number) % 24) * Z);
  }
  return NULL;
}

START_TEST (zone_operations_of_many_threads_keep_the_accounts)
{
  emu = fx_drive (SHAPE ",zone_max_open=5");
  run (NR_THREADS, flush_and_operate);
  emu_check (emu);
  emu_close (emu);
}
END_TEST

/* opts=800h: what finds the queue full is refused, each time; else it waits. */
static _Atomic unsigned refused;

static void *
fill_the_queue (void *arg)
{
  uint8_t buf[LBS];
  unsigned i;

  for (i = 0; i < 20; ++i) {
    const int64_t answer = fx_read (emu, 0, 1, buf);

    if (answer == STATUS (SH_STATUS_TASK_SET_FULL))
      refused++;
    else
      ck_answer (answer, 0);
  }
  return NULL;
}

START_TEST (full_queue_makes_wait_or_refuses_when_asked)
{
  refused = 0;
  emu = fx_drive (SHAPE ",max_queue=1,time=fixed,latency_us=500");
  run (3, fill_the_queue);
  ck_assert_uint_eq (refused, 0);
  emu_close (emu);
  emu = fx_drive (SHAPE ",max_queue=1,time=fixed,latency_us=500,opts=0x800,every_nth=1");
  run (3, fill_the_queue);
  ck_assert_uint_gt (refused, 0);
  emu_close (emu);
}
END_TEST

static Suite *
suite (void)
{
  Suite *s = suite_create ("emu-threads");
  TCase *tc = tcase_create ("threads");

  tcase_add_loop_test (tc, writers_of_different_zones_do_not_disturb_each_other, 0, 3);
  tcase_add_test (tc, more_writers_than_open_zones_make_progress);
  tcase_add_test (tc, reads_never_see_half_a_block);
  tcase_add_test (tc, reads_of_a_zone_that_is_reset_see_old_data_or_zeroes);
  tcase_add_test (tc, tracked_drive_can_be_cloned_while_it_is_written);
  tcase_add_test (tc, tracked_drive_can_be_cut_while_it_is_written);
  tcase_add_test (tc, zone_operations_of_many_threads_keep_the_accounts);
  tcase_add_test (tc, full_queue_makes_wait_or_refuses_when_asked);
  suite_add_tcase (s, tc);
  return s;
}

int
main (void)
{
  return run_suite (suite ());
}
