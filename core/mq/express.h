/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The express path: requests that touch nothing which their hwq shares with others.
 *
 * Threads that count in one word and take tags from one map pay for each other's
 * cache lines, whatever they do else.  While one queue has its tag set for itself,
 * one class is in use and nothing is queued, none of that decides anything.  So
 * then a request is counted *apart*, by its hwq, and a completion *parks* its tag in
 * the hwq, where the next request finds it.
 *
 * STATE_EXPRESS says that requests may do so; STATE_APART (class) that some of the
 * class may be inside.  Both are seldom changed, so that the word `state` stays in
 * every processor's cache.  A request of another class, a second user of the tag
 * set, a limit or a change of options ends it (express_end); some requests in a
 * row, and 100 ms after the last mixture of classes, begin it again.
 *
 * Why nothing hangs.  A completion parks the tag, then reads `state`; whoever sets
 * STATE_QUEUED or ends the express path afterwards takes back what is parked
 * (express_unpark_all).  All are sequentially consistent, so one of both sees
 * the other: the tag is taken back, or the completion gives it back and runs the
 * queue.  `parked_any` is handed over in the same way.
 *
 * A request that was already on its way when a higher class came in is as one
 * that came a moment earlier.
 */
#ifndef MQ_EXPRESS_H
#define MQ_EXPRESS_H

#include "mq/internal.h"

#define EXPRESS_STREAK 64       /* requests of an hwq, before it asks for the express path */

/* Begins the express path for a class that the hwq is used for, if nothing speaks
   against it. */
void express_consider (struct mq *mq, struct hwq *hwq, enum dl_class class);

/* Ends it; `mixed` because two classes are in use. */
void express_end (struct mq *mq, bool mixed);

/* The first request of an hwq that goes apart. */
void express_note_hwq (struct mq *mq, struct hwq *hwq);

/* Parked tags go back to the map: of all hwqs; of one. */
void express_unpark_all (struct mq *mq);
void express_unpark_hwq (struct mq *mq, struct hwq *hwq);

/* Requests of a class that are inside and counted apart. */
unsigned express_inside (struct mq *mq, enum dl_class class);

/* The dispatcher: nothing is left apart when that can be seen. */
void express_look (struct mq *mq);

/* Words of parked tags: four of 16 bits each (tag + 1, the latest lowest, 0: none). */
#define PARKED_LANES 4u

static inline int
express_pop (atomic_ullong *word)
{
  uint64_t parked = atomic_load_explicit (word, memory_order_relaxed);

  while (parked)
    if (atomic_compare_exchange_weak (word, &parked, parked >> 16))
      return (int) (parked & 0xffff) - 1;
  return -1;
}

/* A parked tag of the hwq, or -1. */
static inline int
express_tag (struct hwq *hwq)
{
  unsigned i;
  int tag;

  for (i = 0; i < PARKED_WORDS; ++i)
    if ((tag = express_pop (&hwq->parked[i])) != -1)
      return tag;
  return -1;
}

/* May requests of the class go apart? */
static inline bool
express_is_open (uint64_t state, enum dl_class class)
{
  const uint64_t open = STATE_EXPRESS | STATE_APART (class);

  return (state & (STATE_QUEUED | open)) == open;
}

/* Those who take back look after the tags have been parked, or we know (above). */
static inline void
express_note_parked (struct mq *mq)
{
  if (!atomic_load (&mq->parked_any))
    atomic_store (&mq->parked_any, true);
}

static inline bool
express_may_park (struct mq *mq, int tag)
{
  return (unsigned) tag < atomic_load_explicit (&mq->park_below, memory_order_relaxed);
}

/* Keeps a tag for the hwq's next request; false: give it back. */
static inline bool
express_park (struct mq *mq, struct hwq *hwq, int tag)
{
  const unsigned words = atomic_load_explicit (&mq->park_words, memory_order_relaxed);
  unsigned i;

  if (!express_may_park (mq, tag))
    return false;
  for (i = 0; i < words; ++i) {
    uint64_t parked = atomic_load_explicit (&hwq->parked[i], memory_order_relaxed);

    while (parked >> 16 * (PARKED_LANES - 1) == 0)
      if (atomic_compare_exchange_weak (&hwq->parked[i], &parked,
                                        parked << 16 | (unsigned) (tag + 1))) {
        express_note_parked (mq);
        return true;
      }
  }
  return false;
}

/* Of several: up to n tags; how many were kept (from the first on). */
unsigned express_tags (struct hwq *hwq, int *tags, unsigned n);
unsigned express_park_several (struct mq *mq, struct hwq *hwq, const int *tags, unsigned n);

#endif
