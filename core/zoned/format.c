/* SPDX-License-Identifier: BSD-3-Clause */
#include <config.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include "base/bytes.h"
#include "base/error.h"
#include "zoned/format.h"

#define PIECE_BYTES  MiB                /* of one write */
#define ZEROES_BYTES (256 * MiB)        /* of one BDEV_WRITE_ZEROES, at most */

/* --- the plan --- */

/* A label goes into device names and terminals. */
static int
check_label (const char *label, uint32_t version, struct sh_error *err)
{
  const unsigned char *p;

  if (version == 1) {
    sh_fail (err, EINVAL, "metadata version 1 has no label");
    return sh_hint (err, "leave the label out, or use version 2");
  }
  if (label[0] == '\0' || strlen (label) > FORMAT_LABEL_MAX)
    return sh_fail (err, EINVAL, "a label has 1 to %d characters, this one %zu",
                    FORMAT_LABEL_MAX, strlen (label));
  for (p = (const unsigned char *) label; *p; ++p)
    if (*p < 0x20 || *p == 0x7f || *p == '/')
      return sh_fail (err, EINVAL, "a label has no control characters and no slashes");
  return 0;
}

/* "dmz-" and the serial number, else the device's name. */
static void
make_up_label (const struct bdev_info *info, char label[SUPER_LABEL_BYTES + 1])
{
  const char *name = info->serial, *slash;
  char text[4 + sizeof info->name];
  size_t i, n;

  name += strspn (name, " ");
  if (*name == '\0') {
    slash = strrchr (info->name, '/');
    name = slash ? slash + 1 : info->name;
  }
  n = snprintf (text, sizeof text, "dmz-%s", name);
  n = MIN (n, FORMAT_LABEL_CUT);
  while (n > 4 && text[n - 1] == ' ')
    n--;
  memset (label, 0, SUPER_LABEL_BYTES + 1);
  for (i = 0; i < n; ++i)
    label[i] = text[i] <= 0x20 || text[i] >= 0x7f || text[i] == '/' ? '_' : text[i];
}

static int
make_uuid (const uint8_t *given, uint8_t uuid[SUPER_UUID_BYTES], struct sh_error *err)
{
  if (given != NULL) {
    memcpy (uuid, given, SUPER_UUID_BYTES);
    return 0;
  }
  if (getrandom (uuid, SUPER_UUID_BYTES, 0) != SUPER_UUID_BYTES)
    return sh_fail (err, errno, "no random bytes for a uuid: %s", strerror (errno));
  uuid[6] = (uuid[6] & 0x0f) | 0x40;    /* version 4 */
  uuid[8] = (uuid[8] & 0x3f) | 0x80;
  return 0;
}

static int
plan_super (const struct bdev *bdev, const struct format_options *o,
            const struct layout *layout, struct super *super, struct sh_error *err)
{
  memset (super, 0, sizeof *super);
  super->magic = SUPER_MAGIC;
  super->version = o->version ? o->version : 2;
  super->gen = 1;
  super->sb_block = layout_set_block (layout, 0);
  layout_to_super (layout, super);
  if (super->version > SUPER_VERSION_MAX)
    return sh_fail (err, EINVAL, "metadata version %" PRIu32 " is not known: 1 or 2",
                    super->version);
  if (o->label != NULL && check_label (o->label, super->version, err) == -1)
    return -1;
  if (super->version == 1)
    return 0;
  if (o->label != NULL)
    memcpy (super->label, o->label, strlen (o->label));
  else
    make_up_label (&bdev->info, super->label);
  if (make_uuid (o->uuid, super->uuid, err) == -1 ||
      make_uuid (o->dev_uuid, super->dev_uuid, err) == -1)
    return -1;
  return 0;
}

static void
warn_of_zones (const struct bdev *bdev, const struct zone_table *table,
               const struct format_options *o)
{
  if (table->runt)
    sh_log (o->log, SH_LOG_WARNING, "%s: the last zone (%" PRIu32 ") is shorter than the "
            "others; it is not used, and this volume must never be given to the kernel's "
            "dm-zoned, which would write into that zone",
            bdev->info.name, table->nr_zones - 1);
  if (table->nr_bad > 0)
    sh_log (o->log, SH_LOG_WARNING, "%s: %" PRIu32 " zone%s read-only or offline and "
            "will not be used", bdev->info.name, table->nr_bad,
            table->nr_bad == 1 ? " is" : "s are");
}

int
format_make_plan (struct bdev *bdev, const struct zone_table *table,
                  const struct format_options *options,
                  struct format_plan *plan, struct sh_error *err)
{
  const uint32_t reserved =
    options->reserved ? options->reserved : LAYOUT_RESERVED_DEFAULT;

  if (bdev->info.read_only)
    return sh_fail (err, EROFS, "%s: the drive is write protected", bdev->info.name);
  if (layout_make (table, reserved, &plan->layout, err) == -1 ||
      plan_super (bdev, options, &plan->layout, &plan->super, err) == -1)
    return -1;
  warn_of_zones (bdev, table, options);
  return 0;
}

/* --- the writing --- */

struct job {
  struct bdev *bdev;
  const struct format_options *o;
  const struct layout *l;
  struct sh_error *err;
  uint8_t *piece;               /* PIECE_BYTES */
  uint64_t done, total;         /* blocks of both sets, for the progress */
  bool no_zeroes;               /* BDEV_WRITE_ZEROES was refused */
};

static int
write_failed (struct job *j, uint64_t block)
{
  return sh_fail (j->err, errno, "%s: writing metadata at block %" PRIu64 " failed: %s",
                  j->bdev->info.name, block, sh_drive_error (errno));
}

static int
flush (struct job *j)
{
  if (bdev_flush (j->bdev) == -1)
    return sh_fail (j->err, errno, "%s: flushing the write cache failed: %s",
                    j->bdev->info.name, sh_drive_error (errno));
  return 0;
}

static void
advance (struct job *j, uint64_t blocks)
{
  j->done += blocks;
  sh_progress (j->o->progress, "writing metadata", j->done, j->total);
}

/* `nr` blocks full of one byte. */
static int
fill (struct job *j, uint64_t block, uint64_t nr, uint8_t byte)
{
  uint64_t n;

  memset (j->piece, byte, PIECE_BYTES);
  for (; nr > 0; block += n, nr -= n) {
    n = MIN (nr, PIECE_BYTES / BLOCK_BYTES);
    if (bdev_write (j->bdev, j->piece, n * BLOCK_BYTES, block * BLOCK_BYTES, 0) == -1)
      return write_failed (j, block);
    advance (j, n);
  }
  return 0;
}

/* One BDEV_WRITE_ZEROES: 1 done, 0 the drive does not want to, -1 failed. */
static int
zero_by_drive (struct job *j, uint64_t block, uint64_t nr)
{
  struct bdev_req req = {
    .op = BDEV_WRITE_ZEROES,
    .prio = BDEV_PRIO_BE,
    .off_bytes = block * BLOCK_BYTES,
    .len_bytes = nr * BLOCK_BYTES,
  };

  if (bdev_execute (j->bdev, &req) == 0)
    return 1;
  if (errno == ENOTSUP || errno == EREMOTEIO) {
    j->no_zeroes = true;
    return 0;
  }
  return write_failed (j, block);
}

/* Zeroes, by the drive itself where it can: the bitmaps of a large drive are
   close to a gigabyte. */
static int
zero (struct job *j, uint64_t block, uint64_t nr)
{
  const uint64_t most = MIN (j->bdev->info.max_zeroes_bytes, ZEROES_BYTES) / BLOCK_BYTES;
  uint64_t n;
  int r;

  for (; nr > 0 && most > 0 && !j->no_zeroes; block += n, nr -= n) {
    n = MIN (nr, most);
    r = zero_by_drive (j, block, n);
    if (r == -1)
      return -1;
    if (r == 0)
      break;
    advance (j, n);
  }
  return fill (j, block, nr, 0);
}

static int
write_set (struct job *j, const struct super *first, int set)
{
  const struct layout *l = j->l;
  struct super super = *first;

  if (fill (j, layout_map_block (l, set), l->nr_map_blocks, 0xff) == -1 ||
      zero (j, layout_bitmap_block (l, set, 0), l->nr_bitmap_blocks) == -1 ||
      flush (j) == -1)
    return -1;
  super.sb_block = layout_set_block (l, set);
  memset (j->piece, 0, BLOCK_BYTES);
  super_encode (&super, j->piece);
  if (bdev_write (j->bdev, j->piece, BLOCK_BYTES, super.sb_block * BLOCK_BYTES, 0) == -1)
    return write_failed (j, super.sb_block);
  advance (j, 1);
  return 0;
}

/* From here on there is no volume, until the new one is complete. */
static int
take_away_old (struct job *j)
{
  int set;

  memset (j->piece, 0, BLOCK_BYTES);
  for (set = 0; set < 2; ++set) {
    const uint64_t block = layout_set_block (j->l, set);

    if (bdev_write (j->bdev, j->piece, BLOCK_BYTES, block * BLOCK_BYTES, 0) == -1)
      return write_failed (j, block);
  }
  return flush (j);
}

static bool
will_be_used (const struct zone_table *t, uint32_t id)
{
  return zone_is_seq (t, id) && !zone_is_bad (t, id);
}

static int
read_zones_again (struct job *j, struct zone_table **table)
{
  struct zone_table *again;

  if (zone_table_read (j->bdev, &again, j->err) == -1)
    return -1;
  zone_table_free (*table);
  *table = again;
  return 0;
}

static int
reset_all (struct bdev *bdev)
{
  struct bdev_req req = {
    .op = BDEV_ZONE_RESET,
    .flags = BDEV_ALL,
    .prio = BDEV_PRIO_BE,
  };

  return bdev_execute (bdev, &req);
}

/* Resets zone after zone: all, or those that are not empty. */
static int
reset_each (struct job *j, const struct zone_table *t, bool empty_too)
{
  uint32_t id;

  for (id = 0; id < t->nr_zones; ++id) {
    if (!will_be_used (t, id) || (!empty_too && t->zones[id].cond == ZONE_EMPTY))
      continue;
    if (bdev_zone_reset (j->bdev, zone_start_bytes (t, id)) == -1)
      return sh_fail (j->err, errno, "%s: resetting zone %" PRIu32 " failed: %s",
                      j->bdev->info.name, id, sh_drive_error (errno));
    if (id % 256 == 0)
      sh_progress (j->o->progress, "resetting zones", id, t->nr_zones);
  }
  return 0;
}

static int
check_all_empty (struct job *j, const struct zone_table *t)
{
  uint32_t id;

  for (id = 0; id < t->nr_zones; ++id)
    if (will_be_used (t, id) && t->zones[id].cond != ZONE_EMPTY)
      return sh_fail (j->err, EIO, "%s: zone %" PRIu32 " is %s after it was reset",
                      j->bdev->info.name, id, zone_cond_name (t->zones[id].cond));
  return 0;
}

/* One command for all where the drive knows it.  What the drive then still
   calls other than empty gets a reset of its own. */
static int
reset_zones (struct job *j, struct zone_table **table)
{
  bool empty_too = false;

  sh_progress (j->o->progress, "resetting zones", 0, (*table)->nr_zones);
  if (reset_all (j->bdev) == -1) {
    sh_log (j->o->log, SH_LOG_INFO, "%s: the drive does not reset all zones at once (%s); "
            "resetting one by one", j->bdev->info.name, sh_drive_error (errno));
    empty_too = true;
  }
  else if (read_zones_again (j, table) == -1)
    return -1;
  if (reset_each (j, *table, empty_too) == -1 || read_zones_again (j, table) == -1 ||
      check_all_empty (j, *table) == -1)
    return -1;
  sh_progress (j->o->progress, "resetting zones", (*table)->nr_zones, (*table)->nr_zones);
  return 0;
}

int
format_write (struct bdev *bdev, struct zone_table **table,
              const struct format_options *options,
              const struct format_plan *plan, struct sh_error *err)
{
  struct job j = {
    .bdev = bdev,
    .o = options,
    .l = &plan->layout,
    .err = err,
    .total = 2 * (uint64_t) plan->layout.nr_meta_blocks,
  };
  int r;

  j.piece = aligned_alloc (BLOCK_BYTES, PIECE_BYTES);
  if (j.piece == NULL)
    return sh_fail (err, ENOMEM, "no memory for a buffer");
  r = take_away_old (&j) == -1 || reset_zones (&j, table) == -1 ||
      write_set (&j, &plan->super, 0) == -1 || write_set (&j, &plan->super, 1) == -1 ||
      flush (&j) == -1 ? -1 : 0;
  free (j.piece);
  if (r == -1)
    sh_hint (err, "what was on the drive is gone or incomplete; format it again once the cause is removed");
  return r;
}
