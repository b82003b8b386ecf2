/* SPDX-License-Identifier: BSD-3-Clause */
#include <config.h>
#include <assert.h>
#include <string.h>
#include "base/bytes.h"
#include "scsi/cdb.h"

static uint8_t *
start (struct sh_command *c, enum scsi_opcode opcode, uint8_t len)
{
  memset (c->cdb, 0, sizeof c->cdb);
  c->cdb[0] = opcode;
  c->cdb_len = len;
  return c->cdb;
}

uint64_t
cdb_rw_max_blocks (enum rw_width width)
{
  switch (width) {
  case RW_6: return 256;
  case RW_10: return UINT16_MAX;
  case RW_16: return UINT32_MAX;
  }
  return 0;
}

bool
cdb_rw_fits (enum rw_width width, uint64_t lba, uint64_t blocks)
{
  const uint64_t lbas = width == RW_6 ? UINT64_C (1) << 21 :
                        width == RW_10 ? UINT64_C (1) << 32 : UINT64_MAX;

  return blocks <= cdb_rw_max_blocks (width) && lba < lbas && blocks <= lbas - lba;
}

static void
read_write (struct sh_command *c, enum rw_width width, bool write, uint64_t lba,
            uint32_t blocks, bool fua)
{
  uint8_t *b;

  assert (blocks > 0 && cdb_rw_fits (width, lba, blocks));
  switch (width) {
  case RW_6:
    assert (!fua);
    b = start (c, write ? OP_WRITE_6 : OP_READ_6, 6);
    put_be24 (b + 1, (uint32_t) lba);
    b[4] = blocks & 0xff;       /* 0 stands for 256 */
    break;
  case RW_10:
    b = start (c, write ? OP_WRITE_10 : OP_READ_10, 10);
    b[1] = fua ? 0x08 : 0;
    put_be32 (b + 2, (uint32_t) lba);
    put_be16 (b + 7, (uint16_t) blocks);
    break;
  case RW_16:
    b = start (c, write ? OP_WRITE_16 : OP_READ_16, 16);
    b[1] = fua ? 0x08 : 0;
    put_be64 (b + 2, lba);
    put_be32 (b + 10, blocks);
    break;
  }
}

void
cdb_read (struct sh_command *c, enum rw_width width, uint64_t lba, uint32_t blocks)
{
  read_write (c, width, false, lba, blocks, false);
}

void
cdb_write (struct sh_command *c, enum rw_width width, uint64_t lba,
           uint32_t blocks, bool fua)
{
  read_write (c, width, true, lba, blocks, fua);
}

void
cdb_synchronize_cache (struct sh_command *c, enum rw_width width)
{
  assert (width != RW_6);
  if (width == RW_10)
    start (c, OP_SYNCHRONIZE_CACHE_10, 10);
  else
    start (c, OP_SYNCHRONIZE_CACHE_16, 16);
}

void
cdb_write_same_16 (struct sh_command *c, uint64_t lba, uint32_t blocks,
                   bool unmap, bool ndob)
{
  uint8_t *b = start (c, OP_WRITE_SAME_16, 16);

  assert (blocks > 0);          /* 0 would mean "to the end of the medium" */
  b[1] = (unmap ? 0x08 : 0) | (ndob ? 0x01 : 0);
  put_be64 (b + 2, lba);
  put_be32 (b + 10, blocks);
}

void
cdb_unmap (struct sh_command *c, uint16_t param_bytes)
{
  put_be16 (start (c, OP_UNMAP, 10) + 7, param_bytes);
}

void
cdb_zone_out (struct sh_command *c, enum zone_out_action action, uint64_t lba,
              bool all)
{
  uint8_t *b = start (c, OP_ZONE_OUT, 16);

  b[1] = action;
  put_be64 (b + 2, lba);
  b[14] = all ? 0x01 : 0;
}

void
cdb_report_zones (struct sh_command *c, uint64_t lba, uint32_t alloc_bytes,
                  enum report_zones_option option, bool partial)
{
  uint8_t *b = start (c, OP_ZONE_IN, 16);

  put_be64 (b + 2, lba);
  put_be32 (b + 10, alloc_bytes);
  b[14] = (partial ? 0x80 : 0) | option;
}

void
cdb_test_unit_ready (struct sh_command *c)
{
  start (c, OP_TEST_UNIT_READY, 6);
}

void
cdb_request_sense (struct sh_command *c, uint8_t alloc_bytes)
{
  start (c, OP_REQUEST_SENSE, 6)[4] = alloc_bytes;
}

void
cdb_start_unit (struct sh_command *c)
{
  start (c, OP_START_STOP_UNIT, 6)[4] = 0x01;
}

void
cdb_inquiry (struct sh_command *c, uint16_t alloc_bytes)
{
  put_be16 (start (c, OP_INQUIRY, 6) + 3, alloc_bytes);
}

void
cdb_vpd (struct sh_command *c, uint8_t page, uint16_t alloc_bytes)
{
  uint8_t *b = start (c, OP_INQUIRY, 6);

  b[1] = 0x01;
  b[2] = page;
  put_be16 (b + 3, alloc_bytes);
}

void
cdb_read_capacity_10 (struct sh_command *c)
{
  start (c, OP_READ_CAPACITY_10, 10);
}

void
cdb_read_capacity_16 (struct sh_command *c, uint32_t alloc_bytes)
{
  uint8_t *b = start (c, OP_SERVICE_ACTION_IN_16, 16);

  b[1] = 0x10;
  put_be32 (b + 10, alloc_bytes);
}

void
cdb_mode_sense_6 (struct sh_command *c, uint8_t page, uint8_t alloc_bytes)
{
  uint8_t *b = start (c, OP_MODE_SENSE_6, 6);

  b[1] = 0x08;
  b[2] = page & 0x3f;
  b[4] = alloc_bytes;
}

void
cdb_mode_sense_10 (struct sh_command *c, uint8_t page, uint16_t alloc_bytes)
{
  uint8_t *b = start (c, OP_MODE_SENSE_10, 10);

  b[1] = 0x08;
  b[2] = page & 0x3f;
  put_be16 (b + 7, alloc_bytes);
}

void
cdb_report_opcode (struct sh_command *c, uint8_t opcode, uint32_t alloc_bytes)
{
  uint8_t *b = start (c, OP_MAINTENANCE_IN, 12);

  b[1] = 0x0c;
  b[2] = 0x01;
  b[3] = opcode;
  put_be32 (b + 6, alloc_bytes);
}

static const struct {
  uint8_t opcode;
  const char *name;
} names[] = {
  { OP_TEST_UNIT_READY, "TEST UNIT READY" },
  { OP_REQUEST_SENSE, "REQUEST SENSE" },
  { OP_READ_6, "READ(6)" },
  { OP_WRITE_6, "WRITE(6)" },
  { OP_INQUIRY, "INQUIRY" },
  { OP_MODE_SENSE_6, "MODE SENSE(6)" },
  { OP_START_STOP_UNIT, "START STOP UNIT" },
  { OP_READ_CAPACITY_10, "READ CAPACITY(10)" },
  { OP_READ_10, "READ(10)" },
  { OP_WRITE_10, "WRITE(10)" },
  { OP_SYNCHRONIZE_CACHE_10, "SYNCHRONIZE CACHE(10)" },
  { OP_UNMAP, "UNMAP" },
  { OP_MODE_SENSE_10, "MODE SENSE(10)" },
  { OP_READ_16, "READ(16)" },
  { OP_WRITE_16, "WRITE(16)" },
  { OP_SYNCHRONIZE_CACHE_16, "SYNCHRONIZE CACHE(16)" },
  { OP_WRITE_SAME_16, "WRITE SAME(16)" },
  { OP_ZONE_IN, "REPORT ZONES" },
  { OP_SERVICE_ACTION_IN_16, "READ CAPACITY(16)" },
  { OP_MAINTENANCE_IN, "REPORT SUPPORTED OPERATION CODES" },
};

static const char *const zone_out_names[] = {
  [ZONE_OUT_CLOSE] = "CLOSE ZONE",
  [ZONE_OUT_FINISH] = "FINISH ZONE",
  [ZONE_OUT_OPEN] = "OPEN ZONE",
  [ZONE_OUT_RESET] = "RESET WRITE POINTER",
};

const char *
cdb_name (const struct sh_command *c)
{
  const uint8_t action = c->cdb[1] & 0x1f;

  if (c->cdb[0] == OP_ZONE_OUT && action >= ZONE_OUT_CLOSE && action <= ZONE_OUT_RESET)
    return zone_out_names[action];
  for (size_t i = 0; i < ARRAY_SIZE (names); ++i)
    if (names[i].opcode == c->cdb[0])
      return names[i].name;
  return "command";
}

uint64_t
cdb_lba (const struct sh_command *c)
{
  switch (c->cdb[0]) {
  case OP_READ_6: case OP_WRITE_6:
    return get_be24 (c->cdb + 1) & 0x1fffff;
  case OP_READ_10: case OP_WRITE_10:
    return get_be32 (c->cdb + 2);
  case OP_READ_16: case OP_WRITE_16: case OP_WRITE_SAME_16:
  case OP_ZONE_OUT: case OP_ZONE_IN:
    return get_be64 (c->cdb + 2);
  default:
    return UINT64_MAX;
  }
}
