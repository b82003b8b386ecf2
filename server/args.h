/* SPDX-License-Identifier: BSD-3-Clause */
/* Arguments of a subcommand: options in any place, words, `[ command ]`, and
 * --name=value options that belong to core (stack_option).  An option with a value
 * may come once, unless its table says otherwise. */
#ifndef SERVER_ARGS_H
#define SERVER_ARGS_H

#include <stdbool.h>
#include <stdint.h>

struct arg_option {
  int id;                       /* what args_next returns; above 255 or the letter */
  char letter;                  /* 0: none */
  const char *name;             /* without the dashes; NULL ends a table */
  const char *value;            /* what the value is called in --help; NULL: a flag */
  const char *help;
  bool many;                    /* may come again, with another value */
};

#define ARGS_MAX_OTHERS 64

enum {
  ARGS_END = -1,
  ARGS_ERROR = -2,              /* reported on stderr */
  ARGS_WORD = -3,               /* value is the word */
  ARGS_OTHER = -4,              /* an unknown --name[=value]: name, value (or NULL) */
  ARGS_COMMAND = -5,            /* `[ ... ]`: command, NULL-terminated */
  ARGS_HELP = -6,               /* --help, -h; every table has it */
};

struct args {
  const struct arg_option *options;
  const char *command_name;     /* "shingle mount", for messages */
  int argc, next;
  char **argv;
  bool only_words;              /* after -- */
  bool last_counts;             /* ARGS_OTHER may come again, with another value */
  const char *letters;          /* what is left of a group such as -fr */
  uint64_t given;               /* which of options had a value, a bit each */
  const char *others[ARGS_MAX_OTHERS];  /* words of ARGS_OTHER so far */
  unsigned nr_others;
  /* out */
  const char *value;
  char name[64];
  char **command;
};

void args_init (struct args *a, const char *command_name,
                const struct arg_option *options, int argc, char **argv);
int args_next (struct args *a);

/* The options as lines of a help text, on stdout. */
void args_print_options (const struct arg_option *options);

/* Whole decimal number in [min, max] or an error on stderr; 0 or -1. */
int args_number (const struct args *a, const char *what, const char *text,
                 unsigned long min, unsigned long max, unsigned long *n);

/* Says of what args_next has just returned that it has no place here; `word` is what
   the one word is that a command takes ("DEVICE").  Says no more after ARGS_ERROR.
   Returns STATUS_USAGE of commands.h. */
int args_refuse (const struct args *a, int id, const char *word);

struct sh_error;

/* "NAME: message", and the hint below, on stderr. */
void print_error (const char *name, const struct sh_error *err);

#endif
