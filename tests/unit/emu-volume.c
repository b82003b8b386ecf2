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

static void
die (const struct sh_error *err)
{
  fprintf (stderr, "%s\n", err->message);
  abort ();
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
    if (emu_settings_set (&s, name, eq + 1, &err) == -1)
      die (&err);
  }
  if (emu_settings_complete (&s, &err) == -1 || emu_open_ram (&s, &emu, &err) == -1)
    die (&err);
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
  if (disk_open (&t, &o, &bdev, &err) == -1)
    die (&err);
  return bdev;
}

void
emu_format (struct emu *emu, uint32_t reserved)
{
  const struct format_options o = { .label = "test", .reserved = reserved };
  struct bdev *const bdev = open_disk (emu);
  struct sh_error err = { 0 };
  struct zone_table *t = NULL;
  struct format_plan plan;

  if (zone_table_read (bdev, &t, &err) == -1 ||
      format_make_plan (bdev, t, &o, &plan, &err) == -1 ||
      format_write (bdev, &t, &o, &plan, &err) == -1)
    die (&err);
  zone_table_free (t);
  bdev_close (bdev);
}

struct sh_volume *
emu_volume (struct emu *emu, const struct sh_volume_options *options, bool start)
{
  struct sh_error err = { 0 };
  struct sh_volume *v;

  if (sh_volume_open (open_disk (emu), options, &v, &err) == -1 ||
      (start && sh_volume_start (v, &err) == -1))
    die (&err);
  return v;
}
