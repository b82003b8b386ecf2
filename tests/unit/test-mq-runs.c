/* SPDX-License-Identifier: BSD-3-Clause */
/* core/mq: who runs which queue, and that nothing is left behind, whatever changes; see
 * mq-rig.h for how these go. */
#include <config.h>
#include "mq-rig.h"

/* -- runs ---------------------------------------------------------------------------------- */

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

/* -- what hung or crawled elsewhere -------------------------------------------------------- */

static uint64_t
racing_now (void *opaque)
{
  return now_ns += 10 * NS_PER_MS;      /* every turn is over at once */
}

static const struct sh_clock racing_clock = { .now_ns = racing_now, .sleep_ns = never_sleep };

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


/* What a request costs beside its own work: runs of queues, wake-ups, turns that found no
   tag.  16 queues with 24 requests each share 64 tags, or have 4 each. */
static double
work_per_request (bool one_map)
{
  enum { QUEUES = 16, DEPTH = 24, REQUESTS = 4000 };
  struct tagset *sets[QUEUES];
  struct mq *q[QUEUES];
  uint64_t work = 0;
  unsigned i;

  now_ns = NS_PER_S;
  nr_issued = nr_ended = 0;
  for (i = 0; i < QUEUES; ++i) {
    sets[i] = one_map && i ? NULL : create_set (one_map ? 64 : 4);
    q[i] = create_on (one_map ? sets[0] : sets[i], "test");
  }
  for (i = 0; i < QUEUES * DEPTH; ++i) {
    struct mq_request *rq = request (i, DL_READ, DL_BE, 0, i * 100);

    rq->opaque = q[i % QUEUES];
    mq_submit (rq->opaque, &rq, 1);
  }
  for (i = 0; i < REQUESTS; ++i) {
    struct mq_request *rq = issued[0];

    memmove (issued, issued + 1, --nr_issued * sizeof *issued);
    now_ns += 50 * NS_PER_US;
    mq_complete (rq->opaque, rq, 0);
    if (i < REQUESTS - QUEUES * DEPTH)
      mq_submit (rq->opaque, &rq, 1);
  }
  ck_assert_uint_eq (nr_ended, REQUESTS);
  for (i = 0; i < QUEUES; ++i) {
    struct mq_stats s;

    mq_get_stats (q[i], &s);
    work += s.total.run + s.refused;
    mq_destroy (q[i]);
  }
  for (i = 0; i < QUEUES; ++i)
    if (sets[i]) {
      struct tagset_counters c;

      tagset_get_counters (sets[i], &c);
      work += c.wakes;
      tagset_close (sets[i]);
    }
  return (double) work / REQUESTS;
}

START_TEST (queues_on_one_map_cost_no_more_than_on_maps_of_their_own)
{
  options.sched = _i;
  options.hwqs = 1;
  ck_assert_double_le (work_per_request (true), work_per_request (false) / 0.9);
}
END_TEST

/* Other threads, whenever this one has dispatched a batch: as many requests complete, and come
   again.  They find somebody who dispatches already. */
static unsigned meanwhile_left;

static uint64_t
meanwhile (void *opaque)
{
  struct mq_request *rq;
  int i;

  if (meanwhile_left == 0 || atomic_load (&mq->kicks))
    return now_ns;
  --meanwhile_left;
  now_ns += 100 * NS_PER_US;
  atomic_store (&mq->kicks, 1);
  for (i = 0; i < 16; ++i) {
    rq = complete_first ();
    mq_submit (mq, &rq, 1);
  }
  atomic_store (&mq->kicks, 0);
  return now_ns;
}

START_TEST (a_dispatcher_leaves_after_its_time_however_much_comes_and_goes)
{
  static const struct sh_clock clock = { .now_ns = meanwhile, .sleep_ns = never_sleep };
  struct mq_config config = { .name = "test", .clock = &clock };
  struct mq_device_ops ops = { .issue = device_issue };
  struct mq_request *rq[16];
  unsigned i;

  options.sched = _i;
  now_ns = NS_PER_S;
  config.options = options;
  config.ops = &ops;
  config.tagset = set = create_set (64);
  ck_assert_int_eq (mq_create (&config, &mq, &err), 0);
  for (i = 0; i < 200; ++i)
    submit (i, DL_READ, DL_BE, 0, i * 100);
  ck_assert_uint_eq (nr_issued, 64);
  memcpy (rq, issued, sizeof rq);
  nr_issued -= 16;
  memmove (issued, issued + 16, nr_issued * sizeof *issued);
  meanwhile_left = 1000;
  mq_complete_batch (mq, rq, 16, 0);
  ck_assert_uint_le (meanwhile_left, 1000 - 9);         /* it used its time */
  ck_assert_uint_ge (meanwhile_left, 1000 - 12);
  /* And what it left goes on by itself. */
  meanwhile_left = 0;
  ck_assert_uint_ge (nr_issued, 1);
  complete_all ();
  destroy ();
}
END_TEST

/* -- switching ----------------------------------------------------------------------------- */

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
  ck_assert_str_eq (err.message, "fifo_batch=many: not a whole number from -9223372036854775808 to "
                    "9223372036854775807");
  sh_error_clear (&err);
  ck_assert_int_eq (mq_set_option (mq, "hwqs", "3", &err), -1);
  sh_error_clear (&err);
  destroy ();
}
END_TEST

/* -- fairness between hwqs ----------------------------------------------------------------- */

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
  Suite *s = suite_create ("mq-runs");
  TCase *tc = tcase_create ("mq-runs");

  tcase_add_checked_fixture (tc, set_up, NULL);
  BOTH (a_completion_runs_no_queue_without_work);
  BOTH (run_all_runs_every_queue_at_every_completion);
  tcase_add_test (tc, a_tag_freed_by_one_queue_runs_another_that_was_refused);
  BOTH (a_dispatcher_with_nothing_in_flight_does_not_leave_work_behind);
  tcase_add_test (tc, a_completion_wakes_one_queue_however_many_wait_or_idle);
  BOTH (queues_on_one_map_cost_no_more_than_on_maps_of_their_own);
  BOTH (a_dispatcher_leaves_after_its_time_however_much_comes_and_goes);
  BOTH (the_scheduler_can_change_with_requests_waiting);
  BOTH (tags_can_grow_and_shrink_with_requests_waiting);
  tcase_add_test (tc, each_option_changes_itself_alone_and_is_clamped_or_refused);
  BOTH (a_polite_hwq_gets_a_tag_at_once_beside_a_greedy_one);
  suite_add_tcase (s, tc);
  return run_suite (s);
}
