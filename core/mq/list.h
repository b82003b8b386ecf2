/* SPDX-License-Identifier: BSD-3-Clause */
/* A circular doubly linked list whose links live inside its members.  A link
 * that is on no list points at itself. */
#ifndef MQ_LIST_H
#define MQ_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list {
  struct list *prev, *next;
};

#define LIST_ENTRY(link, type, member) \
  ((type *) ((char *) (link) - offsetof (type, member)))

static inline void
list_init (struct list *l)
{
  l->prev = l->next = l;
}

static inline bool
list_empty (const struct list *l)
{
  return l->next == l;
}

static inline void
list_insert_between (struct list *link, struct list *prev, struct list *next)
{
  link->prev = prev;
  link->next = next;
  prev->next = link;
  next->prev = link;
}

static inline void
list_push_back (struct list *head, struct list *link)
{
  list_insert_between (link, head->prev, head);
}

static inline void
list_push_front (struct list *head, struct list *link)
{
  list_insert_between (link, head, head->next);
}

/* Afterwards `link` is on no list; harmless on one that is on none. */
static inline void
list_remove (struct list *link)
{
  link->prev->next = link->next;
  link->next->prev = link->prev;
  list_init (link);
}

/* `link` takes the place of `old`, which is then on no list. */
static inline void
list_replace (struct list *old, struct list *link)
{
  list_insert_between (link, old->prev, old->next);
  list_init (old);
}

static inline struct list *
list_pop_front (struct list *head)
{
  struct list *link = head->next;

  if (link == head)
    return NULL;
  list_remove (link);
  return link;
}

#endif
