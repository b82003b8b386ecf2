/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How requests go to the connections of an NBD export and come back.
 *
 * Half of the connections are shared, each with a worker thread: whoever submits
 * sends the request itself, through libnbd's asynchronous calls, and goes on; the
 * worker reads the replies and calls done().
 *
 * The other half are direct.  A request that finds nothing else under way takes all
 * of them: its thread sends and waits for the replies itself, so that nobody has to
 * be woken but by the server.  There a large read or write goes in parts, one on
 * each direct connection, for the server to work on at once.  Only one thread is in
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

#define MIN_PART_BYTES (256 * KiB)
#define PART_ALIGN (64 * KiB)
#define MAX_LOOKS 60            /* at sockets in full flow, before sleeping: as long
                                   as it takes to be woken */

bool
conn_is_broken (struct conn *c)
{
  return nbd_aio_is_dead (c->nbd) || nbd_aio_is_closed (c->nbd);
}

/*--- pieces and parts -------------------------------------------------------*/

static void start_piece (struct backend_part *p);

static bool
is_direct (const struct conn *c)
{
  return c >= c->owner->conns + c->owner->nr_shared;
}

/* A FUA write on a server without FUA is a write and then a flush. */
static bool
needs_flush (const struct nbd_backend *n, const struct backend_io *io)
{
  return io->op == BACKEND_WRITE && io->fua && !n->can_fua && n->can_flush;
}

/* Of a direct request its own thread calls done(). */
static void
end_part (struct backend_part *p, int errnum)
{
  struct backend_io *io = p->io;
  struct conn *c = p->conn;
  int none = 0;
  bool last;

  if (errnum != 0)
    atomic_compare_exchange_strong (&io->errnum, &none, errnum);
  last = atomic_fetch_sub (&io->parts_left, 1) == 1;
  if (last && !p->flushing && needs_flush (c->owner, io)
      && atomic_load (&io->errnum) == 0) {
    p->flushing = true;
    atomic_store (&io->parts_left, 1);
    start_piece (p);
    return;
  }
  atomic_fetch_sub_explicit (&c->in_flight, 1, memory_order_relaxed);
  if (last && !is_direct (c))
    io->done (io, atomic_load (&io->errnum));
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
  struct backend_part *p = user_data;
  struct conn *c = p->conn;

  p->errnum = conn_file_error (*error);
  p->next = atomic_load (&c->finished);
  while (!atomic_compare_exchange_weak (&c->finished, &p->next, p))
    ;
  return 1;                     /* libnbd may forget the command */
}

static void
finish (struct backend_part *p)
{
  if (p->errnum == 0 && !p->flushing) {
    p->begin += p->piece_bytes;
    if (p->begin < p->end) {
      start_piece (p);
      return;
    }
  }
  end_part (p, p->errnum);
}

static void
finish_all (struct conn *c)
{
  struct backend_part *p = atomic_exchange (&c->finished, NULL);
  struct backend_part *ordered = NULL, *next;

  for (; p; p = next) {
    next = p->next;
    p->next = ordered;
    ordered = p;
  }
  for (p = ordered; p; p = next) {
    next = p->next;
    finish (p);
  }
}

static int64_t
issue (struct conn *c, struct backend_part *p)
{
  const struct nbd_backend *n = c->owner;
  const struct backend_io *io = p->io;
  struct nbd_handle *h = c->nbd;
  const nbd_completion_callback cb = { .callback = on_complete, .user_data = p };
  const uint64_t offset = io->offset + p->begin;
  char *buf = (char *) io->buf + p->begin;

  if (p->flushing)
    return nbd_aio_flush (h, cb, 0);
  switch (io->op) {
  case BACKEND_READ:
    return nbd_aio_pread (h, buf, p->piece_bytes, offset, cb, 0);
  case BACKEND_WRITE:
    return nbd_aio_pwrite (h, buf, p->piece_bytes, offset, cb,
                           io->fua && n->can_fua ? LIBNBD_CMD_FLAG_FUA : 0);
  case BACKEND_FLUSH:
    return nbd_aio_flush (h, cb, 0);
  case BACKEND_DISCARD:
    return nbd_aio_zero (h, p->piece_bytes, offset, cb, 0);
  case BACKEND_ZERO:
    return nbd_aio_zero (h, p->piece_bytes, offset, cb, LIBNBD_CMD_FLAG_NO_HOLE);
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

/* Sends the next piece; ends the part itself if that fails at once. */
static void
start_piece (struct backend_part *p)
{
  struct conn *c = p->conn;

  p->piece_bytes = MIN (p->end - p->begin, max_piece_bytes (c->owner, p->io->op));
  if (issue (c, p) == -1) {
    const int e = nbd_get_errno ();

    end_part (p, e == 0 || conn_is_broken (c) ? EIO : conn_file_error (e));
    return;
  }
  /* The socket did not take all of it, or broke: the worker has to look. */
  if (!is_direct (c)
      && (conn_is_broken (c)
          || (nbd_aio_get_direction (c->nbd) & LIBNBD_AIO_DIRECTION_WRITE)))
    conn_wake (c);
}

static void
start_part (struct backend_io *io, struct backend_part *p, struct conn *c,
            uint64_t begin, uint64_t end)
{
  *p = (struct backend_part) { .io = io, .conn = c, .begin = begin, .end = end };
  atomic_fetch_add_explicit (&c->in_flight, 1, memory_order_relaxed);
  start_piece (p);
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

/*--- direct requests --------------------------------------------------------*/

/* The direct connections that are waited for. */
struct waiting {
  unsigned nr;
  struct conn *conns[MAX_CONNECTIONS];
  struct pollfd polls[MAX_CONNECTIONS];
  unsigned directions[MAX_CONNECTIONS];
};

static void
find_waiting (struct nbd_backend *n, struct waiting *w)
{
  unsigned i;

  w->nr = 0;
  for (i = n->nr_shared; i < n->nr_conns; ++i) {
    struct conn *c = &n->conns[i];

    if (atomic_load_explicit (&c->in_flight, memory_order_relaxed) == 0)
      continue;
    w->conns[w->nr] = c;
    w->polls[w->nr] = socket_poll (c, &w->directions[w->nr]);
    if (w->polls[w->nr].fd == -1)
      finish_all (c);           /* what broke has completed everything */
    else
      w->nr++;
  }
}

/* Until all is done that is under way on the direct connections.  Once data moves,
   more comes within microseconds, and a sleep for each bit of it would cost both
   sides more than to look again.  (Nor is the processor yielded between looks: on a
   busy one that could give it away for milliseconds.) */
static void
drive_direct (struct nbd_backend *n)
{
  struct waiting w;
  unsigned i, looks_left = 0;

  for (find_waiting (n, &w); w.nr > 0; find_waiting (n, &w)) {
    const int r = poll (w.polls, w.nr, looks_left > 0 ? 0 : -1);

    if (r == 0)
      looks_left--;
    else if (r > 0) {
      looks_left = MAX_LOOKS;
      for (i = 0; i < w.nr; ++i)
        if (w.polls[i].revents)
          socket_ready (w.conns[i], w.polls[i].revents, w.directions[i]);
    }
  }
}

static unsigned
count_parts (const struct nbd_backend *n, const struct backend_io *io)
{
  const uint64_t most = MIN (n->nr_direct, BACKEND_MAX_PARTS);

  if (io->op != BACKEND_READ && io->op != BACKEND_WRITE)
    return 1;
  return MAX (MIN (io->count / MIN_PART_BYTES, most), 1);
}

/* Where part i of nr begins: at a multiple of PART_ALIGN of the export. */
static uint64_t
part_begin (const struct backend_io *io, unsigned i, unsigned nr)
{
  uint64_t at;

  if (i == 0 || i == nr)
    return i == 0 ? 0 : io->count;
  at = io->offset + io->count / nr * i;
  return at - at % PART_ALIGN - io->offset;
}

static void
submit_direct (struct nbd_backend *n, struct backend_io *io)
{
  const unsigned nr = count_parts (n, io);
  unsigned i;

  atomic_store (&io->parts_left, nr);
  for (i = 0; i < nr; ++i)
    start_part (io, &io->parts[i], &n->conns[n->nr_shared + i],
                part_begin (io, i, nr), part_begin (io, i + 1, nr));
  drive_direct (n);
  /* Given back before the answer, which may bring the next request. */
  atomic_store_explicit (&n->direct_taken, false, memory_order_release);
  io->done (io, atomic_load (&io->errnum));
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
take_direct (struct nbd_backend *n)
{
  return n->nr_direct > 0 && shared_are_idle (n)
         && !atomic_load_explicit (&n->direct_taken, memory_order_relaxed)
         && !atomic_exchange_explicit (&n->direct_taken, true, memory_order_acquire);
}

void
requests_submit (struct backend *b, struct backend_io *io)
{
  struct nbd_backend *n = (struct nbd_backend *) b;

  atomic_store (&io->errnum, 0);
  atomic_store (&io->parts_left, 1);
  if (io->op == BACKEND_FLUSH && !n->can_flush)
    io->done (io, 0);
  else if (take_direct (n))
    submit_direct (n, io);
  else
    start_part (io, &io->parts[0], choose_conn (n), 0, io->count);
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
