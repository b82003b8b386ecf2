/* SPDX-License-Identifier: BSD-3-Clause */
/* REPORT ZONES in pages. */
#include <config.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "base/bytes.h"
#include "base/error.h"
#include "base/log.h"
#include "scsi/disk-internal.h"

/* 8191 zones and the header are half a MiB. */
#define MAX_SLOTS 8191

static size_t
page_bytes (struct disk *d, size_t slots)
{
  const size_t most = atomic_load_explicit (&d->max_bytes, memory_order_relaxed);
  const size_t want = REPORT_HEADER_BYTES + REPORT_ZONE_BYTES * MIN (slots, MAX_SLOTS);

  /* Whole logical blocks would be nicer to some adapters, but a length that is
     a multiple of 64 is all the standard asks. */
  return MAX (MIN (want, most / REPORT_ZONE_BYTES * REPORT_ZONE_BYTES),
              (size_t) REPORT_HEADER_BYTES + REPORT_ZONE_BYTES);
}

static bool
refused (const struct attempt *a)
{
  return a->answer && a->answer->action == ANSWER_UNSUPPORTED;
}

/* Reads one page.  PARTIAL keeps the drive from counting all zones behind the
   page; drives of the first ZBC drafts refuse it. */
static int
read_page (struct disk *d, uint64_t lba, enum report_zones_option option,
           uint8_t *buf, size_t buf_bytes, struct report *report)
{
  struct iovec iov = { buf, buf_bytes };
  struct attempt a;

  for (;;) {
    const bool partial = !atomic_load_explicit (&d->partial_refused, memory_order_relaxed);

    attempt_init (&a, DISK_CLASS_ZONE_IN, partial ? ATTEMPT_EXPECT_REFUSAL : 0);
    cdb_report_zones (&a.c, lba, (uint32_t) buf_bytes, option, partial);
    attempt_data (&a, SH_XFER_FROM_DEVICE, &iov, 1, buf_bytes);
    if (attempt_all (d, &a) == 0)
      break;
    if (!partial || !refused (&a) || a.sense.asc != 0x24)
      return -1;
    atomic_store_explicit (&d->partial_refused, true, memory_order_relaxed);
  }
  if (!report_parse (buf, buf_bytes - a.c.resid, report)) {
    errno = EPROTO;
    return -1;
  }
  return 0;
}

int
zone_walk_begin (struct zone_walk *w, struct disk *d, uint64_t lba, size_t slots,
                 struct sh_error *err)
{
  memset (w, 0, sizeof *w);
  w->d = d;
  w->lba = lba;
  w->first = true;
  w->buf_bytes = page_bytes (d, slots);
  w->buf = malloc (w->buf_bytes);
  if (w->buf == NULL)
    return sh_fail (err, ENOMEM, "%s: no memory for a zone report", d->bdev.info.name);
  return 0;
}

static int
next_page (struct zone_walk *w, struct sh_error *err)
{
  struct disk *d = w->d;

  if (read_page (d, w->lba, REPORT_ALL, w->buf, w->buf_bytes, &w->report) == -1)
    return sh_fail (err, errno, "%s: REPORT ZONES from LBA %" PRIu64 " failed: %s",
                    d->bdev.info.name, w->lba, sh_drive_error (errno));
  if (w->report.nr == 0)
    return sh_fail (err, EPROTO, "%s: the drive reports no zone from LBA %" PRIu64
                    " on, though it has %" PRIu64 " blocks", d->bdev.info.name, w->lba,
                    d->nr_lbas);
  w->next = 0;
  return 0;
}

/* The zone that holds the LBA asked for may start before it. */
static uint64_t
first_start (struct zone_walk *w)
{
  const uint64_t start = report_lba (&w->report, 0);

  return start < w->lba ? start : w->lba;
}

int
zone_walk_next (struct zone_walk *w, struct bdev_zone *zone, struct sh_error *err)
{
  struct disk *d = w->d;
  const struct report_limits limits = { d->nr_lbas, d->lbs_shift };
  struct sh_error why = { 0 };
  uint64_t start, end;

  if (w->lba >= d->nr_lbas)
    return 0;
  if (w->next >= w->report.nr && next_page (w, err) == -1)
    return -1;
  start = w->first ? first_start (w) : w->lba;
  if (report_zone (&w->report, w->next, &limits, start, zone, &why) == -1)
    return sh_fail (err, EPROTO, "%s: the zone report makes no sense: %s",
                    d->bdev.info.name, why.message);
  end = (zone->start_bytes + zone->len_bytes) >> d->lbs_shift;
  if (end <= w->lba)
    return sh_fail (err, EPROTO, "%s: the zone report makes no sense: asked from LBA %"
                    PRIu64 " on, it begins with the zone at LBA %" PRIu64,
                    d->bdev.info.name, w->lba, start);
  w->first = false;
  w->lba = end;
  ++w->next;
  return 1;
}

void
zone_walk_end (struct zone_walk *w)
{
  free (w->buf);
  w->buf = NULL;
}

int
disk_report_header (struct disk *d, struct report *report, struct sh_error *err)
{
  uint8_t buf[REPORT_HEADER_BYTES + REPORT_ZONE_BYTES];

  if (read_page (d, 0, REPORT_ALL, buf, sizeof buf, report) == -1)
    return sh_fail (err, errno, "%s: REPORT ZONES failed: %s", d->bdev.info.name,
                    sh_drive_error (errno));
  report->zones = NULL;
  return 0;
}

int
disk_report_one (struct disk *d, uint64_t lba, struct bdev_zone *zone)
{
  struct sh_error err = { 0 };
  struct zone_walk w;
  int r;

  if (zone_walk_begin (&w, d, lba, 1, &err) == -1)
    return -1;
  r = zone_walk_next (&w, zone, &err);
  zone_walk_end (&w);
  if (r == 1)
    return 0;
  errno = r == 0 ? EPROTO : err.errnum;
  return -1;
}

/* May a gap zone still follow the last zone that was stored? */
static bool
gap_may_follow (const struct disk *d, const struct bdev_zone *last)
{
  return d->has_gaps && last->len_bytes < d->bdev.info.zone_bytes;
}

static int
collect (struct zone_walk *w, struct bdev_zone *zones, size_t max, size_t *nr,
         struct sh_error *err)
{
  struct bdev_zone zone;
  int r;

  while (*nr < max || gap_may_follow (w->d, &zones[*nr - 1])) {
    r = zone_walk_next (w, &zone, err);
    if (r <= 0)
      return r;
    if (zone.type == ZONE_GAP) {
      if (*nr > 0)
        zones[*nr - 1].len_bytes += zone.len_bytes;
    }
    else if (*nr < max)
      zones[(*nr)++] = zone;
    else
      break;
  }
  return 0;
}

int
disk_report_zones (struct bdev *bdev, uint64_t start_bytes, struct bdev_zone *zones,
                   size_t max, size_t *nr)
{
  struct disk *d = disk_of (bdev);
  struct sh_error err = { 0 };
  struct zone_walk w;
  int r;

  *nr = 0;
  if (bdev->info.zone_bytes == 0) {
    errno = ENOTSUP;
    return -1;
  }
  if (max == 0 || start_bytes >= bdev->info.size_bytes)
    return 0;
  if (d->has_gaps)              /* start_bytes may lie in the gap of its zone */
    start_bytes -= start_bytes % bdev->info.zone_bytes;
  if (zone_walk_begin (&w, d, start_bytes >> d->lbs_shift,
                       d->has_gaps && max <= MAX_SLOTS ? 2 * max : max, &err) == -1)
    return -1;
  r = collect (&w, zones, max, nr, &err);
  zone_walk_end (&w);
  if (r == -1) {
    disk_log (d, SH_LOG_WARNING, "%s", err.message);
    errno = err.errnum;
  }
  return r;
}

static bool
close_zone_at (struct disk *d, uint64_t lba)
{
  struct attempt a;

  attempt_init (&a, DISK_CLASS_ZONE_OUT, 0);
  cdb_zone_out (&a.c, ZONE_OUT_CLOSE, lba, false);
  if (attempt_all (d, &a) == -1)
    return false;
  COUNT (d, zone_closes, 1);
  return true;
}

/* The first zone of `report` that does not hold skip_lba; UINT64_MAX: none. */
static uint64_t
other_zone (const struct disk *d, const struct report *report, uint64_t skip_lba)
{
  const struct report_limits limits = { d->nr_lbas, d->lbs_shift };
  const uint64_t skip_bytes = skip_lba << d->lbs_shift;

  for (size_t i = 0; i < report->nr; ++i) {
    struct sh_error err = { 0 };
    struct bdev_zone z;

    if (report_zone (report, i, &limits, report_lba (report, i), &z, &err) == -1)
      return UINT64_MAX;
    if (skip_bytes < z.start_bytes || skip_bytes - z.start_bytes >= z.len_bytes)
      return z.start_bytes >> d->lbs_shift;
  }
  return UINT64_MAX;
}

bool
disk_close_some_zone (struct disk *d, uint64_t skip_lba)
{
  static const enum report_zones_option options[] = {
    REPORT_EXPLICIT_OPEN, REPORT_IMPLICIT_OPEN,
  };
  uint8_t buf[REPORT_HEADER_BYTES + 2 * REPORT_ZONE_BYTES];
  struct report report;

  for (size_t i = 0; i < ARRAY_SIZE (options); ++i) {
    uint64_t lba;

    if (read_page (d, 0, options[i], buf, sizeof buf, &report) == -1)
      return false;
    lba = other_zone (d, &report, skip_lba);
    if (lba != UINT64_MAX)
      return close_zone_at (d, lba);
  }
  return false;
}
