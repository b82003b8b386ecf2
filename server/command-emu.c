/* SPDX-License-Identifier: BSD-3-Clause */
/* `shingle emu`: makes, fills, empties, changes and shows emulated drives. */
#include <config.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <json.h>
#include "args.h"
#include "base/error.h"
#include "base/size.h"
#include "commands.h"
#include "emu-show.h"
#include "transport/emu/emu.h"

#define NAME "shingle emu"

enum { OPT_FORCE = 256, OPT_RAW, OPT_ZONES, OPT_JSON };

static const struct arg_option options[] = {
  { OPT_FORCE, 0, "force", NULL, "create, import: replace a drive that is there" },
  { OPT_RAW, 0, "raw", "FILE", "import, export: the raw image" },
  { OPT_ZONES, 0, "zones", "FILE", "import, export: the zone table" },
  { OPT_JSON, 0, "json", NULL, "show: for programs" },
  { 0 }
};

/* What the command line said. */
struct request {
  const char *file;
  const char **pairs;           /* KEY=VALUE words of `set`, in order */
  size_t nr_pairs;
  struct emu_settings settings;
  bool any_setting;
  bool force, json;
  const char *raw, *zones;
};

/* ---- help ---- */

static void
print_option (const char *name, const char *help)
{
  char shown[64];
  size_t i;

  snprintf (shown, sizeof shown, "--%s=", name);
  for (i = 0; shown[i]; ++i)
    if (shown[i] == '_')
      shown[i] = '-';
  printf ("  %-26s %s\n", shown, help);
}

static void
print_settings (bool aliases)
{
  const struct emu_setting *d;

  for (d = emu_setting_table; d->name; ++d)
    if (d->alias == aliases)
      print_option (d->name, d->help);
}

static void
print_help (void)
{
  const struct emu_action *a;

  printf ("Emulated drives, each in a file.\n\n"
          "Usage: " NAME " create FILE [SETTINGS] [--force]\n"
          "       " NAME " import FILE --raw=IMAGE --zones=TABLE [SETTINGS] [--force]\n"
          "       " NAME " export FILE --raw=IMAGE --zones=TABLE\n"
          "       " NAME " set FILE KEY=VALUE...\n"
          "       " NAME " show FILE [--json]\n\n");
  args_print_options (options);
  printf ("\nSettings of a drive (of 'create' and 'import'; most are keys of 'set' too):\n");
  print_settings (false);
  printf ("\nOther names for them:\n");
  print_settings (true);
  printf ("\nFurther keys of 'set':\n");
  for (a = emu_action_table; a->name; ++a)
    printf ("  %-26s %s\n", a->name, a->help);
}

/* ---- arguments ---- */

static int
add_word (struct request *r, const char *word)
{
  if (r->file == NULL)
    r->file = word;
  else
    r->pairs[r->nr_pairs++] = word;
  return 0;
}

static int
add_setting (struct request *r, const struct args *a)
{
  struct sh_error err = { 0 };

  r->any_setting = true;
  if (emu_settings_set (&r->settings, a->name, a->value ? a->value : "1", &err) == 0)
    return 0;
  print_error (NAME, &err);
  return -1;
}

static int
parse (struct request *r, int argc, char **argv)
{
  struct args a;
  int o;

  args_init (&a, NAME, options, argc, argv);
  a.last_counts = true;
  while ((o = args_next (&a)) != ARGS_END) {
    switch (o) {
    case OPT_FORCE:
      r->force = true;
      break;
    case OPT_RAW:
      r->raw = a.value;
      break;
    case OPT_ZONES:
      r->zones = a.value;
      break;
    case OPT_JSON:
      r->json = true;
      break;
    case ARGS_WORD:
      add_word (r, a.value);
      break;
    case ARGS_OTHER:
      if (add_setting (r, &a) == -1)
        return -1;
      break;
    case ARGS_COMMAND:
      fprintf (stderr, NAME ": '[' is of no use here\n");
      return -1;
    default:
      return -1;
    }
  }
  return 0;
}

/* Import: settings that the zone table carries come before those of the command
   line, so the line is gone through again. */
static int
parse_over_table (struct request *r, int argc, char **argv)
{
  struct sh_error err = { 0 };

  if (r->zones == NULL)
    return 0;
  emu_settings_init (&r->settings);
  if (emu_table_settings (r->zones, &r->settings, &err) == -1) {
    print_error (NAME, &err);
    return -1;
  }
  r->file = NULL;
  r->nr_pairs = 0;
  return parse (r, argc, argv);
}

/* ---- the subcommands: 0, or -1 with an error ---- */

static int
run_create (struct request *r, struct sh_error *err)
{
  struct emu *emu;

  if (emu_file_create (r->file, &r->settings, r->force, err) == -1 ||
      emu_open_file (r->file, EMU_OPEN_PEEK, &emu, err) == -1)
    return -1;
  show_created (emu);
  emu_close (emu);
  return 0;
}

static int
run_import (struct request *r, struct sh_error *err)
{
  struct emu *emu;

  if (emu_import (r->file, &r->settings, r->raw, r->zones, r->force, err) == -1 ||
      emu_open_file (r->file, EMU_OPEN_PEEK, &emu, err) == -1)
    return -1;
  show_created (emu);
  emu_close (emu);
  return 0;
}

static int
run_export (struct request *r, struct sh_error *err)
{
  struct emu *emu;
  int ret;

  if (emu_open_file (r->file, EMU_OPEN_AS_IS, &emu, err) == -1)
    return -1;
  ret = emu_export (emu, r->raw, r->zones, err);
  emu_close (emu);
  return ret;
}

/* KEY=VALUE, tried on *s, a copy of the drive's settings, or done to the drive when
   `s` is NULL. */
static int
set_pair (struct emu *emu, struct emu_settings *s, const char *pair, struct sh_error *err)
{
  const char *value = strchr (pair, '=');
  char key[64];

  if (value == NULL || value == pair || (size_t) (value - pair) >= sizeof key)
    return sh_fail (err, EINVAL, "'%s' is not KEY=VALUE", pair);
  memcpy (key, pair, (size_t) (value - pair));
  key[value - pair] = '\0';
  return s ? emu_set_try (s, key, value + 1, err) : emu_set (emu, key, value + 1, err);
}

/* All pairs are tried before the first is done. */
static int
run_set (struct request *r, struct sh_error *err)
{
  struct emu_settings s;
  struct emu *emu;
  size_t i;
  int ret;

  if (emu_open_file (r->file, EMU_OPEN_AS_IS, &emu, err) == -1)
    return -1;
  s = *emu_get_settings (emu);
  for (i = 0, ret = 0; i < r->nr_pairs && ret == 0; ++i)
    ret = set_pair (emu, &s, r->pairs[i], err);
  for (i = 0; i < r->nr_pairs && ret == 0; ++i)
    ret = set_pair (emu, NULL, r->pairs[i], err);
  emu_close (emu);
  return ret;
}

static int
run_show (struct request *r, struct sh_error *err)
{
  struct emu *emu;

  if (emu_open_file (r->file, EMU_OPEN_PEEK, &emu, err) == -1)
    return -1;
  if (r->json)
    show_json (emu);
  else
    show_text (emu);
  emu_close (emu);
  return 0;
}

static const struct subcommand {
  const char *name;
  int (*run) (struct request *r, struct sh_error *err);
  bool takes_settings, takes_pairs, takes_images;
} subcommands[] = {
  { "create", run_create, true, false, false },
  { "import", run_import, true, false, true },
  { "export", run_export, false, false, true },
  { "set", run_set, false, true, false },
  { "show", run_show, false, false, false },
};

/* NULL: the request fits the subcommand. */
static const char *
misfit (const struct subcommand *c, const struct request *r)
{
  if (r->file == NULL)
    return "the drive's file is missing";
  if (r->any_setting && !c->takes_settings)
    return "takes no settings; 'set' changes them: KEY=VALUE";
  if (r->nr_pairs && !c->takes_pairs)
    return "takes one file; what is the word behind it?";
  if (r->nr_pairs == 0 && c->takes_pairs)
    return "what is to be set? KEY=VALUE...";
  if (c->takes_images && (r->raw == NULL || r->zones == NULL))
    return "needs --raw=IMAGE and --zones=TABLE";
  if (!c->takes_images && (r->raw || r->zones))
    return "takes neither --raw nor --zones";
  if (r->force && !c->takes_settings)
    return "takes no --force";
  return r->json && c->run != run_show ? "takes no --json" : NULL;
}

static int
run_subcommand (const struct subcommand *c, int argc, char **argv)
{
  struct request r = { .pairs = calloc ((size_t) argc + 1, sizeof r.pairs[0]) };
  struct sh_error err = { 0 };
  const char *wrong;
  int status = STATUS_USAGE;

  emu_settings_init (&r.settings);
  if (r.pairs && parse (&r, argc, argv) == 0) {
    wrong = misfit (c, &r);
    if (wrong)
      fprintf (stderr, NAME " %s: %s%s%s; '" NAME " --help' shows how\n", c->name,
               r.nr_pairs && !c->takes_pairs ? r.pairs[0] : "",
               r.nr_pairs && !c->takes_pairs ? ": " : "", wrong);
    else if (c->run == run_import && parse_over_table (&r, argc, argv) == -1)
      status = STATUS_FAILED;
    else if (c->run (&r, &err) == 0)
      status = STATUS_OK;
    else {
      print_error (NAME, &err);
      status = STATUS_FAILED;
    }
  }
  free (r.pairs);
  return status;
}

int
command_emu (int argc, char **argv)
{
  size_t i;
  int n;

  for (n = 1; n < argc; ++n) {
    if (strcmp (argv[n], "--help") == 0 || strcmp (argv[n], "-h") == 0) {
      print_help ();
      return STATUS_OK;
    }
  }
  for (i = 0; argc > 1 && i < sizeof subcommands / sizeof subcommands[0]; ++i)
    if (strcmp (subcommands[i].name, argv[1]) == 0)
      return run_subcommand (&subcommands[i], argc - 1, argv + 1);
  fprintf (stderr, NAME ": %s%s; it is create, import, export, set or show ('" NAME
           " --help')\n", argc > 1 ? "no subcommand is named " : "what is to be done?",
           argc > 1 ? argv[1] : "");
  return STATUS_USAGE;
}
