/* SPDX-License-Identifier: BSD-3-Clause */
/* `shingle stat`: what a running server does, once or again and again. */
#include <config.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <json-c/json.h>

#include "args.h"
#include "ask.h"
#include "base/clock.h"
#include "base/error.h"
#include "commands.h"
#include "prometheus.h"
#include "screen.h"
#include "view.h"

#define NAME "shingle stat"
#define ANSWER_TIMEOUT_S 10

enum { JSON = 256, PROMETHEUS, WATCH };

static const struct arg_option options[] = {
  { JSON, 0, "json", NULL, "print what the server tells as JSON" },
  { PROMETHEUS, 0, "prometheus", NULL, "print it in the text format of Prometheus" },
  { WATCH, 0, "watch", NULL, "again each second, with the rates of that second" },
  { 0 }
};

static void
help (void)
{
  printf ("Tells what a running server does.\n\n"
          "Usage: shingle stat [SOCKET] [OPTIONS]\n\n"
          "SOCKET is the control socket that 'shingle serve' and 'shingle mount' make.\n"
          "It may be left out where there is only one.\n\n");
  args_print_options (options);
}

static int
print_json (struct json_object *answer)
{
  puts (json_object_to_json_string_ext (answer, JSON_C_TO_STRING_PRETTY
                                                | JSON_C_TO_STRING_SPACED));
  return 0;
}

static void
print_lines (const struct view *now, const struct view *old)
{
  struct screen s = { 0 };
  unsigned i;

  screen_add (&s, now, old, OPSTAT_CLIENTS);
  for (i = 0; i < s.nr_lines; ++i)
    puts (s.lines[i].text);
  screen_free (&s);
}

/* One sample; *old is replaced by it. */
static int
sample (const char *socket_path, int format, struct view **old, struct sh_error *err)
{
  const uint64_t now_ns = sh_now (&sh_clock_monotonic);
  struct json_object *answer;
  struct view *now;

  if (ask (socket_path, "{\"get\": \"stats\"}", ANSWER_TIMEOUT_S, &answer, err) == -1)
    return -1;
  if (format == JSON) {
    print_json (answer);
    json_object_put (answer);
    return 0;
  }
  now = view_parse (answer, now_ns);
  json_object_put (answer);
  if (!now)
    return sh_fail (err, ENOMEM, "no memory");
  if (format == PROMETHEUS)
    prometheus_print (stdout, now);
  else
    print_lines (now, *old);
  free (*old);
  *old = now;
  return 0;
}

static int
run (const char *socket_path, int format, bool watch)
{
  struct sh_error err = { 0 };
  struct view *old = NULL;
  char *found = NULL;
  int r;

  if (!socket_path)
    socket_path = found = ask_find_socket (&err);
  r = socket_path ? sample (socket_path, format, &old, &err) : -1;
  while (r == 0 && watch && fflush (stdout) == 0) {
    sh_sleep (&sh_clock_monotonic, NS_PER_S);
    putchar ('\n');
    r = sample (socket_path, format, &old, &err);
  }
  if (r == -1)
    print_error (NAME, &err);
  free (found);
  free (old);
  return r == 0 && fflush (stdout) == 0 ? STATUS_OK : STATUS_FAILED;
}

int
command_stat (int argc, char **argv)
{
  const char *socket_path = NULL;
  bool watch = false;
  int id, format = 0;
  struct args a;

  args_init (&a, NAME, options, argc, argv);
  while ((id = args_next (&a)) != ARGS_END) {
    if (id == ARGS_HELP) {
      help ();
      return STATUS_OK;
    }
    if (id == ARGS_WORD && !socket_path)
      socket_path = a.value;
    else if (id == JSON || id == PROMETHEUS)
      format = id;
    else if (id == WATCH)
      watch = true;
    else
      return args_refuse (&a, id, "SOCKET");
  }
  return run (socket_path, format, watch);
}
