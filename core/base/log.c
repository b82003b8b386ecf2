/* SPDX-License-Identifier: BSD-3-Clause */
#include <config.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include "base/log.h"

void
sh_log (const struct sh_log *log, enum sh_log_level level, const char *fmt, ...)
{
  const int saved = errno;
  char text[1024];
  va_list ap;

  if (log == NULL || log->fn == NULL)
    return;
  va_start (ap, fmt);
  vsnprintf (text, sizeof text, fmt, ap);
  va_end (ap);
  log->fn (log->opaque, level, text);
  errno = saved;
}
