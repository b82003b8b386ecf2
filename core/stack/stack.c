/* SPDX-License-Identifier: BSD-3-Clause */
#include <config.h>
#include <string.h>
#include "base/error.h"
#include "scsi/disk.h"
#include "stack/stack.h"
#include "transport/transport.h"

int
stack_open_device (const char *device, const struct stack_options *options,
                   struct bdev **bdev, struct sh_error *err)
{
  const unsigned flags =
    (options->read_only ? SH_OPEN_READ_ONLY : 0) |
    (options->exclusive ? SH_OPEN_EXCLUSIVE : 0);
  const struct disk_options disk_options = {
    .read_only = options->read_only,
    .log = options->volume.log,
    .clock = options->volume.clock,
  };
  struct transport t;

  if (transport_open (device, flags, &t, err) == -1)
    return -1;
  if (disk_open (&t, &disk_options, bdev, err) == -1) {
    transport_close (&t);
    return -1;
  }
  return 0;
}

int
stack_open_tagset (struct stack_options *options, struct sh_error *err)
{
  const struct tagset_options tagset_options = {
    .tags = options->mq.tags,
    .reserved = options->mq.reserved_tags,
    .name = options->mq.tagset[0] ? options->mq.tagset : NULL,
    .clock = options->volume.clock,
  };

  return tagset_open (&tagset_options, &options->tagset, err);
}

void
stack_close_tagset (struct stack_options *options)
{
  if (options->tagset)
    tagset_close (options->tagset);
  options->tagset = NULL;
}

int
stack_open_queued (const char *device, const struct stack_options *options,
                   struct bdev **bdev, struct mq **mq, struct sh_error *err)
{
  struct bdev *lower;

  *mq = NULL;
  if (stack_open_device (device, options, &lower, err) == -1)
    return -1;
  if (!options->queue) {
    *bdev = lower;
    return 0;
  }
  if (mq_bdev_create (lower, options->tagset, false, &options->mq, bdev, err) == -1) {
    bdev_close (lower);
    return -1;
  }
  *mq = mq_of_bdev (*bdev);
  return 0;
}
