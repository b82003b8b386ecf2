/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A drive that died and is back: the volume goes on without being opened again.
 *
 * Nothing that is in memory is trusted: the drive may have lost its cache, or a
 * write of unknown fate may have reached it.  The volume is loaded once more
 * beside the old state, exactly as after a crash, and takes its place, when
 *   - the drive is the same one (the disk below has compared its identity),
 *   - it holds this volume (version, sizes, label, uuids), and
 *   - its generation is the last one that we know to be durable, or the one whose
 *     superblock was on its way when the drive died.
 * Otherwise somebody else has used the drive meanwhile; then it is left alone
 * for good, and the log says so.
 *
 * Where writes were answered but not flushed when the drive died, or a write
 * pointer lies before one that we saw, such writes may be lost.  Who sent them
 * must hear of it, or a later flush of his would lie: sh_volume_epoch changes,
 * and the servers refuse whoever has seen the earlier value.
 */
#include <config.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "zoned/running.h"

/* Nobody is inside a call, and nobody gets in; else try later. */
static bool
close_gate (struct sh_volume *v)
{
  atomic_store (&v->gate_closed, true);
  if (atomic_load (&v->users) == 0)
    return true;
  atomic_store (&v->gate_closed, false);
  return false;
}

/* NULL when n, as loaded from the drive, is the volume that we served. */
static const char *
stranger (const struct sh_volume *v, const struct sh_volume *n)
{
  const struct super *const was = &v->super[v->cur], *const is = &n->super[n->cur];

  if (n->table->zone_bytes != v->table->zone_bytes ||
      n->table->size_bytes != v->table->size_bytes || n->l.nr_zones != v->l.nr_zones)
    return "its zones are others than before";
  if (!super_same_volume (was, is) ||
      memcmp (was->dev_uuid, is->dev_uuid, sizeof was->dev_uuid) != 0)
    return "it holds another volume";
  if (n->gen < v->gen)
    return "it holds an older state of the volume than was flushed to it";
  if (n->gen > v->gen && !(v->doubt.active && n->gen == v->doubt.gen))
    return "the volume on it was written to meanwhile, by someone else";
  return NULL;
}

/* A write pointer that went back took data with it. */
static bool
pointer_went_back (const struct sh_volume *v, const struct sh_volume *n)
{
  uint32_t z;

  for (z = 0; z < v->l.nr_zones; ++z)
    if (v->zones[z].state == ZS_DATA && n->zones[z].wp < v->zones[z].wp)
      return true;
  return false;
}

static bool
may_have_lost (const struct sh_volume *v, const struct sh_volume *n)
{
  return commit_needed_locked (v) || v->unsynced || pointer_went_back (v, n);
}

#define SWAP(member)                            \
  do {                                          \
    const typeof (v->member) kept = v->member;  \
    v->member = n->member;                      \
    n->member = kept;                           \
  } while (0)

/* Everything that loading makes goes over; what belongs to the calls (lock,
   conditions, worker, pools, counters, options) stays. */
static void
take_over_locked (struct sh_volume *v, struct sh_volume *n)
{
  SWAP (table);
  SWAP (l);
  SWAP (random);
  SWAP (nr_random);
  SWAP (nr_seq);
  SWAP (map);
  SWAP (map_flags);
  SWAP (chunk_bad);
  SWAP (zones);
  SWAP (free_random);
  SWAP (free_seq);
  SWAP (unreset);
  SWAP (pending);
  SWAP (committing);
  SWAP (nr_mapped);
  SWAP (nr_buffered);
  SWAP (nr_waiting_readers);
  SWAP (hand);
  SWAP (bits_pool);
  SWAP (nr_bits);
  SWAP (sb);
  memcpy (v->sb_known, n->sb_known, sizeof v->sb_known);
  memcpy (v->super, n->super, sizeof v->super);
  SWAP (cur);
  SWAP (gen);
  SWAP (other_gen);
  SWAP (trusted);
  SWAP (unsynced);
  SWAP (doubt);
  SWAP (dirty);
  SWAP (in_commit);
  SWAP (stale);
  SWAP (nr_dirty);
  SWAP (nr_in_commit);
  SWAP (nr_stale);
  SWAP (map_dirty);
  SWAP (map_stale);
  v->commit_ok = v->commit_ended = v->commit_started;   /* what was loaded is durable */
}

static void
give_up_locked (struct sh_volume *v, const char *why)
{
  v->lost = true;
  sh_log (v->opt.log, SH_LOG_ERROR, "%s: the drive is back, but %s: it is not touched; end "
          "this server, and let 'shingle check' look at the drive before you open the "
          "volume again", v->bdev->info.name, why);
}

static void
go_on_locked (struct sh_volume *v, struct sh_volume *n)
{
  const bool lost = may_have_lost (v, n);

  take_over_locked (v, n);
  if (lost)
    atomic_fetch_add (&v->epoch, 1);
  v->st.returns++;
  atomic_store (&v->gate_closed, false);
  v->dying = false;
  v->modified = true;           /* the sets may need to be made equal */
  sh_log (v->opt.log, SH_LOG_WARNING, "%s: the drive is back; the volume goes on%s",
          v->bdev->info.name,
          lost ? ", but writes that were not flushed may be lost: who used it before must "
                 "connect (or mount) again" : "; nothing was lost");
}

/* The disk fails the first flush after a loss of power; the epoch tells of that
   loss, so this flush takes the failure. */
static int
take_deferred_error (struct sh_volume *v)
{
  struct bdev_req req = { .op = BDEV_FLUSH, .prio = BDEV_PRIO_BE };
  int r = bdev_execute (v->bdev, &req);

  if (r == -1) {
    req = (struct bdev_req) { .op = BDEV_FLUSH, .prio = BDEV_PRIO_BE };
    r = bdev_execute (v->bdev, &req);
  }
  return r;
}

/* The gate is closed; the lock is not held. */
static int
load_again (struct sh_volume *v)
{
  struct sh_error err = { 0 };
  struct sh_volume *n;
  const char *why;
  int r = -1;

  if (take_deferred_error (v) == -1)
    return -1;
  n = volume_new (v->bdev, &v->opt, &err);
  if (n == NULL)
    return -1;
  if (volume_load (n, &err) == -1) {
    sh_log (v->opt.log, SH_LOG_WARNING, "%s: the drive answers again, but the volume cannot "
            "be loaded: %s", v->bdev->info.name, err.message);
    volume_free (n);
    return -1;
  }
  pthread_mutex_lock (&v->lock);
  why = stranger (v, n);
  if (why != NULL)
    give_up_locked (v, why);
  else {
    go_on_locked (v, n);
    r = 0;
  }
  pthread_mutex_unlock (&v->lock);
  volume_free (n);
  return r;
}

int
volume_resume (struct sh_volume *v)
{
  int r;

  if (dev_probe_quietly (v) == -1 || !close_gate (v))
    return -1;
  r = load_again (v);
  atomic_store (&v->gate_closed, false);
  return r;
}
