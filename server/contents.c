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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/bdev.h"
#include "base/bytes.h"
#include "base/error.h"
#include "contents.h"
#include "open.h"
#include "zoned/sets.h"
#include "zoned/zones.h"

#define EDGE_BYTES  (4 * MiB)           /* looked at, at each end */
#define PIECE_BYTES (256 * KiB)
#define BTRFS_MAGIC_AT 0x40             /* in its superblock */

struct findings {
  char *what;
  size_t size;
  unsigned nr;
};

static void add (struct findings *f, const char *fmt, ...)
  __attribute__ ((format (printf, 2, 3)));

static void
add (struct findings *f, const char *fmt, ...)
{
  const size_t used = strlen (f->what);
  va_list ap;
  int n;

  n = snprintf (f->what + used, f->size - used, "%s", f->nr++ ? ", " : "");
  if (used + n >= f->size)
    return;
  va_start (ap, fmt);
  vsnprintf (f->what + used + n, f->size - used - n, fmt, ap);
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
find_volume (struct bdev *bdev, const struct zone_table *table, struct findings *f)
{
  struct sh_error ignored = { 0 };
  struct meta_sets sets;
  char label[SUPER_LABEL_BYTES + 1];

  if (meta_sets_read (bdev, table, &sets, &ignored) == 0)
    add (f, "a dm-zoned volume \"%s\"",
         printable (sets.set[sets.primary].super.label, label, sizeof label));
  else if (sets.set[0].present || sets.set[1].present)
    add (f, "a damaged dm-zoned volume");
}

/* --- what libblkid knows --- */

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
    if (bdev_read (bdev, buf, n, off) == -1) {
      sh_fail (err, errno, "%s: what the drive holds cannot be read at byte %" PRIu64 ": %s",
               bdev->info.name, off, strerror (errno));
      return sh_hint (err, "--force formats it without looking");
    }
    if (pwrite (fd, buf, n, off) != (ssize_t) n)
      return sh_fail (err, errno, "no memory to look at what the drive holds: %s",
                      strerror (errno));
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
add_probed (struct findings *f, blkid_probe pr)
{
  const char *type = NULL, *label = NULL, *usage = NULL, *table = NULL;
  char text[64];

  blkid_probe_lookup_value (pr, "TYPE", &type, NULL);
  blkid_probe_lookup_value (pr, "LABEL", &label, NULL);
  blkid_probe_lookup_value (pr, "USAGE", &usage, NULL);
  blkid_probe_lookup_value (pr, "PTTYPE", &table, NULL);
  if (type != NULL) {
    add (f, "%s %s%s", article (type), type,
         usage == NULL || strcmp (usage, "filesystem") == 0 ? " file system" :
         strcmp (usage, "raid") == 0 ? " (part of an array or volume group)" :
         strcmp (usage, "crypto") == 0 ? " (encrypted volume)" : " area");
    if (label != NULL && label[0] != '\0')
      snprintf (f->what + strlen (f->what), f->size - strlen (f->what), " \"%s\"",
                printable (label, text, sizeof text));
  }
  if (table != NULL)
    add (f, "%s %s partition table", article (table), table);
}

static int
probe (struct bdev *bdev, int fd, struct findings *f, struct sh_error *err)
{
  blkid_probe pr = blkid_new_probe ();

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
  while (f->nr < 8 && blkid_do_probe (pr) == 0)
    add_probed (f, pr);
  blkid_free_probe (pr);
  return 0;
}

static int
find_signatures (struct bdev *bdev, const struct zone_table *table, struct findings *f,
                 struct sh_error *err)
{
  const int fd = memfd_create ("drive", MFD_CLOEXEC);
  int r;

  if (fd == -1)
    return sh_fail (err, errno, "no memory to look at what the drive holds: %s",
                    strerror (errno));
  r = copy_edges (bdev, table, fd, err);
  if (r == 0)
    r = probe (bdev, fd, f, err);
  close (fd);
  return r;
}

/* --- what it does not know: a btrfs made for zones keeps its superblock at
   the start of one of the first two zones --- */

static int
find_zoned_btrfs (struct bdev *bdev, const struct zone_table *table, struct findings *f,
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
                      bdev->info.name, id, strerror (errno));
    if (memcmp (block + BTRFS_MAGIC_AT, "_BHRfS_M", 8) == 0) {
      add (f, "a zoned btrfs file system");
      return 0;
    }
  }
  return 0;
}

/* --- anything else that was written --- */

static void
find_written_zones (const struct zone_table *table, struct findings *f)
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
    add (f, "%" PRIu32 " written sequential zone%s (%s zone %" PRIu32 ")", nr,
         nr == 1 ? "" : "s", nr == 1 ? "it is" : "the first is", first);
}

int
contents_find (struct bdev *bdev, const struct zone_table *table,
               char *what, size_t size, struct sh_error *err)
{
  struct findings f = { .what = what, .size = size };

  what[0] = '\0';
  find_volume (bdev, table, &f);
  if (find_signatures (bdev, table, &f, err) == -1 ||
      find_zoned_btrfs (bdev, table, &f, err) == -1)
    return -1;
  find_written_zones (table, &f);
  return f.nr > 0;
}
