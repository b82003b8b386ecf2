/* SPDX-License-Identifier: BSD-3-Clause */
/* How long it takes to open a volume, what it reads for that, and what it keeps in
 * memory, also after random reads and writes all over it.
 *
 * Usage: volume-load DEVICE [REQUESTS]
 */
#include <config.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "shingle/volume.h"
#include "stack/stack.h"

static struct sh_error err;

static int
failed (void)
{
  fprintf (stderr, "volume-load: %s\n", err.message[0] ? err.message : strerror (errno));
  return EXIT_FAILURE;
}

/* A line of /proc/self/status, in KiB. */
static unsigned long
status_kib (const char *name)
{
  FILE *const f = fopen ("/proc/self/status", "r");
  unsigned long value = 0;
  char line[256];

  if (f == NULL)
    return 0;
  while (fgets (line, sizeof line, f) != NULL)
    if (strncmp (line, name, strlen (name)) == 0)
      value = strtoul (line + strlen (name), NULL, 10);
  fclose (f);
  return value;
}

static int
use (struct sh_volume *v, unsigned long requests)
{
  static uint8_t buf[4096] __attribute__ ((aligned (4096)));
  const uint64_t blocks = sh_volume_size (v) / sizeof buf;
  uint64_t x = 88172645463325252u;
  unsigned long i;

  for (i = 0; i < requests; ++i) {
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    if (sh_volume_pread (v, buf, sizeof buf, x % blocks * sizeof buf, 0) == -1)
      return -1;
    if (i % 64 == 0 &&
        sh_volume_pwrite (v, buf, sizeof buf, x % 64 * sizeof buf, 0, 0) == -1)
      return -1;
  }
  return 0;
}

int
main (int argc, char *argv[])
{
  struct stack_options o;
  struct sh_volume *v;
  struct bdev *bdev;
  uint64_t begin, opened;
  unsigned long rss;

  if (argc < 2)
    return EXIT_FAILURE;
  stack_options_init (&o);
  if (stack_open_device (argv[1], &o, &bdev, &err) == -1)
    return failed ();
  begin = sh_now (&sh_clock_monotonic);
  if (sh_volume_open (bdev, &o.volume, &v, &err) == -1 || sh_volume_start (v, &err) == -1)
    return failed ();
  opened = sh_now (&sh_clock_monotonic);
  rss = status_kib ("VmRSS:");
  if (use (v, argc > 2 ? strtoul (argv[2], NULL, 10) : 20000) == -1)
    return failed ();
  printf ("load %7.1f ms, resident %6.1f MiB, after random requests %6.1f MiB\n",
          (opened - begin) / 1e6, rss / 1024., status_kib ("VmRSS:") / 1024.);
  fflush (stdout);
  _exit (0);
}
