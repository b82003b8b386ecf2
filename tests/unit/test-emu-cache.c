/* SPDX-License-Identifier: BSD-3-Clause */
/* The volatile write cache of the emulated drive and what power cuts do to it. */
#include <config.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "emu-fixture.h"

/* 16 zones of 64 blocks of 4 KiB, 4 conventional. */
#define SHAPE "size=4M,zone-size=256K,conventional=4,lbs=4096,cache=tracked"
#define Z 64u
#define NR_ZONES 16u
#define NR_CONV 4u
#define SEQ(n) ((NR_CONV + (n)) * Z)
#define LBS 4096u

static uint8_t buf[64 * LBS];

static void
put (struct emu *emu, uint64_t lba, uint32_t blocks, uint32_t generation)
{
  fx_stamp (buf, lba, blocks, LBS, generation);
  ck_answer (fx_write (emu, lba, blocks, buf), 0);
}

/* The generation that a block holds; 0: zeroes. */
static int64_t
get (struct emu *emu, uint64_t lba)
{
  static uint8_t block[LBS];

  ck_answer (fx_read (emu, lba, 1, block), 0);
  return fx_stamp_of (block, lba, LBS);
}

static void
cut (struct emu *emu, uint64_t seed, enum emu_cut mode)
{
  fx_must (emu_power_cut (emu, seed, mode, false) == 0);
  emu_check (emu);
  fx_must (emu_cache_entries (emu) == 0);
  ck_answer (fx_tur (emu), SENSE (0x062901));
}

START_TEST (what_was_synchronised_survives_and_the_rest_can_be_lost)
{
  struct emu *emu = fx_drive (SHAPE);

  put (emu, 3, 4, 1);
  put (emu, SEQ (0), 4, 1);
  ck_answer (fx_sync (emu), 0);
  ck_assert_uint_eq (emu_cache_entries (emu), 0);
  put (emu, 5, 4, 2);
  put (emu, SEQ (0) + 4, 4, 2);
  put (emu, SEQ (1), 4, 2);
  cut (emu, 1, EMU_CUT_LOSE_ALL);
  ck_assert_int_eq (get (emu, 4), 1);
  ck_assert_int_eq (get (emu, 5), 1);
  ck_assert_int_eq (get (emu, 7), 0);
  ck_assert_uint_eq (fx_get_zone (emu, SEQ (0)).wp, SEQ (0) + 4);
  ck_assert_uint_eq (fx_get_zone (emu, SEQ (0)).cond, ZONE_CLOSED);
  ck_assert_uint_eq (fx_get_zone (emu, SEQ (1)).cond, ZONE_EMPTY);
  ck_assert_int_eq (get (emu, SEQ (0) + 3), 1);
  ck_assert_int_eq (get (emu, SEQ (0) + 4), 0);
  emu_close (emu);
}
END_TEST

START_TEST (cut_that_keeps_all_loses_nothing)
{
  struct emu *emu = fx_drive (SHAPE);

  put (emu, 3, 4, 1);
  put (emu, SEQ (0), Z, 1);
  put (emu, SEQ (1), 4, 1);
  ck_answer (fx_zone (emu, FX_RESET, SEQ (0)), 0);
  put (emu, SEQ (0), 2, 2);
  cut (emu, 1, EMU_CUT_KEEP_ALL);
  ck_assert_int_eq (get (emu, 6), 1);
  ck_assert_int_eq (get (emu, SEQ (0) + 1), 2);
  ck_assert_int_eq (get (emu, SEQ (0) + 2), 0);
  ck_assert_uint_eq (fx_get_zone (emu, SEQ (1)).wp, SEQ (1) + 4);
  emu_close (emu);
}
END_TEST

START_TEST (fua_write_is_durable_with_all_of_its_sequential_zone)
{
  struct emu *emu = fx_drive (SHAPE);

  put (emu, 1, 1, 1);
  put (emu, 2, 1, 1);
  fx_stamp (buf, 2, 1, LBS, 2);
  ck_answer (fx_write_fua (emu, 2, 1, buf), 0);
  put (emu, SEQ (0), 4, 1);
  fx_stamp (buf, SEQ (0) + 4, 1, LBS, 2);
  ck_answer (fx_write_fua (emu, SEQ (0) + 4, 1, buf), 0);
  cut (emu, 1, EMU_CUT_LOSE_ALL);
  ck_assert_int_eq (get (emu, 1), 0);
  ck_assert_int_eq (get (emu, 2), 2);
  ck_assert_int_eq (get (emu, SEQ (0)), 1);
  ck_assert_int_eq (get (emu, SEQ (0) + 4), 2);
  emu_close (emu);
}
END_TEST

START_TEST (synchronising_a_range_covers_that_range)
{
  struct emu *emu = fx_drive (SHAPE);
  uint8_t cdb[16] = { 0x91 };

  put (emu, 1, 4, 1);
  put_be64 (cdb + 2, 2);
  put_be32 (cdb + 10, 2);
  ck_answer (fx_send (emu, cdb, 16, SH_XFER_NONE, NULL, 0), 0);
  cut (emu, 1, EMU_CUT_LOSE_ALL);
  ck_assert_int_eq (get (emu, 1), 0);
  ck_assert_int_eq (get (emu, 2), 1);
  ck_assert_int_eq (get (emu, 3), 1);
  ck_assert_int_eq (get (emu, 4), 0);
  emu_close (emu);
}
END_TEST

START_TEST (lost_reset_brings_the_zone_back_even_when_it_was_written_again)
{
  struct emu *emu = fx_drive (SHAPE);
  uint32_t i;

  put (emu, SEQ (0), 10, 1);
  ck_answer (fx_sync (emu), 0);
  ck_answer (fx_zone (emu, FX_RESET, SEQ (0)), 0);
  ck_assert_int_eq (get (emu, SEQ (0)), 0);
  put (emu, SEQ (0), 5, 2);
  ck_answer (fx_zone (emu, FX_RESET, SEQ (0)), 0);
  put (emu, SEQ (0), 3, 3);
  cut (emu, 1, EMU_CUT_LOSE_ALL);
  ck_assert_uint_eq (fx_get_zone (emu, SEQ (0)).wp, SEQ (0) + 10);
  for (i = 0; i < 10; ++i)
    ck_assert_int_eq (get (emu, SEQ (0) + i), 1);
  emu_close (emu);
}
END_TEST

START_TEST (finish_after_a_reset_shows_zeroes_not_the_past)
{
  struct emu *emu = fx_drive (SHAPE);

  put (emu, SEQ (0), 10, 1);
  ck_answer (fx_sync (emu), 0);
  ck_answer (fx_zone (emu, FX_RESET, SEQ (0)), 0);
  put (emu, SEQ (0), 2, 2);
  ck_answer (fx_zone (emu, FX_FINISH, SEQ (0)), 0);
  ck_assert_int_eq (get (emu, SEQ (0) + 1), 2);
  ck_assert_int_eq (get (emu, SEQ (0) + 2), 0);
  cut (emu, 1, EMU_CUT_LOSE_ALL);
  ck_assert_int_eq (get (emu, SEQ (0) + 9), 1);
  emu_close (emu);
}
END_TEST

START_TEST (damaged_zone_stays_damaged_over_a_cut)
{
  struct emu *emu = fx_drive (SHAPE);
  struct sh_error err = { 0 };

  put (emu, SEQ (0), 10, 1);
  put (emu, SEQ (1), 10, 1);
  ck_assert_int_eq (emu_set_zone_cond (emu, NR_CONV, ZONE_READ_ONLY, &err), 0);
  ck_assert_int_eq (emu_set_zone_cond (emu, NR_CONV + 1, ZONE_OFFLINE, &err), 0);
  cut (emu, 1, EMU_CUT_LOSE_ALL);
  ck_assert_uint_eq (fx_get_zone (emu, SEQ (0)).cond, ZONE_READ_ONLY);
  ck_assert_uint_eq (fx_get_zone (emu, SEQ (1)).cond, ZONE_OFFLINE);
  ck_assert_int_eq (get (emu, SEQ (0)), 0);
  emu_close (emu);
}
END_TEST

START_TEST (untracked_cache_loses_nothing)
{
  struct emu *emu = fx_drive ("size=4M,zone-size=256K,conventional=4,lbs=4096");

  put (emu, 3, 4, 1);
  put (emu, SEQ (0), 4, 1);
  cut (emu, 1, EMU_CUT_LOSE_ALL);
  ck_assert_int_eq (get (emu, 3), 1);
  ck_assert_int_eq (get (emu, SEQ (0) + 3), 1);
  emu_close (emu);
}
END_TEST

START_TEST (full_cache_writes_its_oldest_data)
{
  struct emu *emu = fx_drive (SHAPE ",cache_size=32K");
  uint32_t i, lost = 0;

  for (i = 0; i < 64; ++i)
    put (emu, i, 1, 1);
  ck_answer (fx_sync (emu), 0);
  for (i = 0; i < 64; ++i)
    put (emu, i, 1, 2);
  cut (emu, 1, EMU_CUT_LOSE_ALL);
  for (i = 0; i < 64; ++i) {
    const int64_t generation = get (emu, i);

    ck_assert_int_eq (generation, lost || generation == 1 ? 1 : 2);
    lost += generation == 1;
  }
  ck_assert_uint_ge (lost, 1);
  ck_assert_uint_le (lost, 8);
  emu_close (emu);
}
END_TEST

START_TEST (turning_the_cache_off_writes_it)
{
  struct emu *emu = fx_drive (SHAPE);
  uint8_t list[4 + 20] = { [4] = 8, [5] = 18 };
  const uint8_t cdb[6] = { 0x15, 0x10, 0, 0, sizeof list };

  put (emu, 3, 1, 1);
  ck_answer (fx_send (emu, cdb, 6, SH_XFER_TO_DEVICE, list, sizeof list), 0);
  put (emu, 4, 1, 1);
  cut (emu, 1, EMU_CUT_LOSE_ALL);
  ck_assert_int_eq (get (emu, 3), 1);
  ck_assert_int_eq (get (emu, 4), 1);
  emu_close (emu);
}
END_TEST

START_TEST (power_cycle_loses_nothing_and_closes_zones)
{
  struct emu *emu = fx_drive (SHAPE);

  put (emu, SEQ (0), 4, 1);
  ck_answer (fx_zone (emu, FX_OPEN, SEQ (1)), 0);
  emu_power_cycle (emu);
  ck_answer (fx_tur (emu), SENSE (0x062901));
  ck_assert_uint_eq (fx_get_zone (emu, SEQ (0)).cond, ZONE_CLOSED);
  ck_assert_uint_eq (fx_get_zone (emu, SEQ (1)).cond, ZONE_EMPTY);
  ck_assert_int_eq (get (emu, SEQ (0) + 3), 1);
  emu_check (emu);
  emu_close (emu);
}
END_TEST

START_TEST (clone_and_original_go_their_own_ways)
{
  struct emu *emu = fx_drive (SHAPE), *clone;

  put (emu, 3, 4, 1);
  ck_answer (fx_sync (emu), 0);
  put (emu, 3, 2, 2);
  put (emu, SEQ (0), 4, 2);
  clone = emu_clone (emu);
  ck_assert_ptr_nonnull (clone);
  emu_check (clone);
  ck_assert_uint_eq (emu_cache_entries (clone), emu_cache_entries (emu));
  put (emu, SEQ (0) + 4, 4, 3);
  put (clone, 5, 1, 4);
  ck_assert_int_eq (get (emu, 5), 1);
  cut (clone, 1, EMU_CUT_LOSE_ALL);
  ck_assert_int_eq (get (clone, 3), 1);
  ck_assert_int_eq (get (clone, SEQ (0)), 0);
  emu_close (clone);
  ck_assert_int_eq (get (emu, 3), 2);
  ck_assert_int_eq (get (emu, SEQ (0) + 7), 3);
  emu_check (emu);
  emu_close (emu);
}
END_TEST

START_TEST (cut_by_block_tears_what_4_kib_units_keep_whole)
{
  bool torn_by_block = false;
  unsigned seed, by_block;

  for (by_block = 0; by_block < 2; ++by_block) {
    for (seed = 0; seed < 50; ++seed) {
      struct emu *emu = fx_drive ("size=4M,zone-size=256K,conventional=4,lbs=512,cache=tracked");
      unsigned i, nr = 0;

      fx_stamp (buf, 0, 8, 512, 1);
      ck_answer (fx_write (emu, 0, 8, buf), 0);
      ck_assert_int_eq (emu_power_cut (emu, seed, EMU_CUT_RANDOM, by_block), 0);
      ck_answer (fx_tur (emu), SENSE (0x062901));
      ck_answer (fx_read (emu, 0, 8, buf), 0);
      for (i = 0; i < 8; ++i) {
        const int64_t generation = fx_stamp_of (buf + 512 * i, i, 512);

        ck_assert (generation == 0 || generation == 1);
        nr += generation == 1;
      }
      if (nr != 0 && nr != 8) {
        ck_assert (by_block);
        torn_by_block = true;
      }
      emu_close (emu);
    }
  }
  ck_assert (torn_by_block);
}
END_TEST

/* ---- every outcome is a legal one: against a model ---- */

/* What a zone may hold after a cut. */
struct state {
  uint32_t wp;
  uint32_t generation[Z];       /* below wp */
};

struct history {
  struct state *states;         /* since the last synchronisation, oldest first */
  size_t nr, allocated;
};

/* What a block of a conventional zone may hold. */
struct versions {
  uint32_t generation[64];
  size_t nr;
};

static struct history zones[NR_ZONES];
static struct versions blocks[NR_CONV * Z];
static uint64_t dice;

static uint32_t
roll (uint32_t n)
{
  dice = dice * UINT64_C (6364136223846793005) + UINT64_C (1442695040888963407);
  return (uint32_t) (dice >> 33) % n;
}

static void
push (uint32_t zone, const struct state *s)
{
  struct history *h = &zones[zone];

  if (h->nr == h->allocated) {
    h->allocated = h->allocated ? 2 * h->allocated : 64;
    h->states = realloc (h->states, h->allocated * sizeof h->states[0]);
  }
  h->states[h->nr++] = *s;
}

static struct state
now (uint32_t zone)
{
  return zones[zone].states[zones[zone].nr - 1];
}

static void
model_sync_zone (uint32_t zone)
{
  const struct state s = now (zone);

  zones[zone].nr = 0;
  push (zone, &s);
}

static void
model_sync (void)
{
  uint32_t i;

  for (i = NR_CONV; i < NR_ZONES; ++i)
    model_sync_zone (i);
  for (i = 0; i < NR_CONV * Z; ++i) {
    blocks[i].generation[0] = blocks[i].generation[blocks[i].nr - 1];
    blocks[i].nr = 1;
  }
}

static void
model_start (void)
{
  const struct state empty = { 0 };
  uint32_t i;

  for (i = NR_CONV; i < NR_ZONES; ++i) {
    zones[i].nr = 0;
    push (i, &empty);
  }
  for (i = 0; i < NR_CONV * Z; ++i)
    blocks[i] = (struct versions) { .nr = 1 };
}

static void
step_conventional (struct emu *emu, uint32_t generation)
{
  const uint32_t n = 1 + roll (8), lba = roll (NR_CONV * Z - n);
  const bool fua = roll (10) == 0;
  uint32_t i;

  fx_stamp (buf, lba, n, LBS, generation);
  ck_answer (fua ? fx_write_fua (emu, lba, n, buf) : fx_write (emu, lba, n, buf), 0);
  for (i = lba; i < lba + n; ++i) {
    if (fua)
      blocks[i].nr = 0;
    fx_must (blocks[i].nr < 64);
    blocks[i].generation[blocks[i].nr++] = generation;
  }
}

static void
step_append (struct emu *emu, uint32_t zone, uint32_t generation)
{
  struct state s = now (zone);
  uint32_t n = 1 + roll (12), i;
  const bool fua = roll (10) == 0;

  n = MIN (n, Z - s.wp);
  if (n == 0)
    return;
  fx_stamp (buf, zone * Z + s.wp, n, LBS, generation);
  ck_answer (fua ? fx_write_fua (emu, zone * Z + s.wp, n, buf)
             : fx_write (emu, zone * Z + s.wp, n, buf), 0);
  for (i = 0; i < n; ++i) {
    s.generation[s.wp++] = generation;
    push (zone, &s);
  }
  if (fua)
    model_sync_zone (zone);
}

static void
step_zone_op (struct emu *emu, uint32_t zone)
{
  struct state s = now (zone);

  if (roll (4) == 0) {
    ck_answer (fx_zone (emu, FX_FINISH, zone * Z), 0);
    memset (s.generation + s.wp, 0, (Z - s.wp) * sizeof s.generation[0]);
    s.wp = Z;
  }
  else {
    ck_answer (fx_zone (emu, FX_RESET, zone * Z), 0);
    s.wp = 0;
  }
  push (zone, &s);
}

static void
step (struct emu *emu, uint32_t generation)
{
  const uint32_t zone = NR_CONV + roll (NR_ZONES - NR_CONV);

  switch (roll (12)) {
  case 0 ... 3:
    step_conventional (emu, generation);
    break;
  case 4 ... 8:
    step_append (emu, zone, generation);
    break;
  case 9 ... 10:
    step_zone_op (emu, zone);
    break;
  default:
    if (roll (3) == 0) {
      ck_answer (fx_sync (emu), 0);
      model_sync ();
    }
  }
}

static struct state
read_zone (struct emu *emu, uint32_t zone)
{
  struct state s = { .wp = (uint32_t) (fx_get_zone (emu, zone * Z).wp - zone * Z) };
  uint32_t i;

  ck_answer (fx_read (emu, zone * Z, Z, buf), 0);
  for (i = 0; i < Z; ++i) {
    const int64_t generation = fx_stamp_of (buf + i * LBS, zone * Z + i, LBS);

    fx_must (generation >= 0);
    if (i >= s.wp)
      fx_must (generation == 0);
    s.generation[i] = (uint32_t) generation;
  }
  return s;
}

static bool
same_state (const struct state *a, const struct state *b)
{
  return a->wp == b->wp &&
    memcmp (a->generation, b->generation, a->wp * sizeof a->generation[0]) == 0;
}

/* Returns how many states back the zone fell. */
static size_t
verify_zone (struct emu *emu, uint32_t zone)
{
  const struct state s = read_zone (emu, zone);
  const struct history *h = &zones[zone];
  size_t i;

  for (i = h->nr; i > 0; --i)
    if (same_state (&s, &h->states[i - 1]))
      return h->nr - i;
  ck_abort_msg ("zone %u holds what it never held: pointer at %u", zone, s.wp);
  return 0;
}

static size_t
verify_block (struct emu *emu, uint32_t lba)
{
  const int64_t generation = get (emu, lba);
  size_t i;

  for (i = blocks[lba].nr; i > 0; --i)
    if (blocks[lba].generation[i - 1] == generation)
      return blocks[lba].nr - i;
  ck_abort_msg ("block %u holds what it never held: %lld", lba, (long long) generation);
  return 0;
}

static size_t
verify (struct emu *emu)
{
  size_t lost = 0;
  uint32_t i;

  for (i = NR_CONV; i < NR_ZONES; ++i)
    lost += verify_zone (emu, i);
  for (i = 0; i < NR_CONV * Z; ++i)
    lost += verify_block (emu, i);
  return lost;
}

/* One run; at command boundaries clones are cut and judged. */
START_TEST (after_any_cut_everything_is_as_it_once_was)
{
  struct emu *emu = fx_drive (SHAPE);
  size_t lost = 0;
  uint32_t i;

  dice = (uint64_t) _i + 1;
  model_start ();
  for (i = 1; i <= 400; ++i) {
    struct emu *clone;

    step (emu, i);
    if (i % 4 != 0)
      continue;
    clone = emu_clone (emu);
    cut (clone, (uint64_t) _i * 1000 + i, EMU_CUT_RANDOM);
    lost += verify (clone);
    emu_close (clone);
  }
  ck_assert_uint_gt (lost, 100);
  emu_check (emu);
  emu_close (emu);
}
END_TEST

static Suite *
suite (void)
{
  Suite *s = suite_create ("emu-cache");
  TCase *tc = tcase_create ("cache");

  tcase_add_test (tc, what_was_synchronised_survives_and_the_rest_can_be_lost);
  tcase_add_test (tc, cut_that_keeps_all_loses_nothing);
  tcase_add_test (tc, fua_write_is_durable_with_all_of_its_sequential_zone);
  tcase_add_test (tc, synchronising_a_range_covers_that_range);
  tcase_add_test (tc, lost_reset_brings_the_zone_back_even_when_it_was_written_again);
  tcase_add_test (tc, finish_after_a_reset_shows_zeroes_not_the_past);
  tcase_add_test (tc, damaged_zone_stays_damaged_over_a_cut);
  tcase_add_test (tc, untracked_cache_loses_nothing);
  tcase_add_test (tc, full_cache_writes_its_oldest_data);
  tcase_add_test (tc, turning_the_cache_off_writes_it);
  tcase_add_test (tc, power_cycle_loses_nothing_and_closes_zones);
  tcase_add_test (tc, clone_and_original_go_their_own_ways);
  tcase_add_test (tc, cut_by_block_tears_what_4_kib_units_keep_whole);
  tcase_add_loop_test (tc, after_any_cut_everything_is_as_it_once_was, 0, 10);
  suite_add_tcase (s, tc);
  return s;
}

int
main (void)
{
  return run_suite (suite ());
}
