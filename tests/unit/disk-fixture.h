/* SPDX-License-Identifier: BSD-3-Clause */
/* A disk on the fake drive, for the tests of core/scsi. */
#ifndef TEST_DISK_FIXTURE_H
#define TEST_DISK_FIXTURE_H

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/bdev.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/log.h"
#include "fake-drive.h"
#include "scsi/cdb.h"
#include "scsi/disk.h"

struct fixture {
  struct fake_drive *f;
  struct sh_clock clock;
  struct sh_log log;
  char last_log[1024];
  struct bdev *bdev;
  unsigned opening;             /* commands that opening took */
};

static void
fixture_log (void *opaque, enum sh_log_level level, const char *message)
{
  struct fixture *x = opaque;

  snprintf (x->last_log, sizeof x->last_log, "%s", message);
}

static int
fixture_try (struct fixture *x, struct fake_drive *f, bool read_only, struct sh_error *err)
{
  struct transport t;
  struct disk_options options;

  memset (x, 0, sizeof *x);
  x->f = f;
  x->clock = fake_clock (f);
  x->log = (struct sh_log) { fixture_log, x };
  options = (struct disk_options) { read_only, &x->log, &x->clock };
  fake_transport (f, &t);
  return disk_open (&t, &options, &x->bdev, err);
}

/* Opens, and forgets what opening sent. */
static void
fixture_open (struct fixture *x, struct fake_drive *f)
{
  struct sh_error err = { 0 };

  ck_assert_msg (fixture_try (x, f, false, &err) == 0, "%s", err.message);
  x->opening = f->nr_log;
  f->nr_log = 0;
}

static void
fixture_close (struct fixture *x)
{
  bdev_close (x->bdev);
  fake_free (x->f);
}

/* Every block holds its own number, so that a block in the wrong place shows. */
static inline void
stamp (uint8_t *buf, size_t len, uint64_t off_bytes, size_t lbs, unsigned generation)
{
  for (size_t at = 0; at < len; at += 8)
    put_be64 (buf + at, ((off_bytes + at) / lbs) << 20 | (at % lbs) << 4 | generation);
}

static inline void
check_stamp (const uint8_t *buf, size_t len, uint64_t off_bytes, size_t lbs,
             unsigned generation)
{
  for (size_t at = 0; at < len; at += 8)
    if (get_be64 (buf + at) != (((off_bytes + at) / lbs) << 20 | (at % lbs) << 4 | generation))
      ck_abort_msg ("byte %zu behind %llu is of block %llu", at,
                    (unsigned long long) off_bytes,
                    (unsigned long long) get_be64 (buf + at) >> 20);
}

static inline int
execute (struct fixture *x, enum bdev_op op, void *buf, uint64_t len, uint64_t off,
         unsigned flags, uint64_t *done)
{
  const struct iovec iov = { buf, len };
  struct bdev_req req = {
    .op = op, .flags = flags, .off_bytes = off, .len_bytes = len,
    .iov = &iov, .iovcnt = 1,
  };
  const int r = bdev_execute (x->bdev, &req);

  *done = req.done_bytes;
  return r;
}

/* ---- a small drive with conventional and sequential zones ---- */

#define ZONE (1 * MiB)
#define SEQ (5 * MiB)           /* start of a sequential zone */

static inline struct fake_drive *
smr (void)
{
  return fake_new (512, 16, 2048, 4);
}

static inline uint64_t
pointer (struct fixture *x, uint64_t off)
{
  return x->f->zones[off / ZONE].wp * x->f->lbs;
}

/* Writes len stamped bytes at off through the disk. */
static inline int
write_stamped (struct fixture *x, uint64_t off, size_t len, unsigned flags, uint64_t *done)
{
  uint8_t *buf = malloc (len);
  int r, e;

  stamp (buf, len, off, x->f->lbs, 1);
  r = execute (x, BDEV_WRITE, buf, len, off, flags, done);
  e = errno;
  free (buf);
  errno = e;
  return r;
}

#define assert_errno(call, e)                            \
  do {                                                   \
    errno = 0;                                           \
    ck_assert_int_eq (call, -1);                         \
    ck_assert_msg (errno == (e), "errno is %s, not %s",  \
                   strerrorname_np (errno), #e);         \
  } while (0)

#endif
