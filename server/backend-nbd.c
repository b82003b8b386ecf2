/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An NBD export as a backend: connecting, what the export can do, its extents.
 * Several connections, if the server lets a flush on one cover all.
 */
#include <config.h>
#include <assert.h>
#include <errno.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backend-nbd-internal.h"
#include "base/clock.h"
#include "base/error.h"

#define DEFAULT_CONNECTIONS 4u
#define CONNECT_TIMEOUT_NS (30 * NS_PER_S)
#define MAX_DATA_BYTES (32 * (int64_t) MiB)     /* what every server takes */

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
    conn_wake (c);
    while (sem_wait (&s.finished) == -1)
      assert (errno == EINTR);
    if (s.errnum == 0 && s.offset == before)
      s.errnum = EIO;           /* a server that answers nothing */
  }
  sem_destroy (&s.finished);
  if (s.errnum != 0 || s.stop == -1) {
    errno = s.errnum ? conn_file_error (s.errnum) : EIO;
    return -1;
  }
  return 0;
}

/*--- life -------------------------------------------------------------------*/

static int
nbd_start (struct backend *b, struct sh_error *err)
{
  struct nbd_backend *n = to_nbd (b);
  unsigned i;
  int r;

  for (i = 0; i < n->nr_shared; ++i) {
    r = conn_start_worker (&n->conns[i]);
    if (r != 0)
      return sh_fail (err, r, "starting an NBD thread: %s", strerror (r));
  }
  return 0;
}

static void
close_conn (struct conn *c)
{
  conn_stop_worker (c);
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
  for (i = 0; i < n->nr_conns; ++i)
    conn_stop_worker (&n->conns[i]);
  if (n->nr_conns > 0 && n->can_flush && !b->read_only
      && nbd_flush (n->conns[0].nbd, 0) == -1)
    r = fail_nbd (err, "flushing at the end");
  for (i = n->nr_conns; i-- > 0; ) {
    if (!conn_is_broken (&n->conns[i]))
      nbd_shutdown (n->conns[i].nbd, 0);
    close_conn (&n->conns[i]);
  }
  free (n);
  return r;
}

static const struct backend_ops nbd_ops = {
  .start = nbd_start,
  .submit = requests_submit,
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
    if (conn_is_broken (c))
      return fail_nbd (err, what);
    if (sh_now (&sh_clock_monotonic) >= deadline_ns)
      return sh_fail (err, ETIMEDOUT, "%s: the server does not answer", what);
    if (nbd_poll (c->nbd, 1000) == -1)
      return fail_nbd (err, what);
  }
  return 0;
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
  return wait_connected (c, what, err);
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

/* A part of a request fits in the socket, so that nobody has to sleep until the server
   has taken it.  What the system refuses stays as it is; TCP finds its own measure. */
static void
widen (int fd)
{
  const int bytes = 2 * MiB;
  struct sockaddr_storage a;
  socklen_t len = sizeof a;

  if (getsockname (fd, (struct sockaddr *) &a, &len) == -1 || a.ss_family != AF_UNIX)
    return;
  if (setsockopt (fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes) == -1)
    setsockopt (fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
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
  /* A connection with TLS is libnbd's alone. */
  if (nbd_get_tls_negotiated (n->conns[0].nbd) == 0)
    n->nr_lanes = n->nr_conns / 2;
  n->nr_shared = n->nr_conns - n->nr_lanes;
  for (i = n->nr_shared; i < n->nr_conns; ++i)  /* the lanes */
    widen (nbd_aio_get_fd (n->conns[i].nbd));
  n->b.takes_pipe = n->nr_lanes > 0;
  *b = &n->b;
  return 0;

 fail:
  for (i = n->nr_conns; i-- > 0; )
    close_conn (&n->conns[i]);
  free (n);
  return -1;
}
