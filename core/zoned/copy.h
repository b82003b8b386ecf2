/* SPDX-License-Identifier: BSD-3-Clause */
/* The copying of reclaim: one chunk from one form into another. */
#ifndef ZONED_COPY_H
#define ZONED_COPY_H

#include "zoned/running.h"

enum copy_form {
  COPY_EMPTY,
  COPY_APPEND,
  COPY_MOVE,
  COPY_MERGE,
};

/* All are called by the holder of v->reclaiming, as a user of the chunk, with the
   lock held, and drop it.  1: a zone will come back; 0: the chunk was changed
   meanwhile and nothing was gained; -1 with errno: nothing has changed, or only
   from one legal state into another. */
int copy_append (struct sh_volume *v, struct chunk *ch);
int copy_move (struct sh_volume *v, struct chunk *ch);
int copy_merge (struct sh_volume *v, struct chunk *ch);
/* For a writer, not for reclaim: appends all blocks from the write pointer up to `end`,
   which the buffer zone holds.  The caller has the range and has said that an append
   is on its way.  If it fails, no more is appended to the zone.  Drops the lock. */
void copy_gap (struct sh_volume *v, struct chunk *ch, uint32_t end);

#endif
