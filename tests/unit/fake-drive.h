/* SPDX-License-Identifier: BSD-3-Clause */
/* A drive for the tests of core/scsi: a small memory disk whose pages can be
 * changed byte by byte and whose answers can be scripted one by one.  Unlike
 * the emulated drive it can be wrong in any way. */
#ifndef TEST_FAKE_DRIVE_H
#define TEST_FAKE_DRIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/clock.h"
#include "transport/transport.h"

struct fake_page { uint8_t bytes[512]; size_t len; };

enum fake_effect {              /* of a scripted command, before its answer */
  EFFECT_NONE,
  EFFECT_HALF,                  /* the first half of its blocks */
  EFFECT_ALL,
};

/* One scripted answer: to the first command that matches, after `skip` that
   match; it is used up `count` times (0: once; -1: for ever). */
struct fake_script {
  int opcode;                   /* -1: any */
  int skip;
  int count;
  int errnum;                   /* execute fails with it */
  uint8_t status, host_status;
  uint8_t sense[32];
  uint8_t sense_len;
  size_t resid;
  enum fake_effect effect;
  uint64_t takes_ns;            /* of the fake clock */
};

struct fake_zone { uint64_t start, len, wp; uint8_t type, cond; };

#define FAKE_LOG 4096
#define FAKE_SCRIPTS 64

struct fake_drive {
  uint32_t lbs;
  uint64_t nr_lbas;
  uint8_t *data;
  struct fake_zone zones[128];
  unsigned nr_zones;            /* 0: not zoned */

  struct fake_page inquiry, vpd[256], capacity16, mode10, mode6, opcodes;
  bool no_capacity16, no_mode10, no_mode6, no_partial, no_rw16, no_rw10, no_sync16, no_sync10;
  unsigned open_limit;          /* explicitly open zones; 0: none */

  struct sh_transport_limits limits;
  struct fake_script scripts[FAKE_SCRIPTS];
  unsigned nr_scripts;

  /* What was sent. */
  struct sh_command log[FAKE_LOG];
  unsigned nr_log;
  uint64_t now_ns, slept_ns;
  int reopens, reopen_errnum;
};

/* A host-managed drive of nr_zones zones of zone_lbas blocks, the first nr_conv
   conventional (nr_zones 0: a plain disk of zone_lbas blocks). */
struct fake_drive *fake_new (uint32_t lbs, unsigned nr_zones, uint64_t zone_lbas,
                             unsigned nr_conv);
void fake_free (struct fake_drive *f);
void fake_transport (struct fake_drive *f, struct transport *t);
struct sh_clock fake_clock (struct fake_drive *f);

struct fake_script *fake_add (struct fake_drive *f, int opcode);
/* CHECK CONDITION with fixed sense. */
struct fake_script *fake_add_sense (struct fake_drive *f, int opcode, uint8_t key,
                                    uint8_t asc, uint8_t ascq);
/* How many commands of this opcode were sent. */
unsigned fake_count (const struct fake_drive *f, int opcode);

/* A table without any state: every command succeeds at once. */
extern const struct sh_transport_ops null_transport;

#endif
