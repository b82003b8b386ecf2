/* SPDX-License-Identifier: BSD-3-Clause */
#undef NDEBUG
#include <config.h>
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/bytes.h"
#include "zoned-volume.h"

static const uint8_t uuid[16] = "volume uuid 1234", dev_uuid[16] = "device uuid 5678";

static struct zone_table *
read_table (struct fake *f)
{
  struct sh_error err = { 0 };
  struct zone_table *t = NULL;

  if (zone_table_read (&f->bdev, &t, &err) == -1) {
    fprintf (stderr, "%s\n", err.message);
    abort ();
  }
  return t;
}

struct layout
volume_format (struct fake *f, const struct format_options *options)
{
  struct format_options o = *options;
  struct zone_table *t = read_table (f);
  struct sh_error err = { 0 };
  struct format_plan plan;

  o.uuid = uuid;
  o.dev_uuid = dev_uuid;
  if (format_make_plan (&f->bdev, t, &o, &plan, &err) == -1 ||
      format_write (&f->bdev, &t, &o, &plan, &err) == -1) {
    fprintf (stderr, "%s\n", err.message);
    abort ();
  }
  zone_table_free (t);
  return plan.layout;
}

void
volume_map (struct fake *f, const struct layout *l, int sets, uint32_t chunk,
            uint32_t data, uint32_t buffer)
{
  int set;

  for (set = 0; set < 2; ++set)
    if (sets & 1 << set) {
      uint8_t *const e = f->data + layout_map_block (l, set) * BLOCK_BYTES +
                         (size_t) chunk * MAP_ENTRY_BYTES;

      put_le32 (e, data);
      put_le32 (e + 4, buffer);
    }
}

void
volume_bits (struct fake *f, const struct layout *l, int sets, uint32_t zone,
             uint32_t first, uint32_t nr, bool value)
{
  uint32_t b;
  int set;

  for (set = 0; set < 2; ++set)
    for (b = first; sets & 1 << set && b < first + nr; ++b) {
      uint8_t *const byte = f->data + layout_bitmap_block (l, set, zone) * BLOCK_BYTES + b / 8;

      if (value)
        *byte |= 1 << b % 8;
      else
        *byte &= ~(1 << b % 8);
    }
}

void
volume_generation (struct fake *f, const struct layout *l, int set, uint64_t gen)
{
  uint8_t *const block = f->data + layout_set_block (l, set) * BLOCK_BYTES;
  struct super s;

  super_decode (block, &s);
  s.gen = gen;
  super_encode (&s, block);
}

struct sample_zones
sample_zones (const struct zone_table *t, const struct layout *l)
{
  const uint32_t random = l->sb_zone + 2 * l->nr_meta_zones, seq = t->nr_random;

  return (struct sample_zones) {
    .random = random, .buffer = random + 1,
    .seq = seq, .buffered = seq + 1, .empty = seq + 2, .free_seq = seq + 3,
  };
}

struct layout
volume_sample (struct fake *f)
{
  const struct layout l = volume_format (f, &(struct format_options) { .label = "sample" });
  struct zone_table *t = read_table (f);
  const struct sample_zones z = sample_zones (t, &l);

  assert (z.buffer < t->nr_random && z.free_seq < t->nr_zones);
  volume_map (f, &l, BOTH, 0, z.random, ZONE_NONE);
  volume_bits (f, &l, BOTH, z.random, 7, 5, true);
  volume_map (f, &l, BOTH, 1, z.seq, ZONE_NONE);
  volume_bits (f, &l, BOTH, z.seq, 0, 100, true);
  fake_set_wp (f, z.seq, 100 * BLOCK_BYTES);
  volume_map (f, &l, BOTH, 2, z.buffered, z.buffer);
  volume_bits (f, &l, BOTH, z.buffered, 0, 40, true);
  volume_bits (f, &l, BOTH, z.buffer, 45, 16, true);
  fake_set_wp (f, z.buffered, 50 * BLOCK_BYTES);
  volume_map (f, &l, BOTH, 3, z.empty, ZONE_NONE);
  zone_table_free (t);
  return l;
}

static void
collect (void *opaque, enum check_kind kind, const char *text)
{
  struct findings *f = opaque;
  const size_t used = strlen (f->text);

  snprintf (f->text + used, sizeof f->text - used, "%c %s\n",
            kind == CHECK_ERROR ? 'E' : 'N', text);
}

void
volume_check (struct fake *f, bool repair, struct findings *findings)
{
  const struct check_options o = {
    .repair = repair, .report = collect, .report_opaque = findings,
  };

  findings->text[0] = '\0';
  sh_error_clear (&findings->err);
  findings->status = check_volume (&f->bdev, &o, &findings->result, &findings->err);
}

size_t
metadata_bytes (const struct layout *l)
{
  return 2 * (size_t) l->nr_meta_zones * l->zone_blocks * BLOCK_BYTES;
}

uint8_t *
metadata_copy (const struct fake *f, const struct layout *l)
{
  uint8_t *copy = malloc (metadata_bytes (l));

  assert (copy != NULL);
  memcpy (copy, f->data + layout_set_block (l, 0) * BLOCK_BYTES, metadata_bytes (l));
  return copy;
}
