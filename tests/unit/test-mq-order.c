/* SPDX-License-Identifier: BSD-3-Clause */
/* core/mq: which request is next; see mq-rig.h for how these go. */
#include <config.h>
#include "mq-rig.h"

/* -- tags and order ------------------------------------------------------------------------ */

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

/* -- classes ------------------------------------------------------------------------------- */

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

/* -- idle work that is wanted -------------------------------------------------------------- */

/* An idle request waits, a BE one of a higher sector came later; `wanted` decides. */
static atomic_uint wanted;

static struct mq_request *
submit_wanted (int i, enum dl_dir dir, uint64_t sector, uint32_t zone)
{
  struct mq_request *rq = request (i, dir, DL_IDLE, 0, sector);

  rq->wanted = &wanted;
  rq->zone = zone;
  mq_submit (mq, &rq, 1);
  return rq;
}

static void
want (void)
{
  atomic_store (&wanted, 1);
  mq_raise (mq);
}

START_TEST (idle_work_goes_with_the_others_as_soon_as_it_is_wanted)
{
  create (1, MQ_DEADLINE, 1);
  submit (0, DL_READ, DL_BE, 0, 0);
  submit_wanted (1, DL_READ, 100, MQ_NO_ZONE);
  submit (2, DL_READ, DL_BE, 0, 200);
  want ();
  complete_first ();
  ck_assert_ptr_eq (issued[0], &pool[1]);
  complete_first ();
  ck_assert_ptr_eq (issued[0], &pool[2]);
  complete_first ();
  destroy ();
}
END_TEST

START_TEST (idle_work_that_nobody_wants_stays_behind)
{
  create (1, MQ_DEADLINE, 1);
  submit (0, DL_READ, DL_BE, 0, 0);
  submit_wanted (1, DL_READ, 100, MQ_NO_ZONE);
  submit (2, DL_READ, DL_BE, 0, 200);
  mq_raise (mq);
  complete_first ();
  ck_assert_ptr_eq (issued[0], &pool[2]);
  complete_all ();
  destroy ();
}
END_TEST

START_TEST (wanted_work_leaves_a_full_window)
{
  int i;

  options.depth = 2;
  create (1, MQ_DEADLINE, 1);
  submit (0, DL_READ, DL_BE, 0, 0);
  for (i = 1; i <= 6; ++i)
    submit (i, _i, DL_IDLE, 0, 1000 * i);
  submit_wanted (7, _i, 100, MQ_NO_ZONE);
  ck_assert_int_eq (pool[7].place, MQ_HELD);
  want ();
  complete_first ();
  ck_assert_ptr_eq (issued[0], &pool[7]);
  complete_all ();
  ck_assert_uint_eq (nr_ended, 8);
  destroy ();
}
END_TEST

/* It waits for its zone, which an idle write has that waits for the BE read. */
START_TEST (wanted_work_takes_what_it_waits_for_along)
{
  create (8, MQ_DEADLINE, 1);
  submit (0, DL_READ, DL_BE, 0, 0);
  submit_zoned (1, 0, DL_IDLE, 4000);
  submit_wanted (2, DL_WRITE, 4008, 4);
  ck_assert_uint_eq (nr_issued, 1);
  want ();
  ck_assert_uint_eq (nr_issued, 2);
  ck_assert_ptr_eq (issued[1], &pool[1]);
  issued[1] = issued[0];
  issued[0] = &pool[1];
  complete_first ();
  ck_assert_ptr_eq (issued[1], &pool[2]);
  complete_all ();
  destroy ();
}
END_TEST

START_TEST (a_wanted_request_that_was_merged_raises_the_whole)
{
  create (1, MQ_DEADLINE, 1);
  submit (0, DL_READ, DL_BE, 0, 0);
  request (1, DL_READ, DL_IDLE, 0, 100)->dl.mergeable = true;
  mq_submit (mq, (struct mq_request *[]) { &pool[1] }, 1);
  request (2, DL_READ, DL_IDLE, 0, 108)->dl.mergeable = true;
  pool[2].wanted = &wanted;
  mq_submit (mq, (struct mq_request *[]) { &pool[2] }, 1);
  submit (3, DL_READ, DL_BE, 0, 200);
  want ();
  complete_first ();
  ck_assert_ptr_eq (issued[0], &pool[1]);
  complete_all ();
  ck_assert_uint_eq (nr_ended, 4);
  destroy ();
}
END_TEST

/* Described as idle before, handed in after. */
START_TEST (work_that_becomes_wanted_on_its_way_is_raised_when_it_arrives)
{
  create (1, MQ_DEADLINE, 1);
  submit (0, DL_READ, DL_BE, 0, 0);
  want ();
  submit (2, DL_READ, DL_BE, 0, 200);   /* somebody looks, and it is not there yet */
  submit_wanted (1, DL_READ, 100, MQ_NO_ZONE);
  complete_first ();
  ck_assert_ptr_eq (issued[0], &pool[1]);
  complete_all ();
  destroy ();
}
END_TEST

/* -- windows ------------------------------------------------------------------------------- */

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


START_TEST (more_writes_than_the_window_holds_keep_a_read_for_one_batch_at_most)
{
  int i;

  create (4, MQ_DEADLINE, 1);
  for (i = 0; i < 100; ++i)
    submit (i, DL_WRITE, DL_BE, 0, i * 100);
  submit (100, DL_READ, DL_BE, 0, 50);
  for (i = 0; i <= 16 && issued[nr_issued - 1] != &pool[100]; ++i)
    complete_first ();
  ck_assert_ptr_eq (issued[nr_issued - 1], &pool[100]);
  complete_all ();
  destroy ();
}
END_TEST

/* -- direct requests, reserved tags -------------------------------------------------------- */

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

/* -- merging ------------------------------------------------------------------------------- */

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

int
main (void)
{
  Suite *s = suite_create ("mq-order");
  TCase *tc = tcase_create ("mq-order");

  tcase_add_checked_fixture (tc, set_up, NULL);
  BOTH (with_a_tag_free_a_request_starts_at_once);
  BOTH (the_device_never_holds_more_than_the_tags);
  tcase_add_test (tc, what_waits_for_tags_leaves_in_sector_order_with_deadline);
  tcase_add_test (tc, what_waits_for_tags_leaves_in_turn_of_hwqs_with_none);
  tcase_add_test (tc, a_batch_is_issued_in_one_call_and_counted);
  tcase_add_test (tc, a_lower_class_waits_for_a_higher_one_that_started_at_once);
  tcase_add_test (tc, a_higher_class_overtakes_what_waits);
  tcase_add_test (tc, a_lower_class_goes_after_the_aging_time_beside_a_higher_one_in_flight);
  tcase_add_test (tc, with_none_classes_do_not_hold_each_other_back);
  tcase_add_test (tc, idle_work_goes_with_the_others_as_soon_as_it_is_wanted);
  tcase_add_test (tc, idle_work_that_nobody_wants_stays_behind);
  tcase_add_loop_test (tc, wanted_work_leaves_a_full_window, DL_READ, DL_WRITE + 1);
  tcase_add_test (tc, wanted_work_takes_what_it_waits_for_along);
  tcase_add_test (tc, a_wanted_request_that_was_merged_raises_the_whole);
  tcase_add_test (tc, work_that_becomes_wanted_on_its_way_is_raised_when_it_arrives);
  tcase_add_test (tc, writes_leave_tags_to_reads_when_async_depth_says_so);
  tcase_add_test (tc, a_full_window_of_one_class_holds_no_other_back);
  tcase_add_test (tc, a_full_window_admits_hwqs_in_turn);
  tcase_add_test (tc, more_writes_than_the_window_holds_keep_a_read_for_one_batch_at_most);
  BOTH (a_probe_is_issued_while_hung_requests_hold_every_tag);
  BOTH (a_flush_goes_before_what_is_sorted);
  tcase_add_test (tc, contiguous_requests_that_wait_become_one_in_sector_order);
  suite_add_tcase (s, tc);
  return run_suite (s);
}
