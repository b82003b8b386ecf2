/* SPDX-License-Identifier: BSD-3-Clause */
/* core/scsi: reads and writes of a disk: how they are cut, and what becomes of those in
   doubt. */
#include <config.h>
#include "disk-fixture.h"
#include "run-suite.h"

static void
check_media (struct fixture *x, uint64_t off, size_t len)
{
  check_stamp (x->f->data + off, len, off, x->f->lbs, 1);
}

/* ---- cutting ---- */

/* Five commands and a block, over buffers cut in odd places: every block must
   be where it belongs, at both block sizes. */
START_TEST (a_request_is_cut_to_the_transfer_limit_without_losing_its_place)
{
  static const uint32_t sizes[] = { 512, 4096 };
  const uint32_t lbs = sizes[_i & 1];
  const bool scattered = _i >= 2;
  const size_t max = 16 * 4096, len = 5 * max + lbs;
  uint8_t *buf = malloc (len);
  struct iovec iov[40];
  struct fixture x;
  int nr = 0;

  x.f = fake_new (lbs, 8, 8 * MiB / 8 / lbs, 2);
  x.f->limits.max_transfer_bytes = max;
  x.f->limits.max_iov = 7;
  fixture_open (&x, x.f);
  stamp (buf, len, 2 * MiB, lbs, 1);
  for (size_t at = 0, n; at < len; at += n) {
    n = MIN (len - at, scattered ? (size_t) (nr * 1237 + 900) : len);
    iov[nr++] = (struct iovec) { buf + at, n };
  }
  for (int write = 1; write >= 0; --write) {
    struct bdev_req req = { .op = write ? BDEV_WRITE : BDEV_READ, .off_bytes = 2 * MiB,
                            .len_bytes = len, .iov = iov, .iovcnt = nr };

    ck_assert_int_eq (bdev_execute (x.bdev, &req), 0);
    ck_assert_uint_eq (req.done_bytes, len);
    check_stamp (x.f->data + 2 * MiB, len, 2 * MiB, lbs, 1);
    check_stamp (buf, len, 2 * MiB, lbs, 1);
    if (write)
      memset (buf, 0xee, len);
  }
  for (unsigned i = 0; i < x.f->nr_log; ++i) {
    ck_assert_uint_le (x.f->log[i].data_len, max);
    ck_assert_int_le (x.f->log[i].iovcnt, 7);
    ck_assert_uint_eq (x.f->log[i].data_len % lbs, 0);
  }
  if (!scattered)
    ck_assert_uint_eq (x.f->nr_log, 12);
  free (buf);
  fixture_close (&x);
}
END_TEST

START_TEST (the_drive_s_own_transfer_limit_counts_too)
{
  struct fixture x;
  uint64_t done;

  x.f = smr ();
  put_be32 (x.f->vpd[0xb0].bytes + 8, 100);
  fixture_open (&x, x.f);
  ck_assert_int_eq (write_stamped (&x, SEQ, 250 * 512, 0, &done), 0);
  ck_assert_uint_eq (fake_count (x.f, OP_WRITE_16), 3);
  check_media (&x, SEQ, 250 * 512);
  fixture_close (&x);
}
END_TEST

START_TEST (a_block_in_too_many_pieces_is_refused_not_looped_over)
{
  struct fixture x;
  uint8_t buf[512];
  struct iovec iov[8];
  struct bdev_req req = { .op = BDEV_READ, .len_bytes = 512, .iov = iov, .iovcnt = 8 };

  x.f = smr ();
  x.f->limits.max_iov = 4;
  fixture_open (&x, x.f);
  for (int i = 0; i < 8; ++i)
    iov[i] = (struct iovec) { buf + 64 * i, 64 };
  assert_errno (bdev_execute (x.bdev, &req), EINVAL);
  ck_assert_uint_eq (x.f->nr_log, 0);
  fixture_close (&x);
}
END_TEST

START_TEST (when_the_host_is_short_of_memory_transfers_get_smaller)
{
  struct fixture x;
  struct fake_script *s;
  uint64_t done;

  fixture_open (&x, smr ());
  s = fake_add (x.f, OP_WRITE_16);
  s->errnum = ENOMEM;
  s->count = 2;
  ck_assert_int_eq (write_stamped (&x, SEQ, 1 * MiB, 0, &done), 0);
  check_media (&x, SEQ, 1 * MiB);
  ck_assert_uint_eq (x.f->log[0].data_len, 1 * MiB);
  ck_assert_uint_eq (x.f->log[1].data_len, 512 * KiB);
  for (unsigned i = 2; i < x.f->nr_log; ++i)
    ck_assert_uint_eq (x.f->log[i].data_len, 256 * KiB);
  fixture_close (&x);
}
END_TEST

START_TEST (requests_of_no_length_cost_no_command)
{
  static const enum bdev_op ops[] = { BDEV_READ, BDEV_WRITE, BDEV_WRITE_ZEROES };
  struct fixture x;
  uint64_t done;

  fixture_open (&x, smr ());
  for (size_t i = 0; i < ARRAY_SIZE (ops); ++i)
    ck_assert_int_eq (execute (&x, ops[i], NULL, 0, SEQ, 0, &done), 0);
  ck_assert_uint_eq (x.f->nr_log, 0);
  fixture_close (&x);
}
END_TEST

START_TEST (requests_outside_the_drive_or_off_its_blocks_never_leave)
{
  static const struct { uint64_t off, len; } bad[] = {
    { 16 * MiB, 512 }, { 16 * MiB - 512, 1024 }, { 1, 512 }, { 0, 511 },
    { UINT64_MAX - 511, 1024 }, { UINT64_MAX - 511, 512 },
  };
  struct fixture x;
  uint8_t buf[1024] = { 0 };
  uint64_t done;

  fixture_open (&x, smr ());
  for (size_t i = 0; i < ARRAY_SIZE (bad); ++i)
    for (enum bdev_op op = BDEV_READ; op <= BDEV_UNMAP; ++op)
      if (op != BDEV_FLUSH)
        assert_errno (execute (&x, op, buf, bad[i].len, bad[i].off, 0, &done), EINVAL);
  assert_errno (bdev_zone_reset (x.bdev, 16 * MiB), EINVAL);
  ck_assert_uint_eq (x.f->nr_log, 0);
  fixture_close (&x);
}
END_TEST

/* ---- forms of READ and WRITE ---- */

START_TEST (a_plain_disk_gets_ten_byte_commands_and_falls_back_to_six)
{
  struct fixture x;
  uint64_t done;

  fixture_open (&x, fake_new (512, 0, 4096, 0));
  ck_assert_int_eq (write_stamped (&x, 0, 4096, 0, &done), 0);
  ck_assert_uint_eq (fake_count (x.f, OP_WRITE_10), 1);
  x.f->no_rw10 = true;
  ck_assert_int_eq (write_stamped (&x, 0, 300 * 512, 0, &done), 0);
  ck_assert_uint_eq (fake_count (x.f, OP_WRITE_10), 2);
  ck_assert_uint_eq (fake_count (x.f, OP_WRITE_6), 2);
  check_media (&x, 0, 300 * 512);
  ck_assert_int_eq (write_stamped (&x, 4096, 512, 0, &done), 0);
  ck_assert_uint_eq (fake_count (x.f, OP_WRITE_10), 2); /* it was remembered */
  fixture_close (&x);
}
END_TEST

START_TEST (zoned_drives_and_those_beyond_two_tib_get_sixteen_byte_commands)
{
  struct sh_command c;

  cdb_read (&c, RW_16, UINT64_C (0x123456789abc), 7);
  ck_assert_uint_eq (cdb_lba (&c), UINT64_C (0x123456789abc));
  ck_assert (!cdb_rw_fits (RW_10, UINT64_C (1) << 32, 1));
  ck_assert (!cdb_rw_fits (RW_10, UINT32_MAX, 2));
  ck_assert (cdb_rw_fits (RW_10, UINT32_MAX, 1));
  ck_assert (!cdb_rw_fits (RW_10, 0, 65536));
  ck_assert (!cdb_rw_fits (RW_6, 0x1fffff, 2));
  ck_assert (cdb_rw_fits (RW_6, 0x1fffff, 1));
}
END_TEST

START_TEST (a_zoned_drive_that_refuses_sixteen_bytes_gets_no_other_form)
{
  struct fixture x;
  uint64_t done;

  fixture_open (&x, smr ());
  x.f->no_rw16 = true;
  assert_errno (write_stamped (&x, SEQ, 512, 0, &done), EREMOTEIO);
  ck_assert_uint_eq (x.f->nr_log, 1);
  fixture_close (&x);
}
END_TEST

/* ---- settling ---- */

struct doubt {                  /* how a write may end without a verdict */
  int errnum;
  uint8_t status, host_status, key, asc;
};

static const struct doubt doubts[] = {
  { .host_status = SH_HOST_TIME_OUT }, { .host_status = SH_HOST_RESET },
  { .host_status = SH_HOST_TRANSPORT_DISRUPTED }, { .host_status = SH_HOST_ERROR },
  { .host_status = SH_HOST_ABORT }, { .host_status = SH_HOST_REQUEUE },
  { .host_status = SH_HOST_IMM_RETRY },
  { .status = SH_STATUS_TASK_ABORTED }, { .errnum = ETIMEDOUT }, { .errnum = EINTR },
  { .key = 0x0b, .asc = 0x47 }, { .key = 0x0b },
};

static struct fake_script *
add_doubt (struct fake_drive *f, const struct doubt *d, enum fake_effect effect)
{
  struct fake_script *s;

  s = d->key ? fake_add_sense (f, OP_WRITE_16, d->key, d->asc, 0) : fake_add (f, OP_WRITE_16);
  s->errnum = d->errnum;
  if (!d->key)
    s->status = d->status;
  s->host_status = d->host_status;
  s->effect = effect;
  return s;
}

START_TEST (a_write_in_doubt_is_settled_by_the_write_pointer)
{
  const struct doubt *d = &doubts[_i / 3];
  const enum fake_effect effect = _i % 3;
  struct fixture x;
  struct disk_counters counters;
  uint64_t done;

  fixture_open (&x, smr ());
  add_doubt (x.f, d, effect);
  ck_assert_int_eq (write_stamped (&x, SEQ, 64 * KiB, 0, &done), 0);
  ck_assert_uint_eq (done, 64 * KiB);
  ck_assert_uint_eq (pointer (&x, SEQ), SEQ + 64 * KiB);
  check_media (&x, SEQ, 64 * KiB);
  /* exactly one zone is asked for, and only what is missing is sent again */
  ck_assert_uint_eq (fake_count (x.f, OP_ZONE_IN), 1);
  ck_assert_uint_eq (x.f->log[1].data_len, 128);
  ck_assert_uint_eq (cdb_lba (&x.f->log[1]), SEQ / 512);
  ck_assert_uint_eq (fake_count (x.f, OP_WRITE_16), effect == EFFECT_ALL ? 1 : 2);
  if (effect == EFFECT_HALF)
    ck_assert_uint_eq (x.f->log[2].data_len, 32 * KiB);
  disk_get_counters (x.bdev, &counters);
  ck_assert_uint_eq (counters.settles, 1);
  ck_assert_uint_eq (counters.failures, 0);
  fixture_close (&x);
}
END_TEST

START_TEST (a_write_in_doubt_to_a_conventional_zone_is_sent_again)
{
  struct fixture x;
  uint64_t done;

  fixture_open (&x, smr ());
  add_doubt (x.f, &doubts[_i], EFFECT_HALF);
  ck_assert_int_eq (write_stamped (&x, 1 * MiB, 64 * KiB, 0, &done), 0);
  ck_assert_uint_eq (fake_count (x.f, OP_WRITE_16), 2);
  check_media (&x, 1 * MiB, 64 * KiB);
  fixture_close (&x);
}
END_TEST

START_TEST (a_write_in_doubt_that_fills_its_zone_is_settled)
{
  struct fixture x;
  uint64_t done;

  fixture_open (&x, smr ());
  add_doubt (x.f, &doubts[0], EFFECT_ALL);
  ck_assert_int_eq (write_stamped (&x, SEQ, ZONE, 0, &done), 0);
  ck_assert_uint_eq (fake_count (x.f, OP_WRITE_16), 1);
  ck_assert_int_eq (x.f->zones[5].cond, ZONE_FULL);
  fixture_close (&x);
}
END_TEST

/* The pointer had not moved when it was read; the first write comes through
   after all, and the second one is refused. */
START_TEST (a_write_that_comes_through_late_counts_as_written)
{
  struct fixture x;
  uint64_t done;

  fixture_open (&x, smr ());
  add_doubt (x.f, &doubts[0], EFFECT_NONE);
  fake_add_sense (x.f, OP_WRITE_16, 5, 0x21, 4)->effect = EFFECT_ALL;
  ck_assert_int_eq (write_stamped (&x, SEQ, 64 * KiB, 0, &done), 0);
  ck_assert_uint_eq (done, 64 * KiB);
  check_media (&x, SEQ, 64 * KiB);
  fixture_close (&x);
}
END_TEST

START_TEST (a_pointer_that_somebody_else_moved_is_an_error)
{
  struct fixture x;
  uint64_t done;

  fixture_open (&x, smr ());
  add_doubt (x.f, &doubts[0], EFFECT_NONE);
  x.f->zones[5].wp += 4096;
  x.f->zones[5].cond = ZONE_IMPLICIT_OPEN;
  assert_errno (write_stamped (&x, SEQ, 64 * KiB, 0, &done), ETIMEDOUT);
  ck_assert_uint_eq (done, 0);
  ck_assert_uint_eq (fake_count (x.f, OP_WRITE_16), 1);
  fixture_close (&x);
}
END_TEST

START_TEST (a_write_that_cannot_be_settled_is_not_sent_again)
{
  struct fixture x;
  uint64_t done;

  fixture_open (&x, smr ());
  add_doubt (x.f, &doubts[0], EFFECT_HALF);
  fake_add_sense (x.f, OP_ZONE_IN, 4, 0x44, 0)->count = -1;
  assert_errno (write_stamped (&x, SEQ, 64 * KiB, 0, &done), ETIMEDOUT);
  ck_assert_uint_eq (fake_count (x.f, OP_WRITE_16), 1);
  fixture_close (&x);
}
END_TEST

/* A settled write with FUA may sit in the drive's cache. */
START_TEST (a_settled_write_with_fua_is_flushed)
{
  struct fixture x;
  uint64_t done;

  fixture_open (&x, smr ());
  add_doubt (x.f, &doubts[0], EFFECT_ALL);
  ck_assert_int_eq (write_stamped (&x, SEQ, 64 * KiB, BDEV_FUA, &done), 0);
  ck_assert_uint_eq (x.f->log[0].cdb[1], 0x08);
  ck_assert_uint_eq (fake_count (x.f, OP_SYNCHRONIZE_CACHE_16), 1);
  fixture_close (&x);
}
END_TEST

START_TEST (a_write_error_half_way_goes_on_from_the_pointer)
{
  struct fixture x;
  uint64_t done;

  fixture_open (&x, smr ());
  fake_add_sense (x.f, OP_WRITE_16, 3, 0x0c, 0)->effect = EFFECT_HALF;
  ck_assert_int_eq (write_stamped (&x, SEQ, 64 * KiB, 0, &done), 0);
  check_media (&x, SEQ, 64 * KiB);
  ck_assert_uint_eq (pointer (&x, SEQ), SEQ + 64 * KiB);
  fixture_close (&x);
}
END_TEST

START_TEST (a_write_error_that_lasts_tells_how_far_the_pointer_came)
{
  struct fixture x;
  struct fake_script *s;
  uint64_t done;

  fixture_open (&x, smr ());
  fake_add_sense (x.f, OP_WRITE_16, 3, 0x0c, 0)->effect = EFFECT_HALF;
  s = fake_add_sense (x.f, OP_WRITE_16, 3, 0x0c, 0);
  s->count = -1;
  assert_errno (write_stamped (&x, SEQ, 64 * KiB, 0, &done), EIO);
  ck_assert_uint_eq (done, 32 * KiB);
  ck_assert_uint_eq (pointer (&x, SEQ), SEQ + 32 * KiB);
  check_media (&x, SEQ, 32 * KiB);
  fixture_close (&x);
}
END_TEST

START_TEST (a_hard_write_error_tells_how_far_the_pointer_came)
{
  struct fixture x;
  uint64_t done;

  fixture_open (&x, smr ());
  fake_add_sense (x.f, OP_WRITE_16, 4, 0x44, 0)->effect = EFFECT_HALF;
  assert_errno (write_stamped (&x, SEQ, 64 * KiB, 0, &done), EREMOTEIO);
  ck_assert_uint_eq (done, 32 * KiB);
  ck_assert_uint_eq (fake_count (x.f, OP_WRITE_16), 1);
  fixture_close (&x);
}
END_TEST

START_TEST (a_refused_write_costs_no_zone_report)
{
  struct fixture x;
  uint64_t done;

  fixture_open (&x, smr ());
  assert_errno (write_stamped (&x, SEQ + 4096, 4096, 0, &done), EREMOTEIO);
  ck_assert_uint_eq (x.f->nr_log, 1);
  ck_assert_ptr_nonnull (strstr (x.last_log, "write not at the write pointer (05/21/04)"));
  fixture_close (&x);
}
END_TEST

/* UA 29/00 in the middle of a burst: nobody notices, and nothing is reported
   since the write did not run. */
START_TEST (unit_attentions_in_a_write_burst_reach_nobody)
{
  struct fixture x;
  uint64_t done;

  fixture_open (&x, smr ());
  for (int i = 0; i < 4; ++i)
    fake_add_sense (x.f, OP_WRITE_16, 6, 0x29, 0)->skip = i;
  for (unsigned i = 0; i < 16; ++i)
    ck_assert_int_eq (write_stamped (&x, SEQ + i * 4096, 4096, 0, &done), 0);
  ck_assert_uint_eq (fake_count (x.f, OP_ZONE_IN), 0);
  ck_assert_uint_eq (fake_count (x.f, OP_WRITE_16), 20);
  check_media (&x, SEQ, 64 * KiB);
  fixture_close (&x);
}
END_TEST

/* ---- residuals ---- */

START_TEST (what_a_short_transfer_left_is_fetched)
{
  struct fixture x;
  struct fake_script *s;
  uint8_t buf[64 * KiB];
  uint64_t done;

  fixture_open (&x, smr ());
  stamp (x.f->data, sizeof buf, 0, 512, 1);
  s = fake_add (x.f, OP_READ_16);
  s->effect = EFFECT_HALF;
  s->resid = sizeof buf / 2 + 100;      /* the block in the middle counts as missing */
  ck_assert_int_eq (execute (&x, BDEV_READ, buf, sizeof buf, 0, 0, &done), 0);
  check_stamp (buf, sizeof buf, 0, 512, 1);
  ck_assert_uint_eq (x.f->log[1].data_len, sizeof buf / 2 + 512);
  fixture_close (&x);
}
END_TEST

START_TEST (a_short_write_goes_on_where_the_pointer_stands)
{
  struct fixture x;
  struct fake_script *s;
  uint64_t done;

  fixture_open (&x, smr ());
  s = fake_add (x.f, OP_WRITE_16);
  s->effect = EFFECT_HALF;
  s->resid = 4096;              /* a lie: half is missing */
  ck_assert_int_eq (write_stamped (&x, SEQ, 64 * KiB, 0, &done), 0);
  ck_assert_uint_eq (fake_count (x.f, OP_ZONE_IN), 1);
  check_media (&x, SEQ, 64 * KiB);
  ck_assert_uint_eq (pointer (&x, SEQ), SEQ + 64 * KiB);
  fixture_close (&x);
}
END_TEST

START_TEST (a_transfer_that_never_moves_ends)
{
  struct fixture x;
  struct fake_script *s;
  uint8_t buf[4096];
  uint64_t done;

  fixture_open (&x, smr ());
  s = fake_add (x.f, _i ? OP_WRITE_16 : OP_READ_16);
  s->resid = 4096;
  s->count = -1;
  assert_errno (execute (&x, _i ? BDEV_WRITE : BDEV_READ, buf, 4096, SEQ, 0, &done), EIO);
  s->resid = 5000;              /* more than was asked for */
  assert_errno (execute (&x, _i ? BDEV_WRITE : BDEV_READ, buf, 4096, SEQ, 0, &done), EIO);
  fixture_close (&x);
}
END_TEST

int
main (void)
{
  Suite *suite = suite_create ("disk-io");
  TCase *tcase = tcase_create ("reads and writes");

  tcase_add_loop_test (tcase, a_request_is_cut_to_the_transfer_limit_without_losing_its_place,
                       0, 4);
  tcase_add_test (tcase, the_drive_s_own_transfer_limit_counts_too);
  tcase_add_test (tcase, a_block_in_too_many_pieces_is_refused_not_looped_over);
  tcase_add_test (tcase, when_the_host_is_short_of_memory_transfers_get_smaller);
  tcase_add_test (tcase, requests_of_no_length_cost_no_command);
  tcase_add_test (tcase, requests_outside_the_drive_or_off_its_blocks_never_leave);
  tcase_add_test (tcase, a_plain_disk_gets_ten_byte_commands_and_falls_back_to_six);
  tcase_add_test (tcase, zoned_drives_and_those_beyond_two_tib_get_sixteen_byte_commands);
  tcase_add_test (tcase, a_zoned_drive_that_refuses_sixteen_bytes_gets_no_other_form);
  tcase_add_loop_test (tcase, a_write_in_doubt_is_settled_by_the_write_pointer, 0,
                       3 * ARRAY_SIZE (doubts));
  tcase_add_loop_test (tcase, a_write_in_doubt_to_a_conventional_zone_is_sent_again, 0,
                       ARRAY_SIZE (doubts));
  tcase_add_test (tcase, a_write_in_doubt_that_fills_its_zone_is_settled);
  tcase_add_test (tcase, a_write_that_comes_through_late_counts_as_written);
  tcase_add_test (tcase, a_pointer_that_somebody_else_moved_is_an_error);
  tcase_add_test (tcase, a_write_that_cannot_be_settled_is_not_sent_again);
  tcase_add_test (tcase, a_settled_write_with_fua_is_flushed);
  tcase_add_test (tcase, a_write_error_half_way_goes_on_from_the_pointer);
  tcase_add_test (tcase, a_write_error_that_lasts_tells_how_far_the_pointer_came);
  tcase_add_test (tcase, a_hard_write_error_tells_how_far_the_pointer_came);
  tcase_add_test (tcase, a_refused_write_costs_no_zone_report);
  tcase_add_test (tcase, unit_attentions_in_a_write_burst_reach_nobody);
  tcase_add_test (tcase, what_a_short_transfer_left_is_fetched);
  tcase_add_test (tcase, a_short_write_goes_on_where_the_pointer_stands);
  tcase_add_loop_test (tcase, a_transfer_that_never_moves_ends, 0, 2);
  suite_add_tcase (suite, tcase);
  return run_suite (suite);
}
