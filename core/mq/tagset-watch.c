/* SPDX-License-Identifier: BSD-3-Clause */
/* Users of shared sets: the thread that listens for other processes, forks, and taking
 * back the tags of processes that were killed. */
#include <config.h>
#include <unistd.h>
#include "mq/futex.h"
#include "mq/tagset-internal.h"

#define LOOK_NS (250 * NS_PER_MS) /* how often users of a shared set look around */

/* Users of shared sets in this process, for after_fork. */
static pthread_mutex_t shared_users_lock = PTHREAD_MUTEX_INITIALIZER;
static struct tag_user *shared_users;

/* -- killed processes ----------------------------------------------------------------- */

/* Hints are only hints: with this one set wrongly, somebody finds the owner
   taken and goes on. */
void
tags_mend_hints (struct tagset *set)
{
  struct segment *s = set->seg;
  const unsigned depth = MIN (depth_of (s), set->nr_words * 64);
  unsigned t;

  for (t = 0; t < depth; ++t)
    if (atomic_load (owner_of (set, t)) == 0)
      atomic_fetch_or (&s->word[t & (set->nr_words - 1)].free,
                       UINT64_C (1) << (t >> set->word_shift));
  for (t = 0; t < MIN (atomic_load (&s->reserved), TAGSET_MAX_RESERVED); ++t)
    if (atomic_load (&s->reserved_owner[t]) == 0)
      atomic_fetch_or (&s->reserved_free, UINT64_C (1) << t);
}

static unsigned
take_back_of (_Atomic uint32_t *owners, unsigned nr, unsigned slot)
{
  unsigned i, n = 0;

  for (i = 0; i < nr; ++i) {
    uint32_t owner = atomic_load (&owners[i]);

    if (owner && OWNER_SLOT (owner) == slot)
      n += atomic_compare_exchange_strong (&owners[i], &owner, 0);
  }
  return n;
}

static unsigned
take_back_tags (struct segment *s, unsigned slot)
{
  return take_back_of (s->owner, ARRAY_SIZE (s->owner), slot) +
    take_back_of (s->reserved_owner, ARRAY_SIZE (s->reserved_owner), slot);
}

void
tags_clear_slot (struct segment *s, unsigned slot)
{
  struct segment_user *u = &s->user[slot];

  clear_waiting (s, slot);
  atomic_store (&u->active, 0);
  atomic_store (&u->limit, 0);
  atomic_store (&u->in_use, 0);
  atomic_store (&u->peak, 0);
  atomic_store (&u->last_peak, 0);
  atomic_store (&u->claim, 0);
  atomic_store (&u->state, SLOT_FREE);
}

static void
reap_slot (struct tagset *set, unsigned slot)
{
  struct segment *s = set->seg;
  const unsigned n = take_back_tags (s, slot);
  unsigned i;

  tags_clear_slot (s, slot);
  tags_mend_hints (set);
  tags_set_limits (s);
  atomic_fetch_add (&s->reaped_users, 1);
  atomic_fetch_add (&s->reaped_tags, n);
  for (i = 0; i < n && any_free (s); ++i)
    tags_wake_one (set);
}

unsigned
tagset_reap (struct tagset *set)
{
  struct segment *s = set->seg;
  const unsigned n = slots_of (s);
  unsigned slot, reaped = 0;

  if (!is_shared (set) || !segment_try_lock_reaper (&set->map))
    return 0;
  for (slot = 0; slot < n; ++slot) {
    if (atomic_load (&s->user[slot].state) != SLOT_USED || atomic_load (&set->local[slot]) ||
        segment_slot_is_alive (&set->map, slot))
      continue;
    reap_slot (set, slot);
    ++reaped;
  }
  segment_unlock_reaper (&set->map);
  return reaped;
}

/* Waits for the bell of this user's slot; looks around now and then. */
static void *
listen_to_others (void *opaque)
{
  struct tag_user *user = opaque;
  struct segment *s = user->set->seg;
  uint32_t bell;

  while (!atomic_load (&user->stop)) {
    futex_wait (&user->u->bell, user->seen, LOOK_NS, true);
    bell = atomic_load (&user->u->bell);
    if (bell == user->seen) {
      tagset_reap (user->set);
      tags_end_epoch (user->set);
      if (tag_is_waiting (user) && may_take (s, user->slot) && any_free (s)) {
        atomic_fetch_add_explicit (&s->late_wakes, 1, memory_order_relaxed);
        user->wake (user->opaque);
      }
      continue;
    }
    user->seen = bell;
    if (!atomic_load (&user->stop))
      user->wake (user->opaque);
  }
  return NULL;
}

void
tag_user_start (struct tag_user *user)
{
  bool started = false;

  if (!is_shared (user->set) ||
      !atomic_compare_exchange_strong (&user->started, &started, true))
    return;
  atomic_store (&user->u->pid, getpid ());
  if (pthread_create (&user->listener, NULL, listen_to_others, user) != 0)
    atomic_store (&user->started, false);
}

/* A server that goes into the background forks after it has opened its
   drives: the child has the locks of its slots but no listener.  The next
   request starts a new one. */
static void
after_fork (void)
{
  struct tag_user *user;

  for (user = shared_users; user; user = user->next) {
    atomic_store (&user->u->pid, getpid ());
    if (!atomic_load (&user->started))
      continue;
    atomic_store (&user->started, false);
    tag_user_start (user);
  }
  pthread_mutex_unlock (&shared_users_lock);
}

static void
before_fork (void)
{
  pthread_mutex_lock (&shared_users_lock);
}

static void
after_fork_in_parent (void)
{
  pthread_mutex_unlock (&shared_users_lock);
}

static void
watch_forks (void)
{
  pthread_atfork (before_fork, after_fork_in_parent, after_fork);
}

void
tags_remember_shared (struct tag_user *user)
{
  static pthread_once_t once = PTHREAD_ONCE_INIT;

  pthread_once (&once, watch_forks);
  pthread_mutex_lock (&shared_users_lock);
  user->next = shared_users;
  shared_users = user;
  pthread_mutex_unlock (&shared_users_lock);
}

void
tags_forget_shared (struct tag_user *user)
{
  struct tag_user **p;

  pthread_mutex_lock (&shared_users_lock);
  for (p = &shared_users; *p != user; p = &(*p)->next)
    ;
  *p = user->next;
  pthread_mutex_unlock (&shared_users_lock);
}

void
tags_stop_listener (struct tag_user *user)
{
  if (!atomic_load (&user->started))
    return;
  atomic_store (&user->stop, true);
  atomic_fetch_add (&user->u->bell, 1);
  futex_wake_one (&user->u->bell, true);
  pthread_join (user->listener, NULL);
}
