/* SPDX-License-Identifier: BSD-3-Clause */
/* What `shingle mount` was asked to do. */
#ifndef SERVER_MOUNT_OPTIONS_H
#define SERVER_MOUNT_OPTIONS_H

#include <stdbool.h>

#include "front.h"
#include "stack/stack.h"

struct mount_source {
  const char *text;             /* an NBD URI or a DEVICE; NULL: a command */
  char **command;
};

struct mount_options {
  struct mount_source sources[FRONT_MAX_BACKENDS];
  unsigned nr_sources;
  char *mountpoint;             /* absolute; malloc'd */
  struct front_options front;
  struct stack_options stack;
  unsigned connections;         /* NBD; 0: default */
  unsigned timeout_s;           /* of set-up */
  bool foreground, verbose, auto_unmount;
  char *control;                /* socket for shingle stat; malloc'd; NULL: none */
  char *pid_file;               /* malloc'd; NULL: none */
  char *fuse_options;           /* malloc'd; front.fuse_options points to it */
};

/* What to do next. */
enum mount_parse { MOUNT_GO, MOUNT_HELP, MOUNT_USAGE };

/* Complains on stderr (MOUNT_USAGE). */
enum mount_parse mount_options_parse (struct mount_options *m, int argc, char **argv);
void mount_options_free (struct mount_options *m);
void mount_options_help (void);

#endif
