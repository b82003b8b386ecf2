/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads REPORT ZONES answers (ZBC-2 5.x, parameter data of 64 byte zone
 * descriptors behind a 64 byte header). */
#ifndef SCSI_REPORT_H
#define SCSI_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/bdev.h"

struct sh_error;

#define REPORT_HEADER_BYTES 64
#define REPORT_ZONE_BYTES 64

struct report {                 /* one answer, checked as a whole */
  const uint8_t *zones;         /* nr descriptors, inside the buffer */
  size_t nr;                    /* that arrived; the list may be longer */
  uint64_t max_lba;
  uint64_t granularity_lba;     /* zone start granularity; 0: not reported */
};

/* false: shorter than a header. */
bool report_parse (const uint8_t *buf, size_t len, struct report *report);

struct report_limits {
  uint64_t nr_lbas;             /* capacity */
  unsigned lbs_shift;
};

/* Reads descriptor i, and checks that it is a zone which starts at start_lba
   and lies inside the drive with a write pointer that makes sense.  On failure
   (EPROTO) the sentence names the zone by its LBA.  Gap zones keep their type;
   cap_bytes is len_bytes. */
int report_zone (const struct report *report, size_t i,
                 const struct report_limits *limits, uint64_t start_lba,
                 struct bdev_zone *zone, struct sh_error *err);

/* Where descriptor i says that its zone starts. */
uint64_t report_lba (const struct report *report, size_t i);

#endif
