/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reclaim under the scheduler: volume, queue (deadline, one tag), emulated drive.
 * What users ask for overtakes the copying that nobody waits for; and copying that
 * somebody waits for is no longer idle work, even where it is queued already.
 */
#undef NDEBUG
#include <config.h>
#include <assert.h>
#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/bytes.h"
#include "emu-volume.h"
#include "gate-bdev.h"
#include "mq/mq.h"

#define ZONE (256 * KiB)
#define BLOCK (4 * KiB)
#define READERS 8

static struct emu *emu;
static struct gate *gate;
static struct mq *mq;
static struct sh_volume *v;

/* Four conventional zones: two of metadata, two for data, which chunks 0 and 1 take. */
static void
set_up (void)
{
  static const char *const settings[] = {
    "size=4M", "zone_size=256K", "conventional=4", "format=512e", NULL
  };
  const struct tagset_options one_tag = { .tags = 1, .reserved = 1 };
  const struct sh_volume_options o = { 0 };
  struct mq_options queue;
  struct sh_error err = { 0 };
  struct bdev *bdev;
  struct tagset *set;
  uint8_t block[BLOCK];

  emu = emu_drive (settings);
  emu_format (emu, 2);
  gate = gate_new (emu_disk (emu));
  mq_options_init (&queue);
  queue.depth = 64;
  emu_must (tagset_open (&one_tag, &set, &err), &err);
  emu_must (mq_bdev_create (&gate->bdev, set, true, &queue, &bdev, &err), &err);
  mq = mq_of_bdev (bdev);
  emu_must (sh_volume_open (bdev, &o, &v, &err), &err);
  memset (block, 'x', sizeof block);
  assert (sh_volume_pwrite (v, block, BLOCK, BLOCK, 0, 0) == 0);
  assert (sh_volume_pwrite (v, block, BLOCK, ZONE + 8 * BLOCK, 0, 0) == 0);
  assert (sh_volume_flush (v) == 0);
}

static void
tear_down (void)
{
  struct sh_error err = { 0 };

  emu_must (sh_volume_close (v, &err), &err);
  emu_close (emu);
}

/* Returns when that many requests of the class are inside the queue or in flight. */
static void
await_inside (enum dl_class class, unsigned n)
{
  struct mq_stats st;

  for (;;) {
    mq_get_stats (mq, &st);
    if (st.class[class].populated == n)
      return;
    usleep (1000);
  }
}

static void *
reader_main (void *opaque)
{
  uint8_t block[BLOCK];

  assert (sh_volume_pread (v, block, BLOCK, ZONE + 8 * BLOCK, 0) == 0);
  assert (block[0] == 'x');
  return NULL;
}

static void *
reclaimer_main (void *opaque)
{
  assert (sh_volume_reclaim_now (v) == 0);
  return NULL;
}

static void *
writer_main (void *opaque)
{
  uint8_t block[BLOCK];

  memset (block, 'y', sizeof block);
  assert (sh_volume_pwrite (v, block, BLOCK, 2 * ZONE + 4 * BLOCK, 0, 0) == 0);
  return NULL;
}

static pthread_t readers[READERS + 1], reclaimer;

/* A read is in flight and has the only tag; a copy of reclaim waits in the queue;
   behind it other reads. */
static void
fill_queue (void)
{
  unsigned i;

  gate_close (gate);
  readers[0] = emu_thread (reader_main);
  gate_await (gate, 1);
  reclaimer = emu_thread (reclaimer_main);
  await_inside (DL_IDLE, 1);
  for (i = 1; i <= READERS; ++i)
    readers[i] = emu_thread (reader_main);
  await_inside (DL_BE, READERS + 1);
}

static void
empty_queue (void)
{
  unsigned i;

  gate_open (gate);
  for (i = 0; i <= READERS; ++i)
    pthread_join (readers[i], NULL);
  pthread_join (reclaimer, NULL);
}

START_TEST (reads_of_users_overtake_the_copying_of_reclaim)
{
  uint64_t read_by_users;
  unsigned i;

  fill_queue ();
  empty_queue ();
  read_by_users = gate->log[0].off_bytes;
  for (i = 0; i <= READERS; ++i) {
    ck_assert_uint_eq (gate->log[i].op, BDEV_READ);
    ck_assert_uint_eq (gate->log[i].off_bytes, read_by_users);
  }
  ck_assert_uint_eq (gate->log[i].op, BDEV_READ);
  ck_assert_uint_ne (gate->log[i].off_bytes, read_by_users);
}
END_TEST

START_TEST (copying_that_a_writer_waits_for_is_not_idle_work)
{
  struct sh_volume_stats stats;
  pthread_t writer;

  fill_queue ();
  writer = emu_thread (writer_main);
  await_inside (DL_IDLE, 0);
  await_inside (DL_BE, READERS + 2);
  gate_open (gate);
  pthread_join (writer, NULL);
  sh_volume_get_stats (v, &stats);
  ck_assert_uint_eq (stats.space_waits, 1);
  ck_assert_uint_ge (stats.reclaim_cycles, 1);
  empty_queue ();
}
END_TEST

int
main (void)
{
  Suite *const s = suite_create ("volume-priority");
  TCase *const t = tcase_create ("reclaim");

  tcase_set_timeout (t, 60);
  tcase_add_checked_fixture (t, set_up, tear_down);
  tcase_add_test (t, reads_of_users_overtake_the_copying_of_reclaim);
  tcase_add_test (t, copying_that_a_writer_waits_for_is_not_idle_work);
  suite_add_tcase (s, t);
  return run_suite (s);
}
