/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Power cuts of an emulated drive, through the whole stack: volume, SCSI disk,
 * drive with a volatile cache.
 *
 * After each command that changes the drive, in the thread that sent it and with
 * all others going on, the drive is cloned.  Each clone then loses its power,
 * several times over: its unsynchronised writes, resets and finishes are lost
 * all, not at all or in any subset, by 4 KiB or by logical block, as emu_power_cut
 * says.  What is left is checked offline, loaded, and every block is held against
 * what it may contain (history.h).  Some of them are used again and cut again while
 * they recover; some go on, close clean and are checked once more.
 *
 * What it finds, each broken on purpose and reported: a commit without its
 * SYNCHRONIZE CACHE, also one that is left out of large commits alone; zones reset and
 * reused before the commit; FUA without a commit; FUA not handed down for data in place;
 * a flush that overlooks data written in place; bits set before the data; the superblock
 * before the blocks; the superblock left in the drive's cache; an older set that lacks
 * the blocks or the map of the commit before; an older set that is believed after a load;
 * no generation ahead when both sets are equal.
 *
 * SHINGLE_CUTS: how many cut points altogether (default about 21,000); fewer than that
 * also shorten the work, as every command of it is cut at least once;
 * SHINGLE_SEED: another run of the dice.
 */
#undef NDEBUG
#include <config.h>
#include <assert.h>
#include <check.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/bytes.h"
#include "base/error.h"
#include "emu-volume.h"
#include "history.h"
#include "scsi/disk.h"
#include "zoned/check.h"
#include "zoned/running.h"

#define ZONE    (64 * KiB)
#define BLOCK   UINT64_C (4096)
#define TAKEN_MAX 4096
#define WRITERS 4
#define CUTS    21000

static uint64_t
dice (uint64_t *seed, uint64_t below)
{
  *seed ^= *seed << 13;
  *seed ^= *seed >> 7;
  *seed ^= *seed << 17;
  return *seed % below;
}

static uint64_t
number_from (const char *name, uint64_t otherwise)
{
  const char *const s = getenv (name);

  return s != NULL ? strtoull (s, NULL, 10) : otherwise;
}

static void
must (int r, const char *what, const struct sh_error *err)
{
  if (r != -1)
    return;
  fprintf (stderr, "%s: %s\n", what, err ? err->message : "failed");
  abort ();
}

/* ---- one life of a drive: from power on to many cuts ---- */

struct moment {
  struct emu *drive;            /* as it was then, cache and all */
  size_t at;
};

struct life {
  struct emu *emu;
  struct sh_volume *v;
  bool no_fua;
  uint64_t size;
  uint8_t *model;               /* what was written; a thread owns the blocks it writes */
  struct history h;

  pthread_mutex_t lock;         /* guards what follows, and h */
  size_t now;                   /* commands that changed the drive, ended */
  bool taking;
  struct moment taken[TAKEN_MAX];
  size_t nr_taken;
};

static bool
changes_the_drive (const struct sh_command *c)
{
  switch (c->cdb[0]) {
  case 0x2a: case 0x8a:         /* WRITE */
  case 0x35: case 0x91:         /* SYNCHRONIZE CACHE */
  case 0x41: case 0x93:         /* WRITE SAME */
  case 0x42:                    /* UNMAP */
  case 0x94:                    /* zone operations */
    return true;
  default:
    return false;
  }
}

static void
after_command (void *opaque, struct emu *emu, const struct sh_command *c)
{
  struct life *const l = opaque;

  if (!changes_the_drive (c))
    return;
  pthread_mutex_lock (&l->lock);
  l->now++;
  if (l->taking && l->nr_taken < TAKEN_MAX) {
    struct emu *const copy = emu_clone (emu);

    assert (copy != NULL);
    l->taken[l->nr_taken++] = (struct moment) { copy, l->now };
  }
  pthread_mutex_unlock (&l->lock);
}

static struct bdev *
open_drive (struct emu *emu, bool no_fua)
{
  const struct disk_options o = { 0 };
  struct sh_error err = { 0 };
  struct transport t;
  struct bdev *bdev;

  emu_make_transport (emu, &t);
  must (disk_open (&t, &o, &bdev, &err), "open the drive", &err);
  if (no_fua)
    bdev->info.fua = false;
  return bdev;
}

static struct sh_volume *
open_volume (struct bdev *bdev)
{
  const struct sh_volume_options o = { 0 };
  struct sh_error err = { 0 };
  struct sh_volume *v;

  must (sh_volume_open (bdev, &o, &v, &err), "open the volume", &err);
  return v;
}

static void
close_volume (struct sh_volume *v)
{
  struct sh_error err = { 0 };

  must (sh_volume_close (v, &err), "close the volume", &err);
}

/* The drive's content, as far as the model goes, is known to be durable. */
static struct life *
life_begin (struct emu *emu, bool no_fua, bool worker, const uint8_t *content)
{
  struct life *const l = calloc (1, sizeof *l);
  struct sh_error err = { 0 };

  assert (l != NULL);
  l->emu = emu;
  l->no_fua = no_fua;
  pthread_mutex_init (&l->lock, NULL);
  emu_set_hook (emu, after_command, l);
  l->v = open_volume (open_drive (emu, no_fua));
  l->size = sh_volume_size (l->v);
  l->model = calloc (1, l->size);
  assert (l->model != NULL);
  history_init (&l->h, l->size / BLOCK);
  if (content != NULL) {
    memcpy (l->model, content, l->size);
    history_begin (&l->h, 0, l->h.nr_blocks, l->model, 0);
    history_end (&l->h, 0, l->h.nr_blocks, true, 0);
  }
  if (worker)
    must (sh_volume_start (l->v, &err), "start", &err);
  return l;
}

static void
life_end (struct life *l)
{
  const char *const wrong = volume_verify (l->v);

  if (wrong != NULL) {
    fprintf (stderr, "invariant: %s\n", wrong);
    abort ();
  }
  close_volume (l->v);
  emu_set_hook (l->emu, NULL, NULL);
  history_free (&l->h);
  pthread_mutex_destroy (&l->lock);
  free (l->model);
  free (l);
}

static size_t
now (struct life *l)
{
  size_t n;

  pthread_mutex_lock (&l->lock);
  n = l->now;
  pthread_mutex_unlock (&l->lock);
  return n;
}

static void
take (struct life *l, bool taking)
{
  pthread_mutex_lock (&l->lock);
  l->taking = taking;
  pthread_mutex_unlock (&l->lock);
}

/* ---- its work ---- */

static void
begins (struct life *l, uint64_t offset, uint64_t count)
{
  const uint64_t first = offset / BLOCK, end = DIV_ROUND_UP (offset + count, BLOCK);

  pthread_mutex_lock (&l->lock);
  history_begin (&l->h, first, end - first, l->model, l->now);
  pthread_mutex_unlock (&l->lock);
}

static void
ends (struct life *l, uint64_t offset, uint64_t count, unsigned flags)
{
  const uint64_t first = offset / BLOCK, end = DIV_ROUND_UP (offset + count, BLOCK);

  pthread_mutex_lock (&l->lock);
  history_end (&l->h, first, end - first, flags & SH_FUA, l->now);
  pthread_mutex_unlock (&l->lock);
}

static void
do_write (struct life *l, uint64_t *seed, uint64_t offset, uint64_t count, unsigned flags)
{
  uint64_t i;

  for (i = 0; i < count; ++i)
    l->model[offset + i] = i % 512 == 0 ? (uint8_t) dice (seed, 256) :
      (uint8_t) (l->model[offset + i - 1] + 1);
  begins (l, offset, count);
  must (sh_volume_pwrite (l->v, l->model + offset, count, offset, flags, *seed % 4), "write",
        NULL);
  ends (l, offset, count, flags);
}

static void
do_trim (struct life *l, uint64_t offset, uint64_t count, unsigned flags)
{
  const uint64_t from = DIV_ROUND_UP (offset, BLOCK) * BLOCK,
    to = (offset + count) / BLOCK * BLOCK;

  if (from < to) {
    memset (l->model + from, 0, to - from);
    begins (l, from, to - from);
  }
  must (sh_volume_trim (l->v, count, offset, flags), "trim", NULL);
  if (from < to)
    ends (l, from, to - from, flags);
}

static void
do_zero (struct life *l, uint64_t offset, uint64_t count, unsigned flags)
{
  memset (l->model + offset, 0, count);
  begins (l, offset, count);
  must (sh_volume_zero (l->v, count, offset, flags), "zero", NULL);
  ends (l, offset, count, flags);
}

static void
do_flush (struct life *l)
{
  uint32_t *const marks = malloc (l->h.nr_blocks * sizeof *marks);

  assert (marks != NULL);
  pthread_mutex_lock (&l->lock);
  history_flush_begin (&l->h, marks);
  pthread_mutex_unlock (&l->lock);
  must (sh_volume_flush (l->v), "flush", NULL);
  pthread_mutex_lock (&l->lock);
  history_flush_end (&l->h, marks, l->now);
  pthread_mutex_unlock (&l->lock);
  free (marks);
}

/* Anything at all, in [from, to): half of it a stream, at times with a piece that is
   late; a third of it not in whole blocks. */
static void
any_work (struct life *l, uint64_t *seed, uint64_t from, uint64_t to, uint64_t *stream)
{
  const unsigned flags = dice (seed, 10) == 0 ? SH_FUA : 0;
  uint64_t at = from + dice (seed, to - from), n = 1 + dice (seed, 40 * KiB);

  if (dice (seed, 3)) {
    at &= ~(BLOCK - 1);
    n = DIV_ROUND_UP (n, BLOCK) * BLOCK;
  }
  n = MIN (n, to - at);
  switch (dice (seed, 16)) {
  case 0 ... 3:
    do_write (l, seed, at, n, flags);
    break;
  case 4 ... 9:
    if (*stream < from || *stream >= to || dice (seed, 24) == 0)
      *stream = from + dice (seed, (to - from) / ZONE) * ZONE;
    n = (1 + dice (seed, 20)) * BLOCK;
    n = MIN (n, to - *stream);
    at = *stream;
    *stream += n;
    if (n > BLOCK && dice (seed, 4) == 0) {
      const uint64_t late = (1 + dice (seed, n / BLOCK - 1)) * BLOCK;

      do_write (l, seed, at + late, n - late, flags);
      n = late;
    }
    do_write (l, seed, at, n, flags);
    break;
  case 10:
    if (dice (seed, 3) == 0) {
      at = from + (at - from) / ZONE * ZONE;
      n = MIN (ZONE, to - at);
    }
    do_trim (l, at, n, flags);
    break;
  case 11:
    do_zero (l, at, n, flags);
    break;
  case 12:
    if (dice (seed, 4) == 0)
      must (sh_volume_reclaim_now (l->v), "reclaim", NULL);
    break;
  default:
    if (dice (seed, 2))
      do_flush (l);
  }
}

/* ---- a cut, and what is found ---- */

struct sweep {
  uint64_t seed;
  uint64_t cuts;
  bool torn_blocks;             /* logical blocks are smaller than 4 KiB */
  const char *doing;
  uint8_t *content, *second;
};

static struct sweep *
sweep_new (uint64_t size, uint64_t seed, bool torn_blocks)
{
  struct sweep *const s = calloc (1, sizeof *s);

  assert (s != NULL);
  s->seed = seed * UINT64_C (0x9e3779b97f4a7c15) | 1;
  s->torn_blocks = torn_blocks;
  s->content = malloc (size);
  s->second = malloc (size);
  assert (s->content != NULL && s->second != NULL);
  return s;
}

static void
sweep_free (struct sweep *s)
{
  free (s->content);
  free (s->second);
  free (s);
}

static void
print_error (void *opaque, enum check_kind kind, const char *text)
{
  if (kind == CHECK_ERROR)
    fprintf (stderr, "check: %s\n", text);
}

static void
check_clean (struct bdev *bdev, bool closed)
{
  const struct check_options o = { .report = print_error };
  struct check_result result;
  struct sh_error err = { 0 };

  must (check_volume (bdev, &o, &result, &err), "check", &err);
  if (result.errors == 0 && (!closed || result.notes == 0))
    return;
  fprintf (stderr, "%" PRIu64 " errors, %" PRIu64 " notes\n", result.errors, result.notes);
  abort ();
}

static void
read_all (struct sh_volume *v, uint8_t *content)
{
  must (sh_volume_pread (v, content, sh_volume_size (v), 0, 0), "read", NULL);
}

static void
judge (const struct life *l, const uint8_t *content, size_t at, bool torn)
{
  uint64_t b;

  for (b = 0; b < l->h.nr_blocks; ++b)
    if (!history_allows (&l->h, b, content + b * BLOCK, at, torn)) {
      fprintf (stderr, "cut at %zu: block %" PRIu64 " (of chunk %" PRIu64
               ") holds what it must not\n", at, b, b * BLOCK / ZONE);
      abort ();
    }
}

/* Loses the power, checks, loads and reads; the drive is then as it was found. */
static void
lose_power (struct sweep *s, const struct life *l, struct emu *drive, size_t at,
            bool all_modes)
{
  const unsigned how = dice (&s->seed, all_modes ? 8 : 6);
  const enum emu_cut mode = how == 6 ? EMU_CUT_LOSE_ALL : how == 7 ? EMU_CUT_KEEP_ALL :
    EMU_CUT_RANDOM;
  const bool torn = s->torn_blocks && how % 2;
  struct bdev *bdev;
  struct sh_volume *v;

  assert (emu_power_cut (drive, dice (&s->seed, UINT64_MAX), mode, torn) == 0);
  bdev = open_drive (drive, l->no_fua);
  check_clean (bdev, false);
  v = open_volume (bdev);
  read_all (v, s->content);
  close_volume (v);             /* nothing was written: nothing changes */
  judge (l, s->content, at, torn);
  s->cuts++;
}

/* New work on what was found; it closes clean and is right when opened again. */
static void
go_on (struct sweep *s, const struct life *l, struct emu *drive)
{
  struct life *const next = life_begin (drive, l->no_fua, false, s->content);
  uint64_t stream = UINT64_MAX;
  struct bdev *bdev;
  struct sh_volume *v;
  unsigned i;

  for (i = 0; i < 8; ++i)
    any_work (next, &s->seed, 0, next->size, &stream);
  memcpy (s->content, next->model, next->size);
  life_end (next);
  bdev = open_drive (drive, l->no_fua);
  check_clean (bdev, true);
  v = open_volume (bdev);
  read_all (v, s->second);
  close_volume (v);
  assert (memcmp (s->content, s->second, l->size) == 0);
}

static void cut_all (struct sweep *s, struct life *l, uint64_t times, bool again);

/* What was found is used and loses its power again, in its first commits, while its
   sets are made equal and when it is closed. */
static void
cut_again (struct sweep *s, const struct life *l, struct emu *drive)
{
  struct life *const next = life_begin (drive, l->no_fua, false, s->content);
  uint64_t stream = UINT64_MAX;
  unsigned i;

  take (next, true);
  for (i = 0; i < 6; ++i) {
    any_work (next, &s->seed, 0, next->size, &stream);
    if (i % 2)
      do_flush (next);
  }
  pthread_mutex_lock (&next->v->lock);
  must (commit_equalise (next->v), "make the sets equal", NULL);
  pthread_mutex_unlock (&next->v->lock);
  take (next, false);
  cut_all (s, next, 1, false);
  life_end (next);
}

static void
cut_at (struct sweep *s, struct life *l, const struct moment *m, bool again)
{
  struct emu *const drive = emu_clone (m->drive);

  assert (drive != NULL);
  lose_power (s, l, drive, m->at, true);
  if (again && dice (&s->seed, 16) == 0)
    go_on (s, l, drive);
  else if (again && dice (&s->seed, 60) == 0)
    cut_again (s, l, drive);
  emu_close (drive);
}

/* Every moment that was taken, `times` times each. */
static void
cut_all (struct sweep *s, struct life *l, uint64_t times, bool again)
{
  size_t i;
  uint64_t n;

  assert (l->nr_taken < TAKEN_MAX);
  for (i = 0; i < l->nr_taken; ++i) {
    for (n = 0; n < times; ++n)
      cut_at (s, l, &l->taken[i], again);
    emu_close (l->taken[i].drive);
  }
  l->nr_taken = 0;
}

/* ---- the sweeps ---- */

struct shape {
  const char *zones, *conventional, *sector;
  uint32_t reserved;
  bool no_fua;
  uint64_t commands, share;     /* share of the cuts wanted, in per cent */
};

static struct emu *
new_drive (const struct shape *shape)
{
  char size[32];
  const char *const settings[] = {
    size, "zone_size=64K", shape->conventional, shape->sector, "cache=tracked", NULL
  };
  struct emu *emu;

  snprintf (size, sizeof size, "size=%" PRIu64, (uint64_t) strtoull (shape->zones, NULL, 10) * ZONE);
  emu = emu_drive (settings);
  emu_format (emu, shape->reserved);
  return emu;
}

/* The shape with its work shortened as SHINGLE_CUTS asks. */
static struct shape
within_budget (const struct shape *shape)
{
  struct shape s = *shape;

  s.commands = s.commands * MIN (number_from ("SHINGLE_CUTS", CUTS), CUTS) / CUTS;
  return s;
}

static uint64_t
times_each (const struct sweep *s, const struct shape *shape, const struct life *l)
{
  const uint64_t wanted = number_from ("SHINGLE_CUTS", CUTS) * shape->share / 100;
  const uint64_t left = shape->commands > l->now ? shape->commands - l->now : 1;

  return MAX (1u, (wanted - MIN (wanted, s->cuts) + left / 2) / left);
}

static void
sweep_ends (struct sweep *s, struct life *l, const char *what)
{
  printf ("%s: %zu commands, %" PRIu64 " cuts\n", what, l->now, s->cuts);
  fflush (stdout);
  ck_assert_uint_ge (s->cuts, 1);
  sweep_free (s);
}

static void
mixed_work (const char *what, const struct shape *whole)
{
  const struct shape shape = within_budget (whole);
  struct emu *const emu = new_drive (&shape);
  struct life *const l = life_begin (emu, shape.no_fua, false, NULL);
  struct sweep *const s = sweep_new (l->size, number_from ("SHINGLE_SEED", 1),
                                     strcmp (shape.sector, "format=4Kn") != 0);
  uint64_t seed = s->seed ^ 0x5eed, stream = UINT64_MAX;
  const size_t start = l->now;

  while (l->now - start < shape.commands) {
    const uint64_t times = times_each (s, &shape, l);

    take (l, true);
    any_work (l, &seed, 0, l->size, &stream);
    take (l, false);
    cut_all (s, l, times, true);
  }
  sweep_ends (s, l, what);
  life_end (l);
  emu_close (emu);
}

START_TEST (of_mixed_work)
{
  mixed_work ("mixed work", &(struct shape) {
    .zones = "26", .conventional = "conventional=9", .sector = "format=512e",
    .reserved = 3, .commands = 5000, .share = 45,
  });
}
END_TEST

START_TEST (with_one_random_zone_and_reserve_1)
{
  mixed_work ("one random zone", &(struct shape) {
    .zones = "12", .conventional = "conventional=3", .sector = "format=512e",
    .reserved = 1, .commands = 3000, .share = 20,
  });
}
END_TEST

START_TEST (on_4kn_without_fua)
{
  mixed_work ("4Kn, no FUA", &(struct shape) {
    .zones = "14", .conventional = "conventional=5", .sector = "format=4Kn",
    .reserved = 2, .no_fua = true, .commands = 2000, .share = 10,
  });
}
END_TEST

/* ---- several threads, and the volume's own ---- */

struct writer {
  pthread_t thread;
  struct life *l;
  uint64_t from, to;            /* bytes of the volume that are its own */
  uint64_t seed, stream;
  size_t until;
};

static void *
writer_main (void *opaque)
{
  struct writer *const w = opaque;

  while (now (w->l) < w->until)
    any_work (w->l, &w->seed, w->from, w->to, &w->stream);
  return NULL;
}

static void
one_round (struct life *l, struct writer *w, size_t commands)
{
  const size_t until = now (l) + commands;
  unsigned i;

  take (l, true);
  for (i = 0; i < WRITERS; ++i) {
    w[i].until = until;
    assert (pthread_create (&w[i].thread, NULL, writer_main, &w[i]) == 0);
  }
  for (i = 0; i < WRITERS; ++i)
    pthread_join (w[i].thread, NULL);
  take (l, false);
}

START_TEST (with_writers_commits_and_reclaim_at_once)
{
  const struct shape shape = within_budget (&(struct shape) {
    .zones = "24", .conventional = "conventional=7", .sector = "format=512e",
    .reserved = 3, .commands = 3000, .share = 25,
  });
  struct emu *const emu = new_drive (&shape);
  struct life *const l = life_begin (emu, false, true, NULL);
  struct sweep *const s = sweep_new (l->size, number_from ("SHINGLE_SEED", 1), true);
  const uint64_t share = l->size / WRITERS / BLOCK * BLOCK;
  struct writer w[WRITERS];
  unsigned i;

  assert (share >= 2 * ZONE);
  for (i = 0; i < WRITERS; ++i)
    w[i] = (struct writer) { .l = l, .from = i * share, .to = (i + 1) * share,
                             .seed = s->seed + 77 * i + 1, .stream = UINT64_MAX };
  while (now (l) < shape.commands) {
    const uint64_t times = times_each (s, &shape, l);

    one_round (l, w, 200);
    cut_all (s, l, times, true);
  }
  sweep_ends (s, l, "four writers");
  life_end (l);
  emu_close (emu);
}
END_TEST

int
main (void)
{
  Suite *const s = suite_create ("power-cuts-emulated");
  TCase *const t = tcase_create ("cuts");

  tcase_set_timeout (t, 3600);
  tcase_add_test (t, of_mixed_work);
  tcase_add_test (t, with_one_random_zone_and_reserve_1);
  tcase_add_test (t, on_4kn_without_fua);
  tcase_add_test (t, with_writers_commits_and_reclaim_at_once);
  suite_add_tcase (s, t);
  return run_suite (s);
}
