/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes a volume: first a plan, which changes nothing and refuses what cannot
 * work, then the writing.
 */
#ifndef ZONED_FORMAT_H
#define ZONED_FORMAT_H

#include <stdint.h>
#include "base/bdev.h"
#include "base/log.h"
#include "base/progress.h"
#include "zoned/layout.h"
#include "zoned/super.h"
#include "zoned/zones.h"

struct sh_error;

#define FORMAT_LABEL_MAX 31     /* characters of a label that was given */
#define FORMAT_LABEL_CUT 30     /* ... of one that was made up, as dmzadm does */

struct format_options {
  const char *label;            /* NULL: "dmz-" and the serial number */
  uint32_t reserved;            /* sequential zones kept for reclaim; 0: default */
  uint32_t version;             /* 1 or 2; 0: 2 */
  const uint8_t *uuid;          /* 16 bytes; NULL: random (version 4) */
  const uint8_t *dev_uuid;      /* likewise */
  const struct sh_log *log;     /* may be NULL */
  const struct sh_progress *progress;   /* may be NULL */
};

struct format_plan {
  struct layout layout;
  struct super super;           /* of set 0 */
};

/* All checks: writable, layout (layout_make), version, label.  Warns (log) of
   what works here but not with the kernel's dm-zoned (a runt zone), and of
   zones that cannot be used.  -1 with err; nothing is changed. */
int format_make_plan (struct bdev *bdev, const struct zone_table *table,
                      const struct format_options *options,
                      struct format_plan *plan, struct sh_error *err);

/* Takes away the superblocks that stand where the new ones go, resets every
   sequential zone (also those that look empty), writes map and bitmaps of both
   sets and, last in each, its superblock.  An interrupted format leaves no
   volume, not half of one.  `table` is read again. */
int format_write (struct bdev *bdev, struct zone_table **table,
                  const struct format_options *options,
                  const struct format_plan *plan, struct sh_error *err);

#endif
