/* SPDX-License-Identifier: BSD-3-Clause */
#include <config.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "zone-map.h"

/* In the order of what a shared place shows: the later one wins. */
enum look { FREE_SEQ, FREE_RANDOM, UNKNOWN, DATA, BUFFER, METADATA, READ_ONLY, OFFLINE };
#define NR_LOOKS (OFFLINE + 1)

static const struct {
  char letter;                  /* in the terminal; lower case: not full */
  const char *ansi;
  const char *fill;             /* in the picture */
  const char *meaning;
} looks[NR_LOOKS] = {
  [FREE_SEQ] = { '.', "2", "#e8e8e8", "free, sequential" },
  [FREE_RANDOM] = { ':', "2", "#cfe3f5", "free, conventional" },
  [UNKNOWN] = { 'W', "0", "#9a9a9a", "written, no volume known" },
  [DATA] = { 'D', "32", "#3a9d5d", "data" },
  [BUFFER] = { 'B', "33", "#e0a030", "buffer" },
  [METADATA] = { 'M', "36", "#3b6fb6", "metadata" },
  [READ_ONLY] = { 'R', "31;1", "#b03030", "read-only" },
  [OFFLINE] = { 'X', "31;1", "#202020", "offline" },
};

struct zone_map_cell {
  uint8_t look;                 /* enum look */
  uint8_t fill;                 /* written, in per cent of the capacity */
};

static enum look
choose_look (const struct bdev_zone *z, bool use_known, enum zone_use use)
{
  if (z->cond == ZONE_OFFLINE)
    return OFFLINE;
  if (z->cond == ZONE_READ_ONLY)
    return READ_ONLY;
  if (use_known && use == USE_METADATA)
    return METADATA;
  if (use_known && use == USE_DATA)
    return DATA;
  if (use_known && use == USE_BUFFER)
    return BUFFER;
  if (z->cond == ZONE_NOT_WP)
    return FREE_RANDOM;
  return z->cond == ZONE_EMPTY ? FREE_SEQ : UNKNOWN;
}

/* Conventional zones have no write pointer: in use is full. */
static unsigned
choose_fill (const struct bdev_zone *z, enum look look)
{
  const uint64_t capacity = z->cap_bytes ? z->cap_bytes : z->len_bytes;

  if (z->cond == ZONE_NOT_WP)
    return look == FREE_RANDOM ? 0 : 100;
  if (z->cond == ZONE_FULL)
    return 100;
  if (z->cond == ZONE_EMPTY || z->wp_bytes < z->start_bytes || capacity < 100)
    return 0;
  return (unsigned) MIN ((z->wp_bytes - z->start_bytes) / (capacity / 100), 100);
}

int
zone_map_add (struct zone_map *m, const struct bdev_zone *z, bool use_known,
              enum zone_use use)
{
  struct zone_map_cell *c;

  if (m->nr == m->max) {
    const size_t max = m->max ? m->max * 2 : 4096;
    struct zone_map_cell *cells = realloc (m->cells, max * sizeof *cells);

    if (!cells)
      return -1;
    m->cells = cells;
    m->max = max;
  }
  c = &m->cells[m->nr++];
  c->look = choose_look (z, use_known, use);
  c->fill = choose_fill (z, c->look);
  return 0;
}

void
zone_map_free (struct zone_map *m)
{
  free (m->cells);
  *m = (struct zone_map) { 0 };
}

/* What `n` zones from `first` on show together. */
static struct zone_map_cell
share (const struct zone_map *m, size_t first, size_t n)
{
  struct zone_map_cell c = { 0 };
  unsigned fill = 0, counted = 0;
  size_t i;

  for (i = first; i < MIN (first + n, m->nr); ++i)
    c.look = MAX (c.look, m->cells[i].look);
  for (i = first; i < MIN (first + n, m->nr); ++i)
    if (m->cells[i].look == c.look) {
      fill += m->cells[i].fill;
      counted++;
    }
  c.fill = fill / counted;
  return c;
}

static size_t
count (const struct zone_map *m, enum look look)
{
  size_t i, n = 0;

  for (i = 0; i < m->nr; ++i)
    n += m->cells[i].look == look;
  return n;
}

/*--- terminal ---------------------------------------------------------------*/

static void
print_cell (FILE *out, const struct zone_map_cell *c, bool colours)
{
  const char upper = looks[c->look].letter;
  const bool has_levels = upper >= 'A' && upper <= 'Z';
  const char letter = has_levels && c->fill < 100 ? (char) (upper - 'A' + 'a') : upper;

  if (colours)
    fprintf (out, "\033[%sm%c\033[0m", looks[c->look].ansi, letter);
  else
    putc (letter, out);
}

void
zone_map_print (const struct zone_map *m, FILE *out, unsigned columns, unsigned max_lines,
                bool colours)
{
  const unsigned indent = 9;
  size_t width = columns > indent + 16 ? (columns - indent) / 8 * 8 : 16;
  size_t each = 1, i, line;
  unsigned look;

  while (m->nr > width * each * max_lines)
    each *= 2;
  for (line = 0; line * width * each < m->nr; ++line) {
    fprintf (out, "%8zu ", line * width * each);
    for (i = 0; i < width && (line * width + i) * each < m->nr; ++i) {
      const struct zone_map_cell c = share (m, (line * width + i) * each, each);

      print_cell (out, &c, colours);
    }
    putc ('\n', out);
  }
  putc ('\n', out);
  for (look = 0; look < NR_LOOKS; ++look)
    if (count (m, look) > 0)
      fprintf (out, "  %c  %s: %zu\n", looks[look].letter, looks[look].meaning,
               count (m, look));
  fprintf (out, "Small letters: not full.");
  if (each > 1)
    fprintf (out, "  Each letter stands for %zu zones.", each);
  putc ('\n', out);
}

/*--- picture ----------------------------------------------------------------*/

#define CELL 12
#define GAP 2
#define ROW 64                  /* cells */
#define MAX_CELLS 16384

static void
print_escaped (FILE *out, const char *text)
{
  for (; *text; ++text)
    switch (*text) {
    case '<': fputs ("&lt;", out); break;
    case '>': fputs ("&gt;", out); break;
    case '&': fputs ("&amp;", out); break;
    case '"': fputs ("&quot;", out); break;
    default:
      if ((unsigned char) *text >= ' ')
        putc (*text, out);
    }
}

static void
svg_cell (FILE *out, const struct zone_map_cell *c, size_t place, size_t zone)
{
  const size_t x = place % ROW * (CELL + GAP), y = place / ROW * (CELL + GAP);
  const unsigned height = CELL * c->fill / 100;

  fprintf (out, "<g><title>zone %zu: %s, %u %% written</title>"
           "<rect x='%zu' y='%zu' width='%d' height='%d' fill='%s'/>", zone,
           looks[c->look].meaning, c->fill, x, y, CELL, CELL,
           c->look <= FREE_RANDOM ? looks[c->look].fill : looks[FREE_SEQ].fill);
  if (c->look >= READ_ONLY || height > 0 || c->look > FREE_RANDOM) {
    const unsigned shown = c->look >= READ_ONLY ? CELL : MAX (height, 2u);

    fprintf (out, "<rect x='%zu' y='%zu' width='%d' height='%u' fill='%s'/>", x,
             y + CELL - shown, CELL, shown, looks[c->look].fill);
  }
  fputs ("</g>\n", out);
}

static void
svg_legend (const struct zone_map *m, FILE *out, size_t y)
{
  unsigned look;
  size_t x = 0;

  for (look = 0; look < NR_LOOKS; ++look) {
    if (count (m, look) == 0)
      continue;
    fprintf (out, "<rect x='%zu' y='%zu' width='%d' height='%d' fill='%s'/>"
             "<text x='%zu' y='%zu'>%s: %zu</text>\n", x, y, CELL, CELL, looks[look].fill,
             x + CELL + 4, y + CELL - 2, looks[look].meaning, count (m, look));
    x += 220;
    if (x > 700) {
      x = 0;
      y += CELL + 6;
    }
  }
}

void
zone_map_svg (const struct zone_map *m, FILE *out, const char *title)
{
  const size_t top = 32;
  size_t each = 1, cells, rows, i;

  while (m->nr > MAX_CELLS * each)
    each *= 2;
  cells = DIV_ROUND_UP (m->nr, each);
  rows = DIV_ROUND_UP (cells, ROW);
  fprintf (out, "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%zu' "
           "font-family='sans-serif' font-size='12'>\n"
           "<rect width='100%%' height='100%%' fill='white'/>\n"
           "<text x='8' y='20' font-size='14'>", ROW * (CELL + GAP) + 16,
           top + rows * (CELL + GAP) + 80);
  print_escaped (out, title);
  if (each > 1)
    fprintf (out, " (each square is %zu zones)", each);
  fprintf (out, "</text>\n<g transform='translate(8,%zu)'>\n", top);
  for (i = 0; i < cells; ++i) {
    const struct zone_map_cell c = share (m, i * each, each);

    svg_cell (out, &c, i, i * each);
  }
  svg_legend (m, out, rows * (CELL + GAP) + 12);
  fputs ("</g>\n</svg>\n", out);
}
