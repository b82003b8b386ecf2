/* SPDX-License-Identifier: BSD-3-Clause */
#include <config.h>
#include <arpa/inet.h>
#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/parse.h"
#include "rules.h"

enum kind { EXPORT, ADDR, UID, USER, TLS };
static const char *const kinds[] = { "export", "addr", "uid", "user", "tls", NULL };
static const char *const classes[] = { "rt", "be", "idle", NULL };

struct rule {
  struct rule *next;
  enum kind kind;
  enum dl_class class;
  char *pattern;                /* EXPORT, USER */
  uint64_t uid;
  bool tls;
  int family;                   /* ADDR */
  unsigned prefix_bits;
  unsigned char address[16];
};

struct rules {
  struct rule *first, **last;
};

/* A.B.C.D, or an IPv6 address, and perhaps /BITS. */
static int
parse_network (struct rule *r, const char *text, struct sh_error *err)
{
  const char *slash = strchr (text, '/');
  char address[64];
  uint64_t bits, most;

  if (snprintf (address, sizeof address, "%.*s",
                slash ? (int) (slash - text) : (int) strlen (text), text) >= (int) sizeof address)
    return sh_fail (err, EINVAL, "prio: '%s' is no address", text);
  if (inet_pton (AF_INET, address, r->address) == 1)
    r->family = AF_INET;
  else if (inet_pton (AF_INET6, address, r->address) == 1)
    r->family = AF_INET6;
  else
    return sh_fail (err, EINVAL, "prio: '%s' is no address", text);
  most = r->family == AF_INET ? 32 : 128;
  bits = most;
  if (slash && sh_parse_uint ("prio", slash + 1, 0, most, &bits, err) == -1)
    return -1;
  r->prefix_bits = (unsigned) bits;
  return 0;
}

static int
parse_pattern (struct rule *r, const char *text, struct sh_error *err)
{
  switch (r->kind) {
  case EXPORT:
  case USER:
    r->pattern = strdup (text);
    return r->pattern ? 0 : sh_fail (err, errno, "prio: %s", strerror (errno));
  case ADDR:
    return parse_network (r, text, err);
  case UID:
    return sh_parse_uint ("prio", text, 0, UINT_MAX, &r->uid, err);
  case TLS:
    return sh_parse_bool ("prio", text, &r->tls, err);
  }
  return -1;
}

static void
free_rule (struct rule *r)
{
  free (r->pattern);
  free (r);
}

/* text is CLASS:KIND=PATTERN, cut up here. */
static int
parse_rule (struct rule *r, char *text, struct sh_error *err)
{
  char *kind = strchr (text, ':'), *pattern;
  unsigned word;

  *kind++ = '\0';
  pattern = strchr (kind, '=');
  if (pattern == NULL) {
    sh_fail (err, EINVAL, "prio: '%s' is no rule", kind);
    return sh_hint (err, "rules look like rt:export=NAME, idle:addr=10.0.0.0/8 or be:uid=1000");
  }
  *pattern++ = '\0';
  if (sh_parse_word ("prio", text, classes, &word, err) == -1)
    return -1;
  r->class = word;
  if (sh_parse_word ("prio", kind, kinds, &word, err) == -1)
    return -1;
  r->kind = word;
  return parse_pattern (r, pattern, err);
}

static int
append (struct rules **rules, struct rule *r, struct sh_error *err)
{
  if (*rules == NULL) {
    *rules = calloc (1, sizeof **rules);
    if (*rules == NULL)
      return sh_fail (err, errno, "prio: %s", strerror (errno));
    (*rules)->last = &(*rules)->first;
  }
  *(*rules)->last = r;
  (*rules)->last = &r->next;
  return 1;
}

int
rules_add (struct rules **rules, const char *text, struct sh_error *err)
{
  struct rule *r;
  char *copy;
  int ret;

  if (strchr (text, ':') == NULL)
    return 0;
  r = calloc (1, sizeof *r);
  copy = strdup (text);
  if (r == NULL || copy == NULL)
    ret = sh_fail (err, ENOMEM, "prio: %s", strerror (ENOMEM));
  else
    ret = parse_rule (r, copy, err);
  if (ret == 0)
    ret = append (rules, r, err);
  if (ret == -1 && r)
    free_rule (r);
  free (copy);
  return ret;
}

void
rules_free (struct rules *rules)
{
  struct rule *r, *next;

  for (r = rules ? rules->first : NULL; r; r = next) {
    next = r->next;
    free_rule (r);
  }
  free (rules);
}

static bool
has_kind (const struct rules *rules, enum kind a, enum kind b)
{
  const struct rule *r;

  for (r = rules ? rules->first : NULL; r; r = r->next)
    if (r->kind == a || r->kind == b)
      return true;
  return false;
}

bool
rules_need_address (const struct rules *rules)
{
  return has_kind (rules, ADDR, UID);
}

bool
rules_need_user (const struct rules *rules)
{
  return has_kind (rules, USER, USER);
}

static bool
same_prefix (const unsigned char *a, const unsigned char *b, unsigned bits)
{
  const unsigned bytes = bits / 8, rest = bits % 8;

  return memcmp (a, b, bytes) == 0 &&
    (rest == 0 || (a[bytes] ^ b[bytes]) >> (8 - rest) == 0);
}

/* An IPv4 client of an IPv6 socket shows as ::ffff:A.B.C.D. */
static bool
in_network (const struct rule *r, const struct sockaddr *sa)
{
  const unsigned char *address;

  if (sa == NULL)
    return false;
  if (sa->sa_family == AF_INET)
    return r->family == AF_INET &&
      same_prefix (r->address, (const void *) &((const struct sockaddr_in *) sa)->sin_addr,
                   r->prefix_bits);
  if (sa->sa_family != AF_INET6)
    return false;
  address = (const void *) &((const struct sockaddr_in6 *) sa)->sin6_addr;
  if (r->family == AF_INET)
    return IN6_IS_ADDR_V4MAPPED ((const struct in6_addr *) address) &&
      same_prefix (r->address, address + 12, r->prefix_bits);
  return same_prefix (r->address, address, r->prefix_bits);
}

static bool
matches (const struct rule *r, const struct peer *peer)
{
  switch (r->kind) {
  case EXPORT:
    return fnmatch (r->pattern, peer->exportname, 0) == 0;
  case USER:
    return peer->tls_user && fnmatch (r->pattern, peer->tls_user, 0) == 0;
  case ADDR:
    return in_network (r, peer->address);
  case UID:
    return peer->uid >= 0 && (uint64_t) peer->uid == r->uid;
  case TLS:
    return peer->tls == r->tls;
  }
  return false;
}

enum dl_class
rules_class (const struct rules *rules, const struct peer *peer, enum dl_class otherwise)
{
  const struct rule *r;

  for (r = rules ? rules->first : NULL; r; r = r->next)
    if (matches (r, peer))
      return r->class;
  return otherwise;
}
