/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How long a command takes: scsi_debug's delay and ndelay, or a model:
 *
 *   fixed  N units, each serving one command at a time for latency_us
 *   disk   one arm: seek (square root of the distance, up to seek_us), half
 *          a turn, transfer (the inner edge at half the outer edge's rate);
 *          a command that begins where the last one ended pays the transfer only
 *
 * With sleep=0 nobody waits and the time is only added up in the counter
 * virtual-ns.
 */
#include <config.h>
#include <math.h>
#include <stdlib.h>
#include "base/clock.h"
#include "transport/emu/internal.h"

#define TICK_NS (4 * NS_PER_MS)

void
time_init (struct emu *emu)
{
  emu->time.clock = &sh_clock_monotonic;
  emu->time.random_state = 1;
  pthread_mutex_init (&emu->time.lock, NULL);
}

void
time_fini (struct emu *emu)
{
  pthread_mutex_destroy (&emu->time.lock);
  free (emu->time.unit_free_ns);
}

uint64_t
emu_now_ns (const struct emu *emu)
{
  return sh_now (emu->time.clock);
}

void
emu_sleep_ns (struct emu *emu, uint64_t ns)
{
  if (ns != 0)
    sh_sleep (emu->time.clock, ns);
}

void
emu_set_clock (struct emu *emu, const struct sh_clock *clock)
{
  emu->time.clock = clock ? clock : &sh_clock_monotonic;
  emu_power_on (emu);
}

bool
time_active (const struct emu *emu)
{
  return emu->s.ndelay_ns != 0 || emu->s.delay_ticks != 0 ||
    emu->s.time_model != EMU_TIME_NONE;
}

/* ---- delay and ndelay ---- */

static uint64_t
random_below_locked (struct time_state *ts, uint64_t n)
{
  ts->random_state = ts->random_state * UINT64_C (6364136223846793005) + 1;
  return n ? (ts->random_state >> 16) % n : 0;
}

static uint64_t
delay_ns (struct emu *emu, const struct op *op)
{
  const struct emu_settings *s = &emu->s;
  uint64_t ns = s->ndelay_ns ? s->ndelay_ns
    : s->delay_ticks > 0 ? (uint64_t) s->delay_ticks * TICK_NS : 0;

  if (op->flags & (OP_SLOW | OP_FLUSH) && (s->delay_ticks > 0 || s->ndelay_ns > 10000)) {
    ns = s->delay_ticks > 1 ? (uint64_t) s->delay_ticks * NS_PER_S : NS_PER_S;
    if (op->flags & OP_FLUSH)
      ns /= 20;
  }
  else if (s->random) {
    pthread_mutex_lock (&emu->time.lock);
    ns = random_below_locked (&emu->time, ns);
    pthread_mutex_unlock (&emu->time.lock);
  }
  return ns;
}

/* ---- the models: when the command is done ---- */

static uint64_t
fixed_end_locked (struct emu *emu, uint64_t now_ns)
{
  struct time_state *ts = &emu->time;
  uint64_t *unit;
  uint32_t i;

  if (ts->unit_free_ns == NULL)
    ts->unit_free_ns = calloc (4096, sizeof ts->unit_free_ns[0]);
  if (ts->unit_free_ns == NULL)
    return now_ns + emu->s.latency_us * NS_PER_US;
  unit = &ts->unit_free_ns[0];
  for (i = 1; i < emu->s.units; ++i)
    if (ts->unit_free_ns[i] < *unit)
      unit = &ts->unit_free_ns[i];
  *unit = MAX (*unit, now_ns) + emu->s.latency_us * NS_PER_US;
  return *unit;
}

static uint64_t
transfer_ns (const struct emu *emu, uint64_t lba, uint64_t blocks)
{
  const double place = (double) lba / (double) emu->nr_blocks;
  const double rate = emu->s.transfer_mbps * 1e6 * (1.0 - place / 2);

  return (uint64_t) ((double) blocks_to_bytes (emu, blocks) / rate * 1e9);
}

static uint64_t
seek_ns (struct emu *emu, uint64_t lba)
{
  const uint64_t from = emu->time.head_lba;
  const uint64_t distance = from > lba ? from - lba : lba - from;
  const uint64_t turn_ns = emu->s.rotation_rate > 1 ? 60 * NS_PER_S / emu->s.rotation_rate : 0;

  if (distance == 0)
    return 0;
  count (emu, CNT_SEEKS, 1);
  return (uint64_t) (sqrt ((double) distance / (double) emu->nr_blocks) *
                     emu->s.seek_us * 1e3) + turn_ns / 2;
}

static uint64_t
disk_end_locked (struct emu *emu, const struct task *t, uint64_t now_ns)
{
  struct time_state *ts = &emu->time;

  ts->head_free_ns = MAX (ts->head_free_ns, now_ns) + seek_ns (emu, t->lba) +
    transfer_ns (emu, t->lba, t->blocks);
  ts->head_lba = t->lba + t->blocks;
  return ts->head_free_ns;
}

/* The models know about media commands only. */
static uint64_t
model_ns (struct emu *emu, const struct task *t)
{
  const bool rw = t->op->flags & (OP_READ | OP_WRITE);
  const uint64_t now_ns = emu_now_ns (emu);
  uint64_t end_ns = now_ns;

  pthread_mutex_lock (&emu->time.lock);
  if (emu->s.time_model == EMU_TIME_FIXED && t->op->flags & OP_MEDIA)
    end_ns = fixed_end_locked (emu, now_ns);
  else if (emu->s.time_model == EMU_TIME_DISK && rw && t->blocks != 0)
    end_ns = disk_end_locked (emu, t, now_ns);
  pthread_mutex_unlock (&emu->time.lock);
  return end_ns - now_ns;
}

void
time_spend (struct task *t, uint64_t started_ns)
{
  struct emu *emu = t->emu;
  const struct emu_settings *s = &emu->s;
  uint64_t ns, spent_ns;

  if (!time_active (emu) || t->op->flags & OP_AT_ONCE)
    return;
  ns = s->time_model != EMU_TIME_NONE ? model_ns (emu, t) : delay_ns (emu, t->op);
  count (emu, CNT_VIRTUAL_NS, ns);
  if (!s->sleep)
    return;
  /* Short durations begin with the command's arrival. */
  spent_ns = s->time_model == EMU_TIME_NONE && ns < NS_PER_MS
    ? emu_now_ns (emu) - started_ns : 0;
  if (ns > spent_ns)
    emu_sleep_ns (emu, ns - spent_ns);
}
