/* SPDX-License-Identifier: BSD-3-Clause */
#include <config.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/bytes.h"
#include "base/error.h"
#include "drives.h"
#include "scsi/disk.h"
#include "transport/transport.h"

/* NBD's own limit for a name. */
#define NAME_MAX_BYTES 4096

int
drives_add (struct drives *drives, const char *device, struct sh_error *err)
{
  struct drive **list, *d;

  if (device[0] == '\0') {
    sh_fail (err, EINVAL, "device= names no drive");
    return sh_hint (err, "it is /dev/sgN, emu:FILE or NAME:ARGS");
  }
  list = realloc (drives->list, (drives->nr + 1) * sizeof *list);
  if (list == NULL)
    return sh_fail (err, ENOMEM, "no memory");
  drives->list = list;
  d = calloc (1, sizeof *d);
  if (d == NULL)
    return sh_fail (err, ENOMEM, "no memory");
  d->device = device;
  pthread_rwlock_init (&d->blocks, NULL);
  drives->list[drives->nr++] = d;
  return 0;
}

int
drives_name_last (struct drives *drives, const char *name, struct sh_error *err)
{
  struct drive *d;

  if (drives->nr == 0)
    return sh_fail (err, EINVAL, "export=%s names the device= before it, and there is none",
                    name);
  d = drives->list[drives->nr - 1];
  if (d->name) {
    sh_fail (err, EINVAL, "%s has two names: export=%s and export=%s", d->device, d->name, name);
    return sh_hint (err, "give one export=NAME behind each device=");
  }
  if (name[0] == '\0' || strlen (name) > NAME_MAX_BYTES)
    return sh_fail (err, EINVAL, "export= takes a name of 1 to %d bytes", NAME_MAX_BYTES);
  d->name = strdup (name);
  return d->name ? 0 : sh_fail (err, ENOMEM, "no memory");
}

static char *
absolute_path (const char *prefix, const char *path)
{
  char cwd[PATH_MAX], *s;

  if (path[0] == '/')
    return asprintf (&s, "%s%s", prefix, path) == -1 ? NULL : s;
  if (getcwd (cwd, sizeof cwd) == NULL)
    return NULL;
  return asprintf (&s, "%s%s/%s", prefix, cwd, path) == -1 ? NULL : s;
}

/* nbdkit goes to "/" when it becomes a daemon.  What is no path, and arguments
   of loaded transports, stay as they are. */
static char *
absolute_device (const char *device)
{
  struct stat st;

  if (stat (device, &st) == 0 || strchr (device, ':') == NULL)
    return absolute_path ("", device);
  if (strncmp (device, "emu:", 4) == 0 && device[4] && strncmp (device, "emu:ram:", 8) != 0)
    return absolute_path ("emu:", device + 4);
  if (strncmp (device, "sg:", 3) == 0 && device[3])
    return absolute_path ("sg:", device + 3);
  return strdup (device);
}

static int
open_as (struct drive *d, unsigned flags, const struct drives_options *options,
         struct sh_error *err)
{
  const struct disk_options disk_options = {
    .read_only = (flags & SH_OPEN_READ_ONLY) != 0,
    .log = options->log,
  };
  struct transport t;

  if (transport_open (d->absolute, flags, &t, err) == -1)
    return -1;
  if (disk_open (&t, &disk_options, &d->bdev, err) == -1) {
    transport_close (&t);
    d->bdev = NULL;
    return -1;
  }
  return 0;
}

/* Whether a drive takes writes at any place is known once it is open, so it is
   opened for reading first, unless the user has decided already. */
static int
open_drive (struct drive *d, const struct drives_options *options, struct sh_error *err)
{
  const unsigned write_flags = SH_OPEN_EXCLUSIVE;

  if (options->raw)
    return open_as (d, write_flags, options, err);
  if (open_as (d, SH_OPEN_READ_ONLY, options, err) == -1)
    return -1;
  if (options->read_only || d->bdev->info.model == BDEV_HOST_MANAGED)
    return 0;
  bdev_close (d->bdev);
  d->bdev = NULL;
  return open_as (d, write_flags, options, err);
}

/* The file name in "emu:/var/lib/drive.img", "/dev/sg0", "NAME:ARGS". */
static const char *
short_name (const char *device)
{
  const char *slash = strrchr (device, '/');

  return slash && slash[1] ? slash + 1 : device;
}

static int
choose_name (const struct drives *drives, struct drive *d, struct sh_error *err)
{
  if (d->name == NULL && (d->name = strdup (short_name (d->device))) == NULL)
    return sh_fail (err, ENOMEM, "no memory");
  for (size_t i = 0; i < drives->nr; ++i) {
    const struct drive *other = drives->list[i];

    if (other != d && other->name && strcmp (other->name, d->name) == 0) {
      sh_fail (err, EINVAL, "two exports would be named '%s'", d->name);
      return sh_hint (err, "Give each a name of its own with export=NAME behind its "
                      "device=.");
    }
  }
  return 0;
}

static const char *
model_text (enum bdev_zoned_model model)
{
  switch (model) {
  case BDEV_HOST_MANAGED: return "host-managed drive";
  case BDEV_HOST_AWARE: return "host-aware drive";
  case BDEV_DRIVE_MANAGED: return "drive-managed disk";
  case BDEV_NOT_ZONED: break;
  }
  return "disk";
}

static int
describe (struct drive *d, struct sh_error *err)
{
  const struct bdev_info *info = &d->bdev->info;
  char zones[80] = "";

  if (info->zone_bytes)
    snprintf (zones, sizeof zones, ", %" PRIu32 " zones of %" PRIu64 " KiB",
              info->nr_zones, info->zone_bytes / KiB);
  if (asprintf (&d->description, "%s %s, a %s of %" PRIu64 " bytes%s, %" PRIu32
                "-byte blocks%s", info->vendor, info->product, model_text (info->model),
                info->size_bytes, zones, info->lbs_bytes,
                d->writable ? "" : ", read-only") == -1) {
    d->description = NULL;
    return sh_fail (err, ENOMEM, "no memory");
  }
  return 0;
}

int
drives_open (struct drives *drives, const struct drives_options *options,
             struct sh_error *err)
{
  for (size_t i = 0; i < drives->nr; ++i) {
    struct drive *d = drives->list[i];

    d->absolute = absolute_device (d->device);
    if (d->absolute == NULL)
      return sh_fail (err, errno, "%s: %s", d->device, strerror (errno));
    if (open_drive (d, options, err) == -1 || choose_name (drives, d, err) == -1)
      return -1;
    d->writable = !d->bdev->info.read_only;
    if (describe (d, err) == -1)
      return -1;
  }
  return 0;
}

struct drive *
drives_find (const struct drives *drives, const char *name)
{
  if (name[0] == '\0')
    return drives->list[0];
  for (size_t i = 0; i < drives->nr; ++i)
    if (strcmp (drives->list[i]->name, name) == 0)
      return drives->list[i];
  return NULL;
}

void
drives_close (struct drives *drives)
{
  for (size_t i = 0; i < drives->nr; ++i) {
    struct drive *d = drives->list[i];

    if (d->bdev)
      bdev_close (d->bdev);
    pthread_rwlock_destroy (&d->blocks);
    free (d->absolute);
    free (d->name);
    free (d->description);
    free (d);
  }
  free (drives->list);
  drives->list = NULL;
  drives->nr = 0;
}
