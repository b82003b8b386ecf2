/* SPDX-License-Identifier: BSD-3-Clause */
/* shingle zones: a line for each zone, or for each run of zones alike.  Straight
 * from the drive's report, so that it also shows drives that no volume fits. */
#include <config.h>
#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include "args.h"
#include "base/bdev.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/parse.h"
#include "commands.h"
#include "open.h"
#include "transport/transport.h"
#include "zone-map.h"
#include "zoned/sets.h"
#include "zoned/usage.h"
#include "zoned/zones.h"

#define PART_ZONES 1024

enum { OPT_ALL = 256, OPT_JSON, OPT_FROM, OPT_COUNT, OPT_TYPE, OPT_COND, OPT_USE, OPT_MAP,
       OPT_SVG };

static const struct arg_option options[] = {
  { OPT_ALL, 0, "all", NULL, "a line for every zone, no runs" },
  { OPT_COND, 0, "condition", "WORD", "only zones that are empty, open, closed, full, ..." },
  { OPT_COUNT, 0, "count", "N", "at most N zones" },
  { OPT_FROM, 0, "from", "ZONE", "from this zone on" },
  { OPT_JSON, 0, "json", NULL, "as a JSON array, every zone" },
  { OPT_MAP, 0, "map", NULL, "draw the zones, a letter each" },
  { OPT_SVG, 0, "svg", "FILE", "draw them as a picture" },
  { OPT_TYPE, 0, "type", "WORD", "only conventional or sequential zones" },
  { OPT_USE, 0, "use", "WORD", "only metadata, data, buffer or free zones" },
  { 0, 0, NULL, NULL, NULL }
};

static const char *const type_words[] = { "conventional", "sequential", NULL };
static const char *const cond_words[] = {
  "conventional", "empty", "open", "closed", "full", "read-only", "offline", NULL
};
static const char *const use_words[] = { "free", "metadata", "data", "buffer", NULL };

struct request {
  const char *device;
  bool all, json, map;
  const char *svg;              /* file; NULL: none */
  uint64_t from, count;
  int type, cond, use;          /* indexes of the words; -1: any */
};

/* A zone, and what the volume does with it. */
struct line {
  uint64_t id;
  struct bdev_zone z;
  enum zone_use use;
  bool known;                   /* use says something */
  uint32_t chunk;               /* ZONE_NONE: none */
};

struct listing {
  const struct request *r;
  struct bdev *bdev;
  struct zone_table *table;     /* NULL: no volume fits this drive */
  struct usage usage;
  bool volume;
  uint64_t printed;
  struct line first, last;      /* the run that is not printed yet */
  uint64_t run;                 /* its length */
  struct json_object *array;
  struct zone_map map;
};

static void
help (void)
{
  printf ("Usage: shingle zones DEVICE [OPTIONS]\n\n"
          "Lists the zones of a drive and what the volume on it uses them for.\n\n");
  args_print_options (options);
}

/* One argument; 0, 1 when there is no such one, or -1 with err. */
static int
take (void *opaque, const struct args *a, int id, struct sh_error *err)
{
  struct request *r = opaque;
  unsigned word = 0;
  int e = 0;

  switch (id) {
  case OPT_ALL:
    r->all = true;
    return 0;
  case OPT_JSON:
    r->json = true;
    return 0;
  case OPT_MAP:
    r->map = true;
    return 0;
  case OPT_SVG:
    r->svg = a->value;
    return 0;
  case OPT_FROM:
    return sh_parse_uint ("--from", a->value, 0, UINT32_MAX, &r->from, err);
  case OPT_COUNT:
    return sh_parse_uint ("--count", a->value, 1, UINT32_MAX, &r->count, err);
  case OPT_TYPE:
    e = sh_parse_word ("--type", a->value, type_words, &word, err);
    r->type = word;
    return e;
  case OPT_COND:
    e = sh_parse_word ("--condition", a->value, cond_words, &word, err);
    r->cond = word;
    return e;
  case OPT_USE:
    e = sh_parse_word ("--use", a->value, use_words, &word, err);
    r->use = word;
    return e;
  case ARGS_WORD:
    if (r->device == NULL) {
      r->device = a->value;
      return 0;
    }
    return 1;
  default:
    return 1;
  }
}

static int
parse (int argc, char **argv, struct request *r, bool *done)
{
  struct args a;
  int status;

  args_init (&a, "shingle zones", options, argc, argv);
  status = take_arguments (&a, help, take, r, done);
  return status != STATUS_OK || *done || r->device ? status : refuse_no_device (&a);
}

/* --- what is listed --- */

static bool
cond_is (uint8_t cond, int word)
{
  switch (word) {
  case 0: return cond == ZONE_NOT_WP;
  case 1: return cond == ZONE_EMPTY;
  case 2: return cond == ZONE_IMPLICIT_OPEN || cond == ZONE_EXPLICIT_OPEN;
  case 3: return cond == ZONE_CLOSED;
  case 4: return cond == ZONE_FULL;
  case 5: return cond == ZONE_READ_ONLY;
  default: return cond == ZONE_OFFLINE;
  }
}

static bool
is_wanted (const struct request *r, const struct line *l)
{
  if (r->type != -1 && (l->z.type == ZONE_CONVENTIONAL) != (r->type == 0))
    return false;
  if (r->cond != -1 && !cond_is (l->z.cond, r->cond))
    return false;
  return r->use == -1 || (l->known && (int) l->use == r->use);
}

static bool
has_wp (const struct bdev_zone *z)
{
  return z->cond >= ZONE_IMPLICIT_OPEN && z->cond <= ZONE_CLOSED;
}

/* Zones that follow each other and differ in nothing worth a line. */
static bool
is_alike (const struct line *a, const struct line *b)
{
  return b->id == a->id + 1 && a->z.type == b->z.type && a->z.cond == b->z.cond &&
         a->z.len_bytes == b->z.len_bytes && a->z.cap_bytes == b->z.cap_bytes &&
         a->known == b->known && a->use == b->use &&
         a->chunk == ZONE_NONE && b->chunk == ZONE_NONE && !has_wp (&a->z);
}

/* --- for people --- */

static void
use_text (const struct line *l, char *text, size_t size)
{
  static const char *const names[] = {
    [USE_FREE] = "free", [USE_METADATA] = "metadata", [USE_DATA] = "data of chunk",
    [USE_BUFFER] = "buffer of chunk", [USE_NONE] = "not used",
  };

  if (!l->known)
    snprintf (text, size, "-");
  else if (l->chunk == ZONE_NONE)
    snprintf (text, size, "%s", names[l->use]);
  else
    snprintf (text, size, "%s %" PRIu32, names[l->use], l->chunk);
}

static void
print_heading (void)
{
  printf ("%-15s %14s %10s %10s  %-27s %-17s %s\n", "ZONE", "LBA", "LENGTH", "WRITTEN",
          "TYPE", "CONDITION", "USE");
}

static void
print_run (struct listing *s)
{
  const struct line *l = &s->first;
  char range[48], length[SIZE_TEXT], written[SIZE_TEXT] = "-", use[40];

  if (s->run == 0)
    return;
  if (s->printed++ == 0)
    print_heading ();
  if (s->run == 1)
    snprintf (range, sizeof range, "%" PRIu64, l->id);
  else
    snprintf (range, sizeof range, "%" PRIu64 "-%" PRIu64, l->id, s->last.id);
  if (has_wp (&l->z) && l->z.wp_bytes >= l->z.start_bytes)
    size_text (l->z.wp_bytes - l->z.start_bytes, written);
  else if (l->z.cond == ZONE_FULL)
    size_text (l->z.cap_bytes ? l->z.cap_bytes : l->z.len_bytes, written);
  use_text (l, use, sizeof use);
  printf ("%-15s %14" PRIu64 " %10s %10s  %-27s %-17s %s\n", range,
          l->z.start_bytes / s->bdev->info.lbs_bytes, size_text (l->z.len_bytes, length),
          written, zone_type_name (l->z.type), zone_cond_name (l->z.cond), use);
  s->run = 0;
}

/* --- JSON --- */

static void
add_json (struct listing *s, const struct line *l)
{
  static const char *const names[] = {
    [USE_FREE] = "free", [USE_METADATA] = "metadata", [USE_DATA] = "data",
    [USE_BUFFER] = "buffer", [USE_NONE] = "none",
  };
  struct json_object *o = json_object_new_object ();

  json_object_object_add (o, "zone", json_object_new_uint64 (l->id));
  json_object_object_add (o, "start_bytes", json_object_new_uint64 (l->z.start_bytes));
  json_object_object_add (o, "length_bytes", json_object_new_uint64 (l->z.len_bytes));
  json_object_object_add (o, "capacity_bytes", json_object_new_uint64 (l->z.cap_bytes));
  json_object_object_add (o, "type", json_object_new_string (zone_type_name (l->z.type)));
  json_object_object_add (o, "condition",
                          json_object_new_string (zone_cond_name (l->z.cond)));
  if (has_wp (&l->z))
    json_object_object_add (o, "write_pointer_bytes",
                            json_object_new_uint64 (l->z.wp_bytes));
  if (l->known)
    json_object_object_add (o, "use", json_object_new_string (names[l->use]));
  if (l->chunk != ZONE_NONE)
    json_object_object_add (o, "chunk", json_object_new_uint64 (l->chunk));
  json_object_array_add (s->array, o);
}

/* --- the list --- */

static bool
is_drawing (const struct request *r)
{
  return r->map || r->svg;
}

static void
add_line (struct listing *s, const struct line *l)
{
  if (is_drawing (s->r)) {
    if (zone_map_add (&s->map, &l->z, l->known, l->use) == -1)
      abort ();                 /* two bytes a zone */
    return;
  }
  if (s->r->json) {
    add_json (s, l);
    return;
  }
  if (s->run > 0 && !s->r->all && is_alike (&s->last, l)) {
    s->last = *l;
    s->run++;
    return;
  }
  print_run (s);
  s->first = s->last = *l;
  s->run = 1;
}

static struct line
make_line (const struct listing *s, uint64_t id, const struct bdev_zone *z)
{
  struct line l = { .id = id, .z = *z, .chunk = ZONE_NONE };

  if (s->volume && id < s->table->nr_zones) {
    l.known = true;
    l.use = s->usage.use[id];
    l.chunk = s->usage.chunk[id];
  }
  return l;
}

static int
list_zones (struct listing *s, struct bdev_zone *part, struct sh_error *err)
{
  const struct request *r = s->r;
  uint64_t id = r->from, left = r->count, next = 0;
  size_t nr, i;

  if (r->from > 0 && (MUL_OVERFLOW (r->from, s->bdev->info.zone_bytes, &next) ||
                      next >= s->bdev->info.size_bytes))
    return sh_fail (err, EINVAL, "--from=%" PRIu64 ": the drive has only %" PRIu64 " zones",
                    r->from, DIV_ROUND_UP (s->bdev->info.size_bytes,
                                           s->bdev->info.zone_bytes));
  while (left > 0 && next < s->bdev->info.size_bytes) {
    if (bdev_report_zones (s->bdev, next, part, PART_ZONES, &nr) == -1)
      return sh_fail (err, errno, "%s: the zone report from byte %" PRIu64 " on failed: %s",
                      s->bdev->info.name, next, strerror (errno));
    if (nr == 0)
      break;
    for (i = 0; i < nr && left > 0; ++i) {
      const struct line l = make_line (s, id++, &part[i]);

      if (is_wanted (r, &l)) {
        add_line (s, &l);
        left--;
      }
    }
    if (part[nr - 1].start_bytes < next || part[nr - 1].len_bytes == 0)
      return sh_fail (err, EPROTO, "%s: the zone report goes backwards at zone %" PRIu64,
                      s->bdev->info.name, id - 1);
    next = part[nr - 1].start_bytes + part[nr - 1].len_bytes;
  }
  print_run (s);
  return 0;
}

static void
print_map (const struct listing *s)
{
  const char *text = getenv ("COLUMNS");
  const bool terminal = isatty (STDOUT_FILENO);
  unsigned columns = text ? (unsigned) strtoul (text, NULL, 10) : 80;
  struct winsize size;

  if (terminal && ioctl (STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    columns = size.ws_col;
  zone_map_print (&s->map, stdout, columns, 64, terminal && !getenv ("NO_COLOR"));
}

static int
write_svg (const struct listing *s, struct sh_error *err)
{
  const struct bdev_info *i = &s->bdev->info;
  char title[256], size[SIZE_TEXT];
  FILE *out;

  if (emu_file_probe (s->r->svg)) {
    sh_fail (err, EEXIST, "%s: is an emulated drive; it is not overwritten", s->r->svg);
    return sh_hint (err, "--svg=FILE names the picture");
  }
  out = fopen (s->r->svg, "we");
  if (out == NULL)
    return sh_fail_file (err, s->r->svg);
  snprintf (title, sizeof title, "%s: %s %s, %zu zones of %s", i->name, i->vendor,
            i->product, s->map.nr, size_text (i->zone_bytes, size));
  zone_map_svg (&s->map, out, title);
  if (fclose (out) != 0)
    return sh_fail (err, errno, "%s: %s", s->r->svg, strerror (errno));
  return 0;
}

static int
draw (const struct listing *s, struct sh_error *err)
{
  if (s->r->map)
    print_map (s);
  return s->r->svg ? write_svg (s, err) : 0;
}

/* Roles are a bonus: a drive without a (sound) volume is listed without. */
static void
find_volume (struct listing *s)
{
  struct sh_error ignored = { 0 };
  struct meta_sets sets;

  s->volume = zone_table_read (s->bdev, &s->table, &ignored) == 0 &&
              meta_sets_read (s->bdev, s->table, &sets, &ignored) == 0 &&
              usage_read (s->bdev, s->table, &sets, &s->usage, &ignored) == 0;
}

static int
run (struct listing *s, struct sh_error *err)
{
  struct bdev_zone *part;
  int status;

  if (s->bdev->info.zone_bytes == 0) {
    struct zone_table *none;

    zone_table_read (s->bdev, &none, err);      /* says what the drive is */
    return -1;
  }
  part = calloc (PART_ZONES, sizeof *part);
  if (part == NULL)
    return sh_fail (err, ENOMEM, "no memory for a zone report");
  find_volume (s);
  if (s->r->json)
    s->array = json_object_new_array ();
  status = list_zones (s, part, err);
  if (s->array && status == 0)
    printf ("%s\n", json_object_to_json_string_ext (s->array, JSON_C_TO_STRING_PRETTY |
                                                    JSON_C_TO_STRING_SPACED));
  if (status == 0 && is_drawing (s->r))
    status = draw (s, err);
  json_object_put (s->array);
  zone_map_free (&s->map);
  usage_free (&s->usage);
  zone_table_free (s->table);
  free (part);
  return status;
}

int
command_zones (int argc, char **argv)
{
  struct request r = { .count = UINT64_MAX, .type = -1, .cond = -1, .use = -1 };
  struct listing s = { .r = &r };
  struct sh_error err = { 0 };
  bool done;
  int status = parse (argc, argv, &r, &done);

  if (status != STATUS_OK || done)
    return status;
  if (open_device (r.device, OPEN_READ_ONLY, &s.bdev, &err) == -1)
    return report_error (&err);
  if (run (&s, &err) == -1)
    status = report_error (&err);
  bdev_close (s.bdev);
  return status;
}
