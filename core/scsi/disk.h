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
   on; on failure the caller still does.  Refuses what is no disk. */
int disk_open (const struct transport *t, const struct disk_options *options,
               struct bdev **bdev, struct sh_error *err);

#endif
