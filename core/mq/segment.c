/* SPDX-License-Identifier: BSD-3-Clause */
#include <config.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/bytes.h"
#include "base/error.h"
#include "mq/segment.h"

/* Words on cache lines of their own, at least four, so that queues that start
   at different words seldom meet. */
static unsigned
words_for (unsigned tags)
{
  if (tags <= 64)
    return 4;
  if (tags <= 256)
    return 8;
  return tags <= 1024 ? 16 : SEGMENT_WORDS;
}

static uint64_t
checksum (const struct segment *s)
{
  const uint64_t fields[] = { s->magic, s->version, s->size_bytes, s->nr_words, s->max_users };
  uint64_t sum = UINT64_C (0xcbf29ce484222325);
  size_t i;

  for (i = 0; i < ARRAY_SIZE (fields); ++i)
    sum = (sum ^ fields[i]) * UINT64_C (0x9e3779b97f4a7c15);
  return sum;
}

static void
set_depth (struct segment *s, unsigned tags, unsigned reserved)
{
  unsigned t;

  atomic_store (&s->depth, tags);
  atomic_store (&s->reserved, reserved);
  for (t = 0; t < SEGMENT_WORDS; ++t)
    atomic_store (&s->word[t].free, 0);
  for (t = 0; t < tags; ++t)
    atomic_fetch_or (&s->word[t % s->nr_words].free, UINT64_C (1) << t / s->nr_words);
  atomic_store (&s->reserved_free,
                reserved == 64 ? UINT64_MAX : (UINT64_C (1) << reserved) - 1);
}

/* `s` is all zeroes.  The magic number comes last: without it, nobody takes
   the rest for finished. */
static void
initialise (struct segment *s, const struct tagset_options *options)
{
  s->version = SEGMENT_VERSION;
  s->size_bytes = sizeof *s;
  s->nr_words = words_for (options->tags);
  s->max_users = TAGSET_MAX_USERS;
  set_depth (s, options->tags, options->reserved);
  atomic_thread_fence (memory_order_seq_cst);
  s->magic = SEGMENT_MAGIC;
  s->check = checksum (s);
}

static int
lock_op (int fd, int op, short type, off_t start)
{
  struct flock fl = { .l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = 1 };
  int r;

  do
    r = fcntl (fd, op, &fl);
  while (r == -1 && errno == EINTR);
  if (op == F_OFD_GETLK && r == 0)
    return fl.l_type != F_UNLCK;
  return r;
}

void
segment_lock_members (const struct mapping *m)
{
  if (m->fd != -1)
    lock_op (m->fd, F_OFD_SETLKW, F_WRLCK, 0);
}

void
segment_unlock_members (const struct mapping *m)
{
  if (m->fd != -1)
    lock_op (m->fd, F_OFD_SETLK, F_UNLCK, 0);
}

bool
segment_try_lock_reaper (const struct mapping *m)
{
  return lock_op (m->fd, F_OFD_SETLK, F_WRLCK, 1) == 0;
}

void
segment_unlock_reaper (const struct mapping *m)
{
  lock_op (m->fd, F_OFD_SETLK, F_UNLCK, 1);
}

bool
segment_lock_slot (const struct mapping *m, unsigned slot)
{
  return m->fd == -1 || lock_op (m->fd, F_OFD_SETLK, F_WRLCK, 2 + (off_t) slot) == 0;
}

void
segment_unlock_slot (const struct mapping *m, unsigned slot)
{
  if (m->fd != -1)
    lock_op (m->fd, F_OFD_SETLK, F_UNLCK, 2 + (off_t) slot);
}

/* Held by another open file: our own locks do not show. */
bool
segment_slot_is_alive (const struct mapping *m, unsigned slot)
{
  return lock_op (m->fd, F_OFD_GETLK, F_WRLCK, 2 + (off_t) slot) != 0;
}

static int
open_private (const struct tagset_options *options, struct mapping *m, struct sh_error *err)
{
  m->fd = -1;
  m->path[0] = '\0';
  m->segment = mmap (NULL, sizeof *m->segment, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (m->segment == MAP_FAILED)
    return sh_fail (err, errno, "tags: %s", strerror (errno));
  initialise (m->segment, options);
  return 0;
}

static bool
valid_name (const char *name)
{
  const size_t n = strspn (name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                           "0123456789._-");

  return n > 0 && n <= TAGSET_NAME_MAX && name[n] == '\0' && name[0] != '.';
}

static int
refuse (const struct mapping *m, struct sh_error *err, const char *why)
{
  sh_fail (err, EPROTO, "tag set /dev/shm%s: %s", m->path, why);
  return sh_hint (err, "choose another tagset= name, or remove the file if nothing uses it");
}

static bool
all_zero (const struct segment *s)
{
  const unsigned char *p = (const unsigned char *) s;
  size_t i;

  for (i = 0; i < sizeof *s; ++i)
    if (p[i])
      return false;
  return true;
}

/* Only what nobody can have changed by using it rightly. */
static int
validate (const struct mapping *m, struct sh_error *err)
{
  const struct segment *s = m->segment;
  const uint32_t depth = atomic_load (&s->depth), reserved = atomic_load (&s->reserved);

  if (s->magic != SEGMENT_MAGIC)
    return refuse (m, err, "this is no tag set");
  if (s->version != SEGMENT_VERSION || s->size_bytes != sizeof *s)
    return refuse (m, err, "it belongs to another version of this program");
  if (s->check != checksum (s) || s->nr_words < 4 || s->nr_words > SEGMENT_WORDS ||
      !is_power_of_2 (s->nr_words) ||
      s->max_users != TAGSET_MAX_USERS)
    return refuse (m, err, "its header is damaged");
  if (depth == 0 || depth > segment_capacity (s) || reserved > TAGSET_MAX_RESERVED ||
      atomic_load (&s->nr_slots) > TAGSET_MAX_USERS)
    return refuse (m, err, "its sizes are damaged");
  return 0;
}

/* Every open mapping holds a shared lock here; this asks for those of others. */
static const off_t members_byte = 2 + TAGSET_MAX_USERS;

static bool
has_members (const struct mapping *m)
{
  return lock_op (m->fd, F_OFD_GETLK, F_WRLCK, members_byte) != 0;
}

/* The member lock is held. */
static int
prepare_shared (const struct tagset_options *options, struct mapping *m, struct sh_error *err)
{
  if (m->segment->magic == 0 && all_zero (m->segment)) {
    initialise (m->segment, options);
    return 0;
  }
  if (validate (m, err) == -1)
    return -1;
  if (!has_members (m)) {
    memset (m->segment, 0, sizeof *m->segment);
    initialise (m->segment, options);
  }
  return 0;
}

static int
map_shared (const struct tagset_options *options, struct mapping *m, struct sh_error *err)
{
  struct stat st;

  if (fstat (m->fd, &st) == -1)
    return sh_fail (err, errno, "tag set /dev/shm%s: %s", m->path, strerror (errno));
  if (st.st_size == 0 && ftruncate (m->fd, sizeof *m->segment) == -1)
    return sh_fail (err, errno, "tag set /dev/shm%s: %s", m->path, strerror (errno));
  if (st.st_size != 0 && st.st_size != (off_t) sizeof *m->segment)
    return refuse (m, err, "its size is not that of a tag set");
  m->segment = mmap (NULL, sizeof *m->segment, PROT_READ | PROT_WRITE, MAP_SHARED, m->fd, 0);
  if (m->segment == MAP_FAILED)
    return sh_fail (err, errno, "tag set /dev/shm%s: %s", m->path, strerror (errno));
  if (prepare_shared (options, m, err) == -1) {
    munmap (m->segment, sizeof *m->segment);
    return -1;
  }
  return 0;
}

/* Opened and member-locked, and the file still has its name: the last user to
   leave removes it.  1: try again. */
static int
open_locked (struct mapping *m, struct sh_error *err)
{
  struct stat st;

  m->fd = shm_open (m->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (m->fd == -1) {
    sh_fail (err, errno, "tag set /dev/shm%s: %s", m->path, strerror (errno));
    return errno == EACCES ? sh_hint (err, "its file mode says who may join") : -1;
  }
  segment_lock_members (m);
  if (fstat (m->fd, &st) == 0 && st.st_nlink > 0)
    return 0;
  close (m->fd);
  return 1;
}

static int
open_shared (const struct tagset_options *options, struct mapping *m, struct sh_error *err)
{
  int r;

  if (!valid_name (options->name)) {
    sh_fail (err, EINVAL, "tagset: '%s' is no name for a tag set", options->name);
    return sh_hint (err, "use up to %d letters, digits, '.', '_' and '-'", TAGSET_NAME_MAX);
  }
  snprintf (m->path, sizeof m->path, "/shingle-tags.%s", options->name);
  while ((r = open_locked (m, err)) == 1)
    ;
  if (r == -1)
    return -1;
  r = map_shared (options, m, err);
  if (r == 0)
    lock_op (m->fd, F_OFD_SETLK, F_RDLCK, members_byte);
  segment_unlock_members (m);
  if (r == -1)
    close (m->fd);
  return r;
}

int
segment_open (const struct tagset_options *options, struct mapping *m, struct sh_error *err)
{
  return options->name ? open_shared (options, m, err) : open_private (options, m, err);
}

void
segment_close (struct mapping *m)
{
  if (m->fd != -1) {
    segment_lock_members (m);
    if (!has_members (m))
      shm_unlink (m->path);
    segment_unlock_members (m);
    close (m->fd);
  }
  munmap (m->segment, sizeof *m->segment);
}
