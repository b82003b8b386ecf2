/* SPDX-License-Identifier: BSD-3-Clause */
#include <config.h>
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "base/bytes.h"
#include "base/error.h"
#include "zoned/zones.h"

#define REPORT_ZONES 1024       /* descriptors asked for at a time */

_Static_assert (sizeof (struct zone) == 8, "the table is meant to be compact");

static const char *const type_names[] = {
  [ZONE_CONVENTIONAL] = "conventional",
  [ZONE_SEQ_REQUIRED] = "sequential write required",
  [ZONE_SEQ_PREFERRED] = "sequential write preferred",
  [ZONE_SEQ_OR_BEFORE] = "sequential or before required",
  [ZONE_GAP] = "gap",
};

static const char *const cond_names[] = {
  [ZONE_NOT_WP] = "not write pointer",
  [ZONE_EMPTY] = "empty",
  [ZONE_IMPLICIT_OPEN] = "implicitly open",
  [ZONE_EXPLICIT_OPEN] = "explicitly open",
  [ZONE_CLOSED] = "closed",
  [5] = "inactive",
  [ZONE_READ_ONLY] = "read-only",
  [ZONE_FULL] = "full",
  [ZONE_OFFLINE] = "offline",
};

const char *
zone_type_name (uint8_t type)
{
  if (type < ARRAY_SIZE (type_names) && type_names[type])
    return type_names[type];
  return "unknown";
}

const char *
zone_cond_name (uint8_t cond)
{
  if (cond < ARRAY_SIZE (cond_names) && cond_names[cond])
    return cond_names[cond];
  return "unknown";
}

/* The errors of a report all name the drive and the zone. */
#define ZONE_FAIL(err, errnum, bdev, id, fmt, ...)                      \
  sh_fail (err, errnum, "%s: zone %" PRIu32 ": " fmt, (bdev)->info.name, \
           id, ##__VA_ARGS__)

static int
refuse_not_zoned (const struct bdev *bdev, struct sh_error *err)
{
  if (bdev->info.model == BDEV_DRIVE_MANAGED) {
    sh_fail (err, ERRNUM_NOT_ZONED,
             "%s: this is a drive-managed SMR drive, not a host-managed or "
             "host-aware one", bdev->info.name);
    return sh_hint (err, "a drive-managed drive hides its zones and is used like any "
                    "disk; a host-managed one (SCSI device type 14h) shows them and "
                    "needs a layer such as this");
  }
  sh_fail (err, ERRNUM_NOT_ZONED,
           "%s: not a zoned drive: it reports no zones", bdev->info.name);
  return sh_hint (err, "only host-managed (SCSI device type 14h) and host-aware SMR "
                  "drives have zones; drive-managed SMR drives and plain disks are "
                  "used as they are");
}

/* The size that all zones have, from the drive's own statement. */
static int
check_zone_size (const struct bdev *bdev, struct sh_error *err)
{
  const uint64_t zone_bytes = bdev->info.zone_bytes;

  if (zone_bytes == 0 || bdev->info.size_bytes == 0)
    return sh_fail (err, EPROTO, "%s: the drive says that it is zoned, but its %s is 0",
                    bdev->info.name, zone_bytes == 0 ? "zone size" : "capacity");
  if (!is_power_of_2 (zone_bytes))
    return sh_fail (err, ENOTSUP, "%s: zones of %" PRIu64 " bytes are not supported: "
                    "the zone size must be a power of two",
                    bdev->info.name, zone_bytes);
  if (zone_bytes < BLOCK_BYTES || zone_bytes / BLOCK_BYTES > INT32_MAX)
    return sh_fail (err, ENOTSUP, "%s: zones of %" PRIu64 " bytes are not supported: "
                    "too %s", bdev->info.name, zone_bytes,
                    zone_bytes < BLOCK_BYTES ? "small for one block of 4096 bytes" : "large");
  if (DIV_ROUND_UP (bdev->info.size_bytes, zone_bytes) > ZONES_MAX)
    return sh_fail (err, ENOTSUP, "%s: %" PRIu64 " zones are too many (the limit is %"
                    PRIu32 ")", bdev->info.name,
                    DIV_ROUND_UP (bdev->info.size_bytes, zone_bytes), ZONES_MAX);
  return 0;
}

/* Start and length of the zone that has to be number `id`. */
static int
check_place (const struct bdev *bdev, uint32_t id, const struct bdev_zone *z,
             struct sh_error *err)
{
  const uint64_t want_start = id * bdev->info.zone_bytes;
  uint64_t end;

  if (z->len_bytes == 0)
    return ZONE_FAIL (err, EPROTO, bdev, id, "has the length 0");
  if (ADD_OVERFLOW (z->start_bytes, z->len_bytes, &end))
    return ZONE_FAIL (err, EPROTO, bdev, id, "start %" PRIu64 " and length %" PRIu64
                      " overflow", z->start_bytes, z->len_bytes);
  if (z->start_bytes < want_start)
    return ZONE_FAIL (err, EPROTO, bdev, id, "starts at byte %" PRIu64
                      ", inside of the zone before it, which ends at %" PRIu64,
                      z->start_bytes, want_start);
  if (z->start_bytes > want_start) {
    ZONE_FAIL (err, EPROTO, bdev, id, "starts at byte %" PRIu64
               ", but the zone before it ends at %" PRIu64,
               z->start_bytes, want_start);
    return sh_hint (err, "a drive with gap zones (type 5h) cannot hold a dm-zoned volume");
  }
  if (end > bdev->info.size_bytes)
    return ZONE_FAIL (err, EPROTO, bdev, id, "ends at byte %" PRIu64
                      ", behind the end of the drive at %" PRIu64,
                      end, bdev->info.size_bytes);
  if (z->len_bytes != bdev->info.zone_bytes && end != bdev->info.size_bytes)
    return ZONE_FAIL (err, EPROTO, bdev, id, "is %" PRIu64 " bytes long, the others %"
                      PRIu64 " (only the last one may be shorter)",
                      z->len_bytes, bdev->info.zone_bytes);
  if (z->len_bytes > bdev->info.zone_bytes)
    return ZONE_FAIL (err, EPROTO, bdev, id, "is %" PRIu64 " bytes long, more than "
                      "the zone size of %" PRIu64, z->len_bytes, bdev->info.zone_bytes);
  return 0;
}

static int
check_kind (const struct bdev *bdev, uint32_t id, const struct bdev_zone *z,
            struct sh_error *err)
{
  if (z->type < ZONE_CONVENTIONAL || z->type > ZONE_SEQ_PREFERRED)
    return ZONE_FAIL (err, z->type == ZONE_SEQ_OR_BEFORE || z->type == ZONE_GAP ?
                      ENOTSUP : EPROTO, bdev, id, "zone type %Xh (%s) is not supported",
                      z->type, zone_type_name (z->type));
  if (z->cap_bytes > z->len_bytes)
    return ZONE_FAIL (err, EPROTO, bdev, id, "has a capacity of %" PRIu64
                      " bytes, more than its length of %" PRIu64,
                      z->cap_bytes, z->len_bytes);
  if (z->cap_bytes != 0 && z->cap_bytes < z->len_bytes) {
    ZONE_FAIL (err, ENOTSUP, bdev, id, "holds only %" PRIu64 " of its %" PRIu64
               " bytes (zone capacity below zone size)", z->cap_bytes, z->len_bytes);
    return sh_hint (err, "dm-zoned needs zones that can be filled to their end; a "
                    "drive with such zones cannot be used");
  }
  return 0;
}

static uint32_t
blocks_of (uint64_t bytes)
{
  return bytes / BLOCK_BYTES;
}

/* What the write pointer and the condition of a sequential zone say; false:
   nonsense. */
static bool
decode_wp (const struct bdev_zone *z, struct zone *zone)
{
  const bool inside = z->wp_bytes >= z->start_bytes &&
                      z->wp_bytes - z->start_bytes <= z->len_bytes;

  switch (z->cond) {
  case ZONE_EMPTY:
  case ZONE_OFFLINE:
    zone->wp = 0;
    return true;
  case ZONE_FULL:
    zone->wp = blocks_of (z->len_bytes);
    return true;
  case ZONE_IMPLICIT_OPEN:
  case ZONE_EXPLICIT_OPEN:
  case ZONE_CLOSED:
    if (!inside)
      return false;
    zone->wp = blocks_of (z->wp_bytes - z->start_bytes);
    zone->wp_odd = (z->wp_bytes - z->start_bytes) % BLOCK_BYTES != 0;
    return true;
  case ZONE_READ_ONLY:
    /* ZBC leaves the write pointer of a read-only zone undefined; most drives
       still tell it. */
    zone->wp_unknown = !inside;
    zone->wp = blocks_of (inside ? z->wp_bytes - z->start_bytes : z->len_bytes);
    return true;
  default:
    return false;
  }
}

/* A descriptor as the drive gave it to our compact form; false: nonsense. */
static bool
decode_zone (const struct bdev_zone *z, struct zone *zone)
{
  memset (zone, 0, sizeof *zone);
  zone->type = z->type;
  zone->cond = z->cond;
  if (z->type == ZONE_CONVENTIONAL) {
    zone->wp = z->cond == ZONE_OFFLINE ? 0 : blocks_of (z->len_bytes);
    return true;
  }
  return decode_wp (z, zone);
}

static int
add_zone (struct zone_table *table, const struct bdev *bdev,
          const struct bdev_zone *z, struct sh_error *err)
{
  const uint32_t id = table->nr_zones;
  struct zone *zone = &table->zones[id];

  if (check_place (bdev, id, z, err) == -1 || check_kind (bdev, id, z, err) == -1)
    return -1;
  if (!decode_zone (z, zone))
    return ZONE_FAIL (err, EPROTO, bdev, id, "a %s zone in condition %Xh (%s) with the "
                      "write pointer at byte %" PRIu64 " makes no sense",
                      zone_type_name (z->type), z->cond, zone_cond_name (z->cond),
                      z->wp_bytes);
  table->nr_zones++;
  if (z->len_bytes < table->zone_bytes) {
    table->runt = true;
    table->runt_blocks = blocks_of (z->len_bytes);
    return 0;
  }
  table->nr_random += z->type == ZONE_CONVENTIONAL;
  table->nr_preferred += z->type == ZONE_SEQ_PREFERRED;
  table->nr_bad += zone_is_bad (table, id);
  return 0;
}

/* Room for `more` zones. */
static int
grow (struct zone_table *table, size_t *room, size_t more, struct sh_error *err)
{
  const size_t need = table->nr_zones + more;
  struct zone *zones;

  if (need <= *room)
    return 0;
  zones = reallocarray (table->zones, MAX (need, *room * 2), sizeof *zones);
  if (zones == NULL)
    return sh_fail (err, ENOMEM, "no memory for %zu zones", need);
  table->zones = zones;
  *room = MAX (need, *room * 2);
  return 0;
}

/* The part of the report that starts at `*next`; *next becomes its end. */
static int
read_part (struct zone_table *table, struct bdev *bdev, struct bdev_zone *part,
           uint64_t *next, size_t *room, struct sh_error *err)
{
  size_t nr = 0, i;

  if (bdev_report_zones (bdev, *next, part, REPORT_ZONES, &nr) == -1)
    return sh_fail (err, errno, "%s: the zone report from byte %" PRIu64 " on failed: %s",
                    bdev->info.name, *next, sh_drive_error (errno));
  if (nr == 0 || nr > REPORT_ZONES)
    return sh_fail (err, EPROTO, "%s: the zone report ends at byte %" PRIu64
                    " (%" PRIu32 " zones), but the drive has %" PRIu64 " bytes",
                    bdev->info.name, *next, table->nr_zones, bdev->info.size_bytes);
  if (grow (table, room, nr, err) == -1)
    return -1;
  for (i = 0; i < nr; ++i) {
    if (add_zone (table, bdev, &part[i], err) == -1)
      return -1;
    *next = part[i].start_bytes + part[i].len_bytes;
    if (*next == bdev->info.size_bytes && i + 1 < nr)
      return ZONE_FAIL (err, EPROTO, bdev, table->nr_zones,
                        "is reported behind the end of the drive");
  }
  return 0;
}

static int
read_all (struct zone_table *table, struct bdev *bdev, struct sh_error *err)
{
  struct bdev_zone *part = calloc (REPORT_ZONES, sizeof *part);
  uint64_t next = 0;
  size_t room = 0;
  int r = 0;

  if (part == NULL)
    return sh_fail (err, ENOMEM, "no memory for a zone report");
  while (r == 0 && next < table->size_bytes)
    r = read_part (table, bdev, part, &next, &room, err);
  free (part);
  if (r == 0 && table->nr_zones != bdev->info.nr_zones)
    return sh_fail (err, EPROTO, "%s: the drive says that it has %" PRIu32
                    " zones, but reports %" PRIu32,
                    bdev->info.name, bdev->info.nr_zones, table->nr_zones);
  return r;
}

int
zone_table_read (struct bdev *bdev, struct zone_table **table, struct sh_error *err)
{
  struct zone_table *t;

  if (bdev->info.model != BDEV_HOST_MANAGED && bdev->info.model != BDEV_HOST_AWARE)
    return refuse_not_zoned (bdev, err);
  if (check_zone_size (bdev, err) == -1)
    return -1;
  t = calloc (1, sizeof *t);
  if (t == NULL)
    return sh_fail (err, ENOMEM, "no memory for the zone table");
  t->zone_bytes = bdev->info.zone_bytes;
  t->zone_blocks = bdev->info.zone_bytes / BLOCK_BYTES;
  t->size_bytes = bdev->info.size_bytes;
  if (read_all (t, bdev, err) == -1) {
    zone_table_free (t);
    errno = err->errnum;
    return -1;
  }
  *table = t;
  return 0;
}

void
zone_table_free (struct zone_table *table)
{
  if (table == NULL)
    return;
  free (table->zones);
  free (table);
}

int
zone_report_one (struct bdev *bdev, const struct zone_table *table, uint32_t id,
                 struct zone *zone)
{
  const uint64_t start_bytes = zone_start_bytes (table, id);
  struct bdev_zone z;
  size_t nr = 0;

  assert (id < table->nr_zones);
  if (bdev_report_zones (bdev, start_bytes, &z, 1, &nr) == -1)
    return -1;
  if (nr != 1 || z.start_bytes != start_bytes || z.type != table->zones[id].type ||
      z.len_bytes != MIN (table->zone_bytes, table->size_bytes - start_bytes) ||
      !decode_zone (&z, zone)) {
    errno = EPROTO;
    return -1;
  }
  return 0;
}
