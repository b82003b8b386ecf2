/* SPDX-License-Identifier: BSD-3-Clause */
/* The options by name: one table, one setter a kind. */
#include <config.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/parse.h"
#include "stack/stack.h"

enum kind { BOOL, PERCENT, SIZE, TIME };

static const struct option {
  const char *name;
  enum kind kind;
  size_t offset;                /* in struct stack_options */
  uint64_t min, max;            /* bytes, per cent or nanoseconds */
  uint64_t unit_ns;             /* TIME: what bare digits count */
} table[] = {
#define AT(member) offsetof (struct stack_options, member)
  { "cache_size", SIZE, AT (volume.cache_bytes), MiB, GiB },
  { "format", BOOL, AT (format) },
  { "probe_interval", TIME, AT (volume.probe_interval_ns), 0, 86400 * NS_PER_S, NS_PER_S },
  { "readonly", BOOL, AT (read_only) },
  { "reclaim_high", PERCENT, AT (volume.reclaim_high), 1, 100 },
  { "reclaim_low", PERCENT, AT (volume.reclaim_low), 1, 99 },
  { "reorder_window", TIME, AT (volume.reorder_window_ns), NS_PER_US, NS_PER_S, NS_PER_MS },
#undef AT
};

void
stack_options_init (struct stack_options *options)
{
  memset (options, 0, sizeof *options);
  options->exclusive = true;
  mq_options_init (&options->mq);
}

/* The same name with '-' for '_'. */
static bool
same_name (const char *name, const char *key)
{
  for (; *name && *key; ++name, ++key)
    if (*name != (*key == '-' ? '_' : *key))
      return false;
  return *name == *key;
}

static int
set (struct stack_options *options, const struct option *o, const char *value,
     struct sh_error *err)
{
  void *member = (char *) options + o->offset;
  uint64_t number;

  switch (o->kind) {
  case BOOL:
    return sh_parse_bool (o->name, value, member, err);
  case PERCENT:
    if (sh_parse_uint (o->name, value, o->min, o->max, &number, err) == -1)
      return -1;
    *(unsigned *) member = (unsigned) number;
    return 0;
  case SIZE:
    if (sh_parse_size (o->name, value, o->min, o->max, &number, err) == -1)
      return -1;
    *(size_t *) member = (size_t) number;
    return 0;
  case TIME:
    return sh_parse_time_ns (o->name, value, o->unit_ns, o->min, o->max, member,
                             err);
  }
  return 0;
}

int
stack_option (struct stack_options *options, const char *key, const char *value,
              struct sh_error *err)
{
  size_t i;

  for (i = 0; i < ARRAY_SIZE (table); ++i)
    if (same_name (table[i].name, key))
      return sh_parse_once (table[i].name, &options->given, i, err) == -1 ||
             set (options, &table[i], value, err) == -1 ? -1 : 1;
  return mq_option (&options->mq, key, value, err);
}

int
stack_options_check (const struct stack_options *options, struct sh_error *err)
{
  const struct sh_volume_options *v = &options->volume;

  if (options->format && options->read_only)
    return sh_fail (err, EINVAL, "format=true contradicts readonly=true");
  if (v->reclaim_low && v->reclaim_high && v->reclaim_high <= v->reclaim_low)
    return sh_fail (err, EINVAL,
                    "reclaim_high=%u is not above reclaim_low=%u",
                    v->reclaim_high, v->reclaim_low);
  return 0;
}

char *
stack_absolute_device (const char *device)
{
  static const char emu[] = "emu:";
  const bool is_emu = strncmp (device, emu, strlen (emu)) == 0;
  const char *path = is_emu ? device + strlen (emu) : device;
  struct stat st;
  char *folder, *absolute;

  if (path[0] == '/' || path[0] == '\0' || stat (path, &st) == -1)
    return strdup (device);
  folder = getcwd (NULL, 0);
  if (folder == NULL)
    return NULL;
  if (asprintf (&absolute, "%s%s/%s", is_emu ? emu : "", folder, path) == -1)
    absolute = NULL;
  free (folder);
  return absolute;
}
