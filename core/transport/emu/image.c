/* SPDX-License-Identifier: BSD-3-Clause */
/* Import and export of a drive as a raw image and a zone table. */
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
#include "transport/emu/image.h"
#include "transport/transport.h"

#define SECTOR_SHIFT 9
#define GRAIN_BYTES  4096u      /* zeroes of this size are left out */

/* ---- import: the shape ---- */

static void
add_conventional (struct emu_settings *s, uint32_t first, uint32_t last)
{
  const size_t len = strlen (s->conv_list);

  snprintf (s->conv_list + len, sizeof s->conv_list - len, "%s%" PRIu32 "-%" PRIu32,
            len ? "+" : "", first, last);
}

/* Conventional zones as a count where they lead, else as a list. */
static int
shape_conventional (const struct image_table *t, struct emu_settings *s, struct sh_error *err)
{
  size_t i, j;

  s->nr_conv = 0;
  s->conv_list[0] = '\0';
  for (i = 0; i < t->nr && t->zones[i].type == ZONE_CONVENTIONAL; ++i)
    s->nr_conv++;
  for (; i < t->nr; i = j) {
    for (j = i; j < t->nr && t->zones[j].type == ZONE_CONVENTIONAL; ++j)
      ;
    if (j > i)
      add_conventional (s, (uint32_t) i, (uint32_t) j - 1);
    else
      j++;
  }
  if (s->conv_list[0] == '\0')
    return 0;
  if (s->nr_conv > 0) {         /* the list names them all */
    char rest[sizeof s->conv_list];

    strcpy (rest, s->conv_list);
    s->conv_list[0] = '\0';
    add_conventional (s, 0, s->nr_conv - 1);
    s->nr_conv = 0;
    strncat (s->conv_list, "+", sizeof s->conv_list - strlen (s->conv_list) - 1);
    strncat (s->conv_list, rest, sizeof s->conv_list - strlen (s->conv_list) - 1);
  }
  if (strlen (s->conv_list) < sizeof s->conv_list - 24)
    return 0;
  return sh_fail (err, EINVAL, "the table's conventional zones are too scattered");
}

/* All zones as long as the first but the last, which may be shorter. */
static int
shape_regular (const struct raw_reader *r, const char *zones, struct emu_settings *s,
               struct sh_error *err)
{
  if (s->model != EMU_REGULAR) {
    sh_fail (err, EINVAL, "%s: the table lists no zone", zones);
    return sh_hint (err, "a drive without zones needs --model=regular");
  }
  s->size_bytes = raw_size (r);
  if (s->size_bytes != 0)
    return 0;
  sh_fail (err, EINVAL, "the size of the image is not known before it is decompressed");
  return sh_hint (err, "decompress it first");
}

static int
shape_zones (const struct image_table *t, struct emu_settings *s, struct sh_error *err)
{
  const struct image_zone *last = &t->zones[t->nr - 1];
  const uint64_t len = t->zones[0].len;
  uint64_t cap = 0;
  size_t i;

  for (i = 0; i < t->nr; ++i) {
    const struct image_zone *z = &t->zones[i];
    const bool runt = z == last && z->len < len;

    if (z->len != len && !runt)
      return sh_fail (err, EINVAL, "zone %zu of the table is not as long as the others", i);
    if (z->type == ZONE_CONVENTIONAL || runt)
      continue;
    if (cap != 0 && z->cap != cap)
      return sh_fail (err, EINVAL, "zone %zu of the table has not the capacity of the others", i);
    cap = z->cap;
    s->model = z->type == ZONE_SEQ_PREFERRED ? EMU_HOST_AWARE : EMU_HOST_MANAGED;
  }
  s->zone_bytes = len << SECTOR_SHIFT;
  s->zone_cap_bytes = cap << SECTOR_SHIFT;
  s->size_bytes = (last->start + last->len) << SECTOR_SHIFT;
  return shape_conventional (t, s, err);
}

/* ---- import: zones ---- */

static int
import_zone (struct emu *emu, uint32_t zone, const struct image_zone *z, struct sh_error *err)
{
  const unsigned down = emu->lbs_shift - SECTOR_SHIFT;
  struct zone_rec rec = zone_load (emu, zone);
  const uint64_t wp = z->wp == UINT64_MAX ? 0 : z->wp - z->start;

  if (z->type != rec.type)
    return sh_fail (err, EINVAL, "zone %" PRIu32 " of the table: types are mixed", zone);
  if (wp & ((1u << down) - 1))
    return sh_fail (err, EINVAL, "zone %" PRIu32 " of the table: the write pointer is not at a "
                    "logical block", zone);
  rec.cond = z->cond;
  rec.wp = (uint32_t) (wp >> down);
  if (z->cond == ZONE_FULL)
    rec.wp = (uint32_t) zone_cap (emu, zone, &rec);
  if (!zone_word_ok (emu, zone, zone_pack (rec)))
    return sh_fail (err, EINVAL, "zone %" PRIu32 " of the table: the condition and the write "
                    "pointer contradict each other", zone);
  zone_store (emu, zone, rec);
  return 0;
}

static int
import_zones (struct emu *emu, const struct image_table *t, struct sh_error *err)
{
  uint32_t i;

  for (i = 0; i < emu->z.nr; ++i)
    if (import_zone (emu, i, &t->zones[i], err) == -1)
      return -1;
  return 0;
}

/* ---- data ---- */

static bool
all_zero (const uint8_t *p, size_t len)
{
  return p[0] == 0 && memcmp (p, p + 1, len - 1) == 0;
}

/* Calls fn for the runs of a piece that are not all zeroes. */
static int
each_nonzero (uint64_t off, const uint8_t *data, size_t len,
              int (*fn) (void *opaque, uint64_t off, const uint8_t *data, size_t len),
              void *opaque)
{
  size_t i = 0;

  while (i < len) {
    size_t j = i;

    while (j < len && !all_zero (data + j, MIN (GRAIN_BYTES, len - j)))
      j += MIN (GRAIN_BYTES, len - j);
    if (j > i && fn (opaque, off + i, data + i, j - i) == -1)
      return -1;
    i = j + MIN (GRAIN_BYTES, len - j);
  }
  return 0;
}

static int
put_run (void *opaque, uint64_t off, const uint8_t *data, size_t len)
{
  struct emu *emu = opaque;
  const struct iovec iov = { (void *) data, len };
  struct cursor c = { .iov = &iov, .iovcnt = 1 };

  return emu->store->ops->write (emu->store, off, len, &c);
}

static int
size_differs (const struct emu *emu, const char *raw, uint64_t has, struct sh_error *err)
{
  return sh_fail (err, EINVAL, "%s: the image has %s%" PRIu64 " bytes, the zone table %"
                  PRIu64, raw, has > emu->s.size_bytes ? "at least " : "", has,
                  emu->s.size_bytes);
}

static int
import_data (struct emu *emu, struct raw_reader *r, const char *raw, struct sh_error *err)
{
  for (;;) {
    const uint8_t *data;
    uint64_t off;
    size_t len;

    if (raw_next (r, &off, &data, &len, err) == -1)
      return -1;
    if (len == 0)
      break;
    if (off + len > emu->s.size_bytes)
      return size_differs (emu, raw, off + len, err);
    if (each_nonzero (off, data, len, put_run, emu) == -1)
      return sh_fail (err, errno, "writing the drive: %s", strerror (errno));
  }
  return raw_size (r) == emu->s.size_bytes ? 0
    : size_differs (emu, raw, raw_size (r), err);
}

/* ---- import ---- */

static int
fill_drive (const char *path, const struct image_table *t, struct raw_reader *r,
            const char *raw, struct sh_error *err)
{
  struct emu *emu;
  int ret;

  if (emu_open_file (path, EMU_OPEN_AS_IS, &emu, err) == -1)
    return -1;
  ret = import_data (emu, r, raw, err);
  if (ret == 0)
    ret = import_zones (emu, t, err);
  if (ret == -1)                /* half a drive is none */
    emu_each_file (emu, emu_remove_file, NULL);
  emu_close (emu);
  return ret;
}

int
emu_import (const char *path, const struct emu_settings *settings, const char *raw,
            const char *zones, bool replace, struct sh_error *err)
{
  struct emu_settings s = *settings;
  struct image_table t;
  struct raw_reader *r;
  int ret = -1;

  if (image_table_read (zones, &t, err) == -1)
    return -1;
  r = raw_open (raw, err);
  if (r && (t.nr ? shape_zones (&t, &s, err) : shape_regular (r, zones, &s, err)) == 0 &&
      emu_file_create (path, &s, replace, err) == 0)
    ret = fill_drive (path, &t, r, raw, err);
  if (r)
    raw_close (r);
  image_table_free (&t);
  return ret;
}

/* ---- export ---- */

struct out {
  int fd;
};

static int
write_run (void *opaque, uint64_t off, const uint8_t *data, size_t len)
{
  const struct out *o = opaque;

  while (len > 0) {
    const ssize_t n = pwrite (o->fd, data, len, (off_t) off);

    if (n == -1 && errno == EINTR)
      continue;
    if (n == -1)
      return -1;
    data += n;
    off += (uint64_t) n;
    len -= (size_t) n;
  }
  return 0;
}

/* Data of the store in [off, end), piece by piece. */
static int
export_range (struct emu *emu, uint64_t off, uint64_t end, uint8_t *buf, struct out *o)
{
  const size_t piece = 256 * KiB;

  while (off < end) {
    uint64_t start, len;

    if (emu->store->ops->next_data (emu->store, off, &start, &len) == -1)
      return -1;
    if (len == 0 || start >= end)
      return 0;
    len = MIN (len, end - start);
    for (off = start; off < start + len;) {
      const size_t n = (size_t) MIN (piece, start + len - off);
      const struct iovec iov = { buf, n };
      struct cursor c = { .iov = &iov, .iovcnt = 1 };

      if (emu->store->ops->read (emu->store, off, n, &c) == -1 ||
          each_nonzero (off, buf, n, write_run, o) == -1)
        return -1;
      off += n;
    }
  }
  return 0;
}

/* What lies behind a write pointer reads as zeroes, so it is not exported. */
static int
export_data (struct emu *emu, struct out *o)
{
  uint8_t *buf = malloc (256 * KiB);
  uint32_t i;
  int r = 0;

  if (buf == NULL)
    return -1;
  if (!emu_zoned (emu))
    r = export_range (emu, 0, emu->s.size_bytes, buf, o);
  for (i = 0; i < emu->z.nr && r == 0; ++i) {
    const struct zone_rec rec = zone_load (emu, i);
    const uint64_t start = blocks_to_bytes (emu, zone_start (emu, i));
    const uint64_t used = rec_sequential (&rec) ? rec.wp : zone_len (emu, i);

    r = export_range (emu, start, start + blocks_to_bytes (emu, used), buf, o);
  }
  free (buf);
  return r;
}

/* A drive, this one above all, is not overwritten by an image. */
static int
refuse_drive (const char *name, struct sh_error *err)
{
  if (!emu_file_probe (name))
    return 0;
  return sh_fail (err, EEXIST, "%s: is an emulated drive; it is not overwritten", name);
}

/* The image and its table, both regular files, must not be one. */
static int
refuse_same (const char *raw, const char *zones, struct sh_error *err)
{
  struct stat r, z;
  bool same = strcmp (raw, zones) == 0;

  if (stat (raw, &r) == 0 && stat (zones, &z) == 0)
    same = S_ISREG (r.st_mode) && r.st_dev == z.st_dev && r.st_ino == z.st_ino;
  if (!same)
    return 0;
  return sh_fail (err, EINVAL, "%s: the raw image and the zone table need a file each", raw);
}

/* Opens for writing without changing what is there; *made: it was not there. */
static int
open_out (const char *name, bool *made, struct sh_error *err)
{
  int fd = open (name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);

  *made = fd != -1;
  if (fd == -1 && errno == EEXIST)
    fd = open (name, O_WRONLY | O_CLOEXEC);
  return fd == -1 ? sh_fail (err, errno, "%s: %s", name, strerror (errno)) : fd;
}

/* ftruncate where there is anything to cut: a pipe or a device has no size. */
static int
set_size (int fd, uint64_t size)
{
  struct stat st;

  if (fstat (fd, &st) == -1)
    return -1;
  return S_ISREG (st.st_mode) ? ftruncate (fd, (off_t) size) : 0;
}

static int
write_raw (struct emu *emu, const char *name, int fd, struct sh_error *err)
{
  struct out o = { fd };

  if (set_size (fd, 0) == 0 && set_size (fd, emu->s.size_bytes) == 0 &&
      export_data (emu, &o) == 0)
    return 0;
  return sh_fail (err, errno, "%s: %s", name, strerror (errno));
}

/* Both files are open before either is changed; what was made for nothing goes. */
int
emu_export (struct emu *emu, const char *raw, const char *zones, struct sh_error *err)
{
  bool raw_made = false, zones_made = false;
  int raw_fd, zones_fd = -1, r = -1;

  if (refuse_drive (raw, err) == -1 || refuse_drive (zones, err) == -1 ||
      refuse_same (raw, zones, err) == -1)
    return -1;
  if (emu->s.virtual_gb)
    return sh_fail (err, ENOTSUP, "a drive with virtual_gb has no image: it is larger than "
                    "its data");
  raw_fd = open_out (raw, &raw_made, err);
  if (raw_fd != -1)
    zones_fd = open_out (zones, &zones_made, err);
  if (zones_fd != -1 && write_raw (emu, raw, raw_fd, err) == 0)
    r = image_table_write (emu, zones, err);
  if (zones_fd != -1)
    close (zones_fd);
  if (raw_fd != -1)
    close (raw_fd);
  if (r == -1 && raw_made)
    unlink (raw);
  if (r == -1 && zones_made)
    unlink (zones);
  return r;
}
