/* SPDX-License-Identifier: BSD-3-Clause */
/* DEVICE to a loaded volume, and the formatting of a blank drive before. */
#include <config.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/bytes.h"
#include "base/error.h"
#include "stack/stack.h"
#include "zoned/format.h"
#include "zoned/zones.h"

/* What is looked at of every conventional zone, and at the drive's end: file
   systems, partition tables and volumes show themselves there. */
#define HEAD_BYTES (128 * KiB)

static bool
all_zero (const char *buf, size_t n)
{
  return n == 0 || (buf[0] == 0 && memcmp (buf, buf + 1, n - 1) == 0);
}

/* 1: zeroes; 0: something else; -1 with errno. */
static int
range_is_blank (struct bdev *bdev, char *buf, uint64_t offset, uint64_t bytes)
{
  if (bdev_read (bdev, buf, bytes, offset) == -1)
    return -1;
  return all_zero (buf, bytes);
}

/* Is every sequential zone empty, and the start of every conventional one? */
static int
drive_is_blank (struct bdev *bdev, const struct zone_table *table)
{
  const uint64_t head = MIN (HEAD_BYTES, table->zone_bytes);
  char *buf = malloc (head);
  uint32_t id;
  int r = 1;

  if (buf == NULL)
    return -1;
  for (id = 0; id < table->nr_zones && r == 1; ++id) {
    if (zone_is_random (table, id) && !zone_is_bad (table, id))
      r = range_is_blank (bdev, buf, zone_start_bytes (table, id), head);
    else if (zone_is_seq (table, id))
      r = zone_is_bad (table, id) || table->zones[id].cond == ZONE_EMPTY;
  }
  free (buf);
  return r;
}

static int
format_if_blank (struct bdev *bdev, const struct stack_options *options,
                 struct sh_error *err)
{
  const struct format_options format_options = { .log = options->volume.log };
  struct format_plan plan;
  struct zone_table *table;
  int r;

  if (zone_table_read (bdev, &table, err) == -1)
    return -1;
  r = drive_is_blank (bdev, table);
  if (r == -1)
    sh_fail (err, errno, "%s: cannot read what is on it: %s", bdev->info.name,
             strerror (errno));
  else if (r == 1) {
    r = format_make_plan (bdev, table, &format_options, &plan, err);
    if (r == 0)
      r = format_write (bdev, &table, &format_options, &plan, err);
  }
  zone_table_free (table);
  return r == -1 ? -1 : 0;
}

int
stack_open_volume (const char *device, const struct stack_options *options,
                   struct sh_volume **volume, struct bdev_info *info,
                   struct mq **mq, struct sh_error *err)
{
  struct sh_volume_options volume_options = options->volume;
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
  return 0;
}
