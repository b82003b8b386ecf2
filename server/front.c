/* SPDX-License-Identifier: BSD-3-Clause */
#include "front-internal.h"

#include <config.h>
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/error.h"
#include "front.h"
#include "front-loop.h"

#define BUSY_TICK_MS 2
#define IDLE_TICK_MS 100

/* SLOT_DATA_BYTES as a mount option; op_init repeats it. */
#define MAX_READ "1048576"
static_assert (SLOT_DATA_BYTES == 1048576, "see MAX_READ");

int
front_new (const struct front_options *options, struct backend **backends,
           const struct served *served, unsigned nr_backends, struct front **front,
           struct sh_error *err)
{
  struct front *f;

  if (nr_backends == 0 || nr_backends > FRONT_MAX_BACKENDS)
    return sh_fail (err, EINVAL, "a mount shows 1 to %d volumes, not %u",
                    FRONT_MAX_BACKENDS, nr_backends);
  f = calloc (1, sizeof *f);
  if (!f)
    return sh_fail (err, ENOMEM, "no memory");
  f->wake_fd = eventfd (0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (f->wake_fd == -1) {
    sh_fail (err, errno, "eventfd: %s", strerror (errno));
    free (f);
    return -1;
  }
  f->options = *options;
  memcpy (f->backends, backends, nr_backends * sizeof *backends);
  f->nr_backends = nr_backends;
  f->served = served;
  f->uid = geteuid ();
  f->gid = getegid ();
  clock_gettime (CLOCK_REALTIME, &f->started);
  slot_pool_init (&f->slots);
  *front = f;
  return 0;
}

static int
make_session (struct front *f, struct sh_error *err)
{
  struct fuse_args args = FUSE_ARGS_INIT (0, NULL);
  char *mount_options = NULL;
  int r = fuse_opt_add_arg (&args, "shingle");

  if (r == 0)
    r = fuse_opt_add_opt (&mount_options, f->options.read_only ? "ro" : "rw");
  if (r == 0)
    r = fuse_opt_add_opt (&mount_options, "default_permissions,subtype=shingle,"
                          "max_read=" MAX_READ);
  if (r == 0 && f->options.source) {
    char *source;

    if (asprintf (&source, "fsname=%s", f->options.source) == -1)
      r = -1;
    else {
      r = fuse_opt_add_opt_escaped (&mount_options, source);
      free (source);
    }
  }
  if (r == 0 && f->options.fuse_options && f->options.fuse_options[0] != '\0')
    r = fuse_opt_add_opt (&mount_options, f->options.fuse_options);
  if (r == 0)
    r = fuse_opt_add_arg (&args, "-o");
  if (r == 0)
    r = fuse_opt_add_arg (&args, mount_options);
  free (mount_options);
  if (r == 0)
    f->se = fuse_session_new (&args, &front_ops, sizeof front_ops, f);
  fuse_opt_free_args (&args);
  if (r != 0)
    return sh_fail (err, ENOMEM, "no memory for the mount options");
  if (!f->se)
    return sh_fail (err, EINVAL, "libfuse refused the mount options");
  return 0;
}

/* Asks the file system itself: the kernel's memory of a file outlives the server
   that it came from. */
static int
probe_mountpoint (const char *mountpoint, struct statx *st, struct sh_error *err)
{
  if (statx (AT_FDCWD, mountpoint, AT_STATX_FORCE_SYNC, STATX_BASIC_STATS, st) == -1) {
    sh_fail (err, errno, "%s: %s", mountpoint, strerror (errno));
    if (errno == ENOTCONN)
      return sh_hint (err, "a server that has died left its mount there; type: "
                      "fusermount3 -u '%s'", mountpoint);
    return sh_hint (err, "make an empty file or a folder there first, for example: "
                    "mkdir '%s'", mountpoint);
  }
  return 0;
}

int
front_check_mountpoint (const char *mountpoint, struct sh_error *err)
{
  struct statx st;

  return probe_mountpoint (mountpoint, &st, err);
}

static int
check_mountpoint (const struct front *f, const char *mountpoint, bool *is_file,
                  struct sh_error *err)
{
  struct statx st;

  if (probe_mountpoint (mountpoint, &st, err) == -1)
    return -1;
  if (!S_ISREG (st.stx_mode) && !S_ISDIR (st.stx_mode)) {
    sh_fail (err, ENOTDIR, "%s is neither a regular file nor a folder", mountpoint);
    return sh_hint (err, "mount over an empty file (the volume appears as that file) "
                    "or a folder (the volume appears in it)");
  }
  *is_file = S_ISREG (st.stx_mode);
  if (*is_file && f->nr_backends > 1) {
    sh_fail (err, ENOTDIR, "%s is a file, but there are %u volumes to show",
             mountpoint, f->nr_backends);
    return sh_hint (err, "several volumes need a folder to appear in");
  }
  return 0;
}

int
front_mount (struct front *f, const char *mountpoint, struct sh_error *err)
{
  bool is_file;

  if (check_mountpoint (f, mountpoint, &is_file, err) == -1
      || front_tree_build (f, is_file, err) == -1
      || make_session (f, err) == -1)
    return -1;
  if (fuse_session_mount (f->se, mountpoint) != 0) {
    sh_fail (err, EIO, "%s: mounting failed (libfuse has printed why)", mountpoint);
    return sh_hint (err, "'shingle doctor' says what FUSE needs on this machine");
  }
  f->mounted = true;
  return 0;
}

static void
drain_wake (struct front *f)
{
  uint64_t n;

  if (read (f->wake_fd, &n, sizeof n) == -1)
    return;
}

int
front_run (struct front *f, void (*ready) (void *opaque), void *opaque,
           struct sh_error *err)
{
  bool told = false, active = false, stop_wanted;

  if (loop_start (f, err) == -1)
    return -1;
  while (!atomic_load (&f->stopping) && !loop_ended (f)) {
    struct pollfd p = { .fd = f->wake_fd, .events = POLLIN };

    if (poll (&p, 1, active ? BUSY_TICK_MS : IDLE_TICK_MS) == 1)
      drain_wake (f);
    if (!told && atomic_load (&f->initialised) && !fuse_session_exited (f->se)) {
      told = true;
      ready (opaque);
    }
    active = loop_tick (f);
  }
  stop_wanted = atomic_load (&f->stopping);
  if (!loop_finish (f))
    return sh_fail (err, ETIMEDOUT, "requests are stuck below; gave up waiting for them");
  if (!told && !stop_wanted)
    return sh_fail (err, EPROTO, "libfuse and the kernel did not agree on how to talk");
  return 0;
}

void
front_stop (struct front *f)
{
  const uint64_t one = 1;

  atomic_store (&f->stopping, true);
  if (write (f->wake_fd, &one, sizeof one) == -1)
    return;                     /* the counter is full: awake anyway */
}

void
front_free (struct front *f)
{
  loop_free (f);
  if (f->mounted)
    fuse_session_unmount (f->se);
  if (f->se)
    fuse_session_destroy (f->se);
  slot_pool_destroy (&f->slots);
  free (f->nodes);
  close (f->wake_fd);
  free (f);
}
