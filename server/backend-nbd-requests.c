/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How requests go to the connections of an NBD export and come back.
 *
 * Some of the connections are shared, each with a worker thread: whoever submits
 * sends the request itself, through libnbd's asynchronous calls, and goes on; the
 * worker reads the replies and calls done().
 *
 * The others are lanes (backend-nbd-lane.c).  A request that finds nothing else under
 * way takes all of them, and its thread waits for the reply.  Only one thread is in
 * there at a time, for others must stay to take further requests from the kernel.
 *
 * libnbd calls its completion callbacks with the handle locked, so they only push
 * the part to the connection's list of finished ones; it is emptied by the same
 * thread as soon as libnbd has returned.
 *
 * A connection that breaks completes all it has with an error, and every later
 * request fails at once.
 */
#include <config.h>
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "backend-nbd-internal.h"

bool
conn_is_broken (struct conn *c)
{
  return nbd_aio_is_dead (c->nbd) || nbd_aio_is_closed (c->nbd);
}

/*--- requests and their pieces ----------------------------------------------*/

static void start_piece (struct backend_io *io);

/* A FUA write on a server without FUA is a write and then a flush. */
static bool
needs_flush (const struct nbd_backend *n, const struct backend_io *io)
{
  return io->op == BACKEND_WRITE && io->fua && !n->can_fua && n->can_flush;
}

static void
end_io (struct backend_io *io, int errnum)
{
  struct conn *c = io->conn;

  if (errnum == 0 && !io->flushing && needs_flush (c->owner, io)) {
    io->flushing = true;
    start_piece (io);
    return;
  }
  atomic_fetch_sub_explicit (&c->in_flight, 1, memory_order_relaxed);
  io->done (io, errnum);
}

/* A user of the file must not take our lost server for a lost mount. */
int
conn_file_error (int errnum)
{
  return errnum == ENOTCONN || errnum == ESHUTDOWN || errnum == EPIPE
         || errnum == ECONNRESET ? EIO : errnum;
}

static int
on_complete (void *user_data, int *error)
{
  struct backend_io *io = user_data;
  struct conn *c = io->conn;

  io->errnum = conn_file_error (*error);
  io->next = atomic_load (&c->finished);
  while (!atomic_compare_exchange_weak (&c->finished, &io->next, io))
    ;
  return 1;                     /* libnbd may forget the command */
}

static void
finish (struct backend_io *io)
{
  if (io->errnum == 0 && !io->flushing) {
    io->begin += io->piece_bytes;
    if (io->begin < io->count) {
      start_piece (io);
      return;
    }
  }
  end_io (io, io->errnum);
}

static void
finish_all (struct conn *c)
{
  struct backend_io *io = atomic_exchange (&c->finished, NULL);
  struct backend_io *ordered = NULL, *next;

  for (; io; io = next) {
    next = io->next;
    io->next = ordered;
    ordered = io;
  }
  for (io = ordered; io; io = next) {
    next = io->next;
    finish (io);
  }
}

static int64_t
issue (struct conn *c, struct backend_io *io)
{
  const struct nbd_backend *n = c->owner;
  struct nbd_handle *h = c->nbd;
  const nbd_completion_callback cb = { .callback = on_complete, .user_data = io };
  const uint64_t offset = io->offset + io->begin;
  char *buf = (char *) io->buf + io->begin;

  if (io->flushing)
    return nbd_aio_flush (h, cb, 0);
  switch (io->op) {
  case BACKEND_READ:
    return nbd_aio_pread (h, buf, io->piece_bytes, offset, cb, 0);
  case BACKEND_WRITE:
    return nbd_aio_pwrite (h, buf, io->piece_bytes, offset, cb,
                           io->fua && n->can_fua ? LIBNBD_CMD_FLAG_FUA : 0);
  case BACKEND_FLUSH:
    return nbd_aio_flush (h, cb, 0);
  case BACKEND_DISCARD:
    return nbd_aio_zero (h, io->piece_bytes, offset, cb, 0);
  case BACKEND_ZERO:
    return nbd_aio_zero (h, io->piece_bytes, offset, cb, LIBNBD_CMD_FLAG_NO_HOLE);
  }
  abort ();
}

void
conn_wake (struct conn *c)
{
  const uint64_t one = 1;

  if (write (c->wake_fd, &one, sizeof one) == -1)
    return;                     /* the counter is full: awake anyway */
}

static uint64_t
max_piece_bytes (const struct nbd_backend *n, enum backend_op op)
{
  return op == BACKEND_READ || op == BACKEND_WRITE ? n->max_data_bytes
                                                   : MAX_PIECE_BYTES;
}

/* Sends the next piece; ends the request itself if that fails at once. */
static void
start_piece (struct backend_io *io)
{
  struct conn *c = io->conn;

  io->piece_bytes = MIN (io->count - io->begin, max_piece_bytes (c->owner, io->op));
  if (issue (c, io) == -1) {
    const int e = nbd_get_errno ();

    end_io (io, e == 0 || conn_is_broken (c) ? EIO : conn_file_error (e));
    return;
  }
  /* The socket did not take all of it, or broke: the worker has to look. */
  if (conn_is_broken (c)
      || (nbd_aio_get_direction (c->nbd) & LIBNBD_AIO_DIRECTION_WRITE))
    conn_wake (c);
}

/* Looks at the socket again after poll(2).  A failure shows as a dead handle. */
static void
socket_ready (struct conn *c, short revents, unsigned direction)
{
  if ((revents & (POLLIN | POLLHUP | POLLERR))
      && (direction & LIBNBD_AIO_DIRECTION_READ))
    nbd_aio_notify_read (c->nbd);
  else if (revents && (direction & LIBNBD_AIO_DIRECTION_WRITE))
    nbd_aio_notify_write (c->nbd);
  finish_all (c);
}

/* What to poll for on this connection. */
static struct pollfd
socket_poll (struct conn *c, unsigned *direction)
{
  const bool broken = conn_is_broken (c);
  const unsigned dir = broken ? 0 : nbd_aio_get_direction (c->nbd);

  *direction = dir;
  return (struct pollfd) {
    .fd = broken ? -1 : nbd_aio_get_fd (c->nbd),
    .events = ((dir & LIBNBD_AIO_DIRECTION_READ) ? POLLIN : 0)
              | ((dir & LIBNBD_AIO_DIRECTION_WRITE) ? POLLOUT : 0),
  };
}

/*--- submission -------------------------------------------------------------*/

/* The shared one with least to do, the first of equals: a user who has one request
   at a time stays on one connection, whose threads then are warm. */
static struct conn *
choose_conn (struct nbd_backend *n)
{
  struct conn *best = &n->conns[0];
  unsigned least = atomic_load_explicit (&best->in_flight, memory_order_relaxed);
  unsigned i;

  for (i = 1; i < n->nr_shared && least > 0; ++i) {
    struct conn *c = &n->conns[i];
    const unsigned busy = atomic_load_explicit (&c->in_flight, memory_order_relaxed);

    if (busy < least) {
      best = c;
      least = busy;
    }
  }
  return best;
}

static bool
shared_are_idle (const struct nbd_backend *n)
{
  unsigned i;

  for (i = 0; i < n->nr_shared; ++i)
    if (atomic_load_explicit (&n->conns[i].in_flight, memory_order_relaxed) > 0)
      return false;
  return true;
}

static bool
take_lanes (struct nbd_backend *n)
{
  return n->nr_lanes > 0 && shared_are_idle (n)
         && !atomic_load_explicit (&n->lanes_taken, memory_order_relaxed)
         && !atomic_exchange_explicit (&n->lanes_taken, true, memory_order_acquire);
}

static void
submit_shared (struct nbd_backend *n, struct backend_io *io)
{
  struct conn *c = choose_conn (n);

  if (io->op == BACKEND_WRITE && io->pipe) {
    backend_empty_pipe (io->pipe->out, io->buf, io->count);
    io->pipe->data_bytes -= io->count;
  }
  io->conn = c;
  atomic_fetch_add_explicit (&c->in_flight, 1, memory_order_relaxed);
  start_piece (io);
}

void
requests_submit (struct backend *b, struct backend_io *io)
{
  struct nbd_backend *n = (struct nbd_backend *) b;

  if (io->op == BACKEND_FLUSH && !n->can_flush)
    io->done (io, 0);
  else if (take_lanes (n)) {
    const int errnum = lanes_do (n, io);

    /* Given back before the answer, which may bring the next request. */
    atomic_store_explicit (&n->lanes_taken, false, memory_order_release);
    io->done (io, errnum);
  }
  else
    submit_shared (n, io);
}

/*--- workers ----------------------------------------------------------------*/

static void
drain_wake (struct conn *c)
{
  uint64_t n;

  if (read (c->wake_fd, &n, sizeof n) == -1)
    return;
}

static void
worker_step (struct conn *c)
{
  unsigned direction;
  struct pollfd p[2] = {
    { .fd = c->wake_fd, .events = POLLIN },
    socket_poll (c, &direction),
  };

  if (poll (p, 2, -1) == -1)
    return;
  if (p[0].revents)
    drain_wake (c);
  socket_ready (c, p[1].revents, direction);
}

static void *
worker_thread (void *arg)
{
  struct conn *c = arg;

  while (!atomic_load (&c->stop))
    worker_step (c);
  return NULL;
}

int
conn_start_worker (struct conn *c)
{
  const int r = pthread_create (&c->worker, NULL, worker_thread, c);

  c->started = r == 0;
  return r;
}

void
conn_stop_worker (struct conn *c)
{
  if (!c->started)
    return;
  atomic_store (&c->stop, true);
  conn_wake (c);
  pthread_join (c->worker, NULL);
  c->started = false;
}
