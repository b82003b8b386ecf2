/* SPDX-License-Identifier: BSD-3-Clause */
/* Counters. */
#ifndef SHINGLE_MQ_COUNT_H
#define SHINGLE_MQ_COUNT_H

#include <stdatomic.h>
#include <stdint.h>

static inline void
mq_count (atomic_ullong *counter)
{
  atomic_fetch_add_explicit (counter, 1, memory_order_relaxed);
}

/* One that only the dispatcher changes. */
static inline void
mq_count_alone (atomic_ullong *counter)
{
  const uint64_t n = atomic_load_explicit (counter, memory_order_relaxed);

  atomic_store_explicit (counter, n + 1, memory_order_relaxed);
}

/* The same for what is only told, and decides nothing: what counting costs is what a build
   without these (mq-bench has one) is faster by. */
#ifdef MQ_UNCOUNTED
#define MQ_TELLS 0
#else
#define MQ_TELLS 1
#endif

static inline void
mq_tell (atomic_ullong *counter)
{
  if (MQ_TELLS)
    mq_count (counter);
}

static inline void
mq_tell_alone (atomic_ullong *counter)
{
  if (MQ_TELLS)
    mq_count_alone (counter);
}

static inline void
mq_tell_longest (atomic_ullong *longest, uint64_t ns)
{
  if (MQ_TELLS && ns > atomic_load_explicit (longest, memory_order_relaxed))
    atomic_store_explicit (longest, ns, memory_order_relaxed);
}

#endif
