/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The emulated drive: a SCSI target that takes CDBs and answers as a
 * host-managed, host-aware or regular disk does (SPC-5, SBC-4, ZBC).
 *
 * A drive lives in RAM or in a file (plus FILE.1, FILE.2 ... where its data is
 * longer than the setting `segment`).  As a transport it is `emu:FILE` or
 * `emu:ram:SETTING=VALUE,...`; tests and `shingle emu` use it directly.
 *
 * Threads: emu_execute may be called by any number of threads.  All else is
 * called with no command in flight, unless it says otherwise.
 */
#ifndef EMU_EMU_H
#define EMU_EMU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/bdev.h"
#include "shingle/transport.h"
#include "transport/emu/settings.h"

struct sh_clock;
struct sh_error;
struct transport;
struct emu;

/* ---- life ---- */

/* A new drive in RAM. */
int emu_open_ram (const struct emu_settings *settings, struct emu **emu,
                  struct sh_error *err);

/* Makes the file of a drive (and its further segments).  An existing file is
   an error unless `replace`, which still refuses a drive that is in use. */
int emu_file_create (const char *path, const struct emu_settings *settings,
                     bool replace, struct sh_error *err);

/* Opens it: a power-on.  Locked against every other user; with
   SH_OPEN_READ_ONLY a file that may not be written is opened all the same, and
   then keeps no counters. */
#define EMU_OPEN_AS_IS (1u << 30)       /* no power-on: to set or export */
#define EMU_OPEN_PEEK  (1u << 31)       /* no lock, no change: to look at it in use */
int emu_open_file (const char *path, unsigned flags, struct emu **emu,
                   struct sh_error *err);

/* emu_file_probe, for a plain path, is in transport/transport.h. */

/* Calls fn with the name of each file that the drive consists of. */
void emu_each_file (struct emu *emu, void (*fn) (void *opaque, const char *name),
                    void *opaque);

struct emu *emu_ref (struct emu *emu);
void emu_close (struct emu *emu);       /* drops one reference */

/* A handle for emu_transport's table in *t, which holds a reference. */
void emu_make_transport (struct emu *emu, struct transport *t);

const struct emu_settings *emu_get_settings (const struct emu *emu);

/* Time for delays and the time model; NULL: monotonic. */
void emu_set_clock (struct emu *emu, const struct sh_clock *clock);

/* ---- commands ---- */

/* As struct sh_transport_ops.execute. */
int emu_execute (struct emu *emu, struct sh_command *command);

/* Called after each command, in its thread, with no lock held. */
typedef void (*emu_hook_fn) (void *opaque, struct emu *emu,
                             const struct sh_command *command);
void emu_set_hook (struct emu *emu, emu_hook_fn fn, void *opaque);

/* ---- change ---- */

/* KEY=VALUE of `shingle emu set`: a setting that is not of the drive's shape,
   or one of the actions that emu_action_table lists.  A file drive keeps it. */
int emu_set (struct emu *emu, const char *key, const char *value, struct sh_error *err);
/* Would emu_set take this setting?  It changes *s, a copy of the drive's, and
   nothing else.  Actions are known by their names alone. */
int emu_set_try (struct emu_settings *s, const char *key, const char *value,
                 struct sh_error *err);

struct emu_action {
  const char *name;
  int (*run) (struct emu *emu, const char *value, struct sh_error *err);
  const char *help;
};
extern const struct emu_action emu_action_table[];

/* Calls fn with each programmed fault as it was given. Any time. */
void emu_each_fault (struct emu *emu, void (*fn) (void *opaque, const char *text),
                     void *opaque);

/* The debug hooks.  emu_set_wp: lba is absolute, inside the zone, or its end. */
int emu_set_wp (struct emu *emu, uint32_t zone, uint64_t lba, struct sh_error *err);
/* ZONE_READ_ONLY, ZONE_OFFLINE, or ZONE_NOT_WP to bring the zone back. Any time. */
int emu_set_zone_cond (struct emu *emu, uint32_t zone, uint8_t cond, struct sh_error *err);
/* What REPORT ZONES says the type is. */
int emu_set_zone_type (struct emu *emu, uint32_t zone, uint8_t type, struct sh_error *err);
/* A unit attention for the next command. Any time. */
void emu_unit_attention (struct emu *emu, uint8_t asc, uint8_t ascq);

/* ---- power ---- */

/* Off and on again with nothing lost: open zones become closed or empty. */
void emu_power_cycle (struct emu *emu);

enum emu_cut {
  EMU_CUT_RANDOM,               /* any subset is lost, by seed */
  EMU_CUT_LOSE_ALL,
  EMU_CUT_KEEP_ALL,
};

/* Power fails and returns.  With cache=tracked, unsynchronised writes are lost
   in units of 4 KiB, or of a logical block when by_block: each unit of a
   conventional zone falls back to any content it had since it was last
   synchronised; a sequential zone keeps a prefix of what was done to it, and
   its write pointer agrees.  A drive with cache=tracked may be cut or cloned
   while commands are in flight: each of them is then whole or not begun. */
int emu_power_cut (struct emu *emu, uint64_t seed, enum emu_cut mode, bool by_block);

/* A copy of a RAM drive, content, zones and cache, sharing unchanged memory. */
struct emu *emu_clone (struct emu *emu);

/* Entries in the tracked cache that are not synchronised yet. Any time. */
size_t emu_cache_entries (struct emu *emu);

/* ---- zones, as the drive keeps them ---- */

uint32_t emu_nr_zones (const struct emu *emu);   /* gap zones not counted */
void emu_get_zone (struct emu *emu, uint32_t zone, struct bdev_zone *z);
/* Asserts the invariants of the zone table (lock-free use: no command in flight). */
void emu_check (struct emu *emu);

/* ---- counters ---- */

struct emu_counter { const char *name; uint64_t value; };

/* Calls fn for every counter that is not 0 (all: also for those).  Any time. */
void emu_counters (struct emu *emu, bool all,
                   void (*fn) (void *opaque, const char *name, uint64_t value),
                   void *opaque);
/* One by name ("read-16", "read-bytes", "test-unit-ready", ...); 0 if unknown. */
uint64_t emu_counter (struct emu *emu, const char *name);
void emu_counters_reset (struct emu *emu);

/* ---- image ---- */

/* Makes the file drive `path` from a raw image and a zone table (the format of
   zones.txt); settings give what the table does not. */
int emu_import (const char *path, const struct emu_settings *settings, const char *raw,
                const char *zones, bool replace, struct sh_error *err);
/* Settings that a table of emu_export carries in its comments, onto *s. */
int emu_table_settings (const char *zones, struct emu_settings *s, struct sh_error *err);
int emu_export (struct emu *emu, const char *raw, const char *zones, struct sh_error *err);

#endif
