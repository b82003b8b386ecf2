/* SPDX-License-Identifier: BSD-3-Clause */
/* core/scsi: what opening a disk learns from the drive, and what it refuses. */
#include <config.h>
#include "disk-fixture.h"

static struct fake_drive *
smr (void)
{
  return fake_new (512, 16, 2048, 4);
}

static void
open_must_fail (struct fake_drive *f, int errnum, const char *part)
{
  struct sh_error err = { 0 };
  struct fixture x;

  assert_errno (fixture_try (&x, f, false, &err), errnum);
  ck_assert_int_eq (err.errnum, errnum);
  ck_assert_msg (strstr (err.message, part), "'%s' does not say '%s'", err.message, part);
  ck_assert_msg (strncmp (err.message, "fake: ", 6) == 0, "'%s' names no drive", err.message);
  fake_free (f);
}

START_TEST (a_host_managed_drive_is_known_from_its_answers_alone)
{
  struct fixture x;
  const struct bdev_info *info;

  fixture_open (&x, smr ());
  info = &x.bdev->info;
  ck_assert_str_eq (info->name, "fake");
  ck_assert_str_eq (info->vendor, "MAKER");
  ck_assert_str_eq (info->product, "MODEL ZBC");
  ck_assert_str_eq (info->revision, "0001");
  ck_assert_str_eq (info->serial, "SN4711");
  ck_assert_uint_eq (info->wwid_len, 8);
  ck_assert_uint_eq (info->wwid[0], 0x50);
  ck_assert_int_eq (info->model, BDEV_HOST_MANAGED);
  ck_assert_uint_eq (info->lbs_bytes, 512);
  ck_assert_uint_eq (info->pbs_bytes, 512);
  ck_assert_uint_eq (info->size_bytes, 16 * MiB);
  ck_assert_uint_eq (info->zone_bytes, 1 * MiB);
  ck_assert_uint_eq (info->nr_zones, 16);
  ck_assert_uint_eq (info->max_open_zones, 8);
  ck_assert (info->urswrz && info->write_cache && info->fua && info->rotational);
  ck_assert (!info->unmap && !info->read_only);
  ck_assert_uint_gt (info->max_zeroes_bytes, 0);
  /* nobody asked whether it is ready: its answers show that */
  ck_assert_uint_eq (fake_count (x.f, OP_TEST_UNIT_READY), 0);
  fixture_close (&x);
}
END_TEST

START_TEST (zones_are_reported_from_any_start_in_any_page_size)
{
  struct fixture x;
  struct bdev_zone z[20];
  size_t nr;

  fixture_open (&x, smr ());
  for (unsigned start = 0; start < 16; ++start)
    for (size_t max = 1; max <= 17; ++max) {
      ck_assert_int_eq (bdev_report_zones (x.bdev, start * MiB + 512, z, max, &nr), 0);
      ck_assert_uint_eq (nr, MIN (max, 16u - start));
      for (size_t i = 0; i < nr; ++i) {
        ck_assert_uint_eq (z[i].start_bytes, (start + i) * MiB);
        ck_assert_uint_eq (z[i].len_bytes, MiB);
        ck_assert_uint_eq (z[i].cap_bytes, MiB);
        ck_assert_uint_eq (z[i].wp_bytes, start + i < 4 ? UINT64_MAX : (start + i) * MiB);
      }
      x.f->nr_log = 0;
    }
  ck_assert_int_eq (bdev_report_zones (x.bdev, 16 * MiB, z, 20, &nr), 0);
  ck_assert_uint_eq (nr, 0);
  fixture_close (&x);
}
END_TEST

START_TEST (reads_and_writes_reach_the_drive)
{
  struct fixture x;
  uint8_t in[8192], out[8192];

  fixture_open (&x, smr ());
  stamp (in, sizeof in, 5 * MiB, 512, 1);
  ck_assert_int_eq (bdev_write (x.bdev, in, sizeof in, 5 * MiB, 0), 0);
  ck_assert_int_eq (bdev_read (x.bdev, out, sizeof out, 5 * MiB), 0);
  ck_assert_mem_eq (in, out, sizeof in);
  ck_assert_uint_eq (x.f->nr_log, 2);
  ck_assert_int_eq (x.f->log[0].cdb[0], OP_WRITE_16);
  ck_assert_int_eq (bdev_flush (x.bdev), 0);
  ck_assert_int_eq (x.f->log[2].cdb[0], OP_SYNCHRONIZE_CACHE_16);
  fixture_close (&x);
}
END_TEST

START_TEST (other_devices_are_refused_by_name)
{
  struct fake_drive *f = smr ();

  f->inquiry.bytes[0] = 0x01;
  open_must_fail (f, ENOTBLK, "a tape drive");
}
END_TEST

int
main (void)
{
  Suite *suite = suite_create ("disk-open");
  TCase *tcase = tcase_create ("disk-open");
  SRunner *runner;
  int failed;

  tcase_add_test (tcase, a_host_managed_drive_is_known_from_its_answers_alone);
  tcase_add_test (tcase, zones_are_reported_from_any_start_in_any_page_size);
  tcase_add_test (tcase, reads_and_writes_reach_the_drive);
  tcase_add_test (tcase, other_devices_are_refused_by_name);
  suite_add_tcase (suite, tcase);
  runner = srunner_create (suite);
  srunner_run_all (runner, CK_ENV);
  failed = srunner_ntests_failed (runner);
  srunner_free (runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
