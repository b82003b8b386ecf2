/* SPDX-License-Identifier: BSD-3-Clause */
/* The `shingle` command: finds the subcommand and runs it. */
#include <config.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "commands.h"

static const struct command commands[] = {
  { "check", command_check, "DEVICE [--repair]",
    "check a volume's metadata, and mend it" },
  { "doctor", command_doctor, "[DEVICE]",
    "say what this machine and a drive can do" },
  { "emu", command_emu, "create|import|export|set|show FILE ...",
    "emulated drives, each in a file" },
  { "format", command_format, "DEVICE [--force] [--label=TEXT]",
    "make a new volume on a zoned drive" },
  { "info", command_info, "DEVICE [--json]",
    "tell what a drive is and what is on it" },
  { "mount", command_mount, "DEVICE|NBD-URI MOUNTPOINT",
    "show a volume or an NBD export as a file" },
  { "reclaim", command_reclaim, "[SOCKET] [--pause]",
    "tell a running server when to reclaim" },
  { "serve", command_serve, "DEVICE...", "serve drives over NBD" },
  { "stat", command_stat, "[SOCKET]", "tell what a running server does" },
  { "top", command_top, "[SOCKET]", "watch what a running server does" },
  { "zones", command_zones, "DEVICE",
    "list the zones of a drive and their use" },
  { NULL }
};

static void
usage (FILE *out)
{
  const struct command *c;

  fprintf (out,
           "shingle serves a host-managed zoned (SMR) drive as an ordinary disk.\n\n"
           "Usage: shingle COMMAND [ARGUMENTS]\n\n");
  for (c = commands; c->name; ++c)
    fprintf (out, "  %-8s %s\n", c->name, c->summary);
  fprintf (out,
           "\n  shingle COMMAND --help   what a command takes\n"
           "  shingle --version        the version\n");
}

/* What was printed must have arrived. */
static int
finish (int status)
{
  if (fflush (stdout) == 0 && !ferror (stdout))
    return status;
  fprintf (stderr, "shingle: the output could not be written: %s\n", strerror (errno));
  return status == STATUS_OK ? STATUS_FAILED : status;
}

int
main (int argc, char **argv)
{
  const struct command *c;

  if (argc < 2) {
    usage (stderr);
    return STATUS_USAGE;
  }
  if (strcmp (argv[1], "--help") == 0 || strcmp (argv[1], "help") == 0) {
    usage (stdout);
    return STATUS_OK;
  }
  if (strcmp (argv[1], "--version") == 0) {
    printf ("shingle %s\n", PACKAGE_VERSION);
    return STATUS_OK;
  }
  for (c = commands; c->name; ++c)
    if (strcmp (argv[1], c->name) == 0)
      return finish (c->run (argc - 1, argv + 1));
  fprintf (stderr, "shingle: no command is named '%s'; 'shingle --help' lists them\n",
           argv[1]);
  return STATUS_USAGE;
}
