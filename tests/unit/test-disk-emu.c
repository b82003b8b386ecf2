/* SPDX-License-Identifier: BSD-3-Clause */
/* core/scsi on the emulated drive: both sides' ideas of the standard meet, with
 * many threads and faults. */
#include <config.h>
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/bdev.h"
#include "base/bytes.h"
#include "base/error.h"
#include "scsi/disk.h"
#include "transport/emu/emu.h"
#include "transport/transport.h"

#define ZONE (1 * MiB)

struct rig {
  struct emu *emu;
  struct bdev *bdev;
};

static void
rig_open (struct rig *r, const char *const (*settings)[2])
{
  const struct disk_options options = { .read_only = false };
  struct sh_error err = { 0 };
  struct emu_settings s;
  struct transport t;

  emu_settings_init (&s);
  for (; (*settings)[0]; ++settings)
    ck_assert_msg (emu_settings_set (&s, (*settings)[0], (*settings)[1], &err) == 0, "%s",
                   err.message);
  ck_assert_msg (emu_open_ram (&s, &r->emu, &err) == 0, "%s", err.message);
  emu_make_transport (r->emu, &t);
  snprintf (t.name, sizeof t.name, "emulated");
  ck_assert_msg (disk_open (&t, &options, &r->bdev, &err) == 0, "%s", err.message);
}

static void
rig_close (struct rig *r)
{
  bdev_close (r->bdev);
  emu_close (r->emu);
}

static void
set (struct rig *r, const char *key, const char *value)
{
  struct sh_error err = { 0 };

  ck_assert_msg (emu_set (r->emu, key, value, &err) == 0, "%s", err.message);
}

static const char *const small[][2] = {
  { "size", "64M" }, { "zone_size", "1M" }, { "conventional", "4" }, { NULL, NULL },
};

START_TEST (a_drive_that_refuses_to_start_while_it_becomes_ready_is_waited_for)
{
  static const char *const slow[][2] = {
    { "size", "64M" }, { "zone_size", "1M" }, { "conventional", "4" },
    { "tur_ms_to_ready", "300" }, { NULL, NULL },
  };
  uint8_t block[4096];
  struct rig r;

  rig_open (&r, slow);
  ck_assert_int_eq (bdev_read (r.bdev, block, sizeof block, 0), 0);
  rig_close (&r);
}
END_TEST

START_TEST (geometries_are_found_as_they_were_made)
{
  static const char *const shapes[][4] = {
    /* size, zone size, zone cap, lbs */
    { "64M", "1M", "1M", "512" }, { "64M", "1M", "1M", "4096" },
    { "64M", "4M", "3M", "512" }, { "64M", "4M", "3M", "4096" },
    { "66M", "4M", "4M", "512" }, { "1G", "256M", "200M", "4096" },
  };

  for (size_t i = 0; i < ARRAY_SIZE (shapes); ++i) {
    const char *const settings[][2] = {
      { "size", shapes[i][0] }, { "zone_size", shapes[i][1] }, { "zone_cap", shapes[i][2] },
      { "lbs", shapes[i][3] }, { "conventional", "1" }, { NULL, NULL },
    };
    const struct bdev_info *info;
    struct bdev_zone z[80], one;
    struct rig r;
    size_t nr, nr_one;

    rig_open (&r, settings);
    info = &r.bdev->info;
    ck_assert_uint_eq (info->nr_zones, emu_nr_zones (r.emu));
    ck_assert_uint_eq (info->lbs_bytes, strtoul (shapes[i][3], NULL, 10));
    ck_assert_uint_gt (info->max_open_zones, 0);
    ck_assert (info->fua && info->write_cache && info->urswrz);
    ck_assert_int_eq (bdev_report_zones (r.bdev, 0, z, 80, &nr), 0);
    ck_assert_uint_eq (nr, info->nr_zones);
    for (uint32_t n = 0; n < nr; ++n) {
      struct bdev_zone want;

      emu_get_zone (r.emu, n, &want);
      ck_assert_uint_eq (z[n].start_bytes, want.start_bytes);
      ck_assert_uint_eq (z[n].len_bytes, want.len_bytes);
      ck_assert_uint_eq (z[n].cap_bytes, want.cap_bytes);
      ck_assert_uint_eq (z[n].wp_bytes, want.wp_bytes);
      ck_assert_int_eq (z[n].type, want.type);
      /* one at a time, from its last block on */
      ck_assert_int_eq (bdev_report_zones (r.bdev, z[n].start_bytes + z[n].len_bytes -
                                           info->lbs_bytes, &one, 1, &nr_one), 0);
      ck_assert_uint_eq (nr_one, 1);
      ck_assert_uint_eq (one.start_bytes, z[n].start_bytes);
      ck_assert_uint_eq (one.len_bytes, z[n].len_bytes);
    }
    rig_close (&r);
  }
}
END_TEST

START_TEST (opening_costs_no_probe_and_the_power_on_attention_is_swallowed)
{
  struct disk_counters c;
  struct rig r;

  rig_open (&r, small);
  disk_get_counters (r.bdev, &c);
  ck_assert_uint_eq (c.commands[DISK_CLASS_PROBE], 0);
  ck_assert_uint_eq (emu_counter (r.emu, "test-unit-ready"), 0);
  ck_assert_uint_eq (c.attentions, 1);
  rig_close (&r);
}
END_TEST

START_TEST (zone_rules_come_back_as_their_errnos)
{
  static uint8_t buf[ZONE];
  struct bdev_req open_zone = { .op = BDEV_ZONE_OPEN };
  struct rig r;

  rig_open (&r, small);
  ck_assert_int_eq (bdev_write (r.bdev, buf, 4096, 5 * ZONE + 4096, 0), -1);
  ck_assert_int_eq (errno, EREMOTEIO);
  /* across two sequential zones: the layer above splits */
  ck_assert_int_eq (bdev_write (r.bdev, buf, ZONE - 4096, 5 * ZONE, 0), 0);
  ck_assert_int_eq (bdev_write (r.bdev, buf, 8192, 6 * ZONE - 4096, 0), -1);
  ck_assert_int_eq (errno, EREMOTEIO);
  ck_assert_int_eq (bdev_write (r.bdev, buf, 4096, 6 * ZONE - 4096, 0), 0);
  ck_assert_int_eq (bdev_write (r.bdev, buf, 4096, 6 * ZONE, 0), 0);
  ck_assert_int_eq (bdev_write (r.bdev, buf, 4096, 5 * ZONE, 0), -1);
  ck_assert_int_eq (errno, EREMOTEIO);          /* full */
  ck_assert_int_eq (emu_set_zone_cond (r.emu, 7, ZONE_READ_ONLY, &(struct sh_error) { 0 }), 0);
  ck_assert_int_eq (bdev_write (r.bdev, buf, 4096, 7 * ZONE, 0), -1);
  ck_assert_int_eq (errno, EROFS);
  ck_assert_int_eq (emu_set_zone_cond (r.emu, 8, ZONE_OFFLINE, &(struct sh_error) { 0 }), 0);
  ck_assert_int_eq (bdev_read (r.bdev, buf, 4096, 8 * ZONE), -1);
  ck_assert_int_eq (errno, EIO);
  /* one open zone too many: another is closed, and it works */
  for (unsigned i = 0; i < 8; ++i) {
    open_zone.off_bytes = (10 + i) * ZONE;
    ck_assert_int_eq (bdev_execute (r.bdev, &open_zone), 0);
  }
  ck_assert_int_eq (bdev_write (r.bdev, buf, 4096, 20 * ZONE, 0), 0);
  emu_check (r.emu);
  rig_close (&r);
}
END_TEST

/* ---- many threads, each with zones of its own, and a drive full of news ---- */

#define WORKERS 6
#define STEPS 120

struct worker { struct rig *r; unsigned nr; };

static void
write_zone (struct bdev *bdev, uint64_t zone, unsigned generation)
{
  uint8_t buf[16384], back[16384];

  ck_assert_int_eq (bdev_zone_reset (bdev, zone * ZONE), 0);
  for (uint64_t at = 0; at < ZONE; at += sizeof buf) {
    memset (buf, (int) (zone + generation + at / sizeof buf), sizeof buf);
    ck_assert_int_eq (bdev_write (bdev, buf, sizeof buf, zone * ZONE + at,
                                  at % 65536 ? 0 : BDEV_FUA), 0);
    if (at % 131072 == 0) {
      ck_assert_int_eq (bdev_read (bdev, back, sizeof back, zone * ZONE + at), 0);
      ck_assert_mem_eq (buf, back, sizeof buf);
    }
  }
}

static void *
work (void *opaque)
{
  struct worker *w = opaque;
  struct bdev_req probe = { .op = BDEV_PROBE };

  for (unsigned step = 0; step < STEPS / 30; ++step) {
    write_zone (w->r->bdev, 4 + w->nr * 8 + step % 8, step);
    ck_assert_int_eq (bdev_flush (w->r->bdev), 0);
    ck_assert_int_eq (bdev_execute (w->r->bdev, &probe), 0);
  }
  return NULL;
}

static void *
disturb (void *opaque)
{
  struct worker *w = opaque;

  for (unsigned i = 0; i < 200; ++i) {
    struct disk_counters c;

    emu_unit_attention (w->r->emu, 0x29, i % 2 ? 0 : 3);
    disk_get_counters (w->r->bdev, &c);
    bdev_resets (w->r->bdev);
    usleep (500);               /* more than one a command is no drive */
  }
  return NULL;
}

START_TEST (many_threads_do_their_work_through_a_rain_of_attentions_and_faults)
{
  pthread_t threads[WORKERS + 1];
  struct worker w[WORKERS + 1];
  struct disk_counters c;
  struct rig r;

  rig_open (&r, small);
  if (_i > 0) {
    /* after success: 0B/4B/03; success with 01/5D/00; short reads; queue full */
    static const char *const opts[] = { "", "0x10", "0x8", "0x100", "0x8000" };

    set (&r, "opts", opts[_i]);
    set (&r, "every_nth", "7");
  }
  for (unsigned i = 0; i <= WORKERS; ++i) {
    w[i] = (struct worker) { &r, i };
    pthread_create (&threads[i], NULL, i < WORKERS ? work : disturb, &w[i]);
  }
  for (unsigned i = 0; i <= WORKERS; ++i)
    pthread_join (threads[i], NULL);
  disk_get_counters (r.bdev, &c);
  ck_assert_uint_eq (c.failures, 0);
  ck_assert_uint_gt (c.attentions, 0);
  if (_i == 1)
    ck_assert_uint_gt (c.settles, 0);
  emu_check (r.emu);
  rig_close (&r);
}
END_TEST

int
main (void)
{
  Suite *suite = suite_create ("disk-emu");
  TCase *tcase = tcase_create ("disk-emu");
  SRunner *runner;
  int failed;

  tcase_add_test (tcase, a_drive_that_refuses_to_start_while_it_becomes_ready_is_waited_for);
  tcase_add_test (tcase, geometries_are_found_as_they_were_made);
  tcase_add_test (tcase, opening_costs_no_probe_and_the_power_on_attention_is_swallowed);
  tcase_add_test (tcase, zone_rules_come_back_as_their_errnos);
  tcase_add_loop_test (tcase,
                       many_threads_do_their_work_through_a_rain_of_attentions_and_faults,
                       0, 5);
  suite_add_tcase (suite, tcase);
  runner = srunner_create (suite);
  srunner_run_all (runner, CK_ENV);
  failed = srunner_ntests_failed (runner);
  srunner_free (runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
