/* SPDX-License-Identifier: BSD-3-Clause */
/* Superblock encoding, the sizes of a volume, and finding the two sets. */
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
#include "zoned/layout.h"
#include "zoned/sets.h"
#include "zoned/super.h"
#include "zoned/zones.h"

static const uint8_t set_uuid[16] = {
  0x04, 0x7f, 0x1c, 0xee, 0x87, 0x10, 0x40, 0xc7, 0x99, 0x44, 0x7b, 0x65, 0xac, 0x96, 0xa6, 0x22
};
static const uint8_t device_uuid[16] = {
  0x12, 0x1f, 0x8b, 0xf8, 0x0d, 0x7f, 0x40, 0x82, 0x91, 0x20, 0x06, 0x1a, 0x8f, 0xe8, 0x91, 0xc7
};

/* A superblock of the worked example: 32 zones of 16 MiB, 8 conventional. */
static struct super
example (uint32_t version, uint64_t gen, uint64_t sb_block)
{
  struct super s = {
    .magic = SUPER_MAGIC, .version = version, .gen = gen, .sb_block = sb_block,
    .nr_meta_blocks = 34, .nr_reserved = 7, .nr_chunks = 23, .nr_map_blocks = 1,
    .nr_bitmap_blocks = 32,
  };

  if (version > 1) {
    strcpy (s.label, "hex");
    memcpy (s.uuid, set_uuid, 16);
    memcpy (s.dev_uuid, device_uuid, 16);
  }
  return s;
}

START_TEST (superblock_is_sealed_as_the_kernel_seals_it)
{
  static const struct { uint32_t version; uint64_t gen, sb_block; uint32_t crc; } v[] = {
    { 1, 1, 0, 0x962b1bdf },
    { 1, 1, 4096, 0x4b9b6dad },
    { 2, 2, 0, 0x845cee67 },
    { 2, 2, 4096, 0x59ec9815 },
  };
  const struct super s = example (v[_i].version, v[_i].gen, v[_i].sb_block);
  uint8_t block[BLOCK_BYTES] = { 0 }, again[BLOCK_BYTES] = { 0 };
  struct super back;

  super_encode (&s, block);
  super_decode (block, &back);
  ck_assert_uint_eq (back.crc, v[_i].crc);
  ck_assert_ptr_eq (super_verify (block, &back, v[_i].sb_block), NULL);
  super_encode (&back, again);
  ck_assert_mem_eq (again, block, sizeof block);
}
END_TEST

START_TEST (superblock_bytes_are_those_of_the_example)
{
  static const uint8_t want[0x70] = {
    0x44, 0x42, 0x5a, 0x44, 2, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0x22, 0, 0, 0, 7, 0, 0, 0,
    0x17, 0, 0, 0, 1, 0, 0, 0, 0x20, 0, 0, 0, 0x67, 0xee, 0x5c, 0x84,
    0x68, 0x65, 0x78, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0x04, 0x7f, 0x1c, 0xee, 0x87, 0x10, 0x40, 0xc7, 0x99, 0x44, 0x7b, 0x65, 0xac, 0x96, 0xa6, 0x22,
    0x12, 0x1f, 0x8b, 0xf8, 0x0d, 0x7f, 0x40, 0x82, 0x91, 0x20, 0x06, 0x1a, 0x8f, 0xe8, 0x91, 0xc7,
  };
  const struct super s = example (2, 2, 0);
  uint8_t block[BLOCK_BYTES] = { 0 };
  size_t i;

  super_encode (&s, block);
  ck_assert_mem_eq (block, want, sizeof want);
  for (i = sizeof want; i < BLOCK_BYTES; ++i)
    ck_assert_uint_eq (block[i], 0);
}
END_TEST

START_TEST (reserved_bytes_survive_and_are_sealed)
{
  const struct super s = example (2, 7, 0);
  uint8_t block[BLOCK_BYTES] = { 0 };
  struct super back;

  block[200] = 0x5a;
  super_encode (&s, block);
  ck_assert_uint_eq (block[200], 0x5a);
  super_decode (block, &back);
  ck_assert_ptr_eq (super_verify (block, &back, 0), NULL);
  block[200] = 0;
  ck_assert_ptr_ne (super_verify (block, &back, 0), NULL);
}
END_TEST

START_TEST (each_flipped_bit_of_the_fields_is_noticed)
{
  const struct super s = example (2, 2, 0);
  uint8_t block[BLOCK_BYTES] = { 0 };
  struct super back;
  unsigned bit;

  super_encode (&s, block);
  for (bit = 0; bit < SUPER_DEFINED_BYTES * 8; ++bit) {
    block[bit / 8] ^= 1 << bit % 8;
    super_decode (block, &back);
    ck_assert_msg (super_verify (block, &back, 0) != NULL, "bit %u", bit);
    block[bit / 8] ^= 1 << bit % 8;
  }
}
END_TEST

static void
expect_reason (const struct super *s, uint64_t want_block, const char *reason)
{
  uint8_t block[BLOCK_BYTES] = { 0 };
  struct super back;
  const char *why;

  super_encode (s, block);
  super_decode (block, &back);
  why = super_verify (block, &back, want_block);
  ck_assert_ptr_ne (why, NULL);
  ck_assert_msg (strstr (why, reason) != NULL, "%s", why);
}

START_TEST (sealed_but_wrong_superblocks_are_refused)
{
  struct super s = example (3, 2, 0);

  expect_reason (&s, 0, "version");
  s = example (2, 2, 0);
  expect_reason (&s, 4096, "another place");
  memset (s.uuid, 0, 16);
  expect_reason (&s, 0, "volume uuid");
  s = example (2, 2, 0);
  memset (s.dev_uuid, 0, 16);
  expect_reason (&s, 0, "device uuid");
}
END_TEST

/* The worked examples of the format: drive, reserve wanted, and the sizes. */
struct worked {
  const char *name;
  uint64_t zone_bytes;
  uint32_t zones, conv, wanted;
  uint32_t zbm, reserved, chunks, map, meta, meta_zones;
  uint64_t sb1;
};

static const struct worked worked[] = {
  { "A", 16 * MiB, 32, 8, 16, 1, 7, 23, 1, 34, 1, 4096 },
  { "B", 4 * MiB, 32, 16, 16, 1, 16, 14, 1, 34, 1, 1024 },
  { "C", 64 * MiB, 8, 4, 16, 1, 3, 3, 1, 10, 1, 16384 },
  { "D", 1 * MiB, 320, 16, 16, 1, 16, 300, 1, 322, 2, 512 },
  { "E", 256 * MiB, 6, 4, 16, 2, 3, 1, 1, 14, 1, 65536 },
  { "14 TB", 256 * MiB, 52156, 524, 16, 2, 16, 52136, 102, 104415, 2, 131072 },
  { "A seq=1", 16 * MiB, 32, 8, 1, 1, 1, 29, 1, 34, 1, 4096 },
  { "A seq=7", 16 * MiB, 32, 8, 7, 1, 7, 23, 1, 34, 1, 4096 },
  { "A seq=8", 16 * MiB, 32, 8, 8, 1, 8, 22, 1, 34, 1, 4096 },
  { "A seq=9", 16 * MiB, 32, 8, 9, 1, 7, 23, 1, 34, 1, 4096 },
  { "A seq=20", 16 * MiB, 32, 8, 20, 1, 7, 23, 1, 34, 1, 4096 },
};

static struct zone_table *
table_of (const struct fake_config *c, struct fake **f)
{
  struct sh_error err = { 0 };
  struct zone_table *t = NULL;

  *f = fake_new (c);
  ck_assert_msg (zone_table_read (&(*f)->bdev, &t, &err) == 0, "%s", err.message);
  return t;
}

START_TEST (sizes_are_those_of_the_worked_examples)
{
  const struct worked *w = &worked[_i];
  struct sh_error err = { 0 };
  struct layout l, again;
  struct super s = { .version = 1 };
  struct fake *f;
  struct zone_table *t = table_of (&(struct fake_config) {
      .zone_bytes = w->zone_bytes, .nr_zones = w->zones, .nr_conv = w->conv }, &f);

  ck_assert_msg (layout_make (t, w->wanted, &l, &err) == 0, "%s: %s", w->name, err.message);
  ck_assert_uint_eq (l.zbm, w->zbm);
  ck_assert_uint_eq (l.nr_reserved, w->reserved);
  ck_assert_uint_eq (l.nr_chunks, w->chunks);
  ck_assert_uint_eq (l.nr_map_blocks, w->map);
  ck_assert_uint_eq (l.nr_bitmap_blocks, w->zbm * w->zones);
  ck_assert_uint_eq (l.nr_meta_blocks, w->meta);
  ck_assert_uint_eq (l.nr_meta_zones, w->meta_zones);
  ck_assert_uint_eq (layout_set_block (&l, 0), 0);
  ck_assert_uint_eq (layout_set_block (&l, 1), w->sb1);
  layout_to_super (&l, &s);
  ck_assert_int_eq (layout_from_super (t, &s, l.sb_zone, &again, &err), 0);
  ck_assert_mem_eq (&again, &l, sizeof l);
  zone_table_free (t);
  bdev_close (&f->bdev);
}
END_TEST

START_TEST (small_zones_have_whole_bitmap_blocks)
{
  static const uint64_t mib[] = { 1, 4, 64, 128, 256, 512 };
  struct sh_error err = { 0 };
  struct layout l;
  struct fake *f;
  struct zone_table *t = table_of (&(struct fake_config) {
      .zone_bytes = mib[_i] * MiB, .nr_zones = 40, .nr_conv = 4 }, &f);

  ck_assert_msg (layout_make (t, 1, &l, &err) == 0, "%s", err.message);
  ck_assert_uint_eq (l.nr_bitmap_blocks, 40 * MAX (1, mib[_i] / 128));
  ck_assert_uint_eq (layout_bitmap_block (&l, 0, 1) - layout_bitmap_block (&l, 0, 0),
                     MAX (1, mib[_i] / 128));
  zone_table_free (t);
  bdev_close (&f->bdev);
}
END_TEST

START_TEST (runt_has_a_bitmap_and_no_chunk)
{
  struct sh_error err = { 0 };
  struct layout with, without;
  struct fake *f, *g;
  struct zone_table *t = table_of (&(struct fake_config) { .runt_bytes = MiB }, &f);
  struct zone_table *u = table_of (&(struct fake_config) { 0 }, &g);

  ck_assert_int_eq (layout_make (t, 1, &with, &err), 0);
  ck_assert_int_eq (layout_make (u, 1, &without, &err), 0);
  ck_assert_uint_eq (with.nr_bitmap_blocks, 33);
  ck_assert_uint_eq (with.nr_usable, 32);
  ck_assert_uint_eq (with.nr_chunks, without.nr_chunks);
  zone_table_free (t);
  zone_table_free (u);
  bdev_close (&f->bdev);
  bdev_close (&g->bdev);
}
END_TEST

/* conventional zones, total, condition of a zone -> layout or refusal */
struct refusal {
  uint32_t conv, zones, bad_zone;
  enum bdev_zone_cond cond;
  const char *text;             /* NULL: works */
  uint32_t sb_zone;
};

static const struct refusal refusals[] = {
  { 0, 40, 0, 0, "no usable conventional zone", 0 },
  { 1, 40, 0, 0, "has 1 usable conventional zone; at least 3", 0 },
  { 2, 40, 0, 0, "has 2 usable conventional zones; at least 3", 0 },
  { 3, 40, 0, 0, NULL, 0 },
  { 40, 40, 0, 0, NULL, 0 },
  { 3, 40, 1, ZONE_OFFLINE, "has 2 usable conventional zones", 0 },
  { 8, 40, 0, ZONE_OFFLINE, NULL, 1 },
  { 8, 40, 0, ZONE_READ_ONLY, NULL, 1 },
  { 8, 40, 1, ZONE_OFFLINE, "from zone 0 on, but zone 1 is offline", 0 },
  { 8, 40, 1, ZONE_READ_ONLY, "from zone 0 on, but zone 1 is read-only", 0 },
  { 8, 40, 5, ZONE_OFFLINE, NULL, 0 },
  { 8, 40, 39, ZONE_OFFLINE, NULL, 0 },
  /* 1 MiB zones: 300 zones need two metadata zones a set */
  { 4, 300, 0, 0, "takes all 4 usable conventional zones", 0 },
  { 3, 300, 0, 0, "needs 4 conventional zones and one must be left", 0 },
  { 5, 300, 0, 0, NULL, 0 },
  { 3, 4, 0, 0, "the drive is too small", 0 },
  { 3, 5, 0, 0, NULL, 0 },
};

START_TEST (too_few_conventional_zones_are_refused_with_the_figures)
{
  const struct refusal *r = &refusals[_i];
  struct sh_error err = { 0 };
  struct layout l;
  struct zone_table *t = NULL;
  struct fake *f = fake_new (&(struct fake_config) {
      .zone_bytes = MiB, .nr_zones = r->zones, .nr_conv = r->conv, .no_conv = r->conv == 0 });

  if (r->cond)
    fake_set_cond (f, r->bad_zone, r->cond);
  ck_assert_int_eq (zone_table_read (&f->bdev, &t, &err), 0);
  if (r->text == NULL) {
    ck_assert_msg (layout_make (t, 2, &l, &err) == 0, "%s", err.message);
    ck_assert_uint_eq (l.sb_zone, r->sb_zone);
    ck_assert_uint_eq (l.nr_usable, r->zones - (r->cond != 0));
    ck_assert_uint_eq (l.nr_chunks, l.nr_usable - 2 * l.nr_meta_zones - l.nr_reserved);
  }
  else {
    ck_assert_int_eq (layout_make (t, 2, &l, &err), -1);
    ck_assert_msg (strstr (err.message, r->text) != NULL, "%s", err.message);
    ck_assert_str_ne (err.hint, "");
  }
  zone_table_free (t);
  bdev_close (&f->bdev);
}
END_TEST

/* Each size of a superblock, spoiled with a right checksum. */
START_TEST (sizes_that_do_not_fit_the_drive_are_refused)
{
  static const struct { size_t field; uint32_t value; const char *text; } v[] = {
#define FIELD(name) offsetof (struct super, name)
    { FIELD (nr_chunks), 0, "says 0 chunks" },
    { FIELD (nr_chunks), 33, "says 33 chunks on a drive of 32 zones" },
    { FIELD (nr_chunks), UINT32_MAX, "chunks on a drive of 32 zones" },
    { FIELD (nr_chunks), 24, "more than the drive's 32 zones" },
    { FIELD (nr_map_blocks), 0, "says 0 map blocks, but 23 chunks need 1" },
    { FIELD (nr_map_blocks), UINT32_MAX, "map blocks" },
    { FIELD (nr_bitmap_blocks), 31, "says 31 bitmap blocks, but 32 zones" },
    { FIELD (nr_bitmap_blocks), UINT32_MAX, "bitmap blocks" },
    { FIELD (nr_meta_blocks), 33, "says 33 metadata blocks, but the parts add up to 34" },
    { FIELD (nr_meta_blocks), UINT32_MAX, "metadata blocks" },
    { FIELD (nr_reserved), 0, "a reserve of 0" },
    { FIELD (nr_reserved), 8, "more than the drive's 32 zones" },
    { FIELD (nr_reserved), UINT32_MAX, "a reserve of 4294967295" },
  };
  struct sh_error err = { 0 };
  struct super s = example (2, 1, 0);
  struct layout l;
  struct fake *f;
  struct zone_table *t = table_of (&(struct fake_config) { .zone_bytes = 16 * MiB }, &f);
  size_t i;

  ck_assert_int_eq (layout_from_super (t, &s, 0, &l, &err), 0);
  ck_assert_int_eq (layout_from_super (t, &s, 7, &l, &err), -1);
  for (i = 0; i < ARRAY_SIZE (v); ++i) {
    s = example (2, 1, 0);
    memcpy ((char *) &s + v[i].field, &v[i].value, 4);
    sh_error_clear (&err);
    ck_assert_int_eq (layout_from_super (t, &s, 0, &l, &err), -1);
    ck_assert_msg (strstr (err.message, v[i].text) != NULL, "%s", err.message);
  }
  /* Fewer chunks than would fit are legal. */
  s = example (2, 1, 0);
  s.nr_chunks = 10;
  ck_assert_int_eq (layout_from_super (t, &s, 0, &l, &err), 0);
  zone_table_free (t);
  bdev_close (&f->bdev);
}
END_TEST

/* --- finding the sets --- */

static struct fake *drive;
static struct zone_table *table;

static void
drive_setup (void)
{
  table = table_of (&(struct fake_config) { .zone_bytes = 16 * MiB }, &drive);
}

static void
drive_teardown (void)
{
  zone_table_free (table);
  bdev_close (&drive->bdev);
}

static void
put_super (const struct super *s)
{
  uint8_t *const to = drive->data + s->sb_block * BLOCK_BYTES;

  memset (to, 0, BLOCK_BYTES);
  super_encode (s, to);
}

static void
put_pair (uint64_t gen0, uint64_t gen1)
{
  struct super s = example (2, gen0, 0);

  put_super (&s);
  s = example (2, gen1, 4096);
  put_super (&s);
}

static int
find (struct meta_sets *sets)
{
  struct sh_error err = { 0 };

  return meta_sets_read (&drive->bdev, table, sets, &err);
}

START_TEST (higher_generation_counts_and_set_0_on_a_tie)
{
  static const struct { uint64_t gen0, gen1; int primary; } v[] = {
    { 1, 1, 0 }, { 7, 8, 1 }, { 8, 7, 0 }, { 9, 1, 0 }, { 1, 9, 1 },
    { UINT64_C (1) << 32, 5, 0 }, { UINT32_MAX, UINT64_C (1) << 32, 1 },
  };
  struct meta_sets sets;

  put_pair (v[_i].gen0, v[_i].gen1);
  ck_assert_int_eq (find (&sets), 0);
  ck_assert_int_eq (sets.primary, v[_i].primary);
  ck_assert (sets.set[0].good && sets.set[1].good);
  ck_assert_uint_eq (sets.layout.nr_chunks, 23);
  ck_assert_str_eq (sets.set[0].super.label, "hex");
}
END_TEST

START_TEST (one_bad_superblock_leaves_the_other)
{
  struct meta_sets sets;

  put_pair (5, 5);
  drive->data[_i * 4096 * BLOCK_BYTES + 33] ^= 1;
  ck_assert_int_eq (find (&sets), 0);
  ck_assert_int_eq (sets.primary, 1 - _i);
  ck_assert (!sets.set[_i].good && sets.set[_i].present);
  ck_assert_str_eq (sets.set[_i].why, "the checksum is wrong");

  put_pair (5, 5);
  drive->fail_read_from = (uint64_t) _i * 4096 * BLOCK_BYTES;
  drive->fail_read_to = drive->fail_read_from + 512;
  ck_assert_int_eq (find (&sets), 0);
  ck_assert_int_eq (sets.primary, 1 - _i);
  ck_assert (strstr (sets.set[_i].why, "cannot be read") != NULL);
}
END_TEST

START_TEST (two_bad_superblocks_are_a_clear_error)
{
  struct sh_error err = { 0 };
  struct meta_sets sets;

  ck_assert_int_eq (meta_sets_read (&drive->bdev, table, &sets, &err), -1);
  ck_assert_int_eq (err.errnum, EINVAL);
  ck_assert (strstr (err.message, "no dm-zoned volume") != NULL);

  put_pair (5, 5);
  drive->data[44] ^= 1;
  drive->data[4096 * BLOCK_BYTES + 20] ^= 1;
  sh_error_clear (&err);
  ck_assert_int_eq (meta_sets_read (&drive->bdev, table, &sets, &err), -1);
  ck_assert (strstr (err.message, "neither superblock can be used") != NULL);
  ck_assert (sets.set[0].present && sets.set[1].present);
}
END_TEST

START_TEST (set_of_another_volume_is_not_taken_for_ours)
{
  struct meta_sets sets;
  struct super s;

  put_pair (3, 3);
  s = example (2, 99, 4096);
  s.uuid[3] ^= 1;
  put_super (&s);
  ck_assert_int_eq (find (&sets), 0);
  ck_assert_int_eq (sets.primary, 0);
  ck_assert (!sets.set[1].good);
  ck_assert (strstr (sets.set[1].why, "another volume") != NULL);
}
END_TEST

/* The kernel looks one zone too low from its second try on; a large drive has
   more than one metadata zone a set. */
START_TEST (second_set_is_found_behind_several_metadata_zones)
{
  struct sh_error err = { 0 };
  struct meta_sets sets;
  struct layout l;
  struct super s = example (2, 4, 0), stale;
  struct fake *f;
  struct zone_table *t = table_of (&(struct fake_config) {
      .zone_bytes = MiB, .nr_zones = 1000, .nr_conv = 40 }, &f);

  ck_assert_int_eq (layout_make (t, 16, &l, &err), 0);
  ck_assert_uint_eq (l.nr_meta_zones, 4);
  layout_to_super (&l, &s);
  s.sb_block = layout_set_block (&l, 1);
  super_encode (&s, f->data + s.sb_block * BLOCK_BYTES);
  /* What an older format left behind is not it. */
  stale = s;
  stale.sb_block = 2 * 256;
  super_encode (&stale, f->data + stale.sb_block * BLOCK_BYTES);
  ck_assert_msg (meta_sets_read (&f->bdev, t, &sets, &err) == 0, "%s", err.message);
  ck_assert_int_eq (sets.primary, 1);
  ck_assert_uint_eq (sets.set[1].super.sb_block, 4 * 256);
  ck_assert_uint_eq (layout_set_block (&sets.layout, 1), 4 * 256);
  zone_table_free (t);
  bdev_close (&f->bdev);
}
END_TEST

START_TEST (sets_behind_an_offline_first_zone_are_found)
{
  struct meta_sets sets;
  struct super s = example (2, 3, 4096);

  fake_set_cond (drive, 0, ZONE_OFFLINE);
  table->zones[0].cond = ZONE_OFFLINE;
  /* Formatted so: sets in zones 1 and 2. */
  s.nr_chunks = 22;
  put_super (&s);
  s.sb_block = 2 * 4096;
  put_super (&s);
  ck_assert_int_eq (find (&sets), 0);
  ck_assert_uint_eq (sets.layout.sb_zone, 1);
  ck_assert (sets.set[0].good && sets.set[1].good);
  /* Went bad later: zone 1 holds set 1, and zone 2 is data. */
  memset (drive->data + 2 * 16 * MiB, 0xee, BLOCK_BYTES);
  ck_assert_int_eq (find (&sets), 0);
  ck_assert_uint_eq (sets.layout.sb_zone, 0);
  ck_assert (!sets.set[0].good && sets.set[1].good);
  ck_assert_int_eq (sets.primary, 1);
}
END_TEST

int
main (void)
{
  Suite *s = suite_create ("zoned layout");
  TCase *tc = tcase_create ("layout"), *found = tcase_create ("sets");
  SRunner *sr;
  int failed;

  tcase_add_loop_test (tc, superblock_is_sealed_as_the_kernel_seals_it, 0, 4);
  tcase_add_test (tc, superblock_bytes_are_those_of_the_example);
  tcase_add_test (tc, reserved_bytes_survive_and_are_sealed);
  tcase_add_test (tc, each_flipped_bit_of_the_fields_is_noticed);
  tcase_add_test (tc, sealed_but_wrong_superblocks_are_refused);
  tcase_add_loop_test (tc, sizes_are_those_of_the_worked_examples, 0, ARRAY_SIZE (worked));
  tcase_add_loop_test (tc, small_zones_have_whole_bitmap_blocks, 0, 6);
  tcase_add_test (tc, runt_has_a_bitmap_and_no_chunk);
  tcase_add_loop_test (tc, too_few_conventional_zones_are_refused_with_the_figures, 0,
                       ARRAY_SIZE (refusals));
  tcase_add_test (tc, sizes_that_do_not_fit_the_drive_are_refused);
  suite_add_tcase (s, tc);
  tcase_add_checked_fixture (found, drive_setup, drive_teardown);
  tcase_add_loop_test (found, higher_generation_counts_and_set_0_on_a_tie, 0, 7);
  tcase_add_loop_test (found, one_bad_superblock_leaves_the_other, 0, 2);
  tcase_add_test (found, two_bad_superblocks_are_a_clear_error);
  tcase_add_test (found, set_of_another_volume_is_not_taken_for_ours);
  tcase_add_test (found, second_set_is_found_behind_several_metadata_zones);
  tcase_add_test (found, sets_behind_an_offline_first_zone_are_found);
  suite_add_tcase (s, found);
  sr = srunner_create (s);
  srunner_run_all (sr, CK_NORMAL);
  failed = srunner_ntests_failed (sr);
  srunner_free (sr);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
