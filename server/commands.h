/* SPDX-License-Identifier: BSD-3-Clause */
/* The subcommands of `shingle`; one file each, command-NAME.c.  argv[0] is
 * the subcommand's name; the result is the exit status. */
#ifndef SERVER_COMMANDS_H
#define SERVER_COMMANDS_H

struct command {
  const char *name;
  int (*run) (int argc, char **argv);
  const char *synopsis;         /* arguments, for --help */
  const char *summary;          /* one line */
};

/* Exit statuses that scripts may rely on. */
enum {
  STATUS_OK = 0,
  STATUS_FAILED = 1,            /* the work failed, or check found errors */
  STATUS_USAGE = 2,             /* unknown option, missing argument */
  STATUS_NOT_ZONED = 3,         /* the drive is not host-managed or host-aware */
};

int command_check (int argc, char **argv);
int command_doctor (int argc, char **argv);
int command_emu (int argc, char **argv);
int command_format (int argc, char **argv);
int command_info (int argc, char **argv);
int command_mount (int argc, char **argv);
int command_reclaim (int argc, char **argv);
int command_serve (int argc, char **argv);
int command_stat (int argc, char **argv);
int command_top (int argc, char **argv);
int command_zones (int argc, char **argv);

#endif
