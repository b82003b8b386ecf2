/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The zones of a drive, read once from its zone report and checked: what the
 * layers of core/zoned know of the drive's shape.
 *
 * dm-zoned wants every zone to be of one power-of-two size, so a zone is a
 * number: zone `id` starts at byte id * zone_bytes.  Only a shorter last zone
 * (runt) is tolerated; it is counted in nr_zones (it has its bitmap on disk)
 * and never used.
 *
 * A table is plain data: no locks, no I/O after zone_table_read.  8 bytes a
 * zone: 104,312 zones are 815 KiB.
 */
#ifndef ZONED_ZONES_H
#define ZONED_ZONES_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/bdev.h"

struct sh_error;

#define BLOCK_BYTES 4096u       /* the unit of mapping */
#define ZONE_NONE   UINT32_MAX  /* "no zone", as on disk */

/* errnum of "this is not a host-managed or host-aware drive": the commands
   turn it into their own exit status. */
#define ERRNUM_NOT_ZONED EMEDIUMTYPE

/* More zones than this are refused, whatever the drive says: a drive of 28 TB
   with zones of 1 MiB has 27 million. */
#define ZONES_MAX (UINT32_C (1) << 26)

struct zone {
  /* Blocks from the zone's start that may be read: the write pointer of a
     sequential zone, rounded down (the zone's length where the zone is full,
     0 where it is empty or offline); the zone's length where it is
     conventional. */
  uint32_t wp;
  uint8_t type;                 /* enum bdev_zone_type: 1, 2 or 3 */
  uint8_t cond;                 /* enum bdev_zone_cond */
  /* The write pointer is not on a block border: nothing can be appended
     before a reset. */
  bool wp_odd;
  /* A read-only zone whose write pointer the drive does not tell; wp is the
     zone's length then, and only the bitmap knows what is in it. */
  bool wp_unknown;
};

struct zone_table {
  uint64_t zone_bytes;          /* power of two, at least BLOCK_BYTES */
  uint64_t size_bytes;          /* of the drive */
  uint32_t zone_blocks;
  uint32_t nr_zones;            /* runt included */
  uint32_t runt_blocks;         /* whole blocks in the last, shorter zone; 0 also
                                   for a runt smaller than a block */
  bool runt;                    /* the last zone is shorter than the others */
  uint32_t nr_random;           /* conventional, full length, any condition */
  uint32_t nr_preferred;        /* sequential write preferred, likewise */
  uint32_t nr_bad;              /* read-only or offline, full length */
  struct zone *zones;           /* nr_zones; owned by the table */
};

/* Reads the zone report of `bdev` from one end to the other.
 *
 * Refused, with err naming the drive and the zone:
 *   ERRNUM_NOT_ZONED  not zoned, or a drive-managed (SMR) drive;
 *   EPROTO            nonsense: overlaps, holes, zones of different size, counts
 *                     or ends that disagree with the drive's capacity, a write
 *                     pointer outside its zone, overflow;
 *   ENOTSUP           sound, but not for dm-zoned: capacity below size (0 is "not
 *                     reported"), zone types 4h and 5h, a size that is no power
 *                     of two or below a block;
 *   what bdev_report_zones says, ENOMEM. */
int zone_table_read (struct bdev *bdev, struct zone_table **table,
                     struct sh_error *err);
void zone_table_free (struct zone_table *table);

/* Asks the drive for zone `id` alone.  0, or -1 with errno (EPROTO: the answer
   is nonsense).  The table is not changed.  For the I/O path: no sh_error. */
int zone_report_one (struct bdev *bdev, const struct zone_table *table,
                     uint32_t id, struct zone *zone);

/* "conventional", "empty", ... for messages; never NULL. */
const char *zone_type_name (uint8_t type);
const char *zone_cond_name (uint8_t cond);

static inline uint64_t
zone_start_bytes (const struct zone_table *table, uint32_t id)
{
  return (uint64_t) id * table->zone_bytes;
}

static inline uint64_t
zone_start_block (const struct zone_table *table, uint32_t id)
{
  return (uint64_t) id * table->zone_blocks;
}

/* The last zone when it is shorter than the others: never used. */
static inline bool
zone_is_runt (const struct zone_table *table, uint32_t id)
{
  return table->runt && id == table->nr_zones - 1;
}

/* Conventional and of full length. */
static inline bool
zone_is_random (const struct zone_table *table, uint32_t id)
{
  return table->zones[id].type == ZONE_CONVENTIONAL && !zone_is_runt (table, id);
}

/* Sequential (required or preferred) and of full length. */
static inline bool
zone_is_seq (const struct zone_table *table, uint32_t id)
{
  return table->zones[id].type != ZONE_CONVENTIONAL && !zone_is_runt (table, id);
}

/* Takes no new data. */
static inline bool
zone_is_bad (const struct zone_table *table, uint32_t id)
{
  return table->zones[id].cond == ZONE_READ_ONLY ||
         table->zones[id].cond == ZONE_OFFLINE;
}

#endif
