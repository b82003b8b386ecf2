/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Power cuts at every command boundary.
 *
 * A mixed workload runs on a small drive while every command that changes the
 * drive is put in a journal.  Then, for every moment of the journal and for
 * several choices of what the drive's write cache loses (all, nothing, any
 * subset of blocks or of sectors; a sequential zone keeps a prefix), the drive
 * is put together as it would be found after the cut, checked offline, loaded,
 * and every block is held against what it may contain (history.h).
 *
 * SHINGLE_CUTS: how many cut points altogether (default about 10,000); fewer than that
 * also shorten the work, as every command of it is cut at least once.
 * test-power-cuts-emulated does the same through the whole stack.
 */
#undef NDEBUG
#include <config.h>
#include <assert.h>
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/bytes.h"
#include "history.h"
#include "zoned/check.h"
#include "zoned/running.h"
#include "../unit/rig.h"

#define ZONE  (64 * KiB)
#define BLOCK UINT64_C (4096)
#define CUTS  10000

static uint64_t
dice (uint64_t *seed, uint64_t below)
{
  *seed ^= *seed << 13;
  *seed ^= *seed >> 7;
  *seed ^= *seed << 17;
  return *seed % below;
}

static uint64_t
cuts_wanted (uint64_t share)
{
  const char *const s = getenv ("SHINGLE_CUTS");

  return (s != NULL ? strtoull (s, NULL, 10) : CUTS) * share / 100;
}

/* Of so many commands of a workload, how many SHINGLE_CUTS leaves. */
static size_t
within_budget (size_t commands)
{
  return commands * MIN (cuts_wanted (100), CUTS) / CUTS;
}

/* ---- a drive as plain memory ---- */

struct image {
  uint8_t *data;
  struct bdev_zone *zones;
  uint64_t size;
  uint32_t nr_zones;
};

static void
image_take (struct image *m, const struct fake *f)
{
  m->size = f->bdev.info.size_bytes;
  m->nr_zones = f->nr_zones;
  m->data = malloc (m->size);
  m->zones = malloc (m->nr_zones * sizeof m->zones[0]);
  assert (m->data != NULL && m->zones != NULL);
  memcpy (m->data, f->data, m->size);
  memcpy (m->zones, f->zones, m->nr_zones * sizeof m->zones[0]);
}

static void
image_copy (struct image *to, const struct image *from)
{
  memcpy (to->data, from->data, to->size);
  memcpy (to->zones, from->zones, to->nr_zones * sizeof to->zones[0]);
}

static void
image_put (const struct image *m, struct fake *f)
{
  memcpy (f->data, m->data, m->size);
  memcpy (f->zones, m->zones, m->nr_zones * sizeof m->zones[0]);
}

static void
image_free (struct image *m)
{
  free (m->data);
  free (m->zones);
}

static void
set_wp (struct bdev_zone *z, uint64_t wp)
{
  z->wp_bytes = wp;
  z->cond = wp == z->start_bytes ? ZONE_EMPTY :
    wp == z->start_bytes + z->len_bytes ? ZONE_FULL : ZONE_CLOSED;
}

static void
reset_all (struct image *m)
{
  uint32_t i;

  for (i = 0; i < m->nr_zones; ++i)
    if (m->zones[i].type != ZONE_CONVENTIONAL)
      set_wp (&m->zones[i], m->zones[i].start_bytes);
}

/* ---- commands on it ---- */

enum loss { LOSE_NOTHING, LOSE_ALL, LOSE_BLOCKS, LOSE_SECTORS };

/* Applies one command of the journal; what a volatile cache loses of it is
   decided by `loss`.  limit: how far each zone's prefix survives. */
static void
apply (struct image *m, const struct guard_entry *e, enum loss loss,
       const uint64_t *limit, uint64_t *seed)
{
  struct bdev_zone *const z = &m->zones[e->off_bytes / ZONE];
  uint64_t at, grain = loss == LOSE_SECTORS ? 512 : 4096;

  switch (e->op) {
  case BDEV_ZONE_RESET:
    if (e->flags & BDEV_ALL)
      reset_all (m);
    else
      set_wp (z, z->start_bytes);
    break;
  case BDEV_WRITE:
    if (z->type != ZONE_CONVENTIONAL) {
      const uint64_t end = e->flags & BDEV_FUA ? UINT64_MAX : limit[e->off_bytes / ZONE];

      if (e->off_bytes != z->wp_bytes || e->off_bytes >= end)
        return;                 /* behind what was lost */
      at = MIN (e->len_bytes, end - e->off_bytes);
      memcpy (m->data + e->off_bytes, e->data, at);
      set_wp (z, e->off_bytes + at);
      return;
    }
    for (at = 0; at < e->len_bytes; at += grain)
      if ((e->flags & BDEV_FUA) || loss == LOSE_NOTHING ||
          (loss != LOSE_ALL && dice (seed, 2)))
        memcpy (m->data + e->off_bytes + at, e->data + at, MIN (grain, e->len_bytes - at));
    break;
  default:
    break;
  }
}

/* Where the surviving prefix of each zone ends: anywhere. */
static void
choose_limits (const struct image *m, enum loss loss, uint64_t *limit, uint64_t *seed)
{
  const uint64_t grain = loss == LOSE_SECTORS ? 512 : 4096;
  uint32_t z;

  for (z = 0; z < m->nr_zones; ++z) {
    const uint64_t start = z * ZONE;

    if (loss == LOSE_NOTHING)
      limit[z] = UINT64_MAX;
    else if (loss == LOSE_ALL)
      limit[z] = 0;
    else
      limit[z] = start + dice (seed, ZONE / grain + 1) * grain;
  }
}

/* The drive after a cut at moment k.  `durable` holds everything up to moment
   `from`, where the last flush ended. */
static void
cut (struct image *found, const struct image *durable, const struct guard_entry *e,
     size_t from, size_t k, size_t nr, enum loss loss, uint64_t *seed)
{
  uint64_t limit[64];
  size_t i;

  image_copy (found, durable);
  choose_limits (durable, loss, limit, seed);
  for (i = from; i < k; ++i)
    apply (found, &e[i], loss, limit, seed);
  /* Commands that were on their way may have been done. */
  for (; i < nr && i < k + 32; ++i)
    if (e[i].issued <= k && e[i].op == BDEV_WRITE && loss >= LOSE_BLOCKS && dice (seed, 2))
      apply (found, &e[i], loss, limit, seed);
}

/* ---- judging ---- */

static void
print_error (void *opaque, enum check_kind kind, const char *text)
{
  if (kind == CHECK_ERROR)
    fprintf (stderr, "check: %s\n", text);
}

static void
offline_clean (struct fake *f, size_t k, bool closed)
{
  const struct check_options o = { .report = print_error };
  struct check_result result;
  struct sh_error err = { 0 };

  if (check_volume (&f->bdev, &o, &result, &err) == -1) {
    fprintf (stderr, "cut at %zu: %s\n", k, err.message);
    abort ();
  }
  if (result.errors > 0 || (closed && result.notes > 0)) {
    fprintf (stderr, "cut at %zu: %llu errors, %llu notes\n", k,
             (unsigned long long) result.errors, (unsigned long long) result.notes);
    abort ();
  }
}

static struct sh_volume *
open_found (struct fake *f, size_t k, struct guard **guard)
{
  const struct sh_volume_options o = { 0 };
  struct sh_error err = { 0 };
  struct sh_volume *v;

  *guard = guard_new (&f->bdev);
  (*guard)->keep_inner = true;
  if (sh_volume_open (&(*guard)->bdev, &o, &v, &err) == -1) {
    fprintf (stderr, "cut at %zu: %s\n", k, err.message);
    abort ();
  }
  return v;
}

static void
close_found (struct sh_volume *v)
{
  struct sh_error err = { 0 };

  if (sh_volume_close (v, &err) == -1) {
    fprintf (stderr, "close: %s\n", err.message);
    abort ();
  }
}

static void
read_all (struct sh_volume *v, uint8_t *content)
{
  assert (sh_volume_pread (v, content, sh_volume_size (v), 0, 0) == 0);
}

static void
judge (const struct history *h, const uint8_t *content, size_t k, enum loss loss)
{
  uint64_t b;

  for (b = 0; b < h->nr_blocks; ++b)
    if (!history_allows (h, b, content + b * BLOCK, k, loss == LOSE_SECTORS)) {
      fprintf (stderr, "cut at %zu (loss %d): block %llu (chunk %llu) holds what it must not\n",
               k, loss, (unsigned long long) b, (unsigned long long) (b * BLOCK / ZONE));
      abort ();
    }
}

/* ---- the sweep ---- */

struct sweep {
  struct fake *f;               /* the drive as found */
  struct image base, durable, found;
  const struct guard_entry *entries;
  size_t nr;
  const struct history *h;
  uint64_t seed;
  uint8_t *content, *second;
  uint64_t cuts;
};

/* The volume as found is used, cut again while its sets are made equal and its
   first commit runs, and must again hold what it held, or what was written. */
static void
cut_again (struct sweep *s, size_t k, uint64_t size)
{
  struct guard *g;
  struct sh_volume *v = open_found (s->f, k, &g);
  struct history h;
  struct image start, durable;
  uint8_t *const model = malloc (size);
  uint32_t *const marks = malloc (size / BLOCK * sizeof *marks);
  size_t i, from, again;
  uint64_t b;

  assert (model != NULL && marks != NULL);
  image_take (&start, s->f);
  image_take (&durable, s->f);
  g->journal = true;
  memcpy (model, s->content, size);
  history_init (&h, size / BLOCK);
  history_begin (&h, 0, size / BLOCK, model, 0);
  history_end (&h, 0, size / BLOCK, true, 0);
  for (i = 0; i < 6; ++i) {
    const uint64_t at = dice (&s->seed, size / BLOCK);

    memset (model + at * BLOCK, 1 + dice (&s->seed, 255), BLOCK);
    history_begin (&h, at, 1, model, g->nr_entries);
    assert (sh_volume_pwrite (v, model + at * BLOCK, BLOCK, at * BLOCK, 0, 0) == 0);
    history_end (&h, at, 1, false, g->nr_entries);
    if (i % 2) {
      history_flush_begin (&h, marks);
      assert (sh_volume_flush (v) == 0);
      history_flush_end (&h, marks, g->nr_entries);
    }
  }
  for (again = 0, from = 0; again <= g->nr_entries; ++again) {
    if (again > 0 && g->entries[again - 1].op == BDEV_FLUSH) {
      uint64_t limit[64];

      choose_limits (&durable, LOSE_NOTHING, limit, &s->seed);
      for (; from < again; ++from)
        apply (&durable, &g->entries[from], LOSE_NOTHING, limit, &s->seed);
    }
    if (again < g->nr_entries && dice (&s->seed, 3))
      continue;
    cut (&s->found, &durable, g->entries, from, again, g->nr_entries,
         dice (&s->seed, 4), &s->seed);
    image_put (&s->found, s->f);
    {
      struct guard *g2;
      struct sh_volume *const v2 = open_found (s->f, again, &g2);

      read_all (v2, s->second);
      close_found (v2);
    }
    for (b = 0; b < h.nr_blocks; ++b)
      if (!history_allows (&h, b, s->second + b * BLOCK, again, true)) {
        fprintf (stderr, "cut at %zu, cut again at %zu: block %llu\n", k, again,
                 (unsigned long long) b);
        abort ();
      }
    s->cuts++;
  }
  history_free (&h);
  image_put (&s->found, s->f);
  close_found (v);
  image_free (&start);
  image_free (&durable);
  free (model);
  free (marks);
}

/* Goes on with the volume as found: it takes new work, closes clean and is right
   when it is opened again. */
static void
go_on (struct sweep *s, size_t k, uint64_t size)
{
  struct guard *g;
  struct sh_volume *v = open_found (s->f, k, &g);
  const uint64_t at = dice (&s->seed, size / BLOCK) * BLOCK;

  memset (s->content + at, 0x5a, BLOCK);
  assert (sh_volume_pwrite (v, s->content + at, BLOCK, at, SH_FUA, 0) == 0);
  if (dice (&s->seed, 4) == 0)
    assert (sh_volume_reclaim_now (v) == 0);
  close_found (v);
  offline_clean (s->f, k, true);
  v = open_found (s->f, k, &g);
  read_all (v, s->second);
  assert (memcmp (s->content, s->second, size) == 0);
  close_found (v);
}

static void
one_cut (struct sweep *s, size_t from, size_t k, enum loss loss)
{
  struct guard *g;
  struct sh_volume *v;
  uint64_t size;

  cut (&s->found, &s->durable, s->entries, from, k, s->nr, loss, &s->seed);
  image_put (&s->found, s->f);
  offline_clean (s->f, k, false);
  v = open_found (s->f, k, &g);
  size = sh_volume_size (v);
  read_all (v, s->content);
  close_found (v);              /* nothing was written: nothing changes */
  judge (s->h, s->content, k, loss);
  s->cuts++;
  if (dice (&s->seed, 12) == 0)
    go_on (s, k, size);
  else if (dice (&s->seed, 40) == 0)
    cut_again (s, k, size);
}

static void
sweep_all (struct sweep *s, uint64_t wanted)
{
  size_t k, from = 0;
  uint64_t limit[64];
  unsigned n;

  for (k = 0; k <= s->nr; ++k) {
    const unsigned times = MAX (1u, (wanted - MIN (wanted, s->cuts)) / (s->nr - k + 1));

    if (k > 0 && s->entries[k - 1].op == BDEV_FLUSH) {
      choose_limits (&s->durable, LOSE_NOTHING, limit, &s->seed);
      for (; from < k; ++from)
        apply (&s->durable, &s->entries[from], LOSE_NOTHING, limit, &s->seed);
    }
    for (n = 0; n < times; ++n)
      one_cut (s, from, k, n < 4 ? (n + k) % 4 : 2 + dice (&s->seed, 2));
  }
}

static void
sweep (struct rig *rig, const struct image *base, const struct history *h,
       uint64_t wanted)
{
  struct sweep s = {
    .entries = rig->guard->entries,
    .nr = rig->guard->nr_entries,
    .h = h,
    .seed = 4711,
    .content = malloc (rig->size),
    .second = malloc (rig->size),
  };

  assert (s.content != NULL && s.second != NULL);
  s.f = fake_new (&rig->config.drive);
  s.f->bdev.info = rig->fake->bdev.info;
  image_put (base, s.f);
  image_take (&s.durable, s.f);
  image_take (&s.found, s.f);
  sweep_all (&s, wanted);
  printf ("%zu commands, %llu cuts\n", s.nr, (unsigned long long) s.cuts);
  fflush (stdout);
  ck_assert_uint_ge (s.cuts, MIN (wanted, s.nr));
  image_free (&s.durable);
  image_free (&s.found);
  bdev_close (&s.f->bdev);
  free (s.content);
  free (s.second);
}

/* ---- one thread: everything is in order ---- */

struct single {
  struct rig rig;
  struct history h;
  uint32_t *marks;
  uint64_t stream;
};

static void
changed (struct single *s, uint64_t offset, uint64_t count, size_t begun, bool fua)
{
  const uint64_t first = offset / BLOCK, end = DIV_ROUND_UP (offset + count, BLOCK);

  history_begin (&s->h, first, end - first, s->rig.model, begun);
  history_end (&s->h, first, end - first, fua, s->rig.guard->nr_entries);
}

static void
single_step (struct single *s)
{
  struct rig *const rig = &s->rig;
  const size_t begun = rig->guard->nr_entries;
  uint64_t at = rig_random (rig, rig->size), n = 1 + rig_random (rig, 40 * KiB);
  const unsigned flags = rig_random (rig, 10) == 0 ? SH_FUA : 0;

  if (rig_random (rig, 3)) {
    at &= ~(BLOCK - 1);
    n = DIV_ROUND_UP (n, BLOCK) * BLOCK;
  }
  n = MIN (n, rig->size - at);
  switch (rig_random (rig, 16)) {
  case 0 ... 3:
    rig_write (rig, at, n, flags);
    changed (s, at, n, begun, flags);
    break;
  case 4 ... 9:
    if (s->stream >= rig->size || rig_random (rig, 24) == 0)
      s->stream = rig_random (rig, rig->size / ZONE) * ZONE;
    at = s->stream;
    n = (1 + rig_random (rig, 20)) * BLOCK;
    n = MIN (n, rig->size - at);
    s->stream += n;
    if (n > BLOCK && rig_random (rig, 4) == 0) {
      const uint64_t late = (1 + rig_random (rig, n / BLOCK - 1)) * BLOCK;

      rig_write (rig, at + late, n - late, flags);
      changed (s, at + late, n - late, begun, flags);
      n = late;
    }
    rig_write (rig, at, n, flags);
    changed (s, at, n, begun, flags);
    break;
  case 10:
    if (rig_random (rig, 3) == 0) {
      at = at / ZONE * ZONE;
      n = ZONE;
    }
    rig_trim (rig, at, n, flags);
    if (DIV_ROUND_UP (at, BLOCK) < (at + n) / BLOCK)
      changed (s, DIV_ROUND_UP (at, BLOCK) * BLOCK,
               ((at + n) / BLOCK - DIV_ROUND_UP (at, BLOCK)) * BLOCK, begun, flags);
    break;
  case 11:
    rig_zero (rig, at, n, flags);
    changed (s, at, n, begun, flags);
    break;
  case 12:
    if (rig_random (rig, 4) == 0)
      assert (sh_volume_reclaim_now (rig->v) == 0);
    break;
  default:
    if (rig_random (rig, 2))
      break;
    history_flush_begin (&s->h, s->marks);
    rig_flush (rig);
    history_flush_end (&s->h, s->marks, rig->guard->nr_entries);
  }
}

static void
mixed_work (const struct rig_config *config, size_t commands, uint64_t share)
{
  struct single s = { 0 };
  struct image base;

  rig_init (&s.rig, config);
  image_take (&base, s.rig.fake);
  history_init (&s.h, s.rig.size / BLOCK);
  s.marks = malloc (s.h.nr_blocks * sizeof s.marks[0]);
  assert (s.marks != NULL);
  s.rig.guard->journal = true;
  while (s.rig.guard->nr_entries < within_budget (commands))
    single_step (&s);
  sweep (&s.rig, &base, &s.h, cuts_wanted (share));
  guard_forget_journal (s.rig.guard);
  s.rig.guard->journal = false;
  history_free (&s.h);
  image_free (&base);
  free (s.marks);
  rig_free (&s.rig);
}

START_TEST (at_every_command_of_mixed_work)
{
  mixed_work (&(struct rig_config) {
    .drive = { .zone_bytes = ZONE, .nr_zones = 26, .nr_conv = 9 },
    .reserved = 3,
  }, 4000, 40);
}
END_TEST

START_TEST (with_one_random_zone_and_reserve_1)
{
  mixed_work (&(struct rig_config) {
    .drive = { .zone_bytes = ZONE, .nr_zones = 12, .nr_conv = 3 },
    .reserved = 1,
  }, 3000, 20);
}
END_TEST

START_TEST (without_fua)
{
  mixed_work (&(struct rig_config) {
    .drive = { .zone_bytes = ZONE, .nr_zones = 14, .nr_conv = 5 },
    .reserved = 2,
    .no_fua = true,
  }, 1500, 10);
}
END_TEST

/* Metadata is then written in pieces of its blocks. */
START_TEST (with_physical_blocks_of_512_bytes)
{
  mixed_work (&(struct rig_config) {
    .drive = { .zone_bytes = ZONE, .nr_zones = 26, .nr_conv = 9, .pbs_bytes = 512 },
    .reserved = 3,
  }, 3000, 20);
}
END_TEST

/* ---- several threads, and the worker ---- */

#define WRITERS 4

struct writer {
  pthread_t thread;
  struct rig *rig;
  struct history *h;
  pthread_mutex_t *lock;        /* of the history */
  unsigned id;
  size_t commands;
  uint64_t seed;
};

static size_t
moment (struct rig *rig)
{
  size_t n;

  pthread_mutex_lock (&rig->guard->lock);
  n = rig->guard->nr_entries;
  pthread_mutex_unlock (&rig->guard->lock);
  return n;
}

static void
writer_step (struct writer *w, uint32_t *marks)
{
  struct rig *const rig = w->rig;
  const uint64_t stripes = rig->size / (4 * BLOCK * WRITERS);
  const uint64_t at = (dice (&w->seed, stripes) * WRITERS + w->id) * 4 * BLOCK;
  const uint64_t n = (1 + dice (&w->seed, 4)) * BLOCK;
  const unsigned what = dice (&w->seed, 12);
  const unsigned flags = dice (&w->seed, 12) == 0 ? SH_FUA : 0;

  if (what == 0) {
    pthread_mutex_lock (w->lock);
    history_flush_begin (w->h, marks);
    pthread_mutex_unlock (w->lock);
    assert (sh_volume_flush (rig->v) == 0);
    pthread_mutex_lock (w->lock);
    history_flush_end (w->h, marks, moment (rig));
    pthread_mutex_unlock (w->lock);
    return;
  }
  if (what == 1)
    memset (rig->model + at, 0, n);
  else
    memset (rig->model + at, 1 + dice (&w->seed, 255), n);
  pthread_mutex_lock (w->lock);
  history_begin (w->h, at / BLOCK, n / BLOCK, rig->model, moment (rig));
  pthread_mutex_unlock (w->lock);
  if (what == 1)
    assert (sh_volume_trim (rig->v, n, at, flags) == 0);
  else
    assert (sh_volume_pwrite (rig->v, rig->model + at, n, at, flags, w->id) == 0);
  pthread_mutex_lock (w->lock);
  history_end (w->h, at / BLOCK, n / BLOCK, flags, moment (rig));
  pthread_mutex_unlock (w->lock);
}

static void *
writer_main (void *opaque)
{
  struct writer *const w = opaque;
  uint32_t *const marks = malloc (w->h->nr_blocks * sizeof *marks);

  assert (marks != NULL);
  while (moment (w->rig) < w->commands)
    writer_step (w, marks);
  free (marks);
  return NULL;
}

START_TEST (with_writers_commits_and_reclaim_at_once)
{
  pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  struct writer w[WRITERS];
  struct image base;
  struct history h;
  struct rig rig;
  unsigned i;

  rig_init (&rig, &(struct rig_config) {
    .drive = { .zone_bytes = ZONE, .nr_zones = 20, .nr_conv = 7 },
    .reserved = 3,
    .worker = true,
  });
  image_take (&base, rig.fake);
  history_init (&h, rig.size / BLOCK);
  rig.guard->journal = true;
  for (i = 0; i < WRITERS; ++i) {
    w[i] = (struct writer) { .rig = &rig, .h = &h, .lock = &lock, .id = i,
                             .commands = within_budget (4000), .seed = 99 + i };
    assert (pthread_create (&w[i].thread, NULL, writer_main, &w[i]) == 0);
  }
  for (i = 0; i < WRITERS; ++i)
    pthread_join (w[i].thread, NULL);
  pthread_mutex_lock (&rig.guard->lock);
  rig.guard->journal = false;
  pthread_mutex_unlock (&rig.guard->lock);
  sweep (&rig, &base, &h, cuts_wanted (30));
  history_free (&h);
  image_free (&base);
  rig_free (&rig);
}
END_TEST

int
main (void)
{
  Suite *const s = suite_create ("power-cuts");
  TCase *const t = tcase_create ("cuts");

  tcase_set_timeout (t, 600);
  tcase_add_test (t, at_every_command_of_mixed_work);
  tcase_add_test (t, with_one_random_zone_and_reserve_1);
  tcase_add_test (t, without_fua);
  tcase_add_test (t, with_physical_blocks_of_512_bytes);
  tcase_add_test (t, with_writers_commits_and_reclaim_at_once);
  suite_add_tcase (s, t);
  return run_suite (s);
}
