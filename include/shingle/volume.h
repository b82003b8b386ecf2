/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The volume interface: the translated disk that a user sees.
 *
 * Life: sh_volume_open (loads and checks; starts no thread, so it may run
 * before a fork), sh_volume_start (starts reclaim; after the fork), any number
 * of I/O calls from any number of threads, sh_volume_close (no call is in
 * progress; stops the threads, commits, leaves both metadata sets equal).
 *
 * Offsets and lengths are bytes, any value inside [0, size).  All I/O calls
 * work in the caller's thread and return 0, or -1 with errno: EINVAL or ENOSPC
 * (out of range), EIO, ENODATA, EROFS, ESHUTDOWN, ENODEV as base/bdev.h.
 *
 * Durability: a completed sh_volume_flush, or a call with SH_FUA, covers every
 * call that completed before it began, on any thread.  Before that, a block
 * holds its old or its new content.
 */
#ifndef SHINGLE_VOLUME_H
#define SHINGLE_VOLUME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bdev;
struct sh_clock;
struct sh_error;
struct sh_log;
struct sh_volume;

struct sh_volume_options {
  bool read_only;
  unsigned reclaim_low;         /* per cent of random zones free: reclaim starts; 0: default */
  unsigned reclaim_high;        /* per cent: reclaim stops; 0: default */
  uint64_t probe_interval_ns;   /* idle probe period; 0: none */
  uint64_t reorder_window_ns;   /* how long an early append waits for its predecessor; longer,
                                   up to 100 ms, while that pays; 0: default */
  size_t cache_bytes;           /* metadata cache; 0: default */
  const struct sh_log *log;     /* may be NULL */
  const struct sh_clock *clock; /* NULL: monotonic */
};

/* Loads the volume on `bdev`.  The volume owns bdev from success on (and
   closes it); on failure the caller still owns it.  */
int sh_volume_open (struct bdev *bdev, const struct sh_volume_options *options,
                    struct sh_volume **volume, struct sh_error *err);
int sh_volume_start (struct sh_volume *volume, struct sh_error *err);

/* Always frees; -1 when the last commit failed (reported in err). */
int sh_volume_close (struct sh_volume *volume, struct sh_error *err);

#define SH_FUA       1u         /* durable when the call returns */
#define SH_MAY_TRIM  2u         /* sh_volume_zero: need not keep space */
#define SH_FAST      4u         /* sh_volume_zero: ENOTSUP rather than slow */

uint64_t sh_volume_size (const struct sh_volume *volume);

/* A drive that died and came back may have lost writes that were answered but
   not flushed.  This number changes when that may be so, before any call works
   again.  A server whose client came with another number answers him with errors,
   success included, until he connects anew: a flush must not promise him what is
   lost. */
unsigned sh_volume_epoch (const struct sh_volume *volume);
const char *sh_volume_label (const struct sh_volume *volume);

/* `hint` names the submitting queue (an NBD connection's number, say). */
int sh_volume_pread (struct sh_volume *volume, void *buf, size_t count,
                     uint64_t offset, unsigned hint);
int sh_volume_pwrite (struct sh_volume *volume, const void *buf, size_t count,
                      uint64_t offset, unsigned flags, unsigned hint);
int sh_volume_flush (struct sh_volume *volume);
/* Afterwards whole blocks inside the range read as zeroes; nothing outside it
   is touched. */
int sh_volume_trim (struct sh_volume *volume, uint64_t count, uint64_t offset,
                    unsigned flags);
/* Afterwards exactly the range reads as zeroes. */
int sh_volume_zero (struct sh_volume *volume, uint64_t count, uint64_t offset,
                    unsigned flags);

/* Calls fn for ascending, contiguous pieces that cover [offset, offset+count)
   and nothing outside.  fn returns 0 to go on, 1 to stop, -1 to fail. */
int sh_volume_extents (struct sh_volume *volume, uint64_t count, uint64_t offset,
                       int (*fn) (void *opaque, uint64_t offset, uint64_t length,
                                  bool hole),
                       void *opaque);

/* What the volume is doing. All counters are since open. */
struct sh_volume_stats {
  uint64_t reads, read_bytes, writes, written_bytes, trims, trimmed_bytes;
  uint64_t zeroes, zeroed_bytes, flushes;
  uint64_t direct_bytes;        /* appended to sequential zones for users */
  uint64_t in_place_bytes;      /* written to random data zones */
  uint64_t buffered_bytes;      /* written to buffer zones */
  uint64_t commits, commit_blocks, device_flushes;
  uint64_t reclaim_cycles, reclaim_read_bytes, reclaim_written_bytes, zone_resets;
  uint64_t probes, errors;
  uint64_t space_waits;         /* writes that waited for a free zone */
  uint64_t returns;             /* of a drive that had died */
  uint32_t zones, random_zones, random_free, seq_zones, seq_free, reserved_seq;
  uint32_t chunks, chunks_mapped, chunks_buffered;
  uint64_t generation;
  bool dying, read_only, reclaim_paused;
};
void sh_volume_get_stats (struct sh_volume *volume, struct sh_volume_stats *stats);

/* Control of reclaim: pause, resume, or work until nothing is left to gain. */
void sh_volume_reclaim_pause (struct sh_volume *volume, bool pause);
int sh_volume_reclaim_now (struct sh_volume *volume);

#endif /* SHINGLE_VOLUME_H */
