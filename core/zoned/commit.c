/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Commits: making what is in memory durable, in one of the two sets.
 *
 * A commit copies, under the lock, every block that the older set lacks (changed
 * now, or in the commit before), then works without it: the blocks, one
 * SYNCHRONIZE CACHE - which makes the data durable as well, since bits are set
 * only for data that was written before - and the superblock with the next
 * generation.  Reads and writes go on meanwhile; what they change belongs to the
 * next commit.  Whoever asks while a commit runs shares the next one.
 *
 * What the other set holds at load cannot be trusted, not even with an equal
 * generation (a commit of the kernel may have been cut short).  So before the first
 * commit it is compared with the current one and made equal.  And when both sets
 * have one generation, the current one first gets the next: a set that is being
 * written is always the older one.
 *
 * What is written is counted in units, physical blocks of the drive: on one whose
 * blocks are 512 bytes a bitmap of 4096 bits is one of them, and what stands behind
 * it in its block, zeroes as formatted, is left alone.  The same goes for the mapping
 * table, and for what a superblock has behind its fields once it is known to be there.
 *
 * When the write of the superblock itself fails, nobody knows whether it is on the
 * drive.  That set is complete, so it stays as it is, and its superblock is written
 * again before anything else (sb_doubt): no set with a superblock that might count
 * is ever changed.
 */
#include <config.h>
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "zoned/running.h"

#define GATHER_BYTES (256 * KiB)        /* neighbouring metadata in one write */
#define COMPARE_BLOCKS 256u     /* read at a time when the sets are compared */

/* A unit of the mapping table, or those of one zone's bitmap, to be written. */
struct item {
  uint32_t unit;                /* in the set */
  uint32_t count;
  enum { ITEM_COPY, ITEM_PREFIX, ITEM_READ } kind;
  uint32_t prefix;              /* ITEM_PREFIX: bits set from the first on */
  size_t at;                    /* ITEM_COPY: in snapshot.copy */
  size_t len;                   /* bytes there; the rest is zero */
};

struct snapshot {
  struct item *items;
  uint32_t nr;
  uint8_t *copy;
  size_t copied;
};

bool
commit_needed_locked (const struct sh_volume *v)
{
  return v->nr_dirty > 0 || v->map_dirty > 0 || v->doubt.active ||
         v->committing.count > 0 || (v->unsynced && v->bdev->info.write_cache);
}

bool
sets_differ_locked (const struct sh_volume *v)
{
  return v->nr_stale > 0 || v->map_stale > 0 || v->other_gen != v->gen;
}

/* ---- the snapshot ---- */

static uint32_t
units_of_blocks (const struct sh_volume *v, uint32_t blocks)
{
  return blocks * (BLOCK_BYTES / v->meta_unit);
}

static uint32_t
nr_map_units (const struct sh_volume *v)
{
  return units_of_blocks (v, v->l.nr_map_blocks);
}

static size_t
words_bytes (const struct sh_volume *v)
{
  return (size_t) v->zone_words * sizeof (uint64_t);
}

static int
snapshot_make (struct sh_volume *v, struct snapshot *s)
{
  const size_t zones = (size_t) v->nr_dirty + v->nr_stale;
  const size_t maps = nr_map_units (v);

  s->nr = 0;
  s->copied = 0;
  s->items = malloc ((zones + maps) * sizeof s->items[0] + 1);
  s->copy = malloc (v->nr_bits * words_bytes (v) +
                    ((size_t) v->map_dirty + v->map_stale) * v->meta_unit + 1);
  if (s->items != NULL && s->copy != NULL)
    return 0;
  free (s->items);
  free (s->copy);
  errno = ENOMEM;
  return -1;
}

static void
snapshot_free (struct snapshot *s)
{
  free (s->items);
  free (s->copy);
}

static void
snapshot_zone (struct sh_volume *v, struct snapshot *s, uint32_t z, bool from_disk)
{
  const struct rzone *const zone = &v->zones[z];
  struct item *const it = &s->items[s->nr++];
  uint32_t i;

  *it = (struct item) {
    .unit = units_of_blocks (v, 1 + v->l.nr_map_blocks + z * v->l.zbm),
    .count = DIV_ROUND_UP (words_bytes (v), v->meta_unit),
    .kind = ITEM_READ,
  };
  if (from_disk || !(zone->flags & RZ_KNOWN))
    return;
  it->prefix = zone->weight;
  it->kind = ITEM_PREFIX;
  if (zone->bits == NULL)
    return;
  it->kind = ITEM_COPY;
  it->at = s->copied;
  it->len = words_bytes (v);
  for (i = 0; i < v->zone_words; ++i)
    put_le64 (s->copy + s->copied + 8 * (size_t) i, zone->bits->words[i]);
  s->copied += it->len;
}

static void
snapshot_map (struct sh_volume *v, struct snapshot *s, uint32_t unit, bool from_disk)
{
  const uint32_t entries = v->meta_unit / MAP_ENTRY_BYTES;
  const struct map_entry *const m = v->map + (size_t) unit * entries;
  struct item *const it = &s->items[s->nr++];
  uint32_t i;

  *it = (struct item) {
    .unit = units_of_blocks (v, 1) + unit, .count = 1, .kind = ITEM_READ
  };
  if (from_disk)
    return;
  it->kind = ITEM_COPY;
  it->at = s->copied;
  it->len = v->meta_unit;
  for (i = 0; i < entries; ++i) {
    put_le32 (s->copy + s->copied + MAP_ENTRY_BYTES * i, m[i].data);
    put_le32 (s->copy + s->copied + MAP_ENTRY_BYTES * i + 4, m[i].buffer);
  }
  s->copied += it->len;
}

static int
by_unit (const void *a, const void *b)
{
  const struct item *const x = a, *const y = b;

  return x->unit < y->unit ? -1 : x->unit > y->unit;
}

/* What the older set lacks, with all changes up to now; they now belong to the
   running commit. */
static int
snapshot_commit (struct sh_volume *v, struct snapshot *s)
{
  uint32_t i, *list;

  if (snapshot_make (v, s) == -1)
    return -1;
  for (i = 0; i < nr_map_units (v); ++i) {
    if (v->map_flags[i] & (MAP_DIRTY | MAP_STALE))
      snapshot_map (v, s, i, false);
    if (v->map_flags[i] & MAP_DIRTY)
      v->map_flags[i] ^= MAP_DIRTY | MAP_COMMIT;
  }
  v->map_dirty = 0;
  for (i = 0; i < v->nr_stale; ++i)
    if (!(v->zones[v->stale[i]].flags & RZ_DIRTY))
      snapshot_zone (v, s, v->stale[i], false);
  for (i = 0; i < v->nr_dirty; ++i) {
    snapshot_zone (v, s, v->dirty[i], false);
    v->zones[v->dirty[i]].flags ^= RZ_DIRTY | RZ_COMMIT;
  }
  assert (v->nr_in_commit == 0);
  list = v->in_commit;
  v->in_commit = v->dirty;
  v->nr_in_commit = v->nr_dirty;
  v->dirty = list;
  v->nr_dirty = 0;
  assert (v->committing.count == 0);
  v->committing = v->pending;
  v->pending.count = 0;
  v->unsynced = false;
  return 0;
}

/* What the older set lacks of the last commit. */
static int
snapshot_stale (struct sh_volume *v, struct snapshot *s)
{
  uint32_t i;

  if (snapshot_make (v, s) == -1)
    return -1;
  for (i = 0; i < nr_map_units (v); ++i)
    if (v->map_flags[i] & MAP_STALE)
      snapshot_map (v, s, i, v->map_flags[i] & MAP_DIRTY);
  for (i = 0; i < v->nr_stale; ++i)
    snapshot_zone (v, s, v->stale[i], v->zones[v->stale[i]].flags & RZ_DIRTY);
  return 0;
}

/* ---- writing; the lock is not held ---- */

/* A zone of the metadata took no data: says so, once, when it has gone bad. */
static void
look_at_meta_zone (struct sh_volume *v, int set, uint32_t block)
{
  const uint32_t z = (layout_set_block (&v->l, set) + block) / v->l.zone_blocks;
  struct zone found;

  if (v->meta_zone_told || zone_report_one (v->bdev, v->table, z, &found) == -1 ||
      (found.cond != ZONE_OFFLINE && found.cond != ZONE_READ_ONLY))
    return;
  v->meta_zone_told = true;
  sh_log (v->opt.log, SH_LOG_ERROR, "%s: zone %" PRIu32 ", of metadata set %d, has gone %s: "
          "nothing can be made durable any more, and every flush fails; what was flushed before "
          "is safe: copy what the volume holds to another drive, then format this one anew",
          v->bdev->info.name, z, set, found.cond == ZONE_OFFLINE ? "offline" : "read-only");
}

/* Units [unit, unit + count) of a set. */
static int
rw_units (struct sh_volume *v, enum bdev_op op, int set, uint32_t unit, uint32_t count,
          uint8_t *buf)
{
  const struct iovec iov = { buf, (size_t) count * v->meta_unit };
  const uint64_t at = (uint64_t) unit * v->meta_unit;
  const int r = dev_rw (v, op, 0, layout_set_block (&v->l, set) * BLOCK_BYTES + at, &iov, 1, 0,
                        NULL);
  const int e = errno;

  if (r == -1 && op == BDEV_WRITE)
    look_at_meta_zone (v, set, at / BLOCK_BYTES);
  errno = e;
  return r;
}

static int
rw_blocks (struct sh_volume *v, enum bdev_op op, int set, uint32_t block, uint32_t count,
           uint8_t *buf)
{
  return rw_units (v, op, set, units_of_blocks (v, block), units_of_blocks (v, count), buf);
}

/* Part [skip, skip + count) of an item's units into buf. */
static int
item_fill (struct sh_volume *v, const struct snapshot *s, const struct item *it,
           uint32_t skip, uint32_t count, uint8_t *buf)
{
  const size_t from = (size_t) skip * v->meta_unit, len = (size_t) count * v->meta_unit;

  if (it->kind == ITEM_READ)
    return rw_units (v, BDEV_READ, v->cur, it->unit + skip, count, buf);
  memset (buf, 0, len);
  if (it->kind == ITEM_COPY) {
    if (from < it->len)
      memcpy (buf, s->copy + it->at + from, MIN (len, it->len - from));
  }
  else {
    const uint64_t first = (uint64_t) from * 8;
    const uint64_t n = it->prefix > first ? MIN (it->prefix - first, len * 8) : 0;

    memset (buf, 0xff, n / 8);
    if (n % 8)
      buf[n / 8] = (1u << n % 8) - 1;
  }
  return 0;
}

/* n units from buf; many zeroes at once need no data. */
static int
write_gathered (struct sh_volume *v, int set, uint32_t first, uint32_t n, uint8_t *buf)
{
  const size_t len = (size_t) n * v->meta_unit;
  struct bdev_req req = {
    .op = BDEV_WRITE_ZEROES,
    .prio = BDEV_PRIO_BE,
    .off_bytes = layout_set_block (&v->l, set) * BLOCK_BYTES + (uint64_t) first * v->meta_unit,
    .len_bytes = len,
  };

  if (len < GATHER_BYTES || v->bdev->info.max_zeroes_bytes < len ||
      buf[0] != 0 || memcmp (buf, buf + 1, len - 1) != 0)
    return rw_units (v, BDEV_WRITE, set, first, n, buf);
  return dev_io (v, &req);
}

static int
write_items (struct sh_volume *v, int set, struct snapshot *s, uint64_t *written)
{
  const uint32_t most = GATHER_BYTES / v->meta_unit;
  uint8_t *const buf = aligned_alloc (BLOCK_BYTES, GATHER_BYTES);
  uint32_t first = 0, n = 0, i, skip;
  int r = 0;

  if (buf == NULL) {
    errno = ENOMEM;
    return -1;
  }
  qsort (s->items, s->nr, sizeof s->items[0], by_unit);
  for (i = 0; i < s->nr && r == 0; ++i)
    for (skip = 0; skip < s->items[i].count && r == 0;) {
      const struct item *const it = &s->items[i];
      uint32_t take;

      if (n > 0 && (n == most || it->unit + skip != first + n)) {
        r = write_gathered (v, set, first, n, buf);
        *written += n;
        n = 0;
        continue;
      }
      if (n == 0)
        first = it->unit + skip;
      take = MIN (it->count - skip, most - n);
      r = item_fill (v, s, it, skip, take, buf + (size_t) n * v->meta_unit);
      n += take;
      skip += take;
    }
  if (r == 0 && n > 0) {
    r = rw_units (v, BDEV_WRITE, set, first, n, buf);
    *written += n;
  }
  free (buf);
  return r;
}

static int
flush_drive (struct sh_volume *v)
{
  int r;

  if (!v->bdev->info.write_cache)
    return 0;
  r = dev_flush (v);
  pthread_mutex_lock (&v->lock);
  v->st.device_flushes++;
  pthread_mutex_unlock (&v->lock);
  return r;
}

static int
write_super (struct sh_volume *v, int set, uint64_t gen)
{
  const unsigned fua = v->bdev->info.fua && v->bdev->info.write_cache ? BDEV_FUA : 0;
  const uint64_t at = layout_set_block (&v->l, set);
  const struct iovec iov = { v->sb[set], v->sb_known[set] ? v->meta_unit : BLOCK_BYTES };

  v->super[set].gen = gen;
  v->super[set].sb_block = at;
  super_encode (&v->super[set], v->sb[set]);
  if (dev_rw (v, BDEV_WRITE, fua, at * BLOCK_BYTES, &iov, 1, 0, NULL) == -1) {
    const int e = errno;

    look_at_meta_zone (v, set, 0);
    errno = e;
    return -1;
  }
  if (fua == 0 && flush_drive (v) == -1)
    return -1;
  v->sb_known[set] = true;
  return 0;
}

/* ---- the ends of a commit; the lock is held ---- */

static void
commit_succeeded (struct sh_volume *v, int set, uint64_t gen)
{
  uint32_t i, *list;

  v->other_gen = v->gen;
  v->gen = gen;
  v->cur = set;
  for (i = 0; i < v->nr_stale; ++i)
    v->zones[v->stale[i]].flags &= ~RZ_STALE;
  for (i = 0; i < v->nr_in_commit; ++i)
    v->zones[v->in_commit[i]].flags ^= RZ_COMMIT | RZ_STALE;
  list = v->stale;
  v->stale = v->in_commit;
  v->nr_stale = v->nr_in_commit;
  v->in_commit = list;
  v->nr_in_commit = 0;
  v->map_stale = 0;
  for (i = 0; i < nr_map_units (v); ++i) {
    v->map_flags[i] &= ~MAP_STALE;
    if (v->map_flags[i] & MAP_COMMIT) {
      v->map_flags[i] ^= MAP_COMMIT | MAP_STALE;
      v->map_stale++;
    }
  }
  v->st.commits++;
  zones_committed_locked (v);
}

static void
commit_failed (struct sh_volume *v)
{
  uint32_t i, z;

  for (i = 0; i < v->nr_in_commit; ++i) {
    v->zones[v->in_commit[i]].flags &= ~RZ_COMMIT;
    bits_mark_dirty_locked (v, v->in_commit[i]);
  }
  v->nr_in_commit = 0;
  for (i = 0; i < nr_map_units (v); ++i)
    if (v->map_flags[i] & MAP_COMMIT) {
      v->map_flags[i] &= ~MAP_COMMIT;
      if (!(v->map_flags[i] & MAP_DIRTY)) {
        v->map_flags[i] |= MAP_DIRTY;
        v->map_dirty++;
      }
    }
  while ((z = list_pop (v, &v->committing)) != ZONE_NONE)
    list_push (v, &v->pending, z);
  v->unsynced = true;
}

static void
equalised (struct sh_volume *v)
{
  uint32_t i;

  for (i = 0; i < v->nr_stale; ++i)
    v->zones[v->stale[i]].flags &= ~RZ_STALE;
  v->nr_stale = 0;
  for (i = 0; i < nr_map_units (v); ++i)
    v->map_flags[i] &= ~MAP_STALE;
  v->map_stale = 0;
  v->other_gen = v->gen;
  v->cur = 0;                   /* on a tie set 0 counts; they are equal */
}

static void
super_written (struct sh_volume *v, const struct sb_doubt *d)
{
  if (d->equalise)
    equalised (v);
  else
    commit_succeeded (v, d->set, d->gen);
}

/* Writes the superblock; when that fails it is in doubt from then on.  Drops the
   lock. */
static int
seal (struct sh_volume *v, struct sb_doubt d)
{
  int r;

  d.active = true;
  pthread_mutex_unlock (&v->lock);
  r = write_super (v, d.set, d.gen);
  pthread_mutex_lock (&v->lock);
  if (r == 0) {
    v->doubt.active = false;
    super_written (v, &d);
  }
  else
    v->doubt = d;
  return r;
}

/* ---- one commit; the lock is held, and dropped for the work ---- */

/* Blocks [at, at + n) differ or not: writes those of the other set that do. */
static int
write_differing (struct sh_volume *v, int set, uint32_t at, uint32_t n, uint8_t *good,
                 const uint8_t *old)
{
  uint32_t i = 0, end;

  while (i < n) {
    const size_t o = (size_t) i * BLOCK_BYTES;

    if (memcmp (good + o, old + o, BLOCK_BYTES) == 0) {
      i++;
      continue;
    }
    for (end = i + 1; end < n && memcmp (good + (size_t) end * BLOCK_BYTES,
                                         old + (size_t) end * BLOCK_BYTES,
                                         BLOCK_BYTES) != 0; ++end)
      ;
    if (rw_blocks (v, BDEV_WRITE, set, at + i, end - i, good + o) == -1)
      return -1;
    i = end;
  }
  return 0;
}

/* Makes the other set's blocks those of cur; or only looks: 1 if some differ.  The lock
   is not held. */
static int
make_equal (struct sh_volume *v, int cur, bool look)
{
  const size_t len = (size_t) COMPARE_BLOCKS * BLOCK_BYTES;
  uint8_t *const buf = aligned_alloc (BLOCK_BYTES, 2 * len);
  uint32_t at, n;
  int r = 0;

  if (buf == NULL) {
    errno = ENOMEM;
    return -1;
  }
  for (at = 1; at < v->l.nr_meta_blocks && r == 0; at += n) {
    n = MIN (COMPARE_BLOCKS, v->l.nr_meta_blocks - at);
    r = rw_blocks (v, BDEV_READ, cur, at, n, buf);
    if (r == -1)
      break;
    if (rw_blocks (v, BDEV_READ, !cur, at, n, buf + len) == -1)
      /* Unreadable: all of it is written anew. */
      r = look ? -1 : rw_blocks (v, BDEV_WRITE, !cur, at, n, buf);
    else if (look)
      r = memcmp (buf, buf + len, (size_t) n * BLOCK_BYTES) != 0;
    else
      r = write_differing (v, !cur, at, n, buf, buf + len);
  }
  free (buf);
  return r;
}

static int
compare_sets (struct sh_volume *v, bool look)
{
  const int cur = v->cur;
  int r;

  if (v->trusted)
    return 0;
  pthread_mutex_unlock (&v->lock);
  r = make_equal (v, cur, look);
  pthread_mutex_lock (&v->lock);
  v->trusted = r == 0;
  return r == -1 ? -1 : 0;
}

static int
trust_other (struct sh_volume *v)
{
  return compare_sets (v, false);
}

static int
look_at_other (struct sh_volume *v)
{
  return compare_sets (v, true);
}

static int
sync_data (struct sh_volume *v)
{
  int r;

  if (!v->unsynced || !v->bdev->info.write_cache)
    return 0;
  v->unsynced = false;
  pthread_mutex_unlock (&v->lock);
  r = flush_drive (v);
  pthread_mutex_lock (&v->lock);
  if (r == -1)
    v->unsynced = true;
  return r;
}

static void
count_units (struct sh_volume *v, uint64_t units)
{
  v->commit_bytes += units * v->meta_unit;
  v->st.commit_blocks = DIV_ROUND_UP (v->commit_bytes, BLOCK_BYTES);
}

static int
write_snapshot (struct sh_volume *v, struct snapshot *s)
{
  const int set = !v->cur;
  uint64_t written = 0;
  int r;

  pthread_mutex_unlock (&v->lock);
  r = write_items (v, set, s, &written);
  if (r == 0)
    r = flush_drive (v);
  snapshot_free (s);
  pthread_mutex_lock (&v->lock);
  count_units (v, written + 1);
  return r;
}

/* The sets are equal in everything: the current one goes ahead by a generation, so
   that the other is never half written and yet of equal rank. */
static int
go_ahead (struct sh_volume *v)
{
  const uint64_t gen = v->gen + 1;
  int r;

  if (v->other_gen != v->gen)
    return 0;
  pthread_mutex_unlock (&v->lock);
  r = write_super (v, v->cur, gen);
  pthread_mutex_lock (&v->lock);
  if (r == 0)
    v->gen = gen;
  return r;
}

static int
commit_run (struct sh_volume *v)
{
  struct snapshot s;

  if (v->doubt.active && seal (v, v->doubt) == -1)
    return -1;
  if (v->nr_dirty == 0 && v->map_dirty == 0)
    return sync_data (v);
  if (trust_other (v) == -1 || go_ahead (v) == -1 || snapshot_commit (v, &s) == -1)
    return -1;
  if (write_snapshot (v, &s) == -1) {
    commit_failed (v);
    return -1;
  }
  return seal (v, (struct sb_doubt) { .set = !v->cur, .gen = v->gen + 1 });
}

static int
equalise_run (struct sh_volume *v)
{
  struct snapshot s;

  if (v->doubt.active && seal (v, v->doubt) == -1)
    return -1;
  if (trust_other (v) == -1)
    return -1;
  if (!sets_differ_locked (v))
    return 0;
  if (snapshot_stale (v, &s) == -1 || write_snapshot (v, &s) == -1)
    return -1;
  return seal (v, (struct sb_doubt) { .set = !v->cur, .gen = v->gen, .equalise = true });
}

/* ---- taking turns ---- */

static int
exclusively (struct sh_volume *v, int (*fn) (struct sh_volume *v))
{
  int r, e;

  while (v->committing_now)
    pthread_cond_wait (&v->committed, &v->lock);
  v->committing_now = true;
  r = v->dying ? -1 : fn (v);
  e = v->dying ? ENODEV : errno;
  v->committing_now = false;
  pthread_cond_broadcast (&v->committed);
  errno = e;
  return r;
}

static void
lead_commit (struct sh_volume *v)
{
  const uint64_t n = ++v->commit_started;
  const int r = exclusively (v, commit_run);

  v->commit_ended = n;
  if (r == 0)
    v->commit_ok = n;
  else
    v->commit_errno = errno;
}

int
commit_join (struct sh_volume *v)
{
  const bool needed = commit_needed_locked (v);
  const uint64_t want = v->commit_started + needed;

  if (v->read_only)
    return 0;
  if (v->dying) {
    errno = ENODEV;
    return -1;
  }
  while (v->commit_ended < want) {
    if (v->committing_now || v->commit_ended < v->commit_started)
      pthread_cond_wait (&v->committed, &v->lock);
    else
      lead_commit (v);
  }
  if (v->commit_ok < want) {
    errno = v->commit_errno;
    return -1;
  }
  return 0;
}

int
commit_equalise (struct sh_volume *v)
{
  if (commit_join (v) == -1)
    return -1;
  if (v->read_only || !sets_differ_locked (v))
    return 0;
  return exclusively (v, equalise_run);
}

int
commit_look (struct sh_volume *v)
{
  return v->trusted || v->read_only ? 0 : exclusively (v, look_at_other);
}

int
commit_prepare (struct sh_volume *v)
{
  return v->trusted || v->read_only ? 0 : exclusively (v, trust_other);
}
