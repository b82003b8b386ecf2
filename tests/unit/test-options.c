/* SPDX-License-Identifier: BSD-3-Clause */
/* Options by name: what is accepted, what is refused and with what words. */
#include <config.h>
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/parse.h"
#include "stack/stack.h"

static struct sh_error err;

static void
ck_refused (int r, const char *word)
{
  ck_assert_int_eq (r, -1);
  ck_assert_int_eq (err.errnum, EINVAL);
  ck_assert_msg (strstr (err.message, word) != NULL, "no '%s' in '%s'", word,
                 err.message);
  sh_error_clear (&err);
}

START_TEST (sizes_have_units_and_a_range)
{
  static const struct { const char *text; uint64_t bytes; } good[] = {
    { "0", 0 }, { "1", 1 }, { "512b", 512 }, { "2s", 1024 }, { "010", 10 },
    { "4k", 4096 }, { "4K", 4096 }, { "3M", 3 * MiB }, { "28T", 28 * TiB },
    { "15E", UINT64_C (15) << 60 }, { "18446744073709551615", UINT64_MAX },
  };
  static const char *const bad[] = {
    "", " 1", "1 ", "-1", "+1", "1.5G", "0x10", "1KiB", "K", "16E",
    "18446744073709551616", "99999999999999999999", "1MM",
  };
  uint64_t r;
  size_t i;

  for (i = 0; i < ARRAY_SIZE (good); ++i) {
    ck_assert_int_eq (sh_parse_size ("size", good[i].text, 0, UINT64_MAX, &r, &err), 0);
    ck_assert_uint_eq (r, good[i].bytes);
  }
  r = 77;
  for (i = 0; i < ARRAY_SIZE (bad); ++i)
    ck_refused (sh_parse_size ("size", bad[i], 0, UINT64_MAX, &r, &err), "size=");
  ck_refused (sh_parse_size ("size", "1023", KiB, GiB, &r, &err), "1K to 1G");
  ck_refused (sh_parse_size ("size", "1073741825", KiB, GiB, &r, &err), "1K to 1G");
  ck_assert_uint_eq (r, 77);
}
END_TEST

START_TEST (times_have_units_and_a_range)
{
  uint64_t r = 0;

  ck_assert_int_eq (sh_parse_time_ns ("t", "7", NS_PER_S, 0, UINT64_MAX, &r, &err), 0);
  ck_assert_uint_eq (r, 7 * NS_PER_S);
  ck_assert_int_eq (sh_parse_time_ns ("t", "7ms", NS_PER_S, 0, UINT64_MAX, &r, &err), 0);
  ck_assert_uint_eq (r, 7 * NS_PER_MS);
  ck_assert_int_eq (sh_parse_time_ns ("t", "2h", 1, 0, UINT64_MAX, &r, &err), 0);
  ck_assert_uint_eq (r, 7200 * NS_PER_S);
  ck_refused (sh_parse_time_ns ("t", "2d", 1, 0, UINT64_MAX, &r, &err), "t=2d");
  ck_refused (sh_parse_time_ns ("t", "s", 1, 0, UINT64_MAX, &r, &err), "t=s");
  ck_refused (sh_parse_time_ns ("t", "2s", 1, 0, NS_PER_S, &r, &err), "0s to 1s");
  ck_refused (sh_parse_time_ns ("t", "18446744073709551615h", 1, 0, UINT64_MAX, &r, &err),
              "t=18446744073709551615h");
}
END_TEST

START_TEST (words_and_truths_are_exact)
{
  static const char *const words[] = { "deadline", "none", NULL };
  unsigned w = 9;
  bool b = false;

  ck_assert_int_eq (sh_parse_word ("sched", "none", words, &w, &err), 0);
  ck_assert_uint_eq (w, 1);
  ck_refused (sh_parse_word ("sched", "non", words, &w, &err), "deadline, none");
  ck_assert_int_eq (sh_parse_bool ("x", "Yes", &b, &err), 0);
  ck_assert (b);
  ck_assert_int_eq (sh_parse_bool ("x", "off", &b, &err), 0);
  ck_assert (!b);
  ck_refused (sh_parse_bool ("x", "", &b, &err), "x=");
  ck_refused (sh_parse_bool ("x", "2", &b, &err), "x=2");
}
END_TEST

START_TEST (options_land_where_they_belong)
{
  struct stack_options o;

  stack_options_init (&o);
  ck_assert (o.exclusive && !o.read_only && !o.format);
  ck_assert_int_eq (stack_option (&o, "reclaim_low", "20", &err), 1);
  ck_assert_int_eq (stack_option (&o, "reclaim-high", "60", &err), 1);
  ck_assert_int_eq (stack_option (&o, "probe_interval", "30", &err), 1);
  ck_assert_int_eq (stack_option (&o, "reorder_window", "5", &err), 1);
  ck_assert_int_eq (stack_option (&o, "cache_size", "16M", &err), 1);
  ck_assert_int_eq (stack_option (&o, "readonly", "true", &err), 1);
  ck_assert_uint_eq (o.volume.reclaim_low, 20);
  ck_assert_uint_eq (o.volume.reclaim_high, 60);
  ck_assert_uint_eq (o.volume.probe_interval_ns, 30 * NS_PER_S);
  ck_assert_uint_eq (o.volume.reorder_window_ns, 5 * NS_PER_MS);
  ck_assert_uint_eq (o.volume.cache_bytes, 16 * MiB);
  ck_assert (o.read_only);
  ck_assert_int_eq (stack_option (&o, "colour", "red", &err), 0);
  ck_assert_int_eq (stack_option (&o, "reclaim", "1", &err), 0);
  ck_assert_int_eq (stack_option (&o, "reclaim_lower", "1", &err), 0);
  ck_assert_int_eq (stack_option (&o, "", "1", &err), 0);
  ck_assert_int_eq (stack_options_check (&o, &err), 0);
}
END_TEST

START_TEST (values_out_of_range_and_contradictions_are_refused)
{
  static const struct { const char *key, *value, *word; } bad[] = {
    { "reclaim_low", "0", "from 1 to 99" },
    { "reclaim_low", "100", "from 1 to 99" },
    { "reclaim_high", "101", "from 1 to 100" },
    { "cache_size", "1k", "1M to 1G" },
    { "probe_interval", "25h", "0s to 24h" },
    { "reorder_window", "2s", "1us to 1s" },
    { "readonly", "maybe", "readonly=maybe" },
  };
  struct stack_options o;
  size_t i;

  for (i = 0; i < ARRAY_SIZE (bad); ++i) {
    stack_options_init (&o);
    ck_refused (stack_option (&o, bad[i].key, bad[i].value, &err), bad[i].word);
  }
  stack_options_init (&o);
  ck_assert_uint_eq (o.volume.reclaim_low, 0);

  stack_option (&o, "reclaim_low", "50", &err);
  stack_option (&o, "reclaim_high", "50", &err);
  ck_refused (stack_options_check (&o, &err), "reclaim_high=50");
  stack_options_init (&o);
  stack_option (&o, "format", "true", &err);
  stack_option (&o, "readonly", "true", &err);
  ck_refused (stack_options_check (&o, &err), "readonly");
}
END_TEST

/* Every line of the help names an option, and every option has a line. */
START_TEST (an_option_that_is_given_twice_is_refused)
{
  static const char *const twice[][2] = {
    { "cache_size", "16M" }, { "readonly", "true" }, { "tags", "8" }, { "fifo_batch", "4" },
  };
  struct stack_options o;
  size_t i;

  stack_options_init (&o);
  for (i = 0; i < ARRAY_SIZE (twice); ++i) {
    ck_assert_int_eq (stack_option (&o, twice[i][0], twice[i][1], &err), 1);
    ck_refused (stack_option (&o, twice[i][0], twice[i][1], &err), "more than once");
  }
  ck_refused (stack_option (&o, "cache-size", "16M", &err), "cache_size is given more");
}
END_TEST

START_TEST (the_help_lists_what_is_accepted)
{
  char help[] = STACK_OPTIONS_HELP;
  char *line, *state = NULL;
  unsigned lines = 0;

  for (line = strtok_r (help, "\n", &state); line;
       line = strtok_r (NULL, "\n", &state), ++lines) {
    struct stack_options o;

    stack_options_init (&o);
    line[strcspn (line, "=")] = '\0';
    ck_assert_int_ne (stack_option (&o, line, "1", &err), 0);
    sh_error_clear (&err);
  }
  ck_assert_uint_gt (lines, 6);
}
END_TEST

START_TEST (relative_devices_become_absolute_and_others_stay)
{
  char dir[] = "/tmp/shingle-options.XXXXXX", expected[128], *r;
  FILE *fp;

  ck_assert_ptr_nonnull (mkdtemp (dir));
  ck_assert_int_eq (chdir (dir), 0);
  fp = fopen ("drive", "w");
  ck_assert_ptr_nonnull (fp);
  fclose (fp);

  snprintf (expected, sizeof expected, "%s/drive", dir);
  r = stack_absolute_device ("drive");
  ck_assert_str_eq (r, expected);
  free (r);
  snprintf (expected, sizeof expected, "emu:%s/drive", dir);
  r = stack_absolute_device ("emu:drive");
  ck_assert_str_eq (r, expected);
  free (r);
  r = stack_absolute_device ("/dev/sg0");
  ck_assert_str_eq (r, "/dev/sg0");
  free (r);
  r = stack_absolute_device ("emu:ram:size=1G");
  ck_assert_str_eq (r, "emu:ram:size=1G");
  free (r);
  r = stack_absolute_device ("");
  ck_assert_str_eq (r, "");
  free (r);
  unlink ("drive");
  ck_assert_int_eq (chdir ("/"), 0);
  rmdir (dir);
}
END_TEST

int
main (void)
{
  Suite *suite = suite_create ("options");
  TCase *tcase = tcase_create ("options");
  SRunner *runner;
  int failed;

  tcase_add_test (tcase, sizes_have_units_and_a_range);
  tcase_add_test (tcase, times_have_units_and_a_range);
  tcase_add_test (tcase, words_and_truths_are_exact);
  tcase_add_test (tcase, options_land_where_they_belong);
  tcase_add_test (tcase, values_out_of_range_and_contradictions_are_refused);
  tcase_add_test (tcase, an_option_that_is_given_twice_is_refused);
  tcase_add_test (tcase, the_help_lists_what_is_accepted);
  tcase_add_test (tcase, relative_devices_become_absolute_and_others_stay);
  suite_add_tcase (suite, tcase);
  runner = srunner_create (suite);
  srunner_run_all (runner, CK_ENV);
  failed = srunner_ntests_failed (runner);
  srunner_free (runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
