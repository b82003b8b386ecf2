/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of the emulated drive share.
 *
 * Lock order, first taken first:
 *   cache.lock      with cache=tracked: held over every change of the medium
 *   zone_locks[]    a zone's record; ascending when several; a holder of one
 *                   only tries for another
 *   open_lock       counts of open zones and the list of implicitly open ones
 *   the store's own locks
 * faults.lock, time.lock and queue.lock are taken with none of these held.
 */
#ifndef EMU_INTERNAL_H
#define EMU_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include "base/bytes.h"
#include "transport/emu/emu.h"
#include "transport/emu/store.h"

/* ---- zones (zones.c, zone-rules.c) ---- */

/* One zone is one word, so that a kill never leaves half of a change:
   write pointer in blocks from the zone's start (bits 0-31), condition (32-35),
   type (36-39), flags (40-47), reported type where it differs, else 0 (48-51),
   check sum (56-63). */
typedef _Atomic uint64_t zone_word;

struct zone_rec {
  uint32_t wp;
  uint8_t cond;                 /* enum bdev_zone_cond */
  uint8_t type;                 /* enum bdev_zone_type */
  uint8_t flags;
  uint8_t reported_type;
};
#define REC_NON_SEQ 1u

#define NR_ZONE_LOCKS 64

struct zone_lock {
  pthread_mutex_t lock;
} __attribute__ ((aligned (64)));

struct zones {
  /* Fixed. */
  uint32_t nr;                  /* 0: not zoned */
  unsigned shift;               /* blocks of a zone = 1 << shift */
  uint64_t blocks;
  uint64_t cap;                 /* writable blocks of a sequential zone */
  bool gaps;                    /* cap < blocks: a gap zone follows each sequential one */
  uint32_t max_open;            /* 0: no limit */

  zone_word *words;             /* nr of them; written with their zone lock held */
  struct zone_lock locks[NR_ZONE_LOCKS];

  pthread_mutex_t open_lock;    /* guards the rest */
  uint32_t nr_implicit, nr_explicit;
  uint32_t *implicit;           /* ascending; kept only when max_open != 0 */
};

/* ---- tracked cache (cache.c) ---- */

enum undo_kind {
  UNDO_BLOCKS = 1,              /* one unit of 4 KiB in a zone without pointer was written */
  UNDO_APPEND,                  /* blocks of a zone with a pointer were written */
  UNDO_FINISH,                  /* a zone was finished */
  UNDO_RESET,                   /* a zone was reset */
};

struct undo;

struct cache {
  bool tracked;                 /* follows settings.cache */
  pthread_mutex_t lock;
  /* Guarded by lock. */
  struct undo *entries;         /* oldest first */
  size_t nr, allocated;
  size_t nr_live;               /* of them not yet synchronised */
  size_t nr_live_resets;        /* UNDO_RESET among the live ones */
  uint64_t content_bytes;       /* old content that the live ones hold */
  int fd;                       /* FILE.cache of a file drive, or -1 */
  uint64_t fd_end;              /* where its next record goes */
};

/* ---- faults (faults.c) ---- */

struct fault;

struct faults {
  pthread_mutex_t lock;
  struct fault *list;           /* in order of adding; guarded by lock */
  _Atomic unsigned nr;
  _Atomic int32_t every_nth;    /* as set; below -1 becomes -1 at the first hit */
  _Atomic uint64_t nth_count;   /* commands since it was set */
  _Atomic bool nth_pending;     /* waits for a command that can use it */
};

/* ---- time (time.c) ---- */

struct time_state {
  const struct sh_clock *clock;
  pthread_mutex_t lock;
  uint64_t *unit_free_ns;       /* fixed: when each unit is free again */
  uint64_t head_lba;            /* disk: where the head is */
  uint64_t head_free_ns;
  uint64_t random_state;
};

/* ---- counters (counters.c) ---- */

enum counter_id {
  CNT_COMMANDS,
  CNT_READ_BYTES,
  CNT_WRITTEN_BYTES,
  CNT_ZONE_RESETS,              /* zones that were reset, ALL counted zone by zone */
  CNT_IMPLICIT_CLOSES,
  CNT_CHECK_CONDITIONS,
  CNT_FAULTS,
  CNT_SEEKS,
  CNT_VIRTUAL_NS,
  CNT_POWER_CUTS,
  CNT_LOST_UNITS,
  CNT_UNKNOWN_OPCODES,
  CNT_FUA_WRITES,
  CNT_OPS = 16,                 /* + index in the table of operations */
};
#define NR_COUNTERS 64
#define NR_COUNTER_SHARDS 8
#define COUNTERS_BYTES (NR_COUNTERS * NR_COUNTER_SHARDS * sizeof (uint64_t))

struct counters {
  /* [shard][counter]; in the drive's file for a file drive. */
  _Atomic uint64_t *values;
};

/* ---- unit attentions, in the order in which they are reported ---- */

enum {
  UA_RESET, UA_POWER_ON, UA_BUS_RESET, UA_MODE_CHANGED, UA_CAPACITY, UA_READY,
  UA_OTHER,                     /* by emu_unit_attention; asc and ascq in ua_other */
  NR_UA,
};

/* ---- the drive ---- */

struct emu_file;

struct emu {
  _Atomic unsigned refs;
  struct emu_settings s;

  /* Fixed, from the settings. */
  unsigned lbs_shift;
  uint64_t nr_blocks;           /* reported capacity */
  uint64_t store_blocks;        /* what the store holds; smaller with virtual_gb */
  uint8_t wwn[8];

  struct store *store;
  struct emu_file *file;        /* NULL: RAM drive */
  struct zones z;
  struct counters counters;

  uint8_t op_index[256];        /* opcode to its first entry in emu_ops, or 255 */

  _Atomic uint32_t ua_pending;  /* bits by UA_* */
  _Atomic uint32_t ua_other;    /* asc << 8 | ascq */
  _Atomic bool gone;            /* a fault took the drive off the bus */
  _Atomic bool stopped;         /* START STOP UNIT */
  _Atomic uint64_t ready_ns;    /* not ready before; 0: ready */

  /* Anything that needs a look before or after each command is set: faults,
     delays, limits.  Recomputed by emu_update_special. */
  _Atomic bool special;

  struct cache cache;
  struct faults faults;
  struct time_state time;

  pthread_mutex_t queue_lock;   /* guards in_flight */
  pthread_cond_t queue_cond;
  unsigned in_flight;           /* counted only when max_queue is set below 4096 */

  emu_hook_fn hook;
  void *hook_opaque;
};

/* ---- one command (target.c) ---- */

/* Sense as 0xKKAAQQ. */
enum {
  SENSE_DEFECT_RECOVERED = 0x015d00,
  SENSE_BECOMING_READY = 0x020401,
  SENSE_STOPPED = 0x020402,
  SENSE_WRITE_ERROR = 0x030c00,
  SENSE_READ_ERROR = 0x031100,
  SENSE_INTERNAL_FAILURE = 0x044400,
  SENSE_PARAMETER_LENGTH = 0x051a00,
  SENSE_UNKNOWN_OPCODE = 0x052000,
  SENSE_LBA_RANGE = 0x052100,
  SENSE_UNALIGNED_WRITE = 0x052104,
  SENSE_WRITE_BOUNDARY = 0x052105,
  SENSE_READ_INVALID = 0x052106,
  SENSE_READ_BOUNDARY = 0x052107,
  SENSE_GAP_ZONE = 0x052109,
  SENSE_FIELD_IN_CDB = 0x052400,
  SENSE_FIELD_IN_PARAMETERS = 0x052600,
  SENSE_RESET_NOT_ALLOWED = 0x052c0d,
  SENSE_SAVING_NOT_SUPPORTED = 0x053900,
  SENSE_WRITE_PROTECTED = 0x072702,
  SENSE_ZONE_READ_ONLY = 0x072708,
  SENSE_ZONE_OFFLINE = 0x072c0e,
  SENSE_ZONE_RESOURCES = 0x07550e,
  SENSE_MISCOMPARE = 0x0e1d00,
};

struct op;

struct task {
  struct emu *emu;
  struct sh_command *cmd;
  const struct op *op;
  struct cursor data;           /* where the data phase is */
  size_t moved;                 /* bytes of it so far */

  /* Decoded by the media operations, for faults and the time model. */
  uint64_t lba, blocks;
  uint64_t do_blocks;           /* a fault executes only so much; else UINT64_MAX */
};

#define OP_MEDIA     1u         /* needs a ready medium; may be delayed */
#define OP_ALWAYS    2u         /* not hindered by unit attentions */
#define OP_ZONED     4u         /* exists on zoned drives only */
#define OP_WRITE     8u         /* sends user data */
#define OP_READ      16u        /* returns user data */
#define OP_AT_ONCE   32u        /* answered without delay */
#define OP_SLOW      64u        /* START STOP: seconds */
#define OP_FLUSH     128u       /* SYNCHRONIZE CACHE */
#define OP_UNMAP     256u       /* exists where lbpu is set */
#define OP_FIELDS_LBA 512u      /* LBA and length are where READ of its size has them */
#define OP_ZONE_LBA  1024u      /* LBA is in bytes 2-9 */
#define OP_ATOMIC    2048u      /* WRITE ATOMIC: exists where atomic_wr is set */

/* Of WRITE ATOMIC, in blocks, as scsi_debug has them. */
#define ATOMIC_ALIGN 2u
#define ATOMIC_MAX   128u

struct op {
  uint8_t opcode;
  int8_t action;                /* service action, -1: none */
  uint16_t flags;
  uint8_t cdb_len;
  const char *name;             /* also the counter's and the fault's */
  void (*run) (struct task *t);
  uint8_t usage[16];            /* CDB usage data: the bits that are looked at */
};

#define NR_OP_SLOTS (NR_COUNTERS - CNT_OPS)
extern const struct op emu_ops[];
extern const unsigned emu_nr_ops;
/* NULL: no such operation on this drive; *known_opcode: the opcode exists. */
const struct op *emu_find_op (const struct emu *emu, const uint8_t *cdb, bool *known_opcode);
const struct op *emu_op_by_name (const char *name, size_t len);
bool emu_op_exists (const struct emu *emu, const struct op *op);
void emu_fill_op_index (uint8_t index[256]);

/* End the command with CHECK CONDITION. */
void task_fail (struct task *t, uint32_t sense);
void task_fail_info (struct task *t, uint32_t sense, uint64_t information);
/* 05/24/00 with the field pointer at a byte and bit (-1: no bit) of the CDB, or
   05/26/00 for the parameter list. */
void task_fail_field (struct task *t, unsigned byte, int bit);
void task_fail_parameter (struct task *t, unsigned byte, int bit);
/* Builds sense data in the drive's format; returns its length. */
size_t emu_build_sense (bool descriptor, uint32_t code, uint8_t *buf);
/* Sends at most `allocation` bytes of data-in. */
void task_send (struct task *t, const void *data, size_t len, size_t allocation);
/* Receives exactly len bytes of data-out; false: fewer came, command failed. */
bool task_receive (struct task *t, void *data, size_t len);

static inline bool
emu_zoned (const struct emu *emu)
{
  return emu->z.nr != 0;
}

static inline uint64_t
blocks_to_bytes (const struct emu *emu, uint64_t blocks)
{
  return blocks << emu->lbs_shift;
}

/* The operations, by file. */
void op_inquiry (struct task *t);
void op_test_unit_ready (struct task *t);
void op_request_sense (struct task *t);
void op_start_stop (struct task *t);
void op_read_capacity_10 (struct task *t);
void op_read_capacity_16 (struct task *t);
void op_mode_sense_6 (struct task *t);
void op_mode_sense_10 (struct task *t);
void op_mode_select_6 (struct task *t);
void op_mode_select_10 (struct task *t);
void op_report_luns (struct task *t);
void op_report_opcodes (struct task *t);
void op_read (struct task *t);
void op_write (struct task *t);
void op_write_atomic (struct task *t);
void op_verify (struct task *t);
void op_write_same (struct task *t);
void op_unmap (struct task *t);
void op_sync_cache (struct task *t);
void op_report_zones (struct task *t);
void op_zone_close (struct task *t);
void op_zone_finish (struct task *t);
void op_zone_open (struct task *t);
void op_zone_reset (struct task *t);

/* ---- functions by file ---- */

/* emu.c */
void emu_update_special (struct emu *emu);
struct emu *emu_alloc (const struct emu_settings *s, struct sh_error *err);
void emu_free (struct emu *emu);
void emu_power_on (struct emu *emu);
void emu_raise (struct emu *emu, unsigned ua);
/* What a new drive's medium begins with. */
int emu_format_media (struct emu *emu, struct sh_error *err);
/* Takes the first pending unit attention; false: none. */
bool emu_take_attention (struct emu *emu, uint32_t *sense);
bool emu_becoming_ready (const struct emu *emu);

/* zones.c */
int zones_init (struct emu *emu, zone_word *words);
void zones_format (const struct emu *emu, zone_word *words);
void zones_fini (struct emu *emu);
void zones_power_on (struct emu *emu);
int zones_set_max_open (struct emu *emu, uint32_t max_open);
/* Counts the open zones again from the records. */
void zones_recount (struct emu *emu);
struct zone_rec zone_load (const struct emu *emu, uint32_t zone);
void zone_store (struct emu *emu, uint32_t zone, struct zone_rec rec);
uint64_t zone_pack (struct zone_rec rec);
struct zone_rec zone_unpack (uint64_t word);
bool zone_word_ok (const struct emu *emu, uint32_t zone, uint64_t word);
uint64_t zone_start (const struct emu *emu, uint32_t zone);
uint64_t zone_len (const struct emu *emu, uint32_t zone);
uint64_t zone_cap (const struct emu *emu, uint32_t zone, const struct zone_rec *rec);
bool rec_sequential (const struct zone_rec *rec);
bool rec_open (const struct zone_rec *rec);
static inline uint32_t
zone_of (const struct emu *emu, uint64_t lba)
{
  return (uint32_t) (lba >> emu->z.shift);
}
void zone_lock (struct emu *emu, uint32_t zone);
void zone_unlock (struct emu *emu, uint32_t zone);
/* Changes the record and the accounts of open zones with it; zone lock held. */
void zone_change_locked (struct emu *emu, uint32_t zone, struct zone_rec rec);
enum zone_open { ZONE_OPEN_OK, ZONE_OPEN_NO_RESOURCES, ZONE_OPEN_AGAIN };
enum zone_open zone_open_locked (struct emu *emu, uint32_t zone, struct zone_rec *rec,
                                 bool explicitly);

/* media.c */
/* Reads and writes of blocks in the store, wrapping with virtual_gb. */
int media_read (struct emu *emu, uint64_t lba, uint64_t blocks, struct cursor *to);
int media_write (struct emu *emu, uint64_t lba, uint64_t blocks, struct cursor *from);
int media_zero (struct emu *emu, uint64_t lba, uint64_t blocks);

/* zone-rules.c: what a command may touch; 0 or sense. */
uint32_t zones_check_read (struct emu *emu, uint64_t lba, uint64_t blocks);
/* Where the data of a sequential zone ends, reads give zeroes: the blocks of
   [lba, lba+blocks) that are to be read from the medium, 0 ... blocks; the
   range ends at the zone's end at the latest. */
uint64_t zones_readable (struct emu *emu, uint64_t lba, uint64_t blocks, uint64_t *span);

/* cache.c; `_locked`: cache.lock is held.  All are no-ops without tracking.
   The `before` calls note how to undo what is about to be done. */
void cache_init (struct emu *emu);
void cache_fini (struct emu *emu);
void cache_lock (struct emu *emu);
void cache_unlock (struct emu *emu);
int cache_before_blocks_locked (struct emu *emu, uint64_t lba, uint64_t blocks);
int cache_before_append_locked (struct emu *emu, uint32_t zone, struct zone_rec old,
                                uint64_t lba, uint64_t blocks);
int cache_before_finish_locked (struct emu *emu, uint32_t zone, struct zone_rec old);
int cache_before_reset_locked (struct emu *emu, uint32_t zone, struct zone_rec old);
void cache_sync_locked (struct emu *emu, uint64_t lba, uint64_t blocks);
int cache_copy_locked (struct emu *to, struct emu *from);
/* Brings `tracked` in line with the settings; leaving it synchronises. */
void cache_follow_settings (struct emu *emu);

/* cache-file.c: the log of a file drive beside it. */
int cache_file_append (struct emu *emu, struct undo *u, const void *content);
int cache_file_read (struct emu *emu, const struct undo *u, void *content);
void cache_file_drop (struct emu *emu, const struct undo *u);
void cache_file_clear (struct emu *emu);
/* Reads the records that a former process left. */
int cache_file_load (struct emu *emu, struct sh_error *err);

struct undo {
  uint8_t kind;                 /* enum undo_kind */
  bool live;
  bool captured;                /* the old content is known and is to be restored */
  uint32_t zone;                /* all but UNDO_BLOCKS */
  uint64_t lba, blocks;
  uint64_t old_word;            /* the zone's word before */
  uint32_t content_bytes;       /* old content of the blocks; 0: zeroes */
  struct content *content;      /* RAM drive */
  uint64_t fd_off;              /* file drive: its record in FILE.cache */
};
int cache_add_locked (struct emu *emu, const struct undo *u);

/* faults.c */
#define OPT_MEDIUM_ERROR  0x2u
#define OPT_NO_ANSWER     0x4u
#define OPT_RECOVERED     0x8u
#define OPT_TRANSPORT     0x10u
#define OPT_DIF           0x20u
#define OPT_DIX           0x40u
#define OPT_NO_MEDIA_ANSWER 0x80u
#define OPT_SHORT         0x100u
#define OPT_QUEUE_FULL    0x800u
#define OPT_NO_CACHE      0x1000u
#define OPT_HOST_BUSY     0x8000u
#define OPT_ABORTED       0x10000u
#define OPT_UNALIGNED     0x20000u

enum fault_answer {
  FAULT_NO_CHANGE,              /* the command's own */
  FAULT_STATUS, FAULT_SENSE, FAULT_HOST,
  FAULT_TIMEOUT,                /* never answered */
  FAULT_GONE,                   /* the drive leaves the bus */
};

#define FAULT_PATCH_MAX 32

/* One entry of the programmable list. */
struct fault {
  struct fault *next;
  char text[160];               /* as it was given */
  uint64_t skip, count;         /* commands still to let pass, to hit */

  const struct op *op;          /* NULL: every command */
  uint16_t op_flags;            /* with op NULL: only operations with one of these; 0: all */
  uint64_t first_lba, last_lba; /* hits when the command touches one of them */

  enum fault_answer answer;
  uint8_t status, host_status;
  uint32_t sense;
  bool has_information;
  uint64_t information;
  bool executes;                /* the command is executed as far as do_blocks */
  bool half;
  uint64_t do_blocks;
  uint64_t delay_ms;
  uint32_t attention;           /* asc << 8 | ascq for the next command; 0: none */
  int zone_cond;                /* the zone's condition afterwards, or -1 */
  size_t patch_off, patch_len;  /* data-in bytes that are overwritten */
  uint8_t patch[FAULT_PATCH_MAX];
};

void faults_init (struct emu *emu);
void faults_fini (struct emu *emu);
void faults_set_every_nth (struct emu *emu);
int faults_add (struct emu *emu, const char *text, struct sh_error *err);
void faults_clear (struct emu *emu);
/* Copies the first entry that hits the command; false: none does. */
bool faults_find (struct task *t, struct fault *hit);
/* Counts for every_nth; before anything else. */
void faults_tick (struct emu *emu);
/* Takes the pending injection of one of these bits of opts; 0: none. */
uint32_t faults_inject (struct emu *emu, uint32_t bits);
bool faults_active (const struct emu *emu);

/* time.c */
void time_init (struct emu *emu);
void time_fini (struct emu *emu);
/* Lets the time pass that the command takes. */
void time_spend (struct task *t, uint64_t started_ns);
bool time_active (const struct emu *emu);
uint64_t emu_now_ns (const struct emu *emu);
void emu_sleep_ns (struct emu *emu, uint64_t ns);

/* counters.c */
void count (struct emu *emu, unsigned id, uint64_t n);

/* file.c */
/* Writes the settings and faults to the drive's file. */
int emu_file_save (struct emu *emu, struct sh_error *err);
void emu_file_close (struct emu_file *file);
const uint8_t *emu_file_uuid (const struct emu_file *file);      /* 16 bytes */
/* Opens or removes FILE.cache, as the settings ask for a tracked cache or not. */
int emu_file_follow_cache (struct emu *emu, struct sh_error *err);
/* For emu_each_file: unlinks it. */
void emu_remove_file (void *opaque, const char *name);
const char *emu_file_path (const struct emu_file *file);

#endif
