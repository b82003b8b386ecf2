/* SPDX-License-Identifier: BSD-3-Clause */
/* The zone table: records, conditions, and the account of open zones. */
#include <config.h>
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "transport/emu/internal.h"

/* ---- the word of a zone ---- */

static uint64_t
checksum (uint64_t low56)
{
  uint64_t h = (low56 ^ UINT64_C (0x5a6f6e65)) * UINT64_C (0x9e3779b97f4a7c15);

  return (h ^ h >> 29) >> 24 & 0xff;
}

uint64_t
zone_pack (struct zone_rec rec)
{
  const uint64_t word = rec.wp | (uint64_t) rec.cond << 32 | (uint64_t) rec.type << 36 |
    (uint64_t) rec.flags << 40 | (uint64_t) rec.reported_type << 48;

  return word | checksum (word) << 56;
}

struct zone_rec
zone_unpack (uint64_t word)
{
  return (struct zone_rec) {
    .wp = (uint32_t) word,
    .cond = word >> 32 & 15,
    .type = word >> 36 & 15,
    .flags = word >> 40 & 0xff,
    .reported_type = word >> 48 & 15,
  };
}

static bool
cond_fits (const struct zone_rec *rec, uint64_t cap)
{
  switch (rec->cond) {
  case ZONE_NOT_WP:
    return !rec_sequential (rec) && rec->wp == 0;
  case ZONE_EMPTY:
    return rec_sequential (rec) && rec->wp == 0;
  case ZONE_IMPLICIT_OPEN:
  case ZONE_EXPLICIT_OPEN:
    return rec_sequential (rec) && rec->wp < cap;
  case ZONE_CLOSED:
    return rec_sequential (rec) && rec->wp > 0 && rec->wp < cap;
  case ZONE_FULL:
    return rec_sequential (rec) && rec->wp == cap;
  case ZONE_READ_ONLY:
  case ZONE_OFFLINE:
    return rec_sequential (rec) ? rec->wp <= cap : rec->wp == 0;
  default:
    return false;
  }
}

/* Whether a word from a file can be what this drive wrote. */
bool
zone_word_ok (const struct emu *emu, uint32_t zone, uint64_t word)
{
  const struct zone_rec rec = zone_unpack (word);

  return word >> 56 == checksum (word & UINT64_C (0xffffffffffffff)) &&
    rec.type >= ZONE_CONVENTIONAL && rec.type <= ZONE_SEQ_PREFERRED &&
    cond_fits (&rec, zone_cap (emu, zone, &rec));
}

struct zone_rec
zone_load (const struct emu *emu, uint32_t zone)
{
  assert (zone < emu->z.nr);
  /* acquire: pairs with the release in zone_store, so that who sees a write
     pointer sees the data before it. */
  return zone_unpack (atomic_load_explicit (&emu->z.words[zone], memory_order_acquire));
}

void
zone_store (struct emu *emu, uint32_t zone, struct zone_rec rec)
{
  assert (zone < emu->z.nr);
  assert (cond_fits (&rec, zone_cap (emu, zone, &rec)));
  atomic_store_explicit (&emu->z.words[zone], zone_pack (rec), memory_order_release);
}

/* ---- geometry ---- */

uint64_t
zone_start (const struct emu *emu, uint32_t zone)
{
  return (uint64_t) zone << emu->z.shift;
}

uint64_t
zone_len (const struct emu *emu, uint32_t zone)
{
  return MIN (emu->z.blocks, emu->nr_blocks - zone_start (emu, zone));
}

uint64_t
zone_cap (const struct emu *emu, uint32_t zone, const struct zone_rec *rec)
{
  const uint64_t len = zone_len (emu, zone);

  return rec_sequential (rec) ? MIN (len, emu->z.cap) : len;
}

bool
rec_sequential (const struct zone_rec *rec)
{
  return rec->type != ZONE_CONVENTIONAL;
}

bool
rec_open (const struct zone_rec *rec)
{
  return rec->cond == ZONE_IMPLICIT_OPEN || rec->cond == ZONE_EXPLICIT_OPEN;
}

/* ---- life ---- */

/* The records of a new drive. */
void
zones_format (const struct emu *emu, zone_word *words)
{
  const struct zone_rec conventional = { .type = ZONE_CONVENTIONAL, .cond = ZONE_NOT_WP };
  const struct zone_rec sequential = {
    .type = emu->s.model == EMU_HOST_AWARE ? ZONE_SEQ_PREFERRED : ZONE_SEQ_REQUIRED,
    .cond = ZONE_EMPTY,
  };
  const uint64_t conv_word = zone_pack (conventional), seq_word = zone_pack (sequential);
  uint32_t i;

  for (i = 0; i < emu->z.nr; ++i)
    atomic_store_explicit (&words[i],
                           emu_settings_conventional (&emu->s, i) ? conv_word : seq_word,
                           memory_order_relaxed);
}

/* The shape is in place, the records are in `words`. */
int
zones_init (struct emu *emu, zone_word *words)
{
  struct zones *z = &emu->z;
  unsigned i;

  z->words = words;
  if (z->max_open != 0) {
    z->implicit = calloc (z->max_open, sizeof z->implicit[0]);
    if (z->implicit == NULL)
      return -1;
  }
  pthread_mutex_init (&z->open_lock, NULL);
  for (i = 0; i < NR_ZONE_LOCKS; ++i)
    pthread_mutex_init (&z->locks[i].lock, NULL);
  return 0;
}

void
zones_fini (struct emu *emu)
{
  struct zones *z = &emu->z;
  unsigned i;

  for (i = 0; i < NR_ZONE_LOCKS; ++i)
    pthread_mutex_destroy (&z->locks[i].lock);
  pthread_mutex_destroy (&z->open_lock);
  free (z->implicit);
}

/* An open zone becomes closed, or empty when nothing is in it. */
static void
close_rec (struct zone_rec *rec)
{
  if (rec_open (rec))
    rec->cond = rec->wp == 0 ? ZONE_EMPTY : ZONE_CLOSED;
}

void
zones_power_on (struct emu *emu)
{
  struct zones *z = &emu->z;
  uint32_t i;

  for (i = 0; i < z->nr; ++i) {
    struct zone_rec rec = zone_load (emu, i);

    if (rec_open (&rec)) {
      close_rec (&rec);
      zone_store (emu, i, rec);
    }
  }
  pthread_mutex_lock (&z->open_lock);
  z->nr_implicit = z->nr_explicit = 0;
  pthread_mutex_unlock (&z->open_lock);
}

/* No command is in flight.  Zones that are open beyond a lower limit are closed. */
int
zones_set_max_open (struct emu *emu, uint32_t max_open)
{
  struct zones *z = &emu->z;
  uint32_t *list = NULL;

  if (max_open != 0) {
    list = calloc (max_open, sizeof list[0]);
    if (list == NULL)
      return -1;
  }
  zones_power_on (emu);
  free (z->implicit);
  z->implicit = list;
  z->max_open = max_open;
  return 0;
}

/* ---- locks ---- */

static pthread_mutex_t *
lock_of (struct emu *emu, uint32_t zone)
{
  return &emu->z.locks[zone % NR_ZONE_LOCKS].lock;
}

void
zone_lock (struct emu *emu, uint32_t zone)
{
  pthread_mutex_lock (lock_of (emu, zone));
}

void
zone_unlock (struct emu *emu, uint32_t zone)
{
  pthread_mutex_unlock (lock_of (emu, zone));
}

/* ---- open zones; open_lock is held ---- */

/* Where `zone` is, or belongs, among the implicitly open ones. */
static uint32_t
implicit_index_locked (const struct zones *z, uint32_t zone)
{
  uint32_t i = 0;

  while (i < z->nr_implicit && z->implicit[i] < zone)
    i++;
  return i;
}

static void
account_locked (struct zones *z, uint32_t zone, uint8_t cond, bool add)
{
  if (cond == ZONE_EXPLICIT_OPEN) {
    z->nr_explicit += add ? 1 : -1u;
    return;
  }
  if (cond != ZONE_IMPLICIT_OPEN)
    return;
  if (z->max_open != 0) {
    const uint32_t i = implicit_index_locked (z, zone);
    uint32_t *at = z->implicit + i;

    if (add) {
      memmove (at + 1, at, (z->nr_implicit - i) * sizeof *at);
      *at = zone;
    }
    else {
      assert (i < z->nr_implicit && *at == zone);
      memmove (at, at + 1, (z->nr_implicit - i - 1) * sizeof *at);
    }
  }
  z->nr_implicit += add ? 1 : -1u;
}

static void
change_open_locked (struct emu *emu, uint32_t zone, struct zone_rec rec)
{
  const struct zone_rec old = zone_load (emu, zone);

  account_locked (&emu->z, zone, old.cond, false);
  account_locked (&emu->z, zone, rec.cond, true);
  zone_store (emu, zone, rec);
}

void
zone_change_locked (struct emu *emu, uint32_t zone, struct zone_rec rec)
{
  const struct zone_rec old = zone_load (emu, zone);

  if (old.cond == rec.cond || (!rec_open (&old) && !rec_open (&rec))) {
    zone_store (emu, zone, rec);
    return;
  }
  pthread_mutex_lock (&emu->z.open_lock);
  change_open_locked (emu, zone, rec);
  pthread_mutex_unlock (&emu->z.open_lock);
}

/* Closes the lowest implicitly open zone that no command works on. */
static bool
close_one_locked (struct emu *emu, uint32_t for_zone)
{
  struct zones *z = &emu->z;
  pthread_mutex_t *const held = lock_of (emu, for_zone);
  uint32_t i;

  for (i = 0; i < z->nr_implicit; ++i) {
    const uint32_t victim = z->implicit[i];
    pthread_mutex_t *lock = lock_of (emu, victim);
    struct zone_rec rec;

    if (lock != held && pthread_mutex_trylock (lock) != 0)
      continue;
    rec = zone_load (emu, victim);
    close_rec (&rec);
    change_open_locked (emu, victim, rec);
    if (lock != held)
      pthread_mutex_unlock (lock);
    count (emu, CNT_IMPLICIT_CLOSES, 1);
    return true;
  }
  return false;
}

static enum zone_open
make_room_locked (struct emu *emu, uint32_t zone, const struct zone_rec *rec)
{
  struct zones *z = &emu->z;

  if (z->max_open == 0 || rec_open (rec) ||
      z->nr_implicit + z->nr_explicit < z->max_open)
    return ZONE_OPEN_OK;
  if (z->nr_explicit >= z->max_open)
    return ZONE_OPEN_NO_RESOURCES;
  return close_one_locked (emu, zone) ? ZONE_OPEN_OK : ZONE_OPEN_AGAIN;
}

/* Opens a zone whose lock is held and whose record is *rec; AGAIN: every zone
   that could be closed for it is busy: give the zone lock up and retry. */
enum zone_open
zone_open_locked (struct emu *emu, uint32_t zone, struct zone_rec *rec, bool explicitly)
{
  enum zone_open r;

  pthread_mutex_lock (&emu->z.open_lock);
  r = make_room_locked (emu, zone, rec);
  if (r == ZONE_OPEN_OK) {
    rec->cond = explicitly ? ZONE_EXPLICIT_OPEN : ZONE_IMPLICIT_OPEN;
    change_open_locked (emu, zone, *rec);
  }
  pthread_mutex_unlock (&emu->z.open_lock);
  return r;
}

void
zones_recount (struct emu *emu)
{
  struct zones *z = &emu->z;
  uint32_t i;

  pthread_mutex_lock (&z->open_lock);
  z->nr_implicit = z->nr_explicit = 0;
  for (i = 0; i < z->nr; ++i)
    account_locked (z, i, zone_load (emu, i).cond, true);
  pthread_mutex_unlock (&z->open_lock);
}

/* ---- API ---- */

uint32_t
emu_nr_zones (const struct emu *emu)
{
  return emu->z.nr;
}

void
emu_get_zone (struct emu *emu, uint32_t zone, struct bdev_zone *out)
{
  const struct zone_rec rec = zone_load (emu, zone);
  const uint64_t start = zone_start (emu, zone);

  *out = (struct bdev_zone) {
    .start_bytes = blocks_to_bytes (emu, start),
    .len_bytes = blocks_to_bytes (emu, zone_len (emu, zone)),
    .cap_bytes = blocks_to_bytes (emu, zone_cap (emu, zone, &rec)),
    .wp_bytes = rec_sequential (&rec) ? blocks_to_bytes (emu, start + rec.wp) : UINT64_MAX,
    .type = rec.reported_type ? rec.reported_type : rec.type,
    .cond = rec.cond,
    .non_seq = rec.flags & REC_NON_SEQ,
  };
}

static int
no_such_zone (const struct emu *emu, uint32_t zone, struct sh_error *err)
{
  if (zone < emu->z.nr)
    return 0;
  return sh_fail (err, EINVAL, "zone %u: the drive has %u zones", zone, emu->z.nr);
}

int
emu_set_wp (struct emu *emu, uint32_t zone, uint64_t lba, struct sh_error *err)
{
  struct zone_rec rec;
  uint64_t start, cap;

  if (no_such_zone (emu, zone, err) == -1)
    return -1;
  zone_lock (emu, zone);
  rec = zone_load (emu, zone);
  start = zone_start (emu, zone);
  cap = zone_cap (emu, zone, &rec);
  if (!rec_sequential (&rec) || lba < start || lba - start > cap) {
    zone_unlock (emu, zone);
    if (!rec_sequential (&rec))
      return sh_fail (err, EINVAL, "zone %u is conventional: it has no write pointer", zone);
    return sh_fail (err, ERANGE, "the write pointer of zone %u is from LBA %llu to %llu",
                    zone, (unsigned long long) start, (unsigned long long) (start + cap));
  }
  rec.wp = (uint32_t) (lba - start);
  if (rec.cond != ZONE_READ_ONLY && rec.cond != ZONE_OFFLINE)
    rec.cond = rec.wp == 0 ? ZONE_EMPTY : rec.wp == cap ? ZONE_FULL : ZONE_CLOSED;
  zone_change_locked (emu, zone, rec);
  zone_unlock (emu, zone);
  return 0;
}

/* The condition that a zone's pointer gives when nothing holds it open. */
static uint8_t
resting_cond (const struct emu *emu, uint32_t zone, const struct zone_rec *rec)
{
  if (!rec_sequential (rec))
    return ZONE_NOT_WP;
  if (rec->wp == 0)
    return ZONE_EMPTY;
  return rec->wp == zone_cap (emu, zone, rec) ? ZONE_FULL : ZONE_CLOSED;
}

int
emu_set_zone_cond (struct emu *emu, uint32_t zone, uint8_t cond, struct sh_error *err)
{
  struct zone_rec rec;

  if (no_such_zone (emu, zone, err) == -1)
    return -1;
  if (cond != ZONE_READ_ONLY && cond != ZONE_OFFLINE && cond != ZONE_NOT_WP)
    return sh_fail (err, EINVAL, "a zone can be made read-only, offline, or good again");
  zone_lock (emu, zone);
  rec = zone_load (emu, zone);
  rec.cond = cond == ZONE_NOT_WP ? resting_cond (emu, zone, &rec) : cond;
  zone_change_locked (emu, zone, rec);
  zone_unlock (emu, zone);
  return 0;
}

int
emu_set_zone_type (struct emu *emu, uint32_t zone, uint8_t type, struct sh_error *err)
{
  struct zone_rec rec;

  if (no_such_zone (emu, zone, err) == -1)
    return -1;
  if (type > 15)
    return sh_fail (err, EINVAL, "zone type %u: a type is from 0 (the true one) to 15", type);
  zone_lock (emu, zone);
  rec = zone_load (emu, zone);
  rec.reported_type = type;
  zone_store (emu, zone, rec);
  zone_unlock (emu, zone);
  return 0;
}

void
emu_check (struct emu *emu)
{
  struct zones *z = &emu->z;
  uint32_t i, nr_implicit = 0, nr_explicit = 0;

  for (i = 0; i < z->nr; ++i) {
    const struct zone_rec rec = zone_load (emu, i);

    assert (zone_word_ok (emu, i, zone_pack (rec)));
    if (rec.cond == ZONE_IMPLICIT_OPEN) {
      assert (z->max_open == 0 || z->implicit[nr_implicit] == i);
      nr_implicit++;
    }
    nr_explicit += rec.cond == ZONE_EXPLICIT_OPEN;
  }
  assert (nr_implicit == z->nr_implicit);
  assert (nr_explicit == z->nr_explicit);
  assert (z->max_open == 0 || nr_implicit + nr_explicit <= z->max_open);
}
