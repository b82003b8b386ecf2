/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Damages the metadata of a volume, and what the drive reports of its zones, at
 * random from a seed; then:
 *   - check ends, with a result or a clear error, and changes nothing;
 *   - check --repair ends; when it repaired everything, check is clean
 *     afterwards and a second repair changes nothing.
 * Run under AddressSanitizer it must be silent.
 *
 * Usage: fuzz-check [ROUNDS [FIRST-SEED]]; a failure prints its seed.
 */
#undef NDEBUG
#include <config.h>
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/bytes.h"
#include "unit/zoned-volume.h"
#include "zoned/super.h"

#define ROUNDS 400

static uint64_t state, seed;

/* splitmix64 */
static uint64_t
dice (uint64_t sides)
{
  uint64_t z = state += UINT64_C (0x9e3779b97f4a7c15);

  z = (z ^ z >> 30) * UINT64_C (0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * UINT64_C (0x94d049bb133111eb);
  return (z ^ z >> 31) % sides;
}

static void
require (bool ok, const char *what, const struct findings *f)
{
  if (ok)
    return;
  fprintf (stderr, "seed %llu: %s\n%s%s\n", (unsigned long long) seed, what,
           f->err.message, f->text);
  abort ();
}

/* Any byte of the blocks that count, with a preference for interesting values. */
static void
damage_byte (struct fake *f, const struct layout *l)
{
  static const uint8_t values[] = { 0, 1, 0x7f, 0x80, 0xff };
  const uint64_t block = layout_set_block (l, dice (2)) + dice (l->nr_meta_blocks);
  uint8_t *const at = f->data + block * BLOCK_BYTES +
                      (dice (4) ? dice (256) : dice (BLOCK_BYTES));

  if (dice (2))
    *at ^= 1 << dice (8);
  else
    *at = values[dice (ARRAY_SIZE (values))];
}

/* An entry that could be one. */
static void
damage_entry (struct fake *f, const struct layout *l)
{
  const uint32_t data = dice (8) ? dice (l->nr_zones + 2) : ZONE_NONE;
  const uint32_t buffer = dice (2) ? dice (l->nr_zones + 2) : ZONE_NONE;

  volume_map (f, l, 1 + dice (3), dice (8) ? dice (6) : dice (l->nr_chunks), data, buffer);
}

static void
damage_bits (struct fake *f, const struct layout *l)
{
  volume_bits (f, l, 1 + dice (3), dice (l->nr_zones), dice (l->zone_blocks),
               1 + dice (64), dice (2));
}

/* Fields of a superblock, sealed again. */
static void
damage_super (struct fake *f, const struct layout *l)
{
  const int set = dice (2);
  uint8_t *const block = f->data + layout_set_block (l, set) * BLOCK_BYTES;
  struct super s;

  super_decode (block, &s);
  switch (dice (9)) {
  case 0: s.gen = dice (4); break;
  case 1: s.gen = UINT64_MAX - dice (2); break;
  case 2: s.nr_chunks = dice (l->nr_zones + 2); break;
  case 3: s.nr_map_blocks = dice (4); break;
  case 4: s.nr_bitmap_blocks ^= UINT32_C (1) << dice (32); break;
  case 5: s.nr_meta_blocks ^= UINT32_C (1) << dice (32); break;
  case 6: s.nr_reserved = dice (l->nr_zones); break;
  case 7: s.version = dice (4); break;
  default: s.uuid[dice (16)] ^= 1; break;
  }
  super_encode (&s, block);
}

static void
damage_zone (struct fake *f, const struct layout *l)
{
  struct bdev_zone *const z = &f->zones[dice (f->nr_zones)];
  const uint32_t id = z - f->zones;

  if (z->type != ZONE_CONVENTIONAL && dice (8)) {
    fake_set_wp (f, id, dice (z->len_bytes / BLOCK_BYTES + 1) * BLOCK_BYTES);
    return;
  }
  switch (dice (6)) {
  case 0: z->cond = dice (16); break;
  case 1: z->type = dice (8); break;
  case 2: z->wp_bytes = dice (UINT64_MAX); break;
  case 3: fake_set_cond (f, id, ZONE_OFFLINE); break;
  case 4: fake_set_cond (f, id, ZONE_READ_ONLY); break;
  default: z->cap_bytes = dice (2) * z->len_bytes; break;
  }
}

static void
damage (struct fake *f, const struct layout *l)
{
  static void (*const kinds[]) (struct fake *, const struct layout *) = {
    damage_byte, damage_byte, damage_entry, damage_entry, damage_bits, damage_bits,
    damage_super, damage_zone,
  };
  unsigned n;

  for (n = 1 + dice (6); n > 0; --n)
    kinds[dice (ARRAY_SIZE (kinds))] (f, l);
}

/* 1 when the volume could be checked at all. */
static int
one_round (struct findings *found)
{
  struct fake *f = fake_new (&(struct fake_config) {
      .zone_bytes = MiB, .nr_zones = 40 + dice (2) * 240, .nr_conv = 8 + dice (4),
      .runt_bytes = dice (4) ? 0 : 4096 * dice (256), .no_urswrz = dice (2),
      .max_zeroes_bytes = 32 * MiB });
  const struct layout l = volume_sample (f);
  uint64_t changes;
  int checked;

  damage (f, &l);
  changes = f->changes;
  volume_check (f, false, found);
  require (f->changes == changes, "check changed something", found);
  require (found->status == 0 || found->err.message[0], "failed without a message", found);
  volume_check (f, true, found);
  checked = found->status == 0;
  require (checked || found->err.message[0], "repair failed without a message", found);
  if (checked && found->result.unrepaired == 0) {
    volume_check (f, false, found);
    require (found->status == 0 && found->result.errors == 0, "not clean after repair", found);
    changes = f->changes;
    volume_check (f, true, found);
    require (f->changes == changes, "a second repair changed something", found);
  }
  bdev_close (&f->bdev);
  return checked;
}

int
main (int argc, char **argv)
{
  const unsigned long rounds = argc > 1 ? strtoul (argv[1], NULL, 0) : ROUNDS;
  const uint64_t first = argc > 2 ? strtoull (argv[2], NULL, 0) : 1;
  struct findings *found = calloc (1, sizeof *found);
  unsigned long checked = 0;

  assert (found != NULL);
  for (seed = first; seed < first + rounds; ++seed) {
    state = seed;
    checked += one_round (found);
  }
  printf ("%lu rounds, %lu volumes could be checked and repaired\n", rounds, checked);
  free (found);
  /* A driver that only ever meets refusals tests nothing. */
  return checked > rounds / 2 ? EXIT_SUCCESS : EXIT_FAILURE;
}
