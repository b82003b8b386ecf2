/* SPDX-License-Identifier: BSD-3-Clause */
/* shingle format: looks first, changes nothing before every check has passed. */
#include <config.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "args.h"
#include "base/bdev.h"
#include "base/error.h"
#include "base/parse.h"
#include "commands.h"
#include "open.h"
#include "zoned/contents.h"
#include "zoned/format.h"
#include "zoned/zones.h"

enum { OPT_FORCE = 'f', OPT_LABEL = 256, OPT_RESERVED, OPT_VERSION };

static const struct arg_option options[] = {
  { OPT_FORCE, 'f', "force", NULL, "also when the drive holds something" },
  { OPT_LABEL, 0, "label", "TEXT", "the volume's name (default: from the serial number)" },
  { OPT_RESERVED, 0, "reserved", "N", "sequential zones kept for reclaim (default: 16)" },
  { OPT_VERSION, 0, "metadata-version", "1|2", "on-disk format (default: 2)" },
  { 0, 0, NULL, NULL, NULL }
};

struct request {
  const char *device;
  bool force;
  struct format_options format;
};

static void
help (void)
{
  printf ("Usage: shingle format DEVICE [OPTIONS]\n\n"
          "Makes a new, empty volume on a zoned drive.\n\n");
  args_print_options (options);
}

/* One argument; 0, 1 when there is no such one, or -1 with err. */
static int
take (void *opaque, const struct args *a, int id, struct sh_error *err)
{
  struct request *r = opaque;
  uint64_t n;

  switch (id) {
  case ARGS_WORD:
    if (r->device != NULL)
      return 1;
    r->device = a->value;
    return 0;
  case OPT_FORCE:
    r->force = true;
    return 0;
  case OPT_LABEL:
    r->format.label = a->value;
    return 0;
  case OPT_RESERVED:
    if (sh_parse_uint ("--reserved", a->value, 1, UINT32_MAX, &n, err) == -1)
      return -1;
    r->format.reserved = n;
    return 0;
  case OPT_VERSION:
    if (sh_parse_uint ("--metadata-version", a->value, 1, 2, &n, err) == -1)
      return -1;
    r->format.version = n;
    return 0;
  default:
    return 1;
  }
}

/* STATUS_OK to go on, else the status to end with; *done for --help. */
static int
parse (int argc, char **argv, struct request *r, bool *done)
{
  struct args a;
  int status;

  args_init (&a, "shingle format", options, argc, argv);
  status = take_arguments (&a, help, take, r, done);
  return status != STATUS_OK || *done || r->device ? status : refuse_no_device (&a);
}

static int
refuse_full_drive (struct bdev *bdev, const struct zone_table *table, struct sh_error *err)
{
  struct contents c;

  if (contents_find (bdev, table, &c, err) == -1)
    return sh_hint (err, "--force formats it without looking");
  if (!c.anything)
    return 0;
  sh_fail (err, EEXIST, "%s: the drive is not empty, it holds %s; nothing was changed",
           bdev->info.name, c.what);
  return sh_hint (err, "--force formats it anyway; everything on it is lost then");
}

static void
print_result (const struct bdev *bdev, const struct format_plan *plan)
{
  const struct layout *l = &plan->layout;
  char size[SIZE_TEXT], chunk[SIZE_TEXT], uuid[UUID_TEXT];

  printf ("%s: formatted as a volume of %s: %" PRIu32 " chunks of %s, %" PRIu32
          " zones in reserve\n", bdev->info.name, size_text (layout_volume_bytes (l), size),
          l->nr_chunks, size_text ((uint64_t) l->zone_blocks * BLOCK_BYTES, chunk),
          l->nr_reserved);
  if (plan->super.version > 1)
    printf ("label %s, uuid %s\n", plan->super.label, uuid_text (plan->super.uuid, uuid));
}

static int
format (struct bdev *bdev, struct request *r, struct zone_table **table,
        struct sh_error *err)
{
  struct progress_bar bar;
  struct format_plan plan;
  int written;

  if (zone_table_read (bdev, table, err) == -1 ||
      format_make_plan (bdev, *table, &r->format, &plan, err) == -1 ||
      (!r->force && refuse_full_drive (bdev, *table, err) == -1))
    return -1;
  progress_bar_init (&bar);
  r->format.progress = &bar.progress;
  written = format_write (bdev, table, &r->format, &plan, err);
  progress_bar_end (&bar);
  if (written == 0)
    print_result (bdev, &plan);
  return written;
}

int
command_format (int argc, char **argv)
{
  struct request r = { .format.log = &log_to_stderr };
  struct sh_error err = { 0 };
  struct zone_table *table = NULL;
  struct bdev *bdev;
  bool done;
  int status = parse (argc, argv, &r, &done);

  if (status != STATUS_OK || done)
    return status;
  if (open_device (r.device, OPEN_EXCLUSIVE, &bdev, &err) == -1)
    return report_error (&err);
  if (format (bdev, &r, &table, &err) == -1)
    status = report_error (&err);
  zone_table_free (table);
  bdev_close (bdev);
  return status;
}
