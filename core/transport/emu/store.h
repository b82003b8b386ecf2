/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the data is: RAM or sparse files.  Offsets and lengths in bytes, inside
 * the store; what was never written, or was zeroed, reads as zeroes.
 *
 * Threads: any.  A read sees each 4 KiB block wholly before or wholly after a
 * write of it. */
#ifndef EMU_STORE_H
#define EMU_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

/* A place in the caller's buffers. */
struct cursor {
  const struct iovec *iov;
  int iovcnt;
  size_t skip;                  /* bytes of iov[0] that are used up */
};

void cursor_put (struct cursor *c, const void *data, size_t len);
void cursor_get (struct cursor *c, void *data, size_t len);
void cursor_zero (struct cursor *c, size_t len);
/* Takes up to len bytes as at most max segments; *got is what was taken. */
int cursor_take (struct cursor *c, size_t len, struct iovec *out, int max, size_t *got);

struct store;

struct store_ops {
  int (*read) (struct store *st, uint64_t off, size_t len, struct cursor *to);
  int (*write) (struct store *st, uint64_t off, size_t len, struct cursor *from);
  int (*zero) (struct store *st, uint64_t off, uint64_t len);
  /* The next range at or after off that may hold data; *len 0: none. */
  int (*next_data) (struct store *st, uint64_t off, uint64_t *start, uint64_t *len);
  struct store *(*clone) (struct store *st);    /* NULL where not possible */
  void (*close) (struct store *st);
};

struct store {
  const struct store_ops *ops;
  uint64_t size_bytes;
};

struct store *store_ram_new (uint64_t size_bytes);

/* Takes over the nr_fds descriptors; segment i holds its data from
   data_off_bytes[i != 0] on. */
struct store *store_file_new (uint64_t size_bytes, uint64_t segment_bytes, const int *fds,
                              size_t nr_fds, const uint64_t data_off_bytes[2]);

#endif
