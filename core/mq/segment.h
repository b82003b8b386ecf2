/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory of a tag set, private or shared: its layout, and opening it. */
#ifndef MQ_SEGMENT_H
#define MQ_SEGMENT_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "mq/tagset.h"

#define SEGMENT_MAGIC UINT64_C (0x3173676174656873) /* "shetags1" */
#define SEGMENT_VERSION 1u
#define SEGMENT_WORDS 256u      /* of 64 tags */

/* Everything is naturally aligned and of fixed width: programs of different
   builds may share it, as long as the version is the same. */

/* A hint: 1 means probably free.  `owner` decides. */
struct segment_word {
  _Alignas (64) _Atomic uint64_t free;
};

enum slot_state { SLOT_FREE, SLOT_USED };

struct segment_user {
  _Alignas (64) _Atomic uint32_t in_use; /* tags held, without reserved ones */
  _Atomic uint32_t limit;       /* may hold as many; 0 while not active */
  _Atomic uint32_t peak;        /* most held in this epoch */
  _Atomic uint32_t claim;       /* left for this user by borrowers */
  _Atomic uint32_t last_peak;   /* of the epoch before */
  _Atomic uint32_t idle_epochs;
  _Atomic uint32_t active;
  _Atomic uint32_t state;       /* enum slot_state */
  _Alignas (64) _Atomic uint32_t bell; /* futex: counts wake-ups from elsewhere */
  _Atomic uint32_t pid;         /* for people */
  char name[32];                /* for people; not trusted to end in NUL */
};

struct segment {
  /* Set once. */
  uint64_t magic;
  uint32_t version;
  uint32_t size_bytes;
  uint32_t nr_words;            /* 4 ... SEGMENT_WORDS, a power of 2; tag t is bit
                                   t / nr_words of word t % nr_words */
  uint32_t max_users;
  uint64_t check;               /* of the fields above */

  _Alignas (64) _Atomic uint32_t depth;
  _Atomic uint32_t reserved;
  _Atomic uint32_t nr_slots;    /* slots below this have been used */
  _Atomic uint32_t cursor;      /* where the search for a waiter begins */
  _Atomic uint32_t nr_active;
  _Atomic uint64_t epoch_ns;    /* start of the present one */

  _Alignas (64) _Atomic uint64_t waiting[TAGSET_MAX_USERS / 64];
  _Alignas (64) _Atomic uint64_t wakes, reaped_users, reaped_tags, late_wakes;

  _Alignas (64) _Atomic uint64_t reserved_free;
  struct segment_word word[SEGMENT_WORDS];
  struct segment_user user[TAGSET_MAX_USERS];
  /* Who holds a tag: 0 nobody, else OWNER (slot, hint).  Those of one word lie together, so
     that users of different words do not share cache lines. */
  _Alignas (64) _Atomic uint32_t owner[SEGMENT_WORDS * 64];
  _Atomic uint32_t reserved_owner[TAGSET_MAX_RESERVED];
};
#define OWNER(slot, hint) ((uint32_t) ((slot) + 1) | (uint32_t) (hint) << 16)
#define OWNER_SLOT(owner) (((owner) & 0xffff) - 1)
#define OWNER_HINT(owner) ((owner) >> 16)

static_assert (sizeof (struct segment_user) == 128, "layout is shared");
static_assert (sizeof (struct segment_word) == 64, "layout is shared");

/* What is mapped, and its file (-1 when private). */
struct mapping {
  struct segment *segment;
  int fd;
  char path[96];                /* as shm_open takes it */
};

int segment_open (const struct tagset_options *options, struct mapping *m,
                  struct sh_error *err);
void segment_close (struct mapping *m);

/* File locks on the segment.  Byte 0 serialises joining and leaving, byte
   1 taking back; byte 2 + N is held by the user of slot N while it lives. */
void segment_lock_members (const struct mapping *m);
void segment_unlock_members (const struct mapping *m);
bool segment_try_lock_reaper (const struct mapping *m);
void segment_unlock_reaper (const struct mapping *m);
bool segment_lock_slot (const struct mapping *m, unsigned slot);
void segment_unlock_slot (const struct mapping *m, unsigned slot);
bool segment_slot_is_alive (const struct mapping *m, unsigned slot);

/* How many tags the map can hold. */
static inline unsigned
segment_capacity (const struct segment *s)
{
  return s->nr_words * 64 < TAGSET_MAX_TAGS ? s->nr_words * 64 : TAGSET_MAX_TAGS;
}

#endif
