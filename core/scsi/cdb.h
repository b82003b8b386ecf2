/* SPDX-License-Identifier: BSD-3-Clause */
/* Encodes command descriptor blocks (SPC-5, SBC-4, ZBC-2).
 *
 * Each function sets cdb, cdb_len and nothing else of the command.  Positions
 * and lengths are in logical blocks and were checked by the caller: what does
 * not fit the field is our own mistake and is asserted. */
#ifndef SCSI_CDB_H
#define SCSI_CDB_H

#include <stdbool.h>
#include <stdint.h>
#include "shingle/transport.h"

enum scsi_opcode {
  OP_TEST_UNIT_READY = 0x00,
  OP_REQUEST_SENSE = 0x03,
  OP_READ_6 = 0x08,
  OP_WRITE_6 = 0x0a,
  OP_INQUIRY = 0x12,
  OP_MODE_SENSE_6 = 0x1a,
  OP_START_STOP_UNIT = 0x1b,
  OP_READ_CAPACITY_10 = 0x25,
  OP_READ_10 = 0x28,
  OP_WRITE_10 = 0x2a,
  OP_SYNCHRONIZE_CACHE_10 = 0x35,
  OP_UNMAP = 0x42,
  OP_MODE_SENSE_10 = 0x5a,
  OP_READ_16 = 0x88,
  OP_WRITE_16 = 0x8a,
  OP_SYNCHRONIZE_CACHE_16 = 0x91,
  OP_WRITE_SAME_16 = 0x93,
  OP_ZONE_OUT = 0x94,
  OP_ZONE_IN = 0x95,
  OP_SERVICE_ACTION_IN_16 = 0x9e,
  OP_MAINTENANCE_IN = 0xa3,
};

/* Service actions of OP_ZONE_OUT. */
enum zone_out_action {
  ZONE_OUT_CLOSE = 0x01,
  ZONE_OUT_FINISH = 0x02,
  ZONE_OUT_OPEN = 0x03,
  ZONE_OUT_RESET = 0x04,
};

/* Reporting options of REPORT ZONES that are used here. */
enum report_zones_option {
  REPORT_ALL = 0x00,
  REPORT_IMPLICIT_OPEN = 0x02,
  REPORT_EXPLICIT_OPEN = 0x03,
};

/* A READ or WRITE has one of three forms. */
enum rw_width {
  RW_6 = 6,                     /* 21 bit LBA, up to 256 blocks, no FUA */
  RW_10 = 10,                   /* 32 bit LBA, up to 65535 blocks */
  RW_16 = 16,                   /* 64 bit LBA, 32 bit length */
};

/* Blocks that one READ or WRITE of this width may move. */
uint64_t cdb_rw_max_blocks (enum rw_width width);
/* True when [lba, lba+blocks) can be named in this width. */
bool cdb_rw_fits (enum rw_width width, uint64_t lba, uint64_t blocks);

void cdb_read (struct sh_command *c, enum rw_width width, uint64_t lba,
               uint32_t blocks);
void cdb_write (struct sh_command *c, enum rw_width width, uint64_t lba,
                uint32_t blocks, bool fua);
/* The whole medium; IMMED is never set. */
void cdb_synchronize_cache (struct sh_command *c, enum rw_width width);
/* ndob: no data-out buffer, the drive supplies the zeroes. */
void cdb_write_same_16 (struct sh_command *c, uint64_t lba, uint32_t blocks,
                        bool unmap, bool ndob);
void cdb_unmap (struct sh_command *c, uint16_t param_bytes);
void cdb_zone_out (struct sh_command *c, enum zone_out_action action,
                   uint64_t lba, bool all);
void cdb_report_zones (struct sh_command *c, uint64_t lba, uint32_t alloc_bytes,
                       enum report_zones_option option, bool partial);

void cdb_test_unit_ready (struct sh_command *c);
void cdb_request_sense (struct sh_command *c, uint8_t alloc_bytes);
/* Waits until the unit is ready; IMMED is never set. */
void cdb_start_unit (struct sh_command *c);
void cdb_inquiry (struct sh_command *c, uint16_t alloc_bytes);
void cdb_vpd (struct sh_command *c, uint8_t page, uint16_t alloc_bytes);
void cdb_read_capacity_10 (struct sh_command *c);
void cdb_read_capacity_16 (struct sh_command *c, uint32_t alloc_bytes);
/* Current values, no block descriptors. */
void cdb_mode_sense_6 (struct sh_command *c, uint8_t page, uint8_t alloc_bytes);
void cdb_mode_sense_10 (struct sh_command *c, uint8_t page, uint16_t alloc_bytes);
/* REPORT SUPPORTED OPERATION CODES for one opcode without service actions. */
void cdb_report_opcode (struct sh_command *c, uint8_t opcode, uint32_t alloc_bytes);

/* "WRITE(16)", for messages; "command" with an unknown opcode. */
const char *cdb_name (const struct sh_command *c);
/* The LBA that the command names, or UINT64_MAX when it names none. */
uint64_t cdb_lba (const struct sh_command *c);

#endif
