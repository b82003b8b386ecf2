/* SPDX-License-Identifier: BSD-3-Clause */
/* core/mq, step by step: one thread, a device that keeps what it is given until
 * the test completes it, a clock that the test steps. */
#include <config.h>
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "mq/internal.h"

#define MAX_REQUESTS 512

static uint64_t now_ns;
static struct sh_error err;

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

static void
test_sleep (void *opaque, uint64_t ns)
{
}

static const struct sh_clock test_clock = {
  .now_ns = test_now,
  .cond_wait_until = test_cond_wait,
  .sleep_ns = test_sleep,
};

/* What the device holds, in order of issue. */
static struct mq_request *issued[MAX_REQUESTS];
static unsigned nr_issued, nr_ended;
static struct mq_request pool[MAX_REQUESTS];
static struct tagset *set;
static struct mq *mq;

static void
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

static struct mq_options options;

static struct mq *
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

static void
create (unsigned tags, enum mq_sched sched, unsigned hwqs)
{
  const struct tagset_options to = { .tags = tags, .reserved = 2, .clock = &test_clock };

  options.tags = tags;
  options.sched = sched;
  options.hwqs = hwqs;
  now_ns = NS_PER_S;
  ck_assert_int_eq (tagset_open (&to, &set, &err), 0);
  mq = create_on (set, "test");
}

static void
set_up (void)
{
  mq_options_init (&options);
  nr_issued = nr_ended = 0;
  memset (pool, 0, sizeof pool);
}

static void
destroy (void)
{
  mq_check_idle (mq);
  tagset_check_idle (set);
  mq_destroy (mq);
  tagset_close (set);
}

static struct mq_request *
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

static struct mq_request *
submit (int i, enum dl_dir dir, enum dl_class class, unsigned hwq, uint64_t sector)
{
  struct mq_request *rq = request (i, dir, class, hwq, sector);

  mq_submit (mq, &rq, 1);
  return rq;
}

/* Completes the oldest that the device holds. */
static struct mq_request *
complete_first (void)
{
  struct mq_request *rq = issued[0];

  ck_assert_uint_gt (nr_issued, 0);
  memmove (issued, issued + 1, --nr_issued * sizeof *issued);
  mq_complete (mq, rq, 0);
  return rq;
}

static void
complete_all (void)
{
  while (nr_issued)
    complete_first ();
}

/* -- tags and order --------------------------------------------------------------------- */

START_TEST (with_a_tag_free_a_request_starts_at_once)
{
  struct mq_stats s;

  create (4, _i, 2);
  submit (0, DL_READ, DL_BE, 0, 0);
  ck_assert_uint_eq (nr_issued, 1);
  complete_all ();
  mq_get_stats (mq, &s);
  ck_assert_uint_eq (s.inline_requests, 1);
  ck_assert_uint_eq (s.total.completed, 1);
  ck_assert_uint_eq (s.owner_wakes, 0);
  destroy ();
}
END_TEST

START_TEST (the_device_never_holds_more_than_the_tags)
{
  int i;

  create (4, _i, 2);
  for (i = 0; i < 100; ++i) {
    submit (i, i % 2, DL_BE, i % 2, i * 100);
    ck_assert_uint_le (nr_issued, 4);
  }
  for (i = 0; i < 100; ++i) {
    complete_first ();
    ck_assert_uint_eq (nr_issued, MIN (4, 99 - i));
  }
  ck_assert_uint_eq (nr_ended, 100);
  destroy ();
}
END_TEST

START_TEST (what_waits_for_tags_leaves_in_sector_order_with_deadline)
{
  uint64_t last = 0;
  int i;

  options.depth = 64;
  create (1, MQ_DEADLINE, 1);
  submit (0, DL_READ, DL_BE, 0, 0);
  for (i = 1; i < 16; ++i)
    submit (i, DL_READ, DL_BE, 0, (i * 7 % 16) * 100);
  complete_first ();
  for (i = 1; i < 16; ++i) {
    struct mq_request *rq = complete_first ();

    ck_assert_uint_gt (rq->dl.sector, last);
    last = rq->dl.sector;
  }
  destroy ();
}
END_TEST

START_TEST (what_waits_for_tags_leaves_in_turn_of_hwqs_with_none)
{
  int i, first = 0, second = 0;

  create (1, MQ_NONE, 2);
  submit (0, DL_READ, DL_BE, 0, 0);
  for (i = 1; i < 9; ++i)
    submit (i, DL_READ, DL_BE, 0, i * 100);
  for (i = 9; i < 13; ++i)
    submit (i, DL_READ, DL_BE, 1, i * 100);
  complete_first ();
  for (i = 0; i < 8; ++i)
    if (complete_first ()->hwq == 0)
      ++first;
    else
      ++second;
  ck_assert_int_ge (first, 4);
  ck_assert_int_le (first, 5);
  ck_assert_int_eq (first + second, 8);
  complete_all ();
  destroy ();
}
END_TEST

START_TEST (a_batch_is_issued_in_one_call_and_counted)
{
  struct mq_request *rq[8];
  struct mq_stats s;
  int i;

  create (5, MQ_DEADLINE, 1);
  for (i = 0; i < 8; ++i)
    rq[i] = request (i, DL_READ, DL_BE, 0, i * 100);
  mq_submit (mq, rq, 8);
  ck_assert_uint_eq (nr_issued, 5);
  complete_all ();
  ck_assert_uint_eq (nr_ended, 8);
  mq_get_stats (mq, &s);
  ck_assert_uint_eq (s.total.queued, 8);
  ck_assert_uint_eq (s.total.completed, 8);
  destroy ();
}
END_TEST

/* -- classes ----------------------------------------------------------------------------------- */

START_TEST (a_lower_class_waits_for_a_higher_one_that_started_at_once)
{
  create (4, MQ_DEADLINE, 1);
  submit (0, DL_READ, DL_RT, 0, 0);
  submit (1, DL_READ, DL_IDLE, 0, 100);
  ck_assert_uint_eq (nr_issued, 1);
  submit (2, DL_READ, DL_BE, 0, 200);
  ck_assert_uint_eq (nr_issued, 1);
  complete_first ();
  ck_assert_uint_eq (nr_issued, 1);
  ck_assert_uint_eq (issued[0]->dl.prio_class, DL_BE);
  complete_first ();
  ck_assert_uint_eq (issued[0]->dl.prio_class, DL_IDLE);
  complete_first ();
  destroy ();
}
END_TEST

START_TEST (a_higher_class_overtakes_what_waits)
{
  int i;

  create (1, MQ_DEADLINE, 1);
  for (i = 0; i < 5; ++i)
    submit (i, DL_WRITE, DL_IDLE, 0, i * 100);
  submit (5, DL_READ, DL_RT, 0, 9000);
  complete_first ();
  ck_assert_uint_eq (issued[0]->dl.prio_class, DL_RT);
  complete_all ();
  destroy ();
}
END_TEST

START_TEST (a_lower_class_goes_after_the_aging_time_beside_a_higher_one_in_flight)
{
  create (4, MQ_DEADLINE, 1);
  submit (0, DL_READ, DL_BE, 0, 0);
  submit (1, DL_READ, DL_IDLE, 0, 100);
  now_ns += 11 * NS_PER_S;
  submit (2, DL_READ, DL_BE, 0, 200);
  ck_assert_uint_eq (nr_issued, 3);
  complete_all ();
  destroy ();
}
END_TEST

START_TEST (with_none_classes_do_not_hold_each_other_back)
{
  create (4, MQ_NONE, 1);
  submit (0, DL_READ, DL_RT, 0, 0);
  submit (1, DL_READ, DL_IDLE, 0, 100);
  ck_assert_uint_eq (nr_issued, 2);
  complete_all ();
  destroy ();
}
END_TEST

/* -- windows ----------------------------------------------------------------------------------- */

START_TEST (writes_leave_tags_to_reads_when_async_depth_says_so)
{
  int i;

  options.async_depth = 3;
  create (8, MQ_DEADLINE, 1);
  for (i = 0; i < 20; ++i)
    submit (i, DL_WRITE, DL_BE, 0, i * 100);
  ck_assert_uint_eq (nr_issued, 3);
  submit (20, DL_READ, DL_BE, 0, 5000);
  ck_assert_uint_eq (nr_issued, 4);
  complete_all ();
  ck_assert_uint_eq (nr_ended, 21);
  destroy ();
}
END_TEST

START_TEST (a_full_window_of_one_class_holds_no_other_back)
{
  int i;

  options.depth = 4;
  create (2, MQ_DEADLINE, 1);
  for (i = 0; i < 10; ++i)
    submit (i, DL_WRITE, DL_IDLE, 0, i * 100);
  submit (10, DL_READ, DL_RT, 0, 0);
  complete_first ();
  ck_assert_uint_eq (issued[nr_issued - 1]->dl.prio_class, DL_RT);
  complete_all ();
  ck_assert_uint_eq (nr_ended, 11);
  destroy ();
}
END_TEST

START_TEST (a_full_window_admits_hwqs_in_turn)
{
  int i;

  options.depth = 2;
  create (1, MQ_DEADLINE, 2);
  for (i = 0; i < 50; ++i)
    submit (i, DL_READ, DL_BE, 0, i * 100);
  submit (50, DL_READ, DL_BE, 1, 10);
  complete_first ();
  complete_first ();
  now_ns += 600 * NS_PER_MS;    /* the order of sectors no longer matters */
  for (i = 0; i < 17 && issued[0]->hwq == 0; ++i)
    complete_first ();
  ck_assert_uint_eq (issued[0]->hwq, 1);
  complete_all ();
  destroy ();
}
END_TEST

/* -- direct requests, reserved tags ----------------------------------------------------------------- */

START_TEST (a_probe_is_issued_while_hung_requests_hold_every_tag)
{
  struct mq_request *probe;
  int i;

  create (4, _i, 1);
  for (i = 0; i < 20; ++i)
    submit (i, DL_WRITE, DL_BE, 0, i * 100);
  ck_assert_uint_eq (nr_issued, 4);
  probe = request (30, DL_READ, DL_RT, 0, 0);
  probe->kind = MQ_DIRECT;
  probe->reserved = true;
  mq_submit (mq, &probe, 1);
  ck_assert_uint_eq (nr_issued, 5);
  ck_assert_ptr_eq (issued[4], probe);
  ck_assert (tag_is_reserved (probe->tag));
  complete_all ();
  destroy ();
}
END_TEST

START_TEST (a_flush_goes_before_what_is_sorted)
{
  struct mq_request *flush;
  int i;

  create (1, _i, 1);
  for (i = 0; i < 5; ++i)
    submit (i, DL_WRITE, DL_BE, 0, i * 100);
  flush = request (10, DL_WRITE, DL_BE, 0, 0);
  flush->kind = MQ_DIRECT;
  mq_submit (mq, &flush, 1);
  complete_first ();
  ck_assert_ptr_eq (issued[0], flush);
  complete_all ();
  destroy ();
}
END_TEST

/* -- merging ----------------------------------------------------------------------------------------- */

static struct mq_request *
submit_mergeable (int i, uint64_t sector)
{
  struct mq_request *rq = request (i, DL_WRITE, DL_BE, i % 2, sector);

  rq->dl.mergeable = true;
  mq_submit (mq, &rq, 1);
  return rq;
}

START_TEST (contiguous_requests_that_wait_become_one_in_sector_order)
{
  static const int order[] = { 3, 5, 4, 2, 6, 1 };
  struct mq_request *leader, *rq;
  uint64_t sector = 1008;
  size_t i;

  create (1, MQ_DEADLINE, 2);
  submit (0, DL_READ, DL_BE, 0, 0);
  for (i = 0; i < ARRAY_SIZE (order); ++i)
    submit_mergeable (order[i], 1000 + 8 * order[i]);
  complete_first ();
  ck_assert_uint_eq (nr_issued, 1);
  leader = issued[0];
  ck_assert_uint_eq (leader->dl.sector, 1008);
  ck_assert_uint_eq (leader->dl.nr_sectors, 48);
  for (rq = leader->first; rq; rq = rq->next_merged, sector += 8)
    ck_assert_uint_eq (rq == leader ? sector : rq->dl.sector, sector);
  ck_assert_uint_eq (sector, 1056);
  complete_first ();
  ck_assert_uint_eq (nr_ended, 7);
  destroy ();
}
END_TEST

/* -- zones ----------------------------------------------------------------------------------------------- */

static struct mq_request *
submit_zoned (int i, unsigned hwq, enum dl_class class, uint64_t sector)
{
  struct mq_request *rq = request (i, DL_WRITE, class, hwq, sector);

  rq->zone = sector / 1000;
  mq_submit (mq, &rq, 1);
  return rq;
}

START_TEST (writes_to_one_zone_go_one_at_a_time_in_order)
{
  int i;

  create (8, _i, 4);
  for (i = 0; i < 20; ++i)
    submit_zoned (i, i % 4, DL_BE, 2000 + 8 * i);
  for (i = 0; i < 20; ++i) {
    ck_assert_uint_eq (nr_issued, 1);
    ck_assert_ptr_eq (complete_first (), &pool[i]);
  }
  destroy ();
}
END_TEST

START_TEST (writes_to_different_zones_go_together)
{
  int i;

  create (8, _i, 4);
  for (i = 0; i < 4; ++i)
    submit_zoned (i, 0, DL_BE, 1000 * i + 8);
  ck_assert_uint_eq (nr_issued, 4);
  complete_all ();
  destroy ();
}
END_TEST

START_TEST (waiting_writes_that_continue_each_other_go_as_one)
{
  int i;

  create (8, _i, 4);
  for (i = 0; i < 6; ++i) {
    struct mq_request *rq = request (i, DL_WRITE, DL_BE, 0, 3000 + 8 * i);

    rq->dl.mergeable = true;
    rq->zone = 3;
    mq_submit (mq, &rq, 1);
  }
  complete_first ();
  ck_assert_uint_eq (nr_issued, 1);
  ck_assert_uint_eq (issued[0]->dl.nr_sectors, 40);
  complete_first ();
  ck_assert_uint_eq (nr_ended, 6);
  destroy ();
}
END_TEST

START_TEST (a_write_lends_its_class_to_the_one_before_it_in_the_zone)
{
  create (8, MQ_DEADLINE, 1);
  submit (0, DL_READ, DL_BE, 0, 0);
  submit_zoned (1, 0, DL_IDLE, 4000);   /* waits for the BE request */
  submit_zoned (2, 0, DL_RT, 4008);     /* waits for the zone */
  ck_assert_uint_eq (nr_issued, 2);
  ck_assert_ptr_eq (issued[1], &pool[1]);
  complete_all ();
  ck_assert_uint_eq (nr_ended, 3);
  destroy ();
}
END_TEST

/* -- the device says no ------------------------------------------------------------------------------ */

START_TEST (a_refused_zone_write_keeps_its_place)
{
  struct mq_request *rq;

  create (4, _i, 1);
  submit (9, DL_READ, DL_BE, 0, 8000);
  rq = submit_zoned (0, 0, DL_BE, 2000);
  submit_zoned (1, 0, DL_BE, 2008);
  nr_issued = 1;
  mq_requeue (mq, rq);
  mq_set_sched (mq, _i == MQ_NONE ? MQ_DEADLINE : MQ_NONE);
  if (nr_issued == 1)
    complete_first ();
  ck_assert_ptr_eq (issued[nr_issued - 1], rq);
  complete_all ();
  ck_assert_uint_eq (nr_ended, 3);
  destroy ();
}
END_TEST

/* -- runs --------------------------------------------------------------------------------------------- */

START_TEST (a_completion_runs_no_queue_without_work)
{
  struct mq_stats s;
  int i;

  create (4, _i, 24);
  for (i = 0; i < 200; ++i)
    submit (i, DL_READ, DL_BE, i % 24, i * 100);
  complete_all ();
  mq_get_stats (mq, &s);
  ck_assert_uint_eq (s.total.useless_runs, 0);
  ck_assert_uint_eq (s.total.completed, 200);
  destroy ();
}
END_TEST

START_TEST (run_all_runs_every_queue_at_every_completion)
{
  struct mq_stats s;
  int i;

  options.run = MQ_RUN_ALL;
  create (4, _i, 24);
  for (i = 0; i < 200; ++i)
    submit (i, DL_READ, DL_BE, i % 24, i * 100);
  complete_all ();
  mq_get_stats (mq, &s);
  ck_assert_uint_ge (s.total.run, 200 * 24);
  ck_assert_uint_gt (s.total.useless_runs, 0);
  destroy ();
}
END_TEST

START_TEST (a_tag_freed_by_one_queue_runs_another_that_was_refused)
{
  struct mq *other;
  struct mq_request *rq;
  int i;

  create (8, MQ_DEADLINE, 1);
  other = create_on (set, "other");
  for (i = 0; i < 8; ++i)
    submit (i, DL_READ, DL_BE, 0, i * 100);
  rq = request (20, DL_READ, DL_BE, 0, 0);
  mq_submit (other, &rq, 1);
  ck_assert_uint_eq (nr_issued, 8);
  complete_first ();
  ck_assert_uint_eq (nr_issued, 8);
  ck_assert_ptr_eq (issued[7], rq);
  nr_issued = 7;
  mq_complete (other, rq, 0);
  complete_all ();
  mq_destroy (other);
  destroy ();
}
END_TEST

/* -- switching ----------------------------------------------------------------------------------------- */

START_TEST (the_scheduler_can_change_with_requests_waiting)
{
  int i;

  create (2, _i, 3);
  for (i = 0; i < 60; ++i)
    submit (i, i % 2, i % 3, i % 3, i * 50);
  for (i = 0; i < 60; ++i) {
    mq_set_sched (mq, i % 2 ? MQ_DEADLINE : MQ_NONE);
    complete_first ();
  }
  ck_assert_uint_eq (nr_ended, 60);
  destroy ();
}
END_TEST

START_TEST (tags_can_grow_and_shrink_with_requests_waiting)
{
  int i;

  create (8, _i, 3);
  for (i = 0; i < 100; ++i)
    submit (i, DL_READ, DL_BE, i % 3, i * 50);
  ck_assert_int_eq (mq_set_option (mq, "tags", "2", &err), 0);
  while (nr_issued > 2)
    complete_first ();
  complete_first ();
  ck_assert_uint_eq (nr_issued, 2);
  ck_assert_int_eq (mq_set_option (mq, "tags", "20", &err), 0);
  ck_assert_uint_eq (nr_issued, 20);
  complete_all ();
  ck_assert_uint_eq (nr_ended, 100);
  destroy ();
}
END_TEST

START_TEST (each_option_changes_itself_alone_and_is_clamped_or_refused)
{
  struct dl_tunables before, after;

  create (8, MQ_DEADLINE, 1);
  before = mq_get_options (mq)->tunables;
  ck_assert_int_eq (mq_set_option (mq, "async_depth", "5", &err), 0);
  after = mq_get_options (mq)->tunables;
  ck_assert_mem_eq (&before, &after, sizeof before);
  ck_assert_int_eq (mq_set_option (mq, "front_merges", "9", &err), 0);
  ck_assert_int_eq (mq_get_options (mq)->tunables.front_merges, 1);
  ck_assert_uint_eq (mq_get_options (mq)->async_depth, 5);
  ck_assert_int_eq (mq_set_option (mq, "read_expire", "-7", &err), 0);
  ck_assert_int_eq (mq_get_options (mq)->tunables.read_expire_ms, 0);
  ck_assert_int_eq (mq_get_options (mq)->tunables.write_expire_ms, before.write_expire_ms);
  ck_assert_int_eq (mq_set_option (mq, "fifo_batch", "many", &err), -1);
  ck_assert_str_eq (err.message, "fifo_batch: 'many' is no whole number");
  sh_error_clear (&err);
  ck_assert_int_eq (mq_set_option (mq, "hwqs", "3", &err), -1);
  sh_error_clear (&err);
  destroy ();
}
END_TEST

/* -- what hung or crawled elsewhere ---------------------------------------------------------------- */

START_TEST (a_stream_over_zones_is_issued_in_order)
{
  uint64_t last = 0;
  int i;

  create (32, MQ_DEADLINE, 4);
  for (i = 0; i < 400; ++i) {
    submit_zoned (i, i % 4, DL_BE, 8 + 8 * i);
    if (nr_issued && i % 3 == 0) {
      ck_assert_uint_gt (issued[0]->dl.sector, last);
      last = complete_first ()->dl.sector;
    }
  }
  while (nr_issued) {
    const uint64_t sector = complete_first ()->dl.sector;

    /* Several zones may be written at once, each of them in order. */
    if (sector / 1000 == last / 1000)
      ck_assert_uint_gt (sector, last);
    last = sector;
  }
  ck_assert_uint_eq (nr_ended, 400);
  destroy ();
}
END_TEST

static uint64_t
racing_now (void *opaque)
{
  return now_ns += 10 * NS_PER_MS;      /* every turn is over at once */
}

static const struct sh_clock racing_clock = { .now_ns = racing_now, .sleep_ns = test_sleep };

static void
issue_and_complete (void *device, struct mq_request **rq, unsigned n)
{
  while (n--)
    mq_complete (mq, *rq++, 0);
}

START_TEST (a_dispatcher_with_nothing_in_flight_does_not_leave_work_behind)
{
  static const struct mq_device_ops at_once = { .issue = issue_and_complete };
  const struct tagset_options to = { .tags = 2, .reserved = 2, .clock = &test_clock };
  struct mq_request *rq[300];
  struct mq_config config = { .name = "test", .ops = &at_once, .clock = &racing_clock };
  int i;

  options.sched = _i;
  config.options = options;
  ck_assert_int_eq (tagset_open (&to, &set, &err), 0);
  config.tagset = set;
  ck_assert_int_eq (mq_create (&config, &mq, &err), 0);
  for (i = 0; i < 300; ++i)
    rq[i] = request (i, i % 2, DL_BE, i % 64, i * 100);
  for (i = 0; i < 300; i += 50) {
    unsigned j;

    for (j = 0; j < 50; ++j)
      rq[i + j]->hwq = i / 50;
    mq_submit (mq, rq + i, 50);
  }
  ck_assert_uint_eq (nr_ended, 300);
  destroy ();
}
END_TEST

START_TEST (a_completion_wakes_one_queue_however_many_wait_or_idle)
{
  enum { QUEUES = 100 };
  struct mq *q[QUEUES];
  struct tagset_counters before, after;
  unsigned i;

  create (32, MQ_DEADLINE, 1);
  for (i = 0; i < QUEUES; ++i)
    q[i] = create_on (set, "other");
  for (i = 0; i < 100; ++i)
    submit (i, DL_READ, DL_BE, 0, i * 100);
  for (i = 0; i < QUEUES / 2; ++i) {
    struct mq_request *rq = request (200 + i, DL_READ, DL_BE, 0, 0);

    rq->opaque = q[i];
    mq_submit (q[i], &rq, 1);
  }
  while (nr_issued) {
    struct mq_request *rq = issued[0];

    memmove (issued, issued + 1, --nr_issued * sizeof *issued);
    tagset_get_counters (set, &before);
    mq_complete (rq->opaque ? rq->opaque : mq, rq, 0);
    tagset_get_counters (set, &after);
    ck_assert_uint_le (after.wakes - before.wakes, 1);
  }
  ck_assert_uint_eq (nr_ended, 150);
  for (i = 0; i < QUEUES; ++i)
    mq_destroy (q[i]);
  destroy ();
}
END_TEST

/* -- fairness between hwqs --------------------------------------------------------------------------------- */

START_TEST (a_polite_hwq_gets_a_tag_at_once_beside_a_greedy_one)
{
  int i, polite_waits = 0;

  create (32, _i, 2);
  for (i = 0; i < 300; ++i) {
    submit (i, DL_READ, DL_BE, 0, i * 100);
    if (i > 64 && i % 8 == 0) {
      now_ns += 30 * NS_PER_MS;
      submit (300 + i % 100, DL_READ, DL_BE, 1, 90000);
      if (issued[nr_issued - 1]->hwq != 1)
        ++polite_waits;
      while (1) {               /* until the polite one is through */
        struct mq_request *rq = complete_first ();

        if (rq->hwq == 1)
          break;
      }
    }
  }
  /* Only before anybody could know that there are two. */
  ck_assert_int_le (polite_waits, 4);
  complete_all ();
  destroy ();
}
END_TEST

int
main (void)
{
  Suite *s = suite_create ("mq");
  TCase *tc = tcase_create ("mq");
  SRunner *sr;
  int failed;

  tcase_add_checked_fixture (tc, set_up, NULL);
#define BOTH(test) tcase_add_loop_test (tc, test, MQ_DEADLINE, MQ_NONE + 1)
  BOTH (with_a_tag_free_a_request_starts_at_once);
  BOTH (the_device_never_holds_more_than_the_tags);
  tcase_add_test (tc, what_waits_for_tags_leaves_in_sector_order_with_deadline);
  tcase_add_test (tc, what_waits_for_tags_leaves_in_turn_of_hwqs_with_none);
  tcase_add_test (tc, a_batch_is_issued_in_one_call_and_counted);
  tcase_add_test (tc, a_lower_class_waits_for_a_higher_one_that_started_at_once);
  tcase_add_test (tc, a_higher_class_overtakes_what_waits);
  tcase_add_test (tc, a_lower_class_goes_after_the_aging_time_beside_a_higher_one_in_flight);
  tcase_add_test (tc, with_none_classes_do_not_hold_each_other_back);
  tcase_add_test (tc, writes_leave_tags_to_reads_when_async_depth_says_so);
  tcase_add_test (tc, a_full_window_of_one_class_holds_no_other_back);
  tcase_add_test (tc, a_full_window_admits_hwqs_in_turn);
  BOTH (a_probe_is_issued_while_hung_requests_hold_every_tag);
  BOTH (a_flush_goes_before_what_is_sorted);
  tcase_add_test (tc, contiguous_requests_that_wait_become_one_in_sector_order);
  BOTH (writes_to_one_zone_go_one_at_a_time_in_order);
  BOTH (writes_to_different_zones_go_together);
  BOTH (waiting_writes_that_continue_each_other_go_as_one);
  tcase_add_test (tc, a_write_lends_its_class_to_the_one_before_it_in_the_zone);
  BOTH (a_refused_zone_write_keeps_its_place);
  BOTH (a_completion_runs_no_queue_without_work);
  BOTH (run_all_runs_every_queue_at_every_completion);
  tcase_add_test (tc, a_tag_freed_by_one_queue_runs_another_that_was_refused);
  BOTH (the_scheduler_can_change_with_requests_waiting);
  BOTH (tags_can_grow_and_shrink_with_requests_waiting);
  tcase_add_test (tc, each_option_changes_itself_alone_and_is_clamped_or_refused);
  tcase_add_test (tc, a_stream_over_zones_is_issued_in_order);
  BOTH (a_dispatcher_with_nothing_in_flight_does_not_leave_work_behind);
  tcase_add_test (tc, a_completion_wakes_one_queue_however_many_wait_or_idle);
  BOTH (a_polite_hwq_gets_a_tag_at_once_beside_a_greedy_one);
  suite_add_tcase (s, tc);
  sr = srunner_create (s);
  srunner_run_all (sr, CK_NORMAL);
  failed = srunner_ntests_failed (sr);
  srunner_free (sr);
  return failed != 0;
}
