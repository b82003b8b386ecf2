/* SPDX-License-Identifier: BSD-3-Clause */
/* Data in sparse files, each holding one segment of the drive.  A write that
 * returned is in the kernel's page cache and outlives this process. */
#include <config.h>
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/bytes.h"
#include "transport/emu/store.h"

#define RANGE_BYTES  MiB        /* one lock per so much data, folded */
#define NR_LOCKS     256
#define MAX_IOV      64

struct files {
  struct store st;
  uint64_t segment_bytes;
  uint64_t data_off_bytes[2];
  size_t nr_fds;
  int *fds;
  /* Readers share a range, a writer has it alone, so that no read sees a half
     written block: pread and pwrite give no such promise. */
  pthread_rwlock_t locks[NR_LOCKS];
};

static struct files *
to_files (struct store *st)
{
  return (struct files *) st;
}

/* A piece that lies in one file and in one lock's range. */
struct place {
  int fd;
  off_t off;
  size_t len;
  pthread_rwlock_t *lock;
};

static struct place
find_place (struct files *f, uint64_t off, uint64_t len)
{
  const uint64_t segment = off / f->segment_bytes;

  assert (segment < f->nr_fds);
  /* Segments are whole ranges, so the end of the range comes first. */
  return (struct place) {
    .fd = f->fds[segment],
    .off = (off_t) (off % f->segment_bytes + f->data_off_bytes[segment != 0]),
    .len = (size_t) MIN (len, RANGE_BYTES - off % RANGE_BYTES),
    .lock = &f->locks[off / RANGE_BYTES % NR_LOCKS],
  };
}

/* preadv or pwritev until all is done; the iov is used up. */
static int
transfer (ssize_t (*fn) (int, const struct iovec *, int, off_t), int fd,
          struct iovec *iov, int n, off_t off)
{
  while (n > 0) {
    ssize_t r = fn (fd, iov, n, off);

    if (r == -1 && errno == EINTR)
      continue;
    if (r <= 0) {
      if (r == 0)
        errno = EIO;            /* the file was cut short behind our back */
      return -1;
    }
    off += r;
    while (n > 0 && (size_t) r >= iov->iov_len) {
      r -= (ssize_t) iov->iov_len;
      iov++;
      n--;
    }
    if (n > 0) {
      iov->iov_base = (char *) iov->iov_base + r;
      iov->iov_len -= (size_t) r;
    }
  }
  return 0;
}

static int
move (ssize_t (*fn) (int, const struct iovec *, int, off_t), const struct place *p,
      struct cursor *c)
{
  size_t done = 0, got;

  while (done < p->len) {
    struct iovec iov[MAX_IOV];
    const int n = cursor_take (c, p->len - done, iov, MAX_IOV, &got);

    if (transfer (fn, p->fd, iov, n, p->off + (off_t) done) == -1)
      return -1;
    done += got;
  }
  return 0;
}

static int
files_read (struct store *st, uint64_t off, size_t len, struct cursor *to)
{
  int r = 0;

  while (len > 0 && r == 0) {
    const struct place p = find_place (to_files (st), off, len);

    pthread_rwlock_rdlock (p.lock);
    r = move (preadv, &p, to);
    pthread_rwlock_unlock (p.lock);
    off += p.len;
    len -= p.len;
  }
  return r;
}

static int
files_write (struct store *st, uint64_t off, size_t len, struct cursor *from)
{
  int r = 0;

  while (len > 0 && r == 0) {
    const struct place p = find_place (to_files (st), off, len);

    pthread_rwlock_wrlock (p.lock);
    r = move (pwritev, &p, from);
    pthread_rwlock_unlock (p.lock);
    off += p.len;
    len -= p.len;
  }
  return r;
}

/* For file systems that cannot punch holes. */
static int
write_zeroes (int fd, off_t off, uint64_t len)
{
  static const char zeroes[64 * 1024];

  while (len > 0) {
    struct iovec iov = {
      .iov_base = (char *) zeroes,
      .iov_len = (size_t) MIN (len, sizeof zeroes),
    };
    const size_t n = iov.iov_len;

    if (transfer (pwritev, fd, &iov, 1, off) == -1)
      return -1;
    off += (off_t) n;
    len -= n;
  }
  return 0;
}

static int
punch (int fd, off_t off, uint64_t len)
{
  if (fallocate (fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, off, (off_t) len) == 0)
    return 0;
  if (errno != EOPNOTSUPP && errno != ENOSYS)
    return -1;
  return write_zeroes (fd, off, len);
}

/* Long ranges are punched a segment at a time, without the locks: a reader of
   a block that is being zeroed sees it whole either way, for the kernel drops
   it page by page. */
static int
files_zero (struct store *st, uint64_t off, uint64_t len)
{
  struct files *f = to_files (st);

  while (len > 0) {
    const struct place p = find_place (f, off, len);
    const uint64_t n = MIN (len, f->segment_bytes - off % f->segment_bytes);

    if (punch (p.fd, p.off, n) == -1)
      return -1;
    off += n;
    len -= n;
  }
  return 0;
}

/* In one segment; *len 0 when it has no data from off on. */
static int
segment_next_data (struct files *f, size_t segment, uint64_t off, uint64_t *start,
                   uint64_t *len)
{
  const uint64_t base = segment * f->segment_bytes;
  const uint64_t end = MIN (base + f->segment_bytes, f->st.size_bytes);
  const off_t skew = (off_t) f->data_off_bytes[segment != 0];
  off_t data, hole;

  *len = 0;
  data = lseek (f->fds[segment], (off_t) (off - base) + skew, SEEK_DATA);
  if (data == -1)
    return errno == ENXIO ? 0 : -1;
  hole = lseek (f->fds[segment], data, SEEK_HOLE);
  if (hole == -1)
    return -1;
  *start = base + (uint64_t) (data - skew);
  if (*start < end)
    *len = MIN (base + (uint64_t) (hole - skew), end) - *start;
  return 0;
}

static int
files_next_data (struct store *st, uint64_t off, uint64_t *start, uint64_t *len)
{
  struct files *f = to_files (st);

  *len = 0;
  while (off < st->size_bytes) {
    const size_t segment = off / f->segment_bytes;

    if (segment_next_data (f, segment, off, start, len) == -1)
      return -1;
    if (*len > 0)
      return 0;
    off = (segment + 1) * f->segment_bytes;
  }
  return 0;
}

static void
files_close (struct store *st)
{
  struct files *f = to_files (st);
  size_t i;

  for (i = 0; i < NR_LOCKS; ++i)
    pthread_rwlock_destroy (&f->locks[i]);
  for (i = 0; i < f->nr_fds; ++i)
    close (f->fds[i]);
  free (f->fds);
  free (f);
}

static const struct store_ops files_ops = {
  .read = files_read,
  .write = files_write,
  .zero = files_zero,
  .next_data = files_next_data,
  .close = files_close,
};

struct store *
store_file_new (uint64_t size_bytes, uint64_t segment_bytes, const int *fds, size_t nr_fds,
                const uint64_t data_off_bytes[2])
{
  struct files *f = calloc (1, sizeof *f);
  size_t i;

  assert (segment_bytes % RANGE_BYTES == 0);
  assert (nr_fds == DIV_ROUND_UP (size_bytes, segment_bytes));
  if (f == NULL)
    return NULL;
  f->fds = malloc (nr_fds * sizeof fds[0]);
  if (f->fds == NULL) {
    free (f);
    return NULL;
  }
  memcpy (f->fds, fds, nr_fds * sizeof fds[0]);
  f->st.ops = &files_ops;
  f->st.size_bytes = size_bytes;
  f->segment_bytes = segment_bytes;
  f->nr_fds = nr_fds;
  memcpy (f->data_off_bytes, data_off_bytes, sizeof f->data_off_bytes);
  for (i = 0; i < NR_LOCKS; ++i)
    pthread_rwlock_init (&f->locks[i], NULL);
  return &f->st;
}
