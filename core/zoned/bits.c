/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Validity bitmaps in memory.
 *
 * Most zones are empty or valid from their start to some block; those need no
 * bitmap: RZ_KNOWN without `bits` means that the first `weight` blocks are
 * valid and no other.  Only mixed zones take a cache entry.  Entries that are
 * neither dirty, nor in the running commit, nor of a zone with commands in
 * flight can be thrown out (clock algorithm) and are read back when needed.
 */
#include <config.h>
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "zoned/running.h"

/* ---- words ---- */

static inline uint64_t
low_mask (uint32_t n)           /* n: 0 ... 64 */
{
  return n >= 64 ? UINT64_MAX : (UINT64_C (1) << n) - 1;
}

uint32_t
words_run (const uint64_t *words, uint32_t b, uint32_t max, bool *set)
{
  const uint64_t flip = (words[b >> 6] >> (b & 63) & 1) ? UINT64_MAX : 0;
  uint32_t n = 0;

  *set = flip != 0;
  while (n < max) {
    const uint32_t at = b + n, left = 64 - (at & 63);
    const uint64_t differ = (words[at >> 6] ^ flip) >> (at & 63);

    if (differ != 0) {
      n += __builtin_ctzll (differ);
      break;
    }
    n += left;
  }
  return MIN (n, max);
}

void
words_fill (uint64_t *words, uint32_t b, uint32_t n, bool set)
{
  while (n > 0) {
    const uint32_t take = MIN (n, 64 - (b & 63));
    const uint64_t mask = low_mask (take) << (b & 63);

    if (set)
      words[b >> 6] |= mask;
    else
      words[b >> 6] &= ~mask;
    b += take;
    n -= take;
  }
}

uint32_t
words_weight (const uint64_t *words, uint32_t nr_words)
{
  uint32_t i, n = 0;

  for (i = 0; i < nr_words; ++i)
    n += __builtin_popcountll (words[i]);
  return n;
}

static uint32_t
words_weight_range (const uint64_t *words, uint32_t b, uint32_t n)
{
  uint32_t sum = 0;

  while (n > 0) {
    const uint32_t take = MIN (n, 64 - (b & 63));

    sum += __builtin_popcountll (words[b >> 6] >> (b & 63) & low_mask (take));
    b += take;
    n -= take;
  }
  return sum;
}

/* ---- the cache ---- */

static void
entry_detach (struct sh_volume *v, struct zone_bits *e)
{
  if (e->next == e)
    v->hand = NULL;
  else {
    e->prev->next = e->next;
    e->next->prev = e->prev;
    if (v->hand == e)
      v->hand = e->next;
  }
  v->nr_bits--;
}

static void
entry_free (struct sh_volume *v, struct rzone *zone)
{
  struct zone_bits *const e = zone->bits;

  zone->bits = NULL;
  entry_detach (v, e);
  e->next = v->bits_pool;
  v->bits_pool = e;
}

/* Throws out one entry that can be read back; one turn of the hand clears the
   `used` marks, so two turns find any. */
static void
evict_one (struct sh_volume *v)
{
  uint32_t n;

  for (n = 2 * v->nr_bits; n > 0; --n) {
    struct zone_bits *const e = v->hand;
    struct rzone *const zone = &v->zones[e->zone];

    v->hand = e->next;
    if (e->used) {
      e->used = false;
      continue;
    }
    if (zone->refs > 0 || (zone->flags & (RZ_DIRTY | RZ_COMMIT | RZ_LOADING)))
      continue;
    entry_free (v, zone);
    zone->flags &= ~RZ_KNOWN;
    return;
  }
}

static struct zone_bits *
entry_new (struct sh_volume *v, uint32_t z)
{
  struct zone_bits *e;

  if (v->nr_bits >= v->max_bits)
    evict_one (v);              /* all pinned: the limit is soft, a commit is due */
  e = v->bits_pool;
  if (e != NULL)
    v->bits_pool = e->next;
  else {
    e = malloc (sizeof *e + (size_t) v->zone_words * sizeof e->words[0]);
    if (e == NULL)
      abort ();                 /* a few KiB; nothing sensible can follow */
  }
  e->zone = z;
  e->used = true;
  if (v->hand == NULL) {
    e->prev = e->next = e;
    v->hand = e;
  }
  else {
    e->next = v->hand;
    e->prev = v->hand->prev;
    e->prev->next = e->next->prev = e;
  }
  v->nr_bits++;
  v->zones[z].bits = e;
  return e;
}

/* The zone's bits as words; a zone without an entry gets one. */
static uint64_t *
expand (struct sh_volume *v, uint32_t z)
{
  struct rzone *const zone = &v->zones[z];

  assert (zone->flags & RZ_KNOWN);
  if (zone->bits == NULL) {
    struct zone_bits *const e = entry_new (v, z);

    memset (e->words, 0, (size_t) v->zone_words * sizeof e->words[0]);
    words_fill (e->words, 0, zone->weight, true);
  }
  zone->bits->used = true;
  return zone->bits->words;
}

void
bits_free_all (struct sh_volume *v)
{
  while (v->hand != NULL)
    entry_free (v, &v->zones[v->hand->zone]);
  while (v->bits_pool != NULL) {
    struct zone_bits *const e = v->bits_pool;

    v->bits_pool = e->next;
    free (e);
  }
}

/* ---- loading ---- */

static void
words_decode (uint64_t *words, const uint8_t *block, uint32_t nr_words, uint32_t nr_bits)
{
  uint32_t i;

  for (i = 0; i < nr_words; ++i)
    words[i] = get_le64 (block + 8 * (size_t) i);
  if (nr_bits < 64)
    words[0] &= low_mask (nr_bits);
}

/* Takes what was read.  Bits at or behind the write pointer that the drive had
   at open refer to data that is gone. */
static void
install_locked (struct sh_volume *v, uint32_t z, const uint8_t *block)
{
  struct rzone *const zone = &v->zones[z];
  uint64_t *const words = entry_new (v, z)->words;
  uint32_t prefix = 0;
  bool set;

  words_decode (words, block, v->zone_words, v->l.zone_blocks);
  zone->weight = words_weight (words, v->zone_words);
  zone->flags |= RZ_KNOWN;
  if ((zone->flags & RZ_UNCHECKED) && zone->wp < v->l.zone_blocks) {
    const uint32_t n = v->l.zone_blocks - zone->wp;
    const uint32_t gone = words_weight_range (words, zone->wp, n);

    if (gone > 0) {
      words_fill (words, zone->wp, n, false);
      zone->weight -= gone;
      if (!v->read_only) {
        bits_mark_dirty_locked (v, z);
        v->modified = true;
      }
    }
  }
  if (!v->read_only)
    zone->flags &= ~RZ_UNCHECKED;
  if (words_run (words, 0, v->l.zone_blocks, &set) == zone->weight && set)
    prefix = zone->weight;
  if (prefix == zone->weight)
    entry_free (v, zone);
}

int
bits_load (struct sh_volume *v, uint32_t z)
{
  struct rzone *const zone = &v->zones[z];
  const size_t len = (size_t) v->l.zbm * BLOCK_BYTES;
  uint8_t *block;
  uint64_t at;
  int r, e;

  while (zone->flags & RZ_LOADING)
    pthread_cond_wait (&v->loaded, &v->lock);
  if (zone->flags & RZ_KNOWN)
    return 0;
  zone->flags |= RZ_LOADING;
  at = layout_bitmap_block (&v->l, v->cur, z) * BLOCK_BYTES;
  pthread_mutex_unlock (&v->lock);
  block = aligned_alloc (BLOCK_BYTES, len);
  r = -1;
  if (block != NULL) {
    const struct iovec iov = { block, len };

    r = dev_rw (v, BDEV_READ, 0, at, &iov, 1, 0, NULL);
  }
  e = errno;
  pthread_mutex_lock (&v->lock);
  zone->flags &= ~RZ_LOADING;
  if (r == 0 && !(zone->flags & RZ_KNOWN))
    install_locked (v, z, block);
  pthread_cond_broadcast (&v->loaded);
  free (block);
  errno = e;
  return zone->flags & RZ_KNOWN ? 0 : -1;
}

int
bits_load_chunk (struct sh_volume *v, uint32_t c, struct map_entry *m)
{
  for (;;) {
    uint32_t z;

    *m = v->map[c];
    z = m->data;
    if (z == ZONE_NONE || (v->zones[z].flags & RZ_KNOWN))
      z = m->buffer;
    if (z == ZONE_NONE || (v->zones[z].flags & RZ_KNOWN))
      return 0;
    if (bits_load (v, z) == -1)
      return -1;
  }
}

/* ---- looking ---- */

bool
bits_test_locked (const struct sh_volume *v, uint32_t z, uint32_t b)
{
  const struct rzone *const zone = &v->zones[z];

  assert (zone->flags & RZ_KNOWN);
  if (zone->bits == NULL)
    return b < zone->weight;
  zone->bits->used = true;
  return zone->bits->words[b >> 6] >> (b & 63) & 1;
}

uint32_t
bits_run_locked (const struct sh_volume *v, uint32_t z, uint32_t b, uint32_t max,
                 bool *set)
{
  const struct rzone *const zone = &v->zones[z];

  assert (zone->flags & RZ_KNOWN);
  if (zone->bits != NULL) {
    zone->bits->used = true;
    return words_run (zone->bits->words, b, max, set);
  }
  *set = b < zone->weight;
  return *set ? MIN (max, zone->weight - b) : max;
}

bool
bits_all_set_locked (const struct sh_volume *v, uint32_t z, uint32_t b, uint32_t n)
{
  bool set;

  return bits_run_locked (v, z, b, n, &set) == n && set;
}

uint32_t
bits_end_locked (const struct sh_volume *v, uint32_t z)
{
  const struct rzone *const zone = &v->zones[z];
  uint32_t i;

  assert (zone->flags & RZ_KNOWN);
  if (zone->bits == NULL)
    return zone->weight;
  for (i = v->zone_words; i > 0; --i)
    if (zone->bits->words[i - 1] != 0)
      return i * 64 - __builtin_clzll (zone->bits->words[i - 1]);
  return 0;
}

void
bits_copy_locked (const struct sh_volume *v, uint32_t z, uint64_t *words)
{
  const struct rzone *const zone = &v->zones[z];

  assert (zone->flags & RZ_KNOWN);
  if (zone->bits != NULL)
    memcpy (words, zone->bits->words, (size_t) v->zone_words * sizeof *words);
  else {
    memset (words, 0, (size_t) v->zone_words * sizeof *words);
    words_fill (words, 0, zone->weight, true);
  }
}

/* ---- changing ---- */

void
bits_mark_dirty_locked (struct sh_volume *v, uint32_t z)
{
  if (v->zones[z].flags & RZ_DIRTY)
    return;
  v->zones[z].flags |= RZ_DIRTY;
  v->dirty[v->nr_dirty++] = z;
}

void
bits_set_locked (struct sh_volume *v, uint32_t z, uint32_t b, uint32_t n)
{
  struct rzone *const zone = &v->zones[z];
  uint64_t *words;
  uint32_t had;

  assert (zone->flags & RZ_KNOWN);
  if (zone->bits == NULL) {
    if (b + n <= zone->weight)
      return;
    if (b <= zone->weight) {    /* goes on where the prefix ends */
      zone->weight = b + n;
      bits_mark_dirty_locked (v, z);
      return;
    }
  }
  words = expand (v, z);
  had = words_weight_range (words, b, n);
  if (had == n)
    return;
  words_fill (words, b, n, true);
  zone->weight += n - had;
  bits_mark_dirty_locked (v, z);
}

void
bits_clear_locked (struct sh_volume *v, uint32_t z, uint32_t b, uint32_t n)
{
  struct rzone *const zone = &v->zones[z];
  uint64_t *words;
  uint32_t had;

  assert (zone->flags & RZ_KNOWN);
  if (zone->bits == NULL) {
    if (b >= zone->weight)
      return;
    if (b + n >= zone->weight) {        /* cuts the prefix's end off */
      zone->weight = b;
      bits_mark_dirty_locked (v, z);
      return;
    }
  }
  words = expand (v, z);
  had = words_weight_range (words, b, n);
  if (had == 0)
    return;
  words_fill (words, b, n, false);
  zone->weight -= had;
  bits_mark_dirty_locked (v, z);
  if (zone->weight == 0)
    entry_free (v, zone);
}

void
bits_zero_locked (struct sh_volume *v, uint32_t z)
{
  struct rzone *const zone = &v->zones[z];

  if (zone->bits != NULL)
    entry_free (v, zone);
  zone->weight = 0;
  zone->flags |= RZ_KNOWN;
  zone->flags &= ~RZ_UNCHECKED;
  bits_mark_dirty_locked (v, z);
}

void
bits_replace_locked (struct sh_volume *v, uint32_t z, const uint64_t *words)
{
  struct rzone *const zone = &v->zones[z];
  const uint32_t weight = words_weight (words, v->zone_words);
  bool set;

  bits_zero_locked (v, z);
  if (weight == 0)
    return;
  zone->weight = weight;
  if (words_run (words, 0, v->l.zone_blocks, &set) == weight && set)
    return;
  memcpy (entry_new (v, z)->words, words, (size_t) v->zone_words * sizeof *words);
}
