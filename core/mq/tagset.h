/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tag sets: how many requests a host lets a drive controller hold at once.
 *
 * One map of tags serves all users: the queues (drives, or exports) of a
 * process, and, when the set has a name, those of several processes that
 * share it through POSIX shared memory.  A set has `depth` ordinary tags and
 * `reserved` ones for probes and error handling, which nothing else can use
 * up.
 *
 * Fair share.  With U active users a user has a right to ceil(depth / U) tags
 * as soon as it asks, and may borrow what the others do not use.  What another
 * user uses is its claim: one more than it held at most in the last moments, or
 * its whole share while it waits for a tag.  So an almost idle neighbour costs
 * a busy user two tags, not half; and once that neighbour waits, the borrower's
 * limit falls to its share and every tag it gives back goes to the neighbour.
 * A user is active from its first attempt until it has been idle for a second.
 *
 * Waiting.  A user that is refused registers itself (tag_wait), tries once more,
 * and is called through `wake` when a tag is there that it may take.  A freed
 * tag wakes one user at most.
 *
 * Killed processes.  Each user of a shared set holds a file lock on its slot
 * of the segment, which the kernel drops when the process ends, however it
 * ends.  The others look every quarter of a second and take its tags back; who
 * holds a tag is recorded by the same atomic step that takes it.
 *
 * Threads: everything may be called from any thread, except tagset_open,
 * tagset_close, tag_user_add and tag_user_remove of one set at once.
 */
#ifndef MQ_TAGSET_H
#define MQ_TAGSET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sh_clock;
struct sh_error;
struct tagset;

#define TAGSET_MAX_TAGS 10240
#define TAGSET_MAX_RESERVED 64
#define TAGSET_MAX_USERS 256
#define TAGSET_NAME_MAX 64

struct tagset_options {
  unsigned tags;                /* 1 ... TAGSET_MAX_TAGS */
  unsigned reserved;            /* 0 ... TAGSET_MAX_RESERVED */
  const char *name;             /* NULL: private to this process */
  const struct sh_clock *clock; /* NULL: monotonic */
};

/* Makes a private set, or joins (and if need be makes) the shared set NAME,
   the file /dev/shm/shingle-tags.NAME.  Whoever may read and write that file
   may join; it is made with mode 0600.  A set that has users keeps its depth;
   one without takes that of the options.  A segment that is no tag set, or a
   damaged one, is refused. */
int tagset_open (const struct tagset_options *options, struct tagset **set,
                 struct sh_error *err);
/* No user of this process is left. */
void tagset_close (struct tagset *set);

unsigned tagset_depth (const struct tagset *set);
unsigned tagset_reserved (const struct tagset *set);
unsigned tagset_free (const struct tagset *set);
const char *tagset_name (const struct tagset *set);     /* "" when private */

/* In use or not.  Shrinking takes effect as tags come back. */
int tagset_resize (struct tagset *set, unsigned tags, struct sh_error *err);

/* -- users ---------------------------------------------------------------------- */

struct tag_user;

/* `wake` is called from any thread, with no lock held, and must not sleep. */
int tag_user_add (struct tagset *set, const char *name,
                  void (*wake) (void *opaque), void *opaque,
                  struct tag_user **user, struct sh_error *err);
/* The user holds no tag. */
void tag_user_remove (struct tag_user *user);

/* Nobody else uses the set: it is private, and no other user has ever joined. */
bool tag_user_is_alone (const struct tag_user *user);
/* A user that is alone may keep tags that it does not use for the moment, if it gives
   them back on this call: another user joins, or the size changes.  Called by any thread,
   with a lock of the set held: the function gives back and nothing else. */
void tag_user_may_keep (struct tag_user *user, void (*give_back) (void *opaque));

/* Starts the thread that listens for other processes.  Called from the first
   request on by itself; after a fork. */
void tag_user_start (struct tag_user *user);

/* A tag, or -1.  `hint` (below 65536) spreads users over the map.  `keep` tags below this
   user's limit are left free. */
int tag_get (struct tag_user *user, unsigned hint, unsigned keep);
/* Up to `n` of them; how many. */
unsigned tag_get_batch (struct tag_user *user, unsigned hint, unsigned keep,
                        int *tags, unsigned n);
/* A reserved tag, or -1. */
int tag_get_reserved (struct tag_user *user);

/* Gives a tag back (of either kind) and wakes nobody: follow with tag_pass_on
   once this user has looked whether it needs the tag itself. */
void tag_put (struct tag_user *user, int tag);
void tag_put_batch (struct tag_user *user, const int *tags, unsigned n);

/* True when somebody who waits holds fewer tags than this user, so that a tag
   just given back should go there first. */
bool tag_others_first (struct tag_user *user);

/* If a tag is free and a user waits that may take one: wakes one such. */
void tag_pass_on (struct tag_user *user);

/* Registers as waiting; the caller tries again afterwards, and calls
   tag_wait_end when that succeeds or it needs no tag any more. */
void tag_wait (struct tag_user *user);
void tag_wait_end (struct tag_user *user);
bool tag_is_waiting (const struct tag_user *user);

unsigned tag_user_in_use (const struct tag_user *user);
unsigned tag_user_limit (const struct tag_user *user);
static inline bool
tag_is_reserved (int tag)
{
  return tag >= TAGSET_MAX_TAGS;
}

/* -- what is going on, for listings and tests -------------------------------- */

struct tagset_user_info {
  unsigned slot;
  char name[32];
  int pid;
  bool mine, active, waiting;
  unsigned in_use, limit, claim;
};
/* How many were stored. */
unsigned tagset_users (const struct tagset *set, struct tagset_user_info *info,
                       unsigned max);
/* Who holds an ordinary tag (with which hint it was taken); false: nobody. */
struct tagset_holder {
  unsigned slot, hint;
};
bool tagset_holder (const struct tagset *set, unsigned tag, struct tagset_holder *holder);

struct tagset_counters {
  uint64_t wakes, reaped_users, reaped_tags, late_wakes;
};
void tagset_get_counters (const struct tagset *set, struct tagset_counters *c);

/* Takes back the tags of users whose process has ended; how many users. */
unsigned tagset_reap (struct tagset *set);

/* With nothing in flight anywhere: every tag is free and nobody holds one.
   Asserts. */
void tagset_check_idle (const struct tagset *set);

#endif
