/* SPDX-License-Identifier: BSD-3-Clause */
/* The text of the files in stats/: a line "name value" for each fact. */
#include "front-internal.h"

#include <config.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "stack/served.h"

static void
print_fields (const struct view_volume *v, FILE *out, const char *const *names)
{
  const struct served_field *f;

  for (; *names; ++names)
    for (f = served_fields; f->name; ++f)
      if (strcmp (f->name, *names) == 0)
        fprintf (out, "%s %" PRIu64 "\n", f->name, served_field_value (&v->volume, f));
}

static void
render_zones (const struct node *n, const struct view_volume *v, FILE *out)
{
  static const char *const names[] = {
    "zones", "random_zones", "random_free", "seq_zones", "seq_free", "reserved_seq",
    "chunks", "chunks_mapped", "chunks_buffered", "zone_resets", "reclaim_cycles",
    "reclaim_read_bytes", "reclaim_written_bytes", "reclaim_paused", "space_waits", NULL,
  };

  if (v->has_volume)
    print_fields (v, out, names);
}

static void
render_health (const struct node *n, const struct view_volume *v, FILE *out)
{
  static const char *const names[] = {
    "dying", "read_only", "errors", "probes", "device_flushes", "commits", "generation",
    NULL,
  };

  if (v->has_volume)
    print_fields (v, out, names);
}

static void
render_tags (const struct node *n, const struct view_volume *v, FILE *out)
{
  if (v->has_mq)
    fprintf (out, "tags %u\nfree %u\nwaiting_queues %u\ntagset %s\n", v->mq.tags,
             v->mq.tags_free, v->mq.waiting, v->mq.tagset[0] ? v->mq.tagset : "-");
}

static void
render_sched (const struct node *n, const struct view_volume *v, FILE *out)
{
  if (v->has_mq)
    fprintf (out, "sched %s\nqueued %" PRIu64 "\nin_flight %" PRIu64 "\ninline %" PRIu64
             "\nlongest_wait_us %" PRIu64 "\n", v->mq.sched, v->mq.queued_now,
             v->mq.in_flight, v->mq.inline_requests, v->mq.longest_wait_us);
}

static void
render_requests (const struct node *n, const struct view_volume *v, FILE *out)
{
  struct opstats_counts c;
  unsigned op;

  for (op = 0; op < OPSTAT_NR_OPS; ++op) {
    view_sum (v, op, &c);
    fprintf (out, "%s requests %" PRIu64 " bytes %" PRIu64 " errors %" PRIu64
             " p50_ns %" PRIu64 " p99_ns %" PRIu64 "\n", opstats_op_name (op), c.ops,
             c.bytes, c.errors, opstats_percentile (&c, 500), opstats_percentile (&c, 990));
  }
}

static const struct view_hwq *
find_hwq (const struct node *n, const struct view_volume *v)
{
  static const struct view_hwq idle;
  unsigned i;

  for (i = 0; i < v->mq.nr_hwqs; ++i)
    if (v->mq.hwqs[i].number == n->hwq)
      return &v->mq.hwqs[i];
  return &idle;
}

static void
render_queued (const struct node *n, const struct view_volume *v, FILE *out)
{
  fprintf (out, "%" PRIu64 "\n", find_hwq (n, v)->queued);
}

static void
render_run (const struct node *n, const struct view_volume *v, FILE *out)
{
  fprintf (out, "%" PRIu64 "\n", find_hwq (n, v)->run);
}

static void
render_dispatched (const struct node *n, const struct view_volume *v, FILE *out)
{
  fprintf (out, "%" PRIu64 "\n", find_hwq (n, v)->dispatched);
}

const struct stats_file stats_files[] = {
  { "health", render_health },
  { "requests", render_requests },
  { "sched", render_sched },
  { "tags", render_tags },
  { "zones", render_zones },
  { 0 }
};

const struct stats_file stats_hwq_files[] = {
  { "dispatched", render_dispatched },
  { "queued", render_queued },
  { "run", render_run },
  { 0 }
};
