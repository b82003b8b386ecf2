/* SPDX-License-Identifier: BSD-3-Clause */
#include <config.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "args.h"
#include "base/error.h"
#include "commands.h"

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

/* o with `value`, which may come only once. */
static int
give (struct args *a, const struct arg_option *o, const char *value)
{
  const uint64_t bit = UINT64_C (1) << (o - a->options);

  if (a->given & bit && !o->many) {
    fprintf (stderr, "%s: --%s is given more than once; leave in the one that counts\n",
             a->command_name, o->name);
    return ARGS_ERROR;
  }
  if (value[0] == '\0') {
    fprintf (stderr, "%s: --%s= is empty; it needs a value: --%s=%s\n", a->command_name,
             o->name, o->name, o->value);
    return ARGS_ERROR;
  }
  a->given |= bit;
  a->value = value;
  return o->id;
}

/* The value after an option, in its own word. */
static int
take_value (struct args *a, const struct arg_option *o)
{
  if (a->next >= a->argc) {
    fprintf (stderr, "%s: --%s needs a value: --%s=%s; '%s --help' says more\n",
             a->command_name, o->name, o->name, o->value, a->command_name);
    return ARGS_ERROR;
  }
  return give (a, o, a->argv[a->next++]);
}

static int
next_letter (struct args *a)
{
  const char letter = *a->letters++;
  const char shown[] = { '-', letter, '\0' };
  const struct arg_option *o;
  const char *rest;

  if (letter == 'h')
    return ARGS_HELP;
  for (o = a->options; o->name; ++o)
    if (o->letter == letter) {
      if (!o->value)
        return o->id;
      if (*a->letters == '\0')
        return take_value (a, o);
      rest = a->letters;
      a->letters = "";
      return give (a, o, rest);
    }
  return complain (a, "no such option:", shown);
}

/* The same name, '-' and '_' being alike, up to the end or the '='. */
static bool
same_name (const char *a, const char *b)
{
  while (*a && *a != '=' && (*a == '-' ? '_' : *a) == (*b == '-' ? '_' : *b)) {
    a++;
    b++;
  }
  return (*a == '\0' || *a == '=') && (*b == '\0' || *b == '=');
}

static int
other_option (struct args *a, const char *word)
{
  unsigned i;

  for (i = 0; i < a->nr_others && !a->last_counts; ++i)
    if (same_name (a->others[i], word)) {
      fprintf (stderr, "%s: --%s is given more than once; leave in the one that counts\n",
               a->command_name, a->name);
      return ARGS_ERROR;
    }
  if (a->nr_others < ARGS_MAX_OTHERS)
    a->others[a->nr_others++] = word;
  return ARGS_OTHER;
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
      if (!o->value)
        return o->id;
      return equals ? give (a, o, equals + 1) : take_value (a, o);
    }
  return other_option (a, word);
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
    fprintf (stderr, "%s: --%s=%s: not a whole number from %lu to %lu\n", a->command_name,
             what, text, min, max);
    return -1;
  }
  return 0;
}

int
args_refuse (const struct args *a, int id, const char *word)
{
  if (id == ARGS_WORD)
    fprintf (stderr, "%s: one %s is enough; what is '%s'? '%s --help' says more\n",
             a->command_name, word, a->value, a->command_name);
  else if (id != ARGS_ERROR)
    fprintf (stderr, "%s: there is no option '%s%s' here; '%s --help' lists them\n",
             a->command_name, id == ARGS_OTHER ? "--" : "", id == ARGS_OTHER ? a->name : "[",
             a->command_name);
  return STATUS_USAGE;
}

void
print_error (const char *name, const struct sh_error *err)
{
  fprintf (stderr, "%s: %s\n", name, err->message);
  if (err->hint[0] != '\0')
    fprintf (stderr, "  %s\n", err->hint);
}
