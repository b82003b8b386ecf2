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
