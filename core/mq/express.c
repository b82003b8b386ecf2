/* SPDX-License-Identifier: BSD-3-Clause */
/* Beginning and ending the express path; see express.h. */
#include <config.h>
#include "base/bytes.h"
#include "mq/express.h"

#define AGAIN_NS (100 * NS_PER_MS)      /* after classes were mixed */

/* What is fixed or seldom changes. */
static bool
allowed (struct mq *mq)
{
  return atomic_load (&mq->park_below) > 0 && atomic_load (&mq->run) == MQ_RUN_OWN &&
    atomic_load (&mq->headroom) == 0 && !atomic_load (&mq->async_limited) &&
    atomic_load (&mq->depth) >= tagset_depth (mq->set) && tag_user_is_alone (mq->user);
}

/* Another class is inside, or may be. */
static bool
others_inside (uint64_t state, enum dl_class class)
{
  unsigned c;

  for (c = 0; c < DL_NR_CLASSES; ++c)
    if (c != class && (STATE_COUNT (state, c) || state & STATE_APART (c)))
      return true;
  return false;
}

void
express_consider (struct mq *mq, struct hwq *hwq, enum dl_class class)
{
  uint64_t state = atomic_load (&mq->state), mixed_ns = atomic_load (&mq->mixed_ns);

  if (state & STATE_EXPRESS)
    return;
  express_note_hwq (mq, hwq);
  if (!allowed (mq))
    return;
  if (mixed_ns && sh_now (mq->clock) - mixed_ns < AGAIN_NS)
    return;
  do
    if (state & (STATE_EXPRESS | STATE_QUEUED) || others_inside (state, class))
      return;
  while (!atomic_compare_exchange_weak (&mq->state, &state,
                                        state | STATE_EXPRESS | STATE_APART (class)));
  if (!allowed (mq))            /* any more: whoever forbade it may not have seen us */
    express_end (mq, false);
}

void
express_end (struct mq *mq, bool mixed)
{
  if (mixed)
    atomic_store (&mq->mixed_ns, sh_now (mq->clock));
  atomic_fetch_and (&mq->state, ~STATE_EXPRESS);
  express_unpark_all (mq);
}

/* Half the tags at most are parked, by the hwqs seen so far. */
void
express_note_hwq (struct mq *mq, struct hwq *hwq)
{
  const unsigned n = (unsigned) (hwq - mq->hwq) + 1, depth = tagset_depth (mq->set);
  unsigned seen = atomic_load (&mq->hwqs_seen), words;

  while (n > seen && !atomic_compare_exchange_weak (&mq->hwqs_seen, &seen, n))
    ;
  words = MIN (depth / (2 * PARKED_LANES * MAX (n, seen)), PARKED_WORDS);
  atomic_store (&mq->park_words, words);
  atomic_store (&mq->park_below, words ? depth : 0);
}

/* A whole word at once, where all of it is wanted. */
unsigned
express_tags (struct hwq *hwq, int *tags, unsigned n)
{
  unsigned got = 0, i;
  int tag;

  for (i = 0; i < PARKED_WORDS && got < n; ++i) {
    uint64_t parked = n - got < PARKED_LANES ? 0 : atomic_exchange (&hwq->parked[i], 0);

    for (; parked; parked >>= 16)
      tags[got++] = (int) (parked & 0xffff) - 1;
    while (n - got < PARKED_LANES && got < n && (tag = express_pop (&hwq->parked[i])) != -1)
      tags[got++] = tag;
  }
  return got;
}

unsigned
express_park_several (struct mq *mq, struct hwq *hwq, const int *tags, unsigned n)
{
  const unsigned words = atomic_load_explicit (&mq->park_words, memory_order_relaxed);
  unsigned kept = 0, i;

  for (i = 0; i < words && n - kept >= PARKED_LANES; ++i) {
    uint64_t empty = 0, full = 0;
    unsigned k;

    for (k = 0; k < PARKED_LANES && express_may_park (mq, tags[kept + k]); ++k)
      full = full << 16 | (unsigned) (tags[kept + k] + 1);
    if (k == PARKED_LANES && atomic_load_explicit (&hwq->parked[i], memory_order_relaxed) == 0 &&
        atomic_compare_exchange_strong (&hwq->parked[i], &empty, full))
      kept += PARKED_LANES;
  }
  if (kept)
    express_note_parked (mq);
  while (kept < n && express_park (mq, hwq, tags[kept]))
    ++kept;
  return kept;
}

void
express_unpark_hwq (struct mq *mq, struct hwq *hwq)
{
  int tag;

  while ((tag = express_tag (hwq)) != -1)
    tag_put (mq->user, tag);
}

void
express_unpark_all (struct mq *mq)
{
  unsigned i;

  if (!atomic_load (&mq->parked_any) || !atomic_exchange (&mq->parked_any, false))
    return;
  for (i = 0; i < mq->nr_hwqs; ++i)
    express_unpark_hwq (mq, &mq->hwq[i]);
}

unsigned
express_inside (struct mq *mq, enum dl_class class)
{
  uint64_t n = 0;
  unsigned i;

  for (i = 0; i < mq->nr_hwqs; ++i)
    n -= atomic_load (&mq->hwq[i].apart_ended[class]);
  for (i = 0; i < mq->nr_hwqs; ++i)
    n += atomic_load (&mq->hwq[i].apart_begun[class]);
  return (unsigned) n;
}

void
express_look (struct mq *mq)
{
  uint64_t state = atomic_load (&mq->state);
  unsigned c;

  for (c = 0; c < DL_NR_CLASSES; ++c)
    if (!(state & STATE_EXPRESS) && state & STATE_APART (c) && express_inside (mq, c) == 0)
      atomic_compare_exchange_strong (&mq->state, &state, state & ~STATE_APART (c));
}
