/* SPDX-License-Identifier: BSD-3-Clause */
/* core/scsi: what opening a disk learns from the drive, and what it refuses. */
#include <config.h>
#include "disk-fixture.h"

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

/* ---- what is learned ---- */

static const struct bdev_info *
open_info (struct fixture *x, struct fake_drive *f)
{
  fixture_open (x, f);
  return &x->bdev->info;
}

START_TEST (missing_limits_mean_no_limit)
{
  struct fixture x;
  struct fake_drive *f = smr ();
  const struct bdev_info *info;

  if (_i == 0)
    f->vpd[0xb6].len = 0;
  else
    put_be32 (f->vpd[0xb6].bytes + 16, UINT32_MAX);
  info = open_info (&x, f);
  ck_assert_uint_eq (info->max_open_zones, 0);
  ck_assert (info->urswrz == (_i != 0));
  ck_assert_uint_eq (info->nr_zones, 16);
  fixture_close (&x);
}
END_TEST

START_TEST (plain_aware_and_drive_managed_disks_are_told_apart)
{
  static const struct { uint8_t zoned; enum bdev_zoned_model model; } t[] = {
    { 0, BDEV_NOT_ZONED }, { 1, BDEV_HOST_AWARE }, { 2, BDEV_DRIVE_MANAGED },
    { 3, BDEV_NOT_ZONED },
  };

  for (size_t i = 0; i < ARRAY_SIZE (t); ++i) {
    struct fixture x;
    struct fake_drive *f = t[i].zoned == 1 ? smr () : fake_new (512, 0, 4096, 0);
    const struct bdev_info *info;

    f->inquiry.bytes[0] = 0;
    f->vpd[0xb1].bytes[8] = (uint8_t) (t[i].zoned << 4);
    info = open_info (&x, f);
    ck_assert_int_eq (info->model, t[i].model);
    ck_assert_uint_eq (info->nr_zones, t[i].zoned == 1 ? 16 : 0);
    ck_assert_uint_eq (info->zone_bytes, t[i].zoned == 1 ? MiB : 0);
    fixture_close (&x);
  }
}
END_TEST

START_TEST (a_disk_without_vpd_pages_opens)
{
  struct fixture x;
  struct fake_drive *f = fake_new (512, 0, 4096, 0);
  const struct bdev_info *info;

  for (size_t p = 0; p < 256; ++p)
    f->vpd[p].len = 0;
  f->opcodes.len = 0;
  f->mode6.len = 0;
  f->mode10.len = 0;
  f->no_capacity16 = true;
  info = open_info (&x, f);
  ck_assert_uint_eq (info->size_bytes, 4096 * 512);
  ck_assert_str_eq (info->serial, "");
  ck_assert_uint_eq (info->wwid_len, 0);
  ck_assert (info->write_cache);                /* to be safe */
  ck_assert (!info->fua && info->rotational);
  ck_assert_uint_eq (info->max_zeroes_bytes, 0);
  fixture_close (&x);
}
END_TEST

START_TEST (pages_that_are_not_listed_are_not_asked_for)
{
  struct fixture x;
  struct fake_drive *f = fake_new (512, 0, 4096, 0);

  put_be16 (f->vpd[0].bytes + 2, 2);            /* 00h and 80h alone */
  f->vpd[0].len = 6;
  open_info (&x, f);
  x.f->nr_log = x.opening;
  for (unsigned i = 0; i < x.opening; ++i)
    if (x.f->log[i].cdb[0] == OP_INQUIRY && (x.f->log[i].cdb[1] & 1))
      ck_assert (x.f->log[i].cdb[2] == 0x00 || x.f->log[i].cdb[2] == 0x80);
  fixture_close (&x);
}
END_TEST

START_TEST (write_cache_and_protection_come_from_either_mode_sense)
{
  struct fixture x;
  struct fake_drive *f = smr ();
  const struct bdev_info *info;

  if (_i == 0)
    f->no_mode10 = true;
  f->mode10.bytes[10] = f->mode6.bytes[6] = 0;
  f->mode10.bytes[3] = f->mode6.bytes[2] = 0x80;
  info = open_info (&x, f);
  ck_assert (!info->write_cache && !info->fua && info->read_only);
  fixture_close (&x);
}
END_TEST

START_TEST (an_ssd_is_not_rotational_and_sizes_are_taken)
{
  struct fixture x;
  struct fake_drive *f = smr ();
  const struct bdev_info *info;

  put_be16 (f->vpd[0xb1].bytes + 4, 1);
  f->capacity16.bytes[13] = 3;
  info = open_info (&x, f);
  ck_assert (!info->rotational);
  ck_assert_uint_eq (info->pbs_bytes, 4096);
  fixture_close (&x);
}
END_TEST

/* RC BASIS 0: READ CAPACITY tells the conventional zones alone. */
START_TEST (the_capacity_behind_the_conventional_zones_is_found)
{
  struct fixture x;
  struct fake_drive *f = smr ();
  const struct bdev_info *info;

  put_be64 (f->capacity16.bytes, 4 * 2048 - 1);
  f->capacity16.bytes[12] = 0;
  info = open_info (&x, f);
  ck_assert_uint_eq (info->size_bytes, 16 * MiB);
  ck_assert_uint_eq (info->nr_zones, 16);
  fixture_close (&x);
}
END_TEST

START_TEST (a_short_last_zone_counts)
{
  struct fixture x;
  struct fake_drive *f = smr ();
  const struct bdev_info *info;

  f->zones[15].len = 100;
  f->nr_lbas = 15 * 2048 + 100;
  put_be64 (f->capacity16.bytes, f->nr_lbas - 1);
  info = open_info (&x, f);
  ck_assert_uint_eq (info->nr_zones, 16);
  ck_assert_uint_eq (info->zone_bytes, MiB);
  ck_assert_uint_eq (info->size_bytes, 15 * MiB + 100 * 512);
  fixture_close (&x);
}
END_TEST

/* Zones of 1.5 MiB capacity in 2 MiB: each is followed by a gap zone. */
static struct fake_drive *
gappy (void)
{
  struct fake_drive *f = fake_new (512, 32, 2048, 0);
  uint64_t lba = 0;

  for (unsigned i = 0; i < 32; ++i) {
    struct fake_zone *z = &f->zones[i];

    z->type = i % 2 ? ZONE_GAP : ZONE_SEQ_REQUIRED;
    z->cond = i % 2 ? ZONE_NOT_WP : ZONE_EMPTY;
    z->start = lba;
    z->wp = i % 2 ? UINT64_MAX : lba;
    z->len = i % 2 ? 1024 : 3072;
    lba += z->len;
  }
  return f;
}

START_TEST (gap_zones_make_the_capacity_smaller_than_the_zone)
{
  struct fixture x;
  struct bdev_zone z[20];
  const struct bdev_info *info = open_info (&x, gappy ());
  size_t nr;

  ck_assert_uint_eq (info->nr_zones, 16);
  ck_assert_uint_eq (info->zone_bytes, 2 * MiB);
  for (unsigned start = 0; start < 16; ++start)
    for (size_t max = 1; max <= 17; ++max)
      for (unsigned inside = 0; inside < 2; ++inside) {
        /* also from inside the gap */
        const uint64_t at = start * 2 * MiB + (inside ? 2 * MiB - 512 : 0);

        ck_assert_int_eq (bdev_report_zones (x.bdev, at, z, max, &nr), 0);
        ck_assert_uint_eq (nr, MIN (max, 16u - start));
        for (size_t i = 0; i < nr; ++i) {
          ck_assert_uint_eq (z[i].start_bytes, (start + i) * 2 * MiB);
          ck_assert_uint_eq (z[i].len_bytes, 2 * MiB);
          ck_assert_uint_eq (z[i].cap_bytes, 2 * MiB - 512 * KiB);
        }
        x.f->nr_log = 0;
      }
  fixture_close (&x);
}
END_TEST

START_TEST (long_reports_come_in_pages_that_fit_together)
{
  struct fixture x;
  struct fake_drive *f = _i & 1 ? gappy () : fake_new (512, 32, 2048, 4);
  struct bdev_zone z[40];
  unsigned want = _i & 1 ? 16 : 32;
  size_t nr;

  f->limits.max_transfer_bytes = 512;           /* seven zones */
  f->no_partial = _i >= 2;                      /* the list length counts all */
  fixture_open (&x, f);
  ck_assert_uint_eq (x.bdev->info.nr_zones, want);
  ck_assert_int_eq (bdev_report_zones (x.bdev, 0, z, 40, &nr), 0);
  ck_assert_uint_eq (nr, want);
  for (size_t i = 0; i < nr; ++i)
    ck_assert_uint_eq (z[i].start_bytes, i * z[0].len_bytes);
  ck_assert_uint_eq (fake_count (f, OP_ZONE_IN), 5);
  fixture_close (&x);
}
END_TEST

START_TEST (zone_states_are_handed_on)
{
  static const struct { uint8_t cond; uint64_t wp, told; } t[] = {
    { ZONE_EMPTY, 0, 0 }, { ZONE_IMPLICIT_OPEN, 8, 8 }, { ZONE_EXPLICIT_OPEN, 0, 0 },
    { ZONE_CLOSED, 2047, 2047 }, { ZONE_FULL, 2048, 2048 }, { ZONE_FULL, 99999, 2048 },
    { ZONE_READ_ONLY, 8, UINT64_MAX }, { ZONE_OFFLINE, 8, UINT64_MAX },
    { 0x5, 8, UINT64_MAX },
  };
  struct fixture x;
  struct bdev_zone z;
  size_t nr;

  fixture_open (&x, smr ());
  for (size_t i = 0; i < ARRAY_SIZE (t); ++i) {
    x.f->zones[5].cond = t[i].cond;
    x.f->zones[5].wp = 5 * 2048 + t[i].wp;
    ck_assert_int_eq (bdev_report_zones (x.bdev, 5 * MiB, &z, 1, &nr), 0);
    ck_assert_int_eq (z.cond, t[i].cond == 0x5 ? ZONE_OFFLINE : t[i].cond);
    ck_assert_uint_eq (z.wp_bytes, t[i].told == UINT64_MAX ? UINT64_MAX :
                       5 * MiB + t[i].told * 512);
  }
  fixture_close (&x);
}
END_TEST

START_TEST (a_pending_unit_attention_does_not_disturb_opening)
{
  struct fixture x;
  struct fake_drive *f = smr ();

  fake_add_sense (f, OP_SERVICE_ACTION_IN_16, 6, 0x29, 1)->count = 3;
  fixture_open (&x, f);
  fixture_close (&x);
}
END_TEST

START_TEST (a_drive_that_spins_up_is_waited_for)
{
  struct fixture x;
  struct fake_drive *f = smr ();

  fake_add_sense (f, OP_SERVICE_ACTION_IN_16, 2, 4, 1)->count = 20;
  fixture_open (&x, f);
  ck_assert_uint_gt (f->slept_ns, 5 * NS_PER_S);
  fixture_close (&x);
}
END_TEST

/* ---- what is refused ---- */

START_TEST (other_devices_are_refused_by_name)
{
  struct fake_drive *f = smr ();

  f->inquiry.bytes[0] = 0x01;
  open_must_fail (f, ENOTBLK, "a tape drive");
  f = smr ();
  f->inquiry.bytes[0] = 0x0d;
  open_must_fail (f, ENOTBLK, "an enclosure");
  f = smr ();
  f->inquiry.bytes[0] = 0x7f;
  open_must_fail (f, ENODEV, "no device is connected");
}
END_TEST

START_TEST (a_short_inquiry_is_refused)
{
  struct fake_drive *f = smr ();

  f->inquiry.len = 20;
  open_must_fail (f, EPROTO, "INQUIRY is too short (20 bytes)");
}
END_TEST

START_TEST (block_sizes_that_cannot_be_used_are_refused)
{
  static const uint32_t sizes[] = { 0, 1, 256, 520, 528, 4160, 8192, 0x80000000u };

  for (size_t i = 0; i < ARRAY_SIZE (sizes); ++i) {
    struct fake_drive *f = smr ();

    put_be32 (f->capacity16.bytes + 8, sizes[i]);
    open_must_fail (f, ENOTSUP, "has logical blocks of");
  }
}
END_TEST

START_TEST (sizes_that_overflow_are_refused)
{
  static const uint64_t last[] = { UINT64_MAX, UINT64_MAX - 1, UINT64_C (1) << 55,
                                   (UINT64_C (1) << 54) };

  for (size_t i = 0; i < ARRAY_SIZE (last); ++i) {
    struct fake_drive *f = smr ();

    put_be64 (f->capacity16.bytes, last[i]);
    open_must_fail (f, EPROTO, "impossible size");
  }
}
END_TEST

START_TEST (counts_of_blocks_that_disagree_are_refused)
{
  struct fake_drive *f = smr ();

  put_be64 (f->capacity16.bytes, 16 * 2048 + 4);
  open_must_fail (f, EPROTO, "READ CAPACITY says that the last block is 32772, "
                  "REPORT ZONES says 32767");
}
END_TEST

START_TEST (zone_reports_that_make_no_sense_are_refused)
{
  static const struct {
    unsigned zone;
    int start, len;             /* added */
    int wp;                     /* set to start + wp, if not 0 */
    int type, cond;             /* set, if not -1 */
    const char *part;
  } t[] = {
    { 7, -8, 0, 0, -1, -1, "overlaps" },
    { 7, 8, 0, 0, -1, -1, "no zone is reported for LBA" },
    { 7, 0, -2048, 0, -1, -1, "has no length" },
    { 15, 0, 1, 0, -1, -1, "ends behind the drive" },
    { 7, 0, 8, 0, -1, -1, "overlaps" },
    { 7, 0, 0, 0, 0, -1, "unknown type 0h" },
    { 7, 0, 0, 0, 6, -1, "unknown type 6h" },
    { 7, 0, 0, 0, -1, 7, "unknown condition 7h" },
    { 7, 0, 0, 2049, -1, ZONE_CLOSED, "write pointer" },
    { 7, 0, 0, -1, -1, ZONE_CLOSED, "write pointer" },
    { 7, 0, 0, 5, -1, ZONE_EMPTY, "reported empty" },
  };

  for (size_t i = 0; i < ARRAY_SIZE (t); ++i) {
    struct fake_drive *f = smr ();
    struct fake_zone *z = &f->zones[t[i].zone];

    z->start += (uint64_t) t[i].start;
    z->len += (uint64_t) t[i].len;
    if (t[i].wp)
      z->wp = z->start + (uint64_t) t[i].wp;
    if (t[i].type >= 0)
      z->type = (uint8_t) t[i].type;
    if (t[i].cond >= 0)
      z->cond = (uint8_t) t[i].cond;
    open_must_fail (f, EPROTO, t[i].part);
  }
}
END_TEST

START_TEST (a_zone_whose_end_overflows_is_refused)
{
  struct fake_drive *f = smr ();

  f->zones[7].len = UINT64_MAX - 100;
  open_must_fail (f, EPROTO, "ends behind the drive");
}
END_TEST

START_TEST (a_report_that_ignores_its_start_is_refused)
{
  struct fixture x;
  struct bdev_zone z;
  size_t nr;

  fixture_open (&x, smr ());
  x.f->zones[0].len = 20000;    /* so that it answers with this zone, always */
  for (unsigned i = 1; i < 16; ++i)
    x.f->zones[i].start = 0;
  assert_errno (bdev_report_zones (x.bdev, 12 * MiB, &z, 1, &nr), EPROTO);
  fixture_close (&x);
}
END_TEST

START_TEST (an_empty_zone_list_is_refused)
{
  struct fake_drive *f = smr ();

  f->nr_zones = 8;              /* the list ends in the middle of the drive */
  open_must_fail (f, EPROTO, "reports no zone from LBA 16384 on");
}
END_TEST

START_TEST (zones_of_different_sizes_are_refused)
{
  struct fake_drive *f = smr ();

  f->zones[6].len -= 8;
  f->zones[7].start -= 8;
  f->zones[7].wp -= 8;
  f->zones[7].len += 8;
  open_must_fail (f, ENOTSUP, "zones of different sizes");
}
END_TEST

/* The types are no business of the disk: the volume decides about them. */
START_TEST (zone_types_of_other_standards_are_handed_on)
{
  struct fixture x;
  struct bdev_zone z;
  struct fake_drive *f = smr ();
  size_t nr;

  f->zones[7].type = ZONE_SEQ_OR_BEFORE;
  fixture_open (&x, f);
  ck_assert_int_eq (bdev_report_zones (x.bdev, 7 * MiB, &z, 1, &nr), 0);
  ck_assert_int_eq (z.type, ZONE_SEQ_OR_BEFORE);
  fixture_close (&x);
}
END_TEST

START_TEST (a_zone_report_that_fails_fails_the_opening_cleanly)
{
  struct fake_drive *f = smr ();

  f->limits.max_transfer_bytes = 512;           /* several reports */
  fake_add_sense (f, OP_ZONE_IN, 4, 0x44, 0)->skip = _i;
  open_must_fail (f, EREMOTEIO, "REPORT ZONES");
}
END_TEST

START_TEST (errors_of_every_question_are_told_with_its_name)
{
  static const struct { int opcode; const char *name; } t[] = {
    { OP_INQUIRY, "INQUIRY" }, { OP_SERVICE_ACTION_IN_16, "READ CAPACITY(16)" },
    { OP_MODE_SENSE_10, "MODE SENSE(10)" }, { OP_ZONE_IN, "REPORT ZONES" },
    { OP_MAINTENANCE_IN, "REPORT SUPPORTED OPERATION CODES" },
  };

  for (size_t i = 0; i < ARRAY_SIZE (t); ++i) {
    struct fake_drive *f = smr ();
    struct fake_script *s = fake_add (f, t[i].opcode);

    s->host_status = SH_HOST_TIME_OUT;
    s->count = -1;
    open_must_fail (f, ETIMEDOUT, t[i].name);
  }
}
END_TEST

START_TEST (a_filtered_command_is_named_with_a_hint)
{
  struct fake_drive *f = smr ();
  struct sh_error err = { 0 };
  struct fixture x;

  fake_add (f, OP_SERVICE_ACTION_IN_16)->errnum = EPERM;
  assert_errno (fixture_try (&x, f, false, &err), EPERM);
  ck_assert_ptr_nonnull (strstr (err.message, "READ CAPACITY(16)"));
  ck_assert_ptr_nonnull (strstr (err.hint, "run as root"));
  fake_free (f);
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
  tcase_add_loop_test (tcase, missing_limits_mean_no_limit, 0, 2);
  tcase_add_test (tcase, plain_aware_and_drive_managed_disks_are_told_apart);
  tcase_add_test (tcase, a_disk_without_vpd_pages_opens);
  tcase_add_test (tcase, pages_that_are_not_listed_are_not_asked_for);
  tcase_add_loop_test (tcase, write_cache_and_protection_come_from_either_mode_sense, 0, 2);
  tcase_add_test (tcase, an_ssd_is_not_rotational_and_sizes_are_taken);
  tcase_add_test (tcase, the_capacity_behind_the_conventional_zones_is_found);
  tcase_add_test (tcase, a_short_last_zone_counts);
  tcase_add_test (tcase, gap_zones_make_the_capacity_smaller_than_the_zone);
  tcase_add_loop_test (tcase, long_reports_come_in_pages_that_fit_together, 0, 4);
  tcase_add_test (tcase, zone_states_are_handed_on);
  tcase_add_test (tcase, a_pending_unit_attention_does_not_disturb_opening);
  tcase_add_test (tcase, a_drive_that_spins_up_is_waited_for);
  tcase_add_test (tcase, other_devices_are_refused_by_name);
  tcase_add_test (tcase, a_short_inquiry_is_refused);
  tcase_add_test (tcase, block_sizes_that_cannot_be_used_are_refused);
  tcase_add_test (tcase, sizes_that_overflow_are_refused);
  tcase_add_test (tcase, counts_of_blocks_that_disagree_are_refused);
  tcase_add_test (tcase, zone_reports_that_make_no_sense_are_refused);
  tcase_add_test (tcase, a_zone_whose_end_overflows_is_refused);
  tcase_add_test (tcase, a_report_that_ignores_its_start_is_refused);
  tcase_add_test (tcase, an_empty_zone_list_is_refused);
  tcase_add_test (tcase, zones_of_different_sizes_are_refused);
  tcase_add_test (tcase, zone_types_of_other_standards_are_handed_on);
  tcase_add_loop_test (tcase, a_zone_report_that_fails_fails_the_opening_cleanly, 0, 3);
  tcase_add_test (tcase, errors_of_every_question_are_told_with_its_name);
  tcase_add_test (tcase, a_filtered_command_is_named_with_a_hint);
  suite_add_tcase (suite, tcase);
  runner = srunner_create (suite);
  srunner_run_all (runner, CK_ENV);
  failed = srunner_ntests_failed (runner);
  srunner_free (runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
