/* SPDX-License-Identifier: BSD-3-Clause */
#include <config.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/bytes.h"
#include "base/error.h"
#include "exports.h"

/* NBD's own limit for a name. */
#define NAME_MAX_BYTES 4096

int
exports_add (struct exports *exports, const char *device, struct sh_error *err)
{
  struct export **list, *e;

  if (device[0] == '\0') {
    sh_fail (err, EINVAL, "device= names no drive");
    return sh_hint (err, "it is /dev/sgN, emu:FILE or NAME:ARGS");
  }
  list = realloc (exports->list, (exports->nr + 1) * sizeof *list);
  if (list == NULL)
    return sh_fail (err, ENOMEM, "no memory");
  exports->list = list;
  e = calloc (1, sizeof *e);
  if (e == NULL)
    return sh_fail (err, ENOMEM, "no memory");
  e->device = device;
  e->opstats = opstats_new ();
  if (e->opstats == NULL) {
    free (e);
    return sh_fail (err, ENOMEM, "no memory");
  }
  exports->list[exports->nr++] = e;
  return 0;
}

int
exports_name_last (struct exports *exports, const char *name, struct sh_error *err)
{
  struct export *e;

  if (exports->nr == 0)
    return sh_fail (err, EINVAL,
                    "export=%s names the device= before it, and there is none", name);
  e = exports->list[exports->nr - 1];
  if (e->name) {
    sh_fail (err, EINVAL, "%s has two names: export=%s and export=%s", e->device, e->name, name);
    return sh_hint (err, "give one export=NAME behind each device=");
  }
  if (name[0] == '\0' || strlen (name) > NAME_MAX_BYTES)
    return sh_fail (err, EINVAL, "export= takes a name of 1 to %d bytes",
                    NAME_MAX_BYTES);
  e->name = strdup (name);
  return e->name ? 0 : sh_fail (err, ENOMEM, "no memory");
}

static bool
name_taken (const struct exports *exports, const struct export *but, const char *name)
{
  size_t i;

  for (i = 0; i < exports->nr; ++i)
    if (exports->list[i] != but && exports->list[i]->name &&
        strcmp (exports->list[i]->name, name) == 0)
      return true;
  return false;
}

/* The file name in "emu:/var/lib/drive.img", "/dev/sg0", "NAME:ARGS". */
static const char *
short_name (const char *device)
{
  const char *slash = strrchr (device, '/');

  return slash && slash[1] ? slash + 1 : device;
}

static int
choose_name (const struct exports *exports, struct export *e, struct sh_error *err)
{
  const char *label = sh_volume_label (e->volume);
  const char *name = e->name;

  if (name == NULL)
    name = label && label[0] && !name_taken (exports, e, label)
      ? label : short_name (e->device);
  if (name_taken (exports, e, name)) {
    sh_fail (err, EINVAL, "two exports would be named '%s'", name);
    return sh_hint (err, "give each a name of its own with export=NAME behind its device=");
  }
  if (e->name == NULL && (e->name = strdup (name)) == NULL)
    return sh_fail (err, ENOMEM, "no memory");
  return 0;
}

static const char *
model_text (const struct bdev_info *info)
{
  return info->model == BDEV_HOST_AWARE ? "host-aware" : "host-managed";
}

static int
describe (struct export *e, struct sh_error *err)
{
  const struct bdev_info *info = &e->info;
  const char *label = sh_volume_label (e->volume);

  if (asprintf (&e->description,
                "%s%s%" PRIu64 " bytes on a %s drive (%s %s), %" PRIu32 " zones of %" PRIu64
                " MiB, %" PRIu32 "-byte blocks%s",
                label ? label : "", label && label[0] ? ": " : "",
                sh_volume_size (e->volume), model_text (info), info->vendor,
                info->product, info->nr_zones, info->zone_bytes / MiB,
                info->lbs_bytes, e->read_only ? ", read-only" : "") == -1) {
    e->description = NULL;
    return sh_fail (err, ENOMEM, "no memory");
  }
  return 0;
}

int
exports_open (struct exports *exports, const struct stack_options *options,
              struct sh_error *err)
{
  size_t i;

  for (i = 0; i < exports->nr; ++i) {
    struct export *e = exports->list[i];

    e->absolute = stack_absolute_device (e->device);
    if (e->absolute == NULL)
      return sh_fail (err, errno, "%s: %s", e->device, strerror (errno));
    if (stack_open_volume (e->absolute, options, &e->volume, &e->info, &e->mq, err) == -1)
      return -1;
    e->read_only = options->read_only || e->info.read_only;
  }
  for (i = 0; i < exports->nr; ++i)
    if (choose_name (exports, exports->list[i], err) == -1 ||
        describe (exports->list[i], err) == -1)
      return -1;
  return 0;
}

int
exports_start (struct exports *exports, struct sh_error *err)
{
  size_t i;

  for (i = 0; i < exports->nr; ++i)
    if (sh_volume_start (exports->list[i]->volume, err) == -1)
      return -1;
  return 0;
}

struct export *
exports_find (const struct exports *exports, const char *name)
{
  size_t i;

  if (name[0] == '\0')
    return exports->list[0];
  for (i = 0; i < exports->nr; ++i)
    if (strcmp (exports->list[i]->name, name) == 0)
      return exports->list[i];
  return NULL;
}

void
exports_close (struct exports *exports,
               void (*report) (const struct export *e, const struct sh_error *err))
{
  size_t i;

  for (i = 0; i < exports->nr; ++i) {
    struct export *e = exports->list[i];
    struct sh_error err;

    sh_error_clear (&err);
    if (e->volume && sh_volume_close (e->volume, &err) == -1)
      report (e, &err);
    free (e->absolute);
    free (e->name);
    free (e->description);
    opstats_free (e->opstats);
    free (e);
  }
  free (exports->list);
  exports->list = NULL;
  exports->nr = 0;
}
