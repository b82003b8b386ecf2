/* SPDX-License-Identifier: BSD-3-Clause */
/* A drive's zones as a drawing: in the terminal, or as an SVG picture.  Each
 * zone shows its condition, how full it is, and what the volume uses it for. */
#ifndef SERVER_ZONE_MAP_H
#define SERVER_ZONE_MAP_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/bdev.h"
#include "zoned/usage.h"

struct zone_map {
  struct zone_map_cell *cells;  /* malloc'd, one a zone */
  size_t nr, max;
};

/* 0, or -1 with errno.  use_known: there is a volume, and `use` is its. */
int zone_map_add (struct zone_map *m, const struct bdev_zone *z, bool use_known,
                  enum zone_use use);
void zone_map_free (struct zone_map *m);

/* In lines of `columns` at most, with colours if asked for; several zones share
   a place when there are more than fit `max_lines`. */
void zone_map_print (const struct zone_map *m, FILE *out, unsigned columns,
                     unsigned max_lines, bool colours);

/* `title` is any text. */
void zone_map_svg (const struct zone_map *m, FILE *out, const char *title);

#endif
