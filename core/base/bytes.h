/* SPDX-License-Identifier: BSD-3-Clause */
/* Big-endian (SCSI) and little-endian (dm-zoned) integers in byte buffers,
 * small arithmetic, and checked arithmetic for whatever came from outside. */
#ifndef BASE_BYTES_H
#define BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define ARRAY_SIZE(a) (sizeof (a) / sizeof ((a)[0]))
#define DIV_ROUND_UP(a, b) (((a) / (b)) + ((a) % (b) != 0))

#define KiB UINT64_C (1024)
#define MiB (KiB * 1024)
#define GiB (MiB * 1024)
#define TiB (GiB * 1024)

/* True when the sum or product does not fit; *r is then meaningless. */
#define ADD_OVERFLOW(a, b, r) __builtin_add_overflow ((a), (b), (r))
#define MUL_OVERFLOW(a, b, r) __builtin_mul_overflow ((a), (b), (r))

static inline bool
is_power_of_2 (uint64_t v)
{
  return v != 0 && (v & (v - 1)) == 0;
}

static inline uint16_t
get_be16 (const void *p)
{
  const uint8_t *b = p;
  return (uint16_t) (b[0] << 8 | b[1]);
}

static inline uint32_t
get_be24 (const void *p)
{
  const uint8_t *b = p;
  return (uint32_t) b[0] << 16 | b[1] << 8 | b[2];
}

static inline uint32_t
get_be32 (const void *p)
{
  const uint8_t *b = p;
  return (uint32_t) b[0] << 24 | (uint32_t) b[1] << 16 | b[2] << 8 | b[3];
}

static inline uint64_t
get_be64 (const void *p)
{
  return (uint64_t) get_be32 (p) << 32 | get_be32 ((const uint8_t *) p + 4);
}

static inline void
put_be16 (void *p, uint16_t v)
{
  uint8_t *b = p;
  b[0] = v >> 8;
  b[1] = v & 0xff;
}

static inline void
put_be24 (void *p, uint32_t v)
{
  uint8_t *b = p;
  b[0] = v >> 16 & 0xff;
  b[1] = v >> 8 & 0xff;
  b[2] = v & 0xff;
}

static inline void
put_be32 (void *p, uint32_t v)
{
  uint8_t *b = p;
  b[0] = v >> 24;
  b[1] = v >> 16 & 0xff;
  b[2] = v >> 8 & 0xff;
  b[3] = v & 0xff;
}

static inline void
put_be64 (void *p, uint64_t v)
{
  put_be32 (p, v >> 32);
  put_be32 ((uint8_t *) p + 4, (uint32_t) v);
}

static inline uint32_t
get_le32 (const void *p)
{
  const uint8_t *b = p;
  return (uint32_t) b[3] << 24 | (uint32_t) b[2] << 16 | b[1] << 8 | b[0];
}

static inline uint64_t
get_le64 (const void *p)
{
  return (uint64_t) get_le32 ((const uint8_t *) p + 4) << 32 | get_le32 (p);
}

static inline void
put_le32 (void *p, uint32_t v)
{
  uint8_t *b = p;
  b[0] = v & 0xff;
  b[1] = v >> 8 & 0xff;
  b[2] = v >> 16 & 0xff;
  b[3] = v >> 24;
}

static inline void
put_le64 (void *p, uint64_t v)
{
  put_le32 (p, (uint32_t) v);
  put_le32 ((uint8_t *) p + 4, v >> 32);
}

#endif
