/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One slot for each FUSE request in flight: the bytes read from /dev/fuse, and
 * the data, in place.  A write's data starts on a page boundary, and a read's
 * answer is built on the same pages, so that no request is ever copied here.
 *
 *     page 0                       page 1 ...               page 1 + max_write
 *     struct slot ....  | header | data ...                 | spare page
 *                       ^ in     ^ data
 */
#ifndef SERVER_SLOTS_H
#define SERVER_SLOTS_H

#include <linux/fuse.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "backend.h"

struct fuse_req;
struct front;
struct node;

#define SLOT_PAGE 4096u
#define SLOT_DATA_BYTES (1024u * 1024)  /* largest read or write */
#define SLOT_HEADER_BYTES (sizeof (struct fuse_in_header) + sizeof (struct fuse_write_in))

struct slot {
  struct backend_io io;
  struct fuse_req *req;
  struct front *front;
  struct node *node;
  uint64_t start_ns;
  unsigned client;              /* whose counters */
  struct fuse_out_header head;  /* of an answer through a pipe */
  int reply_fd;                 /* the connection's clone that the request came by */
  struct slot *next;            /* in the pool; guarded by its lock */
  struct backend_pipe *data_pipe;       /* has a write's data, if they are not in `data` */
  void *in;                     /* where read(2) puts the request */
  void *data;                   /* page aligned, SLOT_DATA_BYTES */
};

/* Bytes available from slot->in. */
size_t slot_in_bytes (const struct slot *s);

struct slot_pool {
  pthread_mutex_t lock;         /* innermost */
  struct slot *free;            /* last used first: its pages are warm */
  unsigned nr_taken;            /* slots not in `free` */
};

void slot_pool_init (struct slot_pool *p);
void slot_pool_destroy (struct slot_pool *p);

/* NULL with errno ENOMEM. */
struct slot *slot_get (struct slot_pool *p);
void slot_put (struct slot_pool *p, struct slot *s);

#endif
