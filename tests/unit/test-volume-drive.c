/* SPDX-License-Identifier: BSD-3-Clause */
/* A volume on the emulated drive: what the drive's own limits and pace do to it. */
#undef NDEBUG
#include <config.h>
#include <assert.h>
#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "base/bytes.h"
#include "base/error.h"
#include "emu-volume.h"

#define ZONE (4 * MiB)
#define STREAMS 10

static unsigned
open_zones (struct emu *emu)
{
  struct bdev_zone z;
  unsigned n = 0;
  uint32_t i;

  for (i = 0; i < emu_nr_zones (emu); ++i) {
    emu_get_zone (emu, i, &z);
    n += z.cond == ZONE_IMPLICIT_OPEN || z.cond == ZONE_EXPLICIT_OPEN;
  }
  return n;
}

static void
close_volume (struct sh_volume *v)
{
  struct sh_error err = { 0 };

  ck_assert_msg (sh_volume_close (v, &err) == 0, "%s", err.message);
}

static uint8_t
stamp (uint64_t at)
{
  return 1 + at / (4 * KiB) % 251;
}

static void
write_at (struct sh_volume *v, uint64_t at, size_t n)
{
  uint8_t *const buf = malloc (n);
  size_t i;

  assert (buf != NULL);
  for (i = 0; i < n; i += 4 * KiB)
    memset (buf + i, stamp (at + i), 4 * KiB);
  ck_assert_int_eq (sh_volume_pwrite (v, buf, n, at, 0, 0), 0);
  free (buf);
}

static void
verify (struct sh_volume *v, uint64_t at, size_t n)
{
  uint8_t *const buf = malloc (n);
  size_t i;

  assert (buf != NULL);
  ck_assert_int_eq (sh_volume_pread (v, buf, n, at, 0), 0);
  for (i = 0; i < n; ++i)
    assert (buf[i] == stamp (at + i));
  free (buf);
}

/* Ten streams at a time on a drive where four zones may be open, in requests that do
   not divide the zone: the last one of a zone is cut, and the zone is full then. */
START_TEST (more_streams_than_open_zones_all_arrive_and_leave_no_zone_open)
{
  static const size_t sizes[] = { 12 * KiB, MiB - 4 * KiB };
  static const char *const settings[] = {
    "size=160M", "zone_size=4M", "conventional=8", "format=512e", "zone_max_open=4", NULL
  };
  const struct sh_volume_options o = { 0 };
  struct emu *const emu = emu_drive (settings);
  const size_t size = sizes[_i];
  struct sh_volume *v;
  uint64_t at;
  unsigned s;

  emu_format (emu, 2);
  v = emu_volume (emu, &o, true);
  write_at (v, 0, 64 * KiB);    /* each starts as a stream does */
  for (s = 1; s < STREAMS; ++s)
    write_at (v, s * ZONE, 64 * KiB);
  for (at = 64 * KiB; at < ZONE; at += size)
    for (s = 0; s < STREAMS; ++s) {
      write_at (v, s * ZONE + at, MIN (size, ZONE - at));
      ck_assert_uint_le (open_zones (emu), 4);
    }
  ck_assert_uint_eq (open_zones (emu), 0);
  verify (v, 0, STREAMS * ZONE);
  close_volume (v);
  emu_check (emu);
  v = emu_volume (emu, &o, false);
  verify (v, 0, STREAMS * ZONE);
  close_volume (v);
  emu_close (emu);
}
END_TEST

/* ---- fast and slow drives ---- */

struct writer {
  pthread_t thread;
  struct sh_volume *v;
  unsigned id;
};

static void *
writer_main (void *opaque)
{
  struct writer *const w = opaque;
  uint64_t i;

  /* Every writer in every chunk: more chunks than random zones. */
  for (i = 0; i < 24; ++i)
    write_at (w->v, (i * 7 + w->id) % 12 * ZONE + (1 + w->id * 24 + i) * 4 * KiB, 4 * KiB);
  ck_assert_int_eq (sh_volume_flush (w->v), 0);
  return NULL;
}

START_TEST (writers_that_wait_for_zones_finish_on_fast_and_on_slow_drives)
{
  static const char *const latency[] = { "latency_us=0", "latency_us=300", "latency_us=2000" };
  const char *const settings[] = {
    "size=96M", "zone_size=4M", "conventional=5", "format=4Kn", "time=fixed", "units=2",
    latency[_i], "sleep=1", NULL
  };
  const struct sh_volume_options o = { 0 };
  struct emu *const emu = emu_drive (settings);
  struct writer w[8];
  struct sh_volume *v;
  uint64_t i;
  unsigned n;

  emu_format (emu, 2);
  v = emu_volume (emu, &o, true);
  for (n = 0; n < ARRAY_SIZE (w); ++n) {
    w[n] = (struct writer) { .v = v, .id = n };
    assert (pthread_create (&w[n].thread, NULL, writer_main, &w[n]) == 0);
  }
  for (n = 0; n < ARRAY_SIZE (w); ++n)
    pthread_join (w[n].thread, NULL);
  for (n = 0; n < ARRAY_SIZE (w); ++n)
    for (i = 0; i < 24; ++i)
      verify (v, (i * 7 + n) % 12 * ZONE + (1 + n * 24 + i) * 4 * KiB, 4 * KiB);
  close_volume (v);
  emu_close (emu);
}
END_TEST

int
main (void)
{
  Suite *const s = suite_create ("volume-drive");
  TCase *const t = tcase_create ("drive");

  tcase_add_loop_test (t, more_streams_than_open_zones_all_arrive_and_leave_no_zone_open, 0, 2);
  tcase_add_loop_test (t, writers_that_wait_for_zones_finish_on_fast_and_on_slow_drives, 0, 3);
  suite_add_tcase (s, t);
  return run_suite (s);
}
