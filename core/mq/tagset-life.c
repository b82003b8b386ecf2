/* SPDX-License-Identifier: BSD-3-Clause */
/* Sets are opened, joined, resized and listed. */
#include <config.h>
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "mq/tagset-internal.h"

/* -- life --------------------------------------------------------------------------------- */

int
tagset_open (const struct tagset_options *options, struct tagset **ret, struct sh_error *err)
{
  struct tagset *set;

  if (options->tags < 1 || options->tags > TAGSET_MAX_TAGS)
    return sh_fail (err, EINVAL, "tags: %u is outside 1 ... %u", options->tags, TAGSET_MAX_TAGS);
  if (options->reserved > TAGSET_MAX_RESERVED)
    return sh_fail (err, EINVAL, "reserved_tags: %u is outside 0 ... %u", options->reserved,
                    TAGSET_MAX_RESERVED);
  set = calloc (1, sizeof *set);
  if (set == NULL)
    return sh_fail (err, errno, "tags: %s", strerror (errno));
  if (segment_open (options, &set->map, err) == -1) {
    free (set);
    return -1;
  }
  set->seg = set->map.segment;
  set->nr_words = set->seg->nr_words;
  set->word_shift = __builtin_ctz (set->nr_words);
  set->clock = options->clock ? options->clock : &sh_clock_monotonic;
  strcpy (set->name, options->name ? options->name : "");
  pthread_mutex_init (&set->lock, NULL);
  *ret = set;
  return 0;
}

void
tagset_close (struct tagset *set)
{
  segment_close (&set->map);
  pthread_mutex_destroy (&set->lock);
  free (set);
}

static int
claim_slot (struct tagset *set)
{
  struct segment *s = set->seg;
  unsigned slot;

  for (slot = 0; slot < TAGSET_MAX_USERS; ++slot) {
    if (atomic_load (&s->user[slot].state) != SLOT_FREE || !segment_lock_slot (&set->map, slot))
      continue;
    if (slot >= slots_of (s))
      atomic_store (&s->nr_slots, slot + 1);
    return slot;
  }
  return -1;
}

static void
label_slot (struct segment *s, unsigned slot, const char *name)
{
  struct segment_user *u = &s->user[slot];
  const size_t n = MIN (strlen (name), sizeof u->name - 1);

  tags_clear_slot (s, slot);
  memset (u->name, 0, sizeof u->name);
  memcpy (u->name, name, n);
  atomic_store (&u->pid, getpid ());
  atomic_store (&u->state, SLOT_USED);
}

/* Those that keep tags give them back.  set->lock is held. */
static void
recall_kept_locked (struct tagset *set, const struct tag_user *but)
{
  const unsigned n = slots_of (set->seg);
  struct tag_user *user;
  unsigned slot;

  for (slot = 0; slot < n; ++slot) {
    user = atomic_load (&set->local[slot]);
    if (user && user != but && user->give_back)
      user->give_back (user->opaque);
  }
}

bool
tag_user_is_alone (const struct tag_user *user)
{
  return !is_shared (user->set) && atomic_load (&user->seg->nr_slots) <= 1;
}

void
tag_user_may_keep (struct tag_user *user, void (*give_back) (void *opaque))
{
  pthread_mutex_lock (&user->set->lock);
  user->give_back = give_back;
  pthread_mutex_unlock (&user->set->lock);
}

int
tag_user_add (struct tagset *set, const char *name, void (*wake) (void *opaque), void *opaque,
              struct tag_user **ret, struct sh_error *err)
{
  struct tag_user *user = calloc (1, sizeof *user);
  int slot;

  if (user == NULL)
    return sh_fail (err, errno, "tags: %s", strerror (errno));
  tagset_reap (set);
  pthread_mutex_lock (&set->lock);
  segment_lock_members (&set->map);
  slot = claim_slot (set);
  if (slot != -1) {
    *user = (struct tag_user) { .set = set, .seg = set->seg, .slot = slot,
                                .word_mask = set->nr_words - 1, .word_shift = set->word_shift, .u = &set->seg->user[slot],
                                .wake = wake, .opaque = opaque };
    label_slot (set->seg, slot, name);
    user->seen = atomic_load (&user->u->bell);
    atomic_store (&set->local[slot], user);
    recall_kept_locked (set, user);
  }
  segment_unlock_members (&set->map);
  pthread_mutex_unlock (&set->lock);
  if (slot == -1) {
    free (user);
    return sh_fail (err, EUSERS, "tag set '%s' has %u users already, the most it can have",
                    set->name, TAGSET_MAX_USERS);
  }
  if (is_shared (set))
    tags_remember_shared (user);
  *ret = user;
  return 0;
}

void
tag_user_remove (struct tag_user *user)
{
  struct tagset *set = user->set;

  assert (atomic_load (&user->u->in_use) == 0);
  if (is_shared (set))
    tags_forget_shared (user);
  tags_stop_listener (user);
  pthread_mutex_lock (&set->lock);
  atomic_store (&set->local[user->slot], NULL);
  tags_clear_slot (set->seg, user->slot);
  segment_unlock_slot (&set->map, user->slot);
  tags_set_limits (set->seg);
  pthread_mutex_unlock (&set->lock);
  if (any_free (set->seg))
    tags_wake_one (set);
  free (user);
}

int
tagset_resize (struct tagset *set, unsigned tags, struct sh_error *err)
{
  struct segment *s = set->seg;
  const unsigned capacity = MIN (set->nr_words * 64, TAGSET_MAX_TAGS);
  unsigned t, old;

  if (tags < 1 || tags > capacity)
    return sh_fail (err, EINVAL, "tags: this set can have 1 ... %u, not %u", capacity, tags);
  old = atomic_exchange (&s->depth, tags);
  old = MIN (old, capacity);
  for (t = tags; t < old; ++t)
    atomic_fetch_and (&s->word[t & (set->nr_words - 1)].free,
                      ~(UINT64_C (1) << (t >> set->word_shift)));
  tags_mend_hints (set);
  tags_set_limits (s);
  pthread_mutex_lock (&set->lock);
  recall_kept_locked (set, NULL);
  pthread_mutex_unlock (&set->lock);
  for (t = 0; t < slots_of (s) && any_free (s); ++t)
    tags_wake_one (set);
  return 0;
}

unsigned
tagset_depth (const struct tagset *set)
{
  return MIN (depth_of (set->seg), set->nr_words * 64);
}

unsigned
tagset_reserved (const struct tagset *set)
{
  return MIN (atomic_load (&set->seg->reserved), TAGSET_MAX_RESERVED);
}

unsigned
tagset_free (const struct tagset *set)
{
  const unsigned depth = tagset_depth (set);
  unsigned t, n = 0;

  for (t = 0; t < depth; ++t)
    n += atomic_load (owner_of (set, t)) == 0;
  return n;
}

const char *
tagset_name (const struct tagset *set)
{
  return set->name;
}

unsigned
tagset_users (const struct tagset *set, struct tagset_user_info *info, unsigned max)
{
  const struct segment *s = set->seg;
  const unsigned n = slots_of (s);
  unsigned slot, got = 0;

  for (slot = 0; slot < n && got < max; ++slot) {
    const struct segment_user *u = &s->user[slot];
    struct tagset_user_info *i = &info[got];

    if (atomic_load (&u->state) != SLOT_USED)
      continue;
    memset (i, 0, sizeof *i);
    memcpy (i->name, u->name, sizeof i->name - 1);
    i->slot = slot;
    i->pid = atomic_load (&u->pid);
    i->mine = atomic_load (&set->local[slot]) != NULL;
    i->active = atomic_load (&u->active);
    i->waiting = slot_waits (s, slot);
    i->in_use = atomic_load (&u->in_use);
    i->limit = atomic_load (&u->limit);
    i->claim = atomic_load (&u->claim);
    ++got;
  }
  return got;
}

bool
tagset_holder (const struct tagset *set, unsigned tag, struct tagset_holder *holder)
{
  const unsigned capacity = MIN (set->nr_words * 64, TAGSET_MAX_TAGS);
  const uint32_t owner = tag < capacity ? atomic_load (owner_of (set, tag)) : 0;

  if (owner == 0)
    return false;
  holder->slot = OWNER_SLOT (owner);
  holder->hint = OWNER_HINT (owner);
  return true;
}

void
tagset_get_counters (const struct tagset *set, struct tagset_counters *c)
{
  c->wakes = atomic_load (&set->seg->wakes);
  c->reaped_users = atomic_load (&set->seg->reaped_users);
  c->reaped_tags = atomic_load (&set->seg->reaped_tags);
  c->late_wakes = atomic_load (&set->seg->late_wakes);
}

void
tagset_check_idle (const struct tagset *set)
{
  const struct segment *s = set->seg;
  const unsigned depth = depth_of (s);
  unsigned t, n = 0;

  for (t = 0; t < ARRAY_SIZE (s->owner); ++t)
    assert (atomic_load (&s->owner[t]) == 0);
  for (t = 0; t < ARRAY_SIZE (s->reserved_owner); ++t)
    assert (atomic_load (&s->reserved_owner[t]) == 0);
  for (t = 0; t < set->nr_words; ++t)
    n += __builtin_popcountll (atomic_load (&s->word[t].free));
  assert (n == depth);
  for (t = 0; t < slots_of (s); ++t)
    assert (atomic_load (&s->user[t].in_use) == 0);
}
