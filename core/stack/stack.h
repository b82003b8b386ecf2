/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Builds the way of a request from DEVICE and options by name: transport,
 * disk, mq, volume.  The same names in nbdkit parameters (`name=value`) and
 * on the command line (`--name=value`, where '-' and '_' are alike).
 *
 * Threads: set-up calls, made by one thread, before any fork.
 */
#ifndef STACK_STACK_H
#define STACK_STACK_H

#include <stdbool.h>
#include <stddef.h>
#include "base/bdev.h"
#include "mq/mq.h"
#include "shingle/volume.h"

struct sh_error;

struct stack_options {
  struct sh_volume_options volume;
  bool read_only;               /* nothing is written to the drive */
  bool exclusive;               /* nobody else may use the drive meanwhile */
  bool format;                  /* format a drive that is blank */
  bool queue;                   /* every command goes through a queue (mq) */
  struct mq_options mq;         /* of that queue */
  struct tagset *tagset;        /* of all drives opened; see stack_open_tagset */
  uint64_t given;               /* which options were set by name, a bit each */
};

/* All defaults; exclusive is set, queue is not. */
void stack_options_init (struct stack_options *options);

/* Sets one option.  1: key is ours and was set; 0: not ours; -1: the value
   was refused, or the option was set before (err). */
int stack_option (struct stack_options *options, const char *key,
                  const char *value, struct sh_error *err);

/* Options that contradict each other; -1 with the contradiction in err. */
int stack_options_check (const struct stack_options *options,
                         struct sh_error *err);

/* One line an option, as nbdkit prints it for --help; options.c has the
   table that these lines describe, and a test compares the two. */
#define STACK_OPTIONS_HELP                                                     \
  "cache_size=SIZE           memory for metadata, 1M to 1G (default 8M)\n"     \
  "format=true               format the drive at start if it is empty\n"      \
  "probe_interval=TIME       ask an idle drive for its health, 0 for never\n" \
  "readonly=true             never write to the drive\n"                      \
  "reclaim_high=PERCENT      random zones free when reclaim stops\n"          \
  "reclaim_low=PERCENT       random zones free when reclaim starts\n"         \
  "reorder_window=TIME       wait for the predecessor of an early write\n"

/* The device's file, made absolute against the current folder where it is a
   path of any form ("emu:FILE", "FILE", "/dev/sg0"); others as they are.
   Malloc'd; NULL with errno. */
char *stack_absolute_device (const char *device);

/* One tag set for all the drives that are opened with these options, which
   are complete by now.  Close it after the last drive; NULL is allowed. */
int stack_open_tagset (struct stack_options *options, struct sh_error *err);
void stack_close_tagset (struct stack_options *options);

/* DEVICE to a bdev that is ready for the zoned layer (or for plugin sg). */
int stack_open_device (const char *device, const struct stack_options *options,
                       struct bdev **bdev, struct sh_error *err);

/* The same with the queue in front where options say so; *mq is that queue,
   which lives as long as the bdev, or NULL. */
int stack_open_queued (const char *device, const struct stack_options *options,
                       struct bdev **bdev, struct mq **mq, struct sh_error *err);

/* DEVICE to a loaded volume, formatted before where options say so.  *info
   describes the drive, *mq is its queue or NULL.  sh_volume_start and sh_volume_close are the caller's. */
int stack_open_volume (const char *device, const struct stack_options *options,
                       struct sh_volume **volume, struct bdev_info *info,
                       struct mq **mq, struct sh_error *err);

#endif
