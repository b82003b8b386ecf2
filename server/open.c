/* SPDX-License-Identifier: BSD-3-Clause */
#include <config.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "args.h"
#include "base/bdev.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "commands.h"
#include "open.h"
#include "stack/stack.h"
#include "zoned/zones.h"

#define BAR_WIDTH 30
#define BAR_PERIOD_NS (100 * NS_PER_MS)

int
report_error (const struct sh_error *err)
{
  fprintf (stderr, "shingle: %s\n", err->message);
  if (err->hint[0] != '\0')
    fprintf (stderr, "hint: %s\n", err->hint);
  return err->errnum == ERRNUM_NOT_ZONED ? STATUS_NOT_ZONED : STATUS_FAILED;
}

int
take_arguments (struct args *args, void (*help) (void),
                int (*take) (void *opaque, const struct args *args, int id,
                             struct sh_error *err),
                void *opaque, bool *done)
{
  struct sh_error err = { 0 };
  int id, taken;

  *done = false;
  while ((id = args_next (args)) != ARGS_END) {
    if (id == ARGS_HELP) {
      help ();
      *done = true;
      return STATUS_OK;
    }
    taken = take (opaque, args, id, &err);
    if (taken == 1)
      return args_refuse (args, id, "DEVICE");
    if (taken == -1) {
      report_error (&err);
      return STATUS_USAGE;
    }
  }
  return STATUS_OK;
}

int
refuse_no_device (const struct args *args)
{
  fprintf (stderr, "shingle: a DEVICE is missing; '%s --help' says more\n",
           args->command_name);
  return STATUS_USAGE;
}

static void
print_log (void *opaque, enum sh_log_level level, const char *message)
{
  if (level <= SH_LOG_WARNING)
    fprintf (stderr, "shingle: %s%s\n", level == SH_LOG_WARNING ? "warning: " : "", message);
}

const struct sh_log log_to_stderr = { .fn = print_log };

int
open_device (const char *device, unsigned flags, struct bdev **bdev, struct sh_error *err)
{
  struct stack_options options;

  stack_options_init (&options);
  options.read_only = flags & OPEN_READ_ONLY;
  options.exclusive = flags & OPEN_EXCLUSIVE;
  options.volume.log = &log_to_stderr;
  return stack_open_device (device, &options, bdev, err);
}

const char *
size_text (uint64_t bytes, char text[SIZE_TEXT])
{
  static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
  unsigned unit = 0;

  while (unit + 1 < ARRAY_SIZE (units) && bytes >> 10 * (unit + 1) != 0)
    unit++;
  if (bytes % (UINT64_C (1) << 10 * unit) == 0)
    snprintf (text, SIZE_TEXT, "%" PRIu64 " %s", bytes >> 10 * unit, units[unit]);
  else
    snprintf (text, SIZE_TEXT, "%.1f %s", (double) bytes / (UINT64_C (1) << 10 * unit),
              units[unit]);
  return text;
}

const char *
uuid_text (const uint8_t uuid[16], char text[UUID_TEXT])
{
  size_t i, n = 0;

  for (i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10)
      text[n++] = '-';
    n += snprintf (text + n, UUID_TEXT - n, "%02x", uuid[i]);
  }
  return text;
}

static void
draw (void *opaque, const char *what, uint64_t done, uint64_t total)
{
  static const char full[BAR_WIDTH + 1] = "##############################";
  struct progress_bar *bar = opaque;
  const uint64_t now = sh_now (&sh_clock_monotonic);
  int width;

  if (total == 0 || (now < bar->next_ns && done < total))
    return;
  bar->next_ns = now + BAR_PERIOD_NS;
  bar->shown = true;
  width = (double) done / total * BAR_WIDTH;
  printf ("\r%-24s [%-*.*s] %3d%%", what, BAR_WIDTH, width, full,
          (int) ((double) done / total * 100));
  fflush (stdout);
}

void
progress_bar_init (struct progress_bar *bar)
{
  memset (bar, 0, sizeof *bar);
  if (isatty (STDOUT_FILENO))
    bar->progress = (struct sh_progress) { .fn = draw, .opaque = bar };
}

void
progress_bar_end (struct progress_bar *bar)
{
  if (bar->shown)
    printf ("\r%*s\r", BAR_WIDTH + 33, "");
  bar->shown = false;
  fflush (stdout);
}
