/* SPDX-License-Identifier: BSD-3-Clause */
/* KEY=VALUE on a drive that exists: settings and actions. */
#include <config.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "transport/emu/internal.h"

/* ---- actions ---- */

static int
parse_number (const char *text, const char *end_chars, uint64_t *n, const char **rest)
{
  char *end;

  if (*text < '0' || *text > '9')
    return -1;
  errno = 0;
  *n = strtoull (text, &end, 0);
  if (errno != 0 || (*end != '\0' && strchr (end_chars, *end) == NULL))
    return -1;
  *rest = *end ? end + 1 : end;
  return 0;
}

static int
action_fault (struct emu *emu, const char *value, struct sh_error *err)
{
  if (strcmp (value, "none") == 0) {
    faults_clear (emu);
    return 0;
  }
  return faults_add (emu, value, err);
}

static int
action_counters (struct emu *emu, const char *value, struct sh_error *err)
{
  if (strcmp (value, "0") != 0)
    return sh_fail (err, EINVAL, "counters=%s: counters can only be set to 0", value);
  emu_counters_reset (emu);
  return 0;
}

/* "ZONE:VALUE"; the zone is in range. */
static int
parse_zone (struct emu *emu, const char *key, const char *text, uint32_t *zone,
            const char **rest, struct sh_error *err)
{
  uint64_t n;

  if (parse_number (text, ":", &n, rest) == -1 || **rest == '\0')
    return sh_fail (err, EINVAL, "%s=%s: a zone's number, a colon and the new value", key, text);
  if (n >= emu->z.nr)
    return sh_fail (err, EINVAL, "%s=%s: the drive has %u zones", key, text, emu->z.nr);
  *zone = (uint32_t) n;
  return 0;
}

static int
action_zone (struct emu *emu, const char *value, struct sh_error *err)
{
  static const struct { const char *name; uint8_t cond; } conds[] = {
    { "read-only", ZONE_READ_ONLY }, { "offline", ZONE_OFFLINE }, { "good", ZONE_NOT_WP },
  };
  const char *rest;
  uint32_t zone;
  size_t i;

  if (parse_zone (emu, "zone", value, &zone, &rest, err) == -1)
    return -1;
  for (i = 0; i < ARRAY_SIZE (conds); ++i)
    if (strcmp (conds[i].name, rest) == 0)
      return emu_set_zone_cond (emu, zone, conds[i].cond, err);
  return sh_fail (err, EINVAL, "zone=%s: a zone can be made read-only, offline or good", value);
}

static int
action_zone_type (struct emu *emu, const char *value, struct sh_error *err)
{
  const char *rest, *end;
  uint32_t zone;
  uint64_t type;

  if (parse_zone (emu, "zone_type", value, &zone, &rest, err) == -1)
    return -1;
  if (parse_number (rest, "", &type, &end) == -1 || type > 15)
    return sh_fail (err, EINVAL, "zone_type=%s: a type is from 0 (the true one) to 15", value);
  return emu_set_zone_type (emu, zone, (uint8_t) type, err);
}

static int
action_write_pointer (struct emu *emu, const char *value, struct sh_error *err)
{
  const char *rest, *end;
  uint32_t zone;
  uint64_t lba;

  if (parse_zone (emu, "write_pointer", value, &zone, &rest, err) == -1)
    return -1;
  if (parse_number (rest, "", &lba, &end) == -1)
    return sh_fail (err, EINVAL, "write_pointer=%s: the pointer is an LBA", value);
  return emu_set_wp (emu, zone, lba, err);
}

/* SEED[:lose-all|keep-all|random][:by-block] */
static int
action_power_cut (struct emu *emu, const char *value, struct sh_error *err)
{
  enum emu_cut mode = EMU_CUT_RANDOM;
  bool by_block = false;
  const char *rest;
  char copy[64], *part, *p = copy;
  uint64_t seed;

  if (parse_number (value, ":", &seed, &rest) == -1 || strlen (rest) >= sizeof copy)
    return sh_fail (err, EINVAL, "power_cut=%s: a seed, a number, comes first", value);
  strcpy (copy, rest);
  while ((part = strsep (&p, ":")) != NULL && *part) {
    if (strcmp (part, "lose-all") == 0)
      mode = EMU_CUT_LOSE_ALL;
    else if (strcmp (part, "keep-all") == 0)
      mode = EMU_CUT_KEEP_ALL;
    else if (strcmp (part, "by-block") == 0)
      by_block = true;
    else if (strcmp (part, "random") != 0)
      return sh_fail (err, EINVAL, "power_cut=%s: '%s' is none of random, lose-all, keep-all, "
                      "by-block", value, part);
  }
  if (emu_power_cut (emu, seed, mode, by_block) == -1)
    return sh_fail (err, errno, "power_cut: %s", strerror (errno));
  return 0;
}

const struct emu_action emu_action_table[] = {
  { "fault", action_fault, "OPERATION[:ITEM]... adds a fault, none removes all" },
  { "counters", action_counters, "0 sets all counters to 0" },
  { "zone", action_zone, "ZONE:read-only, ZONE:offline or ZONE:good" },
  { "zone_type", action_zone_type, "ZONE:TYPE, what REPORT ZONES says; 0: the true one" },
  { "write_pointer", action_write_pointer, "ZONE:LBA moves a write pointer" },
  { "power_cut", action_power_cut,
    "SEED[:lose-all|keep-all][:by-block], loses what is in a tracked cache" },
  { NULL }
};

/* ---- emu_set ---- */

/* Changes *s alone. */
static int
change_setting (struct emu_settings *s, const char *key, const char *value,
                struct sh_error *err)
{
  const struct emu_setting *def = emu_setting_find (key, strlen (key));

  if (def && def->shape) {
    sh_fail (err, EINVAL, "%s: fixed when the drive was made", def->name);
    return sh_hint (err, "make another drive with 'shingle emu create'");
  }
  return emu_settings_set (s, key, value, err) == -1 ? -1 : emu_settings_complete (s, err);
}

static int
set_setting (struct emu *emu, const char *key, const char *value, struct sh_error *err)
{
  struct emu_settings s = emu->s;

  if (change_setting (&s, key, value, err) == -1)
    return -1;
  if (s.max_open != emu->s.max_open) {
    if (zones_set_max_open (emu, s.max_open) == -1)
      return sh_fail (err, ENOMEM, "%s: out of memory", key);
  }
  if (s.virtual_gb != emu->s.virtual_gb)
    emu_raise (emu, UA_CAPACITY);
  emu->s = s;
  faults_set_every_nth (emu);
  cache_follow_settings (emu);
  emu_update_special (emu);
  return emu_file_follow_cache (emu, err);
}

/* The last entry of the table, without a name, when there is none. */
static const struct emu_action *
find_action (const char *key)
{
  const struct emu_action *a;

  for (a = emu_action_table; a->name; ++a)
    if (strcmp (a->name, key) == 0)
      break;
  return a;
}

int
emu_set_try (struct emu_settings *s, const char *key, const char *value,
             struct sh_error *err)
{
  return find_action (key)->name ? 0 : change_setting (s, key, value, err);
}

int
emu_set (struct emu *emu, const char *key, const char *value, struct sh_error *err)
{
  const struct emu_action *const a = find_action (key);
  int r;

  r = a->name ? a->run (emu, value, err) : set_setting (emu, key, value, err);
  if (r == -1)
    return -1;
  return emu->file ? emu_file_save (emu, err) : 0;
}
