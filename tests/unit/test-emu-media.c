/* SPDX-License-Identifier: BSD-3-Clause */
/* The emulated drive as a SCSI target: commands that move data. */
#include <config.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/error.h"
#include "emu-fixture.h"

#define SHAPE "size=16M,zone-size=1M,conventional=4,lbs=512"
#define Z 2048u
#define SEQ(n) ((4u + (n)) * Z)

static uint8_t buf[2 * MiB], back[2 * MiB];

/* ---- data ---- */

START_TEST (zero_blocks_are_no_transfer_and_good)
{
  static const uint8_t ops[] = { 0x28, 0x2a, 0x2f, 0x88, 0x8a, 0x8f, 0xa8, 0xaa };
  struct emu *emu = fx_drive (SHAPE);
  size_t i;

  for (i = 0; i < sizeof ops; ++i) {
    const uint8_t cdb[16] = { ops[i] };
    const unsigned len = ops[i] >= 0xa0 ? 12 : ops[i] >= 0x80 ? 16 : 10;

    ck_answer (fx_send (emu, cdb, len, SH_XFER_NONE, NULL, 0), 0);
    ck_answer (fx_send (emu, cdb, len, SH_XFER_FROM_DEVICE, buf, 512), 0);
    ck_assert_uint_eq (fx_cmd.resid, 512);
  }
  emu_close (emu);
}
END_TEST

START_TEST (direction_mismatch_is_a_host_error_and_changes_nothing)
{
  struct emu *emu = fx_drive (SHAPE);
  const uint8_t write[10] = { 0x2a, [8] = 8 }, read[10] = { 0x28, [8] = 8 };

  memset (buf, 0xa5, 4096);
  ck_answer (fx_send (emu, write, 10, SH_XFER_FROM_DEVICE, buf, 4096), HOST (SH_HOST_ERROR));
  ck_answer (fx_send (emu, write, 10, SH_XFER_NONE, NULL, 0), HOST (SH_HOST_ERROR));
  ck_answer (fx_send (emu, write, 10, SH_XFER_TO_DEVICE, buf, 2048), HOST (SH_HOST_ERROR));
  ck_answer (fx_send (emu, read, 10, SH_XFER_TO_DEVICE, buf, 4096), HOST (SH_HOST_ERROR));
  ck_answer (fx_read (emu, 0, 8, back), 0);
  ck_assert_int_eq (fx_stamp_of (back, 0, 4096), 0);
  emu_close (emu);
}
END_TEST

START_TEST (short_and_long_buffers_are_told_by_the_residual)
{
  struct emu *emu = fx_drive (SHAPE);
  const uint8_t read[10] = { 0x28, [8] = 8 }, write[10] = { 0x2a, [8] = 8 };

  fx_stamp (buf, 0, 16, 512, 1);
  ck_answer (fx_send (emu, write, 10, SH_XFER_TO_DEVICE, buf, 8192), 0);
  ck_assert_uint_eq (fx_cmd.resid, 4096);
  ck_answer (fx_send (emu, read, 10, SH_XFER_FROM_DEVICE, back, 8192), 0);
  ck_assert_uint_eq (fx_cmd.resid, 4096);
  memset (back, 0xee, 8192);
  ck_answer (fx_send (emu, read, 10, SH_XFER_FROM_DEVICE, back, 1000), 0);
  ck_assert_uint_eq (fx_cmd.resid, 0);
  ck_assert_int_eq (memcmp (back, buf, 1000), 0);
  ck_assert_uint_eq (back[1000], 0xee);
  emu_close (emu);
}
END_TEST

/* iovecs of odd lengths, empty ones among them, across a zone's end. */
START_TEST (scattered_buffers_are_read_and_written_in_order)
{
  static const size_t lens[] = { 4096, 0, 512, 1, 511, 4096, 3072, 0, 4096 };
  const uint32_t blocks = 32;
  struct emu *emu = fx_drive (SHAPE);
  struct iovec iov[ARRAY_SIZE (lens)];
  struct sh_command c = { .cdb = { 0x2a, 0, 0, 0, 7, 0xf0, 0, 0, 32 }, .cdb_len = 10,
    .iov = iov, .iovcnt = ARRAY_SIZE (lens), .data_len = 16384, .timeout_ms = 1 };
  size_t i, at = 0;

  fx_stamp (buf, Z - 16, blocks, 512, 3);
  for (i = 0; i < ARRAY_SIZE (lens); ++i) {
    iov[i] = (struct iovec) { buf + at, lens[i] };
    at += lens[i];
  }
  ck_assert_uint_eq (at, 16384);
  c.xfer = SH_XFER_TO_DEVICE;
  ck_assert_int_eq (emu_execute (emu, &c), 0);
  ck_assert_uint_eq (c.status, 0);
  ck_assert_uint_eq (c.resid, 0);
  memset (back, 0, 16384);
  for (i = 0, at = 0; i < ARRAY_SIZE (lens); ++i) {
    iov[i].iov_base = back + at;
    at += lens[i];
  }
  c.cdb[0] = 0x28;
  c.xfer = SH_XFER_FROM_DEVICE;
  ck_assert_int_eq (emu_execute (emu, &c), 0);
  ck_assert_int_eq (memcmp (buf, back, 16384), 0);
  emu_close (emu);
}
END_TEST

START_TEST (reads_and_writes_of_all_sizes_of_cdb_agree)
{
  struct emu *emu = fx_drive (SHAPE);
  const uint8_t w6[6] = { 0x0a, 0, 0, 8, 8 }, r6[6] = { 0x08, 0, 0, 8, 8 };
  const uint8_t w12[12] = { 0xaa, [5] = 16, [9] = 8 }, r10[10] = { 0x28, [5] = 8, [8] = 16 };

  fx_stamp (buf, 8, 16, 512, 1);
  ck_answer (fx_send (emu, w6, 6, SH_XFER_TO_DEVICE, buf, 4096), 0);
  ck_answer (fx_send (emu, w12, 12, SH_XFER_TO_DEVICE, buf + 4096, 4096), 0);
  ck_answer (fx_send (emu, r10, 10, SH_XFER_FROM_DEVICE, back, 8192), 0);
  ck_assert_int_eq (memcmp (buf, back, 8192), 0);
  ck_answer (fx_send (emu, r6, 6, SH_XFER_FROM_DEVICE, back, 4096), 0);
  ck_assert_int_eq (memcmp (buf, back, 4096), 0);
  emu_close (emu);
}
END_TEST

START_TEST (write_protected_drive_refuses_writes)
{
  struct emu *emu = fx_drive (SHAPE ",wp=1");

  ck_answer (fx_write (emu, 0, 8, buf), SENSE (0x072702));
  ck_answer (fx_write (emu, 16 * Z - 4, 8, buf), SENSE (0x052100));
  ck_answer (fx_read (emu, 0, 8, buf), 0);
  emu_close (emu);
}
END_TEST

START_TEST (transfer_longer_than_the_limit_is_refused)
{
  struct emu *emu = fx_drive (SHAPE ",max_transfer=16");

  ck_answer (fx_read (emu, 0, 17, buf), SENSE (0x052400));
  ck_answer (fx_read (emu, 0, 16, buf), 0);
  ck_answer (fx_inquiry (emu, 0xb0, buf, 64), 0);
  ck_assert_uint_eq (get_be32 (buf + 8), 16);
  emu_close (emu);
}
END_TEST

START_TEST (unaligned_sequential_writes_are_refused_when_asked)
{
  struct emu *emu = fx_drive (SHAPE ",physblk_exp=3,write_align=1");

  ck_answer (fx_write (emu, SEQ (0), 4, buf), SENSE (0x052104));
  ck_answer (fx_write (emu, SEQ (0), 8, buf), 0);
  emu_close (emu);
}
END_TEST

START_TEST (virtual_capacity_wraps_at_the_store)
{
  struct emu *emu = fx_drive ("size=1M,virtual_gb=1,model=regular");

  fx_stamp (buf, 2040, 16, 512, 1);
  ck_answer (fx_write (emu, 2048 * 3 - 8, 16, buf), 0);
  ck_answer (fx_read (emu, 2040, 16, back), 0);
  ck_assert_int_eq (memcmp (buf, back, 8192), 0);
  ck_answer (fx_read (emu, GiB / 512, 1, back), SENSE (0x052100));
  emu_close (emu);
}
END_TEST

/* ---- WRITE SAME, UNMAP, VERIFY ---- */

static int64_t
write_same (struct emu *emu, uint8_t flags, uint64_t lba, uint32_t blocks, const void *block)
{
  uint8_t cdb[16] = { 0x93, flags };

  put_be64 (cdb + 2, lba);
  put_be32 (cdb + 10, blocks);
  return fx_send (emu, cdb, 16, block ? SH_XFER_TO_DEVICE : SH_XFER_NONE, (void *) block,
                  block ? emu_get_settings (emu)->lbs_bytes : 0);
}

START_TEST (write_same_repeats_a_block)
{
  struct emu *emu = fx_drive (SHAPE ",write_same_length=2000");
  uint32_t i;

  fx_stamp (buf, 7, 1, 512, 9);
  ck_answer (write_same (emu, 0, 4, 1000, buf), 0);
  ck_answer (fx_read (emu, 0, 1010, back), 0);
  for (i = 0; i < 1010; ++i)
    ck_assert_int_eq (fx_stamp_of (back + 512 * i, 7, 512), i >= 4 && i < 1004 ? 9 : 0);
  ck_answer (write_same (emu, 1, 8, 8, NULL), 0);       /* NDOB */
  ck_answer (fx_read (emu, 8, 8, back), 0);
  ck_assert_int_eq (fx_stamp_of (back, 0, 4096), 0);
  ck_answer (write_same (emu, 0, 0, 2001, buf), SENSE (0x052400));
  ck_answer (write_same (emu, 8, 0, 8, buf), SENSE (0x052400));
  ck_answer (write_same (emu, 0, 16 * Z - 4, 8, buf), SENSE (0x052100));
  emu_close (emu);
}
END_TEST

START_TEST (write_same_obeys_the_write_pointer)
{
  struct emu *emu = fx_drive (SHAPE);

  ck_answer (write_same (emu, 1, SEQ (0) + 8, 8, NULL), SENSE (0x052104));
  ck_answer (write_same (emu, 1, SEQ (0), 8, NULL), 0);
  ck_assert_uint_eq (fx_get_zone (emu, SEQ (0)).wp, SEQ (0) + 8);
  emu_close (emu);
}
END_TEST

static int64_t
unmap (struct emu *emu, unsigned nr, const uint64_t (*ranges)[2])
{
  uint8_t list[8 + 16 * 4] = { 0 }, cdb[10] = { 0x42 };
  unsigned i;

  put_be16 (list, (uint16_t) (6 + 16 * nr));
  put_be16 (list + 2, (uint16_t) (16 * nr));
  for (i = 0; i < nr; ++i) {
    put_be64 (list + 8 + 16 * i, ranges[i][0]);
    put_be32 (list + 16 + 16 * i, (uint32_t) ranges[i][1]);
  }
  put_be16 (cdb + 7, (uint16_t) (8 + 16 * nr));
  return fx_send (emu, cdb, 10, SH_XFER_TO_DEVICE, list, 8 + 16 * nr);
}

START_TEST (unmap_drops_blocks_of_conventional_zones_only)
{
  static const uint64_t ranges[][2] = { { 8, 8 }, { Z - 8, 16 }, { SEQ (0), 8 } };
  static const uint64_t bad[][2] = { { 8, 8 }, { 16 * Z - 4, 8 } };
  struct emu *emu = fx_drive (SHAPE);
  unsigned lbprz;

  ck_answer (unmap (emu, 1, ranges), SENSE (0x052000));
  emu_close (emu);
  for (lbprz = 1; lbprz <= 2; ++lbprz) {
    emu = fx_drive (lbprz == 1 ? SHAPE ",lbpu=1" : SHAPE ",lbpu=1,lbprz=2");
    memset (buf, 0x5a, MiB);
    ck_answer (fx_write (emu, 0, Z, buf), 0);
    ck_answer (fx_write (emu, Z, Z, buf), 0);
    ck_answer (fx_write (emu, SEQ (0), 8, buf), 0);
    ck_answer (unmap (emu, 2, bad), SENSE (0x052100));
    ck_answer (fx_read (emu, 8, 8, back), 0);
    ck_assert_uint_eq (back[0], 0x5a);
    ck_answer (unmap (emu, 3, ranges), 0);
    ck_answer (fx_read (emu, 0, 24, back), 0);
    ck_assert_uint_eq (back[4095], 0x5a);
    ck_assert_uint_eq (back[4096], lbprz == 1 ? 0 : 0xff);
    ck_assert_uint_eq (back[8191], lbprz == 1 ? 0 : 0xff);
    ck_assert_uint_eq (back[8192], 0x5a);
    ck_answer (fx_read (emu, Z - 9, 18, back), 0);
    ck_assert_uint_eq (back[511], 0x5a);
    ck_assert_uint_eq (back[512], lbprz == 1 ? 0 : 0xff);
    ck_assert_uint_eq (back[512 + 8191], lbprz == 1 ? 0 : 0xff);
    ck_assert_uint_eq (back[512 + 8192], 0x5a);
    ck_answer (fx_read (emu, SEQ (0), 8, back), 0);
    ck_assert_uint_eq (back[0], 0x5a);
    emu_close (emu);
  }
}
END_TEST

START_TEST (unmap_keeps_blocks_that_fill_no_granule)
{
  static const uint64_t ranges[][2] = { { 3, 21 } };
  struct emu *emu = fx_drive (SHAPE ",lbpu=1,unmap_granularity=8,unmap_alignment=4");

  memset (buf, 0x5a, 32 * 512);
  ck_answer (fx_write (emu, 0, 32, buf), 0);
  ck_answer (unmap (emu, 1, ranges), 0);
  ck_answer (fx_read (emu, 0, 32, back), 0);
  ck_assert_uint_eq (back[4 * 512 - 1], 0x5a);
  ck_assert_uint_eq (back[4 * 512], 0);
  ck_assert_uint_eq (back[20 * 512 - 1], 0);
  ck_assert_uint_eq (back[20 * 512], 0x5a);
  emu_close (emu);
}
END_TEST

START_TEST (verify_compares)
{
  struct emu *emu = fx_drive (SHAPE);
  uint8_t cdb[10] = { 0x2f, [8] = 8 };

  fx_stamp (buf, 0, 8, 512, 1);
  ck_answer (fx_write (emu, 0, 8, buf), 0);
  ck_answer (fx_send (emu, cdb, 10, SH_XFER_NONE, NULL, 0), 0);
  cdb[1] = 2;
  ck_answer (fx_send (emu, cdb, 10, SH_XFER_TO_DEVICE, buf, 4096), 0);
  buf[4000] ^= 1;
  ck_answer (fx_send (emu, cdb, 10, SH_XFER_TO_DEVICE, buf, 4096), SENSE (0x0e1d00));
  cdb[1] = 4;
  ck_answer (fx_send (emu, cdb, 10, SH_XFER_TO_DEVICE, buf, 4096), SENSE (0x052400));
  cdb[1] = 0;
  put_be32 (cdb + 2, SEQ (0) - 4);
  ck_answer (fx_send (emu, cdb, 10, SH_XFER_NONE, NULL, 0), SENSE (0x052106));
  emu_close (emu);
}
END_TEST

START_TEST (fake_rw_moves_nothing)
{
  struct emu *emu = fx_drive (SHAPE ",fake_rw=1");

  memset (buf, 0x11, 4096);
  ck_answer (fx_write (emu, SEQ (0) + 99, 8, buf), 0);
  ck_assert_uint_eq (fx_cmd.resid, 0);
  ck_assert_uint_eq (fx_get_zone (emu, SEQ (0)).wp, SEQ (0));
  emu_close (emu);
}
END_TEST

START_TEST (first_partition_is_there_when_asked)
{
  struct emu *emu = fx_drive (SHAPE ",num_parts=1");
  const struct emu_settings s = fx_settings (SHAPE ",num_parts=1,conventional=0");
  struct sh_error err = { 0 };
  struct emu *none;

  ck_answer (fx_read (emu, 0, 1, buf), 0);
  ck_assert_uint_eq (buf[510], 0x55);
  ck_assert_uint_eq (buf[450], 0x83);
  emu_close (emu);
  ck_assert_int_eq (emu_open_ram (&s, &none, &err), -1);
}
END_TEST

START_TEST (atomic_writes_are_whole_or_refused)
{
  static const struct { uint64_t lba; uint16_t boundary, blocks; int64_t answer; } cases[] = {
    { 8, 0, 16, 0 }, { 9, 0, 16, SENSE (0x052400) }, { 8, 0, 15, SENSE (0x052400) },
    { 8, 0, 130, SENSE (0x052400) }, { 8, 130, 16, SENSE (0x052400) }, { 8, 8, 16, 0 },
    { 16 * Z - 8, 0, 16, SENSE (0x052100) }, { SEQ (0) + 8, 0, 8, SENSE (0x052104) },
  };
  struct emu *emu = fx_drive (SHAPE ",atomic_wr=1,cache=tracked");
  size_t i;

  for (i = 0; i < ARRAY_SIZE (cases); ++i) {
    uint8_t cdb[16] = { 0x9c };

    put_be64 (cdb + 2, cases[i].lba);
    put_be16 (cdb + 10, cases[i].boundary);
    put_be16 (cdb + 12, cases[i].blocks);
    fx_stamp (buf, cases[i].lba, cases[i].blocks, 512, 1);
    ck_answer (fx_send (emu, cdb, 16, SH_XFER_TO_DEVICE, buf, cases[i].blocks * 512u),
               cases[i].answer);
  }
  ck_assert_int_eq (emu_power_cut (emu, 1, EMU_CUT_LOSE_ALL, true), 0);
  ck_answer (fx_tur (emu), SENSE (0x062901));
  ck_answer (fx_read (emu, 8, 16, back), 0);
  fx_stamp (buf, 8, 16, 512, 1);
  ck_assert_int_eq (memcmp (buf, back, 8192), 0);
  ck_answer (fx_inquiry (emu, 0xb0, back, 64), 0);
  ck_assert_uint_eq (get_be32 (back + 44), 128);
  emu_close (emu);
}
END_TEST

START_TEST (uuid_is_told_when_asked)
{
  struct emu *emu = fx_drive (SHAPE ",uuid_ctl=1,serial=S");
  size_t len;

  ck_answer (fx_inquiry (emu, 0x83, buf, 128), 0);
  len = 4u + get_be16 (buf + 2);
  ck_assert_uint_eq (buf[len - 21], 0x0a);
  ck_assert_uint_eq (buf[len - 19], 18);
  emu_close (emu);
}
END_TEST

/* What this process holds and the kernel cannot have for the asking. */
static size_t
resident_bytes (void)
{
  FILE *f = fopen ("/proc/self/smaps_rollup", "r");
  char line[128];
  size_t kib, resident = 0, lent = 0;

  ck_assert_ptr_nonnull (f);
  while (fgets (line, sizeof line, f))
    if (sscanf (line, "Rss: %zu", &kib) == 1)
      resident = kib;
    else if (sscanf (line, "LazyFree: %zu", &kib) == 1)
      lent = kib;
  fclose (f);
  ck_assert_uint_gt (resident, lent);
  return (resident - lent) * KiB;
}

START_TEST (reset_and_unmap_give_the_memory_of_a_ram_drive_back)
{
  struct emu *emu = fx_drive ("size=256M,zone-size=1M,conventional=128,lbpu=1");
  static const uint64_t all[][2] = { { 0, 128 * Z } };
  const size_t before = resident_bytes ();
  uint64_t lba;

  memset (buf, 0x77, MiB);
  for (lba = 0; lba < 256 * Z; lba += Z)
    ck_answer (fx_write (emu, lba, Z, buf), 0);
  ck_assert_uint_gt (resident_bytes (), before + 250 * MiB);
  ck_answer (unmap (emu, 1, all), 0);
  ck_answer (fx_zone_all (emu, FX_RESET), 0);
  ck_assert_uint_lt (resident_bytes (), before + 40 * MiB);
  /* Old bytes never show in what is taken again, written in part. */
  for (lba = 0; lba < 256 * Z; lba += Z)
    ck_answer (fx_write (emu, lba, 8, buf), 0);
  for (lba = 0; lba < 256 * Z; lba += Z) {
    ck_answer (fx_read (emu, lba, Z, back), 0);
    ck_assert_mem_eq (back, buf, 8 * 512);
    ck_assert_int_eq (back[8 * 512], 0);
    ck_assert_mem_eq (back + 8 * 512, back + 8 * 512 + 1, MiB - 8 * 512 - 1);
  }
  ck_assert_uint_lt (resident_bytes (), before + 60 * MiB);
  emu_close (emu);
}
END_TEST

/* 28 TB in a drive that nothing was written to. */
START_TEST (large_drive_needs_little_memory)
{
  const size_t before = resident_bytes ();
  struct emu *emu = fx_drive ("size=28T,zone-size=256M,conventional=1043");

  ck_assert_uint_eq (fx_get_zone (emu, 28 * TiB / 512 - 1).cond, ZONE_EMPTY);
  ck_assert_uint_lt (resident_bytes (), before + 4 * MiB);
  emu_close (emu);
}
END_TEST

static Suite *
suite (void)
{
  Suite *s = suite_create ("emu-media");
  TCase *tc = tcase_create ("media");

  tcase_add_test (tc, zero_blocks_are_no_transfer_and_good);
  tcase_add_test (tc, direction_mismatch_is_a_host_error_and_changes_nothing);
  tcase_add_test (tc, short_and_long_buffers_are_told_by_the_residual);
  tcase_add_test (tc, scattered_buffers_are_read_and_written_in_order);
  tcase_add_test (tc, reads_and_writes_of_all_sizes_of_cdb_agree);
  tcase_add_test (tc, write_protected_drive_refuses_writes);
  tcase_add_test (tc, transfer_longer_than_the_limit_is_refused);
  tcase_add_test (tc, unaligned_sequential_writes_are_refused_when_asked);
  tcase_add_test (tc, virtual_capacity_wraps_at_the_store);
  tcase_add_test (tc, write_same_repeats_a_block);
  tcase_add_test (tc, write_same_obeys_the_write_pointer);
  tcase_add_test (tc, unmap_drops_blocks_of_conventional_zones_only);
  tcase_add_test (tc, unmap_keeps_blocks_that_fill_no_granule);
  tcase_add_test (tc, verify_compares);
  tcase_add_test (tc, fake_rw_moves_nothing);
  tcase_add_test (tc, first_partition_is_there_when_asked);
  tcase_add_test (tc, atomic_writes_are_whole_or_refused);
  tcase_add_test (tc, uuid_is_told_when_asked);
  tcase_add_test (tc, reset_and_unmap_give_the_memory_of_a_ram_drive_back);
  tcase_add_test (tc, large_drive_needs_little_memory);
  suite_add_tcase (s, tc);
  return s;
}

int
main (void)
{
  return run_suite (suite ());
}
