/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Volumes as the kernel, a power cut or somebody's editor may have left them: they
 * open, read right, and are in order after they were used and closed.
 */
#undef NDEBUG
#include <config.h>
#include <assert.h>
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/bytes.h"
#include "rig.h"
#include "zoned/running.h"

#define BLOCK 4096u

static const struct rig_config small = {
  .drive = { .nr_zones = 24, .nr_conv = 8 },
};

/* Zones so small that a set takes two of them. */
static const struct rig_config two_zone_sets = {
  .drive = { .zone_bytes = 64 * KiB, .nr_zones = 26, .nr_conv = 9 },
};

static void
shut (struct rig *rig)
{
  struct sh_error err = { 0 };

  assert (sh_volume_close (rig->v, &err) == 0);
  rig->v = NULL;
}

static uint8_t *
meta (struct rig *rig, int set, uint32_t block)
{
  return rig->fake->data + (layout_set_block (&rig->l, set) + block) * BLOCK;
}

static uint8_t *
map_entry (struct rig *rig, int set, uint32_t c)
{
  return meta (rig, set, 1 + c / MAP_ENTRIES) + c % MAP_ENTRIES * MAP_ENTRY_BYTES;
}

static uint8_t *
bitmap (struct rig *rig, int set, uint32_t zone)
{
  return meta (rig, set, 1 + rig->l.nr_map_blocks + zone * rig->l.zbm);
}

static void
set_generation (struct rig *rig, int set, uint64_t gen)
{
  struct super s;

  super_decode (meta (rig, set, 0), &s);
  s.gen = gen;
  super_encode (&s, meta (rig, set, 0));
}

static uint64_t
generation (struct rig *rig, int set)
{
  struct super s;

  super_decode (meta (rig, set, 0), &s);
  return s.gen;
}

/* Some content of every kind, closed. */
static void
fill (struct rig *rig, const struct rig_config *config)
{
  rig_init (rig, config);
  rig_write (rig, 0, 2 * rig->zone_bytes, 0);
  rig_write (rig, 3 * BLOCK, 2 * BLOCK, 0);
  rig_write (rig, 3 * rig->zone_bytes + 5 * BLOCK, 3 * BLOCK, 0);
  rig_write (rig, 5 * rig->zone_bytes, rig->zone_bytes / 2, 0);
  rig_close (rig);
}

static void
sets_are_equal (struct rig *rig)
{
  ck_assert_uint_eq (generation (rig, 0), generation (rig, 1));
  ck_assert_int_eq (memcmp (meta (rig, 0, 1), meta (rig, 1, 1),
                            (rig->l.nr_meta_blocks - 1) * (size_t) BLOCK), 0);
}

/* Opens, reads, writes, closes, and again. */
static void
use (struct rig *rig)
{
  rig_open (rig);
  rig_verify_all (rig);
  rig_write (rig, 4 * rig->zone_bytes + 100, 5000, 0);
  rig_flush (rig);
  rig_verify_all (rig);
  rig_close (rig);
  sets_are_equal (rig);
  rig_open (rig);
  rig_verify_all (rig);
}

/* 18.1: equal generations, and yet set 1 is behind in a block. */
START_TEST (a_stale_set_of_equal_generation_is_brought_up_to_date)
{
  struct rig rig;

  fill (&rig, &small);
  put_le32 (map_entry (&rig, 1, 0), ZONE_NONE);
  memset (bitmap (&rig, 1, 9), 0, BLOCK);
  use (&rig);
  rig_free (&rig);
}
END_TEST

/* 18.1: set 1 is newer and set 0 was never brought up to it. */
START_TEST (the_newer_set_counts_and_the_older_follows)
{
  struct rig rig;

  fill (&rig, &small);
  put_le32 (map_entry (&rig, 0, 0), ZONE_NONE);
  set_generation (&rig, 1, generation (&rig, 1) + 1);
  use (&rig);
  rig_free (&rig);
}
END_TEST

START_TEST (a_set_recovered_by_the_kernel_has_generation_1)
{
  struct rig rig;

  fill (&rig, &small);
  ck_assert_uint_gt (generation (&rig, 0), 1);
  set_generation (&rig, 1, 1);
  use (&rig);
  ck_assert_uint_gt (generation (&rig, 0), 2);
  rig_free (&rig);
}
END_TEST

/* 18.7: the kernel looks for set 1 in the wrong place when a set has two zones. */
START_TEST (set_1_is_found_when_superblock_0_is_bad)
{
  struct rig rig;

  fill (&rig, &two_zone_sets);
  ck_assert_uint_eq (rig.l.nr_meta_zones, 2);
  memset (meta (&rig, 0, 0), 0xaa, BLOCK);
  use (&rig);
  rig_free (&rig);
}
END_TEST

START_TEST (a_bad_superblock_1_is_made_anew)
{
  struct rig rig;

  fill (&rig, &small);
  meta (&rig, 1, 0)[70] ^= 1;
  use (&rig);
  rig_free (&rig);
}
END_TEST

/* 18.8: the kernel crashes. */
START_TEST (two_bad_superblocks_are_refused)
{
  const struct sh_volume_options o = { 0 };
  struct sh_error err = { 0 };
  struct sh_volume *v;
  struct rig rig;

  fill (&rig, &small);
  meta (&rig, 0, 0)[70] ^= 1;
  meta (&rig, 1, 0)[70] ^= 1;
  ck_assert_int_eq (sh_volume_open (&rig.fake->bdev, &o, &v, &err), -1);
  ck_assert_ptr_nonnull (strstr (err.message, "superblock"));
  rig_free (&rig);
}
END_TEST

/* 18.2, 10.4: data that the metadata refers to is gone from its zone. */
START_TEST (bits_behind_the_write_pointer_are_never_believed_again)
{
  struct rig rig;
  uint32_t z;

  fill (&rig, &small);
  z = get_le32 (map_entry (&rig, 0, 1));
  fake_set_wp (rig.fake, z, 10 * BLOCK);
  memset (rig.model + rig.zone_bytes + 10 * BLOCK, 0, rig.zone_bytes - 10 * BLOCK);
  rig_open (&rig);
  rig_verify_all (&rig);
  /* The write pointer moves over the stale bits and must not revive them. */
  rig_write (&rig, rig.zone_bytes + 10 * BLOCK, BLOCK, 0);
  rig_trim (&rig, rig.zone_bytes + 10 * BLOCK, BLOCK, 0);
  rig_write (&rig, rig.zone_bytes + 11 * BLOCK, 8 * BLOCK, 0);
  rig_verify_all (&rig);
  rig_reopen (&rig);
  rig_verify_all (&rig);
  rig_free (&rig);
}
END_TEST

START_TEST (bits_behind_the_write_pointer_are_ignored_read_only_too)
{
  struct sh_error err = { 0 };
  struct rig rig;
  uint32_t z;

  fill (&rig, &small);
  z = get_le32 (map_entry (&rig, 0, 1));
  fake_set_wp (rig.fake, z, 10 * BLOCK);
  memset (rig.model + rig.zone_bytes + 10 * BLOCK, 0, rig.zone_bytes - 10 * BLOCK);
  rig.config.options.read_only = true;
  rig_open (&rig);
  rig_verify_all (&rig);
  ck_assert_int_eq (sh_volume_pwrite (rig.v, rig.model, 1, 0, 0, 0), -1);
  ck_assert_int_eq (errno, EROFS);
  ck_assert_int_eq (sh_volume_flush (rig.v), 0);
  ck_assert_int_eq (sh_volume_close (rig.v, &err), 0);
  rig.v = NULL;
  rig.config.options.read_only = false;
  use (&rig);
  rig_free (&rig);
}
END_TEST

/* 10.4: a crash between copy and commit. */
START_TEST (a_free_zone_that_is_not_empty_is_reset_before_it_is_used)
{
  struct rig rig;
  uint32_t z;

  fill (&rig, &small);
  for (z = 0; z < 24; ++z)
    if (rig.fake->zones[z].type == ZONE_SEQ_REQUIRED && rig.fake->zones[z].cond == ZONE_EMPTY)
      fake_set_wp (rig.fake, z, 17 * BLOCK);
  rig_open (&rig);
  rig_write (&rig, 7 * rig.zone_bytes, rig.zone_bytes, 0);
  rig_verify_all (&rig);
  rig_close (&rig);
  rig_free (&rig);
}
END_TEST

/* A13 */
START_TEST (a_table_entry_that_is_nonsense_costs_its_chunk_alone)
{
  static const uint32_t bad[][2] = {
    { 24, ZONE_NONE }, { 25, ZONE_NONE }, { 0x7fffffff, ZONE_NONE },
    { 0, ZONE_NONE }, { 20, 21 }, { 6, 7 }, { 20, 99 },
  };
  uint8_t buf[BLOCK];
  struct rig rig;
  struct sh_error err = { 0 };

  fill (&rig, &small);
  put_le32 (map_entry (&rig, 0, 7), bad[_i][0]);
  put_le32 (map_entry (&rig, 0, 7) + 4, bad[_i][1]);
  memcpy (map_entry (&rig, 1, 7), map_entry (&rig, 0, 7), 8);
  rig_open (&rig);
  ck_assert_int_eq (sh_volume_pread (rig.v, buf, 1, 7 * rig.zone_bytes, 0), -1);
  ck_assert_int_eq (errno, EIO);
  ck_assert_int_eq (sh_volume_pwrite (rig.v, buf, 1, 7 * rig.zone_bytes, 0, 0), -1);
  ck_assert_int_eq (sh_volume_trim (rig.v, rig.zone_bytes, 7 * rig.zone_bytes, 0), -1);
  rig_verify_read (&rig, 0, 7 * rig.zone_bytes);
  rig_write (&rig, 4 * rig.zone_bytes, 2 * rig.zone_bytes, SH_FUA);
  rig_verify_read (&rig, 0, 7 * rig.zone_bytes);
  ck_assert_int_eq (sh_volume_reclaim_now (rig.v), 0);
  rig_verify_read (&rig, 0, 7 * rig.zone_bytes);
  ck_assert_int_eq (sh_volume_close (rig.v, &err), 0);
  rig.v = NULL;
  rig_free (&rig);
}
END_TEST

START_TEST (a_zone_of_two_chunks_costs_both_and_no_other)
{
  uint8_t buf[BLOCK];
  struct rig rig;
  struct sh_error err = { 0 };

  fill (&rig, &small);
  memcpy (map_entry (&rig, 0, 7), map_entry (&rig, 0, 1), 4);
  memcpy (map_entry (&rig, 1, 7), map_entry (&rig, 0, 1), 4);
  rig_open (&rig);
  ck_assert_int_eq (sh_volume_pread (rig.v, buf, 1, 7 * rig.zone_bytes, 0), -1);
  ck_assert_int_eq (sh_volume_pread (rig.v, buf, 1, 1 * rig.zone_bytes, 0), -1);
  rig_verify_read (&rig, 0, rig.zone_bytes);
  rig_write (&rig, 8 * rig.zone_bytes, 2 * rig.zone_bytes, 0);
  rig_verify_read (&rig, 2 * rig.zone_bytes, 5 * rig.zone_bytes);
  ck_assert_int_eq (sh_volume_close (rig.v, &err), 0);
  rig.v = NULL;
  rig_free (&rig);
}
END_TEST

/* 18.5: the kernel leaves discarded chunks mapped to zones of weight 0. */
START_TEST (chunks_that_the_kernel_discarded_give_their_zones_back_when_trimmed)
{
  struct rig rig;
  uint32_t z;
  int set;

  fill (&rig, &small);
  z = get_le32 (map_entry (&rig, 0, 1));
  for (set = 0; set < 2; ++set)
    memset (bitmap (&rig, set, z), 0, BLOCK);
  memset (rig.model + rig.zone_bytes, 0, rig.zone_bytes);
  rig_open (&rig);
  rig_verify_all (&rig);
  rig_trim (&rig, 0, rig.size, 0);
  rig_flush (&rig);
  ck_assert_uint_eq (rig_stats (&rig).seq_free, rig_stats (&rig).seq_zones);
  ck_assert_uint_eq (rig_stats (&rig).random_free, rig_stats (&rig).random_zones);
  rig_verify_all (&rig);
  rig_free (&rig);
}
END_TEST

/* 18.9, 18.10 */
START_TEST (runt_read_only_and_offline_zones_take_no_data)
{
  struct rig_config config = small;
  struct rig rig;
  uint64_t commands;
  uint32_t z;

  config.drive.runt_bytes = 64 * KiB;
  config.reserved = 5;
  config.notes_expected = true;
  fill (&rig, &config);
  for (z = 23; rig.fake->zones[z].cond != ZONE_EMPTY; --z)
    ;
  fake_set_cond (rig.fake, z, ZONE_READ_ONLY);
  fake_set_cond (rig.fake, z - 1, ZONE_OFFLINE);
  rig_open (&rig);
  ck_assert_uint_eq (rig.v->zones[z].state, ZS_UNUSABLE);
  ck_assert_uint_eq (rig.v->zones[z - 1].state, ZS_UNUSABLE);
  ck_assert_uint_eq (rig.v->zones[24].state, ZS_UNUSABLE);
  commands = rig.size / rig.zone_bytes;
  for (z = 0; z < commands; ++z)
    rig_write (&rig, z * rig.zone_bytes, rig.zone_bytes, 0);
  rig_verify_all (&rig);
  shut (&rig);
  rig_free (&rig);
}
END_TEST

/* The kernel keeps the reserved bytes of a superblock; so do we. */
START_TEST (reserved_bytes_of_the_superblocks_survive)
{
  struct rig rig;
  int set;

  fill (&rig, &small);
  for (set = 0; set < 2; ++set) {
    memcpy (meta (&rig, set, 0) + 200, "marker", 6);
    set_generation (&rig, set, generation (&rig, set));
  }
  use (&rig);
  shut (&rig);
  for (set = 0; set < 2; ++set)
    ck_assert_int_eq (memcmp (meta (&rig, set, 0) + 200, "marker", 6), 0);
  rig_free (&rig);
}
END_TEST

/* ---- zones of the metadata that went bad ---- */

struct told {
  char text[1024];
  unsigned errors;
};

static void
listen (void *opaque, enum sh_log_level level, const char *message)
{
  struct told *const told = opaque;

  if (level != SH_LOG_ERROR)
    return;
  told->errors++;
  snprintf (told->text, sizeof told->text, "%s", message);
}

/* Zone `zone` of the metadata takes no writes (or nothing at all) any more. */
static void
lose_meta_zone (const struct rig_config *config, uint32_t zone, enum bdev_zone_cond cond)
{
  struct told told = { 0 };
  const struct sh_log log = { listen, &told };
  struct rig_config c = *config;
  uint8_t block[BLOCK] = { 1 };
  char name[32];
  uint64_t changes;
  struct rig rig;

  c.options.log = &log;
  fill (&rig, &c);
  use (&rig);
  shut (&rig);
  fake_set_cond (rig.fake, zone, cond);
  changes = rig.fake->changes;
  told.errors = 0;
  rig_open (&rig);
  ck_assert_uint_eq (told.errors, 1);
  snprintf (name, sizeof name, "zone %u, of metadata", zone);
  ck_assert_msg (strstr (told.text, name) != NULL, "%s", told.text);
  ck_assert (strstr (told.text, "copy what it holds") != NULL);
  ck_assert (rig_stats (&rig).read_only);
  rig_verify_all (&rig);
  ck_assert_int_eq (sh_volume_pwrite (rig.v, block, BLOCK, 0, 0, 0), -1);
  ck_assert_int_eq (errno, EROFS);
  shut (&rig);
  ck_assert_uint_eq (rig.fake->changes, changes);
  rig_free (&rig);
}

START_TEST (a_volume_with_a_bad_zone_of_metadata_can_be_read_and_says_why)
{
  static const enum bdev_zone_cond conds[] = { ZONE_OFFLINE, ZONE_READ_ONLY };

  lose_meta_zone (&small, _i % 2, conds[_i / 2]);
}
END_TEST

START_TEST (the_same_where_a_set_is_several_zones_long)
{
  lose_meta_zone (&two_zone_sets, _i, ZONE_OFFLINE);
}
END_TEST

START_TEST (a_zone_of_metadata_that_goes_bad_fails_flushes_and_is_named_once)
{
  struct told told = { 0 };
  const struct sh_log log = { listen, &told };
  struct rig_config c = small;
  struct sh_error err = { 0 };
  struct rig rig;
  int i;

  c.options.log = &log;
  fill (&rig, &c);
  use (&rig);
  rig_flush (&rig);
  /* The set that the next commit goes to. */
  fake_set_cond (rig.fake, !rig.v->cur, ZONE_OFFLINE);
  for (i = 0; i < 3; ++i) {
    rig_write (&rig, (5 + 7 * i) * BLOCK, BLOCK, 0);
    ck_assert_int_eq (sh_volume_flush (rig.v), -1);
    ck_assert_int_eq (errno, EIO);
  }
  ck_assert_uint_eq (told.errors, 1);
  ck_assert (strstr (told.text, "has gone offline") != NULL);
  rig_verify_all (&rig);
  ck_assert_int_eq (sh_volume_close (rig.v, &err), -1);
  rig.v = NULL;
  rig_free (&rig);
}
END_TEST

int
main (void)
{
  Suite *const s = suite_create ("volume-found");
  TCase *const t = tcase_create ("found");

  tcase_add_test (t, a_stale_set_of_equal_generation_is_brought_up_to_date);
  tcase_add_test (t, the_newer_set_counts_and_the_older_follows);
  tcase_add_test (t, a_set_recovered_by_the_kernel_has_generation_1);
  tcase_add_test (t, set_1_is_found_when_superblock_0_is_bad);
  tcase_add_test (t, a_bad_superblock_1_is_made_anew);
  tcase_add_test (t, two_bad_superblocks_are_refused);
  tcase_add_test (t, bits_behind_the_write_pointer_are_never_believed_again);
  tcase_add_test (t, bits_behind_the_write_pointer_are_ignored_read_only_too);
  tcase_add_test (t, a_free_zone_that_is_not_empty_is_reset_before_it_is_used);
  tcase_add_loop_test (t, a_table_entry_that_is_nonsense_costs_its_chunk_alone, 0, 7);
  tcase_add_test (t, a_zone_of_two_chunks_costs_both_and_no_other);
  tcase_add_test (t, chunks_that_the_kernel_discarded_give_their_zones_back_when_trimmed);
  tcase_add_test (t, runt_read_only_and_offline_zones_take_no_data);
  tcase_add_test (t, reserved_bytes_of_the_superblocks_survive);
  tcase_add_loop_test (t, a_volume_with_a_bad_zone_of_metadata_can_be_read_and_says_why, 0, 4);
  tcase_add_loop_test (t, the_same_where_a_set_is_several_zones_long, 0, 4);
  tcase_add_test (t, a_zone_of_metadata_that_goes_bad_fails_flushes_and_is_named_once);
  suite_add_tcase (s, t);
  return run_suite (s);
}
