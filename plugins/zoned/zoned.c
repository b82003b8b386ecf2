/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nbdkit plugin `zoned`: host-managed drives as ordinary disks.  This file
 * speaks nbdkit; the volume is in core/.  Callbacks stand in the order of
 * their life: options, start, connection, properties, data, end.
 */
#include <config.h>
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <netdb.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "exports.h"
#include "server-options.h"
#include "mq/mq.h"
#include "stack/control.h"
#include "stack/served.h"

#define THREAD_MODEL NBDKIT_THREAD_MODEL_PARALLEL

/* -D zoned.io=1: a line for every request.  -D zoned.stats=1: what the
   volumes did, at the end. */
NBDKIT_DLL_PUBLIC int zoned_debug_io;
NBDKIT_DLL_PUBLIC int zoned_debug_stats;

static struct exports exports;
static struct stack_options options;
static struct served_set served_set;    /* what the control socket tells of */
static struct control *control;         /* NULL: no control= */
static char *control_path;

struct handle {
  struct export *e;
  unsigned hint;                /* number of this connection */
  unsigned epoch;               /* sh_volume_epoch when it was opened */
  unsigned client;              /* its place in e->opstats */
};

/* A request of a client, for counters and messages. */
struct request {
  const char *what;
  int op;                       /* enum opstat_op; -1: not counted */
  uint64_t count;
  uint64_t offset;
  uint64_t start_ns;
};

static struct request
begin (const char *what, int op, uint64_t count, uint64_t offset)
{
  return (struct request) {
    .what = what, .op = op, .count = count, .offset = offset,
    .start_ns = sh_now (&sh_clock_monotonic),
  };
}

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

static void
report_error (const struct sh_error *err)
{
  if (err->hint[0])
    nbdkit_error ("%s\n%s", err->message, err->hint);
  else
    nbdkit_error ("%s", err->message);
}

/* A drive that fails answers thousands of requests a second: the log gets the
   first lines of every ten seconds and the number of the others. */
static bool
may_report (uint64_t *left_out)
{
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  static uint64_t window_start_ns, unreported;
  static unsigned lines;
  const uint64_t now = sh_now (&sh_clock_monotonic);
  bool may;

  *left_out = 0;
  pthread_mutex_lock (&lock);
  if (window_start_ns == 0 || now - window_start_ns > 10 * NS_PER_S) {
    window_start_ns = now;
    lines = 0;
    *left_out = unreported;
    unreported = 0;
  }
  may = lines < 20;
  if (may)
    ++lines;
  else
    ++unreported;
  pthread_mutex_unlock (&lock);
  return may;
}

/* The codes that NBD can carry; the rest would reach the client as EINVAL. */
static int
wire_error (int errnum)
{
  switch (errnum) {
  case EPERM: case EROFS: return EPERM;
  case ENOMEM: return ENOMEM;
  case ENOSPC: case EFBIG: case EDQUOT: return ENOSPC;
  case EINVAL: return EINVAL;
  case ESHUTDOWN: return ESHUTDOWN;
  default: return EIO;
  }
}

/* A client from before a loss (shingle/volume.h) gets errors until it connects anew. */
static bool
is_stale (const struct handle *h)
{
  return __builtin_expect (sh_volume_epoch (h->e->volume) != h->epoch, 0);
}

/* The end of every data callback: `r` and errno as the volume left them. */
static int
finish (const struct handle *h, const struct request *req, int r)
{
  const bool stale = r == 0 && is_stale (h);
  const int errnum = stale ? EIO : errno;
  uint64_t left_out;

  if (stale)
    r = -1;
  if (req->op >= 0)
    opstats_record (h->e->opstats, h->client, (enum opstat_op) req->op, req->count,
                    sh_now (&sh_clock_monotonic) - req->start_ns, r == -1);
  if (zoned_debug_io)
    nbdkit_debug ("%s: %s of %" PRIu64 " at %" PRIu64 ": %s", h->e->name, req->what,
                  req->count, req->offset, r == -1 ? strerror (errnum) : "done");
  if (r != -1)
    return 0;
  if (may_report (&left_out)) {
    if (left_out)
      nbdkit_error ("%" PRIu64 " more requests failed since", left_out);
    nbdkit_error ("%s: %s of %" PRIu64 " bytes at offset %" PRIu64 " failed: %s",
                  h->e->name, req->what, req->count, req->offset,
                  stale ? "the drive was away, and writes that this client had not "
                          "flushed may be lost: it must connect again"
                        : strerror (errnum));
  }
  nbdkit_set_error (wire_error (errnum));
  return -1;
}

/* -- options ------------------------------------------------------------------- */

static char config_help[8192];

static void
zoned_load (void)
{
  stack_options_init (&options);
  options.volume.log = &log_hook;
  options.queue = true;
  snprintf (config_help, sizeof config_help, "%s%s%s",
            "device=DEVICE (required)  /dev/sgN, emu:FILE or NAME:ARGS; may come again\n"
            "export=NAME               name of the device= before it (default: its label)\n",
            STACK_OPTIONS_HELP, mq_options_help);
}

static int
zoned_config (const char *key, const char *value)
{
  struct sh_error err;
  int r;

  sh_error_clear (&err);
  if (strcmp (key, "device") == 0)
    r = exports_add (&exports, value, &err);
  else if (strcmp (key, "export") == 0)
    r = exports_name_last (&exports, value, &err);
  else {
    r = stack_option (&options, key, value, &err);
    if (r == 0)
      sh_fail (&err, EINVAL, "unknown option '%s'; nbdkit zoned --help lists them", key);
    r = r == 1 ? 0 : -1;
  }
  if (r == -1)
    report_error (&err);
  return r;
}

static int
zoned_config_complete (void)
{
  struct sh_error err;

  sh_error_clear (&err);
  if (exports.nr == 0) {
    nbdkit_error ("no drive is named: nbdkit zoned DEVICE, where DEVICE is /dev/sgN "
                  "or emu:FILE");
    return -1;
  }
  if (stack_options_check (&options, &err) == -1) {
    report_error (&err);
    return -1;
  }
  if (options.format && server_is_read_only ()) {
    nbdkit_error ("format=true contradicts nbdkit's option -r");
    return -1;
  }
  return 0;
}

static void
zoned_dump_plugin (void)
{
  printf ("shingle_version=%s\n", PACKAGE_VERSION);
  printf ("zoned_metadata_versions=1 2\n");
  printf ("zoned_transports=sg emu loadable\n");
}

/* -- start: errors still reach the terminal, the folder is still the user's ------ */

static void
report_close (const struct export *e, const struct sh_error *err)
{
  nbdkit_error ("%s: %s", e->name ? e->name : e->device, err->message);
}

static struct json_object *
queue_stats (void *mq)
{
  return mq_dump (mq, true);
}

/* What the control socket tells of. */
static int
list_served (struct sh_error *err)
{
  struct served *list = calloc (exports.nr, sizeof *list);
  size_t i;

  if (list == NULL)
    return sh_fail (err, ENOMEM, "no memory");
  for (i = 0; i < exports.nr; ++i) {
    struct export *e = exports.list[i];

    list[i] = (struct served) {
      .name = e->name,
      .device = e->device,
      .size_bytes = sh_volume_size (e->volume),
      .volume = e->volume,
      .opstats = e->opstats,
      .mq_stats = queue_stats,
      .mq = e->mq,
      .nr_hwqs = mq_nr_hwqs (e->mq),
    };
  }
  served_set = (struct served_set) { list, (unsigned) exports.nr };
  return 0;
}

/* The path is made absolute: the socket is removed at the end, from "/". */
static int
open_control (struct sh_error *err)
{
  if (options.mq.control[0] == '\0')
    return 0;
  control_path = nbdkit_absolute_path (options.mq.control);
  if (control_path == NULL)
    return sh_fail (err, errno, "control=%s: %s", options.mq.control, strerror (errno));
  return control_open (control_path, served_answer, &served_set, &log_hook, &control, err);
}

/* In the reverse order of opening; whatever is not open is left out. */
static void
close_all (void)
{
  control_close (control);
  control = NULL;
  free (control_path);
  control_path = NULL;
  free ((void *) served_set.list);
  served_set = (struct served_set) { 0 };
  exports_close (&exports, report_close);
  stack_close_tagset (&options);
}

static int
zoned_get_ready (void)
{
  struct sh_error err;

  sh_error_clear (&err);
  if (stack_open_tagset (&options, &err) == 0 &&
      exports_open (&exports, &options, &err) == 0 && list_served (&err) == 0 &&
      open_control (&err) == 0)
    return 0;
  report_error (&err);
  close_all ();
  return -1;
}

static int
zoned_after_fork (void)
{
  struct sh_error err;

  /* The kernel may be a client that waits for us to write its dirty pages:
     memory that we need must not wait for those.  Inherited by the threads
     that follow; allowed to root alone, which is where it matters. */
#ifdef PR_SET_IO_FLUSHER
  prctl (PR_SET_IO_FLUSHER, 1, 0, 0, 0);
#endif
  sh_error_clear (&err);
  if (exports_start (&exports, &err) == 0 &&
      (control == NULL || control_start (control, &err) == 0))
    return 0;
  report_error (&err);
  return -1;
}

/* -- connection ------------------------------------------------------------------ */

static int
zoned_list_exports (int readonly, int is_tls, struct nbdkit_exports *list)
{
  size_t i;

  for (i = 0; i < exports.nr; ++i)
    if (nbdkit_add_export (list, exports.list[i]->name,
                           exports.list[i]->description) == -1)
      return -1;
  return 0;
}

static const char *
zoned_default_export (int readonly, int is_tls)
{
  return exports.list[0]->name;
}

/* "pid 4711" on a unix socket, "192.0.2.7:40000" on TCP. */
static void
client_name (char name[64])
{
  struct sockaddr_storage addr;
  socklen_t len = sizeof addr;
  char host[40], port[8];

  snprintf (name, 64, "client");
  if (nbdkit_peer_name ((struct sockaddr *) &addr, &len) == -1)
    return;
  if (addr.ss_family == AF_UNIX)
    snprintf (name, 64, "pid %" PRIi64, nbdkit_peer_pid ());
  else if (getnameinfo ((struct sockaddr *) &addr, len, host, sizeof host, port,
                        sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) == 0)
    snprintf (name, 64, "%s:%s", host, port);
}

static void *
zoned_open (int readonly)
{
  char client[64];
  const char *name = nbdkit_export_name ();
  struct handle *h;

  if (name == NULL)
    return NULL;
  h = calloc (1, sizeof *h);
  if (h == NULL) {
    nbdkit_error ("no memory");
    return NULL;
  }
  h->e = exports_find (&exports, name);
  if (h->e == NULL) {
    nbdkit_error ("no export is named '%s'; nbdinfo --list shows the %zu there are",
                  name, exports.nr);
    nbdkit_set_error (ENOENT);
    free (h);
    return NULL;
  }
  h->hint = atomic_fetch_add (&h->e->connections, 1);
  h->epoch = sh_volume_epoch (h->e->volume);
  client_name (client);
  h->client = opstats_client_begin (h->e->opstats, client);
  return h;
}

static void
zoned_close (void *handle)
{
  struct handle *h = handle;

  opstats_client_end (h->e->opstats, h->client);
  free (handle);
}

/* -- properties -------------------------------------------------------------------- */

static int64_t
zoned_get_size (void *handle)
{
  const struct handle *h = handle;
  const uint64_t size = sh_volume_size (h->e->volume);

  assert (size <= INT64_MAX);
  return (int64_t) size;
}

static const char *
zoned_export_description (void *handle)
{
  const struct handle *h = handle;

  return h->e->description;
}

/* Any byte range works.  The volume maps 4096 bytes: smaller writes cost a read
   first.  A larger minimum would leave that to the clients, of whom two could lose
   each other's bytes. */
static int
zoned_block_size (void *handle, uint32_t *minimum, uint32_t *preferred,
                  uint32_t *maximum)
{
  *minimum = 1;
  *preferred = 4096;
  *maximum = 32 * MiB;
  return 0;
}

static int
zoned_is_rotational (void *handle)
{
  const struct handle *h = handle;

  return h->e->info.rotational;
}

static int
zoned_can_write (void *handle)
{
  const struct handle *h = handle;

  return !h->e->read_only;
}

static int
zoned_true (void *handle)
{
  return 1;
}

static int
zoned_can_fua (void *handle)
{
  return NBDKIT_FUA_NATIVE;
}

static int
zoned_can_cache (void *handle)
{
  return NBDKIT_CACHE_NATIVE;
}

/* -- data --------------------------------------------------------------------------- */

static unsigned
volume_flags (uint32_t flags)
{
  assert (!(flags & ~(NBDKIT_FLAG_FUA | NBDKIT_FLAG_MAY_TRIM | NBDKIT_FLAG_FAST_ZERO)));
  return (flags & NBDKIT_FLAG_FUA ? SH_FUA : 0) |
         (flags & NBDKIT_FLAG_MAY_TRIM ? SH_MAY_TRIM : 0) |
         (flags & NBDKIT_FLAG_FAST_ZERO ? SH_FAST : 0);
}

static int
zoned_pread (void *handle, void *buf, uint32_t count, uint64_t offset, uint32_t flags)
{
  const struct handle *h = handle;
  const struct request req = begin ("read", OPSTAT_READ, count, offset);

  assert (flags == 0);
  return finish (h, &req,
                 sh_volume_pread (h->e->volume, buf, count, offset, h->hint));
}

static int
zoned_pwrite (void *handle, const void *buf, uint32_t count, uint64_t offset,
              uint32_t flags)
{
  const struct handle *h = handle;
  const struct request req = begin ("write", OPSTAT_WRITE, count, offset);

  return finish (h, &req,
                 sh_volume_pwrite (h->e->volume, buf, count, offset,
                                   volume_flags (flags), h->hint));
}

static int
zoned_flush (void *handle, uint32_t flags)
{
  const struct handle *h = handle;
  const struct request req = begin ("flush", OPSTAT_FLUSH, 0, 0);

  assert (flags == 0);
  return finish (h, &req, sh_volume_flush (h->e->volume));
}

static int
zoned_trim (void *handle, uint32_t count, uint64_t offset, uint32_t flags)
{
  const struct handle *h = handle;
  const struct request req = begin ("trim", OPSTAT_TRIM, count, offset);

  return finish (h, &req,
                 sh_volume_trim (h->e->volume, count, offset, volume_flags (flags)));
}

/* ENOTSUP may be the answer to FAST_ZERO alone: to anything else the server
   would fall back to writes, and get them wrong above 64 MiB. */
static int
zoned_zero (void *handle, uint32_t count, uint64_t offset, uint32_t flags)
{
  const struct handle *h = handle;
  const struct request req = begin ("zero", OPSTAT_ZERO, count, offset);
  const int r = sh_volume_zero (h->e->volume, count, offset, volume_flags (flags));

  if (r == -1 && errno == ENOTSUP && flags & NBDKIT_FLAG_FAST_ZERO) {
    nbdkit_set_error (ENOTSUP);
    return -1;
  }
  return finish (h, &req, r);
}

struct extents_walk {
  struct nbdkit_extents *extents;
  uint64_t end;                 /* of the asked range; nothing beyond is told */
  bool one;                     /* the client wants the first only */
};

static int
add_extent (void *opaque, uint64_t offset, uint64_t length, bool hole)
{
  const struct extents_walk *w = opaque;
  const uint32_t type = hole ? NBDKIT_EXTENT_HOLE | NBDKIT_EXTENT_ZERO : 0;

  if (offset >= w->end)
    return 1;
  if (nbdkit_add_extent (w->extents, offset, MIN (length, w->end - offset), type) == -1)
    return -1;
  return w->one;
}

static int
zoned_extents (void *handle, uint32_t count, uint64_t offset, uint32_t flags,
               struct nbdkit_extents *extents)
{
  const struct handle *h = handle;
  const struct request req = begin ("extents", -1, count, offset);
  struct extents_walk walk = {
    .extents = extents,
    .end = offset + count,
    .one = flags & NBDKIT_FLAG_REQ_ONE,
  };

  assert (!(flags & ~NBDKIT_FLAG_REQ_ONE));
  return finish (h, &req,
                 sh_volume_extents (h->e->volume, count, offset, add_extent, &walk));
}

/* The only cache is the drive's own: reading a range brings it in, as far as a
   drive's buffer reaches. */
static int
zoned_cache (void *handle, uint32_t count, uint64_t offset, uint32_t flags)
{
  const struct handle *h = handle;
  const struct request req = begin ("cache", -1, count, offset);
  const size_t piece = 256 * KiB;
  uint64_t left = MIN (count, 16 * MiB);
  char *buf = malloc (piece);
  int r = 0;

  assert (flags == 0);
  if (buf == NULL) {
    errno = ENOMEM;
    return finish (h, &req, -1);
  }
  while (left > 0 && r == 0) {
    const size_t n = MIN (left, piece);

    r = sh_volume_pread (h->e->volume, buf, n, offset, h->hint);
    offset += n;
    left -= n;
  }
  r = finish (h, &req, r);
  free (buf);
  return r;
}

/* -- end ------------------------------------------------------------------------------ */

static void
show_stats (const struct export *e)
{
  struct sh_volume_stats s;

  sh_volume_get_stats (e->volume, &s);
  nbdkit_debug ("%s: %" PRIu64 " reads (%" PRIu64 " bytes), %" PRIu64 " writes (%" PRIu64
                " bytes: %" PRIu64 " direct, %" PRIu64 " in place, %" PRIu64
                " buffered), %" PRIu64 " trims, %" PRIu64 " zeroes, %" PRIu64 " flushes",
                e->name, s.reads, s.read_bytes, s.writes, s.written_bytes, s.direct_bytes,
                s.in_place_bytes, s.buffered_bytes, s.trims, s.zeroes, s.flushes);
  nbdkit_debug ("%s: %" PRIu64 " commits, %" PRIu64 " reclaim cycles (%" PRIu64
                " bytes), %" PRIu64 " zone resets, %" PRIu64 " waits for space, %" PRIu64
                " probes, %" PRIu64 " errors",
                e->name, s.commits, s.reclaim_cycles, s.reclaim_written_bytes,
                s.zone_resets, s.space_waits, s.probes, s.errors);
}

static void
zoned_cleanup (void)
{
  size_t i;

  if (zoned_debug_stats)
    for (i = 0; i < exports.nr; ++i)
      show_stats (exports.list[i]);
  close_all ();
}

/* Starts that end before after_fork do not pass cleanup. */
static void
zoned_unload (void)
{
  close_all ();
}

static struct nbdkit_plugin plugin = {
  .name = "zoned",
  .longname = "Shingle: host-managed zoned drives as ordinary disks",
  .version = PACKAGE_VERSION,
  .description = "Serves a host-managed zoned (SMR) drive as an ordinary disk, "
                 "compatible with Linux dm-zoned.",

  .load = zoned_load,
  .config = zoned_config,
  .config_complete = zoned_config_complete,
  .config_help = config_help,
  .magic_config_key = "device",
  .dump_plugin = zoned_dump_plugin,

  .get_ready = zoned_get_ready,
  .after_fork = zoned_after_fork,

  .list_exports = zoned_list_exports,
  .default_export = zoned_default_export,
  .open = zoned_open,
  .close = zoned_close,

  .get_size = zoned_get_size,
  .export_description = zoned_export_description,
  .block_size = zoned_block_size,
  .is_rotational = zoned_is_rotational,
  .can_write = zoned_can_write,
  .can_flush = zoned_true,
  .can_trim = zoned_true,
  .can_zero = zoned_true,
  .can_fast_zero = zoned_true,
  .can_extents = zoned_true,
  .can_fua = zoned_can_fua,
  .can_multi_conn = zoned_true,
  .can_cache = zoned_can_cache,

  .pread = zoned_pread,
  .pwrite = zoned_pwrite,
  .flush = zoned_flush,
  .trim = zoned_trim,
  .zero = zoned_zero,
  .extents = zoned_extents,
  .cache = zoned_cache,

  .cleanup = zoned_cleanup,
  .unload = zoned_unload,
};

NBDKIT_REGISTER_PLUGIN (plugin)
