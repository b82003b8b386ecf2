/* SPDX-License-Identifier: BSD-3-Clause */
#include <config.h>
#include <assert.h>
#include <limits.h>
#include <string.h>
#include "base/bytes.h"
#include "base/clock.h"
#include "mq/count.h"
#include "mq/deadline.h"

const struct dl_tunables dl_default_tunables = {
  .read_expire_ms = 500,
  .write_expire_ms = 5000,
  .fifo_batch = 16,
  .writes_starved = 2,
  .front_merges = 1,
  .prio_aging_expire_ms = 10000,
};

static struct dl_request *
of_node (struct tree_node *node)
{
  return node ? LIST_ENTRY (node, struct dl_request, node) : NULL;
}

static struct dl_request *
of_fifo (struct list *link)
{
  return LIST_ENTRY (link, struct dl_request, fifo);
}

static struct dl_request *
fifo_head (struct dl_per_class *p, enum dl_dir dir)
{
  return of_fifo (p->fifo[dir].next);
}

static uint64_t
end_sector (const struct dl_request *rq)
{
  return rq->sector + rq->nr_sectors;
}

static int64_t
to_ticks (const struct deadline *dl, uint64_t now_ns)
{
  return (int64_t) (now_ns / dl->tick_ns);
}

static int64_t
ms_to_ticks (const struct deadline *dl, int64_t ms)
{
  return (int64_t) DIV_ROUND_UP ((uint64_t) ms * NS_PER_MS, dl->tick_ns);
}

static int64_t
expire_ticks (const struct deadline *dl, enum dl_dir dir)
{
  return ms_to_ticks (dl, dir == DL_READ ? dl->tunables.read_expire_ms
                                         : dl->tunables.write_expire_ms);
}

/* Set-up. */

void
dl_init (struct deadline *dl, uint64_t tick_ns)
{
  int c, d, i;

  assert (tick_ns > 0);
  memset (dl, 0, sizeof *dl);
  dl->tick_ns = tick_ns;
  dl->last_dir = DL_WRITE;
  for (c = 0; c < DL_NR_CLASSES; ++c) {
    list_init (&dl->class[c].head);
    for (d = 0; d < DL_NR_DIRS; ++d)
      list_init (&dl->class[c].fifo[d]);
  }
  for (i = 0; i < DL_HASH_BUCKETS; ++i)
    list_init (&dl->hash[i]);
  dl_set_tunables (dl, &dl_default_tunables);
}

static int64_t
clamp (int64_t v, int64_t min, int64_t max)
{
  return v < min ? min : v > max ? max : v;
}

void
dl_set_tunables (struct deadline *dl, const struct dl_tunables *t)
{
  dl->tunables = (struct dl_tunables) {
    .read_expire_ms = clamp (t->read_expire_ms, 0, INT_MAX),
    .write_expire_ms = clamp (t->write_expire_ms, 0, INT_MAX),
    .fifo_batch = clamp (t->fifo_batch, 0, INT_MAX),
    .writes_starved = clamp (t->writes_starved, INT_MIN, INT_MAX),
    .front_merges = clamp (t->front_merges, 0, 1),
    .prio_aging_expire_ms = clamp (t->prio_aging_expire_ms, 0, INT_MAX),
  };
}

void
dl_set_limits (struct deadline *dl, const struct dl_limits *limits)
{
  dl->limits = *limits;
}

void
dl_request_init (struct dl_request *rq)
{
  rq->sector = rq->nr_sectors = 0;
  rq->nr_segments = 0;
  rq->merge_key = 0;
  rq->dir = DL_READ;
  rq->prio_class = DL_BE;
  rq->mergeable = rq->counted = false;
  rq->state = DL_OUT;
  list_init (&rq->fifo);
  list_init (&rq->hash);
}

/* The merge hash. */

static struct list *
bucket (struct deadline *dl, uint64_t end)
{
  return &dl->hash[(end * UINT64_C (0x9e3779b97f4a7c15)) >> 58];
}

static void
hash_add (struct deadline *dl, struct dl_request *rq)
{
  list_push_front (bucket (dl, end_sector (rq)), &rq->hash);
}

static void
hash_remove (struct deadline *dl, struct dl_request *rq)
{
  list_remove (&rq->hash);
  if (dl->last_merge == rq)
    dl->last_merge = NULL;
}

/* Insertion. */

/* Who is inside changes it; others read. */
static void
add_alone (atomic_uint *counter, int n)
{
  atomic_store_explicit (counter, atomic_load_explicit (counter, memory_order_relaxed) + n,
                         memory_order_relaxed);
}

static void
count_inserted (struct deadline *dl, struct dl_request *rq)
{
  if (rq->counted)
    return;
  rq->counted = true;
  add_alone (&dl->class[rq->prio_class].count.inserted, 1);
}

void
dl_insert (struct deadline *dl, struct dl_request *rq, bool at_head, uint64_t now_ns)
{
  struct dl_per_class *p = &dl->class[rq->prio_class];
  const int64_t now = to_ticks (dl, now_ns);

  assert (rq->state == DL_OUT);
  count_inserted (dl, rq);
  dl->nr_queued++;
  if (at_head) {
    rq->state = DL_AT_HEAD;
    rq->fifo_tick = now;
    list_push_front (&p->head, &rq->fifo);
    return;
  }
  rq->state = DL_SORTED;
  rq->fifo_tick = now + expire_ticks (dl, rq->dir);
  tree_add (&p->tree[rq->dir], &rq->node, rq->sector);
  list_push_back (&p->fifo[rq->dir], &rq->fifo);
  if (rq->mergeable && dl->limits.max_sectors) {
    hash_add (dl, rq);
    if (dl->last_merge == NULL)
      dl->last_merge = rq;
  }
}

/* Off every list, and no longer held. */
static void
unlink_request (struct deadline *dl, struct dl_request *rq)
{
  assert (rq->state != DL_OUT);
  if (rq->state == DL_SORTED) {
    tree_remove (&dl->class[rq->prio_class].tree[rq->dir], &rq->node);
    hash_remove (dl, rq);
  }
  list_remove (&rq->fifo);
  rq->state = DL_OUT;
  dl->nr_queued--;
}

void
dl_withdraw (struct deadline *dl, struct dl_request *rq)
{
  unlink_request (dl, rq);
  add_alone (&dl->class[rq->prio_class].count.inserted, -1);
  rq->counted = false;
}

/* Dispatch. */

static unsigned
queued_or_in_flight (const struct dl_counters *count)
{
  return atomic_load_explicit (&count->inserted, memory_order_relaxed) -
    atomic_load_explicit (&count->completed, memory_order_acquire);
}

unsigned
dl_populated (const struct deadline *dl, enum dl_class class)
{
  return queued_or_in_flight (&dl->class[class].count) +
    dl->in_flight_outside[class];
}

static struct dl_request *
start_request (struct deadline *dl, struct dl_request *rq)
{
  struct dl_per_class *p = &dl->class[rq->prio_class];

  if (rq->state == DL_SORTED)
    p->latest_sector[rq->dir] = rq->sector;
  unlink_request (dl, rq);
  if (MQ_TELLS)
    add_alone (&p->count.dispatched, 1);
  return rq;
}

void
dl_take (struct deadline *dl, struct dl_request *rq)
{
  const uint64_t latest = dl->class[rq->prio_class].latest_sector[rq->dir];

  start_request (dl, rq);
  dl->class[rq->prio_class].latest_sector[rq->dir] = latest;
}

struct dl_request *
dl_next_sorted (struct deadline *dl, enum dl_class class, enum dl_dir dir)
{
  struct dl_per_class *p = &dl->class[class];

  return of_node (tree_at_or_after (&p->tree[dir], p->latest_sector[dir]));
}

/* Where a new batch goes: reads, unless writes have been passed over too
   often.  False when there is nothing. */
static bool
choose_direction (struct deadline *dl, struct dl_per_class *p, enum dl_dir *dir)
{
  const bool reads = !list_empty (&p->fifo[DL_READ]);
  const bool writes = !list_empty (&p->fifo[DL_WRITE]);

  if (reads && !(writes && dl->starved++ >= dl->tunables.writes_starved)) {
    *dir = DL_READ;
    return true;
  }
  if (!writes)
    return false;
  dl->starved = 0;
  *dir = DL_WRITE;
  return true;
}

static struct dl_request *
start_batch (struct deadline *dl, enum dl_class class, int64_t now)
{
  struct dl_per_class *p = &dl->class[class];
  struct dl_request *next, *oldest;
  enum dl_dir dir;

  if (!choose_direction (dl, p, &dir))
    return NULL;
  next = dl_next_sorted (dl, class, dir);
  oldest = fifo_head (p, dir);
  dl->last_dir = dir;
  dl->batching = 0;
  return next == NULL || oldest->fifo_tick <= now ? oldest : next;
}

static struct dl_request *
continue_batch (struct deadline *dl, enum dl_class class)
{
  if ((int64_t) dl->batching >= dl->tunables.fifo_batch)
    return NULL;
  return dl_next_sorted (dl, class, dl->last_dir);
}

/* When it was inserted, as far as the present tunables tell. */
static int64_t
inserted_tick (const struct deadline *dl, const struct dl_request *rq)
{
  return rq->state == DL_AT_HEAD ? rq->fifo_tick
                                 : rq->fifo_tick - expire_ticks (dl, rq->dir);
}

/* A request of `class` that was inserted at `limit` or before.  A refusal has
   already changed direction, batch and starvation, as in the kernel. */
static struct dl_request *
dispatch_class (struct deadline *dl, enum dl_class class, int64_t now, int64_t limit)
{
  struct dl_per_class *p = &dl->class[class];
  struct dl_request *rq;

  if (!list_empty (&p->head)) {
    rq = of_fifo (p->head.next);
    return inserted_tick (dl, rq) > limit ? NULL : start_request (dl, rq);
  }
  rq = continue_batch (dl, class);
  if (rq == NULL)
    rq = start_batch (dl, class, now);
  if (rq == NULL || inserted_tick (dl, rq) > limit)
    return NULL;
  dl->batching++;
  return start_request (dl, rq);
}

static unsigned
nr_populated_classes (const struct deadline *dl)
{
  unsigned n = 0;
  int c;

  for (c = 0; c < DL_NR_CLASSES; ++c)
    n += dl_populated (dl, c) != 0;
  return n;
}

/* Requests of the lower classes that have waited for too long. */
static struct dl_request *
dispatch_aged (struct deadline *dl, int64_t now)
{
  const int64_t limit = now - ms_to_ticks (dl, dl->tunables.prio_aging_expire_ms);
  struct dl_request *rq = NULL;
  int c;

  if (nr_populated_classes (dl) < 2)
    return NULL;
  for (c = DL_BE; c < DL_NR_CLASSES && rq == NULL; ++c)
    rq = dispatch_class (dl, c, now, limit);
  return rq;
}

struct dl_request *
dl_dispatch (struct deadline *dl, uint64_t now_ns)
{
  const int64_t now = to_ticks (dl, now_ns);
  struct dl_request *rq = dispatch_aged (dl, now);
  int c;

  for (c = DL_RT; c < DL_NR_CLASSES && rq == NULL; ++c) {
    rq = dispatch_class (dl, c, now, now);
    if (dl_populated (dl, c) != 0)
      break;
  }
  return rq;
}

/* Merging. */

static bool
fits (const struct deadline *dl, uint64_t sector, uint64_t nr_sectors,
      unsigned nr_segments)
{
  const uint64_t zone = dl->limits.zone_sectors;

  return nr_sectors <= dl->limits.max_sectors &&
    nr_segments <= dl->limits.max_segments &&
    (zone == 0 || sector / zone == (sector + nr_sectors - 1) / zone);
}

static bool
same_kind (const struct dl_request *a, const struct dl_request *b)
{
  return a->mergeable && b->mergeable && a->dir == b->dir &&
    a->prio_class == b->prio_class && a->merge_key == b->merge_key;
}

static bool
can_follow (const struct deadline *dl, const struct dl_request *low,
            const struct dl_request *high)
{
  return same_kind (low, high) && end_sector (low) == high->sector &&
    fits (dl, low->sector, low->nr_sectors + high->nr_sectors,
          low->nr_segments + high->nr_segments);
}

static struct dl_request *
find_behind (struct deadline *dl, const struct dl_request *data)
{
  struct list *b = bucket (dl, data->sector), *l;

  for (l = b->next; l != b; l = l->next) {
    struct dl_request *rq = LIST_ENTRY (l, struct dl_request, hash);

    if (can_follow (dl, rq, data))
      return rq;
  }
  return NULL;
}

/* Several may start at one sector; any of the right kind will do. */
static struct dl_request *
find_before (struct deadline *dl, const struct dl_request *data)
{
  const struct tree *tree = &dl->class[data->prio_class].tree[data->dir];
  struct tree_node *node = tree_at_or_after (tree, end_sector (data));

  for (; node && node->key == end_sector (data); node = tree_next (node))
    if (can_follow (dl, data, of_node (node)))
      return of_node (node);
  return NULL;
}

/* The request that grew last is looked at first, and that look alone finds a
   front merge even where front_merges is 0. */
enum dl_merge
dl_find_merge (struct deadline *dl, const struct dl_request *data,
               struct dl_request **rq)
{
  struct dl_request *last = dl->last_merge;

  *rq = NULL;
  if (!data->mergeable || dl->limits.max_sectors == 0)
    return DL_NO_MERGE;
  if (last && (can_follow (dl, last, data) || can_follow (dl, data, last))) {
    *rq = last;
    return last->sector < data->sector ? DL_BACK_MERGE : DL_FRONT_MERGE;
  }
  if ((*rq = find_behind (dl, data)) != NULL)
    return DL_BACK_MERGE;
  if (dl->tunables.front_merges && (*rq = find_before (dl, data)) != NULL)
    return DL_FRONT_MERGE;
  return DL_NO_MERGE;
}

void
dl_merge (struct deadline *dl, enum dl_merge how, struct dl_request *rq,
          uint64_t nr_sectors, unsigned nr_segments)
{
  assert (rq->state == DL_SORTED && how != DL_NO_MERGE);
  rq->nr_sectors += nr_sectors;
  rq->nr_segments += nr_segments;
  if (how == DL_FRONT_MERGE) {
    struct tree *tree = &dl->class[rq->prio_class].tree[rq->dir];

    rq->sector -= nr_sectors;
    tree_remove (tree, &rq->node);
    tree_add (tree, &rq->node, rq->sector);
  }
  else {
    list_remove (&rq->hash);
    hash_add (dl, rq);
  }
  dl->last_merge = rq;
}

struct dl_request *
dl_joinable_after (struct deadline *dl, struct dl_request *rq)
{
  struct dl_request *next = of_node (tree_next (&rq->node));

  return next && can_follow (dl, rq, next) ? next : NULL;
}

static struct dl_request *
joinable_before (struct deadline *dl, struct dl_request *rq)
{
  struct dl_request *prev = of_node (tree_prev (&rq->node));

  return prev && can_follow (dl, prev, rq) ? prev : NULL;
}

/* `low` absorbs `high`, its place in the FIFO too if that is better. */
static void
absorb (struct deadline *dl, struct dl_request *low, struct dl_request *high)
{
  struct dl_counters *count = &dl->class[high->prio_class].count;

  if (high->fifo_tick < low->fifo_tick) {
    list_remove (&low->fifo);
    list_replace (&high->fifo, &low->fifo);
    low->fifo_tick = high->fifo_tick;
  }
  low->nr_sectors += high->nr_sectors;
  low->nr_segments += high->nr_segments;
  list_remove (&low->hash);
  hash_add (dl, low);
  unlink_request (dl, high);
  dl->last_merge = low;
  if (MQ_TELLS)
    add_alone (&count->merged, 1);
}

struct dl_request *
dl_join (struct deadline *dl, struct dl_request *rq, struct dl_request **by)
{
  struct dl_request *prev, *next = dl_joinable_after (dl, rq);

  if (next) {
    absorb (dl, rq, next);
    *by = rq;
    return next;
  }
  prev = joinable_before (dl, rq);
  if (prev == NULL)
    return NULL;
  absorb (dl, prev, rq);
  *by = prev;
  return rq;
}

/* Listings. */

struct dl_request *
dl_fifo_first (struct deadline *dl, enum dl_class class, enum dl_dir dir)
{
  struct dl_per_class *p = &dl->class[class];

  return list_empty (&p->fifo[dir]) ? NULL : fifo_head (p, dir);
}

struct dl_request *
dl_fifo_next (struct deadline *dl, struct dl_request *rq)
{
  struct list *head = &dl->class[rq->prio_class].fifo[rq->dir];

  return rq->fifo.next == head ? NULL : of_fifo (rq->fifo.next);
}

static unsigned
check_fifo (struct deadline *dl, enum dl_class class, enum dl_dir dir)
{
  struct dl_request *rq;
  unsigned n = 0;

  for (rq = dl_fifo_first (dl, class, dir); rq; rq = dl_fifo_next (dl, rq)) {
    assert (rq->state == DL_SORTED);
    assert (rq->dir == dir && rq->prio_class == class);
    assert (rq->node.key == rq->sector);
    assert (rq->counted);
    ++n;
  }
  return n;
}

static unsigned
count_nodes (struct tree *tree)
{
  struct tree_node *node;
  unsigned n = 0;

  tree_check (tree);
  for (node = tree_at_or_after (tree, 0); node; node = tree_next (node))
    ++n;
  return n;
}

void
dl_check (struct deadline *dl)
{
  unsigned total = 0, in_class;
  struct list *l;
  int c, d;

  for (c = 0; c < DL_NR_CLASSES; ++c) {
    struct dl_per_class *p = &dl->class[c];

    in_class = 0;
    for (d = 0; d < DL_NR_DIRS; ++d) {
      const unsigned n = check_fifo (dl, c, d);

      assert (n == count_nodes (&p->tree[d]));
      in_class += n;
    }
    for (l = p->head.next; l != &p->head; l = l->next) {
      assert (of_fifo (l)->state == DL_AT_HEAD);
      ++in_class;
    }
    assert (queued_or_in_flight (&p->count) >= in_class);
    total += in_class;
  }
  assert (total == dl->nr_queued);
  assert (dl->last_merge == NULL || dl->last_merge->state == DL_SORTED);
}
