/* SPDX-License-Identifier: BSD-3-Clause */
#include <config.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "args.h"
#include "base/error.h"

void
args_init (struct args *a, const char *command_name, const struct arg_option *options,
           int argc, char **argv)
{
  memset (a, 0, sizeof *a);
  a->options = options;
  a->command_name = command_name;
  a->argc = argc;
  a->argv = argv;
  a->next = 1;
}

static int
complain (const struct args *a, const char *what, const char *text)
{
  fprintf (stderr, "%s: %s '%s'; '%s --help' lists what there is\n",
           a->command_name, what, text, a->command_name);
  return ARGS_ERROR;
}

/* The value after an option, in its own word. */
static int
take_value (struct args *a, const struct arg_option *o, const char *shown)
{
  if (a->next >= a->argc) {
    fprintf (stderr, "%s: %s needs a value: %s\n", a->command_name, shown, o->value);
    return ARGS_ERROR;
  }
  a->value = a->argv[a->next++];
  return o->id;
}

static int
next_letter (struct args *a)
{
  const char letter = *a->letters++;
  const char shown[] = { '-', letter, '\0' };
  const struct arg_option *o;

  if (letter == 'h')
    return ARGS_HELP;
  for (o = a->options; o->name; ++o)
    if (o->letter == letter) {
      if (!o->value)
        return o->id;
      if (*a->letters == '\0')
        return take_value (a, o, shown);
      a->value = a->letters;
      a->letters = "";
      return o->id;
    }
  return complain (a, "no such option:", shown);
}

static int
next_long (struct args *a, const char *word)
{
  const char *equals = strchr (word, '=');
  const size_t len = equals ? (size_t) (equals - word) : strlen (word);
  const struct arg_option *o;

  if (len >= sizeof a->name)
    return complain (a, "no such option:", word);
  memcpy (a->name, word, len);
  a->name[len] = '\0';
  a->value = equals ? equals + 1 : NULL;
  if (strcmp (a->name, "help") == 0 && !equals)
    return ARGS_HELP;
  for (o = a->options; o->name; ++o)
    if (strcmp (o->name, a->name) == 0) {
      if (!o->value && equals)
        return complain (a, "this option takes no value:", word);
      return !o->value || equals ? o->id : take_value (a, o, o->name);
    }
  return ARGS_OTHER;
}

static int
next_command (struct args *a)
{
  int i, depth = 1;

  a->command = &a->argv[a->next];
  for (i = a->next; i < a->argc; ++i) {
    if (strcmp (a->argv[i], "[") == 0)
      depth++;
    else if (strcmp (a->argv[i], "]") == 0 && --depth == 0)
      break;
  }
  if (i == a->argc)
    return complain (a, "no ']' ends the command after", "[");
  if (i == a->next)
    return complain (a, "there is no command in", "[ ]");
  a->argv[i] = NULL;
  a->next = i + 1;
  return ARGS_COMMAND;
}

int
args_next (struct args *a)
{
  const char *word;

  a->value = NULL;
  if (a->letters && *a->letters)
    return next_letter (a);
  if (a->next >= a->argc)
    return ARGS_END;
  word = a->argv[a->next++];
  if (!a->only_words && strcmp (word, "--") == 0) {
    a->only_words = true;
    return args_next (a);
  }
  if (!a->only_words && strcmp (word, "[") == 0)
    return next_command (a);
  if (!a->only_words && strncmp (word, "--", 2) == 0)
    return next_long (a, word + 2);
  if (!a->only_words && word[0] == '-' && word[1] != '\0') {
    a->letters = word + 1;
    return next_letter (a);
  }
  a->value = word;
  return ARGS_WORD;
}

void
args_print_options (const struct arg_option *options)
{
  const struct arg_option *o;
  char left[80];

  for (o = options; o->name; ++o) {
    const char letter[] = { '-', o->letter, ',', ' ', '\0' };

    snprintf (left, sizeof left, "%s--%s%s%s", o->letter ? letter : "    ", o->name,
              o->value ? " " : "", o->value ? o->value : "");
    printf ("  %-26s %s\n", left, o->help);
  }
  printf ("  %-26s %s\n", "-h, --help", "this text");
}

int
args_number (const struct args *a, const char *what, const char *text,
             unsigned long min, unsigned long max, unsigned long *n)
{
  char *end;

  errno = 0;
  *n = strtoul (text, &end, 10);
  if (errno != 0 || !isdigit ((unsigned char) text[0]) || *end != '\0'
      || *n < min || *n > max) {
    fprintf (stderr, "%s: %s: '%s' is not a whole number from %lu to %lu\n",
             a->command_name, what, text, min, max);
    return -1;
  }
  return 0;
}

void
print_error (const char *name, const struct sh_error *err)
{
  fprintf (stderr, "%s: %s\n", name, err->message);
  if (err->hint[0] != '\0')
    fprintf (stderr, "  %s\n", err->hint);
}
