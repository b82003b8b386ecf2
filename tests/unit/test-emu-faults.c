/* SPDX-License-Identifier: BSD-3-Clause */
/* Faults of the emulated drive: opts and every_nth, and the programmed list. */
#include <config.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/error.h"
#include "emu-fixture.h"

#define SHAPE "size=16M,zone-size=1M,conventional=4,lbs=512,no_answer_ms=0"
#define Z 2048u
#define SEQ(n) ((4u + (n)) * Z)

static uint8_t buf[64 * 1024];

static void
set (struct emu *emu, const char *key, const char *value)
{
  struct sh_error err = { 0 };

  ck_assert_msg (emu_set (emu, key, value, &err) == 0, "%s", err.message);
}

/* ---- opts and every_nth ---- */

START_TEST (medium_error_hits_reads_of_the_bad_range)
{
  struct emu *emu = fx_drive (SHAPE ",opts=2,medium_error_start=100,medium_error_count=5");

  ck_answer (fx_read (emu, 90, 10, buf), 0);
  ck_answer (fx_read (emu, 96, 8, buf), SENSE (0x031100));
  ck_assert_uint_eq (fx_cmd.sense[0], 0xf0);
  ck_assert_uint_eq (get_be32 (fx_cmd.sense + 3), 100);
  ck_assert_uint_eq (fx_cmd.resid, 4096);
  ck_answer (fx_read (emu, 104, 1, buf), SENSE (0x031100));
  ck_answer (fx_read (emu, 105, 1, buf), 0);
  ck_answer (fx_write (emu, 100, 1, buf), 0);
  emu_close (emu);
}
END_TEST

/* Each n-th command arms the fault, the first that can use it takes it. */
START_TEST (every_nth_hits_each_nth_command)
{
  static const struct { const char *opts; int64_t answer; } cases[] = {
    { "4", HOST (SH_HOST_TIME_OUT) },
    { "0x80", HOST (SH_HOST_TIME_OUT) },
    { "8", SENSE (0x015d00) },
    { "0x10", SENSE (0x0b4b03) },
    { "0x20", HOST (SH_HOST_ABORT) | SENSE (0x0b1001) },
    { "0x40", HOST (SH_HOST_ABORT) | SENSE (0x051001) },
    { "0x8000", HOST (SH_HOST_REQUEUE) },
    { "0x10000", HOST (SH_HOST_ABORT) },
    { "0x20000", SENSE (0x052104) },
  };
  size_t i;
  unsigned n;

  for (i = 0; i < ARRAY_SIZE (cases); ++i) {
    struct emu *emu = fx_drive (SHAPE);

    set (emu, "opts", cases[i].opts);
    set (emu, "every_nth", "3");
    for (n = 1; n <= 9; ++n)
      ck_answer (fx_write (emu, 0, 8, buf), n % 3 == 0 ? cases[i].answer : 0);
    emu_close (emu);
  }
}
END_TEST

START_TEST (negative_every_nth_hits_everything_from_the_nth_on)
{
  struct emu *emu = fx_drive (SHAPE ",opts=8");
  unsigned n;

  set (emu, "every_nth", "-3");
  for (n = 1; n <= 8; ++n)
    ck_answer (fx_read (emu, 0, 8, buf), n >= 3 ? SENSE (0x015d00) : 0);
  set (emu, "every_nth", "0");
  ck_answer (fx_read (emu, 0, 8, buf), 0);
  emu_close (emu);
}
END_TEST

START_TEST (short_read_moves_half_and_says_so)
{
  struct emu *emu = fx_drive (SHAPE ",opts=0x100,every_nth=1");

  ck_answer (fx_read (emu, 0, 8, buf), 0);
  ck_assert_uint_eq (fx_cmd.resid, 2048);
  emu_close (emu);
}
END_TEST

START_TEST (cache_is_reported_off_when_asked)
{
  struct emu *emu = fx_drive (SHAPE ",opts=0x1000");
  const uint8_t cdb[6] = { 0x1a, 8, 8, 0, 64 };

  ck_answer (fx_send (emu, cdb, 6, SH_XFER_FROM_DEVICE, buf, 64), 0);
  ck_assert_uint_eq (buf[6] & 4, 0);
  emu_close (emu);
}
END_TEST

/* ---- the programmed list ---- */

START_TEST (fault_hits_its_operation_range_and_count)
{
  struct emu *emu = fx_drive (SHAPE);

  set (emu, "fault", "read-16:lba=100-109:skip=1:count=2:sense=03/11/00:info=105");
  ck_answer (fx_read (emu, 90, 10, buf), 0);
  ck_answer (fx_write (emu, 100, 1, buf), 0);
  ck_answer (fx_read (emu, 109, 1, buf), 0);            /* skipped */
  ck_answer (fx_read (emu, 96, 8, buf), SENSE (0x031100));
  ck_assert_uint_eq (get_be32 (fx_cmd.sense + 3), 105);
  ck_answer (fx_read (emu, 109, 1, buf), SENSE (0x031100));
  ck_answer (fx_read (emu, 109, 1, buf), 0);
  ck_assert_uint_eq (emu_counter (emu, "faults-injected"), 2);
  emu_close (emu);
}
END_TEST

START_TEST (first_second_and_last_report_can_fail)
{
  struct emu *emu = fx_drive (SHAPE);
  struct fx_zone z;
  uint32_t length;
  size_t nr;

  set (emu, "fault", "report-zones:skip=1:count=1:sense=04/44/00");
  ck_answer (fx_report (emu, 0, 0, &z, 1, &nr, &length), 0);
  ck_answer (fx_report (emu, 0, 0, &z, 1, &nr, &length), SENSE (0x044400));
  ck_answer (fx_report (emu, 0, 0, &z, 1, &nr, &length), 0);
  emu_close (emu);
}
END_TEST

START_TEST (answers_are_those_that_were_asked_for)
{
  static const struct { const char *fault; int64_t answer; } cases[] = {
    { "any:count=1:status=08", STATUS (0x08) },
    { "any:count=1:status=28", STATUS (0x28) },
    { "read:count=1:host=0e", HOST (0x0e) },
    { "media:count=1:timeout", HOST (SH_HOST_TIME_OUT) },
    { "read:count=1:sense=0b/00/00", SENSE (0x0b0000) },
    { "read:count=1:sense=6/29/0", SENSE (0x062900) },
  };
  size_t i;

  for (i = 0; i < ARRAY_SIZE (cases); ++i) {
    struct emu *emu = fx_drive (SHAPE);

    set (emu, "fault", cases[i].fault);
    ck_answer (fx_read (emu, 0, 8, buf), cases[i].answer);
    ck_assert_uint_eq (fx_cmd.resid, 4096);
    ck_answer (fx_read (emu, 0, 8, buf), 0);
    emu_close (emu);
  }
}
END_TEST

START_TEST (write_that_fails_half_way_moves_the_pointer_by_half)
{
  struct emu *emu = fx_drive (SHAPE);

  set (emu, "fault", "write:skip=2:count=1:done=half:sense=03/0c/00");
  ck_answer (fx_write (emu, SEQ (0), 8, buf), 0);
  ck_answer (fx_write (emu, SEQ (0) + 8, 8, buf), 0);
  ck_answer (fx_write (emu, SEQ (0) + 16, 8, buf), SENSE (0x030c00));
  ck_assert_uint_eq (fx_get_zone (emu, SEQ (0)).wp, SEQ (0) + 20);
  ck_answer (fx_write (emu, SEQ (0) + 24, 8, buf), SENSE (0x052104));
  ck_answer (fx_write (emu, SEQ (0) + 20, 8, buf), 0);
  emu_check (emu);
  emu_close (emu);
}
END_TEST

START_TEST (write_of_unknown_fate_may_have_been_done)
{
  struct emu *emu = fx_drive (SHAPE);

  set (emu, "fault", "write:count=1:done=all:timeout");
  ck_answer (fx_write (emu, SEQ (0), 8, buf), HOST (SH_HOST_TIME_OUT));
  ck_assert_uint_eq (fx_get_zone (emu, SEQ (0)).wp, SEQ (0) + 8);
  set (emu, "fault", "write:count=1:done=none:timeout");
  ck_answer (fx_write (emu, SEQ (0) + 8, 8, buf), HOST (SH_HOST_TIME_OUT));
  ck_assert_uint_eq (fx_get_zone (emu, SEQ (0)).wp, SEQ (0) + 8);
  set (emu, "fault", "write:count=1:done=3");
  ck_answer (fx_write (emu, SEQ (0) + 8, 8, buf), 0);
  ck_assert_uint_eq (fx_cmd.resid, 5 * 512);
  ck_assert_uint_eq (fx_get_zone (emu, SEQ (0)).wp, SEQ (0) + 11);
  emu_close (emu);
}
END_TEST

START_TEST (drive_that_is_gone_stays_gone)
{
  struct emu *emu = fx_drive (SHAPE);

  set (emu, "fault", "write:count=1:gone");
  ck_answer (fx_write (emu, 0, 8, buf), -1);
  ck_assert_int_eq (fx_errno, ENODEV);
  ck_answer (fx_tur (emu), -1);
  ck_assert_int_eq (fx_errno, ENODEV);
  emu_power_cycle (emu);
  ck_answer (fx_tur (emu), SENSE (0x062901));
  emu_close (emu);
}
END_TEST

START_TEST (unit_attention_and_zone_condition_follow_the_command)
{
  struct emu *emu = fx_drive (SHAPE);

  set (emu, "fault", "write:count=1:done=half:ua=29/00:zone=read-only");
  ck_answer (fx_write (emu, SEQ (0), 8, buf), 0);
  ck_assert_uint_eq (fx_cmd.resid, 2048);
  ck_answer (fx_read (emu, SEQ (0), 4, buf), SENSE (0x062900));
  ck_answer (fx_read (emu, SEQ (0), 4, buf), 0);
  ck_answer (fx_write (emu, SEQ (0) + 4, 8, buf), SENSE (0x072708));
  ck_assert_uint_eq (fx_get_zone (emu, SEQ (0)).cond, ZONE_READ_ONLY);
  emu_check (emu);
  emu_close (emu);
}
END_TEST

START_TEST (returned_data_can_be_overwritten)
{
  struct emu *emu = fx_drive (SHAPE);
  struct fx_zone z[4];
  uint32_t length;
  size_t nr;

  /* the second zone begins one block early; the list claims to be endless */
  set (emu, "fault", "report-zones:count=1:patch=144/00000000000007ff");
  set (emu, "fault", "report-zones:count=1:patch=0/ffffffff");
  ck_answer (fx_report (emu, 0, 0x80, z, 4, &nr, &length), 0);
  ck_assert_uint_eq (z[1].start, Z - 1);
  ck_answer (fx_report (emu, 0, 0x80, z, 4, &nr, &length), 0);
  ck_assert_uint_eq (length, UINT32_MAX);
  emu_close (emu);
}
END_TEST

static uint64_t slept_ns;

static uint64_t
fixed_now (void *opaque)
{
  return NS_PER_S;
}

static void
note_sleep (void *opaque, uint64_t ns)
{
  slept_ns += ns;
}

START_TEST (delayed_and_unanswered_commands_take_their_time)
{
  static const struct sh_clock clock = { .now_ns = fixed_now, .sleep_ns = note_sleep };
  struct emu *emu = fx_raw_drive ("size=16M,zone-size=1M");

  emu_set_clock (emu, &clock);
  ck_answer (fx_tur (emu), SENSE (0x062901));
  set (emu, "fault", "report-zones:count=1:delay=35000");
  set (emu, "fault", "flush:count=1:timeout");
  fx_get_zone (emu, 0);
  ck_assert_uint_eq (slept_ns, 35 * NS_PER_S);
  slept_ns = 0;
  ck_answer (fx_sync (emu), HOST (SH_HOST_TIME_OUT));   /* fx: 1 ms */
  ck_assert_uint_eq (slept_ns, NS_PER_MS);
  emu_close (emu);
}
END_TEST

START_TEST (faults_that_make_no_sense_are_refused)
{
  static const char *const bad[] = {
    "", "nothing", "read:", "read:lba=", "read:lba=5-4", "read:lba=x", "read:count=-1",
    "read:sense=03/11", "read:sense=10/11/00", "read:sense=03/11/00/00", "read:sense=zz/0/0",
    "read:status=100", "read:timeout=3", "read:done=most", "read:zone=good", "read:patch=3",
    "read:patch=0/0", "read:patch=0/zz", "read:ua=29", "read:sense", "read:lba=1:bogus=2",
    "read:patch=0/000102030405060708090a0b0c0d0e0f000102030405060708090a0b0c0d0e0f00",
    "any:lba=99999999999999999999",
  };
  struct emu *emu = fx_drive (SHAPE);
  size_t i;

  for (i = 0; i < ARRAY_SIZE (bad); ++i) {
    struct sh_error err = { 0 };

    ck_assert_msg (emu_set (emu, "fault", bad[i], &err) == -1, "%s was taken", bad[i]);
    ck_assert_int_eq (err.errnum, EINVAL);
    ck_assert_uint_gt (strlen (err.hint), 10);
  }
  ck_answer (fx_read (emu, 0, 8, buf), 0);
  emu_close (emu);
}
END_TEST

START_TEST (faults_can_be_listed_and_removed)
{
  struct emu *emu = fx_drive (SHAPE);

  set (emu, "fault", "read:sense=03/11/00");
  ck_answer (fx_read (emu, 0, 8, buf), SENSE (0x031100));
  set (emu, "fault", "none");
  ck_answer (fx_read (emu, 0, 8, buf), 0);
  emu_close (emu);
}
END_TEST

START_TEST (settings_of_the_shape_cannot_be_changed)
{
  static const char *const shape[][2] = {
    { "size", "32M" }, { "zone_size", "2M" }, { "lbs", "4096" }, { "conventional", "3" },
    { "zbc", "aware" }, { "serial", "x" }, { "dev_size_mb", "3" },
  };
  struct emu *emu = fx_drive (SHAPE);
  size_t i;

  for (i = 0; i < ARRAY_SIZE (shape); ++i) {
    struct sh_error err = { 0 };

    ck_assert_int_eq (emu_set (emu, shape[i][0], shape[i][1], &err), -1);
    ck_assert_ptr_nonnull (strstr (err.message, "fixed"));
  }
  set (emu, "zone_max_open", "2");
  ck_answer (fx_zone (emu, FX_OPEN, SEQ (0)), 0);
  ck_answer (fx_zone (emu, FX_OPEN, SEQ (1)), 0);
  ck_answer (fx_zone (emu, FX_OPEN, SEQ (2)), SENSE (0x07550e));
  emu_close (emu);
}
END_TEST

static Suite *
suite (void)
{
  Suite *s = suite_create ("emu-faults");
  TCase *tc = tcase_create ("faults");

  tcase_add_test (tc, medium_error_hits_reads_of_the_bad_range);
  tcase_add_test (tc, every_nth_hits_each_nth_command);
  tcase_add_test (tc, negative_every_nth_hits_everything_from_the_nth_on);
  tcase_add_test (tc, short_read_moves_half_and_says_so);
  tcase_add_test (tc, cache_is_reported_off_when_asked);
  tcase_add_test (tc, fault_hits_its_operation_range_and_count);
  tcase_add_test (tc, first_second_and_last_report_can_fail);
  tcase_add_test (tc, answers_are_those_that_were_asked_for);
  tcase_add_test (tc, write_that_fails_half_way_moves_the_pointer_by_half);
  tcase_add_test (tc, write_of_unknown_fate_may_have_been_done);
  tcase_add_test (tc, drive_that_is_gone_stays_gone);
  tcase_add_test (tc, unit_attention_and_zone_condition_follow_the_command);
  tcase_add_test (tc, returned_data_can_be_overwritten);
  tcase_add_test (tc, delayed_and_unanswered_commands_take_their_time);
  tcase_add_test (tc, faults_that_make_no_sense_are_refused);
  tcase_add_test (tc, faults_can_be_listed_and_removed);
  tcase_add_test (tc, settings_of_the_shape_cannot_be_changed);
  suite_add_tcase (s, tc);
  return s;
}

int
main (void)
{
  return run_suite (suite ());
}
