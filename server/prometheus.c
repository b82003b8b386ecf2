/* SPDX-License-Identifier: BSD-3-Clause */
/* One metric after the other, all its samples together, as the format wants. */
#include <config.h>
#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "base/bytes.h"
#include "prometheus.h"
#include "stack/served.h"

/* A label's value: backslash, quote and newline are escaped. */
static void
print_label (FILE *out, const char *name, const char *value)
{
  fprintf (out, "%s=\"", name);
  for (; *value; ++value) {
    if (*value == '\\' || *value == '"')
      putc ('\\', out);
    if (*value == '\n')
      fputs ("\\n", out);
    else
      putc (*value, out);
  }
  putc ('"', out);
}

static void
head (FILE *out, const char *name, const char *type, const char *help)
{
  fprintf (out, "# HELP shingle_%s %s\n# TYPE shingle_%s %s\n", name, help, name, type);
}

static void
labels (FILE *out, const struct view_volume *v, const struct view_client *c, unsigned op)
{
  print_label (out, "volume", v->name);
  putc (',', out);
  print_label (out, "client", c->name);
  fprintf (out, ",op=\"%s\"", opstats_op_name (op));
}

/* Two clients of one name would be one series twice. */
static bool
named_before (const struct view_volume *v, unsigned i)
{
  unsigned j;

  for (j = 0; j < i; ++j)
    if (strcmp (v->clients[j].name, v->clients[i].name) == 0)
      return true;
  return false;
}

static void
sum_of_name (const struct view_volume *v, unsigned first, unsigned op,
             struct opstats_counts *sum)
{
  unsigned i, b;

  *sum = v->clients[first].ops[op];
  for (i = first + 1; i < v->nr_clients; ++i)
    if (strcmp (v->clients[i].name, v->clients[first].name) == 0) {
      const struct opstats_counts *c = &v->clients[i].ops[op];

      sum->ops += c->ops;
      sum->bytes += c->bytes;
      sum->errors += c->errors;
      sum->latency_ns += c->latency_ns;
      for (b = 0; b < OPSTAT_BUCKETS; ++b)
        sum->buckets[b] += c->buckets[b];
    }
}

typedef void (*print_counts) (FILE *out, const struct view_volume *v,
                              const struct view_client *c, unsigned op,
                              const struct opstats_counts *counts);

static void
each_counts (FILE *out, const struct view *view, print_counts print)
{
  struct opstats_counts sum;
  unsigned i, j, op;

  for (i = 0; i < view->nr_volumes; ++i) {
    const struct view_volume *v = &view->volumes[i];

    for (j = 0; j < v->nr_clients; ++j)
      for (op = 0; !named_before (v, j) && op < OPSTAT_NR_OPS; ++op) {
        sum_of_name (v, j, op, &sum);
        print (out, v, &v->clients[j], op, &sum);
      }
  }
}

static void
print_requests (FILE *out, const struct view_volume *v, const struct view_client *c,
                unsigned op, const struct opstats_counts *counts)
{
  fputs ("shingle_requests_total{", out);
  labels (out, v, c, op);
  fprintf (out, "} %" PRIu64 "\n", counts->ops);
}

static void
print_bytes (FILE *out, const struct view_volume *v, const struct view_client *c,
             unsigned op, const struct opstats_counts *counts)
{
  fputs ("shingle_request_bytes_total{", out);
  labels (out, v, c, op);
  fprintf (out, "} %" PRIu64 "\n", counts->bytes);
}

static void
print_errors (FILE *out, const struct view_volume *v, const struct view_client *c,
              unsigned op, const struct opstats_counts *counts)
{
  fputs ("shingle_request_errors_total{", out);
  labels (out, v, c, op);
  fprintf (out, "} %" PRIu64 "\n", counts->errors);
}

/* Buckets from 1 us to 69 s; a histogram in this format counts upwards. */
#define FIRST_BUCKET 10
#define LAST_BUCKET 36

static void
print_latency (FILE *out, const struct view_volume *v, const struct view_client *c,
               unsigned op, const struct opstats_counts *counts)
{
  uint64_t below = 0, total = 0;
  unsigned i;

  for (i = 0; i < OPSTAT_BUCKETS; ++i) {
    total += counts->buckets[i];
    below += counts->buckets[i];
    if (i < FIRST_BUCKET || i > LAST_BUCKET)
      continue;
    fputs ("shingle_request_seconds_bucket{", out);
    labels (out, v, c, op);
    fprintf (out, ",le=\"%.9g\"} %" PRIu64 "\n", (double) (UINT64_C (1) << (i + 1)) / 1e9,
             below);
  }
  fputs ("shingle_request_seconds_bucket{", out);
  labels (out, v, c, op);
  fprintf (out, ",le=\"+Inf\"} %" PRIu64 "\nshingle_request_seconds_sum{", total);
  labels (out, v, c, op);
  fprintf (out, "} %.9g\nshingle_request_seconds_count{", (double) counts->latency_ns / 1e9);
  labels (out, v, c, op);
  fprintf (out, "} %" PRIu64 "\n", total);
}

static void
print_clients (FILE *out, const struct view *v)
{
  head (out, "requests_total", "counter", "Requests of clients.");
  each_counts (out, v, print_requests);
  head (out, "request_bytes_total", "counter", "Bytes that clients moved.");
  each_counts (out, v, print_bytes);
  head (out, "request_errors_total", "counter", "Requests that failed.");
  each_counts (out, v, print_errors);
  head (out, "request_seconds", "histogram", "Latency of requests.");
  each_counts (out, v, print_latency);
}

static void
print_field (FILE *out, const struct view *view, const struct served_field *f)
{
  char name[80];
  unsigned i;

  snprintf (name, sizeof name, "volume_%s%s", f->name,
            f->kind == SERVED_COUNTER ? "_total" : "");
  head (out, name, f->kind == SERVED_COUNTER ? "counter" : "gauge", f->help);
  for (i = 0; i < view->nr_volumes; ++i)
    if (view->volumes[i].has_volume) {
      fprintf (out, "shingle_%s{", name);
      print_label (out, "volume", view->volumes[i].name);
      fprintf (out, "} %" PRIu64 "\n", served_field_value (&view->volumes[i].volume, f));
    }
}

static const struct mq_metric {
  const char *name, *type, *help;
  size_t offset;
  bool wide;
} mq_metrics[] = {
#define AT(member) offsetof (struct view_mq, member)
  { "queue_waiting", "gauge", "Requests that wait in the queue.", AT (queued_now), true },
  { "queue_in_flight", "gauge", "Requests that the drive works on.", AT (in_flight), true },
  { "queue_inline_total", "counter", "Requests issued at once.", AT (inline_requests), true },
  { "tags", "gauge", "Tags of the tag set.", AT (tags), false },
  { "tags_free", "gauge", "Tags that are free.", AT (tags_free), false },
  { "tags_waiting_queues", "gauge", "Queues that wait for a tag.", AT (waiting), false },
#undef AT
};

static void
print_mq (FILE *out, const struct view *view)
{
  size_t m;
  unsigned i;

  for (m = 0; m < ARRAY_SIZE (mq_metrics); ++m) {
    const struct mq_metric *metric = &mq_metrics[m];

    head (out, metric->name, metric->type, metric->help);
    for (i = 0; i < view->nr_volumes; ++i) {
      const struct view_volume *v = &view->volumes[i];
      const char *member = (const char *) &v->mq + metric->offset;

      if (!v->has_mq)
        continue;
      fprintf (out, "shingle_%s{", metric->name);
      print_label (out, "volume", v->name);
      fprintf (out, "} %" PRIu64 "\n", metric->wide ? *(const uint64_t *) member
               : (uint64_t) *(const unsigned *) member);
    }
  }
}

void
prometheus_print (FILE *out, const struct view *v)
{
  const struct served_field *f;
  bool any_volume = false, any_mq = false;
  unsigned i;

  for (i = 0; i < v->nr_volumes; ++i) {
    any_volume |= v->volumes[i].has_volume;
    any_mq |= v->volumes[i].has_mq;
  }
  print_clients (out, v);
  for (f = served_fields; any_volume && f->name; ++f)
    print_field (out, v, f);
  if (any_mq)
    print_mq (out, v);
}
