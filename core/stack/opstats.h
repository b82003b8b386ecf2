/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counters and latency histograms by operation and by client, for whoever
 * serves a volume (nbdkit plugin, FUSE).  Recording takes no lock.
 *
 * A client is a connection, or a mount.  A client that has gone keeps its
 * counters until its place is needed; they then go to the client "others", so
 * that sums never go back.
 */
#ifndef STACK_OPSTATS_H
#define STACK_OPSTATS_H

#include <stdbool.h>
#include <stdint.h>

enum opstat_op {
  OPSTAT_READ,
  OPSTAT_WRITE,
  OPSTAT_FLUSH,
  OPSTAT_TRIM,
  OPSTAT_ZERO,
};
#define OPSTAT_NR_OPS (OPSTAT_ZERO + 1)

/* Bucket i counts latencies in [2^i, 2^(i+1)) ns; the last one takes the rest
   (about 9 minutes and more).  Bucket 0 takes 0 too. */
#define OPSTAT_BUCKETS 40

#define OPSTAT_CLIENTS 64       /* places; place 0 is "others" */
#define OPSTAT_OTHERS 0u

struct opstats;

struct opstats_counts {
  uint64_t ops, bytes, errors, latency_ns;      /* latency_ns: the sum */
  uint64_t buckets[OPSTAT_BUCKETS];
};

/* NULL: no memory. */
struct opstats *opstats_new (void);
void opstats_free (struct opstats *s);

/* The client's place: OPSTAT_OTHERS when every place belongs to a client that
   is there.  `name` is copied, and cut at 63 bytes. */
unsigned opstats_client_begin (struct opstats *s, const char *name);
/* No recording for this client any more. */
void opstats_client_end (struct opstats *s, unsigned client);

void opstats_record (struct opstats *s, unsigned client, enum opstat_op op,
                     uint64_t bytes, uint64_t latency_ns, bool failed);

/* False when nobody was ever at this place.  *present: still there. */
bool opstats_client (struct opstats *s, unsigned client, char name[64],
                     bool *present);
/* What one client did so far. */
void opstats_get (struct opstats *s, unsigned client, enum opstat_op op,
                  struct opstats_counts *counts);

const char *opstats_op_name (enum opstat_op op);
unsigned opstats_bucket (uint64_t latency_ns);

/* The latency in ns below which `per_mille` of the operations stayed, taken
   from the histogram (the upper end of its bucket); 0 if there are none. */
uint64_t opstats_percentile (const struct opstats_counts *counts,
                             unsigned per_mille);

#endif
