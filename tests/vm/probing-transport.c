/* SPDX-License-Identifier: BSD-3-Clause */
/* For a measurement only: /dev/sgN with a TEST UNIT READY before every READ
   and WRITE, as kernel dm-zoned once did.  Built by
   health-checks-cost-no-time.vm. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <scsi/sg.h>
#include "shingle/transport.h"

struct probing {
  int fd;
};

static int
probing_open (const char *args, unsigned flags, void **handle, char *message,
              size_t message_size)
{
  struct probing *p = calloc (1, sizeof *p);

  if (p == NULL)
    return -1;
  p->fd = open (args, O_RDWR | O_CLOEXEC);
  if (p->fd == -1) {
    snprintf (message, message_size, "%s: %m", args);
    free (p);
    return -1;
  }
  *handle = p;
  return 0;
}

static void
probing_close (void *handle)
{
  struct probing *p = handle;

  close (p->fd);
  free (p);
}

static int
sg_io (struct probing *p, struct sh_command *c)
{
  static const int directions[] = {
    [SH_XFER_NONE] = SG_DXFER_NONE, [SH_XFER_TO_DEVICE] = SG_DXFER_TO_DEV,
    [SH_XFER_FROM_DEVICE] = SG_DXFER_FROM_DEV,
  };
  struct sg_io_hdr h = {
    .interface_id = 'S', .dxfer_direction = directions[c->xfer],
    .cmd_len = c->cdb_len, .cmdp = c->cdb, .mx_sb_len = SH_SENSE_MAX, .sbp = c->sense,
    .dxfer_len = c->data_len, .dxferp = (void *) c->iov, .iovec_count = c->iovcnt,
    .timeout = c->timeout_ms, .flags = 0x10 /* queue at the tail */,
  };

  if (ioctl (p->fd, SG_IO, &h) == -1)
    return -1;
  c->status = h.status;
  c->host_status = h.host_status;
  c->sense_len = h.sb_len_wr;
  c->resid = h.resid;
  return 0;
}

static int
is_io (const struct sh_command *c)
{
  return c->cdb[0] == 0x88 || c->cdb[0] == 0x8a || c->cdb[0] == 0x28 || c->cdb[0] == 0x2a;
}

static int
probing_execute (void *handle, struct sh_command *command)
{
  struct sh_command test = { .cdb_len = 6, .timeout_ms = 10000 };

  if (is_io (command) && sg_io (handle, &test) == -1)
    return -1;
  return sg_io (handle, command);
}

static void
probing_limits (void *handle, struct sh_transport_limits *limits)
{
  limits->max_transfer_bytes = 256 * 1024;
  limits->max_iov = 64;
  limits->max_inflight = 16;
}

SH_TRANSPORT_EXPORT = {
  .api = SH_TRANSPORT_API,
  .size = sizeof (struct sh_transport_ops),
  .name = "probing",
  .open = probing_open,
  .close = probing_close,
  .execute = probing_execute,
  .limits = probing_limits,
};
