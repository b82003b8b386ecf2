/* SPDX-License-Identifier: BSD-3-Clause */
/* Text that came from a drive, a disk or a client. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stddef.h>

/* A copy of `from` in `text`, cut to `size`, without anything that could upset a
   terminal.  Returns text. */
const char *sh_printable (const char *from, char *text, size_t size);

#endif
