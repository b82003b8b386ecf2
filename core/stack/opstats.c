/* SPDX-License-Identifier: BSD-3-Clause */
#include <config.h>
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/bytes.h"
#include "stack/opstats.h"

struct cell {
  _Atomic uint64_t ops, bytes, errors, latency_ns;
  _Atomic uint64_t buckets[OPSTAT_BUCKETS];
};

struct place {
  char name[64];                /* guarded by lock */
  bool used, present;           /* guarded by lock */
  struct cell cells[OPSTAT_NR_OPS];     /* anyone, atomically */
};

struct opstats {
  pthread_mutex_t lock;
  struct place places[OPSTAT_CLIENTS];
};

struct opstats *
opstats_new (void)
{
  struct opstats *s = calloc (1, sizeof *s);

  if (s) {
    pthread_mutex_init (&s->lock, NULL);
    strcpy (s->places[OPSTAT_OTHERS].name, "others");
    s->places[OPSTAT_OTHERS].used = true;
  }
  return s;
}

void
opstats_free (struct opstats *s)
{
  if (s) {
    pthread_mutex_destroy (&s->lock);
    free (s);
  }
}

static void
add (_Atomic uint64_t *to, uint64_t n)
{
  if (n > 0)
    atomic_fetch_add_explicit (to, n, memory_order_relaxed);
}

static void
move (_Atomic uint64_t *to, _Atomic uint64_t *from)
{
  add (to, atomic_exchange_explicit (from, 0, memory_order_relaxed));
}

/* Empties a place whose client has gone. */
static void
fold_locked (struct opstats *s, struct place *p)
{
  unsigned op, i;

  for (op = 0; op < OPSTAT_NR_OPS; ++op) {
    struct cell *from = &p->cells[op];
    struct cell *to = &s->places[OPSTAT_OTHERS].cells[op];

    move (&to->ops, &from->ops);
    move (&to->bytes, &from->bytes);
    move (&to->errors, &from->errors);
    move (&to->latency_ns, &from->latency_ns);
    for (i = 0; i < OPSTAT_BUCKETS; ++i)
      move (&to->buckets[i], &from->buckets[i]);
  }
}

/* A place nobody had, else one whose client has gone. */
static unsigned
find_place_locked (const struct opstats *s)
{
  unsigned i, gone = OPSTAT_OTHERS;

  for (i = 1; i < OPSTAT_CLIENTS; ++i) {
    if (!s->places[i].used)
      return i;
    if (!s->places[i].present && gone == OPSTAT_OTHERS)
      gone = i;
  }
  return gone;
}

unsigned
opstats_client_begin (struct opstats *s, const char *name)
{
  unsigned i;

  pthread_mutex_lock (&s->lock);
  i = find_place_locked (s);
  if (i != OPSTAT_OTHERS) {
    struct place *p = &s->places[i];

    if (p->used)
      fold_locked (s, p);
    p->used = p->present = true;
    snprintf (p->name, sizeof p->name, "%s", name);
  }
  pthread_mutex_unlock (&s->lock);
  return i;
}

void
opstats_client_end (struct opstats *s, unsigned client)
{
  assert (client < OPSTAT_CLIENTS);
  if (client == OPSTAT_OTHERS)
    return;
  pthread_mutex_lock (&s->lock);
  s->places[client].present = false;
  pthread_mutex_unlock (&s->lock);
}

unsigned
opstats_bucket (uint64_t latency_ns)
{
  const unsigned i = latency_ns == 0 ? 0 : 63 - __builtin_clzll (latency_ns);

  return MIN (i, OPSTAT_BUCKETS - 1);
}

void
opstats_record (struct opstats *s, unsigned client, enum opstat_op op,
                uint64_t bytes, uint64_t latency_ns, bool failed)
{
  struct cell *c;

  assert (client < OPSTAT_CLIENTS && op < OPSTAT_NR_OPS);
  c = &s->places[client].cells[op];
  add (&c->ops, 1);
  add (&c->bytes, failed ? 0 : bytes);
  add (&c->errors, failed);
  add (&c->latency_ns, latency_ns);
  add (&c->buckets[opstats_bucket (latency_ns)], 1);
}

bool
opstats_client (struct opstats *s, unsigned client, char name[64], bool *present)
{
  const struct place *p = &s->places[client];
  bool used;

  assert (client < OPSTAT_CLIENTS);
  pthread_mutex_lock (&s->lock);
  used = p->used;
  *present = p->present;
  memcpy (name, p->name, sizeof p->name);
  pthread_mutex_unlock (&s->lock);
  return used;
}

void
opstats_get (struct opstats *s, unsigned client, enum opstat_op op,
             struct opstats_counts *counts)
{
  const struct cell *c = &s->places[client].cells[op];
  unsigned i;

  counts->ops = atomic_load_explicit (&c->ops, memory_order_relaxed);
  counts->bytes = atomic_load_explicit (&c->bytes, memory_order_relaxed);
  counts->errors = atomic_load_explicit (&c->errors, memory_order_relaxed);
  counts->latency_ns = atomic_load_explicit (&c->latency_ns, memory_order_relaxed);
  for (i = 0; i < OPSTAT_BUCKETS; ++i)
    counts->buckets[i] = atomic_load_explicit (&c->buckets[i], memory_order_relaxed);
}

const char *
opstats_op_name (enum opstat_op op)
{
  static const char *const names[OPSTAT_NR_OPS] = {
    [OPSTAT_READ] = "read",
    [OPSTAT_WRITE] = "write",
    [OPSTAT_FLUSH] = "flush",
    [OPSTAT_TRIM] = "trim",
    [OPSTAT_ZERO] = "zero",
  };

  assert (op < OPSTAT_NR_OPS);
  return names[op];
}

uint64_t
opstats_percentile (const struct opstats_counts *counts, unsigned per_mille)
{
  uint64_t total = 0, below = 0, wanted;
  unsigned i;

  for (i = 0; i < OPSTAT_BUCKETS; ++i)
    total += counts->buckets[i];
  if (total == 0)
    return 0;
  wanted = DIV_ROUND_UP (total * per_mille, 1000);
  for (i = 0; i < OPSTAT_BUCKETS - 1; ++i) {
    below += counts->buckets[i];
    if (below >= wanted && below > 0)
      break;
  }
  return UINT64_C (1) << (i + 1);
}
