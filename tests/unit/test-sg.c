/* SPDX-License-Identifier: BSD-3-Clause */
/* core/transport: the sg transport on a kernel that is played here: SG_IO's
 * results, limits, claims, a removed drive.  The real kernel's turn is in
 * tests/vm. */
#include <config.h>
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <pthread.h>
#include <scsi/sg.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include "base/bytes.h"
#include "base/error.h"
#include "scsi/cdb.h"
#include "scsi/disk.h"
#include "transport/sg.h"
#include "transport/transport.h"

/* ---- the kernel ---- */

#define MAX_FDS 64

static struct {
  /* What there is. */
  bool is_block, no_node, not_scsi;
  int version;
  int max_sectors_bytes;        /* BLKSECTGET; 0: not known */
  int tablesize;
  long queue_segments;          /* sysfs; 0: no file */
  bool has_block_node;
  int open_errnum, excl_errnum, block_errnum;
  int busy_tries;               /* so many opens answer EBUSY first */
  bool locked;
  const char *wwid;             /* of the drive at every node */
  const char *gone_path;        /* no such node */
  unsigned number;              /* of its /dev/sgN in sysfs */

  /* What SG_IO answers. */
  int io_errnum;
  struct sg_io_hdr answer;      /* its out members */
  uint8_t sense[252];
  pthread_mutex_t lock;
  pthread_cond_t cond;
  bool hold;                    /* commands stay until this is cleared */

  /* What happened. */
  bool open[MAX_FDS];
  unsigned inflight[MAX_FDS], most[MAX_FDS], nr_open, opens, waiting, all, most_all;
  int flags[MAX_FDS];
  char path[MAX_FDS][64];
  struct sg_io_hdr last;
  uint8_t last_cdb[32];
  unsigned slept_ms, ios;
  sigset_t mask;                /* during the last SG_IO */
  bool (*each) (struct sg_io_hdr *h);   /* fills the answer; false: io_errnum */
} k;

static int
k_open (const char *path, int flags)
{
  const bool block = strncmp (path, "/dev/sd", 7) == 0 || k.is_block;
  const int e = block && !k.is_block ? k.block_errnum :
                (flags & O_EXCL) ? k.excl_errnum : k.open_errnum;

  if (k.busy_tries > 0) {
    --k.busy_tries;
    errno = EBUSY;
    return -1;
  }
  if (e) {
    errno = e;
    return -1;
  }
  for (int fd = 0; fd < MAX_FDS; ++fd)
    if (!k.open[fd]) {
      k.open[fd] = true;
      k.flags[fd] = flags;
      snprintf (k.path[fd], sizeof k.path[fd], "%s", path);
      ++k.nr_open;
      ++k.opens;
      return fd;
    }
  abort ();
}

static int
k_close (int fd)
{
  ck_assert (k.open[fd]);
  k.open[fd] = false;
  --k.nr_open;
  return 0;
}

static int
k_stat (const char *path, struct stat *st)
{
  memset (st, 0, sizeof *st);
  if (k.no_node || (k.gone_path && strcmp (path, k.gone_path) == 0)) {
    errno = ENOENT;
    return -1;
  }
  st->st_mode = k.is_block ? S_IFBLK : S_IFCHR;
  st->st_rdev = k.is_block ? makedev (8, 0) : makedev (21, 3);
  if (strcmp (path, "/dev/other") == 0)
    st->st_rdev = makedev (1, 3);
  return 0;
}

static int
k_sg_io (int fd, struct sg_io_hdr *h)
{
  bool ok = k.io_errnum == 0;

  pthread_mutex_lock (&k.lock);
  ck_assert (k.open[fd]);
  ++k.ios;
  ++k.inflight[fd];
  ++k.all;
  k.most[fd] = MAX (k.most[fd], k.inflight[fd]);
  k.most_all = MAX (k.most_all, k.all);
  k.last = *h;
  memcpy (k.last_cdb, h->cmdp, h->cmd_len);
  pthread_sigmask (SIG_SETMASK, NULL, &k.mask);
  pthread_cond_broadcast (&k.cond);
  while (k.hold)
    pthread_cond_wait (&k.cond, &k.lock);
  ok = k.io_errnum == 0;
  if (k.each)
    ok = k.each (h);
  else if (ok) {
    h->status = k.answer.status;
    h->host_status = k.answer.host_status;
    h->driver_status = k.answer.driver_status;
    h->resid = k.answer.resid;
    h->sb_len_wr = k.answer.sb_len_wr;
    memcpy (h->sbp, k.sense, MIN (h->mx_sb_len, k.answer.sb_len_wr));
  }
  --k.inflight[fd];
  --k.all;
  pthread_mutex_unlock (&k.lock);
  if (!ok)
    errno = k.io_errnum;
  return ok ? 0 : -1;
}

static int
k_ioctl (int fd, unsigned long request, void *arg)
{
  switch (request) {
  case SG_IO:
    return k_sg_io (fd, arg);
  case SG_GET_VERSION_NUM:
    errno = ENOTTY;
    if (k.not_scsi)
      return -1;
    *(int *) arg = k.version;
    return 0;
  case BLKSECTGET:
    errno = ENOTTY;
    if (k.max_sectors_bytes == 0)
      return -1;
    if (k.is_block)
      *(unsigned short *) arg = (unsigned short) (k.max_sectors_bytes / 512);
    else
      *(int *) arg = k.max_sectors_bytes;
    return 0;
  case SG_GET_SG_TABLESIZE:
    *(int *) arg = k.tablesize;
    return 0;
  case SG_SET_RESERVED_SIZE:
    return 0;
  default:
    errno = ENOTTY;
    return -1;
  }
}

static int
k_flock (int fd, int operation)
{
  errno = EWOULDBLOCK;
  return k.locked ? -1 : 0;
}

static void
k_sleep_ms (unsigned ms)
{
  k.slept_ms += ms;
}

static long
k_read_number (const char *path)
{
  ck_assert_ptr_nonnull (strstr (path, "/queue/max_segments"));
  return k.queue_segments > 0 ? k.queue_segments : -1;
}

static bool
k_only_entry (const char *dir, char *name, size_t size)
{
  ck_assert_ptr_nonnull (strstr (dir, "/device/block"));
  snprintf (name, size, "sdx");
  return k.has_block_node;
}

static bool
k_read_line (const char *path, char *line, size_t size)
{
  char of_number[80];

  snprintf (of_number, sizeof of_number, "/sys/class/scsi_generic/sg%u/device/wwid", k.number);
  if (k.wwid == NULL || (strncmp (path, "/sys/class", 10) == 0 && strcmp (path, of_number) != 0))
    return false;
  snprintf (line, size, "%s", k.wwid);
  return true;
}

static const struct sg_sys kernel = {
  k_open, k_close, k_stat, k_ioctl, k_flock, k_sleep_ms, k_read_number, k_only_entry,
  k_read_line,
};

static void
boot (void)
{
  memset (&k, 0, sizeof k);
  pthread_mutex_init (&k.lock, NULL);
  pthread_cond_init (&k.cond, NULL);
  k.version = 30536;
  k.max_sectors_bytes = 512 * KiB;
  k.tablesize = 2048;
  k.has_block_node = true;
  sg_sys = &kernel;
}

/* ---- helpers ---- */

static void *
open_flags (const char *path, unsigned flags)
{
  char message[512] = "";
  void *h;

  ck_assert_msg (sg_transport.open (path, flags, &h, message, sizeof message) == 0, "%s",
                 message);
  return h;
}

static void
refused (const char *path, unsigned flags, int errnum, const char *part)
{
  char message[512] = "";
  void *h;

  ck_assert_int_eq (sg_transport.open (path, flags, &h, message, sizeof message), -1);
  ck_assert_msg (errno == errnum, "%s: %s", strerrorname_np (errno), message);
  ck_assert_msg (strstr (message, part), "'%s' does not say '%s'", message, part);
  ck_assert_uint_eq (k.nr_open, 0);
}

static struct sh_command
reading (const struct iovec *iov, int iovcnt, size_t len)
{
  struct sh_command c = { .xfer = SH_XFER_FROM_DEVICE, .iov = iov, .iovcnt = iovcnt,
                          .data_len = len, .timeout_ms = 30000 };

  cdb_read (&c, RW_16, 7, 8);
  return c;
}

/* ---- one command ---- */

START_TEST (a_command_is_handed_over_whole)
{
  char buf[4096];
  struct iovec iov = { buf, sizeof buf };
  struct sh_command c = reading (&iov, 1, sizeof buf);
  sigset_t now;
  void *h;

  boot ();
  h = open_flags ("/dev/sg3", 0);
  ck_assert_int_eq (sg_transport.execute (h, &c), 0);
  ck_assert_int_eq (k.last.interface_id, 'S');
  ck_assert_int_eq (k.last.dxfer_direction, SG_DXFER_FROM_DEV);
  ck_assert_int_eq (k.last.cmd_len, 16);
  ck_assert_mem_eq (k.last_cdb, c.cdb, 16);
  ck_assert_uint_eq (k.last.dxfer_len, sizeof buf);
  ck_assert_ptr_eq (k.last.dxferp, buf);
  ck_assert_int_eq (k.last.iovec_count, 0);
  ck_assert_uint_eq (k.last.timeout, 30000);
  ck_assert_uint_ge (k.last.mx_sb_len, 96);
  /* behind those that wait, and never with the caller's pages pinned */
  ck_assert_uint_eq (k.last.flags, 0x10);
  ck_assert (sigismember (&k.mask, SIGTERM) && sigismember (&k.mask, SIGALRM));
  pthread_sigmask (SIG_SETMASK, NULL, &now);
  ck_assert (!sigismember (&now, SIGTERM));
  sg_transport.close (h);
  ck_assert_uint_eq (k.nr_open, 0);
}
END_TEST

START_TEST (directions_and_scattered_data)
{
  char a[512], b[1024];
  struct iovec iov[2] = { { a, 512 }, { b, 1024 } };
  struct sh_command c = reading (iov, 2, 1536);
  void *h;

  boot ();
  h = open_flags ("/dev/sg3", 0);
  ck_assert_int_eq (sg_transport.execute (h, &c), 0);
  ck_assert_int_eq (k.last.iovec_count, 2);
  ck_assert_ptr_eq (k.last.dxferp, iov);
  c.xfer = SH_XFER_TO_DEVICE;
  ck_assert_int_eq (sg_transport.execute (h, &c), 0);
  ck_assert_int_eq (k.last.dxfer_direction, SG_DXFER_TO_DEV);
  c.xfer = SH_XFER_NONE;
  c.iov = NULL;
  c.iovcnt = 0;
  c.data_len = 0;
  ck_assert_int_eq (sg_transport.execute (h, &c), 0);
  ck_assert_int_eq (k.last.dxfer_direction, SG_DXFER_NONE);
  ck_assert_ptr_null (k.last.dxferp);
  /* a READ of no length has no data phase either */
  c.xfer = SH_XFER_FROM_DEVICE;
  ck_assert_int_eq (sg_transport.execute (h, &c), 0);
  ck_assert_int_eq (k.last.dxfer_direction, SG_DXFER_NONE);
  sg_transport.close (h);
}
END_TEST

START_TEST (statuses_sense_and_residuals_come_back)
{
  static const struct { unsigned status, host, driver; uint8_t told_status, told_host; } t[] = {
    { 0x00, 0, 0, 0x00, 0 }, { 0x02, 0, 8, 0x02, 0 }, { 0x28, 0, 0, 0x28, 0 },
    { 0x00, 3, 0, 0x00, 3 }, { 0x00, 0x0e, 0, 0x00, 0x0e }, { 0x00, 0, 6, 0x00, 3 },
    { 0x00, 0, 1, 0x00, 2 }, { 0x00, 0, 7, 0x00, 7 }, { 0x02, 5, 8, 0x02, 5 },
    { 0x00, 0x1ff, 0, 0x00, 0xff },
  };
  char buf[4096];
  struct iovec iov = { buf, sizeof buf };
  void *h;

  boot ();
  h = open_flags ("/dev/sg3", 0);
  for (size_t i = 0; i < ARRAY_SIZE (t); ++i) {
    struct sh_command c = reading (&iov, 1, sizeof buf);

    k.answer = (struct sg_io_hdr) { .status = (unsigned char) t[i].status,
                                    .host_status = (unsigned short) t[i].host,
                                    .driver_status = (unsigned short) t[i].driver,
                                    .resid = 512, .sb_len_wr = 18 };
    memset (k.sense, 0x5a, sizeof k.sense);
    ck_assert_int_eq (sg_transport.execute (h, &c), 0);
    ck_assert_int_eq (c.status, t[i].told_status);
    ck_assert_int_eq (c.host_status, t[i].told_host);
    ck_assert_uint_eq (c.resid, 512);
    ck_assert_uint_eq (c.sense_len, 18);
    ck_assert_int_eq (c.sense[17], 0x5a);
  }
  k.answer = (struct sg_io_hdr) { .resid = -5 };
  for (int i = 0; i < 2; ++i) {
    struct sh_command c = reading (&iov, 1, sizeof buf);

    ck_assert_int_eq (sg_transport.execute (h, &c), 0);
    ck_assert_uint_eq (c.resid, i == 0 ? 0 : sizeof buf);
    k.answer.resid = 1000000;
  }
  sg_transport.close (h);
}
END_TEST

START_TEST (errors_of_the_ioctl_are_handed_on)
{
  static const int errors[] = { ENOMEM, EPERM, EDOM, EAGAIN, EBUSY, EINVAL, EINTR, ENXIO, EIO };
  struct iovec iov = { NULL, 0 };
  void *h;

  boot ();
  h = open_flags ("/dev/sg3", 0);
  for (size_t i = 0; i < ARRAY_SIZE (errors); ++i) {
    struct sh_command c = reading (&iov, 1, 0);

    k.io_errnum = errors[i];
    ck_assert_int_eq (sg_transport.execute (h, &c), -1);
    ck_assert_int_eq (errno, errors[i]);
  }
  /* none of them closed the node */
  k.io_errnum = 0;
  {
    struct sh_command c = reading (&iov, 1, 0);

    ck_assert_int_eq (sg_transport.execute (h, &c), 0);
  }
  sg_transport.close (h);
}
END_TEST

/* ---- limits ---- */

START_TEST (transfer_limits_are_the_least_of_all_that_is_known)
{
  static const struct { bool block; int sectors_bytes, table; long queue; size_t most; } t[] = {
    { false, 512 * KiB, 169, 169, 512 * KiB },          /* by max_sectors */
    { true, 512 * KiB, 169, 169, 512 * KiB },
    { false, 4 * MiB, 128, 0, 127 * 4096 },             /* a page is kept back */
    { false, 4 * MiB, 128, 33, 32 * 4096 },             /* the queue has fewer */
    { false, 4 * MiB, 2048, 0, 4 * MiB },
    { false, 0, 0, 0, 127 * 4096 },                     /* nothing known */
    { true, 0, 2048, 0, 512 * KiB },
    { false, 8 * MiB, 1, 1, 4096 },
  };

  for (size_t i = 0; i < ARRAY_SIZE (t); ++i) {
    struct sh_transport_limits limits = { 0 };
    void *h;

    boot ();
    k.is_block = t[i].block;
    k.max_sectors_bytes = t[i].sectors_bytes;
    k.tablesize = t[i].table;
    k.queue_segments = t[i].queue;
    h = open_flags (t[i].block ? "/dev/sdx" : "/dev/disk/by-id/link", 0);
    sg_transport.limits (h, &limits);
    ck_assert_uint_eq (limits.max_transfer_bytes, t[i].most);
    sg_transport.close (h);
  }
}
END_TEST

/* A buffer that begins inside a page, of the greatest length: one segment more
   than it has pages, and there is one. */
START_TEST (unaligned_buffers_of_full_length_fit_the_segments)
{
  struct sh_transport_limits limits = { 0 };
  char *buf;
  struct iovec iov;
  struct sh_command c;
  void *h;

  boot ();
  k.is_block = true;
  k.max_sectors_bytes = 4 * MiB;
  k.tablesize = 16;
  h = open_flags ("/dev/sdx", 0);
  sg_transport.limits (h, &limits);
  ck_assert_uint_eq (limits.max_transfer_bytes, 15 * 4096);
  buf = aligned_alloc (4096, 17 * 4096);
  iov = (struct iovec) { buf + 512, limits.max_transfer_bytes };
  c = reading (&iov, 1, iov.iov_len);
  ck_assert_int_eq (sg_transport.execute (h, &c), 0);
  ck_assert_ptr_eq (k.last.dxferp, buf + 512);
  free (buf);
  sg_transport.close (h);
}
END_TEST

static bool
fill_data (struct sg_io_hdr *h)
{
  ck_assert_int_eq (h->iovec_count, 0);
  if (h->dxfer_direction == SG_DXFER_FROM_DEV)
    for (unsigned i = 0; i < h->dxfer_len; ++i)
      ((uint8_t *) h->dxferp)[i] = (uint8_t) (i % 251);
  else
    for (unsigned i = 0; i < h->dxfer_len; ++i)
      ck_assert_int_eq (((uint8_t *) h->dxferp)[i], i % 251);
  return true;
}

START_TEST (too_many_segments_go_through_one_buffer)
{
  uint8_t data[64 * 64];
  struct iovec iov[64];
  struct sh_command c;
  void *h;

  boot ();
  k.is_block = true;
  k.tablesize = 16;
  k.each = fill_data;
  h = open_flags ("/dev/sdx", 0);
  for (int i = 0; i < 64; ++i)
    iov[i] = (struct iovec) { data + 64 * i, 64 };
  c = reading (iov, 64, sizeof data);
  ck_assert_int_eq (sg_transport.execute (h, &c), 0);
  for (size_t i = 0; i < sizeof data; ++i)
    if (data[i] != i % 251)
      ck_abort_msg ("byte %zu", i);
  c.xfer = SH_XFER_TO_DEVICE;
  ck_assert_int_eq (sg_transport.execute (h, &c), 0);
  sg_transport.close (h);
}
END_TEST

/* ---- opening ---- */

START_TEST (what_is_no_scsi_disk_is_refused)
{
  boot ();
  refused ("/dev/other", 0, ENOTBLK, "neither a SCSI generic node");
  k.not_scsi = true;
  refused ("/dev/sg3", 0, ENOTSUP, "takes no SCSI commands");
  k.not_scsi = false;
  k.version = 20000;
  refused ("/dev/sg3", 0, ENOTSUP, "too old");
  k.version = 30536;
  k.open_errnum = EACCES;
  refused ("/dev/sg3", SH_OPEN_READ_ONLY, EACCES, "run as root");
  k.open_errnum = ENXIO;
  refused ("/dev/sg3", 0, ENXIO, "no device behind it");
  k.no_node = true;
  refused ("/dev/sg3", 0, ENOENT, "cannot be opened");
}
END_TEST

START_TEST (a_drive_in_use_is_not_opened_for_writing)
{
  boot ();
  k.excl_errnum = EBUSY;
  refused ("/dev/sg3", SH_OPEN_EXCLUSIVE, EBUSY, "/dev/sg3 is in use");
  ck_assert_uint_ge (k.slept_ms, 500);  /* others may be on their way out */
  boot ();
  k.locked = true;
  refused ("/dev/sg3", SH_OPEN_EXCLUSIVE, EBUSY, "/dev/sg3 is in use");
  /* a file system on the block node of the same drive */
  for (unsigned flags = 0; flags <= SH_OPEN_EXCLUSIVE; flags += SH_OPEN_EXCLUSIVE) {
    boot ();
    k.block_errnum = EBUSY;
    refused ("/dev/sg3", flags, EBUSY, "/dev/sdx is in use: a file system");
  }
  boot ();
  k.is_block = true;
  k.excl_errnum = EBUSY;
  refused ("/dev/sdy", 0, EBUSY, "/dev/sdy is in use: a file system");
  /* reading harms nobody */
  boot ();
  k.block_errnum = k.excl_errnum = EBUSY;
  k.locked = true;
  sg_transport.close (open_flags ("/dev/sg3", SH_OPEN_READ_ONLY));
}
END_TEST

START_TEST (a_node_that_is_looked_at_for_a_moment_is_waited_for)
{
  boot ();
  k.busy_tries = 3;
  sg_transport.close (open_flags ("/dev/sg3", SH_OPEN_EXCLUSIVE));
  ck_assert_uint_eq (k.slept_ms, 300);
}
END_TEST

START_TEST (the_claim_on_the_block_node_is_held_while_open)
{
  bool held = false;
  void *h;

  boot ();
  h = open_flags ("/dev/sg3", SH_OPEN_EXCLUSIVE);
  for (int fd = 0; fd < MAX_FDS; ++fd)
    held |= k.open[fd] && strcmp (k.path[fd], "/dev/sdx") == 0 && (k.flags[fd] & O_EXCL);
  ck_assert (held);
  sg_transport.close (h);
  ck_assert_uint_eq (k.nr_open, 0);
}
END_TEST

START_TEST (read_only_opens_read_only)
{
  void *h;

  boot ();
  h = open_flags ("/dev/sg3", SH_OPEN_READ_ONLY | SH_OPEN_EXCLUSIVE);
  for (int fd = 0; fd < MAX_FDS; ++fd)
    if (k.open[fd])
      ck_assert_int_eq (k.flags[fd] & O_ACCMODE, O_RDONLY);
  sg_transport.close (h);
}
END_TEST

/* ---- many at once ---- */

struct worker { void *h; int result, errnum; };

static void *
run_one (void *opaque)
{
  struct worker *w = opaque;
  char buf[512];
  struct iovec iov = { buf, sizeof buf };
  struct sh_command c = reading (&iov, 1, sizeof buf);

  w->result = sg_transport.execute (w->h, &c);
  w->errnum = errno;
  return NULL;
}

static void
wait_for_inflight (unsigned n)
{
  pthread_mutex_lock (&k.lock);
  while (k.all < n)
    pthread_cond_wait (&k.cond, &k.lock);
  pthread_mutex_unlock (&k.lock);
}

static void
release (void)
{
  pthread_mutex_lock (&k.lock);
  k.hold = false;
  pthread_cond_broadcast (&k.cond);
  pthread_mutex_unlock (&k.lock);
}

#define MANY 160

static void
run_many (void *h, unsigned n, unsigned expect_inflight, struct worker *w)
{
  pthread_t threads[MANY];

  k.hold = true;
  for (unsigned i = 0; i < n; ++i) {
    w[i].h = h;
    pthread_create (&threads[i], NULL, run_one, &w[i]);
  }
  wait_for_inflight (expect_inflight);
  release ();
  for (unsigned i = 0; i < n; ++i)
    pthread_join (threads[i], NULL);
}

START_TEST (more_commands_than_a_descriptor_takes_share_several)
{
  struct worker w[MANY];
  void *h;

  boot ();
  h = open_flags ("/dev/sg3", 0);
  run_many (h, MANY, 128, w);
  for (unsigned i = 0; i < MANY; ++i)
    ck_assert_int_eq (w[i].result, 0);
  for (int fd = 0; fd < MAX_FDS; ++fd)
    ck_assert_uint_le (k.most[fd], 16);
  ck_assert_uint_eq (k.most_all, 128);
  ck_assert_uint_eq (k.ios, MANY);
  sg_transport.close (h);
}
END_TEST

/* A second open fails: 16 in flight, the others wait, none fails. */
START_TEST (with_one_descriptor_the_rest_waits)
{
  struct worker w[64];
  void *h;

  boot ();
  h = open_flags ("/dev/sg3", 0);
  k.open_errnum = EMFILE;
  run_many (h, 64, 16, w);
  for (unsigned i = 0; i < 64; ++i)
    ck_assert_int_eq (w[i].result, 0);
  ck_assert_uint_eq (k.most_all, 16);
  sg_transport.close (h);
}
END_TEST

START_TEST (a_block_node_takes_any_number_on_one_descriptor)
{
  struct worker w[64];
  void *h;

  boot ();
  k.is_block = true;
  h = open_flags ("/dev/sdx", 0);
  run_many (h, 64, 64, w);
  ck_assert_uint_eq (k.most_all, 64);
  ck_assert_uint_eq (k.nr_open, 1);
  sg_transport.close (h);
}
END_TEST

/* ---- a drive that goes away and comes back ---- */

START_TEST (removal_ends_every_command_once_and_frees_the_node)
{
  struct worker w[100];
  char message[256];
  void *h;

  boot ();
  h = open_flags ("/dev/sg3", SH_OPEN_EXCLUSIVE);
  k.open_errnum = EMFILE;       /* so that some wait for a place */
  k.io_errnum = ENODEV;
  run_many (h, 100, 16, w);
  for (unsigned i = 0; i < 100; ++i) {
    ck_assert_int_eq (w[i].result, -1);
    ck_assert_int_eq (w[i].errnum, ENODEV);
  }
  ck_assert_uint_eq (k.nr_open, 0);     /* or the number could not come back */
  ck_assert_int_eq (sg_transport.reopen (h, message, sizeof message), -1);
  k.open_errnum = k.io_errnum = 0;
  ck_assert_int_eq (sg_transport.reopen (h, message, sizeof message), 0);
  run_many (h, 20, 20, w);
  for (unsigned i = 0; i < 20; ++i)
    ck_assert_int_eq (w[i].result, 0);
  sg_transport.close (h);
  ck_assert_uint_eq (k.nr_open, 0);
}
END_TEST

static void
lose (void *h)
{
  struct worker w = { .h = h };

  k.io_errnum = ENODEV;
  run_one (&w);
  ck_assert_int_eq (w.errnum, ENODEV);
  ck_assert_uint_eq (k.nr_open, 0);
  k.io_errnum = 0;
}

/* It was idle when it was removed, so that its number was still in use when it
   came back: it has another one now. */
START_TEST (a_drive_that_comes_back_under_another_number_is_found)
{
  char message[256] = "";
  struct sg *sg;
  void *h;

  boot ();
  k.wwid = "naa.5001020304050607";
  h = open_flags ("/dev/sg3", SH_OPEN_EXCLUSIVE);
  sg = h;
  lose (h);
  k.no_node = true;             /* no node of the old name */
  k.number = 5;
  ck_assert_int_eq (sg_transport.reopen (h, message, sizeof message), -1);
  k.wwid = NULL;                /* no drive at all */
  k.no_node = false;
  k.open_errnum = k.excl_errnum = ENXIO;
  ck_assert_int_eq (sg_transport.reopen (h, message, sizeof message), -1);
  k.open_errnum = k.excl_errnum = 0;
  k.wwid = "naa.another";
  ck_assert_int_eq (sg_transport.reopen (h, message, sizeof message), -1);
  ck_assert_int_eq (errno, ENODEV);
  ck_assert_ptr_nonnull (strstr (message, "another drive is at /dev/sg3"));
  ck_assert_uint_eq (k.nr_open, 0);
  k.wwid = "naa.5001020304050607";
  ck_assert_int_eq (sg_transport.reopen (h, message, sizeof message), 0);
  ck_assert_str_eq (sg->node, "/dev/sg3");      /* the old name does it again */
  lose (h);
  k.gone_path = "/dev/sg3";
  ck_assert_msg (sg_transport.reopen (h, message, sizeof message) == 0, "%s", message);
  ck_assert_str_eq (sg->node, "/dev/sg5");
  sg_transport.close (h);
}
END_TEST

START_TEST (nothing_is_reopened_while_commands_are_out)
{
  struct worker slow;
  char message[256] = "";
  pthread_t thread;
  struct sg *sg;
  void *h;

  boot ();
  h = open_flags ("/dev/sg3", 0);
  sg = h;
  k.hold = true;
  slow.h = h;
  pthread_create (&thread, NULL, run_one, &slow);
  wait_for_inflight (1);
  pthread_mutex_lock (&sg->lock);
  sg->dead = true;              /* another command has come back with ENODEV */
  pthread_mutex_unlock (&sg->lock);
  ck_assert_int_eq (sg_transport.reopen (h, message, sizeof message), -1);
  ck_assert_int_eq (errno, EBUSY);
  ck_assert_ptr_nonnull (strstr (message, "still on their way"));
  ck_assert_uint_eq (k.nr_open, 1);
  release ();
  pthread_join (thread, NULL);
  ck_assert_uint_eq (k.nr_open, 0);
  ck_assert_int_eq (sg_transport.reopen (h, message, sizeof message), 0);
  sg_transport.close (h);
}
END_TEST

START_TEST (device_names_reach_the_transport)
{
  struct transport t;
  struct sh_error err = { 0 };

  boot ();
  ck_assert_int_eq (transport_open ("sg:/dev/sg3", 0, &t, &err), 0);
  ck_assert_ptr_eq (t.ops, &sg_transport);
  ck_assert_str_eq (t.name, "sg:/dev/sg3");
  transport_close (&t);
  k.excl_errnum = EBUSY;
  ck_assert_int_eq (transport_open ("sg:/dev/sg3", SH_OPEN_EXCLUSIVE, &t, &err), -1);
  ck_assert_int_eq (err.errnum, EBUSY);
  ck_assert_ptr_nonnull (strstr (err.message, "/dev/sg3 is in use"));
}
END_TEST

static void
add_tests (TCase *tcase)
{
  tcase_add_test (tcase, a_command_is_handed_over_whole);
  tcase_add_test (tcase, directions_and_scattered_data);
  tcase_add_test (tcase, statuses_sense_and_residuals_come_back);
  tcase_add_test (tcase, errors_of_the_ioctl_are_handed_on);
  tcase_add_test (tcase, transfer_limits_are_the_least_of_all_that_is_known);
  tcase_add_test (tcase, unaligned_buffers_of_full_length_fit_the_segments);
  tcase_add_test (tcase, too_many_segments_go_through_one_buffer);
  tcase_add_test (tcase, what_is_no_scsi_disk_is_refused);
  tcase_add_test (tcase, a_drive_in_use_is_not_opened_for_writing);
  tcase_add_test (tcase, a_node_that_is_looked_at_for_a_moment_is_waited_for);
  tcase_add_test (tcase, the_claim_on_the_block_node_is_held_while_open);
  tcase_add_test (tcase, read_only_opens_read_only);
  tcase_add_test (tcase, more_commands_than_a_descriptor_takes_share_several);
  tcase_add_test (tcase, with_one_descriptor_the_rest_waits);
  tcase_add_test (tcase, a_block_node_takes_any_number_on_one_descriptor);
  tcase_add_test (tcase, removal_ends_every_command_once_and_frees_the_node);
  tcase_add_test (tcase, a_drive_that_comes_back_under_another_number_is_found);
  tcase_add_test (tcase, nothing_is_reopened_while_commands_are_out);
  tcase_add_test (tcase, device_names_reach_the_transport);
}

int
main (void)
{
  Suite *suite = suite_create ("sg");
  TCase *tcase = tcase_create ("sg");
  SRunner *runner;
  int failed;

  add_tests (tcase);
  suite_add_tcase (suite, tcase);
  runner = srunner_create (suite);
  srunner_run_all (runner, CK_ENV);
  failed = srunner_ntests_failed (runner);
  srunner_free (runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
