/* SPDX-License-Identifier: BSD-3-Clause */
/* The logging hook: core/ never prints, it tells its host. */
#ifndef BASE_LOG_H
#define BASE_LOG_H

enum sh_log_level {
  SH_LOG_ERROR,                 /* something failed for a user */
  SH_LOG_WARNING,               /* something was wrong and was dealt with */
  SH_LOG_INFO,                  /* once in a while, worth a line in a journal */
  SH_LOG_DEBUG,
};

/* `fn` may be called from any thread, must not block for long, and must not
   call back into core/.  A NULL log, or a NULL fn, drops the message. */
struct sh_log {
  void (*fn) (void *opaque, enum sh_log_level level, const char *message);
  void *opaque;
};

/* Keeps errno. */
void sh_log (const struct sh_log *log, enum sh_log_level level,
             const char *fmt, ...) __attribute__ ((format (printf, 3, 4)));

#endif
