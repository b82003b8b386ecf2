/* SPDX-License-Identifier: BSD-3-Clause */
/* A volume in this process as a backend.  Everything happens in the
 * submitting thread. */
#include <config.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backend.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "mq/mq.h"
#include "shingle/volume.h"
#include "stack/served.h"
#include "stack/stack.h"

/* How long another process may need to let go of the drive: the last mount
   of it commits after it has been unmounted. */
#define BUSY_PATIENCE_NS (10 * NS_PER_S)
#define BUSY_PAUSE_NS (100 * NS_PER_MS)

/* Hardware queues that have a folder in stats/. */
#define SHOWN_HWQS 64u

struct volume_backend {
  struct backend b;
  struct sh_volume *volume;
  unsigned epoch;               /* sh_volume_epoch as the users of the mount know it */
  struct bdev_info info;
  struct mq *mq;                /* NULL: no queue */
  char device[256];
};

static struct volume_backend *
to_volume (struct backend *b)
{
  return (struct volume_backend *) b;
}

/* What users of a file know. */
static int
file_error (int errnum)
{
  switch (errnum) {
  case ENOSPC: case EROFS: case ENOMEM: case EINVAL:
    return errnum;
  default:
    return EIO;
  }
}

static int
work (struct sh_volume *v, const struct backend_io *io)
{
  switch (io->op) {
  case BACKEND_READ:
    return sh_volume_pread (v, io->buf, io->count, io->offset, io->hint);
  case BACKEND_WRITE:
    return sh_volume_pwrite (v, io->buf, io->count, io->offset, io->fua ? SH_FUA : 0,
                             io->hint);
  case BACKEND_FLUSH:
    return sh_volume_flush (v);
  case BACKEND_DISCARD:
    /* Trimming leaves the edges of partial blocks alone; zeroing does not. */
    if (((io->offset | io->count) & 4095) == 0)
      return sh_volume_trim (v, io->count, io->offset, 0);
    return sh_volume_zero (v, io->count, io->offset, SH_MAY_TRIM);
  case BACKEND_ZERO:
    return sh_volume_zero (v, io->count, io->offset, 0);
  }
  abort ();
}

static void
volume_submit (struct backend *b, struct backend_io *io)
{
  struct volume_backend *v = to_volume (b);
  const int r = work (v->volume, io);

  /* After a loss (shingle/volume.h) nothing is promised before a new mount. */
  if (r == 0 && sh_volume_epoch (v->volume) != v->epoch)
    io->done (io, EIO);
  else
    io->done (io, r == 0 ? 0 : file_error (errno));
}

static int
volume_extents (struct backend *b, uint64_t count, uint64_t offset,
                backend_extent_fn fn, void *opaque)
{
  return sh_volume_extents (to_volume (b)->volume, count, offset, fn, opaque);
}

/* In whole chunks: near enough for du, and cheap enough for stat. */
static uint64_t
volume_allocated (struct backend *b)
{
  const struct volume_backend *v = to_volume (b);
  struct sh_volume_stats stats;

  sh_volume_get_stats (v->volume, &stats);
  return stats.chunks_mapped * v->info.zone_bytes;
}

static struct json_object *
queue_stats (void *mq)
{
  return mq_dump (mq, false);
}

static void
volume_describe (struct backend *b, struct served *s)
{
  struct volume_backend *v = to_volume (b);

  s->volume = v->volume;
  s->device = v->device;
  if (v->mq) {
    s->mq_stats = queue_stats;
    s->mq = v->mq;
    s->nr_hwqs = MIN (mq_nr_hwqs (v->mq), SHOWN_HWQS);
  }
}

static int
volume_start (struct backend *b, struct sh_error *err)
{
  return sh_volume_start (to_volume (b)->volume, err);
}

static int
volume_close (struct backend *b, struct sh_error *err)
{
  struct volume_backend *v = to_volume (b);
  const int r = sh_volume_close (v->volume, err);

  free (v);
  return r;
}

static const struct backend_ops volume_ops = {
  .start = volume_start,
  .submit = volume_submit,
  .extents = volume_extents,
  .allocated = volume_allocated,
  .describe = volume_describe,
  .close = volume_close,
};

static int
open_patiently (const char *device, const struct stack_options *options,
                struct volume_backend *v, struct sh_error *err)
{
  const uint64_t deadline_ns = sh_now (&sh_clock_monotonic) + BUSY_PATIENCE_NS;

  for (;;) {
    if (stack_open_volume (device, options, &v->volume, &v->info, &v->mq, err) == 0)
      return 0;
    if (err->errnum != EBUSY || sh_now (&sh_clock_monotonic) >= deadline_ns)
      return -1;
    sh_error_clear (err);
    sh_sleep (&sh_clock_monotonic, BUSY_PAUSE_NS);
  }
}

/* The label, else the last part of the device's name. */
static void
name_volume (struct volume_backend *v, const char *device)
{
  const char *label = sh_volume_label (v->volume);
  const char *slash = strrchr (device, '/');

  if (!label || label[0] == '\0')
    label = slash ? slash + 1 : device;
  backend_set_name (&v->b, label, "volume");
}

int
backend_volume_open (const char *device, const struct stack_options *options,
                     struct backend **b, struct sh_error *err)
{
  struct volume_backend *v = calloc (1, sizeof *v);

  if (!v)
    return sh_fail (err, ENOMEM, "no memory");
  if (open_patiently (device, options, v, err) == -1) {
    free (v);
    return -1;
  }
  snprintf (v->device, sizeof v->device, "%s", device);
  v->b.ops = &volume_ops;
  v->b.size = sh_volume_size (v->volume);
  v->b.block_bytes = 4096;
  v->b.read_only = options->read_only || v->info.read_only;
  v->b.can_zero = true;
  v->b.synchronous = true;
  name_volume (v, device);
  *b = &v->b;
  return 0;
}
