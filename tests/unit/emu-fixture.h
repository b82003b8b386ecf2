/* SPDX-License-Identifier: BSD-3-Clause */
/* Commands to an emulated drive, one call each, for its unit tests. */
#ifndef EMU_FIXTURE_H
#define EMU_FIXTURE_H

#include <stdbool.h>
#include <stdint.h>
#include <check.h>
#include "base/bytes.h"
#include "run-suite.h"
#include "transport/emu/emu.h"

/* Settings as after `emu:ram:`; the first unit attention is taken away. */
struct emu *fx_drive (const char *settings);
/* The same with it. */
struct emu *fx_raw_drive (const char *settings);
struct emu_settings fx_settings (const char *settings);

/* The last answer. */
extern _Thread_local struct sh_command fx_cmd;
extern _Thread_local int fx_errno;            /* when emu_execute returned -1, else 0 */

/* Sends a CDB; returns the answer as 0xHHSSKKAAQQ: host status, status, sense
   key, code and qualifier; so 0 is plain success.  -1: not delivered. */
int64_t fx_send (struct emu *emu, const uint8_t *cdb, unsigned cdb_len, enum sh_xfer xfer,
                 void *data, size_t len);
#define SENSE(kkaaqq) (INT64_C (0x0200000000) | (kkaaqq))
#define STATUS(ss) ((int64_t) (ss) << 32)
#define HOST(hh) ((int64_t) (hh) << 40)

int64_t fx_read (struct emu *emu, uint64_t lba, uint32_t blocks, void *data);
int64_t fx_write (struct emu *emu, uint64_t lba, uint32_t blocks, const void *data);
int64_t fx_write_fua (struct emu *emu, uint64_t lba, uint32_t blocks, const void *data);
int64_t fx_sync (struct emu *emu);
int64_t fx_tur (struct emu *emu);
int64_t fx_inquiry (struct emu *emu, int vpd_page, uint8_t *buf, size_t len);

enum { FX_CLOSE = 1, FX_FINISH = 2, FX_OPEN = 3, FX_RESET = 4 };
int64_t fx_zone (struct emu *emu, int action, uint64_t lba);
int64_t fx_zone_all (struct emu *emu, int action);

/* REPORT ZONES into descriptors; *nr is how many came. */
struct fx_zone {
  uint64_t start, len, wp;
  uint8_t type, cond;
  bool non_seq;
};
int64_t fx_report (struct emu *emu, uint64_t lba, uint8_t option, struct fx_zone *zones,
                   size_t max, size_t *nr, uint32_t *list_length);
/* The one zone that holds lba. */
struct fx_zone fx_get_zone (struct emu *emu, uint64_t lba);

/* Blocks stamped with their LBA and a generation. */
void fx_stamp (void *buf, uint64_t lba, uint32_t blocks, size_t lbs, uint32_t generation);
/* LBA stamped, any generation: that generation; zeroes: 0; else -1. */
int64_t fx_stamp_of (const void *block, uint64_t lba, size_t lbs);

/* Check's own assertions write to a pipe each time; these only when they fail. */
#define fx_must(condition) \
  do { \
    if (!(condition)) \
      ck_abort_msg ("%s", #condition); \
  } while (0)
#define ck_answer(call, want) \
  do { \
    const int64_t got_ = (call), want_ = (want); \
    if (got_ != want_) \
      ck_abort_msg ("%s: the answer is %llx, not %llx", #call, (unsigned long long) got_, \
                    (unsigned long long) want_); \
  } while (0)

#endif
