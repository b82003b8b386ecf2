/* SPDX-License-Identifier: BSD-3-Clause */
/* Queues come, change while I/O runs, and go. */
#include <config.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/bytes.h"
#include "base/error.h"
#include "mq/express.h"
#include "mq/internal.h"

/* -- life -------------------------------------------------------------------------------------------------- */

static void
wake_queue (void *opaque)
{
  struct mq *mq = opaque;

  mq_run_queue (mq, &mq->hwq[0]);
  tag_pass_on (mq->user);
}

/* The set is no longer ours alone, or has another size. */
static void
give_tags_back (void *opaque)
{
  express_end (opaque, false);
}

static void
init_hwq (struct hwq *hwq)
{
  unsigned c, d;

  list_init (&hwq->queued);
  list_init (&hwq->busy);
  for (c = 0; c < DL_NR_CLASSES; ++c)
    for (d = 0; d < DL_NR_DIRS; ++d) {
      list_init (&hwq->held[c][d]);
      list_init (&hwq->held_link[c][d]);
    }
}

static void
init_lists (struct mq *mq)
{
  unsigned c, d, i;

  list_init (&mq->busy);
  list_init (&mq->direct);
  list_init (&mq->plugged);
  for (c = 0; c < DL_NR_CLASSES; ++c)
    for (d = 0; d < DL_NR_DIRS; ++d)
      list_init (&mq->held_ring[c][d]);
  for (i = 0; i < mq->nr_hwqs; ++i)
    init_hwq (&mq->hwq[i]);
}

/* depth and async_depth as given, or what 0 means. */
static void
set_depths (struct mq *mq)
{
  const struct mq_options *o = &mq->options;
  const unsigned depth = o->depth ? o->depth : 2 * tagset_depth (mq->set);
  const unsigned async_depth = o->async_depth ? o->async_depth : depth;

  atomic_store (&mq->depth, depth);
  atomic_store (&mq->async_depth, async_depth);
  atomic_store (&mq->async_limited, async_depth < depth);
  express_end (mq, false);
}

static int
allocate (struct mq *mq, const struct mq_config *config)
{
  mq->hwq = aligned_alloc (64, mq->nr_hwqs * sizeof *mq->hwq);
  if (config->nr_zones)
    mq->zone_state = calloc (config->nr_zones, sizeof *mq->zone_state);
  if (mq->hwq == NULL || (config->nr_zones && !mq->zone_state))
    return -1;
  memset (mq->hwq, 0, mq->nr_hwqs * sizeof *mq->hwq);
  return 0;
}

static void
deallocate (struct mq *mq)
{
  free (mq->hwq);
  free ((void *) mq->zone_state);
  free (mq);
}

static void
configure (struct mq *mq, const struct mq_config *config)
{
  struct dl_limits limits = config->limits;

  mq->options = config->options;
  mq->one_zone_writer = config->options.zoned_writes == MQ_QD1;
  mq->set = config->tagset;
  mq->ops = config->ops;
  mq->device = config->device;
  mq->clock = config->clock ? config->clock : &sh_clock_monotonic;
  strncpy (mq->name, config->name, sizeof mq->name - 1);
  limits.zone_sectors = config->nr_zones ? config->zone_sectors : 0;
  dl_init (&mq->dl, 1);
  dl_set_limits (&mq->dl, &limits);
  dl_set_tunables (&mq->dl, &config->options.tunables);
  mq->options.tunables = mq->dl.tunables;
  atomic_store (&mq->run, config->options.run);
  init_lists (mq);
  set_depths (mq);
  mq_switch_sched_locked (mq, config->options.sched);
  pthread_mutex_init (&mq->timer_lock, NULL);
  sh_cond_init (&mq->timer_cond);
}

int
mq_create (const struct mq_config *config, struct mq **ret, struct sh_error *err)
{
  struct mq *mq;

  if (config->options.hwqs < 1 || config->options.hwqs > MQ_MAX_HWQS)
    return sh_fail (err, EINVAL, "hwqs: %u is outside 1 ... %u", config->options.hwqs,
                    MQ_MAX_HWQS);
  mq = aligned_alloc (64, (sizeof *mq + 63) & ~(size_t) 63);
  if (mq == NULL)
    return sh_fail (err, errno, "%s: %s", config->name, strerror (errno));
  memset (mq, 0, sizeof *mq);
  mq->nr_hwqs = config->options.hwqs;
  if (allocate (mq, config) == -1) {
    deallocate (mq);
    return sh_fail (err, ENOMEM, "%s: %s", config->name, strerror (ENOMEM));
  }
  configure (mq, config);
  if (tag_user_add (mq->set, mq->name, wake_queue, mq, &mq->user, err) == -1) {
    deallocate (mq);
    return -1;
  }
  tag_user_may_keep (mq->user, give_tags_back);
  *ret = mq;
  return 0;
}

void
mq_destroy (struct mq *mq)
{
  pthread_mutex_lock (&mq->timer_lock);
  mq->timer_stop = true;
  pthread_cond_signal (&mq->timer_cond);
  pthread_mutex_unlock (&mq->timer_lock);
  if (mq->timer_started)
    pthread_join (mq->timer, NULL);
  mq_check_idle (mq);
  tag_user_remove (mq->user);
  pthread_mutex_destroy (&mq->timer_lock);
  pthread_cond_destroy (&mq->timer_cond);
  deallocate (mq);
}

unsigned
mq_nr_hwqs (const struct mq *mq)
{
  return mq->nr_hwqs;
}

struct tagset *
mq_tagset (struct mq *mq)
{
  return mq->set;
}

const struct mq_options *
mq_get_options (const struct mq *mq)
{
  return &mq->options;
}

/* -- changes ------------------------------------------------------------------------------------------------- */

static void
switch_sched (struct mq *mq, void *opaque)
{
  mq_switch_sched_locked (mq, *(enum mq_sched *) opaque);
}

void
mq_set_sched (struct mq *mq, enum mq_sched sched)
{
  mq_as_dispatcher (mq, switch_sched, &sched);
}

static void
change_tunables (struct mq *mq, void *opaque)
{
  dl_set_tunables (&mq->dl, opaque);
  mq->options.tunables = mq->dl.tunables;
}

void
mq_set_tunables (struct mq *mq, const struct dl_tunables *tunables)
{
  mq_as_dispatcher (mq, change_tunables, (void *) tunables);
}

void
mq_set_run (struct mq *mq, enum mq_run run)
{
  mq->options.run = run;
  atomic_store (&mq->run, run);
  express_end (mq, false);
}

static void
change_depths (struct mq *mq, void *opaque)
{
  const struct mq_options *o = opaque;

  mq->options.depth = o->depth;
  mq->options.async_depth = o->async_depth;
  set_depths (mq);
}

/* These are part of what other threads hold on to. */
static bool
is_fixed (const char *key)
{
  static const char *const fixed[] = { "tagset", "reserved_tags", "hwqs", "control",
                                       "zoned_writes" };
  size_t i;

  for (i = 0; i < ARRAY_SIZE (fixed); ++i)
    if (strcmp (key, fixed[i]) == 0)
      return true;
  return false;
}

int
mq_set_option (struct mq *mq, const char *key, const char *value, struct sh_error *err)
{
  struct mq_options o = mq->options;
  int r;

  if (is_fixed (key))
    return sh_fail (err, EBUSY, "%s: cannot be changed while running", key);
  o.given = 0;
  r = mq_option (&o, key, value, err);
  if (r == 0)
    return sh_fail (err, EINVAL, "%s: there is no such option", key);
  if (r == -1)
    return -1;
  if (o.tags != mq->options.tags) {
    if (tagset_resize (mq->set, o.tags, err) == -1)
      return -1;
    mq->options.tags = o.tags;
  }
  mq->options.prio = o.prio;
  mq_set_tunables (mq, &o.tunables);
  mq_as_dispatcher (mq, change_depths, &o);
  mq_set_run (mq, o.run);
  if (o.sched != mq->options.sched)
    mq_set_sched (mq, o.sched);
  return 0;
}
