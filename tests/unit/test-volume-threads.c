/* SPDX-License-Identifier: BSD-3-Clause */
/* Many threads on one volume, with the worker reclaiming under them. */
#undef NDEBUG
#include <config.h>
#include <assert.h>
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/bytes.h"
#include "rig.h"
#include "zoned/running.h"

#define THREADS 8

/* ---- each thread has blocks of its own, between those of the others ---- */

struct owner {
  pthread_t thread;
  struct rig *rig;
  unsigned id, steps;
  uint64_t seed;
};

static uint64_t
next (uint64_t *seed, uint64_t below)
{
  *seed ^= *seed << 13;
  *seed ^= *seed >> 7;
  *seed ^= *seed << 17;
  return *seed % below;
}

/* Stripes of 24 KiB, THREADS of them in turn. */
#define STRIPE (24 * KiB)

static void
own_step (struct owner *o, uint8_t *buf)
{
  struct rig *const rig = o->rig;
  const uint64_t stripes = rig->size / (STRIPE * THREADS);
  const uint64_t base = (next (&o->seed, stripes) * THREADS + o->id) * STRIPE;
  const uint64_t skip = next (&o->seed, STRIPE);
  const uint64_t count = 1 + next (&o->seed, STRIPE - skip);
  const unsigned flags = next (&o->seed, 16) == 0 ? SH_FUA : 0;
  uint64_t i;

  switch (next (&o->seed, 8)) {
  case 0:
    assert (sh_volume_zero (rig->v, count, base + skip, flags) == 0);
    memset (rig->model + base + skip, 0, count);
    break;
  case 1:
    if (next (&o->seed, 8) == 0)
      assert (sh_volume_flush (rig->v) == 0);
    break;
  case 2 ... 4:
    assert (sh_volume_pread (rig->v, buf, STRIPE, base, o->id) == 0);
    assert (memcmp (buf, rig->model + base, STRIPE) == 0);
    break;
  default:
    for (i = 0; i < count; ++i)
      rig->model[base + skip + i] = next (&o->seed, 255) + 1;
    assert (sh_volume_pwrite (rig->v, rig->model + base + skip, count, base + skip, flags,
                              o->id) == 0);
  }
}

static void *
own_work (void *opaque)
{
  struct owner *const o = opaque;
  uint8_t *const buf = malloc (STRIPE);
  unsigned i;

  assert (buf != NULL);
  for (i = 0; i < o->steps; ++i)
    own_step (o, buf);
  free (buf);
  return NULL;
}

static void
owners (const struct rig_config *config, unsigned steps)
{
  struct owner o[THREADS];
  struct rig rig;
  unsigned i;

  rig_init (&rig, config);
  for (i = 0; i < THREADS; ++i) {
    o[i] = (struct owner) { .rig = &rig, .id = i, .steps = steps, .seed = 77 + i };
    assert (pthread_create (&o[i].thread, NULL, own_work, &o[i]) == 0);
  }
  for (i = 0; i < THREADS; ++i)
    pthread_join (o[i].thread, NULL);
  rig_verify_invariants (&rig);
  rig_verify_all (&rig);
  rig_reopen (&rig);
  rig_verify_all (&rig);
  rig_free (&rig);
}

START_TEST (neighbours_in_one_block_never_lose_each_others_bytes)
{
  owners (&(struct rig_config) {
    .drive = { .nr_zones = 24, .nr_conv = 8 },
    .worker = true,
  }, 1500);
}
END_TEST

START_TEST (the_same_with_two_chunks_and_two_random_zones)
{
  owners (&(struct rig_config) {
    .drive = { .nr_zones = 7, .nr_conv = 4 },
    .reserved = 3,
    .worker = true,
  }, 1500);
}
END_TEST

START_TEST (the_same_without_the_volumes_thread)
{
  owners (&(struct rig_config) {
    .drive = { .nr_zones = 14, .nr_conv = 3 },
    .reserved = 1,
  }, 600);
}
END_TEST

/* ---- a stream in pieces, out of order by a little ---- */

struct stream {
  struct rig *rig;
  uint64_t next, end, piece;    /* atomic: the next piece to write */
};

static void *
stream_work (void *opaque)
{
  struct stream *const s = opaque;

  for (;;) {
    const uint64_t at = __atomic_fetch_add (&s->next, s->piece, __ATOMIC_RELAXED);

    if (at >= s->end)
      return NULL;
    assert (sh_volume_pwrite (s->rig->v, s->rig->model + at, s->piece, at, 0, 0) == 0);
  }
}

START_TEST (a_stream_through_eight_threads_goes_straight_to_sequential_zones)
{
  struct rig rig;
  struct stream s;
  pthread_t thread[THREADS];
  struct sh_volume_stats st;
  unsigned i;

  rig_init (&rig, &(struct rig_config) {
    .drive = { .zone_bytes = 4 * MiB, .nr_zones = 40, .nr_conv = 8 },
    .options = { .reorder_window_ns = 200 * 1000 * 1000 },
    .worker = true,
  });
  s = (struct stream) { .rig = &rig, .end = 20 * rig.zone_bytes, .piece = 64 * KiB };
  rig_fill (&rig, rig.model, s.end);
  for (i = 0; i < THREADS; ++i)
    assert (pthread_create (&thread[i], NULL, stream_work, &s) == 0);
  for (i = 0; i < THREADS; ++i)
    pthread_join (thread[i], NULL);
  st = rig_stats (&rig);
  /* Chunk 0 has no chunk before it that would tell of a stream. */
  ck_assert_uint_ge (st.direct_bytes, 19 * rig.zone_bytes);
  ck_assert_uint_eq (st.direct_bytes + st.in_place_bytes + st.buffered_bytes, s.end);
  rig_verify_all (&rig);
  rig_free (&rig);
}
END_TEST

struct late {
  struct rig *rig;
  uint64_t at;
};

static void *
write_late (void *opaque)
{
  struct late *const l = opaque;

  usleep (50000);
  assert (sh_volume_pwrite (l->rig->v, l->rig->model + l->at, 64 * KiB, l->at, 0, 0) == 0);
  return NULL;
}

START_TEST (a_stream_whose_first_piece_is_late_still_begins_in_a_sequential_zone)
{
  struct rig rig;
  struct late l;
  pthread_t thread;

  rig_init (&rig, &(struct rig_config) {
    .drive = { .zone_bytes = 4 * MiB, .nr_zones = 40, .nr_conv = 8 },
    .options = { .reorder_window_ns = UINT64_C (30000000000) },
  });
  l = (struct late) { &rig, 3 * rig.zone_bytes };
  rig_fill (&rig, rig.model + l.at, 64 * KiB);
  assert (pthread_create (&thread, NULL, write_late, &l) == 0);
  rig_write (&rig, l.at + 64 * KiB, 64 * KiB, 0);
  pthread_join (thread, NULL);
  ck_assert_uint_eq (rig_stats (&rig).direct_bytes, 128 * KiB);
  rig_verify_all (&rig);
  rig_free (&rig);
}
END_TEST

/* As if in two threads: who comes early gives up waiting, and his blocks are caught up
   with when the stream goes on behind them. */
START_TEST (a_piece_that_is_late_costs_those_alone_that_had_passed_it)
{
  struct rig rig;
  struct sh_volume_stats st;
  uint64_t at;

  rig_init (&rig, &(struct rig_config) {
    .drive = { .zone_bytes = 4 * MiB, .nr_zones = 40, .nr_conv = 8 },
  });
  rig_write (&rig, 0, 64 * KiB, 0);
  rig_write (&rig, 128 * KiB, 64 * KiB, 0);     /* gives up */
  ck_assert_uint_eq (rig_stats (&rig).buffered_bytes, 64 * KiB);
  rig_write (&rig, 64 * KiB, 64 * KiB, 0);      /* the late one */
  for (at = 192 * KiB; at < 4 * MiB; at += 64 * KiB)
    rig_write (&rig, at, 64 * KiB, 0);
  st = rig_stats (&rig);
  ck_assert_uint_eq (st.buffered_bytes, 64 * KiB);
  ck_assert_uint_eq (st.reclaim_written_bytes, 64 * KiB);
  ck_assert_uint_eq (st.direct_bytes, 4 * MiB - 64 * KiB);
  ck_assert_uint_eq (st.chunks_buffered, 0);
  rig_verify_invariants (&rig);
  rig_verify_all (&rig);
  rig_reopen (&rig);
  rig_verify_all (&rig);
  rig_free (&rig);
}
END_TEST

START_TEST (who_waited_for_too_short_a_time_waits_longer_next_time)
{
  struct rig rig;

  rig_init (&rig, &(struct rig_config) {
    .drive = { .zone_bytes = 4 * MiB, .nr_zones = 40, .nr_conv = 8 },
    .options = { .reorder_window_ns = 1000000 },
  });
  rig_write (&rig, 0, 64 * KiB, 0);
  ck_assert_uint_eq (rig.v->reorder_ns, 1000000);
  rig_write (&rig, 128 * KiB, 64 * KiB, 0);
  rig_write (&rig, 192 * KiB, 64 * KiB, 0);
  rig_write (&rig, 64 * KiB, 64 * KiB, 0);
  ck_assert_uint_ge (rig.v->reorder_ns, 2000000);
  rig_verify_all (&rig);
  rig_free (&rig);
}
END_TEST

START_TEST (who_writes_backwards_in_pairs_is_soon_not_waited_for)
{
  struct rig rig;
  uint64_t at;

  rig_init (&rig, &(struct rig_config) {
    .drive = { .zone_bytes = 4 * MiB, .nr_zones = 40, .nr_conv = 8 },
    .options = { .reorder_window_ns = 1000000 },
  });
  rig_write (&rig, 0, 64 * KiB, 0);
  for (at = 64 * KiB; at < 4 * MiB - 128 * KiB; at += 128 * KiB) {
    rig_write (&rig, at + 64 * KiB, 64 * KiB, 0);
    rig_write (&rig, at, 64 * KiB, 0);
  }
  ck_assert_uint_eq (rig.v->zones[rig.v->map[0].data].vain, REORDER_VAIN_MAX);
  ck_assert_uint_eq (rig.v->reorder_ns, 1000000);
  rig_verify_all (&rig);
  rig_free (&rig);
}
END_TEST

START_TEST (a_stream_over_a_few_old_blocks_goes_straight_to_a_sequential_zone)
{
  struct rig rig;
  struct sh_volume_stats st;
  uint64_t at;

  rig_init (&rig, &(struct rig_config) {
    .drive = { .zone_bytes = 4 * MiB, .nr_zones = 40, .nr_conv = 8 },
  });
  rig_write (&rig, 0, 8 * KiB, 0);
  rig_write (&rig, 3 * MiB, 8 * KiB, 0);
  ck_assert_uint_eq (rig_stats (&rig).in_place_bytes, 16 * KiB);
  for (at = 0; at < 4 * MiB; at += 256 * KiB) {
    rig_write (&rig, at, 256 * KiB, 0);
    rig_verify_invariants (&rig);
    if (at == 2 * MiB)
      rig_reopen (&rig);
  }
  rig_flush (&rig);
  st = rig_stats (&rig);
  ck_assert_uint_eq (st.in_place_bytes, 0);     /* since the volume was opened again */
  ck_assert_uint_eq (st.direct_bytes, 2 * MiB - 256 * KiB);
  ck_assert_uint_eq (st.chunks_buffered, 0);
  ck_assert_uint_eq (st.random_free, st.random_zones);
  rig_verify_all (&rig);
  rig_free (&rig);
}
END_TEST

int
main (void)
{
  Suite *const s = suite_create ("volume-threads");
  TCase *const t = tcase_create ("threads");

  tcase_add_test (t, neighbours_in_one_block_never_lose_each_others_bytes);
  tcase_add_test (t, the_same_with_two_chunks_and_two_random_zones);
  tcase_add_test (t, the_same_without_the_volumes_thread);
  tcase_add_test (t, a_stream_whose_first_piece_is_late_still_begins_in_a_sequential_zone);
  tcase_add_test (t, a_stream_through_eight_threads_goes_straight_to_sequential_zones);
  tcase_add_test (t, a_piece_that_is_late_costs_those_alone_that_had_passed_it);
  tcase_add_test (t, who_writes_backwards_in_pairs_is_soon_not_waited_for);
  tcase_add_test (t, who_waited_for_too_short_a_time_waits_longer_next_time);
  tcase_add_test (t, a_stream_over_a_few_old_blocks_goes_straight_to_a_sequential_zone);
  suite_add_tcase (s, t);
  return run_suite (s);
}
