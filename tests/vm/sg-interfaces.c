/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sg-interfaces NODE DEPTH COUNT BYTES: COUNT reads of BYTES from /dev/sgN, DEPTH
 * at a time, once through SG_IO with a thread each, once through write and read
 * of one thread.  Prints for each the wall time, the processor time and the
 * system calls of a read, and whether the kernel has SG_IOSUBMIT.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <scsi/sg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define DEPTH_MAX 16
#define IOSUBMIT_V3 _IOWR ('\"', 0x45, struct sg_io_hdr)  /* of sg version 4 */

struct slot {
  struct sg_io_hdr h;
  unsigned char cdb[16], sense[64];
  void *buf;
};

static int fd, depth;
static long count, bytes;
static atomic_long next, calls;

static void
die (const char *what)
{
  perror (what);
  exit (1);
}

static void
prepare (struct slot *s, long n)
{
  const unsigned blocks = (unsigned) (bytes / 512);
  const unsigned lba = (unsigned) (n % 1000) * blocks;

  memset (s->cdb, 0, sizeof s->cdb);
  s->cdb[0] = 0x88;
  for (int i = 0; i < 4; ++i) {
    s->cdb[6 + i] = (unsigned char) (lba >> (24 - 8 * i));
    s->cdb[10 + i] = (unsigned char) (blocks >> (24 - 8 * i));
  }
  s->h = (struct sg_io_hdr) {
    .interface_id = 'S', .dxfer_direction = SG_DXFER_FROM_DEV, .cmd_len = 16,
    .mx_sb_len = sizeof s->sense, .dxfer_len = (unsigned) bytes, .dxferp = s->buf,
    .cmdp = s->cdb, .sbp = s->sense, .timeout = 30000, .usr_ptr = s,
    .flags = 0x10,              /* at the tail */
  };
}

static void
good (const struct sg_io_hdr *h)
{
  if (h->info & SG_INFO_CHECK) {
    fprintf (stderr, "a read failed: status %x, host %x\n", h->status, h->host_status);
    exit (1);
  }
}

static void *
one_thread (void *opaque)
{
  struct slot s = { .buf = aligned_alloc (4096, (size_t) bytes) };
  long n;

  while ((n = atomic_fetch_add (&next, 1)) < count) {
    prepare (&s, n);
    if (ioctl (fd, SG_IO, &s.h) == -1)
      die ("SG_IO");
    atomic_fetch_add (&calls, 1);
    good (&s.h);
  }
  free (s.buf);
  return opaque;
}

static void
by_threads (void)
{
  pthread_t t[DEPTH_MAX];

  for (int i = 0; i < depth; ++i)
    if ((errno = pthread_create (&t[i], NULL, one_thread, NULL)) != 0)
      die ("pthread_create");
  for (int i = 0; i < depth; ++i)
    pthread_join (t[i], NULL);
}

static void
submit (struct slot *s, long n)
{
  prepare (s, n);
  if (write (fd, &s->h, sizeof s->h) != sizeof s->h)
    die ("write");
  atomic_fetch_add (&calls, 1);
}

static void
by_write_and_read (void)
{
  struct slot s[DEPTH_MAX];
  struct pollfd p = { .fd = fd, .events = POLLIN };
  long sent, done = 0;

  for (sent = 0; sent < depth && sent < count; ++sent) {
    s[sent].buf = aligned_alloc (4096, (size_t) bytes);
    submit (&s[sent], sent);
  }
  while (done < count) {
    struct sg_io_hdr h = { .interface_id = 'S', .pack_id = -1 };

    atomic_fetch_add (&calls, 1);
    if (read (fd, &h, sizeof h) == -1) {
      if (errno != EAGAIN)
        die ("read");
      atomic_fetch_add (&calls, 1);
      if (poll (&p, 1, -1) == -1)
        die ("poll");
      continue;
    }
    good (&h);
    ++done;
    if (sent < count)
      submit (h.usr_ptr, sent++);
  }
  for (int i = 0; i < depth; ++i)
    free (s[i].buf);
}

static double
seconds (const struct timeval *t)
{
  return (double) t->tv_sec + (double) t->tv_usec / 1e6;
}

static void
measure (const char *name, void (*fn) (void))
{
  struct rusage before, after;
  struct timespec a, b;
  double wall, cpu;

  atomic_store (&next, 0);
  atomic_store (&calls, 0);
  getrusage (RUSAGE_SELF, &before);
  clock_gettime (CLOCK_MONOTONIC, &a);
  fn ();
  clock_gettime (CLOCK_MONOTONIC, &b);
  getrusage (RUSAGE_SELF, &after);
  wall = (double) (b.tv_sec - a.tv_sec) + (double) (b.tv_nsec - a.tv_nsec) / 1e9;
  cpu = seconds (&after.ru_utime) + seconds (&after.ru_stime) - seconds (&before.ru_utime) -
        seconds (&before.ru_stime);
  printf ("%-16s depth %2d, %7ld bytes: %8.1f us wall, %8.1f us processor, %5.2f system calls "
          "a read\n", name, depth, bytes, wall * 1e6 / (double) count,
          cpu * 1e6 / (double) count, (double) atomic_load (&calls) / (double) count);
}

int
main (int argc, char **argv)
{
  struct slot s = { .buf = NULL };

  if (argc != 5)
    return 2;
  depth = atoi (argv[2]);
  count = atol (argv[3]);
  bytes = atol (argv[4]);
  fd = open (argv[1], O_RDWR | O_NONBLOCK);
  if (fd == -1)
    die (argv[1]);
  if (depth < 1 || depth > DEPTH_MAX || count < depth || bytes < 512)
    return 2;
  s.buf = aligned_alloc (4096, (size_t) bytes);
  prepare (&s, 0);
  printf ("SG_IOSUBMIT: %s\n", ioctl (fd, IOSUBMIT_V3, &s.h) == 0 ? "there" : strerror (errno));
  close (fd);
  fd = open (argv[1], O_RDWR | O_NONBLOCK);
  for (int round = 0; round < 3; ++round) {
    measure ("SG_IO, threads", by_threads);
    measure ("write and read", by_write_and_read);
  }
  return 0;
}
