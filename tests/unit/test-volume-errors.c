/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One failing command, at every place.
 *
 * The same work runs again and again; each time another command of it fails, in
 * one of several ways, up to three times in a row.  A call that was hit may fail;
 * then each block that it was to change holds its old or its new content.  Nothing
 * else may be noticed: all other calls succeed, every block reads right, the volume
 * closes, checks without an error and is right when it is opened again.
 *
 * SHINGLE_SEED: other work; SHINGLE_STRIDE: every n-th command (default 29, 1: all).
 */
#undef NDEBUG
#include <config.h>
#include <assert.h>
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/bytes.h"
#include "rig.h"
#include "zoned/running.h"

#define BLOCK UINT64_C (4096)
#define STEPS 90
#define TIMES_MAX 3

struct way {
  enum bdev_op op;
  int errnum;
  bool part;                    /* a write that gets some of its data done */
  bool all;                     /* a write that gets all done, and yet fails */
  bool zone_lost;               /* takes the zone out of use, so later writes may fail */
};

static const struct way ways[] = {
  { .op = BDEV_READ, .errnum = ENODATA },
  { .op = BDEV_READ, .errnum = EIO },
  { .op = BDEV_WRITE, .errnum = EIO },
  { .op = BDEV_WRITE, .errnum = ENODATA, .part = true },
  { .op = BDEV_WRITE, .errnum = EIO, .all = true },
  { .op = BDEV_WRITE, .errnum = EREMOTEIO },
  { .op = BDEV_WRITE, .errnum = ETIMEDOUT, .part = true },
  { .op = BDEV_WRITE, .errnum = ETOOMANYREFS },
  { .op = BDEV_WRITE, .errnum = EROFS, .zone_lost = true },
  { .op = BDEV_FLUSH, .errnum = EIO },
  { .op = BDEV_ZONE_RESET, .errnum = EIO, .zone_lost = true },
  { .op = BDEV_WRITE_ZEROES, .errnum = EIO },
};

struct trial {
  struct rig rig;
  const struct way *way;
  uint64_t place;               /* commands of the kind to spare first */
  unsigned left;                /* times that it still fails */
  unsigned hits;
  uint64_t seen;                /* commands of the kind */
  uint8_t *old, *found;
  uint64_t stream;
};

static int
fault (struct guard *g, struct bdev_req *req, void *opaque)
{
  struct trial *const r = opaque;

  if (req->op != r->way->op)
    return 0;
  if (r->seen++ < r->place || r->left == 0)
    return 0;
  r->left--;
  r->hits++;
  if (r->way->part)
    req->done_bytes = req->len_bytes / 2 / BLOCK * BLOCK;
  if (r->way->all)
    req->done_bytes = req->len_bytes;
  errno = r->way->errnum;
  return -1;
}

static void
die (const struct trial *r, const char *what, uint64_t offset)
{
  fprintf (stderr, "%s, command %llu: %s at %llu (%s)\n", strerror (r->way->errnum),
           (unsigned long long) r->place, what, (unsigned long long) offset,
           strerror (errno));
  abort ();
}

/* [offset, offset + count) was to be changed by a call that failed: each block is old
   or new, and from now on it is what it is. */
static void
settle (struct trial *r, uint64_t offset, uint64_t count)
{
  struct rig *const rig = &r->rig;
  const uint64_t from = offset / BLOCK * BLOCK;
  const uint64_t to = DIV_ROUND_UP (offset + count, BLOCK) * BLOCK;
  uint64_t at;

  r->left = 0;
  if (sh_volume_pread (rig->v, r->found, to - from, from, 0) == -1)
    die (r, "what was there cannot be read", from);
  for (at = from; at < to; at += BLOCK) {
    const uint8_t *const now = r->found + (at - from);

    if (memcmp (now, rig->model + at, BLOCK) != 0 && memcmp (now, r->old + at, BLOCK) != 0)
      die (r, "neither old nor new", at);
    memcpy (rig->model + at, now, BLOCK);
  }
}

/* A call may fail when it was hit, or when a zone was lost before. */
static void
judge (struct trial *r, int result, unsigned hits_before, uint64_t offset, uint64_t count)
{
  if (result == 0)
    return;
  if (r->hits == hits_before && !(r->way->zone_lost && r->hits > 0))
    die (r, "a call failed that was not hit", offset);
  settle (r, offset, count);
}

static void
change (struct trial *r, unsigned kind, uint64_t offset, uint64_t count, unsigned flags)
{
  struct rig *const rig = &r->rig;
  const uint64_t from = offset / BLOCK * BLOCK;
  const uint64_t to = DIV_ROUND_UP (offset + count, BLOCK) * BLOCK;
  const unsigned hits = r->hits;
  int result;

  memcpy (r->old + from, rig->model + from, to - from);
  if (kind == 0) {
    rig_fill (rig, rig->model + offset, count);
    result = sh_volume_pwrite (rig->v, rig->model + offset, count, offset, flags, 0);
  }
  else if (kind == 1) {
    memset (rig->model + offset, 0, count);
    result = sh_volume_zero (rig->v, count, offset, flags);
  }
  else {
    memset (rig->model + from, 0, to - from);
    result = sh_volume_trim (rig->v, to - from, from, flags);
  }
  judge (r, result, hits, offset, count);
}

static void
read_some (struct trial *r, uint64_t offset, uint64_t count)
{
  const unsigned hits = r->hits;

  if (sh_volume_pread (r->rig.v, r->found, count, offset, 0) == -1) {
    if (r->hits == hits)
      die (r, "a read failed that was not hit", offset);
  }
  else if (memcmp (r->found, r->rig.model + offset, count) != 0)
    die (r, "wrong data", offset);
}

static void
step (struct trial *r)
{
  struct rig *const rig = &r->rig;
  uint64_t at = rig_random (rig, rig->size), n = 1 + rig_random (rig, 48 * KiB);
  const unsigned flags = rig_random (rig, 6) == 0 ? SH_FUA : 0, hits = r->hits;

  if (rig_random (rig, 3)) {
    at &= ~(BLOCK - 1);
    n = DIV_ROUND_UP (n, BLOCK) * BLOCK;
  }
  n = MIN (n, rig->size - at);
  switch (rig_random (rig, 14)) {
  case 0 ... 3:
    change (r, 0, at, n, flags);
    break;
  case 4 ... 8:
    if (r->stream >= rig->size || rig_random (rig, 12) == 0)
      r->stream = rig_random (rig, rig->size / rig->zone_bytes) * rig->zone_bytes;
    n = (1 + rig_random (rig, 30)) * BLOCK;
    n = MIN (n, rig->size - r->stream);
    change (r, 0, r->stream, n, flags);
    r->stream += n;
    break;
  case 9:
    change (r, 1, at, n, flags);
    break;
  case 10:
    if (rig_random (rig, 2)) {
      at = at / rig->zone_bytes * rig->zone_bytes;
      n = rig->zone_bytes;
    }
    change (r, 2, at, n, flags);
    break;
  case 11:
    if (sh_volume_flush (rig->v) == -1 && r->hits == hits)
      die (r, "a flush failed that was not hit", 0);
    break;
  case 12:
    if (sh_volume_reclaim_now (rig->v) == -1 && r->hits == hits)
      die (r, "reclaim failed that was not hit", 0);
    break;
  default:
    read_some (r, at, n);
  }
}

/* Everything is in order again. */
static void
finish (struct trial *r)
{
  struct rig *const rig = &r->rig;
  const char *wrong;

  r->left = 0;
  if (sh_volume_flush (rig->v) == -1)
    die (r, "the flush after it failed", 0);
  wrong = volume_verify (rig->v);
  if (wrong != NULL)
    die (r, wrong, 0);
  rig_verify_all (rig);
  rig_reopen (rig);
  rig_verify_all (rig);
}

/* Fails `times` commands from `place` on; false when there were not so many. */
static bool
one_run (const struct rig_config *config, const struct way *way, uint64_t place,
         unsigned times)
{
  struct trial r = { .way = way, .place = place, .left = times, .stream = UINT64_MAX };
  bool reached;
  int i;

  rig_init (&r.rig, config);
  r.old = malloc (r.rig.size);
  r.found = malloc (r.rig.size);
  assert (r.old != NULL && r.found != NULL);
  r.rig.guard->fault = fault;
  r.rig.guard->opaque = &r;
  for (i = 0; i < STEPS; ++i)
    step (&r);
  reached = r.hits > 0;
  finish (&r);
  rig_free (&r.rig);
  free (r.old);
  free (r.found);
  return reached;
}

static uint64_t
stride (void)
{
  const char *const s = getenv ("SHINGLE_STRIDE");

  return s != NULL ? MAX (1u, strtoull (s, NULL, 10)) : 29;
}

static void
every_place (const struct rig_config *config, const struct way *way)
{
  uint64_t place = 0;

  while (one_run (config, way, place, 1 + place % TIMES_MAX))
    place += stride ();
}

START_TEST (an_error_at_any_command_costs_nothing_but_its_call)
{
  every_place (&(struct rig_config) {
    .drive = { .nr_zones = 24, .nr_conv = 8, .max_zeroes_bytes = 16 * MiB },
    .notes_expected = true,
  }, &ways[_i]);
}
END_TEST

START_TEST (the_same_with_few_random_zones)
{
  every_place (&(struct rig_config) {
    .drive = { .nr_zones = 14, .nr_conv = 4 },
    .reserved = 2,
    .no_fua = true,
    .notes_expected = true,
  }, &ways[_i]);
}
END_TEST

/* ---- zones that go bad ---- */

static const struct way going_bad = { .op = BDEV_PROBE, .zone_lost = true };

static void
lose_zone (struct trial *r)
{
  struct rig *const rig = &r->rig;
  const uint32_t first = rig->l.sb_zone + 2 * rig->l.nr_meta_zones;
  const uint32_t z = first + rig_random (rig, rig->l.nr_zones - first);

  fake_set_cond (rig->fake, z, ZONE_READ_ONLY);
  r->hits++;
}

/* Read-only zones, now and then, under all kinds of work: what was written reads right,
   flushes succeed, what cannot be written says so. */
START_TEST (zones_that_turn_read_only_keep_what_they_hold)
{
  struct trial r = { .way = &going_bad, .stream = UINT64_MAX };
  int i;

  rig_init (&r.rig, &(struct rig_config) {
    .drive = { .nr_zones = 40, .nr_conv = 12 },
    .reserved = 6,
    .notes_expected = true,
  });
  r.rig.seed ^= _i * UINT64_C (0x2545f4914f6cdd1d);
  r.old = malloc (r.rig.size);
  r.found = malloc (r.rig.size);
  assert (r.old != NULL && r.found != NULL);
  for (i = 0; i < 4 * STEPS; ++i) {
    if (i % 60 == 59)
      lose_zone (&r);
    step (&r);
  }
  finish (&r);
  rig_free (&r.rig);
  free (r.old);
  free (r.found);
}
END_TEST

/* ---- many threads, errors all the time ---- */

#define THREADS 6
#define STRIPE  (32 * KiB)

struct owner {
  pthread_t thread;
  struct rig *rig;
  unsigned id, steps;
  uint64_t seed;
  uint64_t failed;              /* calls */
};

static atomic_uint fault_dice;
static atomic_bool faults_on;

static int
fault_at_random (struct guard *g, struct bdev_req *req, void *opaque)
{
  static const int errnums[] = { EIO, ENODATA, ETIMEDOUT, ETOOMANYREFS };
  const unsigned n = atomic_fetch_add (&fault_dice, 1) * 2654435761u >> 8;

  if (!atomic_load (&faults_on) || req->op == BDEV_PROBE || n % 40 != 0)
    return 0;
  if (req->op == BDEV_WRITE && n / 40 % 2)
    req->done_bytes = req->len_bytes / 2 / BLOCK * BLOCK;
  errno = errnums[n / 80 % ARRAY_SIZE (errnums)];
  return -1;
}

static uint64_t
next (uint64_t *seed, uint64_t below)
{
  *seed ^= *seed << 13;
  *seed ^= *seed >> 7;
  *seed ^= *seed << 17;
  return *seed % below;
}

/* What is there is read until a read succeeds; each block is old or new. */
static void
settle_stripe (struct owner *o, uint64_t base, const uint8_t *old, uint8_t *buf)
{
  uint8_t *const model = o->rig->model + base;
  unsigned tries = 0;
  uint64_t b;

  while (sh_volume_pread (o->rig->v, buf, STRIPE, base, o->id) == -1)
    assert (++tries < 1000);
  for (b = 0; b < STRIPE; b += BLOCK) {
    assert (memcmp (buf + b, model + b, BLOCK) == 0 || memcmp (buf + b, old + b, BLOCK) == 0);
    memcpy (model + b, buf + b, BLOCK);
  }
}

static void
owner_step (struct owner *o, uint8_t *old, uint8_t *buf)
{
  struct rig *const rig = o->rig;
  const uint64_t stripes = rig->size / (STRIPE * THREADS);
  const uint64_t base = (next (&o->seed, stripes) * THREADS + o->id) * STRIPE;
  const uint64_t skip = next (&o->seed, STRIPE), n = 1 + next (&o->seed, STRIPE - skip);
  uint8_t *const at = rig->model + base + skip;
  uint64_t i;
  int r;

  memcpy (old, rig->model + base, STRIPE);
  switch (next (&o->seed, 8)) {
  case 0:
    memset (at, 0, n);
    r = sh_volume_zero (rig->v, n, base + skip, 0);
    break;
  case 1:
    o->failed += sh_volume_flush (rig->v) == -1;
    return;
  case 2:
    if (sh_volume_pread (rig->v, buf, STRIPE, base, o->id) == 0)
      assert (memcmp (buf, rig->model + base, STRIPE) == 0);
    return;
  default:
    for (i = 0; i < n; ++i)
      at[i] = 1 + next (&o->seed, 255);
    r = sh_volume_pwrite (rig->v, at, n, base + skip, next (&o->seed, 8) ? 0 : SH_FUA, o->id);
  }
  if (r == -1) {
    o->failed++;
    settle_stripe (o, base, old, buf);
  }
}

static void *
owner_main (void *opaque)
{
  struct owner *const o = opaque;
  uint8_t *const old = malloc (STRIPE), *const buf = malloc (STRIPE);
  unsigned i;

  assert (old != NULL && buf != NULL);
  for (i = 0; i < o->steps; ++i)
    owner_step (o, old, buf);
  free (old);
  free (buf);
  return NULL;
}

START_TEST (errors_under_many_threads_cost_the_calls_that_they_hit)
{
  struct owner o[THREADS];
  struct rig rig;
  uint64_t failed = 0;
  unsigned i;

  rig_init (&rig, &(struct rig_config) {
    .drive = { .nr_zones = _i ? 40 : 80, .nr_conv = _i ? 6 : 12 },
    .reserved = 3,
    .worker = true,
    .notes_expected = true,
  });
  rig.guard->fault = fault_at_random;
  atomic_store (&faults_on, true);
  for (i = 0; i < THREADS; ++i) {
    o[i] = (struct owner) { .rig = &rig, .id = i, .steps = 400, .seed = 55 + i + rig.seed };
    assert (pthread_create (&o[i].thread, NULL, owner_main, &o[i]) == 0);
  }
  for (i = 0; i < THREADS; ++i) {
    pthread_join (o[i].thread, NULL);
    failed += o[i].failed;
  }
  atomic_store (&faults_on, false);
  ck_assert_uint_gt (failed, 0);
  ck_assert_int_eq (sh_volume_flush (rig.v), 0);
  rig_verify_all (&rig);
  rig_reopen (&rig);
  rig_verify_all (&rig);
  rig_free (&rig);
}
END_TEST

/* ---- many threads, and zones that go bad under them ---- */

#define CHUNKS_MAX 64

struct keeper {
  pthread_t thread;
  struct rig *rig;
  unsigned id, steps;
  uint64_t seed;
  bool *gone;                   /* stripes of which nobody can say what they hold */
  uint64_t failed, lost;
};

/* Chunks that had a zone which went offline; set before the zone does. */
static atomic_bool hit[CHUNKS_MAX];

/* What a failed call, or a read, may find: all of it right, block by block old or new,
   or nothing, where a zone of the chunk went offline. */
static void
keeper_reads (struct keeper *k, uint64_t base, const uint8_t *old, uint8_t *buf)
{
  uint8_t *const model = k->rig->model + base;
  uint64_t b;

  for (b = 0; b < STRIPE; b += BLOCK) {
    if (sh_volume_pread (k->rig->v, buf + b, BLOCK, base + b, k->id) == -1) {
      assert (errno == EIO && atomic_load (&hit[base / k->rig->zone_bytes]));
      k->gone[base / STRIPE] = true;
      k->lost++;
      return;
    }
    assert (memcmp (buf + b, model + b, BLOCK) == 0 || memcmp (buf + b, old + b, BLOCK) == 0);
  }
  memcpy (model, buf, STRIPE);
}

static void
keeper_step (struct keeper *k, uint8_t *old, uint8_t *buf)
{
  struct rig *const rig = k->rig;
  const uint64_t stripes = rig->size / (STRIPE * THREADS);
  const uint64_t base = (next (&k->seed, stripes) * THREADS + k->id) * STRIPE;
  const bool whole = next (&k->seed, 3) > 0;
  const uint64_t skip = whole ? 0 : next (&k->seed, STRIPE);
  const uint64_t n = whole ? STRIPE : 1 + next (&k->seed, STRIPE - skip);
  uint8_t *const at = rig->model + base + skip;
  int r = -1;
  uint64_t i;

  if (k->gone[base / STRIPE])
    return;
  memcpy (old, rig->model + base, STRIPE);
  switch (next (&k->seed, 8)) {
  case 0:
    memset (at, 0, n);
    r = sh_volume_zero (rig->v, n, base + skip, 0);
    break;
  case 1:
    assert (sh_volume_flush (rig->v) == 0);
    return;
  case 2:
    break;                      /* only reads */
  default:
    for (i = 0; i < n; ++i)
      at[i] = 1 + next (&k->seed, 255);
    r = sh_volume_pwrite (rig->v, at, n, base + skip, next (&k->seed, 8) ? 0 : SH_FUA, k->id);
    k->failed += r == -1;
  }
  if (r == -1)
    keeper_reads (k, base, old, buf);
}

static void *
keeper_main (void *opaque)
{
  struct keeper *const k = opaque;
  uint8_t *const old = malloc (STRIPE), *const buf = malloc (STRIPE);
  unsigned i;

  assert (old != NULL && buf != NULL);
  for (i = 0; i < k->steps; ++i)
    keeper_step (k, old, buf);
  free (old);
  free (buf);
  return NULL;
}

/* One zone for data goes bad.  One that reclaim is filling goes read-only at most: whose
   blocks it will hold is not known yet. */
static void
spoil_a_zone (struct rig *rig, uint64_t *seed, bool offline)
{
  const uint32_t first = rig->l.sb_zone + 2 * rig->l.nr_meta_zones;
  const uint32_t z = first + next (seed, rig->l.nr_zones - first);
  const struct rzone *const zone = &rig->v->zones[z];

  pthread_mutex_lock (&rig->v->lock);
  if (zone->state == ZS_DATA || zone->state == ZS_BUFFER) {
    if (offline)
      atomic_store (&hit[zone->chunk], true);
    fake_set_cond (rig->fake, z, offline ? ZONE_OFFLINE : ZONE_READ_ONLY);
  }
  else
    fake_set_cond (rig->fake, z, ZONE_READ_ONLY);
  pthread_mutex_unlock (&rig->v->lock);
}

/* What was written and does not stand in an offline zone reads right, in the end as
   well as in between; flushes succeed; nobody waits for ever; the check has notes, and
   no errors. */
START_TEST (zones_that_go_bad_under_many_threads_cost_what_they_hold_alone)
{
  struct keeper k[THREADS];
  uint64_t seed = 4711 + _i, errors, notes, failed = 0, s;
  struct rig rig;
  struct sh_error err = { 0 };
  bool *gone;
  uint8_t *buf;
  unsigned i;

  rig_init (&rig, &(struct rig_config) {
    .drive = { .nr_zones = 56, .nr_conv = 16 },
    .reserved = 14,
    .worker = true,
    .notes_expected = true,
  });
  assert (rig.size / rig.zone_bytes <= CHUNKS_MAX);
  gone = calloc (rig.size / STRIPE, sizeof *gone);
  buf = malloc (STRIPE);
  assert (gone != NULL && buf != NULL);
  for (i = 0; i < THREADS; ++i) {
    k[i] = (struct keeper) { .rig = &rig, .id = i, .steps = 300, .gone = gone,
                             .seed = 99 + i + 1000 * _i };
    assert (pthread_create (&k[i].thread, NULL, keeper_main, &k[i]) == 0);
  }
  for (i = 0; i < 8; ++i) {
    usleep (20000);
    spoil_a_zone (&rig, &seed, i % 2);
  }
  for (i = 0; i < THREADS; ++i) {
    pthread_join (k[i].thread, NULL);
    failed += k[i].failed;
  }
  printf ("%llu writes failed\n", (unsigned long long) failed);
  ck_assert_int_eq (sh_volume_flush (rig.v), 0);
  ck_assert_int_eq (sh_volume_close (rig.v, &err), 0);
  rig.v = NULL;
  rig_offline (&rig, &errors, &notes);
  ck_assert_uint_eq (errors, 0);
  ck_assert_uint_gt (notes, 0);
  rig_open (&rig);
  for (s = 0; s < rig.size / STRIPE; ++s)
    if (!gone[s])
      keeper_reads (&k[0], s * STRIPE, rig.model + s * STRIPE, buf);
  rig_free (&rig);
  free (gone);
  free (buf);
}
END_TEST

int
main (void)
{
  Suite *const s = suite_create ("volume-errors");
  TCase *const t = tcase_create ("errors");
  TCase *const z = tcase_create ("zones");

  tcase_set_timeout (t, 600);
  tcase_add_loop_test (t, an_error_at_any_command_costs_nothing_but_its_call, 0,
                       (int) ARRAY_SIZE (ways));
  tcase_add_loop_test (t, the_same_with_few_random_zones, 0, (int) ARRAY_SIZE (ways) - 1);
  tcase_add_loop_test (t, zones_that_turn_read_only_keep_what_they_hold, 0, 20);
  tcase_add_loop_test (t, errors_under_many_threads_cost_the_calls_that_they_hit, 0, 2);
  suite_add_tcase (s, t);
  tcase_set_timeout (z, 600);
  tcase_add_loop_test (z, zones_that_go_bad_under_many_threads_cost_what_they_hold_alone, 0, 4);
  suite_add_tcase (s, z);
  return run_suite (s);
}
