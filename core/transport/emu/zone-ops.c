/* SPDX-License-Identifier: BSD-3-Clause */
/* OPEN ZONE, CLOSE ZONE, FINISH ZONE, RESET WRITE POINTER. */
#include <config.h>
#include <assert.h>
#include <sched.h>
#include <stdlib.h>
#include "transport/emu/internal.h"

/* What one operation does to one zone.  Zone lock and cache lock are held.
   Returns 0 or sense, or TRY_AGAIN. */
typedef uint32_t (*zone_fn) (struct emu *emu, uint32_t zone, struct zone_rec rec);
#define TRY_AGAIN UINT32_MAX

/* ---- one zone ---- */

static uint32_t
condition_sense (const struct zone_rec *rec)
{
  switch (rec->cond) {
  case ZONE_OFFLINE:
    return SENSE_ZONE_OFFLINE;
  case ZONE_READ_ONLY:
    return SENSE_ZONE_READ_ONLY;
  default:
    return 0;
  }
}

static uint32_t
open_one (struct emu *emu, uint32_t zone, struct zone_rec rec)
{
  if (condition_sense (&rec))
    return condition_sense (&rec);
  if (rec.cond == ZONE_EXPLICIT_OPEN || rec.cond == ZONE_FULL)
    return 0;
  switch (zone_open_locked (emu, zone, &rec, true)) {
  case ZONE_OPEN_NO_RESOURCES:
    return SENSE_ZONE_RESOURCES;
  case ZONE_OPEN_AGAIN:
    return TRY_AGAIN;
  default:
    return 0;
  }
}

static uint32_t
close_one (struct emu *emu, uint32_t zone, struct zone_rec rec)
{
  if (condition_sense (&rec))
    return condition_sense (&rec);
  if (!rec_open (&rec))
    return 0;
  rec.cond = rec.wp == 0 ? ZONE_EMPTY : ZONE_CLOSED;
  zone_change_locked (emu, zone, rec);
  return 0;
}

/* Blocks between the pointer and the end become readable, so they must be
   zeroes: nothing old may be left there. */
static uint32_t
finish_one (struct emu *emu, uint32_t zone, struct zone_rec rec)
{
  const uint64_t cap = zone_cap (emu, zone, &rec);
  const uint64_t lba = zone_start (emu, zone) + rec.wp;

  if (condition_sense (&rec))
    return condition_sense (&rec);
  if (rec.cond == ZONE_FULL)
    return 0;
  if (cache_before_finish_locked (emu, zone, rec) == -1 ||
      media_zero (emu, lba, cap - rec.wp) == -1)
    return SENSE_WRITE_ERROR;
  rec.wp = (uint32_t) cap;
  rec.cond = ZONE_FULL;
  zone_change_locked (emu, zone, rec);
  return 0;
}

/* The record first: a kill between the two leaves an empty zone, whose old
   bytes are behind the pointer and read as zeroes. */
static uint32_t
reset_one (struct emu *emu, uint32_t zone, struct zone_rec rec)
{
  const uint64_t used = rec.wp;

  if (condition_sense (&rec))
    return condition_sense (&rec);
  if (rec.cond == ZONE_EMPTY)
    return 0;
  if (cache_before_reset_locked (emu, zone, rec) == -1)
    return SENSE_WRITE_ERROR;
  rec.wp = 0;
  rec.cond = ZONE_EMPTY;
  rec.flags &= ~REC_NON_SEQ;
  zone_change_locked (emu, zone, rec);
  count (emu, CNT_ZONE_RESETS, 1);
  /* A reset that a power cut may undo keeps the bytes until it is synchronised. */
  if (!emu->cache.tracked && media_zero (emu, zone_start (emu, zone), used) == -1)
    return SENSE_WRITE_ERROR;
  return 0;
}

/* ---- which zones ALL means ---- */

static bool
all_closed (const struct zone_rec *rec)
{
  return rec->cond == ZONE_CLOSED;
}

static bool
all_open (const struct zone_rec *rec)
{
  return rec_open (rec);
}

static bool
all_open_or_closed (const struct zone_rec *rec)
{
  return rec_open (rec) || rec->cond == ZONE_CLOSED;
}

static bool
all_used (const struct zone_rec *rec)
{
  return rec_open (rec) || rec->cond == ZONE_CLOSED || rec->cond == ZONE_FULL;
}

/* ---- the commands ---- */

static uint32_t
run_locked (struct emu *emu, uint32_t zone, zone_fn fn,
            bool (*wanted) (const struct zone_rec *))
{
  uint32_t sense;

  do {
    struct zone_rec rec;

    zone_lock (emu, zone);
    rec = zone_load (emu, zone);
    sense = wanted && !wanted (&rec) ? 0 : fn (emu, zone, rec);
    zone_unlock (emu, zone);
    if (sense == TRY_AGAIN)
      sched_yield ();
  } while (sense == TRY_AGAIN);
  return sense;
}

/* The zones that ALL means are picked first: what the operation itself closes to
   make room is not one of them. */
static uint32_t
run_all_locked (struct emu *emu, zone_fn fn, bool (*wanted) (const struct zone_rec *))
{
  uint32_t *list = malloc (emu->z.nr * sizeof list[0]);
  uint32_t zone, i, nr = 0, sense = 0;

  if (list == NULL)
    return SENSE_INTERNAL_FAILURE;
  for (zone = 0; zone < emu->z.nr; ++zone) {
    const struct zone_rec rec = zone_load (emu, zone);

    if (wanted (&rec))
      list[nr++] = zone;
  }
  for (i = 0; i < nr && sense == 0; ++i)
    sense = run_locked (emu, list[i], fn, wanted);
  free (list);
  return sense;
}

/* OPEN with ALL fails as a whole. */
static uint32_t
open_all_allowed (struct emu *emu)
{
  uint32_t zone, nr_closed = 0, nr_explicit;

  if (emu->z.max_open == 0)
    return 0;
  for (zone = 0; zone < emu->z.nr; ++zone) {
    const struct zone_rec rec = zone_load (emu, zone);

    nr_closed += rec.cond == ZONE_CLOSED;
  }
  pthread_mutex_lock (&emu->z.open_lock);
  nr_explicit = emu->z.nr_explicit;
  pthread_mutex_unlock (&emu->z.open_lock);
  return nr_explicit + nr_closed > emu->z.max_open ? SENSE_ZONE_RESOURCES : 0;
}

/* The zone that the CDB names; false: refused. */
static bool
find_zone (struct task *t, uint32_t *zone)
{
  const struct emu *emu = t->emu;
  struct zone_rec rec;

  if (t->lba >= emu->nr_blocks) {
    task_fail (t, SENSE_LBA_RANGE);
    return false;
  }
  *zone = zone_of (emu, t->lba);
  rec = zone_load (emu, *zone);
  if (t->lba != zone_start (emu, *zone) || !rec_sequential (&rec)) {
    task_fail_field (t, 2, -1);
    return false;
  }
  return true;
}

struct zone_op {
  zone_fn fn;
  bool (*all) (const struct zone_rec *);
  uint32_t (*all_allowed) (struct emu *emu);    /* may be NULL */
};

static void
run_zone_op (struct task *t, const struct zone_op *op)
{
  struct emu *emu = t->emu;
  const bool all = t->cmd->cdb[14] & 1;
  uint32_t zone = 0, sense = 0;

  if (!all && !find_zone (t, &zone))
    return;
  cache_lock (emu);
  if (!all)
    sense = run_locked (emu, zone, op->fn, NULL);
  else {
    sense = op->all_allowed ? op->all_allowed (emu) : 0;
    if (sense == 0)
      sense = run_all_locked (emu, op->fn, op->all);
  }
  cache_unlock (emu);
  if (sense)
    task_fail (t, sense);
}

void
op_zone_open (struct task *t)
{
  static const struct zone_op op = { open_one, all_closed, open_all_allowed };

  run_zone_op (t, &op);
}

void
op_zone_close (struct task *t)
{
  static const struct zone_op op = { close_one, all_open, NULL };

  run_zone_op (t, &op);
}

void
op_zone_finish (struct task *t)
{
  static const struct zone_op op = { finish_one, all_open_or_closed, NULL };

  run_zone_op (t, &op);
}

void
op_zone_reset (struct task *t)
{
  static const struct zone_op op = { reset_one, all_used, NULL };

  run_zone_op (t, &op);
}
