/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of the NBD backend only. */
#ifndef SERVER_BACKEND_NBD_INTERNAL_H
#define SERVER_BACKEND_NBD_INTERNAL_H

#include <libnbd.h>
#include <pthread.h>
#include <stdatomic.h>

#include "backend.h"
#include "base/bytes.h"

#define MAX_CONNECTIONS 16u
#define MAX_PIECE_BYTES GiB     /* of a zero or trim; NBD has 32 bits */

struct conn {
  struct nbd_backend *owner;
  struct nbd_handle *nbd;
  pthread_t worker;             /* of a shared one */
  bool started;
  int wake_fd;                  /* eventfd: the worker must look again */
  atomic_bool stop;
  _Atomic unsigned in_flight;   /* requests that were given to this shared one */
  _Atomic (struct backend_io *) finished;       /* last one first */
};

struct nbd_backend {
  struct backend b;
  unsigned nr_conns;            /* shared ones, then lanes */
  unsigned nr_shared, nr_lanes;
  struct conn conns[MAX_CONNECTIONS];
  atomic_bool lanes_taken;      /* a thread has the lanes, and what follows */
  bool lanes_broken;
  uint64_t cookie;
  bool can_flush, can_fua, has_extents;
  uint64_t max_data_bytes;      /* of a read or write */
};

/* backend-nbd-lane.c */

/* Does it, on the lanes, which the caller has taken; 0, or an errno.  Of a read the
   data may be in io->pipe. */
int lanes_do (struct nbd_backend *n, struct backend_io *io);

/* backend-nbd-requests.c */

/* The backend's submit operation. */
void requests_submit (struct backend *b, struct backend_io *io);

/* The worker of a shared connection; 0, or an errno. */
int conn_start_worker (struct conn *c);
/* Nothing if there is none.  Requests under way stay unanswered. */
void conn_stop_worker (struct conn *c);
/* The worker looks at the connection again; from any thread. */
void conn_wake (struct conn *c);

bool conn_is_broken (struct conn *c);
/* What a user of the file is told of errnum, an error of libnbd's. */
int conn_file_error (int errnum);

#endif
