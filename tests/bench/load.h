/* SPDX-License-Identifier: BSD-3-Clause */
/* A device of fixed latency with N parallel units, and threads that load a queue
 * in front of it. */
#ifndef BENCH_LOAD_H
#define BENCH_LOAD_H

#include <pthread.h>
#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "mq/mq.h"

#define BENCH_MAX_UNITS 4096
#define BENCH_MAX_HWQS 64

/* A request of the bench, by its first member. */
struct io {
  struct mq_request rq;
  struct io *next_free;
  struct submitter *submitter;
  uint64_t began_ns;
};

struct device {
  void (*complete) (void *queue, struct mq_request **rq, unsigned n);
  void *queue;
  uint64_t latency_ns;          /* 0 with at_once */
  unsigned units;
  bool at_once;                 /* completes inside issue */
  struct bdev *bdev;            /* at_once: reads 4 KiB of it for each; NULL: nothing */

  pthread_mutex_t lock;
  pthread_cond_t cond;
  struct { struct mq_request *rq; uint64_t due_ns; } *ring;
  unsigned head, count, size;
  uint64_t unit_due_ns[BENCH_MAX_UNITS];        /* of the last `units` requests */
  unsigned next_unit;
  bool stop;
  pthread_t thread;
  struct { _Alignas (128) atomic_ullong n; } commands[BENCH_MAX_HWQS]; /* by hwq */
};

struct device *device_new (void);
uint64_t device_commands (struct device *d);
void device_start (struct device *d);
void device_stop (struct device *d);
void device_issue (void *device, struct mq_request **rq, unsigned n);

/* One that completes into a struct mq. */
void complete_into_mq (void *queue, struct mq_request **rq, unsigned n);
extern const struct mq_device_ops bench_device_ops;

struct load {
  void (*submit) (void *queue, struct mq_request **rq, unsigned n);
  void *(*queue_of) (void *opaque, unsigned submitter); /* which queue it loads */
  void *opaque;
  unsigned submitters, depth, batch;
  unsigned hwqs;                /* of each queue */
  uint64_t think_ns;            /* between requests of a submitter of depth 1 */
  bool sequential;              /* one stream for all, 4 KiB each; else random */
  enum dl_dir dir;
  enum dl_class (*class_of) (unsigned submitter);       /* NULL: BE */
  double seconds;
};

#define BENCH_MAX_SAMPLES 200000

struct submitter {
  _Alignas (128) const struct load *load; /* each on cache lines of its own */
  unsigned number;
  pthread_t thread;
  struct io *ios;
  pthread_mutex_t lock;
  pthread_cond_t cond;
  struct io *free;              /* guarded by lock */
  unsigned nr_free;
  atomic_bool *stop;
  uint64_t done;
  uint32_t *samples_us;         /* latencies, the first so many */
  unsigned nr_samples;
};

struct result {
  double iops, cpu_us_per_io, seconds, cpu_seconds;
  double p99_us[256];           /* of the first submitters, where depth is 1 */
  uint64_t done;
  uint64_t done_by[256];
};

void submit_to_mq (void *queue, struct mq_request **rq, unsigned n);
void run_load (const struct load *load, struct result *r);

struct mq *bench_queue (const struct mq_options *options, struct tagset *set, struct device *d);
struct tagset *bench_tagset (unsigned tags, const char *name);

double median (double *v, unsigned n);

#endif
