/* SPDX-License-Identifier: BSD-3-Clause */
/* The drives that this server exports, by name.  Life: drives_add and
 * drives_name_last (config), drives_open (get_ready), drives_close (unload).
 * In between the list does not change, so that any thread may look in it. */
#ifndef SG_DRIVES_H
#define SG_DRIVES_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include "base/bdev.h"

struct sh_error;
struct sh_log;

struct drive {
  const char *device;           /* as given; nbdkit keeps it */
  char *absolute;               /* against the folder at start */
  char *name;                   /* what clients ask for, unique */
  char *description;            /* one line for people */
  struct bdev *bdev;            /* NULL unless open */
  bool writable;
  atomic_bool lost;             /* a request ended with ENODEV: look for the drive
                                   at the next connection */
  pthread_rwlock_t blocks;      /* shared: writes of whole blocks; alone: changing
                                   parts of a block by reading it first */
};

struct drives {
  struct drive **list;          /* in the order given; the first is default */
  size_t nr;
};

struct drives_options {
  bool raw;                     /* pass writes to host-managed drives */
  bool read_only;
  const struct sh_log *log;
};

int drives_add (struct drives *drives, const char *device, struct sh_error *err);
/* Names the drive that was added last. */
int drives_name_last (struct drives *drives, const char *name, struct sh_error *err);
int drives_open (struct drives *drives, const struct drives_options *options,
                 struct sh_error *err);
/* "" is the first; NULL: there is none of this name. */
struct drive *drives_find (const struct drives *drives, const char *name);
void drives_close (struct drives *drives);

#endif
