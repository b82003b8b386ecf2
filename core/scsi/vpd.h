/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads what a drive says of itself: INQUIRY, VPD pages, READ CAPACITY, MODE
 * SENSE, REPORT SUPPORTED OPERATION CODES (SPC-5, SBC-4, ZBC-2).
 *
 * Each function takes the bytes that really arrived and never reads behind
 * them; a field that did not arrive has its documented default.  true: the
 * answer can be used; false: it is too short or is not what was asked for. */
#ifndef SCSI_VPD_H
#define SCSI_VPD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum vpd_page {
  VPD_SUPPORTED = 0x00,
  VPD_SERIAL = 0x80,
  VPD_IDENTITY = 0x83,
  VPD_BLOCK_LIMITS = 0xb0,
  VPD_CHARACTERISTICS = 0xb1,
  VPD_PROVISIONING = 0xb2,
  VPD_ZONED = 0xb6,
};

#define PTYPE_DISK 0x00
#define PTYPE_ZONED 0x14        /* host-managed zoned block device */

struct inquiry {
  uint8_t qualifier;            /* 0: a device is there */
  uint8_t ptype;                /* peripheral device type */
  bool removable;
  uint8_t version;
  char vendor[9], product[17], revision[5];     /* trimmed, printable */
};
bool inquiry_parse (const uint8_t *buf, size_t len, struct inquiry *inq);

/* "a tape drive", for messages. */
const char *ptype_name (uint8_t ptype);

/* The payload of VPD page `page`: false when the bytes are another page.
   *payload_len is what both the page and the transfer hold. */
bool vpd_payload (const uint8_t *buf, size_t len, enum vpd_page page,
                  const uint8_t **payload, size_t *payload_len);

/* From here on `p`, `n` are a payload (what follows the four byte header). */

bool vpd_lists (const uint8_t *p, size_t n, uint8_t page);

/* Copies printable text, trimmed at both ends; at most size-1 characters. */
void vpd_text (const uint8_t *p, size_t n, char *out, size_t size);

/* The best designator of the logical unit (NAA, EUI-64, UUID, T10 vendor);
   0: none. Returns the bytes put into id. */
unsigned vpd_identity (const uint8_t *p, size_t n, uint8_t id[16]);

struct block_limits {           /* B0h; 0 everywhere: no limit reported */
  uint32_t max_transfer_blocks;
  uint32_t max_unmap_blocks, max_unmap_descriptors;
  uint32_t unmap_granularity, unmap_alignment;
  uint64_t max_write_same_blocks;
};
void vpd_block_limits (const uint8_t *p, size_t n, struct block_limits *bl);

struct characteristics {        /* B1h */
  bool rotational;              /* true unless the drive says it is not */
  uint8_t zoned;                /* 1 host aware, 2 device managed, 0 not said */
};
void vpd_characteristics (const uint8_t *p, size_t n, struct characteristics *ch);

struct provisioning {           /* B2h */
  bool unmap;                   /* LBPU */
  bool write_same_unmap;        /* LBPWS */
  bool reads_zero;              /* LBPRZ: unmapped blocks read as zeroes */
};
void vpd_provisioning (const uint8_t *p, size_t n, struct provisioning *lp);

struct zoned_limits {           /* B6h */
  bool urswrz;
  uint32_t max_open;            /* 0: no limit reported */
};
void vpd_zoned (const uint8_t *p, size_t n, struct zoned_limits *zl);

struct capacity {
  uint64_t last_lba;
  uint32_t lbs_bytes;
  uint32_t pbs_bytes;           /* lbs_bytes where the drive says nothing */
  uint8_t rc_basis;             /* zoned: 0: last_lba is of the conventional zones */
  bool lbprz;
};
bool capacity10_parse (const uint8_t *buf, size_t len, struct capacity *cap);
bool capacity16_parse (const uint8_t *buf, size_t len, struct capacity *cap);

struct mode_sense {
  bool write_protected;
  bool dpofua;
  bool has_caching;             /* the caching page arrived */
  bool wce;
};
/* ten: the answer to MODE SENSE(10), else (6). */
bool mode_sense_parse (const uint8_t *buf, size_t len, bool ten, struct mode_sense *ms);

enum opcode_support { OPCODE_UNKNOWN, OPCODE_NOT_SUPPORTED, OPCODE_SUPPORTED };
/* usage1: CDB usage data of byte 1, 0 when it did not arrive. */
enum opcode_support opcode_support_parse (const uint8_t *buf, size_t len, uint8_t *usage1);

#endif
