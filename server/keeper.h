/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * --auto-unmount: a small process that outlives the one that serves, and takes
 * its dead mount away.  (libfuse's own way gives up when it looks at the mount
 * while the kernel is still tearing it down.)
 */
#ifndef SERVER_KEEPER_H
#define SERVER_KEEPER_H

struct sh_error;

struct keeper {
  int fd;                       /* -1: there is none */
};

/* Forks: call it before any thread is started or device opened.  mountpoint is
   absolute. */
int keeper_start (struct keeper *k, const char *mountpoint, struct sh_error *err);

/* The mount is there: from now on the end of this process, by whatever cause,
   takes it away. */
void keeper_mounted (struct keeper *k);

/* The mount was taken away, or never came to be. */
void keeper_stop (struct keeper *k);

#endif
