/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Volumes as somebody else may have left them, made up at random: any geometry,
 * metadata of version 1 and 2, every kind of chunk in any order, garbage in blocks
 * that are not valid, write pointers anywhere behind the last valid block, free
 * zones that are not empty, valid bits behind the write pointer, sets of
 * different age in either order, one set bad, torn or recovered, generations at
 * the ends of 32 bits.  What each block must hold is worked out here from the rule
 * of the format alone.
 *
 * Each is opened read-only (which changes nothing) and for writing, used, looked at
 * as after a kill, closed clean, checked and opened again.
 *
 * SHINGLE_SEED: other volumes; SHINGLE_IMAGES: how many of each kind (default 12).
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

enum kind {
  EQUAL_SETS,
  SET_1_NEWER,
  SET_0_NEWER,
  SET_0_BAD,
  SET_1_BAD,
  SET_1_RECOVERED,              /* by the kernel: generation 1, same content */
  SET_1_TORN,                   /* an unfinished commit of the kernel: equal generations */
  LOST_DATA,                    /* bits at and behind write pointers */
  NR_KINDS,
};

struct image {
  struct rig rig;
  enum kind kind;
  uint32_t *zones;              /* usable for data, shuffled: random ones first */
  uint32_t nr_random, nr_seq, next_random, next_seq;
  uint64_t gen;
};

/* ---- the metadata, in both sets ---- */

static uint8_t *
meta (struct image *m, int set, uint32_t block)
{
  return m->rig.fake->data + (layout_set_block (&m->rig.l, set) + block) * BLOCK;
}

static void
put_entry (struct image *m, uint32_t c, uint32_t data, uint32_t buffer)
{
  int set;

  for (set = 0; set < 2; ++set) {
    uint8_t *const e = meta (m, set, 1 + c / MAP_ENTRIES) + c % MAP_ENTRIES * MAP_ENTRY_BYTES;

    put_le32 (e, data);
    put_le32 (e + 4, buffer);
  }
}

static void
put_bit (struct image *m, uint32_t zone, uint32_t b)
{
  int set;

  for (set = 0; set < 2; ++set)
    meta (m, set, 1 + m->rig.l.nr_map_blocks + zone * m->rig.l.zbm + b / BITMAP_BITS)
      [b % BITMAP_BITS / 8] |= 1u << b % 8;
}

static void
seal (struct image *m, int set, uint64_t gen, uint32_t version)
{
  struct super s;

  super_decode (meta (m, set, 0), &s);
  s.gen = gen;
  s.version = version;
  if (version == 1) {
    memset (s.label, 0, sizeof s.label);
    memset (s.uuid, 0, sizeof s.uuid);
    memset (s.dev_uuid, 0, sizeof s.dev_uuid);
    memset (meta (m, set, 0), 0, BLOCK);
  }
  super_encode (&s, meta (m, set, 0));
}

/* Map and bitmaps of a set as they were at some other time: nonsense now. */
static void
make_stale (struct image *m, int set)
{
  const struct layout *const l = &m->rig.l;
  uint32_t i;

  for (i = 0; i < l->nr_chunks; ++i)
    if (rig_random (&m->rig, 2))
      memset (meta (m, set, 1 + i / MAP_ENTRIES) + i % MAP_ENTRIES * MAP_ENTRY_BYTES, 0xff, 8);
  for (i = 0; i < l->nr_bitmap_blocks; ++i)
    if (rig_random (&m->rig, 3) == 0)
      memset (meta (m, set, 1 + l->nr_map_blocks + i), rig_random (&m->rig, 256),
              MIN (l->zone_blocks / 8, BLOCK));
}

/* ---- zones and chunks ---- */

static void
shuffle (struct image *m, uint32_t *list, uint32_t nr)
{
  uint32_t i;

  for (i = nr; i > 1; --i) {
    const uint32_t j = rig_random (&m->rig, i), t = list[j];

    list[j] = list[i - 1];
    list[i - 1] = t;
  }
}

static void
list_zones (struct image *m)
{
  const struct layout *const l = &m->rig.l;
  const uint32_t nr_conv = m->rig.config.drive.nr_conv;
  uint32_t z;

  m->zones = malloc (l->nr_zones * sizeof m->zones[0]);
  assert (m->zones != NULL);
  for (z = 2 * l->nr_meta_zones; z < nr_conv; ++z)
    m->zones[m->nr_random++] = z;
  for (z = nr_conv; z < l->nr_zones; ++z)
    m->zones[m->nr_random + m->nr_seq++] = z;
  shuffle (m, m->zones, m->nr_random);
  shuffle (m, m->zones + m->nr_random, m->nr_seq);
}

static uint32_t
take_zone (struct image *m, bool seq)
{
  if (seq)
    return m->next_seq < m->nr_seq ? m->zones[m->nr_random + m->next_seq++] : ZONE_NONE;
  return m->next_random < m->nr_random ? m->zones[m->next_random++] : ZONE_NONE;
}

static uint8_t *
block_of (struct image *m, uint32_t zone, uint32_t b)
{
  return m->rig.fake->data + ((uint64_t) zone * m->rig.l.zone_blocks + b) * BLOCK;
}

/* Marks runs of blocks of `zone` below `end` valid; those that `taken` has are left
   out.  One behind the last of them. */
static uint32_t
mark_some (struct image *m, uint32_t c, uint32_t zone, uint32_t end, uint8_t *taken)
{
  const uint32_t zb = m->rig.l.zone_blocks;
  uint32_t b = 0, last = 0;

  while (b < end) {
    const uint32_t n = 1 + rig_random (&m->rig, rig_random (&m->rig, 2) ? 3 : zb / 4 + 1);
    const bool valid = rig_random (&m->rig, 2);
    uint32_t i;

    for (i = b; valid && i < MIN (b + n, end); ++i)
      if (!taken[i]) {
        taken[i] = 1;
        put_bit (m, zone, i);
        memcpy (m->rig.model + ((uint64_t) c * zb + i) * BLOCK, block_of (m, zone, i), BLOCK);
        last = i + 1;
      }
    b += n;
  }
  return last;
}

static void
fill_with_garbage (struct image *m, uint32_t zone, uint32_t blocks)
{
  rig_fill (&m->rig, block_of (m, zone, 0), (uint64_t) blocks * BLOCK);
}

static void
make_seq_chunk (struct image *m, uint32_t c, uint32_t data, uint32_t buffer)
{
  const uint32_t zb = m->rig.l.zone_blocks;
  uint8_t *const taken = calloc (1, zb);
  uint32_t wp = rig_random (&m->rig, zb + 1), b;

  assert (taken != NULL);
  if (rig_random (&m->rig, 4) == 0)
    wp = rig_random (&m->rig, 2) ? 0 : zb;
  fill_with_garbage (m, data, wp);
  fake_set_wp (m->rig.fake, data, (uint64_t) wp * BLOCK);
  mark_some (m, c, data, wp, taken);
  if (buffer != ZONE_NONE) {
    fill_with_garbage (m, buffer, zb);
    mark_some (m, c, buffer, zb, taken);
  }
  for (b = wp; m->kind == LOST_DATA && b < zb; ++b)
    if (!taken[b] && rig_random (&m->rig, 3) == 0)
      put_bit (m, data, b);
  free (taken);
}

static void
make_random_chunk (struct image *m, uint32_t c, uint32_t data)
{
  const uint32_t zb = m->rig.l.zone_blocks;
  uint8_t *const taken = calloc (1, zb);

  assert (taken != NULL);
  fill_with_garbage (m, data, zb);
  if (rig_random (&m->rig, 6))
    mark_some (m, c, data, zb, taken);
  free (taken);
}

static void
make_chunk (struct image *m, uint32_t c)
{
  const unsigned what = rig_random (&m->rig, 6);
  uint32_t data, buffer = ZONE_NONE;

  if (what == 0)
    return;
  data = take_zone (m, what > 2);
  if (data == ZONE_NONE)
    return;
  if (what > 3)
    buffer = take_zone (m, false);
  put_entry (m, c, data, buffer);
  if (what > 2)
    make_seq_chunk (m, c, data, buffer);
  else
    make_random_chunk (m, c, data);
}

/* What an interrupted reclaim leaves. */
static void
dirty_free_zones (struct image *m)
{
  const uint32_t zb = m->rig.l.zone_blocks;
  uint32_t i;

  for (i = m->next_seq; i < m->nr_seq; ++i)
    if (rig_random (&m->rig, 4) == 0) {
      const uint32_t z = m->zones[m->nr_random + i], n = 1 + rig_random (&m->rig, zb);

      fill_with_garbage (m, z, n);
      fake_set_wp (m->rig.fake, z, (uint64_t) n * BLOCK);
    }
}

/* ---- the sets ---- */

static void
choose_sets (struct image *m)
{
  static const uint64_t gens[] = {
    2, 3, 0xfffffffe, 0xffffffff, 0x100000000, UINT64_C (1) << 40, UINT64_C (1) << 63,
  };
  const uint64_t gen = gens[rig_random (&m->rig, ARRAY_SIZE (gens))];
  const uint32_t version = 1 + (rig_random (&m->rig, 3) > 0);
  uint64_t g[2] = { gen, gen };

  m->gen = gen;
  switch (m->kind) {
  case SET_1_NEWER:
    make_stale (m, 0);
    g[0] = gen - 1;
    break;
  case SET_0_NEWER:
    make_stale (m, 1);
    g[1] = gen - 1;
    break;
  case SET_1_TORN:
    make_stale (m, 1);
    break;
  case SET_1_RECOVERED:
    g[1] = 1;
    break;
  default:
    break;
  }
  seal (m, 0, g[0], version);
  seal (m, 1, g[1], version);
  if (m->kind == SET_0_BAD || m->kind == SET_1_BAD) {
    const int bad = m->kind == SET_1_BAD;

    make_stale (m, bad);
    meta (m, bad, 0)[rig_random (&m->rig, 48)] ^= 1 + rig_random (&m->rig, 255);
  }
}

static void
make_image (struct image *m, enum kind kind, unsigned nr)
{
  static const uint64_t zone_bytes[] = { 64 * KiB, 256 * KiB, MiB };
  struct rig_config config = { .notes_expected = true };
  uint64_t salt = UINT64_C (0x2545f4914f6cdd1d) * (nr * NR_KINDS + kind + 1);
  uint32_t c, meta_zones;

  memset (m, 0, sizeof *m);
  m->kind = kind;
  config.drive.zone_bytes = zone_bytes[salt >> 60 & 1 ? 1 : (salt >> 61) % 3];
  config.drive.nr_zones = 20 + (salt >> 32) % 30;
  meta_zones = 2 * DIV_ROUND_UP (2 + config.drive.nr_zones, config.drive.zone_bytes / BLOCK);
  config.drive.nr_conv = meta_zones + 1 + (salt >> 24) % 6;
  config.drive.lbs_bytes = salt >> 20 & 1 ? 4096 : 512;
  config.drive.no_urswrz = salt >> 21 & 1;
  config.reserved = 1 + (salt >> 16) % 4;
  rig_init (&m->rig, &config);
  rig_close (&m->rig);
  m->rig.seed ^= salt;
  list_zones (m);
  for (c = 0; c < m->rig.l.nr_chunks; ++c)
    make_chunk (m, c);
  dirty_free_zones (m);
  choose_sets (m);
}

/* ---- what ours makes of it ---- */

/* Another look at the drive as it is, with the volume open or killed: reads right and
   changes nothing. */
static void
look (struct image *m)
{
  const struct sh_volume_options o = { .read_only = true };
  const uint64_t changes = m->rig.fake->changes;
  struct guard *const g = guard_new (&m->rig.fake->bdev);
  uint8_t *const content = malloc (m->rig.size);
  struct sh_error err = { 0 };
  struct sh_volume *v;

  assert (content != NULL);
  g->keep_inner = true;
  ck_assert_msg (sh_volume_open (&g->bdev, &o, &v, &err) == 0, "%s", err.message);
  ck_assert_int_eq (sh_volume_pread (v, content, m->rig.size, 0, 0), 0);
  ck_assert_int_eq (memcmp (content, m->rig.model, m->rig.size), 0);
  ck_assert_int_eq (sh_volume_close (v, &err), 0);
  ck_assert_uint_eq (m->rig.fake->changes, changes);
  free (content);
}

static void
use (struct image *m)
{
  struct rig *const rig = &m->rig;
  int i;

  for (i = 0; i < 24; ++i) {
    uint64_t at = rig_random (rig, rig->size), n = 1 + rig_random (rig, 60 * KiB);

    n = MIN (n, rig->size - at);
    switch (rig_random (rig, 6)) {
    case 0:
      rig_trim (rig, at, n, 0);
      break;
    case 1:
      rig_zero (rig, at, n, 0);
      break;
    case 2:
      at = at / rig->zone_bytes * rig->zone_bytes;
      rig_write (rig, at, MIN (64 * KiB, rig->size - at), 0);
      break;
    case 3:
      ck_assert_int_eq (sh_volume_reclaim_now (rig->v), 0);
      break;
    default:
      rig_write (rig, at, n, rig_random (rig, 2) ? SH_FUA : 0);
    }
    rig_verify_invariants (rig);
  }
  rig_verify_all (rig);
}

static void
expect_closed_well (struct image *m)
{
  struct super s[2];
  int set;

  for (set = 0; set < 2; ++set)
    super_decode (meta (m, set, 0), &s[set]);
  ck_assert_uint_eq (s[0].gen, s[1].gen);
  ck_assert_uint_gt (s[0].gen, m->gen);
  ck_assert_int_eq (memcmp (meta (m, 0, 1), meta (m, 1, 1),
                            (size_t) (m->rig.l.nr_meta_blocks - 1) * BLOCK), 0);
}

START_TEST (images_of_every_kind_open_read_right_and_close_clean)
{
  const char *const wanted = getenv ("SHINGLE_IMAGES");
  const unsigned nr = wanted != NULL ? strtoul (wanted, NULL, 10) : 12;
  unsigned i;

  for (i = 0; i < nr; ++i) {
    struct image m;
    uint64_t errors, notes;

    make_image (&m, _i, i);
    if (_i == EQUAL_SETS || _i == SET_1_NEWER || _i == SET_0_NEWER || _i == SET_1_RECOVERED) {
      rig_offline (&m.rig, &errors, &notes);
      ck_assert_uint_eq (errors, 0);
    }
    look (&m);
    rig_open (&m.rig);
    rig_verify_all (&m.rig);
    use (&m);
    rig_flush (&m.rig);
    look (&m);
    rig_close (&m.rig);
    expect_closed_well (&m);
    rig_open (&m.rig);
    rig_verify_all (&m.rig);
    rig_free (&m.rig);
    free (m.zones);
  }
}
END_TEST

int
main (void)
{
  Suite *const s = suite_create ("volume-images");
  TCase *const t = tcase_create ("images");

  tcase_add_loop_test (t, images_of_every_kind_open_read_right_and_close_clean, 0, NR_KINDS);
  suite_add_tcase (s, t);
  return run_suite (s);
}
