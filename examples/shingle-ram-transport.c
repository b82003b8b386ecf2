/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A sample transport: a plain disk in memory, gone when it is closed.
 *
 *   nbdkit sg ./shingle-ram-transport.so:size=64M
 *
 * or, installed beside the plugins (or with SHINGLE_PLUGINDIR set),
 *
 *   nbdkit sg ram:size=64M
 *
 * It needs nothing but shingle/transport.h:
 *
 *   cc -shared -fPIC -o shingle-ram-transport.so shingle-ram-transport.c
 *
 * The steps are those of any transport: open makes a handle from the text
 * behind the colon; execute runs one command and fills in status, sense and
 * residual, called by many threads at once; close frees the handle.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <shingle/transport.h>

#define BLOCK_BYTES 512u

struct ram {
  uint64_t blocks;
  char *data;                   /* zeroes to begin with */
};

/* ---- open, close ---- */

static int
parse_size (const char *text, uint64_t *bytes)
{
  char *end;
  unsigned long long n;

  errno = 0;
  n = strtoull (text, &end, 10);
  if (end == text || text[0] == '-' || errno)
    return -1;
  switch (*end) {
  case '\0': *bytes = n; return 0;
  case 'K': *bytes = n << 10; break;
  case 'M': *bytes = n << 20; break;
  case 'G': *bytes = n << 30; break;
  default: return -1;
  }
  return end[1] == '\0' && n <= UINT64_MAX >> 30 ? 0 : -1;
}

static int
refuse (char *message, size_t size, int errnum, const char *args, const char *why)
{
  snprintf (message, size, "ram:%s: %s", args, why);
  errno = errnum;
  return -1;
}

static int
ram_open (const char *args, unsigned flags, void **handle, char *message,
          size_t message_size)
{
  uint64_t bytes;
  struct ram *r;

  if (strncmp (args, "size=", 5) != 0 || parse_size (args + 5, &bytes) == -1)
    return refuse (message, message_size, EINVAL, args, "write size=N with a number of "
                   "bytes, or of K, M or G");
  if (bytes < BLOCK_BYTES || bytes % BLOCK_BYTES || bytes > UINT64_C (1) << 46)
    return refuse (message, message_size, EINVAL, args, "the size must be a multiple of "
                   "512 bytes, and no more than 64 TiB");
  r = malloc (sizeof *r);
  if (r == NULL)
    return -1;
  r->blocks = bytes / BLOCK_BYTES;
  r->data = mmap (NULL, bytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (r->data == MAP_FAILED) {
    free (r);
    return refuse (message, message_size, ENOMEM, args, "not enough memory");
  }
  *handle = r;
  return 0;
}

static void
ram_close (void *handle)
{
  struct ram *r = handle;

  munmap (r->data, r->blocks * BLOCK_BYTES);
  free (r);
}

/* ---- answers ---- */

static uint64_t
big_endian (const uint8_t *p, unsigned bytes)
{
  uint64_t v = 0;

  while (bytes-- > 0)
    v = v << 8 | *p++;
  return v;
}

static void
put_big_endian (uint8_t *p, unsigned bytes, uint64_t v)
{
  while (bytes-- > 0) {
    p[bytes] = v & 0xff;
    v >>= 8;
  }
}

static int
good (struct sh_command *c, size_t moved)
{
  c->status = SH_STATUS_GOOD;
  c->resid = c->data_len - moved;
  return 0;
}

/* CHECK CONDITION, illegal request. */
static int
illegal (struct sh_command *c, uint8_t asc)
{
  memset (c->sense, 0, 18);
  c->sense[0] = 0x70;
  c->sense[2] = 0x05;
  c->sense[7] = 10;
  c->sense[12] = asc;
  c->sense_len = 18;
  c->status = SH_STATUS_CHECK_CONDITION;
  c->resid = c->data_len;
  return 0;
}

/* Moves up to n bytes between `mem` and the command's data; how many. */
static size_t
move (const struct sh_command *c, char *mem, size_t n)
{
  size_t done = 0;

  for (int i = 0; i < c->iovcnt && done < n; ++i) {
    size_t k = c->iov[i].iov_len;

    if (k > n - done)
      k = n - done;
    if (c->xfer == SH_XFER_TO_DEVICE)
      memcpy (mem + done, c->iov[i].iov_base, k);
    else
      memcpy (c->iov[i].iov_base, mem + done, k);
    done += k;
  }
  return done;
}

static int
answer (struct sh_command *c, uint8_t *bytes, size_t n)
{
  return good (c, move (c, (char *) bytes, n));
}

/* ---- commands ---- */

static int
inquiry (struct sh_command *c)
{
  uint8_t b[36] = { [2] = 6, [3] = 2, [4] = 31 };

  if (c->cdb[1] & 1)            /* no VPD pages */
    return illegal (c, 0x24);
  memcpy (b + 8, "Shingle RAM transport   1   ", 28);
  return answer (c, b, sizeof b);
}

static int
read_capacity (const struct ram *r, struct sh_command *c)
{
  uint8_t b[32] = { 0 };

  put_big_endian (b, 8, r->blocks - 1);
  put_big_endian (b + 8, 4, BLOCK_BYTES);
  return answer (c, b, sizeof b);
}

static int
mode_sense (struct sh_command *c)
{
  /* header and caching page: no write cache */
  uint8_t b[28] = { [1] = 26, [8] = 0x08, [9] = 18 };

  return answer (c, b, sizeof b);
}

static int
read_write (struct ram *r, struct sh_command *c, uint64_t lba, uint64_t blocks)
{
  if (lba > r->blocks || blocks > r->blocks - lba)
    return illegal (c, 0x21);
  return good (c, move (c, r->data + lba * BLOCK_BYTES, blocks * BLOCK_BYTES));
}

static int
ram_execute (void *handle, struct sh_command *c)
{
  struct ram *r = handle;

  c->host_status = SH_HOST_OK;
  c->sense_len = 0;
  switch (c->cdb[0]) {
  case 0x00:                    /* TEST UNIT READY */
  case 0x35: case 0x91:         /* SYNCHRONIZE CACHE: nothing to do */
    return good (c, 0);
  case 0x12:
    return inquiry (c);
  case 0x5a:                    /* MODE SENSE(10) */
    return mode_sense (c);
  case 0x9e:                    /* SERVICE ACTION IN(16): READ CAPACITY(16) */
    return (c->cdb[1] & 0x1f) == 0x10 ? read_capacity (r, c) : illegal (c, 0x24);
  case 0x28: case 0x2a:         /* READ(10), WRITE(10) */
    return read_write (r, c, big_endian (c->cdb + 2, 4), big_endian (c->cdb + 7, 2));
  case 0x88: case 0x8a:         /* READ(16), WRITE(16) */
    return read_write (r, c, big_endian (c->cdb + 2, 8), big_endian (c->cdb + 10, 4));
  default:
    return illegal (c, 0x20);
  }
}

SH_TRANSPORT_EXPORT = {
  .api = SH_TRANSPORT_API,
  .size = sizeof (struct sh_transport_ops),
  .name = "ram",
  .open = ram_open,
  .close = ram_close,
  .execute = ram_execute,
};
