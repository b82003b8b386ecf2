/* SPDX-License-Identifier: BSD-3-Clause */
/* What a drive holds already, so that format destroys nothing by mistake. */
#ifndef SERVER_CONTENTS_H
#define SERVER_CONTENTS_H

#include <stddef.h>

struct bdev;
struct sh_error;
struct zone_table;

/* 1: something, and `what` names it ("an ext4 file system \"data\", 12 written
   sequential zones (the first: zone 5)"); 0: nothing known; -1 with err: the
   drive could not be read.  Looks for a dm-zoned volume, for everything that
   libblkid knows (in the first and last MiB), for a zoned btrfs, and for
   sequential zones that are not empty. */
int contents_find (struct bdev *bdev, const struct zone_table *table,
                   char *what, size_t size, struct sh_error *err);

#endif
