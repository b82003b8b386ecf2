/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Numbers and words that people type.  `what` names the option in messages.
 * All return 0, or -1 with an error that names the option, what was given and
 * the range; *r is then left alone.  No blanks, signs or trailing text.
 */
#ifndef BASE_PARSE_H
#define BASE_PARSE_H

#include <stdbool.h>
#include <stdint.h>

struct sh_error;

/* Decimal digits. */
int sh_parse_uint (const char *what, const char *text, uint64_t min,
                   uint64_t max, uint64_t *r, struct sh_error *err);

/* Bytes: digits and at most one of b k K M G T P E (powers of 1024) or s
   (sectors of 512), as nbdkit's parameters. */
int sh_parse_size (const char *what, const char *text, uint64_t min,
                   uint64_t max, uint64_t *r, struct sh_error *err);

/* A time: digits and one of ns us ms s m h.  Bare digits count `unit_ns` each;
   min and max are nanoseconds. */
int sh_parse_time_ns (const char *what, const char *text, uint64_t unit_ns,
                      uint64_t min_ns, uint64_t max_ns, uint64_t *r,
                      struct sh_error *err);

/* 1 true t yes y on, 0 false f no n off; upper or lower case. */
int sh_parse_bool (const char *what, const char *text, bool *r,
                   struct sh_error *err);

/* One of a NULL-ended list; *r is its index. */
int sh_parse_word (const char *what, const char *text, const char *const *words,
                   unsigned *r, struct sh_error *err);

/* Notes in *given, a bit for each option, that option `index` was given; an error when
   it was before: what is meant then is anybody's guess. */
int sh_parse_once (const char *what, uint64_t *given, unsigned index,
                   struct sh_error *err);

#endif
