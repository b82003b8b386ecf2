/* SPDX-License-Identifier: BSD-3-Clause */
/* shingle info: the drive, its zones, and the volume on it. */
#include <config.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include "args.h"
#include "base/bdev.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/text.h"
#include "commands.h"
#include "open.h"
#include "zoned/sets.h"
#include "zoned/usage.h"
#include "zoned/zones.h"

enum { OPT_JSON = 256, OPT_USED };

static const struct arg_option options[] = {
  { OPT_JSON, 0, "json", NULL, "as one JSON object" },
  { OPT_USED, 0, "used", NULL, "also count the valid blocks (reads the bitmaps)" },
  { 0, 0, NULL, NULL, NULL }
};

struct request {
  const char *device;
  bool json, used;
};

/* All there is to say; what is NULL or false is not there. */
struct facts {
  const struct bdev_info *drive;
  struct zone_table *table;
  uint32_t by_type[4], by_cond[16];
  struct meta_sets sets;
  bool volume;                  /* sets and usage are valid */
  struct usage usage;
  bool used;
  uint64_t valid_blocks;
  char problem[512];            /* why there is no table or volume, "" if none was to be */
};

static void
help (void)
{
  printf ("Usage: shingle info DEVICE [OPTIONS]\n\n"
          "Tells what a drive is and what volume is on it.\n\n");
  args_print_options (options);
}

static int
parse (int argc, char **argv, struct request *r, bool *done)
{
  struct args a;
  int id;

  *done = false;
  args_init (&a, "shingle info", options, argc, argv);
  while ((id = args_next (&a)) != ARGS_END) {
    if (id == ARGS_HELP) {
      help ();
      *done = true;
      return STATUS_OK;
    }
    if (id == OPT_JSON)
      r->json = true;
    else if (id == OPT_USED)
      r->used = true;
    else if (id == ARGS_WORD && r->device == NULL)
      r->device = a.value;
    else
      return args_refuse (&a, id, "DEVICE");
  }
  return r->device ? STATUS_OK : refuse_no_device (&a);
}

/* --- finding out --- */

static bool
is_zoned (const struct bdev_info *info)
{
  return info->model == BDEV_HOST_AWARE || info->model == BDEV_HOST_MANAGED;
}

static void
count_zones (struct facts *f)
{
  uint32_t id;

  for (id = 0; id < f->table->nr_zones; ++id) {
    f->by_type[f->table->zones[id].type & 3]++;
    f->by_cond[f->table->zones[id].cond & 15]++;
  }
}

/* 0; or -1 when the drive has a volume that cannot be read. */
static int
find_out (struct bdev *bdev, const struct request *r, struct facts *f, struct sh_error *err)
{
  struct sh_error why = { 0 };

  f->drive = &bdev->info;
  if (!is_zoned (f->drive))
    return 0;
  if (zone_table_read (bdev, &f->table, &why) == -1) {
    snprintf (f->problem, sizeof f->problem, "%s", why.message);
    return 0;
  }
  count_zones (f);
  if (meta_sets_read (bdev, f->table, &f->sets, &why) == -1) {
    if (f->sets.set[0].present || f->sets.set[1].present)
      snprintf (f->problem, sizeof f->problem, "%s", why.message);
    return 0;
  }
  if (usage_read (bdev, f->table, &f->sets, &f->usage, err) == -1)
    return -1;
  f->volume = true;
  if (r->used) {
    f->used = true;
    return usage_count_valid (bdev, f->table, &f->sets, &f->usage, &f->valid_blocks, err);
  }
  return 0;
}

static const char *
model_name (enum bdev_zoned_model model)
{
  switch (model) {
  case BDEV_DRIVE_MANAGED: return "drive-managed";
  case BDEV_HOST_AWARE: return "host-aware";
  case BDEV_HOST_MANAGED: return "host-managed";
  default: return "not zoned";
  }
}

static const struct super *
super_of (const struct facts *f)
{
  return &f->sets.set[f->sets.primary].super;
}

/* --- for people --- */

static void
print_drive (const struct bdev_info *d)
{
  char size[SIZE_TEXT], a[80], b[80], c[80];

  printf ("drive       %s\n", d->name);
  printf ("  identity  %s %s, revision %s, serial %s\n", sh_printable (d->vendor, a, sizeof a),
          sh_printable (d->product, b, sizeof b), d->revision,
          d->serial[0] ? sh_printable (d->serial, c, sizeof c) : "unknown");
  printf ("  model     %s%s\n", model_name (d->model),
          d->model == BDEV_DRIVE_MANAGED || d->model == BDEV_NOT_ZONED ?
          ": has no zones to show, and needs no Shingle" : "");
  printf ("  capacity  %s (%" PRIu64 " bytes), logical blocks of %" PRIu32 ", physical of %"
          PRIu32 " bytes\n", size_text (d->size_bytes, size), d->size_bytes,
          d->lbs_bytes, d->pbs_bytes);
  printf ("  features  write cache %s, FUA %s, write same %s, unmap %s%s\n",
          d->write_cache ? "on" : "off", d->fua ? "yes" : "no",
          d->max_zeroes_bytes ? "yes" : "no", d->unmap ? "yes" : "no",
          d->write_protected ? ", write protected" : "");
}

static void
print_zones (const struct facts *f)
{
  const struct zone_table *t = f->table;
  char size[SIZE_TEXT];
  unsigned cond;

  printf ("zones       %" PRIu32 " of %s%s\n", t->nr_zones, size_text (t->zone_bytes, size),
          t->runt ? ", the last one shorter" : "");
  printf ("  types     %" PRIu32 " conventional, %" PRIu32 " sequential write required, %"
          PRIu32 " sequential write preferred\n", f->by_type[ZONE_CONVENTIONAL],
          f->by_type[ZONE_SEQ_REQUIRED], f->by_type[ZONE_SEQ_PREFERRED]);
  printf ("  state    ");
  for (cond = 1; cond < ARRAY_SIZE (f->by_cond); ++cond)
    if (f->by_cond[cond])
      printf (" %" PRIu32 " %s,", f->by_cond[cond], zone_cond_name (cond));
  if (f->drive->max_open_zones)
    printf (" at most %" PRIu32 " open\n", f->drive->max_open_zones);
  else
    printf (" no limit of open zones\n");
}

static void
print_sets (const struct facts *f)
{
  int i;

  for (i = 0; i < 2; ++i) {
    const struct meta_set *s = &f->sets.set[i];

    printf ("  set %d     ", i);
    if (s->good)
      printf ("generation %" PRIu64 ", at block %" PRIu64 "%s\n", s->super.gen,
              s->super.sb_block, i == f->sets.primary ? ", counts" : "");
    else
      printf ("BAD: %s\n", s->why);
  }
}

static void
print_volume (const struct facts *f)
{
  const struct super *s = super_of (f);
  const struct layout *l = &f->sets.layout;
  const struct usage *u = &f->usage;
  char size[SIZE_TEXT], uuid[UUID_TEXT], label[SUPER_LABEL_BYTES + 1];

  printf ("volume      %s\n", s->version > 1 ?
          sh_printable (s->label, label, sizeof label) : "(version 1 has no label)");
  if (s->version > 1)
    printf ("  uuid      %s\n", uuid_text (s->uuid, uuid));
  printf ("  format    dm-zoned metadata version %" PRIu32 ", %" PRIu32 " blocks a set in %"
          PRIu32 " zone%s\n", s->version, l->nr_meta_blocks, l->nr_meta_zones,
          l->nr_meta_zones == 1 ? "" : "s");
  print_sets (f);
  printf ("  size      %s (%" PRIu64 " bytes): %" PRIu32 " chunks, %" PRIu32
          " zones in reserve\n", size_text (layout_volume_bytes (l), size),
          layout_volume_bytes (l), l->nr_chunks, l->nr_reserved);
  printf ("  in use    %" PRIu32 " chunks mapped (%.1f %%), %" PRIu32 " of them buffered\n",
          u->chunks_mapped, 100.0 * u->chunks_mapped / l->nr_chunks, u->chunks_buffered);
  printf ("  free      %" PRIu32 " of %" PRIu32 " random zones, %" PRIu32 " of %" PRIu32
          " sequential zones\n", u->random_free, u->random, u->seq_free, u->seq);
  if (u->bad_entries)
    printf ("  WRONG     %" PRIu32 " map entries; see 'shingle check'\n", u->bad_entries);
  if (f->used)
    printf ("  data      %s (%.1f %%)\n", size_text (f->valid_blocks * BLOCK_BYTES, size),
            100.0 * f->valid_blocks * BLOCK_BYTES / layout_volume_bytes (l));
}

static void
print_facts (const struct facts *f)
{
  print_drive (f->drive);
  if (f->table)
    print_zones (f);
  if (f->volume)
    print_volume (f);
  else if (f->problem[0])
    printf ("volume      none that can be used: %s\n", f->problem);
  else if (f->table)
    printf ("volume      none ('shingle format' makes one)\n");
}

/* --- JSON --- */

static void
add_number (struct json_object *o, const char *key, uint64_t n)
{
  json_object_object_add (o, key, json_object_new_uint64 (n));
}

/* Drives and disks hold any byte; JSON holds text. */
static void
add_text (struct json_object *o, const char *key, const char *text)
{
  char ascii[512];
  size_t i;

  sh_printable (text, ascii, sizeof ascii);
  for (i = 0; ascii[i]; ++i)
    if ((unsigned char) ascii[i] >= 0x80)
      ascii[i] = '?';
  json_object_object_add (o, key, json_object_new_string (ascii));
}

static void
add_flag (struct json_object *o, const char *key, bool flag)
{
  json_object_object_add (o, key, json_object_new_boolean (flag));
}

static struct json_object *
json_drive (const struct bdev_info *d)
{
  struct json_object *o = json_object_new_object ();

  add_text (o, "name", d->name);
  add_text (o, "vendor", d->vendor);
  add_text (o, "product", d->product);
  add_text (o, "revision", d->revision);
  add_text (o, "serial", d->serial);
  add_text (o, "model", model_name (d->model));
  add_number (o, "size_bytes", d->size_bytes);
  add_number (o, "logical_block_bytes", d->lbs_bytes);
  add_number (o, "physical_block_bytes", d->pbs_bytes);
  add_flag (o, "write_cache", d->write_cache);
  add_flag (o, "fua", d->fua);
  add_flag (o, "unmap", d->unmap);
  add_number (o, "max_zeroes_bytes", d->max_zeroes_bytes);
  add_flag (o, "write_protected", d->write_protected);
  add_flag (o, "rotational", d->rotational);
  return o;
}

static struct json_object *
json_zones (const struct facts *f)
{
  struct json_object *o = json_object_new_object (), *conds = json_object_new_object ();
  unsigned cond;

  add_number (o, "zone_bytes", f->table->zone_bytes);
  add_number (o, "count", f->table->nr_zones);
  add_flag (o, "runt", f->table->runt);
  add_number (o, "conventional", f->by_type[ZONE_CONVENTIONAL]);
  add_number (o, "sequential_required", f->by_type[ZONE_SEQ_REQUIRED]);
  add_number (o, "sequential_preferred", f->by_type[ZONE_SEQ_PREFERRED]);
  add_number (o, "max_open", f->drive->max_open_zones);
  for (cond = 0; cond < ARRAY_SIZE (f->by_cond); ++cond)
    if (f->by_cond[cond])
      add_number (conds, zone_cond_name (cond), f->by_cond[cond]);
  json_object_object_add (o, "conditions", conds);
  return o;
}

static struct json_object *
json_sets (const struct facts *f)
{
  struct json_object *list = json_object_new_array (), *o;
  int i;

  for (i = 0; i < 2; ++i) {
    o = json_object_new_object ();
    add_flag (o, "good", f->sets.set[i].good);
    add_flag (o, "counts", i == f->sets.primary);
    if (f->sets.set[i].good) {
      add_number (o, "generation", f->sets.set[i].super.gen);
      add_number (o, "block", f->sets.set[i].super.sb_block);
    }
    else
      add_text (o, "problem", f->sets.set[i].why);
    json_object_array_add (list, o);
  }
  return list;
}

static struct json_object *
json_volume (const struct facts *f)
{
  struct json_object *o = json_object_new_object ();
  const struct super *s = super_of (f);
  const struct layout *l = &f->sets.layout;
  char uuid[UUID_TEXT];

  add_number (o, "version", s->version);
  if (s->version > 1) {
    add_text (o, "label", s->label);
    add_text (o, "uuid", uuid_text (s->uuid, uuid));
    add_text (o, "device_uuid", uuid_text (s->dev_uuid, uuid));
  }
  add_number (o, "generation", s->gen);
  json_object_object_add (o, "sets", json_sets (f));
  add_number (o, "size_bytes", layout_volume_bytes (l));
  add_number (o, "chunks", l->nr_chunks);
  add_number (o, "reserved_zones", l->nr_reserved);
  add_number (o, "map_blocks", l->nr_map_blocks);
  add_number (o, "bitmap_blocks", l->nr_bitmap_blocks);
  add_number (o, "metadata_blocks", l->nr_meta_blocks);
  add_number (o, "metadata_zones", 2 * l->nr_meta_zones);
  add_number (o, "chunks_mapped", f->usage.chunks_mapped);
  add_number (o, "chunks_buffered", f->usage.chunks_buffered);
  add_number (o, "random_zones", f->usage.random);
  add_number (o, "random_zones_free", f->usage.random_free);
  add_number (o, "sequential_zones", f->usage.seq);
  add_number (o, "sequential_zones_free", f->usage.seq_free);
  add_number (o, "bad_map_entries", f->usage.bad_entries);
  if (f->used)
    add_number (o, "valid_bytes", f->valid_blocks * BLOCK_BYTES);
  return o;
}

static void
print_json (const struct facts *f)
{
  struct json_object *o = json_object_new_object ();

  json_object_object_add (o, "drive", json_drive (f->drive));
  json_object_object_add (o, "zones", f->table ? json_zones (f) : NULL);
  json_object_object_add (o, "volume", f->volume ? json_volume (f) : NULL);
  if (f->problem[0])
    add_text (o, "problem", f->problem);
  printf ("%s\n", json_object_to_json_string_ext (o, JSON_C_TO_STRING_PRETTY |
                                                  JSON_C_TO_STRING_SPACED |
                                                  JSON_C_TO_STRING_NOSLASHESCAPE));
  json_object_put (o);
}

int
command_info (int argc, char **argv)
{
  struct request r = { 0 };
  struct sh_error err = { 0 };
  struct facts f = { 0 };
  struct bdev *bdev;
  bool done;
  int status = parse (argc, argv, &r, &done);

  if (status != STATUS_OK || done)
    return status;
  if (open_device (r.device, OPEN_READ_ONLY, &bdev, &err) == -1)
    return report_error (&err);
  if (find_out (bdev, &r, &f, &err) == -1)
    status = report_error (&err);
  if (r.json)
    print_json (&f);
  else
    print_facts (&f);
  if (f.problem[0])
    status = STATUS_FAILED;
  usage_free (&f.usage);
  zone_table_free (f.table);
  bdev_close (bdev);
  return status;
}
