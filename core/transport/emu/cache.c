/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The volatile write cache, and what a power cut does to it.
 *
 * Writes go to the store at once; with cache=tracked the drive keeps a list of
 * what it would take to undo those that no SYNCHRONIZE CACHE and no FUA write
 * has made durable, oldest first.  A power cut walks the list from its end and
 * undoes what the dice say:
 *
 *   UNDO_BLOCKS  one unit (4 KiB) of a conventional zone and its old content.
 *                Each unit falls back to some point in time; so a unit that
 *                was written twice may show the first of the two.
 *   UNDO_APPEND  blocks written in a zone with a pointer.  Nothing but the
 *                pointer need be taken back, for what lies behind it reads as
 *                zeroes; only over the remains of an unsynchronised reset is
 *                the old content kept.
 *   UNDO_FINISH  the same for FINISH ZONE, which is done or not, never half.
 *   UNDO_RESET   a reset.  It leaves the old bytes where they are until it is
 *                synchronised.
 *
 * Each sequential zone falls back to one point in time, so that it keeps a
 * prefix of its history; that point may lie in the middle of a write.
 *
 * With tracking, cache.lock is held over every change of the medium.
 */
#include <config.h>
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "transport/emu/internal.h"

#define UNIT_BYTES 4096u

/* Old bytes, shared between a drive and its clones. */
struct content {
  _Atomic unsigned refs;
  uint8_t bytes[];
};

static uint64_t
unit_blocks (const struct emu *emu)
{
  return UNIT_BYTES >> emu->lbs_shift;
}

/* ---- life ---- */

void
cache_init (struct emu *emu)
{
  pthread_mutex_init (&emu->cache.lock, NULL);
  emu->cache.fd = -1;
  emu->cache.tracked = emu->s.cache == EMU_CACHE_TRACKED;
}

static void
content_put (struct content *c)
{
  if (c && atomic_fetch_sub_explicit (&c->refs, 1, memory_order_acq_rel) == 1)
    free (c);
}

static void
clear_locked (struct cache *c)
{
  size_t i;

  for (i = 0; i < c->nr; ++i)
    if (c->entries[i].live)
      content_put (c->entries[i].content);
  c->nr = c->nr_live = c->nr_live_resets = 0;
  c->content_bytes = 0;
}

void
cache_fini (struct emu *emu)
{
  clear_locked (&emu->cache);
  free (emu->cache.entries);
  if (emu->cache.fd != -1)
    close (emu->cache.fd);
  pthread_mutex_destroy (&emu->cache.lock);
}

void
cache_lock (struct emu *emu)
{
  if (emu->cache.tracked)
    pthread_mutex_lock (&emu->cache.lock);
}

void
cache_unlock (struct emu *emu)
{
  if (emu->cache.tracked)
    pthread_mutex_unlock (&emu->cache.lock);
}

/* ---- the list ---- */

int
cache_add_locked (struct emu *emu, const struct undo *u)
{
  struct cache *c = &emu->cache;

  if (c->nr == c->allocated) {
    const size_t n = MAX (c->allocated * 2, (size_t) 64);
    struct undo *p = realloc (c->entries, n * sizeof *p);

    if (p == NULL)
      return -1;
    c->entries = p;
    c->allocated = n;
  }
  c->entries[c->nr++] = *u;
  c->nr_live++;
  c->nr_live_resets += u->kind == UNDO_RESET;
  c->content_bytes += u->content_bytes;
  return 0;
}

/* True while another reset of the zone is not synchronised, so that bytes of a
   former life may lie behind its pointer. */
static bool
reset_pending_locked (const struct cache *c, uint32_t zone)
{
  size_t i;

  if (c->nr_live_resets == 0)
    return false;
  for (i = 0; i < c->nr; ++i)
    if (c->entries[i].live && c->entries[i].kind == UNDO_RESET && c->entries[i].zone == zone)
      return true;
  return false;
}

/* A reset became durable: what it left behind the pointer goes. */
static void
release_remains_locked (struct emu *emu, uint32_t zone)
{
  const struct zone_rec rec = zone_load (emu, zone);
  const uint64_t cap = zone_cap (emu, zone, &rec);

  if (!reset_pending_locked (&emu->cache, zone) && rec.wp < cap)
    (void) media_zero (emu, zone_start (emu, zone) + rec.wp, cap - rec.wp);
}

static void
drop_locked (struct emu *emu, struct undo *u)
{
  struct cache *c = &emu->cache;

  assert (u->live);
  u->live = false;
  c->nr_live--;
  c->content_bytes -= u->content_bytes;
  content_put (u->content);
  u->content = NULL;
  if (c->fd != -1)
    cache_file_drop (emu, u);
  if (u->kind == UNDO_RESET) {
    c->nr_live_resets--;
    release_remains_locked (emu, u->zone);
  }
}

/* Takes the dropped entries out of the array when they are the majority. */
static void
compact_locked (struct emu *emu)
{
  struct cache *c = &emu->cache;
  size_t i, n = 0;

  if (c->nr_live == 0) {
    c->nr = 0;
    if (c->fd != -1)
      cache_file_clear (emu);
    return;
  }
  if (c->nr < 64 || c->nr_live > c->nr / 2)
    return;
  for (i = 0; i < c->nr; ++i)
    if (c->entries[i].live)
      c->entries[n++] = c->entries[i];
  c->nr = n;
}

/* The cache is full: the oldest data is written to the medium. */
static void
destage_locked (struct emu *emu)
{
  struct cache *c = &emu->cache;
  size_t i;

  if (c->content_bytes <= emu->s.cache_bytes)
    return;
  for (i = 0; i < c->nr && c->content_bytes > emu->s.cache_bytes / 2; ++i)
    if (c->entries[i].live)
      drop_locked (emu, &c->entries[i]);
  compact_locked (emu);
}

/* ---- noting what is about to change ---- */

static bool
all_zero (const uint8_t *p, size_t len)
{
  return p[0] == 0 && memcmp (p, p + 1, len - 1) == 0;
}

/* The bytes that the store has at u's blocks now, into u. */
static int
capture_locked (struct emu *emu, struct undo *u, uint8_t **content)
{
  const size_t len = blocks_to_bytes (emu, u->blocks);
  struct iovec iov;
  struct cursor to = { .iov = &iov, .iovcnt = 1 };
  struct content *c = malloc (sizeof *c + len);

  if (c == NULL)
    return -1;
  iov = (struct iovec) { c->bytes, len };
  if (media_read (emu, u->lba, u->blocks, &to) == -1) {
    free (c);
    return -1;
  }
  if (all_zero (c->bytes, len)) {
    free (c);
    return 0;
  }
  c->refs = 1;
  u->content = c;
  u->content_bytes = (uint32_t) len;
  *content = c->bytes;
  return 0;
}

static int
note_locked (struct emu *emu, struct undo *u, bool capture)
{
  uint8_t *bytes = NULL;

  u->live = true;
  u->captured = capture;
  if (capture && capture_locked (emu, u, &bytes) == -1)
    return -1;
  if (emu->cache.fd != -1) {
    const int r = cache_file_append (emu, u, bytes);

    content_put (u->content);
    u->content = NULL;
    if (r == -1)
      return -1;
  }
  if (cache_add_locked (emu, u) == -1) {
    content_put (u->content);
    return -1;
  }
  return 0;
}

int
cache_before_blocks_locked (struct emu *emu, uint64_t lba, uint64_t blocks)
{
  const uint64_t unit = unit_blocks (emu);

  if (!emu->cache.tracked || emu->s.cache != EMU_CACHE_TRACKED)
    return 0;
  while (blocks > 0) {
    const uint64_t n = MIN (blocks, unit - lba % unit);
    struct undo u = { .kind = UNDO_BLOCKS, .lba = lba, .blocks = n };

    if (note_locked (emu, &u, true) == -1)
      return -1;
    lba += n;
    blocks -= n;
  }
  destage_locked (emu);
  return 0;
}

static int
note_written_locked (struct emu *emu, uint8_t kind, uint32_t zone, struct zone_rec old,
                     uint64_t lba, uint64_t blocks)
{
  struct undo u = {
    .kind = kind, .zone = zone, .lba = lba, .blocks = blocks,
    .old_word = zone_pack (old),
  };
  bool overwrites;

  if (!emu->cache.tracked || emu->s.cache != EMU_CACHE_TRACKED)
    return 0;
  overwrites = lba < zone_start (emu, zone) + old.wp ||
    reset_pending_locked (&emu->cache, zone);
  if (note_locked (emu, &u, overwrites) == -1)
    return -1;
  destage_locked (emu);
  return 0;
}

int
cache_before_append_locked (struct emu *emu, uint32_t zone, struct zone_rec old,
                            uint64_t lba, uint64_t blocks)
{
  return note_written_locked (emu, UNDO_APPEND, zone, old, lba, blocks);
}

int
cache_before_finish_locked (struct emu *emu, uint32_t zone, struct zone_rec old)
{
  return note_written_locked (emu, UNDO_FINISH, zone, old,
                              zone_start (emu, zone) + old.wp,
                              zone_cap (emu, zone, &old) - old.wp);
}

int
cache_before_reset_locked (struct emu *emu, uint32_t zone, struct zone_rec old)
{
  struct undo u = { .kind = UNDO_RESET, .zone = zone, .old_word = zone_pack (old) };

  if (!emu->cache.tracked || emu->s.cache != EMU_CACHE_TRACKED)
    return 0;
  return note_locked (emu, &u, false);
}

/* ---- synchronising ---- */

static bool
covers (const struct emu *emu, const struct undo *u, uint64_t lba, uint64_t end)
{
  const uint64_t unit = unit_blocks (emu);
  uint64_t first = u->lba / unit * unit, last = first + unit;

  if (u->kind != UNDO_BLOCKS) { /* a zone is synchronised as a whole */
    first = zone_start (emu, u->zone);
    last = first + zone_len (emu, u->zone);
  }
  return first < end && lba < last;
}

void
cache_sync_locked (struct emu *emu, uint64_t lba, uint64_t blocks)
{
  struct cache *c = &emu->cache;
  size_t i;

  if (!c->tracked || c->nr == 0)
    return;
  for (i = 0; i < c->nr; ++i)
    if (c->entries[i].live && covers (emu, &c->entries[i], lba, lba + blocks))
      drop_locked (emu, &c->entries[i]);
  compact_locked (emu);
}

void
cache_follow_settings (struct emu *emu)
{
  const bool want = emu->s.cache == EMU_CACHE_TRACKED;

  if (emu->cache.tracked && !want)
    cache_sync_locked (emu, 0, emu->nr_blocks);
  emu->cache.tracked = want;
}

size_t
emu_cache_entries (struct emu *emu)
{
  size_t n;

  cache_lock (emu);
  n = emu->cache.nr_live;
  cache_unlock (emu);
  return n;
}

/* ---- the dice ---- */

struct dice {
  uint64_t seed;
  enum emu_cut mode;
  size_t nr;                    /* entries in the list */
};

static uint64_t
mix (uint64_t seed, uint64_t x)
{
  uint64_t h = seed + (x + 1) * UINT64_C (0x9e3779b97f4a7c15);

  h = (h ^ h >> 30) * UINT64_C (0xbf58476d1ce4e5b9);
  h = (h ^ h >> 27) * UINT64_C (0x94d049bb133111eb);
  return h ^ h >> 31;
}

/* The first entry that is undone for this unit or zone.  One cut in eight
   takes the whole cache back to one moment; else each thing has its own: all
   lost, nothing lost, or somewhere between. */
static size_t
undo_from (const struct dice *d, uint64_t thing)
{
  const uint64_t common = mix (d->seed, UINT64_MAX - 1);
  const uint64_t h = common % 8 == 0 ? common >> 8 : mix (d->seed, thing);

  switch (d->mode) {
  case EMU_CUT_LOSE_ALL:
    return 0;
  case EMU_CUT_KEEP_ALL:
    return d->nr;
  default:
    break;
  }
  switch (common % 8 == 0 ? 2 : h & 3) {
  case 0:
    return 0;
  case 1:
    return d->nr;
  default:
    return (size_t) ((h >> 2) % (d->nr + 1));
  }
}

/* ---- undoing ---- */

static int
restore_bytes (struct emu *emu, const struct undo *u, uint64_t skip, uint64_t blocks)
{
  const size_t len = blocks_to_bytes (emu, u->blocks);
  uint8_t *copy = NULL, *bytes;
  struct iovec iov;
  struct cursor from = { .iov = &iov, .iovcnt = 1 };
  int r;

  if (u->content_bytes == 0)
    return media_zero (emu, u->lba + skip, blocks);
  bytes = u->content ? u->content->bytes : (copy = malloc (len));
  if (bytes == NULL || (copy && cache_file_read (emu, u, copy) == -1)) {
    free (copy);
    return -1;
  }
  iov = (struct iovec) { bytes + blocks_to_bytes (emu, skip), blocks_to_bytes (emu, blocks) };
  r = media_write (emu, u->lba + skip, blocks, &from);
  free (copy);
  return r;
}

static int
undo_blocks (struct emu *emu, const struct undo *u, size_t index, const struct dice *d,
             bool by_block)
{
  const uint64_t step = by_block ? 1 : u->blocks;
  uint64_t i;

  for (i = 0; i < u->blocks; i += step) {
    const uint64_t thing = by_block ? u->lba + i : u->lba / unit_blocks (emu);

    if (index < undo_from (d, thing))
      continue;
    count (emu, CNT_LOST_UNITS, 1);
    if (restore_bytes (emu, u, i, step) == -1)
      return -1;
  }
  return 0;
}

/* Blocks of an append that survive when the cut falls into it. */
static uint64_t
surviving_part (const struct emu *emu, const struct undo *u, const struct dice *d,
                bool by_block)
{
  const uint64_t unit = by_block ? 1 : unit_blocks (emu);
  const uint64_t units = u->blocks / unit;

  if (d->mode != EMU_CUT_RANDOM || units == 0)
    return 0;
  return mix (d->seed, ~(uint64_t) u->zone) % units * unit;
}

/* Takes the zone's record back, and what was written over old bytes; `keep`
   blocks of an append stay. */
static int
undo_zone (struct emu *emu, const struct undo *u, uint64_t keep)
{
  const uint64_t end = u->lba - zone_start (emu, u->zone) + keep;
  struct zone_rec rec = zone_unpack (u->old_word), now;

  if (u->captured && restore_bytes (emu, u, keep, u->blocks - keep) == -1)
    return -1;
  if (keep > 0 && end > rec.wp) {
    rec.wp = (uint32_t) end;
    rec.cond = ZONE_CLOSED;
  }
  count (emu, CNT_LOST_UNITS, 1);
  zone_lock (emu, u->zone);
  now = zone_load (emu, u->zone);
  if (rec_open (&rec))
    rec.cond = rec.wp == 0 ? ZONE_EMPTY : ZONE_CLOSED;
  if (now.cond == ZONE_READ_ONLY || now.cond == ZONE_OFFLINE)   /* damage stays */
    rec.cond = now.cond;
  rec.reported_type = now.reported_type;
  zone_change_locked (emu, u->zone, rec);
  zone_unlock (emu, u->zone);
  return 0;
}

/* Whether an older entry of the same zone is undone too. */
static bool
older_is_undone (const struct cache *c, size_t index, size_t from)
{
  const uint32_t zone = c->entries[index].zone;

  while (index-- > from)
    if (c->entries[index].live && c->entries[index].kind != UNDO_BLOCKS &&
        c->entries[index].zone == zone)
      return true;
  return false;
}

static int
undo_entry (struct emu *emu, size_t index, const struct dice *d, bool by_block)
{
  const struct cache *c = &emu->cache;
  const struct undo *u = &c->entries[index];
  size_t from;

  if (u->kind == UNDO_BLOCKS)
    return undo_blocks (emu, u, index, d, by_block);
  /* Zones and units draw from different numbers. */
  from = undo_from (d, (uint64_t) u->zone << 40 | 0xffffffffff);
  if (index < from)
    return 0;
  if (u->kind != UNDO_APPEND || older_is_undone (c, index, from))
    return undo_zone (emu, u, 0);
  return undo_zone (emu, u, surviving_part (emu, u, d, by_block));
}

/* The remains of resets that were not undone. */
static void
release_all_remains (struct emu *emu)
{
  struct cache *c = &emu->cache;
  size_t i;

  for (i = 0; i < c->nr; ++i) {
    struct undo *u = &c->entries[i];

    if (!u->live || u->kind != UNDO_RESET)
      continue;
    u->live = false;
    c->nr_live--;
    c->nr_live_resets--;
    release_remains_locked (emu, u->zone);
  }
}

int
emu_power_cut (struct emu *emu, uint64_t seed, enum emu_cut mode, bool by_block)
{
  struct cache *c = &emu->cache;
  struct dice d = { .seed = seed, .mode = mode };
  size_t i;
  int r = 0;

  cache_lock (emu);
  d.nr = c->nr;
  for (i = c->nr; i > 0 && r == 0; --i)
    if (c->entries[i - 1].live)
      r = undo_entry (emu, i - 1, &d, by_block);
  release_all_remains (emu);
  clear_locked (c);
  if (c->fd != -1)
    cache_file_clear (emu);
  emu_power_on (emu);           /* before the next command gets the lock */
  cache_unlock (emu);
  count (emu, CNT_POWER_CUTS, 1);
  return r;
}

/* ---- clone ---- */

int
cache_copy_locked (struct emu *to, struct emu *from)
{
  const struct cache *c = &from->cache;
  size_t i;

  for (i = 0; i < c->nr; ++i) {
    if (!c->entries[i].live)
      continue;
    if (cache_add_locked (to, &c->entries[i]) == -1)
      return -1;
    if (c->entries[i].content)
      atomic_fetch_add_explicit (&c->entries[i].content->refs, 1, memory_order_relaxed);
  }
  return 0;
}
