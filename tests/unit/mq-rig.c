/* SPDX-License-Identifier: BSD-3-Clause */
#include <config.h>
#include "mq-rig.h"

uint64_t now_ns;
struct sh_error err;

static uint64_t
test_now (void *opaque)
{
  return now_ns;
}

static int
test_cond_wait (void *opaque, pthread_cond_t *cond, pthread_mutex_t *mutex, uint64_t until)
{
  return sh_clock_monotonic.cond_wait_until (NULL, cond, mutex,
                                             sh_now (&sh_clock_monotonic) + NS_PER_MS);
}

void
never_sleep (void *opaque, uint64_t ns)
{
}

const struct sh_clock test_clock = {
  .now_ns = test_now,
  .cond_wait_until = test_cond_wait,
  .sleep_ns = never_sleep,
};

struct mq_request *issued[MAX_REQUESTS];
unsigned nr_issued, nr_ended;
struct mq_request pool[MAX_REQUESTS];
struct mq_options options;
struct tagset *set;
struct mq *mq;

void
device_issue (void *device, struct mq_request **rq, unsigned n)
{
  unsigned i;

  for (i = 0; i < n; ++i)
    issued[nr_issued++] = rq[i];
}

static const struct mq_device_ops device_ops = { .issue = device_issue };

static void
count_end (struct mq_request *rq)
{
  ++nr_ended;
}

struct mq *
create_on (struct tagset *on, const char *name)
{
  const struct mq_config config = {
    .name = name,
    .options = options,
    .tagset = on,
    .ops = &device_ops,
    .limits = { .max_sectors = 1024, .max_segments = 64 },
    .zone_sectors = 1000,
    .nr_zones = 10,
    .clock = &test_clock,
  };
  struct mq *q;

  ck_assert_msg (mq_create (&config, &q, &err) == 0, "%s", err.message);
  return q;
}

struct tagset *
create_set (unsigned tags)
{
  const struct tagset_options to = { .tags = tags, .reserved = 2, .clock = &test_clock };
  struct tagset *s;

  ck_assert_int_eq (tagset_open (&to, &s, &err), 0);
  return s;
}

void
create (unsigned tags, enum mq_sched sched, unsigned hwqs)
{
  options.tags = tags;
  options.sched = sched;
  options.hwqs = hwqs;
  now_ns = NS_PER_S;
  set = create_set (tags);
  mq = create_on (set, "test");
}

void
set_up (void)
{
  mq_options_init (&options);
  nr_issued = nr_ended = 0;
  memset (pool, 0, sizeof pool);
}

void
destroy (void)
{
  mq_check_idle (mq);
  tagset_check_idle (set);
  mq_destroy (mq);
  tagset_close (set);
}

struct mq_request *
request (int i, enum dl_dir dir, enum dl_class class, unsigned hwq, uint64_t sector)
{
  struct mq_request *rq = &pool[i];

  mq_request_init (rq);
  rq->dl.dir = dir;
  rq->dl.prio_class = class;
  rq->dl.sector = sector;
  rq->dl.nr_sectors = 8;
  rq->dl.nr_segments = 1;
  rq->hwq = hwq;
  rq->end_io = count_end;
  return rq;
}

struct mq_request *
submit (int i, enum dl_dir dir, enum dl_class class, unsigned hwq, uint64_t sector)
{
  struct mq_request *rq = request (i, dir, class, hwq, sector);

  mq_submit (mq, &rq, 1);
  return rq;
}

struct mq_request *
submit_zoned (int i, unsigned hwq, enum dl_class class, uint64_t sector)
{
  struct mq_request *rq = request (i, DL_WRITE, class, hwq, sector);

  rq->zone = sector / 1000;
  mq_submit (mq, &rq, 1);
  return rq;
}

struct mq_request *
complete_first (void)
{
  struct mq_request *rq = issued[0];

  ck_assert_uint_gt (nr_issued, 0);
  memmove (issued, issued + 1, --nr_issued * sizeof *issued);
  mq_complete (mq, rq, 0);
  return rq;
}

void
complete_all (void)
{
  while (nr_issued)
    complete_first ();
}
