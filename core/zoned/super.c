/* SPDX-License-Identifier: BSD-3-Clause */
#include <config.h>
#include <string.h>
#include <zlib.h>
#include "base/bytes.h"
#include "zoned/super.h"

/* Byte offsets in the block. */
enum {
  AT_MAGIC = 0,
  AT_VERSION = 4,
  AT_GEN = 8,
  AT_SB_BLOCK = 16,
  AT_META_BLOCKS = 24,
  AT_RESERVED = 28,
  AT_CHUNKS = 32,
  AT_MAP_BLOCKS = 36,
  AT_BITMAP_BLOCKS = 40,
  AT_CRC = 44,
  AT_LABEL = 48,
  AT_UUID = 80,
  AT_DEV_UUID = 96,
};
_Static_assert (AT_LABEL + SUPER_LABEL_BYTES == AT_UUID, "label");
_Static_assert (AT_DEV_UUID + SUPER_UUID_BYTES == SUPER_DEFINED_BYTES, "uuids");

uint32_t
super_crc (uint64_t gen, const uint8_t block[BLOCK_BYTES])
{
  static const uint8_t no_crc[4];
  /* zlib inverts the register before and after. */
  uLong crc = ~(uint32_t) gen;

  crc = crc32 (crc, block, AT_CRC);
  crc = crc32 (crc, no_crc, sizeof no_crc);
  crc = crc32 (crc, block + AT_LABEL, BLOCK_BYTES - AT_LABEL);
  return ~(uint32_t) crc;
}

void
super_decode (const uint8_t block[BLOCK_BYTES], struct super *super)
{
  super->magic = get_le32 (block + AT_MAGIC);
  super->version = get_le32 (block + AT_VERSION);
  super->gen = get_le64 (block + AT_GEN);
  super->sb_block = get_le64 (block + AT_SB_BLOCK);
  super->nr_meta_blocks = get_le32 (block + AT_META_BLOCKS);
  super->nr_reserved = get_le32 (block + AT_RESERVED);
  super->nr_chunks = get_le32 (block + AT_CHUNKS);
  super->nr_map_blocks = get_le32 (block + AT_MAP_BLOCKS);
  super->nr_bitmap_blocks = get_le32 (block + AT_BITMAP_BLOCKS);
  super->crc = get_le32 (block + AT_CRC);
  memcpy (super->label, block + AT_LABEL, SUPER_LABEL_BYTES);
  super->label[SUPER_LABEL_BYTES] = '\0';
  memcpy (super->uuid, block + AT_UUID, SUPER_UUID_BYTES);
  memcpy (super->dev_uuid, block + AT_DEV_UUID, SUPER_UUID_BYTES);
}

void
super_encode (const struct super *super, uint8_t block[BLOCK_BYTES])
{
  put_le32 (block + AT_MAGIC, SUPER_MAGIC);
  put_le32 (block + AT_VERSION, super->version);
  put_le64 (block + AT_GEN, super->gen);
  put_le64 (block + AT_SB_BLOCK, super->sb_block);
  put_le32 (block + AT_META_BLOCKS, super->nr_meta_blocks);
  put_le32 (block + AT_RESERVED, super->nr_reserved);
  put_le32 (block + AT_CHUNKS, super->nr_chunks);
  put_le32 (block + AT_MAP_BLOCKS, super->nr_map_blocks);
  put_le32 (block + AT_BITMAP_BLOCKS, super->nr_bitmap_blocks);
  memset (block + AT_LABEL, 0, SUPER_DEFINED_BYTES - AT_LABEL);
  if (super->version > 1) {
    memcpy (block + AT_LABEL, super->label, SUPER_LABEL_BYTES);
    memcpy (block + AT_UUID, super->uuid, SUPER_UUID_BYTES);
    memcpy (block + AT_DEV_UUID, super->dev_uuid, SUPER_UUID_BYTES);
  }
  put_le32 (block + AT_CRC, super_crc (super->gen, block));
}

static bool
is_null_uuid (const uint8_t uuid[SUPER_UUID_BYTES])
{
  static const uint8_t null[SUPER_UUID_BYTES];

  return memcmp (uuid, null, sizeof null) == 0;
}

const char *
super_verify (const uint8_t block[BLOCK_BYTES], const struct super *super,
              uint64_t want_block)
{
  if (super->magic != SUPER_MAGIC)
    return "there is no dm-zoned superblock (magic)";
  if (super->version == 0 || super->version > SUPER_VERSION_MAX)
    return "the metadata version is unknown";
  if (super->crc != super_crc (super->gen, block))
    return "the checksum is wrong";
  if (super->sb_block != want_block)
    return "it was written for another place";
  if (super->version > 1 && is_null_uuid (super->uuid))
    return "the volume uuid is null";
  if (super->version > 1 && is_null_uuid (super->dev_uuid))
    return "the device uuid is null";
  return NULL;
}

bool
super_same_volume (const struct super *a, const struct super *b)
{
  return a->version == b->version && a->nr_meta_blocks == b->nr_meta_blocks &&
         a->nr_reserved == b->nr_reserved && a->nr_chunks == b->nr_chunks &&
         a->nr_map_blocks == b->nr_map_blocks &&
         a->nr_bitmap_blocks == b->nr_bitmap_blocks &&
         (a->version == 1 ||
          (memcmp (a->label, b->label, SUPER_LABEL_BYTES) == 0 &&
           memcmp (a->uuid, b->uuid, SUPER_UUID_BYTES) == 0));
}
