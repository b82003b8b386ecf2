/* SPDX-License-Identifier: BSD-3-Clause */
/* Loads a transport from a shared object. */
#ifndef TRANSPORT_LOADER_H
#define TRANSPORT_LOADER_H

#include "shingle/transport.h"

struct sh_error;

struct loaded {                 /* one loaded transport */
  void *dl;
  struct sh_transport_ops ops;  /* its table, members it does not have are NULL */
};

/* `name` is a NAME (shingle-NAME-transport.so in the plugin folder, or in the
   folder that the environment variable SHINGLE_PLUGINDIR names) or a path,
   which holds a slash. */
int loader_open (const char *name, struct loaded **loaded, struct sh_error *err);
void loader_close (struct loaded *loaded);

#endif
