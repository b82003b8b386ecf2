/* SPDX-License-Identifier: BSD-3-Clause */
/* core/mq/mq-bdev: every command reaches the drive below as it was given, with its
 * result; what waits and touches becomes one command, whose outcome each part hears. */
#include <config.h>
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "mq/mq.h"
#include "run-suite.h"

#define ZONE (64 * KiB)
#define NR_ZONES 16

/* The drive below: memory, and a gate that holds commands back. */
static struct {
  struct bdev bdev;
  unsigned char data[ZONE * NR_ZONES];
  pthread_mutex_t lock;
  pthread_cond_t cond;
  bool closed_gate;
  unsigned waiting, commands, closes;
  struct bdev_req last;
  int fail;                     /* errno of each command */
  uint64_t done_at_failure;
  unsigned writing[NR_ZONES];
} drive;

static struct bdev *mq_bdev;
static struct tagset *set;
static struct sh_error err;

static void
pass_gate_locked (void)
{
  ++drive.waiting;
  pthread_cond_broadcast (&drive.cond);
  while (drive.closed_gate)
    pthread_cond_wait (&drive.cond, &drive.lock);
  --drive.waiting;
}

static void
move (const struct bdev_req *req)
{
  unsigned char *at = drive.data + req->off_bytes;
  int i;

  for (i = 0; i < req->iovcnt; ++i) {
    if (req->op == BDEV_WRITE)
      memcpy (at, req->iov[i].iov_base, req->iov[i].iov_len);
    else
      memcpy (req->iov[i].iov_base, at, req->iov[i].iov_len);
    at += req->iov[i].iov_len;
  }
}

static int
drive_execute (struct bdev *bdev, struct bdev_req *req)
{
  const unsigned zone = req->off_bytes / ZONE;
  int fail;

  pthread_mutex_lock (&drive.lock);
  ++drive.commands;
  drive.last = *req;
  if (req->op == BDEV_WRITE)
    ck_assert_uint_eq (drive.writing[zone]++, 0);
  pass_gate_locked ();
  fail = drive.fail;
  if (req->op == BDEV_WRITE)
    drive.writing[zone]--;
  if (!fail && (req->op == BDEV_READ || req->op == BDEV_WRITE))
    move (req);
  pthread_mutex_unlock (&drive.lock);
  req->done_bytes = fail ? drive.done_at_failure : req->len_bytes;
  errno = fail;
  return fail ? -1 : 0;
}

static int
drive_report_zones (struct bdev *bdev, uint64_t start, struct bdev_zone *zones, size_t max,
                    size_t *nr)
{
  uint64_t z;

  for (*nr = 0, z = start / ZONE; z < NR_ZONES && *nr < max; ++z)
    zones[(*nr)++] = (struct bdev_zone) { .start_bytes = z * ZONE, .len_bytes = ZONE,
                                          .type = z < 4 ? ZONE_CONVENTIONAL : ZONE_SEQ_REQUIRED };
  return 0;
}

static void
drive_close (struct bdev *bdev)
{
  ++drive.closes;
}

static const struct bdev_ops drive_ops = { drive_execute, drive_report_zones, drive_close };

static void
set_up (void)
{
  const struct tagset_options to = { .tags = 1, .reserved = 1 };
  struct mq_options options;

  memset (&drive, 0, sizeof drive);
  pthread_mutex_init (&drive.lock, NULL);
  pthread_cond_init (&drive.cond, NULL);
  drive.bdev.ops = &drive_ops;
  strcpy (drive.bdev.info.name, "drive");
  drive.bdev.info.lbs_bytes = 512;
  drive.bdev.info.size_bytes = sizeof drive.data;
  drive.bdev.info.zone_bytes = ZONE;
  drive.bdev.info.nr_zones = NR_ZONES;
  mq_options_init (&options);
  options.depth = 64;
  ck_assert_int_eq (tagset_open (&to, &set, &err), 0);
  ck_assert_int_eq (mq_bdev_create (&drive.bdev, set, true, &options, &mq_bdev, &err), 0);
}

static void
tear_down (void)
{
  mq_check_idle (mq_of_bdev (mq_bdev));
  bdev_close (mq_bdev);
  ck_assert_uint_eq (drive.closes, 1);
}

START_TEST (every_command_arrives_as_it_was_given)
{
  struct bdev_req req = { .op = _i, .flags = BDEV_FUA, .prio = BDEV_PRIO_IDLE, .hwq = 99999,
                          .off_bytes = 4 * ZONE, .len_bytes = 512 };
  char buf[512] = { 0 };
  const struct iovec iov = { buf, sizeof buf };

  if (_i == BDEV_READ || _i == BDEV_WRITE) {
    req.iov = &iov;
    req.iovcnt = 1;
  }
  ck_assert_int_eq (bdev_execute (mq_bdev, &req), 0);
  ck_assert_uint_eq (drive.commands, 1);
  ck_assert_int_eq (drive.last.op, _i);
  ck_assert_uint_eq (drive.last.flags, BDEV_FUA);
  ck_assert_uint_eq (drive.last.off_bytes, 4 * ZONE);
  ck_assert_uint_eq (req.done_bytes, 512);
  drive.fail = EREMOTEIO;
  drive.done_at_failure = 0;
  ck_assert_int_eq (bdev_execute (mq_bdev, &req), -1);
  ck_assert_int_eq (errno, EREMOTEIO);
  ck_assert_uint_eq (req.done_bytes, 0);
}
END_TEST

START_TEST (zones_are_reported_as_the_drive_does)
{
  struct bdev_zone zones[NR_ZONES];
  size_t nr;

  ck_assert_int_eq (bdev_report_zones (mq_bdev, 0, zones, NR_ZONES, &nr), 0);
  ck_assert_uint_eq (nr, NR_ZONES);
  ck_assert_uint_eq (zones[3].type, ZONE_CONVENTIONAL);
  ck_assert_uint_eq (zones[4].type, ZONE_SEQ_REQUIRED);
}
END_TEST

/* -- threads that wait behind the gate ------------------------------------------------------ */

struct writer {
  pthread_t thread;
  uint64_t off_bytes;
  unsigned flags;
  int result, errnum;
  uint64_t done_bytes;
};

static void *
write_one (void *opaque)
{
  struct writer *w = opaque;
  char buf[512];
  const struct iovec iov = { buf, sizeof buf };
  struct bdev_req req = { .op = BDEV_WRITE, .flags = w->flags, .off_bytes = w->off_bytes,
                          .len_bytes = 512, .iov = &iov, .iovcnt = 1 };

  memset (buf, (int) (w->off_bytes / 512), sizeof buf);
  w->result = bdev_execute (mq_bdev, &req);
  w->errnum = errno;
  w->done_bytes = req.done_bytes;
  return NULL;
}

static void
gate (bool closed)
{
  pthread_mutex_lock (&drive.lock);
  drive.closed_gate = closed;
  pthread_cond_broadcast (&drive.cond);
  pthread_mutex_unlock (&drive.lock);
}

static void
wait_for_queued (unsigned n)
{
  struct mq_stats s;

  do {
    sh_sleep (&sh_clock_monotonic, NS_PER_MS);
    mq_get_stats (mq_of_bdev (mq_bdev), &s);
  } while (s.total.queued < n);
  sh_sleep (&sh_clock_monotonic, 20 * NS_PER_MS);
}

/* One write goes ahead and waits at the gate; n more, contiguous, come behind. */
static void
write_behind_gate (struct writer *w, unsigned n, uint64_t off_bytes, unsigned flags)
{
  unsigned i;

  gate (true);
  for (i = 0; i <= n; ++i) {
    w[i].off_bytes = i == 0 ? 3 * ZONE : off_bytes + (i - 1) * 512;
    w[i].flags = i == 0 ? 0 : flags;
    pthread_create (&w[i].thread, NULL, write_one, &w[i]);
    wait_for_queued (i + 1);
  }
}

static void
join (struct writer *w, unsigned n)
{
  unsigned i;

  for (i = 0; i <= n; ++i)
    pthread_join (w[i].thread, NULL);
}

START_TEST (writes_that_wait_and_touch_become_one_command)
{
  static struct writer w[9];
  unsigned i;

  write_behind_gate (w, 8, ZONE, 0);
  gate (false);
  join (w, 8);
  ck_assert_uint_eq (drive.commands, 2);
  ck_assert_uint_eq (drive.last.off_bytes, ZONE);
  ck_assert_uint_eq (drive.last.len_bytes, 8 * 512);
  for (i = 1; i <= 8; ++i) {
    ck_assert_int_eq (w[i].result, 0);
    ck_assert_uint_eq (w[i].done_bytes, 512);
    ck_assert_uint_eq (drive.data[w[i].off_bytes], (w[i].off_bytes / 512) & 0xff);
  }
}
END_TEST

START_TEST (each_part_hears_whether_it_was_done)
{
  static struct writer w[9];
  unsigned i;

  write_behind_gate (w, 8, ZONE, _i ? BDEV_FUA : 0);
  drive.fail = EIO;
  drive.done_at_failure = 3 * 512 + 100;
  gate (false);
  join (w, 8);
  for (i = 1; i <= 8; ++i) {
    const bool done = i <= 3 && !_i;    /* of a failed FUA write nothing is sure */

    ck_assert_int_eq (w[i].result, done ? 0 : -1);
    if (!done)
      ck_assert_int_eq (w[i].errnum, EIO);
  }
}
END_TEST

START_TEST (writes_with_and_without_fua_stay_apart)
{
  static struct writer w[3];

  write_behind_gate (w, 1, ZONE, 0);
  w[2] = (struct writer) { .off_bytes = ZONE + 512, .flags = BDEV_FUA };
  pthread_create (&w[2].thread, NULL, write_one, &w[2]);
  wait_for_queued (3);
  gate (false);
  join (w, 2);
  ck_assert_uint_eq (drive.commands, 3);
}
END_TEST

START_TEST (writes_to_a_sequential_zone_come_one_at_a_time)
{
  static struct writer w[9];

  ck_assert_int_eq (tagset_resize (set, 8, &err), 0);
  write_behind_gate (w, 8, 5 * ZONE, 0);        /* the drive asserts it */
  gate (false);
  join (w, 8);
  ck_assert_uint_le (drive.commands, 9);
}
END_TEST

static void *
probe_once (void *opaque)
{
  struct bdev_req probe = { .op = BDEV_PROBE };

  ck_assert_int_eq (bdev_execute (mq_bdev, &probe), 0);
  return NULL;
}

START_TEST (a_probe_reaches_the_drive_while_every_tag_hangs)
{
  static struct writer w[3];
  pthread_t prober;

  write_behind_gate (w, 2, ZONE, 0);
  pthread_create (&prober, NULL, probe_once, NULL);
  pthread_mutex_lock (&drive.lock);
  while (drive.waiting < 2)     /* the write and, beside it, the probe */
    pthread_cond_wait (&drive.cond, &drive.lock);
  ck_assert_int_eq (drive.last.op, BDEV_PROBE);
  pthread_mutex_unlock (&drive.lock);
  gate (false);
  pthread_join (prober, NULL);
  join (w, 2);
}
END_TEST

int
main (void)
{
  Suite *s = suite_create ("mq-bdev");
  TCase *tc = tcase_create ("mq-bdev");

  tcase_add_checked_fixture (tc, set_up, tear_down);
  tcase_add_loop_test (tc, every_command_arrives_as_it_was_given, 0, BDEV_NR_OPS);
  tcase_add_test (tc, zones_are_reported_as_the_drive_does);
  tcase_add_test (tc, writes_that_wait_and_touch_become_one_command);
  tcase_add_loop_test (tc, each_part_hears_whether_it_was_done, 0, 2);
  tcase_add_test (tc, writes_with_and_without_fua_stay_apart);
  tcase_add_test (tc, writes_to_a_sequential_zone_come_one_at_a_time);
  tcase_add_test (tc, a_probe_reaches_the_drive_while_every_tag_hangs);
  suite_add_tcase (s, tc);
  return run_suite (s);
}
