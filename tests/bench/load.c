/* SPDX-License-Identifier: BSD-3-Clause */
#include <config.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include "load.h"

static uint64_t
now (void)
{
  return sh_now (&sh_clock_monotonic);
}

/* -- the device --------------------------------------------------------------------------- */

void
complete_into_mq (void *queue, struct mq_request **rq, unsigned n)
{
  mq_complete_batch (queue, rq, n, 0);
}

/* Locks that are held for moments: who finds one taken looks again before it sleeps, so
   that the clients' sleeping and waking is not what is measured. */
static void
init_lock (pthread_mutex_t *lock)
{
  pthread_mutexattr_t a;

  pthread_mutexattr_init (&a);
  pthread_mutexattr_settype (&a, PTHREAD_MUTEX_ADAPTIVE_NP);
  pthread_mutex_init (lock, &a);
  pthread_mutexattr_destroy (&a);
}

static void *
zeroed (size_t alignment, size_t size)
{
  void *p = aligned_alloc (alignment, DIV_ROUND_UP (size, alignment) * alignment);

  if (p == NULL)
    abort ();
  return memset (p, 0, size);
}

struct device *
device_new (void)
{
  return zeroed (_Alignof (struct device), sizeof (struct device));
}

uint64_t
device_commands (struct device *d)
{
  uint64_t n = 0;
  unsigned i;

  for (i = 0; i < ARRAY_SIZE (d->commands); ++i)
    n += atomic_load (&d->commands[i].n);
  return MAX (n, 1);
}

static void
enqueue_locked (struct device *d, struct mq_request *rq, uint64_t t)
{
  uint64_t *unit = &d->unit_due_ns[d->next_unit];

  d->next_unit = d->next_unit + 1 < d->units ? d->next_unit + 1 : 0;
  *unit = MAX (*unit, t) + d->latency_ns;
  d->ring[(d->head + d->count) % d->size].rq = rq;
  d->ring[(d->head + d->count) % d->size].due_ns = *unit;
  d->count++;
}

static void
read_each (struct bdev *bdev, struct mq_request **rq, unsigned n)
{
  static __thread char buf[4096] __attribute__ ((aligned (4096)));
  unsigned i;

  for (i = 0; i < n; ++i)
    if (bdev_read (bdev, buf, sizeof buf, rq[i]->dl.sector % 4096 * 4096) == -1)
      abort ();
}

void
device_issue (void *opaque, struct mq_request **rq, unsigned n)
{
  struct device *d = opaque;
  const uint64_t t = d->at_once ? 0 : now ();
  bool was_empty;
  unsigned i;

  atomic_fetch_add_explicit (&d->commands[rq[0]->hwq % BENCH_MAX_HWQS].n, n, memory_order_relaxed);
  if (d->at_once) {
    if (d->bdev)
      read_each (d->bdev, rq, n);
    d->complete (d->queue, rq, n);
    return;
  }
  pthread_mutex_lock (&d->lock);
  was_empty = d->count == 0;
  for (i = 0; i < n; ++i)
    enqueue_locked (d, rq[i], t);
  if (was_empty)
    pthread_cond_signal (&d->cond);
  pthread_mutex_unlock (&d->lock);
}

const struct mq_device_ops bench_device_ops = { .issue = device_issue };

static unsigned
take_due_locked (struct device *d, struct mq_request **rq, unsigned max)
{
  const uint64_t t = now ();
  unsigned n = 0;

  while (n < max && d->count && d->ring[d->head].due_ns <= t) {
    rq[n++] = d->ring[d->head].rq;
    d->head = (d->head + 1) % d->size;
    d->count--;
  }
  return n;
}

static void *
device_thread (void *opaque)
{
  struct device *d = opaque;
  struct mq_request *rq[64];
  unsigned n;

  prctl (PR_SET_TIMERSLACK, 1);
  pthread_mutex_lock (&d->lock);
  while (!d->stop || d->count) {
    n = take_due_locked (d, rq, d->latency_ns ? 64 : 16);
    if (n) {
      pthread_mutex_unlock (&d->lock);
      d->complete (d->queue, rq, n);
      pthread_mutex_lock (&d->lock);
    }
    else if (d->count)
      sh_cond_wait_until (&sh_clock_monotonic, &d->cond, &d->lock, d->ring[d->head].due_ns);
    else if (!d->stop)
      pthread_cond_wait (&d->cond, &d->lock);
  }
  pthread_mutex_unlock (&d->lock);
  return NULL;
}

void
device_start (struct device *d)
{
  init_lock (&d->lock);
  sh_cond_init (&d->cond);
  d->size = 65536;
  d->ring = calloc (d->size, sizeof *d->ring);
  memset (d->unit_due_ns, 0, sizeof d->unit_due_ns);
  d->head = d->count = d->next_unit = 0;
  d->stop = false;
  if (!d->at_once)
    pthread_create (&d->thread, NULL, device_thread, d);
}

void
device_stop (struct device *d)
{
  if (!d->at_once) {
    pthread_mutex_lock (&d->lock);
    d->stop = true;
    pthread_cond_signal (&d->cond);
    pthread_mutex_unlock (&d->lock);
    pthread_join (d->thread, NULL);
  }
  free (d->ring);
}

/* -- submitters ------------------------------------------------------------------------------ */

void
submit_to_mq (void *queue, struct mq_request **rq, unsigned n)
{
  mq_submit (queue, rq, n);
}

static void
end_io (struct mq_request *rq)
{
  struct io *io = (struct io *) rq;
  struct submitter *s = io->submitter;

  pthread_mutex_lock (&s->lock);
  s->done++;
  if (s->load->depth == 1 && s->nr_samples < BENCH_MAX_SAMPLES)
    s->samples_us[s->nr_samples++] = (uint32_t) ((now () - io->began_ns) / 1000);
  io->next_free = s->free;
  s->free = io;
  if (++s->nr_free == s->load->batch)
    pthread_cond_signal (&s->cond);
  pthread_mutex_unlock (&s->lock);
}

static unsigned
take_free (struct submitter *s, struct io **io)
{
  unsigned n = 0;

  pthread_mutex_lock (&s->lock);
  while (s->nr_free < s->load->batch && !atomic_load (s->stop))
    pthread_cond_wait (&s->cond, &s->lock);
  while (n < s->load->batch && s->free) {
    io[n++] = s->free;
    s->free = s->free->next_free;
    s->nr_free--;
  }
  pthread_mutex_unlock (&s->lock);
  return n;
}

static atomic_ullong stream;

static void
describe (struct submitter *s, struct io *io, uint64_t *seed)
{
  const struct load *load = s->load;
  struct mq_request *rq = &io->rq;

  mq_request_init (rq);
  *seed = *seed * UINT64_C (6364136223846793005) + 1442695040888963407;
  rq->dl.sector = load->sequential ? atomic_fetch_add (&stream, 8)
                                   : (*seed >> 33) % 100000000 * 16;
  rq->dl.nr_sectors = 8;
  rq->dl.nr_segments = 1;
  rq->dl.mergeable = load->sequential;
  rq->dl.dir = load->dir;
  rq->dl.prio_class = load->class_of ? load->class_of (s->number) : DL_BE;
  rq->hwq = s->number % load->hwqs;
  rq->end_io = end_io;
  io->submitter = s;
  if (load->depth == 1)
    io->began_ns = now ();
}

static void *
submitter_thread (void *opaque)
{
  struct submitter *s = opaque;
  void *queue = s->load->queue_of (s->load->opaque, s->number);
  uint64_t seed = s->number + 1;
  struct mq_request *rq[64];
  struct io *io[64];
  unsigned n, i;

  prctl (PR_SET_TIMERSLACK, 1);
  while (!atomic_load_explicit (s->stop, memory_order_relaxed)) {
    n = take_free (s, io);
    for (i = 0; i < n; ++i) {
      describe (s, io[i], &seed);
      rq[i] = &io[i]->rq;
    }
    if (n)
      s->load->submit (queue, rq, n);
    if (s->load->think_ns)
      sh_sleep (&sh_clock_monotonic, s->load->think_ns);
  }
  return NULL;
}

static void
start_submitter (struct submitter *s, const struct load *load, unsigned number, atomic_bool *stop)
{
  unsigned i;

  memset (s, 0, sizeof *s);
  s->load = load;
  s->number = number;
  s->stop = stop;
  s->ios = zeroed (128, load->depth * sizeof *s->ios);
  if (load->depth == 1)
    s->samples_us = malloc (BENCH_MAX_SAMPLES * sizeof *s->samples_us);
  init_lock (&s->lock);
  pthread_cond_init (&s->cond, NULL);
  for (i = 0; i < load->depth; ++i) {
    s->ios[i].next_free = s->free;
    s->free = &s->ios[i];
  }
  s->nr_free = load->depth;
  pthread_create (&s->thread, NULL, submitter_thread, s);
}

static int
compare_samples (const void *a, const void *b)
{
  return *(const uint32_t *) a < *(const uint32_t *) b ? -1 : 1;
}

static double
p99 (struct submitter *s)
{
  if (s->nr_samples < 20)
    return 0;
  qsort (s->samples_us, s->nr_samples, sizeof *s->samples_us, compare_samples);
  return s->samples_us[s->nr_samples * 99 / 100];
}

static void
stop_submitter (struct submitter *s, unsigned number, struct result *r)
{
  pthread_mutex_lock (&s->lock);
  pthread_cond_signal (&s->cond);
  pthread_mutex_unlock (&s->lock);
  pthread_join (s->thread, NULL);
  for (;;) {
    unsigned n;

    pthread_mutex_lock (&s->lock);
    n = s->nr_free;
    pthread_mutex_unlock (&s->lock);
    if (n == s->load->depth)
      break;
    sh_sleep (&sh_clock_monotonic, NS_PER_MS / 5);
  }
  if (number < 256) {
    r->p99_us[number] = p99 (s);
    r->done_by[number] = s->done;
  }
  free (s->samples_us);
  free (s->ios);
}

static double
cpu_seconds (void)
{
  struct rusage u;

  getrusage (RUSAGE_SELF, &u);
  return u.ru_utime.tv_sec + u.ru_stime.tv_sec +
    (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

void
run_load (const struct load *load, struct result *r)
{
  struct submitter *s = zeroed (_Alignof (struct submitter), load->submitters * sizeof *s);
  const double cpu = cpu_seconds ();
  const uint64_t began = now ();
  atomic_bool stop = false;
  unsigned i;

  memset (r, 0, sizeof *r);
  for (i = 0; i < load->submitters; ++i)
    start_submitter (&s[i], load, i, &stop);
  sh_sleep (&sh_clock_monotonic, (uint64_t) (load->seconds * 1e9));
  for (i = 0; i < load->submitters; ++i) {
    pthread_mutex_lock (&s[i].lock);
    r->done += s[i].done;
    pthread_mutex_unlock (&s[i].lock);
  }
  r->seconds = (now () - began) / 1e9;
  r->cpu_seconds = cpu_seconds () - cpu;
  r->iops = r->done / r->seconds;
  r->cpu_us_per_io = r->cpu_seconds * 1e6 / MAX (r->done, 1);
  atomic_store (&stop, true);
  for (i = 0; i < load->submitters; ++i)
    stop_submitter (&s[i], i, r);
  free (s);
}

/* -- queues -------------------------------------------------------------------------------------- */

static void
must (int r, const struct sh_error *err)
{
  if (r == -1) {
    fprintf (stderr, "mq-bench: %s\n", err->message);
    exit (1);
  }
}

struct tagset *
bench_tagset (unsigned tags, const char *name)
{
  const struct tagset_options o = { .tags = tags, .reserved = 2, .name = name };
  struct sh_error err = { 0 };
  struct tagset *set;

  must (tagset_open (&o, &set, &err), &err);
  return set;
}

struct mq *
bench_queue (const struct mq_options *options, struct tagset *set, struct device *d)
{
  const struct mq_config c = {
    .name = "bench",
    .options = *options,
    .tagset = set,
    .ops = &bench_device_ops,
    .device = d,
    .limits = { .max_sectors = 2048, .max_segments = 128 },
  };
  struct sh_error err = { 0 };
  struct mq *mq;

  must (mq_create (&c, &mq, &err), &err);
  d->queue = mq;
  return mq;
}

static int
compare_doubles (const void *a, const void *b)
{
  return *(const double *) a < *(const double *) b ? -1 : 1;
}

double
median (double *v, unsigned n)
{
  qsort (v, n, sizeof *v, compare_doubles);
  return v[n / 2];
}
