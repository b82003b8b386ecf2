/* SPDX-License-Identifier: BSD-3-Clause */
/* `shingle reclaim`: tells a running server when to reclaim. */
#include <config.h>
#include <stdio.h>
#include <stdlib.h>

#include <json-c/json.h>

#include "args.h"
#include "ask.h"
#include "base/error.h"
#include "commands.h"

#define NAME "shingle reclaim"

enum { NOW = 256, PAUSE, RESUME, VOLUME };

static const struct arg_option options[] = {
  { NOW, 0, "now", NULL, "work until nothing is left to gain; this is the default" },
  { PAUSE, 0, "pause", NULL, "not until --resume, unless space runs out" },
  { RESUME, 0, "resume", NULL, "as before" },
  { VOLUME, 0, "volume", "NAME", "this volume; all of the server's if left out" },
  { 0 }
};

static void
help (void)
{
  printf ("Tells a running server when to move data out of random zones.\n\n"
          "Usage: shingle reclaim [SOCKET] [OPTIONS]\n\n"
          "SOCKET is the control socket that 'shingle serve' and 'shingle mount' make.\n"
          "It may be left out where there is only one.\n\n");
  args_print_options (options);
}

static int
tell (const char *socket_path, const char *what, const char *volume,
      struct sh_error *err)
{
  struct json_object *request = json_object_new_object (), *answer;
  int r;

  json_object_object_add (request, "reclaim", json_object_new_string (what));
  if (volume)
    json_object_object_add (request, "volume", json_object_new_string (volume));
  r = ask (socket_path, json_object_to_json_string_ext (request, JSON_C_TO_STRING_PLAIN),
           0, &answer, err);
  json_object_put (request);
  if (r == 0)
    json_object_put (answer);
  return r;
}

int
command_reclaim (int argc, char **argv)
{
  const char *socket_path = NULL, *what = "now", *volume = NULL;
  struct sh_error err = { 0 };
  char *found = NULL;
  struct args a;
  int id, r;

  args_init (&a, NAME, options, argc, argv);
  while ((id = args_next (&a)) != ARGS_END)
    switch (id) {
    case ARGS_HELP: help (); return STATUS_OK;
    case NOW: what = "now"; break;
    case PAUSE: what = "pause"; break;
    case RESUME: what = "resume"; break;
    case VOLUME: volume = a.value; break;
    case ARGS_WORD:
      if (!socket_path) {
        socket_path = a.value;
        break;
      }
      /* fallthrough */
    default:
      return args_refuse (&a, id, "SOCKET");
    }
  if (!socket_path)
    socket_path = found = ask_find_socket (&err);
  r = socket_path ? tell (socket_path, what, volume, &err) : -1;
  if (r == -1)
    print_error (NAME, &err);
  free (found);
  return r == 0 ? STATUS_OK : STATUS_FAILED;
}
