/* SPDX-License-Identifier: BSD-3-Clause */
/* What the volume itself costs for a request of 4 KiB: time, and under callgrind
 * instructions, above a drive that does nothing.
 *
 * Usage: volume-calls [THREADS]
 *        valgrind --tool=callgrind --toggle-collect=sh_volume_pread volume-calls
 */
#undef NDEBUG
#include <config.h>
#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/bytes.h"
#include "base/clock.h"
#include "../unit/rig.h"

#define CALLS 20000u

static int
nothing (struct bdev *bdev, struct bdev_req *req)
{
  req->done_bytes = req->len_bytes;
  return 0;
}

struct thread {
  pthread_t thread;
  struct rig *rig;
  unsigned id;
  bool write;
};

static void *
calls (void *opaque)
{
  struct thread *const t = opaque;
  static _Thread_local uint8_t buf[4096];
  unsigned i;

  for (i = 0; i < CALLS; ++i) {
    const uint64_t at = (uint64_t) ((i * 7919 + t->id * 131) % 4096) * 4096;

    if (t->write)
      assert (sh_volume_pwrite (t->rig->v, buf, sizeof buf, at, 0, 0) == 0);
    else
      assert (sh_volume_pread (t->rig->v, buf, sizeof buf, at, 0) == 0);
  }
  return NULL;
}

static void
measure (struct rig *rig, const char *what, unsigned threads, bool write)
{
  struct thread t[64];
  const uint64_t begin = sh_now (&sh_clock_monotonic);
  unsigned i;

  for (i = 0; i < threads; ++i) {
    t[i] = (struct thread) { .rig = rig, .id = i, .write = write };
    assert (pthread_create (&t[i].thread, NULL, calls, &t[i]) == 0);
  }
  for (i = 0; i < threads; ++i)
    pthread_join (t[i].thread, NULL);
  printf ("%-24s %2u threads %8.0f ns a call\n", what, threads,
          (double) (sh_now (&sh_clock_monotonic) - begin) / CALLS / threads);
}

int
main (int argc, char *argv[])
{
  const unsigned threads = argc > 1 ? MIN (64, strtoul (argv[1], NULL, 10)) : 1;
  struct bdev_ops ops;
  struct rig rig;

  rig_init (&rig, &(struct rig_config) {
    .drive = { .zone_bytes = 16 * MiB, .nr_zones = 24, .nr_conv = 8 },
  });
  rig_write (&rig, 4096, 8 * MiB, 0);   /* a random zone, and part of it valid */
  rig_write (&rig, 4096 + 8 * MiB, 8 * MiB - 4096, 0);
  ops = *rig.guard->bdev.ops;
  ops.execute = nothing;
  rig.guard->bdev.ops = &ops;
  measure (&rig, "read, 4 KiB", threads, false);
  measure (&rig, "write in place, 4 KiB", threads, true);
  return 0;
}
