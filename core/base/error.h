/* SPDX-License-Identifier: BSD-3-Clause */
/* Errors of set-up and maintenance calls: an errno for the program, a sentence
 * that names the thing and a hint what to do for the person.  Calls of the
 * I/O path set errno alone. */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

struct sh_error {
  int errnum;
  char message[512];
  char hint[384];               /* "" when there is none */
};

/* Fill `err` and set errno; always -1, so that callers `return sh_fail (...)`.
   The first report stands: a filled `err` is left alone except by sh_fail
   after sh_error_clear. */
int sh_fail (struct sh_error *err, int errnum, const char *fmt, ...)
  __attribute__ ((format (printf, 3, 4)));

/* Add the hint to the error that was just reported; always -1. */
int sh_hint (struct sh_error *err, const char *fmt, ...)
  __attribute__ ((format (printf, 2, 3)));

/* "PATH: what errno says", and a hint where there is something to do about it; for
   a file or folder that could not be used.  Always -1. */
int sh_fail_file (struct sh_error *err, const char *path);

void sh_error_clear (struct sh_error *err);

/* What an errno of base/bdev.h means when a drive said it, where strerror would speak
   of something else; any other as strerror. */
const char *sh_drive_error (int errnum);

#endif
