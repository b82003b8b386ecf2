/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inside core/scsi.  Files, from the bottom up:
 *   cdb, sense, vpd, report   bytes to facts and back; no state
 *   answers                   what to do with an answer, as data
 *   command                   one command to its end: attempts, retries, news
 *   zones                     REPORT ZONES in pages; what a write pointer says
 *   io                        bdev requests as commands: pieces, settling
 *   identify                  opening: everything learned from the drive
 *   disk                      the bdev itself, counters, return of a drive
 *
 * Threads: everything in struct disk is fixed after opening, or atomic; there
 * is no lock in the I/O path.
 */
#ifndef SCSI_DISK_INTERNAL_H
#define SCSI_DISK_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include "base/bdev.h"
#include "base/clock.h"
#include "scsi/answers.h"
#include "scsi/cdb.h"
#include "scsi/disk.h"
#include "scsi/report.h"
#include "scsi/sense.h"
#include "transport/transport.h"

struct sh_error;
struct sh_log;

/* Counted retries of one command; the total time is bounded by
   (DISK_RETRIES + 1) x its timeout, on the disk's clock. */
#define DISK_RETRIES 5
/* Unit attentions in a row: a drive may have several pending. */
#define DISK_ATTENTIONS 16

/* Segments that one command takes when an iovec has to be cut. */
#define DISK_MAX_IOV 256

#define SYNC_NONE 2             /* the drive knows neither form */

/* Counters, in a few copies that are added up when they are read: threads that
   count at once do not take each other's cache lines. */
#define DISK_SHARDS 8
struct disk_count {
  _Alignas (128) atomic_uint_fast64_t commands[DISK_NR_CLASSES];
  atomic_uint_fast64_t read_bytes, written_bytes;
  atomic_uint_fast64_t retries, attentions, timeouts, busy;
  atomic_uint_fast64_t settles, short_transfers, zone_closes, unit_starts;
  atomic_uint_fast64_t capacity_changes, mode_changes, deferred_errors, failures;
};

struct disk {
  struct bdev bdev;             /* first: a struct bdev * is a struct disk * */
  struct transport t;
  const struct sh_log *log;
  const struct sh_clock *clock;

  /* Fixed after opening. */
  unsigned lbs_shift;
  uint64_t nr_lbas;
  int max_iov;                  /* of one command */
  bool removable;
  bool has_gaps;                /* gap zones behind the others */
  bool write_same_ndob;
  uint32_t unmap_max_blocks;
  uint32_t unmap_granularity, unmap_alignment;
  uint8_t *zero_block;          /* one logical block of zeroes, for WRITE SAME */

  /* Learned while running. */
  atomic_size_t max_bytes;      /* of one command's data; shrinks on ENOMEM */
  atomic_int rw_width;          /* enum rw_width */
  atomic_int sync_form;         /* SYNCHRONIZE CACHE: 0, 1: first, second form; SYNC_NONE */
  atomic_bool no_write_same, no_unmap;
  atomic_bool gone;             /* ENODEV until a probe finds the drive again */
  atomic_bool partial_refused;  /* the PARTIAL bit of REPORT ZONES */
  atomic_int deferred_errnum;   /* of an earlier write, for the next flush */
  atomic_bool unflushed;        /* a write completed since the last flush */
  atomic_uint_fast64_t resets;  /* what bdev_resets returns */
  pthread_mutex_t return_lock;  /* one thread looks for a lost drive at a time */

  /* Log limit: messages in the current second; both relaxed, a race costs a
     line at most. */
  atomic_uint_fast64_t log_second;
  atomic_uint log_lines, log_dropped;

  struct disk_count counts[DISK_SHARDS];
};

static inline struct disk *
disk_of (struct bdev *bdev)
{
  return (struct disk *) bdev;
}

/* The calling thread's copy: threads take them in turn. */
unsigned disk_shard (void);

#define COUNT(d, what, n) \
  atomic_fetch_add_explicit (&(d)->counts[disk_shard ()].what, (n), memory_order_relaxed)

/* --- command.c --- */

/* What the caller of an attempt does next. */
enum step {
  STEP_DONE,                    /* the command succeeded; resid is set */
  STEP_AGAIN,                   /* send it again; attempt.fate says what may have happened */
  STEP_NARROWER,                /* encode it in the next shorter form */
  STEP_SMALLER,                 /* max_bytes has shrunk: cut it again */
  STEP_FAILED,                  /* attempt.errnum */
};

/* One command and its retries.  The caller sets c, class and policy, and
   zeroes the rest with attempt_init. */
struct attempt {
  struct sh_command c;
  enum disk_class class;
  unsigned policy;              /* ATTEMPT_* */
  int errnum;
  enum answer_fate fate;        /* of the last try */
  bool doubt;                   /* some try may have run */
  bool refresh;                 /* failed on a zone rule or on its way: wp is news */
  unsigned retries, attentions;
  uint64_t sent_ns;             /* when this try was sent; 0: unknown (wants_age) */
  uint64_t first_ns;            /* when the first try that failed was sent, or if that is
                                   unknown, when it had failed; 0: none has */
  uint64_t delay_ns;            /* the next one */
  bool started, closed;         /* START UNIT, CLOSE ZONE were tried */
  const struct answer *answer;  /* of the last failure, else NULL */
  struct sense sense;
};

#define ATTEMPT_NO_RETRY 1u     /* a probe: one unit attention is forgiven */
#define ATTEMPT_EXPECT_REFUSAL 2u       /* a refusal is no news worth a log line */
#define ATTEMPT_WHILE_GONE 4u   /* part of looking for a drive that went away */

void attempt_init (struct attempt *a, enum disk_class class, unsigned policy);
void attempt_data (struct attempt *a, enum sh_xfer xfer, const struct iovec *iov,
                   int iovcnt, size_t len);
enum step attempt (struct disk *d, struct attempt *a);

/* Runs a command without data, or with a whole buffer, to its end; 0, or -1
   with errno (and a->errnum). */
int attempt_all (struct disk *d, struct attempt *a);

/* Logs unless too much was logged this second. */
void disk_log (struct disk *d, int level, const char *fmt, ...)
  __attribute__ ((format (printf, 3, 4)));

/* --- zones.c --- */

/* Goes over the zones as the drive reports them, gap zones included, in pages
   of `slots` zones. */
struct zone_walk {
  struct disk *d;
  uint8_t *buf;                 /* owned */
  size_t buf_bytes;
  struct report report;         /* the current page, inside buf */
  size_t next;                  /* its next descriptor */
  uint64_t lba;                 /* where the next zone must start */
  bool first;                   /* nothing was read yet: the first zone holds lba */
};

int zone_walk_begin (struct zone_walk *w, struct disk *d, uint64_t lba, size_t slots,
                     struct sh_error *err);
/* 1: *zone is the next one; 0: the drive has ended; -1: err. */
int zone_walk_next (struct zone_walk *w, struct bdev_zone *zone, struct sh_error *err);
void zone_walk_end (struct zone_walk *w);

/* What the header says of the whole drive: report->max_lba and granularity_lba;
   report->zones is unset. */
int disk_report_header (struct disk *d, struct report *report, struct sh_error *err);
/* The zone that holds `lba`, as reported; 0, or -1 with errno. */
int disk_report_one (struct disk *d, uint64_t lba, struct bdev_zone *zone);
/* What bdev_report_zones does. */
int disk_report_zones (struct bdev *bdev, uint64_t start_bytes,
                       struct bdev_zone *zones, size_t max, size_t *nr);
/* Closes one open zone other than that of skip_lba; false: there is none. */
bool disk_close_some_zone (struct disk *d, uint64_t skip_lba);

/* --- io.c --- */

int disk_execute (struct bdev *bdev, struct bdev_req *req);

/* --- disk.c --- */

/* Looks for a drive that is gone; 0 when the same one is back. */
int disk_return (struct disk *d);

/* --- identify.c --- */

/* Fills bdev.info and the fixed part of d. */
int disk_identify (struct disk *d, bool read_only, struct sh_error *err);
/* INQUIRY and VPD 80h, 83h again: is it the same drive?  0; -1: no, or no
   answer (err). */
int disk_identify_again (struct disk *d, struct sh_error *err);

#endif
