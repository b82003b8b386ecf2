/* SPDX-License-Identifier: BSD-3-Clause */
#include <config.h>
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/bytes.h"
#include "base/error.h"
#include "transport/loader.h"

/* The first version of the table ended behind `limits`. */
#define LEAST_SIZE (offsetof (struct sh_transport_ops, limits) + sizeof (void *))

static const char *
plugin_folder (void)
{
  const char *dir = getenv ("SHINGLE_PLUGINDIR");

  return dir && dir[0] ? dir : NBDKIT_PLUGINDIR;
}

static int
hint_device (struct sh_error *err)
{
  return sh_hint (err, "DEVICE is /dev/sgN, emu:FILE, the file of an emulated drive, or "
                  "NAME:ARGS with a transport's name or the path of its .so file.");
}

static int
find_file (const char *name, char *path, size_t size, struct sh_error *err)
{
  struct stat st;
  int n;

  if (strchr (name, '/'))
    n = snprintf (path, size, "%s", name);
  else
    n = snprintf (path, size, "%s/shingle-%s-transport.so", plugin_folder (), name);
  if (n < 0 || (size_t) n >= size)
    return sh_fail (err, ENAMETOOLONG, "the path of transport '%s' is too long", name);
  if (stat (path, &st) == 0 && !S_ISREG (st.st_mode)) {
    sh_fail (err, EINVAL, "transport '%s': not a regular file", path);
    return hint_device (err);
  }
  if (access (path, R_OK) == 0)
    return 0;
  if (errno != ENOENT)
    return sh_fail_file (err, path);
  if (strchr (name, '/')) {
    sh_fail (err, ENOENT, "transport '%s': no such file", path);
    return hint_device (err);
  }
  sh_fail (err, ENOENT, "no transport is named '%s': there is no %s", name, path);
  return hint_device (err);
}

static int
check_table (const struct sh_transport_ops *ops, const char *path, struct sh_error *err)
{
  if (ops->api != SH_TRANSPORT_API) {
    sh_fail (err, ELIBBAD, "transport '%s' was built for version %u of the transport "
             "interface; this program has version %u", path, ops->api, SH_TRANSPORT_API);
    return sh_hint (err, "Build it again with the shingle/transport.h of this program.");
  }
  if (ops->size < LEAST_SIZE)
    return sh_fail (err, ELIBBAD, "transport '%s': its table is too short (%u bytes, at "
                    "least %zu)", path, ops->size, LEAST_SIZE);
  if (!ops->name || !ops->open || !ops->close || !ops->execute)
    return sh_fail (err, ELIBBAD, "transport '%s': name, open, close or execute is missing "
                    "in its table", path);
  return 0;
}

static int
take_table (struct loaded *l, const char *path, struct sh_error *err)
{
  const struct sh_transport_ops *ops = dlsym (l->dl, SH_TRANSPORT_SYMBOL);

  if (ops == NULL) {
    sh_fail (err, ELIBBAD, "'%s' is no transport: it does not export %s", path,
             SH_TRANSPORT_SYMBOL);
    return sh_hint (err, "A transport ends with SH_TRANSPORT_EXPORT = { ... }; see "
                    "examples/ and shingle/transport.h.");
  }
  /* api and size stand first and are always there */
  if (check_table (ops, path, err) == -1)
    return -1;
  memcpy (&l->ops, ops, MIN ((size_t) ops->size, sizeof l->ops));
  l->ops.size = sizeof l->ops;
  return 0;
}

int
loader_open (const char *name, struct loaded **loaded, struct sh_error *err)
{
  char path[PATH_MAX];
  struct loaded *l;

  if (find_file (name, path, sizeof path, err) == -1)
    return -1;
  l = calloc (1, sizeof *l);
  if (l == NULL)
    return sh_fail (err, ENOMEM, "transport '%s': no memory", name);
  l->dl = dlopen (path, RTLD_NOW | RTLD_LOCAL);
  if (l->dl == NULL) {
    const char *why = dlerror ();

    free (l);
    sh_fail (err, ELIBBAD, "transport '%s' cannot be loaded: %s", name,
             why ? why : "unknown reason");
    return sh_hint (err, "a transport is a shared library; see examples/");
  }
  if (take_table (l, path, err) == -1) {
    loader_close (l);
    errno = err->errnum;
    return -1;
  }
  *loaded = l;
  return 0;
}

void
loader_close (struct loaded *l)
{
  dlclose (l->dl);
  free (l);
}
