/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reclaim: which chunk gives its random zone back, and what becomes of it.
 *
 *   EMPTY   a zone without valid blocks: given back
 *   APPEND  all buffered blocks lie behind the write pointer: they are appended
 *   MOVE    data in a random zone, or data and buffer: into a fresh seq zone
 *   MERGE   data and buffer, and no seq zone is free: data into the buffer zone
 *
 * The copying itself is in copy.c.  A cycle is one chunk.  It costs one probe when
 * it gained a zone; failures are judged by their own (health.c).
 */
#include <config.h>
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include "zoned/copy.h"

struct candidate {
  enum copy_form form;
  uint32_t chunk;
  uint64_t cost;                /* blocks to copy, coarse */
  uint32_t age_ms;
  uint32_t zone;                /* the random zone of the chunk */
};

/* ---- choosing ---- */

/* Blocks that are valid in z, as far as that is known without reading. */
static uint32_t
guess_weight (const struct sh_volume *v, uint32_t z)
{
  const struct rzone *const zone = &v->zones[z];

  return zone->flags & RZ_UNCHECKED ? v->l.zone_blocks : zone->weight;
}

static bool
known_empty (const struct sh_volume *v, uint32_t z)
{
  return (v->zones[z].flags & RZ_KNOWN) && v->zones[z].weight == 0;
}

static bool
appendable (const struct sh_volume *v, uint32_t z)
{
  return !(v->zones[z].flags & (RZ_NO_APPEND | RZ_READ_ONLY | RZ_OFFLINE));
}

/* Do all blocks of buffer zone b lie behind the write pointer of d? */
static bool
all_behind_wp (const struct sh_volume *v, uint32_t d, uint32_t b)
{
  const uint32_t wp = v->zones[d].wp;
  bool set;

  if (!(v->zones[b].flags & RZ_KNOWN))
    return false;
  return wp == 0 || (wp < v->l.zone_blocks && !bits_test_locked (v, b, 0) &&
                     bits_run_locked (v, b, 0, wp, &set) == wp);
}

/* A copy of z to a seq zone: the valid blocks are read, and written with all that is
   before them and between them; the mean of both, as far as that is known. */
static uint32_t
move_cost (const struct sh_volume *v, uint32_t z)
{
  const uint32_t weight = guess_weight (v, z);

  return v->zones[z].flags & RZ_KNOWN ? (weight + bits_end_locked (v, z)) / 2 : weight;
}

/* How chunk c would be reclaimed; false if it cannot be now. */
static bool
judge (struct sh_volume *v, uint32_t z, bool seq_free, struct candidate *cand)
{
  const uint32_t c = v->zones[z].chunk;
  const struct map_entry m = v->map[c];

  *cand = (struct candidate) { .chunk = c, .zone = z };
  cand->age_ms = now_ms (v) - v->zones[z].last_ms;
  if (known_empty (v, z)) {
    cand->form = COPY_EMPTY;
    if (chunk_find_locked (v, c) == NULL)
      return true;
    v->chunk_busy = true;
    return false;
  }
  if (m.buffer == ZONE_NONE) {
    cand->form = COPY_MOVE;
    cand->cost = move_cost (v, z);
    return seq_free;
  }
  if (known_empty (v, m.data) && chunk_find_locked (v, c) == NULL)
    cand->form = COPY_EMPTY;
  else if (all_behind_wp (v, m.data, z) && appendable (v, m.data)) {
    cand->form = COPY_APPEND;
    cand->cost = bits_end_locked (v, z) - v->zones[m.data].wp;
  }
  else if (seq_free) {
    cand->form = COPY_MOVE;
    cand->cost = guess_weight (v, m.data) + (uint64_t) guess_weight (v, z);
  }
  else {
    cand->form = COPY_MERGE;
    cand->cost = guess_weight (v, m.data);
    return !(v->zones[z].flags & (RZ_READ_ONLY | RZ_OFFLINE));
  }
  return true;
}

/* Cheaper, where that makes a difference, else longer unwritten. */
static bool
better (const struct sh_volume *v, const struct candidate *a, const struct candidate *b)
{
  const uint64_t grain = MAX (1u, v->l.zone_blocks / 8);

  if (a->form == COPY_EMPTY || b->form == COPY_EMPTY)
    return b->form != COPY_EMPTY;
  if (a->cost / grain != b->cost / grain)
    return a->cost < b->cost;
  return a->age_ms > b->age_ms;
}

/* The best of those that reclaim failed on before, or of all others. */
static bool
choose_among (struct sh_volume *v, enum reclaim_mode mode, bool stuck,
              struct candidate *best)
{
  const bool seq_free = free_seq_locked (v) > 0;
  bool found = false;
  uint32_t i;

  for (i = 0; i < v->nr_random; ++i) {
    const struct rzone *const z = &v->zones[v->random[i]];
    struct candidate cand;

    if ((z->state != ZS_DATA && z->state != ZS_BUFFER) || chunk_is_bad (v, z->chunk) ||
        !(z->flags & RZ_STUCK) == stuck)
      continue;
    if (!judge (v, v->random[i], seq_free, &cand))
      continue;
    if (mode == RECLAIM_COLD && cand.form != COPY_EMPTY && cand.age_ms < COLD_MS)
      continue;
    if (!found || better (v, &cand, best)) {
      *best = cand;
      found = true;
    }
  }
  return found;
}

/* The error may have been a passing one: where a writer waits and nothing else is left,
   what is stuck is tried once more for him. */
static bool
choose (struct sh_volume *v, enum reclaim_mode mode, struct candidate *best)
{
  v->chunk_busy = false;
  if (choose_among (v, mode, false, best))
    return true;
  return mode == RECLAIM_NEED && v->retry_stuck && choose_among (v, mode, true, best);
}

/* ---- one cycle ---- */

static int
work (struct sh_volume *v, struct chunk *ch, const struct candidate *cand)
{
  switch (cand->form) {
  case COPY_EMPTY:
    return 1;                   /* chunk_put_locked gives it back */
  case COPY_APPEND:
    return copy_append (v, ch);
  case COPY_MOVE:
    return copy_move (v, ch);
  case COPY_MERGE:
    return copy_merge (v, ch);
  }
  return 0;
}

/* A chunk whose data cannot be read, or moved within its zones, is not tried
   again without need. */
static void
stuck (struct sh_volume *v, const struct candidate *cand, int errnum)
{
  struct rzone *const zone = &v->zones[cand->zone];

  zone->last_ms = now_ms (v);
  if (zone->flags & RZ_STUCK) {
    v->retry_stuck = false;
    return;
  }
  zone->flags |= RZ_STUCK;
  sh_log (v->opt.log, SH_LOG_WARNING, "%s: chunk %" PRIu32 " cannot be moved (%s); its data "
          "stays where it is, in zone %" PRIu32, v->bdev->info.name, cand->chunk,
          sh_drive_error (errnum), cand->zone);
}

static void
count_cycle (struct sh_volume *v)
{
  v->st.reclaim_cycles++;
  pthread_mutex_unlock (&v->lock);
  dev_probe (v);
  pthread_mutex_lock (&v->lock);
}

static int
run_cycle (struct sh_volume *v, const struct candidate *cand, bool close_chunk)
{
  struct chunk *const ch = chunk_get_locked (v, cand->chunk);
  int r, e;

  v->victim = ch;
  ch->frozen = close_chunk;
  r = work (v, ch, cand);
  e = errno;
  v->victim = NULL;
  ch->frozen = false;
  ch->no_append = false;
  pthread_cond_broadcast (&v->thaw);
  chunk_put_locked (v, ch);
  if (r == -1 && v->dying) {
    errno = ENODEV;             /* the drive, not the chunk */
    return -1;
  }
  if (r == -1)
    stuck (v, cand, e);
  else
    v->zones[cand->zone].flags &= ~RZ_STUCK;
  if (r == 1)
    count_cycle (v);
  else if (r == 0)              /* written to again: not the next one to try */
    v->zones[cand->zone].last_ms = now_ms (v);
  return r == 1 ? 2 : 1;
}

int
reclaim_cycle (struct sh_volume *v, enum reclaim_mode mode)
{
  struct candidate cand = { 0 };
  int r = 0;

  if (v->reclaiming) {
    pthread_cond_wait (&v->reclaimed, &v->lock);
    return 1;
  }
  if (!v->dying) {
    v->reclaiming = true;
    if (choose (v, mode, &cand))
      r = run_cycle (v, &cand, v->waits != NULL);
    v->reclaiming = false;
    pthread_cond_broadcast (&v->reclaimed);
  }
  if (v->dying) {
    errno = ENODEV;
    return -1;
  }
  return r;
}

unsigned
random_free_percent_locked (const struct sh_volume *v)
{
  return (uint64_t) v->free_random.count * 100 / MAX (v->nr_random, 1u);
}
