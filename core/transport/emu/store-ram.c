/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Data in RAM: pages of 64 KiB, made when first written, given back when
 * zeroed, shared between a drive and its clones until one of them writes.
 *
 * Pages come out of blocks of 2 MiB that the kernel is asked to back with one
 * huge page each: a page fault for every 4 KiB takes more time than the copying,
 * and in a virtual machine many times more.  A block without a page in use stays
 * mapped, and the kernel may take it whenever it wants memory (MADV_FREE).  A
 * zone that is reset and written again, as a drive's zones are all the time, so
 * costs no page faults; and a drive holds at most one block more than it once
 * held of data.
 *
 *   roots[]   one pointer per 64 MiB, in reserved address space that costs
 *             nothing until used; a leaf, once there, stays until close
 *   leaf      1024 page pointers
 *   page      one of the 32 of a block; a block is one of the 32 of an arena
 *             (64 MiB, aligned to its size), whose first page holds the arena's
 *             header: the state of its blocks, a reference count per page
 *
 * Locks: locks[] guard the page pointers and page contents (by page number;
 * readers share); `make_lock` the making of leaves; the allocator has its own
 * lock, taken last.
 */
#include <config.h>
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "base/bytes.h"
#include "transport/emu/store.h"

#define PAGE_SHIFT  16
#define PAGE_BYTES  (UINT64_C (1) << PAGE_SHIFT)
#define LEAF_SHIFT  10
#define LEAF_PAGES  (UINT64_C (1) << LEAF_SHIFT)
#define BLOCK_BYTES (2 * MiB)
#define BLOCK_PAGES (BLOCK_BYTES / PAGE_BYTES)
#define ARENA_BYTES (64 * MiB)
#define ARENA_BLOCKS (ARENA_BYTES / BLOCK_BYTES)
#define ARENA_PAGES (ARENA_BYTES / PAGE_BYTES)
#define NR_LOCKS    256

/* ---- pages ---- */

struct block {
  struct block *next;           /* of pool.open */
  uint32_t free;                /* a bit a page; 0: the block is not in pool.open */
  uint32_t untouched;           /* a bit a page that was never used: it holds zeroes */
};
_Static_assert (BLOCK_PAGES == 32, "a bit for each page of a block");

struct arena {
  /* All but refs guarded by pool.lock. */
  struct arena *next;
  unsigned nr_blocks;           /* blocks from here on were never used */
  struct block blocks[ARENA_BLOCKS];
  _Atomic unsigned refs[ARENA_PAGES];
};
_Static_assert (sizeof (struct arena) <= PAGE_BYTES, "the header fills one page");

static struct {
  pthread_mutex_t lock;
  struct arena *arenas;
  struct block *open;           /* blocks with a free page, the last changed first */
  struct block *idle;           /* without a page in use, and the kernel not told yet:
                                   a page that goes and comes costs no system call */
  uint64_t nr_used;             /* pages in use */
} pool = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* Of an address in it: a page or a part of the header. */
static struct arena *
arena_of (const void *p)
{
  return (struct arena *) ((uintptr_t) p & ~(ARENA_BYTES - 1));
}

static size_t
page_index (const void *page)
{
  return ((uintptr_t) page & (ARENA_BYTES - 1)) >> PAGE_SHIFT;
}

static _Atomic unsigned *
page_refs (void *page)
{
  return &arena_of (page)->refs[page_index (page)];
}

/* The pages of a block that can hold data. */
static uint32_t
usable_pages (const struct block *b)
{
  return b == arena_of (b)->blocks ? UINT32_MAX - 1 : UINT32_MAX;
}

static char *
block_memory (struct block *b)
{
  struct arena *a = arena_of (b);

  return (char *) a + (size_t) (b - a->blocks) * BLOCK_BYTES;
}

static struct arena *
arena_new (void)
{
  char *p = mmap (NULL, 2 * ARENA_BYTES, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  char *start;

  if (p == MAP_FAILED)
    return NULL;
  start = (char *) (((uintptr_t) p + ARENA_BYTES - 1) & ~(ARENA_BYTES - 1));
  if (start > p)
    munmap (p, (size_t) (start - p));
  munmap (start + ARENA_BYTES, (size_t) (p + ARENA_BYTES - start));
  madvise (start, ARENA_BYTES, MADV_HUGEPAGE);
  return (struct arena *) start;
}

/* A block that was never used. */
static struct block *
block_new_locked (void)
{
  struct arena *a = pool.arenas;
  struct block *b;

  if (a == NULL || a->nr_blocks == ARENA_BLOCKS) {
    a = arena_new ();
    if (a == NULL)
      return NULL;
    a->next = pool.arenas;
    pool.arenas = a;
  }
  b = &a->blocks[a->nr_blocks++];
  b->free = b->untouched = usable_pages (b);
  b->next = pool.open;
  return pool.open = b;
}

/* *dirty: the page may hold old bytes, else zeroes. */
static void *
pool_take_locked (bool *dirty)
{
  struct block *b = pool.open ? pool.open : block_new_locked ();
  unsigned i;

  if (b == NULL)
    return NULL;
  if (b == pool.idle)
    pool.idle = NULL;
  i = (unsigned) __builtin_ctz (b->free);
  *dirty = !(b->untouched & UINT32_C (1) << i);
  b->untouched &= ~(UINT32_C (1) << i);
  b->free &= ~(UINT32_C (1) << i);
  if (b->free == 0)
    pool.open = b->next;
  pool.nr_used++;
  return block_memory (b) + i * PAGE_BYTES;
}

/* A page with one reference. */
static void *
page_new (bool zeroed)
{
  bool dirty;
  void *page;

  pthread_mutex_lock (&pool.lock);
  page = pool_take_locked (&dirty);
  pthread_mutex_unlock (&pool.lock);
  if (page == NULL)
    return NULL;
  if (dirty && zeroed)
    memset (page, 0, PAGE_BYTES);
  atomic_store_explicit (page_refs (page), 1, memory_order_relaxed);
  return page;
}

/* Every page was given back: so is all memory. */
static void
pool_empty_locked (void)
{
  struct arena *a;

  pool.open = pool.idle = NULL;
  while ((a = pool.arenas) != NULL) {
    pool.arenas = a->next;
    munmap (a, ARENA_BYTES);
  }
}

/* The kernel may take a block's memory, but not the arena's header. */
static void
lend_to_kernel (struct block *b)
{
  const size_t header = usable_pages (b) == UINT32_MAX ? 0 : PAGE_BYTES;

  madvise (block_memory (b) + header, BLOCK_BYTES - header, MADV_FREE);
}

static void
pool_give_locked (void *page)
{
  const size_t i = page_index (page);
  struct block *b = &arena_of (page)->blocks[i / BLOCK_PAGES];

  if (b->free == 0) {
    b->next = pool.open;
    pool.open = b;
  }
  b->free |= UINT32_C (1) << i % BLOCK_PAGES;
  if (--pool.nr_used == 0)
    pool_empty_locked ();
  else if (b->free == usable_pages (b)) {
    if (pool.idle)
      lend_to_kernel (pool.idle);
    pool.idle = b;
  }
}

static void
page_put (void *page)
{
  /* acq_rel: pairs with the same operation of the other sharers, so that their
     reads of the page come before its reuse. */
  if (atomic_fetch_sub_explicit (page_refs (page), 1, memory_order_acq_rel) != 1)
    return;
  pthread_mutex_lock (&pool.lock);
  pool_give_locked (page);
  pthread_mutex_unlock (&pool.lock);
}

/* ---- the store ---- */

struct leaf {
  void *pages[LEAF_PAGES];      /* guarded by locks[] */
};

struct page_lock {
  pthread_rwlock_t lock;
} __attribute__ ((aligned (64)));

struct ram {
  struct store st;
  size_t nr_roots;
  _Atomic (struct leaf *) *roots;
  pthread_mutex_t make_lock;
  struct page_lock locks[NR_LOCKS];
};

static struct ram *
to_ram (struct store *st)
{
  return (struct ram *) st;
}

static pthread_rwlock_t *
lock_of (struct ram *r, uint64_t page_no)
{
  return &r->locks[page_no % NR_LOCKS].lock;
}

static struct leaf *
find_leaf (struct ram *r, uint64_t page_no)
{
  /* acquire: pairs with the release in make_leaf. */
  return atomic_load_explicit (&r->roots[page_no >> LEAF_SHIFT], memory_order_acquire);
}

static struct leaf *
make_leaf (struct ram *r, uint64_t page_no)
{
  struct leaf *leaf;

  pthread_mutex_lock (&r->make_lock);
  leaf = find_leaf (r, page_no);
  if (leaf == NULL) {
    leaf = calloc (1, sizeof *leaf);
    if (leaf)
      atomic_store_explicit (&r->roots[page_no >> LEAF_SHIFT], leaf, memory_order_release);
  }
  pthread_mutex_unlock (&r->make_lock);
  return leaf;
}

/* The part of [off, off+len) in one page. */
struct part {
  uint64_t page_no;
  size_t off, len;              /* in the page */
};

static struct part
first_part (uint64_t off, uint64_t len)
{
  const size_t in_page = off & (PAGE_BYTES - 1);

  return (struct part) {
    .page_no = off >> PAGE_SHIFT,
    .off = in_page,
    .len = (size_t) MIN (len, PAGE_BYTES - in_page),
  };
}

static int
ram_read (struct store *st, uint64_t off, size_t len, struct cursor *to)
{
  struct ram *r = to_ram (st);

  while (len > 0) {
    const struct part p = first_part (off, len);
    const struct leaf *leaf = find_leaf (r, p.page_no);
    pthread_rwlock_t *lock = lock_of (r, p.page_no);
    const char *page;

    pthread_rwlock_rdlock (lock);
    page = leaf ? leaf->pages[p.page_no & (LEAF_PAGES - 1)] : NULL;
    if (page)
      cursor_put (to, page + p.off, p.len);
    else
      cursor_zero (to, p.len);
    pthread_rwlock_unlock (lock);
    off += p.len;
    len -= p.len;
  }
  return 0;
}

/* The page in *slot, made or unshared so that it can be written; its lock is
   held.  whole: all of it is about to be written. */
static char *
writable_page_locked (void **slot, bool whole)
{
  void *page = *slot, *copy;

  if (page == NULL)
    return *slot = page_new (!whole);
  /* acquire: pairs with page_put in a clone that gave up its reference. */
  if (atomic_load_explicit (page_refs (page), memory_order_acquire) == 1)
    return page;
  copy = page_new (false);
  if (copy == NULL)
    return NULL;
  if (!whole)
    memcpy (copy, page, PAGE_BYTES);
  page_put (page);
  return *slot = copy;
}

static int
ram_write (struct store *st, uint64_t off, size_t len, struct cursor *from)
{
  struct ram *r = to_ram (st);

  while (len > 0) {
    const struct part p = first_part (off, len);
    struct leaf *leaf = find_leaf (r, p.page_no);
    pthread_rwlock_t *lock = lock_of (r, p.page_no);
    char *page;

    if (leaf == NULL && (leaf = make_leaf (r, p.page_no)) == NULL)
      return -1;
    pthread_rwlock_wrlock (lock);
    page = writable_page_locked (&leaf->pages[p.page_no & (LEAF_PAGES - 1)],
                                 p.len == PAGE_BYTES);
    if (page)
      cursor_get (from, page + p.off, p.len);
    pthread_rwlock_unlock (lock);
    if (page == NULL) {
      errno = ENOMEM;
      return -1;
    }
    off += p.len;
    len -= p.len;
  }
  return 0;
}

static int
zero_part (struct ram *r, struct leaf *leaf, const struct part *p, bool last)
{
  pthread_rwlock_t *lock = lock_of (r, p->page_no);
  void **slot = &leaf->pages[p->page_no & (LEAF_PAGES - 1)];
  /* The last page of a store may be shorter than a page. */
  const bool whole = p->off == 0 && (p->len == PAGE_BYTES || last);
  int ret = 0;

  pthread_rwlock_wrlock (lock);
  if (*slot && whole) {
    page_put (*slot);
    *slot = NULL;
  }
  else if (*slot) {
    char *page = writable_page_locked (slot, false);

    if (page)
      memset (page + p->off, 0, p->len);
    else
      ret = -1;
  }
  pthread_rwlock_unlock (lock);
  return ret;
}

static int
ram_zero (struct store *st, uint64_t off, uint64_t len)
{
  struct ram *r = to_ram (st);

  while (len > 0) {
    struct part p = first_part (off, len);
    struct leaf *leaf = find_leaf (r, p.page_no);
    uint64_t step = p.len;

    if (leaf == NULL)           /* nothing in the whole leaf */
      step = MIN (len, (LEAF_PAGES << PAGE_SHIFT) - off % (LEAF_PAGES << PAGE_SHIFT));
    else if (zero_part (r, leaf, &p, off + p.len == st->size_bytes) == -1) {
      errno = ENOMEM;
      return -1;
    }
    off += step;
    len -= step;
  }
  return 0;
}

static int
ram_next_data (struct store *st, uint64_t off, uint64_t *start, uint64_t *len)
{
  struct ram *r = to_ram (st);
  const uint64_t nr_pages = DIV_ROUND_UP (st->size_bytes, PAGE_BYTES);
  uint64_t i = off >> PAGE_SHIFT;

  *len = 0;
  while (i < nr_pages) {
    struct leaf *leaf = find_leaf (r, i);
    bool there;

    if (leaf == NULL) {
      i = (i | (LEAF_PAGES - 1)) + 1;
      continue;
    }
    pthread_rwlock_rdlock (lock_of (r, i));
    there = leaf->pages[i & (LEAF_PAGES - 1)] != NULL;
    pthread_rwlock_unlock (lock_of (r, i));
    if (there) {
      *start = MAX (off, i << PAGE_SHIFT);
      *len = MIN ((i + 1) << PAGE_SHIFT, st->size_bytes) - *start;
      return 0;
    }
    i++;
  }
  return 0;
}

static void
ram_close (struct store *st)
{
  struct ram *r = to_ram (st);
  size_t i, j;

  for (i = 0; i < r->nr_roots; ++i) {
    struct leaf *leaf = atomic_load_explicit (&r->roots[i], memory_order_relaxed);

    if (leaf == NULL)
      continue;
    for (j = 0; j < LEAF_PAGES; ++j)
      if (leaf->pages[j])
        page_put (leaf->pages[j]);
    free (leaf);
  }
  munmap (r->roots, r->nr_roots * sizeof r->roots[0]);
  for (i = 0; i < NR_LOCKS; ++i)
    pthread_rwlock_destroy (&r->locks[i].lock);
  pthread_mutex_destroy (&r->make_lock);
  free (r);
}

/* Shares every page of `from`; each page's lock is held while it is taken. */
static int
share_pages (struct ram *from, struct ram *to)
{
  uint64_t i, j;

  for (i = 0; i < from->nr_roots; ++i) {
    struct leaf *leaf = find_leaf (from, i << LEAF_SHIFT), *copy;

    if (leaf == NULL)
      continue;
    copy = make_leaf (to, i << LEAF_SHIFT);
    if (copy == NULL)
      return -1;
    for (j = 0; j < LEAF_PAGES; ++j) {
      pthread_rwlock_t *lock = lock_of (from, i << LEAF_SHIFT | j);

      pthread_rwlock_rdlock (lock);
      copy->pages[j] = leaf->pages[j];
      if (copy->pages[j])
        atomic_fetch_add_explicit (page_refs (copy->pages[j]), 1, memory_order_relaxed);
      pthread_rwlock_unlock (lock);
    }
  }
  return 0;
}

static struct store *
ram_clone (struct store *st)
{
  struct store *copy = store_ram_new (st->size_bytes);

  if (copy && share_pages (to_ram (st), to_ram (copy)) == -1) {
    ram_close (copy);
    copy = NULL;
  }
  return copy;
}

static const struct store_ops ram_ops = {
  .read = ram_read,
  .write = ram_write,
  .zero = ram_zero,
  .next_data = ram_next_data,
  .clone = ram_clone,
  .close = ram_close,
};

struct store *
store_ram_new (uint64_t size_bytes)
{
  struct ram *r;
  size_t i;

  if (posix_memalign ((void **) &r, 64, sizeof *r) != 0)
    return NULL;
  memset (r, 0, sizeof *r);
  r->st.ops = &ram_ops;
  r->st.size_bytes = size_bytes;
  r->nr_roots = DIV_ROUND_UP (size_bytes, LEAF_PAGES << PAGE_SHIFT);
  r->roots = mmap (NULL, r->nr_roots * sizeof r->roots[0], PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (r->roots == MAP_FAILED) {
    free (r);
    return NULL;
  }
  pthread_mutex_init (&r->make_lock, NULL);
  for (i = 0; i < NR_LOCKS; ++i)
    pthread_rwlock_init (&r->locks[i].lock, NULL);
  return &r->st;
}
