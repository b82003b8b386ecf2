/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Going to the background only after the work is under way: the command's
 * process waits until the serving process says so, or has failed.  Until
 * then the serving process has the terminal, so that its messages are seen
 * and Ctrl-C ends it.
 */
#ifndef SERVER_BACKGROUND_H
#define SERVER_BACKGROUND_H

#include <stdbool.h>

struct sh_error;
struct sh_log;

/* In the serving process it returns; the command's process never does.  Call
   it before any thread is started.  timeout_s: set-up that takes longer is
   killed and reported.  With `stay`, there is one process, in the
   foreground. */
int background_begin (bool stay, unsigned timeout_s, struct sh_error *err);

/* Serving has begun: writes the pid to pid_file (NULL: none), tells systemd
   (NOTIFY_SOCKET), and leaves the terminal unless staying. */
int background_ready (const char *pid_file, struct sh_error *err);

/* What is at `path` may be written over: nothing, or a pid file.  -1: something else,
   which stays as it is. */
int pid_file_check (const char *path, struct sh_error *err);

/* Messages: to stderr while there is a terminal, then to syslog. */
extern const struct sh_log background_log;
void background_set_verbose (bool verbose);

/* The serving process's last word: an error, to where messages go now. */
void background_report (const struct sh_error *err);

#endif
