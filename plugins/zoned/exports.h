/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The volumes that this server exports, by name.  Life: exports_add for every
 * device= (config), exports_open (get_ready), exports_start (after_fork),
 * exports_close (cleanup).  Between open and close the list does not change,
 * so that any thread may look in it.
 */
#ifndef ZONED_EXPORTS_H
#define ZONED_EXPORTS_H

#include <stdatomic.h>
#include <stddef.h>
#include "base/bdev.h"
#include "shingle/volume.h"
#include "stack/opstats.h"
#include "stack/stack.h"

struct sh_error;

struct export {
  const char *device;           /* as given; nbdkit keeps it */
  char *absolute;               /* against the folder at start */
  char *name;                   /* what clients ask for, unique */
  char *description;            /* one line for people */
  struct sh_volume *volume;     /* NULL unless open */
  struct mq *mq;                /* its drive's queue */
  struct bdev_info info;        /* of its drive */
  struct opstats *opstats;      /* what clients did */
  bool read_only;
  atomic_uint connections;      /* opened so far; numbers their queues */
};

struct exports {
  struct export **list;         /* in the order given; the first is default */
  size_t nr;
};

/* 0, or -1 with err. */
int exports_add (struct exports *exports, const char *device, struct sh_error *err);

/* Names the export that was added last. */
int exports_name_last (struct exports *exports, const char *name,
                       struct sh_error *err);

/* Opens every device and gives every export its name: the one given, else the
   volume's label, else the file name of the device. */
int exports_open (struct exports *exports, const struct stack_options *options,
                  struct sh_error *err);
int exports_start (struct exports *exports, struct sh_error *err);

/* The export of this name, "" for the first; NULL where there is none. */
struct export *exports_find (const struct exports *exports, const char *name);

/* Commits and closes every open volume and frees the list.  `report` hears of
   each failure. */
void exports_close (struct exports *exports,
                    void (*report) (const struct export *e, const struct sh_error *err));

#endif
