/* SPDX-License-Identifier: BSD-3-Clause */
/* One measurement of core/mq, and two in turns. */
#ifndef BENCH_PAIRS_H
#define BENCH_PAIRS_H

#include "load.h"

/* Options of the command line. */
extern double seconds;          /* of one side of a round */
extern unsigned rounds;
extern bool verbose;

#define SLICES 4                /* of one side of a round */

struct set_up {
  unsigned queues;              /* the submitters are spread over them */
  unsigned tags;                /* of each set */
  bool own_sets;                /* one a queue; else one for all */
  enum mq_sched sched;
  enum mq_run run;
  unsigned hwqs;
  unsigned submitters, depth, batch;
  uint64_t latency_ns;
  unsigned units;
  bool at_once;
  const char *program, *name;   /* of measure_in_program */
  struct bdev *bdev;
  bool sequential;
  enum dl_dir dir;
  enum dl_class (*class_of) (unsigned);
};

struct measured {
  struct result r;
  struct mq_stats stats;        /* of all queues together */
  uint64_t commands;            /* of the device */

  /* Of all slices of a round. */
  double seconds, cpu_seconds;
  uint64_t done, useless_runs, longest_turn_ns, longest_wait_ns;
};

struct pair {
  double a, b, ratio, cpu_a, cpu_b, cpu_ratio;
  uint64_t useless_a, useless_b;
  uint64_t longest_turn_a, longest_wait_a;
  double per_command_a, per_command_b; /* requests of the last round */
};

typedef void measure_fn (const struct set_up *u, struct measured *m);
measure_fn measure;

/* A and B in turns, in slices (A B B A A B B A): what disturbs the machine for a
   while disturbs both alike.  A slice during which more than 6 % of the processors
   were kept by the host of a virtual machine, or by others from threads that never wait, is
   taken again, up to 5 times in all, whichever side it is of.  The bar is held against the median of the rounds. */
void compare (const struct set_up *a, const struct set_up *b, struct pair *p);
void compare_by (measure_fn *fn_a, const struct set_up *a, measure_fn *fn_b,
                 const struct set_up *b, struct pair *p);

/* What the machine's other work cannot spoil: by CPU time instead of the wall's. */
void by_cpu (const struct pair *p);
void line (const char *what, double a, double b, double ratio, const char *bar, bool met);

/* classic.c: against one lock that is taken for each request */
void batched_dispatch (void);
void merge_guard (void);

/* counting.c: against a build of core/mq that does not count */
void counting (void);
int counting_slice (const char *name); /* one, measured and printed, for the other program */

/* mq-bench.c */
#define DRIVE "emu:ram:size=256M,zone_size=4M,conventional=64"
struct bdev *open_emulated_drive (const char *uri);

/* fairness.c: clients, connections and drives that share tags */
void fairness (void);
void fair_connections (void);

#endif
