/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the control socket answers for a process that serves volumes.
 *
 *   {"get": "stats"}
 *   {"reclaim": "now"|"pause"|"resume", "volume": NAME}
 *
 * "volume" may be left out: all of them.  The stats are
 *
 *   {"shingle": VERSION, "volumes": [
 *     {"name": NAME, "device": DEVICE, "size_bytes": N,
 *      "volume": {the members of struct sh_volume_stats},
 *      "mq": {what the queue below tells},
 *      "clients": [{"name": NAME, "present": BOOL, "ops": {"read":
 *        {"ops": N, "bytes": N, "errors": N, "latency_ns": N,
 *         "buckets": [N, ...]}, "write": ...}}]}]}
 *
 * where buckets[i] counts the latencies in [2^i, 2^(i+1)) ns, zeroes at the
 * end left out.  "volume", "mq" and "clients" are missing where there are none.
 */
#ifndef STACK_SERVED_H
#define STACK_SERVED_H

#include <stddef.h>
#include <stdint.h>

#include "shingle/volume.h"
#include "stack/control.h"

struct opstats;

/* Borrowed, all of it, until control_close. */
struct served {
  const char *name;
  const char *device;
  uint64_t size_bytes;
  struct sh_volume *volume;     /* NULL: there is none here */
  struct opstats *opstats;      /* NULL: nobody counts */
  /* What the queue below tells; NULL: there is none. */
  struct json_object *(*mq_stats) (void *mq);
  void *mq;
  unsigned nr_hwqs;             /* of that queue */
};

struct served_set {
  const struct served *list;
  unsigned nr;
};

/* A control_handler; opaque is a struct served_set. */
struct json_object *served_answer (void *opaque, const struct json_object *request,
                                   struct sh_error *err);

/* One member of "volumes". */
struct json_object *served_stats (const struct served *s);

/* The members of struct sh_volume_stats, for whoever writes or reads them. */
struct served_field {
  const char *name;             /* NULL: the end */
  size_t offset;
  enum { SERVED_U64, SERVED_U32, SERVED_BOOL } type;
  enum { SERVED_COUNTER, SERVED_GAUGE } kind;
  const char *help;
};
extern const struct served_field served_fields[];
uint64_t served_field_value (const struct sh_volume_stats *stats,
                             const struct served_field *f);

#endif
