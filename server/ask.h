/* SPDX-License-Identifier: BSD-3-Clause */
/* The client side of the control socket. */
#ifndef SERVER_ASK_H
#define SERVER_ASK_H

struct json_object;
struct sh_error;

/* Sends one request line and takes the answer, which the caller puts.  -1 (err)
   when there is no server, or it refuses.  A server gets `timeout_s` to
   answer; 0: for ever. */
int ask (const char *socket_path, const char *request, unsigned timeout_s,
         struct json_object **answer, struct sh_error *err);

/* The control socket when none was named: the only one in the folder where
   `shingle serve` makes them.  malloc'd; NULL (err). */
char *ask_find_socket (struct sh_error *err);

#endif
