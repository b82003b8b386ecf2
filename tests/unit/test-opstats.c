/* SPDX-License-Identifier: BSD-3-Clause */
/* Counters and histograms by client: sums, percentiles, places. */
#include <config.h>
#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "stack/opstats.h"

static struct opstats *s;

static void set_up (void) { s = opstats_new (); ck_assert_ptr_nonnull (s); }
static void tear_down (void) { opstats_free (s); }

START_TEST (test_buckets_are_powers_of_2)
{
  ck_assert_uint_eq (opstats_bucket (0), 0);
  ck_assert_uint_eq (opstats_bucket (1), 0);
  ck_assert_uint_eq (opstats_bucket (2), 1);
  ck_assert_uint_eq (opstats_bucket (1023), 9);
  ck_assert_uint_eq (opstats_bucket (1024), 10);
  ck_assert_uint_eq (opstats_bucket (UINT64_MAX), OPSTAT_BUCKETS - 1);
}
END_TEST

START_TEST (test_percentiles_come_from_the_histogram)
{
  struct opstats_counts c;
  unsigned i;

  opstats_get (s, OPSTAT_OTHERS, OPSTAT_READ, &c);
  ck_assert_uint_eq (opstats_percentile (&c, 500), 0);
  for (i = 0; i < 98; ++i)
    opstats_record (s, OPSTAT_OTHERS, OPSTAT_READ, 4096, 1500, false);
  opstats_record (s, OPSTAT_OTHERS, OPSTAT_READ, 4096, 70000, false);
  opstats_record (s, OPSTAT_OTHERS, OPSTAT_READ, 4096, 70000, true);
  opstats_get (s, OPSTAT_OTHERS, OPSTAT_READ, &c);
  ck_assert_uint_eq (c.ops, 100);
  ck_assert_uint_eq (c.bytes, 99 * 4096);
  ck_assert_uint_eq (c.errors, 1);
  ck_assert_uint_eq (c.latency_ns, 98 * 1500 + 140000);
  ck_assert_uint_eq (opstats_percentile (&c, 1), 2048);
  ck_assert_uint_eq (opstats_percentile (&c, 500), 2048);
  ck_assert_uint_eq (opstats_percentile (&c, 980), 2048);
  ck_assert_uint_eq (opstats_percentile (&c, 981), 131072);
  ck_assert_uint_eq (opstats_percentile (&c, 1000), 131072);
}
END_TEST

START_TEST (test_sums_survive_any_number_of_clients)
{
  struct opstats_counts c;
  uint64_t total = 0, present = 0;
  unsigned i, client;
  char name[64];
  bool there;

  for (i = 0; i < 1000; ++i) {
    snprintf (name, sizeof name, "client %u", i);
    client = opstats_client_begin (s, name);
    ck_assert_uint_ne (client, OPSTAT_OTHERS);
    opstats_record (s, client, OPSTAT_WRITE, 1, 5, false);
    opstats_client_end (s, client);
  }
  for (i = 0; i < OPSTAT_CLIENTS; ++i)
    if (opstats_client (s, i, name, &there)) {
      present += there;
      opstats_get (s, i, OPSTAT_WRITE, &c);
      total += c.ops;
      ck_assert_uint_eq (c.bytes, c.ops);
      ck_assert_uint_eq (c.buckets[2], c.ops);
    }
  ck_assert_uint_eq (total, 1000);
  ck_assert_uint_eq (present, 0);
}
END_TEST

START_TEST (test_a_client_too_many_is_counted_with_the_others)
{
  char name[64];
  unsigned i;
  bool there;

  for (i = 1; i < OPSTAT_CLIENTS; ++i)
    ck_assert_uint_eq (opstats_client_begin (s, "one"), i);
  ck_assert_uint_eq (opstats_client_begin (s, "one too many"), OPSTAT_OTHERS);
  opstats_client_end (s, OPSTAT_OTHERS);
  ck_assert (opstats_client (s, OPSTAT_OTHERS, name, &there));
  ck_assert_str_eq (name, "others");
  opstats_client_end (s, 7);
  ck_assert_uint_eq (opstats_client_begin (s, "in its place"), 7);
  ck_assert (opstats_client (s, 7, name, &there) && there);
  ck_assert_str_eq (name, "in its place");
}
END_TEST

static void *
record_many (void *arg)
{
  unsigned i;

  for (i = 0; i < 20000; ++i)
    opstats_record (s, i % 3, OPSTAT_READ, 2, i, false);
  return arg;
}

static void *
come_and_go (void *arg)
{
  unsigned i;

  for (i = 0; i < 2000; ++i)
    opstats_client_end (s, opstats_client_begin (s, "x"));
  return arg;
}

START_TEST (test_nothing_is_lost_between_threads)
{
  pthread_t threads[5];
  struct opstats_counts c;
  uint64_t ops = 0, bytes = 0, latency = 0, buckets = 0;
  unsigned i, j;

  opstats_client_begin (s, "a");
  opstats_client_begin (s, "b");
  for (i = 0; i < ARRAY_SIZE (threads); ++i)
    pthread_create (&threads[i], NULL, i < 4 ? record_many : come_and_go, NULL);
  for (i = 0; i < ARRAY_SIZE (threads); ++i)
    pthread_join (threads[i], NULL);
  for (i = 0; i < OPSTAT_CLIENTS; ++i) {
    opstats_get (s, i, OPSTAT_READ, &c);
    ops += c.ops;
    bytes += c.bytes;
    latency += c.latency_ns;
    for (j = 0; j < OPSTAT_BUCKETS; ++j)
      buckets += c.buckets[j];
  }
  ck_assert_uint_eq (ops, 80000);
  ck_assert_uint_eq (bytes, 160000);
  ck_assert_uint_eq (buckets, 80000);
  ck_assert_uint_eq (latency, 4 * (UINT64_C (20000) * 19999 / 2));
}
END_TEST

int
main (void)
{
  Suite *suite = suite_create ("opstats");
  TCase *tcase = tcase_create ("opstats");
  SRunner *runner = srunner_create (suite);
  int failed;

  tcase_add_checked_fixture (tcase, set_up, tear_down);
  tcase_add_test (tcase, test_buckets_are_powers_of_2);
  tcase_add_test (tcase, test_percentiles_come_from_the_histogram);
  tcase_add_test (tcase, test_sums_survive_any_number_of_clients);
  tcase_add_test (tcase, test_a_client_too_many_is_counted_with_the_others);
  tcase_add_test (tcase, test_nothing_is_lost_between_threads);
  suite_add_tcase (suite, tcase);
  srunner_run_all (runner, CK_NORMAL);
  failed = srunner_ntests_failed (runner);
  srunner_free (runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
