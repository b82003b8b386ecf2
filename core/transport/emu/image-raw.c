/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads raw images: sparse files by their holes, zstd streams piece by piece. */
#include <config.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef HAVE_ZSTD
#include <zstd.h>
#endif
#include "base/error.h"
#include "transport/emu/file.h"
#include "transport/emu/image.h"

#define PIECE_BYTES (256 * KiB)
static const uint8_t zstd_magic[4] = { 0x28, 0xb5, 0x2f, 0xfd };

struct raw_reader {
  char *path;
  int fd;
  uint64_t pos;                 /* bytes of the image that are behind us */
  uint64_t size;                /* of a plain file; of a stream: what came so far */
  uint8_t *buf;                 /* PIECE_BYTES */
#ifdef HAVE_ZSTD
  ZSTD_DStream *stream;         /* NULL: plain */
  uint8_t *packed;              /* PIECE_BYTES */
  ZSTD_inBuffer in;
  bool in_frame;                /* the stream may not end here */
#endif
};

static int
fail_errno (const struct raw_reader *r, struct sh_error *err)
{
  return sh_fail (err, errno, "%s: %s", r->path, strerror (errno));
}

static ssize_t
read_some (int fd, void *buf, size_t len)
{
  ssize_t n;

  do
    n = read (fd, buf, len);
  while (n == -1 && errno == EINTR);
  return n;
}

/* ---- zstd ---- */

#ifdef HAVE_ZSTD
static int
start_stream (struct raw_reader *r, struct sh_error *err)
{
  r->stream = ZSTD_createDStream ();
  r->packed = malloc (PIECE_BYTES);
  if (r->stream == NULL || r->packed == NULL)
    return sh_fail (err, ENOMEM, "%s: out of memory", r->path);
  r->in = (ZSTD_inBuffer) { .src = r->packed };
  return 0;
}

static int
next_of_stream (struct raw_reader *r, uint64_t *off, const uint8_t **data, size_t *len,
                struct sh_error *err)
{
  ZSTD_outBuffer out = { .dst = r->buf, .size = PIECE_BYTES };

  while (out.pos < out.size) {
    size_t z;

    if (r->in.pos == r->in.size) {
      const ssize_t n = read_some (r->fd, r->packed, PIECE_BYTES);

      if (n == -1)
        return fail_errno (r, err);
      if (n == 0 && r->in_frame)
        return sh_fail (err, EINVAL, "%s: the zstd stream is cut short", r->path);
      if (n == 0)
        break;
      r->in.size = (size_t) n;
      r->in.pos = 0;
    }
    z = ZSTD_decompressStream (r->stream, &out, &r->in);
    if (ZSTD_isError (z))
      return sh_fail (err, EINVAL, "%s: %s", r->path, ZSTD_getErrorName (z));
    r->in_frame = z != 0;
  }
  *off = r->pos;
  *data = r->buf;
  *len = out.pos;
  r->pos += out.pos;
  r->size = r->pos;
  return 0;
}
#endif

static int
open_compressed (struct raw_reader *r, struct sh_error *err)
{
#ifdef HAVE_ZSTD
  return start_stream (r, err);
#else
  sh_fail (err, ENOTSUP, "%s: compressed with zstd, and this build has no libzstd", r->path);
  return sh_hint (err, "decompress it first: zstd -d --sparse %s", r->path);
#endif
}

/* ---- plain files ---- */

static int
next_of_file (struct raw_reader *r, uint64_t *off, const uint8_t **data, size_t *len,
              struct sh_error *err)
{
  const off_t start = lseek (r->fd, (off_t) r->pos, SEEK_DATA);
  ssize_t n;

  *len = 0;
  if (start == -1 && errno == ENXIO)
    return 0;
  if (start != -1)              /* else: the file system does not know holes */
    r->pos = (uint64_t) start;
  do
    n = pread (r->fd, r->buf, PIECE_BYTES, (off_t) r->pos);
  while (n == -1 && errno == EINTR);
  if (n == -1)
    return fail_errno (r, err);
  *off = r->pos;
  *data = r->buf;
  *len = (size_t) n;
  r->pos += (uint64_t) n;
  return 0;
}

/* ---- the reader ---- */

static int
look_at_file (struct raw_reader *r, struct sh_error *err)
{
  uint8_t magic[4];
  struct stat st;

  r->buf = malloc (PIECE_BYTES);
  if (r->buf == NULL)
    return sh_fail (err, ENOMEM, "%s: out of memory", r->path);
  r->fd = file_open (r->path, O_RDONLY);
  if (r->fd == -1 || fstat (r->fd, &st) == -1)
    return sh_fail_file (err, r->path);
  if (!S_ISREG (st.st_mode)) {
    sh_fail (err, EINVAL, "%s: not a regular file", r->path);
    return sh_hint (err, "the raw image is a file, as it is or packed by zstd");
  }
  if (pread (r->fd, magic, sizeof magic, 0) == sizeof magic &&
      memcmp (magic, zstd_magic, sizeof magic) == 0)
    return open_compressed (r, err);
  r->size = (uint64_t) st.st_size;
  return 0;
}

struct raw_reader *
raw_open (const char *path, struct sh_error *err)
{
  struct raw_reader *r = calloc (1, sizeof *r);

  if (r == NULL || (r->path = strdup (path)) == NULL) {
    sh_fail (err, ENOMEM, "%s: out of memory", path);
    free (r);
    return NULL;
  }
  r->fd = -1;
  if (look_at_file (r, err) == 0)
    return r;
  raw_close (r);
  return NULL;
}

int
raw_next (struct raw_reader *r, uint64_t *off, const uint8_t **data, size_t *len,
          struct sh_error *err)
{
#ifdef HAVE_ZSTD
  if (r->stream)
    return next_of_stream (r, off, data, len, err);
#endif
  return next_of_file (r, off, data, len, err);
}

uint64_t
raw_size (const struct raw_reader *r)
{
  return r->size;
}

void
raw_close (struct raw_reader *r)
{
#ifdef HAVE_ZSTD
  ZSTD_freeDStream (r->stream);
  free (r->packed);
#endif
  if (r->fd != -1)
    close (r->fd);
  free (r->buf);
  free (r->path);
  free (r);
}
