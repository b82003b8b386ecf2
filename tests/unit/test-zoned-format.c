/* SPDX-License-Identifier: BSD-3-Clause */
/* Format: what it writes, what it resets, what it refuses, what it never does. */
#undef NDEBUG
#include <config.h>
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/bytes.h"
#include "base/error.h"
#include "zoned-volume.h"

static void
expect_bytes (const uint8_t *p, size_t n, uint8_t byte)
{
  ck_assert (n == 0 || (*p == byte && memcmp (p, p + 1, n - 1) == 0));
}

/* All blocks of one set, as the format's text says. */
static void
expect_fresh_set (const struct fake *f, const struct layout *l, int set,
                  uint32_t version, const char *label)
{
  const uint8_t *block = f->data + layout_set_block (l, set) * BLOCK_BYTES;
  struct super s;

  super_decode (block, &s);
  ck_assert_ptr_eq (super_verify (block, &s, layout_set_block (l, set)), NULL);
  ck_assert_uint_eq (s.version, version);
  ck_assert_uint_eq (s.gen, 1);
  ck_assert_str_eq (s.label, label);
  expect_bytes (block + SUPER_DEFINED_BYTES, BLOCK_BYTES - SUPER_DEFINED_BYTES, 0);
  if (version == 1)
    expect_bytes (block + 48, SUPER_DEFINED_BYTES - 48, 0);
  block += BLOCK_BYTES;
  expect_bytes (block, (size_t) l->nr_map_blocks * BLOCK_BYTES, 0xff);
  block += (size_t) l->nr_map_blocks * BLOCK_BYTES;
  expect_bytes (block, (size_t) l->nr_bitmap_blocks * BLOCK_BYTES, 0);
}

static const struct fake_config drives[] = {
  { .zone_bytes = 16 * MiB, .nr_zones = 32, .nr_conv = 8 },                 /* A */
  { .zone_bytes = 4 * MiB, .nr_zones = 32, .nr_conv = 16 },                 /* B */
  { .zone_bytes = 64 * MiB, .nr_zones = 8, .nr_conv = 4 },                  /* C */
  { .zone_bytes = 1 * MiB, .nr_zones = 320, .nr_conv = 16 },                /* D */
  { .zone_bytes = 256 * MiB, .nr_zones = 6, .nr_conv = 4 },                 /* E */
  { .zone_bytes = 4 * MiB, .nr_conv = 3 },
  { .zone_bytes = 4 * MiB, .nr_conv = 32 },
  { .zone_bytes = 4 * MiB, .lbs_bytes = 4096 },
  { .zone_bytes = 4 * MiB, .runt_bytes = 4096 },
  { .zone_bytes = 4 * MiB, .host_aware = true },
  { .zone_bytes = 512 * MiB, .nr_zones = 40, .nr_conv = 4 },
  { .zone_bytes = 4 * MiB, .max_zeroes_bytes = 8192 },
  { .zone_bytes = 4 * MiB, .no_reset_all = true },
  { .zone_bytes = 4 * MiB, .no_urswrz = true },
};

/* Every drive is dirty before: rubbish in the metadata zones, zones written. */
static struct fake *
dirty_drive (const struct fake_config *c)
{
  struct fake *f = fake_new (c);
  uint32_t i;

  memset (f->data, 0xa5, 3 * MiB);
  for (i = 0; i < f->nr_zones; ++i)
    if (f->zones[i].type != ZONE_CONVENTIONAL && i % 3 == 0)
      fake_set_wp (f, i, i % 2 ? f->zones[i].len_bytes : MIN (f->zones[i].len_bytes, 512));
  return f;
}

START_TEST (both_sets_are_written_as_the_format_says)
{
  const uint32_t version = _i % 2 + 1;
  struct fake *f = dirty_drive (&drives[_i / 2]);
  const struct layout l = volume_format (f, &(struct format_options) {
      .version = version, .label = version == 1 ? NULL : "hex" });
  uint32_t i;

  expect_fresh_set (f, &l, 0, version, version == 1 ? "" : "hex");
  expect_fresh_set (f, &l, 1, version, version == 1 ? "" : "hex");
  for (i = 0; i < f->nr_zones; ++i)
    if (f->zones[i].type != ZONE_CONVENTIONAL)
      ck_assert_int_eq (f->zones[i].cond, ZONE_EMPTY);
  bdev_close (&f->bdev);
}
END_TEST

START_TEST (fresh_volume_checks_clean)
{
  struct fake *f = dirty_drive (&drives[_i]);
  const struct layout l = volume_format (f, &(struct format_options) { 0 });
  struct findings *r = calloc (1, sizeof *r);

  volume_check (f, false, r);
  ck_assert_msg (r->status == 0, "%s", r->err.message);
  ck_assert_msg (r->result.errors == 0, "%s", r->text);
  ck_assert_uint_eq (r->result.notes, l.nr_zones != l.nr_usable);       /* the runt */
  ck_assert_uint_eq (r->result.chunks_mapped, 0);
  ck_assert_uint_eq (r->result.random_free + r->result.seq_free + 2 * l.nr_meta_zones,
                     l.nr_usable);
  free (r);
  bdev_close (&f->bdev);
}
END_TEST

START_TEST (every_sequential_zone_gets_a_reset_also_the_empty_ones)
{
  struct fake *f = fake_new (&(struct fake_config) { .no_reset_all = true });

  fake_set_wp (f, 9, 4 * MiB);
  fake_set_wp (f, 11, 2 * MiB);
  f->zones[12].cond = ZONE_EXPLICIT_OPEN;       /* write pointer at its start */
  volume_format (f, &(struct format_options) { 0 });
  /* the refused one for all, then 24 */
  ck_assert_uint_eq (f->nr_ops[BDEV_ZONE_RESET], 1 + 24);
  bdev_close (&f->bdev);

  f = fake_new (&(struct fake_config) { 0 });
  volume_format (f, &(struct format_options) { 0 });
  ck_assert_uint_eq (f->nr_ops[BDEV_ZONE_RESET], 1);
  bdev_close (&f->bdev);
}
END_TEST

START_TEST (zone_that_the_reset_of_all_forgot_is_reset_alone)
{
  struct fake *f = dirty_drive (&(struct fake_config) { 0 });

  fake_set_wp (f, 10, MiB);
  f->reset_all_skips = 10;
  volume_format (f, &(struct format_options) { 0 });
  ck_assert_uint_eq (f->nr_ops[BDEV_ZONE_RESET], 2);
  ck_assert_int_eq (f->zones[10].cond, ZONE_EMPTY);
  bdev_close (&f->bdev);
}
END_TEST

START_TEST (zone_that_stays_written_is_named)
{
  struct fake *f = dirty_drive (&(struct fake_config) { 0 });
  struct sh_error err = { 0 };
  struct zone_table *t = NULL;
  struct format_plan plan;
  const struct format_options o = { 0 };

  fake_set_wp (f, 10, MiB);
  f->reset_lies = 10;
  ck_assert_int_eq (zone_table_read (&f->bdev, &t, &err), 0);
  ck_assert_int_eq (format_make_plan (&f->bdev, t, &o, &plan, &err), 0);
  ck_assert_int_eq (format_write (&f->bdev, &t, &o, &plan, &err), -1);
  ck_assert_msg (strstr (err.message, "zone 10 is implicitly open after it was reset") != NULL,
                 "%s", err.message);
  zone_table_free (t);
  bdev_close (&f->bdev);
}
END_TEST

START_TEST (bitmaps_are_zeroed_by_the_drive_where_it_can)
{
  struct fake *f = fake_new (&(struct fake_config) {
      .zone_bytes = 256 * MiB, .nr_zones = 104312, .nr_conv = 1048,
      .max_zeroes_bytes = 32 * MiB });
  const struct layout l = volume_format (f, &(struct format_options) { 0 });

  ck_assert_uint_eq (f->bytes_zeroed, UINT64_C (2) * l.nr_bitmap_blocks * BLOCK_BYTES);
  ck_assert_uint_lt (f->bytes_written, 4 * MiB);
  ck_assert_uint_lt (f->nr_ops[BDEV_WRITE] + f->nr_ops[BDEV_WRITE_ZEROES], 80);
  bdev_close (&f->bdev);
}
END_TEST

/* The drive says that it can, and then refuses. */
static int
refuse_zeroes (struct fake *f, const struct bdev_req *req, void *opaque)
{
  if (req->op != BDEV_WRITE_ZEROES)
    return 0;
  errno = EREMOTEIO;
  return -1;
}

START_TEST (zeroes_are_written_where_the_drive_refuses_to_make_them)
{
  struct fake *f = dirty_drive (&(struct fake_config) { .max_zeroes_bytes = MiB });
  struct layout l;

  f->hook = refuse_zeroes;
  l = volume_format (f, &(struct format_options) { .label = "z" });
  ck_assert_uint_eq (f->nr_ops[BDEV_WRITE_ZEROES], 1);
  expect_fresh_set (f, &l, 0, 2, "z");
  expect_fresh_set (f, &l, 1, 2, "z");
  bdev_close (&f->bdev);
}
END_TEST

START_TEST (label_is_made_from_the_serial_number)
{
  static const struct { const char *serial, *name, *label; } v[] = {
    { "F4K3", "/dev/sg1", "dmz-F4K3" },
    { "  WD WX1 ", "/dev/sg1", "dmz-WD_WX1" },
    { "", "/dev/sg1", "dmz-sg1" },
    { "", "drive", "dmz-drive" },
    { "0123456789012345678901234567890123456789", "x", "dmz-01234567890123456789012345" },
  };
  struct fake *f = fake_new (&(struct fake_config) { 0 });
  struct layout l;

  strcpy (f->bdev.info.serial, v[_i].serial);
  strcpy (f->bdev.info.name, v[_i].name);
  l = volume_format (f, &(struct format_options) { 0 });
  expect_fresh_set (f, &l, 0, 2, v[_i].label);
  bdev_close (&f->bdev);
}
END_TEST

START_TEST (uuids_are_random_and_of_version_4)
{
  struct fake *f = fake_new (&(struct fake_config) { 0 });
  struct sh_error err = { 0 };
  struct zone_table *t = NULL;
  struct format_plan a, b;
  const struct format_options o = { 0 };

  ck_assert_int_eq (zone_table_read (&f->bdev, &t, &err), 0);
  ck_assert_int_eq (format_make_plan (&f->bdev, t, &o, &a, &err), 0);
  ck_assert_int_eq (format_make_plan (&f->bdev, t, &o, &b, &err), 0);
  ck_assert_mem_ne (a.super.uuid, b.super.uuid, 16);
  ck_assert_mem_ne (a.super.uuid, a.super.dev_uuid, 16);
  ck_assert_uint_eq (a.super.uuid[6] >> 4, 4);
  ck_assert_uint_eq (a.super.uuid[8] >> 6, 2);
  zone_table_free (t);
  bdev_close (&f->bdev);
}
END_TEST

START_TEST (what_cannot_work_is_refused_before_anything_is_changed)
{
  static const struct {
    struct format_options o;
    const char *text;
    bool read_only, too_few;
  } v[] = {
    { { .label = "" }, "1 to 31 characters" },
    { { .label = "12345678901234567890123456789012" }, "this one 32" },
    { { .label = "a\nb" }, "control characters" },
    { { .label = "a/b" }, "slashes" },
    { { .label = "x", .version = 1 }, "version 1 has no label" },
    { { .version = 3 }, "metadata version 3" },
    { { 0 }, "write protected", .read_only = true },
    { { 0 }, "at least 3 are needed", .too_few = true },
  };
  struct fake *f = dirty_drive (&(struct fake_config) { .nr_conv = v[_i].too_few ? 2 : 8 });
  struct sh_error err = { 0 };
  struct zone_table *t = NULL;
  struct format_plan plan;

  f->bdev.info.read_only = v[_i].read_only;
  ck_assert_int_eq (zone_table_read (&f->bdev, &t, &err), 0);
  ck_assert_int_eq (format_make_plan (&f->bdev, t, &v[_i].o, &plan, &err), -1);
  ck_assert_msg (strstr (err.message, v[_i].text) != NULL, "%s", err.message);
  ck_assert_uint_eq (f->changes, 0);
  zone_table_free (t);
  bdev_close (&f->bdev);
}
END_TEST

/* A write, reset, zeroing or flush fails: number `n` of those that change. */
static int
fail_at (struct fake *f, const struct bdev_req *req, void *opaque)
{
  int *left = opaque;

  if (req->op == BDEV_READ || --*left != 0)
    return 0;
  errno = EIO;
  return -1;
}

START_TEST (interrupted_format_leaves_no_volume_or_the_whole)
{
  int n, left = 0;

  for (n = 1; left <= 0; ++n) {
    struct fake *f = fake_new (&(struct fake_config) { .max_zeroes_bytes = MiB });
    struct findings *check = calloc (1, sizeof *check);
    struct sh_error err = { 0 };
    struct zone_table *t = NULL;
    struct format_plan plan;
    const struct format_options o = { .label = "new" };
    int r;

    left = n;
    volume_sample (f);
    ck_assert_int_eq (zone_table_read (&f->bdev, &t, &err), 0);
    ck_assert_int_eq (format_make_plan (&f->bdev, t, &o, &plan, &err), 0);
    f->hook = fail_at;
    f->hook_opaque = &left;
    r = format_write (&f->bdev, &t, &o, &plan, &err);
    f->hook = NULL;
    if (r == -1) {
      ck_assert_str_ne (err.message, "");
      ck_assert_str_ne (err.hint, "");
    }
    volume_check (f, false, check);
    /* The very first write failed: the old one is whole. */
    if (n == 1)
      ck_assert (check->status == 0 && strcmp (check->result.super.label, "sample") == 0);
    else if (check->status == 0 && strcmp (check->result.super.label, "new") == 0)
      ck_assert_uint_eq (check->result.chunks_mapped, 0);
    else if (check->status == 0)        /* only superblock 0 is gone yet */
      ck_assert (n == 2);
    free (check);
    zone_table_free (t);
    bdev_close (&f->bdev);
  }
  ck_assert_int_gt (n, 12);
}
END_TEST

int
main (void)
{
  Suite *s = suite_create ("zoned format");
  TCase *tc = tcase_create ("format");
  SRunner *sr;
  int failed;

  tcase_add_loop_test (tc, both_sets_are_written_as_the_format_says, 0, 2 * ARRAY_SIZE (drives));
  tcase_add_loop_test (tc, fresh_volume_checks_clean, 0, ARRAY_SIZE (drives));
  tcase_add_test (tc, every_sequential_zone_gets_a_reset_also_the_empty_ones);
  tcase_add_test (tc, zone_that_the_reset_of_all_forgot_is_reset_alone);
  tcase_add_test (tc, zone_that_stays_written_is_named);
  tcase_add_test (tc, bitmaps_are_zeroed_by_the_drive_where_it_can);
  tcase_add_test (tc, zeroes_are_written_where_the_drive_refuses_to_make_them);
  tcase_add_loop_test (tc, label_is_made_from_the_serial_number, 0, 5);
  tcase_add_test (tc, uuids_are_random_and_of_version_4);
  tcase_add_loop_test (tc, what_cannot_work_is_refused_before_anything_is_changed, 0, 8);
  tcase_add_test (tc, interrupted_format_leaves_no_volume_or_the_whole);
  suite_add_tcase (s, tc);
  sr = srunner_create (s);
  srunner_run_all (sr, CK_NORMAL);
  failed = srunner_ntests_failed (sr);
  srunner_free (sr);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
