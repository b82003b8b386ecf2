/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * FILE.cache: the list of cache.c for a drive in a file, so that a process
 * that was killed leaves it to the next one.  A record is written before the
 * change that it can undo; a torn last record belongs to a change that was
 * never begun, and is ignored.  The file is empty when nothing is cached.
 */
#include <config.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include "base/error.h"
#include "transport/emu/internal.h"

#define RECORD_MAGIC 0x43554d45u

struct record {
  uint32_t magic;
  uint32_t crc;                 /* of the rest, dropped taken as 0, and the content */
  uint8_t kind, dropped, captured;
  uint8_t reserved;
  uint32_t zone;
  uint64_t lba, blocks, old_word;
  uint32_t content_bytes;
  uint32_t reserved2;
};
_Static_assert (sizeof (struct record) == 48, "the layout of FILE.cache");

/* With the drive's identity, for a log may be left by another drive that had
   this name. */
static uint32_t
record_crc (const struct emu *emu, const struct record *r, const void *content)
{
  struct record copy = *r;
  uLong crc;

  copy.crc = 0;
  copy.dropped = 0;
  crc = crc32 (0, emu_file_uuid (emu->file), 16);
  crc = crc32 (crc, (const Bytef *) &copy, sizeof copy);
  if (copy.content_bytes)
    crc = crc32 (crc, content, copy.content_bytes);
  return (uint32_t) crc;
}

static int
write_all (int fd, const void *data, size_t len, uint64_t off)
{
  const char *p = data;

  while (len > 0) {
    const ssize_t n = pwrite (fd, p, len, (off_t) off);

    if (n == -1 && errno == EINTR)
      continue;
    if (n == -1)
      return -1;
    p += n;
    len -= (size_t) n;
    off += (uint64_t) n;
  }
  return 0;
}

static int
read_all (int fd, void *data, size_t len, uint64_t off)
{
  char *p = data;

  while (len > 0) {
    const ssize_t n = pread (fd, p, len, (off_t) off);

    if (n == -1 && errno == EINTR)
      continue;
    if (n <= 0) {
      if (n == 0)
        errno = EIO;
      return -1;
    }
    p += n;
    len -= (size_t) n;
    off += (uint64_t) n;
  }
  return 0;
}

int
cache_file_append (struct emu *emu, struct undo *u, const void *content)
{
  struct cache *c = &emu->cache;
  struct record r = {
    .magic = RECORD_MAGIC,
    .kind = u->kind,
    .captured = u->captured,
    .zone = u->zone,
    .lba = u->lba,
    .blocks = u->blocks,
    .old_word = u->old_word,
    .content_bytes = u->content_bytes,
  };

  r.crc = record_crc (emu, &r, content);
  u->fd_off = c->fd_end;
  if (write_all (c->fd, &r, sizeof r, c->fd_end) == -1 ||
      write_all (c->fd, content, u->content_bytes, c->fd_end + sizeof r) == -1)
    return -1;
  c->fd_end += sizeof r + u->content_bytes;
  return 0;
}

int
cache_file_read (struct emu *emu, const struct undo *u, void *content)
{
  return read_all (emu->cache.fd, content, u->content_bytes, u->fd_off + sizeof (struct record));
}

void
cache_file_drop (struct emu *emu, const struct undo *u)
{
  const uint8_t dropped = 1;

  /* When this fails a later power cut loses more than it might: data that was
     said to be durable.  So cut the log off instead of lying. */
  if (write_all (emu->cache.fd, &dropped, 1, u->fd_off + offsetof (struct record, dropped)) == -1)
    cache_file_clear (emu);
}

void
cache_file_clear (struct emu *emu)
{
  while (ftruncate (emu->cache.fd, 0) == -1 && errno == EINTR)
    ;
  emu->cache.fd_end = 0;
}

/* What a record says must fit the drive. */
static bool
record_plausible (const struct emu *emu, const struct record *r)
{
  if (r->magic != RECORD_MAGIC || r->kind < UNDO_BLOCKS || r->kind > UNDO_RESET ||
      r->lba > emu->nr_blocks || r->blocks > emu->nr_blocks - r->lba ||
      (r->content_bytes != 0 && r->content_bytes != blocks_to_bytes (emu, r->blocks)))
    return false;
  return r->kind == UNDO_BLOCKS ||
    (r->zone < emu->z.nr && zone_word_ok (emu, r->zone, r->old_word));
}

/* 1: read and added or dropped; 0: the end; -1: out of memory. */
static int
load_record (struct emu *emu, uint64_t size, void **content, size_t *room)
{
  struct cache *c = &emu->cache;
  struct undo u = { .live = true, .fd_off = c->fd_end };
  struct record r;

  if (size - c->fd_end < sizeof r || read_all (c->fd, &r, sizeof r, c->fd_end) == -1 ||
      !record_plausible (emu, &r) || size - c->fd_end - sizeof r < r.content_bytes)
    return 0;
  if (r.content_bytes > *room) {
    void *p = realloc (*content, r.content_bytes);

    if (p == NULL)
      return -1;
    *content = p;
    *room = r.content_bytes;
  }
  if (read_all (c->fd, *content, r.content_bytes, c->fd_end + sizeof r) == -1 ||
      record_crc (emu, &r, *content) != r.crc)
    return 0;
  c->fd_end += sizeof r + r.content_bytes;
  if (r.dropped)
    return 1;
  u.kind = r.kind;
  u.captured = r.captured;
  u.zone = r.zone;
  u.lba = r.lba;
  u.blocks = r.blocks;
  u.old_word = r.old_word;
  u.content_bytes = r.content_bytes;
  return cache_add_locked (emu, &u) == -1 ? -1 : 1;
}

/* Somebody's file that has the name by chance is not ours to empty. */
static bool
is_foreign (const struct emu *emu, const struct stat *st)
{
  uint32_t magic;

  if (!S_ISREG (st->st_mode))
    return true;
  return st->st_size >= (off_t) sizeof magic &&
    read_all (emu->cache.fd, &magic, sizeof magic, 0) == 0 && magic != RECORD_MAGIC;
}

static int
refuse_foreign (const struct emu *emu, struct sh_error *err)
{
  const char *path = emu_file_path (emu->file);

  sh_fail (err, EEXIST, "%s.cache: this file is not the cache of the emulated drive", path);
  return sh_hint (err, "the drive keeps its write cache there; give one of the two another "
                  "name");
}

int
cache_file_load (struct emu *emu, struct sh_error *err)
{
  struct cache *c = &emu->cache;
  struct stat st;
  void *content = NULL;
  size_t room = 0;
  int r;

  if (fstat (c->fd, &st) == -1)
    return sh_fail (err, errno, "the drive's cache file: %s", strerror (errno));
  if (is_foreign (emu, &st))
    return refuse_foreign (emu, err);
  c->fd_end = 0;
  do
    r = load_record (emu, (uint64_t) st.st_size, &content, &room);
  while (r == 1);
  free (content);
  /* What follows is torn, or another drive's. */
  if (r == 0 && c->fd_end < (uint64_t) st.st_size &&
      ftruncate (c->fd, (off_t) c->fd_end) == -1)
    return sh_fail (err, errno, "the drive's cache file: %s", strerror (errno));
  if (r == -1)
    return sh_fail (err, ENOMEM, "the drive's cache file: out of memory");
  return 0;
}
