/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The invariants of a running volume, for tests: after each step, and while
 * other threads work.
 */
#include <config.h>
#include <stdlib.h>
#include <string.h>
#include "zoned/running.h"

/* Every zone is in one place: its state, its list, its chunk agree. */
static const char *
check_list (const struct sh_volume *v, const struct zone_list *l, uint8_t *seen,
            enum zone_state state, const char *what)
{
  uint32_t z = l->head, n;

  for (n = 0; n < l->count; ++n, z = v->zones[z].next) {
    if (z >= v->l.nr_zones)
      return what;
    if (seen[z] || v->zones[z].state != state || v->zones[z].chunk != CHUNK_NONE)
      return what;
    seen[z] = 1;
  }
  return l->count > 0 && l->tail >= v->l.nr_zones ? what : NULL;
}

static const char *
check_lists (const struct sh_volume *v, uint8_t *seen)
{
  const char *w = check_list (v, &v->free_random, seen, ZS_FREE, "list of free random zones");

  if (w == NULL)
    w = check_list (v, &v->free_seq, seen, ZS_FREE, "list of free seq zones");
  if (w == NULL)
    w = check_list (v, &v->unreset, seen, ZS_FREE, "list of zones to reset");
  if (w == NULL)
    w = check_list (v, &v->pending, seen, ZS_PENDING, "list of pending zones");
  if (w == NULL)
    w = check_list (v, &v->committing, seen, ZS_PENDING, "list of committing zones");
  return w;
}

static const char *
check_map (const struct sh_volume *v, uint8_t *seen)
{
  uint32_t c, mapped = 0, buffered = 0;

  for (c = 0; c < v->l.nr_chunks; ++c) {
    const struct map_entry m = v->map[c];

    if (m.data == ZONE_NONE) {
      if (m.buffer != ZONE_NONE)
        return "unmapped chunk with a buffer zone";
      continue;
    }
    mapped++;
    buffered += m.buffer != ZONE_NONE;
    if (chunk_is_bad (v, c))
      continue;
    if (seen[m.data]++ || v->zones[m.data].state != ZS_DATA || v->zones[m.data].chunk != c)
      return "data zone is used twice, or does not know it";
    if (m.buffer == ZONE_NONE)
      continue;
    if (seen[m.buffer]++ || v->zones[m.buffer].state != ZS_BUFFER ||
        v->zones[m.buffer].chunk != c)
      return "buffer zone is used twice, or does not know it";
    if (is_seq (v, m.buffer) || !is_seq (v, m.data))
      return "buffer zone of the wrong kind";
  }
  return mapped == v->nr_mapped && buffered == v->nr_buffered ? NULL : "counts of chunks";
}

static const char *
check_rest (const struct sh_volume *v, const uint8_t *seen)
{
  uint32_t z, released = 0;

  for (z = 0; z < v->l.nr_zones; ++z) {
    const struct rzone *const zone = &v->zones[z];

    released += (zone->flags & RZ_RELEASED) != 0;
    if (!seen[z] && zone->state != ZS_META && zone->state != ZS_UNUSABLE &&
        zone->state != ZS_TARGET && !(zone->flags & RZ_RELEASED))
      return "zone is in no list";
    if (seen[z] > 1)
      return "zone is in two places";
    if ((zone->flags & RZ_SEQ) && zone->wp > v->l.zone_blocks)
      return "write pointer outside its zone";
  }
  return released == v->nr_waiting_readers ? NULL : "count of zones that readers hold";
}

static const char *
check_weight (const struct sh_volume *v, uint32_t z)
{
  const struct rzone *const zone = &v->zones[z];

  if (zone->bits != NULL &&
      words_weight (zone->bits->words, v->zone_words) != zone->weight)
    return "weight is not the number of bits";
  if ((zone->flags & RZ_SEQ) && !(zone->flags & (RZ_READ_ONLY | RZ_OFFLINE)) &&
      bits_end_locked (v, z) > zone->wp)
    return "bit behind the write pointer";
  return NULL;
}

static const char *
check_chunk (struct sh_volume *v, uint32_t c)
{
  struct map_entry m;
  const char *w;
  uint32_t b, n;
  bool set;

  if (chunk_is_bad (v, c))
    return NULL;
  if (bits_load_chunk (v, c, &m) == -1)
    return "a bitmap cannot be read";
  if (m.data == ZONE_NONE)
    return NULL;
  w = check_weight (v, m.data);
  if (w == NULL && m.buffer != ZONE_NONE)
    w = check_weight (v, m.buffer);
  if (w != NULL || m.buffer == ZONE_NONE)
    return w;
  for (b = 0; b < v->l.zone_blocks; b += n) {
    uint32_t k;

    n = bits_run_locked (v, m.data, b, v->l.zone_blocks - b, &set);
    if (!set)
      continue;
    k = bits_run_locked (v, m.buffer, b, n, &set);
    if (set || k < n)
      return "block is valid in both zones of its chunk";
  }
  return NULL;
}

static const char *
check_cache (const struct sh_volume *v)
{
  const struct zone_bits *e = v->hand;
  uint32_t n = 0, dirty = 0, z;

  while (e != NULL && n < v->nr_bits) {
    if (v->zones[e->zone].bits != e || e->next->prev != e)
      return "bitmap cache is broken";
    n++;
    e = e->next;
  }
  if (e != v->hand || n != v->nr_bits)
    return "count of cached bitmaps";
  for (z = 0; z < v->l.nr_zones; ++z)
    dirty += (v->zones[z].flags & RZ_DIRTY) != 0;
  return dirty == v->nr_dirty ? NULL : "list of dirty bitmaps";
}

const char *
volume_verify (struct sh_volume *v)
{
  uint8_t *const seen = calloc (1, v->l.nr_zones);
  const char *w;
  uint32_t c;

  if (seen == NULL)
    return "no memory";
  pthread_mutex_lock (&v->lock);
  w = check_lists (v, seen);
  if (w == NULL)
    w = check_map (v, seen);
  if (w == NULL)
    w = check_rest (v, seen);
  if (w == NULL)
    w = check_cache (v);
  for (c = 0; c < v->l.nr_chunks && w == NULL; ++c)
    w = check_chunk (v, c);
  pthread_mutex_unlock (&v->lock);
  free (seen);
  return w;
}
