/* SPDX-License-Identifier: BSD-3-Clause */
#undef NDEBUG
#include <config.h>
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/bytes.h"
#include "rig.h"
#include "zoned/check.h"
#include "zoned/format.h"
#include "zoned/running.h"

static void
die (const char *what, const char *message)
{
  fprintf (stderr, "%s: %s\n", what, message);
  abort ();
}

uint64_t
rig_random (struct rig *rig, uint64_t below)
{
  rig->seed ^= rig->seed << 13;
  rig->seed ^= rig->seed >> 7;
  rig->seed ^= rig->seed << 17;
  return below ? rig->seed % below : 0;
}

void
rig_fill (struct rig *rig, uint8_t *buf, uint64_t count)
{
  uint64_t i;

  for (i = 0; i + 8 <= count; i += 8)
    put_le64 (buf + i, rig_random (rig, UINT64_MAX) | 1);
  for (; i < count; ++i)
    buf[i] = rig_random (rig, 255) + 1;
}

static void
format (struct rig *rig)
{
  const struct format_options o = {
    .label = "rig",
    .reserved = rig->config.reserved ? rig->config.reserved : 2,
  };
  struct sh_error err = { 0 };
  struct zone_table *t = NULL;
  struct format_plan plan;

  if (zone_table_read (&rig->fake->bdev, &t, &err) == -1 ||
      format_make_plan (&rig->fake->bdev, t, &o, &plan, &err) == -1 ||
      format_write (&rig->fake->bdev, &t, &o, &plan, &err) == -1)
    die ("format", err.message);
  zone_table_free (t);
  rig->l = plan.layout;
}

void
rig_init (struct rig *rig, const struct rig_config *config)
{
  memset (rig, 0, sizeof *rig);
  rig->config = *config;
  if (rig->config.drive.zone_bytes == 0)
    rig->config.drive.zone_bytes = 256 * KiB;
  rig->zone_bytes = rig->config.drive.zone_bytes;
  rig->seed = UINT64_C (0x9e3779b97f4a7c15);
  if (getenv ("SHINGLE_SEED") != NULL)
    rig->seed *= 2 * strtoull (getenv ("SHINGLE_SEED"), NULL, 10) + 1;
  rig->fake = fake_new (&rig->config.drive);
  rig->fake->bdev.info.write_cache = !config->no_write_cache;
  rig->fake->bdev.info.fua = !config->no_fua;
  format (rig);
  rig->size = layout_volume_bytes (&rig->l);
  rig->model = calloc (1, rig->size);
  assert (rig->model != NULL);
  rig_open (rig);
}

void
rig_open (struct rig *rig)
{
  struct sh_error err = { 0 };

  rig->guard = guard_new (&rig->fake->bdev);
  rig->guard->keep_inner = true;
  if (sh_volume_open (&rig->guard->bdev, &rig->config.options, &rig->v, &err) == -1 ||
      (rig->config.worker && sh_volume_start (rig->v, &err) == -1))
    die ("open", err.message);
  assert (sh_volume_size (rig->v) == rig->size);
}

static void
print_finding (void *opaque, enum check_kind kind, const char *text)
{
  fprintf (stderr, "%s: %s\n", kind == CHECK_ERROR ? "error" : "note", text);
}

void
rig_offline (struct rig *rig, uint64_t *errors, uint64_t *notes)
{
  const struct check_options o = { .report = print_finding };
  struct check_result result;
  struct sh_error err = { 0 };

  if (check_volume (&rig->fake->bdev, &o, &result, &err) == -1)
    die ("check", err.message);
  *errors = result.errors;
  *notes = result.notes;
}

void
rig_close (struct rig *rig)
{
  struct sh_error err = { 0 };
  uint64_t errors, notes;

  rig_verify_invariants (rig);
  if (sh_volume_close (rig->v, &err) == -1)
    die ("close", err.message);
  rig->v = NULL;
  rig_offline (rig, &errors, &notes);
  assert (errors == 0 && (notes == 0 || rig->config.notes_expected));
}

void
rig_reopen (struct rig *rig)
{
  rig_close (rig);
  rig_open (rig);
}

void
rig_free (struct rig *rig)
{
  if (rig->v != NULL)
    rig_close (rig);
  bdev_close (&rig->fake->bdev);
  free (rig->model);
}

static void
must (int r, const char *what)
{
  if (r == -1)
    die (what, strerror (errno));
}

void
rig_write (struct rig *rig, uint64_t offset, uint64_t count, unsigned flags)
{
  rig_fill (rig, rig->model + offset, count);
  must (sh_volume_pwrite (rig->v, rig->model + offset, count, offset, flags, 0), "write");
}

void
rig_trim (struct rig *rig, uint64_t offset, uint64_t count, unsigned flags)
{
  const uint64_t from = DIV_ROUND_UP (offset, 4096) * 4096, to = (offset + count) / 4096 * 4096;

  must (sh_volume_trim (rig->v, count, offset, flags), "trim");
  if (from < to)
    memset (rig->model + from, 0, to - from);
}

void
rig_zero (struct rig *rig, uint64_t offset, uint64_t count, unsigned flags)
{
  must (sh_volume_zero (rig->v, count, offset, flags), "zero");
  memset (rig->model + offset, 0, count);
}

void
rig_flush (struct rig *rig)
{
  must (sh_volume_flush (rig->v), "flush");
}

void
rig_verify_read (struct rig *rig, uint64_t offset, uint64_t count)
{
  uint8_t *const buf = malloc (count + 1);
  uint64_t i;

  assert (buf != NULL);
  must (sh_volume_pread (rig->v, buf, count, offset, 0), "read");
  if (memcmp (buf, rig->model + offset, count) != 0) {
    for (i = 0; buf[i] == rig->model[offset + i]; ++i)
      ;
    fprintf (stderr, "read at %llu + %llu: wrong at byte %llu (chunk %llu, block %llu)\n",
             (unsigned long long) offset, (unsigned long long) count,
             (unsigned long long) (offset + i),
             (unsigned long long) ((offset + i) / rig->zone_bytes),
             (unsigned long long) ((offset + i) % rig->zone_bytes / 4096));
    abort ();
  }
  free (buf);
}

void
rig_verify_all (struct rig *rig)
{
  uint64_t at;

  for (at = 0; at < rig->size; at += rig->zone_bytes)
    rig_verify_read (rig, at, rig->zone_bytes);
}

void
rig_verify_invariants (struct rig *rig)
{
  const char *const w = volume_verify (rig->v);

  if (w != NULL)
    die ("invariant", w);
}

struct sh_volume_stats
rig_stats (struct rig *rig)
{
  struct sh_volume_stats st;

  sh_volume_get_stats (rig->v, &st);
  return st;
}
