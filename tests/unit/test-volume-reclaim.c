/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What users do to a chunk while reclaim copies it is not lost, at each point where
 * they can meet: the copy is held at its write, or the user's write is held on its
 * way to the drive until the copy has changed the zones.
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
#include "base/error.h"
#include "emu-volume.h"
#include "gate-bdev.h"
#include "zoned/running.h"

#define ZONE (256 * KiB)
#define BLOCK (4 * KiB)
#define CONVENTIONAL 5          /* two of metadata */
#define NR_BLOCKS 40            /* of chunk 0 that hold data at the start */
#define SIZE (4 * MiB)

static struct emu *emu;
static struct gate *copies, *writes;
static struct sh_volume *v;
static uint8_t model[ZONE];     /* of chunk 0 */

static void
open_volume (void)
{
  const struct sh_volume_options o = { 0 };
  struct sh_error err = { 0 };

  copies = gate_new (emu_disk (emu));
  writes = gate_new (&copies->bdev);
  emu_must (sh_volume_open (&writes->bdev, &o, &v, &err), &err);
}

static void
close_volume (void)
{
  struct sh_error err = { 0 };

  emu_must (sh_volume_close (v, &err), &err);
}

static void
user_writes (unsigned first, unsigned count, char what)
{
  memset (model + first * BLOCK, what, count * BLOCK);
  assert (sh_volume_pwrite (v, model + first * BLOCK, count * BLOCK, first * BLOCK, 0, 0) == 0);
}

static void
user_trims (unsigned first, unsigned count)
{
  memset (model + first * BLOCK, 0, count * BLOCK);
  assert (sh_volume_trim (v, count * BLOCK, first * BLOCK, 0) == 0);
}

/* Chunk 0 in a random zone, not from its start, so that it is none of a stream's. */
static void
set_up (void)
{
  static const char *const settings[] = {
    "size=4M", "zone_size=256K", "conventional=5", "format=512e", "cache=tracked", NULL
  };

  emu = emu_drive (settings);
  emu_format (emu, 2);
  open_volume ();
  memset (model, 0, sizeof model);
  user_writes (1, NR_BLOCKS, 'a');
  assert (sh_volume_flush (v) == 0);
}

static void
check_content (struct sh_volume *volume)
{
  static uint8_t seen[ZONE];

  assert (sh_volume_pread (volume, seen, sizeof seen, 0, 0) == 0);
  assert (memcmp (seen, model, sizeof seen) == 0);
  assert (volume_verify (volume) == NULL);
}

/* On a copy of the drive that has lost all that it may lose. */
static void
check_after_power_cut (void)
{
  const struct sh_volume_options o = { 0 };
  struct emu *const drive = emu_clone (emu);
  struct sh_error err = { 0 };
  struct sh_volume *found;

  assert (emu_power_cut (drive, 1, EMU_CUT_LOSE_ALL, false) == 0);
  found = emu_volume (drive, &o, false);
  check_content (found);
  emu_must (sh_volume_close (found, &err), &err);
  emu_close (drive);
}

/* The content is the model's: now, flushed and cut off, and after a new start. */
static void
tear_down (void)
{
  check_content (v);
  assert (sh_volume_flush (v) == 0);
  check_after_power_cut ();
  close_volume ();
  open_volume ();
  check_content (v);
  close_volume ();
  emu_close (emu);
}

static void *
reclaimer_main (void *opaque)
{
  assert (sh_volume_reclaim_now (v) == 0);
  return NULL;
}

/* Reclaim has read all of the chunk, its write waits before the gate. */
static pthread_t
hold_copy (void)
{
  pthread_t t;

  gate_close_for (copies, BDEV_WRITE, CONVENTIONAL * ZONE, SIZE);
  t = emu_thread (reclaimer_main);
  gate_await (copies, 1);
  return t;
}

static void
let_go (pthread_t t)
{
  gate_open (copies);
  pthread_join (t, NULL);
}

static struct map_entry
zones_of_chunk (void)
{
  struct map_entry m;

  pthread_mutex_lock (&v->lock);
  m = v->map[0];
  pthread_mutex_unlock (&v->lock);
  return m;
}

static uint64_t
cycles (void)
{
  struct sh_volume_stats stats;

  sh_volume_get_stats (v, &stats);
  return stats.reclaim_cycles;
}

START_TEST (a_chunk_that_nobody_touches_leaves_no_buffer_zone)
{
  let_go (hold_copy ());
  ck_assert_uint_eq (cycles (), 1);
}
END_TEST

START_TEST (what_is_written_during_the_copy_stays)
{
  const pthread_t t = hold_copy ();

  user_writes (7, 3, 'b');
  let_go (t);
}
END_TEST

START_TEST (what_is_flushed_during_the_copy_survives_a_power_cut)
{
  const pthread_t t = hold_copy ();

  user_writes (7, 3, 'b');
  assert (sh_volume_flush (v) == 0);
  check_after_power_cut ();
  let_go (t);
  check_after_power_cut ();
}
END_TEST

START_TEST (what_is_written_behind_the_end_of_the_copy_stays)
{
  const pthread_t t = hold_copy ();

  user_writes (NR_BLOCKS + 10, 4, 'b');
  let_go (t);
}
END_TEST

START_TEST (what_is_trimmed_during_the_copy_does_not_come_back)
{
  const pthread_t t = hold_copy ();

  user_trims (7, 3);
  let_go (t);
}
END_TEST

START_TEST (what_is_written_and_trimmed_during_the_copy_does_not_come_back)
{
  const pthread_t t = hold_copy ();

  user_writes (5, 6, 'b');
  user_trims (7, 2);
  let_go (t);
}
END_TEST

START_TEST (a_chunk_that_is_trimmed_during_the_copy_is_empty)
{
  const pthread_t t = hold_copy ();

  user_trims (0, ZONE / BLOCK);
  let_go (t);
  ck_assert_uint_eq (zones_of_chunk ().data, ZONE_NONE);
}
END_TEST

START_TEST (a_chunk_that_is_written_whole_during_the_copy_stays)
{
  const pthread_t t = hold_copy ();

  user_writes (1, NR_BLOCKS, 'b');
  let_go (t);
}
END_TEST

static void *
writer_main (void *opaque)
{
  user_writes (7, 3, 'b');
  return NULL;
}

/* The write is on its way to the old random zone while the zones change. */
START_TEST (a_write_that_is_in_flight_while_the_zones_change_stays)
{
  const pthread_t t = hold_copy ();
  pthread_t writer;

  gate_close_for (writes, BDEV_WRITE, 2 * ZONE, CONVENTIONAL * ZONE);
  writer = emu_thread (writer_main);
  gate_await (writes, 1);
  gate_open (copies);
  while (zones_of_chunk ().buffer == ZONE_NONE)
    usleep (1000);
  gate_open (writes);
  pthread_join (writer, NULL);
  pthread_join (t, NULL);
}
END_TEST

int
main (void)
{
  Suite *const s = suite_create ("volume-reclaim");
  TCase *const t = tcase_create ("meanwhile");

  tcase_set_timeout (t, 60);
  tcase_add_checked_fixture (t, set_up, tear_down);
  tcase_add_test (t, a_chunk_that_nobody_touches_leaves_no_buffer_zone);
  tcase_add_test (t, what_is_written_during_the_copy_stays);
  tcase_add_test (t, what_is_flushed_during_the_copy_survives_a_power_cut);
  tcase_add_test (t, what_is_written_behind_the_end_of_the_copy_stays);
  tcase_add_test (t, what_is_trimmed_during_the_copy_does_not_come_back);
  tcase_add_test (t, what_is_written_and_trimmed_during_the_copy_does_not_come_back);
  tcase_add_test (t, a_chunk_that_is_trimmed_during_the_copy_is_empty);
  tcase_add_test (t, a_chunk_that_is_written_whole_during_the_copy_stays);
  tcase_add_test (t, a_write_that_is_in_flight_while_the_zones_change_stays);
  suite_add_tcase (s, t);
  return run_suite (s);
}
