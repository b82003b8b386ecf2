/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lanes: connections on which one thread at a time sends requests and waits for the
 * replies itself, so that nobody has to be woken but by the server.
 *
 * libnbd connects them and ends them.  In between the requests and replies are put
 * together here, for what libnbd has no way to do: the data of a large request goes
 * between the socket and /dev/fuse through a pipe, without a copy in this process.
 * (NBD protocol, "Simple request message" and "Simple reply message"; structured
 * replies were not asked for.)
 *
 * A large request goes in parts, one on each lane, for the server to work on at once.
 * The replies are received in order, which suits the pipe; meanwhile the sockets hold
 * what the server is ahead.
 *
 * A lane that breaks breaks all: what is left on the others nobody would read.
 */
#include <config.h>
#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "backend-nbd-internal.h"

#define MIN_PART_BYTES (256 * KiB)
#define PART_ALIGN (64 * KiB)

#define REQUEST_MAGIC UINT32_C (0x25609513)
#define REPLY_MAGIC UINT32_C (0x67446698)

enum {                          /* commands and their flags */
  CMD_READ = 0, CMD_WRITE = 1, CMD_FLUSH = 3, CMD_WRITE_ZEROES = 6,
  FLAG_FUA = 1, FLAG_NO_HOLE = 2,
};

struct request {
  uint32_t magic;
  uint16_t flags, type;
  uint64_t cookie, offset;
  uint32_t count;
} __attribute__ ((packed));

struct reply {
  uint32_t magic, errnum;
  uint64_t cookie;
} __attribute__ ((packed));

/* A part of a request, on a lane. */
struct part {
  int fd;
  uint64_t cookie;
  uint64_t begin, bytes;        /* of the request's */
};

/*--- the socket -------------------------------------------------------------*/

static void
wait_for (int fd, short events)
{
  struct pollfd p = { .fd = fd, .events = events };

  /* Interrupted: the caller tries the socket again. */
  poll (&p, 1, -1);
}

/* The next bytes of what iov describes are done.  An empty piece is done, too. */
static void
advance (struct iovec **iov, int *iovcnt, size_t done)
{
  while (*iovcnt > 0 && done >= (*iov)->iov_len) {
    done -= (*iov)->iov_len;
    (*iov)++;
    (*iovcnt)--;
  }
  if (*iovcnt > 0) {
    (*iov)->iov_base = (char *) (*iov)->iov_base + done;
    (*iov)->iov_len -= done;
  }
}

static bool
receive_all (int fd, void *buf, size_t len)
{
  char *p = buf;

  while (len > 0) {
    const ssize_t n = recv (fd, p, len, MSG_DONTWAIT);

    if (n > 0) {
      p += n;
      len -= (size_t) n;
    }
    else if (n == 0)
      return false;
    else if (errno == EAGAIN)
      wait_for (fd, POLLIN);
    else if (errno != EINTR)
      return false;
  }
  return true;
}

/*--- the pipe ---------------------------------------------------------------*/

/* Where a read's data goes: the pipe while it has room, else buf. */
struct sink {
  struct backend_io *io;
  struct backend_pipe *pipe;    /* NULL: buf */
  uint64_t in_pipe;             /* bytes of data behind the head */
};

static void
sink_open (struct sink *k, struct backend_io *io)
{
  *k = (struct sink) { .io = io, .pipe = io->pipe };
  if (k->pipe && write (k->pipe->in, k->pipe->head, k->pipe->head_bytes)
                 != (ssize_t) k->pipe->head_bytes)
    k->pipe = NULL;
}

/* The data that the pipe has comes to buf, and what follows goes there. */
static void
sink_leave_pipe (struct sink *k)
{
  char head[64];

  if (!k->pipe)
    return;
  assert (k->pipe->head_bytes <= sizeof head);
  backend_empty_pipe (k->pipe->out, head, k->pipe->head_bytes);
  backend_empty_pipe (k->pipe->out, k->io->buf, k->in_pipe);
  k->pipe = NULL;
}

static bool
is_full (const struct backend_pipe *pipe)
{
  struct pollfd p = { .fd = pipe->in, .events = POLLOUT };

  return poll (&p, 1, 0) == 0;
}

static bool
sink_receive (struct sink *k, const struct part *p)
{
  uint64_t done = 0;

  while (k->pipe && done < p->bytes) {
    const ssize_t n = splice (p->fd, NULL, k->pipe->in, NULL, p->bytes - done,
                              SPLICE_F_NONBLOCK | SPLICE_F_MOVE);

    if (n > 0) {
      done += (uint64_t) n;
      k->in_pipe += (uint64_t) n;
    }
    else if (n == 0)
      return false;
    else if (errno == EAGAIN && !is_full (k->pipe))
      wait_for (p->fd, POLLIN);
    else if (errno != EINTR)
      sink_leave_pipe (k);      /* full; or this socket cannot do it */
  }
  return receive_all (p->fd, (char *) k->io->buf + p->begin + done, p->bytes - done);
}

/*--- requests ---------------------------------------------------------------*/

static uint16_t
command_of (const struct nbd_backend *n, const struct backend_io *io, uint16_t *flags)
{
  *flags = 0;
  switch (io->op) {
  case BACKEND_READ:
    return CMD_READ;
  case BACKEND_WRITE:
    *flags = io->fua && n->can_fua ? FLAG_FUA : 0;
    return CMD_WRITE;
  case BACKEND_FLUSH:
    return CMD_FLUSH;
  case BACKEND_ZERO:
    *flags = FLAG_NO_HOLE;
    return CMD_WRITE_ZEROES;
  case BACKEND_DISCARD:
    return CMD_WRITE_ZEROES;
  }
  abort ();
}

/* What is to be sent of a part. */
struct sending {
  int fd;
  struct request request;
  struct iovec iov[2], *next;
  int iovcnt;                   /* from next on */
};

static void
send_begin (struct sending *s, const struct nbd_backend *n, const struct backend_io *io,
            const struct part *p)
{
  uint16_t flags;
  const uint16_t type = command_of (n, io, &flags);

  s->fd = p->fd;
  s->request = (struct request) {
    .magic = htobe32 (REQUEST_MAGIC),
    .flags = htobe16 (flags),
    .type = htobe16 (type),
    .cookie = p->cookie,
    .offset = htobe64 (io->op == BACKEND_FLUSH ? 0 : io->offset + p->begin),
    .count = htobe32 ((uint32_t) p->bytes),
  };
  s->iov[0] = (struct iovec) { &s->request, sizeof s->request };
  s->iov[1] = (struct iovec) { (char *) io->buf + p->begin, p->bytes };
  s->next = s->iov;
  s->iovcnt = io->op == BACKEND_WRITE ? 2 : 1;
}

/* What the socket takes now: 1 if it took some, 0 if it is full, -1 if it is broken. */
static int
send_some (struct sending *s, int flags)
{
  const struct msghdr m = { .msg_iov = s->next, .msg_iovlen = (size_t) s->iovcnt };
  const ssize_t n = sendmsg (s->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT | flags);

  if (n == -1)
    return errno == EINTR ? 1 : errno == EAGAIN ? 0 : -1;
  advance (&s->next, &s->iovcnt, (size_t) n);
  return 1;
}

/* All parts, each as fast as its server takes it; false: a lane is broken. */
static bool
send_parts (const struct nbd_backend *n, const struct backend_io *io,
            const struct part *parts, unsigned nr)
{
  struct sending s[MAX_CONNECTIONS];
  struct pollfd full[MAX_CONNECTIONS];
  unsigned i, nr_full;
  bool moved;

  for (i = 0; i < nr; ++i)
    send_begin (&s[i], n, io, &parts[i]);
  do {
    moved = false;
    nr_full = 0;
    for (i = 0; i < nr; ++i) {
      const int r = s[i].iovcnt > 0 ? send_some (&s[i], 0) : 0;

      if (r == -1)
        return false;
      moved = moved || r == 1;
      if (s[i].iovcnt > 0)
        full[nr_full++] = (struct pollfd) { .fd = s[i].fd, .events = POLLOUT };
    }
    if (nr_full > 0 && !moved)
      poll (full, nr_full, -1);
  } while (nr_full > 0);
  return true;
}

/* From the pipe, whose order is that of the parts; false: the lane is broken. */
static bool
send_from_pipe (const struct nbd_backend *n, struct backend_io *io,
                const struct part *p)
{
  struct sending s;
  uint64_t left = p->bytes;

  send_begin (&s, n, io, p);
  s.iovcnt = 1;
  while (s.iovcnt > 0) {
    const int r = send_some (&s, MSG_MORE);

    if (r == -1)
      return false;
    if (r == 0)
      wait_for (p->fd, POLLOUT);
  }
  while (left > 0) {
    const ssize_t r = splice (io->pipe->out, NULL, p->fd, NULL, left,
                              SPLICE_F_NONBLOCK | SPLICE_F_MOVE);

    if (r > 0) {
      left -= (uint64_t) r;
      io->pipe->data_bytes -= (size_t) r;
    }
    else if (r == -1 && errno == EAGAIN)
      wait_for (p->fd, POLLOUT);
    else if (r == 0 || errno != EINTR)
      return false;
  }
  return true;
}

static bool
send_parts_from_pipe (const struct nbd_backend *n, struct backend_io *io,
                      const struct part *parts, unsigned nr)
{
  unsigned i;

  for (i = 0; i < nr; ++i)
    if (!send_from_pipe (n, io, &parts[i]))
      return false;
  return true;
}

/* The protocol's error numbers are Linux's; what it does not know is EINVAL. */
static int
errnum_of (uint32_t nbd_errnum)
{
  switch (nbd_errnum) {
  case EPERM: case EIO: case ENOMEM: case EINVAL: case ENOSPC: case EOVERFLOW:
  case ENOTSUP: case ESHUTDOWN:
    return (int) nbd_errnum;
  }
  return EINVAL;
}

/* False: the lane is broken.  *errnum stays if the server did it. */
static bool
receive_part (const struct backend_io *io, const struct part *p, struct sink *k,
              int *errnum)
{
  struct reply r;

  if (!receive_all (p->fd, &r, sizeof r) || be32toh (r.magic) != REPLY_MAGIC
      || r.cookie != p->cookie)
    return false;
  if (r.errnum != 0) {
    if (*errnum == 0)
      *errnum = conn_file_error (errnum_of (be32toh (r.errnum)));
    return true;
  }
  return io->op != BACKEND_READ || sink_receive (k, p);
}

/* Where the part ends that begins at `begin`: parts begin at multiples of PART_ALIGN
   of the export, which saves a server reading for what is written in part. */
static uint64_t
part_end (const struct backend_io *io, uint64_t begin, uint64_t bytes)
{
  const uint64_t end = io->offset + begin + bytes;
  const uint64_t aligned = end - end % PART_ALIGN;

  return aligned > io->offset + begin && begin + bytes < io->count ? aligned - io->offset
                                                                   : begin + bytes;
}

/* Cuts the next parts off what is left of the request; how many. */
static unsigned
cut_parts (struct nbd_backend *n, const struct backend_io *io, uint64_t begin,
           struct part *parts)
{
  const bool data = io->op == BACKEND_READ || io->op == BACKEND_WRITE;
  const uint64_t most = data ? n->max_data_bytes : MAX_PIECE_BYTES;
  const uint64_t each = MAX ((io->count - begin) / n->nr_lanes, MIN_PART_BYTES);
  unsigned i = 0;

  do {
    const uint64_t left = io->count - begin;
    const bool last = i + 1 == n->nr_lanes || !data;
    const uint64_t bytes = MIN (last ? left : MIN (left, each), most);

    parts[i] = (struct part) {
      .fd = nbd_aio_get_fd (n->conns[n->nr_shared + i].nbd),
      .cookie = ++n->cookie,
      .begin = begin,
      .bytes = part_end (io, begin, bytes) - begin,
    };
    begin += parts[i].bytes;
    i++;
  } while (begin < io->count && i < n->nr_lanes);
  return i;
}

static void
break_lanes (struct nbd_backend *n)
{
  unsigned i;

  n->lanes_broken = true;
  for (i = 0; i < n->nr_lanes; ++i)
    shutdown (nbd_aio_get_fd (n->conns[n->nr_shared + i].nbd), SHUT_RDWR);
}

/* 0, or an errno. */
static int
do_parts (struct nbd_backend *n, struct backend_io *io, struct sink *k)
{
  struct part parts[MAX_CONNECTIONS];
  uint64_t begin = 0;
  int errnum = 0;

  do {
    const unsigned nr = cut_parts (n, io, begin, parts);
    unsigned i;

    if (io->op == BACKEND_WRITE && io->pipe ? !send_parts_from_pipe (n, io, parts, nr)
                                            : !send_parts (n, io, parts, nr))
      goto broken;
    for (i = 0; i < nr; ++i)
      if (!receive_part (io, &parts[i], k, &errnum))
        goto broken;
    begin = parts[nr - 1].begin + parts[nr - 1].bytes;
  } while (begin < io->count && errnum == 0);
  return errnum;

 broken:
  break_lanes (n);
  return EIO;
}

int
lanes_do (struct nbd_backend *n, struct backend_io *io)
{
  struct sink k = { .io = io, .pipe = NULL };
  int errnum;

  if (n->lanes_broken)
    return EIO;
  if (io->op == BACKEND_READ)
    sink_open (&k, io);
  errnum = do_parts (n, io, &k);
  if (errnum == 0 && io->op == BACKEND_WRITE && io->fua && !n->can_fua && n->can_flush) {
    struct backend_io flush = { .op = BACKEND_FLUSH };

    errnum = do_parts (n, &flush, &k);
  }
  if (errnum != 0)
    sink_leave_pipe (&k);
  io->piped = k.pipe != NULL;
  return errnum;
}
