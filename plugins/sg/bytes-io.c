/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lock order: drive.blocks alone; no other lock is taken under it except
 * inside the drive.  It is held across I/O on purpose: changing a part of a
 * block reads and writes all of it, and no other write of that block may come
 * in between.  Whole-block writes, the usual case, share it.
 */
#include <config.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/bytes.h"
#include "bytes-io.h"

/* Zones asked for at a time. */
#define ZONES_AT_ONCE 512
/* Zeroes sent at a time where the drive cannot make them. */
#define ZEROES_AT_ONCE (256 * KiB)

static uint64_t
down (const struct drive *d, uint64_t offset)
{
  return offset & ~(uint64_t) (d->bdev->info.lbs_bytes - 1);
}

static uint64_t
up (const struct drive *d, uint64_t offset)
{
  return down (d, offset + d->bdev->info.lbs_bytes - 1);
}

static bool
is_whole (const struct drive *d, uint64_t count, uint64_t offset)
{
  return down (d, count | offset) == (count | offset);
}

/* ---- reading ---- */

struct read_pieces { struct drive *d; char *buf; uint64_t offset; };

static int
read_piece (void *opaque, uint64_t offset, uint64_t count, bool hole)
{
  const struct read_pieces *r = opaque;
  char *to = r->buf + (offset - r->offset);

  if (!hole)
    return bdev_read (r->d->bdev, to, count, offset);
  memset (to, 0, count);
  return 0;
}

/* A drive without unrestricted reads refuses what no zone holds (and ranges
   across zone borders): read around that. */
static int
read_whole (struct drive *d, void *buf, uint64_t count, uint64_t offset)
{
  struct read_pieces pieces = { d, buf, offset };
  const struct bdev_info *info = &d->bdev->info;

  if (bdev_read (d->bdev, buf, count, offset) == 0)
    return 0;
  if (errno != EREMOTEIO || info->zone_bytes == 0)
    return -1;
  return drive_extents (d, count, offset, read_piece, &pieces);
}

int
drive_read (struct drive *d, void *buf, uint64_t count, uint64_t offset)
{
  const uint64_t start = down (d, offset), len = up (d, offset + count) - start;
  char *whole;
  int r;

  if (is_whole (d, count, offset))
    return read_whole (d, buf, count, offset);
  whole = malloc (len);
  if (whole == NULL)
    return -1;
  r = read_whole (d, whole, len, start);
  if (r == 0)
    memcpy (buf, whole + (offset - start), count);
  free (whole);
  return r;
}

/* ---- writing ---- */

/* Reads the blocks that the range covers only in part into `whole`. */
static int
read_edges (struct drive *d, char *whole, uint64_t len, uint64_t start, uint64_t offset,
            uint64_t end)
{
  const uint64_t lbs = d->bdev->info.lbs_bytes;
  const uint64_t last = start + len - lbs;

  if (offset > start && bdev_read (d->bdev, whole, lbs, start) == -1)
    return -1;
  if (end < start + len && (last > start || offset == start))
    return bdev_read (d->bdev, whole + (last - start), lbs, last);
  return 0;
}

/* buf NULL: zeroes. */
static int
change_part (struct drive *d, const void *buf, uint64_t count, uint64_t offset,
             unsigned flags)
{
  const uint64_t start = down (d, offset), len = up (d, offset + count) - start;
  char *whole = malloc (len);
  int r;

  if (whole == NULL)
    return -1;
  pthread_rwlock_wrlock (&d->blocks);
  r = read_edges (d, whole, len, start, offset, offset + count);
  if (r == 0) {
    if (buf)
      memcpy (whole + (offset - start), buf, count);
    else
      memset (whole + (offset - start), 0, count);
    r = bdev_write (d->bdev, whole, len, start, flags);
  }
  pthread_rwlock_unlock (&d->blocks);
  free (whole);
  return r;
}

int
drive_write (struct drive *d, const void *buf, uint64_t count, uint64_t offset, bool fua)
{
  const unsigned flags = fua ? BDEV_FUA : 0;
  int r;

  if (!is_whole (d, count, offset))
    return change_part (d, buf, count, offset, flags);
  pthread_rwlock_rdlock (&d->blocks);
  r = bdev_write (d->bdev, buf, count, offset, flags);
  pthread_rwlock_unlock (&d->blocks);
  return r;
}

/* ---- zeroes ---- */

static int
write_zero_buffers (struct drive *d, uint64_t count, uint64_t offset)
{
  const size_t most = MIN (ZEROES_AT_ONCE, count);
  char *zeroes = calloc (1, most);
  int r = 0;

  if (zeroes == NULL)
    return -1;
  while (count > 0 && r == 0) {
    const uint64_t n = MIN (count, most);

    r = bdev_write (d->bdev, zeroes, n, offset, 0);
    offset += n;
    count -= n;
  }
  free (zeroes);
  return r;
}

static int
zero_whole_shared (struct drive *d, uint64_t count, uint64_t offset, bool may_trim)
{
  struct bdev_req req = {
    .op = BDEV_WRITE_ZEROES,
    .flags = may_trim ? BDEV_ZEROES_MAY_UNMAP : 0,
    .prio = BDEV_PRIO_BE,
    .off_bytes = offset,
    .len_bytes = count,
  };

  if (d->bdev->info.max_zeroes_bytes > 0) {
    if (bdev_execute (d->bdev, &req) == 0)
      return 0;
    if (errno != ENOTSUP)
      return -1;
  }
  return write_zero_buffers (d, count - req.done_bytes, offset + req.done_bytes);
}

static int
zero_whole (struct drive *d, uint64_t count, uint64_t offset, bool may_trim)
{
  int r;

  pthread_rwlock_rdlock (&d->blocks);
  r = zero_whole_shared (d, count, offset, may_trim);
  pthread_rwlock_unlock (&d->blocks);
  return r;
}

/* One durable end for the pieces, cheaper than FUA on each. */
static int
finish (struct drive *d, bool fua)
{
  return fua ? bdev_flush (d->bdev) : 0;
}

int
drive_zero (struct drive *d, uint64_t count, uint64_t offset, bool fua, bool may_trim,
            bool fast)
{
  const uint64_t end = offset + count;
  const uint64_t first = MIN (up (d, offset), end), last = MAX (down (d, end), first);

  if (fast && !(may_trim && d->bdev->info.zeroes_unmap && is_whole (d, count, offset))) {
    errno = ENOTSUP;
    return -1;
  }
  if (first > offset && change_part (d, NULL, first - offset, offset, 0) == -1)
    return -1;
  if (last > first && zero_whole (d, last - first, first, may_trim) == -1)
    return -1;
  if (end > last && change_part (d, NULL, end - last, last, 0) == -1)
    return -1;
  return finish (d, fua);
}

int
drive_trim (struct drive *d, uint64_t count, uint64_t offset, bool fua)
{
  struct bdev_req req = { .op = BDEV_UNMAP, .prio = BDEV_PRIO_BE };
  const uint64_t first = up (d, offset), last = down (d, offset + count);
  int r = 0;

  if (last > first) {
    req.off_bytes = first;
    req.len_bytes = last - first;
    pthread_rwlock_rdlock (&d->blocks);
    r = bdev_execute (d->bdev, &req);
    pthread_rwlock_unlock (&d->blocks);
    /* A drive that turns out to have no UNMAP has ignored the advice. */
    if (r == -1 && errno == ENOTSUP)
      r = 0;
  }
  return r == -1 ? -1 : finish (d, fua);
}

/* ---- extents ---- */

struct extents {
  int (*fn) (void *opaque, uint64_t offset, uint64_t count, bool hole);
  void *opaque;
  uint64_t at, end;             /* what is still to be told */
};

/* Tells [e->at, until); 0 to go on. */
static int
tell (struct extents *e, uint64_t until, bool hole)
{
  const uint64_t from = e->at;

  until = MIN (until, e->end);
  if (until <= from)
    return 0;
  e->at = until;
  return e->fn (e->opaque, from, until - from, hole);
}

/* Where the data of a zone ends: all of it counts where there is no pointer. */
static uint64_t
data_end (const struct bdev_zone *z)
{
  const uint64_t end = z->start_bytes + z->len_bytes;

  if (z->type == ZONE_CONVENTIONAL || z->wp_bytes == UINT64_MAX)
    return end;
  return MIN (z->wp_bytes, z->start_bytes + z->cap_bytes);
}

static int
tell_zones (struct extents *e, const struct bdev_zone *zones, size_t nr)
{
  for (size_t i = 0; i < nr && e->at < e->end; ++i) {
    int r = tell (e, data_end (&zones[i]), false);

    if (r == 0)
      r = tell (e, zones[i].start_bytes + zones[i].len_bytes, true);
    if (r != 0)
      return r;
  }
  return 0;
}

int
drive_extents (struct drive *d, uint64_t count, uint64_t offset,
               int (*fn) (void *opaque, uint64_t offset, uint64_t count, bool hole),
               void *opaque)
{
  struct extents e = { fn, opaque, offset, offset + count };
  struct bdev_zone *zones;
  size_t nr;
  int r = 0;

  if (d->bdev->info.zone_bytes == 0)
    return tell (&e, e.end, false) == -1 ? -1 : 0;
  zones = calloc (ZONES_AT_ONCE, sizeof *zones);
  if (zones == NULL)
    return -1;
  while (r == 0 && e.at < e.end) {
    const size_t want = (size_t) MIN (ZONES_AT_ONCE,
                                      (e.end - e.at) / d->bdev->info.zone_bytes + 2);

    r = bdev_report_zones (d->bdev, e.at, zones, want, &nr);
    if (r == 0)
      r = nr > 0 ? tell_zones (&e, zones, nr) : tell (&e, e.end, false);
  }
  free (zones);
  return r == -1 ? -1 : 0;
}
