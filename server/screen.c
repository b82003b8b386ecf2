/* SPDX-License-Identifier: BSD-3-Clause */
#include <config.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "open.h"
#include "screen.h"

#define BAR_WIDTH 20

const char *
duration_text (uint64_t ns, char text[DURATION_TEXT])
{
  static const struct {
    const char *unit;
    double ns;
  } units[] = { { "s", 1e9 }, { "ms", 1e6 }, { "us", 1e3 }, { "ns", 1 } };
  size_t i;

  if (ns == 0) {
    strcpy (text, "-");
    return text;
  }
  for (i = 0; i + 1 < ARRAY_SIZE (units) && ns < units[i].ns; ++i)
    ;
  snprintf (text, DURATION_TEXT, ns / units[i].ns < 10 ? "%.1f %s" : "%.0f %s",
            ns / units[i].ns, units[i].unit);
  return text;
}

static void __attribute__ ((format (printf, 3, 4)))
add (struct screen *s, enum line_look look, const char *fmt, ...)
{
  struct line *l;
  va_list ap;

  if (s->nr_lines == s->max_lines) {
    const unsigned max = s->max_lines ? s->max_lines * 2 : 64;
    struct line *lines = realloc (s->lines, max * sizeof *lines);

    if (!lines)
      return;
    s->lines = lines;
    s->max_lines = max;
  }
  l = &s->lines[s->nr_lines++];
  l->look = look;
  va_start (ap, fmt);
  vsnprintf (l->text, sizeof l->text, fmt, ap);
  va_end (ap);
}

void
screen_clear (struct screen *s)
{
  s->nr_lines = 0;
}

void
screen_free (struct screen *s)
{
  free (s->lines);
  memset (s, 0, sizeof *s);
}

/*--- operations -------------------------------------------------------------*/

static void
add_op (struct screen *s, const char *name, const struct opstats_counts *c,
        double seconds)
{
  char p50[DURATION_TEXT], p95[DURATION_TEXT], p99[DURATION_TEXT], p999[DURATION_TEXT];
  char errors[24];

  snprintf (errors, sizeof errors, "%" PRIu64, c->errors);
  add (s, c->errors ? LOOK_BAD : c->ops ? LOOK_PLAIN : LOOK_DIM,
       "  %-20.20s %10.0f %9.1f %8s %8s %8s %8s %8s", name, c->ops / seconds,
       c->bytes / seconds / MiB, errors,
       duration_text (opstats_percentile (c, 500), p50),
       duration_text (opstats_percentile (c, 950), p95),
       duration_text (opstats_percentile (c, 990), p99),
       duration_text (opstats_percentile (c, 999), p999));
}

static void
add_op_head (struct screen *s, const char *title, bool rates)
{
  add (s, LOOK_HEAD, "  %-20s %10s %9s %8s %8s %8s %8s %8s", title,
       rates ? "per s" : "requests", rates ? "MiB/s" : "MiB", "errors", "p50 <",
       "p95 <", "p99 <", "p99.9 <");
}

static void
add_ops (struct screen *s, const struct view_volume *now, const struct view_volume *old,
         double seconds)
{
  struct opstats_counts a, b, diff;
  unsigned op;

  add_op_head (s, "operation", old != NULL);
  for (op = 0; op < OPSTAT_NR_OPS; ++op) {
    view_sum (now, op, &a);
    if (old)
      view_sum (old, op, &b);
    view_difference (&a, old ? &b : NULL, &diff);
    add_op (s, opstats_op_name (op), &diff, seconds);
  }
}

/*--- clients ----------------------------------------------------------------*/

struct client_row {
  const struct view_client *client;
  struct opstats_counts all;    /* operations together */
};

static void
sum_client (const struct view_client *now, const struct view_client *old,
            struct opstats_counts *all)
{
  unsigned op, b;

  memset (all, 0, sizeof *all);
  for (op = 0; op < OPSTAT_NR_OPS; ++op) {
    struct opstats_counts diff;

    view_difference (&now->ops[op], old ? &old->ops[op] : NULL, &diff);
    all->ops += diff.ops;
    all->bytes += diff.bytes;
    all->errors += diff.errors;
    for (b = 0; b < OPSTAT_BUCKETS; ++b)
      all->buckets[b] += diff.buckets[b];
  }
}

static int
busiest_first (const void *a, const void *b)
{
  const struct client_row *x = a, *y = b;

  return x->all.ops < y->all.ops ? 1 : x->all.ops > y->all.ops ? -1 : 0;
}

static const struct view_client *
same_client (const struct view_volume *old, const struct view_volume *now, unsigned i)
{
  return old && i < old->nr_clients
         && strcmp (old->clients[i].name, now->clients[i].name) == 0
    ? &old->clients[i] : NULL;
}

static void
add_clients (struct screen *s, const struct view_volume *now,
             const struct view_volume *old, double seconds, unsigned max)
{
  struct client_row rows[OPSTAT_CLIENTS];
  unsigned i, n = 0;

  for (i = 0; i < now->nr_clients; ++i) {
    struct client_row *r = &rows[n];

    r->client = &now->clients[i];
    sum_client (r->client, same_client (old, now, i), &r->all);
    if (r->all.ops > 0 || (r->client->present && strcmp (r->client->name, "others") != 0))
      n++;
  }
  if (n == 0)
    return;
  qsort (rows, n, sizeof *rows, busiest_first);
  add_op_head (s, "client", old != NULL);
  for (i = 0; i < MIN (n, max); ++i)
    add_op (s, rows[i].client->name, &rows[i].all, seconds);
  if (n > max)
    add (s, LOOK_DIM, "  and %u more", n - max);
}

/*--- inside -----------------------------------------------------------------*/

static const char *
bar (uint64_t used, uint64_t of, char text[BAR_WIDTH + 3])
{
  const unsigned full = of ? (unsigned) (used * BAR_WIDTH / of) : 0;
  unsigned i;

  text[0] = '[';
  for (i = 0; i < BAR_WIDTH; ++i)
    text[1 + i] = i < full ? '#' : '.';
  text[1 + BAR_WIDTH] = ']';
  text[2 + BAR_WIDTH] = '\0';
  return text;
}

static void
add_zones (struct screen *s, const struct sh_volume_stats *v)
{
  char a[BAR_WIDTH + 3];

  add (s, LOOK_PLAIN, "  random zones         %s %u of %u free",
       bar (v->random_zones - MIN (v->random_free, v->random_zones), v->random_zones, a),
       v->random_free, v->random_zones);
  add (s, LOOK_PLAIN, "  sequential zones     %s %u of %u free",
       bar (v->seq_zones - MIN (v->seq_free, v->seq_zones), v->seq_zones, a), v->seq_free,
       v->seq_zones);
  add (s, LOOK_PLAIN, "  chunks               %s %u of %u hold data, %u with a buffer zone",
       bar (v->chunks_mapped, v->chunks, a), v->chunks_mapped, v->chunks,
       v->chunks_buffered);
}

static void
add_inside (struct screen *s, const struct sh_volume_stats *now,
            const struct sh_volume_stats *old)
{
  const double total = view_write_amplification (now, NULL);
  const double recent = view_write_amplification (now, old);
  char moved[SIZE_TEXT];

  add_zones (s, now);
  add (s, now->reclaim_paused ? LOOK_BAD : LOOK_PLAIN,
       "  reclaim              %s, %" PRIu64 " cycles, %s moved, %" PRIu64 " zones reset",
       now->reclaim_paused ? "PAUSED" : "on", now->reclaim_cycles,
       size_text (now->reclaim_written_bytes, moved), now->zone_resets);
  add (s, LOOK_PLAIN, "  write amplification  %.2f since the start, %.2f now", total, recent);
  add (s, LOOK_PLAIN, "  metadata             %" PRIu64 " commits, %" PRIu64 " blocks, generation %"
       PRIu64, now->commits, now->commit_blocks, now->generation);
  add (s, now->errors || now->dying ? LOOK_BAD : LOOK_PLAIN,
       "  drive                %" PRIu64 " flushes, %" PRIu64 " probes, %" PRIu64
       " errors, %" PRIu64 " waits for space%s%s", now->device_flushes, now->probes,
       now->errors, now->space_waits, now->dying ? ", DYING" : "",
       now->read_only ? ", read-only" : "");
}

static void
add_mq (struct screen *s, const struct view_mq *now)
{
  char wait[DURATION_TEXT];
  unsigned i;

  add (s, LOOK_PLAIN, "  queue                %s, %" PRIu64 " in flight, %" PRIu64
       " waiting, longest wait %s", now->sched, now->in_flight, now->queued_now,
       duration_text (now->longest_wait_us * NS_PER_US, wait));
  add (s, now->waiting ? LOOK_BAD : LOOK_PLAIN,
       "  tags                 %u of %u free%s%s, %u queues wait", now->tags_free,
       now->tags, now->tagset[0] ? ", shared as " : "", now->tagset, now->waiting);
  for (i = 0; i < now->nr_hwqs && i < 8; ++i)
    add (s, LOOK_DIM, "    hwq %-2u             %" PRIu64 " queued, %" PRIu64 " runs, %" PRIu64
         " dispatched, %" PRIu64 " merged", now->hwqs[i].number, now->hwqs[i].queued,
         now->hwqs[i].run, now->hwqs[i].dispatched, now->hwqs[i].merged);
}

void
screen_add (struct screen *s, const struct view *now, const struct view *old,
            unsigned max_clients)
{
  const double seconds = old && now->taken_ns > old->taken_ns
    ? (now->taken_ns - old->taken_ns) / 1e9 : 1;
  unsigned i;

  for (i = 0; i < now->nr_volumes; ++i) {
    const struct view_volume *v = &now->volumes[i];
    const struct view_volume *before = view_find (old, v->name);
    char size[SIZE_TEXT];

    if (i > 0)
      add (s, LOOK_PLAIN, "%s", "");
    add (s, LOOK_HEAD, "%s: %s%s%s", v->name, size_text (v->size_bytes, size),
         v->device[0] ? " on " : "", v->device);
    add_ops (s, v, before, seconds);
    if (v->has_volume)
      add_inside (s, &v->volume, before ? &before->volume : NULL);
    if (v->has_mq)
      add_mq (s, &v->mq);
    add_clients (s, v, before, seconds, max_clients);
  }
}
