/* SPDX-License-Identifier: BSD-3-Clause */
/* Tags are taken and given back, limits follow from claims, waiters are woken. */
#include <config.h>
#include <assert.h>
#include "mq/count.h"
#include "mq/futex.h"
#include "mq/tagset-internal.h"

#define EPOCH_NS (100 * NS_PER_MS)
#define IDLE_EPOCHS 10          /* then a user is no longer active */

/* -- the map ------------------------------------------------------------------- */

/* Takes the lowest hinted bit of a word.  A tag if its owner really was nobody;
   -1: look again, or elsewhere. */
static inline int
take_one (struct tag_user *user, unsigned w, unsigned hint)
{
  struct segment *s = user->seg;
  const uint64_t bits = atomic_load_explicit (&s->word[w].free, memory_order_relaxed);
  const uint64_t mask = bits & -bits;
  uint32_t nobody = 0;
  unsigned bit, tag;

  if (bits == 0 || !(atomic_fetch_and (&s->word[w].free, ~mask) & mask))
    return -1;
  /* A bit above the depth is left over from before it shrank. */
  bit = (unsigned) __builtin_ctzll (mask);
  tag = bit << user->word_shift | w;
  if (tag >= atomic_load_explicit (&s->depth, memory_order_relaxed) || tag >= TAGSET_MAX_TAGS ||
      !atomic_compare_exchange_strong (&s->owner[w * 64 + bit], &nobody,
                                       OWNER (user->slot, hint)))
    return -1;
  return tag;
}

static unsigned
take_from_map (struct tag_user *user, unsigned hint, int *tags, unsigned n)
{
  const struct segment *s = user->seg;
  const unsigned nr_words = user->set->nr_words;
  unsigned i, got = 0;

  for (i = 0; i < nr_words && got < n; ++i) {
    const unsigned w = (hint + i) & (nr_words - 1);

    while (got < n && atomic_load_explicit (&s->word[w].free, memory_order_relaxed)) {
      const int tag = take_one (user, w, hint);

      if (tag != -1)
        tags[got++] = tag;
    }
  }
  return got;
}

/* Owner first: whoever sees the hint finds the tag free.  If we are killed in
   between, the reaper sets the hint.  Then the depth: a set that grows meanwhile either
   finds the tag free or is seen here (pairs with mend_hints in tagset_resize). */
static inline void
return_to_map (struct tagset *set, unsigned tag)
{
  struct segment *s = set->seg;

  atomic_store (owner_of (set, tag), 0);
  if (tag < atomic_load (&s->depth))
    atomic_fetch_or (&s->word[tag & (set->nr_words - 1)].free,
                     UINT64_C (1) << (tag >> set->word_shift));
}

/* -- shares --------------------------------------------------------------------- */

static unsigned
claim_of (const struct segment *s, unsigned slot, unsigned share)
{
  const struct segment_user *u = &s->user[slot];
  const unsigned peak = MAX (atomic_load_explicit (&u->peak, memory_order_relaxed),
                             atomic_load_explicit (&u->last_peak, memory_order_relaxed));

  if (!atomic_load_explicit (&u->active, memory_order_relaxed))
    return 0;
  return slot_waits (s, slot) ? share : MIN (share, peak + 1);
}

/* Limits from claims.  Two threads may do this at once; each leaves limits that
   are right for what it saw, and whoever changes anything comes here after. */
void
tags_set_limits (struct segment *s)
{
  const unsigned depth = depth_of (s), n = slots_of (s);
  unsigned active = 0, share, claims = 0, i;

  for (i = 0; i < n; ++i)
    active += atomic_load_explicit (&s->user[i].active, memory_order_relaxed) != 0;
  atomic_store_explicit (&s->nr_active, active, memory_order_relaxed);
  share = active ? DIV_ROUND_UP (depth, active) : depth;
  for (i = 0; i < n; ++i) {
    const unsigned claim = claim_of (s, i, share);

    atomic_store_explicit (&s->user[i].claim, claim, memory_order_relaxed);
    claims += claim;
  }
  for (i = 0; i < n; ++i) {
    struct segment_user *u = &s->user[i];
    const unsigned others = claims - MIN (claims, atomic_load_explicit (&u->claim, memory_order_relaxed));
    const unsigned limit = MAX (share, others < depth ? depth - others : 0);

    if (atomic_load_explicit (&u->active, memory_order_relaxed))
      atomic_store (&u->limit, limit);
  }
}

/* The end of an epoch: peaks age, users that did nothing stop counting. */
static void
age_peaks (struct segment *s)
{
  const unsigned n = slots_of (s);
  unsigned i;

  for (i = 0; i < n; ++i) {
    struct segment_user *u = &s->user[i];
    const uint32_t in_use = atomic_load (&u->in_use);
    const uint32_t peak = atomic_exchange (&u->peak, in_use);

    atomic_store (&u->last_peak, peak);
    if (peak || in_use || slot_waits (s, i))
      atomic_store (&u->idle_epochs, 0);
    else if (atomic_fetch_add (&u->idle_epochs, 1) + 1 >= IDLE_EPOCHS) {
      atomic_store (&u->active, 0);
      atomic_store (&u->limit, 0);
    }
  }
}

/* True when an epoch has ended and this thread closed it. */
bool
tags_end_epoch (struct tagset *set)
{
  struct segment *s = set->seg;
  const uint64_t now = sh_now (set->clock);
  uint64_t began = atomic_load (&s->epoch_ns);

  if (now - began < EPOCH_NS && now >= began)
    return false;
  if (!atomic_compare_exchange_strong (&s->epoch_ns, &began, now))
    return false;
  age_peaks (s);
  tags_set_limits (s);
  return true;
}

static void
activate (struct tag_user *user)
{
  struct segment_user *u = user->u;

  atomic_store (&u->idle_epochs, 0);
  atomic_store (&u->active, 1);
  tags_set_limits (user->set->seg);
  if (is_shared (user->set))
    tag_user_start (user);
}

/* The limit said no, or was not set yet.  True: try again. */
static bool
reconsider_limit (struct tag_user *user)
{
  if (!atomic_load_explicit (&user->u->active, memory_order_relaxed)) {
    activate (user);
    return true;
  }
  return tags_end_epoch (user->set);
}

/* -- taking and giving back ------------------------------------------------------ */

/* How many of `n` the limit allows; they are counted as in use. */
static unsigned
charge (struct tag_user *user, unsigned keep, unsigned n)
{
  struct segment_user *u = user->u;
  const unsigned now = atomic_fetch_add (&u->in_use, n) + n;
  const unsigned limit = atomic_load_explicit (&u->limit, memory_order_relaxed);
  unsigned over = 0;

  if (now + keep > limit) {
    over = MIN (n, now + keep - limit);
    atomic_fetch_sub (&u->in_use, over);
  }
  if (over < n && now - over > atomic_load_explicit (&u->peak, memory_order_relaxed))
    atomic_store_explicit (&u->peak, now - over, memory_order_relaxed);
  return n - over;
}

static void
discharge (struct tag_user *user, unsigned n)
{
  if (n)
    atomic_fetch_sub (&user->u->in_use, n);
}

unsigned
tag_get_batch (struct tag_user *user, unsigned hint, unsigned keep, int *tags, unsigned n)
{
  unsigned allowed = charge (user, keep, n), got;

  if (allowed == 0) {
    if (!reconsider_limit (user))
      return 0;
    allowed = charge (user, keep, n);
  }
  got = take_from_map (user, hint, tags, allowed);
  discharge (user, allowed - got);
  return got;
}

/* Nearly always the limit allows it and the first word has one. */
int
tag_get (struct tag_user *user, unsigned hint, unsigned keep)
{
  struct segment_user *u = user->u;
  const unsigned now = atomic_fetch_add (&u->in_use, 1) + 1;
  int tag;

  if (now + keep <= atomic_load_explicit (&u->limit, memory_order_relaxed)) {
    tag = take_one (user, hint & user->word_mask, hint);
    if (tag != -1) {
      if (now > atomic_load_explicit (&u->peak, memory_order_relaxed))
        atomic_store_explicit (&u->peak, now, memory_order_relaxed);
      return tag;
    }
  }
  atomic_fetch_sub (&u->in_use, 1);
  return tag_get_batch (user, hint, keep, &tag, 1) ? tag : -1;
}

int
tag_get_reserved (struct tag_user *user)
{
  struct segment *s = user->set->seg;
  uint64_t bits, mask;
  uint32_t nobody;
  unsigned i;

  if (!atomic_load_explicit (&user->u->active, memory_order_relaxed))
    activate (user);
  while ((bits = atomic_load (&s->reserved_free)) != 0) {
    mask = bits & -bits;
    if (!(atomic_fetch_and (&s->reserved_free, ~mask) & mask))
      continue;
    i = __builtin_ctzll (mask);
    nobody = 0;
    if (atomic_compare_exchange_strong (&s->reserved_owner[i], &nobody, OWNER (user->slot, 0)))
      return TAGSET_MAX_TAGS + i;
  }
  return -1;
}

void
tag_put (struct tag_user *user, int tag)
{
  struct segment *s = user->set->seg;

  assert (tag >= 0 && tag < TAGSET_MAX_TAGS + TAGSET_MAX_RESERVED);
  if (tag_is_reserved (tag)) {
    atomic_store (&s->reserved_owner[tag - TAGSET_MAX_TAGS], 0);
    atomic_fetch_or (&s->reserved_free, UINT64_C (1) << (tag - TAGSET_MAX_TAGS));
    return;
  }
  return_to_map (user->set, tag);
  atomic_fetch_sub (&user->u->in_use, 1);
}

void
tag_put_batch (struct tag_user *user, const int *tags, unsigned n)
{
  unsigned i, ordinary = 0;

  for (i = 0; i < n; ++i)
    if (tag_is_reserved (tags[i]))
      tag_put (user, tags[i]);
    else {
      assert (tags[i] >= 0);
      return_to_map (user->set, tags[i]);
      ++ordinary;
    }
  discharge (user, ordinary);
}

/* -- waiting and waking ------------------------------------------------------------ */

static bool
others_wait (const struct tag_user *user)
{
  const struct segment *s = user->seg;
  unsigned n = slots_of (s), i;
  uint64_t mask;

  if (n < 2)
    return false;
  n = (n + 63) / 64;
  for (i = 0; i < n; ++i) {
    mask = atomic_load (&s->waiting[i]);
    if (i == user->slot / 64)
      mask &= ~(UINT64_C (1) << user->slot % 64);
    if (mask)
      return true;
  }
  return false;
}

bool
tag_others_first (struct tag_user *user)
{
  const struct segment *s = user->set->seg;
  const uint32_t mine = atomic_load_explicit (&user->u->in_use, memory_order_relaxed);
  const unsigned n = slots_of (s);
  unsigned i;

  if (!others_wait (user))
    return false;
  for (i = 0; i < n; ++i)
    if (i != user->slot && slot_waits (s, i) && may_take (s, i) &&
        atomic_load_explicit (&s->user[i].in_use, memory_order_relaxed) < mine)
      return true;
  return false;
}

static void
ring (struct tagset *set, unsigned slot)
{
  struct tag_user *local = atomic_load (&set->local[slot]);

  if (MQ_TELLS)
    atomic_fetch_add_explicit (&set->seg->wakes, 1, memory_order_relaxed);
  if (local) {
    local->wake (local->opaque);
    return;
  }
  atomic_fetch_add (&set->seg->user[slot].bell, 1);
  futex_wake_one (&set->seg->user[slot].bell, true);
}

/* One user that waits and may take a tag, in turn. */
void
tags_wake_one (struct tagset *set)
{
  struct segment *s = set->seg;
  const unsigned n = slots_of (s);
  unsigned slot = atomic_load_explicit (&s->cursor, memory_order_relaxed), i;

  for (i = 0; i < n; ++i) {
    slot = slot + 1 < n ? slot + 1 : 0;
    if (!slot_waits (s, slot) || !may_take (s, slot) || !clear_waiting (s, slot))
      continue;
    atomic_store_explicit (&s->cursor, slot, memory_order_relaxed);
    ring (set, slot);
    return;
  }
}

void
tag_pass_on (struct tag_user *user)
{
  if (slots_of (user->seg) > 1 && others_wait (user) && any_free (user->set->seg))
    tags_wake_one (user->set);
}

void
tag_wait (struct tag_user *user)
{
  struct segment *s = user->set->seg;
  const uint64_t bit = UINT64_C (1) << user->slot % 64;

  if (!(atomic_fetch_or (&s->waiting[user->slot / 64], bit) & bit) &&
      atomic_load_explicit (&s->nr_active, memory_order_relaxed) > 1)
    tags_set_limits (s);
}

void
tag_wait_end (struct tag_user *user)
{
  if (tag_is_waiting (user))
    clear_waiting (user->set->seg, user->slot);
}

bool
tag_is_waiting (const struct tag_user *user)
{
  return slot_waits (user->set->seg, user->slot);
}

unsigned
tag_user_in_use (const struct tag_user *user)
{
  return atomic_load (&user->u->in_use);
}

unsigned
tag_user_limit (const struct tag_user *user)
{
  return atomic_load_explicit (&user->u->limit, memory_order_relaxed);
}
