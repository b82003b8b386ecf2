/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A bdev that passes everything on to another, keeps a log of the reads and writes
 * that pass, and holds them back, or some of them, while its gate is closed.
 */
#ifndef GATE_BDEV_H
#define GATE_BDEV_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/bdev.h"

#define GATE_LOG_MAX 4096

struct gate_entry {
  enum bdev_op op;
  uint64_t off_bytes, len_bytes;
};

struct gate {
  struct bdev bdev;             /* first: what others see */
  struct bdev *lower;           /* owned */
  pthread_mutex_t lock;         /* guards what follows */
  pthread_cond_t cond;
  bool closed;
  enum bdev_op only_op;         /* what it holds while closed, if only_end is not 0 */
  uint64_t only_from, only_end;
  unsigned waiting;             /* commands that stand before the closed gate */
  unsigned nr;                  /* of the log, as they passed the gate */
  struct gate_entry log[GATE_LOG_MAX];
};

struct gate *gate_new (struct bdev *lower);
void gate_close (struct gate *g);
/* Only commands of this kind that begin in [from, end) are held back and counted. */
void gate_close_for (struct gate *g, enum bdev_op op, uint64_t from, uint64_t end);
void gate_open (struct gate *g);
/* Returns when n commands stand before the gate. */
void gate_await (struct gate *g, unsigned n);

#endif
