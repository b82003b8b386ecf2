/* SPDX-License-Identifier: BSD-3-Clause */
#include <config.h>
#include <assert.h>
#include <errno.h>
#include <time.h>
#include "base/clock.h"

static struct timespec
to_timespec (uint64_t ns)
{
  return (struct timespec) { .tv_sec = ns / NS_PER_S, .tv_nsec = ns % NS_PER_S };
}

static uint64_t
monotonic_now (void *opaque)
{
  struct timespec ts;

  clock_gettime (CLOCK_MONOTONIC, &ts);
  return (uint64_t) ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

static int
monotonic_cond_wait_until (void *opaque, pthread_cond_t *cond,
                           pthread_mutex_t *mutex, uint64_t deadline_ns)
{
  const struct timespec ts = to_timespec (deadline_ns);
  const int r = pthread_cond_timedwait (cond, mutex, &ts);

  assert (r == 0 || r == ETIMEDOUT);
  return r;
}

static void
monotonic_sleep (void *opaque, uint64_t ns)
{
  struct timespec ts = to_timespec (ns);

  while (clock_nanosleep (CLOCK_MONOTONIC, 0, &ts, &ts) == EINTR)
    ;
}

const struct sh_clock sh_clock_monotonic = {
  .now_ns = monotonic_now,
  .cond_wait_until = monotonic_cond_wait_until,
  .sleep_ns = monotonic_sleep,
};

void
sh_cond_init (pthread_cond_t *cond)
{
  pthread_condattr_t attr;

  pthread_condattr_init (&attr);
  pthread_condattr_setclock (&attr, CLOCK_MONOTONIC);
  pthread_cond_init (cond, &attr);
  pthread_condattr_destroy (&attr);
}
