/* SPDX-License-Identifier: BSD-3-Clause */
#include <config.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/error.h"
#include "transport/emu/file.h"
#include "transport/emu/image.h"

#define SECTOR_SHIFT 9

struct name { const char *name; uint8_t value; };

static const struct name types[] = {
  { "CONV", ZONE_CONVENTIONAL }, { "SWR", ZONE_SEQ_REQUIRED },
  { "SWP", ZONE_SEQ_PREFERRED }, { "GAP", ZONE_GAP }, { NULL, 0 },
};
static const struct name conds[] = {
  { "NOT_WP", ZONE_NOT_WP }, { "EMPTY", ZONE_EMPTY }, { "IMP_OPEN", ZONE_IMPLICIT_OPEN },
  { "EXP_OPEN", ZONE_EXPLICIT_OPEN }, { "CLOSED", ZONE_CLOSED },
  { "READONLY", ZONE_READ_ONLY }, { "FULL", ZONE_FULL }, { "OFFLINE", ZONE_OFFLINE },
  { NULL, 0 },
};

static int
find_name (const struct name *list, const char *name, uint8_t *value)
{
  for (; list->name; ++list) {
    if (strcmp (list->name, name) == 0) {
      *value = list->value;
      return 0;
    }
  }
  return -1;
}

static const char *
name_of (const struct name *list, uint8_t value)
{
  for (; list->name; ++list)
    if (list->value == value)
      return list->name;
  return "?";
}

/* ---- reading ---- */

/* Where in the text we are, for messages. */
struct place {
  const char *path;
  unsigned line;
};

static int
fail_line (const struct place *p, struct sh_error *err, const char *what)
{
  return sh_fail (err, EINVAL, "%s: line %u: %s", p->path, p->line, what);
}

static int
add_gap (struct image_table *t, const struct image_zone *gap, const struct place *p,
         struct sh_error *err)
{
  struct image_zone *last = t->nr ? &t->zones[t->nr - 1] : NULL;

  if (last == NULL || last->type == ZONE_CONVENTIONAL || last->len != last->cap)
    return fail_line (p, err, "a gap follows a sequential zone");
  last->len += gap->len;
  return 0;
}

static int
add_zone (struct image_table *t, const struct image_zone *z, const struct place *p,
          struct sh_error *err)
{
  const struct image_zone *last = t->nr ? &t->zones[t->nr - 1] : NULL;

  if (z->len == 0 || z->len > UINT64_MAX >> 10 || z->start > UINT64_MAX >> 10)
    return fail_line (p, err, "the zone's length is not possible");
  if (z->start != (last ? last->start + last->len : 0))
    return fail_line (p, err, "the zone does not begin where the one before it ends");
  if (z->type == ZONE_GAP)
    return add_gap (t, z, p, err);
  if (t->nr == t->allocated) {
    const size_t n = t->allocated ? t->allocated * 2 : 64;
    struct image_zone *zones = realloc (t->zones, n * sizeof *zones);

    if (zones == NULL)
      return sh_fail (err, ENOMEM, "%s: out of memory", p->path);
    t->zones = zones;
    t->allocated = n;
  }
  t->zones[t->nr++] = *z;
  return 0;
}

static int
check_pointer (const struct image_zone *z, const struct place *p, struct sh_error *err)
{
  if (z->type == ZONE_CONVENTIONAL || z->type == ZONE_GAP)
    return z->wp == UINT64_MAX ? 0
      : fail_line (p, err, "a zone of this type has no write pointer");
  if (z->wp != UINT64_MAX && (z->wp < z->start || z->wp > z->start + z->len))
    return fail_line (p, err, "the write pointer is outside the zone");
  if (z->wp == UINT64_MAX && z->cond != ZONE_READ_ONLY && z->cond != ZONE_OFFLINE)
    return fail_line (p, err, "a sequential zone needs a write pointer");
  return 0;
}

static int
parse_line (struct image_table *t, const char *line, const struct place *p,
            struct sh_error *err)
{
  char type[16], cond[16], wp[32], more;
  struct image_zone z = { .wp = UINT64_MAX };
  int n;

  n = sscanf (line, "%" SCNu64 " %" SCNu64 " %15s %15s %31s %c", &z.start, &z.len, type,
              cond, wp, &more);
  if (n != 5)
    return fail_line (p, err, "not 'start length type condition write-pointer'");
  if (find_name (types, type, &z.type) == -1)
    return fail_line (p, err, "a type is CONV, SWR, SWP or GAP");
  if (find_name (conds, cond, &z.cond) == -1)
    return fail_line (p, err, "the condition is not known");
  if (strcmp (wp, "-") != 0 && sscanf (wp, "%" SCNu64 "%c", &z.wp, &more) != 1)
    return fail_line (p, err, "a write pointer is a number or '-'");
  z.cap = z.len;
  if (check_pointer (&z, p, err) == -1)
    return -1;
  return add_zone (t, &z, p, err);
}

/* The table for reading: a regular file, for a pipe may never end or begin. */
static FILE *
open_table (const char *path, struct sh_error *err)
{
  const int fd = file_open (path, O_RDONLY);
  struct stat st;
  FILE *f = NULL;

  if (fd == -1)
    sh_fail_file (err, path);
  else if (fstat (fd, &st) == -1 || !S_ISREG (st.st_mode)) {
    sh_fail (err, EINVAL, "%s: not a regular file", path);
    sh_hint (err, "the zone table is a text file, as 'shingle emu export' writes it");
  }
  else if ((f = fdopen (fd, "r")) == NULL)
    sh_fail_file (err, path);
  if (fd != -1 && f == NULL)
    close (fd);
  return f;
}

int
image_table_read (const char *path, struct image_table *t, struct sh_error *err)
{
  FILE *f = open_table (path, err);
  struct place p = { .path = path };
  char *line = NULL;
  size_t room = 0;
  int r = 0;

  *t = (struct image_table) { 0 };
  if (f == NULL)
    return -1;
  while (r == 0 && getline (&line, &room, f) != -1) {
    p.line++;
    if (line[0] != '#' && strspn (line, " \t\r\n") != strlen (line))
      r = parse_line (t, line, &p, err);
  }
  free (line);
  fclose (f);
  if (r == -1)
    image_table_free (t);
  return r;
}

void
image_table_free (struct image_table *t)
{
  free (t->zones);
  *t = (struct image_table) { 0 };
}

/* ---- settings in comments ---- */

#define SETTING_MARK "# setting "

static int
apply_setting (struct emu_settings *s, char *pair, const struct place *p, struct sh_error *err)
{
  char *value = strchr (pair, '=');

  pair[strcspn (pair, "\r\n")] = '\0';
  if (value == NULL)
    return fail_line (p, err, "a setting is KEY=VALUE");
  *value++ = '\0';
  return emu_settings_set (s, pair, value, err);
}

int
emu_table_settings (const char *path, struct emu_settings *s, struct sh_error *err)
{
  FILE *f = open_table (path, err);
  struct place p = { .path = path };
  char *line = NULL;
  size_t room = 0;
  int r = 0;

  if (f == NULL)
    return -1;
  while (r == 0 && getline (&line, &room, f) != -1) {
    p.line++;
    if (strncmp (line, SETTING_MARK, strlen (SETTING_MARK)) == 0)
      r = apply_setting (s, line + strlen (SETTING_MARK), &p, err);
  }
  free (line);
  fclose (f);
  return r;
}

/* ---- writing ---- */

/* All that differs from the default and that the table itself does not say. */
static void
write_settings (struct emu *emu, FILE *f)
{
  const struct emu_setting *d;
  struct emu_settings defaults;

  emu_settings_init (&defaults);
  for (d = emu_setting_table; d->name; ++d) {
    char now[EMU_SETTING_TEXT_MAX], usual[EMU_SETTING_TEXT_MAX];

    if (d->alias || strcmp (d->name, "size") == 0 || strcmp (d->name, "zone_size") == 0 ||
        strcmp (d->name, "zone_cap") == 0 || strcmp (d->name, "conventional") == 0)
      continue;
    emu_setting_text (&emu->s, d, now, sizeof now);
    emu_setting_text (&defaults, d, usual, sizeof usual);
    if (strcmp (now, usual) != 0)
      fprintf (f, SETTING_MARK "%s=%s\n", d->name, now);
  }
}

static void
write_zone (const struct emu *emu, uint32_t zone, FILE *f)
{
  const unsigned up = emu->lbs_shift - SECTOR_SHIFT;
  const struct zone_rec rec = zone_load (emu, zone);
  const uint64_t start = zone_start (emu, zone) << up;
  const uint64_t cap = zone_cap (emu, zone, &rec) << up;
  const uint64_t len = zone_len (emu, zone) << up;

  fprintf (f, "%" PRIu64 " %" PRIu64 " %s %s ", start, cap, name_of (types, rec.type),
           name_of (conds, rec.cond));
  if (rec_sequential (&rec))
    fprintf (f, "%" PRIu64 "\n", start + ((uint64_t) rec.wp << up));
  else
    fprintf (f, "-\n");
  if (cap < len)
    fprintf (f, "%" PRIu64 " %" PRIu64 " GAP NOT_WP -\n", start + cap, len - cap);
}

int
image_table_write (struct emu *emu, const char *path, struct sh_error *err)
{
  FILE *f = fopen (path, "we");
  uint32_t i;
  bool bad;

  if (f == NULL)
    return sh_fail (err, errno, "%s: %s", path, strerror (errno));
  fprintf (f, "# start_lba512 len_lba512 type condition write_pointer_lba512 "
           "(\"-\" = none: conventional)\n");
  write_settings (emu, f);
  for (i = 0; i < emu->z.nr; ++i)
    write_zone (emu, i, f);
  bad = ferror (f);
  if (fclose (f) != 0 || bad)
    return sh_fail (err, errno, "%s: %s", path, strerror (errno));
  return 0;
}
