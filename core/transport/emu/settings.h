/* SPDX-License-Identifier: BSD-3-Clause */
/* The settings of an emulated drive: one table of names, types and limits,
 * which the command line, the `ram:` form, the drive's file, the manual's test
 * and `shingle emu show` all use. */
#ifndef EMU_SETTINGS_H
#define EMU_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sh_error;

enum emu_model { EMU_REGULAR, EMU_HOST_AWARE, EMU_HOST_MANAGED };

/* What a power cut does to writes that are still in the drive's cache. */
enum emu_cache {
  EMU_CACHE_OFF,                /* write cache disabled: every write is durable */
  EMU_CACHE_SAFE,               /* enabled; survives, not tracked (fast) */
  EMU_CACHE_TRACKED,            /* enabled; a power cut can lose it */
};

enum emu_time { EMU_TIME_NONE, EMU_TIME_FIXED, EMU_TIME_DISK };

#define EMU_CONV_ALL UINT32_MAX

struct emu_settings {
  /* Shape: fixed when the drive is made. */
  uint64_t size_bytes;          /* of the store */
  uint32_t virtual_gb;          /* reported capacity in GiB; 0: the store's */
  uint32_t lbs_bytes;           /* logical block */
  uint32_t physblk_exp;         /* physical block = logical << this */
  uint32_t model;               /* enum emu_model */
  uint64_t zone_bytes;          /* 0: automatic */
  uint64_t zone_cap_bytes;      /* 0: the zone's size */
  uint32_t nr_conv;             /* leading conventional zones; EMU_CONV_ALL */
  char conv_list[256];          /* "0-3+17": further conventional zones */
  uint64_t segment_bytes;       /* largest part of the data kept in one file */
  char serial[33];              /* "" until the drive is made: random */
  bool num_parts;               /* an MS-DOS partition table at LBA 0 */

  /* What the drive says of itself. */
  char vendor[9], product[17], revision[5];
  int32_t ptype;                /* peripheral device type; -1: as the model */
  uint32_t scsi_level;          /* INQUIRY byte 2 */
  bool removable;
  bool dsense;                  /* descriptor format sense */
  uint32_t lowest_aligned;
  uint32_t opt_blks;
  uint32_t opt_xferlen_exp;
  uint32_t max_transfer;        /* blocks of one READ or WRITE; 0: no limit */
  uint32_t rotation_rate;       /* rpm; 1: no rotating medium */
  bool urswrz;                  /* unrestricted reads in sequential write zones */
  uint32_t max_open;            /* open zones; 0: no limit */
  bool wp;                      /* write protected */
  bool strict;                  /* reserved CDB bits are checked */
  bool fake_rw;                 /* media commands move no data */
  bool write_align;             /* sequential zones take whole physical blocks */
  bool lbpu, lbpws, lbpws10;
  uint32_t lbprz;
  uint32_t write_same_length;
  bool atomic_wr;               /* WRITE ATOMIC(16) */
  uint32_t uuid_ctl;            /* VPD 83h: 0 no UUID, 1 one a drive, 2 one for all */
  uint32_t unmap_alignment, unmap_granularity, unmap_max_blocks, unmap_max_desc;

  /* Cache. */
  uint32_t cache;               /* enum emu_cache */
  uint64_t cache_bytes;         /* tracked data; older data counts as written */

  /* Faults of scsi_debug. */
  uint32_t opts;
  int32_t every_nth;
  uint32_t medium_error_start;
  uint32_t medium_error_count;
  uint32_t tur_ms_to_ready;
  int32_t no_answer_ms;         /* host gives up after; -1: the command's timeout */
  uint32_t max_queue;           /* commands in flight; more wait */

  /* Time. */
  int32_t delay_ticks;          /* scsi_debug's; a tick is 4 ms */
  uint32_t ndelay_ns;
  bool random;                  /* duration uniform in [0, delay) */
  uint32_t time_model;          /* enum emu_time */
  uint32_t latency_us;          /* fixed: service time of a command */
  uint32_t units;               /* fixed: commands served at a time */
  uint32_t seek_us;             /* disk: a full stroke */
  uint32_t transfer_mbps;       /* disk: MB/s at the outer edge */
  bool sleep;                   /* false: only add up virtual time */
  bool statistics;              /* count */
};

enum emu_setting_kind {
  EMU_SET_BOOL, EMU_SET_U32, EMU_SET_I32, EMU_SET_SIZE, EMU_SET_TEXT,
  EMU_SET_CHOICE, EMU_SET_CONV, EMU_SET_SPECIAL,
};

struct emu_setting {
  const char *name;             /* '_' and '-' are the same in it */
  enum emu_setting_kind kind;
  size_t offset;                /* in struct emu_settings */
  uint64_t max;                 /* largest value; text: size of the field */
  uint64_t min;
  bool shape;                   /* fixed when the drive is made */
  bool alias;                   /* another name; not listed by emu show */
  const char *const *choices;   /* EMU_SET_CHOICE: NULL-terminated, value = index */
  int (*set) (struct emu_settings *s, const char *value); /* EMU_SET_SPECIAL */
  const char *help;
};

/* NULL-name terminated. */
extern const struct emu_setting emu_setting_table[];

void emu_settings_init (struct emu_settings *s);
const struct emu_setting *emu_setting_find (const char *name, size_t len);

/* -1 and an error that names the setting when the name is unknown (ENOENT) or
   the value is refused (EINVAL). */
int emu_settings_set (struct emu_settings *s, const char *name, const char *value,
                      struct sh_error *err);

/* Checks the settings against each other and fills in the automatic ones. */
int emu_settings_complete (struct emu_settings *s, struct sh_error *err);

/* The value as text that emu_settings_set takes; returns buf. */
const char *emu_setting_text (const struct emu_settings *s,
                              const struct emu_setting *def, char *buf, size_t size);
#define EMU_SETTING_TEXT_MAX 300

/* True for a conventional zone by nr_conv and conv_list. */
bool emu_settings_conventional (const struct emu_settings *s, uint32_t zone);

/* Capacity that the drive reports, in bytes. */
uint64_t emu_settings_capacity (const struct emu_settings *s);

#endif
