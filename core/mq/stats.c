/* SPDX-License-Identifier: BSD-3-Clause */
/* Counters and listings of a queue. */
#include <config.h>
#include <assert.h>
#include <json-c/json.h>
#include "mq/express.h"
#include "mq/internal.h"

static const char *const class_names[] = { "rt", "be", "idle" };
static const char *const dir_names[] = { "read", "write" };

/* -- counters ------------------------------------------------------------------------- */

void
mq_get_hwq_stats (struct mq *mq, unsigned i, struct mq_hwq_stats *s)
{
  struct hwq *hwq = &mq->hwq[i];
  uint64_t at_once = 0, came_in = 0, completed = 0;
  int c;

  for (c = 0; c < DL_NR_CLASSES; ++c) {
    completed += atomic_load (&hwq->completed[c]) + atomic_load (&hwq->apart_ended[c]);
    at_once += atomic_load (&hwq->at_once[c]) + atomic_load (&hwq->apart_begun[c]);
    came_in += atomic_load (&hwq->came_in[c]);
  }
  s->queued = at_once + came_in;
  s->run = at_once + atomic_load (&hwq->run);
  s->useless_runs = atomic_load (&hwq->useless_runs);
  s->dispatched = at_once + atomic_load (&hwq->dispatched) - atomic_load (&hwq->came_back);
  s->completed = completed;
  s->merged = atomic_load (&hwq->merged);
}

static void
get_class_stats (struct mq *mq, unsigned c, struct mq_class_stats *s)
{
  uint64_t in = 0, done = 0, at_once = 0;
  unsigned i;

  for (i = 0; i < mq->nr_hwqs; ++i) {
    done += atomic_load (&mq->hwq[i].completed[c]) + atomic_load (&mq->hwq[i].apart_ended[c]);
    at_once += atomic_load (&mq->hwq[i].at_once[c]) + atomic_load (&mq->hwq[i].apart_begun[c]);
    in += atomic_load (&mq->hwq[i].came_in[c]);
  }
  s->inserted = at_once + in;
  s->completed = done;
  s->merged = atomic_load (&mq->merged[c]);
  s->populated = STATE_COUNT (atomic_load (&mq->state), c) + express_inside (mq, c);
}

void
mq_get_stats (struct mq *mq, struct mq_stats *s)
{
  unsigned i, c;

  *s = (struct mq_stats) { 0 };
  for (i = 0; i < mq->nr_hwqs; ++i) {
    struct mq_hwq_stats h;

    mq_get_hwq_stats (mq, i, &h);
    s->total.queued += h.queued;
    s->total.run += h.run;
    s->total.useless_runs += h.useless_runs;
    s->total.dispatched += h.dispatched;
    s->total.completed += h.completed;
    s->total.merged += h.merged;
    for (c = 0; c < DL_NR_CLASSES; ++c)
      s->inline_requests += atomic_load (&mq->hwq[i].at_once[c]) +
        atomic_load (&mq->hwq[i].apart_begun[c]);
  }
  for (c = 0; c < DL_NR_CLASSES; ++c)
    get_class_stats (mq, c, &s->class[c]);
  s->owner_wakes = atomic_load (&mq->owner_wakes);
  s->refused = atomic_load (&mq->refused);
  s->requeued = atomic_load (&mq->requeued);
  s->longest_turn_ns = atomic_load (&mq->longest_turn_ns);
  s->longest_wait_ns = atomic_load (&mq->longest_wait_ns);
  s->in_flight = (unsigned) (s->total.dispatched - s->total.completed);
  s->queued = (unsigned) (s->total.queued - s->total.merged - s->total.dispatched);
}

void
mq_check_idle (struct mq *mq)
{
  struct mq_stats s;
  int c;

  express_end (mq, false);
  mq_get_stats (mq, &s);
  assert ((atomic_load (&mq->state) & STATE_COUNTS) == 0);
  assert (atomic_load (&mq->incoming) == NULL);
  assert (mq->nr_sched == 0 && mq->nr_direct == 0 && mq->nr_plugged == 0 && mq->nr_held == 0);
  assert (s.total.queued == s.total.completed + s.total.merged);
  assert (s.total.dispatched == s.total.completed);
  assert (tag_user_in_use (mq->user) == 0);
  for (c = 0; c < DL_NR_CLASSES; ++c)
    assert (atomic_load (&mq->async_inside[c]) == 0);
  dl_check (&mq->dl);
}

/* -- as JSON ----------------------------------------------------------------------------- */

static void
add_number (struct json_object *o, const char *name, uint64_t n)
{
  json_object_object_add (o, name, json_object_new_uint64 (n));
}

static void
add_signed (struct json_object *o, const char *name, int64_t n)
{
  json_object_object_add (o, name, json_object_new_int64 (n));
}

static void
add_text (struct json_object *o, const char *name, const char *text)
{
  json_object_object_add (o, name, json_object_new_string (text));
}

static struct json_object *
hwq_object (const struct mq_hwq_stats *s)
{
  struct json_object *o = json_object_new_object ();

  add_number (o, "queued", s->queued);
  add_number (o, "run", s->run);
  add_number (o, "useless_runs", s->useless_runs);
  add_number (o, "dispatched", s->dispatched);
  add_number (o, "completed", s->completed);
  add_number (o, "merged", s->merged);
  return o;
}

static struct json_object *
classes_object (const struct mq_stats *s)
{
  struct json_object *classes = json_object_new_object (), *o;
  int c;

  for (c = 0; c < DL_NR_CLASSES; ++c) {
    o = json_object_new_object ();
    add_number (o, "inserted", s->class[c].inserted);
    add_number (o, "merged", s->class[c].merged);
    add_number (o, "completed", s->class[c].completed);
    add_number (o, "populated", s->class[c].populated);
    json_object_object_add (classes, class_names[c], o);
  }
  return classes;
}

static struct json_object *
hwqs_array (struct mq *mq)
{
  struct json_object *array = json_object_new_array (), *o;
  struct mq_hwq_stats s;
  unsigned i;

  for (i = 0; i < mq->nr_hwqs; ++i) {
    mq_get_hwq_stats (mq, i, &s);
    if (s.queued == 0 && s.run == 0)
      continue;
    o = hwq_object (&s);
    add_number (o, "hwq", i);
    json_object_array_add (array, o);
  }
  return array;
}

static struct json_object *
tagset_object (struct mq *mq)
{
  struct json_object *o = json_object_new_object (), *users = json_object_new_array (), *u;
  struct tagset_user_info info[TAGSET_MAX_USERS];
  const unsigned n = tagset_users (mq->set, info, TAGSET_MAX_USERS);
  struct tagset_counters c;
  unsigned i;

  tagset_get_counters (mq->set, &c);
  add_text (o, "name", tagset_name (mq->set));
  add_number (o, "tags", tagset_depth (mq->set));
  add_number (o, "reserved_tags", tagset_reserved (mq->set));
  add_number (o, "free", tagset_free (mq->set));
  add_number (o, "wakes", c.wakes);
  add_number (o, "late_wakes", c.late_wakes);
  add_number (o, "reaped_users", c.reaped_users);
  add_number (o, "reaped_tags", c.reaped_tags);
  for (i = 0; i < n; ++i) {
    u = json_object_new_object ();
    add_number (u, "slot", info[i].slot);
    add_text (u, "name", info[i].name);
    add_signed (u, "pid", info[i].pid);
    json_object_object_add (u, "active", json_object_new_boolean (info[i].active));
    json_object_object_add (u, "waiting", json_object_new_boolean (info[i].waiting));
    add_number (u, "in_use", info[i].in_use);
    add_number (u, "limit", info[i].limit);
    add_number (u, "claim", info[i].claim);
    json_object_array_add (users, u);
  }
  json_object_object_add (o, "users", users);
  return o;
}

static struct json_object *
options_object (struct mq *mq)
{
  const struct dl_tunables *t = &mq->options.tunables;
  struct json_object *o = json_object_new_object ();

  add_text (o, "sched", mq->options.sched == MQ_NONE ? "none" : "deadline");
  add_text (o, "run", mq->options.run == MQ_RUN_ALL ? "all" : "own");
  add_text (o, "zoned_writes", mq->one_zone_writer ? "qd1" : "zone");
  add_number (o, "hwqs", mq->nr_hwqs);
  add_number (o, "depth", atomic_load (&mq->depth));
  add_number (o, "async_depth", atomic_load (&mq->async_depth));
  add_signed (o, "read_expire", t->read_expire_ms);
  add_signed (o, "write_expire", t->write_expire_ms);
  add_signed (o, "fifo_batch", t->fifo_batch);
  add_signed (o, "writes_starved", t->writes_starved);
  add_signed (o, "front_merges", t->front_merges);
  add_signed (o, "prio_aging_expire", t->prio_aging_expire_ms);
  return o;
}

/* -- what is queued where ------------------------------------------------------------------ */

static struct json_object *
request_object (struct mq *mq, const struct mq_request *rq)
{
  struct json_object *o = json_object_new_object ();
  const uint64_t now = sh_now (mq->clock);

  add_text (o, "op", rq->kind == MQ_DIRECT ? "direct" : dir_names[rq->dl.dir]);
  add_number (o, "offset", rq->dl.sector);
  add_number (o, "length", rq->dl.nr_sectors);
  add_text (o, "class", class_names[rq->dl.prio_class]);
  add_number (o, "hwq", rq->hwq);
  add_number (o, "waited_us", now > rq->arrived_ns ? (now - rq->arrived_ns) / NS_PER_US : 0);
  return o;
}

static struct json_object *
list_array (struct mq *mq, struct list *head)
{
  struct json_object *array = json_object_new_array ();
  struct list *l;

  for (l = head->next; l != head; l = l->next)
    json_object_array_add (array, request_object (mq, LIST_ENTRY (l, struct mq_request, link)));
  return array;
}

static struct json_object *
fifo_array (struct mq *mq, enum dl_class class, enum dl_dir dir)
{
  struct json_object *array = json_object_new_array ();
  struct dl_request *rq;

  for (rq = dl_fifo_first (&mq->dl, class, dir); rq; rq = dl_fifo_next (&mq->dl, rq))
    json_object_array_add (array,
                           request_object (mq, LIST_ENTRY (rq, struct mq_request, dl)));
  return array;
}

static struct json_object *
next_object (struct mq *mq, enum dl_class class, enum dl_dir dir)
{
  struct dl_request *rq = dl_next_sorted (&mq->dl, class, dir);

  return rq ? request_object (mq, LIST_ENTRY (rq, struct mq_request, dl)) : NULL;
}

static void
add_deadline (struct mq *mq, struct json_object *o)
{
  struct json_object *class;
  int c;

  add_text (o, "last_direction", dir_names[mq->dl.last_dir]);
  add_number (o, "batching", mq->dl.batching);
  add_signed (o, "starved", mq->dl.starved);
  for (c = 0; c < DL_NR_CLASSES; ++c) {
    class = json_object_new_object ();
    json_object_object_add (class, "read_fifo", fifo_array (mq, c, DL_READ));
    json_object_object_add (class, "write_fifo", fifo_array (mq, c, DL_WRITE));
    json_object_object_add (class, "read_next", next_object (mq, c, DL_READ));
    json_object_object_add (class, "write_next", next_object (mq, c, DL_WRITE));
    json_object_object_add (o, class_names[c], class);
  }
}

static void
add_hwq_lists (struct mq *mq, struct json_object *o)
{
  struct json_object *array = json_object_new_array (), *h;
  struct list *l;

  for (l = mq->busy.next; l != &mq->busy; l = l->next) {
    struct hwq *hwq = LIST_ENTRY (l, struct hwq, busy);

    h = json_object_new_object ();
    add_number (h, "hwq", (unsigned) (hwq - mq->hwq));
    json_object_object_add (h, "requests", list_array (mq, &hwq->queued));
    json_object_array_add (array, h);
  }
  json_object_object_add (o, "hwq_lists", array);
}

/* Tags in use: by which user of the set, for which of its hwqs. */
static struct json_object *
tags_array (struct mq *mq)
{
  struct json_object *array = json_object_new_array (), *o;
  const unsigned depth = tagset_depth (mq->set);
  struct tagset_holder holder;
  unsigned tag;

  for (tag = 0; tag < depth; ++tag) {
    if (!tagset_holder (mq->set, tag, &holder))
      continue;
    o = json_object_new_object ();
    add_number (o, "tag", tag);
    add_number (o, "slot", holder.slot);
    add_number (o, "hwq", holder.hint);
    json_object_array_add (array, o);
  }
  return array;
}

static void
dump_queues (struct mq *mq, void *opaque)
{
  struct json_object *o = opaque;

  add_deadline (mq, o);
  add_hwq_lists (mq, o);
  json_object_object_add (o, "direct", list_array (mq, &mq->direct));
  json_object_object_add (o, "zone_waiters", list_array (mq, &mq->plugged));
  json_object_object_add (o, "tags_held", tags_array (mq));
  add_number (o, "held", mq->nr_held);
  add_number (o, "headroom", atomic_load (&mq->headroom));
}

struct json_object *
mq_dump (struct mq *mq, bool queues)
{
  struct json_object *o = json_object_new_object (), *q;
  struct mq_stats s;

  express_unpark_all (mq);      /* tags in hand would be listed as in use */
  mq_get_stats (mq, &s);
  add_text (o, "name", mq->name);
  add_number (o, "queued_now", s.queued);
  add_number (o, "in_flight", s.in_flight);
  json_object_object_add (o, "total", hwq_object (&s.total));
  add_number (o, "inline", s.inline_requests);
  add_number (o, "owner_wakes", s.owner_wakes);
  add_number (o, "refused", s.refused);
  add_number (o, "requeued", s.requeued);
  add_number (o, "longest_turn_us", s.longest_turn_ns / NS_PER_US);
  add_number (o, "longest_wait_us", s.longest_wait_ns / NS_PER_US);
  json_object_object_add (o, "classes", classes_object (&s));
  json_object_object_add (o, "hwqs", hwqs_array (mq));
  json_object_object_add (o, "tagset", tagset_object (mq));
  json_object_object_add (o, "options", options_object (mq));
  if (queues) {
    q = json_object_new_object ();
    mq_as_dispatcher (mq, dump_queues, q);
    json_object_object_add (o, "queues", q);
  }
  return o;
}
