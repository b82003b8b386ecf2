/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What stands behind a file of `shingle mount`: a volume in this process, an
 * NBD export, or (in the benchmark) memory.
 *
 * Life: a backend_*_open function, backend_start (may start threads), any
 * number of submissions from any number of threads, backend_close when no
 * submission is outstanding.
 */
#ifndef SERVER_BACKEND_H
#define SERVER_BACKEND_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct sh_error;
struct served;

enum backend_op {
  BACKEND_READ,
  BACKEND_WRITE,
  BACKEND_FLUSH,                /* buf, count, offset unused */
  BACKEND_DISCARD,              /* reads as zeroes afterwards; space may be given up */
  BACKEND_ZERO,                 /* reads as zeroes afterwards */
};
#define BACKEND_NR_OPS (BACKEND_ZERO + 1)

/* A pipe: for the answer to a read it is empty, of a write it holds the data. */
struct backend_pipe {
  int in, out;
  const void *head;             /* of a read: what is wanted before the data */
  size_t head_bytes;            /* at most PIPE_BUF */
  size_t data_bytes;            /* of a write: what is in there still */
};

/* One piece of work.  The caller owns it and `buf`, and keeps both until
   done() was called. */
struct backend_io {
  enum backend_op op;
  bool fua;                     /* BACKEND_WRITE: durable when done */
  unsigned hint;                /* the submitting thread's number */
  void *buf;
  struct backend_pipe *pipe;    /* NULL, or: may take the data of a read instead of buf, if
                                   done() is called before submit returns; has the data of a
                                   write, not buf, and they are taken before submit returns */
  bool piped;                   /* at done(): head and data are in the pipe; else it is
                                   empty */
  uint64_t count;               /* inside the file, as is offset; any alignment */
  uint64_t offset;
  void (*done) (struct backend_io *io, int errnum);

  /* The backend's, while it has the request. */
  struct backend_io *next;
  void *conn;
  uint64_t begin;               /* of the bytes that are still to be done */
  uint64_t piece_bytes;         /* under way, from begin */
  bool flushing;
  int errnum;
};

struct backend;

/* As in sh_volume_extents: 0 to go on, 1 to stop. */
typedef int (*backend_extent_fn) (void *opaque, uint64_t offset, uint64_t length,
                                  bool hole);

struct backend_ops {
  /* NULL: nothing to start. */
  int (*start) (struct backend *b, struct sh_error *err);
  /* Calls io->done exactly once: before it returns, or later on any thread
     (only if !b->synchronous).  errnum is 0 when every byte is done. */
  void (*submit) (struct backend *b, struct backend_io *io);
  /* NULL: everything is data.  0, or -1 with errno. */
  int (*extents) (struct backend *b, uint64_t count, uint64_t offset,
                  backend_extent_fn fn, void *opaque);
  /* Bytes that hold data, for st_blocks.  NULL: the size. */
  uint64_t (*allocated) (struct backend *b);
  /* Fills in what the control socket can tell about the inside: device,
     volume, mq.  NULL: nothing. */
  void (*describe) (struct backend *b, struct served *s);
  /* Flushes and frees; -1 when what was written may not be safe (err). */
  int (*close) (struct backend *b, struct sh_error *err);
};

struct backend {
  const struct backend_ops *ops;
  char name[64];                /* of the file in a folder; no slash, not "" */
  uint64_t size;
  uint32_t block_bytes;         /* preferred I/O size, a power of 2, for st_blksize */
  bool read_only;
  bool can_zero;                /* BACKEND_ZERO and BACKEND_DISCARD work */
  bool synchronous;             /* submit returns after done */
  bool takes_pipe;              /* a pipe may be used; else it is no use to have one */
};

static inline int
backend_start (struct backend *b, struct sh_error *err)
{
  return b->ops->start ? b->ops->start (b, err) : 0;
}

static inline void
backend_submit (struct backend *b, struct backend_io *io)
{
  b->ops->submit (b, io);
}

static inline int
backend_close (struct backend *b, struct sh_error *err)
{
  return b->ops->close (b, err);
}

/* Makes `text` a file name: slashes and control characters become '_'; an
   empty or dotted name becomes `fallback`. */
void backend_set_name (struct backend *b, const char *text, const char *fallback);

/* The next len bytes of a pipe, which has them, go to buf. */
void backend_empty_pipe (int fd, void *buf, size_t len);

struct stack_options;

/* DEVICE through the zoned layer, in this process. */
int backend_volume_open (const char *device, const struct stack_options *options,
                         struct backend **b, struct sh_error *err);

/* An NBD export.  Either `uri`, or `command` (NULL-terminated), a server that
   takes its listening socket from us.  connections 0: as many as pay off. */
struct backend_nbd_options {
  const char *uri;
  char **command;
  unsigned connections;
  bool read_only;
};
int backend_nbd_open (const struct backend_nbd_options *options,
                      struct backend **b, struct sh_error *err);

/* True when `text` is an NBD URI that libnbd takes. */
bool backend_nbd_is_uri (const char *text);

#endif
