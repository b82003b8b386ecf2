/* SPDX-License-Identifier: BSD-3-Clause */
#undef NDEBUG
#include <config.h>
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "emu-volume.h"
#include "scsi/disk.h"
#include "zoned/format.h"

void
emu_must (int r, const struct sh_error *err)
{
  if (r == -1) {
    fprintf (stderr, "%s\n", err->message);
    abort ();
  }
}

pthread_t
emu_thread (void *(*fn) (void *))
{
  pthread_t t;

  assert (pthread_create (&t, NULL, fn, NULL) == 0);
  return t;
}

struct emu *
emu_drive (const char *const settings[])
{
  struct emu_settings s;
  struct sh_error err = { 0 };
  struct emu *emu;
  int i;

  emu_settings_init (&s);
  for (i = 0; settings[i] != NULL; ++i) {
    char name[64];
    const char *const eq = strchr (settings[i], '=');

    snprintf (name, sizeof name, "%.*s", (int) (eq - settings[i]), settings[i]);
    emu_must (emu_settings_set (&s, name, eq + 1, &err), &err);
  }
  emu_must (emu_settings_complete (&s, &err), &err);
  emu_must (emu_open_ram (&s, &emu, &err), &err);
  return emu;
}

struct bdev *
emu_disk (struct emu *emu)
{
  const struct disk_options o = { 0 };
  struct sh_error err = { 0 };
  struct transport t;
  struct bdev *bdev;

  emu_make_transport (emu, &t);
  emu_must (disk_open (&t, &o, &bdev, &err), &err);
  return bdev;
}

void
emu_format (struct emu *emu, uint32_t reserved)
{
  const struct format_options o = { .label = "test", .reserved = reserved };
  struct bdev *const bdev = emu_disk (emu);
  struct sh_error err = { 0 };
  struct zone_table *t = NULL;
  struct format_plan plan;

  emu_must (zone_table_read (bdev, &t, &err), &err);
  emu_must (format_make_plan (bdev, t, &o, &plan, &err), &err);
  emu_must (format_write (bdev, &t, &o, &plan, &err), &err);
  zone_table_free (t);
  bdev_close (bdev);
}

struct sh_volume *
emu_volume (struct emu *emu, const struct sh_volume_options *options, bool start)
{
  struct sh_error err = { 0 };
  struct sh_volume *v;

  emu_must (sh_volume_open (emu_disk (emu), options, &v, &err), &err);
  if (start)
    emu_must (sh_volume_start (v, &err), &err);
  return v;
}
