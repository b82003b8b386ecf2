/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The volume's calls (shingle/volume.h).  See running.h for how it works inside.
 */
#include <config.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "zoned/running.h"

/* ---- life ---- */

static void
set_options (struct sh_volume *v, const struct sh_volume_options *options)
{
  v->opt = *options;
  v->clock = options->clock ? options->clock : &sh_clock_monotonic;
  if (v->opt.reclaim_low == 0)
    v->opt.reclaim_low = DEFAULT_RECLAIM_LOW;
  if (v->opt.reclaim_high == 0)
    v->opt.reclaim_high = MAX (DEFAULT_RECLAIM_HIGH, v->opt.reclaim_low);
  if (v->opt.reorder_window_ns == 0)
    v->opt.reorder_window_ns = DEFAULT_REORDER_NS;
  v->reorder_ns = v->opt.reorder_window_ns;
  v->gap.chunk = CHUNK_NONE;
  if (v->opt.cache_bytes == 0)
    v->opt.cache_bytes = DEFAULT_CACHE_BYTES;
  v->read_only = options->read_only || v->bdev->info.read_only;
}

void
volume_free (struct sh_volume *v)
{
  bits_free_all (v);
  chunk_pool_free (v);
  free (v->redo_buf);
  free (v->copy_buf);
  free (v->map_flags);
  free (v->map);
  free (v->stale);
  free (v->in_commit);
  free (v->dirty);
  free (v->random);
  free (v->zones);
  free (v->chunk_bad);
  free (v->sb);
  if (v->table != NULL)
    zone_table_free (v->table);
  pthread_cond_destroy (&v->wake);
  pthread_cond_destroy (&v->reclaimed);
  pthread_cond_destroy (&v->committed);
  pthread_cond_destroy (&v->loaded);
  pthread_cond_destroy (&v->thaw);
  pthread_mutex_destroy (&v->lock);
  free (v);
}

struct sh_volume *
volume_new (struct bdev *bdev, const struct sh_volume_options *options,
            struct sh_error *err)
{
  struct sh_volume *const v = calloc (1, sizeof *v);

  if (v == NULL) {
    sh_fail (err, ENOMEM, "%s: not enough memory to load the volume", bdev->info.name);
    return NULL;
  }
  v->bdev = bdev;
  set_options (v, options);
  v->epoch_ns = sh_now (v->clock);
  pthread_mutex_init (&v->lock, NULL);
  sh_cond_init (&v->thaw);
  sh_cond_init (&v->loaded);
  sh_cond_init (&v->committed);
  sh_cond_init (&v->reclaimed);
  sh_cond_init (&v->wake);
  return v;
}

int
sh_volume_open (struct bdev *bdev, const struct sh_volume_options *options,
                struct sh_volume **volume, struct sh_error *err)
{
  struct sh_volume *const v = volume_new (bdev, options, err);

  if (v == NULL)
    return -1;
  if (volume_load (v, err) == -1) {
    volume_free (v);
    errno = err->errnum;
    return -1;
  }
  *volume = v;
  return 0;
}

int
sh_volume_start (struct sh_volume *v, struct sh_error *err)
{
  return worker_start (v, err);
}

/* All free sequential zones are empty when nobody uses the volume; but after a large
   trim that could take a drive minutes, and nobody waits so long for a close.  What is
   left is reset when the volume is open again, or where a zone is used. */
static void
reset_all (struct sh_volume *v)
{
  const uint64_t until = sh_now (v->clock) + CLOSE_RESET_NS;

  while (!v->dying && sh_now (v->clock) < until && reset_one (v))
    ;
  if (!v->dying && v->unreset.count > 0)
    sh_log (v->opt.log, SH_LOG_INFO, "%s: %" PRIu32 " unused zones still hold old data; they "
            "are reset when the volume is open again, or by 'shingle check --repair'",
            v->bdev->info.name, v->unreset.count);
}

int
sh_volume_close (struct sh_volume *v, struct sh_error *err)
{
  int r = 0, e = 0;

  worker_stop (v);
  pthread_mutex_lock (&v->lock);
  /* Also tidies up what a power cut left, when nothing was written since. */
  if (!v->read_only && (v->modified || sets_differ_locked (v) || v->unreset.count > 0)) {
    r = commit_equalise (v);
    e = errno;
    if (r == 0)
      reset_all (v);
  }
  pthread_mutex_unlock (&v->lock);
  if (r == -1)
    sh_fail (err, e, "%s: the last changes could not be written: %s",
             v->bdev->info.name, sh_drive_error (e));
  bdev_close (v->bdev);
  volume_free (v);
  return r;
}

uint64_t
sh_volume_size (const struct sh_volume *v)
{
  return v->size_bytes;
}

unsigned
sh_volume_epoch (const struct sh_volume *v)
{
  return atomic_load (&v->epoch);
}

const char *
sh_volume_label (const struct sh_volume *v)
{
  return v->label;
}

/* ---- I/O ---- */

/* What a client can make use of. */
static int
result (int r)
{
  if (r == -1)
    switch (errno) {
    case EREMOTEIO:
    case ETIMEDOUT:
    case ETOOMANYREFS:
    case EROFS:
      errno = EIO;
    }
  return r;
}

static bool
in_range (const struct sh_volume *v, uint64_t count, uint64_t offset, int errnum)
{
  if (offset <= v->size_bytes && count <= v->size_bytes - offset)
    return true;
  errno = errnum;
  return false;
}

static bool
writable (const struct sh_volume *v, uint64_t count, uint64_t offset, int errnum)
{
  if (!v->read_only)
    return in_range (v, count, offset, errnum);
  errno = EROFS;
  return false;
}

static void
count_call (struct sh_volume *v, uint64_t *calls, uint64_t *bytes, uint64_t count)
{
  __atomic_fetch_add (calls, 1, __ATOMIC_RELAXED);
  __atomic_fetch_add (bytes, count, __ATOMIC_RELAXED);
}

static int
commit_if (struct sh_volume *v, bool needed)
{
  int r = 0;

  if (needed) {
    pthread_mutex_lock (&v->lock);
    r = commit_join (v);
    pthread_mutex_unlock (&v->lock);
  }
  return r;
}

static int
read_range (struct sh_volume *v, uint8_t *p, uint64_t count, uint64_t offset,
            unsigned hint)
{
  const uint64_t zone_bytes = v->table->zone_bytes;

  while (count > 0) {
    const uint64_t in_chunk = offset & (zone_bytes - 1);
    const uint64_t n = MIN (count, zone_bytes - in_chunk);

    if (read_blocks (v, offset / zone_bytes, in_chunk, n, p, hint) == -1)
      return -1;
    offset += n;
    p += n;
    count -= n;
  }
  return 0;
}

int
sh_volume_pread (struct sh_volume *v, void *buf, size_t count, uint64_t offset,
                 unsigned hint)
{
  if (!in_range (v, count, offset, EINVAL) || !volume_enter (v))
    return -1;
  count_call (v, &v->calls.reads, &v->calls.read_bytes, count);
  return result (volume_leave (v, read_range (v, buf, count, offset, hint)));
}

int
sh_volume_pwrite (struct sh_volume *v, const void *buf, size_t count, uint64_t offset,
                  unsigned flags, unsigned hint)
{
  const bool fua = flags & SH_FUA;
  bool need_commit = false;
  int r;

  if (!writable (v, count, offset, ENOSPC) || !volume_enter (v))
    return -1;
  count_call (v, &v->calls.writes, &v->calls.written_bytes, count);
  r = write_range (v, buf, count, offset, hint, fua, &need_commit);
  if (r == 0)
    r = commit_if (v, need_commit);
  return result (volume_leave (v, r));
}

int
sh_volume_flush (struct sh_volume *v)
{
  if (!volume_enter (v))
    return -1;
  __atomic_fetch_add (&v->calls.flushes, 1, __ATOMIC_RELAXED);
  return result (volume_leave (v, commit_if (v, true)));
}

int
sh_volume_trim (struct sh_volume *v, uint64_t count, uint64_t offset, unsigned flags)
{
  uint64_t first, end;
  int r = 0;

  if (!writable (v, count, offset, EINVAL) || !volume_enter (v))
    return -1;
  count_call (v, &v->calls.trims, &v->calls.trimmed_bytes, count);
  first = DIV_ROUND_UP (offset, BLOCK_BYTES);
  end = (offset + count) / BLOCK_BYTES;
  if (first < end)
    r = trim_range (v, first, end);
  if (r == 0)
    r = commit_if (v, flags & SH_FUA);
  return result (volume_leave (v, r));
}

int
sh_volume_zero (struct sh_volume *v, uint64_t count, uint64_t offset, unsigned flags)
{
  const bool fua = flags & SH_FUA;
  bool need_commit = false;
  int r = 0;

  if (!writable (v, count, offset, ENOSPC))
    return -1;
  /* Less than a block is read, changed and written: no faster than a write. */
  if ((flags & SH_FAST) && count > 0 &&
      DIV_ROUND_UP (offset, BLOCK_BYTES) >= (offset + count) / BLOCK_BYTES) {
    errno = ENOTSUP;
    return -1;
  }
  if (!volume_enter (v))
    return -1;
  count_call (v, &v->calls.zeroes, &v->calls.zeroed_bytes, count);
  if (count > 0)
    r = zero_range (v, offset, offset + count, fua, &need_commit);
  if (r == 0)
    r = commit_if (v, need_commit);
  return result (volume_leave (v, r));
}

/* ---- what it is doing ---- */

/* The counters that are kept without the lock. */
static void
load_calls (struct sh_volume *v, struct sh_volume_stats *stats)
{
  stats->reads = __atomic_load_n (&v->calls.reads, __ATOMIC_RELAXED);
  stats->read_bytes = __atomic_load_n (&v->calls.read_bytes, __ATOMIC_RELAXED);
  stats->writes = __atomic_load_n (&v->calls.writes, __ATOMIC_RELAXED);
  stats->written_bytes = __atomic_load_n (&v->calls.written_bytes, __ATOMIC_RELAXED);
  stats->trims = __atomic_load_n (&v->calls.trims, __ATOMIC_RELAXED);
  stats->trimmed_bytes = __atomic_load_n (&v->calls.trimmed_bytes, __ATOMIC_RELAXED);
  stats->zeroes = __atomic_load_n (&v->calls.zeroes, __ATOMIC_RELAXED);
  stats->zeroed_bytes = __atomic_load_n (&v->calls.zeroed_bytes, __ATOMIC_RELAXED);
  stats->flushes = __atomic_load_n (&v->calls.flushes, __ATOMIC_RELAXED);
}

void
sh_volume_get_stats (struct sh_volume *v, struct sh_volume_stats *stats)
{
  pthread_mutex_lock (&v->lock);
  *stats = v->st;
  load_calls (v, stats);
  stats->zones = v->l.nr_zones;
  stats->random_zones = v->nr_random;
  stats->random_free = v->free_random.count;
  stats->seq_zones = v->nr_seq;
  stats->seq_free = free_seq_locked (v);
  stats->reserved_seq = v->l.nr_reserved;
  stats->chunks = v->l.nr_chunks;
  stats->chunks_mapped = v->nr_mapped;
  stats->chunks_buffered = v->nr_buffered;
  stats->generation = v->gen;
  stats->dying = v->dying;
  stats->read_only = v->read_only;
  stats->reclaim_paused = v->paused;
  pthread_mutex_unlock (&v->lock);
}

void
sh_volume_reclaim_pause (struct sh_volume *v, bool pause)
{
  pthread_mutex_lock (&v->lock);
  v->paused = pause;
  if (v->worker_runs)
    worker_kick_locked (v);
  pthread_mutex_unlock (&v->lock);
}

static int
reclaim_all (struct sh_volume *v)
{
  int r = 0, useless = 0;

  pthread_mutex_lock (&v->lock);
  v->modified = true;
  do {
    r = reclaim_cycle (v, RECLAIM_IDLE);
    useless = r == 1 ? useless + 1 : 0;
    /* Zones that were given back are of use after a commit. */
    if (r == 0 && v->pending.count > 0)
      r = commit_join (v) == 0 ? 1 : -1;
  } while (r > 0 && useless < 8);
  while (r == 0 && reset_one (v))
    ;
  pthread_mutex_unlock (&v->lock);
  return r == -1 ? -1 : 0;
}

int
sh_volume_reclaim_now (struct sh_volume *v)
{
  if (v->read_only) {
    errno = EROFS;
    return -1;
  }
  if (!volume_enter (v))
    return -1;
  return result (volume_leave (v, reclaim_all (v)));
}
