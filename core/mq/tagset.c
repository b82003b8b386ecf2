/* SPDX-License-Identifier: BSD-3-Clause */
#include <config.h>
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "mq/futex.h"
#include "mq/segment.h"
#include "mq/tagset.h"

#define EPOCH_NS (100 * NS_PER_MS)
#define IDLE_EPOCHS 10          /* then a user is no longer active */
#define LOOK_NS (250 * NS_PER_MS) /* how often users of a shared set look around */

struct tagset {
  struct mapping map;
  struct segment *seg;          /* map.segment */
  unsigned nr_words, word_shift; /* of the map: 1 << word_shift words */
  const struct sh_clock *clock;
  char name[TAGSET_NAME_MAX + 1];
  pthread_mutex_t lock;         /* serialises users coming and going; nothing else */
  _Atomic (struct tag_user *) local[TAGSET_MAX_USERS]; /* users of this process */
};

struct tag_user {
  struct tagset *set;
  struct segment *seg;          /* set->seg */
  struct segment_user *u;       /* in the segment */
  unsigned slot;
  unsigned word_mask, word_shift; /* the set's */
  void (*wake) (void *opaque);
  void (*give_back) (void *opaque); /* may be NULL */
  void *opaque;

  /* The listener of a shared set. */
  uint32_t seen;                /* rings of the bell that have been answered */
  atomic_bool started, stop;
  pthread_t listener;
  struct tag_user *next;        /* in `shared_users` */
};

/* Users of shared sets in this process, for after_fork. */
static pthread_mutex_t shared_users_lock = PTHREAD_MUTEX_INITIALIZER;
static struct tag_user *shared_users;

static bool
is_shared (const struct tagset *set)
{
  return set->map.fd != -1;
}

/* Values that another process can write are brought into range where they
   are used, so that a damaged segment costs fairness and never memory. */
static unsigned
depth_of (const struct segment *s)
{
  const unsigned depth = atomic_load_explicit (&s->depth, memory_order_relaxed);

  return MIN (depth, TAGSET_MAX_TAGS);
}

static unsigned
slots_of (const struct segment *s)
{
  const unsigned n = atomic_load_explicit (&s->nr_slots, memory_order_relaxed);

  return MIN (n, TAGSET_MAX_USERS);
}

/* The owner of an ordinary tag below the capacity. */
static inline _Atomic uint32_t *
owner_of (const struct tagset *set, unsigned tag)
{
  return &set->seg->owner[(tag & (set->nr_words - 1)) * 64 + (tag >> set->word_shift)];
}

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

static bool
any_free (const struct segment *s)
{
  unsigned w;

  for (w = 0; w < SEGMENT_WORDS && w < s->nr_words; ++w)
    if (atomic_load_explicit (&s->word[w].free, memory_order_relaxed))
      return true;
  return false;
}

/* -- shares --------------------------------------------------------------------- */

static bool
slot_waits (const struct segment *s, unsigned slot)
{
  return atomic_load (&s->waiting[slot / 64]) >> slot % 64 & 1;
}

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
static void
set_limits (struct segment *s)
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
static bool
end_epoch (struct tagset *set)
{
  struct segment *s = set->seg;
  const uint64_t now = sh_now (set->clock);
  uint64_t began = atomic_load (&s->epoch_ns);

  if (now - began < EPOCH_NS && now >= began)
    return false;
  if (!atomic_compare_exchange_strong (&s->epoch_ns, &began, now))
    return false;
  age_peaks (s);
  set_limits (s);
  return true;
}

static void
activate (struct tag_user *user)
{
  struct segment_user *u = user->u;

  atomic_store (&u->idle_epochs, 0);
  atomic_store (&u->active, 1);
  set_limits (user->set->seg);
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
  return end_epoch (user->set);
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

/* The caller has just made a change that others may be waiting for, so the
   registration, which came first if we miss it, is followed by another try. */
static bool
clear_waiting (struct segment *s, unsigned slot)
{
  const uint64_t bit = UINT64_C (1) << slot % 64;

  return atomic_fetch_and (&s->waiting[slot / 64], ~bit) & bit;
}

static bool
may_take (const struct segment *s, unsigned slot)
{
  const struct segment_user *u = &s->user[slot];

  return atomic_load (&u->in_use) < atomic_load (&u->limit);
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

  atomic_fetch_add_explicit (&set->seg->wakes, 1, memory_order_relaxed);
  if (local) {
    local->wake (local->opaque);
    return;
  }
  atomic_fetch_add (&set->seg->user[slot].bell, 1);
  futex_wake_one (&set->seg->user[slot].bell, true);
}

/* One user that waits and may take a tag, in turn. */
static void
wake_one (struct tagset *set)
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
    wake_one (user->set);
}

void
tag_wait (struct tag_user *user)
{
  struct segment *s = user->set->seg;
  const uint64_t bit = UINT64_C (1) << user->slot % 64;

  if (!(atomic_fetch_or (&s->waiting[user->slot / 64], bit) & bit) &&
      atomic_load_explicit (&s->nr_active, memory_order_relaxed) > 1)
    set_limits (s);
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

/* -- killed processes ----------------------------------------------------------------- */

/* Hints are only hints: with this one set wrongly, somebody finds the owner
   taken and goes on. */
static void
mend_hints (struct tagset *set)
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

static void
clear_slot (struct segment *s, unsigned slot)
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

  clear_slot (s, slot);
  mend_hints (set);
  set_limits (s);
  atomic_fetch_add (&s->reaped_users, 1);
  atomic_fetch_add (&s->reaped_tags, n);
  for (i = 0; i < n && any_free (s); ++i)
    wake_one (set);
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
      end_epoch (user->set);
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

static void
remember_shared (struct tag_user *user)
{
  static pthread_once_t once = PTHREAD_ONCE_INIT;

  pthread_once (&once, watch_forks);
  pthread_mutex_lock (&shared_users_lock);
  user->next = shared_users;
  shared_users = user;
  pthread_mutex_unlock (&shared_users_lock);
}

static void
forget_shared (struct tag_user *user)
{
  struct tag_user **p;

  pthread_mutex_lock (&shared_users_lock);
  for (p = &shared_users; *p != user; p = &(*p)->next)
    ;
  *p = user->next;
  pthread_mutex_unlock (&shared_users_lock);
}

static void
stop_listener (struct tag_user *user)
{
  if (!atomic_load (&user->started))
    return;
  atomic_store (&user->stop, true);
  atomic_fetch_add (&user->u->bell, 1);
  futex_wake_one (&user->u->bell, true);
  pthread_join (user->listener, NULL);
}

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

  clear_slot (s, slot);
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
    remember_shared (user);
  *ret = user;
  return 0;
}

void
tag_user_remove (struct tag_user *user)
{
  struct tagset *set = user->set;

  assert (atomic_load (&user->u->in_use) == 0);
  if (is_shared (set))
    forget_shared (user);
  stop_listener (user);
  pthread_mutex_lock (&set->lock);
  atomic_store (&set->local[user->slot], NULL);
  clear_slot (set->seg, user->slot);
  segment_unlock_slot (&set->map, user->slot);
  set_limits (set->seg);
  pthread_mutex_unlock (&set->lock);
  if (any_free (set->seg))
    wake_one (set);
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
  mend_hints (set);
  set_limits (s);
  pthread_mutex_lock (&set->lock);
  recall_kept_locked (set, NULL);
  pthread_mutex_unlock (&set->lock);
  for (t = 0; t < slots_of (s) && any_free (s); ++t)
    wake_one (set);
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
