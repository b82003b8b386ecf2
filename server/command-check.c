/* SPDX-License-Identifier: BSD-3-Clause */
/* shingle check: what is wrong with a volume's metadata, and mending it. */
#include <config.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "args.h"
#include "base/bdev.h"
#include "base/error.h"
#include "base/text.h"
#include "commands.h"
#include "open.h"
#include "zoned/check.h"

#define LINES_MAX 200           /* printed without --all */

enum { OPT_REPAIR = 256, OPT_ALL };

static const struct arg_option options[] = {
  { OPT_REPAIR, 0, "repair", NULL, "mend what is wrong" },
  { OPT_ALL, 0, "all", NULL, "print every finding, not the first 200" },
  { 0, 0, NULL, NULL, NULL }
};

struct request {
  const char *device;
  bool repair, all;
};

/* Prints findings under the progress bar. */
struct printer {
  struct progress_bar bar;
  bool all;
  uint64_t lines;
};

static void
help (void)
{
  printf ("Usage: shingle check DEVICE [OPTIONS]\n\n"
          "Checks the metadata of a volume that is not in use.  Exit status: 0 clean (or\n"
          "repaired), 1 something is wrong, 2 wrong usage, 3 not a zoned drive.\n\n");
  args_print_options (options);
}

static int
parse (int argc, char **argv, struct request *r, bool *done)
{
  struct args a;
  int id;

  *done = false;
  args_init (&a, "shingle check", options, argc, argv);
  while ((id = args_next (&a)) != ARGS_END) {
    if (id == ARGS_HELP) {
      help ();
      *done = true;
      return STATUS_OK;
    }
    if (id == OPT_REPAIR)
      r->repair = true;
    else if (id == OPT_ALL)
      r->all = true;
    else if (id == ARGS_WORD && r->device == NULL)
      r->device = a.value;
    else
      return args_refuse (&a, id, "DEVICE");
  }
  return r->device ? STATUS_OK : refuse_no_device (&a);
}

static void
print_finding (void *opaque, enum check_kind kind, const char *text)
{
  struct printer *p = opaque;

  if (!p->all && p->lines++ >= LINES_MAX)
    return;
  progress_bar_end (&p->bar);
  printf ("%s: %s\n", kind == CHECK_ERROR ? "error" : "note", text);
}

static void
print_summary (const struct request *r, const struct check_result *c)
{
  const struct layout *l = &c->layout;
  char label[SUPER_LABEL_BYTES + 1], valid[SIZE_TEXT];

  printf ("%s: volume \"%s\", version %" PRIu32 ", generation %" PRIu64 ": %" PRIu32 " of %"
          PRIu32 " chunks mapped, %" PRIu32 " buffered, %s of data\n", r->device,
          sh_printable (c->super.label, label, sizeof label), c->super.version, c->super.gen,
          c->chunks_mapped, l->nr_chunks, c->chunks_buffered,
          size_text (c->valid_blocks * BLOCK_BYTES, valid));
  if (c->errors == 0)
    printf ("%s: clean\n", r->device);
  else
    printf ("%s: %" PRIu64 " error%s found\n", r->device, c->errors, c->errors == 1 ? "" : "s");
  if (r->repair && c->repaired > 0)
    printf ("%s: repaired (%" PRIu64 " metadata blocks written or zones reset)\n",
            r->device, c->repaired);
  if (c->unrepaired > 0 && r->repair)
    printf ("%s: %" PRIu64 " of them cannot be repaired\n", r->device, c->unrepaired);
  else if (c->errors > 0 && !r->repair)
    printf ("hint: 'shingle check --repair %s' mends what can be mended\n", r->device);
}

static int
check (struct bdev *bdev, const struct request *r, struct check_result *result,
       struct sh_error *err)
{
  struct printer p = { .all = r->all };
  const struct check_options o = {
    .repair = r->repair,
    .report = print_finding,
    .report_opaque = &p,
    .progress = &p.bar.progress,
  };
  int status;

  progress_bar_init (&p.bar);
  status = check_volume (bdev, &o, result, err);
  progress_bar_end (&p.bar);
  if (!r->all && p.lines > LINES_MAX)
    printf ("... and %" PRIu64 " more (--all prints them)\n", p.lines - LINES_MAX);
  return status;
}

int
command_check (int argc, char **argv)
{
  struct request r = { 0 };
  struct sh_error err = { 0 };
  struct check_result result;
  struct bdev *bdev;
  bool done;
  int status = parse (argc, argv, &r, &done);

  if (status != STATUS_OK || done)
    return status;
  if (open_device (r.device, OPEN_EXCLUSIVE | (r.repair ? 0 : OPEN_READ_ONLY),
                   &bdev, &err) == -1)
    return report_error (&err);
  if (check (bdev, &r, &result, &err) == -1)
    status = report_error (&err);
  else {
    print_summary (&r, &result);
    if (result.errors > 0 && (!r.repair || result.unrepaired > 0))
      status = STATUS_FAILED;
  }
  bdev_close (bdev);
  return status;
}
