/* SPDX-License-Identifier: BSD-3-Clause */
/* The part of the loop that only front.c drives. */
#ifndef SERVER_FRONT_LOOP_H
#define SERVER_FRONT_LOOP_H

#include <stdbool.h>

struct front;

/* Every thread has ended by itself. */
bool loop_ended (const struct front *f);

/* Adds threads if all are stuck.  True: something was going on, so look again
   soon. */
bool loop_tick (struct front *f);

#endif
