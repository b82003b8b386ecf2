/* SPDX-License-Identifier: BSD-3-Clause */
/* The operations of the drive: one table for dispatch, reserved bits, counters'
 * names, faults and REPORT SUPPORTED OPERATION CODES. */
#include <config.h>
#include <stdlib.h>
#include <string.h>
#include "transport/emu/internal.h"

#define LBA4 0xff, 0xff, 0xff, 0xff
#define LBA8 LBA4, LBA4
#define LEN2 0xff, 0xff
#define LEN4 0xff, 0xff, 0xff, 0xff
#define CONTROL 0xc7
#define GROUP 0x1f
#define RW (OP_MEDIA | OP_FIELDS_LBA)
#define ZONE (OP_MEDIA | OP_ZONED | OP_ZONE_LBA)

/* Entries of one opcode stand together. */
const struct op emu_ops[] = {
  { 0x00, -1, OP_MEDIA, 6, "test-unit-ready", op_test_unit_ready,
    { 0x00, 0, 0, 0, 0, CONTROL } },
  { 0x03, -1, OP_ALWAYS | OP_AT_ONCE, 6, "request-sense", op_request_sense,
    { 0x03, 0x01, 0, 0, 0xff, CONTROL } },
  { 0x08, -1, RW | OP_READ, 6, "read-6", op_read,
    { 0x08, 0x1f, 0xff, 0xff, 0xff, CONTROL } },
  { 0x0a, -1, RW | OP_WRITE, 6, "write-6", op_write,
    { 0x0a, 0x1f, 0xff, 0xff, 0xff, CONTROL } },
  { 0x12, -1, OP_ALWAYS | OP_AT_ONCE, 6, "inquiry", op_inquiry,
    { 0x12, 0x01, 0xff, LEN2, CONTROL } },
  { 0x15, -1, 0, 6, "mode-select-6", op_mode_select_6,
    { 0x15, 0x11, 0, 0, 0xff, CONTROL } },
  { 0x1a, -1, 0, 6, "mode-sense-6", op_mode_sense_6,
    { 0x1a, 0x08, 0xff, 0xff, 0xff, CONTROL } },
  { 0x1b, -1, OP_SLOW, 6, "start-stop-unit", op_start_stop,
    { 0x1b, 0x01, 0, 0x0f, 0xf7, CONTROL } },
  { 0x25, -1, OP_MEDIA, 10, "read-capacity-10", op_read_capacity_10,
    { 0x25, 0, 0, 0, 0, 0, 0, 0, 0, CONTROL } },
  { 0x28, -1, RW | OP_READ, 10, "read-10", op_read,
    { 0x28, 0x18, LBA4, GROUP, LEN2, CONTROL } },
  { 0x2a, -1, RW | OP_WRITE, 10, "write-10", op_write,
    { 0x2a, 0x18, LBA4, GROUP, LEN2, CONTROL } },
  { 0x2f, -1, RW, 10, "verify-10", op_verify,
    { 0x2f, 0x16, LBA4, GROUP, LEN2, CONTROL } },
  { 0x35, -1, RW | OP_FLUSH, 10, "synchronize-cache-10", op_sync_cache,
    { 0x35, 0x02, LBA4, GROUP, LEN2, CONTROL } },
  { 0x41, -1, RW, 10, "write-same-10", op_write_same,
    { 0x41, 0x18, LBA4, GROUP, LEN2, CONTROL } },
  { 0x42, -1, OP_MEDIA | OP_UNMAP, 10, "unmap", op_unmap,
    { 0x42, 0x01, 0, 0, 0, 0, GROUP, LEN2, CONTROL } },
  { 0x55, -1, 0, 10, "mode-select-10", op_mode_select_10,
    { 0x55, 0x11, 0, 0, 0, 0, 0, LEN2, CONTROL } },
  { 0x5a, -1, 0, 10, "mode-sense-10", op_mode_sense_10,
    { 0x5a, 0x18, 0xff, 0xff, 0, 0, 0, LEN2, CONTROL } },
  { 0x88, -1, RW | OP_READ, 16, "read-16", op_read,
    { 0x88, 0x18, LBA8, LEN4, GROUP, CONTROL } },
  { 0x8a, -1, RW | OP_WRITE, 16, "write-16", op_write,
    { 0x8a, 0x18, LBA8, LEN4, GROUP, CONTROL } },
  { 0x8f, -1, RW, 16, "verify-16", op_verify,
    { 0x8f, 0x16, LBA8, LEN4, GROUP, CONTROL } },
  { 0x91, -1, RW | OP_FLUSH, 16, "synchronize-cache-16", op_sync_cache,
    { 0x91, 0x02, LBA8, LEN4, GROUP, CONTROL } },
  { 0x93, -1, RW, 16, "write-same-16", op_write_same,
    { 0x93, 0x19, LBA8, LEN4, GROUP, CONTROL } },
  { 0x94, 0x01, ZONE, 16, "close-zone", op_zone_close,
    { 0x94, 0x1f, LBA8, 0, 0, 0, 0, 0x01, CONTROL } },
  { 0x94, 0x02, ZONE, 16, "finish-zone", op_zone_finish,
    { 0x94, 0x1f, LBA8, 0, 0, 0, 0, 0x01, CONTROL } },
  { 0x94, 0x03, ZONE, 16, "open-zone", op_zone_open,
    { 0x94, 0x1f, LBA8, 0, 0, 0, 0, 0x01, CONTROL } },
  { 0x94, 0x04, ZONE, 16, "reset-write-pointer", op_zone_reset,
    { 0x94, 0x1f, LBA8, 0, 0, 0, 0, 0x01, CONTROL } },
  { 0x95, 0x00, ZONE, 16, "report-zones", op_report_zones,
    { 0x95, 0x1f, LBA8, LEN4, 0xbf, CONTROL } },
  { 0x9c, -1, RW | OP_WRITE | OP_ATOMIC, 16, "write-atomic-16", op_write_atomic,
    { 0x9c, 0x18, LBA8, LEN2, LEN2, GROUP, CONTROL } },
  { 0x9e, 0x10, OP_MEDIA, 16, "read-capacity-16", op_read_capacity_16,
    { 0x9e, 0x1f, 0, 0, 0, 0, 0, 0, 0, 0, LEN4, 0, CONTROL } },
  { 0xa0, -1, OP_ALWAYS | OP_AT_ONCE, 12, "report-luns", op_report_luns,
    { 0xa0, 0, 0xff, 0, 0, 0, LEN4, 0, CONTROL } },
  { 0xa3, 0x0c, 0, 12, "report-supported-operation-codes", op_report_opcodes,
    { 0xa3, 0x1f, 0x87, 0xff, LEN2, LEN4, 0, CONTROL } },
  { 0xa8, -1, RW | OP_READ, 12, "read-12", op_read,
    { 0xa8, 0x18, LBA4, LEN4, GROUP, CONTROL } },
  { 0xaa, -1, RW | OP_WRITE, 12, "write-12", op_write,
    { 0xaa, 0x18, LBA4, LEN4, GROUP, CONTROL } },
};

const unsigned emu_nr_ops = ARRAY_SIZE (emu_ops);
_Static_assert (ARRAY_SIZE (emu_ops) <= NR_OP_SLOTS, "each operation has a counter");
_Static_assert (ARRAY_SIZE (emu_ops) < 255, "255 means no operation");

void
emu_fill_op_index (uint8_t index[256])
{
  unsigned i;

  memset (index, 255, 256);
  for (i = emu_nr_ops; i > 0; --i)
    index[emu_ops[i - 1].opcode] = (uint8_t) (i - 1);
}

bool
emu_op_exists (const struct emu *emu, const struct op *op)
{
  if (op->flags & OP_ZONED && !emu_zoned (emu))
    return false;
  if (op->flags & OP_ATOMIC && !emu->s.atomic_wr)
    return false;
  return !(op->flags & OP_UNMAP) || emu->s.lbpu;
}

const struct op *
emu_find_op (const struct emu *emu, const uint8_t *cdb, bool *known_opcode)
{
  unsigned i = emu->op_index[cdb[0]];

  *known_opcode = i != 255 && emu_op_exists (emu, &emu_ops[i]);
  if (!*known_opcode)
    return NULL;
  for (; i < emu_nr_ops && emu_ops[i].opcode == cdb[0]; ++i)
    if (emu_ops[i].action == -1 || emu_ops[i].action == (cdb[1] & 0x1f))
      return &emu_ops[i];
  return NULL;
}

const struct op *
emu_op_by_name (const char *name, size_t len)
{
  unsigned i;

  for (i = 0; i < emu_nr_ops; ++i)
    if (strlen (emu_ops[i].name) == len && memcmp (emu_ops[i].name, name, len) == 0)
      return &emu_ops[i];
  return NULL;
}

/* ---- REPORT SUPPORTED OPERATION CODES ---- */

#define RCTD 0x80
#define TIMEOUTS_BYTES 12

static size_t
put_timeouts (uint8_t *p)
{
  memset (p, 0, TIMEOUTS_BYTES);
  put_be16 (p, TIMEOUTS_BYTES - 2);
  return TIMEOUTS_BYTES;
}

static void
report_all (struct task *t, bool timeouts, size_t allocation)
{
  uint8_t buf[4 + ARRAY_SIZE (emu_ops) * (8 + TIMEOUTS_BYTES)];
  size_t at = 4;
  unsigned i;

  for (i = 0; i < emu_nr_ops; ++i) {
    const struct op *op = &emu_ops[i];
    uint8_t *d = buf + at;

    if (!emu_op_exists (t->emu, op))
      continue;
    memset (d, 0, 8);
    d[0] = op->opcode;
    if (op->action != -1)
      put_be16 (d + 2, (uint16_t) op->action);
    d[5] = (uint8_t) ((timeouts ? 2 : 0) | (op->action != -1 ? 1 : 0));
    put_be16 (d + 6, op->cdb_len);
    at += 8;
    if (timeouts)
      at += put_timeouts (buf + at);
  }
  put_be32 (buf, (uint32_t) (at - 4));
  task_send (t, buf, at, allocation);
}

/* The CDB's field is wrong for this opcode: 05/24/00 at byte 2. */
static bool
one_wanted (struct task *t, const struct op **found)
{
  const uint8_t *cdb = t->cmd->cdb;
  const unsigned option = cdb[2] & 7;
  const uint16_t action = get_be16 (cdb + 4);
  const uint8_t probe[2] = { cdb[3], option == 1 || action > 0x1f ? 0 : (uint8_t) action };
  const struct op *first;
  bool known;

  *found = emu_find_op (t->emu, probe, &known);
  first = known ? &emu_ops[t->emu->op_index[cdb[3]]] : NULL;
  if ((option == 1 && first && first->action != -1) ||
      (option == 2 && first && first->action == -1)) {
    task_fail_field (t, 4, -1);
    return false;
  }
  if (action > 0x1f || (option == 3 && first && first->action == -1 && action != 0))
    *found = NULL;
  return true;
}

static void
report_one (struct task *t, bool timeouts, size_t allocation)
{
  uint8_t buf[4 + 16 + TIMEOUTS_BYTES] = { 0 };
  const struct op *op;
  size_t len = 4;

  if (!one_wanted (t, &op))
    return;
  buf[1] = 1;                   /* not supported */
  if (op) {
    buf[1] = (uint8_t) (3 | (timeouts ? 0x80 : 0));
    put_be16 (buf + 2, op->cdb_len);
    memcpy (buf + 4, op->usage, op->cdb_len);
    if (op->action != -1)       /* the service action itself */
      buf[5] = (uint8_t) ((buf[5] & ~0x1f) | op->action);
    len += op->cdb_len;
    if (timeouts)
      len += put_timeouts (buf + len);
  }
  task_send (t, buf, len, allocation);
}

void
op_report_opcodes (struct task *t)
{
  const uint8_t *cdb = t->cmd->cdb;
  const size_t allocation = get_be32 (cdb + 6);
  const bool timeouts = cdb[2] & RCTD;

  switch (cdb[2] & 7) {
  case 0:
    report_all (t, timeouts, allocation);
    break;
  case 1:
  case 2:
  case 3:
    report_one (t, timeouts, allocation);
    break;
  default:
    task_fail_field (t, 2, 2);
  }
}
