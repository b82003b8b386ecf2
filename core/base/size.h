/* SPDX-License-Identifier: BSD-3-Clause */
/* Sizes as people write them: 4096, 16M, 1.5T, 28T. */
#ifndef BASE_SIZE_H
#define BASE_SIZE_H

#include <stddef.h>
#include <stdint.h>

/* Parses a number of bytes with an optional suffix K, M, G, T or P (powers of
   1024; a trailing "iB" or "B" is allowed, "KB", "MB", "GB" and "TB" with two
   letters are powers of 1000 as drive makers count).  A fraction is allowed
   where the result is a whole number of bytes.  -1 with errno EINVAL (not a
   size) or ERANGE (does not fit in 63 bits). */
int size_parse (const char *text, uint64_t *bytes);

/* Writes the shortest exact form ("16M", "1000215216128") into buf, which
   size_parse reads back; returns buf. */
const char *size_format (uint64_t bytes, char *buf, size_t buf_size);
#define SIZE_FORMAT_MAX 24

#endif
