/* SPDX-License-Identifier: BSD-3-Clause */
/* Where our plugins and filters are: in the build tree this program runs
 * from, else where they were installed. */
#ifndef SERVER_FIND_H
#define SERVER_FIND_H

#include <stdbool.h>

/* "plugin", "zoned" to what nbdkit takes: a path, or the bare name when the
   file is in neither place.  malloc'd; NULL: no memory.  *found may tell that
   it exists. */
char *find_nbdkit_object (const char *kind, const char *name, bool *found);

/* A program of $PATH, and /usr/sbin and /sbin. */
bool find_program (const char *name);

#endif
