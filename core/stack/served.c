/* SPDX-License-Identifier: BSD-3-Clause */
#include <config.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include <json-c/json.h>

#include "base/error.h"
#include "shingle/volume.h"
#include "stack/opstats.h"
#include "stack/served.h"

#define COUNTER(member, text) \
  { #member, offsetof (struct sh_volume_stats, member), SERVED_U64, SERVED_COUNTER, text }
#define GAUGE(member, type, text) \
  { #member, offsetof (struct sh_volume_stats, member), type, SERVED_GAUGE, text }

const struct served_field served_fields[] = {
  COUNTER (reads, "read requests"),
  COUNTER (read_bytes, "bytes read by clients"),
  COUNTER (writes, "write requests"),
  COUNTER (written_bytes, "bytes written by clients"),
  COUNTER (trims, "trim requests"),
  COUNTER (trimmed_bytes, "bytes trimmed by clients"),
  COUNTER (zeroes, "zero requests"),
  COUNTER (zeroed_bytes, "bytes zeroed by clients"),
  COUNTER (flushes, "flush requests"),
  COUNTER (direct_bytes, "bytes appended to sequential zones for clients"),
  COUNTER (in_place_bytes, "bytes written to random data zones"),
  COUNTER (buffered_bytes, "bytes written to buffer zones"),
  COUNTER (commits, "commits of the metadata"),
  COUNTER (commit_blocks, "metadata blocks written by commits"),
  COUNTER (device_flushes, "flushes sent to the drive"),
  COUNTER (reclaim_cycles, "reclaim cycles"),
  COUNTER (reclaim_read_bytes, "bytes read by reclaim"),
  COUNTER (reclaim_written_bytes, "bytes written by reclaim"),
  COUNTER (zone_resets, "zones reset"),
  COUNTER (probes, "probes of the drive's health"),
  COUNTER (errors, "requests that failed"),
  COUNTER (space_waits, "writes that waited for a free zone"),
  COUNTER (returns, "times that the drive died and came back"),
  GAUGE (zones, SERVED_U32, "zones of the drive"),
  GAUGE (random_zones, SERVED_U32, "data zones that can be written anywhere"),
  GAUGE (random_free, SERVED_U32, "of them, free"),
  GAUGE (seq_zones, SERVED_U32, "sequential data zones"),
  GAUGE (seq_free, SERVED_U32, "of them, free"),
  GAUGE (reserved_seq, SERVED_U32, "sequential zones kept for reclaim"),
  GAUGE (chunks, SERVED_U32, "chunks of the volume"),
  GAUGE (chunks_mapped, SERVED_U32, "chunks that hold data"),
  GAUGE (chunks_buffered, SERVED_U32, "chunks with a buffer zone"),
  GAUGE (generation, SERVED_U64, "generation of the metadata"),
  GAUGE (dying, SERVED_BOOL, "the drive is failing"),
  GAUGE (read_only, SERVED_BOOL, "nothing is written"),
  GAUGE (reclaim_paused, SERVED_BOOL, "reclaim is paused"),
  { 0 }
};

static void
add (struct json_object *o, const char *name, struct json_object *value)
{
  json_object_object_add (o, name, value);
}

uint64_t
served_field_value (const struct sh_volume_stats *stats, const struct served_field *f)
{
  const char *member = (const char *) stats + f->offset;

  switch (f->type) {
  case SERVED_U64: return *(const uint64_t *) member;
  case SERVED_U32: return *(const uint32_t *) member;
  case SERVED_BOOL: return *(const bool *) member;
  }
  return 0;
}

static struct json_object *
volume_object (struct sh_volume *volume)
{
  struct json_object *o = json_object_new_object ();
  const struct served_field *f;
  struct sh_volume_stats stats;

  sh_volume_get_stats (volume, &stats);
  for (f = served_fields; f->name; ++f) {
    const uint64_t value = served_field_value (&stats, f);

    add (o, f->name, f->type == SERVED_BOOL ? json_object_new_boolean (value != 0)
                                            : json_object_new_uint64 (value));
  }
  return o;
}

static struct json_object *
buckets_array (const struct opstats_counts *c)
{
  struct json_object *a = json_object_new_array ();
  unsigned i, last = OPSTAT_BUCKETS;

  while (last > 0 && c->buckets[last - 1] == 0)
    last--;
  for (i = 0; i < last; ++i)
    json_object_array_add (a, json_object_new_uint64 (c->buckets[i]));
  return a;
}

static struct json_object *
ops_object (struct opstats *s, unsigned client)
{
  struct json_object *o = json_object_new_object (), *one;
  struct opstats_counts c;
  unsigned op;

  for (op = 0; op < OPSTAT_NR_OPS; ++op) {
    opstats_get (s, client, op, &c);
    one = json_object_new_object ();
    add (one, "ops", json_object_new_uint64 (c.ops));
    add (one, "bytes", json_object_new_uint64 (c.bytes));
    add (one, "errors", json_object_new_uint64 (c.errors));
    add (one, "latency_ns", json_object_new_uint64 (c.latency_ns));
    add (one, "buckets", buckets_array (&c));
    add (o, opstats_op_name (op), one);
  }
  return o;
}

static struct json_object *
clients_array (struct opstats *s)
{
  struct json_object *a = json_object_new_array (), *one;
  unsigned i;

  for (i = 0; i < OPSTAT_CLIENTS; ++i) {
    char name[64];
    bool present;

    if (!opstats_client (s, i, name, &present))
      continue;
    one = json_object_new_object ();
    add (one, "name", json_object_new_string (name));
    add (one, "present", json_object_new_boolean (present));
    add (one, "ops", ops_object (s, i));
    json_object_array_add (a, one);
  }
  return a;
}

struct json_object *
served_stats (const struct served *s)
{
  struct json_object *o = json_object_new_object ();

  add (o, "name", json_object_new_string (s->name));
  if (s->device)
    add (o, "device", json_object_new_string (s->device));
  add (o, "size_bytes", json_object_new_uint64 (s->size_bytes));
  if (s->volume)
    add (o, "volume", volume_object (s->volume));
  if (s->mq_stats)
    add (o, "mq", s->mq_stats (s->mq));
  if (s->opstats)
    add (o, "clients", clients_array (s->opstats));
  return o;
}

static struct json_object *
all_stats (const struct served_set *set)
{
  struct json_object *o = json_object_new_object ();
  struct json_object *volumes = json_object_new_array ();
  unsigned i;

  for (i = 0; i < set->nr; ++i)
    json_object_array_add (volumes, served_stats (&set->list[i]));
  add (o, "shingle", json_object_new_string (PACKAGE_VERSION));
  add (o, "volumes", volumes);
  return o;
}

/*--- reclaim ----------------------------------------------------------------*/

static int
reclaim_one (const struct served *s, const char *what, struct sh_error *err)
{
  if (!s->volume)
    return sh_fail (err, ENOTSUP, "%s has no reclaim", s->name);
  if (strcmp (what, "now") == 0) {
    if (sh_volume_reclaim_now (s->volume) == -1)
      return sh_fail (err, errno, "%s: reclaim: %s", s->name, strerror (errno));
  }
  else
    sh_volume_reclaim_pause (s->volume, strcmp (what, "pause") == 0);
  return 0;
}

static struct json_object *
reclaim (const struct served_set *set, const char *what, const char *volume,
         struct sh_error *err)
{
  unsigned i, done = 0;

  if (strcmp (what, "now") != 0 && strcmp (what, "pause") != 0
      && strcmp (what, "resume") != 0) {
    sh_fail (err, EINVAL, "reclaim can be \"now\", \"pause\" or \"resume\"");
    return NULL;
  }
  for (i = 0; i < set->nr; ++i)
    if (!volume || strcmp (volume, set->list[i].name) == 0) {
      if (reclaim_one (&set->list[i], what, err) == -1)
        return NULL;
      done++;
    }
  if (done == 0) {
    sh_fail (err, ENOENT, "no volume is named '%s'", volume ? volume : "");
    return NULL;
  }
  return json_object_new_object ();
}

/*--- requests ---------------------------------------------------------------*/

/* The member's text; NULL: it is not there, or not a text. */
static const char *
text_member (const struct json_object *o, const char *name)
{
  struct json_object *value;

  if (!json_object_object_get_ex (o, name, &value)
      || !json_object_is_type (value, json_type_string))
    return NULL;
  return json_object_get_string (value);
}

struct json_object *
served_answer (void *opaque, const struct json_object *request, struct sh_error *err)
{
  const struct served_set *set = opaque;
  const char *get = text_member (request, "get");
  const char *what = text_member (request, "reclaim");

  if (get && strcmp (get, "stats") == 0)
    return all_stats (set);
  if (what)
    return reclaim (set, what, text_member (request, "volume"), err);
  sh_fail (err, EINVAL, "nothing that is known here was asked for");
  sh_hint (err, "{\"get\": \"stats\"} or {\"reclaim\": \"now\"|\"pause\"|\"resume\"}");
  return NULL;
}
