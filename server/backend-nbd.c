/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An NBD export as a backend.
 *
 * Several connections, if the server lets a flush on one cover all.  Half of them
 * are shared, each with a worker thread: whoever submits sends the request itself,
 * through libnbd's asynchronous calls, and goes on; the worker reads the replies and
 * calls done().
 *
 * The other half are direct.  A request that finds nothing else under way takes all
 * of them: its thread sends and waits for the replies itself, so that nobody has to
 * be woken but by the server.  There a large read or write goes in parts, spread over
 * the direct connections, so that the server works on one while another is on its way.
 * Only one thread is in there at a time, for others must stay to take further requests
 * from the kernel.
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
#include <libnbd.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backend.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"

#define MAX_CONNECTIONS 16u
#define DEFAULT_CONNECTIONS 4u
#define CONNECT_TIMEOUT_NS (30 * NS_PER_S)
#define MAX_PIECE_BYTES GiB     /* of a zero or trim; NBD has 32 bits */
#define MAX_DATA_BYTES (32 * (int64_t) MiB)     /* what every server takes */
#define MIN_PART_BYTES (256 * KiB)
#define PART_ALIGN (64 * KiB)
#define SEND_BUFFER_BYTES ((int) MiB)   /* of a socket: all that one connection gets of
                                   the largest request */
#define MAX_LOOKS 60            /* at sockets in full flow, before sleeping: as long
                                   as it takes to be woken */

struct conn {
  struct nbd_backend *owner;
  struct nbd_handle *nbd;
  pthread_t worker;             /* of a shared one */
  bool started;
  int wake_fd;                  /* eventfd: the worker must look again */
  atomic_bool stop;
  _Atomic unsigned in_flight;   /* parts that were given to this connection */
  _Atomic (struct backend_part *) finished;     /* last one first */
};

struct nbd_backend {
  struct backend b;
  unsigned nr_conns;            /* shared ones, then direct ones */
  unsigned nr_shared, nr_direct;
  struct conn conns[MAX_CONNECTIONS];
  atomic_bool direct_taken;     /* a thread has the direct connections */
  bool can_flush, can_fua, has_extents;
  uint64_t max_data_bytes;      /* of a read or write */
};

static struct nbd_backend *
to_nbd (struct backend *b)
{
  return (struct nbd_backend *) b;
}

/* libnbd's last error as ours. */
static int
fail_nbd (struct sh_error *err, const char *what)
{
  const int e = nbd_get_errno ();
  const char *text = nbd_get_error ();

  return sh_fail (err, e ? e : EIO, "%s: %s", what, text ? text : "unknown error");
}

static bool
is_broken (struct conn *c)
{
  return nbd_aio_is_dead (c->nbd) || nbd_aio_is_closed (c->nbd);
}

/*--- requests ---------------------------------------------------------------*/

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
static int
file_error (int errnum)
{
  return errnum == ENOTCONN || errnum == ESHUTDOWN || errnum == EPIPE
         || errnum == ECONNRESET ? EIO : errnum;
}

static int
on_complete (void *user_data, int *error)
{
  struct backend_part *p = user_data;
  struct conn *c = p->conn;

  p->errnum = file_error (*error);
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

static void
wake (struct conn *c)
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

    end_part (p, e == 0 || is_broken (c) ? EIO : file_error (e));
    return;
  }
  /* The socket did not take all of it, or broke: the worker has to look. */
  if (!is_direct (c)
      && (is_broken (c) || (nbd_aio_get_direction (c->nbd) & LIBNBD_AIO_DIRECTION_WRITE)))
    wake (c);
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
  const bool broken = is_broken (c);
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
   sides more than to look again; with a request in parts, data move from the start.
   (Nor is the processor yielded between looks: on a busy one that could give it away
   for milliseconds.) */
static void
drive_direct (struct nbd_backend *n, bool in_parts)
{
  struct waiting w;
  unsigned i, looks_left = in_parts ? MAX_LOOKS : 0;

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
count_parts (const struct backend_io *io)
{
  if (io->op != BACKEND_READ && io->op != BACKEND_WRITE)
    return 1;
  return MAX (MIN (io->count / MIN_PART_BYTES, BACKEND_MAX_PARTS), 1);
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
  const unsigned nr = count_parts (io);
  unsigned i;

  atomic_store (&io->parts_left, nr);
  for (i = 0; i < nr; ++i)
    start_part (io, &io->parts[i], &n->conns[n->nr_shared + i % n->nr_direct],
                part_begin (io, i, nr), part_begin (io, i + 1, nr));
  drive_direct (n, nr > 1);
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

static void
nbd_submit (struct backend *b, struct backend_io *io)
{
  struct nbd_backend *n = to_nbd (b);

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

static int
nbd_start (struct backend *b, struct sh_error *err)
{
  struct nbd_backend *n = to_nbd (b);
  unsigned i;
  int r;

  for (i = 0; i < n->nr_shared; ++i) {
    r = pthread_create (&n->conns[i].worker, NULL, worker_thread, &n->conns[i]);
    if (r != 0)
      return sh_fail (err, r, "starting an NBD thread: %s", strerror (r));
    n->conns[i].started = true;
  }
  return 0;
}

/*--- extents ----------------------------------------------------------------*/

/* One block status request, waited for. */
struct status {
  backend_extent_fn fn;
  void *opaque;
  uint64_t offset, end;         /* what is still to be told */
  int stop;                     /* fn's answer */
  int errnum;
  sem_t finished;
};

static int
on_extents (void *user_data, const char *context, uint64_t offset, uint32_t *entries,
            size_t nr_entries, int *error)
{
  struct status *s = user_data;
  size_t i;

  if (strcmp (context, LIBNBD_CONTEXT_BASE_ALLOCATION) != 0 || offset != s->offset)
    return 0;
  for (i = 0; i + 1 < nr_entries && s->stop == 0 && s->offset < s->end; i += 2) {
    const uint64_t len = MIN (entries[i], s->end - s->offset);

    if (len == 0)
      break;
    s->stop = s->fn (s->opaque, s->offset, len,
                     (entries[i + 1] & LIBNBD_STATE_ZERO) != 0);
    s->offset += len;
  }
  return 0;
}

static int
on_status_done (void *user_data, int *error)
{
  struct status *s = user_data;

  s->errnum = *error;
  sem_post (&s->finished);
  return 1;
}

static int
nbd_extents (struct backend *b, uint64_t count, uint64_t offset,
             backend_extent_fn fn, void *opaque)
{
  struct nbd_backend *n = to_nbd (b);
  struct conn *c = &n->conns[0];
  struct status s = { .fn = fn, .opaque = opaque, .offset = offset,
                      .end = offset + count };
  uint64_t before;

  if (!n->has_extents) {
    fn (opaque, offset, count, false);
    return 0;
  }
  sem_init (&s.finished, 0, 0);
  while (s.stop == 0 && s.errnum == 0 && s.offset < s.end) {
    before = s.offset;
    if (nbd_aio_block_status (c->nbd, MIN (s.end - s.offset, MAX_PIECE_BYTES), s.offset,
                              (nbd_extent_callback) { .callback = on_extents,
                                                      .user_data = &s },
                              (nbd_completion_callback) { .callback = on_status_done,
                                                          .user_data = &s }, 0) == -1) {
      s.errnum = EIO;
      break;
    }
    wake (c);
    while (sem_wait (&s.finished) == -1)
      assert (errno == EINTR);
    if (s.errnum == 0 && s.offset == before)
      s.errnum = EIO;           /* a server that answers nothing */
  }
  sem_destroy (&s.finished);
  if (s.errnum != 0 || s.stop == -1) {
    errno = s.errnum ? file_error (s.errnum) : EIO;
    return -1;
  }
  return 0;
}

/*--- life -------------------------------------------------------------------*/

static void
close_conn (struct conn *c)
{
  if (c->started) {
    atomic_store (&c->stop, true);
    wake (c);
    pthread_join (c->worker, NULL);
  }
  if (c->nbd)
    nbd_close (c->nbd);
  if (c->wake_fd != -1)
    close (c->wake_fd);
}

static int
nbd_close_backend (struct backend *b, struct sh_error *err)
{
  struct nbd_backend *n = to_nbd (b);
  unsigned i;
  int r = 0;

  /* The workers have to be gone before a synchronous call. */
  for (i = 0; i < n->nr_conns; ++i) {
    struct conn *c = &n->conns[i];

    if (c->started) {
      atomic_store (&c->stop, true);
      wake (c);
      pthread_join (c->worker, NULL);
      c->started = false;
    }
  }
  if (n->nr_conns > 0 && n->can_flush && !b->read_only
      && nbd_flush (n->conns[0].nbd, 0) == -1)
    r = fail_nbd (err, "flushing at the end");
  for (i = n->nr_conns; i-- > 0; ) {
    if (!is_broken (&n->conns[i]))
      nbd_shutdown (n->conns[i].nbd, 0);
    close_conn (&n->conns[i]);
  }
  free (n);
  return r;
}

static const struct backend_ops nbd_ops = {
  .start = nbd_start,
  .submit = nbd_submit,
  .extents = nbd_extents,
  .close = nbd_close_backend,
};

bool
backend_nbd_is_uri (const char *text)
{
  static const char *const schemes[] = {
    "nbd://", "nbds://", "nbd+unix://", "nbds+unix://", "nbd+vsock://", "nbds+vsock://",
  };
  size_t i;

  for (i = 0; i < ARRAY_SIZE (schemes); ++i)
    if (strncmp (text, schemes[i], strlen (schemes[i])) == 0)
      return true;
  return false;
}

static int
wait_connected (struct conn *c, const char *what, struct sh_error *err)
{
  const uint64_t deadline_ns = sh_now (&sh_clock_monotonic) + CONNECT_TIMEOUT_NS;

  while (!nbd_aio_is_ready (c->nbd)) {
    if (is_broken (c))
      return fail_nbd (err, what);
    if (sh_now (&sh_clock_monotonic) >= deadline_ns)
      return sh_fail (err, ETIMEDOUT, "%s: the server does not answer", what);
    if (nbd_poll (c->nbd, 1000) == -1)
      return fail_nbd (err, what);
  }
  return 0;
}

/* A large write is then in the socket at once: a small buffer would put both sides to
   sleep for each part of it.  TCP sizes its own buffers better.  Without it all works,
   but slower. */
static void
grow_send_buffer (int fd)
{
  const int wanted = SEND_BUFFER_BYTES;
  int domain, now;
  socklen_t len = sizeof domain;

  if (getsockopt (fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0 && domain == AF_UNIX
      && getsockopt (fd, SOL_SOCKET, SO_SNDBUF, &now, &len) == 0 && now < wanted)
    setsockopt (fd, SOL_SOCKET, SO_SNDBUF, &wanted, sizeof wanted);
}

/* By URI, or by command if uri is NULL. */
static int
connect_one (struct nbd_backend *n, const char *uri, char **command,
             struct sh_error *err)
{
  struct conn *c = &n->conns[n->nr_conns];
  const char *what = uri ? uri : command[0];
  const bool is_first = n->nr_conns == 0;
  int r;

  c->owner = n;
  c->wake_fd = eventfd (0, EFD_CLOEXEC | EFD_NONBLOCK);
  c->nbd = nbd_create ();
  n->nr_conns++;
  if (c->wake_fd == -1 || !c->nbd)
    return sh_fail (err, ENOMEM, "no memory for an NBD connection");
  /* The first one tells of extents, which takes structured replies; a simple one is
     read with two system calls instead of four. */
  if ((is_first ? nbd_add_meta_context (c->nbd, LIBNBD_CONTEXT_BASE_ALLOCATION)
                : nbd_set_request_structured_replies (c->nbd, false)) == -1
      || nbd_set_uri_allow_local_file (c->nbd, true) == -1
      /* Of a read that fails nobody sees the buffer. */
      || nbd_set_pread_initialize (c->nbd, false) == -1
      /* Whether a request is aligned well enough the server knows best: ours
         takes any. */
      || nbd_set_strict_mode (c->nbd, nbd_get_strict_mode (c->nbd)
                                      & ~(unsigned) LIBNBD_STRICT_ALIGN) == -1)
    return fail_nbd (err, what);
  r = uri ? nbd_aio_connect_uri (c->nbd, uri)
          : nbd_aio_connect_systemd_socket_activation (c->nbd, command);
  if (r == -1)
    return fail_nbd (err, what);
  if (wait_connected (c, what, err) == -1)
    return -1;
  grow_send_buffer (nbd_aio_get_fd (c->nbd));
  return 0;
}

static void
learn_export (struct nbd_backend *n, bool read_only)
{
  struct nbd_handle *h = n->conns[0].nbd;
  const int64_t preferred = nbd_get_block_size (h, LIBNBD_SIZE_PREFERRED);
  const int64_t most = nbd_get_block_size (h, LIBNBD_SIZE_MAXIMUM);
  char *name = nbd_get_export_name (h);

  n->b.read_only = read_only || nbd_is_read_only (h) == 1;
  n->can_flush = nbd_can_flush (h) == 1;
  n->can_fua = nbd_can_fua (h) == 1;
  n->b.can_zero = nbd_can_zero (h) == 1;
  n->has_extents = nbd_can_meta_context (h, LIBNBD_CONTEXT_BASE_ALLOCATION) == 1;
  n->b.block_bytes = preferred >= 512 && preferred <= (int64_t) MiB
                     && is_power_of_2 (preferred) ? preferred : 4096;
  n->max_data_bytes = most >= 512 && most < MAX_DATA_BYTES ? most : MAX_DATA_BYTES;
  backend_set_name (&n->b, name ? name : "", "nbd");
  free (name);
}

/* The other connections, as many as asked for and useful. */
static int
connect_more (struct nbd_backend *n, const struct backend_nbd_options *options,
              struct sh_error *err)
{
  struct nbd_handle *h = n->conns[0].nbd;
  unsigned wanted = options->connections ? options->connections : DEFAULT_CONNECTIONS;
  char *uri;

  if (nbd_can_multi_conn (h) != 1)
    wanted = 1;
  if (wanted > MAX_CONNECTIONS)
    wanted = MAX_CONNECTIONS;
  if (wanted == 1)
    return 0;
  uri = options->uri ? strdup (options->uri) : nbd_get_uri (h);
  if (!uri)
    return 0;                   /* the server's socket cannot be named */
  while (n->nr_conns < wanted)
    if (connect_one (n, uri, NULL, err) == -1) {
      free (uri);
      return -1;
    }
  free (uri);
  return 0;
}

int
backend_nbd_open (const struct backend_nbd_options *options, struct backend **b,
                  struct sh_error *err)
{
  struct nbd_backend *n = calloc (1, sizeof *n);
  int64_t size;
  unsigned i;

  if (!n)
    return sh_fail (err, ENOMEM, "no memory");
  n->b.ops = &nbd_ops;
  if (connect_one (n, options->uri, options->command, err) == -1) {
    if (options->uri)
      sh_hint (err, "does a server listen there? 'nbdinfo --list URI' asks it");
    goto fail;
  }
  size = nbd_get_size (n->conns[0].nbd);
  if (size == -1) {
    fail_nbd (err, "size of the export");
    goto fail;
  }
  n->b.size = size;
  learn_export (n, options->read_only);
  if (connect_more (n, options, err) == -1)
    goto fail;
  n->nr_direct = n->nr_conns / 2;
  n->nr_shared = n->nr_conns - n->nr_direct;
  *b = &n->b;
  return 0;

 fail:
  for (i = n->nr_conns; i-- > 0; )
    close_conn (&n->conns[i]);
  free (n);
  return -1;
}
