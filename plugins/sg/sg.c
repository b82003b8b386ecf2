/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nbdkit plugin `sg`: a SCSI disk as it is.  This file speaks nbdkit;
 * bytes-io.c turns byte ranges into blocks, core/scsi does the rest.
 * Callbacks stand in the order of their life: options, start, connection,
 * properties, data, end.
 */
#include <config.h>
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/log.h"
#include "base/parse.h"
#include "bytes-io.h"
#include "drives.h"
#include "scsi/disk.h"

#define THREAD_MODEL NBDKIT_THREAD_MODEL_PARALLEL

/* -D sg.io=1: a line for every request.  -D sg.stats=1: the commands that went
   to every drive, at the end. */
NBDKIT_DLL_PUBLIC int sg_debug_io;
NBDKIT_DLL_PUBLIC int sg_debug_stats;

static struct drives drives;
static struct drives_options options;

/* -- messages ------------------------------------------------------------------ */

static void
log_message (void *opaque, enum sh_log_level level, const char *message)
{
  switch (level) {
  case SH_LOG_ERROR: nbdkit_error ("%s", message); break;
  case SH_LOG_WARNING: nbdkit_error ("warning: %s", message); break;
  case SH_LOG_INFO:
  case SH_LOG_DEBUG: nbdkit_debug ("%s", message); break;
  }
}

static const struct sh_log log_hook = { .fn = log_message };

static int
report_error (const struct sh_error *err)
{
  if (err->hint[0])
    nbdkit_error ("%s\n%s", err->message, err->hint);
  else
    nbdkit_error ("%s", err->message);
  return -1;
}

/* The codes that NBD can carry; the rest would reach the client as EINVAL. */
static int
wire_error (int errnum)
{
  switch (errnum) {
  case EPERM: case EROFS: return EPERM;
  case ENOMEM: return ENOMEM;
  case ENOSPC: return ENOSPC;
  case EINVAL: return EINVAL;
  case ESHUTDOWN: return ESHUTDOWN;
  default: return EIO;
  }
}

static const char *
meaning (const struct drive *d, int errnum)
{
  switch (errnum) {
  case EREMOTEIO:
    return d->bdev->info.zone_bytes
      ? "the drive refused it: in a sequential zone, writes must follow each other from "
        "its write pointer on"
      : "the drive refused it";
  case ENODATA: return "medium error";
  case ETOOMANYREFS: return "too many zones are open";
  case ENODEV: return "the drive is gone";
  case EROFS: return "the drive or this zone is write protected";
  default: return strerror (errnum);
  }
}

/* The end of every data callback.  The disk below limits the lines of its own;
   a client that goes on after errors pays for what it makes us write. */
static int
finish (struct drive *d, const char *what, uint64_t count, uint64_t offset, int r)
{
  const int errnum = errno;

  if (sg_debug_io)
    nbdkit_debug ("%s: %s of %" PRIu64 " at %" PRIu64 ": %s", d->name, what, count, offset,
                  r == -1 ? strerror (errnum) : "done");
  if (r != -1)
    return 0;
  if (errnum == ENODEV)
    atomic_store (&d->lost, true);
  nbdkit_error ("%s: %s of %" PRIu64 " bytes at offset %" PRIu64 " failed: %s", d->name,
                what, count, offset, meaning (d, errnum));
  nbdkit_set_error (wire_error (errnum));
  return -1;
}

/* -- options ------------------------------------------------------------------- */

static void
sg_load (void)
{
  options.log = &log_hook;
}

enum { RAW, READONLY };

static int
set_bool (bool *to, unsigned index, const char *key, const char *value)
{
  static uint64_t given;
  struct sh_error err = { 0 };

  if (sh_parse_once (key, &given, index, &err) == 0 &&
      sh_parse_bool (key, value, to, &err) == 0)
    return 0;
  return report_error (&err);
}

static int
sg_config (const char *key, const char *value)
{
  struct sh_error err = { 0 };

  if (strcmp (key, "device") == 0)
    return drives_add (&drives, value, &err) == -1 ? report_error (&err) : 0;
  if (strcmp (key, "export") == 0)
    return drives_name_last (&drives, value, &err) == -1 ? report_error (&err) : 0;
  if (strcmp (key, "raw") == 0)
    return set_bool (&options.raw, RAW, key, value);
  if (strcmp (key, "readonly") == 0)
    return set_bool (&options.read_only, READONLY, key, value);
  nbdkit_error ("unknown option '%s'; nbdkit sg --help lists them", key);
  return -1;
}

static int
sg_config_complete (void)
{
  if (drives.nr == 0) {
    nbdkit_error ("no drive is named: nbdkit sg DEVICE, where DEVICE is /dev/sgN or "
                  "emu:FILE");
    return -1;
  }
  if (options.raw && options.read_only) {
    nbdkit_error ("raw=true and readonly=true contradict each other");
    return -1;
  }
  return 0;
}

#define sg_config_help \
  "device=DEVICE (required)  /dev/sgN, emu:FILE or NAME:ARGS; may come again\n" \
  "export=NAME               name of the device= before it (default: its file name)\n" \
  "raw=true                  pass writes to host-managed drives as they come\n" \
  "readonly=true             never write to the drive"

static void
sg_dump_plugin (void)
{
  printf ("shingle_version=%s\n", PACKAGE_VERSION);
  printf ("sg_transports=sg emu loadable\n");
}

/* -- start: errors still reach the terminal ---------------------------------------- */

static int
sg_get_ready (void)
{
  struct sh_error err = { 0 };

  if (drives_open (&drives, &options, &err) == 0)
    return 0;
  report_error (&err);
  drives_close (&drives);
  return -1;
}

/* -- connection ------------------------------------------------------------------ */

static int
sg_list_exports (int readonly, int is_tls, struct nbdkit_exports *list)
{
  for (size_t i = 0; i < drives.nr; ++i)
    if (nbdkit_add_export (list, drives.list[i]->name, drives.list[i]->description) == -1)
      return -1;
  return 0;
}

static const char *
sg_default_export (int readonly, int is_tls)
{
  return drives.list[0]->name;
}

static void *
sg_open (int readonly)
{
  const char *name = nbdkit_export_name ();
  struct bdev_req probe = { .op = BDEV_PROBE, .flags = BDEV_RESERVED };
  struct drive *d;

  if (name == NULL)
    return NULL;
  d = drives_find (&drives, name);
  if (d == NULL) {
    nbdkit_error ("no export is named '%s'; nbdinfo --list shows the %zu there are", name,
                  drives.nr);
    nbdkit_set_error (ENOENT);
    return NULL;
  }
  if (atomic_load (&d->lost)) {
    if (bdev_execute (d->bdev, &probe) == -1) {
      nbdkit_error ("%s: %s", d->name, meaning (d, errno));
      return NULL;
    }
    atomic_store (&d->lost, false);
  }
  return d;
}

/* -- properties -------------------------------------------------------------------- */

static const struct bdev_info *
info_of (void *handle)
{
  return &((struct drive *) handle)->bdev->info;
}

static int64_t
sg_get_size (void *handle)
{
  return (int64_t) info_of (handle)->size_bytes;
}

static const char *
sg_export_description (void *handle)
{
  return ((struct drive *) handle)->description;
}

/* Parts of blocks work too, at the cost of a read first; clients that did that
   themselves could lose each other's bytes.  Only what is written behind a write
   pointer must be whole blocks. */
static int
sg_block_size (void *handle, uint32_t *minimum, uint32_t *preferred, uint32_t *maximum)
{
  const struct drive *d = handle;
  const struct bdev_info *info = info_of (handle);

  *minimum = d->writable && info->model == BDEV_HOST_MANAGED ? info->lbs_bytes : 1;
  *preferred = MIN (MAX (info->pbs_bytes, 4096u), (uint32_t) MiB);
  *maximum = 32 * MiB;
  return 0;
}

static int
sg_is_rotational (void *handle)
{
  return info_of (handle)->rotational;
}

static int
sg_can_write (void *handle)
{
  return ((struct drive *) handle)->writable;
}

static int
sg_can_trim (void *handle)
{
  return sg_can_write (handle) && info_of (handle)->unmap;
}

static int
sg_can_extents (void *handle)
{
  return info_of (handle)->zone_bytes > 0;
}

static int
sg_true (void *handle)
{
  return 1;
}

static int
sg_can_fua (void *handle)
{
  return NBDKIT_FUA_NATIVE;
}

static int
sg_can_cache (void *handle)
{
  return NBDKIT_CACHE_NATIVE;
}

/* -- data --------------------------------------------------------------------------- */

static int
sg_pread (void *handle, void *buf, uint32_t count, uint64_t offset, uint32_t flags)
{
  struct drive *d = handle;

  assert (flags == 0);
  return finish (d, "read", count, offset, drive_read (d, buf, count, offset));
}

static int
sg_pwrite (void *handle, const void *buf, uint32_t count, uint64_t offset, uint32_t flags)
{
  struct drive *d = handle;

  assert (!(flags & ~NBDKIT_FLAG_FUA));
  return finish (d, "write", count, offset,
                 drive_write (d, buf, count, offset, flags & NBDKIT_FLAG_FUA));
}

static int
sg_flush (void *handle, uint32_t flags)
{
  struct drive *d = handle;

  assert (flags == 0);
  return finish (d, "flush", 0, 0, bdev_flush (d->bdev));
}

static int
sg_trim (void *handle, uint32_t count, uint64_t offset, uint32_t flags)
{
  struct drive *d = handle;

  assert (!(flags & ~NBDKIT_FLAG_FUA));
  return finish (d, "trim", count, offset,
                 drive_trim (d, count, offset, flags & NBDKIT_FLAG_FUA));
}

/* ENOTSUP may be the answer to FAST_ZERO alone: to anything else the server
   would fall back to writes, and get them wrong above 64 MiB. */
static int
sg_zero (void *handle, uint32_t count, uint64_t offset, uint32_t flags)
{
  struct drive *d = handle;
  const bool fast = flags & NBDKIT_FLAG_FAST_ZERO;
  const int r = drive_zero (d, count, offset, flags & NBDKIT_FLAG_FUA,
                            flags & NBDKIT_FLAG_MAY_TRIM, fast);

  if (r == -1 && fast && errno == ENOTSUP) {
    nbdkit_set_error (ENOTSUP);
    return -1;
  }
  return finish (d, "zero", count, offset, r);
}

struct extents_walk {
  struct nbdkit_extents *extents;
  bool one;                     /* the client wants the first only */
};

static int
add_extent (void *opaque, uint64_t offset, uint64_t count, bool hole)
{
  const struct extents_walk *w = opaque;
  const uint32_t type = hole ? NBDKIT_EXTENT_HOLE | NBDKIT_EXTENT_ZERO : 0;

  if (nbdkit_add_extent (w->extents, offset, count, type) == -1)
    return -1;
  return w->one;
}

static int
sg_extents (void *handle, uint32_t count, uint64_t offset, uint32_t flags,
            struct nbdkit_extents *extents)
{
  struct drive *d = handle;
  struct extents_walk walk = { extents, flags & NBDKIT_FLAG_REQ_ONE };

  assert (!(flags & ~NBDKIT_FLAG_REQ_ONE));
  return finish (d, "extents", count, offset,
                 drive_extents (d, count, offset, add_extent, &walk));
}

/* The only cache is the drive's own: reading a range brings it in, as far as a
   drive's buffer reaches. */
static int
sg_cache (void *handle, uint32_t count, uint64_t offset, uint32_t flags)
{
  struct drive *d = handle;
  const uint64_t piece = 256 * KiB;
  const uint64_t end = offset + MIN ((uint64_t) count, 16 * MiB);
  char *buf = malloc (piece);
  uint64_t at;
  int r = 0;

  assert (flags == 0);
  if (buf == NULL)
    return finish (d, "cache", count, offset, -1);
  for (at = offset; at < end && r == 0; at += MIN (piece, end - at))
    r = drive_read (d, buf, MIN (piece, end - at), at);
  free (buf);
  return finish (d, "cache", count, offset, r);
}

/* -- end ------------------------------------------------------------------------------ */

static void
show_stats (const struct drive *d)
{
  struct disk_counters c;

  disk_get_counters (d->bdev, &c);
  for (int i = 0; i < DISK_NR_CLASSES; ++i)
    if (c.commands[i])
      nbdkit_debug ("%s: %s: %" PRIu64 " commands", d->name, disk_class_name (i),
                    c.commands[i]);
  nbdkit_debug ("%s: %" PRIu64 " bytes read, %" PRIu64 " written; %" PRIu64 " retries, %"
                PRIu64 " unit attentions, %" PRIu64 " timeouts, %" PRIu64
                " writes settled, %" PRIu64 " failures", d->name, c.read_bytes,
                c.written_bytes, c.retries, c.attentions, c.timeouts, c.settles,
                c.failures);
}

static void
sg_cleanup (void)
{
  for (size_t i = 0; i < drives.nr && sg_debug_stats; ++i)
    show_stats (drives.list[i]);
}

static void
sg_unload (void)
{
  drives_close (&drives);
}

static struct nbdkit_plugin plugin = {
  .name = "sg",
  .longname = "Shingle: SCSI disks as they are",
  .version = PACKAGE_VERSION,
  .description = "Serves a SCSI disk through its SCSI generic node; host-managed zoned "
                 "drives read-only, or raw.",

  .load = sg_load,
  .unload = sg_unload,
  .config = sg_config,
  .config_complete = sg_config_complete,
  .config_help = sg_config_help,
  .magic_config_key = "device",
  .dump_plugin = sg_dump_plugin,

  .get_ready = sg_get_ready,
  .cleanup = sg_cleanup,

  .list_exports = sg_list_exports,
  .default_export = sg_default_export,
  .open = sg_open,

  .get_size = sg_get_size,
  .export_description = sg_export_description,
  .block_size = sg_block_size,
  .is_rotational = sg_is_rotational,
  .can_write = sg_can_write,
  .can_flush = sg_true,
  .can_trim = sg_can_trim,
  .can_zero = sg_can_write,
  .can_fast_zero = sg_can_write,
  .can_extents = sg_can_extents,
  .can_fua = sg_can_fua,
  .can_multi_conn = sg_true,
  .can_cache = sg_can_cache,

  .pread = sg_pread,
  .pwrite = sg_pwrite,
  .flush = sg_flush,
  .trim = sg_trim,
  .zero = sg_zero,
  .extents = sg_extents,
  .cache = sg_cache,
};

NBDKIT_REGISTER_PLUGIN (plugin)
