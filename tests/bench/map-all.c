/* SPDX-License-Identifier: BSD-3-Clause */
/* Maps every chunk of a fresh volume, for measurements of full drives: each
 * chunk to a zone of its own, sequential ones finished (full), with nothing
 * valid in them.  Both sets stay equal; `shingle check` is clean.
 *
 * Usage: map-all DEVICE
 */
#include <config.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/bytes.h"
#include "base/error.h"
#include "stack/stack.h"
#include "zoned/sets.h"
#include "zoned/zones.h"

static struct sh_error err;

static int
failed (void)
{
  fprintf (stderr, "map-all: %s\n", err.message[0] ? err.message : strerror (errno));
  return EXIT_FAILURE;
}

static int
finish (struct bdev *bdev, uint64_t off_bytes)
{
  struct bdev_req req = {
    .op = BDEV_ZONE_FINISH, .prio = BDEV_PRIO_BE, .off_bytes = off_bytes,
  };

  return bdev_execute (bdev, &req);
}

/* The table in memory; zones are finished on the way. */
static uint8_t *
make_map (struct bdev *bdev, const struct zone_table *t, const struct layout *l)
{
  const size_t size = (size_t) l->nr_map_blocks * BLOCK_BYTES;
  uint8_t *const map = malloc (size);
  uint32_t chunk = 0, id;

  if (map == NULL)
    return NULL;
  memset (map, 0xff, size);
  for (id = 0; id < t->nr_zones && chunk < l->nr_chunks; ++id) {
    if (layout_is_meta_zone (l, id) || zone_is_runt (t, id) || zone_is_bad (t, id))
      continue;
    if (zone_is_seq (t, id) && finish (bdev, zone_start_bytes (t, id)) == -1) {
      free (map);
      return NULL;
    }
    put_le32 (map + (size_t) chunk++ * MAP_ENTRY_BYTES, id);
  }
  return map;
}

static int
map_all (struct bdev *bdev, const struct zone_table *t, const struct layout *l)
{
  uint8_t *const map = make_map (bdev, t, l);
  int set, r = map == NULL ? -1 : 0;

  for (set = 0; r == 0 && set < 2; ++set)
    r = bdev_write (bdev, map, (uint64_t) l->nr_map_blocks * BLOCK_BYTES,
                    layout_map_block (l, set) * BLOCK_BYTES, 0);
  if (r == 0)
    r = bdev_flush (bdev);
  free (map);
  return r;
}

int
main (int argc, char **argv)
{
  struct stack_options options;
  struct zone_table *t;
  struct meta_sets sets;
  struct bdev *bdev;
  int r;

  if (argc != 2) {
    fprintf (stderr, "usage: map-all DEVICE\n");
    return 2;
  }
  stack_options_init (&options);
  options.exclusive = true;
  if (stack_open_device (argv[1], &options, &bdev, &err) == -1)
    return failed ();
  if (zone_table_read (bdev, &t, &err) == -1)
    return failed ();
  if (meta_sets_read (bdev, t, &sets, &err) == -1)
    return failed ();
  r = map_all (bdev, t, &sets.layout);
  if (r == -1)
    failed ();
  zone_table_free (t);
  bdev_close (bdev);
  return r == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
