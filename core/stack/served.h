/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the control socket answers for a process that serves volumes.
 *
 *   {"get": "stats"}                 everything below
 *   {"reclaim": "now"|"pause"|"resume", "volume": NAME}
 *   {"set": {OPTION: VALUE, ...}, "volume": NAME}      options of the queue
 *
 * "volume" may be left out: all of them.  The stats are
 *
 *   {"shingle": VERSION, "volumes": [
 *     {"name": NAME, "device": DEVICE, "size_bytes": N,
 *      "volume": {the members of struct sh_volume_stats},
 *      "mq": {as mq_dump tells},
 *      "clients": [{"name": NAME, "present": BOOL, "ops": {"read":
 *        {"ops": N, "bytes": N, "errors": N, "latency_ns": N,
 *         "buckets": [N, ...]}, "write": ...}}]}]}
 *
 * where buckets[i] counts the latencies in [2^i, 2^(i+1)) ns, zeroes at the
 * end left out.  "volume" and "mq" are missing where there are none.
 */
#ifndef STACK_SERVED_H
#define STACK_SERVED_H

#include "stack/control.h"

struct mq;
struct opstats;
struct sh_volume;

/* Borrowed, all of it, until control_close. */
struct served {
  const char *name;
  const char *device;
  uint64_t size_bytes;
  struct sh_volume *volume;     /* NULL: there is none here */
  struct mq *mq;                /* NULL: there is none here */
  struct opstats *opstats;      /* NULL: nobody counts */
  int client;                   /* this client of opstats alone; -1: all of them */
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

#endif
