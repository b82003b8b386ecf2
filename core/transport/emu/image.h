/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Images: a raw copy of a drive's data, and its zone table as text.
 *
 *   # comment
 *   # setting KEY=VALUE
 *   start_lba512 len_lba512 type condition write_pointer_lba512
 *
 * in sectors of 512 bytes whatever the logical block; type CONV, SWR, SWP or
 * GAP; condition NOT_WP, EMPTY, IMP_OPEN, EXP_OPEN, CLOSED, READONLY, FULL or
 * OFFLINE; "-" for no write pointer.
 */
#ifndef EMU_IMAGE_H
#define EMU_IMAGE_H

#include "transport/emu/internal.h"

/* One line: a zone, with the gap behind it counted to its length. */
struct image_zone {
  uint64_t start, len, cap, wp; /* sectors; wp UINT64_MAX: none */
  uint8_t type, cond;           /* enum bdev_zone_type, bdev_zone_cond */
};

struct image_table {
  struct image_zone *zones;
  size_t nr, allocated;
};

int image_table_read (const char *path, struct image_table *t, struct sh_error *err);
int image_table_write (struct emu *emu, const char *path, struct sh_error *err);
void image_table_free (struct image_table *t);

/* Bytes of a raw image in order; zero-filled holes may be skipped.  Plain, or
   compressed by zstd where the build has libzstd. */
struct raw_reader;
struct raw_reader *raw_open (const char *path, struct sh_error *err);
/* The next run of data; *len 0 at the end.  *off only grows. */
int raw_next (struct raw_reader *r, uint64_t *off, const uint8_t **data, size_t *len,
              struct sh_error *err);
/* Total size, known at the end at the latest. */
uint64_t raw_size (const struct raw_reader *r);
void raw_close (struct raw_reader *r);

#endif
