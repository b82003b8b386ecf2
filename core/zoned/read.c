/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reading.  Where each block is, is looked up under the lock; the zones are held
 * (rzone.refs) while the device reads, so that they are not reset or used anew
 * under the read.  No range is taken: reads wait neither for writes nor for
 * reclaim.
 */
#include <config.h>
#include <errno.h>
#include <string.h>
#include "zoned/running.h"

#define RUNS_MAX 16             /* looked up under one hold of the lock */

struct run
run_at_locked (const struct sh_volume *v, const struct map_entry *m, uint32_t b,
               uint32_t max)
{
  struct run run = { ZONE_NONE, b, max };
  bool set;

  if (m->data != ZONE_NONE) {
    run.count = bits_run_locked (v, m->data, b, max, &set);
    if (set) {
      run.zone = m->data;
      return run;
    }
  }
  if (m->buffer != ZONE_NONE) {
    run.count = bits_run_locked (v, m->buffer, b, run.count, &set);
    if (set)
      run.zone = m->buffer;
  }
  return run;
}

/* Part of one block, through a buffer of our own. */
static int
read_part (struct sh_volume *v, uint64_t at, uint32_t count, uint8_t *buf, unsigned hwq)
{
  uint8_t block[BLOCK_BYTES] __attribute__ ((aligned (BLOCK_BYTES)));
  const struct iovec iov = { block, sizeof block };
  const uint32_t skip = at % BLOCK_BYTES;

  if (dev_rw (v, BDEV_READ, 0, at - skip, &iov, 1, hwq, NULL) == -1)
    return -1;
  memcpy (buf, block + skip, count);
  return 0;
}

static int
read_device (struct sh_volume *v, uint64_t at, uint64_t count, uint8_t *buf, unsigned hwq)
{
  const uint32_t mask = v->bdev->info.lbs_bytes - 1;

  while (count > 0) {
    uint64_t n = count;
    int r;

    if ((at & mask) || n <= mask) {
      n = MIN (n, BLOCK_BYTES - at % BLOCK_BYTES);
      r = read_part (v, at, n, buf, hwq);
    }
    else {
      const struct iovec iov = { buf, n &= ~mask };

      r = dev_rw (v, BDEV_READ, 0, at, &iov, 1, hwq, NULL);
    }
    if (r == -1)
      return -1;
    at += n;
    buf += n;
    count -= n;
  }
  return 0;
}

/* Looks up what [offset, end) of chunk c consists of, holding the zones. */
static int
plan (struct sh_volume *v, uint32_t c, uint64_t offset, uint64_t end, struct run *runs)
{
  uint32_t b = offset / BLOCK_BYTES;
  const uint32_t last = DIV_ROUND_UP (end, BLOCK_BYTES);
  struct map_entry m;
  int n = 0;

  if (bits_load_chunk (v, c, &m) == -1)
    return -1;
  while (n < RUNS_MAX && b < last) {
    runs[n] = run_at_locked (v, &m, b, last - b);
    if (runs[n].zone != ZONE_NONE)
      zone_ref (v, runs[n].zone);
    b += runs[n++].count;
  }
  return n;
}

static int
read_run (struct sh_volume *v, const struct run *run, uint64_t offset, uint64_t count,
          uint8_t *buf, unsigned hwq)
{
  if (run->zone == ZONE_NONE) {
    memset (buf, 0, count);
    return 0;
  }
  return read_device (v, zone_byte (v, run->zone, 0) + offset, count, buf, hwq);
}

int
read_blocks (struct sh_volume *v, uint32_t c, uint64_t offset, uint64_t count,
             uint8_t *buf, unsigned hwq)
{
  const uint64_t end = offset + count;

  while (offset < end) {
    struct run runs[RUNS_MAX];
    int nr, i, r = 0, e = 0;

    pthread_mutex_lock (&v->lock);
    if (v->dying || chunk_is_bad (v, c)) {
      errno = v->dying ? ENODEV : EIO;
      nr = -1;
    }
    else
      nr = plan (v, c, offset, end, runs);
    pthread_mutex_unlock (&v->lock);
    if (nr == -1)
      return -1;
    for (i = 0; i < nr && r == 0; ++i) {
      const uint64_t run_end = ((uint64_t) runs[i].first + runs[i].count) * BLOCK_BYTES;
      const uint64_t n = MIN (run_end, end) - offset;

      r = read_run (v, &runs[i], offset, n, buf, hwq);
      e = errno;
      offset += n;
      buf += n;
    }
    pthread_mutex_lock (&v->lock);
    for (i = 0; i < nr; ++i)
      if (runs[i].zone != ZONE_NONE)
        zone_unref_locked (v, runs[i].zone);
    pthread_mutex_unlock (&v->lock);
    if (r == -1) {
      errno = e;
      return -1;
    }
  }
  return 0;
}
