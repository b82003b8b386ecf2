/* SPDX-License-Identifier: BSD-3-Clause */
#include <config.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/bytes.h"
#include "base/error.h"
#include "transport/loader.h"
#include "transport/transport.h"

static int
is_name (const char *s, size_t len)
{
  static const char allowed[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

  return len > 0 && strspn (s, allowed) >= len;
}

/* The colon of NAME:ARGS or PATH.so:ARGS, or NULL. */
static const char *
find_colon (const char *device)
{
  const char *colon = strchr (device, ':');
  const char *so;

  if (colon == NULL || is_name (device, (size_t) (colon - device)))
    return colon;
  so = strstr (device, ".so:");
  return so && memchr (device, '/', (size_t) (so - device)) ? so + 3 : NULL;
}

static int
run_open (struct transport *t, const char *args, unsigned flags, struct sh_error *err)
{
  char message[sizeof err->message] = "";

  if (t->ops->open (args, flags, &t->handle, message, sizeof message) == 0)
    return 0;
  message[sizeof message - 1] = '\0';
  if (message[0])
    return sh_fail (err, errno, "%s", message);
  return sh_fail (err, errno, "%s: cannot be opened: %s", t->name, strerror (errno));
}

static int
open_builtin (struct transport *t, const struct sh_transport_ops *ops, const char *args,
              unsigned flags, struct sh_error *err)
{
  t->ops = ops;
  return run_open (t, args, flags, err);
}

static int
open_loaded (struct transport *t, const char *device, size_t name_len, unsigned flags,
             struct sh_error *err)
{
  char name[PATH_MAX];
  struct loaded *l;

  if (name_len >= sizeof name)
    return sh_fail (err, ENAMETOOLONG, "the transport's name is too long");
  memcpy (name, device, name_len);
  name[name_len] = '\0';
  if (loader_open (name, &l, err) == -1)
    return -1;
  t->dso = l;
  t->ops = &l->ops;
  if (run_open (t, device + name_len + 1, flags, err) == -1) {
    loader_close (l);
    errno = err->errnum;
    return -1;
  }
  return 0;
}

static int
open_named (struct transport *t, const char *device, const char *colon, unsigned flags,
            struct sh_error *err)
{
  static const struct sh_transport_ops *const builtin[] = {
    &emu_transport, &sg_transport,
  };
  const size_t len = (size_t) (colon - device);

  for (size_t i = 0; i < ARRAY_SIZE (builtin); ++i)
    if (strlen (builtin[i]->name) == len && memcmp (builtin[i]->name, device, len) == 0)
      return open_builtin (t, builtin[i], colon + 1, flags, err);
  return open_loaded (t, device, len, flags, err);
}

static int
hint_device (struct sh_error *err)
{
  return sh_hint (err, "DEVICE is /dev/sgN, the file of an emulated drive ('shingle emu "
                  "create' makes one, 'shingle emu import' from a raw image), or NAME:ARGS.");
}

static int
refuse_file (const char *path, const struct stat *st, struct sh_error *err)
{
  if (S_ISDIR (st->st_mode))
    sh_fail (err, EISDIR, "%s: is a folder, not a drive", path);
  else if (!S_ISREG (st->st_mode))
    sh_fail (err, ENOTBLK, "%s: is neither a SCSI device nor the file of an emulated "
             "drive", path);
  else if (st->st_size == 0)
    sh_fail (err, EINVAL, "%s: is an empty file, not an emulated drive", path);
  else
    sh_fail (err, EINVAL, "%s: is a file, but not that of an emulated drive", path);
  return hint_device (err);
}

static int
open_path (struct transport *t, const char *path, unsigned flags, struct sh_error *err)
{
  struct stat st;

  if (stat (path, &st) == -1) {
    const int e = errno;

    if (e != ENOENT)
      return sh_fail_file (err, path);
    sh_fail (err, e, "%s: %s", path, strerror (e));
    return sh_hint (err, "'lsscsi -g' lists SCSI devices; 'shingle emu create %s --size=...' "
                    "makes an emulated drive.", path);
  }
  if (S_ISBLK (st.st_mode) || S_ISCHR (st.st_mode))
    return open_builtin (t, &sg_transport, path, flags, err);
  if (S_ISREG (st.st_mode) && emu_file_probe (path))
    return open_builtin (t, &emu_transport, path, flags, err);
  if (S_ISREG (st.st_mode) && access (path, R_OK) == -1)
    return sh_fail_file (err, path);
  return refuse_file (path, &st, err);
}

int
transport_open (const char *device, unsigned flags, struct transport *t,
                struct sh_error *err)
{
  const char *colon = find_colon (device);
  struct stat st;

  memset (t, 0, sizeof *t);
  snprintf (t->name, sizeof t->name, "%s", device);
  if (device[0] == '\0') {
    sh_fail (err, EINVAL, "no device is named");
    return hint_device (err);
  }
  /* A path may hold colons too (/dev/disk/by-path/...). */
  if (colon == NULL || stat (device, &st) == 0)
    return open_path (t, device, flags, err);
  return open_named (t, device, colon, flags, err);
}

void
transport_close (struct transport *t)
{
  t->ops->close (t->handle);
  if (t->dso)
    loader_close (t->dso);
  t->dso = NULL;
}
