/* SPDX-License-Identifier: BSD-3-Clause */
/* The sg transport: finding out what a node is, claiming it, its limits. */
#include <config.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <scsi/sg.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>
#include "base/bytes.h"
#include "transport/sg.h"

#define SG_MAJOR 21             /* SCSI generic character devices */
#define LEAST_VERSION 30000     /* SG_IO version 3 */

/* Where the kernel tells no limit. */
#define DEFAULT_SEGMENTS 128
#define DEFAULT_BYTES ((size_t) 512 * KiB)
#define RESERVED_BYTES (128 * KiB)

/* Others look at a new node for a moment (udev); wait that long for it. */
#define BUSY_TRIES 10
#define BUSY_WAIT_MS 100

/* ---- the system ---- */

static int
linux_open (const char *path, int flags)
{
  return open (path, flags);
}

static int
linux_ioctl (int fd, unsigned long request, void *arg)
{
  return ioctl (fd, request, arg);
}

static void
linux_sleep_ms (unsigned ms)
{
  const struct timespec ts = { ms / 1000, ms % 1000 * 1000000l };

  nanosleep (&ts, NULL);
}

static long
linux_read_number (const char *path)
{
  FILE *fp = fopen (path, "re");
  long n;

  if (fp == NULL)
    return -1;
  if (fscanf (fp, "%ld", &n) != 1)
    n = -1;
  fclose (fp);
  return n;
}

static bool
linux_read_line (const char *path, char *line, size_t size)
{
  FILE *fp = fopen (path, "re");
  bool ok;

  if (fp == NULL)
    return false;
  ok = fgets (line, (int) size, fp) != NULL;
  fclose (fp);
  if (ok)
    line[strcspn (line, "\n")] = '\0';
  return ok;
}

static bool
linux_only_entry (const char *dir, char *name, size_t size)
{
  DIR *d = opendir (dir);
  struct dirent *e;
  bool found = false;

  if (d == NULL)
    return false;
  while (!found && (e = readdir (d)) != NULL)
    if (e->d_name[0] != '.')
      found = (size_t) snprintf (name, size, "%s", e->d_name) < size;
  closedir (d);
  return found;
}

const struct sg_sys sg_sys_linux = {
  .open = linux_open,
  .close = close,
  .stat = stat,
  .ioctl = linux_ioctl,
  .flock = flock,
  .sleep_ms = linux_sleep_ms,
  .read_number = linux_read_number,
  .only_entry = linux_only_entry,
  .read_line = linux_read_line,
};
const struct sg_sys *sg_sys = &sg_sys_linux;

/* ---- messages ---- */

static int say (char *message, size_t size, int errnum, const char *fmt, ...)
  __attribute__ ((format (printf, 4, 5)));

static int
say (char *message, size_t size, int errnum, const char *fmt, ...)
{
  va_list ap;

  va_start (ap, fmt);
  vsnprintf (message, size, fmt, ap);
  va_end (ap);
  errno = errnum;
  return -1;
}

static int
say_busy (const char *node, char *message, size_t size)
{
  return say (message, size, EBUSY, "%s is in use: another program has it open, or its "
              "file system is mounted ('fuser -v %s' and 'lsblk' tell)", node, node);
}

static int
say_open_failure (const char *path, int e, char *message, size_t size)
{
  switch (e) {
  case EBUSY:
    return say_busy (path, message, size);
  case EPERM: case EACCES:
    return say (message, size, e, "%s may not be opened by this user: run as root, or "
                "join the group that owns the node", path);
  case ENODEV: case ENXIO:
    return say (message, size, e, "%s has no device behind it any more: it was removed, "
                "or 'modprobe sg' is missing", path);
  default:
    return say (message, size, e, "%s cannot be opened: %s; 'lsscsi -g' lists the nodes of "
                "all SCSI disks", path, strerror (e));
  }
}

/* ---- opening ---- */

static int
access_mode (const struct sg *sg)
{
  return (sg->flags & SH_OPEN_READ_ONLY) ? O_RDONLY : O_RDWR;
}

/* As open, but waits a second for others to go away. */
static int
open_patiently (const char *path, int flags)
{
  int fd = -1;

  for (int i = 0; i < BUSY_TRIES; ++i) {
    fd = sg_sys->open (path, flags | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0 || errno != EBUSY)
      break;
    sg_sys->sleep_ms (BUSY_WAIT_MS);
  }
  return fd;
}

int
sg_node_open_more (const struct sg *sg)
{
  const int fd = sg_sys->open (sg->node, access_mode (sg) | O_NONBLOCK | O_CLOEXEC);
  int reserved = RESERVED_BYTES;

  if (fd >= 0 && !sg->is_block)
    sg_sys->ioctl (fd, SG_SET_RESERVED_SIZE, &reserved);        /* a help, no need */
  return fd;
}

/* The block node of a /dev/sgN: false when it has none (no sd driver). */
static bool
find_block_node (const struct stat *st, char *node, size_t size)
{
  char dir[80], name[64];

  snprintf (dir, sizeof dir, "/sys/dev/char/%u:%u/device/block", major (st->st_rdev),
            minor (st->st_rdev));
  if (!sg_sys->only_entry (dir, name, sizeof name))
    return false;
  snprintf (node, size, "/dev/%s", name);
  return true;
}

/* Nobody may have mounted the drive, or built something on it, when we write
   to it.  An exclusive open of the block node shows, and while it is held
   prevents, that. */
static int
claim_block_node (struct sg *sg, const char *node, char *message, size_t size)
{
  int fd;

  if (sg->flags & SH_OPEN_READ_ONLY && !(sg->flags & SH_OPEN_EXCLUSIVE))
    return 0;
  fd = open_patiently (node, O_RDONLY | O_EXCL);
  if (fd == -1 && errno == EBUSY)
    return say (message, size, EBUSY, "%s is in use: a file system on it is mounted, or "
                "another program or device mapper holds it ('lsblk %s' tells)", node, node);
  if (fd == -1)                 /* no node, no rights: nothing to be claimed */
    return 0;
  if (sg->flags & SH_OPEN_EXCLUSIVE)
    sg->claim_fd = fd;
  else
    sg_sys->close (fd);
  return 0;
}

/* Asks the kernel whether anybody has /dev/sgN open, then opens it for good.
   The exclusive open itself is not kept, since it would allow no further
   descriptor, and with it no more than 16 commands at a time; against others
   like us stands the lock, against mounts the claim on the block node. */
static int
open_exclusively (struct sg *sg, char *message, size_t size)
{
  int fd;

  if (!(sg->flags & SH_OPEN_READ_ONLY)) {       /* O_EXCL wants write access */
    fd = open_patiently (sg->node, O_RDWR | O_EXCL);
    if (fd == -1)
      return say_open_failure (sg->node, errno, message, size);
    sg_sys->close (fd);
  }
  fd = open_patiently (sg->node, access_mode (sg));
  if (fd == -1)
    return say_open_failure (sg->node, errno, message, size);
  if (sg_sys->flock (fd, LOCK_EX | LOCK_NB) == -1 && errno == EWOULDBLOCK) {
    sg_sys->close (fd);
    return say_busy (sg->node, message, size);
  }
  return fd;
}

static int
open_first (struct sg *sg, char *message, size_t size)
{
  int fd;

  if (!sg->is_block && (sg->flags & SH_OPEN_EXCLUSIVE))
    return open_exclusively (sg, message, size);
  fd = open_patiently (sg->node, access_mode (sg));
  if (fd == -1)
    return say_open_failure (sg->node, errno, message, size);
  return fd;
}

static int
check_kind (struct sg *sg, const struct stat *st, char *message, size_t size)
{
  if (S_ISBLK (st->st_mode))
    sg->is_block = true;
  else if (S_ISCHR (st->st_mode) && major (st->st_rdev) == SG_MAJOR)
    sg->is_block = false;
  else
    return say (message, size, ENOTBLK, "%s is neither a SCSI generic node (/dev/sgN) nor "
                "a block device; 'lsscsi -g' lists the nodes of all SCSI disks", sg->node);
  return 0;
}

static int
check_version (struct sg *sg, int fd, char *message, size_t size)
{
  int version = 0;

  if (sg_sys->ioctl (fd, SG_GET_VERSION_NUM, &version) == -1)
    return say (message, size, ENOTSUP, "%s takes no SCSI commands: it is no SCSI disk, or "
                "a partition of one; 'lsscsi -g' lists the nodes of all SCSI disks", sg->node);
  if (version < LEAST_VERSION)
    return say (message, size, ENOTSUP, "%s: the sg driver is too old (version %d, needs "
                "%d)", sg->node, version, LEAST_VERSION);
  return 0;
}

/* ---- limits ---- */

static size_t
most_bytes_of_queue (const struct sg *sg, int fd)
{
  unsigned short sectors = 0;
  int bytes = 0;

  if (sg->is_block) {
    if (sg_sys->ioctl (fd, BLKSECTGET, &sectors) == -1 || sectors == 0)
      return DEFAULT_BYTES;
    return (size_t) sectors * 512;
  }
  if (sg_sys->ioctl (fd, BLKSECTGET, &bytes) == -1 || bytes <= 0)
    return DEFAULT_BYTES;
  return (size_t) bytes;
}

static long
segments_of_queue (const struct sg *sg, const struct stat *st)
{
  char path[160], name[64];

  if (sg->is_block)
    snprintf (path, sizeof path, "/sys/dev/block/%u:%u/queue/max_segments",
              major (st->st_rdev), minor (st->st_rdev));
  else {
    snprintf (path, sizeof path, "/sys/dev/char/%u:%u/device/block",
              major (st->st_rdev), minor (st->st_rdev));
    if (!sg_sys->only_entry (path, name, sizeof name))
      return -1;
    snprintf (path, sizeof path, "/sys/dev/char/%u:%u/device/block/%s/queue/max_segments",
              major (st->st_rdev), minor (st->st_rdev), name);
  }
  return sg_sys->read_number (path);
}

/* The lesser of what the adapter's table and the queue say. */
static int
most_segments (const struct sg *sg, int fd, const struct stat *st)
{
  const long queue = segments_of_queue (sg, st);
  int table = 0;
  long most;

  if (sg_sys->ioctl (fd, SG_GET_SG_TABLESIZE, &table) == -1 || table <= 0)
    table = DEFAULT_SEGMENTS;
  most = queue > 0 ? MIN (queue, (long) table) : table;
  return (int) MAX (most, 2l);
}

/* A buffer that does not begin at a page needs one segment more than it has
   pages, so that one segment is kept back. */
static void
learn_limits (struct sg *sg, int fd, const struct stat *st)
{
  const size_t page = (size_t) sysconf (_SC_PAGESIZE);

  sg->max_segments = most_segments (sg, fd, st);
  sg->max_bytes = MIN (most_bytes_of_queue (sg, fd),
                       (size_t) (sg->max_segments - 1) * page);
}

/* What sysfs calls the wwid of the drive behind a node. */
static void
learn_wwid (const struct stat *st, bool is_block, char *wwid, size_t size)
{
  char path[80];

  snprintf (path, sizeof path, "/sys/dev/%s/%u:%u/device/wwid",
            is_block ? "block" : "char", major (st->st_rdev), minor (st->st_rdev));
  if (!sg_sys->read_line (path, wwid, size))
    wwid[0] = '\0';
}

int
sg_node_open (struct sg *sg, char *message, size_t size)
{
  char block_node[PATH_MAX];
  struct stat st;
  int fd;

  if (sg_sys->stat (sg->node, &st) == -1)
    return say_open_failure (sg->node, errno, message, size);
  if (check_kind (sg, &st, message, size) == -1)
    return -1;
  if (sg->is_block)
    snprintf (block_node, sizeof block_node, "%s", sg->node);
  if ((sg->is_block || find_block_node (&st, block_node, sizeof block_node)) &&
      claim_block_node (sg, block_node, message, size) == -1)
    return -1;
  fd = open_first (sg, message, size);
  if (fd == -1 || check_version (sg, fd, message, size) == -1) {
    const int e = errno;

    if (fd >= 0)
      sg_sys->close (fd);
    sg_node_close (sg);
    errno = e;
    return -1;
  }
  learn_limits (sg, fd, &st);
  learn_wwid (&st, sg->is_block, sg->wwid, sizeof sg->wwid);
  sg->fds[0] = (struct sg_fd) { .fd = fd };
  sg->nr_fds = 1;
  sg->one_fd = sg->is_block;
  return 0;
}

/* ---- a drive that comes back ---- */

/* The kernel numbers its SCSI generic devices from 0 on. */
#define MOST_SG_NUMBERS 1024

/* Sets sg->node to the node, of the same kind, of the drive with this wwid. */
static bool
find_node_of (struct sg *sg, const char *wwid)
{
  char path[80], found[sizeof sg->wwid], name[64];

  for (unsigned n = 0; n < MOST_SG_NUMBERS; ++n) {
    snprintf (path, sizeof path, "/sys/class/scsi_generic/sg%u/device/wwid", n);
    if (!sg_sys->read_line (path, found, sizeof found) || strcmp (found, wwid) != 0)
      continue;
    snprintf (name, sizeof name, "sg%u", n);
    snprintf (path, sizeof path, "/sys/class/scsi_generic/sg%u/device/block", n);
    if (sg->is_block && !sg_sys->only_entry (path, name, sizeof name))
      continue;
    snprintf (sg->node, sizeof sg->node, "/dev/%s", name);
    return true;
  }
  return false;
}

int
sg_node_open_again (struct sg *sg, char *message, size_t size)
{
  char wwid[sizeof sg->wwid];
  int r;

  memcpy (wwid, sg->wwid, sizeof wwid);
  memcpy (sg->node, sg->path, sizeof sg->node);
  r = sg_node_open (sg, message, size);
  if (wwid[0] == '\0' || (r == 0 && strcmp (wwid, sg->wwid) == 0))
    return r;
  if (r == 0) {
    sg_node_close (sg);
    r = say (message, size, ENODEV, "another drive is at %s now (%s instead of %s)",
             sg->path, sg->wwid, wwid);
  }
  if (find_node_of (sg, wwid))
    r = sg_node_open (sg, message, size);
  memcpy (sg->wwid, wwid, sizeof wwid);         /* the one we look for */
  return r;
}

void
sg_node_close (struct sg *sg)
{
  for (unsigned i = 0; i < sg->nr_fds; ++i)
    sg_sys->close (sg->fds[i].fd);
  sg->nr_fds = 0;
  if (sg->claim_fd >= 0)
    sg_sys->close (sg->claim_fd);
  sg->claim_fd = -1;
}
