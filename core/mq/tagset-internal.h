/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of the tag set share: tagset.c takes, gives back, shares out and wakes;
 * tagset-watch.c looks after other processes; tagset-life.c opens, joins, resizes, lists. */
#ifndef MQ_TAGSET_INTERNAL_H
#define MQ_TAGSET_INTERNAL_H

#include <pthread.h>
#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "mq/segment.h"
#include "mq/tagset.h"

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

static inline bool
is_shared (const struct tagset *set)
{
  return set->map.fd != -1;
}

/* Values that another process can write are brought into range where they
   are used, so that a damaged segment costs fairness and never memory. */
static inline unsigned
depth_of (const struct segment *s)
{
  const unsigned depth = atomic_load_explicit (&s->depth, memory_order_relaxed);

  return MIN (depth, TAGSET_MAX_TAGS);
}

static inline unsigned
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

static inline bool
any_free (const struct segment *s)
{
  unsigned w;

  for (w = 0; w < SEGMENT_WORDS && w < s->nr_words; ++w)
    if (atomic_load_explicit (&s->word[w].free, memory_order_relaxed))
      return true;
  return false;
}

static inline bool
slot_waits (const struct segment *s, unsigned slot)
{
  return atomic_load (&s->waiting[slot / 64]) >> slot % 64 & 1;
}

/* The caller has just made a change that others may be waiting for, so the
   registration, which came first if we miss it, is followed by another try. */
static inline bool
clear_waiting (struct segment *s, unsigned slot)
{
  const uint64_t bit = UINT64_C (1) << slot % 64;

  return atomic_fetch_and (&s->waiting[slot / 64], ~bit) & bit;
}

static inline bool
may_take (const struct segment *s, unsigned slot)
{
  const struct segment_user *u = &s->user[slot];

  return atomic_load (&u->in_use) < atomic_load (&u->limit);
}

/* tagset.c */
void tags_set_limits (struct segment *s);
/* True when an epoch has ended and this thread closed it. */
bool tags_end_epoch (struct tagset *set);
/* One user that waits and may take a tag, in turn. */
void tags_wake_one (struct tagset *set);

/* tagset-watch.c */
/* Every tag that nobody holds is in the map. */
void tags_mend_hints (struct tagset *set);
void tags_clear_slot (struct segment *s, unsigned slot);
void tags_remember_shared (struct tag_user *user);
void tags_forget_shared (struct tag_user *user);
void tags_stop_listener (struct tag_user *user);

#endif
