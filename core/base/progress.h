/* SPDX-License-Identifier: BSD-3-Clause */
/* How far long work has come; core/ never prints, it tells its host. */
#ifndef BASE_PROGRESS_H
#define BASE_PROGRESS_H

#include <stddef.h>
#include <stdint.h>

/* `what` is a short phrase ("writing metadata"), stable while it lasts; done
   <= total, in any unit.  A NULL progress, or a NULL fn, drops the news. */
struct sh_progress {
  void (*fn) (void *opaque, const char *what, uint64_t done, uint64_t total);
  void *opaque;
};

static inline void
sh_progress (const struct sh_progress *p, const char *what, uint64_t done, uint64_t total)
{
  if (p != NULL && p->fn != NULL)
    p->fn (p->opaque, what, done, total);
}

#endif
