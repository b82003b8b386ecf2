/* SPDX-License-Identifier: BSD-3-Clause */
/* The emulated drive as a transport: `emu:FILE`, `emu:ram:SETTING=VALUE,...`. */
#include <config.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "transport/emu/internal.h"
#include "transport/transport.h"

#define RAM_PREFIX "ram:"

/* ---- ram: ---- */

static int
set_or_fault (struct emu_settings *s, char *pair, const char **faults, size_t *nr_faults,
              struct sh_error *err)
{
  char *value = strchr (pair, '=');

  if (value == NULL) {
    sh_fail (err, EINVAL, "emu:ram: '%s' is not SETTING=VALUE", pair);
    return sh_hint (err, "as in emu:ram:size=8G,zone-size=16M,conventional=12");
  }
  *value++ = '\0';
  if (strcmp (pair, "fault") != 0)
    return emu_settings_set (s, pair, value, err);
  faults[(*nr_faults)++] = value;
  return 0;
}

/* Settings are applied to the drive that they make, so faults wait for it. */
static int
open_ram_parts (char *args, const char **faults, struct emu **emu, struct sh_error *err)
{
  struct emu_settings s;
  size_t nr_faults = 0, i;
  char *pair;

  emu_settings_init (&s);
  while ((pair = strsep (&args, ",")) != NULL)
    if (*pair && set_or_fault (&s, pair, faults, &nr_faults, err) == -1)
      return -1;
  if (emu_open_ram (&s, emu, err) == -1)
    return -1;
  for (i = 0; i < nr_faults; ++i) {
    if (faults_add (*emu, faults[i], err) == -1) {
      emu_close (*emu);
      return -1;
    }
  }
  return 0;
}

static int
open_ram (const char *args, struct emu **emu, struct sh_error *err)
{
  char *copy = strdup (args);
  const char **faults = calloc (strlen (args) + 1, sizeof faults[0]);
  int r;

  if (copy == NULL || faults == NULL)
    r = sh_fail (err, ENOMEM, "emu:ram: out of memory");
  else
    r = open_ram_parts (copy, faults, emu, err);
  free (faults);
  free (copy);
  return r;
}

/* ---- the table ---- */

static void
put_message (const struct sh_error *err, char *message, size_t size)
{
  if (size == 0)
    return;
  snprintf (message, size, "%s%s%s", err->message, err->hint[0] ? "; " : "", err->hint);
}

static int
transport_emu_open (const char *args, unsigned flags, void **handle, char *message,
                    size_t message_size)
{
  struct sh_error err = { 0 };
  struct emu *emu;
  int r;

  if (args[0] == '\0')
    r = sh_fail (&err, EINVAL, "emu: names no drive; it is emu:FILE or emu:ram:SETTINGS");
  else if (strncmp (args, RAM_PREFIX, strlen (RAM_PREFIX)) == 0)
    r = open_ram (args + strlen (RAM_PREFIX), &emu, &err);
  else
    r = emu_open_file (args, flags, &emu, &err);
  if (r == -1) {
    put_message (&err, message, message_size);
    errno = err.errnum;
    return -1;
  }
  *handle = emu;
  return 0;
}

static void
transport_emu_close (void *handle)
{
  emu_close (handle);
}

static int
transport_emu_execute (void *handle, struct sh_command *command)
{
  return emu_execute (handle, command);
}

static void
transport_emu_limits (void *handle, struct sh_transport_limits *limits)
{
  *limits = (struct sh_transport_limits) { 0 };
}

const struct sh_transport_ops emu_transport = {
  .api = SH_TRANSPORT_API,
  .size = sizeof emu_transport,
  .name = "emu",
  .open = transport_emu_open,
  .close = transport_emu_close,
  .execute = transport_emu_execute,
  .limits = transport_emu_limits,
};

void
emu_make_transport (struct emu *emu, struct transport *t)
{
  *t = (struct transport) { .ops = &emu_transport, .handle = emu_ref (emu) };
  snprintf (t->name, sizeof t->name, "emu:%s", emu->s.serial);
}
