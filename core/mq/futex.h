/* SPDX-License-Identifier: BSD-3-Clause */
/* Sleeping on a 32-bit word until somebody changes it and says so. */
#ifndef MQ_FUTEX_H
#define MQ_FUTEX_H

#include <linux/futex.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Sleeps while *word == value, at most ns; may return early. */
static inline void
futex_wait (_Atomic uint32_t *word, uint32_t value, uint64_t ns, bool shared)
{
  const struct timespec ts = { .tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000 };

  syscall (SYS_futex, word, shared ? FUTEX_WAIT : FUTEX_WAIT_PRIVATE, value, &ts, NULL, 0);
}

static inline void
futex_wake_one (_Atomic uint32_t *word, bool shared)
{
  syscall (SYS_futex, word, shared ? FUTEX_WAKE : FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

#endif
