/* SPDX-License-Identifier: BSD-3-Clause */
/* The emulated drive as a SCSI target: identity, sense, readiness, time. */
#include <config.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/error.h"
#include "emu-fixture.h"
#include "transport/transport.h"

#define SHAPE "size=16M,zone-size=1M,conventional=4,lbs=512"
#define Z 2048u
#define SEQ(n) ((4u + (n)) * Z)

static uint8_t buf[2 * MiB], back[2 * MiB];

static int64_t
send6 (struct emu *emu, uint8_t op, uint8_t b1, uint8_t b2, uint8_t b3, uint8_t b4,
       enum sh_xfer xfer, void *data, size_t len)
{
  const uint8_t cdb[6] = { op, b1, b2, b3, b4 };

  return fx_send (emu, cdb, 6, xfer, data, len);
}

/* ---- identity ---- */

START_TEST (inquiry_tells_the_model)
{
  static const struct { const char *settings; uint8_t type; } cases[] = {
    { SHAPE, 0x14 },
    { SHAPE ",model=host-aware", 0x00 },
    { "size=16M,model=regular", 0x00 },
    { SHAPE ",zbc=host-managed", 0x14 },
    { "size=16M,model=regular,ptype=1", 0x01 },
  };
  size_t i;

  for (i = 0; i < ARRAY_SIZE (cases); ++i) {
    struct emu *emu = fx_drive (cases[i].settings);

    ck_answer (fx_inquiry (emu, -1, buf, 96), 0);
    ck_assert_uint_eq (buf[0], cases[i].type);
    ck_assert_uint_eq (buf[4], 91);
    ck_assert_int_eq (memcmp (buf + 8, "Shingle emulated drive  0001", 28), 0);
    emu_close (emu);
  }
}
END_TEST

START_TEST (inquiry_texts_are_settings)
{
  struct emu *emu = fx_drive (SHAPE ",inq_vendor=ACME,inq-product=Disk,inq_rev=9,removable=1");

  ck_answer (fx_inquiry (emu, -1, buf, 96), 0);
  ck_assert_uint_eq (buf[1], 0x80);
  ck_assert_int_eq (memcmp (buf + 8, "ACME    Disk            9   ", 28), 0);
  emu_close (emu);
}
END_TEST

START_TEST (inquiry_data_is_cut_at_the_allocation_length)
{
  struct emu *emu = fx_drive (SHAPE);

  ck_answer (send6 (emu, 0x12, 0, 0, 0, 36, SH_XFER_FROM_DEVICE, buf, 96), 0);
  ck_assert_uint_eq (fx_cmd.resid, 60);
  ck_answer (send6 (emu, 0x12, 0, 0, 0, 0, SH_XFER_NONE, NULL, 0), 0);
  ck_answer (send6 (emu, 0x12, 0, 0x80, 0, 96, SH_XFER_FROM_DEVICE, buf, 96),
             SENSE (0x052400));
  ck_answer (send6 (emu, 0x12, 1, 0xb5, 0, 96, SH_XFER_FROM_DEVICE, buf, 96),
             SENSE (0x052400));
  emu_close (emu);
}
END_TEST

START_TEST (vpd_pages_are_those_that_page_0_lists)
{
  struct emu *emu = fx_drive (SHAPE ",serial=S123");
  static const uint8_t want[] = { 0x00, 0x80, 0x83, 0xb0, 0xb1, 0xb2, 0xb6 };
  uint8_t page[256];
  size_t i;

  ck_answer (fx_inquiry (emu, 0, buf, 64), 0);
  ck_assert_uint_eq (get_be16 (buf + 2), sizeof want);
  ck_assert_int_eq (memcmp (buf + 4, want, sizeof want), 0);
  for (i = 0; i < sizeof want; ++i) {
    ck_answer (fx_inquiry (emu, want[i], page, sizeof page), 0);
    ck_assert_uint_eq (page[0], 0x14);
    ck_assert_uint_eq (page[1], want[i]);
    ck_assert_uint_eq (sizeof page - fx_cmd.resid, 4u + get_be16 (page + 2));
  }
  ck_answer (fx_inquiry (emu, 0x80, page, sizeof page), 0);
  ck_assert_int_eq (memcmp (page + 4, "S123", 4), 0);
  emu_close (emu);
}
END_TEST

START_TEST (vpd_b6_tells_the_zone_limits)
{
  struct emu *emu = fx_drive (SHAPE ",zone_max_open=5");

  ck_answer (fx_inquiry (emu, 0xb6, buf, 64), 0);
  ck_assert_uint_eq (buf[4], 1);
  ck_assert_uint_eq (get_be32 (buf + 8), UINT32_MAX);
  ck_assert_uint_eq (get_be32 (buf + 12), UINT32_MAX);
  ck_assert_uint_eq (get_be32 (buf + 16), 5);
  emu_close (emu);
  emu = fx_drive (SHAPE ",zone_max_open=0");
  ck_answer (fx_inquiry (emu, 0xb6, buf, 64), 0);
  ck_assert_uint_eq (get_be32 (buf + 16), UINT32_MAX);
  emu_close (emu);
  emu = fx_drive (SHAPE ",zone_cap=768K");
  ck_answer (fx_inquiry (emu, 0xb6, buf, 64), 0);
  ck_assert_uint_eq (buf[23], 8);
  ck_assert_uint_eq (get_be64 (buf + 24), Z);
  emu_close (emu);
}
END_TEST

/* scsi_debug's rule: with no more zones than the limit, half of them. */
START_TEST (open_limit_is_half_the_zones_of_a_small_drive)
{
  struct emu *emu = fx_drive ("size=6M,zone-size=1M,zone_max_open=8");

  ck_assert_uint_eq (emu_get_settings (emu)->max_open, 2);
  emu_close (emu);
}
END_TEST

START_TEST (capacity_and_block_sizes_are_told)
{
  static const struct { const char *format; uint32_t lbs; uint8_t exp; } cases[] = {
    { "512n", 512, 0 }, { "512e", 512, 3 }, { "4Kn", 4096, 0 },
  };
  uint8_t cdb[16] = { 0x9e, 0x10, [13] = 32 };
  size_t i;

  for (i = 0; i < ARRAY_SIZE (cases); ++i) {
    char settings[64] = "size=16M,zone-size=1M,format=";
    struct emu *emu = fx_drive (strcat (settings, cases[i].format));

    ck_answer (fx_send (emu, cdb, 16, SH_XFER_FROM_DEVICE, buf, 32), 0);
    ck_assert_uint_eq (get_be64 (buf), 16 * MiB / cases[i].lbs - 1);
    ck_assert_uint_eq (get_be32 (buf + 8), cases[i].lbs);
    ck_assert_uint_eq (buf[13] & 15, cases[i].exp);
    ck_assert_uint_eq (buf[12] >> 4 & 3, 1);
    emu_close (emu);
  }
}
END_TEST

START_TEST (capacity_10_says_that_it_is_too_large_for_it)
{
  struct emu *emu = fx_drive ("size=3T,zone-size=256M");
  const uint8_t cdb[10] = { 0x25 };

  ck_answer (fx_send (emu, cdb, 10, SH_XFER_FROM_DEVICE, buf, 8), 0);
  ck_assert_uint_eq (get_be32 (buf), UINT32_MAX);
  ck_assert_uint_eq (get_be32 (buf + 4), 512);
  emu_close (emu);
}
END_TEST

START_TEST (mode_pages_tell_cache_fua_and_protection)
{
  struct emu *emu = fx_drive (SHAPE);
  struct sh_error err = { 0 };

  ck_answer (send6 (emu, 0x1a, 8, 8, 0, 64, SH_XFER_FROM_DEVICE, buf, 64), 0);
  ck_assert_uint_eq (buf[2], 0x10);
  ck_assert_uint_eq (buf[3], 0);
  ck_assert_uint_eq (buf[4] & 0x3f, 8);
  ck_assert_uint_eq (buf[6] & 4, 4);
  ck_assert_int_eq (emu_set (emu, "wp", "1", &err), 0);
  ck_assert_int_eq (emu_set (emu, "cache", "off", &err), 0);
  ck_answer (send6 (emu, 0x1a, 0, 0x3f, 0, 255, SH_XFER_FROM_DEVICE, buf, 255), 0);
  ck_assert_uint_eq (buf[2], 0x90);
  ck_assert_uint_eq (buf[3], 8);
  ck_assert_uint_eq (get_be32 (buf + 8), 512);
  ck_assert_uint_eq (buf[0], 255 - fx_cmd.resid - 1);
  ck_assert_uint_eq (buf[12 + 12 + 2] & 4, 0);
  ck_answer (send6 (emu, 0x1a, 8, 0xc8, 0, 64, SH_XFER_FROM_DEVICE, buf, 64),
             SENSE (0x053900));
  ck_answer (send6 (emu, 0x1a, 8, 0x1c, 0, 64, SH_XFER_FROM_DEVICE, buf, 64),
             SENSE (0x052400));
  emu_close (emu);
}
END_TEST

START_TEST (mode_select_turns_cache_and_descriptor_sense)
{
  struct emu *emu = fx_drive (SHAPE);
  uint8_t list[4 + 20] = { [4] = 8, [5] = 18 };
  uint8_t control[4 + 12] = { [4] = 0x0a, [5] = 10, [6] = 4 };

  ck_answer (send6 (emu, 0x15, 0x10, 0, 0, sizeof list, SH_XFER_TO_DEVICE, list, sizeof list), 0);
  ck_answer (send6 (emu, 0x1a, 8, 8, 0, 64, SH_XFER_FROM_DEVICE, buf, 64), 0);
  ck_assert_uint_eq (buf[6] & 4, 0);
  ck_answer (send6 (emu, 0x15, 0x10, 0, 0, sizeof control, SH_XFER_TO_DEVICE, control,
                    sizeof control), 0);
  ck_answer (fx_write (emu, SEQ (0) + 8, 8, buf), SENSE (0x052104));
  ck_assert_uint_eq (fx_cmd.sense[0], 0x72);
  list[5] = 200;
  ck_answer (send6 (emu, 0x15, 0x10, 0, 0, sizeof list, SH_XFER_TO_DEVICE, list, sizeof list),
             SENSE (0x051a00));
  emu_close (emu);
}
END_TEST

START_TEST (report_luns_lists_lun_0)
{
  struct emu *emu = fx_drive (SHAPE);
  uint8_t cdb[12] = { 0xa0, [9] = 16 };

  ck_answer (fx_send (emu, cdb, 12, SH_XFER_FROM_DEVICE, buf, 16), 0);
  ck_assert_uint_eq (get_be32 (buf), 8);
  cdb[2] = 3;
  ck_answer (fx_send (emu, cdb, 12, SH_XFER_FROM_DEVICE, buf, 16), SENSE (0x052400));
  emu_close (emu);
}
END_TEST

/* ---- operations ---- */

static int64_t
report_opcode (struct emu *emu, uint8_t option, uint8_t opcode, uint16_t action)
{
  uint8_t cdb[12] = { 0xa3, 0x0c, option, opcode };

  put_be16 (cdb + 4, action);
  put_be32 (cdb + 6, 4096);
  memset (buf, 0, 4096);
  return fx_send (emu, cdb, 12, SH_XFER_FROM_DEVICE, buf, 4096);
}

/* Every listed command is told with usage data when asked for alone. */
START_TEST (supported_opcodes_are_listed_and_told_one_by_one)
{
  struct emu *emu = fx_drive (SHAPE);
  uint8_t list[4096];
  uint32_t at, len;

  ck_answer (report_opcode (emu, 0, 0, 0), 0);
  memcpy (list, buf, sizeof list);
  len = get_be32 (list);
  ck_assert_uint_gt (len, 20 * 8);
  for (at = 4; at < 4 + len; at += 8) {
    const bool has_action = list[at + 5] & 1;

    ck_answer (report_opcode (emu, has_action ? 2 : 1, list[at], get_be16 (list + at + 2)), 0);
    ck_assert_uint_eq (buf[1] & 7, 3);
    ck_assert_uint_eq (get_be16 (buf + 2), get_be16 (list + at + 6));
    ck_assert_uint_eq (buf[4], list[at]);
    ck_answer (report_opcode (emu, has_action ? 1 : 2, list[at], 0), SENSE (0x052400));
  }
  ck_answer (report_opcode (emu, 1, 0x42, 0), 0);       /* UNMAP needs lbpu */
  ck_assert_uint_eq (buf[1] & 7, 1);
  ck_answer (report_opcode (emu, 2, 0x95, 6), 0);
  ck_assert_uint_eq (buf[1] & 7, 1);
  emu_close (emu);
}
END_TEST

START_TEST (unknown_commands_get_the_right_sense)
{
  struct emu *emu = fx_drive (SHAPE);
  const uint8_t unknown[6] = { 0x02 }, action[16] = { 0x9e, 0x1f }, zone[16] = { 0x94, 0x09 };

  ck_answer (fx_send (emu, unknown, 6, SH_XFER_NONE, NULL, 0), SENSE (0x052000));
  ck_answer (fx_send (emu, action, 16, SH_XFER_NONE, NULL, 0), SENSE (0x052400));
  /* the field pointer: byte 1, bit 4, in the CDB */
  ck_assert_uint_eq (fx_cmd.sense[15], 0xcc);
  ck_assert_uint_eq (get_be16 (fx_cmd.sense + 16), 1);
  ck_answer (fx_send (emu, zone, 16, SH_XFER_NONE, NULL, 0), SENSE (0x052400));
  emu_close (emu);
}
END_TEST

START_TEST (strict_refuses_reserved_bits)
{
  struct emu *emu = fx_drive (SHAPE ",strict=1");

  ck_answer (send6 (emu, 0x00, 0, 0, 0x10, 0, SH_XFER_NONE, NULL, 0), SENSE (0x052400));
  ck_assert_uint_eq (fx_cmd.sense[15], 0xcc);
  ck_assert_uint_eq (get_be16 (fx_cmd.sense + 16), 3);
  ck_answer (fx_tur (emu), 0);
  emu_close (emu);
}
END_TEST

START_TEST (sense_comes_in_the_format_that_is_set)
{
  struct emu *emu = fx_drive (SHAPE ",dsense=1");

  ck_answer (fx_read (emu, UINT64_MAX - 1, 1, buf), SENSE (0x052100));
  ck_assert_uint_eq (fx_cmd.sense[0], 0x72);
  ck_assert_uint_eq (fx_cmd.sense_len, 8 + fx_cmd.sense[7]);
  ck_assert_uint_eq (fx_cmd.sense[8], 0);
  ck_assert_uint_eq (get_be64 (fx_cmd.sense + 12), UINT64_MAX - 1);
  emu_close (emu);
  emu = fx_drive (SHAPE);
  ck_answer (fx_read (emu, 16 * Z, 1, buf), SENSE (0x052100));
  ck_assert_uint_eq (fx_cmd.sense[0], 0xf0);
  ck_assert_uint_eq (fx_cmd.sense_len, 18);
  ck_assert_uint_eq (get_be32 (fx_cmd.sense + 3), 16 * Z);
  emu_close (emu);
}
END_TEST

/* ---- attention and readiness ---- */

START_TEST (first_command_after_power_on_gets_unit_attention)
{
  struct emu *emu = fx_raw_drive (SHAPE);

  ck_answer (fx_inquiry (emu, -1, buf, 96), 0);
  ck_answer (fx_read (emu, 0, 8, buf), SENSE (0x062901));
  ck_answer (fx_read (emu, 0, 8, buf), 0);
  emu_unit_attention (emu, 0x29, 0x00);
  ck_answer (fx_tur (emu), SENSE (0x062900));
  ck_answer (fx_tur (emu), 0);
  emu_close (emu);
}
END_TEST

START_TEST (request_sense_returns_and_clears_the_attention)
{
  struct emu *emu = fx_raw_drive (SHAPE);

  ck_answer (send6 (emu, 0x03, 0, 0, 0, 18, SH_XFER_FROM_DEVICE, buf, 18), 0);
  ck_assert_uint_eq (buf[2], 6);
  ck_assert_uint_eq (get_be16 (buf + 12), 0x2901);
  ck_answer (fx_tur (emu), 0);
  ck_answer (send6 (emu, 0x03, 1, 0, 0, 18, SH_XFER_FROM_DEVICE, buf, 18), 0);
  ck_assert_uint_eq (buf[0], 0x72);
  ck_assert_uint_eq (buf[1], 0);
  emu_close (emu);
}
END_TEST

START_TEST (stopped_unit_is_not_ready_until_it_is_started)
{
  struct emu *emu = fx_drive (SHAPE);

  ck_answer (send6 (emu, 0x1b, 0, 0, 0, 0, SH_XFER_NONE, NULL, 0), 0);
  ck_answer (fx_tur (emu), SENSE (0x020402));
  ck_answer (fx_read (emu, 0, 8, buf), SENSE (0x020402));
  ck_answer (fx_inquiry (emu, -1, buf, 96), 0);
  ck_answer (send6 (emu, 0x1b, 0, 0, 0, 0x10, SH_XFER_NONE, NULL, 0), SENSE (0x052400));
  ck_answer (send6 (emu, 0x1b, 0, 0, 0, 1, SH_XFER_NONE, NULL, 0), 0);
  ck_answer (fx_tur (emu), 0);
  emu_close (emu);
}
END_TEST

static uint64_t stepped_ns;

static uint64_t
stepped_now (void *opaque)
{
  return stepped_ns;
}

static void
stepped_sleep (void *opaque, uint64_t ns)
{
  stepped_ns += ns;
}

static const struct sh_clock stepped = { .now_ns = stepped_now, .sleep_ns = stepped_sleep };

START_TEST (drive_becomes_ready_in_its_time)
{
  struct emu *emu = fx_raw_drive (SHAPE ",tur_ms_to_ready=500");

  stepped_ns = NS_PER_S;
  emu_set_clock (emu, &stepped);
  ck_answer (fx_tur (emu), SENSE (0x062901));
  stepped_ns += 200 * NS_PER_MS;
  ck_answer (fx_tur (emu), SENSE (0x020401));
  ck_assert_uint_eq (get_be32 (fx_cmd.sense + 3), 300);
  ck_answer (fx_read (emu, 0, 8, buf), SENSE (0x020402));
  ck_answer (send6 (emu, 0x1b, 0, 0, 0, 1, SH_XFER_NONE, NULL, 0), SENSE (0x052400));
  stepped_ns += 300 * NS_PER_MS;
  ck_answer (fx_tur (emu), 0);
  emu_close (emu);
}
END_TEST

START_TEST (delays_and_models_take_the_time_they_say)
{
  static const struct { const char *settings; uint64_t want_ns; } cases[] = {
    { SHAPE ",delay=2", 8 * NS_PER_MS },
    { SHAPE ",ndelay=5000000", 5 * NS_PER_MS },
    { SHAPE ",time=fixed,latency_us=700", 700 * NS_PER_US },
    { SHAPE ",time=disk,seek_us=0,rotation_rate=6000,transfer_mbps=1000000",
      5 * NS_PER_MS },
  };
  size_t i;

  for (i = 0; i < ARRAY_SIZE (cases); ++i) {
    struct emu *emu = fx_raw_drive (cases[i].settings);
    uint64_t start;

    emu_set_clock (emu, &stepped);
    ck_answer (fx_tur (emu), SENSE (0x062901));
    start = stepped_ns;
    ck_answer (fx_inquiry (emu, -1, back, 96), 0);
    ck_assert_uint_eq (stepped_ns, start);
    ck_answer (fx_read (emu, 16, 1, back), 0);
    ck_assert_uint_ge (stepped_ns - start, cases[i].want_ns);
    ck_assert_uint_lt (stepped_ns - start, cases[i].want_ns + 10 * NS_PER_US);
    emu_close (emu);
  }
}
END_TEST

START_TEST (time_that_is_not_slept_is_counted)
{
  struct emu *emu = fx_raw_drive (SHAPE ",time=fixed,latency_us=700,sleep=0");
  uint64_t start = stepped_ns;

  emu_set_clock (emu, &stepped);
  ck_answer (fx_tur (emu), SENSE (0x062901));
  ck_answer (fx_read (emu, 0, 8, back), 0);
  ck_assert_uint_eq (stepped_ns, start);
  ck_assert_uint_eq (emu_counter (emu, "virtual-ns"), 700 * NS_PER_US);
  emu_close (emu);
}
END_TEST

/* ---- counters, transport ---- */

START_TEST (counters_count)
{
  struct emu *emu = fx_drive (SHAPE);

  ck_answer (fx_write (emu, SEQ (0), 8, buf), 0);
  ck_answer (fx_write_fua (emu, 0, 8, buf), 0);
  ck_answer (fx_read (emu, 0, 16, buf), 0);
  ck_answer (fx_sync (emu), 0);
  ck_answer (fx_tur (emu), 0);
  ck_answer (fx_zone_all (emu, FX_RESET), 0);
  ck_assert_uint_eq (emu_counter (emu, "write-16"), 2);
  ck_assert_uint_eq (emu_counter (emu, "written-bytes"), 8192);
  ck_assert_uint_eq (emu_counter (emu, "fua-writes"), 1);
  ck_assert_uint_eq (emu_counter (emu, "read-bytes"), 8192);
  ck_assert_uint_eq (emu_counter (emu, "synchronize-cache-16"), 1);
  ck_assert_uint_eq (emu_counter (emu, "test-unit-ready"), 2);
  ck_assert_uint_eq (emu_counter (emu, "zones-reset"), 1);
  ck_assert_uint_eq (emu_counter (emu, "check-conditions"), 1);
  ck_assert_uint_eq (emu_counter (emu, "commands"), 7);
  emu_counters_reset (emu);
  ck_assert_uint_eq (emu_counter (emu, "commands"), 0);
  emu_close (emu);
}
END_TEST

static unsigned hooked;

static void
hook (void *opaque, struct emu *emu, const struct sh_command *command)
{
  ck_assert_ptr_eq (opaque, &hooked);
  hooked += command->cdb[0] == 0;
}

START_TEST (hook_runs_after_each_command)
{
  struct emu *emu = fx_drive (SHAPE);

  emu_set_hook (emu, hook, &hooked);
  ck_answer (fx_tur (emu), 0);
  ck_answer (fx_sync (emu), 0);
  ck_answer (fx_tur (emu), 0);
  ck_assert_uint_eq (hooked, 2);
  emu_close (emu);
}
END_TEST

START_TEST (transport_opens_what_it_is_told)
{
  static const char *const bad[] = {
    "ram:size", "ram:size=0", "ram:nonsense=1", "ram:zone-size=3M", "ram:size=1M,zone-size=1M",
    "ram:lbs=1000", "ram:size=16M,zone-size=1M,conventional=17", "ram:fault=read",
    "ram:fault=read:sense=1", "ram:fault=nothing:gone", "ram:zone_cap=300,zone_size=1M",
    "ram:size=9999999999999999T", "ram:wp=2", "ram:model=round", "/nonexistent/drive",
  };
  struct emu *emu = fx_drive (SHAPE);
  struct transport t;
  char message[256];
  void *handle;
  size_t i;

  for (i = 0; i < ARRAY_SIZE (bad); ++i) {
    message[0] = '\0';
    if (strcmp (bad[i], "ram:fault=read") == 0) {       /* no answer: it just executes */
      ck_assert_int_eq (emu_transport.open (bad[i], 0, &handle, message, sizeof message), 0);
      emu_transport.close (handle);
      continue;
    }
    ck_assert_int_eq (emu_transport.open (bad[i], 0, &handle, message, sizeof message), -1);
    ck_assert_uint_gt (strlen (message), 10);
  }
  ck_assert_int_eq (emu_transport.open ("ram:size=8G,zone-size=16M,conventional=12", 0, &handle,
                                        message, sizeof message), 0);
  emu_transport.close (handle);
  emu_make_transport (emu, &t);
  emu_close (emu);
  fx_cmd = (struct sh_command) { .cdb_len = 6, .timeout_ms = 1 };
  ck_assert_int_eq (t.ops->execute (t.handle, &fx_cmd), 0);
  t.ops->close (t.handle);
}
END_TEST

static Suite *
suite (void)
{
  Suite *s = suite_create ("emu-target");
  TCase *tc = tcase_create ("target");

  tcase_add_test (tc, inquiry_tells_the_model);
  tcase_add_test (tc, inquiry_texts_are_settings);
  tcase_add_test (tc, inquiry_data_is_cut_at_the_allocation_length);
  tcase_add_test (tc, vpd_pages_are_those_that_page_0_lists);
  tcase_add_test (tc, vpd_b6_tells_the_zone_limits);
  tcase_add_test (tc, open_limit_is_half_the_zones_of_a_small_drive);
  tcase_add_test (tc, capacity_and_block_sizes_are_told);
  tcase_add_test (tc, capacity_10_says_that_it_is_too_large_for_it);
  tcase_add_test (tc, mode_pages_tell_cache_fua_and_protection);
  tcase_add_test (tc, mode_select_turns_cache_and_descriptor_sense);
  tcase_add_test (tc, report_luns_lists_lun_0);
  tcase_add_test (tc, supported_opcodes_are_listed_and_told_one_by_one);
  tcase_add_test (tc, unknown_commands_get_the_right_sense);
  tcase_add_test (tc, strict_refuses_reserved_bits);
  tcase_add_test (tc, sense_comes_in_the_format_that_is_set);
  tcase_add_test (tc, first_command_after_power_on_gets_unit_attention);
  tcase_add_test (tc, request_sense_returns_and_clears_the_attention);
  tcase_add_test (tc, stopped_unit_is_not_ready_until_it_is_started);
  tcase_add_test (tc, drive_becomes_ready_in_its_time);
  tcase_add_test (tc, delays_and_models_take_the_time_they_say);
  tcase_add_test (tc, time_that_is_not_slept_is_counted);
  tcase_add_test (tc, counters_count);
  tcase_add_test (tc, hook_runs_after_each_command);
  tcase_add_test (tc, transport_opens_what_it_is_told);
  suite_add_tcase (s, tc);
  return s;
}

int
main (void)
{
  return run_suite (suite ());
}
