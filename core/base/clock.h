/* SPDX-License-Identifier: BSD-3-Clause */
/* Time comes from outside, so that tests step it. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <pthread.h>
#include <stdint.h>

#define NS_PER_US UINT64_C (1000)
#define NS_PER_MS UINT64_C (1000000)
#define NS_PER_S  UINT64_C (1000000000)

struct sh_clock {
  /* Nanoseconds from some fixed start; never goes back. */
  uint64_t (*now_ns) (void *opaque);
  /* As pthread_cond_timedwait, against this clock; 0 or ETIMEDOUT, and may
     wake early.  The condition was made by sh_cond_init. */
  int (*cond_wait_until) (void *opaque, pthread_cond_t *cond,
                          pthread_mutex_t *mutex, uint64_t deadline_ns);
  void (*sleep_ns) (void *opaque, uint64_t ns);
  void *opaque;
};

/* CLOCK_MONOTONIC. */
extern const struct sh_clock sh_clock_monotonic;

/* A condition variable whose timed waits use CLOCK_MONOTONIC. */
void sh_cond_init (pthread_cond_t *cond);

static inline uint64_t
sh_now (const struct sh_clock *clock)
{
  return clock->now_ns (clock->opaque);
}

static inline int
sh_cond_wait_until (const struct sh_clock *clock, pthread_cond_t *cond,
                    pthread_mutex_t *mutex, uint64_t deadline_ns)
{
  return clock->cond_wait_until (clock->opaque, cond, mutex, deadline_ns);
}

static inline void
sh_sleep (const struct sh_clock *clock, uint64_t ns)
{
  clock->sleep_ns (clock->opaque, ns);
}

#endif
