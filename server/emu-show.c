/* SPDX-License-Identifier: BSD-3-Clause */
#include <config.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <json.h>
#include "base/size.h"
#include "emu-show.h"
#include "transport/emu/emu.h"

static const char *
type_name (uint8_t type)
{
  static const char *const names[] = {
    [ZONE_CONVENTIONAL] = "conventional",
    [ZONE_SEQ_REQUIRED] = "sequential-required",
    [ZONE_SEQ_PREFERRED] = "sequential-preferred",
    [ZONE_SEQ_OR_BEFORE] = "sequential-or-before",
    [ZONE_GAP] = "gap",
  };

  return type < sizeof names / sizeof names[0] && names[type] ? names[type] : "other";
}

static const char *
cond_name (uint8_t cond)
{
  static const char *const names[] = {
    [ZONE_NOT_WP] = "not-wp",
    [ZONE_EMPTY] = "empty",
    [ZONE_IMPLICIT_OPEN] = "implicit-open",
    [ZONE_EXPLICIT_OPEN] = "explicit-open",
    [ZONE_CLOSED] = "closed",
    [ZONE_READ_ONLY] = "read-only",
    [ZONE_FULL] = "full",
    [ZONE_OFFLINE] = "offline",
  };

  return cond < sizeof names / sizeof names[0] && names[cond] ? names[cond] : "other";
}

/* Zones by type and condition. */
struct tally {
  uint32_t n[16][16];
};

static void
tally_zones (struct emu *emu, struct tally *t)
{
  const uint32_t nr = emu_nr_zones (emu);
  uint32_t i;

  memset (t, 0, sizeof *t);
  for (i = 0; i < nr; ++i) {
    struct bdev_zone z;

    emu_get_zone (emu, i, &z);
    t->n[z.type & 15][z.cond & 15]++;
  }
}

/* ---- text ---- */

static void
print_file (void *opaque, const char *name)
{
  printf ("  %s\n", name);
}

static void
print_fault (void *opaque, const char *text)
{
  printf ("  fault=%s\n", text);
}

static void
print_counter (void *opaque, const char *name, uint64_t value)
{
  printf ("  %-34s %" PRIu64 "\n", name, value);
}

static const char *
model_name (const struct emu *emu)
{
  static const char *const names[] = {
    [EMU_REGULAR] = "regular", [EMU_HOST_AWARE] = "host-aware",
    [EMU_HOST_MANAGED] = "host-managed",
  };

  return names[emu_get_settings (emu)->model];
}

static void
print_shape (struct emu *emu)
{
  const struct emu_settings *s = emu_get_settings (emu);
  char size[SIZE_FORMAT_MAX], zone[SIZE_FORMAT_MAX];

  printf ("%s drive of %s, %" PRIu32 "-byte blocks", model_name (emu),
          size_format (emu_settings_capacity (s), size, sizeof size), s->lbs_bytes);
  if (emu_nr_zones (emu))
    printf (", %" PRIu32 " zones of %s", emu_nr_zones (emu),
            size_format (s->zone_bytes, zone, sizeof zone));
  printf ("\n");
}

void
show_created (struct emu *emu)
{
  print_shape (emu);
  printf ("in these files; removing them removes the drive:\n");
  emu_each_file (emu, print_file, NULL);
}

static void
print_zones (struct emu *emu)
{
  struct tally t;
  uint8_t type, cond;

  tally_zones (emu, &t);
  for (type = 0; type < 16; ++type)
    for (cond = 0; cond < 16; ++cond)
      if (t.n[type][cond])
        printf ("  %-20s %-14s %" PRIu32 "\n", type_name (type), cond_name (cond),
                t.n[type][cond]);
}

void
show_text (struct emu *emu)
{
  const struct emu_setting *d;
  char value[EMU_SETTING_TEXT_MAX];

  print_shape (emu);
  printf ("files\n");
  emu_each_file (emu, print_file, NULL);
  printf ("settings\n");
  for (d = emu_setting_table; d->name; ++d)
    if (!d->alias)
      printf ("  %s=%s\n", d->name,
              emu_setting_text (emu_get_settings (emu), d, value, sizeof value));
  emu_each_fault (emu, print_fault, NULL);
  if (emu_nr_zones (emu)) {
    printf ("zones\n");
    print_zones (emu);
  }
  printf ("counters\n");
  emu_counters (emu, false, print_counter, NULL);
}

/* ---- JSON ---- */

static void
add_name (void *opaque, const char *name)
{
  json_object_array_add (opaque, json_object_new_string (name));
}

static void
add_counter (void *opaque, const char *name, uint64_t value)
{
  json_object_object_add (opaque, name, json_object_new_uint64 (value));
}

static struct json_object *
json_settings (struct emu *emu)
{
  const struct emu_settings *s = emu_get_settings (emu);
  struct json_object *o = json_object_new_object ();
  const struct emu_setting *d;
  char text[EMU_SETTING_TEXT_MAX];

  for (d = emu_setting_table; d->name; ++d) {
    const void *field = (const char *) s + d->offset;
    struct json_object *v;

    if (d->alias)
      continue;
    if (d->kind == EMU_SET_BOOL)
      v = json_object_new_boolean (*(const bool *) field);
    else if (d->kind == EMU_SET_U32)
      v = json_object_new_uint64 (*(const uint32_t *) field);
    else if (d->kind == EMU_SET_I32 || d->kind == EMU_SET_SPECIAL)
      v = json_object_new_int64 (*(const int32_t *) field);
    else if (d->kind == EMU_SET_SIZE)
      v = json_object_new_uint64 (*(const uint64_t *) field);
    else
      v = json_object_new_string (emu_setting_text (s, d, text, sizeof text));
    json_object_object_add (o, d->name, v);
  }
  return o;
}

static struct json_object *
json_zones (struct emu *emu)
{
  struct json_object *a = json_object_new_array ();
  struct tally t;
  uint8_t type, cond;

  tally_zones (emu, &t);
  for (type = 0; type < 16; ++type)
    for (cond = 0; cond < 16; ++cond) {
      struct json_object *o;

      if (t.n[type][cond] == 0)
        continue;
      o = json_object_new_object ();
      json_object_object_add (o, "type", json_object_new_string (type_name (type)));
      json_object_object_add (o, "condition", json_object_new_string (cond_name (cond)));
      json_object_object_add (o, "count", json_object_new_uint64 (t.n[type][cond]));
      json_object_array_add (a, o);
    }
  return a;
}

void
show_json (struct emu *emu)
{
  struct json_object *o = json_object_new_object ();
  struct json_object *files = json_object_new_array ();
  struct json_object *faults = json_object_new_array ();
  struct json_object *counters = json_object_new_object ();

  emu_each_file (emu, add_name, files);
  emu_each_fault (emu, add_name, faults);
  emu_counters (emu, true, add_counter, counters);
  json_object_object_add (o, "files", files);
  json_object_object_add (o, "nr_zones", json_object_new_uint64 (emu_nr_zones (emu)));
  json_object_object_add (o, "settings", json_settings (emu));
  json_object_object_add (o, "faults", faults);
  json_object_object_add (o, "zones", json_zones (emu));
  json_object_object_add (o, "counters", counters);
  printf ("%s\n", json_object_to_json_string_ext (o, JSON_C_TO_STRING_PRETTY));
  json_object_put (o);
}
