/* SPDX-License-Identifier: BSD-3-Clause */
/* Making, cloning, powering and closing a drive. */
#include <config.h>
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include "base/clock.h"
#include "base/error.h"
#include "transport/emu/internal.h"
#include "transport/transport.h"

/* ---- allocation ---- */

/* The serial number, and the NAA designator that follows from it. */
static void
set_identity (struct emu *emu)
{
  uint64_t h = UINT64_C (0xcbf29ce484222325);
  const char *p;

  if (emu->s.serial[0] == '\0') {
    uint64_t r = 0;

    if (getrandom (&r, sizeof r, 0) != sizeof r)
      r = emu_now_ns (emu);
    snprintf (emu->s.serial, sizeof emu->s.serial, "EMU%016llX", (unsigned long long) r);
  }
  for (p = emu->s.serial; *p; ++p)
    h = (h ^ (uint8_t) *p) * UINT64_C (0x100000001b3);
  put_be64 (emu->wwn, (h & UINT64_C (0x0fffffffffffffff)) | UINT64_C (3) << 60);
}

static void
set_shape (struct emu *emu)
{
  const struct emu_settings *s = &emu->s;
  struct zones *z = &emu->z;

  emu->lbs_shift = (unsigned) __builtin_ctz (s->lbs_bytes);
  emu->nr_blocks = emu_settings_capacity (s) >> emu->lbs_shift;
  emu->store_blocks = s->size_bytes >> emu->lbs_shift;
  if (s->model == EMU_REGULAR)
    return;
  z->blocks = s->zone_bytes >> emu->lbs_shift;
  z->shift = (unsigned) __builtin_ctzll (z->blocks);
  z->nr = (uint32_t) DIV_ROUND_UP (emu->nr_blocks, z->blocks);
  z->cap = s->zone_cap_bytes >> emu->lbs_shift;
  z->gaps = z->cap < z->blocks;
  z->max_open = s->max_open;
}

/* A drive without store, zone table and counters; settings are complete. */
struct emu *
emu_alloc (const struct emu_settings *s, struct sh_error *err)
{
  struct emu *emu;

  if (posix_memalign ((void **) &emu, 64, sizeof *emu) != 0) {
    sh_fail (err, ENOMEM, "the emulated drive: out of memory");
    return NULL;
  }
  memset (emu, 0, sizeof *emu);
  emu->refs = 1;
  emu->s = *s;
  pthread_mutex_init (&emu->queue_lock, NULL);
  pthread_cond_init (&emu->queue_cond, NULL);
  time_init (emu);
  faults_init (emu);
  set_identity (emu);
  set_shape (emu);
  cache_init (emu);
  emu_fill_op_index (emu->op_index);
  return emu;
}

/* Words and counters of a RAM drive lie together in one mapping. */
static size_t
ram_table_bytes (const struct emu *emu)
{
  return COUNTERS_BYTES + emu->z.nr * sizeof (zone_word);
}

static int
map_ram_tables (struct emu *emu)
{
  void *p = mmap (NULL, ram_table_bytes (emu), PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

  if (p == MAP_FAILED)
    return -1;
  emu->counters.values = p;
  return zones_init (emu, (zone_word *) ((char *) p + COUNTERS_BYTES));
}

/* Frees a drive whose last reference is gone, or that was not finished. */
void
emu_free (struct emu *emu)
{
  if (emu->store)
    emu->store->ops->close (emu->store);
  cache_fini (emu);
  if (emu->z.words)
    zones_fini (emu);
  if (emu->file)
    emu_file_close (emu->file);
  else if (emu->counters.values)
    munmap (emu->counters.values, ram_table_bytes (emu));
  faults_fini (emu);
  time_fini (emu);
  pthread_cond_destroy (&emu->queue_cond);
  pthread_mutex_destroy (&emu->queue_lock);
  free (emu);
}

/* ---- the life of a RAM drive ---- */

/* scsi_debug's num_parts: one Linux partition from 1 MiB, or a hundredth, on. */
static int
write_partition_table (struct emu *emu)
{
  const uint64_t first = MAX (UINT64_C (1), MIN (MiB >> emu->lbs_shift, emu->nr_blocks / 100));
  const uint64_t len = MIN (emu->nr_blocks - first, UINT32_MAX);
  uint8_t mbr[4096] = { 0 };
  uint8_t *entry = mbr + 446;
  const struct iovec iov = { mbr, emu->s.lbs_bytes };
  struct cursor c = { .iov = &iov, .iovcnt = 1 };

  entry[4] = 0x83;
  put_le32 (entry + 8, (uint32_t) first);
  put_le32 (entry + 12, (uint32_t) len);
  mbr[510] = 0x55;
  mbr[511] = 0xaa;
  return media_write (emu, 0, 1, &c);
}

int
emu_format_media (struct emu *emu, struct sh_error *err)
{
  if (!emu->s.num_parts)
    return 0;
  if (emu_zoned (emu) && !emu_settings_conventional (&emu->s, 0))
    return sh_fail (err, EINVAL, "num_parts: the first zone is not conventional");
  if (write_partition_table (emu) == -1)
    return sh_fail (err, errno, "the partition table: %s", strerror (errno));
  return 0;
}

static int
fill_ram_drive (struct emu *emu, struct sh_error *err)
{
  emu->store = store_ram_new (emu->s.size_bytes);
  if (emu->store == NULL || map_ram_tables (emu) == -1)
    return sh_fail (err, ENOMEM, "an emulated drive in RAM: out of memory");
  zones_format (emu, emu->z.words);
  return emu_format_media (emu, err);
}

int
emu_open_ram (const struct emu_settings *settings, struct emu **result, struct sh_error *err)
{
  struct emu_settings s = *settings;
  struct emu *emu;

  if (emu_settings_complete (&s, err) == -1)
    return -1;
  emu = emu_alloc (&s, err);
  if (emu == NULL)
    return -1;
  if (fill_ram_drive (emu, err) == -1) {
    emu_free (emu);
    return -1;
  }
  emu_power_on (emu);
  *result = emu;
  return 0;
}

static int
copy_into (struct emu *to, struct emu *from)
{
  uint32_t i;

  to->store = from->store->ops->clone (from->store);
  if (to->store == NULL || map_ram_tables (to) == -1)
    return -1;
  for (i = 0; i < from->z.nr; ++i)
    atomic_store_explicit (&to->z.words[i], atomic_load (&from->z.words[i]),
                           memory_order_relaxed);
  zones_recount (to);
  return cache_copy_locked (to, from);
}

struct emu *
emu_clone (struct emu *from)
{
  struct sh_error err = { 0 };
  struct emu *emu;
  int r;

  assert (from->file == NULL);
  emu = emu_alloc (&from->s, &err);
  if (emu == NULL)
    return NULL;
  emu->time.clock = from->time.clock;
  cache_lock (from);
  r = copy_into (emu, from);
  cache_unlock (from);
  if (r == -1) {
    emu_free (emu);
    errno = ENOMEM;
    return NULL;
  }
  atomic_store (&emu->ua_pending, atomic_load (&from->ua_pending));
  emu_update_special (emu);
  return emu;
}

struct emu *
emu_ref (struct emu *emu)
{
  atomic_fetch_add_explicit (&emu->refs, 1, memory_order_relaxed);
  return emu;
}

void
emu_close (struct emu *emu)
{
  if (atomic_fetch_sub_explicit (&emu->refs, 1, memory_order_acq_rel) == 1)
    emu_free (emu);
}

/* ---- power and attention ---- */

void
emu_raise (struct emu *emu, unsigned ua)
{
  atomic_fetch_or (&emu->ua_pending, UINT32_C (1) << ua);
}

void
emu_unit_attention (struct emu *emu, uint8_t asc, uint8_t ascq)
{
  atomic_store (&emu->ua_other, (uint32_t) asc << 8 | ascq);
  emu_raise (emu, UA_OTHER);
}

void
emu_power_on (struct emu *emu)
{
  zones_power_on (emu);
  atomic_store (&emu->ua_pending, 0);
  atomic_store (&emu->stopped, false);
  atomic_store (&emu->gone, false);
  emu->ready_ns = emu->s.tur_ms_to_ready == 0 ? 0
    : emu_now_ns (emu) + emu->s.tur_ms_to_ready * NS_PER_MS;
  emu_raise (emu, UA_POWER_ON);
  emu_update_special (emu);
}

void
emu_power_cycle (struct emu *emu)
{
  emu_power_on (emu);
}

void
emu_update_special (struct emu *emu)
{
  atomic_store (&emu->special,
                faults_active (emu) || time_active (emu) || emu->s.max_queue < 4096 ||
                atomic_load (&emu->gone));
}

const struct emu_settings *
emu_get_settings (const struct emu *emu)
{
  return &emu->s;
}

void
emu_set_hook (struct emu *emu, emu_hook_fn fn, void *opaque)
{
  emu->hook = fn;
  emu->hook_opaque = opaque;
}
