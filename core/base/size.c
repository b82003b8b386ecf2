/* SPDX-License-Identifier: BSD-3-Clause */
#include <config.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/bytes.h"
#include "base/size.h"

static const char suffixes[] = "KMGTP";

/* The value of one unit, and where the text behind it begins. */
static int
parse_unit (const char *text, uint64_t *unit)
{
  const char *found;
  unsigned power, base = 1024;

  *unit = 1;
  if (*text == '\0' || strcmp (text, "B") == 0)
    return 0;
  found = strchr (suffixes, toupper ((unsigned char) *text));
  if (found == NULL)
    return -1;
  if (strcmp (text + 1, "B") == 0)
    base = 1000;
  else if (text[1] != '\0' && strcmp (text + 1, "iB") != 0)
    return -1;
  for (power = (unsigned) (found - suffixes) + 1; power > 0; --power)
    *unit *= base;
  return 0;
}

/* Adds the decimal places in [p, end) of a unit; they must give whole bytes. */
static int
add_fraction (const char *p, const char *end, uint64_t unit, uint64_t *bytes)
{
  unsigned __int128 sum = 0, scale = 1;

  if (end == p || end - p > 15)
    return -1;
  for (; p < end; ++p) {
    sum = sum * 10 + (unsigned) (*p - '0');
    scale *= 10;
  }
  sum *= unit;
  if (sum % scale != 0)
    return -1;
  *bytes += (uint64_t) (sum / scale);
  return 0;
}

int
size_parse (const char *text, uint64_t *bytes)
{
  const char *p, *frac = NULL, *frac_end = NULL;
  uint64_t whole = 0, unit;

  if (!isdigit ((unsigned char) *text))
    goto invalid;
  for (p = text; isdigit ((unsigned char) *p); ++p)
    if (MUL_OVERFLOW (whole, 10u, &whole) ||
        ADD_OVERFLOW (whole, (unsigned) (*p - '0'), &whole))
      goto range;
  if (*p == '.') {
    frac = ++p;
    while (isdigit ((unsigned char) *p))
      ++p;
    frac_end = p;
  }
  if (parse_unit (p, &unit) == -1)
    goto invalid;
  if (MUL_OVERFLOW (whole, unit, &whole) || whole > INT64_MAX)
    goto range;
  if (frac && add_fraction (frac, frac_end, unit, &whole) == -1)
    goto invalid;
  if (whole > INT64_MAX)
    goto range;
  *bytes = whole;
  return 0;
 invalid:
  errno = EINVAL;
  return -1;
 range:
  errno = ERANGE;
  return -1;
}

const char *
size_format (uint64_t bytes, char *buf, size_t buf_size)
{
  unsigned power = 0;

  while (bytes != 0 && bytes % 1024 == 0 && power < sizeof suffixes - 1) {
    bytes /= 1024;
    power++;
  }
  if (power == 0)
    snprintf (buf, buf_size, "%" PRIu64, bytes);
  else
    snprintf (buf, buf_size, "%" PRIu64 "%c", bytes, suffixes[power - 1]);
  return buf;
}
