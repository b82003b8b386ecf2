/* SPDX-License-Identifier: BSD-3-Clause */
#include <config.h>
#include <assert.h>
#include <linux/fuse.h>
#include <sys/mman.h>
#include "slots.h"

#define SLOT_BYTES (SLOT_PAGE + SLOT_DATA_BYTES + SLOT_PAGE)
#define HUGE_BYTES ((size_t) 2 << 20)
#define MAX_HUGE_SLOTS 4u       /* a few requests in flight use these alone */
#define HEADER_BYTES (sizeof (struct fuse_in_header) + sizeof (struct fuse_write_in))

static_assert (sizeof (struct slot) + HEADER_BYTES <= SLOT_PAGE,
               "a slot and a write's header share the first page");
static_assert (SLOT_BYTES <= HUGE_BYTES, "a slot fits a huge page");

size_t
slot_in_bytes (const struct slot *s)
{
  return (const char *) s + SLOT_BYTES - (const char *) s->in;
}

void
slot_pool_init (struct slot_pool *p)
{
  pthread_mutex_init (&p->lock, NULL);
  p->free = NULL;
  p->nr_taken = 0;
  p->nr_huge = 0;
}

void
slot_pool_destroy (struct slot_pool *p)
{
  struct slot *s, *next;

  assert (p->nr_taken == 0);
  for (s = p->free; s; s = next) {
    next = s->next;
    munmap (s, s->mapped_bytes);
  }
  pthread_mutex_destroy (&p->lock);
}

static void *
map (size_t bytes)
{
  void *p = mmap (NULL, bytes, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0);

  return p == MAP_FAILED ? NULL : p;
}

/* One huge page, if the system has one to give: the kernel pins each page that it
   copies to or from, which is cheaper there. */
static void *
map_huge (void)
{
  char *p = map (2 * HUGE_BYTES);
  size_t before;

  if (!p)
    return NULL;
  before = -(uintptr_t) p % HUGE_BYTES;
  if (before > 0)
    munmap (p, before);
  munmap (p + before + HUGE_BYTES, HUGE_BYTES - before);
  madvise (p + before, HUGE_BYTES, MADV_HUGEPAGE);
  return p + before;
}

static struct slot *
slot_new (bool huge)
{
  struct slot *s = huge ? map_huge () : map (SLOT_BYTES);

  if (!s)
    return NULL;
  s->mapped_bytes = huge ? HUGE_BYTES : SLOT_BYTES;
  s->data = (char *) s + SLOT_PAGE;
  s->in = (char *) s->data - HEADER_BYTES;
  return s;
}

struct slot *
slot_get (struct slot_pool *p)
{
  struct slot *s;
  bool huge = false;

  pthread_mutex_lock (&p->lock);
  s = p->free;
  if (s)
    p->free = s->next;
  else if (p->nr_huge < MAX_HUGE_SLOTS) {
    p->nr_huge++;
    huge = true;
  }
  p->nr_taken++;
  pthread_mutex_unlock (&p->lock);

  if (!s)
    s = slot_new (huge);
  if (!s) {
    pthread_mutex_lock (&p->lock);
    p->nr_taken--;
    pthread_mutex_unlock (&p->lock);
  }
  return s;
}

void
slot_put (struct slot_pool *p, struct slot *s)
{
  pthread_mutex_lock (&p->lock);
  assert (p->nr_taken > 0);
  s->next = p->free;
  p->free = s;
  p->nr_taken--;
  pthread_mutex_unlock (&p->lock);
}
