/* SPDX-License-Identifier: BSD-3-Clause */
#include <config.h>
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/parse.h"

struct unit {
  const char *suffix;
  uint64_t factor;
};

static const struct unit size_units[] = {
  { "", 1 },       { "b", 1 },       { "s", 512 },
  { "k", KiB },    { "K", KiB },     { "M", MiB },
  { "G", GiB },    { "T", TiB },     { "P", TiB * 1024 },
  { "E", TiB * 1024 * 1024 },
};

static const struct unit time_units[] = {
  { "ns", 1 },             { "us", NS_PER_US },      { "ms", NS_PER_MS },
  { "s", NS_PER_S },       { "m", 60 * NS_PER_S },   { "h", 3600 * NS_PER_S },
};

/* Digits at the start of `text`; NULL where there are none or too many. */
static const char *
digits (const char *text, uint64_t *value)
{
  const char *p;

  *value = 0;
  for (p = text; *p >= '0' && *p <= '9'; ++p)
    if (MUL_OVERFLOW (*value, UINT64_C (10), value) ||
        ADD_OVERFLOW (*value, (uint64_t) (*p - '0'), value))
      return NULL;
  return p == text ? NULL : p;
}

static const struct unit *
find_unit (const struct unit *units, size_t nr, const char *suffix)
{
  size_t i;

  for (i = 0; i < nr; ++i)
    if (strcmp (units[i].suffix, suffix) == 0)
      return &units[i];
  return NULL;
}

int
sh_parse_uint (const char *what, const char *text, uint64_t min, uint64_t max,
               uint64_t *r, struct sh_error *err)
{
  uint64_t value;
  const char *end = digits (text, &value);

  if (end == NULL || *end != '\0' || value < min || value > max)
    return sh_fail (err, EINVAL, "%s=%s: not a number from %" PRIu64 " to %" PRIu64,
                    what, text, min, max);
  *r = value;
  return 0;
}

/* Bytes in the largest unit that shows them exactly. */
static const char *
size_text (uint64_t bytes, char *text, size_t size)
{
  static const char letters[] = "KMGTPE";
  unsigned i = 0;

  while (bytes >= KiB && bytes % KiB == 0) {
    bytes /= KiB;
    ++i;
  }
  if (i == 0)
    snprintf (text, size, "%" PRIu64, bytes);
  else
    snprintf (text, size, "%" PRIu64 "%c", bytes, letters[i - 1]);
  return text;
}

int
sh_parse_size (const char *what, const char *text, uint64_t min, uint64_t max,
               uint64_t *r, struct sh_error *err)
{
  uint64_t value;
  char from[32], to[32];
  const char *end = digits (text, &value);
  const struct unit *unit =
    end ? find_unit (size_units, ARRAY_SIZE (size_units), end) : NULL;

  if (unit == NULL || MUL_OVERFLOW (value, unit->factor, &value) ||
      value < min || value > max)
    return sh_fail (err, EINVAL,
                    "%s=%s: not a size from %s to %s (digits and one of k M G T P E)",
                    what, text, size_text (min, from, sizeof from),
                    size_text (max, to, sizeof to));
  *r = value;
  return 0;
}

/* A time in the largest unit that shows it exactly. */
static const char *
time_text (uint64_t ns, char *text, size_t size)
{
  size_t i = ARRAY_SIZE (time_units) - 1;

  if (ns == 0)
    i = 3;
  while (i > 0 && ns % time_units[i].factor != 0)
    --i;
  snprintf (text, size, "%" PRIu64 "%s", ns / time_units[i].factor,
            time_units[i].suffix);
  return text;
}

int
sh_parse_time_ns (const char *what, const char *text, uint64_t unit_ns,
                  uint64_t min_ns, uint64_t max_ns, uint64_t *r,
                  struct sh_error *err)
{
  const struct unit bare = { "", unit_ns };
  uint64_t value;
  char from[32], to[32];
  const char *end = digits (text, &value);
  const struct unit *unit =
    end == NULL ? NULL :
    *end == '\0' ? &bare :
    find_unit (time_units, ARRAY_SIZE (time_units), end);

  if (unit == NULL || MUL_OVERFLOW (value, unit->factor, &value) ||
      value < min_ns || value > max_ns)
    return sh_fail (err, EINVAL,
                    "%s=%s: not a time from %s to %s (digits and one of ns us ms s m h)",
                    what, text, time_text (min_ns, from, sizeof from),
                    time_text (max_ns, to, sizeof to));
  *r = value;
  return 0;
}

int
sh_parse_bool (const char *what, const char *text, bool *r, struct sh_error *err)
{
  static const char *const yes[] = { "1", "true", "t", "yes", "y", "on" };
  static const char *const no[] = { "0", "false", "f", "no", "n", "off" };
  size_t i;

  for (i = 0; i < ARRAY_SIZE (yes); ++i) {
    if (strcasecmp (text, yes[i]) == 0 || strcasecmp (text, no[i]) == 0) {
      *r = strcasecmp (text, yes[i]) == 0;
      return 0;
    }
  }
  return sh_fail (err, EINVAL, "%s=%s: neither true nor false", what, text);
}

int
sh_parse_word (const char *what, const char *text, const char *const *words,
               unsigned *r, struct sh_error *err)
{
  char list[256] = "";
  size_t used = 0;
  unsigned i;

  for (i = 0; words[i]; ++i) {
    int n;

    if (strcmp (text, words[i]) == 0) {
      *r = i;
      return 0;
    }
    n = snprintf (list + used, sizeof list - used, "%s%s", i ? ", " : "", words[i]);
    used = MIN (used + (size_t) n, sizeof list - 1);
  }
  return sh_fail (err, EINVAL, "%s=%s: not one of %s", what, text, list);
}

int
sh_parse_once (const char *what, uint64_t *given, unsigned index, struct sh_error *err)
{
  const uint64_t bit = UINT64_C (1) << index;

  if (*given & bit) {
    sh_fail (err, EINVAL, "%s is given more than once", what);
    return sh_hint (err, "leave in the one that counts");
  }
  *given |= bit;
  return 0;
}
