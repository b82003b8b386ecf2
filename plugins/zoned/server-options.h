/* SPDX-License-Identifier: BSD-3-Clause */
/* What nbdkit was told that its API does not pass on before a client comes. */
#ifndef ZONED_SERVER_OPTIONS_H
#define ZONED_SERVER_OPTIONS_H

#include <stdbool.h>

/* Was this nbdkit started with -r (--readonly, --read-only)?  From its command
   line; false where that cannot be read. */
bool server_is_read_only (void);

#endif
