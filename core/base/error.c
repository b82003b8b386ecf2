/* SPDX-License-Identifier: BSD-3-Clause */
#include <config.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "base/error.h"

void
sh_error_clear (struct sh_error *err)
{
  memset (err, 0, sizeof *err);
}

int
sh_fail (struct sh_error *err, int errnum, const char *fmt, ...)
{
  if (err->errnum == 0) {
    va_list ap;

    err->errnum = errnum;
    va_start (ap, fmt);
    vsnprintf (err->message, sizeof err->message, fmt, ap);
    va_end (ap);
  }
  errno = err->errnum;
  return -1;
}

int
sh_hint (struct sh_error *err, const char *fmt, ...)
{
  if (err->hint[0] == '\0') {
    va_list ap;

    va_start (ap, fmt);
    vsnprintf (err->hint, sizeof err->hint, fmt, ap);
    va_end (ap);
  }
  errno = err->errnum;
  return -1;
}

int
sh_fail_file (struct sh_error *err, const char *path)
{
  const int errnum = errno;

  sh_fail (err, errnum, "%s: %s", path, strerror (errnum));
  switch (errnum) {
  case EACCES: case EPERM:
    return sh_hint (err, "'ls -ld %s' says who may use it; become that user or root, or "
                    "have the rights changed", path);
  case ENOENT: case ENOTDIR: case ENAMETOOLONG: case ELOOP:
    return sh_hint (err, "is the name right? Without a / at its start it counts from the "
                    "folder you are in");
  case ENXIO:
    return sh_hint (err, "a file is needed; 'ls -l %s' says what this is", path);
  case EISDIR:
    return sh_hint (err, "a file is needed, and this is a folder");
  case EROFS: case ENOSPC: case EDQUOT:
    return sh_hint (err, "choose a file on another file system ('df' lists them)");
  default:
    return -1;
  }
}

const char *
sh_drive_error (int errnum)
{
  switch (errnum) {
  case EILSEQ:
    return "protection information error";
  case ENODATA:
    return "medium error";
  case EREMOTEIO:
    return "the drive refused the command";
  case EROFS:
    return "the drive or the zone is write protected";
  case ETOOMANYREFS:
    return "too many open zones";
  default:
    return strerror (errnum);
  }
}
