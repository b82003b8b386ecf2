/* SPDX-License-Identifier: BSD-3-Clause */
#include <config.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/log.h"
#include "scsi/disk-internal.h"

static uint64_t
disk_resets (struct bdev *bdev)
{
  return atomic_load (&disk_of (bdev)->resets);
}

static void
disk_free (struct disk *d)
{
  pthread_mutex_destroy (&d->return_lock);
  free (d->zero_block);
  free (d);
}

static void
disk_close (struct bdev *bdev)
{
  struct disk *d = disk_of (bdev);

  transport_close (&d->t);
  disk_free (d);
}

static const struct bdev_ops disk_ops = {
  .execute = disk_execute,
  .report_zones = disk_report_zones,
  .close = disk_close,
  .resets = disk_resets,
};

int
disk_open (const struct transport *t, const struct disk_options *options,
           struct bdev **bdev, struct sh_error *err)
{
  struct disk *d = aligned_alloc (_Alignof (struct disk), sizeof *d);

  if (d == NULL)
    return sh_fail (err, ENOMEM, "%s: no memory", t->name);
  memset (d, 0, sizeof *d);
  d->bdev.ops = &disk_ops;
  d->t = *t;
  d->log = options->log;
  d->clock = options->clock ? options->clock : &sh_clock_monotonic;
  pthread_mutex_init (&d->return_lock, NULL);
  snprintf (d->bdev.info.name, sizeof d->bdev.info.name, "%s", t->name);
  if (disk_identify (d, options->read_only, err) == -1) {
    disk_free (d);
    errno = err->errnum;
    return -1;
  }
  *bdev = &d->bdev;
  return 0;
}

int
disk_check_identity (struct bdev *bdev, struct sh_error *err)
{
  return disk_identify_again (disk_of (bdev), err);
}

/* return_lock is held. */
static int
look_for_drive_locked (struct disk *d)
{
  const struct sh_transport_ops *ops = d->t.ops;
  struct sh_error err = { 0 };
  char why[256] = "";

  if (ops->reopen && ops->reopen (d->t.handle, why, sizeof why) == -1) {
    disk_log (d, SH_LOG_INFO, "the drive is still away: %s", why[0] ? why : "gone");
    errno = ENODEV;
    return -1;
  }
  if (disk_identify_again (d, &err) == -1) {
    disk_log (d, SH_LOG_WARNING, "%s", err.message);
    errno = ENODEV;
    return -1;
  }
  /* It may have lost power meanwhile, whatever it says of that. */
  atomic_fetch_add (&d->resets, 1);
  atomic_store (&d->gone, false);
  disk_log (d, SH_LOG_INFO, "the drive is back");
  return 0;
}

int
disk_return (struct disk *d)
{
  int r = 0;

  pthread_mutex_lock (&d->return_lock);
  if (atomic_load (&d->gone))
    r = look_for_drive_locked (d);
  pthread_mutex_unlock (&d->return_lock);
  return r;
}

unsigned
disk_shard (void)
{
  static atomic_uint next;
  static _Thread_local unsigned mine = DISK_SHARDS;

  if (__builtin_expect (mine == DISK_SHARDS, 0))
    mine = atomic_fetch_add_explicit (&next, 1, memory_order_relaxed) % DISK_SHARDS;
  return mine;
}

static void
add_counts (struct disk_counters *c, struct disk_count *shard)
{
#define GET(what) c->what += atomic_load_explicit (&shard->what, memory_order_relaxed)
  for (int i = 0; i < DISK_NR_CLASSES; ++i)
    GET (commands[i]);
  GET (read_bytes);
  GET (written_bytes);
  GET (retries);
  GET (attentions);
  GET (timeouts);
  GET (busy);
  GET (settles);
  GET (short_transfers);
  GET (zone_closes);
  GET (unit_starts);
  GET (capacity_changes);
  GET (mode_changes);
  GET (deferred_errors);
  GET (failures);
#undef GET
}

void
disk_get_counters (struct bdev *bdev, struct disk_counters *c)
{
  struct disk *d = disk_of (bdev);

  memset (c, 0, sizeof *c);
  for (int i = 0; i < DISK_SHARDS; ++i)
    add_counts (c, &d->counts[i]);
  c->resets = atomic_load (&d->resets);
}
