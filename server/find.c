/* SPDX-License-Identifier: BSD-3-Clause */
#include <config.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "find.h"

/* The folder above this program's own: the top of a build tree, if it is one. */
static bool
build_top (char path[PATH_MAX])
{
  const ssize_t n = readlink ("/proc/self/exe", path, PATH_MAX - 1);

  if (n <= 0)
    return false;
  path[n] = '\0';
  dirname (path);
  dirname (path);
  return true;
}

char *
find_nbdkit_object (const char *kind, const char *name, bool *found)
{
  const char *installed = strcmp (kind, "plugin") == 0 ? NBDKIT_PLUGINDIR
                                                       : NBDKIT_FILTERDIR;
  char top[PATH_MAX];
  char *path;

  *found = true;
  if (build_top (top)) {
    if (asprintf (&path, "%s/plugins/%s/.libs/nbdkit-%s-%s.so", top, name, name,
                  kind) == -1)
      return NULL;
    if (access (path, R_OK) == 0)
      return path;
    free (path);
  }
  if (asprintf (&path, "%s/nbdkit-%s-%s.so", installed, name, kind) == -1)
    return NULL;
  if (access (path, R_OK) == 0)
    return path;
  free (path);
  *found = false;
  return strdup (name);
}

bool
find_program (const char *name)
{
  const char *path = getenv ("PATH");
  char *all, *rest, *folder, file[PATH_MAX];
  bool found = false;

  if (asprintf (&all, "%s:/usr/sbin:/sbin", path ? path : "/usr/bin:/bin") == -1)
    return false;
  rest = all;
  while (!found && (folder = strsep (&rest, ":")) != NULL) {
    snprintf (file, sizeof file, "%s/%s", folder, name);
    found = access (file, X_OK) == 0;
  }
  free (all);
  return found;
}
