/* SPDX-License-Identifier: BSD-3-Clause */
/* core/mq/deadline: against a second, naive model over random events, and the
 * properties that users count on, on a clock that the test steps. */
#include <config.h>
#include <check.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include "base/bytes.h"
#include "base/clock.h"
#include "mq/deadline.h"
#include "run-suite.h"

#define MS(n) ((n) * NS_PER_MS)

/* -- a naive model: one array in order of arrival, every question a scan ------ */

struct model_request {
  int id;
  uint64_t sector;
  int dir, class;
  int64_t deadline;             /* ticks */
  bool head;
};

struct model {
  struct model_request q[512];  /* in order of arrival */
  int n;
  int populated[3];             /* queued or in flight */
  uint64_t latest[3][2];
  int last_dir, starved;
  int64_t batching;
  struct dl_tunables t;
  int64_t tick_ns;
};

static int64_t
model_expire (const struct model *m, int dir)
{
  const int64_t ms = dir ? m->t.write_expire_ms : m->t.read_expire_ms;

  return (ms * (int64_t) NS_PER_MS + m->tick_ns - 1) / m->tick_ns;
}

static void
model_insert (struct model *m, int id, uint64_t sector, int dir, int class, bool head,
              bool again, int64_t now)
{
  struct model_request r = { id, sector, dir, class, now + model_expire (m, dir), head };

  if (head)
    r.deadline = now;
  m->q[m->n++] = r;
  if (!again)
    m->populated[class]++;
}

/* Index of the lowest sector >= `from`, the oldest of equals; -1: none. */
static int
model_at_or_after (const struct model *m, int class, int dir, uint64_t from)
{
  int i, best = -1;

  for (i = 0; i < m->n; ++i) {
    const struct model_request *r = &m->q[i];

    if (!r->head && r->class == class && r->dir == dir && r->sector >= from &&
        (best == -1 || r->sector < m->q[best].sector))
      best = i;
  }
  return best;
}

static int
model_oldest (const struct model *m, int class, int dir)
{
  int i;

  for (i = 0; i < m->n; ++i)
    if (!m->q[i].head && m->q[i].class == class && m->q[i].dir == dir)
      return i;
  return -1;
}

static int
model_class (struct model *m, int class, int64_t now, int64_t limit)
{
  int i, pick;
  bool reads, writes;

  for (i = m->n - 1; i >= 0; --i)       /* the newest head insert first */
    if (m->q[i].head && m->q[i].class == class)
      return m->q[i].deadline > limit ? -1 : i;
  pick = model_at_or_after (m, class, m->last_dir, m->latest[class][m->last_dir]);
  if (pick == -1 || m->batching >= m->t.fifo_batch) {
    int dir;

    reads = model_oldest (m, class, 0) != -1;
    writes = model_oldest (m, class, 1) != -1;
    if (!reads && !writes)
      return -1;
    dir = !reads;
    if (reads && writes) {
      if (m->starved >= m->t.writes_starved)
        dir = 1;
      m->starved++;
    }
    if (dir == 1)
      m->starved = 0;
    pick = model_at_or_after (m, class, dir, m->latest[class][dir]);
    i = model_oldest (m, class, dir);
    if (pick == -1 || m->q[i].deadline <= now)
      pick = i;
    m->last_dir = dir;
    m->batching = 0;
  }
  if (m->q[pick].deadline - model_expire (m, m->q[pick].dir) > limit)
    return -1;
  m->batching++;
  m->latest[class][m->q[pick].dir] = m->q[pick].sector;
  return pick;
}

/* The id of the request taken, -1 for none. */
static int
model_dispatch (struct model *m, int64_t now)
{
  const int64_t aging = (m->t.prio_aging_expire_ms * (int64_t) NS_PER_MS + m->tick_ns - 1) /
    m->tick_ns;
  int c, id, pick = -1;

  if (!!m->populated[0] + !!m->populated[1] + !!m->populated[2] >= 2)
    for (c = 1; c < 3 && pick == -1; ++c)
      pick = model_class (m, c, now, now - aging);
  for (c = 0; c < 3 && pick == -1; ++c) {
    pick = model_class (m, c, now, now);
    if (m->populated[c])
      break;
  }
  if (pick == -1)
    return -1;
  id = m->q[pick].id;
  m->n--;
  memmove (&m->q[pick], &m->q[pick + 1], (m->n - pick) * sizeof m->q[0]);
  return id;
}

/* -- random events through both ------------------------------------------------ */

#define NR_IDS 256

static unsigned seed;

static unsigned
dice (unsigned sides)
{
  seed = seed * 1103515245u + 12345u;
  return (seed >> 8) % sides;
}

static void
random_tunables (struct dl_tunables *t)
{
  *t = (struct dl_tunables) {
    .read_expire_ms = dice (3) ? dice (200) : 0,
    .write_expire_ms = dice (1000),
    .fifo_batch = dice (6),
    .writes_starved = (int) dice (5) - 1,
    .front_merges = 1,
    .prio_aging_expire_ms = dice (3) ? dice (500) : 10000,
  };
}

enum life { FREE, QUEUED, FLYING };

struct pair {
  struct deadline dl;
  struct model m;
  struct dl_request rq[NR_IDS];
  enum life life[NR_IDS];
  uint64_t now;
};

static int
pick_life (struct pair *p, enum life life)
{
  int i, first = dice (NR_IDS);

  for (i = 0; i < NR_IDS; ++i)
    if (p->life[(first + i) % NR_IDS] == life)
      return (first + i) % NR_IDS;
  return -1;
}

static void
insert_both (struct pair *p, int id)
{
  struct dl_request *rq = &p->rq[id];
  const bool head = dice (20) == 0;

  dl_request_init (rq);
  rq->sector = dice (64) * 8;
  rq->nr_sectors = 8;
  rq->dir = dice (2);
  rq->prio_class = dice (3) ? DL_BE : dice (3);
  dl_insert (&p->dl, rq, head, p->now);
  model_insert (&p->m, id, rq->sector, rq->dir, rq->prio_class, head, false,
                p->now / p->dl.tick_ns);
  p->life[id] = QUEUED;
}

static void
dispatch_both (struct pair *p)
{
  struct dl_request *rq = dl_dispatch (&p->dl, p->now);
  const int expected = model_dispatch (&p->m, p->now / p->dl.tick_ns);
  const int got = rq ? (int) (rq - p->rq) : -1;

  ck_assert_int_eq (got, expected);
  if (rq)
    p->life[got] = FLYING;
}

static void
complete_both (struct pair *p, int id)
{
  dl_count_completed (&p->dl, p->rq[id].prio_class);
  p->m.populated[p->rq[id].prio_class]--;
  p->life[id] = FREE;
}

/* The device refuses it: back to the head, not counted a second time. */
static void
requeue_both (struct pair *p, int id)
{
  struct dl_request *rq = &p->rq[id];

  dl_insert (&p->dl, rq, true, p->now);
  model_insert (&p->m, id, rq->sector, rq->dir, rq->prio_class, true, true,
                p->now / p->dl.tick_ns);
  p->life[id] = QUEUED;
}

static void
random_step (struct pair *p)
{
  const unsigned what = dice (100);
  int id;

  p->now += dice (4) ? dice (3000000) : MS (dice (300));
  if (what < 45) {
    if ((id = pick_life (p, FREE)) != -1)
      insert_both (p, id);
  }
  else if (what < 75)
    dispatch_both (p);
  else if (what < 97) {
    if ((id = pick_life (p, FLYING)) != -1)
      complete_both (p, id);
  }
  else if (what < 99) {
    if ((id = pick_life (p, FLYING)) != -1)
      requeue_both (p, id);
  }
  else {
    random_tunables (&p->m.t);
    dl_set_tunables (&p->dl, &p->m.t);
  }
}

START_TEST (every_decision_is_that_of_a_model_written_from_the_description)
{
  static struct pair p;
  int step;

  seed = 1 + _i;
  memset (&p, 0, sizeof p);
  p.m.tick_ns = _i % 2 ? 4 * NS_PER_MS : 1;
  dl_init (&p.dl, p.m.tick_ns);
  p.m.last_dir = 1;
  random_tunables (&p.m.t);
  dl_set_tunables (&p.dl, &p.m.t);
  for (step = 0; step < 20000; ++step) {
    random_step (&p);
    if (step % 64 == 0)
      dl_check (&p.dl);
  }
}
END_TEST

/* -- properties -------------------------------------------------------------------- */

static struct deadline dl;
static struct dl_request pool[1024];
static const struct dl_limits no_limits = { UINT64_MAX, UINT_MAX, 0 };

static void
fresh (void)
{
  dl_init (&dl, 1);
  dl_set_limits (&dl, &no_limits);
}

static struct dl_request *
add (int i, enum dl_dir dir, enum dl_class class, uint64_t sector, uint64_t now)
{
  struct dl_request *rq = &pool[i];

  dl_request_init (rq);
  rq->sector = sector;
  rq->nr_sectors = 8;
  rq->nr_segments = 1;
  rq->dir = dir;
  rq->prio_class = class;
  rq->mergeable = true;
  dl_insert (&dl, rq, false, now);
  return rq;
}

/* Joins `rq`, not yet inserted, to what is queued; how it was done. */
static enum dl_merge
merge (uint64_t sector, enum dl_dir dir)
{
  struct dl_request data, *rq;
  enum dl_merge how;

  dl_request_init (&data);
  data.sector = sector;
  data.nr_sectors = 8;
  data.nr_segments = 1;
  data.dir = dir;
  data.mergeable = true;
  how = dl_find_merge (&dl, &data, &rq);
  if (how != DL_NO_MERGE)
    dl_merge (&dl, how, rq, 8, 1);
  dl_check (&dl);
  return how;
}

START_TEST (a_batch_goes_up_in_sector_order)
{
  uint64_t last = 0;
  int i;

  fresh ();
  for (i = 0; i < 16; ++i)
    add (i, DL_READ, DL_BE, (i * 7 % 16) * 100, MS (1));
  for (i = 0; i < 16; ++i) {
    struct dl_request *rq = dl_dispatch (&dl, MS (2));

    ck_assert_ptr_nonnull (rq);
    ck_assert_uint_ge (rq->sector, last);
    last = rq->sector;
  }
  ck_assert_ptr_null (dl_dispatch (&dl, MS (2)));
}
END_TEST

START_TEST (a_deadline_counts_from_the_moment_it_is_reached)
{
  struct dl_request *old;

  fresh ();
  old = add (0, DL_READ, DL_BE, 10, 0);
  add (1, DL_READ, DL_BE, 1000, MS (1));
  dl.class[DL_BE].latest_sector[DL_READ] = 500;
  ck_assert_uint_eq (dl_dispatch (&dl, MS (500) - 1)->sector, 1000);
  dl_check (&dl);

  fresh ();
  old = add (0, DL_READ, DL_BE, 10, 0);
  add (1, DL_READ, DL_BE, 1000, MS (1));
  dl.class[DL_BE].latest_sector[DL_READ] = 500;
  ck_assert_ptr_eq (dl_dispatch (&dl, MS (500)), old);
}
END_TEST

START_TEST (endless_reads_let_a_write_through_after_writes_starved_batches)
{
  int i, reads = 0;

  fresh ();
  add (1000, DL_WRITE, DL_BE, 5, 0);
  for (i = 0; i < 200; ++i) {
    struct dl_request *rq;

    add (i, DL_READ, DL_BE, 1000 + 8 * i, MS (1));
    rq = dl_dispatch (&dl, MS (2));
    if (rq->dir == DL_WRITE)
      break;
    ++reads;
    dl_count_completed (&dl, DL_BE);
  }
  /* Reads arrive one at a time, so that each batch is full. */
  ck_assert_int_le (reads, 2 * 16 + 1);
  ck_assert_int_lt (i, 200);
}
END_TEST

START_TEST (a_lower_class_gets_nothing_while_a_higher_one_is_in_flight)
{
  struct dl_request *idle;

  fresh ();
  add (0, DL_READ, DL_RT, 0, 0);
  idle = add (1, DL_READ, DL_IDLE, 8, 0);
  ck_assert_ptr_eq (dl_dispatch (&dl, MS (1)), &pool[0]);
  ck_assert_ptr_null (dl_dispatch (&dl, MS (1)));
  ck_assert_ptr_null (dl_dispatch (&dl, MS (9999)));
  dl_count_completed (&dl, DL_RT);
  ck_assert_ptr_eq (dl_dispatch (&dl, MS (2)), idle);
}
END_TEST

START_TEST (requests_in_flight_elsewhere_hold_back_lower_classes_too)
{
  fresh ();
  add (0, DL_READ, DL_IDLE, 8, 0);
  dl.in_flight_outside[DL_BE] = 1;
  ck_assert_ptr_null (dl_dispatch (&dl, MS (1)));
  dl.in_flight_outside[DL_BE] = 0;
  ck_assert_ptr_nonnull (dl_dispatch (&dl, MS (1)));
}
END_TEST

START_TEST (class_idle_goes_after_the_aging_time_under_endless_rt_load)
{
  const uint64_t second = NS_PER_S;
  uint64_t t;

  fresh ();
  add (1000, DL_WRITE, DL_IDLE, 5, 0);
  for (t = MS (1); t < 20 * second; t += MS (50)) {
    struct dl_request *rq;

    add (t / MS (50) % 500, DL_READ, DL_RT, t / MS (50) % 500 * 8, t);
    rq = dl_dispatch (&dl, t);
    if (rq->prio_class == DL_IDLE)
      break;
    dl_count_completed (&dl, DL_RT);
  }
  ck_assert_uint_ge (t, 10 * second);
  ck_assert_uint_le (t, 10 * second + MS (100));
}
END_TEST

START_TEST (a_missed_completion_is_the_only_thing_that_wedges_a_lower_class)
{
  int i;

  fresh ();
  for (i = 0; i < 100; ++i) {
    add (i, DL_READ, DL_BE, 8 * i, i);
    ck_assert_ptr_nonnull (dl_dispatch (&dl, i));
  }
  add (100, DL_READ, DL_IDLE, 0, 100);
  for (i = 0; i < 100; ++i) {
    ck_assert_ptr_null (dl_dispatch (&dl, 200));
    dl_count_completed (&dl, DL_BE);
  }
  ck_assert_ptr_eq (dl_dispatch (&dl, 200), &pool[100]);
}
END_TEST

START_TEST (a_requeued_request_is_counted_once_and_leaves_first)
{
  struct dl_request *rq;

  fresh ();
  add (0, DL_WRITE, DL_BE, 800, 0);
  add (1, DL_WRITE, DL_BE, 900, 0);
  rq = dl_dispatch (&dl, 1);
  dl_insert (&dl, rq, true, 2);
  ck_assert_uint_eq (dl_populated (&dl, DL_BE), 2);
  ck_assert_ptr_eq (dl_dispatch (&dl, 3), rq);
  dl_count_completed (&dl, DL_BE);
  dl_dispatch (&dl, 4);
  dl_count_completed (&dl, DL_BE);
  ck_assert_uint_eq (dl_populated (&dl, DL_BE), 0);
}
END_TEST

START_TEST (head_inserts_leave_last_in_first_out)
{
  fresh ();
  add (0, DL_READ, DL_BE, 0, 0);
  add (1, DL_READ, DL_BE, 8, 0);
  dl_withdraw (&dl, &pool[0]);
  dl_withdraw (&dl, &pool[1]);
  dl_insert (&dl, &pool[0], true, 1);
  dl_insert (&dl, &pool[1], true, 2);
  ck_assert_ptr_eq (dl_dispatch (&dl, 3), &pool[1]);
  ck_assert_ptr_eq (dl_dispatch (&dl, 3), &pool[0]);
}
END_TEST

START_TEST (counters_wrap_without_harm)
{
  fresh ();
  dl.class[DL_RT].count.inserted = UINT_MAX;
  dl.class[DL_RT].count.completed = UINT_MAX;
  add (0, DL_READ, DL_RT, 0, 0);
  add (1, DL_READ, DL_IDLE, 8, 0);
  ck_assert_uint_eq (dl_populated (&dl, DL_RT), 1);
  ck_assert_ptr_nonnull (dl_dispatch (&dl, 1));
  dl_count_completed (&dl, DL_RT);
  ck_assert_ptr_eq (dl_dispatch (&dl, 1), &pool[1]);
}
END_TEST

START_TEST (merges_grow_a_request_at_either_end_within_its_kind)
{
  fresh ();
  add (0, DL_WRITE, DL_BE, 100, 0);
  ck_assert_int_eq (merge (108, DL_WRITE), DL_BACK_MERGE);
  ck_assert_int_eq (merge (92, DL_WRITE), DL_FRONT_MERGE);
  ck_assert_int_eq (merge (116, DL_READ), DL_NO_MERGE);
  ck_assert_uint_eq (pool[0].sector, 92);
  ck_assert_uint_eq (pool[0].nr_sectors, 24);
}
END_TEST

START_TEST (merges_stay_within_limits_and_zones)
{
  const struct dl_limits limits = { .max_sectors = 16, .max_segments = 8, .zone_sectors = 1024 };

  fresh ();
  dl_set_limits (&dl, &limits);
  add (0, DL_WRITE, DL_BE, 1016, 0);
  ck_assert_int_eq (merge (1024, DL_WRITE), DL_NO_MERGE);
  ck_assert_int_eq (merge (1008, DL_WRITE), DL_FRONT_MERGE);
  ck_assert_int_eq (merge (1000, DL_WRITE), DL_NO_MERGE);
}
END_TEST

START_TEST (an_absorbed_request_leaves_its_earlier_deadline_behind)
{
  struct dl_request *gone, *by;

  fresh ();
  add (0, DL_WRITE, DL_BE, 108, MS (1));
  add (1, DL_WRITE, DL_BE, 500, MS (2));
  add (2, DL_WRITE, DL_BE, 100, MS (3));
  gone = dl_join (&dl, &pool[2], &by);
  ck_assert_ptr_eq (gone, &pool[0]);
  ck_assert_ptr_eq (by, &pool[2]);
  ck_assert_ptr_eq (dl_fifo_first (&dl, DL_BE, DL_WRITE), by);
  ck_assert_int_eq (by->fifo_tick, MS (1) + MS (5000));
  ck_assert_uint_eq (by->nr_sectors, 16);
  dl_check (&dl);
}
END_TEST

START_TEST (tunables_are_clamped_as_the_kernel_clamps_them)
{
  const struct dl_tunables t = { -1, INT64_MAX, -5, INT64_MIN, 7, -2 };

  fresh ();
  dl_set_tunables (&dl, &t);
  ck_assert_int_eq (dl.tunables.read_expire_ms, 0);
  ck_assert_int_eq (dl.tunables.write_expire_ms, INT_MAX);
  ck_assert_int_eq (dl.tunables.fifo_batch, 0);
  ck_assert_int_eq (dl.tunables.writes_starved, INT_MIN);
  ck_assert_int_eq (dl.tunables.front_merges, 1);
  ck_assert_int_eq (dl.tunables.prio_aging_expire_ms, 0);
}
END_TEST

START_TEST (defaults_are_those_of_the_kernel)
{
  fresh ();
  ck_assert_int_eq (dl.tunables.read_expire_ms, 500);
  ck_assert_int_eq (dl.tunables.write_expire_ms, 5000);
  ck_assert_int_eq (dl.tunables.prio_aging_expire_ms, 10000);
  ck_assert_int_eq (dl.tunables.writes_starved, 2);
  ck_assert_int_eq (dl.tunables.fifo_batch, 16);
  ck_assert_int_eq (dl.tunables.front_merges, 1);
}
END_TEST

START_TEST (withdrawing_leaves_no_trace)
{
  fresh ();
  add (0, DL_READ, DL_RT, 0, 0);
  add (1, DL_READ, DL_IDLE, 0, 0);
  dl_withdraw (&dl, &pool[0]);
  dl_check (&dl);
  ck_assert_ptr_eq (dl_dispatch (&dl, 1), &pool[1]);
}
END_TEST

int
main (void)
{
  Suite *s = suite_create ("deadline");
  TCase *tc = tcase_create ("deadline");

  tcase_add_loop_test (tc, every_decision_is_that_of_a_model_written_from_the_description,
                       0, 40);
  tcase_add_test (tc, a_batch_goes_up_in_sector_order);
  tcase_add_test (tc, a_deadline_counts_from_the_moment_it_is_reached);
  tcase_add_test (tc, endless_reads_let_a_write_through_after_writes_starved_batches);
  tcase_add_test (tc, a_lower_class_gets_nothing_while_a_higher_one_is_in_flight);
  tcase_add_test (tc, requests_in_flight_elsewhere_hold_back_lower_classes_too);
  tcase_add_test (tc, class_idle_goes_after_the_aging_time_under_endless_rt_load);
  tcase_add_test (tc, a_missed_completion_is_the_only_thing_that_wedges_a_lower_class);
  tcase_add_test (tc, a_requeued_request_is_counted_once_and_leaves_first);
  tcase_add_test (tc, head_inserts_leave_last_in_first_out);
  tcase_add_test (tc, counters_wrap_without_harm);
  tcase_add_test (tc, merges_grow_a_request_at_either_end_within_its_kind);
  tcase_add_test (tc, merges_stay_within_limits_and_zones);
  tcase_add_test (tc, an_absorbed_request_leaves_its_earlier_deadline_behind);
  tcase_add_test (tc, tunables_are_clamped_as_the_kernel_clamps_them);
  tcase_add_test (tc, defaults_are_those_of_the_kernel);
  tcase_add_test (tc, withdrawing_leaves_no_trace);
  suite_add_tcase (s, tc);
  return run_suite (s);
}
