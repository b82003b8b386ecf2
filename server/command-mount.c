/* SPDX-License-Identifier: BSD-3-Clause */
/* `shingle mount`: backends, front end, and the life of the process. */
#include <config.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "args.h"
#include "background.h"
#include "backend.h"
#include "base/error.h"
#include "commands.h"
#include "front.h"
#include "keeper.h"
#include "mount-options.h"
#include "stack/control.h"
#include "stack/opstats.h"
#include "stack/served.h"

#define NAME "shingle mount"

struct mount {
  struct mount_options options;
  struct backend *backends[FRONT_MAX_BACKENDS];
  struct served served[FRONT_MAX_BACKENDS];
  char names[FRONT_MAX_BACKENDS][80];   /* of served */
  unsigned nr_backends;
  struct served_set served_set;
  struct control *control;
  struct front *front;
  struct keeper keeper;
  bool pid_written;
};

/* What the signal handlers stop. */
static struct front *running;

static void
on_signal (int signum)
{
  front_stop (running);
}

static void
catch_signals (void)
{
  const struct sigaction action = { .sa_handler = on_signal };

  sigaction (SIGTERM, &action, NULL);
  sigaction (SIGINT, &action, NULL);
  sigaction (SIGHUP, &action, NULL);
}

static int
open_source (struct mount *m, const struct mount_source *s, struct backend **b,
             struct sh_error *err)
{
  const struct backend_nbd_options nbd = {
    .uri = s->text,
    .command = s->command,
    .connections = m->options.connections,
    .read_only = m->options.front.read_only,
  };

  if (s->command || backend_nbd_is_uri (s->text))
    return backend_nbd_open (&nbd, b, err);
  return backend_volume_open (s->text, &m->options.stack, b, err);
}

static bool
name_taken (const struct mount *m, const char *name)
{
  unsigned i;

  for (i = 0; i < m->nr_backends; ++i)
    if (strcmp (m->names[i], name) == 0)
      return true;
  /* In a folder there is stats/, too. */
  return strcmp (name, "stats") == 0;
}

/* Equal names get "-2", "-3" ... appended. */
static int
describe (struct mount *m, struct backend *b, struct sh_error *err)
{
  struct served *s = &m->served[m->nr_backends];
  char *name = m->names[m->nr_backends];
  unsigned i;

  snprintf (name, sizeof m->names[0], "%s", b->name);
  for (i = 2; name_taken (m, name); ++i)
    snprintf (name, sizeof m->names[0], "%.60s-%u", b->name, i);
  *s = (struct served) {
    .name = name,
    .size_bytes = b->size,
    .opstats = opstats_new (),
  };
  if (!s->opstats)
    return sh_fail (err, ENOMEM, "no memory");
  if (b->ops->describe)
    b->ops->describe (b, s);
  return 0;
}

static int
open_backends (struct mount *m, struct sh_error *err)
{
  bool all_read_only = true;
  unsigned i;

  if (stack_open_tagset (&m->options.stack, err) == -1)
    return -1;
  for (i = 0; i < m->options.nr_sources; ++i) {
    int r;

    if (open_source (m, &m->options.sources[i], &m->backends[i], err) == -1)
      return -1;
    r = describe (m, m->backends[i], err);
    m->nr_backends++;
    if (r == -1)
      return -1;
    all_read_only &= m->backends[i]->read_only;
  }
  m->options.front.read_only = all_read_only;
  for (i = 0; i < m->nr_backends; ++i)
    if (backend_start (m->backends[i], err) == -1)
      return -1;
  return 0;
}

/* -1 when what was written may not be safe; says so. */
static int
close_backends (struct mount *m)
{
  int r = 0;

  while (m->nr_backends > 0) {
    struct sh_error err = { 0 };

    if (backend_close (m->backends[--m->nr_backends], &err) == -1) {
      background_report (&err);
      r = -1;
    }
    opstats_free (m->served[m->nr_backends].opstats);
  }
  stack_close_tagset (&m->options.stack);
  return r;
}

static int
open_control (struct mount *m, struct sh_error *err)
{
  m->served_set = (struct served_set) { m->served, m->nr_backends };
  if (!m->options.control)
    return 0;
  if (control_open (m->options.control, served_answer, &m->served_set, &background_log,
                    &m->control, err) == -1)
    return -1;
  return control_start (m->control, err);
}

/* Memory that this process asks for must not wait for writes to a file system that
   lies on its own file.  Every thread that is started from here on inherits it.
   Needs CAP_SYS_RESOURCE. */
static void
be_io_flusher (void)
{
#ifdef PR_SET_IO_FLUSHER
  prctl (PR_SET_IO_FLUSHER, 1, 0, 0, 0);
#endif
}

static int
set_up (struct mount *m, struct sh_error *err)
{
  const struct mount_source *first = &m->options.sources[0];

  be_io_flusher ();
  m->options.front.source = first->text ? first->text : first->command[0];
  if (front_check_mountpoint (m->options.mountpoint, err) == -1
      || (m->options.auto_unmount
          && keeper_start (&m->keeper, m->options.mountpoint, err) == -1)
      || open_backends (m, err) == -1 || open_control (m, err) == -1
      || front_new (&m->options.front, m->backends, m->served, m->nr_backends,
                    &m->front, err) == -1)
    return -1;
  running = m->front;
  catch_signals ();
  if (front_mount (m->front, m->options.mountpoint, err) == -1)
    return -1;
  keeper_mounted (&m->keeper);
  return 0;
}

static void
on_ready (void *opaque)
{
  struct mount *m = opaque;
  struct sh_error err = { 0 };

  m->pid_written = m->options.pid_file != NULL;
  if (background_ready (m->options.pid_file, &err) == -1) {
    background_report (&err);
    front_stop (m->front);
  }
}

static int
serve (struct mount *m)
{
  struct sh_error err = { 0 };
  int r = set_up (m, &err);

  if (r == 0) {
    r = front_run (m->front, on_ready, m, &err);
    if (r == -1 && err.errnum == ETIMEDOUT) {
      /* Requests are still below.  Our end gives their users an error. */
      background_report (&err);
      _exit (STATUS_FAILED);
    }
  }
  if (r == -1)
    background_report (&err);
  if (m->front)
    front_free (m->front);
  keeper_stop (&m->keeper);
  control_close (m->control);
  if (close_backends (m) == -1)
    r = -1;
  if (m->pid_written)
    unlink (m->options.pid_file);
  return r == 0 ? STATUS_OK : STATUS_FAILED;
}

static int
run (struct mount *m, int argc, char **argv)
{
  struct sh_error err = { 0 };

  switch (mount_options_parse (&m->options, argc, argv)) {
  case MOUNT_HELP:
    mount_options_help ();
    return STATUS_OK;
  case MOUNT_USAGE:
    return STATUS_USAGE;
  case MOUNT_GO:
    break;
  }
  background_set_verbose (m->options.verbose);
  if (stack_options_check (&m->options.stack, &err) == -1) {
    print_error (NAME, &err);
    return STATUS_USAGE;
  }
  if (m->options.pid_file && pid_file_check (m->options.pid_file, &err) == -1) {
    print_error (NAME, &err);
    return STATUS_FAILED;
  }
  if (background_begin (m->options.foreground, m->options.timeout_s, &err) == -1) {
    print_error (NAME, &err);
    return STATUS_FAILED;
  }
  return serve (m);
}

int
command_mount (int argc, char **argv)
{
  struct mount m = { .keeper = { -1 } };
  const int status = run (&m, argc, argv);

  mount_options_free (&m.options);
  return status;
}
