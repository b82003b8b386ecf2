/* SPDX-License-Identifier: BSD-3-Clause */
/* core/scsi: flushes, zeroes, unmap, zone commands and probes of a disk. */
#include <config.h>
#include "disk-fixture.h"
#include "run-suite.h"

/* ---- too many open zones ---- */

START_TEST (one_other_zone_is_closed_and_the_write_repeated_once)
{
  struct fixture x;
  struct disk_counters counters;
  uint64_t done;

  x.f = smr ();
  x.f->open_limit = 2;
  fixture_open (&x, x.f);
  for (unsigned z = 6; z < 8; ++z) {
    struct bdev_req req = { .op = BDEV_ZONE_OPEN, .off_bytes = z * ZONE };

    ck_assert_int_eq (bdev_execute (x.bdev, &req), 0);
  }
  x.f->nr_log = 0;
  ck_assert_int_eq (write_stamped (&x, SEQ, 4096, 0, &done), 0);
  ck_assert_uint_eq (fake_count (x.f, OP_ZONE_OUT), 1);
  ck_assert_uint_eq (fake_count (x.f, OP_WRITE_16), 2);
  ck_assert_int_eq (x.f->zones[6].cond, ZONE_EMPTY);
  disk_get_counters (x.bdev, &counters);
  ck_assert_uint_eq (counters.zone_closes, 1);

  x.f->nr_log = 0;
  fake_add_sense (x.f, OP_WRITE_16, 7, 0x55, 0x0e)->count = -1;
  assert_errno (write_stamped (&x, SEQ + 4096, 4096, 0, &done), ETOOMANYREFS);
  ck_assert_uint_eq (fake_count (x.f, OP_WRITE_16), 2);
  fixture_close (&x);
}
END_TEST

START_TEST (with_no_zone_to_close_the_write_fails_at_once)
{
  struct fixture x;
  uint64_t done;

  fixture_open (&x, smr ());
  fake_add_sense (x.f, OP_WRITE_16, 7, 0x55, 0x0e)->count = -1;
  assert_errno (write_stamped (&x, SEQ, 4096, 0, &done), ETOOMANYREFS);
  ck_assert_uint_eq (fake_count (x.f, OP_WRITE_16), 1);
  fixture_close (&x);
}
END_TEST

/* ---- flush and FUA ---- */

START_TEST (a_flush_waits_for_the_cache_and_takes_either_form)
{
  struct fixture x;

  fixture_open (&x, smr ());
  ck_assert_int_eq (bdev_flush (x.bdev), 0);
  ck_assert_int_eq (x.f->log[0].cdb[0], OP_SYNCHRONIZE_CACHE_16);
  ck_assert_int_eq (x.f->log[0].cdb[1] & 0x02, 0);      /* IMMED */
  ck_assert_uint_ge (x.f->log[0].timeout_ms, 120 * 1000);
  x.f->no_sync16 = true;
  ck_assert_int_eq (bdev_flush (x.bdev), 0);
  ck_assert_uint_eq (fake_count (x.f, OP_SYNCHRONIZE_CACHE_10), 1);
  x.f->no_sync10 = true;
  ck_assert_int_eq (bdev_flush (x.bdev), 0);
  x.f->nr_log = 0;
  ck_assert_int_eq (bdev_flush (x.bdev), 0);
  ck_assert_uint_eq (x.f->nr_log, 0);           /* there is nothing to flush */
  fixture_close (&x);
}
END_TEST

START_TEST (a_failed_flush_is_told)
{
  struct fixture x;

  fixture_open (&x, smr ());
  fake_add_sense (x.f, OP_SYNCHRONIZE_CACHE_16, 3, 0x0c, 0)->count = -1;
  assert_errno (bdev_flush (x.bdev), EIO);
  assert_errno (bdev_flush (x.bdev), EIO);
  fixture_close (&x);
}
END_TEST

START_TEST (fua_is_sent_where_it_means_something)
{
  struct fixture x;
  uint64_t done;

  x.f = smr ();
  if (_i == 1)
    x.f->mode10.bytes[3] = 0;           /* no DPOFUA */
  if (_i == 2)
    x.f->mode10.bytes[10] = 0;          /* no write cache */
  fixture_open (&x, x.f);
  ck_assert_int_eq (write_stamped (&x, SEQ, 4096, BDEV_FUA, &done), 0);
  ck_assert_int_eq (x.f->log[0].cdb[1], _i == 0 ? 0x08 : 0);
  ck_assert_uint_eq (fake_count (x.f, OP_SYNCHRONIZE_CACHE_16), _i == 1 ? 1 : 0);
  fixture_close (&x);
}
END_TEST

/* ---- zeroes, unmap, zones ---- */

START_TEST (zeroes_are_written_by_the_drive_in_pieces)
{
  struct fixture x;
  uint64_t done;
  const bool ndob = _i == 1;

  x.f = smr ();
  put_be64 (x.f->vpd[0xb0].bytes + 36, 1000);
  x.f->opcodes.bytes[5] = ndob ? 0x01 : 0;
  fixture_open (&x, x.f);
  ck_assert_uint_eq (x.bdev->info.max_zeroes_bytes, 1000 * 512);
  memset (x.f->data + SEQ, 0xff, ZONE);
  ck_assert_int_eq (execute (&x, BDEV_WRITE_ZEROES, NULL, ZONE, SEQ, 0, &done), 0);
  ck_assert_uint_eq (done, ZONE);
  ck_assert_uint_eq (x.f->nr_log, 3);
  ck_assert_uint_eq (x.f->log[0].data_len, ndob ? 0 : 512);
  ck_assert_uint_eq (x.f->data[SEQ], 0);
  ck_assert_mem_eq (x.f->data + SEQ, x.f->data + SEQ + 1, ZONE - 1);
  ck_assert_uint_eq (pointer (&x, SEQ), SEQ + ZONE);
  fixture_close (&x);
}
END_TEST

START_TEST (zeroes_in_doubt_are_settled_too)
{
  struct fixture x;
  struct fake_script *s;
  uint64_t done;

  fixture_open (&x, smr ());
  s = fake_add (x.f, OP_WRITE_SAME_16);
  s->host_status = SH_HOST_TIME_OUT;
  s->effect = EFFECT_HALF;
  ck_assert_int_eq (execute (&x, BDEV_WRITE_ZEROES, NULL, 64 * KiB, SEQ, 0, &done), 0);
  ck_assert_uint_eq (pointer (&x, SEQ), SEQ + 64 * KiB);
  ck_assert_uint_eq (fake_count (x.f, OP_WRITE_SAME_16), 2);
  fixture_close (&x);
}
END_TEST

START_TEST (a_drive_without_write_same_says_so_once)
{
  struct fixture x;
  uint64_t done;

  fixture_open (&x, smr ());
  fake_add_sense (x.f, OP_WRITE_SAME_16, 5, 0x20, 0)->count = -1;
  for (int i = 0; i < 3; ++i)
    assert_errno (execute (&x, BDEV_WRITE_ZEROES, NULL, 512, 0, 0, &done), ENOTSUP);
  ck_assert_uint_eq (x.f->nr_log, 1);
  fixture_close (&x);
}
END_TEST

START_TEST (unmap_keeps_to_the_drive_s_units_and_limits)
{
  struct fixture x;
  uint64_t done;

  x.f = fake_new (512, 0, 16384, 0);
  x.f->vpd[0xb2].bytes[5] = 0x80;
  put_be32 (x.f->vpd[0xb0].bytes + 20, 1000);
  put_be32 (x.f->vpd[0xb0].bytes + 24, 1);
  put_be32 (x.f->vpd[0xb0].bytes + 28, 8);
  put_be32 (x.f->vpd[0xb0].bytes + 32, 0x80000000u | 4);
  fixture_open (&x, x.f);
  ck_assert (x.bdev->info.unmap);
  memset (x.f->data, 0xff, 16384 * 512);
  ck_assert_int_eq (execute (&x, BDEV_UNMAP, NULL, 2001 * 512, 512, 0, &done), 0);
  ck_assert_uint_eq (done, 2001 * 512);
  ck_assert_uint_eq (x.f->nr_log, 2);
  /* units begin at 4, 12, ...: of blocks 1 ... 2001 those from 4 to 1995 are whole */
  for (size_t b = 0; b < 16384; ++b)
    if (x.f->data[b * 512] != (b >= 4 && b < 1996 ? 0 : 0xff))
      ck_abort_msg ("block %zu", b);
  ck_assert_int_eq (execute (&x, BDEV_UNMAP, NULL, 3 * 512, 512, 0, &done), 0);
  ck_assert_uint_eq (x.f->nr_log, 2);
  fixture_close (&x);
}
END_TEST

START_TEST (zone_commands_have_their_codes)
{
  static const struct { enum bdev_op op; uint8_t action, cond; } t[] = {
    { BDEV_ZONE_OPEN, 3, ZONE_EXPLICIT_OPEN }, { BDEV_ZONE_CLOSE, 1, ZONE_EMPTY },
    { BDEV_ZONE_FINISH, 2, ZONE_FULL }, { BDEV_ZONE_RESET, 4, ZONE_EMPTY },
  };
  struct fixture x;

  fixture_open (&x, smr ());
  for (size_t i = 0; i < ARRAY_SIZE (t); ++i) {
    struct bdev_req req = { .op = t[i].op, .off_bytes = SEQ };

    ck_assert_int_eq (bdev_execute (x.bdev, &req), 0);
    ck_assert_int_eq (x.f->log[i].cdb[1], t[i].action);
    ck_assert_int_eq (x.f->zones[5].cond, t[i].cond);
    req = (struct bdev_req) { .op = t[i].op, .flags = BDEV_ALL };
    x.f->nr_log = (unsigned) i;
    ck_assert_int_eq (bdev_execute (x.bdev, &req), 0);
    ck_assert_int_eq (x.f->log[i].cdb[14], 1);
  }
  fixture_close (&x);
}
END_TEST

START_TEST (nothing_is_written_to_a_read_only_disk)
{
  static const enum bdev_op ops[] = {
    BDEV_WRITE, BDEV_WRITE_ZEROES, BDEV_UNMAP, BDEV_ZONE_OPEN, BDEV_ZONE_CLOSE,
    BDEV_ZONE_FINISH, BDEV_ZONE_RESET,
  };
  struct sh_error err = { 0 };
  struct fixture x;
  uint8_t buf[512] = { 0 };
  uint64_t done;
  struct fake_drive *f = smr ();

  if (_i == 1)
    f->mode10.bytes[3] |= 0x80; /* write protected */
  ck_assert_int_eq (fixture_try (&x, f, _i == 0, &err), 0);
  ck_assert (x.bdev->info.read_only);
  x.f->nr_log = 0;
  for (size_t i = 0; i < ARRAY_SIZE (ops); ++i)
    assert_errno (execute (&x, ops[i], buf, 512, 0, 0, &done), EROFS);
  ck_assert_int_eq (bdev_flush (x.bdev), 0);
  ck_assert_uint_eq (x.f->nr_log, 0);
  ck_assert_int_eq (bdev_read (x.bdev, buf, 512, 0), 0);
  fixture_close (&x);
}
END_TEST

/* ---- probes, and a drive that goes away ---- */

static int
probe (struct fixture *x)
{
  struct bdev_req req = { .op = BDEV_PROBE, .flags = BDEV_RESERVED };

  return bdev_execute (x->bdev, &req);
}

START_TEST (a_probe_is_one_command_and_forgives_news)
{
  struct fixture x;

  fixture_open (&x, smr ());
  ck_assert_int_eq (probe (&x), 0);
  ck_assert_uint_eq (x.f->nr_log, 1);
  ck_assert_int_eq (x.f->log[0].cdb[0], OP_TEST_UNIT_READY);
  fake_add_sense (x.f, OP_TEST_UNIT_READY, 6, 0x29, 0);
  ck_assert_int_eq (probe (&x), 0);
  ck_assert_uint_eq (x.f->nr_log, 3);
  ck_assert_uint_eq (bdev_resets (x.bdev), 1);
  fake_add_sense (x.f, OP_TEST_UNIT_READY, 6, 0x2a, 1)->count = 2;
  ck_assert_int_eq (probe (&x), 0);             /* it lives */
  ck_assert_uint_eq (x.f->nr_log, 5);
  fixture_close (&x);
}
END_TEST

START_TEST (a_probe_fails_fast_and_says_what_is_wrong)
{
  struct fixture x;
  struct fake_script *s;

  fixture_open (&x, smr ());
  s = fake_add (x.f, OP_TEST_UNIT_READY);
  s->host_status = SH_HOST_TIME_OUT;
  s->takes_ns = 10 * NS_PER_S;
  assert_errno (probe (&x), ETIMEDOUT);
  fake_add_sense (x.f, OP_TEST_UNIT_READY, 2, 4, 1);
  assert_errno (probe (&x), EIO);
  fake_add_sense (x.f, OP_TEST_UNIT_READY, 4, 0x44, 0);
  assert_errno (probe (&x), EREMOTEIO);
  ck_assert_uint_eq (x.f->nr_log, 3);
  ck_assert_uint_eq (x.f->slept_ns, 0);
  fixture_close (&x);
}
END_TEST

START_TEST (a_busy_drive_is_alive)
{
  struct fixture x;

  fixture_open (&x, smr ());
  fake_add (x.f, OP_TEST_UNIT_READY)->status = SH_STATUS_BUSY;
  ck_assert_int_eq (probe (&x), 0);
  fake_add (x.f, OP_TEST_UNIT_READY)->status = SH_STATUS_TASK_SET_FULL;
  ck_assert_int_eq (probe (&x), 0);
  ck_assert_uint_eq (x.f->nr_log, 2);
  /* the host did not pass it on: that says nothing of the drive */
  fake_add (x.f, OP_TEST_UNIT_READY)->host_status = SH_HOST_BUS_BUSY;
  fake_add (x.f, OP_TEST_UNIT_READY)->errnum = EAGAIN;
  ck_assert_int_eq (probe (&x), 0);
  ck_assert_uint_eq (x.f->nr_log, 5);
  fixture_close (&x);
}
END_TEST

START_TEST (a_drive_that_is_gone_fails_fast_until_a_probe_finds_it)
{
  struct fixture x;
  uint8_t buf[512];
  uint64_t resets;

  fixture_open (&x, smr ());
  fake_add (x.f, OP_READ_16)->errnum = ENODEV;
  assert_errno (bdev_read (x.bdev, buf, 512, 0), ENODEV);
  x.f->nr_log = 0;
  assert_errno (bdev_read (x.bdev, buf, 512, 0), ENODEV);
  assert_errno (bdev_flush (x.bdev), ENODEV);
  ck_assert_uint_eq (x.f->nr_log, 0);
  x.f->reopen_errnum = ENODEV;
  assert_errno (probe (&x), ENODEV);
  ck_assert_uint_eq (x.f->nr_log, 0);
  x.f->reopen_errnum = 0;
  resets = bdev_resets (x.bdev);
  ck_assert_int_eq (probe (&x), 0);
  ck_assert_int_eq (x.f->reopens, 2);
  ck_assert_uint_gt (bdev_resets (x.bdev), resets);     /* read your zones again */
  ck_assert_int_eq (bdev_read (x.bdev, buf, 512, 0), 0);
  fixture_close (&x);
}
END_TEST

START_TEST (another_drive_in_its_place_is_not_taken)
{
  struct fixture x;
  uint8_t buf[512];

  fixture_open (&x, smr ());
  fake_add (x.f, OP_READ_16)->errnum = ENODEV;
  assert_errno (bdev_read (x.bdev, buf, 512, 0), ENODEV);
  switch (_i) {
  case 0: x.f->vpd[0x83].bytes[15] ^= 1; break;         /* WWID */
  case 1: x.f->vpd[0x80].bytes[10] ^= 1; break;         /* serial number */
  case 2: put_be64 (x.f->capacity16.bytes, 1000); break;
  case 3: put_be32 (x.f->capacity16.bytes + 8, 4096); break;
  case 4: x.f->inquiry.bytes[0] = 0x7f; break;          /* nothing */
  }
  assert_errno (probe (&x), ENODEV);
  assert_errno (bdev_read (x.bdev, buf, 512, 0), ENODEV);
  fixture_close (&x);
}
END_TEST

START_TEST (counters_tell_what_was_sent)
{
  struct fixture x;
  struct disk_counters before, after;
  uint8_t buf[4096];
  uint64_t done;

  fixture_open (&x, smr ());
  disk_get_counters (x.bdev, &before);
  ck_assert_uint_eq (before.commands[DISK_CLASS_PROBE], 0);
  ck_assert_int_eq (write_stamped (&x, SEQ, 4096, 0, &done), 0);
  ck_assert_int_eq (bdev_read (x.bdev, buf, 4096, SEQ), 0);
  ck_assert_int_eq (bdev_read (x.bdev, buf, 512, SEQ), 0);
  ck_assert_int_eq (bdev_flush (x.bdev), 0);
  ck_assert_int_eq (bdev_zone_reset (x.bdev, SEQ), 0);
  ck_assert_int_eq (probe (&x), 0);
  disk_get_counters (x.bdev, &after);
  ck_assert_uint_eq (after.commands[DISK_CLASS_WRITE], 1);
  ck_assert_uint_eq (after.commands[DISK_CLASS_READ], 2);
  ck_assert_uint_eq (after.commands[DISK_CLASS_FLUSH], 1);
  ck_assert_uint_eq (after.commands[DISK_CLASS_ZONE_OUT], 1);
  ck_assert_uint_eq (after.commands[DISK_CLASS_PROBE], 1);
  ck_assert_uint_eq (after.read_bytes, 4608);
  ck_assert_uint_eq (after.written_bytes, 4096);
  ck_assert_uint_eq (after.retries, 0);
  for (int c = 0; c < DISK_NR_CLASSES; ++c)
    ck_assert_ptr_nonnull (disk_class_name (c));
  fixture_close (&x);
}
END_TEST

int
main (void)
{
  Suite *suite = suite_create ("disk-commands");
  TCase *tcase = tcase_create ("commands");

  tcase_add_test (tcase, one_other_zone_is_closed_and_the_write_repeated_once);
  tcase_add_test (tcase, with_no_zone_to_close_the_write_fails_at_once);
  tcase_add_test (tcase, a_flush_waits_for_the_cache_and_takes_either_form);
  tcase_add_test (tcase, a_failed_flush_is_told);
  tcase_add_loop_test (tcase, fua_is_sent_where_it_means_something, 0, 3);
  tcase_add_loop_test (tcase, zeroes_are_written_by_the_drive_in_pieces, 0, 2);
  tcase_add_test (tcase, zeroes_in_doubt_are_settled_too);
  tcase_add_test (tcase, a_drive_without_write_same_says_so_once);
  tcase_add_test (tcase, unmap_keeps_to_the_drive_s_units_and_limits);
  tcase_add_test (tcase, zone_commands_have_their_codes);
  tcase_add_loop_test (tcase, nothing_is_written_to_a_read_only_disk, 0, 2);
  tcase_add_test (tcase, a_probe_is_one_command_and_forgives_news);
  tcase_add_test (tcase, a_probe_fails_fast_and_says_what_is_wrong);
  tcase_add_test (tcase, a_busy_drive_is_alive);
  tcase_add_test (tcase, a_drive_that_is_gone_fails_fast_until_a_probe_finds_it);
  tcase_add_loop_test (tcase, another_drive_in_its_place_is_not_taken, 0, 5);
  tcase_add_test (tcase, counters_tell_what_was_sent);
  suite_add_tcase (suite, tcase);
  return run_suite (suite);
}
