/* SPDX-License-Identifier: BSD-3-Clause */
/* The stats that a control socket told, as numbers. */
#ifndef SERVER_VIEW_H
#define SERVER_VIEW_H

#include <stdbool.h>
#include <stdint.h>

#include "shingle/volume.h"
#include "stack/opstats.h"

struct json_object;

struct view_client {
  char name[64];
  bool present;
  struct opstats_counts ops[OPSTAT_NR_OPS];
};

struct view_hwq {
  unsigned number;
  uint64_t queued, run, dispatched, completed, merged;
};

struct view_mq {
  char sched[16], tagset[64];
  uint64_t queued_now, in_flight, inline_requests, longest_wait_us;
  unsigned tags, tags_free, waiting;    /* waiting: users of the set that wait */
  struct view_hwq hwqs[64];     /* those that did something */
  unsigned nr_hwqs;
};

struct view_volume {
  char name[64], device[256];
  uint64_t size_bytes;
  bool has_volume, has_mq;
  struct sh_volume_stats volume;
  struct view_mq mq;
  struct view_client clients[OPSTAT_CLIENTS];
  unsigned nr_clients;
};

#define VIEW_MAX_VOLUMES 32

struct view {
  uint64_t taken_ns;            /* when it was asked for */
  unsigned nr_volumes;
  struct view_volume volumes[];
};

/* What is missing in the answer is 0.  free() it; NULL: no memory. */
struct view *view_parse (const struct json_object *answer, uint64_t now_ns);

/* The volume of that name in an older view; NULL: it was not there. */
const struct view_volume *view_find (const struct view *v, const char *name);

/* One operation of all clients together. */
void view_sum (const struct view_volume *v, enum opstat_op op,
               struct opstats_counts *sum);

/* What happened between two samples; `old` may be NULL (all zero). */
void view_difference (const struct opstats_counts *now, const struct opstats_counts *old,
                      struct opstats_counts *diff);

/* Bytes written to the drive for each byte that clients wrote; 0: none were. */
double view_write_amplification (const struct sh_volume_stats *now,
                                 const struct sh_volume_stats *old);

#endif
