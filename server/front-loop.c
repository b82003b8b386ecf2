/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The threads that read requests from the kernel.
 *
 * A few threads suffice while the backend answers at the speed of memory, and
 * more would only take turns on the processors.  Above a drive a thread sleeps
 * for the time of each request.  So the loop starts small, and front_run's
 * ticks add threads while all of them are stuck in the same requests as at the
 * tick before.
 *
 * Ending: a read of /dev/fuse returns ENODEV when the file system is unmounted,
 * and EINTR for the signal that loop_finish sends.  A request that was read is
 * always answered; those that were not stay in the kernel and fail there with
 * ENOTCONN when the last descriptor is closed.
 */
#include "front-internal.h"

#include <config.h>
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "front-loop.h"

#define MIN_FIRST_THREADS 2u
#define MAX_FIRST_THREADS 8u
#define DEFAULT_MAX_THREADS 64u
#define WAKE_SIGNAL SIGUSR1
#define FINISH_TIMEOUT_NS (30 * NS_PER_S)

/* As large as a user who is not root may have it: 256 places, enough as the data of an
   answer comes in pieces of more than a page. */
#define ANSWER_PIPE_BYTES MiB

/* The largest write needs 257 places, a page for each of the data and the header's;
   this takes CAP_SYS_RESOURCE or a larger fs.pipe-max-size.  A smaller one will not
   do, as the kernel loses a request that finds no room. */
#define REQUEST_PIPE_BYTES (2 * MiB)
static_assert (REQUEST_PIPE_BYTES / SLOT_PAGE > SLOT_DATA_BYTES / SLOT_PAGE,
               "the header has a place, too");

struct loop_thread {
  struct front *front;
  unsigned number;
  pthread_t id;
  int fd;                       /* the session's, or a clone of it (owned) */
  struct slot *slot;            /* own; NULL after it was given away */
  /* Empty between requests; in 0: none yet, -1: none. */
  struct backend_pipe pipe;     /* of answers */
  struct backend_pipe requests;
  bool expects_data;            /* the next request is likely to be a large write */
  /* Odd while a request is worked on; written by the thread alone. */
  _Atomic unsigned seq;
  unsigned seen_seq;            /* at the last tick; front_run's */
  atomic_bool ended;
};

struct loop {
  struct loop_thread *threads;  /* max_threads; the first nr_threads run */
  unsigned nr_threads, max_threads;
};

static __thread struct loop_thread *self;
static __thread int reply_fd = -1;

struct slot *
loop_slot (void)
{
  assert (self && self->slot);
  return self->slot;
}

unsigned
loop_thread_number (void)
{
  return self ? self->number : 0;
}

static void
make_pipe (struct backend_pipe *p, int bytes)
{
  int fds[2];

  p->in = -1;
  if (pipe2 (fds, O_CLOEXEC) == -1)
    return;
  if (fcntl (fds[1], F_SETPIPE_SZ, bytes) == -1) {
    close (fds[0]);             /* the user may not, or has many pipes */
    close (fds[1]);
    return;
  }
  p->out = fds[0];
  p->in = fds[1];
}

static void
close_pipe (struct backend_pipe *p)
{
  if (p->in > 0) {
    close (p->in);
    close (p->out);
  }
  p->in = 0;
  p->data_bytes = 0;
}

struct backend_pipe *
loop_pipe (void)
{
  if (self->pipe.in == 0)
    make_pipe (&self->pipe, ANSWER_PIPE_BYTES);
  return self->pipe.in == -1 ? NULL : &self->pipe;
}

bool
loop_reply_pipe (struct slot *s, size_t bytes)
{
  struct backend_pipe *p = s->io.pipe;

  assert (p == &self->pipe);
  if (splice (p->out, NULL, s->reply_fd, NULL, bytes, 0) == (ssize_t) bytes)
    return true;
  close_pipe (p);
  return false;
}

void
loop_give_slot (struct slot *s)
{
  assert (self && self->slot == s);
  self->slot = NULL;
}

void
loop_reply_begin (const struct slot *s)
{
  reply_fd = s->reply_fd;
}

void
loop_reply_end (void)
{
  reply_fd = self ? self->fd : -1;
}

/* libfuse answers with this.  The kernel wants the answer on the clone that
   the request came by. */
static ssize_t
reply_writev (int fd, struct iovec *iov, int count, void *userdata)
{
  return writev (reply_fd != -1 ? reply_fd : fd, iov, count);
}

static ssize_t
unused_read (int fd, void *buf, size_t len, void *userdata)
{
  return read (fd, buf, len);
}

static void
wake_front (struct front *f)
{
  const uint64_t one = 1;

  /* Cannot fail but for a full counter, which wakes as well. */
  if (write (f->wake_fd, &one, sizeof one) == -1)
    return;
}

void
loop_expect_data (void)
{
  if (self)
    self->expects_data = true;
}

static bool
have_request_pipe (struct loop_thread *t)
{
  if (t->requests.in == 0)
    make_pipe (&t->requests, REQUEST_PIPE_BYTES);
  return t->requests.in != -1;
}

/* The next request; of a large write only the header, if its data are in a pipe.
   Its bytes, or -1 with errno. */
static ssize_t
receive (struct loop_thread *t, struct slot *s)
{
  const bool to_pipe = t->expects_data && have_request_pipe (t);
  struct backend_pipe *p = &t->requests;
  const struct fuse_in_header *header = s->in;
  ssize_t n;

  s->data_pipe = NULL;
  t->expects_data = false;
  if (!to_pipe)
    return read (t->fd, s->in, slot_in_bytes (s));
  n = splice (t->fd, NULL, p->in, NULL, slot_in_bytes (s), 0);
  if (n <= 0)
    return n;
  if ((size_t) n < FRONT_MIN_PIPE_BYTES) {
    backend_empty_pipe (p->out, s->in, (size_t) n);
    return n;
  }
  backend_empty_pipe (p->out, s->in, SLOT_HEADER_BYTES);
  p->data_bytes = (size_t) n - SLOT_HEADER_BYTES;
  if (header->opcode == FUSE_WRITE)
    s->data_pipe = p;
  else {
    backend_empty_pipe (p->out, (char *) s->in + SLOT_HEADER_BYTES, p->data_bytes);
    p->data_bytes = 0;
  }
  return n;
}

/* One request.  False: this thread is to end. */
static bool
serve_one (struct loop_thread *t)
{
  struct front *f = t->front;
  struct slot *s = t->slot;
  struct fuse_buf buf = { .mem = s->in };
  const ssize_t n = receive (t, s);

  if (n == -1) {
    if (errno == EINTR || errno == EAGAIN || errno == ENOENT)
      return true;
    if (errno != ENODEV)
      sh_log (f->options.log, SH_LOG_ERROR, "reading from /dev/fuse: %s",
              strerror (errno));
    atomic_store (&f->unmounted, true);
    return false;
  }
  buf.size = n;
  s->front = f;
  s->reply_fd = t->fd;
  atomic_fetch_add_explicit (&t->seq, 1, memory_order_relaxed);
  fuse_session_process_buf (f->se, &buf);
  if (t->requests.data_bytes > 0)
    close_pipe (&t->requests);  /* data of a write that failed */
  atomic_fetch_add_explicit (&t->seq, 1, memory_order_relaxed);
  if (!atomic_load_explicit (&f->initialised, memory_order_relaxed)) {
    atomic_store (&f->initialised, true);
    wake_front (f);
  }
  return true;
}

/* False: no memory now. */
static bool
have_slot (struct loop_thread *t)
{
  if (!t->slot)
    t->slot = slot_get (&t->front->slots);
  return t->slot != NULL;
}

static void *
loop_thread (void *arg)
{
  struct loop_thread *t = arg;
  struct front *f = t->front;
  sigset_t set;

  self = t;
  reply_fd = t->fd;
  sigemptyset (&set);
  sigaddset (&set, WAKE_SIGNAL);
  pthread_sigmask (SIG_UNBLOCK, &set, NULL);

  while (!atomic_load_explicit (&f->stopping, memory_order_relaxed)
         && !fuse_session_exited (f->se)) {
    if (!have_slot (t))
      sh_sleep (&sh_clock_monotonic, NS_PER_MS);
    else if (!serve_one (t))
      break;
  }
  if (t->slot)
    slot_put (&f->slots, t->slot);
  t->slot = NULL;
  close_pipe (&t->pipe);
  close_pipe (&t->requests);
  atomic_store (&t->ended, true);
  wake_front (f);
  return NULL;
}

static void
on_wake_signal (int signum)
{
  /* Only interrupts the read. */
}

static int
clone_fd (int session_fd)
{
  uint32_t source = session_fd;
  const int fd = open ("/dev/fuse", O_RDWR|O_CLOEXEC);

  if (fd == -1)
    return -1;
  if (ioctl (fd, FUSE_DEV_IOC_CLONE, &source) == -1) {
    close (fd);
    return -1;
  }
  return fd;
}

static int
add_thread (struct front *f)
{
  struct loop *l = f->loop;
  struct loop_thread *t = &l->threads[l->nr_threads];
  const int session_fd = fuse_session_fd (f->se);
  int r;

  assert (l->nr_threads < l->max_threads);
  t->front = f;
  t->number = l->nr_threads;
  t->fd = session_fd;
  if (f->options.clone_fd && l->nr_threads > 0) {
    t->fd = clone_fd (session_fd);
    if (t->fd == -1)
      t->fd = session_fd;
  }
  r = pthread_create (&t->id, NULL, loop_thread, t);
  if (r != 0) {
    if (t->fd != session_fd)
      close (t->fd);
    errno = r;
    return -1;
  }
  l->nr_threads++;
  return 0;
}

/* One for each processor: measured best above memory. */
static unsigned
first_threads (unsigned max)
{
  const long processors = sysconf (_SC_NPROCESSORS_ONLN);
  unsigned n = MIN_FIRST_THREADS;

  if (processors > (long) n)
    n = MIN ((unsigned) processors, MAX_FIRST_THREADS);
  return MIN (n, max);
}

int
loop_start (struct front *f, struct sh_error *err)
{
  static const struct fuse_custom_io io = {
    .writev = reply_writev,
    .read = unused_read,
  };
  const struct sigaction action = { .sa_handler = on_wake_signal };
  struct loop *l = calloc (1, sizeof *l);
  unsigned i;

  if (!l)
    return sh_fail (err, ENOMEM, "no memory for the FUSE threads");
  f->loop = l;
  l->max_threads = f->options.threads ? f->options.threads : DEFAULT_MAX_THREADS;
  l->threads = calloc (l->max_threads, sizeof *l->threads);
  if (!l->threads)
    return sh_fail (err, ENOMEM, "no memory for the FUSE threads");

  sigaction (WAKE_SIGNAL, &action, NULL);
  if (f->options.clone_fd
      && fuse_session_custom_io (f->se, &io, fuse_session_fd (f->se)) != 0)
    return sh_fail (err, EIO, "libfuse refused our way of answering");
  for (i = 0; i < first_threads (l->max_threads); ++i)
    if (add_thread (f) == -1)
      return sh_fail (err, errno, "starting a FUSE thread: %s", strerror (errno));
  return 0;
}

bool
loop_ended (const struct front *f)
{
  unsigned i;

  for (i = 0; i < f->loop->nr_threads; ++i)
    if (!atomic_load (&f->loop->threads[i].ended))
      return false;
  return true;
}

bool
loop_tick (struct front *f)
{
  struct loop *l = f->loop;
  unsigned i, add, stuck = 0;
  bool moved = false;

  for (i = 0; i < l->nr_threads; ++i) {
    struct loop_thread *t = &l->threads[i];
    const unsigned seq = atomic_load_explicit (&t->seq, memory_order_relaxed);

    if (seq != t->seen_seq)
      moved = true;
    else if (seq & 1)
      stuck++;
    t->seen_seq = seq;
  }
  if (stuck == l->nr_threads) {
    /* A failure to add one changes nothing; the next tick tries again. */
    add = MIN (l->nr_threads, l->max_threads - l->nr_threads);
    while (add > 0 && add_thread (f) == 0)
      add--;
  }
  return moved || stuck > 0;
}

/* Repeats the signal: it may come between a thread's look at `stopping` and
   its read. */
static bool
join_threads (struct loop *l, uint64_t deadline_ns)
{
  unsigned i;

  for (i = 0; i < l->nr_threads; ++i) {
    struct loop_thread *t = &l->threads[i];

    while (!atomic_load (&t->ended)) {
      if (sh_now (&sh_clock_monotonic) >= deadline_ns)
        return false;
      pthread_kill (t->id, WAKE_SIGNAL);
      sh_sleep (&sh_clock_monotonic, NS_PER_MS / 4);
    }
  }
  for (i = 0; i < l->nr_threads; ++i)
    pthread_join (l->threads[i].id, NULL);
  return true;
}

static bool
wait_for_slots (struct slot_pool *p, uint64_t deadline_ns)
{
  for (;;) {
    unsigned taken;

    pthread_mutex_lock (&p->lock);
    taken = p->nr_taken;
    pthread_mutex_unlock (&p->lock);
    if (taken == 0)
      return true;
    if (sh_now (&sh_clock_monotonic) >= deadline_ns)
      return false;
    sh_sleep (&sh_clock_monotonic, NS_PER_MS);
  }
}

bool
loop_finish (struct front *f)
{
  const uint64_t deadline_ns = sh_now (&sh_clock_monotonic) + FINISH_TIMEOUT_NS;

  atomic_store (&f->stopping, true);
  return join_threads (f->loop, deadline_ns)
         && wait_for_slots (&f->slots, deadline_ns);
}

void
loop_free (struct front *f)
{
  struct loop *l = f->loop;
  unsigned i;

  if (!l)
    return;
  for (i = 0; i < l->nr_threads; ++i)
    if (l->threads[i].fd != fuse_session_fd (f->se))
      close (l->threads[i].fd);
  free (l->threads);
  free (l);
  f->loop = NULL;
}
