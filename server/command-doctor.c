/* SPDX-License-Identifier: BSD-3-Clause */
/* `shingle doctor`: what this machine and its drives can do, what is missing,
 * and the next command to type. */
#include <config.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#define FUSE_USE_VERSION 35
#include <fuse3/fuse_lowlevel.h>
#include <libnbd.h>

#include "args.h"
#include "base/bytes.h"
#include "base/error.h"
#include "commands.h"
#include "find.h"
#include "open.h"
#include "stack/stack.h"
#include "zoned/sets.h"
#include "zoned/zones.h"

#define NAME "shingle doctor"

static const struct arg_option options[] = {
  { 0 }
};

static void
help (void)
{
  printf ("Says what this machine and a drive can do, and what to type next.\n\n"
          "Usage: shingle doctor [DEVICE]\n\n"
          "Without DEVICE it looks at every SCSI disk of this machine.  Nothing is written.\n\n");
  args_print_options (options);
}

/*--- lines ------------------------------------------------------------------*/

enum verdict { GOOD, MISSING, BAD, NOTE };

/* How many problems stand in the way of serving a drive at all. */
static unsigned problems;

static void __attribute__ ((format (printf, 3, 4)))
say (enum verdict v, const char *what, const char *fmt, ...)
{
  static const char *const marks[] = {
    [GOOD] = "ok", [MISSING] = "missing", [BAD] = "PROBLEM", [NOTE] = "",
  };
  va_list ap;

  printf ("%-8s %-18s ", marks[v], what);
  va_start (ap, fmt);
  vprintf (fmt, ap);
  va_end (ap);
  putchar ('\n');
  problems += v == BAD;
}

static void __attribute__ ((format (printf, 1, 2)))
advise (const char *fmt, ...)
{
  va_list ap;

  printf ("%-27s  -> ", "");
  va_start (ap, fmt);
  vprintf (fmt, ap);
  va_end (ap);
  putchar ('\n');
}

/*--- the machine ------------------------------------------------------------*/

/* First line that a command prints, without its newline; false if it fails. */
static bool
first_line (const char *command, char line[128])
{
  FILE *in = popen (command, "r");
  bool got;

  if (!in)
    return false;
  got = fgets (line, 128, in) != NULL;
  line[strcspn (line, "\n")] = '\0';
  return pclose (in) == 0 && got;
}

static void
check_nbdkit (void)
{
  char line[128], *path;
  bool found;

  if (!find_program ("nbdkit")) {
    say (BAD, "nbdkit", "not installed: nothing can be served over NBD");
    advise ("apt-get install nbdkit");
    return;
  }
  say (GOOD, "nbdkit", "%s", first_line ("nbdkit --version", line) ? line : "?");
  path = find_nbdkit_object ("plugin", "zoned", &found);
  if (path && found)
    say (GOOD, "plugin zoned", "%s", path);
  else {
    say (BAD, "plugin zoned", "not in " NBDKIT_PLUGINDIR);
    advise ("make install, or the package shingle");
  }
  free (path);
}

static void
check_fuse (void)
{
  struct nbd_handle *nbd = nbd_create ();
  const int fd = open ("/dev/fuse", O_RDWR | O_CLOEXEC);

  say (GOOD, "libraries", "libfuse %s, libnbd %s", fuse_pkgversion (),
       nbd ? nbd_get_version (nbd) : "?");
  nbd_close (nbd);
  if (fd == -1) {
    say (MISSING, "FUSE", "/dev/fuse: %s; 'shingle mount' will not work", strerror (errno));
    if (errno == ENOENT)
      advise ("modprobe fuse (in a container: give it the device /dev/fuse)");
    else
      advise ("as root: chmod 666 /dev/fuse");
    return;
  }
  close (fd);
  if (geteuid () != 0 && !find_program ("fusermount3")) {
    say (MISSING, "FUSE", "fusermount3 is not installed; only root can mount");
    advise ("apt-get install fuse3");
    return;
  }
  say (GOOD, "FUSE", "'shingle mount' can show volumes as files");
}

/* True when modules.dep of the running kernel, or its built-in list, has it. */
static bool
kernel_has_module (const char *name)
{
  static const char *const lists[] = { "dep", "builtin" };
  struct utsname u;
  char path[512], wanted[64], line[4096];
  bool has = false;
  size_t i;

  snprintf (path, sizeof path, "/sys/module/%s", name);
  if (access (path, F_OK) == 0)
    return true;
  if (uname (&u) == -1)
    return false;
  snprintf (wanted, sizeof wanted, "/%s.ko", name);
  for (i = 0; !has && i < ARRAY_SIZE (lists); ++i) {
    FILE *in;

    snprintf (path, sizeof path, "/lib/modules/%s/modules.%s", u.release, lists[i]);
    in = fopen (path, "re");
    if (!in)
      continue;
    while (!has && fgets (line, sizeof line, in))
      has = strstr (line, wanted) != NULL;
    fclose (in);
  }
  return has;
}

static void
check_nbd_device (void)
{
  if (access ("/sys/block/nbd0", F_OK) != 0 && !kernel_has_module ("nbd")) {
    say (MISSING, "kernel NBD", "this kernel has no nbd module; /dev/nbd0 will not work");
    advise ("use 'shingle mount' and, for a block device, losetup on its file");
    return;
  }
  if (!find_program ("nbd-client")) {
    say (MISSING, "kernel NBD", "the kernel has it, but nbd-client is not installed");
    advise ("apt-get install nbd-client");
    return;
  }
  say (GOOD, "kernel NBD", "nbd-client can make a block device of an export");
  if (access ("/sys/block/nbd0", F_OK) != 0)
    advise ("modprobe nbd");
}

static void
check_zoned_kernel (void)
{
  if (access ("/sys/module/dm_zoned", F_OK) == 0 || kernel_has_module ("dm-zoned"))
    say (GOOD, "kernel dm-zoned", "this kernel can open Shingle's volumes, too");
  else
    say (NOTE, "kernel dm-zoned", "this kernel has none; Shingle needs none");
}

static void
check_machine (void)
{
  struct utsname u;

  if (uname (&u) == 0)
    say (NOTE, "system", "%s %s %s", u.sysname, u.release, u.machine);
  check_nbdkit ();
  check_fuse ();
  check_nbd_device ();
  check_zoned_kernel ();
}

/*--- drives -----------------------------------------------------------------*/

static void
judge_volume (struct bdev *bdev, const char *device)
{
  struct sh_error err = { 0 };
  struct zone_table *table;
  struct meta_sets sets;

  memset (&sets, 0, sizeof sets);
  if (zone_table_read (bdev, &table, &err) == -1) {
    say (BAD, "zones", "%s", err.message);
    return;
  }
  if (meta_sets_read (bdev, table, &sets, &err) == 0) {
    char size[SIZE_TEXT];

    size_text (layout_volume_bytes (&sets.layout), size);
    say (GOOD, "volume", "%s, formatted%s", size,
         sets.set[0].good && sets.set[1].good ? ""
         : "; one of its two metadata sets is damaged");
    if (!sets.set[0].good || !sets.set[1].good)
      advise ("shingle check --repair %s", device);
    advise ("shingle serve %s", device);
    advise ("shingle mount %s MOUNTPOINT", device);
  }
  else if (sets.set[0].present || sets.set[1].present) {
    say (BAD, "volume", "there was one, but %s", err.message);
    advise ("shingle check %s", device);
  }
  else {
    say (NOTE, "volume", "none on it yet");
    advise ("shingle format %s        (erases what is on the drive)", device);
  }
  zone_table_free (table);
}

static void
judge_model (struct bdev *bdev, const char *device)
{
  const struct bdev_info *i = &bdev->info;
  char size[SIZE_TEXT];

  size_text (i->size_bytes, size);
  say (NOTE, "drive", "%s %s %s, serial %s, %s, %u-byte blocks", i->vendor, i->product,
       i->revision, i->serial[0] ? i->serial : "unknown", size, i->lbs_bytes);
  switch (i->model) {
  case BDEV_HOST_MANAGED:
    say (GOOD, "model", "host-managed: this is what Shingle is for");
    break;
  case BDEV_HOST_AWARE:
    say (GOOD, "model", "host-aware: works alone, and faster with Shingle");
    break;
  case BDEV_DRIVE_MANAGED:
    say (NOTE, "model", "drive-managed: it shingles inside and hides it; use it as any disk");
    return;
  case BDEV_NOT_ZONED:
    say (NOTE, "model", "an ordinary disk, not zoned; it needs no Shingle");
    return;
  }
  size_text (i->zone_bytes, size);
  say (NOTE, "zones", "%u of %s, %s open at once", i->nr_zones, size,
       i->max_open_zones ? "limited" : "any number");
  if (i->write_cache && !i->fua)
    say (NOTE, "write cache", "on; every durable write costs a cache flush");
  judge_volume (bdev, device);
}

static void
explain_failure (const char *device, const struct sh_error *err)
{
  say (BAD, "access", "%s", err->message);
  if (err->errnum == EACCES || err->errnum == EPERM)
    advise ("as root, or: usermod -aG disk $USER, then log in again");
  else if (err->errnum == EBUSY)
    advise ("something uses it: a server, a file system, or 'shingle mount'");
  else if (err->hint[0])
    advise ("%s", err->hint);
}

static void
check_drive (const char *device)
{
  struct stack_options stack;
  struct sh_error err = { 0 };
  struct bdev *bdev;

  printf ("\n%s\n", device);
  stack_options_init (&stack);
  stack.read_only = true;
  stack.exclusive = false;
  if (stack_open_device (device, &stack, &bdev, &err) == -1) {
    explain_failure (device, &err);
    return;
  }
  judge_model (bdev, device);
  bdev_close (bdev);
}

/* Type 0 is a disk, 0x14 a host-managed zoned one. */
static bool
is_disk (const char *sg)
{
  char path[256], line[16] = "";
  const char *name = strrchr (sg, '/');
  FILE *in;
  long type;

  snprintf (path, sizeof path, "/sys/class/scsi_generic%s/device/type", name ? name : "");
  in = fopen (path, "re");
  if (!in)
    return true;
  if (!fgets (line, sizeof line, in))
    line[0] = '\0';
  fclose (in);
  type = strtol (line, NULL, 10);
  return type == 0 || type == 0x14;
}

static void
check_all_drives (void)
{
  unsigned disks = 0;
  glob_t g;
  size_t i;

  if (glob ("/dev/sg[0-9]*", 0, NULL, &g) == 0) {
    for (i = 0; i < g.gl_pathc; ++i)
      if (is_disk (g.gl_pathv[i])) {
        check_drive (g.gl_pathv[i]);
        disks++;
      }
    globfree (&g);
  }
  if (disks > 0)
    return;
  printf ("\n");
  say (NOTE, "drives", "no SCSI disk here");
  if (!kernel_has_module ("sg"))
    advise ("this kernel has no sg module; drives need one with it");
  else if (access ("/sys/module/sg", F_OK) != 0)
    advise ("modprobe sg, then look again");
  advise ("to try without a drive: shingle emu create drive.img --size=1G");
  advise ("                        shingle format drive.img");
}

int
command_doctor (int argc, char **argv)
{
  const char *device = NULL;
  struct args a;
  int id;

  args_init (&a, NAME, options, argc, argv);
  while ((id = args_next (&a)) != ARGS_END) {
    if (id == ARGS_HELP) {
      help ();
      return STATUS_OK;
    }
    if (id == ARGS_WORD && !device)
      device = a.value;
    else
      return args_refuse (&a, id, "DEVICE");
  }
  check_machine ();
  if (device)
    check_drive (device);
  else
    check_all_drives ();
  printf ("\n%s\n", problems == 0 ? "Nothing stands in the way."
          : "The lines marked PROBLEM need attention.");
  return problems == 0 ? STATUS_OK : STATUS_FAILED;
}
