/* SPDX-License-Identifier: BSD-3-Clause */
#include <config.h>
#include <stdio.h>
#include <string.h>
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
