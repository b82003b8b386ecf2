/* SPDX-License-Identifier: BSD-3-Clause */
/* Any byte range on a drive that knows whole blocks alone.  Any thread; -1
 * with errno as base/bdev.h. */
#ifndef SG_BYTES_IO_H
#define SG_BYTES_IO_H

#include <stdbool.h>
#include <stdint.h>
#include "drives.h"

/* Blocks that a zone does not hold yet read as zeroes, also where the drive
   would refuse to read them. */
int drive_read (struct drive *d, void *buf, uint64_t count, uint64_t offset);
int drive_write (struct drive *d, const void *buf, uint64_t count, uint64_t offset,
                 bool fua);
/* fast: ENOTSUP unless the drive deallocates instead of writing. */
int drive_zero (struct drive *d, uint64_t count, uint64_t offset, bool fua,
                bool may_trim, bool fast);
/* Whole blocks inside the range. */
int drive_trim (struct drive *d, uint64_t count, uint64_t offset, bool fua);

/* Calls fn for ascending, contiguous pieces of the range, and no more.  hole: no
   zone holds it.  fn returns 0 to go on, 1 to stop, -1 to fail. */
int drive_extents (struct drive *d, uint64_t count, uint64_t offset,
                   int (*fn) (void *opaque, uint64_t offset, uint64_t count, bool hole),
                   void *opaque);

#endif
