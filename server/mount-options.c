/* SPDX-License-Identifier: BSD-3-Clause */
/* The arguments of `shingle mount`, and the -o list as mount(8) gives it. */
#include <config.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "args.h"
#include "background.h"
#include "base/bytes.h"
#include "base/error.h"
#include "mount-options.h"

#define NAME "shingle mount"
#define DEFAULT_TIMEOUT_S 60

enum { CLONE_FD = 256, TIMEOUT, ALLOW_OTHER, AUTO_UNMOUNT, CACHE, THREADS, CONTROL };

static const struct arg_option options[] = {
  { ALLOW_OTHER, 0, "allow-other", NULL, "other users may open the files" },
  { AUTO_UNMOUNT, 0, "auto-unmount", NULL, "unmount even when this process is killed" },
  { CACHE, 0, "cache", NULL, "use the kernel's page cache; the default is direct I/O" },
  { CLONE_FD, 0, "clone-fd", NULL, "a descriptor of /dev/fuse for each thread" },
  { 'C', 'C', "connections", "N", "NBD connections, 1 to 16 (default 4)" },
  { CONTROL, 0, "control", "SOCKET", "a unix socket for shingle stat, top and reclaim" },
  { 'f', 'f', "foreground", NULL, "stay in the foreground" },
  { 'o', 'o', "options", "LIST", "comma separated options, as mount(8) gives them", true },
  { 'P', 'P', "pid-file", "FILE", "write the process id there once serving" },
  { 'r', 'r', "read-only", NULL, "nothing is written" },
  { THREADS, 0, "threads", "N", "most requests worked on at once, 1 to 1024 (default 64)" },
  { TIMEOUT, 0, "timeout", "SECONDS", "give up when not serving by then (default 60)" },
  { 'v', 'v', "verbose", NULL, "say more" },
  { 0 }
};

void
mount_options_help (void)
{
  printf ("Shows a volume, or an NBD export, as a file.\n\n"
          "Usage: shingle mount DEVICE|NBD-URI|[ COMMAND... ] MOUNTPOINT [OPTIONS]\n\n"
          "MOUNTPOINT is a file, which the volume then appears as, or a folder, which it\n"
          "appears in.  Unmount with: fusermount3 -u MOUNTPOINT\n\n");
  args_print_options (options);
  printf ("\nOptions of the volume on a DEVICE, with two dashes or in the -o list:\n" STACK_OPTIONS_HELP
          "\nExamples:\n"
          "  shingle mount /dev/sg1 /mnt/disk\n"
          "  shingle mount nbd+unix:///?socket=/run/shingle.sock /mnt/disk\n"
          "  shingle mount [ nbdkit memory 1G ] /tmp/ram-disk\n");
}

/*--- the -o list ------------------------------------------------------------*/

/* Meant for mount(8) itself, systemd or the reader of /etc/fstab. */
static bool
is_for_mount_8 (const char *word)
{
  static const char *const words[] = {
    "auto", "noauto", "defaults", "fail", "nofail", "_netdev", "user", "nouser",
    "users", "nousers", "owner", "group", "rw",
  };
  size_t i;

  for (i = 0; i < ARRAY_SIZE (words); ++i)
    if (strcmp (word, words[i]) == 0)
      return true;
  return strncmp (word, "x-", 2) == 0 || strncmp (word, "comment=", 8) == 0;
}

static int
add_fuse_option (struct mount_options *m, const char *word)
{
  char *joined;

  if (asprintf (&joined, "%s%s%s", m->fuse_options ? m->fuse_options : "",
                m->fuse_options ? "," : "", word) == -1)
    return -1;
  free (m->fuse_options);
  m->fuse_options = joined;
  m->front.fuse_options = joined;
  return 0;
}

static int
stack_word (struct mount_options *m, const char *name, const char *value)
{
  struct sh_error err = { 0 };
  const int r = stack_option (&m->stack, name, value ? value : "true", &err);

  if (r == -1)
    print_error (NAME, &err);
  return r;
}

static int set_option (struct mount_options *m, const struct args *a, int id,
                       const char *value);

/* "name" or "name=value" of the -o list; 0, or -1 after a complaint. */
static int
list_word (struct mount_options *m, const struct args *a, char *word)
{
  const struct arg_option *o;
  char *value = strchr (word, '=');
  char *p;
  int r;

  if (is_for_mount_8 (word))
    return 0;
  if (strcmp (word, "ro") == 0)
    return set_option (m, a, 'r', NULL);
  if (value)
    *value++ = '\0';
  for (o = options; o->name; ++o) {
    char name[32];

    snprintf (name, sizeof name, "%s", o->name);
    for (p = name; *p; ++p)
      if (*p == '-')
        *p = '_';
    if (o->id != 'o' && (strcmp (word, o->name) == 0 || strcmp (word, name) == 0)
        && !o->value == !value)
      return set_option (m, a, o->id, value);
  }
  r = stack_word (m, word, value);
  if (r != 0)
    return r == 1 ? 0 : -1;
  if (value)
    value[-1] = '=';
  return add_fuse_option (m, word);
}

static int
option_list (struct mount_options *m, const struct args *a, const char *list)
{
  char *copy = strdup (list), *rest = copy, *word;
  int r = copy ? 0 : -1;

  while (r == 0 && (word = strsep (&rest, ",")) != NULL)
    if (word[0] != '\0')
      r = list_word (m, a, word);
  free (copy);
  return r;
}

/*--- the command line -------------------------------------------------------*/

static int
set_number (const struct args *a, const char *name, const char *value, unsigned long max,
            unsigned *to)
{
  unsigned long n;

  if (args_number (a, name, value, 1, max, &n) == -1)
    return -1;
  *to = (unsigned) n;
  return 0;
}

static int
set_text (char **to, const char *value)
{
  free (*to);
  *to = strdup (value);
  return *to ? 0 : -1;
}

/* `value` may not outlive the call. */
static int
set_option (struct mount_options *m, const struct args *a, int id, const char *value)
{
  switch (id) {
  case ALLOW_OTHER:
    return add_fuse_option (m, "allow_other");
  case AUTO_UNMOUNT:
    m->auto_unmount = true;
    return 0;
  case CACHE:
    m->front.cache = true;
    return 0;
  case CLONE_FD:
    m->front.clone_fd = true;
    return 0;
  case 'C':
    return set_number (a, "connections", value, 16, &m->connections);
  case 'f':
    m->foreground = true;
    return 0;
  case 'o':
    return option_list (m, a, value);
  case CONTROL:
    return set_text (&m->control, value);
  case 'P':
    return set_text (&m->pid_file, value);
  case 'r':
    m->front.read_only = m->stack.read_only = true;
    return 0;
  case THREADS:
    return set_number (a, "threads", value, 1024, &m->front.threads);
  case TIMEOUT:
    return set_number (a, "timeout", value, 86400, &m->timeout_s);
  case 'v':
    m->verbose = true;
    return 0;
  }
  return -1;
}

static int
other_option (struct mount_options *m, const struct args *a)
{
  const int r = stack_word (m, a->name, a->value);

  if (r == 0)
    fprintf (stderr, NAME ": no such option: --%s; '" NAME " --help' lists them\n",
             a->name);
  return r == 1 ? 0 : -1;
}

static int
add_source (struct mount_options *m, const char *text, char **command)
{
  if (m->nr_sources == ARRAY_SIZE (m->sources)) {
    fprintf (stderr, NAME ": more than %u volumes\n", m->nr_sources);
    return -1;
  }
  m->sources[m->nr_sources++] = (struct mount_source) { text, command };
  return 0;
}

/* The last word is the mount point. */
static int
take_mountpoint (struct mount_options *m)
{
  const struct mount_source *last = &m->sources[m->nr_sources - 1];

  if (m->nr_sources < 2 || !last->text) {
    fprintf (stderr, NAME ": what to mount, and where? '" NAME " --help' shows how\n");
    return -1;
  }
  m->mountpoint = realpath (last->text, NULL);
  if (!m->mountpoint) {
    /* front_mount says what is wrong with it. */
    m->mountpoint = strdup (last->text);
    if (!m->mountpoint)
      return -1;
  }
  m->nr_sources--;
  return 0;
}

enum mount_parse
mount_options_parse (struct mount_options *m, int argc, char **argv)
{
  struct args a;
  int id, r = 0;

  memset (m, 0, sizeof *m);
  stack_options_init (&m->stack);
  m->stack.queue = true;
  m->timeout_s = DEFAULT_TIMEOUT_S;
  m->front.log = m->stack.volume.log = &background_log;
  args_init (&a, NAME, options, argc, argv);
  while (r == 0 && (id = args_next (&a)) != ARGS_END) {
    if (id == ARGS_HELP)
      return MOUNT_HELP;
    else if (id == ARGS_WORD)
      r = add_source (m, a.value, NULL);
    else if (id == ARGS_COMMAND)
      r = add_source (m, NULL, a.command);
    else if (id == ARGS_OTHER)
      r = other_option (m, &a);
    else
      r = id == ARGS_ERROR ? -1 : set_option (m, &a, id, a.value);
  }
  if (r == -1 || take_mountpoint (m) == -1)
    return MOUNT_USAGE;
  return MOUNT_GO;
}

void
mount_options_free (struct mount_options *m)
{
  free (m->mountpoint);
  free (m->fuse_options);
  free (m->control);
  free (m->pid_file);
}
