/* SPDX-License-Identifier: BSD-3-Clause */
/* Zone rules of the emulated drive: blk-semantics 3.5, row by row. */
#include <config.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "emu-fixture.h"

/* 16 zones of 1 MiB (2048 blocks of 512), 4 of them conventional. */
#define SHAPE "size=16M,zone-size=1M,conventional=4,lbs=512"
#define Z 2048u
#define SEQ(n) ((4u + (n)) * Z)

static uint8_t buf[2 * MiB];

START_TEST (write_crossing_conventional_zones_is_good)
{
  struct emu *emu = fx_drive (SHAPE);

  ck_answer (fx_write (emu, Z - 4, 8, buf), 0);
  ck_answer (fx_write (emu, SEQ (0) - 4, 8, buf), SENSE (0x052105));
  ck_answer (fx_write (emu, SEQ (0), 8, buf), 0);
  ck_answer (fx_write (emu, SEQ (1) - 4, 8, buf), SENSE (0x052105));
  ck_answer (fx_write (emu, SEQ (0) + 16, 8, buf), SENSE (0x052104));
  ck_answer (fx_write (emu, SEQ (0), 8, buf), SENSE (0x052104));
  ck_answer (fx_write (emu, 16 * Z - 4, 8, buf), SENSE (0x052100));
  emu_check (emu);
  emu_close (emu);
}
END_TEST

START_TEST (write_to_conventional_zone_opens_nothing)
{
  struct emu *emu = fx_drive (SHAPE ",zone_max_open=1");

  ck_answer (fx_write (emu, 8, 8, buf), 0);
  ck_assert_uint_eq (fx_get_zone (emu, 0).cond, ZONE_NOT_WP);
  ck_assert_uint_eq (fx_get_zone (emu, 0).wp, UINT64_MAX);
  ck_answer (fx_zone (emu, FX_OPEN, SEQ (0)), 0);
  emu_close (emu);
}
END_TEST

START_TEST (write_checks_are_boundary_full_pointer_resources)
{
  struct emu *emu = fx_drive (SHAPE ",zone_max_open=1");

  ck_answer (fx_write (emu, SEQ (0), Z, buf), 0);
  ck_assert_uint_eq (fx_get_zone (emu, SEQ (0)).cond, ZONE_FULL);
  ck_assert_uint_eq (fx_get_zone (emu, SEQ (0)).wp, SEQ (1));
  /* full zone: boundary first, then full before pointer */
  ck_answer (fx_write (emu, SEQ (1) - 4, 8, buf), SENSE (0x052105));
  ck_answer (fx_write (emu, SEQ (0), 8, buf), SENSE (0x052400));
  /* all open zones explicit: pointer before resources */
  ck_answer (fx_zone (emu, FX_OPEN, SEQ (1)), 0);
  ck_answer (fx_write (emu, SEQ (2) + 8, 8, buf), SENSE (0x052104));
  ck_answer (fx_write (emu, SEQ (2), 8, buf), SENSE (0x07550e));
  ck_answer (fx_zone (emu, FX_CLOSE, SEQ (1)), 0);
  ck_answer (fx_write (emu, SEQ (2), 8, buf), 0);
  emu_check (emu);
  emu_close (emu);
}
END_TEST

START_TEST (implicit_open_closes_the_lowest_implicitly_open_zone)
{
  struct emu *emu = fx_drive (SHAPE ",zone_max_open=2");

  ck_answer (fx_write (emu, SEQ (5), 8, buf), 0);
  ck_answer (fx_write (emu, SEQ (3), 8, buf), 0);
  ck_answer (fx_write (emu, SEQ (7), 8, buf), 0);
  ck_assert_uint_eq (fx_get_zone (emu, SEQ (3)).cond, ZONE_CLOSED);
  ck_assert_uint_eq (fx_get_zone (emu, SEQ (5)).cond, ZONE_IMPLICIT_OPEN);
  ck_assert_uint_eq (fx_get_zone (emu, SEQ (7)).cond, ZONE_IMPLICIT_OPEN);
  /* an explicit open closes one too; two explicit ones exhaust the limit */
  ck_answer (fx_zone (emu, FX_OPEN, SEQ (0)), 0);
  ck_assert_uint_eq (fx_get_zone (emu, SEQ (5)).cond, ZONE_CLOSED);
  ck_answer (fx_zone (emu, FX_OPEN, SEQ (1)), 0);
  ck_assert_uint_eq (fx_get_zone (emu, SEQ (7)).cond, ZONE_CLOSED);
  ck_answer (fx_zone (emu, FX_OPEN, SEQ (2)), SENSE (0x07550e));
  emu_check (emu);
  emu_close (emu);
}
END_TEST

START_TEST (zone_operations_change_conditions_as_specified)
{
  struct emu *emu = fx_drive (SHAPE ",zone_max_open=4");

  ck_answer (fx_zone (emu, FX_OPEN, SEQ (0)), 0);
  ck_assert_uint_eq (fx_get_zone (emu, SEQ (0)).cond, ZONE_EXPLICIT_OPEN);
  ck_answer (fx_zone (emu, FX_OPEN, SEQ (0)), 0);
  ck_answer (fx_zone (emu, FX_CLOSE, SEQ (0)), 0);
  ck_assert_uint_eq (fx_get_zone (emu, SEQ (0)).cond, ZONE_EMPTY);
  ck_answer (fx_write (emu, SEQ (0), 8, buf), 0);
  ck_answer (fx_zone (emu, FX_CLOSE, SEQ (0)), 0);
  ck_assert_uint_eq (fx_get_zone (emu, SEQ (0)).cond, ZONE_CLOSED);
  ck_answer (fx_zone (emu, FX_CLOSE, SEQ (0)), 0);
  ck_answer (fx_zone (emu, FX_FINISH, SEQ (0)), 0);
  ck_assert_uint_eq (fx_get_zone (emu, SEQ (0)).cond, ZONE_FULL);
  ck_assert_uint_eq (fx_get_zone (emu, SEQ (0)).wp, SEQ (1));
  ck_answer (fx_zone (emu, FX_OPEN, SEQ (0)), 0);
  ck_answer (fx_zone (emu, FX_CLOSE, SEQ (0)), 0);
  ck_assert_uint_eq (fx_get_zone (emu, SEQ (0)).cond, ZONE_FULL);
  ck_answer (fx_zone (emu, FX_RESET, SEQ (0)), 0);
  ck_assert_uint_eq (fx_get_zone (emu, SEQ (0)).cond, ZONE_EMPTY);
  ck_assert_uint_eq (fx_get_zone (emu, SEQ (0)).wp, SEQ (0));
  ck_answer (fx_zone (emu, FX_FINISH, SEQ (1)), 0);
  ck_assert_uint_eq (fx_get_zone (emu, SEQ (1)).cond, ZONE_FULL);
  emu_check (emu);
  emu_close (emu);
}
END_TEST

START_TEST (zone_operations_refuse_wrong_addresses)
{
  static const int actions[] = { FX_CLOSE, FX_FINISH, FX_OPEN, FX_RESET };
  struct emu *emu = fx_drive (SHAPE);
  size_t i;

  for (i = 0; i < ARRAY_SIZE (actions); ++i) {
    ck_answer (fx_zone (emu, actions[i], 16 * Z), SENSE (0x052100));
    ck_answer (fx_zone (emu, actions[i], UINT64_MAX), SENSE (0x052100));
    ck_answer (fx_zone (emu, actions[i], SEQ (0) + 1), SENSE (0x052400));
    ck_answer (fx_zone (emu, actions[i], Z), SENSE (0x052400));
  }
  emu_close (emu);
}
END_TEST

START_TEST (zone_operations_with_all_pick_their_zones)
{
  struct emu *emu = fx_drive (SHAPE ",zone_max_open=4");
  size_t nr;
  uint32_t length;
  struct fx_zone z[16];

  ck_answer (fx_write (emu, SEQ (0), 8, buf), 0);
  ck_answer (fx_write (emu, SEQ (1), 8, buf), 0);
  ck_answer (fx_zone (emu, FX_OPEN, SEQ (2)), 0);
  ck_answer (fx_zone_all (emu, FX_CLOSE), 0);
  ck_assert_uint_eq (fx_get_zone (emu, SEQ (0)).cond, ZONE_CLOSED);
  ck_assert_uint_eq (fx_get_zone (emu, SEQ (2)).cond, ZONE_EMPTY);
  ck_answer (fx_zone_all (emu, FX_OPEN), 0);
  ck_assert_uint_eq (fx_get_zone (emu, SEQ (0)).cond, ZONE_EXPLICIT_OPEN);
  ck_assert_uint_eq (fx_get_zone (emu, SEQ (2)).cond, ZONE_EMPTY);
  ck_answer (fx_zone_all (emu, FX_FINISH), 0);
  ck_assert_uint_eq (fx_get_zone (emu, SEQ (1)).cond, ZONE_FULL);
  ck_assert_uint_eq (fx_get_zone (emu, SEQ (2)).cond, ZONE_EMPTY);
  ck_answer (fx_zone_all (emu, FX_RESET), 0);
  ck_answer (fx_report (emu, 0, 0x01, z, 16, &nr, &length), 0);
  ck_assert_uint_eq (nr, 12);
  emu_check (emu);
  emu_close (emu);
}
END_TEST

START_TEST (open_all_fails_as_a_whole_over_the_limit)
{
  struct emu *emu = fx_drive (SHAPE ",zone_max_open=2");
  unsigned i;

  for (i = 0; i < 3; ++i) {
    ck_answer (fx_write (emu, SEQ (i), 8, buf), 0);
    ck_answer (fx_zone (emu, FX_CLOSE, SEQ (i)), 0);
  }
  ck_answer (fx_zone_all (emu, FX_OPEN), SENSE (0x07550e));
  for (i = 0; i < 3; ++i)
    ck_assert_uint_eq (fx_get_zone (emu, SEQ (i)).cond, ZONE_CLOSED);
  emu_close (emu);
}
END_TEST

/* Room is made by closing implicitly open zones, which ALL must not open again. */
START_TEST (open_all_opens_only_what_was_closed_before)
{
  struct emu *emu = fx_drive (SHAPE ",zone_max_open=2");

  ck_answer (fx_write (emu, SEQ (0), 8, buf), 0);
  ck_answer (fx_zone (emu, FX_CLOSE, SEQ (0)), 0);
  ck_answer (fx_write (emu, SEQ (8), 8, buf), 0);
  ck_answer (fx_write (emu, SEQ (9), 8, buf), 0);
  ck_answer (fx_zone_all (emu, FX_OPEN), 0);
  ck_assert_uint_eq (fx_get_zone (emu, SEQ (0)).cond, ZONE_EXPLICIT_OPEN);
  ck_assert_uint_eq (fx_get_zone (emu, SEQ (8)).cond, ZONE_CLOSED);
  ck_assert_uint_eq (fx_get_zone (emu, SEQ (9)).cond, ZONE_IMPLICIT_OPEN);
  emu_check (emu);
  emu_close (emu);
}
END_TEST

START_TEST (reset_zeroes_the_data)
{
  struct emu *emu = fx_drive (SHAPE);
  uint8_t back[4096];

  memset (buf, 0xa5, 4096);
  ck_answer (fx_write (emu, SEQ (0), 8, buf), 0);
  ck_answer (fx_zone (emu, FX_RESET, SEQ (0)), 0);
  ck_answer (fx_read (emu, SEQ (0), 8, back), 0);
  ck_assert_int_eq (fx_stamp_of (back, 0, 4096), 0);
  /* finished: what was never written reads as zeroes too */
  ck_answer (fx_write (emu, SEQ (0), 1, buf), 0);
  ck_answer (fx_zone (emu, FX_FINISH, SEQ (0)), 0);
  ck_answer (fx_read (emu, SEQ (0) + 1, 8, back), 0);
  ck_assert_int_eq (fx_stamp_of (back, 0, 4096), 0);
  emu_close (emu);
}
END_TEST

START_TEST (read_at_the_write_pointer_is_zeroes_when_unrestricted)
{
  struct emu *emu = fx_drive (SHAPE);
  uint8_t back[4096];

  fx_stamp (buf, SEQ (0), 8, 512, 1);
  ck_answer (fx_write (emu, SEQ (0), 8, buf), 0);
  ck_answer (fx_read (emu, SEQ (0), 8, back), 0);
  ck_assert_int_eq (memcmp (back, buf, 4096), 0);
  ck_answer (fx_read (emu, SEQ (0) + 4, 8, back), 0);
  ck_assert_int_eq (memcmp (back, buf + 2048, 2048), 0);
  ck_assert_int_eq (fx_stamp_of (back + 2048, 0, 2048), 0);
  ck_answer (fx_read (emu, SEQ (1) - 4, 8, back), 0);
  emu_close (emu);
}
END_TEST

START_TEST (read_at_the_write_pointer_fails_when_restricted)
{
  struct emu *emu = fx_drive (SHAPE ",urswrz=0");
  uint8_t back[4096], vpd[64];

  ck_answer (fx_inquiry (emu, 0xb6, vpd, sizeof vpd), 0);
  ck_assert_uint_eq (vpd[4] & 1, 0);
  ck_answer (fx_write (emu, SEQ (0), 8, buf), 0);
  ck_answer (fx_read (emu, SEQ (0), 8, back), 0);
  ck_answer (fx_read (emu, SEQ (0) + 4, 8, back), SENSE (0x052106));
  ck_answer (fx_read (emu, SEQ (0) + 8, 1, back), SENSE (0x052106));
  ck_answer (fx_write (emu, SEQ (1), Z, buf), 0);
  ck_answer (fx_write (emu, SEQ (2), Z, buf), 0);
  ck_answer (fx_read (emu, SEQ (2) - 4, 8, back), SENSE (0x052107));
  ck_answer (fx_read (emu, SEQ (2) - 4, 4, back), 0);
  emu_close (emu);
}
END_TEST

START_TEST (read_crossing_zone_types_fails)
{
  struct emu *emu = fx_drive (SHAPE);

  ck_answer (fx_read (emu, Z - 4, 8, buf), 0);
  ck_answer (fx_read (emu, SEQ (0) - 4, 8, buf), SENSE (0x052106));
  ck_answer (fx_read (emu, 16 * Z - 4, 8, buf), SENSE (0x052100));
  emu_close (emu);
}
END_TEST

START_TEST (capacity_below_size_makes_gap_zones)
{
  struct emu *emu = fx_drive (SHAPE ",zone-cap=768K");
  const uint32_t cap = 1536;
  struct fx_zone z[32];
  uint32_t length;
  size_t nr;

  ck_answer (fx_report (emu, 0, 0, z, 32, &nr, &length), 0);
  ck_assert_uint_eq (nr, 28);
  ck_assert_uint_eq (z[4].len, cap);
  ck_assert_uint_eq (z[5].type, ZONE_GAP);
  ck_assert_uint_eq (z[5].start, SEQ (0) + cap);
  ck_assert_uint_eq (z[5].len, Z - cap);
  ck_assert_uint_eq (z[5].wp, UINT64_MAX);
  ck_answer (fx_report (emu, 0, 0x3e, z, 32, &nr, &length), 0);
  ck_assert_uint_eq (nr, 16);
  ck_answer (fx_report (emu, SEQ (0) + cap, 0x3f, z, 32, &nr, &length), 0);
  ck_assert_uint_eq (nr, 12);
  ck_answer (fx_write (emu, SEQ (0) + cap, 8, buf), SENSE (0x052109));
  ck_answer (fx_write (emu, SEQ (0), cap + 1, buf), SENSE (0x052105));
  ck_answer (fx_write (emu, SEQ (0), cap, buf), 0);
  ck_assert_uint_eq (fx_get_zone (emu, SEQ (0)).cond, ZONE_FULL);
  ck_answer (fx_read (emu, SEQ (0) + cap - 4, 8, buf), SENSE (0x052106));
  ck_answer (fx_zone (emu, FX_RESET, SEQ (0) + cap), SENSE (0x052400));
  emu_check (emu);
  emu_close (emu);
}
END_TEST

START_TEST (runt_last_zone_is_shorter_and_works)
{
  struct emu *emu = fx_drive ("size=16896K,zone-size=1M,conventional=4");
  struct fx_zone z;

  z = fx_get_zone (emu, 16 * Z);
  ck_assert_uint_eq (z.len, 1024);
  ck_answer (fx_write (emu, 16 * Z, 1024, buf), 0);
  ck_assert_uint_eq (fx_get_zone (emu, 16 * Z).cond, ZONE_FULL);
  ck_answer (fx_write (emu, 16 * Z + 1020, 8, buf), SENSE (0x052100));
  emu_check (emu);
  emu_close (emu);
}
END_TEST

START_TEST (read_only_zone_is_read_and_refuses_the_rest)
{
  struct emu *emu = fx_drive (SHAPE);
  struct sh_error err = { 0 };
  uint8_t back[4096];

  fx_stamp (buf, SEQ (0), 8, 512, 1);
  ck_answer (fx_write (emu, SEQ (0), 8, buf), 0);
  ck_assert_int_eq (emu_set_zone_cond (emu, 4, ZONE_READ_ONLY, &err), 0);
  ck_assert_uint_eq (fx_get_zone (emu, SEQ (0)).cond, ZONE_READ_ONLY);
  ck_assert_uint_eq (fx_get_zone (emu, SEQ (0)).wp, UINT64_MAX);
  ck_answer (fx_read (emu, SEQ (0), 8, back), 0);
  ck_assert_int_eq (memcmp (back, buf, 4096), 0);
  ck_answer (fx_write (emu, SEQ (0) + 8, 8, buf), SENSE (0x072708));
  ck_answer (fx_zone (emu, FX_RESET, SEQ (0)), SENSE (0x072708));
  ck_assert_int_eq (emu_set_zone_cond (emu, 1, ZONE_READ_ONLY, &err), 0);
  ck_answer (fx_write (emu, Z, 8, buf), SENSE (0x072708));
  ck_answer (fx_write (emu, Z - 4, 8, buf), SENSE (0x072708));
  ck_answer (fx_read (emu, Z, 8, back), 0);
  emu_check (emu);
  emu_close (emu);
}
END_TEST

START_TEST (offline_zone_refuses_every_access)
{
  struct emu *emu = fx_drive (SHAPE);
  struct sh_error err = { 0 };

  ck_answer (fx_write (emu, SEQ (0), 8, buf), 0);
  ck_assert_int_eq (emu_set_zone_cond (emu, 4, ZONE_OFFLINE, &err), 0);
  ck_assert_int_eq (emu_set_zone_cond (emu, 2, ZONE_OFFLINE, &err), 0);
  ck_assert_uint_eq (fx_get_zone (emu, SEQ (0)).cond, ZONE_OFFLINE);
  ck_assert_uint_eq (fx_get_zone (emu, SEQ (0)).wp, UINT64_MAX);
  ck_answer (fx_read (emu, SEQ (0), 8, buf), SENSE (0x072c0e));
  ck_answer (fx_write (emu, SEQ (0) + 8, 8, buf), SENSE (0x072c0e));
  ck_answer (fx_zone (emu, FX_OPEN, SEQ (0)), SENSE (0x072c0e));
  ck_answer (fx_read (emu, 2 * Z, 8, buf), SENSE (0x072c0e));
  ck_answer (fx_read (emu, 2 * Z - 4, 8, buf), SENSE (0x072c0e));
  ck_answer (fx_write (emu, 2 * Z - 4, 8, buf), SENSE (0x072c0e));
  /* and RESET ALL passes it by */
  ck_answer (fx_zone_all (emu, FX_RESET), 0);
  ck_assert_uint_eq (fx_get_zone (emu, SEQ (0)).cond, ZONE_OFFLINE);
  ck_assert_int_eq (emu_set_zone_cond (emu, 4, ZONE_NOT_WP, &err), 0);
  ck_assert_uint_eq (fx_get_zone (emu, SEQ (0)).cond, ZONE_CLOSED);
  emu_check (emu);
  emu_close (emu);
}
END_TEST

START_TEST (set_write_pointer_refuses_conventional_zones_and_other_lbas)
{
  struct emu *emu = fx_drive (SHAPE);
  struct sh_error err = { 0 };

  ck_assert_int_eq (emu_set_wp (emu, 0, 8, &err), -1);
  sh_error_clear (&err);
  ck_assert_int_eq (emu_set_wp (emu, 4, SEQ (0) - 1, &err), -1);
  sh_error_clear (&err);
  ck_assert_int_eq (emu_set_wp (emu, 4, SEQ (1) + 1, &err), -1);
  sh_error_clear (&err);
  ck_assert_int_eq (emu_set_wp (emu, 16, 0, &err), -1);
  sh_error_clear (&err);
  ck_assert_int_eq (emu_set_wp (emu, 4, SEQ (0) + 8, &err), 0);
  ck_assert_uint_eq (fx_get_zone (emu, SEQ (0)).wp, SEQ (0) + 8);
  ck_assert_int_eq (emu_set_wp (emu, 4, SEQ (1), &err), 0);
  ck_assert_uint_eq (fx_get_zone (emu, SEQ (0)).cond, ZONE_FULL);
  emu_check (emu);
  emu_close (emu);
}
END_TEST

START_TEST (report_zones_in_pages_continues_exactly)
{
  struct emu *emu = fx_drive (SHAPE);
  uint32_t first, length;
  struct fx_zone z[8];
  size_t nr, i;

  for (first = 0; first < 16; ++first) {
    uint32_t next = first;

    while (next < 16) {
      ck_answer (fx_report (emu, next * Z + 5, 0x80, z, 7, &nr, &length), 0);
      ck_assert_uint_ge (nr, 1);
      ck_assert_uint_eq (length, nr * 64);
      for (i = 0; i < nr; ++i)
        ck_assert_uint_eq (z[i].start, next++ * Z);
    }
    ck_answer (fx_report (emu, first * Z, 0, z, 7, &nr, &length), 0);
    ck_assert_uint_eq (length, (16 - first) * 64);
    ck_assert_uint_eq (nr, MIN (16 - first, 7));
  }
  emu_close (emu);
}
END_TEST

START_TEST (report_zones_answers_bad_requests_with_the_right_sense)
{
  static const uint8_t unknown[] = { 0x08, 0x0f, 0x12, 0x20, 0x3d };
  struct emu *emu = fx_drive (SHAPE);
  struct fx_zone z[4];
  uint32_t length;
  size_t nr, i;
  uint8_t cdb[16] = { 0x95, 0x00 };

  ck_answer (fx_report (emu, 16 * Z, 0, z, 4, &nr, &length), SENSE (0x052100));
  for (i = 0; i < ARRAY_SIZE (unknown); ++i)
    ck_answer (fx_report (emu, 0, unknown[i], z, 4, &nr, &length), SENSE (0x052400));
  /* no room asked for: good, nothing comes */
  ck_answer (fx_send (emu, cdb, 16, SH_XFER_NONE, NULL, 0), 0);
  emu_close (emu);
}
END_TEST

START_TEST (report_zones_filters_by_condition)
{
  struct emu *emu = fx_drive (SHAPE ",zone_max_open=4");
  struct sh_error err = { 0 };
  struct fx_zone z[16];
  uint32_t length;
  size_t nr, i;
  static const struct { uint8_t option; size_t nr; } want[] = {
    { 0x00, 16 }, { 0x01, 6 }, { 0x02, 1 }, { 0x03, 1 }, { 0x04, 1 }, { 0x05, 1 },
    { 0x06, 1 }, { 0x07, 1 }, { 0x10, 0 }, { 0x11, 0 }, { 0x3e, 16 }, { 0x3f, 4 },
  };

  ck_answer (fx_write (emu, SEQ (0), 8, buf), 0);
  ck_answer (fx_zone (emu, FX_OPEN, SEQ (1)), 0);
  ck_answer (fx_write (emu, SEQ (2), 8, buf), 0);
  ck_answer (fx_zone (emu, FX_CLOSE, SEQ (2)), 0);
  ck_answer (fx_zone (emu, FX_FINISH, SEQ (3)), 0);
  ck_assert_int_eq (emu_set_zone_cond (emu, 8, ZONE_READ_ONLY, &err), 0);
  ck_assert_int_eq (emu_set_zone_cond (emu, 9, ZONE_OFFLINE, &err), 0);
  for (i = 0; i < ARRAY_SIZE (want); ++i) {
    ck_answer (fx_report (emu, 0, want[i].option, z, 16, &nr, &length), 0);
    ck_assert_uint_eq (nr, want[i].nr);
    ck_assert_uint_eq (length, want[i].nr * 64);
  }
  emu_close (emu);
}
END_TEST

START_TEST (other_zone_types_can_be_reported)
{
  struct emu *emu = fx_drive (SHAPE);
  struct sh_error err = { 0 };

  ck_assert_int_eq (emu_set_zone_type (emu, 5, ZONE_SEQ_OR_BEFORE, &err), 0);
  ck_assert_int_eq (emu_set_zone_type (emu, 6, ZONE_GAP, &err), 0);
  ck_assert_uint_eq (fx_get_zone (emu, SEQ (1)).type, ZONE_SEQ_OR_BEFORE);
  ck_assert_uint_eq (fx_get_zone (emu, SEQ (2)).type, ZONE_GAP);
  emu_check (emu);
  emu_close (emu);
}
END_TEST

START_TEST (host_aware_zones_take_writes_anywhere)
{
  struct emu *emu = fx_drive (SHAPE ",model=host-aware");
  uint8_t back[4096], inq[96];
  struct fx_zone z;

  ck_answer (fx_inquiry (emu, -1, inq, sizeof inq), 0);
  ck_assert_uint_eq (inq[0], 0);
  ck_answer (fx_inquiry (emu, 0xb1, inq, 64), 0);
  ck_assert_uint_eq (inq[8] & 0x30, 0x10);
  fx_stamp (buf, SEQ (0) + 16, 8, 512, 1);
  ck_answer (fx_write (emu, SEQ (0) + 16, 8, buf), 0);
  z = fx_get_zone (emu, SEQ (0));
  ck_assert_uint_eq (z.type, ZONE_SEQ_PREFERRED);
  ck_assert_uint_eq (z.wp, SEQ (0) + 24);
  ck_assert (z.non_seq);
  ck_answer (fx_read (emu, SEQ (0) + 16, 8, back), 0);
  ck_assert_int_eq (memcmp (back, buf, 4096), 0);
  ck_answer (fx_write (emu, SEQ (2) - 8, 16, buf), 0);
  ck_assert_uint_eq (fx_get_zone (emu, SEQ (1)).cond, ZONE_FULL);
  ck_assert_uint_eq (fx_get_zone (emu, SEQ (2)).wp, SEQ (2) + 8);
  ck_answer (fx_zone (emu, FX_RESET, SEQ (0)), 0);
  ck_assert (!fx_get_zone (emu, SEQ (0)).non_seq);
  emu_check (emu);
  emu_close (emu);
}
END_TEST

START_TEST (regular_disk_knows_no_zone_commands)
{
  struct emu *emu = fx_drive ("size=16M,model=regular");
  uint8_t buf64[64];
  struct fx_zone z;
  uint32_t length;
  size_t nr;

  ck_answer (fx_report (emu, 0, 0, &z, 1, &nr, &length), SENSE (0x052000));
  ck_answer (fx_zone (emu, FX_RESET, 0), SENSE (0x052000));
  ck_answer (fx_inquiry (emu, 0xb6, buf64, 64), SENSE (0x052400));
  ck_answer (fx_write (emu, 32760, 8, buf), 0);
  emu_close (emu);
}
END_TEST

START_TEST (conventional_zones_can_be_anywhere)
{
  struct emu *emu = fx_drive ("size=16M,zone-size=1M,conventional=0-1+5+15");
  static const uint8_t conv[] = { 0, 1, 5, 15 };
  struct fx_zone z[16];
  uint32_t length;
  size_t nr, i;

  ck_answer (fx_report (emu, 0, 0x3f, z, 16, &nr, &length), 0);
  ck_assert_uint_eq (nr, ARRAY_SIZE (conv));
  for (i = 0; i < nr; ++i)
    ck_assert_uint_eq (z[i].start, conv[i] * Z);
  emu_close (emu);
  emu = fx_drive ("size=16M,zone-size=1M,conventional=0");
  ck_answer (fx_report (emu, 0, 0x3f, z, 16, &nr, &length), 0);
  ck_assert_uint_eq (nr, 0);
  emu_close (emu);
  emu = fx_drive ("size=16M,zone-size=1M,conventional=all");
  ck_answer (fx_report (emu, 0, 0x3f, z, 16, &nr, &length), 0);
  ck_assert_uint_eq (nr, 16);
  emu_close (emu);
}
END_TEST

START_TEST (commands_to_one_zone_take_effect_in_order)
{
  struct emu *emu = fx_drive (SHAPE);
  uint8_t back[4096];

  fx_stamp (buf, SEQ (0), 8, 512, 1);
  ck_answer (fx_write (emu, SEQ (0), 8, buf), 0);
  ck_answer (fx_zone (emu, FX_RESET, SEQ (0)), 0);
  fx_stamp (buf, SEQ (0), 8, 512, 2);
  ck_answer (fx_write (emu, SEQ (0), 8, buf), 0);
  ck_answer (fx_read (emu, SEQ (0), 8, back), 0);
  ck_assert_int_eq (fx_stamp_of (back, SEQ (0), 512), 2);
  emu_close (emu);
}
END_TEST

static Suite *
suite (void)
{
  Suite *s = suite_create ("emu-zones");
  TCase *tc = tcase_create ("zones");

  tcase_add_test (tc, write_crossing_conventional_zones_is_good);
  tcase_add_test (tc, write_to_conventional_zone_opens_nothing);
  tcase_add_test (tc, write_checks_are_boundary_full_pointer_resources);
  tcase_add_test (tc, implicit_open_closes_the_lowest_implicitly_open_zone);
  tcase_add_test (tc, zone_operations_change_conditions_as_specified);
  tcase_add_test (tc, zone_operations_refuse_wrong_addresses);
  tcase_add_test (tc, zone_operations_with_all_pick_their_zones);
  tcase_add_test (tc, open_all_fails_as_a_whole_over_the_limit);
  tcase_add_test (tc, open_all_opens_only_what_was_closed_before);
  tcase_add_test (tc, reset_zeroes_the_data);
  tcase_add_test (tc, read_at_the_write_pointer_is_zeroes_when_unrestricted);
  tcase_add_test (tc, read_at_the_write_pointer_fails_when_restricted);
  tcase_add_test (tc, read_crossing_zone_types_fails);
  tcase_add_test (tc, capacity_below_size_makes_gap_zones);
  tcase_add_test (tc, runt_last_zone_is_shorter_and_works);
  tcase_add_test (tc, read_only_zone_is_read_and_refuses_the_rest);
  tcase_add_test (tc, offline_zone_refuses_every_access);
  tcase_add_test (tc, set_write_pointer_refuses_conventional_zones_and_other_lbas);
  tcase_add_test (tc, report_zones_in_pages_continues_exactly);
  tcase_add_test (tc, report_zones_answers_bad_requests_with_the_right_sense);
  tcase_add_test (tc, report_zones_filters_by_condition);
  tcase_add_test (tc, other_zone_types_can_be_reported);
  tcase_add_test (tc, host_aware_zones_take_writes_anywhere);
  tcase_add_test (tc, regular_disk_knows_no_zone_commands);
  tcase_add_test (tc, conventional_zones_can_be_anywhere);
  tcase_add_test (tc, commands_to_one_zone_take_effect_in_order);
  suite_add_tcase (s, tc);
  return s;
}

int
main (void)
{
  return run_suite (suite ());
}
