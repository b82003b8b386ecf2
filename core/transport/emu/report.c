/* SPDX-License-Identifier: BSD-3-Clause */
/* REPORT ZONES. */
#include <config.h>
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include "transport/emu/internal.h"

#define DESC_BYTES 64
#define OPT_MASK   0x3f
#define PARTIAL    0x80

/* ---- filters ---- */

enum { ALL = 0x00, NON_SEQ = 0x11, ALL_BUT_GAP = 0x3e, NOT_WP = 0x3f };

static bool
option_known (unsigned option)
{
  switch (option) {
  case ALL ... 0x07:
  case 0x10:
  case NON_SEQ:
  case ALL_BUT_GAP:
  case NOT_WP:
    return true;
  default:
    return false;
  }
}

/* One thing that REPORT ZONES lists: a zone, or the gap zone behind it. */
struct entry {
  uint64_t start, len;
  struct zone_rec rec;
  bool gap;
};

static bool
matches (unsigned option, const struct entry *e)
{
  static const uint8_t cond_of[] = {
    [0x01] = ZONE_EMPTY,
    [0x02] = ZONE_IMPLICIT_OPEN,
    [0x03] = ZONE_EXPLICIT_OPEN,
    [0x04] = ZONE_CLOSED,
    [0x05] = ZONE_FULL,
    [0x06] = ZONE_READ_ONLY,
    [0x07] = ZONE_OFFLINE,
  };

  switch (option) {
  case ALL:
    return true;
  case ALL_BUT_GAP:
    return !e->gap;
  case NON_SEQ:
    return !e->gap && e->rec.flags & REC_NON_SEQ;
  case NOT_WP:
    return e->gap || e->rec.cond == ZONE_NOT_WP;
  case 0x10:                    /* reset recommended: we never do */
    return false;
  default:
    return !e->gap && e->rec.cond == cond_of[option];
  }
}

/* ---- descriptors ---- */

static uint64_t
reported_wp (const struct entry *e)
{
  switch (e->rec.cond) {
  case ZONE_READ_ONLY:
  case ZONE_OFFLINE:
    return UINT64_MAX;          /* no meaning (ZBC); the nastiest value */
  default:
    return e->gap || !rec_sequential (&e->rec) ? UINT64_MAX : e->start + e->rec.wp;
  }
}

static void
put_descriptor (uint8_t *d, const struct entry *e)
{
  memset (d, 0, DESC_BYTES);
  if (e->gap) {
    d[0] = ZONE_GAP;
    d[1] = ZONE_NOT_WP << 4;
  }
  else {
    d[0] = e->rec.reported_type ? e->rec.reported_type : e->rec.type;
    d[1] = (uint8_t) (e->rec.cond << 4 | (e->rec.flags & REC_NON_SEQ ? 2 : 0));
  }
  put_be64 (d + 8, e->len);
  put_be64 (d + 16, e->start);
  put_be64 (d + 24, reported_wp (e));
}

/* ---- the list ---- */

struct report {
  unsigned option;
  bool partial;
  uint8_t *buf;                 /* header and descriptors */
  size_t room;                  /* descriptors that fit */
  uint64_t found;
};

/* False: the list is complete. */
static bool
add_entry (struct report *r, const struct entry *e)
{
  if (!matches (r->option, e))
    return true;
  if (r->found >= r->room && r->partial)
    return false;
  if (r->found < r->room)
    put_descriptor (r->buf + DESC_BYTES + r->found * DESC_BYTES, e);
  r->found++;
  return true;
}

static void
get_entries (const struct emu *emu, uint32_t zone, struct entry *z, struct entry *gap)
{
  const uint64_t len = zone_len (emu, zone);
  uint64_t cap;

  z->rec = zone_load (emu, zone);
  cap = zone_cap (emu, zone, &z->rec);
  z->start = zone_start (emu, zone);
  z->len = cap;
  z->gap = false;
  *gap = *z;
  gap->gap = true;
  gap->start += cap;
  gap->len = len - cap;
}

static void
fill_report (const struct emu *emu, struct report *r, uint64_t lba)
{
  uint32_t zone;

  for (zone = zone_of (emu, lba); zone < emu->z.nr; ++zone) {
    struct entry z, gap;

    get_entries (emu, zone, &z, &gap);
    if (lba < z.start + z.len && !add_entry (r, &z))
      return;
    if (gap.len > 0 && !add_entry (r, &gap))
      return;
    /* Every zone matches ALL: the rest need only be counted. */
    if (r->option == ALL && !emu->z.gaps && r->found >= r->room) {
      if (!r->partial)
        r->found += emu->z.nr - zone - 1;
      return;
    }
  }
}

static void
put_header (const struct emu *emu, const struct report *r)
{
  const uint64_t length = r->found * DESC_BYTES;

  put_be32 (r->buf, (uint32_t) MIN (length, UINT32_MAX));
  put_be64 (r->buf + 8, emu->nr_blocks - 1);
  if (emu->z.gaps)
    put_be64 (r->buf + 16, emu->z.blocks);
}

void
op_report_zones (struct task *t)
{
  const struct emu *emu = t->emu;
  const uint8_t *cdb = t->cmd->cdb;
  const uint64_t lba = get_be64 (cdb + 2);
  const size_t allocation = MIN ((size_t) get_be32 (cdb + 10), t->cmd->data_len);
  struct report r = {
    .option = cdb[14] & OPT_MASK,
    .partial = cdb[14] & PARTIAL,
  };

  if (lba >= emu->nr_blocks) {
    task_fail (t, SENSE_LBA_RANGE);
    return;
  }
  if (!option_known (r.option)) {
    task_fail_field (t, 14, 5);
    return;
  }
  if (get_be32 (cdb + 10) == 0)
    return;
  /* A descriptor that is cut by the end of the buffer is sent as far as it
     goes, but PARTIAL counts only whole ones. */
  r.room = allocation < DESC_BYTES ? 0 : allocation / DESC_BYTES - 1;
  r.room = MIN (r.room, (size_t) emu->z.nr * 2);
  r.buf = calloc (r.room + 1, DESC_BYTES);
  if (r.buf == NULL) {
    task_fail (t, SENSE_INTERNAL_FAILURE);
    return;
  }
  fill_report (emu, &r, lba);
  put_header (emu, &r);
  task_send (t, r.buf, (MIN (r.found, r.room) + 1) * DESC_BYTES, allocation);
  free (r.buf);
}
