/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The superblock: first block of a metadata set, 4096 bytes, little-endian,
 * with its own CRC.  Fields and rules are those of Linux dm-zoned, metadata
 * versions 1 and 2.  Pure functions, no I/O.
 */
#ifndef ZONED_SUPER_H
#define ZONED_SUPER_H

#include <stdbool.h>
#include <stdint.h>
#include "zoned/zones.h"

#define SUPER_MAGIC        UINT32_C (0x445A4244)
#define SUPER_VERSION_MAX  2
#define SUPER_LABEL_BYTES  32   /* NUL-padded; at most 31 characters */
#define SUPER_UUID_BYTES   16
#define SUPER_DEFINED_BYTES 112 /* what is behind is kept as it was read */

struct super {
  uint32_t magic;
  uint32_t version;
  uint64_t gen;                 /* generation; the higher one of two sets counts */
  uint64_t sb_block;            /* own place: zone id * blocks per zone */
  uint32_t nr_meta_blocks;      /* of one set, this block included */
  uint32_t nr_reserved;         /* sequential zones kept for reclaim */
  uint32_t nr_chunks;
  uint32_t nr_map_blocks;
  uint32_t nr_bitmap_blocks;
  uint32_t crc;                 /* as read; super_encode computes its own */
  char label[SUPER_LABEL_BYTES + 1];    /* version 2; terminated here, not on disk */
  uint8_t uuid[SUPER_UUID_BYTES];       /* version 2: of the volume */
  uint8_t dev_uuid[SUPER_UUID_BYTES];   /* version 2: of the device */
};

/* CRC-32 (reflected, 0xEDB88320) over the block with its crc field as zero,
   register started at the low half of the generation, not inverted. */
uint32_t super_crc (uint64_t gen, const uint8_t block[BLOCK_BYTES]);

/* Takes the fields out of a block, without judging them. */
void super_decode (const uint8_t block[BLOCK_BYTES], struct super *super);

/* Puts the fields (magic and label included) into a block and seals it with
   its CRC.  Bytes from SUPER_DEFINED_BYTES on are left as they are: zero for
   a new block, as read for one that is rewritten.  Version 1 gets neither
   label nor uuids. */
void super_encode (const struct super *super, uint8_t block[BLOCK_BYTES]);

/* Judges what stands for itself, in the kernel's order: magic, version, crc,
   place, uuids.  NULL: sound; else a short reason ("the checksum is wrong").
   Whether the sizes fit the drive is layout_from_super's business. */
const char *super_verify (const uint8_t block[BLOCK_BYTES], const struct super *super,
                          uint64_t want_block);

/* Both belong to one volume: same version, sizes, label and uuid. */
bool super_same_volume (const struct super *a, const struct super *b);

#endif
