/* SPDX-License-Identifier: BSD-3-Clause */
/* core/mq, step by step: one thread, a device that keeps what it is given until the test
 * completes it, a clock that the test steps. */
#ifndef MQ_RIG_H
#define MQ_RIG_H

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "mq/internal.h"
#include "run-suite.h"

#define MAX_REQUESTS 512

extern uint64_t now_ns;
extern const struct sh_clock test_clock;
void never_sleep (void *opaque, uint64_t ns);
extern struct sh_error err;

/* What the device holds, in order of issue. */
extern struct mq_request *issued[MAX_REQUESTS];
extern unsigned nr_issued, nr_ended;
extern struct mq_request pool[MAX_REQUESTS];
extern struct mq_options options;       /* of queues to be made */
extern struct tagset *set;
extern struct mq *mq;

/* For mq.ops of other devices. */
void device_issue (void *device, struct mq_request **rq, unsigned n);
/* A checked fixture: default options, nothing issued. */
void set_up (void);

struct tagset *create_set (unsigned tags);
/* A queue of zones of 1000 sectors, as `options` say. */
struct mq *create_on (struct tagset *on, const char *name);
/* The set and the queue of the test. */
void create (unsigned tags, enum mq_sched sched, unsigned hwqs);
/* Checks that nothing is left. */
void destroy (void);

/* pool[i], of 8 sectors; and the same, submitted. */
struct mq_request *request (int i, enum dl_dir dir, enum dl_class class, unsigned hwq,
                            uint64_t sector);
struct mq_request *submit (int i, enum dl_dir dir, enum dl_class class, unsigned hwq,
                           uint64_t sector);
/* A write to the zone that holds the sector. */
struct mq_request *submit_zoned (int i, unsigned hwq, enum dl_class class, uint64_t sector);

/* Completes the oldest that the device holds. */
struct mq_request *complete_first (void);
void complete_all (void);

/* For a test with a scheduler as its loop variable. */
#define BOTH(test) tcase_add_loop_test (tc, test, MQ_DEADLINE, MQ_NONE + 1)

#endif
