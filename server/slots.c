/* SPDX-License-Identifier: BSD-3-Clause */
#include <config.h>
#include <assert.h>
#include <linux/fuse.h>
#include <sys/mman.h>
#include "slots.h"

#define SLOT_BYTES (SLOT_PAGE + SLOT_DATA_BYTES + SLOT_PAGE)

static_assert (sizeof (struct slot) + SLOT_HEADER_BYTES <= SLOT_PAGE,
               "a slot and a write's header share the first page");

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
}

void
slot_pool_destroy (struct slot_pool *p)
{
  struct slot *s, *next;

  assert (p->nr_taken == 0);
  for (s = p->free; s; s = next) {
    next = s->next;
    munmap (s, SLOT_BYTES);
  }
  pthread_mutex_destroy (&p->lock);
}

static struct slot *
slot_new (void)
{
  struct slot *s = mmap (NULL, SLOT_BYTES, PROT_READ|PROT_WRITE,
                         MAP_PRIVATE|MAP_ANONYMOUS, -1, 0);

  if (s == MAP_FAILED)
    return NULL;
  s->data = (char *) s + SLOT_PAGE;
  s->in = (char *) s->data - SLOT_HEADER_BYTES;
  return s;
}

struct slot *
slot_get (struct slot_pool *p)
{
  struct slot *s;

  pthread_mutex_lock (&p->lock);
  s = p->free;
  if (s)
    p->free = s->next;
  p->nr_taken++;
  pthread_mutex_unlock (&p->lock);

  if (!s)
    s = slot_new ();
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
