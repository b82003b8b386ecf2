/* SPDX-License-Identifier: BSD-3-Clause */
/* A drive that dies under a running volume and comes back. */
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
#include "emu-volume.h"
#include "zoned/running.h"

#define BLOCK 4096u

static const char *const settings[] = {
  "lbs=512", "pbs=4096", "size=48M", "zone-size=1M", "conventional=12",
  "cache=tracked", NULL
};

static struct emu *emu;
static struct sh_volume *volume;

static void
begin (bool worker)
{
  const struct sh_volume_options o = { 0 };

  emu = emu_drive (settings);
  emu_format (emu, 2);
  volume = emu_volume (emu, &o, worker);
}

static void
finish (void)
{
  struct sh_error err = { 0 };

  ck_assert_msg (sh_volume_close (volume, &err) == 0, "%s", err.message);
  emu_close (emu);
}

static int
put (uint64_t block, int value)
{
  int buf[BLOCK / sizeof (int)];

  for (size_t i = 0; i < BLOCK / sizeof (int); ++i)
    buf[i] = value;
  return sh_volume_pwrite (volume, buf, sizeof buf, block * BLOCK, 0, 0);
}

/* The value of a block that holds one value; -1: it cannot be read. */
static int
get (uint64_t block)
{
  int buf[BLOCK / sizeof (int)];

  if (sh_volume_pread (volume, buf, sizeof buf, block * BLOCK, 0) == -1)
    return -1;
  assert (memcmp (buf, buf + 1, sizeof buf - sizeof buf[0]) == 0);
  return buf[0];
}

static bool
is_dying (void)
{
  struct sh_volume_stats st;

  sh_volume_get_stats (volume, &st);
  return st.dying;
}

/* The next command finds no drive any more, and one request notices. */
static void
lose_drive (void)
{
  struct sh_error err = { 0 };

  assert (emu_set (emu, "fault", "any:gone:count=1", &err) == 0);
  put (11 * 256, 99);
  sh_volume_flush (volume);
  ck_assert (is_dying ());
  ck_assert_int_eq (put (0, 98), -1);
  ck_assert_int_eq (get (0), -1);
  ck_assert_int_eq (sh_volume_flush (volume), -1);
}

static void
verify (void)
{
  const char *const wrong = volume_verify (volume);

  if (wrong != NULL)
    ck_abort_msg ("%s", wrong);
}

START_TEST (it_stays_away_and_is_looked_for_in_vain)
{
  begin (false);
  ck_assert_int_eq (put (0, 1), 0);
  ck_assert_int_eq (sh_volume_flush (volume), 0);
  lose_drive ();
  ck_assert_int_eq (volume_resume (volume), -1);
  ck_assert_int_eq (volume_resume (volume), -1);
  ck_assert (is_dying ());
  ck_assert_int_eq (get (0), -1);
  emu_power_cycle (emu);
  ck_assert_int_eq (volume_resume (volume), 0);
  ck_assert_int_eq (get (0), 1);
  finish ();
}
END_TEST

/* It dies when a reader notices, with nothing in memory that is not on it. */
START_TEST (nothing_was_unflushed_so_the_volume_goes_on_for_everybody)
{
  struct sh_error err = { 0 };
  unsigned epoch;
  int i;

  begin (false);
  epoch = sh_volume_epoch (volume);
  for (i = 0; i < 400; ++i)
    ck_assert_int_eq (put (i, i % 200 + 1), 0);
  ck_assert_int_eq (sh_volume_flush (volume), 0);
  ck_assert (emu_set (emu, "fault", "any:gone:count=1", &err) == 0);
  ck_assert_int_eq (get (0), -1);
  ck_assert (is_dying ());
  emu_power_cycle (emu);
  ck_assert_int_eq (volume_resume (volume), 0);
  ck_assert (!is_dying ());
  ck_assert_uint_eq (sh_volume_epoch (volume), epoch);
  for (i = 0; i < 400; ++i)
    ck_assert_int_eq (get (i), i % 200 + 1);
  ck_assert_int_eq (put (3, 77), 0);
  ck_assert_int_eq (sh_volume_flush (volume), 0);
  verify ();
  finish ();
}
END_TEST

START_TEST (unflushed_writes_may_be_lost_and_the_epoch_says_so)
{
  unsigned epoch;
  int i;

  begin (false);
  epoch = sh_volume_epoch (volume);
  for (i = 0; i < 300; ++i)
    ck_assert_int_eq (put (i, 1), 0);
  ck_assert_int_eq (sh_volume_flush (volume), 0);
  for (i = 100; i < 200; ++i)
    ck_assert_int_eq (put (i, 2), 0);
  lose_drive ();
  ck_assert_int_eq (emu_power_cut (emu, 7, EMU_CUT_RANDOM, false), 0);
  ck_assert_int_eq (volume_resume (volume), 0);
  ck_assert_uint_ne (sh_volume_epoch (volume), epoch);
  for (i = 0; i < 300; ++i) {
    const int value = get (i);

    ck_assert (value == 1 || (value == 2 && i >= 100 && i < 200));
  }
  for (i = 0; i < 300; ++i)
    ck_assert_int_eq (put (i, 3), 0);
  ck_assert_int_eq (sh_volume_flush (volume), 0);
  verify ();
  finish ();
}
END_TEST

static uint64_t
write_commands (void)
{
  return emu_counter (emu, "write-10") + emu_counter (emu, "write-16");
}

static void
refuse (void)
{
  uint64_t commands;
  int i;

  ck_assert_int_eq (volume_resume (volume), -1);
  ck_assert (volume->lost);
  ck_assert (is_dying ());
  commands = write_commands ();
  for (i = 0; i < 10; ++i)
    ck_assert_int_eq (put (i, 1), -1);
  ck_assert_int_eq (sh_volume_flush (volume), -1);
  ck_assert_uint_eq (write_commands (), commands);
}

static void
end_refused (void)
{
  struct sh_error err = { 0 };

  sh_volume_close (volume, &err);
  emu_close (emu);
}

START_TEST (a_drive_that_someone_else_wrote_to_meanwhile_is_not_touched)
{
  const struct sh_volume_options o = { 0 };
  struct sh_error err = { 0 };
  struct sh_volume *other, *const ours = (begin (false), volume);

  ck_assert_int_eq (put (0, 1), 0);
  ck_assert_int_eq (sh_volume_flush (volume), 0);
  lose_drive ();
  emu_power_cycle (emu);
  other = volume = emu_volume (emu, &o, false);
  ck_assert_int_eq (put (5, 5), 0);
  ck_assert_int_eq (sh_volume_flush (other), 0);
  ck_assert_int_eq (sh_volume_close (other, &err), 0);
  volume = ours;
  refuse ();
  end_refused ();
}
END_TEST

START_TEST (a_drive_that_was_formatted_meanwhile_is_not_touched)
{
  begin (false);
  ck_assert_int_eq (put (0, 1), 0);
  ck_assert_int_eq (sh_volume_flush (volume), 0);
  lose_drive ();
  emu_power_cycle (emu);
  emu_format (emu, 2);
  refuse ();
  end_refused ();
}
END_TEST

START_TEST (the_worker_finds_a_drive_that_is_back)
{
  int i;

  begin (true);
  ck_assert_int_eq (put (0, 1), 0);
  ck_assert_int_eq (sh_volume_flush (volume), 0);
  lose_drive ();
  emu_power_cycle (emu);
  for (i = 0; i < 3000 && is_dying (); ++i)
    usleep (10000);
  ck_assert (!is_dying ());
  ck_assert_int_eq (get (0), 1);
  ck_assert_int_eq (put (0, 2), 0);
  finish ();
}
END_TEST

/* ---- under load ---- */

#define CLIENTS 4
#define ROUNDS 12

struct client {
  pthread_t thread;
  unsigned number;
  int durable;                  /* a flush promised it, and the epoch stood still */
  int latest;                   /* last value that was sent */
};

static atomic_bool stop;

/* One client, one block: as a server does it, with the epoch of its connection. */
static void *
write_and_flush (void *opaque)
{
  struct client *c = opaque;
  unsigned epoch = sh_volume_epoch (volume);

  while (!atomic_load (&stop)) {
    const uint64_t block = c->number * 256 + 3;
    int value;

    if (sh_volume_epoch (volume) != epoch) {
      value = get (block);
      if (value == -1)
        continue;
      ck_assert_msg (value >= c->durable && value <= c->latest,
                     "block %u holds %d, promised %d, sent %d", c->number, value, c->durable,
                     c->latest);
      epoch = sh_volume_epoch (volume);         /* connected anew */
    }
    c->latest++;
    if (put (block, c->latest) == 0 && sh_volume_flush (volume) == 0 &&
        sh_volume_epoch (volume) == epoch)
      c->durable = c->latest;
    else
      usleep (200);
  }
  return NULL;
}

START_TEST (what_a_flush_promised_outlives_a_dozen_deaths_under_writes)
{
  struct client c[CLIENTS];
  struct sh_error err = { 0 };
  unsigned i, tries;

  begin (false);
  atomic_store (&stop, false);
  for (i = 0; i < CLIENTS; ++i) {
    c[i] = (struct client) { .number = i };
    assert (pthread_create (&c[i].thread, NULL, write_and_flush, &c[i]) == 0);
  }
  for (i = 0; i < ROUNDS; ++i) {
    usleep (2000);
    assert (emu_set (emu, "fault", "write:gone:count=1", &err) == 0);
    for (tries = 0; tries < 2000 && !is_dying (); ++tries) {
      put (40, 1);
      usleep (500);
    }
    ck_assert (is_dying ());
    assert (emu_power_cut (emu, i, EMU_CUT_RANDOM, false) == 0);
    for (tries = 0; volume_resume (volume) == -1; ++tries) {
      ck_assert_uint_lt (tries, 20000);
      ck_assert (!volume->lost);
      usleep (500);
    }
  }
  atomic_store (&stop, true);
  for (i = 0; i < CLIENTS; ++i)
    pthread_join (c[i].thread, NULL);
  for (i = 0; i < CLIENTS; ++i) {
    const int value = get (c[i].number * 256 + 3);

    ck_assert (value >= c[i].durable && value <= c[i].latest);
  }
  ck_assert_int_eq (sh_volume_flush (volume), 0);
  verify ();
  finish ();
}
END_TEST

int
main (void)
{
  Suite *s = suite_create ("volume-resume");
  TCase *t = tcase_create ("resume");
  SRunner *sr;
  int failed;

  tcase_set_timeout (t, 60);
  tcase_add_test (t, it_stays_away_and_is_looked_for_in_vain);
  tcase_add_test (t, nothing_was_unflushed_so_the_volume_goes_on_for_everybody);
  tcase_add_test (t, unflushed_writes_may_be_lost_and_the_epoch_says_so);
  tcase_add_test (t, a_drive_that_someone_else_wrote_to_meanwhile_is_not_touched);
  tcase_add_test (t, a_drive_that_was_formatted_meanwhile_is_not_touched);
  tcase_add_test (t, the_worker_finds_a_drive_that_is_back);
  tcase_add_test (t, what_a_flush_promised_outlives_a_dozen_deaths_under_writes);
  suite_add_tcase (s, t);
  sr = srunner_create (s);
  srunner_run_all (sr, CK_ENV);
  failed = srunner_ntests_failed (sr);
  srunner_free (sr);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
