/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control socket: a unix socket on which one line of JSON asks and one
 * line of JSON answers, any number of times a connection.
 *
 * An answer is {"ok": true, ...}, or {"ok": false, "error": TEXT, "hint": TEXT}.
 * What can be asked is the handler's; served.h has the one for volumes.
 *
 * Life: control_open (binds; no thread; where errors still reach the user),
 * control_start (after the fork), control_close.
 */
#ifndef STACK_CONTROL_H
#define STACK_CONTROL_H

struct control;
struct json_object;
struct sh_error;
struct sh_log;

/* Longest line of a request, and most connections at once. */
#define CONTROL_MAX_LINE 65536
#define CONTROL_MAX_CLIENTS 16

/* The answer to one request, a JSON object that control adds "ok" to and
   puts; NULL: refused (err).  May take long; called from several threads. */
typedef struct json_object *(*control_handler) (void *opaque,
                                                const struct json_object *request,
                                                struct sh_error *err);

/* Binds `path`, readable for the owner and the group alone.  A socket of that
   name that nobody listens to any more is replaced. */
int control_open (const char *path, control_handler handler, void *opaque,
                  const struct sh_log *log, struct control **control,
                  struct sh_error *err);
int control_start (struct control *c, struct sh_error *err);

/* Ends all connections, waits for handlers that run, removes the socket.
   NULL is allowed. */
void control_close (struct control *c);

#endif
