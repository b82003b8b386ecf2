/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The worker: the one thread of a volume, for what nobody should wait for.
 *
 * It does the most urgent thing there is, one step at a time, and sleeps when
 * there is none: for a quarter of a second while something may become due by the
 * passing of time, else until somebody wakes it.  It never polls a drive that
 * answers; one that does not is looked for every few seconds.
 */
#include <config.h>
#include <errno.h>
#include <string.h>
#include "zoned/running.h"

#define TICK_NS   (250 * NS_PER_MS)
#define RETRY_MS  5000u         /* after a failure of what nobody waits for */
#define RETURN_NS (3 * NS_PER_S)        /* between two looks for a dead drive */

struct worker {
  struct sh_volume *v;
  uint64_t seen_activity;
  uint32_t active_ms;           /* when activity was last seen to change */
  uint32_t retry_ms;            /* not before, after a failure */
  bool failed;
  bool looked;                  /* compared the sets, or left it to who writes */
  bool nothing_cold;            /* reclaim found nothing to do in this tick */
  bool nothing_idle;            /* nor in this idle period */
  uint64_t probed_ns;           /* last idle probe, or end of activity */
  uint64_t looked_ns;           /* last look for a dead drive, or its death; 0: alive */
};

void
worker_kick_locked (struct sh_volume *v)
{
  v->kick = true;
  v->worker_waits_long = false;
  pthread_cond_signal (&v->wake);
}

static uint32_t
quiet_for_ms (struct worker *w)
{
  struct sh_volume *const v = w->v;
  const uint32_t now = now_ms (v);

  if (v->activity != w->seen_activity) {
    w->seen_activity = v->activity;
    w->active_ms = now;
    w->nothing_idle = false;
    w->probed_ns = sh_now (v->clock);
  }
  return now - w->active_ms;
}

static bool
failed (struct worker *w)
{
  w->failed = true;
  w->retry_ms = now_ms (w->v) + RETRY_MS;
  return true;
}

static bool
held_off (struct worker *w)
{
  if (w->failed && (int32_t) (now_ms (w->v) - w->retry_ms) >= 0)
    w->failed = false;
  return w->failed;
}

static bool
serve_waiters (struct worker *w)
{
  struct sh_volume *const v = w->v;
  int r;

  if (v->waits == NULL)
    return false;
  r = space_step (v);
  if (r == -1)
    space_fail_all_locked (v, errno);
  else if (r == 0)
    space_fail_all_locked (v, EIO);
  return true;
}

/* Bitmaps that cannot be thrown out before a commit fill the cache, or zones wait
   for a commit while free ones run short. */
static bool
commit_for_room (struct worker *w)
{
  struct sh_volume *const v = w->v;
  const bool many = v->nr_dirty > v->max_bits / 2 && v->nr_bits > v->max_bits / 2;
  const bool short_of_zones = v->pending.count > 0 &&
    random_free_percent_locked (v) < v->opt.reclaim_low;

  if (!many && !short_of_zones)
    return false;
  return commit_join (v) == 0 || failed (w);
}

/* The sets of a small drive are soon compared: before anybody waits for it. */
static bool
look_at_sets (struct worker *w)
{
  struct sh_volume *const v = w->v;

  if (w->looked || v->trusted || v->read_only || v->l.nr_meta_blocks > LOOK_BLOCKS_MAX)
    return false;
  w->looked = true;
  commit_look (v);
  return true;
}

static bool
prepare_commit (struct worker *w)
{
  struct sh_volume *const v = w->v;

  if (v->trusted || v->read_only || !v->modified)
    return false;
  return commit_prepare (v) == 0 || failed (w);
}

/* While others write: only what was not written lately. */
static bool
reclaim_cold (struct worker *w)
{
  struct sh_volume *const v = w->v;

  if (v->paused || w->nothing_cold ||
      random_free_percent_locked (v) >= v->opt.reclaim_low)
    return false;
  if (reclaim_cycle (v, RECLAIM_COLD) != 2)
    w->nothing_cold = true;
  return true;
}

/* Nobody writes: up to the lower mark at once, to the higher one later. */
static bool
reclaim_idle (struct worker *w, unsigned percent)
{
  struct sh_volume *const v = w->v;

  if (v->paused || w->nothing_idle || !v->modified ||
      random_free_percent_locked (v) >= percent)
    return false;
  if (reclaim_cycle (v, RECLAIM_IDLE) != 2)
    w->nothing_idle = true;
  return true;
}

static bool
settle_down (struct worker *w)
{
  struct sh_volume *const v = w->v;

  if (!v->modified || (!commit_needed_locked (v) && !sets_differ_locked (v)))
    return false;
  return commit_equalise (v) == 0 || failed (w);
}

static bool
idle_probe (struct worker *w)
{
  struct sh_volume *const v = w->v;
  const uint64_t now = sh_now (v->clock);

  if (v->opt.probe_interval_ns == 0 || now - w->probed_ns < v->opt.probe_interval_ns)
    return false;
  w->probed_ns = now;
  pthread_mutex_unlock (&v->lock);
  dev_probe (v);
  pthread_mutex_lock (&v->lock);
  return true;
}

static bool
still_dead (const struct sh_volume *v)
{
  return v->dying && !v->lost;
}

/* A drive that has died: is it back? */
static bool
look_for_drive (struct worker *w)
{
  struct sh_volume *const v = w->v;
  const uint64_t now = sh_now (v->clock);

  if (w->looked_ns == 0 || !still_dead (v))
    w->looked_ns = now;
  if (!still_dead (v) || now - w->looked_ns < RETURN_NS)
    return false;
  pthread_mutex_unlock (&v->lock);
  if (volume_resume (v) == 0) {
    const uint64_t end = sh_now (v->clock);

    *w = (struct worker) { .v = v, .probed_ns = end };
  }
  else
    w->looked_ns = sh_now (v->clock);
  pthread_mutex_lock (&v->lock);
  w->active_ms = now_ms (v);
  return true;
}

/* Does the most urgent thing; false if there is none now. */
static bool
work_once (struct worker *w)
{
  struct sh_volume *const v = w->v;
  const uint32_t quiet = quiet_for_ms (w);

  if (v->dying)
    return look_for_drive (w);
  w->looked_ns = 0;
  if (serve_waiters (w) || reset_one (v))
    return true;
  if (!held_off (w) && (commit_for_room (w) || prepare_commit (w) || look_at_sets (w)))
    return true;
  if (reclaim_cold (w))
    return true;
  if (quiet >= QUIET_MS && !held_off (w) && settle_down (w))
    return true;
  if (quiet >= QUIET_MS && reclaim_idle (w, v->opt.reclaim_low))
    return true;
  if (quiet >= IDLE_MS && reclaim_idle (w, v->opt.reclaim_high))
    return true;
  return idle_probe (w);
}

/* Can time alone make something due? */
static bool
time_matters (struct worker *w)
{
  struct sh_volume *const v = w->v;

  if (v->dying)
    return false;
  return now_ms (v) - w->active_ms < IDLE_MS + 2 * QUIET_MS ||
         (v->modified && (commit_needed_locked (v) || sets_differ_locked (v))) ||
         (!v->paused && v->modified && !w->nothing_idle &&
          random_free_percent_locked (v) < v->opt.reclaim_high);
}

static void
rest (struct worker *w)
{
  struct sh_volume *const v = w->v;
  uint64_t until = 0;

  w->nothing_cold = false;
  if (time_matters (w))
    until = sh_now (v->clock) + TICK_NS;
  else {
    v->worker_waits_long = true;
    if (still_dead (v))
      until = w->looked_ns + RETURN_NS;
    else if (v->opt.probe_interval_ns > 0 && !v->dying)
      until = w->probed_ns + v->opt.probe_interval_ns;
  }
  if (until > 0)
    sh_cond_wait_until (v->clock, &v->wake, &v->lock, until);
  else
    pthread_cond_wait (&v->wake, &v->lock);
  v->worker_waits_long = false;
}

static void *
worker_main (void *opaque)
{
  struct sh_volume *const v = opaque;
  struct worker w = { .v = v, .probed_ns = sh_now (v->clock) };

  pthread_mutex_lock (&v->lock);
  w.active_ms = now_ms (v);
  while (!v->stop)
    if (!work_once (&w) && !v->kick && !v->stop)
      rest (&w);
    else
      v->kick = false;
  pthread_mutex_unlock (&v->lock);
  return NULL;
}

int
worker_start (struct sh_volume *v, struct sh_error *err)
{
  int e;

  if (v->read_only || v->worker_runs)
    return 0;
  v->worker_runs = true;
  e = pthread_create (&v->worker, NULL, worker_main, v);
  if (e != 0) {
    v->worker_runs = false;
    return sh_fail (err, e, "%s: the volume's thread cannot be started: %s",
                    v->bdev->info.name, strerror (e));
  }
  return 0;
}

void
worker_stop (struct sh_volume *v)
{
  if (!v->worker_runs)
    return;
  pthread_mutex_lock (&v->lock);
  v->stop = true;
  dev_want_reclaim_locked (v);
  worker_kick_locked (v);
  pthread_mutex_unlock (&v->lock);
  pthread_join (v->worker, NULL);
  v->wanted--;
  v->worker_runs = false;
}
