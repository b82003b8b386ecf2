/* SPDX-License-Identifier: BSD-3-Clause */
/* The express path (core/mq/express.h): who may take it, and that nobody who does not
 * waits for one who does. */
#include <config.h>
#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "mq/express.h"
#include "run-suite.h"

static uint64_t now_ns;

static uint64_t
read_clock (void *opaque)
{
  return now_ns;
}

static const struct sh_clock test_clock = { .now_ns = read_clock };

/* A device that holds what it gets until it is told. */
static struct mq_request *held[256];
static unsigned nr_held, nr_ended;

static void
issue (void *device, struct mq_request **rq, unsigned n)
{
  while (n--)
    held[nr_held++] = *rq++;
}

static void
count_end (struct mq_request *rq)
{
  ++nr_ended;
}

static const struct mq_device_ops ops = { .issue = issue };
static struct tagset *set;
static struct mq *mq;
static struct mq_request pool[512];
static unsigned nr_pool;

static struct mq *
new_queue (enum mq_sched sched, enum mq_run run, unsigned depth)
{
  struct mq_config c = { .name = "test", .tagset = set, .ops = &ops, .clock = &test_clock };
  struct sh_error err = { 0 };
  struct mq *q;

  mq_options_init (&c.options);
  c.options.hwqs = 4;
  c.options.sched = sched;
  c.options.run = run;
  c.options.depth = depth;
  ck_assert_int_eq (mq_create (&c, &q, &err), 0);
  return q;
}

static void
create (unsigned tags, enum mq_sched sched)
{
  const struct tagset_options o = { .tags = tags, .reserved = 1, .clock = &test_clock };
  struct sh_error err = { 0 };

  now_ns = NS_PER_S;
  nr_held = nr_ended = nr_pool = 0;
  ck_assert_int_eq (tagset_open (&o, &set, &err), 0);
  mq = new_queue (sched, MQ_RUN_OWN, 0);
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
request (enum dl_class class, unsigned hwq)
{
  struct mq_request *rq = &pool[nr_pool++ % 512];

  mq_request_init (rq);
  rq->dl.prio_class = class;
  rq->dl.sector = 8 * nr_pool;
  rq->dl.nr_sectors = 8;
  rq->dl.nr_segments = 1;
  rq->hwq = hwq;
  rq->end_io = count_end;
  return rq;
}

static struct mq_request *
submit (enum dl_class class, unsigned hwq)
{
  struct mq_request *rq = request (class, hwq);

  mq_submit (mq, &rq, 1);
  return rq;
}

static void
complete_first (void)
{
  struct mq_request *rq = held[0];

  ck_assert_uint_gt (nr_held, 0);
  memmove (held, held + 1, --nr_held * sizeof *held);
  mq_complete (mq, rq, 0);
}

static void
complete_all (void)
{
  while (nr_held)
    complete_first ();
}

static void
one_after_the_other (unsigned n, enum dl_class class, unsigned hwq)
{
  while (n--) {
    submit (class, hwq);
    complete_all ();
  }
}

static bool
is_express (void)
{
  return atomic_load (&mq->state) & STATE_EXPRESS;
}

START_TEST (requests_in_a_row_go_apart_and_their_tag_stays_with_the_hwq)
{
  struct mq_stats s;

  create (64, _i);
  one_after_the_other (63, DL_BE, 1);
  ck_assert (!is_express ());
  one_after_the_other (2, DL_BE, 1);
  ck_assert (is_express ());
  ck_assert (submit (DL_BE, 1)->apart);
  complete_all ();
  ck_assert_uint_eq (tagset_free (set), 63);
  mq_get_stats (mq, &s);
  ck_assert_uint_eq (s.inline_requests, 66);
  ck_assert_uint_eq (s.total.completed, 66);
  ck_assert_uint_eq (s.in_flight, 0);
  destroy ();
}
END_TEST

START_TEST (all_tags_can_be_used_whoever_parked_them)
{
  unsigned i;

  create (32, _i);
  one_after_the_other (65, DL_BE, 0);
  for (i = 0; i < 8; ++i)
    submit (DL_BE, 0);
  complete_all ();
  ck_assert_uint_lt (tagset_free (set), 32);
  for (i = 0; i < 33; ++i)
    submit (DL_BE, 1);
  /* Two may be kept for hwqs with nothing in flight. */
  ck_assert_uint_ge (nr_held, 30);
  i = nr_held;
  complete_first ();
  ck_assert_uint_eq (nr_held, i);       /* one that waited has the tag */
  complete_all ();
  ck_assert_uint_eq (nr_ended, 65 + 8 + 33);
  destroy ();
}
END_TEST

START_TEST (a_lower_class_waits_for_requests_that_are_apart)
{
  create (64, MQ_DEADLINE);
  one_after_the_other (65, DL_BE, 0);
  ck_assert (submit (DL_BE, 0)->apart);
  submit (DL_IDLE, 1);
  ck_assert_uint_eq (nr_held, 1);
  ck_assert (!is_express ());
  complete_first ();
  ck_assert_uint_eq (nr_held, 1);
  complete_all ();
  destroy ();
}
END_TEST

START_TEST (a_higher_class_goes_at_once_and_ends_the_express_path_for_a_while)
{
  create (64, MQ_DEADLINE);
  one_after_the_other (65, DL_BE, 0);
  submit (DL_BE, 0);
  submit (DL_RT, 1);
  ck_assert_uint_eq (nr_held, 2);
  complete_all ();
  one_after_the_other (200, DL_BE, 0);
  ck_assert (!is_express ());
  now_ns += 200 * NS_PER_MS;
  one_after_the_other (64, DL_BE, 0);
  ck_assert (is_express ());
  destroy ();
}
END_TEST

START_TEST (a_second_user_of_the_set_ends_it_and_finds_all_tags)
{
  struct mq *other;

  create (32, _i);
  one_after_the_other (65, DL_BE, 0);
  ck_assert_uint_lt (tagset_free (set), 32);
  other = new_queue (_i, MQ_RUN_OWN, 0);
  ck_assert_uint_eq (tagset_free (set), 32);
  one_after_the_other (200, DL_BE, 0);
  ck_assert (!is_express ());
  ck_assert_uint_eq (tagset_free (set), 32);
  mq_destroy (other);
  destroy ();
}
END_TEST

START_TEST (a_smaller_set_gets_its_parked_tags_back)
{
  struct sh_error err = { 0 };

  create (32, _i);
  one_after_the_other (65, DL_BE, 0);
  ck_assert_int_eq (tagset_resize (set, 1, &err), 0);
  ck_assert_uint_eq (tagset_free (set), 1);
  submit (DL_BE, 0);
  submit (DL_BE, 1);
  ck_assert_uint_eq (nr_held, 1);
  complete_all ();
  destroy ();
}
END_TEST

START_TEST (batches_use_and_fill_what_is_parked)
{
  struct mq_request *rq[16];
  unsigned i, round;

  create (128, _i);
  for (round = 0; round < 20; ++round) {
    for (i = 0; i < 16; ++i)
      rq[i] = request (DL_BE, 2);
    mq_submit (mq, rq, 16);
    ck_assert_uint_eq (nr_held, 16);
    memcpy (rq, held, sizeof rq);
    nr_held = 0;
    mq_complete_batch (mq, rq, 16, 0);
  }
  ck_assert (is_express ());
  ck_assert_uint_eq (nr_ended, 320);
  /* Three words of four: half of the tags for the three hwqs seen, divided by them. */
  ck_assert_uint_ge (tagset_free (set), 64);
  ck_assert_uint_lt (tagset_free (set), 128);
  destroy ();
}
END_TEST

START_TEST (a_request_that_the_device_refuses_is_counted_like_the_others)
{
  struct mq_request *rq;

  create (64, _i);
  one_after_the_other (65, DL_BE, 0);
  submit (DL_BE, 0);
  rq = submit (DL_BE, 0);
  ck_assert (rq->apart);
  held[1] = NULL;
  nr_held = 1;
  mq_requeue (mq, rq);
  ck_assert_uint_eq (nr_held, 1);
  complete_first ();
  ck_assert_uint_eq (nr_held, 1);       /* it is back */
  complete_all ();
  ck_assert_uint_eq (nr_ended, 67);
  destroy ();
}
END_TEST

START_TEST (options_that_decide_more_keep_requests_together)
{
  struct sh_error err = { 0 };

  create (64, MQ_DEADLINE);
  one_after_the_other (65, DL_BE, 0);
  mq_set_run (mq, MQ_RUN_ALL);
  one_after_the_other (200, DL_BE, 0);
  ck_assert (!is_express ());
  mq_set_run (mq, MQ_RUN_OWN);
  ck_assert_int_eq (mq_set_option (mq, "async_depth", "2", &err), 0);
  one_after_the_other (200, DL_BE, 0);
  ck_assert (!is_express ());
  ck_assert_int_eq (mq_set_option (mq, "async_depth", "128", &err), 0);
  ck_assert_int_eq (mq_set_option (mq, "depth", "8", &err), 0);
  one_after_the_other (200, DL_BE, 0);
  ck_assert (!is_express ());
  destroy ();
}
END_TEST

int
main (void)
{
  Suite *s = suite_create ("mq-express");
  TCase *tc = tcase_create ("express");

#define BOTH(test) tcase_add_loop_test (tc, test, MQ_DEADLINE, MQ_NONE + 1)
  BOTH (requests_in_a_row_go_apart_and_their_tag_stays_with_the_hwq);
  BOTH (all_tags_can_be_used_whoever_parked_them);
  tcase_add_test (tc, a_lower_class_waits_for_requests_that_are_apart);
  tcase_add_test (tc, a_higher_class_goes_at_once_and_ends_the_express_path_for_a_while);
  BOTH (a_second_user_of_the_set_ends_it_and_finds_all_tags);
  BOTH (a_smaller_set_gets_its_parked_tags_back);
  BOTH (batches_use_and_fill_what_is_parked);
  BOTH (a_request_that_the_device_refuses_is_counted_like_the_others);
  tcase_add_test (tc, options_that_decide_more_keep_requests_together);
  suite_add_tcase (s, tc);
  return run_suite (s);
}
