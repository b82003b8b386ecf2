/* SPDX-License-Identifier: BSD-3-Clause */
/* Which priority class a connection gets. */
#ifndef BLKMQ_RULES_H
#define BLKMQ_RULES_H

#include <stdbool.h>

#include "mq/mq.h"

struct rules;
struct sh_error;

/* What is known of a connection. */
struct peer {
  const char *exportname;
  bool tls;
  const char *tls_user;         /* distinguished name; NULL: not known */
  const void *address;          /* struct sockaddr; NULL: not known */
  long uid;                     /* -1: not known */
};

/* CLASS, or CLASS:KIND=PATTERN with KIND one of export, addr, uid, user, tls.
   1: a rule was added; 0: it is CLASS alone, which is an option of the queue;
   -1: refused (err). */
int rules_add (struct rules **rules, const char *text, struct sh_error *err);
void rules_free (struct rules *rules);

/* Do any of them ask for that? */
bool rules_need_address (const struct rules *rules);
bool rules_need_user (const struct rules *rules);

/* The class of the first that matches, else `otherwise`. */
enum dl_class rules_class (const struct rules *rules, const struct peer *peer,
                           enum dl_class otherwise);

#endif
