/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libblkid wants a file.  It gets one in memory that is as large as the drive
 * and sparse, with the drive's first and last few MiB in it: every signature
 * that it knows lies there.
 */
#include <config.h>
#include <blkid.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/bdev.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/text.h"
#include "zoned/contents.h"
#include "zoned/sets.h"
#include "zoned/zones.h"

#define EDGE_BYTES  (4 * MiB)           /* looked at, at each end */
#define PIECE_BYTES (256 * KiB)
#define BTRFS_MAGIC_AT 0x40             /* in its superblock */
/* Looked at of every conventional zone: a file system in a partition, or in a
   zone of its own, shows itself there. */
#define HEAD_BYTES  (128 * KiB)

static void add (struct contents *c, const char *fmt, ...)
  __attribute__ ((format (printf, 2, 3)));

static void
add (struct contents *c, const char *fmt, ...)
{
  const size_t used = strlen (c->what);
  va_list ap;
  int n;

  n = snprintf (c->what + used, sizeof c->what - used, "%s", c->anything ? ", " : "");
  c->anything = true;
  if (used + n >= sizeof c->what)
    return;
  va_start (ap, fmt);
  vsnprintf (c->what + used + n, sizeof c->what - used - n, fmt, ap);
  va_end (ap);
}

/* "a gpt", "an ext4" */
static const char *
article (const char *name)
{
  return strchr ("aeioux", name[0]) ? "an" : "a";
}

/* --- a dm-zoned volume --- */

static void
find_volume (struct bdev *bdev, const struct zone_table *table, struct contents *c)
{
  struct sh_error ignored = { 0 };
  struct meta_sets sets;
  char label[SUPER_LABEL_BYTES + 1];

  c->volume = true;
  if (meta_sets_read (bdev, table, &sets, &ignored) == 0)
    add (c, "a dm-zoned volume \"%s\"",
         sh_printable (sets.set[sets.primary].super.label, label, sizeof label));
  else if (sets.set[0].present || sets.set[1].present)
    add (c, "a damaged dm-zoned volume");
  else
    c->volume = false;
}

/* --- what libblkid knows --- */

static int
unreadable (const struct bdev *bdev, uint64_t off, struct sh_error *err)
{
  return sh_fail (err, errno, "%s: what the drive holds cannot be read at byte %" PRIu64
                  ": %s", bdev->info.name, off, sh_drive_error (errno));
}

/* How much from `off` on can be read at once: up to the zone's end, and below
   its write pointer. */
static uint64_t
readable (const struct zone_table *table, uint64_t off, uint64_t most)
{
  const uint32_t id = off / table->zone_bytes;
  const struct zone *z = &table->zones[id];
  const uint64_t start = zone_start_bytes (table, id);
  const uint64_t end = start + (uint64_t) z->wp * BLOCK_BYTES;

  if (z->cond == ZONE_OFFLINE || z->wp_unknown || off >= end)
    return 0;
  return MIN (end - off, most);
}

/* Copies [off, off + len) into the file, where there is anything to read. */
static int
copy_range (struct bdev *bdev, const struct zone_table *table, int fd,
            uint8_t *buf, uint64_t off, uint64_t len, struct sh_error *err)
{
  const uint64_t end = off + len;
  uint64_t zone_end, n;

  for (; off < end; off += n) {
    zone_end = (off / table->zone_bytes + 1) * table->zone_bytes;
    n = MIN (MIN (end, zone_end) - off, PIECE_BYTES);
    if (readable (table, off, n) == 0)
      continue;
    n = readable (table, off, n);
    if (bdev_read (bdev, buf, n, off) == -1)
      return unreadable (bdev, off, err);
    if (pwrite (fd, buf, n, off) != (ssize_t) n)
      return sh_fail (err, errno, "no memory to look at what the drive holds: %s",
                      sh_drive_error (errno));
  }
  return 0;
}

static int
copy_edges (struct bdev *bdev, const struct zone_table *table, int fd, struct sh_error *err)
{
  const uint64_t size = bdev->info.size_bytes;
  const uint64_t edge = MIN (EDGE_BYTES, size);
  uint8_t *buf = aligned_alloc (BLOCK_BYTES, PIECE_BYTES);
  int r = -1;

  if (buf == NULL)
    return sh_fail (err, ENOMEM, "no memory for a buffer");
  if (ftruncate (fd, size) == -1)
    sh_fail (err, errno, "no memory to look at what the drive holds: %s", strerror (errno));
  else if (copy_range (bdev, table, fd, buf, 0, edge, err) == 0 &&
           copy_range (bdev, table, fd, buf, size - edge, edge, err) == 0)
    r = 0;
  free (buf);
  return r;
}

static void
add_probed (struct contents *c, blkid_probe pr)
{
  const char *type = NULL, *label = NULL, *usage = NULL, *table = NULL;
  char text[64];

  blkid_probe_lookup_value (pr, "TYPE", &type, NULL);
  blkid_probe_lookup_value (pr, "LABEL", &label, NULL);
  blkid_probe_lookup_value (pr, "USAGE", &usage, NULL);
  blkid_probe_lookup_value (pr, "PTTYPE", &table, NULL);
  if (type != NULL) {
    add (c, "%s %s%s", article (type), type,
         usage == NULL || strcmp (usage, "filesystem") == 0 ? " file system" :
         strcmp (usage, "raid") == 0 ? " (part of an array or volume group)" :
         strcmp (usage, "crypto") == 0 ? " (encrypted volume)" : " area");
    if (label != NULL && label[0] != '\0')
      snprintf (c->what + strlen (c->what), sizeof c->what - strlen (c->what), " \"%s\"",
                sh_printable (label, text, sizeof text));
  }
  if (table != NULL)
    add (c, "%s %s partition table", article (table), table);
}

static int
probe (struct bdev *bdev, int fd, struct contents *c, struct sh_error *err)
{
  blkid_probe pr = blkid_new_probe ();
  unsigned i;

  if (pr == NULL || blkid_probe_set_device (pr, fd, 0, bdev->info.size_bytes) == -1) {
    blkid_free_probe (pr);
    return sh_fail (err, ENOMEM, "libblkid cannot look at the drive");
  }
  blkid_probe_set_sectorsize (pr, bdev->info.lbs_bytes);
  blkid_probe_enable_superblocks (pr, 1);
  blkid_probe_set_superblocks_flags (pr, BLKID_SUBLKS_TYPE | BLKID_SUBLKS_LABEL |
                                     BLKID_SUBLKS_USAGE);
  blkid_probe_enable_partitions (pr, 1);
  /* Also the copy at the end, when the one at the start is gone. */
  blkid_probe_set_partitions_flags (pr, BLKID_PARTS_FORCE_GPT);
  for (i = 0; i < 8 && blkid_do_probe (pr) == 0; ++i)
    add_probed (c, pr);
  blkid_free_probe (pr);
  return 0;
}

static int
find_signatures (struct bdev *bdev, const struct zone_table *table, struct contents *c,
                 struct sh_error *err)
{
  const int fd = memfd_create ("drive", MFD_CLOEXEC);
  int r;

  if (fd == -1)
    return sh_fail (err, errno, "no memory to look at what the drive holds: %s",
                    sh_drive_error (errno));
  r = copy_edges (bdev, table, fd, err);
  if (r == 0)
    r = probe (bdev, fd, c, err);
  close (fd);
  return r;
}

/* --- what it does not know: a btrfs made for zones keeps its superblock at
   the start of one of the first two zones --- */

static int
find_zoned_btrfs (struct bdev *bdev, const struct zone_table *table, struct contents *c,
                  struct sh_error *err)
{
  uint8_t block[BLOCK_BYTES];
  uint32_t id;

  for (id = 0; id < MIN (table->nr_zones, 2u); ++id) {
    const uint64_t off = zone_start_bytes (table, id);

    if (readable (table, off, BLOCK_BYTES) < BLOCK_BYTES)
      continue;
    if (bdev_read (bdev, block, sizeof block, off) == -1)
      return sh_fail (err, errno, "%s: zone %" PRIu32 " cannot be read: %s",
                      bdev->info.name, id, sh_drive_error (errno));
    if (memcmp (block + BTRFS_MAGIC_AT, "_BHRfS_M", 8) == 0) {
      add (c, "a zoned btrfs file system");
      return 0;
    }
  }
  return 0;
}

/* --- anything else that was written --- */

static void
find_written_zones (const struct zone_table *table, struct contents *c)
{
  uint32_t id, nr = 0, first = 0;

  for (id = 0; id < table->nr_zones; ++id) {
    const struct zone *z = &table->zones[id];

    if (z->type == ZONE_CONVENTIONAL || z->wp_unknown || (z->wp == 0 && !z->wp_odd))
      continue;
    if (nr++ == 0)
      first = id;
  }
  if (nr > 0)
    add (c, "%" PRIu32 " written sequential zone%s (%s zone %" PRIu32 ")", nr,
         nr == 1 ? "" : "s", nr == 1 ? "it is" : "the first is", first);
}

static bool
all_zero (const uint8_t *buf, size_t n)
{
  return buf[0] == 0 && memcmp (buf, buf + 1, n - 1) == 0;
}

static int
find_written_random (struct bdev *bdev, const struct zone_table *table, struct contents *c,
                     struct sh_error *err)
{
  const uint64_t head = MIN (HEAD_BYTES, table->zone_bytes);
  uint8_t *buf = aligned_alloc (BLOCK_BYTES, head);
  uint32_t id, nr = 0, first = 0;
  int r = 0;

  if (buf == NULL)
    return sh_fail (err, ENOMEM, "no memory for a buffer");
  for (id = 0; id < table->nr_zones && r == 0; ++id) {
    if (!zone_is_random (table, id) || zone_is_bad (table, id))
      continue;
    r = bdev_read (bdev, buf, head, zone_start_bytes (table, id));
    if (r == -1)
      unreadable (bdev, zone_start_bytes (table, id), err);
    else if (!all_zero (buf, head) && nr++ == 0)
      first = id;
  }
  free (buf);
  if (nr > 0)
    add (c, "data in %" PRIu32 " conventional zone%s (%s zone %" PRIu32 ")", nr,
         nr == 1 ? "" : "s", nr == 1 ? "it is" : "the first is", first);
  return r;
}

int
contents_find (struct bdev *bdev, const struct zone_table *table,
               struct contents *contents, struct sh_error *err)
{
  memset (contents, 0, sizeof *contents);
  find_volume (bdev, table, contents);
  if (find_signatures (bdev, table, contents, err) == -1 ||
      find_zoned_btrfs (bdev, table, contents, err) == -1)
    return -1;
  find_written_zones (table, contents);
  /* A name says more than "data". */
  return contents->anything ? 0 : find_written_random (bdev, table, contents, err);
}
