/* SPDX-License-Identifier: BSD-3-Clause */
/* DEVICE to a loaded volume, and the formatting of a blank drive before. */
#include <config.h>
#include <errno.h>
#include "base/bdev.h"
#include "base/error.h"
#include "stack/stack.h"
#include "zoned/contents.h"
#include "zoned/format.h"
#include "zoned/zones.h"

/* A volume that is there already is left for sh_volume_open to judge. */
static int
format_if_blank (struct bdev *bdev, const struct stack_options *options,
                 struct sh_error *err)
{
  const struct format_options format_options = { .log = options->volume.log };
  struct contents contents;
  struct format_plan plan;
  struct zone_table *table;
  int r;

  if (zone_table_read (bdev, &table, err) == -1)
    return -1;
  r = contents_find (bdev, table, &contents, err);
  if (r == 0 && !contents.anything) {
    r = format_make_plan (bdev, table, &format_options, &plan, err);
    if (r == 0)
      r = format_write (bdev, &table, &format_options, &plan, err);
  }
  else if (r == 0 && !contents.volume) {
    sh_fail (err, EEXIST, "%s: format=true formats empty drives only, and this one holds "
             "%s; nothing was changed", bdev->info.name, contents.what);
    r = sh_hint (err, "'shingle format DEVICE --force' formats it anyway");
  }
  zone_table_free (table);
  return r;
}

int
stack_open_volume (const char *device, const struct stack_options *options,
                   struct sh_volume **volume, struct bdev_info *info,
                   struct mq **mq, struct sh_error *err)
{
  struct sh_volume_options volume_options = options->volume;
  struct sh_volume_stats stats;
  struct bdev *bdev;

  if (stack_open_queued (device, options, &bdev, mq, err) == -1)
    return -1;
  *info = bdev->info;
  volume_options.read_only = options->read_only || info->read_only;
  if ((options->format && format_if_blank (bdev, options, err) == -1) ||
      sh_volume_open (bdev, &volume_options, volume, err) == -1) {
    bdev_close (bdev);
    return -1;
  }
  sh_volume_get_stats (*volume, &stats);
  info->read_only |= stats.read_only;   /* the volume may know more than the drive */
  return 0;
}
