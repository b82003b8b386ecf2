/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes the file of a drive (file.c has the layout). */
#include <config.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/error.h"
#include "transport/emu/file.h"

static int
write_table (int fd, const struct emu *emu)
{
  const size_t bytes = emu->z.nr * sizeof (zone_word);
  zone_word *words = malloc (bytes + 1);
  int r;

  if (words == NULL)
    return -1;
  zones_format (emu, words);
  r = file_pwrite (fd, words, bytes, (off_t) TABLE_OFF);
  free (words);
  return r;
}

static int
create_segment (const char *path, const struct head *head, unsigned segment,
                struct sh_error *err)
{
  char *name = file_segment_name (path, segment);
  struct head h = *head;
  int fd, r = -1;

  if (name == NULL)
    return sh_fail (err, ENOMEM, "%s: out of memory", path);
  h.segment = segment;
  fd = open (name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd != -1) {
    r = file_pwrite (fd, &h, sizeof h, 0);
    if (r == 0)
      r = ftruncate (fd, (off_t) file_segment_bytes (head, segment));
  }
  if (r == -1)
    sh_fail_file (err, name);
  if (fd != -1)
    close (fd);
  free (name);
  return r;
}

/* The head comes last: until then it is no drive. */
static int
fill_file (int fd, struct emu *emu, const struct head *head, struct sh_error *err)
{
  struct text t = { .buf = malloc (TEXT_MAX) };
  int r = -1;

  if (t.buf == NULL)
    return sh_fail (err, ENOMEM, "out of memory");
  if (file_settings_text (emu, &t, err) == 0) {
    if (ftruncate (fd, (off_t) file_segment_bytes (head, 0)) == 0 &&
        write_table (fd, emu) == 0 && file_write_slot (fd, 0, head, &t) == 0)
      r = 0;
    else
      sh_fail (err, errno, "%s", strerror (errno));
  }
  free (t.buf);
  return r;
}

static void
make_head (const struct emu *emu, struct head *h)
{
  *h = (struct head) {
    .magic = MAGIC,
    .version = FORMAT_VERSION,
    .byte_order = BYTE_ORDER_MARK,
    .sequence = 1,
    .nr_segments = (uint32_t) DIV_ROUND_UP (emu->s.size_bytes, emu->s.segment_bytes),
    .nr_zones = emu->z.nr,
    .lbs_bytes = emu->s.lbs_bytes,
    .size_bytes = emu->s.size_bytes,
    .segment_bytes = emu->s.segment_bytes,
    .data_off_bytes = file_data_offset (emu->z.nr),
  };
  if (getrandom (h->uuid, sizeof h->uuid, 0) != sizeof h->uuid)
    memcpy (h->uuid, emu->s.serial, sizeof h->uuid);
}

static void
remove_segments (const char *path, unsigned from, unsigned to)
{
  unsigned i;

  for (i = from; i < to; ++i) {
    char *name = file_segment_name (path, i);

    if (name)
      unlink (name);
    free (name);
  }
}

/* Removes a drive that nobody uses, and what stands in the place of one. */
static int
remove_old (const char *path, struct sh_error *err)
{
  const int fd = file_open (path, O_RDONLY);
  uint8_t *slots;
  struct stat st;
  struct head head = { .nr_segments = 1 };
  struct sh_error ignored = { 0 };
  char *cache;
  unsigned slot;
  int r;

  if (fd == -1 && errno == ENXIO)
    return file_refuse_kind (path, err);
  if (fd == -1)
    return errno == ENOENT ? 0 : sh_fail_file (err, path);
  if (fstat (fd, &st) == -1 || !S_ISREG (st.st_mode)) {
    close (fd);
    return file_refuse_kind (path, err);
  }
  r = file_lock (fd, path, LOCK_EX, err);
  slots = malloc (2 * SLOT_BYTES);
  if (r == 0 && slots && file_read_slots (fd, path, slots, &head, &slot, &ignored) == -1)
    head.nr_segments = 1;
  free (slots);
  if (r == 0)
    remove_segments (path, 0, MIN (head.nr_segments, MAX_SEGMENTS));
  if (r == 0 && asprintf (&cache, "%s.cache", path) != -1) {
    unlink (cache);
    free (cache);
  }
  close (fd);
  return r;
}

static int
create_all (const char *path, struct emu *emu, struct sh_error *err)
{
  struct sh_error inner = { 0 };
  struct head head;
  unsigned i;
  int fd, r;

  make_head (emu, &head);
  if (head.nr_segments > MAX_SEGMENTS)
    return sh_fail (err, EINVAL, "segment: the drive would need %" PRIu32 " files; at most %d",
                    head.nr_segments, MAX_SEGMENTS);
  fd = open (path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd == -1) {
    sh_fail_file (err, path);
    return err->errnum == EEXIST ? sh_hint (err, "--force replaces it") : -1;
  }
  for (i = 1, r = 0; i < head.nr_segments && r == 0; ++i)
    r = create_segment (path, &head, i, err);
  if (r == 0 && fill_file (fd, emu, &head, &inner) == -1)
    r = sh_fail (err, inner.errnum, "%s: %s", path, inner.message);
  close (fd);
  if (r == -1) {                /* a segment that was there before us stays */
    remove_segments (path, 0, 1);
    remove_segments (path, 1, i > 1 && err->errnum == EEXIST ? i - 1 : i);
  }
  return r;
}

/* The drive is there; what its medium begins with needs it open. */
static int
write_first_data (const char *path, const struct emu_settings *s, struct sh_error *err)
{
  struct emu *emu;
  int r;

  if (!s->num_parts)
    return 0;
  if (emu_open_file (path, 0, &emu, err) == -1)
    return -1;
  r = emu_format_media (emu, err);
  emu_close (emu);
  return r;
}

int
emu_file_create (const char *path, const struct emu_settings *settings, bool replace,
                 struct sh_error *err)
{
  struct emu_settings s = *settings;
  struct emu *emu;
  int r;

  if (emu_settings_complete (&s, err) == -1)
    return -1;
  emu = emu_alloc (&s, err);
  if (emu == NULL)
    return -1;
  r = replace ? remove_old (path, err) : 0;
  if (r == 0)
    r = create_all (path, emu, err);
  emu_free (emu);
  return r == 0 ? write_first_data (path, &s, err) : -1;
}
