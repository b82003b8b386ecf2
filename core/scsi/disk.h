/* SPDX-License-Identifier: BSD-3-Clause */
/* A SCSI disk as a bdev: typed commands, sense, retries, splitting. */
#ifndef SCSI_DISK_H
#define SCSI_DISK_H

#include "base/bdev.h"
#include "transport/transport.h"

struct sh_clock;
struct sh_error;
struct sh_log;

struct disk_options {
  bool read_only;
  const struct sh_log *log;     /* may be NULL */
  const struct sh_clock *clock; /* NULL: monotonic */
};

/* Identifies the disk behind `t` (INQUIRY, VPD pages, READ CAPACITY, MODE
   SENSE, REPORT ZONES) and makes it a bdev.  The bdev owns `t` from success
   on; on failure the caller still does.  Refuses what is no disk, and what
   answers nonsense.  A disk that is not zoned opens too: info.model says so. */
int disk_open (const struct transport *t, const struct disk_options *options,
               struct bdev **bdev, struct sh_error *err);

/* Classes of commands: each has its timeout (command.c) and its counter. */
enum disk_class {
  DISK_CLASS_READ,
  DISK_CLASS_WRITE,
  DISK_CLASS_FLUSH,
  DISK_CLASS_WRITE_SAME,
  DISK_CLASS_UNMAP,
  DISK_CLASS_ZONE_OUT,
  DISK_CLASS_ZONE_IN,           /* REPORT ZONES */
  DISK_CLASS_PROBE,             /* TEST UNIT READY */
  DISK_CLASS_START,
  DISK_CLASS_INQUIRY,           /* everything that only asks */
};
#define DISK_NR_CLASSES (DISK_CLASS_INQUIRY + 1)

/* "read", for tables. */
const char *disk_class_name (enum disk_class class);

/* Since opening.  Each number is exact; taken one by one, so that two of them
   may be an instant apart. */
struct disk_counters {
  uint64_t commands[DISK_NR_CLASSES];   /* sent to the transport, retries included */
  uint64_t read_bytes, written_bytes;
  uint64_t retries;             /* commands sent again, whatever the reason */
  uint64_t attentions;          /* unit attentions seen */
  uint64_t resets;              /* of those, resets and power-ons */
  uint64_t timeouts;
  uint64_t busy;                /* BUSY and queue-full answers */
  uint64_t settles;             /* write pointers read to learn a write's fate */
  uint64_t short_transfers;     /* good answers with a residual */
  uint64_t zone_closes;         /* zones closed to make room for another */
  uint64_t unit_starts;
  uint64_t capacity_changes, mode_changes, deferred_errors;
  uint64_t failures;            /* requests that ended with an error */
};

/* `bdev` must be one that disk_open made.  Any thread, any time. */
void disk_get_counters (struct bdev *bdev, struct disk_counters *counters);

/* Asks the drive who it is, and compares with what was there at opening
   (WWID, else serial number; capacity).  0: the same; -1: another drive, or
   none answers (err). */
int disk_check_identity (struct bdev *bdev, struct sh_error *err);

#endif
