/* SPDX-License-Identifier: BSD-3-Clause */
/* Backends without anything behind them, to measure the FUSE front end:
 * "memory" keeps the bytes, "nothing" answers at once and keeps none. */
#ifndef BENCH_BACKEND_MEMORY_H
#define BENCH_BACKEND_MEMORY_H

#include "backend.h"

struct sh_error;

int backend_memory_open (uint64_t size_bytes, struct backend **b, struct sh_error *err);
int backend_nothing_open (uint64_t size_bytes, struct backend **b, struct sh_error *err);

#endif
