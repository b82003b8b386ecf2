/* SPDX-License-Identifier: BSD-3-Clause */
/* What the commands that take a DEVICE share: opening it, telling people of
 * errors, sizes and progress. */
#ifndef SERVER_OPEN_H
#define SERVER_OPEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/progress.h"

struct args;
struct bdev;
struct sh_error;
struct sh_log;

/* "shingle: MESSAGE" and, below it, the hint, on stderr.  Returns the exit
   status that belongs to the error: STATUS_NOT_ZONED for a drive without
   zones, else STATUS_FAILED. */
int report_error (const struct sh_error *err);

/* Every argument of a command whose one word is its DEVICE goes to `take`, which returns
   0, 1 when there is no such one, or -1 with err.  STATUS_OK to go on, or with *done after
   `help`; else the status to end with. */
int take_arguments (struct args *args, void (*help) (void),
                    int (*take) (void *opaque, const struct args *args, int id,
                                 struct sh_error *err),
                    void *opaque, bool *done);

/* There is no DEVICE on the command line.  Returns STATUS_USAGE. */
int refuse_no_device (const struct args *args);

/* Warnings and errors of core/ as "shingle: TEXT" on stderr. */
extern const struct sh_log log_to_stderr;

#define OPEN_READ_ONLY 1u
#define OPEN_EXCLUSIVE 2u       /* refused while anybody else uses the drive */

/* DEVICE to a bdev; 0, or -1 with err. */
int open_device (const char *device, unsigned flags, struct bdev **bdev,
                 struct sh_error *err);

/* "1.5 TiB", "16 MiB", "512 B": exact where a whole number of units, else with
   one decimal.  Returns text. */
#define SIZE_TEXT 24
const char *size_text (uint64_t bytes, char text[SIZE_TEXT]);

/* "047f1cee-8710-40c7-9944-7b65ac96a622".  Returns text. */
#define UUID_TEXT 37
const char *uuid_text (const uint8_t uuid[16], char text[UUID_TEXT]);

/* A bar on stdout while it is a terminal; nothing otherwise.  Call
   progress_bar_end before printing anything else. */
struct progress_bar {
  struct sh_progress progress;  /* to hand to core/ */
  uint64_t next_ns;             /* when to draw again */
  bool shown;
};
void progress_bar_init (struct progress_bar *bar);
void progress_bar_end (struct progress_bar *bar);

#endif
