/* SPDX-License-Identifier: BSD-3-Clause */
/* What ZBC lets a read touch (blk-semantics 3.5). */
#include <config.h>
#include "transport/emu/internal.h"

/* The run of blocks from lba on that is one zone's, of one kind: the writable
   part of a zone, or the gap behind it. */
struct stretch {
  uint32_t zone;
  struct zone_rec rec;
  uint8_t type;                 /* ZONE_GAP in a gap */
  uint64_t end;                 /* first LBA behind it */
};

static struct stretch
stretch_at (const struct emu *emu, uint64_t lba)
{
  const uint32_t zone = zone_of (emu, lba);
  const uint64_t start = zone_start (emu, zone);
  struct stretch s = { .zone = zone, .rec = zone_load (emu, zone) };
  const uint64_t cap = zone_cap (emu, zone, &s.rec);

  if (lba - start < cap) {
    s.type = s.rec.type;
    s.end = start + cap;
  }
  else {
    s.type = ZONE_GAP;
    s.end = start + zone_len (emu, zone);
  }
  return s;
}

static uint32_t
check_stretch (const struct emu *emu, const struct stretch *s, uint64_t end)
{
  if (s->rec.cond == ZONE_OFFLINE)
    return SENSE_ZONE_OFFLINE;
  if (!emu->s.urswrz && s->type == ZONE_SEQ_REQUIRED &&
      end > zone_start (emu, s->zone) + s->rec.wp)
    return SENSE_READ_INVALID;
  return 0;
}

uint32_t
zones_check_read (struct emu *emu, uint64_t lba, uint64_t blocks)
{
  const uint64_t end = lba + blocks;
  struct stretch s;
  uint8_t type;
  uint32_t sense;

  if (!emu_zoned (emu) || blocks == 0)
    return 0;
  s = stretch_at (emu, lba);
  type = s.type;
  if ((sense = check_stretch (emu, &s, MIN (end, s.end))) == SENSE_ZONE_OFFLINE)
    return sense;
  while (s.end < end) {
    s = stretch_at (emu, s.end);
    if (s.type != type)
      return SENSE_READ_INVALID;
    if (!emu->s.urswrz && type == ZONE_SEQ_REQUIRED)
      return SENSE_READ_BOUNDARY;
    if ((sense = check_stretch (emu, &s, MIN (end, s.end))) != 0)
      return sense;
  }
  return sense;
}

uint64_t
zones_readable (struct emu *emu, uint64_t lba, uint64_t blocks, uint64_t *span)
{
  struct stretch s;
  uint64_t wp;

  if (!emu_zoned (emu)) {
    *span = blocks;
    return blocks;
  }
  s = stretch_at (emu, lba);
  *span = MIN (blocks, s.end - lba);
  if (!rec_sequential (&s.rec))
    return *span;
  wp = zone_start (emu, s.zone) + s.rec.wp;
  return lba >= wp ? 0 : MIN (*span, wp - lba);
}
