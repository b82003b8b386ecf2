/* SPDX-License-Identifier: BSD-3-Clause */
/* Emulated drives in files: what survives, what is refused. */
#include <config.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/error.h"
#include "emu-fixture.h"
#include "transport/transport.h"

/* 16 zones of 1 MiB (256 blocks of 4 KiB), 4 conventional. */
#define SHAPE "size=16M,zone-size=1M,conventional=4,lbs=4096"
#define Z 256u
#define SEQ(n) ((4u + (n)) * Z)
#define LBS 4096u

static char dir[64], path[96], other[128];
static uint8_t buf[64 * LBS];

static void
setup (void)
{
  const char *tmp = getenv ("TMPDIR");

  snprintf (dir, sizeof dir, "%.40s/emu-file.XXXXXX", tmp ? tmp : "/tmp");
  ck_assert_ptr_nonnull (mkdtemp (dir));
  snprintf (path, sizeof path, "%s/d", dir);
}

static void
teardown (void)
{
  char command[128];

  snprintf (command, sizeof command, "rm -rf '%s'", dir);
  ck_assert_int_eq (system (command), 0);
}

static void
create (const char *settings)
{
  const struct emu_settings s = fx_settings (settings);
  struct sh_error err = { 0 };

  ck_assert_msg (emu_file_create (path, &s, false, &err) == 0, "%s", err.message);
}

static struct emu *
open_drive (void)
{
  struct sh_error err = { 0 };
  struct emu *emu = NULL;

  if (emu_open_file (path, 0, &emu, &err) == -1)
    ck_abort_msg ("%s", err.message);
  ck_answer (fx_tur (emu), SENSE (0x062901));
  return emu;
}

/* The drive is refused, by a message that holds `why`. */
static void
refused (const char *why)
{
  struct sh_error err = { 0 };
  struct emu *emu;

  if (emu_open_file (path, 0, &emu, &err) == 0)
    ck_abort_msg ("the drive was opened; it should be refused: %s", why);
  if (strstr (err.message, why) == NULL || strstr (err.message, dir) == NULL)
    ck_abort_msg ("'%s' does not say '%s'", err.message, why);
}

static void
put (struct emu *emu, uint64_t lba, uint32_t blocks, uint32_t generation)
{
  fx_stamp (buf, lba, blocks, LBS, generation);
  ck_answer (fx_write (emu, lba, blocks, buf), 0);
}

static int64_t
get (struct emu *emu, uint64_t lba)
{
  static uint8_t block[LBS];

  ck_answer (fx_read (emu, lba, 1, block), 0);
  return fx_stamp_of (block, lba, LBS);
}

static void
overwrite (const char *name, off_t off, const void *bytes, size_t len)
{
  const int fd = open (name, O_WRONLY);

  ck_assert_int_ge (fd, 0);
  ck_assert_int_eq (pwrite (fd, bytes, len, off), (ssize_t) len);
  close (fd);
}

/* ---- survival ---- */

START_TEST (data_zones_settings_and_counters_survive_a_restart)
{
  struct sh_error err = { 0 };
  struct emu *emu;
  char serial[33];

  create (SHAPE);
  emu = open_drive ();
  strcpy (serial, emu_get_settings (emu)->serial);
  put (emu, 7, 4, 1);
  put (emu, SEQ (0), 4, 2);
  ck_answer (fx_zone (emu, FX_OPEN, SEQ (1)), 0);
  ck_answer (fx_zone (emu, FX_FINISH, SEQ (2)), 0);
  ck_assert_int_eq (emu_set_zone_cond (emu, 9, ZONE_OFFLINE, &err), 0);
  ck_assert_int_eq (emu_set (emu, "inq_product", "survivor", &err), 0);
  ck_assert_int_eq (emu_set (emu, "fault", "read:lba=99:sense=03/11/00", &err), 0);
  ck_assert_uint_eq (emu_counter (emu, "write-16"), 2);
  emu_close (emu);

  emu = open_drive ();
  emu_check (emu);
  ck_assert_int_eq (get (emu, 10), 1);
  ck_assert_int_eq (get (emu, SEQ (0) + 3), 2);
  ck_assert_uint_eq (fx_get_zone (emu, SEQ (0)).cond, ZONE_CLOSED);
  ck_assert_uint_eq (fx_get_zone (emu, SEQ (0)).wp, SEQ (0) + 4);
  ck_assert_uint_eq (fx_get_zone (emu, SEQ (1)).cond, ZONE_EMPTY);
  ck_assert_uint_eq (fx_get_zone (emu, SEQ (2)).cond, ZONE_FULL);
  ck_assert_uint_eq (fx_get_zone (emu, SEQ (5)).cond, ZONE_OFFLINE);
  ck_assert_str_eq (emu_get_settings (emu)->product, "survivor");
  ck_assert_str_eq (emu_get_settings (emu)->serial, serial);
  ck_answer (fx_read (emu, 99, 1, buf), SENSE (0x031100));
  ck_assert_uint_eq (emu_counter (emu, "write-16"), 2);
  emu_close (emu);
}
END_TEST

/* Shared with the child that is killed. */
struct progress {
  _Atomic uint64_t acked;       /* steps that were answered */
  _Atomic unsigned opened;      /* children that have opened the drive */
};

/* Step n of the child's work: appends, in-place writes, resets and settings by
   turns.  Zone n % 8 holds generation n / 8 + 1. */
static void
child_step (struct emu *emu, uint64_t n)
{
  const uint32_t generation = (uint32_t) (n / 8 + 1), zone = n % 8;
  struct sh_error err = { 0 };

  put (emu, zone * 8, 8, generation);
  ck_answer (fx_zone (emu, FX_RESET, SEQ (zone)), 0);
  put (emu, SEQ (zone), 5, generation);
  put (emu, SEQ (zone) + 5, 7, generation);
  if (n % 16 == 0)
    ck_assert_int_eq (emu_set (emu, "opt_blks", n % 32 ? "77" : "88", &err), 0);
}

static void
child_work (struct progress *p)
{
  struct emu *emu = open_drive ();
  uint64_t n;

  p->opened++;
  for (n = p->acked;; ++n) {
    child_step (emu, n);
    p->acked = n + 1;
  }
}

/* A zone holds nothing but whole blocks of one generation up to its pointer;
   what was answered is there. */
static void
judge_zone (struct emu *emu, uint32_t zone, uint64_t acked)
{
  const uint64_t wp = fx_get_zone (emu, SEQ (zone)).wp - SEQ (zone);
  /* the last step of this zone that was answered, and the one in flight */
  const uint64_t done = acked > zone ? (acked - zone + 7) / 8 : 0;
  const bool in_flight = acked % 8 == zone;
  uint64_t i;

  fx_must (wp == 0 || wp == 5 || wp == 12);
  if (!in_flight)
    fx_must (wp == (done ? 12 : 0));
  for (i = 0; i < 20; ++i) {
    const int64_t generation = get (emu, SEQ (zone) + i);

    if (i >= wp)
      fx_must (generation == 0);
    else
      fx_must (generation == (int64_t) done || (in_flight && generation == (int64_t) done + 1));
  }
  for (i = 0; i < 8; ++i) {
    const int64_t generation = get (emu, zone * 8 + i);

    fx_must (generation == (int64_t) done || (in_flight && generation == (int64_t) done + 1));
  }
}

/* at_work: not before it has opened the drive, which takes long on a busy machine. */
static void
kill_and_judge (struct progress *p, bool at_work, unsigned wait_us)
{
  const unsigned opened = p->opened;
  struct emu *emu;
  pid_t pid = fork ();
  uint32_t zone;
  int status;

  if (pid == 0) {
    child_work (p);
    _exit (1);
  }
  while (at_work && p->opened == opened)
    usleep (100);
  usleep (wait_us);
  ck_assert_int_eq (kill (pid, SIGKILL), 0);
  ck_assert_int_eq (waitpid (pid, &status, 0), pid);
  ck_assert (WIFSIGNALED (status));
  emu = open_drive ();
  emu_check (emu);
  for (zone = 0; zone < 8; ++zone)
    judge_zone (emu, zone, p->acked);
  emu_close (emu);
}

START_TEST (kill_at_any_moment_loses_nothing_that_was_answered)
{
  struct progress *p = mmap (NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                             -1, 0);
  unsigned i;

  create (_i == 0 ? SHAPE : SHAPE ",cache=tracked,cache_size=64K");
  for (i = 0; i < 60 || (p->acked <= 20 && i < 400); ++i)
    kill_and_judge (p, i % 2, i * 131 % 4000 + i / 60 * 500);
  ck_assert_uint_gt (p->acked, 20);
}
END_TEST

START_TEST (tracked_cache_of_a_killed_process_can_still_be_lost)
{
  struct sh_error err = { 0 };
  struct emu *emu;
  pid_t pid;
  int status;

  create (SHAPE ",cache=tracked");
  pid = fork ();
  if (pid == 0) {
    emu = open_drive ();
    put (emu, 3, 4, 1);
    put (emu, SEQ (0), 6, 1);
    put (emu, SEQ (1), 6, 1);
    ck_answer (fx_sync (emu), 0);
    put (emu, 4, 2, 2);
    put (emu, SEQ (0) + 6, 6, 2);
    ck_answer (fx_zone (emu, FX_RESET, SEQ (1)), 0);
    put (emu, SEQ (1), 2, 2);
    kill (getpid (), SIGKILL);
  }
  ck_assert_int_eq (waitpid (pid, &status, 0), pid);
  /* nothing is lost so far */
  emu = open_drive ();
  ck_assert_uint_gt (emu_cache_entries (emu), 0);
  ck_assert_int_eq (get (emu, 4), 2);
  ck_assert_int_eq (get (emu, SEQ (1) + 1), 2);
  ck_assert_int_eq (get (emu, SEQ (1) + 2), 0);
  ck_assert_int_eq (emu_set (emu, "power_cut", "1:lose-all", &err), 0);
  ck_answer (fx_tur (emu), SENSE (0x062901));
  ck_assert_int_eq (get (emu, 4), 1);
  ck_assert_uint_eq (fx_get_zone (emu, SEQ (0)).wp, SEQ (0) + 6);
  ck_assert_uint_eq (fx_get_zone (emu, SEQ (1)).wp, SEQ (1) + 6);
  ck_assert_int_eq (get (emu, SEQ (1) + 1), 1);
  emu_close (emu);
}
END_TEST

START_TEST (power_cut_of_a_file_drive_undoes_its_log)
{
  struct emu *emu;
  uint32_t i;

  create (SHAPE ",cache=tracked");
  emu = open_drive ();
  put (emu, 3, 4, 1);
  put (emu, SEQ (1), 6, 1);
  ck_answer (fx_sync (emu), 0);
  put (emu, 4, 2, 2);
  put (emu, SEQ (0), 6, 2);
  ck_answer (fx_zone (emu, FX_RESET, SEQ (1)), 0);
  put (emu, SEQ (1), 2, 2);
  emu_close (emu);
  emu = open_drive ();
  ck_assert_int_eq (emu_power_cut (emu, 1, EMU_CUT_LOSE_ALL, false), 0);
  ck_answer (fx_tur (emu), SENSE (0x062901));
  for (i = 3; i < 7; ++i)
    ck_assert_int_eq (get (emu, i), 1);
  ck_assert_uint_eq (fx_get_zone (emu, SEQ (0)).cond, ZONE_EMPTY);
  ck_assert_uint_eq (fx_get_zone (emu, SEQ (1)).wp, SEQ (1) + 6);
  for (i = 0; i < 6; ++i)
    ck_assert_int_eq (get (emu, SEQ (1) + i), 1);
  emu_check (emu);
  emu_close (emu);
  emu = open_drive ();
  ck_assert_uint_eq (emu_cache_entries (emu), 0);
  emu_close (emu);
}
END_TEST

START_TEST (torn_record_of_the_cache_log_is_ignored)
{
  struct emu *emu;
  struct stat st;

  create (SHAPE ",cache=tracked");
  emu = open_drive ();
  put (emu, 3, 1, 1);
  ck_answer (fx_sync (emu), 0);
  put (emu, 3, 1, 2);
  put (emu, 3, 1, 3);
  emu_close (emu);
  snprintf (other, sizeof other, "%s.cache", path);
  ck_assert_int_eq (stat (other, &st), 0);
  ck_assert_int_eq (truncate (other, st.st_size - 1), 0);
  emu = open_drive ();
  ck_assert_uint_eq (emu_cache_entries (emu), 1);
  ck_assert_int_eq (emu_power_cut (emu, 1, EMU_CUT_LOSE_ALL, false), 0);
  ck_answer (fx_tur (emu), SENSE (0x062901));
  ck_assert_int_eq (get (emu, 3), 1);
  emu_close (emu);
}
END_TEST

START_TEST (cache_log_of_another_drive_is_ignored)
{
  struct emu *emu;

  create (SHAPE ",cache=tracked");
  emu = open_drive ();
  put (emu, 3, 1, 1);
  emu_close (emu);
  ck_assert_int_eq (unlink (path), 0);
  create (SHAPE ",cache=tracked");
  emu = open_drive ();
  ck_assert_uint_eq (emu_cache_entries (emu), 0);
  put (emu, 3, 1, 2);
  emu_close (emu);
  emu = open_drive ();
  ck_assert_uint_eq (emu_cache_entries (emu), 1);
  emu_close (emu);
}
END_TEST

START_TEST (tracking_can_be_turned_on_and_off)
{
  struct sh_error err = { 0 };
  struct emu *emu;

  create (SHAPE);
  snprintf (other, sizeof other, "%s.cache", path);
  emu = open_drive ();
  put (emu, 3, 1, 1);
  ck_assert_int_eq (emu_set (emu, "cache", "tracked", &err), 0);
  ck_assert_int_eq (access (other, F_OK), 0);
  put (emu, 3, 1, 2);
  emu_close (emu);
  emu = open_drive ();
  ck_assert_uint_eq (emu_cache_entries (emu), 1);
  ck_assert_int_eq (emu_set (emu, "cache", "safe", &err), 0);
  ck_assert_int_eq (access (other, F_OK), -1);
  ck_assert_int_eq (emu_power_cut (emu, 1, EMU_CUT_LOSE_ALL, false), 0);
  ck_answer (fx_tur (emu), SENSE (0x062901));
  ck_assert_int_eq (get (emu, 3), 2);
  emu_close (emu);
}
END_TEST

/* ---- segments ---- */

START_TEST (data_goes_on_across_segments)
{
  struct emu *emu;
  uint32_t i;

  create (SHAPE ",segment=5M");
  emu = open_drive ();
  for (i = 0; i < 4 * Z; i += 32)
    put (emu, i, 32, 1);
  for (i = 4 * Z; i < 16 * Z; i += 32)
    put (emu, i, 32, 2);
  emu_close (emu);
  for (i = 1; i < 4; ++i) {
    snprintf (other, sizeof other, "%s.%u", path, i);
    ck_assert_int_eq (access (other, F_OK), 0);
  }
  emu = open_drive ();
  for (i = 0; i < 16 * Z; ++i)
    fx_must (get (emu, i) == (i < 4 * Z ? 1 : 2));
  ck_answer (fx_zone_all (emu, FX_RESET), 0);
  for (i = 4 * Z; i < 16 * Z; ++i)
    fx_must (get (emu, i) == 0);
  emu_close (emu);
}
END_TEST

START_TEST (missing_short_and_foreign_segments_are_refused)
{
  char saved[140];

  create (SHAPE ",segment=5M");
  snprintf (other, sizeof other, "%s.2", path);
  snprintf (saved, sizeof saved, "%s.saved", other);
  ck_assert_int_eq (rename (other, saved), 0);
  refused ("No such file");
  ck_assert_int_eq (rename (saved, other), 0);
  ck_assert_int_eq (truncate (other, 3 * 1024 * 1024), 0);
  refused ("cut short");
  snprintf (saved, sizeof saved, "%s.1", path);
  ck_assert_int_eq (rename (saved, other), 0);
  ck_assert_int_eq (link (other, saved), 0);
  refused ("is not part 2");
}
END_TEST

/* The borders where numbers of 32 bits, and ext4's files, end. */
START_TEST (drive_of_28_tb_works_at_every_border)
{
  static const uint64_t bytes[] = {
    0, 2 * TiB - 4096, 2 * TiB, 4 * TiB, 8 * TiB - 4096, 8 * TiB, 16 * TiB - 4096, 16 * TiB,
    16 * TiB + 4096, 24 * TiB, 28 * TiB - 4096,
  };
  struct emu *emu;
  size_t i;

  create ("size=28T,zone-size=256M,conventional=all,lbs=512");
  emu = open_drive ();
  for (i = 0; i < ARRAY_SIZE (bytes); ++i) {
    fx_stamp (buf, bytes[i] / 512, 8, 512, (uint32_t) i + 1);
    ck_answer (fx_write (emu, bytes[i] / 512, 8, buf), 0);
  }
  emu_close (emu);
  emu = open_drive ();
  for (i = 0; i < ARRAY_SIZE (bytes); ++i) {
    ck_answer (fx_read (emu, bytes[i] / 512, 8, buf), 0);
    ck_assert_int_eq (fx_stamp_of (buf, bytes[i] / 512, 512), (int64_t) i + 1);
  }
  ck_assert_uint_eq (emu_nr_zones (emu), 114688);
  emu_close (emu);
}
END_TEST

/* ---- one user at a time ---- */

START_TEST (drive_in_use_is_refused_but_can_be_looked_at)
{
  const struct emu_settings s = fx_settings (SHAPE);
  struct sh_error err = { 0 };
  struct emu *emu, *peek;

  create (SHAPE);
  emu = open_drive ();
  put (emu, SEQ (0), 4, 1);
  refused ("in use");
  ck_assert_int_eq (emu_file_create (path, &s, true, &err), -1);
  ck_assert_int_eq (err.errnum, EBUSY);
  sh_error_clear (&err);
  ck_assert_int_eq (emu_open_file (path, EMU_OPEN_PEEK, &peek, &err), 0);
  ck_assert_uint_eq (emu_counter (peek, "write-16"), 1);
  emu_close (peek);
  ck_assert_uint_eq (fx_get_zone (emu, SEQ (0)).cond, ZONE_IMPLICIT_OPEN);
  emu_close (emu);
  emu = open_drive ();
  emu_close (emu);
}
END_TEST

START_TEST (file_that_cannot_be_written_is_opened_read_only)
{
  struct sh_error err = { 0 };
  struct emu *emu;

  if (geteuid () == 0 && setresuid (65534, 65534, 0) == -1)
    ck_abort_msg ("cannot leave root");
  setup ();
  create (SHAPE);
  ck_assert_int_eq (chmod (path, 0444), 0);
  ck_assert_int_eq (emu_open_file (path, 0, &emu, &err), -1);
  ck_assert_int_eq (err.errnum, EACCES);
  sh_error_clear (&err);
  ck_assert_int_eq (emu_open_file (path, SH_OPEN_READ_ONLY, &emu, &err), 0);
  ck_answer (fx_tur (emu), SENSE (0x062901));
  ck_answer (fx_read (emu, 0, 8, buf), 0);
  ck_assert_int_eq (emu_set (emu, "wp", "1", &err), -1);
  ck_assert_int_eq (err.errnum, EROFS);
  emu_close (emu);
  teardown ();
  ck_assert_int_eq (setresuid (0, 0, 0) == 0 || geteuid () != 0, 1);
}
END_TEST

/* ---- creating ---- */

START_TEST (create_replaces_nothing_unless_told)
{
  const struct emu_settings s = fx_settings (SHAPE ",segment=5M,cache=tracked");
  struct sh_error err = { 0 };
  struct stat st;

  create (SHAPE ",segment=5M,cache=tracked");
  emu_close (open_drive ());
  ck_assert_int_eq (emu_file_create (path, &s, false, &err), -1);
  ck_assert_int_eq (err.errnum, EEXIST);
  sh_error_clear (&err);
  ck_assert_msg (emu_file_create (path, &s, true, &err) == 0, "%s", err.message);
  emu_close (open_drive ());
  /* a segment in the way is somebody else's */
  ck_assert_int_eq (unlink (path), 0);
  ck_assert_int_eq (emu_file_create (path, &s, false, &err), -1);
  ck_assert_int_eq (err.errnum, EEXIST);
  snprintf (other, sizeof other, "%s.1", path);
  ck_assert_int_eq (stat (other, &st), 0);
  ck_assert_int_eq (stat (path, &st), -1);
}
END_TEST

START_TEST (impossible_shapes_are_refused_and_leave_no_file)
{
  static const char *const bad[] = {
    "size=1M,zone-size=1M", "size=16M,zone-size=3M", "size=1000,lbs=512",
    "size=16M,zone-size=1M,zone-cap=2M", "size=16M,zone-size=1M,conventional=17",
    "size=28T,segment=1M", "size=16M,segment=1000K", "size=16M,unmap_alignment=4",
    "size=16M,zone-size=32K", "size=0", "size=16M,zone-size=1M,zone-cap=1000",
  };
  struct sh_error err;
  size_t i;

  for (i = 0; i < ARRAY_SIZE (bad); ++i) {
    const struct emu_settings s = fx_settings (bad[i]);

    sh_error_clear (&err);
    ck_assert_msg (emu_file_create (path, &s, false, &err) == -1, "%s was taken", bad[i]);
    ck_assert_uint_gt (strlen (err.message), 20);
    ck_assert_int_eq (access (path, F_OK), -1);
  }
}
END_TEST

/* ---- bad files ---- */

START_TEST (missing_empty_foreign_and_random_files_are_refused)
{
  uint32_t noise[4096];
  size_t i, len;

  refused ("No such file");
  close (open (path, O_CREAT | O_WRONLY, 0644));
  refused ("empty");
  for (len = 1; len < sizeof noise; len = len * 5 + 3) {
    for (i = 0; i < ARRAY_SIZE (noise); ++i)
      noise[i] = (uint32_t) (i * 2654435761u + len);
    overwrite (path, 0, noise, len);
    refused ("not an emulated drive");
    ck_assert (!emu_file_probe (path));
  }
  ck_assert_int_eq (unlink (path), 0);
  ck_assert_int_eq (mkdir (path, 0755), 0);
  refused ("");
}
END_TEST

START_TEST (file_cut_at_any_length_is_refused)
{
  static const off_t lens[] = {
    1, 15, 16, 95, 96, 500, 4096, 65535, 65536, 131072, 132000, 135168, 135168 + 64,
    1048576, 1048577, 16 * 1048576,
  };
  size_t i;

  for (i = ARRAY_SIZE (lens); i > 0; --i) {
    create (SHAPE);
    ck_assert_int_eq (truncate (path, lens[i - 1]), 0);
    refused ("");
    ck_assert_int_eq (unlink (path), 0);
  }
}
END_TEST

START_TEST (damaged_head_is_refused_and_a_second_copy_serves)
{
  struct sh_error err = { 0 };
  struct emu *emu;
  off_t off;

  for (off = 16; off < 700; off += 7) {
    create (SHAPE);
    overwrite (path, off, "\xa5\x5a", 2);
    refused ("");
    ck_assert_int_eq (unlink (path), 0);
  }
  create (SHAPE);
  emu = open_drive ();
  ck_assert_int_eq (emu_set (emu, "opt_blks", "99", &err), 0);
  emu_close (emu);
  overwrite (path, 65536 + 200, "\xa5\x5a\xa5", 3);
  emu = open_drive ();
  ck_assert_uint_eq (emu_get_settings (emu)->opt_blks, 1024);
  emu_close (emu);
  overwrite (path, 200, "\xa5\x5a\xa5", 3);
  refused ("damaged");
}
END_TEST

START_TEST (damaged_zone_table_is_refused_by_zone)
{
  unsigned zone, byte;

  for (zone = 0; zone < 16; zone += 5) {
    for (byte = 0; byte < 8; ++byte) {
      char want[32];

      create (SHAPE);
      overwrite (path, 131072 + 4096 + zone * 8 + byte, "\xc3", 1);
      snprintf (want, sizeof want, "damaged at zone %u", zone);
      refused (want);
      ck_assert_int_eq (unlink (path), 0);
    }
  }
}
END_TEST

START_TEST (other_versions_are_refused_by_number)
{
  const uint32_t version = 7;

  create (SHAPE);
  overwrite (path, 16, &version, 4);
  refused ("version 7");
}
END_TEST

static Suite *
suite (void)
{
  Suite *s = suite_create ("emu-file");
  TCase *tc = tcase_create ("file");
  TCase *own = tcase_create ("own folder");

  tcase_add_checked_fixture (tc, setup, teardown);
  tcase_add_test (tc, data_zones_settings_and_counters_survive_a_restart);
  tcase_add_loop_test (tc, kill_at_any_moment_loses_nothing_that_was_answered, 0, 2);
  tcase_add_test (tc, tracked_cache_of_a_killed_process_can_still_be_lost);
  tcase_add_test (tc, power_cut_of_a_file_drive_undoes_its_log);
  tcase_add_test (tc, torn_record_of_the_cache_log_is_ignored);
  tcase_add_test (tc, cache_log_of_another_drive_is_ignored);
  tcase_add_test (tc, tracking_can_be_turned_on_and_off);
  tcase_add_test (tc, data_goes_on_across_segments);
  tcase_add_test (tc, missing_short_and_foreign_segments_are_refused);
  tcase_add_test (tc, drive_of_28_tb_works_at_every_border);
  tcase_add_test (tc, drive_in_use_is_refused_but_can_be_looked_at);
  tcase_add_test (tc, create_replaces_nothing_unless_told);
  tcase_add_test (tc, impossible_shapes_are_refused_and_leave_no_file);
  tcase_add_test (tc, missing_empty_foreign_and_random_files_are_refused);
  tcase_add_test (tc, file_cut_at_any_length_is_refused);
  tcase_add_test (tc, damaged_head_is_refused_and_a_second_copy_serves);
  tcase_add_test (tc, damaged_zone_table_is_refused_by_zone);
  tcase_add_test (tc, other_versions_are_refused_by_number);
  suite_add_tcase (s, tc);
  tcase_add_test (own, file_that_cannot_be_written_is_opened_read_only);
  suite_add_tcase (s, own);
  return s;
}

int
main (void)
{
  return run_suite (suite ());
}
