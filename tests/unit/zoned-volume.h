/* SPDX-License-Identifier: BSD-3-Clause */
/* Volumes made by hand on a fake drive, for the tests of format and check. */
#ifndef ZONED_VOLUME_H
#define ZONED_VOLUME_H

#include "fake-bdev.h"
#include "base/error.h"
#include "zoned/check.h"
#include "zoned/format.h"
#include "zoned/layout.h"
#include "zoned/zones.h"

#define SET_0    1
#define SET_1    2
#define BOTH     3

/* Formats with fixed uuids; the result must be good. */
struct layout volume_format (struct fake *f, const struct format_options *options);

/* Writes straight into the metadata, of the sets named. */
void volume_map (struct fake *f, const struct layout *l, int sets, uint32_t chunk,
                 uint32_t data, uint32_t buffer);
void volume_bits (struct fake *f, const struct layout *l, int sets, uint32_t zone,
                  uint32_t first, uint32_t nr, bool value);
/* Rewrites a superblock with a generation of its own. */
void volume_generation (struct fake *f, const struct layout *l, int set, uint64_t gen);

/* Some of everything, clean: chunk 0 in a random zone, 1 and 2 in sequential
   ones, 2 with a buffer, 3 mapped to an empty zone, the rest unmapped. */
struct layout volume_sample (struct fake *f);

/* Where the sample's chunks are. */
struct sample_zones {
  uint32_t random, seq, buffered, buffer, empty, free_seq;
};
struct sample_zones sample_zones (const struct zone_table *t, const struct layout *l);

/* The lines of a check, each with a newline, "E " or "N " before. */
struct findings {
  char text[65536];
  struct check_result result;
  struct sh_error err;
  int status;                   /* what check_volume returned */
};
void volume_check (struct fake *f, bool repair, struct findings *findings);

/* Both sets with everything in them. */
uint8_t *metadata_copy (const struct fake *f, const struct layout *l);
size_t metadata_bytes (const struct layout *l);

#endif
