/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What core/scsi costs on its own: 4 KiB reads through a disk on a transport
 * that does nothing.  Prints nanoseconds a read: median and best of the rounds.
 *
 * Usage: disk-path [READS-A-ROUND [ROUNDS]]
 * Instructions: valgrind --tool=callgrind --toggle-collect='reads' disk-path 100000 1
 */
#include <config.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/bdev.h"
#include "base/clock.h"
#include "base/error.h"
#include "scsi/cdb.h"
#include "scsi/disk.h"
#include "unit/fake-drive.h"

static struct fake_drive *drive;
static struct sh_transport_ops ops;     /* the fake drive's while it is opened */
static int (*fake_execute) (void *handle, struct sh_command *c);

/* Everything but reads goes to the fake drive, so that the disk opens. */
static int
execute (void *handle, struct sh_command *c)
{
  if (c->cdb[0] == OP_READ_16)
    return null_transport.execute (handle, c);
  return fake_execute (handle, c);
}

static struct bdev *
open_disk (void)
{
  const struct disk_options options = { .read_only = false };
  struct sh_error err = { 0 };
  struct transport t;
  struct bdev *bdev;

  drive = fake_new (512, 16, 2048, 4);
  fake_transport (drive, &t);
  ops = *t.ops;
  fake_execute = ops.execute;
  ops.execute = execute;
  t.ops = &ops;
  if (disk_open (&t, &options, &bdev, &err) == -1) {
    fprintf (stderr, "%s\n", err.message);
    exit (EXIT_FAILURE);
  }
  return bdev;
}

__attribute__ ((noinline)) static void
reads (struct bdev *bdev, unsigned long n)
{
  static char buf[4096];

  for (unsigned long i = 0; i < n; ++i)
    if (bdev_read (bdev, buf, sizeof buf, i % 4096 * 4096) == -1)
      abort ();
}

static int
compare (const void *a, const void *b)
{
  const double x = *(const double *) a, y = *(const double *) b;

  return (x > y) - (x < y);
}

int
main (int argc, char **argv)
{
  const unsigned long n = argc > 1 ? strtoul (argv[1], NULL, 0) : 1000000;
  const unsigned rounds = argc > 2 ? (unsigned) strtoul (argv[2], NULL, 0) : 9;
  double *ns = calloc (rounds ? rounds : 1, sizeof *ns);
  struct bdev *bdev = open_disk ();

  if (ns == NULL || rounds == 0 || n == 0)
    return EXIT_FAILURE;
  for (unsigned r = 0; r < rounds; ++r) {
    const uint64_t start = sh_now (&sh_clock_monotonic);

    reads (bdev, n);
    ns[r] = (double) (sh_now (&sh_clock_monotonic) - start) / (double) n;
  }
  qsort (ns, rounds, sizeof *ns, compare);
  printf ("4 KiB read through core/scsi, nothing below: median %.0f ns, best %.0f ns "
          "(%u rounds of %lu)\n", ns[rounds / 2], ns[0], rounds, n);
  bdev_close (bdev);
  fake_free (drive);
  free (ns);
  return EXIT_SUCCESS;
}
