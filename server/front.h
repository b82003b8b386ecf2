/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The FUSE front end: shows backends as files.
 *
 * Life: front_new, front_mount, front_run (returns when the file system was
 * unmounted, or after front_stop), front_free.  The backends stay the
 * caller's; they are started before front_run and closed after front_free.
 *
 * Threads: front_run starts loop threads that read requests from the kernel,
 * each with a slot of its own (slots.h).  No lock is held while a backend
 * works or an answer is written.
 */
#ifndef SERVER_FRONT_H
#define SERVER_FRONT_H

#include <stdbool.h>

#include "backend.h"
#include "base/log.h"

struct front;
struct served;

struct front_options {
  bool read_only;
  bool cache;                   /* use the kernel's page cache */
  bool clone_fd;                /* a descriptor of /dev/fuse for each thread */
  unsigned threads;             /* most loop threads; 0: default */
  const char *fuse_options;     /* for libfuse, comma separated; NULL: none */
  const char *source;           /* shown by mount(8) */
  const struct sh_log *log;
};

#define FRONT_MAX_BACKENDS 32

/* Shows served[i].name and its volume as backends[i].  The mount is a client in
   served[i].opstats.  Both arrays outlive the front. */
int front_new (const struct front_options *options, struct backend **backends,
               const struct served *served, unsigned nr_backends,
               struct front **front, struct sh_error *err);

/* Is there something to mount on?  Asked before the backends are opened. */
int front_check_mountpoint (const char *mountpoint, struct sh_error *err);

/* MOUNTPOINT is a regular file (the one backend appears as that file) or a
   folder. */
int front_mount (struct front *f, const char *mountpoint, struct sh_error *err);

/* Serves.  `ready` is called once, in the calling thread, when the kernel's
   first request was answered.  0: unmounted or stopped, every request that was
   read has been answered.  -1: some are still in the backends (err); the
   process must exit without closing them. */
int front_run (struct front *f, void (*ready) (void *opaque), void *opaque,
               struct sh_error *err);

/* Makes front_run return; from any thread or a signal handler. */
void front_stop (struct front *f);

/* Unmounts. */
void front_free (struct front *f);

#endif
