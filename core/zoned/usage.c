/* SPDX-License-Identifier: BSD-3-Clause */
#include <config.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "base/bytes.h"
#include "base/error.h"
#include "zoned/usage.h"

#define PIECE_BLOCKS 256u

static int
read_blocks (struct bdev *bdev, uint8_t *buf, uint64_t block, uint64_t nr,
             struct sh_error *err)
{
  if (bdev_read (bdev, buf, nr * BLOCK_BYTES, block * BLOCK_BYTES) == -1)
    return sh_fail (err, errno, "%s: metadata at block %" PRIu64 " cannot be read: %s",
                    bdev->info.name, block, sh_drive_error (errno));
  return 0;
}

static bool
claim (struct usage *u, const struct zone_table *table, uint32_t zone, uint32_t chunk,
       enum zone_use use)
{
  if (zone >= table->nr_zones || (u->use[zone] != USE_FREE && u->use[zone] != USE_NONE)) {
    u->bad_entries++;
    return false;
  }
  u->use[zone] = use;
  u->chunk[zone] = chunk;
  return true;
}

static void
add_entry (struct usage *u, const struct zone_table *table, uint32_t chunk, const uint8_t *e)
{
  const uint32_t data = get_le32 (e), buffer = get_le32 (e + 4);

  if (data == ZONE_NONE)
    return;
  u->chunks_mapped += claim (u, table, data, chunk, USE_DATA);
  if (buffer != ZONE_NONE)
    u->chunks_buffered += claim (u, table, buffer, chunk, USE_BUFFER);
}

static int
read_map (struct bdev *bdev, const struct zone_table *table, const struct meta_sets *sets,
          struct usage *u, uint8_t *buf, struct sh_error *err)
{
  const struct layout *l = &sets->layout;
  uint32_t block, n, i, chunk = 0;

  for (block = 0; block < l->nr_map_blocks; block += n) {
    n = MIN (l->nr_map_blocks - block, PIECE_BLOCKS);
    if (read_blocks (bdev, buf, layout_map_block (l, sets->primary) + block, n, err) == -1)
      return -1;
    for (i = 0; i < n * MAP_ENTRIES && chunk < l->nr_chunks; ++i, ++chunk)
      add_entry (u, table, chunk, buf + (size_t) i * MAP_ENTRY_BYTES);
  }
  return 0;
}

static void
count_zones (struct usage *u, const struct zone_table *table)
{
  uint32_t id;

  for (id = 0; id < table->nr_zones; ++id) {
    if (u->use[id] == USE_METADATA || zone_is_runt (table, id) || zone_is_bad (table, id))
      continue;
    if (zone_is_random (table, id)) {
      u->random++;
      u->random_free += u->use[id] == USE_FREE;
    }
    else {
      u->seq++;
      u->seq_free += u->use[id] == USE_FREE;
    }
  }
}

int
usage_read (struct bdev *bdev, const struct zone_table *table,
            const struct meta_sets *sets, struct usage *usage, struct sh_error *err)
{
  uint8_t *const buf = malloc ((size_t) PIECE_BLOCKS * BLOCK_BYTES);
  uint32_t id;
  int r = -1;

  memset (usage, 0, sizeof *usage);
  usage->chunk = malloc ((size_t) table->nr_zones * sizeof *usage->chunk);
  usage->use = malloc (table->nr_zones);
  if (buf == NULL || usage->chunk == NULL || usage->use == NULL)
    sh_fail (err, ENOMEM, "no memory for the use of %" PRIu32 " zones", table->nr_zones);
  else {
    for (id = 0; id < table->nr_zones; ++id) {
      usage->chunk[id] = ZONE_NONE;
      usage->use[id] = layout_is_meta_zone (&sets->layout, id) ? USE_METADATA :
        zone_is_runt (table, id) || zone_is_bad (table, id) ? USE_NONE : USE_FREE;
    }
    r = read_map (bdev, table, sets, usage, buf, err);
    count_zones (usage, table);
  }
  free (buf);
  if (r == -1)
    usage_free (usage);
  return r;
}

void
usage_free (struct usage *usage)
{
  free (usage->chunk);
  free (usage->use);
  memset (usage, 0, sizeof *usage);
}

static uint64_t
count_bits (const uint8_t *buf, size_t len)
{
  uint64_t n = 0, word;
  size_t i;

  for (i = 0; i < len; i += sizeof word) {
    memcpy (&word, buf + i, sizeof word);
    n += __builtin_popcountll (word);
  }
  return n;
}

int
usage_count_valid (struct bdev *bdev, const struct zone_table *table,
                   const struct meta_sets *sets, const struct usage *usage,
                   uint64_t *blocks, struct sh_error *err)
{
  const struct layout *l = &sets->layout;
  uint8_t *const buf = malloc ((size_t) PIECE_BLOCKS * BLOCK_BYTES);
  const uint32_t run_max = MAX (1u, PIECE_BLOCKS / l->zbm);
  uint32_t id, run, part, n;
  int r = 0;

  *blocks = 0;
  if (buf == NULL)
    return sh_fail (err, ENOMEM, "no memory for a buffer");
  for (id = 0; r == 0 && id < table->nr_zones; id += run) {
    run = 1;
    if (usage->chunk[id] == ZONE_NONE)
      continue;
    while (run < run_max && id + run < table->nr_zones && usage->chunk[id + run] != ZONE_NONE)
      run++;
    for (part = 0; r == 0 && part < run * l->zbm; part += n) {
      n = MIN (run * l->zbm - part, PIECE_BLOCKS);
      r = read_blocks (bdev, buf, layout_bitmap_block (l, sets->primary, id) + part, n, err);
      if (r == 0)
        *blocks += count_bits (buf, (size_t) n * BLOCK_BYTES);
    }
  }
  free (buf);
  return r;
}
