/* SPDX-License-Identifier: BSD-3-Clause */
#include <config.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "server-options.h"

/* nbdkit's short options that take a value, which ends a group such as -fr. */
#define WITH_VALUE "DegipPtuU"

static bool
means_read_only (const char *arg)
{
  if (strncmp (arg, "--read", 6) == 0)
    return true;
  if (arg[0] != '-' || arg[1] == '-')
    return false;
  for (++arg; *arg && strchr (WITH_VALUE, *arg) == NULL; ++arg)
    if (*arg == 'r')
      return true;
  return false;
}

bool
server_is_read_only (void)
{
  FILE *f = fopen ("/proc/self/cmdline", "re");
  size_t size = 0;
  char *arg = NULL;
  bool found = false;

  if (f == NULL)
    return false;
  while (!found && getdelim (&arg, &size, '\0', f) != -1 && strcmp (arg, "--") != 0)
    found = means_read_only (arg);
  free (arg);
  fclose (f);
  return found;
}
