/* SPDX-License-Identifier: BSD-3-Clause */
/* core/base: byte order, rounding, errors that stand, the logging hook. */
#include <config.h>
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"

START_TEST (integers_have_the_byte_order_of_their_name)
{
  const uint8_t bytes[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };

  ck_assert_uint_eq (get_be16 (bytes), 0x0102);
  ck_assert_uint_eq (get_be24 (bytes), 0x010203);
  ck_assert_uint_eq (get_be32 (bytes), 0x01020304);
  ck_assert_uint_eq (get_be64 (bytes), 0x0102030405060708);
}
END_TEST

START_TEST (big_endian_keeps_the_highest_bit)
{
  const uint8_t bytes[8] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe };

  ck_assert_uint_eq (get_be24 (bytes), 0xffffff);
  ck_assert_uint_eq (get_be32 (bytes), UINT32_MAX);
  ck_assert_uint_eq (get_be64 (bytes), UINT64_MAX - 1);
}
END_TEST

START_TEST (division_rounds_up_without_overflow)
{
  ck_assert_uint_eq (DIV_ROUND_UP (UINT64_C (0), 4096), 0);
  ck_assert_uint_eq (DIV_ROUND_UP (UINT64_C (1), 4096), 1);
  ck_assert_uint_eq (DIV_ROUND_UP (UINT64_C (4096), 4096), 1);
  ck_assert_uint_eq (DIV_ROUND_UP (UINT64_MAX, 2), UINT64_C (1) << 63);
}
END_TEST

START_TEST (powers_of_two_are_told_from_others)
{
  ck_assert (!is_power_of_2 (0));
  ck_assert (is_power_of_2 (1));
  ck_assert (!is_power_of_2 (3));
  ck_assert (is_power_of_2 (UINT64_C (1) << 63));
  ck_assert (!is_power_of_2 (UINT64_MAX));
}
END_TEST

START_TEST (the_first_report_of_an_error_stands)
{
  struct sh_error err;

  sh_error_clear (&err);
  ck_assert_int_eq (sh_fail (&err, ENODEV, "drive %d is gone", 7), -1);
  ck_assert_int_eq (errno, ENODEV);
  errno = 0;
  sh_fail (&err, EINVAL, "something else");
  ck_assert_int_eq (errno, ENODEV);
  ck_assert_str_eq (err.message, "drive 7 is gone");

  ck_assert_int_eq (sh_hint (&err, "plug it in"), -1);
  sh_hint (&err, "never mind");
  ck_assert_str_eq (err.hint, "plug it in");

  sh_error_clear (&err);
  ck_assert_int_eq (err.errnum, 0);
  ck_assert_str_eq (err.hint, "");
}
END_TEST

START_TEST (errors_of_a_drive_are_told_in_its_own_words)
{
  ck_assert_str_eq (sh_drive_error (EILSEQ), "protection information error");
  ck_assert_str_eq (sh_drive_error (ENODATA), "medium error");
  ck_assert_str_eq (sh_drive_error (EREMOTEIO), "the drive refused the command");
  ck_assert_str_eq (sh_drive_error (ETOOMANYREFS), "too many open zones");
  ck_assert_str_eq (sh_drive_error (EIO), strerror (EIO));
}
END_TEST

START_TEST (a_long_error_is_cut_not_overrun)
{
  struct sh_error err;
  char text[2048];

  memset (text, 'x', sizeof text - 1);
  text[sizeof text - 1] = '\0';
  sh_error_clear (&err);
  sh_fail (&err, EIO, "%s", text);
  sh_hint (&err, "%s", text);
  ck_assert_uint_eq (strlen (err.message), sizeof err.message - 1);
  ck_assert_uint_eq (strlen (err.hint), sizeof err.hint - 1);
}
END_TEST

struct heard {
  enum sh_log_level level;
  char message[64];
};

static void
hear (void *opaque, enum sh_log_level level, const char *message)
{
  struct heard *h = opaque;

  h->level = level;
  strncpy (h->message, message, sizeof h->message - 1);
  errno = EBADF;
}

START_TEST (the_log_reaches_its_host_and_keeps_errno)
{
  struct heard heard = { 0 };
  const struct sh_log log = { .fn = hear, .opaque = &heard };

  errno = EIO;
  sh_log (&log, SH_LOG_WARNING, "zone %u", 12u);
  ck_assert_int_eq (errno, EIO);
  ck_assert_int_eq (heard.level, SH_LOG_WARNING);
  ck_assert_str_eq (heard.message, "zone 12");
  sh_log (NULL, SH_LOG_ERROR, "nobody listens");
}
END_TEST

START_TEST (the_clock_never_goes_back_and_timed_waits_end)
{
  const struct sh_clock *clock = &sh_clock_monotonic;
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t cond;
  const uint64_t start = sh_now (clock);
  int r;

  sh_cond_init (&cond);
  pthread_mutex_lock (&mutex);
  do
    r = sh_cond_wait_until (clock, &cond, &mutex, start + NS_PER_MS);
  while (r == 0);
  pthread_mutex_unlock (&mutex);
  ck_assert_int_eq (r, ETIMEDOUT);
  ck_assert_uint_ge (sh_now (clock), start + NS_PER_MS);
  pthread_cond_destroy (&cond);
}
END_TEST

int
main (void)
{
  Suite *suite = suite_create ("base");
  TCase *tcase = tcase_create ("base");
  SRunner *runner;
  int failed;

  tcase_add_test (tcase, integers_have_the_byte_order_of_their_name);
  tcase_add_test (tcase, big_endian_keeps_the_highest_bit);
  tcase_add_test (tcase, division_rounds_up_without_overflow);
  tcase_add_test (tcase, powers_of_two_are_told_from_others);
  tcase_add_test (tcase, the_first_report_of_an_error_stands);
  tcase_add_test (tcase, errors_of_a_drive_are_told_in_its_own_words);
  tcase_add_test (tcase, a_long_error_is_cut_not_overrun);
  tcase_add_test (tcase, the_log_reaches_its_host_and_keeps_errno);
  tcase_add_test (tcase, the_clock_never_goes_back_and_timed_waits_end);
  suite_add_tcase (suite, tcase);
  runner = srunner_create (suite);
  srunner_run_all (runner, CK_ENV);
  failed = srunner_ntests_failed (runner);
  srunner_free (runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
