/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sg transport: SG_IO version 3 on /dev/sgN, or on the block node of a
 * SCSI disk.
 *
 * One SG_IO per calling thread.  The kernel has a table of 16 requests for
 * each open of /dev/sgN, so commands are spread over a pool of descriptors,
 * which grows as needed; more commands than the pool can carry wait here.
 *
 * Why not the asynchronous interface (write, poll, read)?  Every command of ours
 * has a thread that waits for it in any case, so a thread that collects answers
 * would be needed besides, and a wake-up of the waiter for each of them.
 * Measured on Linux 6.1 with tests/vm/sg-interfaces-compared.vm (scsi_debug, reads
 * of 4 KiB, an emulated machine, medians of 3): SG_IO takes 1.00 system calls a
 * read, write and read 2.3 at depth 1 and 2.0 at depth 8, without those wake-ups;
 * at depth 1 SG_IO takes 307 us of processor time and the other one 440 us.  At depth
 * 8 that machine's processor times were too uneven to say anything (SG_IO 1.3 to
 * 22 ms, the other one 0.7 to 3.1 ms).  SG_IOSUBMIT, which would save the copy of
 * the header, is of sg version 4: Linux 6.1 answers EINVAL.
 *
 * Buffers.  On /dev/sgN data always goes through the kernel's own pages: its
 * direct mode would pin the caller's pages, and after a hot removal SG_IO
 * returns ENODEV while the adapter may still use them; the caller could not
 * know when its buffer is free.  A copied buffer is the caller's again the
 * moment SG_IO returns.  On a block node the kernel maps the caller's pages
 * and returns only after the command has really ended, so there data moves
 * without a copy.
 *
 * Signals are blocked during SG_IO.  An interrupted one would leave its
 * command running unowned, and with SA_RESTART the kernel would send it again:
 * a second write to a sequential zone.
 */
#include <config.h>
#include <assert.h>
#include <errno.h>
#include <scsi/sg.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include "base/bytes.h"
#include "transport/sg.h"
#include "transport/transport.h"

/* Some headers lack the name. */
#define FLAG_Q_AT_TAIL 0x10

/* driver_status of old kernels, low nibble; 8 only says that there is sense. */
static uint8_t
host_of_driver_status (unsigned driver_status)
{
  switch (driver_status & 0x0f) {
  case 0x1: return SH_HOST_BUS_BUSY;
  case 0x2: return SH_HOST_SOFT_ERROR;
  case 0x6: return SH_HOST_TIME_OUT;
  case 0x0: case 0x8: return SH_HOST_OK;
  default: return SH_HOST_ERROR;
  }
}

static int
direction (enum sh_xfer xfer)
{
  return xfer == SH_XFER_TO_DEVICE ? SG_DXFER_TO_DEV :
         xfer == SH_XFER_FROM_DEVICE ? SG_DXFER_FROM_DEV : SG_DXFER_NONE;
}

static void
set_data (struct sg_io_hdr *h, const struct sh_command *c)
{
  if (c->data_len == 0) {       /* no transfer at all, whatever the CDB is */
    h->dxfer_direction = SG_DXFER_NONE;
    return;
  }
  h->dxfer_direction = direction (c->xfer);
  h->dxfer_len = (unsigned) c->data_len;
  if (c->iovcnt == 1)
    h->dxferp = c->iov->iov_base;
  else {
    /* struct sg_iovec is struct iovec by another name */
    h->dxferp = (void *) c->iov;
    h->iovec_count = (unsigned short) c->iovcnt;
  }
}

static void
set_result (struct sh_command *c, const struct sg_io_hdr *h)
{
  c->status = h->status & 0x7e;
  c->host_status = (uint8_t) MIN (h->host_status, 0xffu);
  if (c->host_status == SH_HOST_OK && c->status == SH_STATUS_GOOD)
    c->host_status = host_of_driver_status (h->driver_status);
  c->sense_len = MIN (h->sb_len_wr, SH_SENSE_MAX);
  c->resid = h->resid > 0 ? MIN ((size_t) h->resid, c->data_len) : 0;
}

/* ---- the pool ---- */

/* The descriptor with the fewest commands, or NULL when every one is full. */
static struct sg_fd *
least_busy_locked (struct sg *sg)
{
  struct sg_fd *best = NULL;

  for (unsigned i = 0; i < sg->nr_fds; ++i)
    if (best == NULL || sg->fds[i].inflight < best->inflight)
      best = &sg->fds[i];
  return best && (sg->is_block || best->inflight < SG_REQUESTS_PER_FD) ? best : NULL;
}

static struct sg_fd *
open_more_locked (struct sg *sg)
{
  int fd;

  if (sg->one_fd || sg->nr_fds == SG_MAX_FDS)
    return NULL;
  fd = sg_node_open_more (sg);
  if (fd == -1) {
    sg->one_fd = true;          /* too many files, or no longer allowed: wait instead */
    return NULL;
  }
  sg->fds[sg->nr_fds] = (struct sg_fd) { .fd = fd };
  return &sg->fds[sg->nr_fds++];
}

static struct sg_fd *
take_fd (struct sg *sg)
{
  struct sg_fd *f = NULL;

  pthread_mutex_lock (&sg->lock);
  while (!sg->dead) {
    f = least_busy_locked (sg);
    if (f == NULL)
      f = open_more_locked (sg);
    if (f)
      break;
    ++sg->waiters;
    pthread_cond_wait (&sg->freed, &sg->lock);
    --sg->waiters;
  }
  if (f) {
    ++f->inflight;
    ++sg->inflight;
  }
  pthread_mutex_unlock (&sg->lock);
  return f;
}

/* gone: the command came back with ENODEV.  The number of a removed drive is
   free for its return only after the last descriptor is closed. */
static void
put_fd (struct sg *sg, struct sg_fd *f, bool gone)
{
  pthread_mutex_lock (&sg->lock);
  --f->inflight;
  --sg->inflight;
  if (gone && !sg->dead) {
    sg->dead = true;
    pthread_cond_broadcast (&sg->freed);
  }
  if (sg->dead && sg->inflight == 0)
    sg_node_close (sg);
  else if (sg->waiters > 0)
    pthread_cond_signal (&sg->freed);
  pthread_mutex_unlock (&sg->lock);
}

/* ---- one command ---- */

static int
sg_io (struct sg *sg, struct sg_io_hdr *h)
{
  struct sg_fd *f = take_fd (sg);
  sigset_t all, before;
  int r, e;

  if (f == NULL) {
    errno = ENODEV;
    return -1;
  }
  sigfillset (&all);
  pthread_sigmask (SIG_SETMASK, &all, &before);
  r = sg_sys->ioctl (f->fd, SG_IO, h);
  e = errno;
  pthread_sigmask (SIG_SETMASK, &before, NULL);
  put_fd (sg, f, r == -1 && e == ENODEV);
  errno = e;
  return r;
}

/* Pages that the kernel has to map for this data, each a segment at worst. */
static size_t
count_pages (const struct sh_command *c)
{
  const uintptr_t page = (uintptr_t) sysconf (_SC_PAGESIZE);
  size_t n = 0;

  for (int i = 0; i < c->iovcnt; ++i) {
    const uintptr_t start = (uintptr_t) c->iov[i].iov_base;

    if (c->iov[i].iov_len > 0)
      n += (start + c->iov[i].iov_len - 1) / page - start / page + 1;
  }
  return n;
}

static bool
needs_one_buffer (const struct sg *sg, const struct sh_command *c)
{
  return sg->is_block && c->iovcnt > 1 && count_pages (c) > (size_t) sg->max_segments;
}

static void
copy_iov (const struct sh_command *c, char *flat, bool gather)
{
  for (int i = 0; i < c->iovcnt; ++i) {
    if (gather)
      memcpy (flat, c->iov[i].iov_base, c->iov[i].iov_len);
    else
      memcpy (c->iov[i].iov_base, flat, c->iov[i].iov_len);
    flat += c->iov[i].iov_len;
  }
}

/* Many small pieces in one buffer, where they would be too many segments. */
static int
sg_io_flat (struct sg *sg, struct sh_command *c, struct sg_io_hdr *h)
{
  char *flat;
  int r;

  flat = aligned_alloc (4096, (c->data_len + 4095) & ~(size_t) 4095);
  if (flat == NULL)
    return -1;
  if (c->xfer == SH_XFER_TO_DEVICE)
    copy_iov (c, flat, true);
  h->dxferp = flat;
  h->iovec_count = 0;
  r = sg_io (sg, h);
  if (r == 0 && c->xfer == SH_XFER_FROM_DEVICE)
    copy_iov (c, flat, false);
  free (flat);
  return r;
}

static int
sg_execute (void *handle, struct sh_command *c)
{
  struct sg *sg = handle;
  struct sg_io_hdr h = {
    .interface_id = 'S',
    .cmd_len = c->cdb_len,
    .cmdp = c->cdb,
    .mx_sb_len = SH_SENSE_MAX,
    .sbp = c->sense,
    .timeout = c->timeout_ms,
    /* Else /dev/sgN would put each command in front of those that wait. */
    .flags = FLAG_Q_AT_TAIL,
  };
  int r;

  assert (c->timeout_ms > 0);
  set_data (&h, c);
  r = needs_one_buffer (sg, c) ? sg_io_flat (sg, c, &h) : sg_io (sg, &h);
  if (r == -1)
    return -1;
  set_result (c, &h);
  return 0;
}

/* ---- life ---- */

static int
make_absolute (const char *path, char *buf, size_t size)
{
  char cwd[PATH_MAX];
  int n;

  if (path[0] == '/')
    n = snprintf (buf, size, "%s", path);
  else if (getcwd (cwd, sizeof cwd) == NULL)
    return -1;
  else
    n = snprintf (buf, size, "%s/%s", cwd, path);
  if (n < 0 || (size_t) n >= size) {
    errno = ENAMETOOLONG;
    return -1;
  }
  return 0;
}

static int
sg_open (const char *args, unsigned flags, void **handle, char *message,
         size_t message_size)
{
  struct sg *sg = calloc (1, sizeof *sg);
  int e;

  if (sg == NULL)
    return -1;
  pthread_mutex_init (&sg->lock, NULL);
  pthread_cond_init (&sg->freed, NULL);
  sg->flags = flags;
  sg->claim_fd = -1;
  if (make_absolute (args, sg->path, sizeof sg->path) == 0) {
    memcpy (sg->node, sg->path, sizeof sg->node);
    if (sg_node_open (sg, message, message_size) == 0) {
      *handle = sg;
      return 0;
    }
  }
  e = errno;
  pthread_cond_destroy (&sg->freed);
  pthread_mutex_destroy (&sg->lock);
  free (sg);
  errno = e;
  return -1;
}

static void
sg_close (void *handle)
{
  struct sg *sg = handle;

  assert (sg->inflight == 0);
  sg_node_close (sg);
  pthread_cond_destroy (&sg->freed);
  pthread_mutex_destroy (&sg->lock);
  free (sg);
}

static void
sg_limits (void *handle, struct sh_transport_limits *limits)
{
  const struct sg *sg = handle;

  limits->max_transfer_bytes = sg->max_bytes;
  limits->max_iov = 256;
  limits->max_inflight = sg->is_block ? 0 : SG_REQUESTS_PER_FD * SG_MAX_FDS;
}

/* Offline drives keep their descriptors: there is nothing to open anew. */
static int
sg_reopen (void *handle, char *message, size_t message_size)
{
  struct sg *sg = handle;
  int r = 0;

  pthread_mutex_lock (&sg->lock);
  if (sg->dead) {
    if (sg->inflight > 0) {
      snprintf (message, message_size, "%s: commands from before the removal are still "
                "on their way", sg->path);
      errno = EBUSY;
      r = -1;
    }
    else {
      r = sg_node_open_again (sg, message, message_size);
      sg->dead = r == -1;
    }
  }
  pthread_mutex_unlock (&sg->lock);
  return r;
}

const struct sh_transport_ops sg_transport = {
  .api = SH_TRANSPORT_API,
  .size = sizeof (struct sh_transport_ops),
  .name = "sg",
  .open = sg_open,
  .close = sg_close,
  .execute = sg_execute,
  .limits = sg_limits,
  .reopen = sg_reopen,
};
