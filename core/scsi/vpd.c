/* SPDX-License-Identifier: BSD-3-Clause */
#include <config.h>
#include <string.h>
#include "base/bytes.h"
#include "scsi/vpd.h"

/* Fields that may lie behind the end read as 0. */
static uint8_t
byte_at (const uint8_t *p, size_t n, size_t at)
{
  return at < n ? p[at] : 0;
}

static uint32_t
be32_at (const uint8_t *p, size_t n, size_t at)
{
  return at + 4 <= n ? get_be32 (p + at) : 0;
}

static uint64_t
be64_at (const uint8_t *p, size_t n, size_t at)
{
  return at + 8 <= n ? get_be64 (p + at) : 0;
}

void
vpd_text (const uint8_t *p, size_t n, char *out, size_t size)
{
  size_t len = 0;

  while (n > 0 && (p[n - 1] == ' ' || p[n - 1] == '\0'))
    --n;
  while (n > 0 && *p == ' ') {
    ++p;
    --n;
  }
  for (; len < n && len + 1 < size; ++len)
    out[len] = p[len] >= 0x20 && p[len] < 0x7f ? (char) p[len] : '?';
  out[len] = '\0';
}

bool
inquiry_parse (const uint8_t *buf, size_t len, struct inquiry *inq)
{
  memset (inq, 0, sizeof *inq);
  if (len < 5)
    return false;
  len = MIN (len, (size_t) 5 + buf[4]);
  if (len < 36)
    return false;
  inq->qualifier = buf[0] >> 5;
  inq->ptype = buf[0] & 0x1f;
  inq->removable = (buf[1] & 0x80) != 0;
  inq->version = buf[2];
  vpd_text (buf + 8, 8, inq->vendor, sizeof inq->vendor);
  vpd_text (buf + 16, 16, inq->product, sizeof inq->product);
  vpd_text (buf + 32, 4, inq->revision, sizeof inq->revision);
  return true;
}

const char *
ptype_name (uint8_t ptype)
{
  static const char *const ptype_names[32] = {
    [0x00] = "a disk", [0x01] = "a tape drive", [0x02] = "a printer",
    [0x03] = "a processor", [0x04] = "a write-once device",
    [0x05] = "a CD or DVD drive", [0x06] = "a scanner",
    [0x07] = "an optical memory device", [0x08] = "a medium changer",
    [0x09] = "a communications device", [0x0c] = "a storage array controller",
    [0x0d] = "an enclosure", [0x0e] = "a simplified disk",
    [0x0f] = "a card reader", [0x11] = "an object storage device",
    [0x12] = "an automation interface", [0x14] = "a zoned disk",
    [0x1e] = "a well-known logical unit", [0x1f] = "no device",
  };
  const char *name = ptype_names[ptype & 0x1f];

  return name ? name : "a device of unknown type";
}

bool
vpd_payload (const uint8_t *buf, size_t len, enum vpd_page page,
             const uint8_t **payload, size_t *payload_len)
{
  *payload = NULL;
  *payload_len = 0;
  if (len < 4 || buf[1] != page || (buf[0] >> 5) != 0)
    return false;
  *payload = buf + 4;
  *payload_len = MIN (len - 4, (size_t) get_be16 (buf + 2));
  return true;
}

bool
vpd_lists (const uint8_t *p, size_t n, uint8_t page)
{
  return n > 0 && memchr (p, page, n) != NULL;
}

/* How good a designator is to know the drive by; 0: not at all. */
static unsigned
designator_rank (const uint8_t *d)
{
  if ((d[1] & 0x30) != 0)       /* of a port or a target, not of the unit */
    return 0;
  switch (d[1] & 0x0f) {
  case 0x3: return 4;           /* NAA */
  case 0x2: return 3;           /* EUI-64 */
  case 0xa: return 2;           /* UUID */
  case 0x1: return 1;           /* T10 vendor identification */
  default: return 0;
  }
}

unsigned
vpd_identity (const uint8_t *p, size_t n, uint8_t id[16])
{
  unsigned best = 0, id_len = 0;

  memset (id, 0, 16);
  while (n >= 4) {
    const size_t size = p[3];
    const unsigned rank = designator_rank (p);

    if (size > n - 4)
      break;
    if (rank > best && size > 0) {
      /* a UUID has two bytes in front */
      const size_t skip = (p[1] & 0x0f) == 0xa && size >= 18 ? 2 : 0;

      best = rank;
      id_len = (unsigned) MIN (size - skip, (size_t) 16);
      memset (id, 0, 16);
      memcpy (id, p + 4 + skip, id_len);
    }
    p += 4 + size;
    n -= 4 + size;
  }
  return id_len;
}

void
vpd_block_limits (const uint8_t *p, size_t n, struct block_limits *bl)
{
  const uint32_t alignment = be32_at (p, n, 28);

  *bl = (struct block_limits) {
    .max_transfer_blocks = be32_at (p, n, 4),
    .max_unmap_blocks = be32_at (p, n, 16),
    .max_unmap_descriptors = be32_at (p, n, 20),
    .unmap_granularity = be32_at (p, n, 24),
    .unmap_alignment = (alignment & 0x80000000u) ? alignment & 0x7fffffffu : 0,
    .max_write_same_blocks = be64_at (p, n, 32),
  };
}

void
vpd_characteristics (const uint8_t *p, size_t n, struct characteristics *ch)
{
  const unsigned rate = (unsigned) byte_at (p, n, 0) << 8 | byte_at (p, n, 1);

  ch->rotational = rate != 1;
  ch->zoned = byte_at (p, n, 4) >> 4 & 0x3;
}

void
vpd_provisioning (const uint8_t *p, size_t n, struct provisioning *lp)
{
  const uint8_t flags = byte_at (p, n, 1);

  lp->unmap = (flags & 0x80) != 0;
  lp->write_same_unmap = (flags & 0x40) != 0;
  lp->reads_zero = (flags & 0x04) != 0;
}

void
vpd_zoned (const uint8_t *p, size_t n, struct zoned_limits *zl)
{
  const uint32_t max_open = be32_at (p, n, 12);

  zl->urswrz = (byte_at (p, n, 0) & 0x01) != 0;
  zl->max_open = max_open == UINT32_MAX ? 0 : max_open;
}

bool
capacity10_parse (const uint8_t *buf, size_t len, struct capacity *cap)
{
  memset (cap, 0, sizeof *cap);
  if (len < 8)
    return false;
  cap->last_lba = get_be32 (buf);
  cap->lbs_bytes = cap->pbs_bytes = get_be32 (buf + 4);
  cap->rc_basis = 1;
  return true;
}

bool
capacity16_parse (const uint8_t *buf, size_t len, struct capacity *cap)
{
  memset (cap, 0, sizeof *cap);
  if (len < 12)
    return false;
  cap->last_lba = get_be64 (buf);
  cap->lbs_bytes = cap->pbs_bytes = get_be32 (buf + 8);
  cap->rc_basis = byte_at (buf, len, 12) >> 4 & 0x3;
  cap->lbprz = (byte_at (buf, len, 14) & 0x40) != 0;
  if (MUL_OVERFLOW (cap->lbs_bytes, 1u << (byte_at (buf, len, 13) & 0x0f),
                    &cap->pbs_bytes))
    cap->pbs_bytes = cap->lbs_bytes;
  return true;
}

bool
mode_sense_parse (const uint8_t *buf, size_t len, bool ten, struct mode_sense *ms)
{
  const size_t header = ten ? 8 : 4;
  size_t descriptors, page;

  memset (ms, 0, sizeof *ms);
  if (len < header)
    return false;
  len = MIN (len, ten ? (size_t) 2 + get_be16 (buf) : (size_t) 1 + buf[0]);
  if (len < header)
    return false;
  ms->write_protected = (buf[ten ? 3 : 2] & 0x80) != 0;
  ms->dpofua = (buf[ten ? 3 : 2] & 0x10) != 0;
  descriptors = ten ? get_be16 (buf + 6) : buf[3];
  page = header + descriptors;
  if (page + 3 <= len && (buf[page] & 0x3f) == 0x08 && buf[page + 1] >= 1) {
    ms->has_caching = true;
    ms->wce = (buf[page + 2] & 0x04) != 0;
  }
  return true;
}

enum opcode_support
opcode_support_parse (const uint8_t *buf, size_t len, uint8_t *usage1)
{
  *usage1 = 0;
  if (len < 4)
    return OPCODE_UNKNOWN;
  switch (buf[1] & 0x07) {
  case 0x1:
    return OPCODE_NOT_SUPPORTED;
  case 0x3: case 0x5:
    if (get_be16 (buf + 2) >= 2)
      *usage1 = byte_at (buf, len, 5);
    return OPCODE_SUPPORTED;
  default:
    return OPCODE_UNKNOWN;
  }
}
