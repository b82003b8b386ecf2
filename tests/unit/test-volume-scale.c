/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What it takes to load a large drive, in counts: commands, bytes read, memory.
 * No clock: tests/bench/volume-load.sh has the times.
 */
#undef NDEBUG
#include <config.h>
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/bytes.h"
#include "base/error.h"
#include "emu-volume.h"

#define ZONES_MAX 104308        /* 28 TB in zones of 256 MiB */

struct load {
  uint64_t commands, read_bytes, written_bytes;
};

static struct load
count (struct emu *emu)
{
  return (struct load) {
    emu_counter (emu, "commands"), emu_counter (emu, "read-bytes"),
    emu_counter (emu, "written-bytes"),
  };
}

static struct load
load_drive (unsigned zones)
{
  const struct sh_volume_options o = { 0 };
  char size[48], conventional[48];
  const char *const shape[] = { size, "zone_size_mb=256", conventional, NULL };
  struct sh_error err = { 0 };
  struct load before, after;
  struct sh_volume *v;
  struct emu *emu;

  snprintf (size, sizeof size, "dev_size_mb=%u", zones * 256);
  snprintf (conventional, sizeof conventional, "zone_nr_conv=%u", zones / 100);
  emu = emu_drive (shape);
  emu_format (emu, 0);
  before = count (emu);
  v = emu_volume (emu, &o, true);
  after = count (emu);
  ck_assert_int_eq (sh_volume_close (v, &err), 0);
  emu_close (emu);
  after.commands -= before.commands;
  after.read_bytes -= before.read_bytes;
  after.written_bytes -= before.written_bytes;
  printf ("%6u zones: load takes %llu commands, %llu bytes read\n", zones,
          (unsigned long long) after.commands, (unsigned long long) after.read_bytes);
  return after;
}

/* The map has 8 bytes a chunk; bitmaps have 16 KiB a zone of this size, 1.7 GB for
   the largest drive. */
START_TEST (load_reads_the_map_and_no_bitmap)
{
  unsigned parts;

  for (parts = 8; parts >= 1; parts /= 2) {
    const unsigned zones = ZONES_MAX / parts;
    const struct load l = load_drive (zones);

    ck_assert_uint_ge (l.read_bytes, zones / 2 * 8);
    ck_assert_uint_le (l.read_bytes, zones * 8 + 64 * KiB);
    ck_assert_uint_le (l.commands, 64 + zones / 512);
    ck_assert_uint_eq (l.written_bytes, 0);
  }
}
END_TEST

static size_t
resident_kib (void)
{
  FILE *const f = fopen ("/proc/self/status", "r");
  char line[128];
  size_t kib = 0;

  ck_assert_ptr_nonnull (f);
  while (fgets (line, sizeof line, f))
    if (sscanf (line, "VmRSS: %zu", &kib) == 1)
      break;
  fclose (f);
  return kib;
}

/* The emulated drive, which is in RAM here, counts as well. */
START_TEST (volume_of_28_tb_and_its_drive_fit_in_32_mib)
{
  static uint8_t buf[4096] __attribute__ ((aligned (4096)));
  const struct sh_volume_options o = { 0 };
  const char *const shape[] = {
    "dev_size_mb=26702848", "zone_size_mb=256", "zone_nr_conv=1043", NULL
  };
  struct sh_error err = { 0 };
  struct sh_volume *v;
  struct emu *emu;
  uint64_t x = 88172645463325252u;
  int i;

  emu = emu_drive (shape);
  emu_format (emu, 0);
  v = emu_volume (emu, &o, true);
  for (i = 0; i < 20000; ++i) {
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    ck_assert_int_eq (sh_volume_pread (v, buf, sizeof buf,
                                       x % (sh_volume_size (v) / 4096) * 4096, 0), 0);
  }
  printf ("28 TB: %zu KiB resident\n", resident_kib ());
#ifndef __SANITIZE_ADDRESS__
  ck_assert_uint_lt (resident_kib (), 32 * 1024);
#endif
  ck_assert_int_eq (sh_volume_close (v, &err), 0);
  emu_close (emu);
}
END_TEST

int
main (void)
{
  Suite *const s = suite_create ("volume-scale");
  TCase *const t = tcase_create ("scale");
  SRunner *r;
  int failed;

  tcase_set_timeout (t, 60);
  tcase_add_test (t, load_reads_the_map_and_no_bitmap);
  tcase_add_test (t, volume_of_28_tb_and_its_drive_fit_in_32_mib);
  suite_add_tcase (s, t);
  r = srunner_create (s);
  srunner_run_all (r, CK_NORMAL);
  failed = srunner_ntests_failed (r);
  srunner_free (r);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
