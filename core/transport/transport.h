/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds and opens the transport that a DEVICE argument names. */
#ifndef TRANSPORT_TRANSPORT_H
#define TRANSPORT_TRANSPORT_H

#include <stdbool.h>
#include "shingle/transport.h"

struct loaded;
struct sh_error;

struct transport {
  const struct sh_transport_ops *ops;
  void *handle;
  struct loaded *dso;           /* of a loaded one, else NULL */
  char name[128];               /* DEVICE as the user gave it */
};

/* DEVICE is `/dev/sgN` (or a block node of a SCSI disk), `emu:FILE` or
   `emu:ram:SETTING=VALUE,...`, a plain path to an emulated drive's file, or
   `NAME:ARGS`, which loads shingle-NAME-transport.so from the plugin folder
   (or from $SHINGLE_PLUGINDIR), or the object NAME itself where that is a path
   that ends in ".so" and holds a slash.  flags: SH_OPEN_*.  On failure *t
   holds nothing to close. */
int transport_open (const char *device, unsigned flags, struct transport *t,
                    struct sh_error *err);
void transport_close (struct transport *t);

/* The two that are built in. */
extern const struct sh_transport_ops sg_transport;
extern const struct sh_transport_ops emu_transport;

/* True when the path is a file that begins as an emulated drive's does. */
bool emu_file_probe (const char *path);

#endif
