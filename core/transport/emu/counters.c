/* SPDX-License-Identifier: BSD-3-Clause */
/* Counters, in a few shards so that threads do not share cache lines. */
#include <config.h>
#include <string.h>
#include "transport/emu/internal.h"

static const char *const names[CNT_OPS] = {
  [CNT_COMMANDS] = "commands",
  [CNT_READ_BYTES] = "read-bytes",
  [CNT_WRITTEN_BYTES] = "written-bytes",
  [CNT_ZONE_RESETS] = "zones-reset",
  [CNT_IMPLICIT_CLOSES] = "zones-closed-for-room",
  [CNT_CHECK_CONDITIONS] = "check-conditions",
  [CNT_FAULTS] = "faults-injected",
  [CNT_SEEKS] = "seeks",
  [CNT_VIRTUAL_NS] = "virtual-ns",
  [CNT_POWER_CUTS] = "power-cuts",
  [CNT_LOST_UNITS] = "units-lost",
  [CNT_UNKNOWN_OPCODES] = "unknown-opcodes",
  [CNT_FUA_WRITES] = "fua-writes",
};

/* Threads take shards in turn as they first count. */
static unsigned
my_shard (void)
{
  static _Atomic unsigned next;
  static _Thread_local unsigned shard = NR_COUNTER_SHARDS;

  if (shard == NR_COUNTER_SHARDS)
    shard = atomic_fetch_add_explicit (&next, 1, memory_order_relaxed) % NR_COUNTER_SHARDS;
  return shard;
}

static _Atomic uint64_t *
cell (const struct emu *emu, unsigned shard, unsigned id)
{
  return &emu->counters.values[shard * NR_COUNTERS + id];
}

void
count (struct emu *emu, unsigned id, uint64_t n)
{
  if (emu->s.statistics)
    atomic_fetch_add_explicit (cell (emu, my_shard (), id), n, memory_order_relaxed);
}

static uint64_t
total (const struct emu *emu, unsigned id)
{
  uint64_t sum = 0;
  unsigned shard;

  for (shard = 0; shard < NR_COUNTER_SHARDS; ++shard)
    sum += atomic_load_explicit (cell (emu, shard, id), memory_order_relaxed);
  return sum;
}

static const char *
name_of (unsigned id)
{
  if (id < CNT_OPS)
    return names[id];
  return id - CNT_OPS < emu_nr_ops ? emu_ops[id - CNT_OPS].name : NULL;
}

void
emu_counters (struct emu *emu, bool all,
              void (*fn) (void *opaque, const char *name, uint64_t value), void *opaque)
{
  unsigned id;

  for (id = 0; id < NR_COUNTERS; ++id) {
    const char *name = name_of (id);
    const uint64_t value = total (emu, id);

    if (name && (all || value != 0))
      fn (opaque, name, value);
  }
}

uint64_t
emu_counter (struct emu *emu, const char *name)
{
  unsigned id;

  for (id = 0; id < NR_COUNTERS; ++id)
    if (name_of (id) && strcmp (name_of (id), name) == 0)
      return total (emu, id);
  return 0;
}

void
emu_counters_reset (struct emu *emu)
{
  unsigned i;

  for (i = 0; i < NR_COUNTERS * NR_COUNTER_SHARDS; ++i)
    atomic_store_explicit (&emu->counters.values[i], 0, memory_order_relaxed);
}
