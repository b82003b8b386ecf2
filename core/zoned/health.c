/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Device commands, and what their failures say about the drive.
 *
 * Nothing here asks the drive how it is in the way of a request.  An answer that
 * puts the drive in doubt (as opposed to one block or one zone of it) costs one
 * probe, however many requests failed together; when the probe fails too the
 * drive is dying: requests fail at once, waiters are woken, no more metadata is
 * written, until the drive is back (resume.c).  A probe that got lost on its way
 * (EIO; aborted by the host, say) is repeated once before that.
 */
#include <config.h>
#include <errno.h>
#include <string.h>
#include "zoned/running.h"

static bool
is_doubtful (int errnum)
{
  switch (errnum) {
  case ENODEV:
  case ETIMEDOUT:
  case EREMOTEIO:
  case EIO:
    return true;
  default:                      /* one medium error, a full or protected zone, ... */
    return false;
  }
}

static void
die_locked (struct sh_volume *v, int errnum)
{
  if (v->dying)
    return;
  v->dying = true;
  space_fail_all_locked (v, ENODEV);
  pthread_cond_broadcast (&v->reclaimed);
  if (v->worker_runs)
    worker_kick_locked (v);
  sh_log (v->opt.log, SH_LOG_ERROR, "%s: the drive does not answer (%s); every request "
          "fails from now on; what was flushed is safe: restore the drive%s",
          v->bdev->info.name, sh_drive_error (errnum),
          v->worker_runs ? ", and the volume goes on" : " and open the volume again");
}

static int
probe_once (struct sh_volume *v)
{
  struct bdev_req req = {
    .op = BDEV_PROBE,
    .flags = BDEV_RESERVED,
    .prio = BDEV_PRIO_RT,
  };
  const int r = bdev_execute (v->bdev, &req);
  const int e = errno;

  pthread_mutex_lock (&v->lock);
  v->st.probes++;
  pthread_mutex_unlock (&v->lock);
  errno = e;
  return r;
}

int
dev_probe_quietly (struct sh_volume *v)
{
  return probe_once (v);
}

int
dev_probe (struct sh_volume *v)
{
  int r = probe_once (v), e;

  if (r == -1 && errno == EIO)
    r = probe_once (v);
  e = errno;
  if (r == -1) {
    pthread_mutex_lock (&v->lock);
    die_locked (v, e);
    pthread_mutex_unlock (&v->lock);
  }
  errno = e;
  return r;
}

static void
note_error (struct sh_volume *v, int errnum)
{
  bool probe;

  pthread_mutex_lock (&v->lock);
  v->st.errors++;
  probe = is_doubtful (errnum) && !v->probing && !v->dying;
  if (probe)
    v->probing = true;
  pthread_mutex_unlock (&v->lock);
  if (!probe)
    return;
  dev_probe (v);
  pthread_mutex_lock (&v->lock);
  v->probing = false;
  pthread_mutex_unlock (&v->lock);
}

int
dev_io (struct sh_volume *v, struct bdev_req *req)
{
  const int r = bdev_execute (v->bdev, req);

  if (r == -1) {
    const int e = errno;

    note_error (v, e);
    errno = e;
  }
  return r;
}

int
dev_rw (struct sh_volume *v, enum bdev_op op, unsigned flags, uint64_t off_bytes,
        const struct iovec *iov, int iovcnt, unsigned hwq, uint64_t *done_bytes)
{
  struct bdev_req req = {
    .op = op,
    .flags = flags,
    .prio = BDEV_PRIO_BE,
    .hwq = hwq,
    .off_bytes = off_bytes,
    .iov = iov,
    .iovcnt = iovcnt,
  };
  int i, r;

  for (i = 0; i < iovcnt; ++i)
    req.len_bytes += iov[i].iov_len;
  r = dev_io (v, &req);
  if (done_bytes != NULL)
    *done_bytes = r == 0 ? req.len_bytes : req.done_bytes;
  return r;
}

void
dev_want_reclaim_locked (struct sh_volume *v)
{
  if (v->wanted++ == 0)
    bdev_raise (v->bdev);
}

int
dev_rw_idle (struct sh_volume *v, enum bdev_op op, uint64_t off_bytes, void *buf, size_t len)
{
  const struct iovec iov = { buf, len };
  struct bdev_req req = {
    .op = op,
    .prio = BDEV_PRIO_IDLE,
    .wanted = &v->wanted,
    .off_bytes = off_bytes,
    .len_bytes = len,
    .iov = &iov,
    .iovcnt = 1,
  };

  return dev_io (v, &req);
}

int
dev_flush (struct sh_volume *v)
{
  struct bdev_req req = { .op = BDEV_FLUSH, .prio = BDEV_PRIO_BE };

  return dev_io (v, &req);
}
