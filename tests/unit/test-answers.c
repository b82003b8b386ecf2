/* SPDX-License-Identifier: BSD-3-Clause */
/* core/scsi: what the disk does with each answer of a drive, row by row, once
 * through the table and once through a disk whose drive answers so. */
#include <config.h>
#include "disk-fixture.h"
#include "scsi/answers.h"

enum how {
  SUCCEEDS,                     /* at once */
  FAILS,                        /* at once, the drive is not asked again */
  COUNTED,                      /* retried at once, five times */
  DELAYED,                      /* retried with delays while the time lasts */
  ATTENTION,                    /* retried at once, without limit in practice */
};

struct row {
  enum answer_source source;
  int code, asc, ascq;
  enum how how;
  int errnum;                   /* when it lasts */
};

#define HOST(h, ...) { FROM_HOST, h, 0, 0, __VA_ARGS__ }
#define STATUS(s, ...) { FROM_STATUS, s, 0, 0, __VA_ARGS__ }
#define SENSE(k, asc, ascq, ...) { FROM_SENSE, k, asc, ascq, __VA_ARGS__ }
#define ERRNO(e, ...) { FROM_ERRNO, e, 0, 0, __VA_ARGS__ }

/* Written down from the description of the block layer's behaviour, apart from
   the table in answers.c.  Rows that need a helping command have tests of
   their own below. */
static const struct row rows[] = {
  STATUS (0x00, SUCCEEDS, 0), STATUS (0x04, SUCCEEDS, 0),
  STATUS (0x08, DELAYED, EIO), STATUS (0x18, FAILS, EBADE), STATUS (0x28, DELAYED, EIO),
  STATUS (0x30, FAILS, EIO), STATUS (0x40, COUNTED, EIO),
  HOST (0x01, FAILS, ENODEV), HOST (0x04, FAILS, ENODEV), HOST (0x02, COUNTED, EIO),
  HOST (0x06, COUNTED, EIO), HOST (0x07, COUNTED, EIO), HOST (0x0b, COUNTED, EIO),
  HOST (0x03, COUNTED, ETIMEDOUT), HOST (0x08, COUNTED, EIO), HOST (0x0c, DELAYED, EIO),
  HOST (0x0d, DELAYED, EIO), HOST (0x0e, COUNTED, EIO), HOST (0x0f, FAILS, ENOLINK),
  HOST (0x14, FAILS, ENOLINK), HOST (0x05, COUNTED, EIO), HOST (0x7f, COUNTED, EIO),
  SENSE (0, 0, 0, SUCCEEDS, 0), SENSE (1, 0x5d, 0, SUCCEEDS, 0),
  SENSE (2, 4, 0x01, DELAYED, EIO), SENSE (2, 4, 0x04, DELAYED, EIO),
  SENSE (2, 4, 0x05, DELAYED, EIO), SENSE (2, 4, 0x06, DELAYED, EIO),
  SENSE (2, 4, 0x07, DELAYED, EIO), SENSE (2, 4, 0x08, DELAYED, EIO),
  SENSE (2, 4, 0x09, DELAYED, EIO), SENSE (2, 4, 0x11, DELAYED, EIO),
  SENSE (2, 4, 0x14, DELAYED, EIO), SENSE (2, 4, 0x1a, DELAYED, EIO),
  SENSE (2, 4, 0x1b, DELAYED, EIO), SENSE (2, 4, 0x1d, DELAYED, EIO),
  SENSE (2, 4, 0x0a, DELAYED, EIO), SENSE (2, 4, 0x24, FAILS, EIO),
  SENSE (2, 4, 0x25, FAILS, EIO), SENSE (2, 0x3a, 0, FAILS, EIO), SENSE (2, 5, 0, FAILS, EIO),
  SENSE (3, 0x11, 0, FAILS, ENODATA), SENSE (3, 0x13, 0, FAILS, ENODATA),
  SENSE (3, 0x14, 1, FAILS, ENODATA), SENSE (3, 0x0c, 0, COUNTED, EIO),
  SENSE (4, 0x44, 0, FAILS, EREMOTEIO),
  SENSE (5, 0x24, 0, FAILS, EREMOTEIO), SENSE (5, 0x10, 1, FAILS, EILSEQ),
  SENSE (5, 0x21, 0, FAILS, EREMOTEIO), SENSE (5, 0x22, 0, FAILS, EREMOTEIO),
  SENSE (5, 0x26, 0, FAILS, EREMOTEIO), SENSE (5, 0x1a, 0, FAILS, EIO),
  SENSE (5, 0x21, 4, FAILS, EREMOTEIO), SENSE (5, 0x21, 5, FAILS, EREMOTEIO),
  SENSE (5, 0x21, 6, FAILS, EREMOTEIO), SENSE (5, 0x21, 7, FAILS, EREMOTEIO),
  SENSE (5, 0x21, 8, FAILS, EREMOTEIO), SENSE (5, 0x21, 9, FAILS, EREMOTEIO),
  SENSE (6, 0x29, 0, ATTENTION, EIO), SENSE (6, 0x29, 1, ATTENTION, EIO),
  SENSE (6, 0x29, 7, ATTENTION, EIO), SENSE (6, 0x28, 0, ATTENTION, EIO),
  SENSE (6, 0x2a, 1, ATTENTION, EIO), SENSE (6, 0x2a, 9, ATTENTION, EIO),
  SENSE (6, 0x3f, 0x0e, ATTENTION, EIO), SENSE (6, 0x3f, 1, ATTENTION, EIO),
  SENSE (7, 0x27, 7, FAILS, ENOSPC), SENSE (7, 0x27, 2, FAILS, EROFS),
  SENSE (7, 0x27, 8, FAILS, EROFS), SENSE (7, 0x2c, 0x0e, FAILS, EIO),
  SENSE (7, 0x20, 2, FAILS, EIO),
  SENSE (8, 0, 0, FAILS, EIO), SENSE (0x0d, 0, 0, FAILS, EIO),
  SENSE (0x0e, 0x1d, 0, FAILS, EIO), SENSE (9, 0x80, 0, FAILS, EIO),
  SENSE (0x0b, 0x10, 1, FAILS, EILSEQ), SENSE (0x0b, 0x2e, 1, FAILS, ETIME),
  SENSE (0x0b, 0x2e, 2, FAILS, ETIME), SENSE (0x0b, 0x4b, 3, COUNTED, EIO),
  SENSE (0x0b, 0x47, 0, COUNTED, EIO), SENSE (0x0b, 0, 0, COUNTED, EIO),
  ERRNO (EPERM, FAILS, EPERM), ERRNO (EINVAL, FAILS, EINVAL), ERRNO (ENODEV, FAILS, ENODEV),
  ERRNO (ENXIO, FAILS, ENODEV), ERRNO (ENOMEM, DELAYED, ENOMEM), ERRNO (EAGAIN, DELAYED, EIO),
  ERRNO (EBUSY, DELAYED, EIO), ERRNO (EDOM, DELAYED, EIO), ERRNO (ETIMEDOUT, COUNTED, ETIMEDOUT),
  ERRNO (EMSGSIZE, FAILS, EINVAL), ERRNO (EIO, FAILS, EIO), ERRNO (ENOTTY, FAILS, EIO),
};

static struct fake_script *
script_of (struct fake_drive *f, const struct row *r, int opcode)
{
  struct fake_script *s;

  if (r->source == FROM_SENSE)
    s = fake_add_sense (f, opcode, (uint8_t) r->code, (uint8_t) r->asc, (uint8_t) r->ascq);
  else {
    s = fake_add (f, opcode);
    if (r->source == FROM_ERRNO)
      s->errnum = r->code;
    else if (r->source == FROM_HOST)
      s->host_status = (uint8_t) r->code;
    else
      s->status = (uint8_t) r->code;
  }
  s->effect = r->how == SUCCEEDS ? EFFECT_ALL : EFFECT_NONE;
  return s;
}

static int
read_once (struct fixture *x)
{
  uint8_t buf[4096];
  uint64_t done;
  const int r = execute (x, BDEV_READ, buf, sizeof buf, 1 * MiB, 0, &done);

  ck_assert_uint_eq (done, r == 0 ? sizeof buf : 0);
  return r;
}

START_TEST (an_answer_that_comes_once_is_dealt_with)
{
  const struct row *r = &rows[_i];
  struct fixture x;

  fixture_open (&x, fake_new (512, 16, 2048, 4));
  script_of (x.f, r, OP_READ_16);
  if (r->how == FAILS)
    assert_errno (read_once (&x), r->errnum);
  else
    ck_assert_int_eq (read_once (&x), 0);
  ck_assert_uint_eq (fake_count (x.f, OP_READ_16), r->how <= FAILS ? 1 : 2);
  ck_assert_uint_eq (x.f->nr_log, fake_count (x.f, OP_READ_16));
  fixture_close (&x);
}
END_TEST

START_TEST (an_answer_that_lasts_ends_in_its_errno_and_in_time)
{
  const struct row *r = &rows[_i];
  struct fixture x;
  unsigned sent;

  fixture_open (&x, fake_new (512, 16, 2048, 4));
  script_of (x.f, r, OP_READ_16)->count = -1;
  if (r->how == SUCCEEDS)
    ck_assert_int_eq (read_once (&x), 0);
  else
    assert_errno (read_once (&x), r->errnum);
  sent = fake_count (x.f, OP_READ_16);
  switch (r->how) {
  case SUCCEEDS:
  case FAILS:
    ck_assert_uint_eq (sent, 1);
    break;
  case COUNTED:
    ck_assert_uint_eq (sent, 6);
    ck_assert_uint_eq (x.f->slept_ns, 0);
    break;
  case DELAYED:
    ck_assert_uint_gt (sent, 10);
    ck_assert_uint_ge (x.f->slept_ns, 180 * NS_PER_S);
    ck_assert_uint_le (x.f->slept_ns, 182 * NS_PER_S);
    break;
  case ATTENTION:
    ck_assert_uint_gt (sent, 9);        /* a drive has so many at most */
    ck_assert_uint_le (sent, 20);
    break;
  }
  fixture_close (&x);
}
END_TEST

/* Timeouts of 70 s use up the time before the tries; the first one's length is
   not known. */
START_TEST (retries_end_when_their_total_time_is_over)
{
  struct fixture x;
  struct fake_script *s;

  fixture_open (&x, fake_new (512, 16, 2048, 4));
  s = fake_add (x.f, OP_READ_16);
  s->host_status = SH_HOST_TIME_OUT;
  s->count = -1;
  s->takes_ns = 70 * NS_PER_S;
  assert_errno (read_once (&x), ETIMEDOUT);
  ck_assert_uint_eq (fake_count (x.f, OP_READ_16), 4);
  fixture_close (&x);
}
END_TEST

START_TEST (every_row_of_the_table_is_reached_and_complete)
{
  for (unsigned i = 0; i < answer_nr_rules; ++i) {
    const struct answer_rule *r = &answer_rules[i];
    struct sh_command c = { .cdb = { OP_READ_16 } };
    struct sense sense;
    int errnum = 0;

    ck_assert ((r->answer.errnum == 0) == (r->answer.action == ANSWER_SUCCESS));
    ck_assert_ptr_nonnull (r->answer.meaning);
    if (r->answer.errnum == 0)
      ck_assert_int_eq (r->answer.fate, FATE_RAN);
    switch (r->source) {
    case FROM_ERRNO:
      errnum = r->code == ANSWER_ANY ? ENOTTY : r->code;
      break;
    case FROM_HOST:
      c.host_status = r->code == ANSWER_ANY ? 0x33 : (uint8_t) r->code;
      break;
    case FROM_STATUS:
      c.status = r->code == ANSWER_ANY ? 0x32 : (uint8_t) r->code;
      break;
    case FROM_SENSE:
      c.status = SH_STATUS_CHECK_CONDITION;
      c.sense[0] = (r->only & ONLY_DEFERRED) ? 0x71 : 0x70;
      c.sense[2] = r->code == ANSWER_ANY ? ((r->only & ONLY_DEFERRED) ? 4 : 9)
                                         : (uint8_t) r->code;
      c.sense[7] = 10;
      /* a value that no row before names, where the row takes any */
      c.sense[12] = r->asc == ANSWER_ANY ? 0x77 : (uint8_t) r->asc;
      c.sense[13] = r->ascq == ANSWER_ANY ? 0x77 : (uint8_t) r->ascq;
      c.sense_len = 18;
      if (r->code == SENSE_ILLEGAL && r->asc == 0x20 && !(r->only & ONLY_RW))
        c.cdb[0] = OP_UNMAP;
      break;
    }
    ck_assert_msg (answer_find (&c, errnum, (r->only & ONLY_REMOVABLE) != 0, &sense) ==
                   &r->answer, "row %u (%s) is hidden by another", i, r->answer.meaning);
  }
}
END_TEST

START_TEST (a_medium_change_fails_on_a_removable_drive_alone)
{
  struct sh_command c = { .cdb = { OP_READ_16 }, .status = 2, .sense_len = 18,
                          .sense = { 0x70, 0, 6, [7] = 10, [12] = 0x28 } };
  struct sense sense;

  ck_assert_int_eq (answer_find (&c, 0, true, &sense)->action, ANSWER_FAIL);
  ck_assert_int_eq (answer_find (&c, 0, false, &sense)->action, ANSWER_ATTENTION);
}
END_TEST

START_TEST (a_stopped_drive_is_started_once)
{
  struct fixture x;

  fixture_open (&x, fake_new (512, 16, 2048, 4));
  fake_add_sense (x.f, OP_READ_16, 2, 4, 2);
  ck_assert_int_eq (read_once (&x), 0);
  ck_assert_uint_eq (fake_count (x.f, OP_START_STOP_UNIT), 1);
  ck_assert_uint_eq (x.f->log[1].cdb[4], 1);
  ck_assert_uint_eq (x.f->log[1].cdb[1], 0);    /* not IMMED */
  x.f->nr_log = 0;
  fake_add_sense (x.f, OP_READ_16, 2, 4, 2)->count = -1;
  assert_errno (read_once (&x), EIO);
  ck_assert_uint_eq (fake_count (x.f, OP_START_STOP_UNIT), 1);
  fixture_close (&x);
}
END_TEST

START_TEST (missing_sense_is_asked_for_and_believed)
{
  struct fixture x;
  struct fake_script *s;

  fixture_open (&x, fake_new (512, 16, 2048, 4));
  fake_add (x.f, OP_READ_16)->status = SH_STATUS_CHECK_CONDITION;
  s = fake_add (x.f, OP_REQUEST_SENSE);
  s->status = SH_STATUS_GOOD;
  s->resid = SH_SENSE_MAX;      /* nothing came */
  ck_assert_int_eq (read_once (&x), 0);
  ck_assert_uint_eq (fake_count (x.f, OP_REQUEST_SENSE), 1);
  ck_assert_uint_eq (fake_count (x.f, OP_READ_16), 2);
  fixture_close (&x);
}
END_TEST

START_TEST (a_deferred_error_repeats_the_command_and_fails_the_next_flush_once)
{
  struct fixture x;
  struct disk_counters counters;

  fixture_open (&x, fake_new (512, 16, 2048, 4));
  fake_add_sense (x.f, OP_READ_16, 4, 0x44, 0)->sense[0] = 0x71;
  ck_assert_int_eq (read_once (&x), 0);
  ck_assert_uint_eq (fake_count (x.f, OP_READ_16), 2);
  assert_errno (bdev_flush (x.bdev), EIO);
  ck_assert_int_eq (bdev_flush (x.bdev), 0);
  disk_get_counters (x.bdev, &counters);
  ck_assert_uint_eq (counters.deferred_errors, 1);
  fixture_close (&x);
}
END_TEST

START_TEST (a_deferred_recovered_error_is_no_error)
{
  struct fixture x;

  fixture_open (&x, fake_new (512, 16, 2048, 4));
  fake_add_sense (x.f, OP_READ_16, 1, 0x17, 0)->sense[0] = 0x71;
  ck_assert_int_eq (read_once (&x), 0);
  ck_assert_int_eq (bdev_flush (x.bdev), 0);
  fixture_close (&x);
}
END_TEST

START_TEST (sense_of_an_aborted_command_is_the_reason)
{
  struct fixture x;

  fixture_open (&x, fake_new (512, 16, 2048, 4));
  fake_add_sense (x.f, OP_READ_16, 0x0b, 0x10, 1)->host_status = SH_HOST_ABORT;
  assert_errno (read_once (&x), EILSEQ);
  /* but "no sense" of an aborted command is no success */
  x.f->nr_log = 0;
  fake_add_sense (x.f, OP_READ_16, 0, 0, 0)->host_status = SH_HOST_ABORT;
  ck_assert_int_eq (read_once (&x), 0);
  ck_assert_uint_eq (fake_count (x.f, OP_READ_16), 2);
  fixture_close (&x);
}
END_TEST

START_TEST (resets_are_counted_where_the_volume_can_see_them)
{
  struct fixture x;
  struct disk_counters counters;

  fixture_open (&x, fake_new (512, 16, 2048, 4));
  ck_assert_uint_eq (bdev_resets (x.bdev), 0);
  fake_add_sense (x.f, OP_READ_16, 6, 0x29, 0);
  fake_add_sense (x.f, OP_READ_16, 6, 0x29, 3);
  fake_add_sense (x.f, OP_READ_16, 6, 0x2a, 9);
  ck_assert_int_eq (read_once (&x), 0);
  ck_assert_uint_eq (bdev_resets (x.bdev), 2);
  disk_get_counters (x.bdev, &counters);
  ck_assert_uint_eq (counters.attentions, 3);
  ck_assert_uint_eq (counters.resets, 2);
  ck_assert_uint_eq (counters.capacity_changes, 1);
  fixture_close (&x);
}
END_TEST

START_TEST (a_power_loss_with_unflushed_writes_fails_the_next_flush)
{
  struct fixture x;
  uint8_t buf[512] = { 0 };

  fixture_open (&x, fake_new (512, 16, 2048, 4));
  fake_add_sense (x.f, OP_READ_16, 6, 0x29, 1);
  ck_assert_int_eq (read_once (&x), 0);
  ck_assert_int_eq (bdev_flush (x.bdev), 0);    /* nothing was lost */
  ck_assert_int_eq (bdev_write (x.bdev, buf, sizeof buf, 0, 0), 0);
  fake_add_sense (x.f, OP_READ_16, 6, 0x29, 1);
  ck_assert_int_eq (read_once (&x), 0);
  assert_errno (bdev_flush (x.bdev), EIO);
  ck_assert_int_eq (bdev_write (x.bdev, buf, sizeof buf, 0, 0), 0);
  ck_assert_int_eq (bdev_flush (x.bdev), 0);
  fake_add_sense (x.f, OP_READ_16, 6, 0x29, 1);
  ck_assert_int_eq (read_once (&x), 0);
  ck_assert_int_eq (bdev_flush (x.bdev), 0);    /* it had been flushed */
  fixture_close (&x);
}
END_TEST

START_TEST (a_timeout_is_logged_with_command_place_and_age)
{
  struct fixture x;
  struct fake_script *s;
  struct bdev_zone z;
  size_t nr;

  fixture_open (&x, fake_new (512, 16, 2048, 4));
  s = fake_add (x.f, OP_ZONE_IN);
  s->host_status = SH_HOST_TIME_OUT;
  s->takes_ns = 35 * NS_PER_S;
  ck_assert_int_eq (bdev_report_zones (x.bdev, 5 * MiB, &z, 1, &nr), 0);
  ck_assert_msg (strstr (x.last_log, "REPORT ZONES at LBA 10240") &&
                 strstr (x.last_log, "no answer in time") && strstr (x.last_log, "35.0 s"),
                 "%s", x.last_log);
  fake_add (x.f, OP_READ_16)->host_status = SH_HOST_TIME_OUT;
  ck_assert_int_eq (read_once (&x), 0);
  ck_assert_msg (strstr (x.last_log, "READ(16) at LBA 2048: no answer in time") &&
                 strstr (x.last_log, "30 s"), "%s", x.last_log);
  fixture_close (&x);
}
END_TEST

START_TEST (a_flood_of_errors_is_logged_in_measure)
{
  struct fixture x;
  unsigned lines = 0;

  fixture_open (&x, fake_new (512, 16, 2048, 4));
  fake_add_sense (x.f, OP_READ_16, 4, 0x44, 0)->count = -1;
  for (int i = 0; i < 100; ++i) {
    x.last_log[0] = '\0';
    assert_errno (read_once (&x), EREMOTEIO);
    lines += x.last_log[0] != '\0';
  }
  ck_assert_uint_eq (lines, 10);
  x.f->now_ns += NS_PER_S;
  assert_errno (read_once (&x), EREMOTEIO);
  ck_assert_ptr_nonnull (strstr (x.last_log, "hardware error (04/44/00)"));
  fixture_close (&x);
}
END_TEST

int
main (void)
{
  Suite *suite = suite_create ("answers");
  TCase *tcase = tcase_create ("answers");
  SRunner *runner;
  int failed;

  tcase_add_loop_test (tcase, an_answer_that_comes_once_is_dealt_with, 0, ARRAY_SIZE (rows));
  tcase_add_loop_test (tcase, an_answer_that_lasts_ends_in_its_errno_and_in_time, 0,
                       ARRAY_SIZE (rows));
  tcase_add_test (tcase, retries_end_when_their_total_time_is_over);
  tcase_add_test (tcase, every_row_of_the_table_is_reached_and_complete);
  tcase_add_test (tcase, a_medium_change_fails_on_a_removable_drive_alone);
  tcase_add_test (tcase, a_stopped_drive_is_started_once);
  tcase_add_test (tcase, missing_sense_is_asked_for_and_believed);
  tcase_add_test (tcase, a_deferred_error_repeats_the_command_and_fails_the_next_flush_once);
  tcase_add_test (tcase, a_deferred_recovered_error_is_no_error);
  tcase_add_test (tcase, sense_of_an_aborted_command_is_the_reason);
  tcase_add_test (tcase, resets_are_counted_where_the_volume_can_see_them);
  tcase_add_test (tcase, a_power_loss_with_unflushed_writes_fails_the_next_flush);
  tcase_add_test (tcase, a_timeout_is_logged_with_command_place_and_age);
  tcase_add_test (tcase, a_flood_of_errors_is_logged_in_measure);
  suite_add_tcase (suite, tcase);
  runner = srunner_create (suite);
  srunner_run_all (runner, CK_ENV);
  failed = srunner_ntests_failed (runner);
  srunner_free (runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
