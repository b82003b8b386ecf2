/* SPDX-License-Identifier: BSD-3-Clause */
/* What `shingle top` and `shingle stat` show, as lines of text. */
#ifndef SERVER_SCREEN_H
#define SERVER_SCREEN_H

#include "view.h"

enum line_look { LOOK_PLAIN, LOOK_HEAD, LOOK_DIM, LOOK_BAD };

#define LINE_BYTES 200

struct line {
  enum line_look look;
  char text[LINE_BYTES];        /* ASCII */
};

struct screen {
  struct line *lines;           /* malloc'd */
  unsigned nr_lines, max_lines;
};

/* Adds what `now` tells.  With `old` (may be NULL) rates and percentiles are
   those of the time in between; without, they are since the start.  max_clients
   of each volume are listed, the busiest first. */
void screen_add (struct screen *s, const struct view *now, const struct view *old,
                 unsigned max_clients);
void screen_clear (struct screen *s);
void screen_free (struct screen *s);

/* "131 us", "1.0 ms": with three digits at most.  Returns text. */
#define DURATION_TEXT 16
const char *duration_text (uint64_t ns, char text[DURATION_TEXT]);

#endif
