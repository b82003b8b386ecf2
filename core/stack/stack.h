/* SPDX-License-Identifier: BSD-3-Clause */
/* Builds the way of a request from DEVICE and options by name: transport,
 * disk, mq.  The same names in nbdkit parameters and on the command line. */
#ifndef STACK_STACK_H
#define STACK_STACK_H

#include "base/bdev.h"
#include "shingle/volume.h"

struct sh_error;

struct stack_options {
  struct sh_volume_options volume;
  bool read_only;
  bool exclusive;
};

void stack_options_init (struct stack_options *options);

/* 1: key is ours and was set; 0: not ours; -1: the value was refused (err). */
int stack_option (struct stack_options *options, const char *key,
                  const char *value, struct sh_error *err);

/* DEVICE to a bdev that is ready for the zoned layer (or for plugin sg). */
int stack_open_device (const char *device, const struct stack_options *options,
                       struct bdev **bdev, struct sh_error *err);

#endif
