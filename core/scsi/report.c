/* SPDX-License-Identifier: BSD-3-Clause */
#include <config.h>
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include "base/bytes.h"
#include "base/error.h"
#include "scsi/report.h"

bool
report_parse (const uint8_t *buf, size_t len, struct report *report)
{
  memset (report, 0, sizeof *report);
  if (len < REPORT_HEADER_BYTES)
    return false;
  len -= REPORT_HEADER_BYTES;
  report->zones = buf + REPORT_HEADER_BYTES;
  report->nr = MIN (len, (size_t) get_be32 (buf)) / REPORT_ZONE_BYTES;
  report->max_lba = get_be64 (buf + 8);
  report->granularity_lba = get_be64 (buf + 16);
  return true;
}

/* A zone of a realm that is switched off (ZBC-2 zone domains): told as offline,
   since nothing can be read or written there. */
#define COND_INACTIVE 0x5

struct descriptor {             /* as it stands in the answer */
  uint8_t type, cond;
  bool non_seq, reset;
  uint64_t len_lba, start_lba, wp_lba;
};

static void
read_descriptor (const struct report *report, size_t i, struct descriptor *d)
{
  const uint8_t *p = report->zones + i * REPORT_ZONE_BYTES;

  assert (i < report->nr);
  d->type = p[0] & 0x0f;
  d->cond = p[1] >> 4;
  d->non_seq = (p[1] & 0x02) != 0;
  d->reset = (p[1] & 0x01) != 0;
  d->len_lba = get_be64 (p + 8);
  d->start_lba = get_be64 (p + 16);
  d->wp_lba = get_be64 (p + 24);
}

uint64_t
report_lba (const struct report *report, size_t i)
{
  struct descriptor d;

  read_descriptor (report, i, &d);
  return d.start_lba;
}

static bool
has_write_pointer (const struct descriptor *d)
{
  return d->type == ZONE_SEQ_REQUIRED || d->type == ZONE_SEQ_PREFERRED ||
         d->type == ZONE_SEQ_OR_BEFORE;
}

/* Of a full, read-only or offline zone the pointer has no meaning on the wire
   (ZBC-2 4.4.3). */
static bool
pointer_is_valid (const struct descriptor *d)
{
  switch (d->cond) {
  case ZONE_EMPTY: case ZONE_IMPLICIT_OPEN: case ZONE_EXPLICIT_OPEN: case ZONE_CLOSED:
    return has_write_pointer (d);
  default:
    return false;
  }
}

static int
check_place (const struct descriptor *d, const struct report_limits *limits,
             uint64_t start_lba, struct sh_error *err)
{
  uint64_t end;

  if (d->start_lba < start_lba)
    return sh_fail (err, EPROTO, "zone at LBA %" PRIu64 " overlaps the one before it, "
                    "which ends at LBA %" PRIu64, d->start_lba, start_lba);
  if (d->start_lba > start_lba)
    return sh_fail (err, EPROTO, "no zone is reported for LBA %" PRIu64
                    " to %" PRIu64, start_lba, d->start_lba - 1);
  if (d->len_lba == 0)
    return sh_fail (err, EPROTO, "zone at LBA %" PRIu64 " has no length", d->start_lba);
  if (ADD_OVERFLOW (d->start_lba, d->len_lba, &end) || end > limits->nr_lbas)
    return sh_fail (err, EPROTO, "zone at LBA %" PRIu64 " of %" PRIu64
                    " blocks ends behind the drive's %" PRIu64 " blocks",
                    d->start_lba, d->len_lba, limits->nr_lbas);
  return 0;
}

static int
check_state (const struct descriptor *d, struct sh_error *err)
{
  if (d->type < ZONE_CONVENTIONAL || d->type > ZONE_GAP)
    return sh_fail (err, EPROTO, "zone at LBA %" PRIu64 " is of unknown type %Xh",
                    d->start_lba, d->type);
  if (d->cond > COND_INACTIVE && d->cond < ZONE_READ_ONLY)
    return sh_fail (err, EPROTO, "zone at LBA %" PRIu64 " is in unknown condition %Xh",
                    d->start_lba, d->cond);
  if (pointer_is_valid (d) &&
      (d->wp_lba < d->start_lba || d->wp_lba - d->start_lba > d->len_lba))
    return sh_fail (err, EPROTO, "zone at LBA %" PRIu64 " of %" PRIu64
                    " blocks has its write pointer at LBA %" PRIu64,
                    d->start_lba, d->len_lba, d->wp_lba);
  if (d->cond == ZONE_EMPTY && pointer_is_valid (d) && d->wp_lba != d->start_lba)
    return sh_fail (err, EPROTO, "zone at LBA %" PRIu64
                    " is reported empty with its write pointer at LBA %" PRIu64,
                    d->start_lba, d->wp_lba);
  return 0;
}

static uint64_t
pointer_bytes (const struct descriptor *d, const struct bdev_zone *zone,
               unsigned shift)
{
  if (pointer_is_valid (d))
    return d->wp_lba << shift;
  if (has_write_pointer (d) && d->cond == ZONE_FULL)
    return zone->start_bytes + zone->cap_bytes;
  return UINT64_MAX;
}

int
report_zone (const struct report *report, size_t i, const struct report_limits *limits,
             uint64_t start_lba, struct bdev_zone *zone, struct sh_error *err)
{
  const unsigned shift = limits->lbs_shift;
  struct descriptor d;

  read_descriptor (report, i, &d);
  if (check_place (&d, limits, start_lba, err) == -1 || check_state (&d, err) == -1)
    return -1;
  *zone = (struct bdev_zone) {
    .start_bytes = d.start_lba << shift,
    .len_bytes = d.len_lba << shift,
    .cap_bytes = d.len_lba << shift,
    .type = d.type,
    .cond = d.cond == COND_INACTIVE ? ZONE_OFFLINE : d.cond,
    .non_seq = d.non_seq,
    .reset_recommended = d.reset,
  };
  zone->wp_bytes = pointer_bytes (&d, zone, shift);
  return 0;
}
