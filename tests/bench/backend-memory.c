/* SPDX-License-Identifier: BSD-3-Clause */
#include <config.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "backend-memory.h"
#include "base/copy.h"
#include "base/error.h"

struct memory {
  struct backend b;
  char *bytes;                  /* NULL: nothing is kept */
};

static void
memory_submit (struct backend *b, struct backend_io *io)
{
  const struct memory *m = (struct memory *) b;

  switch (io->op) {
  case BACKEND_READ:
    memcpy (io->buf, m->bytes + io->offset, io->count);
    break;
  case BACKEND_WRITE:
    copy_to_medium (m->bytes + io->offset, io->buf, io->count);
    break;
  case BACKEND_FLUSH:
    break;
  case BACKEND_DISCARD:
  case BACKEND_ZERO:
    memset (m->bytes + io->offset, 0, io->count);
    break;
  }
  io->done (io, 0);
}

static void
nothing_submit (struct backend *b, struct backend_io *io)
{
  io->done (io, 0);
}

static int
memory_close (struct backend *b, struct sh_error *err)
{
  struct memory *m = (struct memory *) b;

  if (m->bytes)
    munmap (m->bytes, b->size);
  free (m);
  return 0;
}

static const struct backend_ops memory_ops = {
  .submit = memory_submit,
  .close = memory_close,
};

static const struct backend_ops nothing_ops = {
  .submit = nothing_submit,
  .close = memory_close,
};

static int
open_any (uint64_t size_bytes, const struct backend_ops *ops, const char *name,
          struct backend **b, struct sh_error *err)
{
  struct memory *m = calloc (1, sizeof *m);

  if (!m)
    return sh_fail (err, ENOMEM, "no memory");
  m->b.ops = ops;
  m->b.size = size_bytes;
  m->b.block_bytes = 4096;
  m->b.can_zero = true;
  m->b.synchronous = true;
  backend_set_name (&m->b, name, name);
  if (ops == &memory_ops) {
    m->bytes = mmap (NULL, size_bytes, PROT_READ|PROT_WRITE,
                     MAP_PRIVATE|MAP_ANONYMOUS|MAP_NORESERVE, -1, 0);
    if (m->bytes == MAP_FAILED) {
      free (m);
      return sh_fail (err, ENOMEM, "no memory for %llu bytes",
                      (unsigned long long) size_bytes);
    }
  }
  *b = &m->b;
  return 0;
}

int
backend_memory_open (uint64_t size_bytes, struct backend **b, struct sh_error *err)
{
  return open_any (size_bytes, &memory_ops, "memory", b, err);
}

int
backend_nothing_open (uint64_t size_bytes, struct backend **b, struct sh_error *err)
{
  return open_any (size_bytes, &nothing_ops, "nothing", b, err);
}
