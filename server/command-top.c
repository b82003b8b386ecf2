/* SPDX-License-Identifier: BSD-3-Clause */
/* `shingle top`: what a running server does, on the whole screen. */
#include <config.h>
#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <curses.h>
#include <json-c/json.h>

#include "args.h"
#include "ask.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "commands.h"
#include "screen.h"
#include "view.h"

#define NAME "shingle top"
#define ANSWER_TIMEOUT_S 10
#define MAX_CLIENTS 12

enum { ONCE = 256 };

static const struct arg_option options[] = {
  { 'd', 'd', "delay", "SECONDS", "between two looks, 1 to 3600 (default 1)" },
  { ONCE, 0, "once", NULL, "print one screen as text, and end" },
  { 0 }
};

struct top {
  const char *socket_path;
  unsigned delay_s;
  struct view *old, *now;       /* the last two looks; old may be NULL */
  unsigned first_line;          /* scrolled to */
};

static void
help (void)
{
  printf ("Watches a running server: throughput, latencies, tags, zones, reclaim.\n\n"
          "Usage: shingle top [SOCKET] [OPTIONS]\n\n"
          "SOCKET is the control socket that 'shingle serve' and 'shingle mount' make.\n"
          "It may be left out where there is only one.\n\n");
  args_print_options (options);
  printf ("\nKeys: q ends, up and down scroll, space looks at once.\n");
}

static int
look (struct top *t, struct sh_error *err)
{
  const uint64_t now_ns = sh_now (&sh_clock_monotonic);
  struct json_object *answer;
  struct view *v;

  if (ask (t->socket_path, "{\"get\": \"stats\"}", ANSWER_TIMEOUT_S, &answer, err) == -1)
    return -1;
  v = view_parse (answer, now_ns);
  json_object_put (answer);
  if (!v)
    return sh_fail (err, ENOMEM, "no memory");
  free (t->old);
  t->old = t->now;
  t->now = v;
  return 0;
}

/*--- as text ----------------------------------------------------------------*/

static int
print_once (struct top *t, struct sh_error *err)
{
  struct screen s = { 0 };
  unsigned i;

  if (look (t, err) == -1)
    return -1;
  sh_sleep (&sh_clock_monotonic, t->delay_s * NS_PER_S);
  if (look (t, err) == -1)
    return -1;
  screen_add (&s, t->now, t->old, MAX_CLIENTS);
  for (i = 0; i < s.nr_lines; ++i)
    puts (s.lines[i].text);
  screen_free (&s);
  return 0;
}

/*--- on the screen ----------------------------------------------------------*/

static void
set_look (enum line_look look)
{
  static const attr_t attrs[] = {
    [LOOK_PLAIN] = A_NORMAL,
    [LOOK_HEAD] = A_BOLD,
    [LOOK_DIM] = A_DIM,
    [LOOK_BAD] = A_BOLD,
  };

  attrset (attrs[look] | (look == LOOK_BAD && has_colors () ? COLOR_PAIR (1) : 0));
}

static void
draw_title (const struct top *t)
{
  const time_t seconds = time (NULL);
  char clock[16] = "", line[LINE_BYTES];
  struct tm tm;

  if (localtime_r (&seconds, &tm))
    strftime (clock, sizeof clock, "%H:%M:%S", &tm);
  snprintf (line, sizeof line, "shingle top  %s  every %u s  %.120s", clock, t->delay_s,
            t->socket_path);
  attrset (A_REVERSE);
  mvprintw (0, 0, "%-*.*s", COLS, COLS, line);
}

static void
draw (struct top *t)
{
  struct screen s = { 0 };
  unsigned i;

  screen_add (&s, t->now, t->old, MAX_CLIENTS);
  t->first_line = MIN (t->first_line, s.nr_lines ? s.nr_lines - 1 : 0);
  erase ();
  draw_title (t);
  for (i = t->first_line; i < s.nr_lines && (int) (i - t->first_line) < LINES - 1; ++i) {
    set_look (s.lines[i].look);
    mvaddnstr ((int) (i - t->first_line) + 1, 0, s.lines[i].text, COLS);
  }
  refresh ();
  screen_free (&s);
}

/* Waits for a key or the next look.  False: end. */
static bool
wait_for_key (struct top *t)
{
  const uint64_t until_ns = sh_now (&sh_clock_monotonic) + t->delay_s * NS_PER_S;

  for (;;) {
    const uint64_t now_ns = sh_now (&sh_clock_monotonic);

    if (now_ns >= until_ns)
      return true;
    timeout ((int) ((until_ns - now_ns) / NS_PER_MS) + 1);
    switch (getch ()) {
    case 'q': case 'Q': case 27:
      return false;
    case ' ':
      return true;
    case KEY_UP: case 'k':
      t->first_line -= t->first_line > 0;
      draw (t);
      break;
    case KEY_DOWN: case 'j':
      t->first_line++;
      draw (t);
      break;
    case KEY_RESIZE:
      draw (t);
      break;
    }
  }
}

static int
watch (struct top *t, struct sh_error *err)
{
  SCREEN *screen;
  int r;

  if (look (t, err) == -1)      /* before the screen is cleared */
    return -1;
  setlocale (LC_CTYPE, "");
  screen = newterm (NULL, stdout, stdin);
  if (!screen) {
    sh_fail (err, ENOTTY, "this terminal (TERM=%s) cannot show a whole screen",
             getenv ("TERM") ? getenv ("TERM") : "");
    return sh_hint (err, "use --once, or 'shingle stat --watch'");
  }
  cbreak ();
  noecho ();
  curs_set (0);
  keypad (stdscr, TRUE);
  set_escdelay (25);
  if (has_colors () && start_color () == OK && use_default_colors () == OK)
    init_pair (1, COLOR_RED, -1);
  do {
    draw (t);
    r = wait_for_key (t) ? look (t, err) : 1;
  } while (r == 0);
  endwin ();
  delscreen (screen);
  return r == 1 ? 0 : -1;
}

static int
run (struct top *t, bool once)
{
  struct sh_error err = { 0 };
  char *found = NULL;
  int r = -1;

  if (!t->socket_path)
    t->socket_path = found = ask_find_socket (&err);
  if (t->socket_path)
    r = once ? print_once (t, &err) : watch (t, &err);
  if (r == -1)
    print_error (NAME, &err);
  free (found);
  free (t->old);
  free (t->now);
  return r == 0 && fflush (stdout) == 0 ? STATUS_OK : STATUS_FAILED;
}

int
command_top (int argc, char **argv)
{
  struct top t = { .delay_s = 1 };
  unsigned long n;
  bool once = false;
  struct args a;
  int id;

  args_init (&a, NAME, options, argc, argv);
  while ((id = args_next (&a)) != ARGS_END) {
    if (id == ARGS_HELP) {
      help ();
      return STATUS_OK;
    }
    if (id == ARGS_WORD && !t.socket_path)
      t.socket_path = a.value;
    else if (id == ONCE)
      once = true;
    else if (id == 'd' && args_number (&a, "delay", a.value, 1, 3600, &n) == 0)
      t.delay_s = (unsigned) n;
    else
      return args_refuse (&a, id == 'd' ? ARGS_ERROR : id, "SOCKET");
  }
  if (!once && (!isatty (STDOUT_FILENO) || !isatty (STDIN_FILENO))) {
    fprintf (stderr, NAME ": needs a terminal; --once prints one screen as text\n");
    return STATUS_USAGE;
  }
  return run (&t, once);
}
