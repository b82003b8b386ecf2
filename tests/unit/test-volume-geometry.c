/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The geometry matrix, through the whole stack (emulated drive, SCSI disk,
 * volume): zones of 1 to 512 MiB, 512n, 512e and 4Kn, few to all zones
 * conventional, with and without a short last zone, and drives beyond 2 and
 * 16 TiB, where 32-bit sector and block numbers end.
 *
 * Each time different patterns go across the borders of chunks, to both ends of the
 * volume, and to an odd place; the volume is closed and opened again, and
 * exactly these bytes must be there, and exactly their blocks be valid.
 */
#undef NDEBUG
#include <config.h>
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/bytes.h"
#include "base/error.h"
#include "scsi/disk.h"
#include "shingle/volume.h"
#include "transport/emu/emu.h"
#include "transport/transport.h"
#include "zoned/check.h"
#include "zoned/format.h"
#include "zoned/running.h"
#include "zoned/zones.h"

#define PIECE_BYTES (64 * KiB)
#define PIECES_MAX 16

struct shape {
  char size[24], zone_size[24], conventional[24], format[8];
};

/* Where a pattern goes; in chunks' order, never overlapping. */
struct piece {
  uint64_t offset;
  uint64_t count;
};

static struct emu *
make_drive (const struct shape *shape)
{
  struct emu_settings s;
  struct sh_error err = { 0 };
  struct emu *emu;

  emu_settings_init (&s);
  ck_assert_int_eq (emu_settings_set (&s, "format", shape->format, &err), 0);
  ck_assert_int_eq (emu_settings_set (&s, "zone_size", shape->zone_size, &err), 0);
  ck_assert_int_eq (emu_settings_set (&s, "size", shape->size, &err), 0);
  ck_assert_int_eq (emu_settings_set (&s, "conventional", shape->conventional, &err), 0);
  ck_assert_msg (emu_settings_complete (&s, &err) == 0, "%s", err.message);
  ck_assert_msg (emu_open_ram (&s, &emu, &err) == 0, "%s", err.message);
  return emu;
}

static struct bdev *
open_disk (struct emu *emu)
{
  const struct disk_options o = { 0 };
  struct sh_error err = { 0 };
  struct transport t;
  struct bdev *bdev;

  emu_make_transport (emu, &t);
  ck_assert_msg (disk_open (&t, &o, &bdev, &err) == 0, "%s", err.message);
  return bdev;
}

static void
format (struct emu *emu)
{
  const struct format_options o = { 0 };
  struct bdev *const bdev = open_disk (emu);
  struct sh_error err = { 0 };
  struct zone_table *t;
  struct format_plan plan;

  ck_assert_msg (zone_table_read (bdev, &t, &err) == 0, "%s", err.message);
  ck_assert_msg (format_make_plan (bdev, t, &o, &plan, &err) == 0, "%s", err.message);
  ck_assert_msg (format_write (bdev, &t, &o, &plan, &err) == 0, "%s", err.message);
  zone_table_free (t);
  bdev_close (bdev);
}

static struct sh_volume *
open_volume (struct emu *emu)
{
  const struct sh_volume_options o = { 0 };
  struct bdev *const bdev = open_disk (emu);
  struct sh_error err = { 0 };
  struct sh_volume *v;

  ck_assert_msg (sh_volume_open (bdev, &o, &v, &err) == 0, "%s", err.message);
  ck_assert_msg (sh_volume_start (v, &err) == 0, "%s", err.message);
  return v;
}

static void
close_volume (struct sh_volume *v)
{
  struct sh_error err = { 0 };

  ck_assert_msg (sh_volume_close (v, &err) == 0, "%s", err.message);
}

static void
add_piece (struct piece *p, unsigned *nr, uint64_t size, uint64_t offset, uint64_t count)
{
  if (offset >= size || count > size - offset)
    return;
  ck_assert_uint_lt (*nr, PIECES_MAX);
  p[(*nr)++] = (struct piece) { offset, count };
}

static unsigned
choose_pieces (struct piece *p, uint64_t size, uint64_t chunk)
{
  static const uint64_t borders[] = { 2 * TiB, 16 * TiB };
  unsigned nr = 0, i;

  add_piece (p, &nr, size, 0, 4096);
  add_piece (p, &nr, size, 12345, 7);
  add_piece (p, &nr, size, chunk - PIECE_BYTES / 2, PIECE_BYTES);
  add_piece (p, &nr, size, 2 * chunk - 4096, 8192);
  for (i = 0; i < ARRAY_SIZE (borders); ++i) {
    add_piece (p, &nr, size, borders[i] - chunk, 4096);
    add_piece (p, &nr, size, borders[i] - PIECE_BYTES / 2, PIECE_BYTES);
    add_piece (p, &nr, size, borders[i] + chunk, 4096);
  }
  if (size > 4 * chunk)
    add_piece (p, &nr, size, size - 4096, 4096);
  return nr;
}

/* A byte that depends on the piece and the place. */
static void
pattern (uint8_t *buf, unsigned piece, uint64_t count)
{
  uint64_t i;

  for (i = 0; i < count; ++i)
    buf[i] = 1 + (piece * 31 + i / 512 * 7 + i) % 255;
}

static void
write_pieces (struct sh_volume *v, const struct piece *p, unsigned nr)
{
  static uint8_t buf[PIECE_BYTES];
  unsigned i;

  for (i = 0; i < nr; ++i) {
    pattern (buf, i, p[i].count);
    ck_assert_msg (sh_volume_pwrite (v, buf, p[i].count, p[i].offset, 0, 0) == 0,
                   "write at %llu: %s", (unsigned long long) p[i].offset, strerror (errno));
  }
}

static bool
is_in_a_piece (const struct piece *p, unsigned nr, uint64_t at)
{
  unsigned i;

  for (i = 0; i < nr; ++i)
    if (at >= p[i].offset && at < p[i].offset + p[i].count)
      return true;
  return false;
}

/* The piece, and zeroes before and behind it where no other piece is. */
static void
verify_pieces (struct sh_volume *v, const struct piece *p, unsigned nr)
{
  static uint8_t buf[PIECE_BYTES], want[PIECE_BYTES];
  const uint64_t size = sh_volume_size (v);
  unsigned i;

  for (i = 0; i < nr; ++i) {
    const uint64_t end = p[i].offset + p[i].count;

    pattern (want, i, p[i].count);
    ck_assert_int_eq (sh_volume_pread (v, buf, p[i].count, p[i].offset, 0), 0);
    ck_assert_msg (memcmp (buf, want, p[i].count) == 0, "piece %u at %llu", i,
                   (unsigned long long) p[i].offset);
    if (p[i].offset > 0 && !is_in_a_piece (p, nr, p[i].offset - 1)) {
      ck_assert_int_eq (sh_volume_pread (v, buf, 1, p[i].offset - 1, 0), 0);
      ck_assert_uint_eq (buf[0], 0);
    }
    if (end < size && !is_in_a_piece (p, nr, end)) {
      ck_assert_int_eq (sh_volume_pread (v, buf, 1, end, 0), 0);
      ck_assert_uint_eq (buf[0], 0);
    }
  }
  ck_assert_int_eq (sh_volume_pread (v, buf, 1, size, 0), -1);
  ck_assert_int_eq (sh_volume_pwrite (v, buf, 1, size, 0, 0), -1);
}

/* Blocks that the pieces touch; none is touched by two. */
static uint64_t
count_blocks (const struct piece *p, unsigned nr)
{
  uint64_t n = 0;
  unsigned i;

  for (i = 0; i < nr; ++i)
    n += (p[i].offset + p[i].count - 1) / BLOCK_BYTES - p[i].offset / BLOCK_BYTES + 1;
  return n;
}

static void
expect_clean (struct emu *emu, uint64_t valid_blocks, bool runt)
{
  const struct check_options o = { 0 };
  struct bdev *const bdev = open_disk (emu);
  struct check_result result;
  struct sh_error err = { 0 };

  ck_assert_msg (check_volume (bdev, &o, &result, &err) == 0, "%s", err.message);
  ck_assert_uint_eq (result.errors, 0);
  ck_assert_uint_eq (result.notes, runt);
  ck_assert_uint_eq (result.valid_blocks, valid_blocks);
  ck_assert_uint_eq (result.layout.nr_bitmap_blocks,
                     (uint64_t) result.layout.nr_zones *
                     MAX (1u, result.layout.zone_blocks / BITMAP_BITS));
  bdev_close (bdev);
}

static void
prove (const struct shape *shape, uint64_t zone_bytes, bool runt)
{
  struct emu *const emu = make_drive (shape);
  struct piece pieces[PIECES_MAX];
  struct sh_volume *v;
  unsigned nr;

  format (emu);
  expect_clean (emu, 0, runt);
  v = open_volume (emu);
  ck_assert_uint_eq (sh_volume_size (v) % zone_bytes, 0);
  nr = choose_pieces (pieces, sh_volume_size (v), zone_bytes);
  write_pieces (v, pieces, nr);
  verify_pieces (v, pieces, nr);
  close_volume (v);
  expect_clean (emu, count_blocks (pieces, nr), runt);
  v = open_volume (emu);
  verify_pieces (v, pieces, nr);
  close_volume (v);
  expect_clean (emu, count_blocks (pieces, nr), runt);
  emu_close (emu);
}

static const unsigned zone_mib[] = { 1, 4, 64, 128, 256, 512 };
static const char *const conventional[] = { "3", "12", "all" };
static const struct {
  const char *format;
  unsigned runt_bytes;
} ends[] = {
  { "512n", 0 }, { "512e", 4096 }, { "512n", 512 }, { "4Kn", 512 * 1024 },
};

#define NR_SMALL (ARRAY_SIZE (zone_mib) * ARRAY_SIZE (conventional) * ARRAY_SIZE (ends))

START_TEST (patterns_survive_on_every_geometry)
{
  const unsigned mib = zone_mib[_i % ARRAY_SIZE (zone_mib)];
  const unsigned j = _i / ARRAY_SIZE (zone_mib);
  const unsigned end = j / ARRAY_SIZE (conventional);
  struct shape s;

  snprintf (s.size, sizeof s.size, "%llu",
            (unsigned long long) (40 * mib * MiB + ends[end].runt_bytes));
  snprintf (s.zone_size, sizeof s.zone_size, "%uM", mib);
  snprintf (s.conventional, sizeof s.conventional, "%s", conventional[j % ARRAY_SIZE (conventional)]);
  snprintf (s.format, sizeof s.format, "%s", ends[end].format);
  prove (&s, mib * MiB, ends[end].runt_bytes != 0);
}
END_TEST

START_TEST (patterns_survive_beyond_2_and_16_tib)
{
  static const unsigned nr_zones[] = { 8300, 66000, 104312 };
  struct shape s;

  snprintf (s.size, sizeof s.size, "%lluM", 256ULL * nr_zones[_i / 2]);
  snprintf (s.zone_size, sizeof s.zone_size, "256M");
  snprintf (s.conventional, sizeof s.conventional, "%u", nr_zones[_i / 2] / 100);
  snprintf (s.format, sizeof s.format, "%s", _i % 2 ? "4Kn" : "512e");
  prove (&s, 256 * MiB, false);
}
END_TEST

/* ---- where data lands ---- */

#define ZONE_256M (256 * MiB)

/* Zones up to `border` take no data, but for those of the metadata: so all data lies
   in zones whose numbers, shifted in 32 bits, are those of the first zones. */
static struct emu *
make_high_drive (uint32_t border, uint32_t nr_meta)
{
  struct sh_error err = { 0 };
  struct shape s;
  struct emu *emu;
  uint32_t z;

  snprintf (s.size, sizeof s.size, "%lluM", 256ULL * (border + 60));
  snprintf (s.zone_size, sizeof s.zone_size, "256M");
  snprintf (s.conventional, sizeof s.conventional, "0-%u+%u-%u", nr_meta - 1, border + 2,
            border + 9);
  snprintf (s.format, sizeof s.format, "512e");
  emu = make_drive (&s);
  for (z = nr_meta; z < border - 1; ++z)
    ck_assert_int_eq (emu_set_zone_cond (emu, z, ZONE_READ_ONLY, &err), 0);
  return emu;
}

/* The content is in the zone that the map names, at its true place on the drive. */
static void
expect_at_its_place (struct sh_volume *v, uint32_t chunk, uint64_t in_chunk, uint32_t border)
{
  static uint8_t here[PIECE_BYTES], there[PIECE_BYTES];
  const uint32_t zone = v->map[chunk].data;

  ck_assert_uint_ge (zone, border - 1);
  ck_assert_int_eq (sh_volume_pread (v, here, PIECE_BYTES, chunk * ZONE_256M + in_chunk, 0), 0);
  ck_assert_int_eq (bdev_read (v->bdev, there, PIECE_BYTES, zone * ZONE_256M + in_chunk), 0);
  ck_assert_int_eq (memcmp (here, there, PIECE_BYTES), 0);
  ck_assert_uint_eq (here[0], 1 + chunk);
}

START_TEST (data_in_zones_beyond_2_and_16_tib_lies_where_it_belongs)
{
  static const struct { uint32_t border, nr_meta; } shapes[] = { { 8192, 2 }, { 65536, 6 } };
  const uint32_t border = shapes[_i].border;
  struct emu *const emu = make_high_drive (border, shapes[_i].nr_meta);
  static uint8_t buf[PIECE_BYTES];
  struct sh_volume *v;
  uint32_t c;

  format (emu);
  v = open_volume (emu);
  /* Streams in even chunks go to sequential zones, the others to random ones. */
  for (c = 0; c < 6; ++c) {
    memset (buf, 1 + c, sizeof buf);
    ck_assert_int_eq (sh_volume_pwrite (v, buf, sizeof buf,
                                        c * ZONE_256M + (c % 2 ? MiB : 0), 0, 0), 0);
  }
  close_volume (v);
  v = open_volume (emu);
  for (c = 0; c < 6; ++c) {
    expect_at_its_place (v, c, c % 2 ? MiB : 0, border);
    ck_assert_uint_eq (zone_is_seq (v->table, v->map[c].data), c % 2 == 0);
  }
  close_volume (v);
  emu_close (emu);
}
END_TEST

int
main (void)
{
  Suite *s = suite_create ("volume geometry");
  TCase *tc = tcase_create ("geometry");
  SRunner *sr;
  int failed;

  tcase_add_loop_test (tc, patterns_survive_on_every_geometry, 0, NR_SMALL);
  tcase_add_loop_test (tc, patterns_survive_beyond_2_and_16_tib, 0, 6);
  tcase_add_loop_test (tc, data_in_zones_beyond_2_and_16_tib_lies_where_it_belongs, 0, 2);
  suite_add_tcase (s, tc);
  sr = srunner_create (s);
  srunner_run_all (sr, CK_NORMAL);
  failed = srunner_ntests_failed (sr);
  srunner_free (sr);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
