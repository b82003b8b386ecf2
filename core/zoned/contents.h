/* SPDX-License-Identifier: BSD-3-Clause */
/* What a drive holds already, so that nothing is formatted by mistake. */
#ifndef ZONED_CONTENTS_H
#define ZONED_CONTENTS_H

#include <stdbool.h>

struct bdev;
struct sh_error;
struct zone_table;

struct contents {
  bool volume;                  /* a dm-zoned volume, whole or damaged, is there */
  bool anything;                /* that, or anything else */
  char what[320];               /* "an ext4 file system \"data\", 12 written sequential
                                   zones (the first is zone 5)"; "" for nothing */
};

/* Looks for a dm-zoned volume, for everything that libblkid knows (in the first
   and last MiB), for a zoned btrfs, for sequential zones that are not empty and
   for conventional zones that do not start with zeroes.  Reads only.  0, or -1
   with err: the drive could not be read. */
int contents_find (struct bdev *bdev, const struct zone_table *table,
                   struct contents *contents, struct sh_error *err);

#endif
