/* SPDX-License-Identifier: BSD-3-Clause */
#include <config.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "base/bytes.h"
#include "stack/served.h"
#include "view.h"

static uint64_t
number (const struct json_object *o, const char *name)
{
  struct json_object *value;

  return json_object_object_get_ex (o, name, &value) ? json_object_get_uint64 (value) : 0;
}

static bool
truth (const struct json_object *o, const char *name)
{
  struct json_object *value;

  return json_object_object_get_ex (o, name, &value) && json_object_get_boolean (value);
}

/* Without what could upset a terminal. */
static void
text (const struct json_object *o, const char *name, char *to, size_t size)
{
  struct json_object *value;
  char *p;

  to[0] = '\0';
  if (json_object_object_get_ex (o, name, &value)
      && json_object_is_type (value, json_type_string))
    snprintf (to, size, "%s", json_object_get_string (value));
  for (p = to; *p; ++p)
    if ((unsigned char) *p < ' ' || *p == 0x7f)
      *p = '?';
}

static struct json_object *
member (const struct json_object *o, const char *name, enum json_type type)
{
  struct json_object *value;

  return json_object_object_get_ex (o, name, &value) && json_object_is_type (value, type)
    ? value : NULL;
}

static void
parse_volume (const struct json_object *o, struct sh_volume_stats *stats)
{
  const struct served_field *f;

  for (f = served_fields; f->name; ++f) {
    char *to = (char *) stats + f->offset;

    switch (f->type) {
    case SERVED_U64: *(uint64_t *) to = number (o, f->name); break;
    case SERVED_U32: *(uint32_t *) to = (uint32_t) number (o, f->name); break;
    case SERVED_BOOL: *(bool *) to = truth (o, f->name); break;
    }
  }
}

static void
parse_hwqs (struct json_object *array, struct view_mq *mq)
{
  size_t i;

  for (i = 0; i < json_object_array_length (array); ++i) {
    const struct json_object *o = json_object_array_get_idx (array, i);

    if (mq->nr_hwqs == ARRAY_SIZE (mq->hwqs))
      break;
    mq->hwqs[mq->nr_hwqs++] = (struct view_hwq) {
      .number = number (o, "hwq"),
      .queued = number (o, "queued"),
      .run = number (o, "run"),
      .dispatched = number (o, "dispatched"),
      .completed = number (o, "completed"),
      .merged = number (o, "merged"),
    };
  }
}

static void
parse_mq (const struct json_object *o, struct view_mq *mq)
{
  struct json_object *options = member (o, "options", json_type_object);
  struct json_object *tagset = member (o, "tagset", json_type_object);
  struct json_object *hwqs = member (o, "hwqs", json_type_array), *users;
  size_t i;

  mq->queued_now = number (o, "queued_now");
  mq->in_flight = number (o, "in_flight");
  mq->inline_requests = number (o, "inline");
  mq->longest_wait_us = number (o, "longest_wait_us");
  if (options)
    text (options, "sched", mq->sched, sizeof mq->sched);
  if (hwqs)
    parse_hwqs (hwqs, mq);
  if (!tagset)
    return;
  text (tagset, "name", mq->tagset, sizeof mq->tagset);
  mq->tags = number (tagset, "tags");
  mq->tags_free = number (tagset, "free");
  users = member (tagset, "users", json_type_array);
  for (i = 0; users && i < json_object_array_length (users); ++i)
    mq->waiting += truth (json_object_array_get_idx (users, i), "waiting");
}

static void
parse_counts (const struct json_object *o, struct opstats_counts *c)
{
  struct json_object *buckets = member (o, "buckets", json_type_array);
  size_t i, n = buckets ? json_object_array_length (buckets) : 0;

  c->ops = number (o, "ops");
  c->bytes = number (o, "bytes");
  c->errors = number (o, "errors");
  c->latency_ns = number (o, "latency_ns");
  for (i = 0; i < MIN (n, (size_t) OPSTAT_BUCKETS); ++i)
    c->buckets[i] = json_object_get_uint64 (json_object_array_get_idx (buckets, i));
}

static void
parse_client (const struct json_object *o, struct view_client *c)
{
  struct json_object *ops = member (o, "ops", json_type_object), *one;
  unsigned op;

  text (o, "name", c->name, sizeof c->name);
  c->present = truth (o, "present");
  for (op = 0; ops && op < OPSTAT_NR_OPS; ++op) {
    one = member (ops, opstats_op_name (op), json_type_object);
    if (one)
      parse_counts (one, &c->ops[op]);
  }
}

static void
parse_one (const struct json_object *o, struct view_volume *v)
{
  struct json_object *volume = member (o, "volume", json_type_object);
  struct json_object *mq = member (o, "mq", json_type_object);
  struct json_object *clients = member (o, "clients", json_type_array);
  size_t i, n = clients ? json_object_array_length (clients) : 0;

  text (o, "name", v->name, sizeof v->name);
  text (o, "device", v->device, sizeof v->device);
  v->size_bytes = number (o, "size_bytes");
  v->has_volume = volume != NULL;
  if (volume)
    parse_volume (volume, &v->volume);
  v->has_mq = mq != NULL;
  if (mq)
    parse_mq (mq, &v->mq);
  for (i = 0; i < MIN (n, ARRAY_SIZE (v->clients)); ++i)
    parse_client (json_object_array_get_idx (clients, i), &v->clients[v->nr_clients++]);
}

struct view *
view_parse (const struct json_object *answer, uint64_t now_ns)
{
  struct json_object *volumes = member (answer, "volumes", json_type_array);
  const size_t n = volumes ? json_object_array_length (volumes) : 0;
  struct view *v = calloc (1, sizeof *v + MIN (n, VIEW_MAX_VOLUMES) * sizeof *v->volumes);
  size_t i;

  if (!v)
    return NULL;
  v->taken_ns = now_ns;
  for (i = 0; i < MIN (n, VIEW_MAX_VOLUMES); ++i)
    parse_one (json_object_array_get_idx (volumes, i), &v->volumes[v->nr_volumes++]);
  return v;
}

const struct view_volume *
view_find (const struct view *v, const char *name)
{
  unsigned i;

  for (i = 0; v && i < v->nr_volumes; ++i)
    if (strcmp (v->volumes[i].name, name) == 0)
      return &v->volumes[i];
  return NULL;
}

void
view_sum (const struct view_volume *v, enum opstat_op op, struct opstats_counts *sum)
{
  unsigned i, b;

  memset (sum, 0, sizeof *sum);
  for (i = 0; i < v->nr_clients; ++i) {
    const struct opstats_counts *c = &v->clients[i].ops[op];

    sum->ops += c->ops;
    sum->bytes += c->bytes;
    sum->errors += c->errors;
    sum->latency_ns += c->latency_ns;
    for (b = 0; b < OPSTAT_BUCKETS; ++b)
      sum->buckets[b] += c->buckets[b];
  }
}

/* A server that was started anew counts from 0 again. */
static uint64_t
grown (uint64_t now, uint64_t old)
{
  return now >= old ? now - old : now;
}

void
view_difference (const struct opstats_counts *now, const struct opstats_counts *old,
                 struct opstats_counts *diff)
{
  static const struct opstats_counts zero;
  unsigned b;

  if (!old)
    old = &zero;
  diff->ops = grown (now->ops, old->ops);
  diff->bytes = grown (now->bytes, old->bytes);
  diff->errors = grown (now->errors, old->errors);
  diff->latency_ns = grown (now->latency_ns, old->latency_ns);
  for (b = 0; b < OPSTAT_BUCKETS; ++b)
    diff->buckets[b] = grown (now->buckets[b], old->buckets[b]);
}

static uint64_t
drive_bytes (const struct sh_volume_stats *s)
{
  return s->direct_bytes + s->in_place_bytes + s->buffered_bytes
         + s->reclaim_written_bytes + s->commit_blocks * 4096;
}

double
view_write_amplification (const struct sh_volume_stats *now,
                          const struct sh_volume_stats *old)
{
  static const struct sh_volume_stats zero;
  uint64_t written;

  if (!old)
    old = &zero;
  written = grown (now->written_bytes, old->written_bytes);
  return written == 0 ? 0
    : (double) grown (drive_bytes (now), drive_bytes (old)) / (double) written;
}
