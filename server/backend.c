/* SPDX-License-Identifier: BSD-3-Clause */
#include <config.h>
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "backend.h"

void
backend_set_name (struct backend *b, const char *text, const char *fallback)
{
  char *p;

  snprintf (b->name, sizeof b->name, "%s", text);
  for (p = b->name; *p; ++p)
    if (*p == '/' || (unsigned char) *p < ' ' || *p == 0x7f)
      *p = '_';
  if (b->name[0] == '\0' || strcmp (b->name, ".") == 0 || strcmp (b->name, "..") == 0)
    snprintf (b->name, sizeof b->name, "%s", fallback);
}

void
backend_empty_pipe (int fd, void *buf, size_t len)
{
  char *p = buf;

  while (len > 0) {
    const ssize_t n = read (fd, p, len);

    assert (n > 0 || (n == -1 && errno == EINTR));
    if (n > 0) {
      p += n;
      len -= (size_t) n;
    }
  }
}
