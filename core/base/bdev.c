/* SPDX-License-Identifier: BSD-3-Clause */
#include <config.h>
#include "base/bdev.h"

static int
one_buffer (struct bdev *bdev, enum bdev_op op, void *buf, uint64_t len_bytes,
            uint64_t off_bytes, unsigned flags)
{
  const struct iovec iov = { .iov_base = buf, .iov_len = len_bytes };
  struct bdev_req req = {
    .op = op,
    .flags = flags,
    .prio = BDEV_PRIO_BE,
    .off_bytes = off_bytes,
    .len_bytes = len_bytes,
    .iov = &iov,
    .iovcnt = 1,
  };

  return bdev_execute (bdev, &req);
}

int
bdev_read (struct bdev *bdev, void *buf, uint64_t len_bytes, uint64_t off_bytes)
{
  return one_buffer (bdev, BDEV_READ, buf, len_bytes, off_bytes, 0);
}

int
bdev_write (struct bdev *bdev, const void *buf, uint64_t len_bytes,
            uint64_t off_bytes, unsigned flags)
{
  return one_buffer (bdev, BDEV_WRITE, (void *) buf, len_bytes, off_bytes, flags);
}

int
bdev_flush (struct bdev *bdev)
{
  struct bdev_req req = { .op = BDEV_FLUSH, .prio = BDEV_PRIO_BE };

  return bdev_execute (bdev, &req);
}

int
bdev_zone_reset (struct bdev *bdev, uint64_t off_bytes)
{
  struct bdev_req req = {
    .op = BDEV_ZONE_RESET,
    .prio = BDEV_PRIO_BE,
    .off_bytes = off_bytes,
  };

  return bdev_execute (bdev, &req);
}
