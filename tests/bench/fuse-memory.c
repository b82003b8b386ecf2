/* SPDX-License-Identifier: BSD-3-Clause */
/* The FUSE front end of `shingle mount` on memory, or on nothing at all, in
 * the foreground.  Prints "ready" when it serves.
 *
 * Usage: fuse-memory memory|nothing|NBD-URI SIZE-IN-MIB MOUNTPOINT [cache] [clone]
 *        [threads=N] [options=FUSE-OPTIONS]
 */
#include <config.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend-memory.h"
#include "base/bytes.h"
#include "base/error.h"
#include "front.h"
#include "stack/opstats.h"
#include "stack/served.h"

static struct front *front;

static void
on_signal (int signum)
{
  front_stop (front);
}

static void
on_ready (void *opaque)
{
  puts ("ready");
  fflush (stdout);
}

static int
open_backend (const char *kind, uint64_t size, struct backend **b, struct sh_error *err)
{
  const struct backend_nbd_options options = { .uri = kind };

  if (strcmp (kind, "memory") == 0)
    return backend_memory_open (size, b, err);
  if (strcmp (kind, "nothing") == 0)
    return backend_nothing_open (size, b, err);
  return backend_nbd_open (&options, b, err);
}

static void
parse (struct front_options *options, int argc, char **argv)
{
  int i;

  for (i = 4; i < argc; ++i) {
    if (strcmp (argv[i], "cache") == 0)
      options->cache = true;
    else if (strcmp (argv[i], "clone") == 0)
      options->clone_fd = true;
    else if (strncmp (argv[i], "threads=", 8) == 0)
      options->threads = atoi (argv[i] + 8);
    else if (strncmp (argv[i], "options=", 8) == 0)
      options->fuse_options = argv[i] + 8;
    else {
      fprintf (stderr, "fuse-memory: unknown option %s\n", argv[i]);
      exit (EXIT_FAILURE);
    }
  }
}

int
main (int argc, char **argv)
{
  struct front_options options = { .source = "fuse-memory" };
  struct sh_error err = { 0 };
  struct served served = { .name = "memory", .opstats = opstats_new () };
  struct backend *b;

  if (argc < 4) {
    fprintf (stderr, "usage: fuse-memory memory|nothing|URI SIZE-IN-MIB MOUNTPOINT ...\n");
    return EXIT_FAILURE;
  }
  parse (&options, argc, argv);
  if (!served.opstats
      || open_backend (argv[1], strtoull (argv[2], NULL, 10) * MiB, &b, &err) == -1
      || backend_start (b, &err) == -1
      || front_new (&options, &b, &served, 1, &front, &err) == -1
      || front_mount (front, argv[3], &err) == -1) {
    fprintf (stderr, "fuse-memory: %s\n", err.message);
    return EXIT_FAILURE;
  }
  signal (SIGTERM, on_signal);
  signal (SIGINT, on_signal);
  if (front_run (front, on_ready, NULL, &err) == -1) {
    fprintf (stderr, "fuse-memory: %s\n", err.message);
    _Exit (EXIT_FAILURE);
  }
  front_free (front);
  if (backend_close (b, &err) == -1) {
    fprintf (stderr, "fuse-memory: %s\n", err.message);
    return EXIT_FAILURE;
  }
  opstats_free (served.opstats);
  return EXIT_SUCCESS;
}
