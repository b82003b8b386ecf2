/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A running volume on a small drive in memory, with a model of its content: what
 * the tests of the running volume are made of.
 */
#ifndef RIG_H
#define RIG_H

#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"
#include "fake-bdev.h"
#include "guard-bdev.h"
#include "run-suite.h"
#include "shingle/volume.h"
#include "zoned/layout.h"

struct rig_config {
  struct fake_config drive;     /* zone_bytes default here: 256 KiB */
  uint32_t reserved;            /* default 2 */
  bool worker;                  /* start the volume's thread */
  bool no_write_cache, no_fua;
  bool notes_expected;          /* the offline check may say something of the drive */
  struct sh_volume_options options;
};

struct rig {
  struct rig_config config;
  struct fake *fake;            /* lives until rig_free */
  struct guard *guard;          /* of the volume that is open */
  struct sh_volume *v;          /* NULL when closed */
  struct layout l;
  uint64_t size;                /* of the volume */
  uint64_t zone_bytes;
  uint8_t *model;               /* what it should hold */
  uint64_t seed;
};

void rig_init (struct rig *rig, const struct rig_config *config);
void rig_open (struct rig *rig);
/* Also runs the offline check: nothing must be wrong, not even a note. */
void rig_close (struct rig *rig);
/* Opens and closes; checks between. */
void rig_reopen (struct rig *rig);
void rig_free (struct rig *rig);

uint64_t rig_random (struct rig *rig, uint64_t below);

/* Do it and keep the model; abort on an error. */
void rig_write (struct rig *rig, uint64_t offset, uint64_t count, unsigned flags);
void rig_trim (struct rig *rig, uint64_t offset, uint64_t count, unsigned flags);
void rig_zero (struct rig *rig, uint64_t offset, uint64_t count, unsigned flags);
void rig_flush (struct rig *rig);

/* Abort unless it is so. */
void rig_verify_read (struct rig *rig, uint64_t offset, uint64_t count);
void rig_verify_all (struct rig *rig);
void rig_verify_invariants (struct rig *rig);
/* Offline: errors and notes of the check on the closed drive. */
void rig_offline (struct rig *rig, uint64_t *errors, uint64_t *notes);

/* Fills buf with a pattern that is different each time. */
void rig_fill (struct rig *rig, uint8_t *buf, uint64_t count);

struct sh_volume_stats rig_stats (struct rig *rig);

#endif
