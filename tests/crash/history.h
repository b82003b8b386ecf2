/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What each block of a volume may hold after a power cut.
 *
 * Every change of a block is a version of it, known by a hash, with the moment in
 * the journal of commands when its call began.  A flush makes all versions whose
 * calls had ended before it began durable, from the moment on when it ended.
 * After a cut at moment k a block may hold its last durable version or any later
 * one whose call had begun; nothing else.
 */
#ifndef HISTORY_H
#define HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SECTORS 8               /* of a block */

struct version {
  uint64_t hash[SECTORS];
  size_t begun;                 /* journal entries when the call began */
  size_t durable;               /* from this many entries on; SIZE_MAX: not yet */
  bool ended;
};

struct block_history {
  struct version *versions;
  uint32_t nr, room;
};

struct history {
  struct block_history *blocks;
  uint64_t nr_blocks;
};

void history_init (struct history *h, uint64_t nr_blocks);
void history_free (struct history *h);

/* A call begins to give blocks [first, first + nr) the content of `model` (the
   whole volume's). */
void history_begin (struct history *h, uint64_t first, uint64_t nr,
                    const uint8_t *model, size_t now);
/* It ended; durable: with FUA. */
void history_end (struct history *h, uint64_t first, uint64_t nr, bool durable,
                  size_t now);
/* A flush that began when only what had ended then was there (see
   history_flush_begin) ended. */
void history_flush_begin (struct history *h, uint32_t *marks);
void history_flush_end (struct history *h, const uint32_t *marks, size_t now);
/* May block b hold `content` after a cut at moment k?  torn: the drive loses
   sectors, so each sector by itself. */
bool history_allows (const struct history *h, uint64_t b, const uint8_t *content,
                     size_t k, bool torn);

#endif
