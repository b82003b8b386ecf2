/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nbdkit-blkmq-filter: core/mq in front of any plugin.
 *
 * Reads, writes, trims, zeroes and flushes take their turn in one queue, which
 * the connections of this server share; a connection has a hardware queue and
 * a priority class.  The work itself is done in nbdkit's own thread of the
 * request.  Callbacks that are not defined here pass through untouched.
 */
#include <config.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <json-c/json.h>
#include <nbdkit-filter.h>

#include "base/bytes.h"
#include "base/error.h"
#include "mq/mq.h"
#include "rules.h"
#include "stack/control.h"

/* In newer nbdkit only; NULL elsewhere. */
extern char *nbdkit_peer_tls_dn (void) __attribute__ ((weak));

static struct mq_options options;
static struct rules *rules;
static struct tagset *set;
static struct mq *mq;
static struct control *control;
static unsigned times_loaded;

/* How many connections each hardware queue has. */
static pthread_mutex_t users_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned hwq_users[MQ_MAX_HWQS];

struct connection {
  unsigned hwq;
  enum dl_class class;
};

/* Always -1. */
static int
report (const struct sh_error *err)
{
  nbdkit_error ("%s%s%s", err->message, err->hint[0] ? "; " : "", err->hint);
  errno = err->errnum;
  return -1;
}

/* -- set-up ----------------------------------------------------------------------------- */

static void
blkmq_load (void)
{
  mq_options_init (&options);
  ++times_loaded;
}

static void
blkmq_unload (void)
{
  rules_free (rules);
}

static int
blkmq_config (nbdkit_next_config *next, nbdkit_backend *nxdata, const char *key,
              const char *value)
{
  struct sh_error err = { 0 };
  int r = 0;

  if (strcmp (key, "prio") == 0)
    r = rules_add (&rules, value, &err);
  if (r == 0)
    r = mq_option (&options, key, value, &err);
  if (r == -1)
    return report (&err);
  return r == 1 ? 0 : next (nxdata, key, value);
}

static struct tagset_options
set_options (void)
{
  return (struct tagset_options) {
    .tags = options.tags,
    .reserved = options.reserved_tags,
    .name = options.tagset[0] ? options.tagset : NULL,
  };
}

/* Opened and closed again: errors reach the user here, and the file locks of the
   set belong to the process that serves. */
static int
try_tagset (struct sh_error *err)
{
  const struct tagset_options so = set_options ();
  struct tagset *tried;

  if (tagset_open (&so, &tried, err) == -1)
    return -1;
  tagset_close (tried);
  return 0;
}

static int
set_options_while_running (struct json_object *changes, struct sh_error *err)
{
  struct json_object_iterator it = json_object_iter_begin (changes);
  struct json_object_iterator end = json_object_iter_end (changes);

  for (; !json_object_iter_equal (&it, &end); json_object_iter_next (&it)) {
    const char *value = json_object_get_string (json_object_iter_peek_value (&it));

    if (mq_set_option (mq, json_object_iter_peek_name (&it), value ? value : "", err) == -1)
      return -1;
  }
  return 0;
}

static struct json_object *
stats_answer (bool queues)
{
  struct json_object *answer = json_object_new_object ();
  struct json_object *list = json_object_new_array (), *one = json_object_new_object ();

  json_object_object_add (one, "name", json_object_new_string ("blkmq"));
  json_object_object_add (one, "mq", mq_dump (mq, queues));
  json_object_array_add (list, one);
  json_object_object_add (answer, "shingle", json_object_new_string (PACKAGE_VERSION));
  json_object_object_add (answer, "volumes", list);
  return answer;
}

/* {"get": "stats"}, {"get": "queues"}, {"set": {OPTION: VALUE, ...}} */
static struct json_object *
answer_control (void *opaque, const struct json_object *request, struct sh_error *err)
{
  struct json_object *member;
  const char *what;

  if (json_object_object_get_ex (request, "set", &member) &&
      json_object_is_type (member, json_type_object))
    return set_options_while_running (member, err) == -1 ? NULL : json_object_new_object ();
  if (json_object_object_get_ex (request, "get", &member)) {
    what = json_object_get_string (member);
    if (what && strcmp (what, "stats") == 0)
      return stats_answer (false);
    if (what && strcmp (what, "queues") == 0)
      return stats_answer (true);
  }
  sh_fail (err, EINVAL, "the filter does not know this request");
  sh_hint (err, "it knows {\"get\": \"stats\"}, {\"get\": \"queues\"} and {\"set\": {...}}");
  return NULL;
}

static int
blkmq_get_ready (int thread_model)
{
  struct sh_error err = { 0 };

  /* One object twice on the command line has one set of variables: a request
     that holds a tag would wait for another of the same tags. */
  if (times_loaded > 1) {
    nbdkit_error ("the blkmq filter can stand in front of a plugin once");
    return -1;
  }
  if (rules_need_user (rules) && nbdkit_peer_tls_dn == NULL) {
    nbdkit_error ("prio: this nbdkit does not tell who a TLS client is; user= cannot be used");
    return -1;
  }
  if (try_tagset (&err) == -1)
    return report (&err);
  if (options.control[0] &&
      control_open (options.control, answer_control, NULL, NULL, &control, &err) == -1)
    return report (&err);
  return 0;
}

static void
issue_nothing (void *device, struct mq_request **rq, unsigned n)
{
  abort ();                     /* requests are carried out by their owners */
}

/* The server stops, or the client has gone. */
static bool
give_up (void *device)
{
  return nbdkit_nanosleep (0, 0) == -1;
}

static const struct mq_device_ops device_ops = {
  .issue = issue_nothing,
  .give_up = give_up,
};

static int
start (struct sh_error *err)
{
  const struct tagset_options so = set_options ();
  const struct mq_config config = {
    .name = "blkmq",
    .options = options,
    .ops = &device_ops,
  };
  struct mq_config c = config;

  if (tagset_open (&so, &set, err) == -1)
    return -1;
  c.tagset = set;
  if (mq_create (&c, &mq, err) == -1)
    return -1;
  return control ? control_start (control, err) : 0;
}

static int
blkmq_after_fork (nbdkit_backend *backend)
{
  struct sh_error err = { 0 };

  return start (&err) == -1 ? report (&err) : 0;
}

static void
blkmq_cleanup (nbdkit_backend *backend)
{
  control_close (control);
  control = NULL;
  if (mq)
    mq_destroy (mq);
  mq = NULL;
  if (set)
    tagset_close (set);
  set = NULL;
}

/* -- connections --------------------------------------------------------------------------- */

/* The one with the fewest connections, the first of them. */
static unsigned
join_hwq (void)
{
  const unsigned n = mq_nr_hwqs (mq);
  unsigned i, best = 0;

  pthread_mutex_lock (&users_lock);
  for (i = 0; i < n && hwq_users[best]; ++i)
    if (hwq_users[i] < hwq_users[best])
      best = i;
  hwq_users[best]++;
  pthread_mutex_unlock (&users_lock);
  return best;
}

static void
leave_hwq (unsigned hwq)
{
  pthread_mutex_lock (&users_lock);
  hwq_users[hwq]--;
  pthread_mutex_unlock (&users_lock);
}

static enum dl_class
default_class (void)
{
  const enum bdev_prio prio = mq_get_options (mq)->prio;

  return prio == BDEV_PRIO_RT ? DL_RT : prio == BDEV_PRIO_IDLE ? DL_IDLE : DL_BE;
}

static enum dl_class
class_of_connection (const char *exportname, int is_tls)
{
  struct sockaddr_storage address;
  socklen_t length = sizeof address;
  struct peer peer = { .exportname = exportname, .tls = is_tls, .uid = -1 };
  char *user = NULL;
  enum dl_class class;

  if (rules == NULL)
    return default_class ();
  memset (&address, 0, sizeof address);
  if (rules_need_address (rules) &&
      nbdkit_peer_name ((struct sockaddr *) &address, &length) == 0) {
    peer.address = &address;
    if (address.ss_family == AF_UNIX)
      peer.uid = nbdkit_peer_uid ();
  }
  if (is_tls && rules_need_user (rules))
    peer.tls_user = user = nbdkit_peer_tls_dn ();
  class = rules_class (rules, &peer, default_class ());
  free (user);
  return class;
}

static void *
blkmq_open (nbdkit_next_open *next, nbdkit_context *context, int readonly,
            const char *exportname, int is_tls)
{
  struct connection *c;

  if (next (context, readonly, exportname) == -1)
    return NULL;
  c = malloc (sizeof *c);
  if (c == NULL) {
    nbdkit_error ("malloc: %m");
    return NULL;
  }
  c->hwq = join_hwq ();
  c->class = class_of_connection (exportname, is_tls);
  return c;
}

static void
blkmq_close (void *handle)
{
  struct connection *c = handle;

  if (c == NULL)
    return;
  leave_hwq (c->hwq);
  free (c);
}

/* -- requests ---------------------------------------------------------------------------------- */

/* Waits for this request's turn; -1 when the server stops meanwhile. */
static int
begin (const struct connection *c, struct mq_request *rq, enum mq_kind kind, enum dl_dir dir,
       uint64_t offset, uint32_t count, int *err)
{
  mq_request_init (rq);
  rq->kind = kind;
  rq->hwq = c->hwq;
  rq->dl.dir = dir;
  rq->dl.prio_class = c->class;
  rq->dl.sector = offset;
  rq->dl.nr_sectors = count;
  rq->dl.nr_segments = 1;
  if (mq_begin (mq, rq) == MQ_GO)
    return 0;
  *err = ESHUTDOWN;
  return -1;
}

static int
end (struct mq_request *rq, int r, int *err)
{
  if (r == -1 && *err == 0)
    *err = EIO;
  mq_end (mq, rq, r == -1 ? *err : 0);
  return r;
}

static int
blkmq_pread (nbdkit_next *next, void *handle, void *buf, uint32_t count, uint64_t offset,
             uint32_t flags, int *err)
{
  struct mq_request rq;

  if (begin (handle, &rq, MQ_SCHEDULED, DL_READ, offset, count, err) == -1)
    return -1;
  return end (&rq, next->pread (next, buf, count, offset, flags, err), err);
}

static int
blkmq_pwrite (nbdkit_next *next, void *handle, const void *buf, uint32_t count,
              uint64_t offset, uint32_t flags, int *err)
{
  struct mq_request rq;

  if (begin (handle, &rq, MQ_SCHEDULED, DL_WRITE, offset, count, err) == -1)
    return -1;
  return end (&rq, next->pwrite (next, buf, count, offset, flags, err), err);
}

static int
blkmq_trim (nbdkit_next *next, void *handle, uint32_t count, uint64_t offset, uint32_t flags,
            int *err)
{
  struct mq_request rq;

  if (begin (handle, &rq, MQ_SCHEDULED, DL_WRITE, offset, count, err) == -1)
    return -1;
  return end (&rq, next->trim (next, count, offset, flags, err), err);
}

static int
blkmq_zero (nbdkit_next *next, void *handle, uint32_t count, uint64_t offset, uint32_t flags,
            int *err)
{
  struct mq_request rq;

  if (begin (handle, &rq, MQ_SCHEDULED, DL_WRITE, offset, count, err) == -1)
    return -1;
  return end (&rq, next->zero (next, count, offset, flags, err), err);
}

static int
blkmq_flush (nbdkit_next *next, void *handle, uint32_t flags, int *err)
{
  struct mq_request rq;

  if (begin (handle, &rq, MQ_DIRECT, DL_WRITE, 0, 0, err) == -1)
    return -1;
  return end (&rq, next->flush (next, flags, err), err);
}

static struct nbdkit_filter filter = {
  .name = "blkmq",
  .longname = "nbdkit blkmq filter",
  .description = "fair admission and scheduling between clients",
  .load = blkmq_load,
  .unload = blkmq_unload,
  .config = blkmq_config,
  .config_help = mq_options_help,
  .get_ready = blkmq_get_ready,
  .after_fork = blkmq_after_fork,
  .cleanup = blkmq_cleanup,
  .open = blkmq_open,
  .close = blkmq_close,
  .pread = blkmq_pread,
  .pwrite = blkmq_pwrite,
  .trim = blkmq_trim,
  .zero = blkmq_zero,
  .flush = blkmq_flush,
};

NBDKIT_REGISTER_FILTER (filter)
