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
