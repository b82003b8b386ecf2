/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A drive in a file.
 *
 *   0        two slots of 64 KiB, each: head (one block of fixed fields) and the
 *            settings as text.  The valid one with the higher sequence counts;
 *            a change writes the other one, so that a kill leaves one whole.
 *   128 KiB  counters
 *   132 KiB  zone table: one word a zone, mapped; a change is one store
 *   data     from the next whole MiB on: sparse, one segment
 *
 * Further segments are FILE.1, FILE.2, ...: a head block, data from 1 MiB on.
 * FILE.cache holds the tracked cache of a drive that has one.
 *
 * Order: data, then the zone's word; so a kill at any moment leaves a write
 * done or not done.  The words are in the machine's byte order; a file from a
 * machine of the other kind is refused.
 */
#include <config.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include "base/error.h"
#include "transport/emu/file.h"
#include "transport/transport.h"

/* ---- names ---- */

char *
file_segment_name (const char *path, unsigned segment)
{
  char *name;

  if (segment == 0)
    return strdup (path);
  return asprintf (&name, "%s.%u", path, segment) == -1 ? NULL : name;
}

const char *
emu_file_path (const struct emu_file *file)
{
  return file->path;
}

/* ---- the settings as text ---- */

static void
add_line (struct text *t, const char *key, const char *value)
{
  const int n = snprintf (t->buf + t->len, TEXT_MAX - t->len, "%s=%s\n", key, value);

  if ((size_t) n >= TEXT_MAX - t->len)
    t->full = true;
  else
    t->len += (size_t) n;
}

static void
add_fault (void *opaque, const char *fault)
{
  add_line (opaque, "fault", fault);
}

int
file_settings_text (struct emu *emu, struct text *t, struct sh_error *err)
{
  const struct emu_setting *d;
  char value[EMU_SETTING_TEXT_MAX];

  for (d = emu_setting_table; d->name; ++d)
    if (!d->alias)
      add_line (t, d->name, emu_setting_text (&emu->s, d, value, sizeof value));
  emu_each_fault (emu, add_fault, t);
  if (t->full)
    return sh_fail (err, ENOSPC, "too many faults for the drive's file");
  return 0;
}

/* Lines KEY=VALUE; the text is ours, so anything else is damage. */
static int
each_line (char *text, int (*fn) (void *opaque, const char *key, const char *value,
                                  struct sh_error *err),
           void *opaque, struct sh_error *err)
{
  char *line, *rest = text;

  while ((line = strsep (&rest, "\n")) != NULL) {
    char *value = strchr (line, '=');

    if (*line == '\0')
      continue;
    if (value == NULL)
      return sh_fail (err, EINVAL, "the settings hold the line '%s'", line);
    *value++ = '\0';
    if (fn (opaque, line, value, err) == -1)
      return -1;
  }
  return 0;
}

static int
set_line (void *opaque, const char *key, const char *value, struct sh_error *err)
{
  return strcmp (key, "fault") == 0 ? 0 : emu_settings_set (opaque, key, value, err);
}

static int
fault_line (void *opaque, const char *key, const char *value, struct sh_error *err)
{
  return strcmp (key, "fault") == 0 ? faults_add (opaque, value, err) : 0;
}

/* ---- slots ---- */

static uint32_t
slot_crc (const uint8_t *slot, size_t text_bytes)
{
  struct head head;
  uLong crc;

  memcpy (&head, slot, sizeof head);
  head.crc = 0;
  crc = crc32 (0, (const Bytef *) &head, sizeof head);
  return (uint32_t) crc32 (crc, slot + sizeof head, (uInt) text_bytes);
}

int
file_pwrite (int fd, const void *buf, size_t len, off_t off)
{
  const char *p = buf;

  while (len > 0) {
    const ssize_t n = pwrite (fd, p, len, off);

    if (n == -1 && errno == EINTR)
      continue;
    if (n == -1)
      return -1;
    p += n;
    off += n;
    len -= (size_t) n;
  }
  return 0;
}

int
file_write_slot (int fd, unsigned slot, const struct head *head, const struct text *t)
{
  uint8_t *buf = calloc (1, SLOT_BYTES);
  struct head h = *head;
  int r;

  if (buf == NULL)
    return -1;
  h.text_bytes = (uint32_t) t->len;
  h.crc = 0;
  memcpy (buf, &h, sizeof h);
  memcpy (buf + sizeof h, t->buf, t->len);
  h.crc = slot_crc (buf, t->len);
  memcpy (buf, &h, sizeof h);
  r = file_pwrite (fd, buf, SLOT_BYTES, (off_t) (slot * SLOT_BYTES));
  free (buf);
  return r;
}

int
emu_file_save (struct emu *emu, struct sh_error *err)
{
  struct emu_file *f = emu->file;
  struct text t = { .buf = malloc (TEXT_MAX) };
  struct head head;
  int r = -1;

  if (f == NULL || f->read_only) {
    free (t.buf);
    return f ? sh_fail (err, EROFS, "%s: the file cannot be written", f->path) : 0;
  }
  head = f->head;
  head.sequence++;
  if (t.buf == NULL)
    sh_fail (err, ENOMEM, "%s: out of memory", f->path);
  else if (file_settings_text (emu, &t, err) == 0) {
    r = file_write_slot (f->fd, f->slot ^ 1, &head, &t);
    if (r == -1)
      sh_fail (err, errno, "%s: %s", f->path, strerror (errno));
  }
  free (t.buf);
  if (r == 0) {
    f->head = head;
    f->slot ^= 1;
  }
  return r;
}

enum slot_state { SLOT_OK, SLOT_FOREIGN, SLOT_VERSION, SLOT_BYTE_ORDER, SLOT_DAMAGED };

static enum slot_state
check_slot (const uint8_t *slot, struct head *head)
{
  memcpy (head, slot, sizeof *head);
  if (memcmp (head->magic, MAGIC, sizeof head->magic) != 0)
    return SLOT_FOREIGN;
  if (head->byte_order != BYTE_ORDER_MARK)
    return SLOT_BYTE_ORDER;
  if (head->version != FORMAT_VERSION)
    return SLOT_VERSION;
  if (head->text_bytes > TEXT_MAX || slot_crc (slot, head->text_bytes) != head->crc)
    return SLOT_DAMAGED;
  return SLOT_OK;
}

#define DAMAGED_HINT "nothing can be read without it: take a copy of the file, or make the " \
  "drive anew ('shingle emu create FILE --force')"

static int
not_a_drive_hint (struct sh_error *err)
{
  return sh_hint (err, "'shingle emu create FILE' makes one, 'shingle emu import FILE' makes "
                  "one of a raw image");
}

/* Of two that are no good, the more telling state. */
static int
refuse_slots (const char *path, const enum slot_state st[2], const struct head heads[2],
              struct sh_error *err)
{
  const unsigned i = st[0] == SLOT_FOREIGN ? 1 : 0;

  switch (st[i]) {
  case SLOT_BYTE_ORDER:
    sh_fail (err, EINVAL, "%s: this emulated drive was made on a machine of the other "
             "byte order", path);
    return sh_hint (err, "export it there and import it here");
  case SLOT_VERSION:
    sh_fail (err, EINVAL, "%s: this emulated drive has format version %" PRIu32
             "; this program knows version %d", path, heads[i].version, FORMAT_VERSION);
    return sh_hint (err, "use the program that made it, or export it there and import it here");
  case SLOT_DAMAGED:
    sh_fail (err, EINVAL, "%s: the head of this emulated drive is damaged (check sums do "
             "not match)", path);
    return sh_hint (err, DAMAGED_HINT);
  default:
    sh_fail (err, EINVAL, "%s: this file is not an emulated drive", path);
    return not_a_drive_hint (err);
  }
}

int
file_read_slots (int fd, const char *path, uint8_t *buf, struct head *head, unsigned *slot,
            struct sh_error *err)
{
  enum slot_state st[2];
  struct head heads[2];
  size_t got = 0;

  memset (buf, 0, 2 * SLOT_BYTES);
  while (got < 2 * SLOT_BYTES) {
    const ssize_t n = pread (fd, buf + got, 2 * SLOT_BYTES - got, (off_t) got);

    if (n == -1 && errno == EINTR)
      continue;
    if (n == -1)
      return sh_fail (err, errno, "%s: %s", path, strerror (errno));
    if (n == 0)
      break;
    got += (size_t) n;
  }
  if (got == 0) {
    sh_fail (err, EINVAL, "%s: this file is empty, not an emulated drive", path);
    return not_a_drive_hint (err);
  }
  st[0] = check_slot (buf, &heads[0]);
  st[1] = check_slot (buf + SLOT_BYTES, &heads[1]);
  if (st[0] != SLOT_OK && st[1] != SLOT_OK)
    return refuse_slots (path, st, heads, err);
  *slot = st[0] != SLOT_OK ||
    (st[1] == SLOT_OK && heads[1].sequence > heads[0].sequence) ? 1 : 0;
  *head = heads[*slot];
  return 0;
}

/* O_NONBLOCK means nothing to regular files. */
int
file_open (const char *path, int flags)
{
  return open (path, flags | O_NONBLOCK | O_CLOEXEC, 0666);
}

bool
emu_file_probe (const char *path)
{
  const int fd = file_open (path, O_RDONLY);
  uint8_t magic[16];
  struct stat st;
  bool yes;

  if (fd == -1)
    return false;
  yes = fstat (fd, &st) == 0 && S_ISREG (st.st_mode) &&
    pread (fd, magic, sizeof magic, 0) == sizeof magic &&
    memcmp (magic, MAGIC, sizeof magic) == 0;
  close (fd);
  return yes;
}

/* ---- sizes ---- */

uint64_t
file_data_offset (uint32_t nr_zones)
{
  const uint64_t end = TABLE_OFF + nr_zones * sizeof (zone_word);

  return DIV_ROUND_UP (end, MiB) * MiB;
}

static uint64_t
segment_data_bytes (const struct head *h, unsigned segment)
{
  const uint64_t start = segment * h->segment_bytes;

  return MIN (h->segment_bytes, h->size_bytes - start);
}

uint64_t
file_segment_bytes (const struct head *h, unsigned segment)
{
  return (segment == 0 ? h->data_off_bytes : SEGMENT_DATA) + segment_data_bytes (h, segment);
}

/* ---- opening ---- */

int
file_lock (int fd, const char *path, int how, struct sh_error *err)
{
  if (flock (fd, how | LOCK_NB) == 0)
    return 0;
  if (errno != EWOULDBLOCK)
    return sh_fail (err, errno, "%s: cannot be locked: %s", path, strerror (errno));
  sh_fail (err, EBUSY, "%s: this emulated drive is in use by another process", path);
  return sh_hint (err, "stop what serves it first ('fuser %s' names it); "
                  "'shingle emu show' works meanwhile", path);
}

int
file_refuse_kind (const char *path, struct sh_error *err)
{
  sh_fail (err, EINVAL, "%s: not a regular file", path);
  return sh_hint (err, "an emulated drive is an ordinary file ('ls -ld %s' says what this "
                  "is)", path);
}

static int
fail_open (const char *path, struct sh_error *err)
{
  if (errno != ENOENT && errno != EISDIR && errno != ENXIO)
    return sh_fail_file (err, path);
  if (errno != ENOENT)
    return file_refuse_kind (path, err);
  sh_fail (err, ENOENT, "%s: %s", path, strerror (ENOENT));
  return sh_hint (err, "'shingle emu create %s' makes an emulated drive there", path);
}

static int
open_locked (struct emu_file *f, unsigned flags, struct sh_error *err)
{
  const bool peek = flags & EMU_OPEN_PEEK;
  struct stat st;

  f->read_only = peek;
  f->fd = file_open (f->path, peek ? O_RDONLY : O_RDWR);
  if (f->fd == -1 && (errno == EACCES || errno == EROFS) && flags & SH_OPEN_READ_ONLY) {
    f->read_only = true;
    f->fd = file_open (f->path, O_RDONLY);
  }
  if (f->fd == -1)
    return fail_open (f->path, err);
  if (fstat (f->fd, &st) == -1)
    return sh_fail (err, errno, "%s: %s", f->path, strerror (errno));
  if (!S_ISREG (st.st_mode))
    return file_refuse_kind (f->path, err);
  return peek ? 0 : file_lock (f->fd, f->path, f->read_only ? LOCK_SH : LOCK_EX, err);
}

static int
check_size (int fd, const char *path, uint64_t want, struct sh_error *err)
{
  struct stat st;

  if (fstat (fd, &st) == -1)
    return sh_fail (err, errno, "%s: %s", path, strerror (errno));
  if ((uint64_t) st.st_size >= want)
    return 0;
  sh_fail (err, EINVAL, "%s: this part of an emulated drive is cut short: it has %"
           PRIu64 " bytes of %" PRIu64, path, (uint64_t) st.st_size, want);
  return sh_hint (err, "was it copied in part? Copy it again, holes and all (cp --sparse=always)");
}

/* The fixed fields must agree with the settings they came with. */
static int
check_head (const struct emu_file *f, const struct emu *emu, struct sh_error *err)
{
  const struct head *h = &f->head;

  if (h->size_bytes == emu->s.size_bytes && h->segment_bytes == emu->s.segment_bytes &&
      h->lbs_bytes == emu->s.lbs_bytes && h->nr_zones == emu->z.nr && h->segment == 0 &&
      h->nr_segments == DIV_ROUND_UP (h->size_bytes, h->segment_bytes) &&
      h->nr_segments <= MAX_SEGMENTS && h->data_off_bytes == file_data_offset (h->nr_zones))
    return 0;
  sh_fail (err, EINVAL, "%s: the head of this emulated drive contradicts itself", f->path);
  return sh_hint (err, DAMAGED_HINT);
}

static int
open_segment (const struct emu_file *f, unsigned segment, struct sh_error *err)
{
  char *name = file_segment_name (f->path, segment);
  struct head head;
  int fd;

  if (name == NULL)
    return sh_fail (err, ENOMEM, "%s: out of memory", f->path);
  fd = file_open (name, f->read_only ? O_RDONLY : O_RDWR);
  if (fd == -1) {
    sh_fail (err, errno, "%s: %s", name, strerror (errno));
    sh_hint (err, "the drive's data is in %s and %s.1 to %s.%u", f->path, f->path, f->path,
             f->head.nr_segments - 1);
  }
  else if (pread (fd, &head, sizeof head, 0) != sizeof head ||
           memcmp (head.magic, MAGIC, sizeof head.magic) != 0 || head.segment != segment ||
           memcmp (head.uuid, f->head.uuid, sizeof head.uuid) != 0) {
    sh_fail (err, EINVAL, "%s: this is not part %u of the drive %s", name, segment, f->path);
    sh_hint (err, "a drive's parts are copied and renamed together");
    close (fd);
    fd = -1;
  }
  else if (check_size (fd, name, file_segment_bytes (&f->head, segment), err) == -1) {
    close (fd);
    fd = -1;
  }
  free (name);
  return fd;
}

static int
open_store (struct emu *emu, struct sh_error *err)
{
  const struct emu_file *f = emu->file;
  const uint64_t offs[2] = { f->head.data_off_bytes, SEGMENT_DATA };
  int *fds = malloc (f->head.nr_segments * sizeof fds[0]);
  unsigned i = 0;

  if (fds == NULL)
    return sh_fail (err, ENOMEM, "%s: out of memory", f->path);
  if (check_size (f->fd, f->path, file_segment_bytes (&f->head, 0), err) == -1)
    goto fail;
  fds[0] = dup (f->fd);
  if (fds[0] == -1) {
    sh_fail (err, errno, "%s: %s", f->path, strerror (errno));
    goto fail;
  }
  for (i = 1; i < f->head.nr_segments; ++i)
    if ((fds[i] = open_segment (f, i, err)) == -1)
      goto fail;
  emu->store = store_file_new (f->head.size_bytes, f->head.segment_bytes, fds, i, offs);
  if (emu->store == NULL) {
    sh_fail (err, ENOMEM, "%s: out of memory", f->path);
    goto fail;
  }
  free (fds);
  return 0;
 fail:
  while (i > 0)
    close (fds[--i]);
  free (fds);
  return -1;
}

static int
map_tables (struct emu *emu, struct sh_error *err)
{
  struct emu_file *f = emu->file;
  void *p;

  f->map_bytes = COUNTERS_BYTES + emu->z.nr * sizeof (zone_word);
  p = mmap (NULL, f->map_bytes, PROT_READ | PROT_WRITE,
            f->read_only ? MAP_PRIVATE : MAP_SHARED, f->fd, COUNTERS_OFF);
  if (p == MAP_FAILED)
    return sh_fail (err, errno, "%s: mapping the zone table: %s", f->path, strerror (errno));
  f->map = p;
  emu->counters.values = p;
  return 0;
}

static int
refuse_table (const char *path, uint32_t zone, struct sh_error *err)
{
  sh_fail (err, EINVAL, "%s: the zone table of this emulated drive is damaged at zone %"
           PRIu32, path, zone);
  return sh_hint (err, DAMAGED_HINT);
}

static int
load_zones (struct emu *emu, struct sh_error *err)
{
  zone_word *words = (zone_word *) ((char *) emu->file->map + COUNTERS_BYTES);
  uint32_t i;

  for (i = 0; i < emu->z.nr; ++i)
    if (!zone_word_ok (emu, i, atomic_load_explicit (&words[i], memory_order_relaxed)))
      return refuse_table (emu->file->path, i, err);
  if (zones_init (emu, words) == -1)
    return sh_fail (err, ENOMEM, "%s: out of memory", emu->file->path);
  return 0;
}

/* FILE.cache is there while the drive has a tracked cache. */
static int
open_cache (struct emu *emu, const char *name, struct sh_error *err)
{
  emu->cache.fd = file_open (name, O_RDWR | O_CREAT);
  if (emu->cache.fd == -1)
    return sh_fail_file (err, name);
  return cache_file_load (emu, err);
}

static void
remove_cache (struct emu *emu, const char *name)
{
  close (emu->cache.fd);
  emu->cache.fd = -1;
  unlink (name);
}

int
emu_file_follow_cache (struct emu *emu, struct sh_error *err)
{
  const bool there = emu->cache.fd != -1;
  char *name;
  int r = 0;

  if (emu->file == NULL || emu->file->read_only || there == emu->cache.tracked)
    return 0;
  if (asprintf (&name, "%s.cache", emu->file->path) == -1)
    return sh_fail (err, ENOMEM, "%s: out of memory", emu->file->path);
  if (there)
    remove_cache (emu, name);
  else
    r = open_cache (emu, name, err);
  free (name);
  return r;
}

const uint8_t *
emu_file_uuid (const struct emu_file *file)
{
  return file->head.uuid;
}

/* Everything behind the head. */
static int
open_rest (struct emu *emu, char *text, struct sh_error *err)
{
  if (check_head (emu->file, emu, err) == -1 || open_store (emu, err) == -1 ||
      map_tables (emu, err) == -1 || load_zones (emu, err) == -1)
    return -1;
  if (each_line (text, fault_line, emu, err) == -1)
    return -1;
  return emu_file_follow_cache (emu, err);
}

/* Settings twice: the text is cut up while it is read. */
static struct emu *
emu_from_text (struct emu_file *f, const char *text, struct sh_error *err)
{
  struct emu_settings s;
  struct sh_error inner = { 0 };
  char *copy = strdup (text);
  int r;

  emu_settings_init (&s);
  if (copy == NULL) {
    sh_fail (err, ENOMEM, "%s: out of memory", f->path);
    return NULL;
  }
  r = each_line (copy, set_line, &s, &inner);
  free (copy);
  if (r == -1 || emu_settings_complete (&s, &inner) == -1) {
    sh_fail (err, EINVAL, "%s: %s", f->path, inner.message);
    return NULL;
  }
  return emu_alloc (&s, err);
}

static struct emu *
open_drive (struct emu_file *f, unsigned flags, struct sh_error *err)
{
  uint8_t *slots = malloc (2 * SLOT_BYTES + 1);
  struct emu *emu = NULL;
  char *text;

  if (slots == NULL)
    sh_fail (err, ENOMEM, "%s: out of memory", f->path);
  else if (open_locked (f, flags, err) == 0 &&
           file_read_slots (f->fd, f->path, slots, &f->head, &f->slot, err) == 0) {
    text = (char *) slots + f->slot * SLOT_BYTES + sizeof (struct head);
    text[f->head.text_bytes] = '\0';
    emu = emu_from_text (f, text, err);
    if (emu) {
      emu->file = f;
      if (open_rest (emu, text, err) == -1) {
        emu_free (emu);
        free (slots);
        return NULL;
      }
    }
  }
  free (slots);
  if (emu == NULL)
    emu_file_close (f);
  return emu;
}

void
emu_file_close (struct emu_file *f)
{
  if (f->map)
    munmap (f->map, f->map_bytes);
  if (f->fd != -1)
    close (f->fd);
  free (f->path);
  free (f);
}

int
emu_open_file (const char *path, unsigned flags, struct emu **result, struct sh_error *err)
{
  struct emu_file *f = calloc (1, sizeof *f);
  struct emu *emu;

  if (f == NULL || (f->path = strdup (path)) == NULL) {
    free (f);
    return sh_fail (err, ENOMEM, "%s: out of memory", path);
  }
  f->fd = -1;
  emu = open_drive (f, flags, err);
  if (emu == NULL)
    return -1;
  if (flags & (EMU_OPEN_PEEK | EMU_OPEN_AS_IS))
    zones_recount (emu);
  else
    emu_power_on (emu);
  *result = emu;
  return 0;
}

void
emu_each_file (struct emu *emu, void (*fn) (void *opaque, const char *name), void *opaque)
{
  unsigned i;

  for (i = 0; emu->file && i < emu->file->head.nr_segments; ++i) {
    char *name = file_segment_name (emu->file->path, i);

    if (name)
      fn (opaque, name);
    free (name);
  }
  if (emu->file && emu->s.cache == EMU_CACHE_TRACKED) {
    char *name;

    if (asprintf (&name, "%s.cache", emu->file->path) != -1) {
      fn (opaque, name);
      free (name);
    }
  }
}

void
emu_remove_file (void *opaque, const char *name)
{
  unlink (name);
}
