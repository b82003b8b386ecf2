/* SPDX-License-Identifier: BSD-3-Clause */
#include <config.h>
#include <string.h>
#include "base/bytes.h"
#include "scsi/sense.h"

/* Both formats: bytes 0 ... 7 and as many more as byte 7 says. */
static size_t
bytes_present (const uint8_t *buf, size_t len)
{
  return len < 8 ? len : MIN (len, (size_t) 8 + buf[7]);
}

static void
parse_fixed (const uint8_t *buf, size_t len, struct sense *s)
{
  if (len < 3)
    return;
  s->usable = true;
  s->key = buf[2] & 0x0f;
  if (len > 12)
    s->asc = buf[12];
  if (len > 13)
    s->ascq = buf[13];
  if (len >= 7 && (buf[0] & 0x80)) {
    s->has_information = true;
    s->information = get_be32 (buf + 3);
  }
}

static void
parse_descriptors (const uint8_t *buf, size_t len, struct sense *s)
{
  size_t at = 8;

  while (at + 2 <= len) {
    const size_t size = (size_t) 2 + buf[at + 1];

    if (size > len - at)
      return;
    if (buf[at] == 0x00 && size >= 12 && (buf[at + 2] & 0x80)) {
      s->has_information = true;
      s->information = get_be64 (buf + at + 4);
      return;
    }
    at += size;
  }
}

static void
parse_descriptor (const uint8_t *buf, size_t len, struct sense *s)
{
  if (len < 2)
    return;
  s->usable = true;
  s->key = buf[1] & 0x0f;
  if (len > 2)
    s->asc = buf[2];
  if (len > 3)
    s->ascq = buf[3];
  parse_descriptors (buf, len, s);
}

bool
sense_parse (const uint8_t *buf, size_t len, struct sense *s)
{
  memset (s, 0, sizeof *s);
  if (len == 0)
    return false;
  len = bytes_present (buf, len);
  switch (buf[0] & 0x7f) {
  case 0x70: case 0x71:
    parse_fixed (buf, len, s);
    break;
  case 0x72: case 0x73:
    parse_descriptor (buf, len, s);
    break;
  }
  s->deferred = s->usable && (buf[0] & 1);
  return s->usable;
}

const char *
sense_key_name (uint8_t key)
{
  static const char *const key_names[16] = {
    "no sense", "recovered error", "not ready", "medium error",
    "hardware error", "illegal request", "unit attention", "data protect",
    "blank check", "vendor specific", "copy aborted", "aborted command",
    "reserved", "volume overflow", "miscompare", "completed",
  };

  return key_names[key & 0x0f];
}
