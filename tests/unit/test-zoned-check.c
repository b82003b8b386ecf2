/* SPDX-License-Identifier: BSD-3-Clause */
/* Check and repair: each kind of damage is named, and mended as far as one of
 * the two sets still knows better. */
#undef NDEBUG
#include <config.h>
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/bytes.h"
#include "zoned/super.h"
#include "zoned-volume.h"

static struct fake *f;
static struct layout l;
static struct zone_table *t;
static struct sample_zones z;
static struct findings *found;

static void
setup (void)
{
  struct sh_error err = { 0 };

  f = fake_new (&(struct fake_config) { .nr_zones = 40 });
  l = volume_sample (f);
  ck_assert_int_eq (zone_table_read (&f->bdev, &t, &err), 0);
  z = sample_zones (t, &l);
  found = calloc (1, sizeof *found);
}

static void
teardown (void)
{
  free (found);
  zone_table_free (t);
  bdev_close (&f->bdev);
}

static void
check (bool repair)
{
  volume_check (f, repair, found);
}

static void
expect_clean (void)
{
  check (false);
  ck_assert_msg (found->status == 0, "%s", found->err.message);
  ck_assert_msg (found->result.errors == 0, "%s", found->text);
}

static void
expect_line (const char *text)
{
  ck_assert_msg (strstr (found->text, text) != NULL, "'%s' lacks '%s'", found->text, text);
}

START_TEST (sample_volume_is_clean_and_counted)
{
  const uint64_t changes = f->changes;

  expect_clean ();
  ck_assert_str_eq (found->text, "");
  ck_assert_uint_eq (found->result.chunks_mapped, 4);
  ck_assert_uint_eq (found->result.chunks_buffered, 1);
  ck_assert_uint_eq (found->result.valid_blocks, 5 + 100 + 40 + 16);
  ck_assert_uint_eq (found->result.random_used, 2);
  ck_assert_uint_eq (found->result.seq_used, 3);
  ck_assert_uint_eq (found->result.random_free, 8 - 2 - 2);
  ck_assert_uint_eq (found->result.seq_free, 32 - 3);
  check (true);
  ck_assert_uint_eq (found->result.repaired, 0);
  ck_assert_uint_eq (f->changes, changes);
}
END_TEST

/* Every byte of the superblock's fields, and one behind them. */
START_TEST (superblock_damaged_in_one_set_is_rebuilt_as_it_was)
{
  uint8_t *const before = metadata_copy (f, &l);
  uint8_t *const block = f->data + layout_set_block (&l, _i) * BLOCK_BYTES;
  unsigned at;

  for (at = 0; at <= SUPER_DEFINED_BYTES; ++at) {
    block[at] ^= 0x41;
    check (false);
    ck_assert_msg (found->status == 0, "%s", found->err.message);
    ck_assert_uint_eq (found->result.errors, 1);
    expect_line (_i ? "E set 1: the superblock is bad: " : "E set 0: the superblock is bad: ");
    check (true);
    ck_assert_int_eq (found->status, 0);
    ck_assert_uint_eq (found->result.repaired, 1);
    ck_assert_mem_eq (block - (_i ? l.nr_meta_zones * 4 * MiB : 0), before,
                      metadata_bytes (&l));
    expect_clean ();
  }
  free (before);
}
END_TEST

START_TEST (superblock_damaged_in_both_sets_is_refused)
{
  unsigned at;

  for (at = 0; at <= SUPER_DEFINED_BYTES; ++at) {
    uint8_t *const before = metadata_copy (f, &l);

    f->data[at] ^= 0x41;
    f->data[layout_set_block (&l, 1) * BLOCK_BYTES + at] ^= 0x41;
    check (true);
    ck_assert_int_eq (found->status, -1);
    ck_assert_str_ne (found->err.message, "");
    ck_assert_str_ne (found->err.hint, "");
    memcpy (f->data, before, metadata_bytes (&l));
    free (before);
  }
}
END_TEST

/* A damaged entry or bit, and what is said of it. */
struct damage {
  const char *text;             /* of the error when both sets have it */
  void (*do_it) (int sets);
};

#define NEW static void
NEW data_nr_zones (int s) { volume_map (f, &l, s, 1, l.nr_zones, ZONE_NONE); }
NEW data_beyond (int s) { volume_map (f, &l, s, 1, l.nr_zones + 1, ZONE_NONE); }
NEW data_huge (int s) { volume_map (f, &l, s, 1, 0x7fffffff, ZONE_NONE); }
NEW data_meta (int s) { volume_map (f, &l, s, 1, 1, ZONE_NONE); }
NEW data_twice (int s) { volume_map (f, &l, s, 1, z.random, ZONE_NONE); }
NEW data_is_buffer (int s) { volume_map (f, &l, s, 3, z.buffer, ZONE_NONE); }
NEW buffer_seq (int s) { volume_map (f, &l, s, 2, z.buffered, z.free_seq); }
NEW buffer_huge (int s) { volume_map (f, &l, s, 2, z.buffered, 0xfffffffe); }
NEW buffer_meta (int s) { volume_map (f, &l, s, 2, z.buffered, 0); }
NEW buffer_same (int s) { volume_map (f, &l, s, 2, z.buffered, z.buffered); }
NEW buffer_twice (int s) { volume_map (f, &l, s, 2, z.buffered, z.random); }
NEW buffer_of_random (int s) { volume_map (f, &l, s, 0, z.random, z.buffer + 1); }
NEW buffer_alone (int s) { volume_map (f, &l, s, 9, ZONE_NONE, z.buffer + 1); }
NEW tail (int s) { volume_map (f, &l, s, l.nr_chunks, 9, ZONE_NONE); }
NEW bit_meta (int s) { volume_bits (f, &l, s, 0, 3, 1, true); }
NEW bit_free (int s) { volume_bits (f, &l, s, z.free_seq, 9, 2, true); }
NEW bit_wp (int s) { volume_bits (f, &l, s, z.seq, 100, 1, true); }
NEW bit_beyond_wp (int s) { volume_bits (f, &l, s, z.seq, 700, 5, true); }
NEW bit_empty (int s) { volume_bits (f, &l, s, z.empty, 0, 1, true); }
NEW bit_end (int s) { volume_bits (f, &l, s, z.random, 1024, 1, true); }
NEW bit_last (int s) { volume_bits (f, &l, s, z.random, 32767, 1, true); }
NEW bit_overlap (int s) { volume_bits (f, &l, s, z.buffer, 38, 3, true); }

static const struct damage damages[] = {
  { "E chunk 1: its data zone 40 does not exist", data_nr_zones },
  { "E chunk 1: its data zone 41 does not exist", data_beyond },
  { "E chunk 1: its data zone 2147483647 does not exist", data_huge },
  { "E chunk 1: its data zone 1 is a metadata zone", data_meta },
  { "E chunk 1: its data zone 2 is used twice (also by chunk 0)", data_twice },
  { "E chunk 3: its data zone 3 is used twice (also by chunk 2)", data_is_buffer },
  { "E chunk 2: its buffer zone 11 is a buffer zone, but not conventional", buffer_seq },
  { "E chunk 2: its buffer zone 4294967294 does not exist", buffer_huge },
  { "E chunk 2: its buffer zone 0 is a metadata zone", buffer_meta },
  { "E chunk 2: its buffer zone 9 is used twice", buffer_same },
  { "E chunk 2: its buffer zone 2 is used twice (also by chunk 0)", buffer_twice },
  { "E chunk 0: its buffer zone 4 is the buffer zone of a conventional data zone",
    buffer_of_random },
  { "E chunk 9: its buffer zone 4 is a buffer zone without a data zone", buffer_alone },
  { "E set 0: the mapping table has entries behind its last chunk", tail },
  { "E zone 0 (metadata): 1 blocks are marked valid in a zone without data (first: block 3)",
    bit_meta },
  { "E zone 11 (free): 2 blocks are marked valid in a zone without data (first: block 9)",
    bit_free },
  { "E zone 8 (data zone of chunk 1): 1 blocks are marked valid at or behind the write "
    "pointer (block 100; first: block 100)", bit_wp },
  { "E zone 8 (data zone of chunk 1): 5 blocks are marked valid at or behind the write "
    "pointer (block 100; first: block 700)", bit_beyond_wp },
  { "E zone 10 (data zone of chunk 3): 1 blocks are marked valid at or behind", bit_empty },
  { "E zone 2 (data zone of chunk 0): 1 bits are set behind the end of the zone", bit_end },
  { "E zone 2 (data zone of chunk 0): 1 bits are set behind the end of the zone", bit_last },
  { "E zone 3 (buffer zone of chunk 2): 2 blocks are valid in the data zone too (first: "
    "block 38)", bit_overlap },
};

START_TEST (entry_or_bit_damaged_in_one_set_is_restored_from_the_other)
{
  const struct damage *d = &damages[_i / 2];
  uint8_t *const before = metadata_copy (f, &l);

  d->do_it (1 << _i % 2);
  check (false);
  ck_assert_int_eq (found->status, 0);
  ck_assert_uint_ge (found->result.errors, 1);
  check (true);
  ck_assert_int_eq (found->status, 0);
  ck_assert_uint_ge (found->result.repaired, 1);
  ck_assert_uint_eq (found->result.unrepaired, 0);
  ck_assert_msg (memcmp (before, f->data, metadata_bytes (&l)) == 0, "%s: %s",
                 d->text, found->text);
  expect_clean ();
  free (before);
}
END_TEST

START_TEST (entry_or_bit_damaged_in_both_sets_is_named_and_cleared)
{
  const struct damage *d = &damages[_i];

  d->do_it (BOTH);
  check (false);
  ck_assert_int_eq (found->status, 0);
  expect_line (d->text);
  check (true);
  ck_assert_int_eq (found->status, 0);
  expect_line (d->text);
  expect_clean ();
  ck_assert_str_eq (found->text, "");
}
END_TEST

START_TEST (legal_difference_is_settled_for_the_set_that_is_read)
{
  /* Set 0 lost a bit: nothing tells that it was there. */
  volume_bits (f, &l, SET_0, z.seq, 5, 1, false);
  check (false);
  expect_line ("E zone 8 (data zone of chunk 1): the sets differ in bitmap block 0; set 0 is "
               "taken");
  check (true);
  ck_assert_uint_eq (found->result.repaired, 1);
  expect_clean ();
  ck_assert_uint_eq (found->result.valid_blocks, 5 + 99 + 40 + 16);
}
END_TEST

START_TEST (older_set_is_brought_up_to_date)
{
  static const struct { uint64_t gen0, gen1; int newer; } v[] = {
    { 5, 6, 1 }, { 6, 5, 0 }, { 9, 1, 0 },
  };
  struct super s;
  int set;

  volume_generation (f, &l, 0, v[_i].gen0);
  volume_generation (f, &l, 1, v[_i].gen1);
  /* A change that only the newer one has. */
  volume_bits (f, &l, v[_i].newer ? SET_1 : SET_0, z.seq, 5, 1, false);
  check (false);
  ck_assert_uint_eq (found->result.errors, 0);
  expect_line ("the volume was not closed in order");
  ck_assert_int_eq (found->result.primary, v[_i].newer);
  check (true);
  ck_assert_uint_eq (found->result.repaired, 2);
  for (set = 0; set < 2; ++set) {
    super_decode (f->data + layout_set_block (&l, set) * BLOCK_BYTES, &s);
    ck_assert_uint_eq (s.gen, MAX (v[_i].gen0, v[_i].gen1));
  }
  expect_clean ();
  ck_assert_str_eq (found->text, "");
  ck_assert_uint_eq (found->result.valid_blocks, 5 + 99 + 40 + 16);
}
END_TEST

/* Newer, but one of its bitmap blocks was torn: what is impossible goes. */
START_TEST (newer_set_with_a_torn_block_loses_only_what_is_impossible)
{
  volume_generation (f, &l, 1, 2);
  volume_bits (f, &l, SET_1, z.seq, 90, 100, true);
  check (true);
  expect_line ("E zone 8 (data zone of chunk 1): 90 blocks are marked valid at or behind");
  expect_clean ();
  ck_assert_uint_eq (found->result.valid_blocks, 5 + 100 + 40 + 16);
}
END_TEST

START_TEST (free_zone_with_data_is_noted_and_reset)
{
  fake_set_wp (f, z.free_seq, 7 * BLOCK_BYTES);
  fake_set_wp (f, z.free_seq + 1, 4 * MiB);
  check (false);
  ck_assert_uint_eq (found->result.errors, 0);
  expect_line ("N zone 11 is free but not empty (implicitly open, 7 blocks written)");
  expect_line ("N zone 12 is free but not empty (full, 1024 blocks written)");
  check (true);
  ck_assert_uint_eq (found->result.repaired, 2);
  ck_assert_int_eq (f->zones[z.free_seq].cond, ZONE_EMPTY);
  expect_clean ();
  ck_assert_str_eq (found->text, "");
}
END_TEST

START_TEST (write_pointer_ahead_of_the_bitmap_is_legal)
{
  fake_set_wp (f, z.seq, 200 * BLOCK_BYTES);
  fake_set_wp (f, z.empty, BLOCK_BYTES);
  expect_clean ();
  ck_assert_str_eq (found->text, "");
}
END_TEST

START_TEST (read_only_and_offline_zones_are_noted_and_left_alone)
{
  const uint64_t changes = f->changes;

  fake_set_cond (f, z.seq, ZONE_READ_ONLY);
  fake_set_cond (f, z.buffered, ZONE_OFFLINE);
  fake_set_cond (f, z.free_seq, ZONE_OFFLINE);
  check (true);
  ck_assert_int_eq (found->status, 0);
  ck_assert_uint_eq (found->result.errors, 0);
  expect_line ("N zone 8 (data zone of chunk 1) is read-only");
  expect_line ("N zone 9 (data zone of chunk 2) is offline");
  expect_line ("kernel's dm-zoned refuses the volume");
  ck_assert_uint_eq (found->result.valid_blocks, 5 + 100 + 40 + 16);
  ck_assert_uint_eq (f->changes, changes);
}
END_TEST

/* A metadata block that the drive cannot read. */
START_TEST (unreadable_block_is_taken_from_the_other_set)
{
  const uint64_t rel = _i % 2 ? 1 : 1 + l.nr_map_blocks + z.seq;
  const int set = _i / 2;

  f->fail_read_from = (layout_set_block (&l, set) + rel) * BLOCK_BYTES;
  f->fail_read_to = f->fail_read_from + 512;
  check (false);
  ck_assert_int_eq (found->status, 0);
  ck_assert_uint_ge (found->result.errors, 1);
  expect_line (set ? "E set 1: metadata block" : "E set 0: metadata block");
  ck_assert_uint_eq (found->result.chunks_mapped, 4);
  ck_assert_uint_eq (found->result.valid_blocks, 5 + 100 + 40 + 16);
  check (true);
  ck_assert_uint_eq (found->result.repaired, 1);
  ck_assert_uint_eq (found->result.unrepaired, 0);
  f->fail_read_to = 0;
  expect_clean ();
}
END_TEST

static uint64_t lost_block[2];

static int
lose_blocks (struct fake *fake, const struct bdev_req *req, void *opaque)
{
  int i;

  for (i = 0; i < 2; ++i)
    if (req->op == BDEV_READ && req->off_bytes <= lost_block[i] * BLOCK_BYTES &&
        lost_block[i] * BLOCK_BYTES < req->off_bytes + req->len_bytes) {
      errno = ENODATA;
      return -1;
    }
  return 0;
}

START_TEST (block_unreadable_in_both_sets_is_said_and_left_alone)
{
  const uint64_t changes = f->changes;
  uint32_t rel = layout_bitmap_block (&l, 0, z.seq) - layout_set_block (&l, 0);
  int set;

  for (set = 0; set < 2; ++set)
    lost_block[set] = layout_set_block (&l, set) + rel;
  f->hook = lose_blocks;
  check (true);
  ck_assert_int_eq (found->status, 0);
  ck_assert_uint_eq (found->result.unrepaired, 1);
  expect_line ("E zone 8 (data zone of chunk 1): which of its blocks are valid cannot be read");
  ck_assert_uint_eq (f->changes, changes);

  for (set = 0; set < 2; ++set)
    lost_block[set] = layout_set_block (&l, set) + 1;
  check (true);
  ck_assert_int_eq (found->status, -1);
  ck_assert (strstr (found->err.message, "mapping table cannot be read") != NULL);
  ck_assert_uint_eq (f->changes, changes);
}
END_TEST

START_TEST (write_protected_drive_is_checked_and_not_repaired)
{
  f->bdev.info.read_only = true;
  expect_clean ();
  check (true);
  ck_assert_int_eq (found->status, -1);
  ck_assert (strstr (found->err.message, "write protected") != NULL);
}
END_TEST

START_TEST (large_volume_is_checked_in_big_reads)
{
  struct findings *big = calloc (1, sizeof *big);
  struct fake *d = fake_new (&(struct fake_config) {
      .zone_bytes = 256 * MiB, .nr_zones = 104312, .nr_conv = 1048,
      .max_zeroes_bytes = 32 * MiB });
  const struct layout bl = volume_format (d, &(struct format_options) { 0 });
  const uint64_t reads = d->nr_ops[BDEV_READ];

  volume_check (d, false, big);
  ck_assert_int_eq (big->status, 0);
  ck_assert_uint_eq (big->result.errors, 0);
  ck_assert_uint_le (d->nr_ops[BDEV_READ] - reads, 2 * (bl.nr_meta_blocks / 256 + 4));
  free (big);
  bdev_close (&d->bdev);
}
END_TEST

int
main (void)
{
  Suite *s = suite_create ("zoned check");
  TCase *tc = tcase_create ("check");
  SRunner *sr;
  int failed;

  tcase_add_checked_fixture (tc, setup, teardown);
  tcase_add_test (tc, sample_volume_is_clean_and_counted);
  tcase_add_loop_test (tc, superblock_damaged_in_one_set_is_rebuilt_as_it_was, 0, 2);
  tcase_add_test (tc, superblock_damaged_in_both_sets_is_refused);
  tcase_add_loop_test (tc, entry_or_bit_damaged_in_one_set_is_restored_from_the_other, 0,
                       2 * ARRAY_SIZE (damages));
  tcase_add_loop_test (tc, entry_or_bit_damaged_in_both_sets_is_named_and_cleared, 0,
                       ARRAY_SIZE (damages));
  tcase_add_test (tc, legal_difference_is_settled_for_the_set_that_is_read);
  tcase_add_loop_test (tc, older_set_is_brought_up_to_date, 0, 3);
  tcase_add_test (tc, newer_set_with_a_torn_block_loses_only_what_is_impossible);
  tcase_add_test (tc, free_zone_with_data_is_noted_and_reset);
  tcase_add_test (tc, write_pointer_ahead_of_the_bitmap_is_legal);
  tcase_add_test (tc, read_only_and_offline_zones_are_noted_and_left_alone);
  tcase_add_loop_test (tc, unreadable_block_is_taken_from_the_other_set, 0, 4);
  tcase_add_test (tc, block_unreadable_in_both_sets_is_said_and_left_alone);
  tcase_add_test (tc, write_protected_drive_is_checked_and_not_repaired);
  tcase_add_test (tc, large_volume_is_checked_in_big_reads);
  suite_add_tcase (s, tc);
  sr = srunner_create (s);
  srunner_run_all (sr, CK_NORMAL);
  failed = srunner_ntests_failed (sr);
  srunner_free (sr);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
