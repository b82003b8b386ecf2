/* SPDX-License-Identifier: BSD-3-Clause */
/* The zone table: what a drive may report, and what is refused by name. */
#undef NDEBUG
#include <config.h>
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/bytes.h"
#include "base/error.h"
#include "fake-bdev.h"
#include "zoned/zones.h"

static struct zone_table *
read_good (struct fake *f)
{
  struct sh_error err = { 0 };
  struct zone_table *t = NULL;

  ck_assert_msg (zone_table_read (&f->bdev, &t, &err) == 0, "%s", err.message);
  return t;
}

static void
expect_refused (struct fake *f, int errnum, const char *text)
{
  struct sh_error err = { 0 };
  struct zone_table *t = NULL;

  ck_assert_int_eq (zone_table_read (&f->bdev, &t, &err), -1);
  ck_assert_msg (err.errnum == errnum, "errno %d: %s", err.errnum, err.message);
  ck_assert_msg (strstr (err.message, text) != NULL, "'%s' lacks '%s'", err.message, text);
  ck_assert_msg (strstr (err.message, "fake: ") == err.message, "%s", err.message);
  bdev_close (&f->bdev);
}

START_TEST (table_says_what_the_drive_says)
{
  struct fake *f = fake_new (&(struct fake_config) { .nr_conv = 3 });
  struct zone_table *t;

  fake_set_wp (f, 4, 8192);
  fake_set_wp (f, 5, 4 * MiB);
  fake_set_wp (f, 6, 4096 + 512);
  fake_set_cond (f, 7, ZONE_OFFLINE);
  fake_set_cond (f, 8, ZONE_READ_ONLY);
  t = read_good (f);
  ck_assert_uint_eq (t->nr_zones, 32);
  ck_assert_uint_eq (t->zone_blocks, 1024);
  ck_assert_uint_eq (t->nr_random, 3);
  ck_assert_uint_eq (t->nr_bad, 2);
  ck_assert (!t->runt);
  ck_assert (zone_is_random (t, 2) && zone_is_seq (t, 3));
  ck_assert_uint_eq (t->zones[0].wp, 1024);
  ck_assert_uint_eq (t->zones[3].wp, 0);
  ck_assert_uint_eq (t->zones[4].wp, 2);
  ck_assert_uint_eq (t->zones[5].wp, 1024);
  ck_assert_uint_eq (t->zones[6].wp, 1);
  ck_assert (t->zones[6].wp_odd && !t->zones[4].wp_odd);
  ck_assert_uint_eq (t->zones[7].wp, 0);        /* its write pointer was ~0 */
  ck_assert (t->zones[8].wp_unknown);
  ck_assert (zone_is_bad (t, 7) && zone_is_bad (t, 8) && !zone_is_bad (t, 6));
  zone_table_free (t);
  bdev_close (&f->bdev);
}
END_TEST

START_TEST (table_of_28_tb_is_compact)
{
  struct fake *f = fake_new (&(struct fake_config) {
      .zone_bytes = 256 * MiB, .nr_zones = 104312, .nr_conv = 1048 });
  struct zone_table *t = read_good (f);

  ck_assert_uint_eq (t->nr_zones, 104312);
  ck_assert_uint_eq (zone_start_bytes (t, 104311), UINT64_C (104311) << 28);
  ck_assert_uint_eq (zone_start_block (t, 104311), UINT64_C (104311) << 16);
  zone_table_free (t);
  bdev_close (&f->bdev);
}
END_TEST

START_TEST (runt_is_a_zone_but_of_no_kind)
{
  static const uint64_t runts[] = { 512, 4096, MiB, 4 * MiB - 512 };
  struct fake *f = fake_new (&(struct fake_config) { .runt_bytes = runts[_i] });
  struct zone_table *t = read_good (f);

  ck_assert (t->runt);
  ck_assert_uint_eq (t->nr_zones, 33);
  ck_assert_uint_eq (t->runt_blocks, runts[_i] / 4096);
  ck_assert (!zone_is_random (t, 32) && !zone_is_seq (t, 32));
  zone_table_free (t);
  bdev_close (&f->bdev);
}
END_TEST

START_TEST (plain_and_drive_managed_drives_are_told_apart)
{
  struct fake *f = fake_new (&(struct fake_config) { 0 });

  f->bdev.info.model = BDEV_NOT_ZONED;
  expect_refused (f, ERRNUM_NOT_ZONED, "not a zoned drive");
  f = fake_new (&(struct fake_config) { 0 });
  f->bdev.info.model = BDEV_DRIVE_MANAGED;
  expect_refused (f, ERRNUM_NOT_ZONED, "drive-managed");
}
END_TEST

/* One change to a sound report, and what is said of it. */
struct bad {
  const char *text;
  int errnum;
  void (*spoil) (struct fake *f);
};

#define SPOIL(name, code) static void name (struct fake *f) { code; }
SPOIL (overlap, f->zones[5].start_bytes -= 4096)
SPOIL (hole, f->zones[5].start_bytes += 4096)
SPOIL (long_zone, f->zones[5].len_bytes *= 2)
SPOIL (short_zone, f->zones[5].len_bytes /= 2)
SPOIL (empty_zone, f->zones[5].len_bytes = 0)
SPOIL (overflow, f->zones[5].len_bytes = UINT64_MAX)
SPOIL (twice, f->zones[5] = f->zones[4])
SPOIL (last_too_long, f->zones[31].len_bytes += 4096)
SPOIL (ends_early, f->nr_zones = 20)
SPOIL (count_low, f->bdev.info.nr_zones = 31)
SPOIL (count_high, f->bdev.info.nr_zones = 33)
SPOIL (capacity_more, f->bdev.info.size_bytes += 4096)
SPOIL (capacity_less, f->bdev.info.size_bytes -= 4096)
SPOIL (small_cap, f->zones[9].cap_bytes = 3 * MiB)
SPOIL (big_cap, f->zones[9].cap_bytes = 5 * MiB)
SPOIL (type_4, f->zones[9].type = 4)
SPOIL (type_5, f->zones[9].type = 5)
SPOIL (type_0, f->zones[9].type = 0)
SPOIL (type_7, f->zones[9].type = 7)
SPOIL (wp_outside, fake_set_wp (f, 9, 4096); f->zones[9].wp_bytes += 4 * MiB)
SPOIL (wp_before, fake_set_wp (f, 9, 4096); f->zones[9].wp_bytes = 0)
SPOIL (cond_none, f->zones[9].cond = ZONE_NOT_WP)
SPOIL (cond_9, f->zones[9].cond = 9)
SPOIL (size_odd, f->bdev.info.zone_bytes = 3 * MiB)
SPOIL (size_tiny, f->bdev.info.zone_bytes = 2048)
SPOIL (size_zero, f->bdev.info.zone_bytes = 0)
SPOIL (size_huge, f->bdev.info.zone_bytes = UINT64_C (1) << 63)
SPOIL (size_other, f->bdev.info.zone_bytes = 8 * MiB)
SPOIL (many, f->bdev.info.size_bytes = UINT64_MAX)

static const struct bad bad[] = {
  { "zone 5: starts at byte 20967424, inside of the zone before it", EPROTO, overlap },
  { "zone 5: starts at byte 20975616, but the zone before it ends at", EPROTO, hole },
  { "zone 5: is 8388608 bytes long, the others 4194304", EPROTO, long_zone },
  { "zone 5: is 2097152 bytes long, the others 4194304", EPROTO, short_zone },
  { "zone 5: has the length 0", EPROTO, empty_zone },
  { "zone 5: start 20971520 and length 18446744073709551615 overflow", EPROTO, overflow },
  { "zone 5: starts at byte 16777216, inside of the zone before", EPROTO, twice },
  { "zone 31: ends at byte 134221824, behind the end of the drive", EPROTO, last_too_long },
  { "the zone report ends at byte 83886080 (20 zones)", EPROTO, ends_early },
  { "says that it has 31 zones, but reports 32", EPROTO, count_low },
  { "says that it has 33 zones, but reports 32", EPROTO, count_high },
  { "the zone report ends at byte 134217728", EPROTO, capacity_more },
  { "zone 31: ends at byte 134217728, behind the end", EPROTO, capacity_less },
  { "zone 9: holds only 3145728 of its 4194304 bytes", ENOTSUP, small_cap },
  { "zone 9: has a capacity of 5242880 bytes, more than its length", EPROTO, big_cap },
  { "zone 9: zone type 4h (sequential or before required)", ENOTSUP, type_4 },
  { "zone 9: zone type 5h (gap)", ENOTSUP, type_5 },
  { "zone 9: zone type 0h (unknown)", EPROTO, type_0 },
  { "zone 9: zone type 7h (unknown)", EPROTO, type_7 },
  { "zone 9: a sequential write required zone in condition 2h", EPROTO, wp_outside },
  { "zone 9: a sequential write required zone in condition 2h", EPROTO, wp_before },
  { "zone 9: a sequential write required zone in condition 0h", EPROTO, cond_none },
  { "zone 9: a sequential write required zone in condition 9h", EPROTO, cond_9 },
  { "zones of 3145728 bytes are not supported", ENOTSUP, size_odd },
  { "too small", ENOTSUP, size_tiny },
  { "its zone size is 0", EPROTO, size_zero },
  { "too large", ENOTSUP, size_huge },
  { "zone 0: is 4194304 bytes long, the others 8388608", EPROTO, size_other },
  { "zones are too many", ENOTSUP, many },
};

START_TEST (nonsense_is_refused_and_the_zone_named)
{
  struct fake *f = fake_new (&(struct fake_config) { 0 });
  const uint64_t size_bytes = f->bdev.info.size_bytes;
  struct sh_error err = { 0 };
  struct zone_table *t = NULL;

  bad[_i].spoil (f);
  ck_assert_int_eq (zone_table_read (&f->bdev, &t, &err), -1);
  ck_assert_msg (err.errnum == bad[_i].errnum, "errno %d: %s", err.errnum, err.message);
  ck_assert_msg (strstr (err.message, bad[_i].text) != NULL, "'%s' lacks '%s'",
                 err.message, bad[_i].text);
  ck_assert (t == NULL);
  f->bdev.info.size_bytes = size_bytes;
  bdev_close (&f->bdev);
}
END_TEST

START_TEST (capacity_zero_means_not_reported)
{
  struct fake *f = fake_new (&(struct fake_config) { 0 });
  uint32_t i;

  for (i = 0; i < f->nr_zones; ++i)
    f->zones[i].cap_bytes = 0;
  zone_table_free (read_good (f));
  bdev_close (&f->bdev);
}
END_TEST

START_TEST (failing_report_is_an_error_at_each_part)
{
  unsigned n;

  for (n = 1; n <= 4; ++n) {
    struct fake *f = fake_new (&(struct fake_config) { .zone_bytes = MiB, .nr_zones = 4000 });

    f->fail_report = n;
    f->fail_report_errno = EREMOTEIO;
    expect_refused (f, EREMOTEIO, "the zone report from byte");
  }
}
END_TEST

START_TEST (one_zone_can_be_asked_for_again)
{
  struct fake *f = fake_new (&(struct fake_config) { 0 });
  struct zone_table *t = read_good (f);
  struct zone z;

  fake_set_wp (f, 20, 3 * 4096);
  ck_assert_int_eq (zone_report_one (&f->bdev, t, 20, &z), 0);
  ck_assert_uint_eq (z.wp, 3);
  ck_assert_uint_eq (t->zones[20].wp, 0);
  f->zones[20].start_bytes += 4096;
  ck_assert_int_eq (zone_report_one (&f->bdev, t, 20, &z), -1);
  ck_assert_int_eq (errno, EPROTO);
  zone_table_free (t);
  bdev_close (&f->bdev);
}
END_TEST

int
main (void)
{
  Suite *s = suite_create ("zoned zones");
  TCase *tc = tcase_create ("zones");
  SRunner *sr;
  int failed;

  tcase_add_test (tc, table_says_what_the_drive_says);
  tcase_add_test (tc, table_of_28_tb_is_compact);
  tcase_add_loop_test (tc, runt_is_a_zone_but_of_no_kind, 0, 4);
  tcase_add_test (tc, plain_and_drive_managed_drives_are_told_apart);
  tcase_add_loop_test (tc, nonsense_is_refused_and_the_zone_named, 0, ARRAY_SIZE (bad));
  tcase_add_test (tc, capacity_zero_means_not_reported);
  tcase_add_test (tc, failing_report_is_an_error_at_each_part);
  tcase_add_test (tc, one_zone_can_be_asked_for_again);
  suite_add_tcase (s, tc);
  sr = srunner_create (s);
  srunner_run_all (sr, CK_NORMAL);
  failed = srunner_ntests_failed (sr);
  srunner_free (sr);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
