/* SPDX-License-Identifier: BSD-3-Clause */
/* core/mq/tagset: every tag given once, fair shares, borrowing that is given
 * back, waiting, resizing, and sets shared with processes that get killed. */
#include <config.h>
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "mq/segment.h"
#include "mq/tagset.h"
#include "run-suite.h"

static struct sh_error err;
static uint64_t now_ns = NS_PER_S;

static uint64_t
test_now (void *opaque)
{
  return now_ns;
}

static const struct sh_clock test_clock = { .now_ns = test_now };

static struct tagset *
open_private (unsigned tags)
{
  const struct tagset_options o = { .tags = tags, .reserved = 3, .clock = &test_clock };
  struct tagset *set;

  ck_assert_msg (tagset_open (&o, &set, &err) == 0, "%s", err.message);
  return set;
}

static void
count_wake (void *opaque)
{
  atomic_fetch_add ((atomic_uint *) opaque, 1);
}

static atomic_uint woken[64];

static struct tag_user *
add_user (struct tagset *set, unsigned n)
{
  struct tag_user *user;

  ck_assert_int_eq (tag_user_add (set, "user", count_wake, &woken[n], &user, &err), 0);
  return user;
}

/* As many as it gets; they are put into tags. */
static unsigned
take_all (struct tag_user *user, int *tags, unsigned max)
{
  unsigned n = 0;
  int tag;

  while (n < max && (tag = tag_get (user, n, 0)) != -1)
    tags[n++] = tag;
  return n;
}

static void
put_all (struct tag_user *user, int *tags, unsigned n)
{
  while (n)
    tag_put (user, tags[--n]);
}

static const unsigned depths[] = { 1, 2, 3, 4, 8, 31, 64, 128, 256, 260, 1024, 1025, 10240 };

START_TEST (every_tag_is_given_once)
{
  static int tags[TAGSET_MAX_TAGS + 1];
  static bool seen[TAGSET_MAX_TAGS];
  struct tagset *set = open_private (depths[_i]);
  struct tag_user *user = add_user (set, 0);
  unsigned n = take_all (user, tags, TAGSET_MAX_TAGS + 1), i;

  ck_assert_uint_eq (n, depths[_i]);
  for (i = 0; i < n; ++i) {
    ck_assert_int_lt (tags[i], (int) n);
    ck_assert (!seen[tags[i]]);
    seen[tags[i]] = true;
  }
  ck_assert_uint_eq (tagset_free (set), 0);
  put_all (user, tags, n);
  tagset_check_idle (set);
  ck_assert_uint_eq (take_all (user, tags, TAGSET_MAX_TAGS), n);
  put_all (user, tags, n);
  tag_user_remove (user);
  tagset_close (set);
}
END_TEST

START_TEST (reserved_tags_are_there_when_all_others_are_in_use)
{
  int tags[8], reserved[3], i;
  struct tagset *set = open_private (8);
  struct tag_user *user = add_user (set, 0);

  ck_assert_uint_eq (take_all (user, tags, 8), 8);
  for (i = 0; i < 3; ++i)
    ck_assert_int_ne (reserved[i] = tag_get_reserved (user), -1);
  ck_assert_int_eq (tag_get_reserved (user), -1);
  put_all (user, reserved, 3);
  put_all (user, tags, 8);
  tagset_check_idle (set);
  tag_user_remove (user);
  tagset_close (set);
}
END_TEST

START_TEST (asking_for_a_reserved_tag_where_none_are_is_refused)
{
  const struct tagset_options o = { .tags = 4 };
  struct tagset *set;
  struct tag_user *user;

  ck_assert_int_eq (tagset_open (&o, &set, &err), 0);
  user = add_user (set, 0);
  ck_assert_int_eq (tag_get_reserved (user), -1);
  tag_user_remove (user);
  tagset_close (set);
}
END_TEST

START_TEST (a_batch_is_as_large_as_what_is_free)
{
  int tags[128];
  struct tagset *set = open_private (100);
  struct tag_user *user = add_user (set, 0);

  ck_assert_uint_eq (tag_get_batch (user, 3, 0, tags, 64), 64);
  ck_assert_uint_eq (tag_get_batch (user, 3, 0, tags + 64, 64), 36);
  put_all (user, tags, 100);
  ck_assert_uint_eq (tag_get_batch (user, 3, 10, tags, 128), 90);
  put_all (user, tags, 90);
  tag_user_remove (user);
  tagset_close (set);
}
END_TEST

/* -- shares ---------------------------------------------------------------------------- */

static void
pass_epochs (unsigned n)
{
  now_ns += n * 110 * NS_PER_MS;
}

START_TEST (an_almost_idle_neighbour_costs_two_tags_and_not_half)
{
  int tags[128], one, epoch;
  struct tagset *set = open_private (128);
  struct tag_user *busy = add_user (set, 0), *idle = add_user (set, 1);
  unsigned n = 0;

  for (epoch = 0; epoch < 5; ++epoch) {
    put_all (busy, tags, n);
    ck_assert_int_ne (one = tag_get (idle, 0, 0), -1);
    tag_put (idle, one);
    pass_epochs (1);
    n = take_all (busy, tags, 128);
  }
  ck_assert_uint_ge (n, 126);
  /* And there it is when it is wanted. */
  ck_assert_int_ne (one = tag_get (idle, 0, 0), -1);
  tag_put (idle, one);
  put_all (busy, tags, n);
  tag_user_remove (busy);
  tag_user_remove (idle);
  tagset_close (set);
}
END_TEST

START_TEST (a_user_gets_its_share_back_as_fast_as_tags_are_freed)
{
  int tags[128], mine[128], got = 0;
  struct tagset *set = open_private (128);
  struct tag_user *busy = add_user (set, 0), *other = add_user (set, 1);
  unsigned n = take_all (busy, tags, 128);

  ck_assert_uint_eq (n, 128);
  /* `other` comes: nothing is free, so it waits; each tag that comes back is
     its own until it has half. */
  ck_assert_int_eq (tag_get (other, 0, 0), -1);
  tag_wait (other);
  while (n > 64) {
    int tag;

    tag_put (busy, tags[--n]);
    ck_assert_int_eq (tag_get (busy, 0, 0), -1);
    ck_assert (tag_others_first (busy));
    tag_pass_on (busy);
    ck_assert_uint_eq (atomic_load (&woken[1]), got + 1);
    ck_assert_int_ne (tag = tag_get (other, 0, 0), -1);
    mine[got++] = tag;
    tag_wait (other);
  }
  ck_assert_int_eq (got, 64);
  tag_wait_end (other);
  put_all (busy, tags, n);
  put_all (other, mine, got);
  tag_user_remove (busy);
  tag_user_remove (other);
  tagset_close (set);
}
END_TEST

START_TEST (a_user_that_is_idle_for_a_second_costs_nothing)
{
  int tags[128], one;
  struct tagset *set = open_private (128);
  struct tag_user *busy = add_user (set, 0), *idle = add_user (set, 1);
  unsigned n, i;

  ck_assert_int_ne (one = tag_get (idle, 0, 0), -1);
  tag_put (idle, one);
  for (i = 0; i < 13; ++i) {
    n = take_all (busy, tags, 128);
    put_all (busy, tags, n);
    pass_epochs (1);
  }
  ck_assert_uint_eq (take_all (busy, tags, 128), 128);
  put_all (busy, tags, 128);
  tag_user_remove (busy);
  tag_user_remove (idle);
  tagset_close (set);
}
END_TEST

START_TEST (with_more_users_than_tags_they_take_turns)
{
  enum { USERS = 12 };
  struct tagset *set = open_private (4);
  struct tag_user *user[USERS];
  int i, turn, tag;
  unsigned turns[USERS] = { 0 };

  for (i = 0; i < USERS; ++i) {
    user[i] = add_user (set, i);
    tag_wait (user[i]);
    if ((tag = tag_get (user[i], 0, 0)) != -1)
      tag_put (user[i], tag);
  }
  for (turn = 0; turn < USERS * 50; ++turn) {
    atomic_store (&woken[turn % USERS], 0);
    tag_pass_on (user[turn % USERS]);
    for (i = 0; i < USERS; ++i)
      if (atomic_exchange (&woken[i], 0)) {
        ck_assert_int_ne (tag = tag_get (user[i], 0, 0), -1);
        turns[i]++;
        tag_put (user[i], tag);
        tag_wait (user[i]);
      }
  }
  for (i = 0; i < USERS; ++i)
    ck_assert_uint_ge (turns[i], 25);
  for (i = 0; i < USERS; ++i)
    tag_user_remove (user[i]);
  tagset_close (set);
}
END_TEST

START_TEST (a_larger_set_wakes_those_who_wait)
{
  struct tagset *set = open_private (1);
  struct tag_user *user = add_user (set, 0), *other = add_user (set, 1);
  int tag = tag_get (user, 0, 0);

  ck_assert_int_ne (tag, -1);
  ck_assert_int_eq (tag_get (other, 0, 0), -1);
  tag_wait (other);
  ck_assert_int_eq (tagset_resize (set, 8, &err), 0);
  ck_assert_int_eq (atomic_load (&woken[1]), 1);
  tag_put (user, tag);
  tag_user_remove (other);
  tag_user_remove (user);
  tagset_close (set);
}
END_TEST

START_TEST (a_freed_tag_wakes_one_waiter)
{
  struct tagset *set = open_private (8);
  struct tag_user *user[16];
  int tags[8], i, wakes = 0;

  for (i = 0; i < 16; ++i)
    user[i] = add_user (set, i);
  ck_assert_uint_eq (take_all (user[0], tags, 8), 8);
  for (i = 1; i < 16; ++i) {
    ck_assert_int_eq (tag_get (user[i], 0, 0), -1);
    tag_wait (user[i]);
  }
  tag_put (user[0], tags[0]);
  tag_pass_on (user[0]);
  for (i = 0; i < 16; ++i)
    wakes += atomic_load (&woken[i]);
  ck_assert_int_eq (wakes, 1);
  put_all (user[0], tags + 1, 7);
  for (i = 0; i < 16; ++i)
    tag_user_remove (user[i]);
  tagset_close (set);
}
END_TEST

enum { WAITERS = 40 };

/* Each that was woken takes a tag, or waits again, and passes on what it had; how many
   had one. */
static unsigned
serve_woken (struct tag_user **user)
{
  unsigned i, served = 0;
  int tag;

  for (i = 0; i < WAITERS; ++i) {
    if (!atomic_exchange (&woken[i], 0))
      continue;
    tag = tag_get (user[i], 0, 0);
    if (tag == -1) {
      tag_wait (user[i]);
      continue;
    }
    tag_wait_end (user[i]);
    ++served;
    tag_put (user[i], tag);
    tag_pass_on (user[i]);
  }
  return served;
}

/* Far more wait than there are tags; who holds these gives back some at once. */
START_TEST (waiters_are_all_served_when_tags_come_back_in_batches)
{
  enum { HOLDERS = 4 };
  struct tagset *set = open_private (_i);
  struct tag_user *user[WAITERS], *holder[HOLDERS];
  unsigned round, i, n[HOLDERS], now, served, seed = 1;
  int tags[HOLDERS][4];

  for (i = 0; i < WAITERS; ++i)
    user[i] = add_user (set, i);
  for (i = 0; i < HOLDERS; ++i)
    holder[i] = add_user (set, WAITERS + i);
  for (round = 0; round < 2000; ++round) {
    for (i = 0; i < HOLDERS; ++i)
      n[i] = take_all (holder[i], tags[i], 4);
    ck_assert_uint_eq (tagset_free (set), 0);
    for (i = 0; i < WAITERS; ++i) {
      ck_assert_int_eq (tag_get (user[i], 0, 0), -1);
      tag_wait (user[i]);
    }
    for (i = 0; i < HOLDERS; ++i) {
      tag_put_batch (holder[i], tags[i], n[i]);
      seed = seed * 1103515245u + 12345u;
      if (seed >> 16 & 1 || i == HOLDERS - 1)
        tag_pass_on (holder[i]);
    }
    for (served = 0; served < WAITERS; served += now) {
      now = serve_woken (user);
      ck_assert_uint_gt (now, 0);       /* else a wake-up was lost */
    }
    ck_assert_uint_eq (served, WAITERS);
    ck_assert_uint_eq (tagset_free (set), _i);
  }
  for (i = 0; i < WAITERS; ++i)
    tag_user_remove (user[i]);
  for (i = 0; i < HOLDERS; ++i)
    tag_user_remove (holder[i]);
  tagset_check_idle (set);
  tagset_close (set);
}
END_TEST

START_TEST (shrinking_takes_effect_as_tags_come_back_and_growing_at_once)
{
  int tags[64];
  struct tagset *set = open_private (64);
  struct tag_user *user = add_user (set, 0);

  ck_assert_uint_eq (take_all (user, tags, 64), 64);
  ck_assert_int_eq (tagset_resize (set, 5, &err), 0);
  put_all (user, tags, 64);
  tagset_check_idle (set);
  ck_assert_uint_eq (take_all (user, tags, 64), 5);
  put_all (user, tags, 5);
  ck_assert_int_eq (tagset_resize (set, 40, &err), 0);
  ck_assert_uint_eq (take_all (user, tags, 64), 40);
  put_all (user, tags, 40);
  /* With nothing in use no hint of the tags above the depth is left. */
  ck_assert_int_eq (tagset_resize (set, 3, &err), 0);
  tagset_check_idle (set);
  ck_assert_int_eq (tagset_resize (set, 40, &err), 0);
  ck_assert_int_eq (tagset_resize (set, 0, &err), -1);
  sh_error_clear (&err);
  ck_assert_int_eq (tagset_resize (set, 100000, &err), -1);
  tagset_check_idle (set);
  tag_user_remove (user);
  tagset_close (set);
}
END_TEST

/* -- races --------------------------------------------------------------------------------- */

struct racer {
  struct tag_user *user;
  pthread_t thread;
  unsigned number, rounds;
};

static atomic_uint held[TAGSET_MAX_TAGS];
static atomic_uint failures;

static void *
race (void *opaque)
{
  struct racer *r = opaque;
  unsigned i, j, n;
  int tags[4];

  for (i = 0; i < r->rounds; ++i) {
    n = tag_get_batch (r->user, r->number, 0, tags, 1 + i % 4);
    if (n == 0)
      atomic_fetch_add (&failures, 1);
    for (j = 0; j < n; ++j)
      if (atomic_fetch_add (&held[tags[j]], 1) != 0)
        abort ();
    for (j = 0; j < n; ++j) {
      atomic_fetch_sub (&held[tags[j]], 1);
      tag_put (r->user, tags[j]);
    }
  }
  return NULL;
}

START_TEST (threads_never_get_the_same_tag)
{
  struct tagset *set = open_private (_i);
  struct tag_user *user = add_user (set, 0);
  struct racer r[8];
  unsigned i;

  for (i = 0; i < 8; ++i) {
    r[i] = (struct racer) { .user = user, .number = i, .rounds = 20000 };
    pthread_create (&r[i].thread, NULL, race, &r[i]);
  }
  for (i = 0; i < 8; ++i)
    pthread_join (r[i].thread, NULL);
  tagset_check_idle (set);
  tag_user_remove (user);
  tagset_close (set);
}
END_TEST

/* The kernel's map could show two allocators nothing free while one of them was
   about to fold in what had been freed.  Here, as long as fewer tags are asked
   for than there are, nobody may be refused. */
START_TEST (nobody_is_refused_while_tags_are_free)
{
  struct tagset *set = open_private (64);
  struct tag_user *user = add_user (set, 0);
  struct racer r[8];
  unsigned i;

  atomic_store (&failures, 0);
  for (i = 0; i < 8; ++i) {
    r[i] = (struct racer) { .user = user, .number = 0, .rounds = 20000 };
    pthread_create (&r[i].thread, NULL, race, &r[i]);
  }
  for (i = 0; i < 8; ++i)
    pthread_join (r[i].thread, NULL);
  ck_assert_uint_eq (atomic_load (&failures), 0);
  tag_user_remove (user);
  tagset_close (set);
}
END_TEST

/* -- shared sets ------------------------------------------------------------------------------ */

static char name[40], path[80];

static void
name_set (void)
{
  snprintf (name, sizeof name, "test-%d", getpid ());
  snprintf (path, sizeof path, "/dev/shm/shingle-tags.%s", name);
  unlink (path);
}

static void
unlink_set (void)
{
  unlink (path);
}

static int
open_shared (unsigned tags, struct tagset **set)
{
  const struct tagset_options o = { .tags = tags, .reserved = 2, .name = name };

  sh_error_clear (&err);
  return tagset_open (&o, set, &err);
}

START_TEST (a_shared_set_is_private_to_its_owner_and_goes_with_its_last_user)
{
  struct tagset *a, *b;
  struct stat st;

  ck_assert_int_eq (open_shared (16, &a), 0);
  ck_assert_int_eq (stat (path, &st), 0);
  ck_assert_uint_eq (st.st_mode & 0777, 0600);
  ck_assert_int_eq (open_shared (99, &b), 0);
  ck_assert_uint_eq (tagset_depth (b), 16);
  tagset_close (a);
  ck_assert_int_eq (stat (path, &st), 0);
  tagset_close (b);
  ck_assert_int_eq (stat (path, &st), -1);
}
END_TEST

START_TEST (tags_are_counted_across_processes)
{
  int tags[16], ready[2], go[2];
  struct tagset *set;
  struct tag_user *user;
  char c;
  pid_t pid;

  ck_assert_int_eq (open_shared (16, &set), 0);
  ck_assert_int_eq (pipe (ready) | pipe (go), 0);
  pid = fork ();
  if (pid == 0) {
    struct tagset *theirs;
    int held_tags[8];
    unsigned n;

    if (open_shared (16, &theirs) == -1)
      _exit (1);
    user = add_user (theirs, 1);
    n = tag_get_batch (user, 0, 0, held_tags, 5);
    if (n != 5 || write (ready[1], "x", 1) != 1 || read (go[0], &c, 1) != 1)
      _exit (2);
    put_all (user, held_tags, n);
    tag_user_remove (user);
    tagset_close (theirs);
    _exit (0);
  }
  ck_assert_int_eq (read (ready[0], &c, 1), 1);
  user = add_user (set, 0);
  ck_assert_uint_eq (tagset_free (set), 11);
  ck_assert_uint_le (take_all (user, tags, 16), 11);
  put_all (user, tags, tag_user_in_use (user));
  ck_assert_int_eq (write (go[1], "x", 1), 1);
  int status;
  ck_assert_int_eq (waitpid (pid, &status, 0), pid);
  ck_assert_int_eq (status, 0);
  ck_assert_uint_eq (tagset_free (set), 16);
  tag_user_remove (user);
  tagset_close (set);
}
END_TEST

/* Children of these tests are forked before the parent has a user, and so a thread: under
   AddressSanitizer a child may be born with a lock of the allocator held by that thread, and
   hangs at its own next one.  They begin when they are told. */
struct child {
  pid_t pid;
  int go[2];
};

/* True in the child, when it has been told. */
static bool
fork_child (struct child *child)
{
  char c;

  ck_assert_int_eq (pipe (child->go), 0);
  child->pid = fork ();
  ck_assert_int_ne (child->pid, -1);
  if (child->pid != 0)
    return false;
  if (read (child->go[0], &c, 1) != 1)
    _exit (1);
  return true;
}

static void
let_go (const struct child *child)
{
  ck_assert_int_eq (write (child->go[1], "x", 1), 1);
}

/* Takes tags and puts some back for ever. */
static void
be_victim (unsigned seed)
{
  struct tagset *set;
  struct tag_user *user;
  int tags[8], reserved;

  if (open_shared (16, &set) == -1)
    _exit (1);
  user = add_user (set, 1);
  for (;; ++seed) {
    const unsigned n = tag_get_batch (user, seed, 0, tags, 1 + seed % 8);

    if (n == 0)
      tag_wait (user);
    reserved = tag_get_reserved (user);
    put_all (user, tags, n);
    if (reserved != -1)
      tag_put (user, reserved);
  }
}

static void
wait_until_free (struct tagset *set, unsigned n)
{
  const uint64_t began = sh_now (&sh_clock_monotonic);

  while (tagset_free (set) != n && sh_now (&sh_clock_monotonic) - began < 5 * NS_PER_S)
    sh_sleep (&sh_clock_monotonic, 5 * NS_PER_MS);
  ck_assert_uint_eq (tagset_free (set), n);
}

static void
wait_for_users (struct tagset *set, unsigned n)
{
  struct tagset_user_info info[8];
  unsigned i;

  for (i = 0; i < 20000 && tagset_users (set, info, 8) != n; ++i)
    sh_sleep (&sh_clock_monotonic, NS_PER_MS);
  ck_assert_uint_eq (tagset_users (set, info, 8), n);
}

START_TEST (a_killed_process_gives_its_tags_back)
{
  struct child victim[6][3];
  struct tagset *set;
  struct tag_user *user;
  struct tagset_counters c;
  unsigned round, i;

  for (round = 0; round < 6; ++round)
    for (i = 0; i < 3; ++i)
      if (fork_child (&victim[round][i]))
        be_victim (round * 7 + i);
  ck_assert_int_eq (open_shared (16, &set), 0);
  user = add_user (set, 0);
  tag_user_start (user);
  for (round = 0; round < 6; ++round) {
    for (i = 0; i < 3; ++i)
      let_go (&victim[round][i]);
    wait_for_users (set, 4);
    sh_sleep (&sh_clock_monotonic, (20 + round * 13) * NS_PER_MS);
    for (i = 0; i < 3; ++i) {
      kill (victim[round][i].pid, SIGKILL);
      waitpid (victim[round][i].pid, NULL, 0);
    }
    wait_for_users (set, 1);
    wait_until_free (set, 16);
  }
  tagset_get_counters (set, &c);
  ck_assert_uint_eq (c.reaped_users, 18);
  tagset_check_idle (set);
  tag_user_remove (user);
  tagset_close (set);
}
END_TEST

/* The child: status 0 if it was woken, and then got a tag. */
static void
be_woken (int ready)
{
  struct tagset *set;
  struct tag_user *waiter;
  unsigned i;

  if (open_shared (16, &set) == -1)
    _exit (1);
  waiter = add_user (set, 1);
  tag_wait (waiter);
  if (tag_get (waiter, 0, 0) != -1 || write (ready, "x", 1) != 1)
    _exit (2);
  for (i = 0; i < 60000 && atomic_load (&woken[1]) == 0; ++i)
    sh_sleep (&sh_clock_monotonic, NS_PER_MS);
  if (atomic_load (&woken[1]) == 0)
    _exit (3);
  _exit (tag_get (waiter, 0, 0) != -1 ? 0 : 4);
}

START_TEST (a_waiter_elsewhere_is_woken_by_a_freed_tag)
{
  struct child child;
  struct tagset *set;
  struct tag_user *user;
  int tags[16], ready[2], status;
  unsigned n;
  char c;

  ck_assert_int_eq (pipe (ready), 0);
  if (fork_child (&child))
    be_woken (ready[1]);
  ck_assert_int_eq (open_shared (16, &set), 0);
  user = add_user (set, 0);
  n = take_all (user, tags, 16);
  let_go (&child);
  ck_assert_int_eq (read (ready[0], &c, 1), 1);
  tag_put (user, tags[--n]);
  tag_pass_on (user);
  ck_assert_int_eq (waitpid (child.pid, &status, 0), child.pid);
  ck_assert_int_eq (status, 0);
  put_all (user, tags, n);
  tagset_reap (set);
  tag_user_remove (user);
  tagset_close (set);
}
END_TEST

static void
write_file (const void *data, size_t size, off_t length)
{
  const int fd = open (path, O_RDWR | O_CREAT | O_TRUNC, 0600);

  ck_assert_int_ne (fd, -1);
  ck_assert_int_eq (write (fd, data, size), (ssize_t) size);
  ck_assert_int_eq (ftruncate (fd, length), 0);
  close (fd);
}

START_TEST (foreign_and_damaged_segments_are_refused)
{
  static struct segment good;
  struct tagset *set;
  struct segment bad;
  int fd;

  write_file ("not a tag set", 13, 13);
  ck_assert_int_eq (open_shared (16, &set), -1);
  ck_assert_int_eq (err.errnum, EPROTO);
  write_file ("not a tag set", 13, sizeof (struct segment));
  ck_assert_int_eq (open_shared (16, &set), -1);
  unlink (path);

  ck_assert_int_eq (open_shared (16, &set), 0);
  fd = open (path, O_RDONLY);
  ck_assert_int_eq (read (fd, &good, sizeof good), (ssize_t) sizeof good);
  close (fd);
  tagset_close (set);
#define DAMAGE(member, value)                                   \
  bad = good;                                                   \
  bad.member = (value);                                         \
  write_file (&bad, sizeof bad, sizeof bad);                    \
  ck_assert_int_eq (open_shared (16, &set), -1);                \
  ck_assert_int_eq (err.errnum, EPROTO)
  DAMAGE (version, 7);
  DAMAGE (nr_words, 3);
  DAMAGE (nr_words, 1u << 30);
  DAMAGE (max_users, 1u << 20);
  DAMAGE (check, good.check ^ 1);
  DAMAGE (depth, 0);
  DAMAGE (depth, 1u << 30);
  DAMAGE (reserved, 65);
  DAMAGE (nr_slots, 100000);
  /* Made, but its maker was killed before it wrote anything. */
  memset (&bad, 0, sizeof bad);
  write_file (&bad, sizeof bad, sizeof bad);
  ck_assert_int_eq (open_shared (16, &set), 0);
  tagset_close (set);
}
END_TEST

START_TEST (names_that_are_no_names_are_refused)
{
  static const char *const bad[] = { "", "a/b", "../x", ".hidden", "a b" };
  struct tagset_options o = { .tags = 4 };
  struct tagset *set;
  size_t i;

  for (i = 0; i < ARRAY_SIZE (bad); ++i) {
    o.name = bad[i];
    sh_error_clear (&err);
    ck_assert_int_eq (tagset_open (&o, &set, &err), -1);
    ck_assert_int_eq (err.errnum, EINVAL);
  }
}
END_TEST

/* Another member writes rubbish over everything that changes: tags may be lost, but
   nothing outside the segment is touched and nobody loops for ever. */
START_TEST (rubbish_in_a_shared_segment_costs_no_more_than_tags)
{
  struct tagset *set;
  struct tag_user *user;
  unsigned char *map;
  unsigned i, seed = 1 + _i;
  int tags[64], fd;

  ck_assert_int_eq (open_shared (16, &set), 0);
  user = add_user (set, 0);
  fd = open (path, O_RDWR);
  map = mmap (NULL, sizeof (struct segment), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  for (i = 0; i < 2000; ++i) {
    unsigned at, n;

    seed = seed * 1103515245u + 12345u;
    at = 64 + (seed >> 4) % (sizeof (struct segment) - 64);
    map[at] = seed >> 24;
    n = tag_get_batch (user, i, 0, tags, 4);
    ck_assert_uint_le (n, 4);
    put_all (user, tags, n);
    tag_wait (user);
    tag_pass_on (user);
    tagset_resize (set, 1 + i % 64, &err);
  }
  munmap (map, sizeof (struct segment));
  close (fd);
}
END_TEST

int
main (void)
{
  Suite *s = suite_create ("tagset");
  TCase *tc = tcase_create ("private"), *races = tcase_create ("races"),
        *shared = tcase_create ("shared");

  tcase_add_loop_test (tc, every_tag_is_given_once, 0, ARRAY_SIZE (depths));
  tcase_add_test (tc, reserved_tags_are_there_when_all_others_are_in_use);
  tcase_add_test (tc, asking_for_a_reserved_tag_where_none_are_is_refused);
  tcase_add_test (tc, a_batch_is_as_large_as_what_is_free);
  tcase_add_test (tc, an_almost_idle_neighbour_costs_two_tags_and_not_half);
  tcase_add_test (tc, a_user_gets_its_share_back_as_fast_as_tags_are_freed);
  tcase_add_test (tc, a_user_that_is_idle_for_a_second_costs_nothing);
  tcase_add_test (tc, with_more_users_than_tags_they_take_turns);
  tcase_add_test (tc, a_larger_set_wakes_those_who_wait);
  tcase_add_test (tc, a_freed_tag_wakes_one_waiter);
  tcase_add_loop_test (tc, waiters_are_all_served_when_tags_come_back_in_batches, 1, 5);
  tcase_add_test (tc, shrinking_takes_effect_as_tags_come_back_and_growing_at_once);
  suite_add_tcase (s, tc);
  tcase_add_loop_test (races, threads_never_get_the_same_tag, 1, 5);
  tcase_add_test (races, nobody_is_refused_while_tags_are_free);
  suite_add_tcase (s, races);
  tcase_add_checked_fixture (shared, name_set, unlink_set);
  tcase_add_test (shared, a_shared_set_is_private_to_its_owner_and_goes_with_its_last_user);
  tcase_add_test (shared, tags_are_counted_across_processes);
  tcase_add_test (shared, a_killed_process_gives_its_tags_back);
  tcase_add_test (shared, a_waiter_elsewhere_is_woken_by_a_freed_tag);
  tcase_add_test (shared, foreign_and_damaged_segments_are_refused);
  tcase_add_test (shared, names_that_are_no_names_are_refused);
  tcase_add_loop_test (shared, rubbish_in_a_shared_segment_costs_no_more_than_tags, 0, 10);
  suite_add_tcase (s, shared);
  return run_suite (s);
}
