/* SPDX-License-Identifier: BSD-3-Clause */
#undef NDEBUG
#include <config.h>
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include "base/bytes.h"
#include "history.h"

static uint64_t
hash_sector (const uint8_t *sector)
{
  uint64_t h = UINT64_C (0xcbf29ce484222325), a, b;
  size_t i;

  for (i = 0; i < 512; i += 16) {
    memcpy (&a, sector + i, 8);
    memcpy (&b, sector + i + 8, 8);
    h = (h ^ a) * UINT64_C (0x9e3779b97f4a7c15);
    h = (h ^ (h >> 29) ^ b) * UINT64_C (0xbf58476d1ce4e5b9);
  }
  return h ^ (h >> 31);
}

static void
hash_block (const uint8_t *block, uint64_t hash[SECTORS])
{
  int i;

  for (i = 0; i < SECTORS; ++i)
    hash[i] = hash_sector (block + i * 512);
}

static struct version *
add (struct block_history *b)
{
  if (b->nr == b->room) {
    b->room = b->room ? 2 * b->room : 4;
    b->versions = realloc (b->versions, b->room * sizeof b->versions[0]);
    assert (b->versions != NULL);
  }
  return &b->versions[b->nr++];
}

void
history_init (struct history *h, uint64_t nr_blocks)
{
  static const uint8_t zeroes[4096];
  struct version zero = { .ended = true };
  uint64_t i;

  hash_block (zeroes, zero.hash);
  h->nr_blocks = nr_blocks;
  h->blocks = calloc (nr_blocks, sizeof h->blocks[0]);
  assert (h->blocks != NULL);
  for (i = 0; i < nr_blocks; ++i)
    *add (&h->blocks[i]) = zero;
}

void
history_free (struct history *h)
{
  uint64_t i;

  for (i = 0; i < h->nr_blocks; ++i)
    free (h->blocks[i].versions);
  free (h->blocks);
}

void
history_begin (struct history *h, uint64_t first, uint64_t nr, const uint8_t *model,
               size_t now)
{
  uint64_t i;

  for (i = first; i < first + nr; ++i) {
    struct version *const v = add (&h->blocks[i]);

    *v = (struct version) { .begun = now, .durable = SIZE_MAX };
    hash_block (model + i * 4096, v->hash);
  }
}

void
history_end (struct history *h, uint64_t first, uint64_t nr, bool durable, size_t now)
{
  uint64_t i;

  for (i = first; i < first + nr; ++i) {
    struct version *const v = &h->blocks[i].versions[h->blocks[i].nr - 1];

    v->ended = true;
    if (durable)
      v->durable = now;
  }
}

void
history_flush_begin (struct history *h, uint32_t *marks)
{
  uint64_t i;

  for (i = 0; i < h->nr_blocks; ++i) {
    const struct block_history *const b = &h->blocks[i];

    marks[i] = b->versions[b->nr - 1].ended ? b->nr : b->nr - 1;
  }
}

void
history_flush_end (struct history *h, const uint32_t *marks, size_t now)
{
  uint64_t i;

  for (i = 0; i < h->nr_blocks; ++i) {
    struct version *const v = &h->blocks[i].versions[marks[i] - 1];

    v->durable = MIN (v->durable, now);
  }
}

static bool
sectors_allowed (const struct block_history *block, const uint64_t hash[SECTORS],
                 int first, int nr, size_t k)
{
  uint32_t i;

  for (i = block->nr; i-- > 0;) {
    const struct version *const v = &block->versions[i];

    if (v->begun > k)
      continue;
    if (memcmp (v->hash + first, hash + first, nr * sizeof hash[0]) == 0)
      return true;
    if (v->durable <= k)
      return false;
  }
  return false;
}

bool
history_allows (const struct history *h, uint64_t b, const uint8_t *content, size_t k,
                bool torn)
{
  uint64_t hash[SECTORS];
  int i;

  hash_block (content, hash);
  if (!torn)
    return sectors_allowed (&h->blocks[b], hash, 0, SECTORS, k);
  for (i = 0; i < SECTORS; ++i)
    if (!sectors_allowed (&h->blocks[b], hash, i, 1, k))
      return false;
  return true;
}
