/* SPDX-License-Identifier: BSD-3-Clause */
/* Decodes sense data, fixed (70h, 71h) and descriptor (72h, 73h) format
 * (SPC-5 4.4).  Never reads behind the bytes that are there. */
#ifndef SCSI_SENSE_H
#define SCSI_SENSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sense_key {
  SENSE_NONE = 0x0,
  SENSE_RECOVERED = 0x1,
  SENSE_NOT_READY = 0x2,
  SENSE_MEDIUM = 0x3,
  SENSE_HARDWARE = 0x4,
  SENSE_ILLEGAL = 0x5,
  SENSE_ATTENTION = 0x6,
  SENSE_PROTECT = 0x7,
  SENSE_BLANK = 0x8,
  SENSE_ABORTED = 0xb,
  SENSE_OVERFLOW = 0xd,
  SENSE_MISCOMPARE = 0xe,
};

struct sense {
  bool usable;                  /* a known format with a key in it; else all is 0 */
  bool deferred;                /* of an earlier command; the current one did not run */
  uint8_t key;                  /* enum sense_key */
  uint8_t asc, ascq;            /* 0 where the sense is too short to hold them */
  bool has_information;
  uint64_t information;         /* LBA of the error for READ, WRITE, VERIFY */
};

/* Returns sense->usable. */
bool sense_parse (const uint8_t *buf, size_t len, struct sense *sense);

/* "medium error", for messages. */
const char *sense_key_name (uint8_t key);

#endif
