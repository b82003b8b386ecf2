/* SPDX-License-Identifier: BSD-3-Clause */
#include <config.h>
#include <assert.h>
#include <string.h>
#include "base/bytes.h"
#include "base/copy.h"
#include "transport/emu/store.h"

/* The next run of buffer memory, at most len bytes; the cursor moves past it.
   Empty segments are stepped over. */
static void *
next_run (struct cursor *c, size_t len, size_t *run)
{
  void *p;

  while (c->iovcnt > 0 && c->skip == c->iov->iov_len) {
    c->iov++;
    c->iovcnt--;
    c->skip = 0;
  }
  assert (c->iovcnt > 0);
  *run = MIN (len, c->iov->iov_len - c->skip);
  p = (char *) c->iov->iov_base + c->skip;
  c->skip += *run;
  return p;
}

void
cursor_put (struct cursor *c, const void *data, size_t len)
{
  const char *p = data;

  while (len > 0) {
    size_t run;
    void *to = next_run (c, len, &run);

    memcpy (to, p, run);
    p += run;
    len -= run;
  }
}

void
cursor_get (struct cursor *c, void *data, size_t len)
{
  char *p = data;

  while (len > 0) {
    size_t run;
    const void *from = next_run (c, len, &run);

    copy_to_medium (p, from, run);
    p += run;
    len -= run;
  }
}

void
cursor_zero (struct cursor *c, size_t len)
{
  while (len > 0) {
    size_t run;
    void *to = next_run (c, len, &run);

    memset (to, 0, run);
    len -= run;
  }
}

int
cursor_take (struct cursor *c, size_t len, struct iovec *out, int max, size_t *got)
{
  int n = 0;

  *got = 0;
  while (len > 0 && n < max) {
    out[n].iov_base = next_run (c, len, &out[n].iov_len);
    len -= out[n].iov_len;
    *got += out[n].iov_len;
    n++;
  }
  return n;
}
