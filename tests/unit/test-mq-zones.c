/* SPDX-License-Identifier: BSD-3-Clause */
/* core/mq: writes to sequential zones; see mq-rig.h for how these go. */
#include <config.h>
#include "mq-rig.h"

/* -- one at a time in order ---------------------------------------------------------------- */

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

/* -- one in all zones ---------------------------------------------------------------------- */

/* What the head of a drive would have to do for what is issued, one after the other. */
static unsigned
changes_of_zone (unsigned n)
{
  unsigned changes = 0;
  uint32_t zone = MQ_NO_ZONE;

  while (n--) {
    struct mq_request *rq;

    ck_assert_uint_ge (nr_issued, 1);
    if (mq->one_zone_writer)
      ck_assert_uint_eq (nr_issued, 1);
    rq = complete_first ();
    changes += rq->zone != zone;
    zone = rq->zone;
  }
  return changes;
}

/* Eight clients, each with 25 writes to a zone of its own. */
static void
eight_streams (unsigned which)
{
  int i;

  options.zoned_writes = which;
  create (32, MQ_DEADLINE, 8);
  for (i = 0; i < 200; ++i)
    submit_zoned (i, i % 8, DL_BE, 1000 * (i % 8) + 8 + 8 * (i / 8));
}

START_TEST (with_qd1_one_write_is_in_all_zones_and_the_heads_seldom_move)
{
  int i;

  eight_streams (MQ_QD1);
  ck_assert_uint_eq (nr_issued, 1);
  ck_assert_uint_le (changes_of_zone (100), 1 + 100 / 16 + 1);
  complete_all ();
  ck_assert_uint_eq (nr_ended, 200);
  destroy ();
  /* As it is otherwise. */
  set_up ();
  eight_streams (MQ_ONE_A_ZONE);
  ck_assert_uint_eq (nr_issued, 8);
  ck_assert_uint_ge (changes_of_zone (100), 90);
  complete_all ();
  for (i = 0; i < 200; ++i)
    ck_assert_int_eq (pool[i].place, MQ_OUTSIDE);
  destroy ();
}
END_TEST

START_TEST (with_qd1_writes_go_in_order_in_each_zone_and_from_one_into_the_next)
{
  uint64_t last[10] = { 0 };
  int i;

  options.zoned_writes = MQ_QD1;
  create (8, _i, 4);
  for (i = 0; i < 300; ++i)
    submit_zoned (i, i % 4, DL_BE, i % 2 ? 8 * i : 5000 + 8 * i);
  while (nr_issued) {
    const struct mq_request *rq = complete_first ();

    ck_assert_uint_ge (rq->dl.sector, last[rq->zone]);
    if (rq->dl.sector == rq->zone * 1000 && rq->zone != 5 && rq->zone > 0)
      ck_assert_uint_eq (last[rq->zone - 1], rq->dl.sector - 16);
    last[rq->zone] = rq->dl.sector;
  }
  ck_assert_uint_eq (nr_ended, 300);
  destroy ();
}
END_TEST

START_TEST (with_qd1_a_better_class_is_next_and_reads_do_not_wait)
{
  int i;

  options.zoned_writes = MQ_QD1;
  create (8, MQ_NONE, 4);
  for (i = 0; i < 10; ++i)
    submit_zoned (i, 0, DL_BE, 2000 + 8 * i);
  submit_zoned (10, 0, DL_RT, 7000);
  submit (11, DL_READ, DL_BE, 1, 100);
  ck_assert_uint_eq (nr_issued, 2);
  ck_assert_ptr_eq (issued[1], &pool[11]);
  complete_first ();
  ck_assert_ptr_eq (issued[1], &pool[10]);
  complete_all ();
  destroy ();
}
END_TEST

START_TEST (with_qd1_a_better_class_takes_along_what_is_before_it_in_its_zone)
{
  unsigned i;

  options.zoned_writes = MQ_QD1;
  create (8, _i, 4);
  for (i = 0; i < 4; ++i)
    submit_zoned (i, 0, DL_BE, 5000 + 8 * i);
  submit_zoned (4, 0, DL_BE, 2992);
  submit_zoned (5, 0, DL_RT, 3000);     /* the stream goes on in the next zone */
  submit_zoned (6, 0, DL_RT, 3008);
  complete_first ();
  for (i = 4; i < 7; ++i)
    ck_assert_ptr_eq (complete_first (), &pool[i]);
  complete_all ();
  ck_assert_uint_eq (nr_ended, 7);
  destroy ();
}
END_TEST

START_TEST (with_qd1_waiting_writes_that_continue_each_other_go_as_one)
{
  int i;

  options.zoned_writes = MQ_QD1;
  create (8, _i, 4);
  for (i = 0; i < 12; ++i) {
    struct mq_request *rq = request (i, DL_WRITE, DL_BE, 0, 1000 * (i % 2) + 8 * (i / 2));

    rq->dl.mergeable = true;
    rq->zone = i % 2;
    mq_submit (mq, &rq, 1);
  }
  ck_assert_uint_eq (complete_first ()->dl.nr_sectors, 8);
  ck_assert_uint_eq (complete_first ()->dl.nr_sectors, 40);
  ck_assert_uint_eq (complete_first ()->dl.nr_sectors, 48);
  ck_assert_uint_eq (nr_ended, 12);
  destroy ();
}
END_TEST

/* -- the device says no -------------------------------------------------------------------- */

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

int
main (void)
{
  Suite *s = suite_create ("mq-zones");
  TCase *tc = tcase_create ("mq-zones");

  tcase_add_checked_fixture (tc, set_up, NULL);
  BOTH (writes_to_one_zone_go_one_at_a_time_in_order);
  BOTH (writes_to_different_zones_go_together);
  BOTH (waiting_writes_that_continue_each_other_go_as_one);
  tcase_add_test (tc, a_write_lends_its_class_to_the_one_before_it_in_the_zone);
  tcase_add_test (tc, a_stream_over_zones_is_issued_in_order);
  tcase_add_test (tc, with_qd1_one_write_is_in_all_zones_and_the_heads_seldom_move);
  BOTH (with_qd1_writes_go_in_order_in_each_zone_and_from_one_into_the_next);
  tcase_add_test (tc, with_qd1_a_better_class_is_next_and_reads_do_not_wait);
  BOTH (with_qd1_a_better_class_takes_along_what_is_before_it_in_its_zone);
  BOTH (with_qd1_waiting_writes_that_continue_each_other_go_as_one);
  BOTH (a_refused_zone_write_keeps_its_place);
  suite_add_tcase (s, tc);
  return run_suite (s);
}
