/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Faults: scsi_debug's opts and every_nth, and a list of programmed ones.
 *
 *   fault=OPERATION[:ITEM]...
 *
 * OPERATION is the name of one (read-16, report-zones, ...), or read, write,
 * flush, media, any.  Items: lba=FIRST[-LAST], skip=N, count=N (0: for ever);
 * the answer: sense=KK/AA/QQ, info=LBA, status=HH, host=HH, timeout, gone;
 * done=none|half|all|BLOCKS executes the command so far before the answer, or,
 * without one, ends it short; delay=MS; and afterwards ua=AA/QQ,
 * zone=read-only|offline, patch=OFFSET/HEX (bytes of the data returned).
 */
#include <config.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "transport/emu/internal.h"

/* ---- parsing ---- */

static int
parse_u64 (const char *text, int base, uint64_t max, uint64_t *value)
{
  char *end;

  if (!isxdigit ((unsigned char) *text))
    return -1;
  errno = 0;
  *value = strtoull (text, &end, base);
  return errno != 0 || *end != '\0' || *value > max ? -1 : 0;
}

/* "03/0c/00": nr hexadecimal bytes, most significant first. */
static int
parse_bytes (const char *text, unsigned nr, uint32_t *value)
{
  unsigned i;

  *value = 0;
  for (i = 0; i < nr; ++i) {
    char *end;
    unsigned long byte;

    if (!isxdigit ((unsigned char) *text))
      return -1;
    byte = strtoul (text, &end, 16);
    if (byte > 0xff || *end != (i + 1 < nr ? '/' : '\0'))
      return -1;
    *value = *value << 8 | (uint32_t) byte;
    text = end + 1;
  }
  return 0;
}

static int
item_lba (struct fault *f, char *value)
{
  char *dash = strchr (value, '-');

  if (dash)
    *dash = '\0';
  if (parse_u64 (value, 0, UINT64_MAX, &f->first_lba) == -1)
    return -1;
  if (dash == NULL) {
    f->last_lba = f->first_lba;
    return 0;
  }
  if (parse_u64 (dash + 1, 0, UINT64_MAX, &f->last_lba) == -1)
    return -1;
  return f->last_lba < f->first_lba ? -1 : 0;
}

static int
item_skip (struct fault *f, char *value)
{
  return parse_u64 (value, 0, UINT64_MAX, &f->skip);
}

static int
item_count (struct fault *f, char *value)
{
  if (parse_u64 (value, 0, UINT64_MAX, &f->count) == -1)
    return -1;
  if (f->count == 0)
    f->count = UINT64_MAX;
  return 0;
}

static int
item_sense (struct fault *f, char *value)
{
  f->answer = FAULT_SENSE;
  return parse_bytes (value, 3, &f->sense) == -1 || f->sense >> 16 > 15 ? -1 : 0;
}

static int
item_info (struct fault *f, char *value)
{
  f->has_information = true;
  return parse_u64 (value, 0, UINT64_MAX, &f->information);
}

static int
item_status (struct fault *f, char *value)
{
  uint64_t n;

  if (parse_u64 (value, 16, 0xff, &n) == -1)
    return -1;
  f->answer = FAULT_STATUS;
  f->status = (uint8_t) n;
  return 0;
}

static int
item_host (struct fault *f, char *value)
{
  uint64_t n;

  if (parse_u64 (value, 16, 0xff, &n) == -1)
    return -1;
  f->answer = FAULT_HOST;
  f->host_status = (uint8_t) n;
  return 0;
}

static int
item_timeout (struct fault *f, char *value)
{
  f->answer = FAULT_TIMEOUT;
  return 0;
}

static int
item_gone (struct fault *f, char *value)
{
  f->answer = FAULT_GONE;
  return 0;
}

static int
item_done (struct fault *f, char *value)
{
  f->executes = true;
  if (strcmp (value, "none") == 0)
    f->do_blocks = 0;
  else if (strcmp (value, "half") == 0)
    f->half = true;
  else if (strcmp (value, "all") != 0)
    return parse_u64 (value, 0, UINT64_MAX - 1, &f->do_blocks);
  return 0;
}

static int
item_delay (struct fault *f, char *value)
{
  return parse_u64 (value, 0, UINT32_MAX, &f->delay_ms);
}

static int
item_ua (struct fault *f, char *value)
{
  return parse_bytes (value, 2, &f->attention);
}

static int
item_zone (struct fault *f, char *value)
{
  if (strcmp (value, "read-only") == 0)
    f->zone_cond = ZONE_READ_ONLY;
  else if (strcmp (value, "offline") == 0)
    f->zone_cond = ZONE_OFFLINE;
  else
    return -1;
  return 0;
}

static int
item_patch (struct fault *f, char *value)
{
  char *hex = strchr (value, '/');
  uint64_t off;

  if (hex == NULL)
    return -1;
  *hex++ = '\0';
  if (parse_u64 (value, 0, UINT32_MAX, &off) == -1)
    return -1;
  f->patch_off = off;
  for (f->patch_len = 0; *hex; hex += 2) {
    const char two[3] = { hex[0], hex[1], '\0' };
    uint32_t byte;

    if (f->patch_len == FAULT_PATCH_MAX || !isxdigit ((unsigned char) two[1]) ||
        parse_bytes (two, 1, &byte) == -1)
      return -1;
    f->patch[f->patch_len++] = (uint8_t) byte;
  }
  return f->patch_len ? 0 : -1;
}

static const struct item {
  const char *name;
  bool has_value;
  int (*parse) (struct fault *f, char *value);
} items[] = {
  { "lba", true, item_lba },
  { "skip", true, item_skip },
  { "count", true, item_count },
  { "sense", true, item_sense },
  { "info", true, item_info },
  { "status", true, item_status },
  { "host", true, item_host },
  { "timeout", false, item_timeout },
  { "gone", false, item_gone },
  { "done", true, item_done },
  { "delay", true, item_delay },
  { "ua", true, item_ua },
  { "zone", true, item_zone },
  { "patch", true, item_patch },
};

static int
parse_item (struct fault *f, char *text)
{
  char *value = strchr (text, '=');
  size_t i;

  if (value)
    *value++ = '\0';
  for (i = 0; i < ARRAY_SIZE (items); ++i)
    if (strcmp (items[i].name, text) == 0 && items[i].has_value == (value != NULL))
      return items[i].parse (f, value);
  return -1;
}

static int
parse_operation (struct fault *f, const char *name)
{
  static const struct { const char *name; uint16_t flags; } groups[] = {
    { "any", 0 }, { "media", OP_MEDIA }, { "read", OP_READ }, { "write", OP_WRITE },
    { "flush", OP_FLUSH },
  };
  size_t i;

  for (i = 0; i < ARRAY_SIZE (groups); ++i) {
    if (strcmp (groups[i].name, name) == 0) {
      f->op_flags = groups[i].flags;
      return 0;
    }
  }
  f->op = emu_op_by_name (name, strlen (name));
  return f->op ? 0 : -1;
}

static int
parse_fault (const char *text, struct fault *f, struct sh_error *err)
{
  char copy[sizeof f->text], *rest = copy, *part;

  *f = (struct fault) {
    .count = UINT64_MAX, .last_lba = UINT64_MAX, .do_blocks = UINT64_MAX, .zone_cond = -1,
  };
  if (strlen (text) >= sizeof copy)
    return sh_fail (err, EINVAL, "fault=%s: longer than %zu characters", text,
                    sizeof copy - 1);
  strcpy (f->text, text);
  strcpy (copy, text);
  part = strsep (&rest, ":");
  if (parse_operation (f, part) == -1) {
    sh_fail (err, EINVAL, "fault=%s: no operation is named '%s'", text, part);
    return sh_hint (err, "use any, media, read, write, flush, or a counter's name as "
                    "'shingle emu show' lists them");
  }
  while ((part = strsep (&rest, ":")) != NULL) {
    char shown[sizeof copy];

    strcpy (shown, part);
    if (parse_item (f, part) == -1) {
      sh_fail (err, EINVAL, "fault=%s: '%s' is not understood", text, shown);
      return sh_hint (err, "items are lba=A-B skip=N count=N sense=K/A/Q info=LBA status=HH "
                      "host=HH timeout gone done=none|half|all|N delay=MS ua=A/Q "
                      "zone=read-only|offline patch=OFFSET/HEX");
    }
  }
  if (f->answer == FAULT_NO_CHANGE)
    f->executes = true;
  return 0;
}

/* ---- the list ---- */

void
faults_init (struct emu *emu)
{
  pthread_mutex_init (&emu->faults.lock, NULL);
  faults_set_every_nth (emu);
}

void
faults_fini (struct emu *emu)
{
  faults_clear (emu);
  pthread_mutex_destroy (&emu->faults.lock);
}

int
faults_add (struct emu *emu, const char *text, struct sh_error *err)
{
  struct fault *f = malloc (sizeof *f), **at;

  if (f == NULL)
    return sh_fail (err, ENOMEM, "fault=%s: out of memory", text);
  if (parse_fault (text, f, err) == -1) {
    free (f);
    return -1;
  }
  pthread_mutex_lock (&emu->faults.lock);
  for (at = &emu->faults.list; *at; at = &(*at)->next)
    ;
  *at = f;
  pthread_mutex_unlock (&emu->faults.lock);
  atomic_fetch_add (&emu->faults.nr, 1);
  emu_update_special (emu);
  return 0;
}

void
faults_clear (struct emu *emu)
{
  struct fault *f, *next;

  pthread_mutex_lock (&emu->faults.lock);
  f = emu->faults.list;
  emu->faults.list = NULL;
  atomic_store (&emu->faults.nr, 0);
  pthread_mutex_unlock (&emu->faults.lock);
  for (; f; f = next) {
    next = f->next;
    free (f);
  }
  emu_update_special (emu);
}

void
emu_each_fault (struct emu *emu, void (*fn) (void *opaque, const char *text), void *opaque)
{
  const struct fault *f;

  pthread_mutex_lock (&emu->faults.lock);
  for (f = emu->faults.list; f; f = f->next)
    fn (opaque, f->text);
  pthread_mutex_unlock (&emu->faults.lock);
}

static bool
concerns (const struct fault *f, const struct task *t)
{
  if (f->op ? f->op != t->op
      : f->op_flags != 0 && (t->op == NULL || !(t->op->flags & f->op_flags)))
    return false;
  if (f->first_lba == 0 && f->last_lba == UINT64_MAX)
    return true;
  return t->lba <= f->last_lba && t->lba + MAX (t->blocks, 1u) - 1 >= f->first_lba;
}

bool
faults_find (struct task *t, struct fault *hit)
{
  struct emu *emu = t->emu;
  struct fault *f;

  if (atomic_load_explicit (&emu->faults.nr, memory_order_relaxed) == 0)
    return false;
  pthread_mutex_lock (&emu->faults.lock);
  for (f = emu->faults.list; f; f = f->next) {
    if (f->count == 0 || !concerns (f, t))
      continue;
    if (f->skip > 0) {
      f->skip--;
      continue;
    }
    if (f->count != UINT64_MAX)
      f->count--;
    *hit = *f;
    break;
  }
  pthread_mutex_unlock (&emu->faults.lock);
  if (f)
    count (emu, CNT_FAULTS, 1);
  return f != NULL;
}

/* ---- every_nth ---- */

void
faults_set_every_nth (struct emu *emu)
{
  atomic_store (&emu->faults.every_nth, emu->s.every_nth);
  atomic_store (&emu->faults.nth_count, 0);
  atomic_store (&emu->faults.nth_pending, false);
}

bool
faults_active (const struct emu *emu)
{
  return atomic_load (&emu->faults.nr) != 0 || emu->s.every_nth != 0 ||
    emu->s.opts & OPT_MEDIUM_ERROR;
}

void
faults_tick (struct emu *emu)
{
  struct faults *f = &emu->faults;
  const int32_t nth = atomic_load_explicit (&f->every_nth, memory_order_relaxed);
  uint64_t n;

  if (nth == 0)
    return;
  n = atomic_fetch_add (&f->nth_count, 1) + 1;
  if (n % (nth < 0 ? -(int64_t) nth : nth) != 0)
    return;
  if (nth < -1)
    atomic_store (&f->every_nth, -1);
  atomic_store (&f->nth_pending, true);
}

uint32_t
faults_inject (struct emu *emu, uint32_t bits)
{
  bits &= emu->s.opts;
  if (bits == 0 || !atomic_exchange (&emu->faults.nth_pending, false))
    return 0;
  count (emu, CNT_FAULTS, 1);
  return bits;
}
