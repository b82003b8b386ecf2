/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The running volume, from the inside.  include/shingle/volume.h is the outside.
 *
 * Words: chunk, data zone, buffer zone, block as in the design; "random" is a
 * conventional zone, "seq" a sequential one; a *set* is one copy of the metadata.
 *
 * Threads.  Every I/O call works in its caller's thread.  One worker thread
 * (worker.c) does what nobody waits for: reclaim, zone resets, the commit and
 * the making-equal of both sets after a quiet second, the idle probe.  Before
 * sh_volume_start there is no worker, and whoever needs its work does it
 * himself (alloc.c).
 *
 * Locks.  One mutex, v->lock, guards everything here that is not const after
 * open.  It is never held across device I/O.  A function whose name ends in
 * _locked wants it held and keeps it; those that say "may drop the lock" let go
 * of it for I/O or to wait, and the caller looks at everything again afterwards.
 * Beside it there are only waits, in this order (a thread that waits for one may
 * hold what stands before it, never what stands behind it):
 *   1. a chunk that reclaim has closed for writers (chunk.frozen);
 *   2. block ranges of a chunk (struct range; one a thread, and a second one only
 *      where it is free);
 *   3. a place in the append queue of a chunk (struct append);
 *   4. a free random zone (struct space_wait);
 *   5. a commit; 6. the load of a bitmap.
 * Reclaim (the one holder of v->reclaiming) takes 2 for one piece at a time, and
 * 5 with nothing held.  It never waits for 3 or 4.  So everyone above 4 waits
 * only for device commands of others to end, and 4 waits for reclaim, which waits
 * for nobody who waits for 4: a chunk whose writers wait for a random zone has
 * none and is therefore no victim.
 *
 * Life of a block.  A write decides under the lock where it goes, writes without
 * the lock, and only when the data is on the drive (or in its cache) sets the bit
 * of the new place and clears that of the old one, both under one hold of the
 * lock.  So metadata never refers to data that was not written, and the one
 * SYNCHRONIZE CACHE of a commit makes the data durable before the superblock
 * that refers to it.
 *
 * Life of a zone.  FREE -> DATA or BUFFER (or TARGET of reclaim, then DATA) ->
 * PENDING when it is given back -> FREE once the commit that says so is durable
 * and the last read on it has ended.  A seq zone is reset between the last two
 * states, or on its way out of FREE.  So nothing that the last durable metadata
 * refers to is ever overwritten or reset (commit first, reuse after).
 *
 * Priorities.  What a user waits for is of class BE, commits too; a probe is RT.
 * Reclaim and resets that nobody waits for are of class idle, until somebody does
 * wait (`wanted`): for a random zone, for a range that a copy holds, for a frozen
 * chunk or for close.  Then they count as BE, also one that is already queued.
 *
 * Durable state.  Set `cur` holds generation `gen`; the other one is older.  A
 * commit writes to the older set all that it lacks, one SYNCHRONIZE CACHE, then
 * its superblock with gen + 1; now it is `cur`.  On a tie set 0 counts, so with
 * equal generations cur is 0 and the next commit goes to set 1.
 */
#ifndef ZONED_RUNNING_H
#define ZONED_RUNNING_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>
#include "base/bdev.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "shingle/volume.h"
#include "zoned/layout.h"
#include "zoned/sets.h"
#include "zoned/super.h"
#include "zoned/zones.h"

#define CHUNK_NONE UINT32_MAX

#define DEFAULT_RECLAIM_LOW   30u
#define DEFAULT_RECLAIM_HIGH  50u
#define DEFAULT_REORDER_NS    (5 * NS_PER_MS)
#define DEFAULT_CACHE_BYTES   (8 * MiB)
#define STREAM_START_BLOCKS   16u       /* 64 KiB at offset 0 begin a stream */
#define STREAM_RECENT_MS      1000u     /* an append this old still means a stream */
#define REORDER_VAIN_MAX      3u        /* waits in vain before a zone gets no more */
#define REORDER_MAX_NS        (100 * NS_PER_MS) /* so long they may become */
#define GAP_MAX_BLOCKS        2048u     /* copied at most before an append: 8 MiB */
#define JOIN_MAX_BYTES        (2 * MiB) /* appends joined into one device write */
#define JOIN_MAX_IOV          64
#define COPY_BLOCKS           256u      /* blocks of one piece of reclaim: 1 MiB */
#define QUIET_MS              1000u     /* then commit and make the sets equal */
#define IDLE_MS               5000u     /* then reclaim without need */
#define COLD_MS               5000u     /* not written for so long: may be reclaimed
                                           while others write */
#define LOOK_BLOCKS_MAX       1024u     /* of a set: compared at the start, else by the
                                           first who writes */
#define CLOSE_RESET_NS        (5 * NS_PER_S)    /* close resets unused zones for so long */
#define SPARE_RANDOM_MAX      2u        /* free random zones kept for who comes alone */
#define ZONE_ERRORS_MAX       2u        /* failed targets, then the zone is left out */

enum zone_state {
  ZS_META,                      /* of one of the sets */
  ZS_UNUSABLE,                  /* runt, offline, read-only and free, or given up */
  ZS_FREE,
  ZS_PENDING,                   /* given back; waits for a commit and its readers */
  ZS_DATA,
  ZS_BUFFER,
  ZS_TARGET,                    /* reclaim copies into it; or being reset */
};

enum {
  RZ_SEQ       = 1u << 0,       /* sequential (required or preferred) */
  RZ_KNOWN     = 1u << 1,       /* bits are in memory: `bits`, or [0, weight) if NULL */
  RZ_LOADING   = 1u << 2,       /* someone reads its bitmap */
  RZ_UNCHECKED = 1u << 3,       /* bitmap not seen since open: mask it at wp */
  RZ_DIRTY     = 1u << 4,       /* bits changed since the last commit's snapshot */
  RZ_COMMIT    = 1u << 5,       /* changed bits are in the commit that is running */
  RZ_STALE     = 1u << 6,       /* the older set lacks the last committed bits */
  RZ_NO_APPEND = 1u << 7,       /* seq: wp in doubt, odd, or a write failed */
  RZ_READ_ONLY = 1u << 8,
  RZ_OFFLINE   = 1u << 9,
  RZ_RELEASED  = 1u << 10,      /* PENDING: committed, waits for readers alone */
  RZ_STUCK     = 1u << 11,      /* random: reclaim failed on it; the last choice */
};

/* Run-time state of a zone.  Guarded by v->lock. */
struct rzone {
  struct zone_bits *bits;       /* cache entry, or NULL */
  uint32_t wp;                  /* seq: blocks written on the drive; random: zone_blocks */
  uint32_t weight;              /* bits set; valid when RZ_KNOWN */
  uint32_t chunk;               /* of DATA, BUFFER and their TARGET; else CHUNK_NONE */
  uint32_t refs;                /* device commands in flight on it */
  uint32_t next;                /* in the list that its state names; ZONE_NONE ends */
  uint32_t last_ms;             /* last write for a user, v->epoch_ns based, wraps */
  uint16_t flags;
  uint8_t state;                /* enum zone_state */
  uint8_t vain : 4;             /* reorder waits that were in vain */
  uint8_t errors : 4;           /* failures as a reclaim target */
};

/* Bitmap of one zone in memory: one bit a block, no padding. */
struct zone_bits {
  struct zone_bits *prev, *next;        /* ring of the cache, clock order */
  uint32_t zone;
  bool used;                    /* since the clock hand last passed */
  uint64_t words[];
};

struct zone_list {              /* FIFO through rzone.next */
  uint32_t head, tail, count;
};

struct map_entry {
  uint32_t data, buffer;        /* ZONE_NONE where none */
};

enum { MAP_DIRTY = 1, MAP_COMMIT = 2, MAP_STALE = 4 };   /* as RZ_*, of map units */

/* A block range that its holder alone may write.  Lives on the holder's stack. */
struct range {
  struct range *next;
  uint32_t first, end;          /* blocks of the chunk */
  bool write;                   /* a data write is in flight or will be */
  bool granted;
  bool has_cond;
  pthread_cond_t cond;          /* made when it has to wait */
};

/* One write that goes behind the write pointer, in the order of blocks.  Lives
   on the writer's stack. */
struct append {
  struct append *next;
  uint32_t first, count;        /* blocks */
  const struct iovec *iov;
  int iovcnt;
  unsigned hwq;
  enum { APPEND_WAITS, APPEND_TAKEN, APPEND_DONE, APPEND_AGAIN } state;
  uint32_t done;                /* blocks written, when DONE or AGAIN */
  int errnum;                   /* or why it cannot be said that they are */
  bool has_cond;
  pthread_cond_t cond;          /* made when it has to wait */
};

/* A chunk that someone works on; in v->hash while users > 0. */
struct chunk {
  struct chunk *next;
  uint32_t id;
  uint32_t users;
  struct range *held, *waiting; /* waiting is FIFO */
  struct append *appends;       /* by first block */
  uint32_t append_end;          /* end of the append in flight; valid when append_busy */
  bool append_busy;
  bool no_append;               /* reclaim wants the write pointer to stand still */
  bool frozen;                  /* new writers wait until reclaim is through */
  uint64_t *redo;               /* blocks written while reclaim copies, else NULL */
};

/* A writer that needs a random zone for its chunk. */
struct space_wait {
  struct space_wait *next;
  uint32_t chunk;
  uint32_t passed;              /* times that a later one was served first */
  bool again;                   /* look again: the chunk has a zone, or all is lost */
  int errnum;                   /* why all is lost, else 0 */
  pthread_cond_t cond;
};

/* A superblock write of unknown fate: that set is complete and must get its
   superblock before anything else is written to it. */
struct sb_doubt {
  bool active;
  bool equalise;                /* the set got the state of cur, no new one */
  int set;
  uint64_t gen;
};

struct sh_volume {
  /* const after open */
  struct bdev *bdev;
  struct sh_volume_options opt;
  const struct sh_clock *clock;
  struct zone_table *table;
  struct layout l;
  uint32_t zone_words;          /* 64-bit words of a bitmap in memory */
  uint32_t meta_unit;           /* bytes of metadata written at least: a physical block
                                   of the drive, 512 to 4096 */
  uint32_t *random;             /* ids of random zones for data */
  uint32_t nr_random;
  uint32_t nr_seq;              /* seq zones for data */
  uint32_t nr_spare;            /* free random zones that a crowd of writers leaves */
  uint64_t epoch_ns;            /* clock at open */
  uint64_t size_bytes;
  char label[SUPER_LABEL_BYTES + 1];
  bool read_only;

  pthread_mutex_t lock;

  /* Map and zones. */
  struct map_entry *map;        /* nr_chunks; rounded up to whole map blocks */
  uint8_t *map_flags;           /* MAP_* of each unit of the mapping table */
  uint8_t *chunk_bad;           /* bitmap: entry on disk is nonsense, EIO */
  struct rzone *zones;
  struct zone_list free_random, free_seq, unreset;      /* unreset: free, wp != 0 */
  struct zone_list pending;     /* given back since the last snapshot */
  struct zone_list committing;  /* given back before it */
  uint32_t nr_mapped, nr_buffered;
  uint32_t start_vain;          /* waits in vain for the first piece of a stream, since
                                   one came */
  uint64_t reorder_ns;          /* how long an early append waits now */
  struct {                      /* the last gap that was waited for in vain */
    uint32_t chunk;             /* CHUNK_NONE: none */
    uint32_t block;             /* behind it */
    uint32_t waits;
    uint64_t since_ns;
  } gap;
  uint32_t nr_waiting_readers;  /* zones that are RZ_RELEASED */
  bool no_reset_all;            /* the drive refused it */

  /* Chunks in use. */
  struct chunk *hash[256];
  struct chunk *chunk_pool;
  pthread_cond_t thaw;          /* a chunk is no longer frozen; an append queue is idle */

  /* Bitmap cache. */
  struct zone_bits *hand;       /* clock hand, NULL when empty */
  struct zone_bits *bits_pool;
  uint32_t nr_bits, max_bits;
  pthread_cond_t loaded;

  /* Commit. */
  uint8_t (*sb)[BLOCK_BYTES];   /* both superblocks as last read or written; aligned */
  struct super super[2];        /* the same; both, and sb_known, belong to committing_now */
  bool sb_known[2];             /* what sb has behind its first unit is on the drive */
  int cur;
  uint64_t gen, other_gen;
  bool trusted;                 /* the other set was compared with cur and made equal */
  bool unsynced;                /* data may be in the drive's cache alone */
  bool committing_now;
  bool modified;                /* since open */
  bool meta_zone_told;          /* the log has it that one has gone bad; committing_now's */
  struct sb_doubt doubt;
  uint32_t *dirty, *in_commit, *stale;  /* zone ids with RZ_DIRTY, _COMMIT, _STALE */
  uint32_t nr_dirty, nr_in_commit, nr_stale;
  uint32_t map_dirty, map_stale;        /* units with that flag */
  uint64_t commit_bytes;        /* as st.commit_blocks */
  uint64_t commit_started, commit_ended, commit_ok;     /* numbers of commits */
  int commit_errno;             /* of the last one */
  pthread_cond_t committed;

  /* Space. */
  struct space_wait *waits;     /* FIFO */
  bool crowded;                 /* several chunks wait at once, or did and some still do */
  bool making_space;            /* somebody runs space_step without a worker */
  bool chunk_busy;              /* the last choice passed over a zone whose first write
                                   is on its way */
  bool retry_stuck;             /* a writer came since the last vain try of a stuck zone */
  bool stalled;                 /* space_step waits for any call to end */

  /* Reclaim. */
  atomic_uint wanted;           /* users' threads that wait for it; its commands are of
                                   class idle while there are none */
  bool reclaiming;              /* somebody runs a cycle */
  struct chunk *victim;         /* of that cycle, while it is chosen */
  uint8_t *copy_buf;            /* COPY_BLOCKS blocks; owned by `reclaiming` */
  uint64_t *redo_buf;
  pthread_cond_t reclaimed;     /* a cycle ended */

  /* Worker. */
  pthread_t worker;
  bool worker_runs, stop, paused, kick;
  bool worker_waits_long;       /* sleeps without a deadline: wake it on activity */
  uint64_t activity;            /* I/O calls; tells quiet from busy */
  pthread_cond_t wake;

  /* Health. */
  bool dying;                   /* every request fails at once */
  bool probing;
  bool lost;                    /* dying, and what is on the drive now is not ours */

  /* Calls: how many are inside, and that none may come in (resume.c).  A call
     counts itself in, then looks at the gate; who closes the gate looks at the
     count afterwards. */
  atomic_uint users;
  atomic_bool gate_closed;
  atomic_uint epoch;            /* sh_volume_epoch */

  struct sh_volume_stats st;
  struct {                      /* relaxed atomics, not under the lock */
    uint64_t reads, read_bytes, writes, written_bytes, trims, trimmed_bytes;
    uint64_t zeroes, zeroed_bytes, flushes;
  } calls;
};

/* ---- small helpers ---- */

static inline bool
is_seq (const struct sh_volume *v, uint32_t z)
{
  return v->zones[z].flags & RZ_SEQ;
}

static inline uint32_t
now_ms (const struct sh_volume *v)
{
  return (uint32_t) ((sh_now (v->clock) - v->epoch_ns) / NS_PER_MS);
}

static inline uint64_t
zone_byte (const struct sh_volume *v, uint32_t z, uint32_t block)
{
  return zone_start_bytes (v->table, z) + (uint64_t) block * BLOCK_BYTES;
}

static inline bool
chunk_is_bad (const struct sh_volume *v, uint32_t c)
{
  return v->chunk_bad != NULL && (v->chunk_bad[c >> 3] >> (c & 7) & 1);
}

/* The unit of the mapping table that has chunk c. */
static inline uint32_t
map_unit (const struct sh_volume *v, uint32_t c)
{
  return c / (v->meta_unit / MAP_ENTRY_BYTES);
}

static inline void
zone_ref (struct sh_volume *v, uint32_t z)
{
  v->zones[z].refs++;
}

/* ---- bits.c: bitmaps in memory ---- */

/* Makes the bits of zone z known.  May drop the lock.  -1 with errno. */
int bits_load (struct sh_volume *v, uint32_t z);
/* Makes the bits of both zones of chunk c known; returns its entry.  May drop
   the lock. */
int bits_load_chunk (struct sh_volume *v, uint32_t c, struct map_entry *m);
/* These want known bits. */
bool bits_test_locked (const struct sh_volume *v, uint32_t z, uint32_t b);
bool bits_all_set_locked (const struct sh_volume *v, uint32_t z, uint32_t b, uint32_t n);
/* Blocks from b on (at most max, at least 1) that are all set or all clear. */
uint32_t bits_run_locked (const struct sh_volume *v, uint32_t z, uint32_t b,
                          uint32_t max, bool *set);
/* One behind the last set bit; 0 if none. */
uint32_t bits_end_locked (const struct sh_volume *v, uint32_t z);
/* These may fail only for lack of memory, and abort then: a few KiB. */
void bits_set_locked (struct sh_volume *v, uint32_t z, uint32_t b, uint32_t n);
void bits_clear_locked (struct sh_volume *v, uint32_t z, uint32_t b, uint32_t n);
/* All bits 0, known, dirty; needs no load. */
void bits_zero_locked (struct sh_volume *v, uint32_t z);
/* Replaces all bits by words (zone_words of them). */
void bits_replace_locked (struct sh_volume *v, uint32_t z, const uint64_t *words);
/* Copies all bits out. */
void bits_copy_locked (const struct sh_volume *v, uint32_t z, uint64_t *words);
void bits_mark_dirty_locked (struct sh_volume *v, uint32_t z);
void bits_free_all (struct sh_volume *v);
uint32_t words_run (const uint64_t *words, uint32_t b, uint32_t max, bool *set);
void words_fill (uint64_t *words, uint32_t b, uint32_t n, bool set);
uint32_t words_weight (const uint64_t *words, uint32_t nr_words);

/* ---- load.c ---- */
int volume_load (struct sh_volume *v, struct sh_error *err);

/* ---- chunk.c: chunks in use, ranges ---- */
struct chunk *chunk_get_locked (struct sh_volume *v, uint32_t c);
struct chunk *chunk_find_locked (struct sh_volume *v, uint32_t c);
/* Also gives empty zones back when this was the last user. */
void chunk_put_locked (struct sh_volume *v, struct chunk *ch);
void chunk_pool_free (struct sh_volume *v);
/* Waits until the chunk is open for writers, then for the range.  Drop the lock. */
void range_lock (struct sh_volume *v, struct chunk *ch, struct range *r,
                 uint32_t first, uint32_t end, bool user);
void range_unlock_locked (struct sh_volume *v, struct chunk *ch, struct range *r);
/* A second range for one who holds one already: only where nobody holds it or waits
   for it, for he must not wait. */
bool range_is_free_locked (const struct chunk *ch, uint32_t first, uint32_t end);
void range_hold_locked (struct chunk *ch, struct range *r, uint32_t first, uint32_t end);

/* ---- alloc.c: zone lists, map changes, space ---- */
void list_push (struct sh_volume *v, struct zone_list *l, uint32_t z);
uint32_t list_pop (struct sh_volume *v, struct zone_list *l);
/* A free random zone with zero bits, state TARGET; ZONE_NONE if none is to be had
   now: then the caller waits (space_wait). */
uint32_t alloc_random_locked (struct sh_volume *v);
/* A free seq zone, empty.  Drops the lock to reset one.  ZONE_NONE if none. */
uint32_t alloc_seq (struct sh_volume *v);
uint32_t free_seq_locked (const struct sh_volume *v);
void map_set_locked (struct sh_volume *v, uint32_t c, uint32_t data, uint32_t buffer);
void zone_free_locked (struct sh_volume *v, uint32_t z);
/* Puts zones whose giving-back is durable on the free lists. */
void zones_committed_locked (struct sh_volume *v);
void zone_unref_locked (struct sh_volume *v, uint32_t z);
/* Back to a free list at once: nothing durable refers to it. */
void zone_discard_locked (struct sh_volume *v, uint32_t z);
/* Resets one zone of `unreset`, or all of them; true if there was one.  Drops the
   lock. */
bool reset_one (struct sh_volume *v);
int zone_reset (struct sh_volume *v, uint32_t z);
/* Waits for a random zone for chunk c; 0: look again.  Drops the lock. */
int space_wait (struct sh_volume *v, uint32_t c);
void space_fail_all_locked (struct sh_volume *v, int errnum);
/* One step towards a free random zone: commit or a reclaim cycle.  1 did
   something, 0 nothing can be done, -1 errno.  Drops the lock. */
int space_step (struct sh_volume *v);

/* ---- read.c ---- */
int read_blocks (struct sh_volume *v, uint32_t c, uint64_t offset, uint64_t count,
                 uint8_t *buf, unsigned hwq);
/* A piece of a chunk, as the map and bits have it. */
struct run {
  uint32_t zone;                /* ZONE_NONE: reads as zeroes */
  uint32_t first, count;        /* blocks */
};
/* The run that starts at block b; bits are known.  */
struct run run_at_locked (const struct sh_volume *v, const struct map_entry *m,
                          uint32_t b, uint32_t max);

/* ---- write.c, append.c ---- */
/* What a completed write to `zone` of chunk c means for the bits; durable: it was
   written with FUA.  Drops the lock when bits must be loaded. */
int write_complete (struct sh_volume *v, struct chunk *ch, uint32_t zone,
                    uint32_t first, uint32_t count, bool durable);
/* Zeroes [offset, offset + count) of a chunk, all in one block. */
int write_zero_edge (struct sh_volume *v, uint32_t c, uint64_t offset, uint32_t count,
                     bool fua, bool *need_commit);
/* Any range of the volume.  *need_commit: with fua, a commit must follow. */
int write_range (struct sh_volume *v, const uint8_t *buf, uint64_t count, uint64_t offset,
                 unsigned hwq, bool fua, bool *need_commit);
/* Appends in turn.  Blocks written, 0: decide again, -1 errno.  Sets *late when it
   stood behind a gap for too long.  Drops the lock. */
int64_t append_write (struct sh_volume *v, struct chunk *ch, uint32_t first,
                      uint32_t count, const struct iovec *iov, int iovcnt,
                      unsigned hwq, bool *late);
/* Is block `first` next in line; or does the buffer zone hold what is between; or,
   unless late, is it near enough behind it to wait? */
bool append_wanted_locked (struct sh_volume *v, struct chunk *ch, uint32_t first,
                           uint32_t count, bool late);
/* All that wait in the queue decide again. */
void append_redecide_locked (struct sh_volume *v, struct chunk *ch);
int iov_slice (struct iovec *out, const struct iovec *iov, int iovcnt,
               uint64_t skip, uint64_t len);

/* ---- trim.c ---- */
/* Whole blocks of the volume. */
int trim_range (struct sh_volume *v, uint64_t first_block, uint64_t end_block);
/* The same for blocks of one chunk that the caller holds.  Drops the lock when
   bits must be loaded. */
int trim_blocks (struct sh_volume *v, struct chunk *ch, uint32_t first, uint32_t count);
/* Bytes [from, to) of the volume. */
int zero_range (struct sh_volume *v, uint64_t from, uint64_t to, bool fua,
                bool *need_commit);

/* ---- commit.c ---- */
/* Makes durable all that was completed before.  Drops the lock. */
int commit_join (struct sh_volume *v);
/* As commit_join, then brings both sets to one generation. */
int commit_equalise (struct sh_volume *v);
bool commit_needed_locked (const struct sh_volume *v);
bool sets_differ_locked (const struct sh_volume *v);
/* Compares the other set with cur and makes it equal, once.  Drops the lock. */
int commit_prepare (struct sh_volume *v);
/* The same, but writes nothing: where they differ commit_prepare has its work yet. */
int commit_look (struct sh_volume *v);

/* ---- reclaim.c ---- */
enum reclaim_mode {
  RECLAIM_COLD,                 /* others write: leave what was written lately alone */
  RECLAIM_IDLE,                 /* until nothing is left to gain */
  RECLAIM_NEED,                 /* somebody waits */
};
/* One cycle.  2: a zone was gained (after the next commit); 1: something was done
   without gain; 0: there is nothing to do; -1: the drive failed.  Drops the lock. */
int reclaim_cycle (struct sh_volume *v, enum reclaim_mode mode);
/* Free random zones in per cent. */
unsigned random_free_percent_locked (const struct sh_volume *v);

/* ---- worker.c ---- */
int worker_start (struct sh_volume *v, struct sh_error *err);
void worker_stop (struct sh_volume *v);
void worker_kick_locked (struct sh_volume *v);
/* Every I/O call that changes something says so. */
static inline void
worker_note_activity_locked (struct sh_volume *v)
{
  v->activity++;
  v->modified = true;
  if (v->worker_waits_long)
    worker_kick_locked (v);
}

/* ---- health.c ---- */
/* One device command; on failure counts it, probes when in doubt.  The lock is
   not held. */
int dev_io (struct sh_volume *v, struct bdev_req *req);
int dev_rw (struct sh_volume *v, enum bdev_op op, unsigned flags, uint64_t off_bytes,
            const struct iovec *iov, int iovcnt, unsigned hwq, uint64_t *done_bytes);
int dev_flush (struct sh_volume *v);
/* The caller waits for reclaim from now on, until v->wanted--: its commands are no longer
   idle work, queued ones included. */
void dev_want_reclaim_locked (struct sh_volume *v);
/* One buffer; of class idle until somebody waits for reclaim. */
int dev_rw_idle (struct sh_volume *v, enum bdev_op op, uint64_t off_bytes, void *buf,
                 size_t len);
/* The one probe of a reclaim cycle or idle period.  The lock is not held. */
int dev_probe (struct sh_volume *v);
/* Has a dead drive come back?  Nothing follows from a failure. */
int dev_probe_quietly (struct sh_volume *v);

/* ---- volume.c ---- */
/* An empty volume; NULL with err. */
struct sh_volume *volume_new (struct bdev *bdev, const struct sh_volume_options *options,
                              struct sh_error *err);
/* All but the bdev. */
void volume_free (struct sh_volume *v);
/* Every call of a user that looks at the map or the drive stands between these
   two.  false with ENODEV: the gate is closed; no leaving then. */
static inline bool
volume_enter (struct sh_volume *v)
{
  atomic_fetch_add (&v->users, 1);
  if (__builtin_expect (!atomic_load (&v->gate_closed), 1))
    return true;
  atomic_fetch_sub (&v->users, 1);
  errno = ENODEV;
  return false;
}
static inline int
volume_leave (struct sh_volume *v, int r)
{
  atomic_fetch_sub (&v->users, 1);
  return r;
}

/* ---- resume.c ---- */
/* Looks whether the drive of a dying volume is back and goes on with it; -1 when
   that is not so (yet).  Called by the worker; the lock is not held. */
int volume_resume (struct sh_volume *v);

/* ---- verify.c ---- */
/* NULL, or what is wrong.  For tests; loads every bitmap.  */
const char *volume_verify (struct sh_volume *v);

#endif
