/* SPDX-License-Identifier: BSD-3-Clause */
#include <config.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "emu-fixture.h"

_Thread_local struct sh_command fx_cmd;
_Thread_local int fx_errno;

struct emu_settings
fx_settings (const char *settings)
{
  struct emu_settings s;
  struct sh_error err = { 0 };
  char copy[512], *rest = copy, *pair;

  emu_settings_init (&s);
  ck_assert_uint_lt (strlen (settings), sizeof copy);
  strcpy (copy, settings);
  while ((pair = strsep (&rest, ",")) != NULL) {
    char *value = strchr (pair, '=');

    if (*pair == '\0')
      continue;
    ck_assert_ptr_nonnull (value);
    *value++ = '\0';
    ck_assert_msg (emu_settings_set (&s, pair, value, &err) == 0, "%s", err.message);
  }
  return s;
}

struct emu *
fx_raw_drive (const char *settings)
{
  const struct emu_settings s = fx_settings (settings);
  struct sh_error err = { 0 };
  struct emu *emu = NULL;

  ck_assert_msg (emu_open_ram (&s, &emu, &err) == 0, "%s", err.message);
  return emu;
}

struct emu *
fx_drive (const char *settings)
{
  struct emu *emu = fx_raw_drive (settings);

  ck_answer (fx_tur (emu), SENSE (0x062901));
  return emu;
}

int64_t
fx_send (struct emu *emu, const uint8_t *cdb, unsigned cdb_len, enum sh_xfer xfer,
         void *data, size_t len)
{
  const struct iovec iov = { data, len };
  const uint8_t *s = fx_cmd.sense;

  memset (&fx_cmd, 0, sizeof fx_cmd);
  memcpy (fx_cmd.cdb, cdb, cdb_len);
  fx_cmd.cdb_len = (uint8_t) cdb_len;
  fx_cmd.xfer = xfer;
  fx_cmd.iov = len ? &iov : NULL;
  fx_cmd.iovcnt = len ? 1 : 0;
  fx_cmd.data_len = len;
  fx_cmd.timeout_ms = 1;
  fx_errno = 0;
  if (emu_execute (emu, &fx_cmd) == -1) {
    fx_errno = errno;
    return -1;
  }
  fx_cmd.iov = NULL;
  if (fx_cmd.status != SH_STATUS_CHECK_CONDITION) {
    fx_must (fx_cmd.sense_len == 0);
    return HOST (fx_cmd.host_status) | STATUS (fx_cmd.status);
  }
  fx_must (fx_cmd.sense_len >= 8);
  if (s[0] == 0x72)
    return HOST (fx_cmd.host_status) | SENSE (s[1] << 16 | s[2] << 8 | s[3]);
  fx_must ((s[0] & 0x7f) == 0x70);
  fx_must (fx_cmd.sense_len >= 18);
  return HOST (fx_cmd.host_status) | SENSE ((s[2] & 15) << 16 | s[12] << 8 | s[13]);
}

static int64_t
rw (struct emu *emu, uint8_t opcode, uint8_t flags, uint64_t lba, uint32_t blocks,
    enum sh_xfer xfer, void *data)
{
  uint8_t cdb[16] = { opcode, flags };

  put_be64 (cdb + 2, lba);
  put_be32 (cdb + 10, blocks);
  return fx_send (emu, cdb, 16, blocks ? xfer : SH_XFER_NONE, data,
                  (size_t) blocks * emu_get_settings (emu)->lbs_bytes);
}

int64_t
fx_read (struct emu *emu, uint64_t lba, uint32_t blocks, void *data)
{
  return rw (emu, 0x88, 0, lba, blocks, SH_XFER_FROM_DEVICE, data);
}

int64_t
fx_write (struct emu *emu, uint64_t lba, uint32_t blocks, const void *data)
{
  return rw (emu, 0x8a, 0, lba, blocks, SH_XFER_TO_DEVICE, (void *) data);
}

int64_t
fx_write_fua (struct emu *emu, uint64_t lba, uint32_t blocks, const void *data)
{
  return rw (emu, 0x8a, 8, lba, blocks, SH_XFER_TO_DEVICE, (void *) data);
}

int64_t
fx_sync (struct emu *emu)
{
  const uint8_t cdb[16] = { 0x91 };

  return fx_send (emu, cdb, 16, SH_XFER_NONE, NULL, 0);
}

int64_t
fx_tur (struct emu *emu)
{
  const uint8_t cdb[6] = { 0 };

  return fx_send (emu, cdb, 6, SH_XFER_NONE, NULL, 0);
}

int64_t
fx_inquiry (struct emu *emu, int vpd_page, uint8_t *buf, size_t len)
{
  uint8_t cdb[6] = { 0x12 };

  if (vpd_page >= 0) {
    cdb[1] = 1;
    cdb[2] = (uint8_t) vpd_page;
  }
  put_be16 (cdb + 3, (uint16_t) len);
  memset (buf, 0, len);
  return fx_send (emu, cdb, 6, SH_XFER_FROM_DEVICE, buf, len);
}

int64_t
fx_zone (struct emu *emu, int action, uint64_t lba)
{
  uint8_t cdb[16] = { 0x94, (uint8_t) action };

  put_be64 (cdb + 2, lba);
  return fx_send (emu, cdb, 16, SH_XFER_NONE, NULL, 0);
}

int64_t
fx_zone_all (struct emu *emu, int action)
{
  const uint8_t cdb[16] = { 0x94, (uint8_t) action, [14] = 1 };

  return fx_send (emu, cdb, 16, SH_XFER_NONE, NULL, 0);
}

int64_t
fx_report (struct emu *emu, uint64_t lba, uint8_t option, struct fx_zone *zones, size_t max,
           size_t *nr, uint32_t *list_length)
{
  const size_t len = (max + 1) * 64;
  uint8_t cdb[16] = { 0x95, 0x00, [14] = option };
  uint8_t *buf = calloc (1, len);
  int64_t answer;
  size_t i;

  put_be64 (cdb + 2, lba);
  put_be32 (cdb + 10, (uint32_t) len);
  answer = fx_send (emu, cdb, 16, SH_XFER_FROM_DEVICE, buf, len);
  *nr = 0;
  *list_length = get_be32 (buf);
  if (answer == 0)
    *nr = (len - fx_cmd.resid) / 64 - 1;
  for (i = 0; i < *nr; ++i) {
    const uint8_t *d = buf + 64 * (i + 1);

    zones[i] = (struct fx_zone) {
      .type = d[0] & 15, .cond = d[1] >> 4, .non_seq = d[1] & 2,
      .len = get_be64 (d + 8), .start = get_be64 (d + 16), .wp = get_be64 (d + 24),
    };
  }
  free (buf);
  return answer;
}

struct fx_zone
fx_get_zone (struct emu *emu, uint64_t lba)
{
  struct fx_zone z = { 0 };
  uint32_t list_length;
  size_t nr;

  ck_answer (fx_report (emu, lba, 0x80, &z, 1, &nr, &list_length), 0);
  fx_must (nr == 1);
  return z;
}

void
fx_stamp (void *buf, uint64_t lba, uint32_t blocks, size_t lbs, uint32_t generation)
{
  uint8_t *p = buf;
  uint32_t i;
  size_t j;

  for (i = 0; i < blocks; ++i, p += lbs)
    for (j = 0; j < lbs; j += 16) {
      put_le64 (p + j, lba + i + 1);
      put_le64 (p + j + 8, generation);
    }
}

int64_t
fx_stamp_of (const void *block, uint64_t lba, size_t lbs)
{
  const uint8_t *p = block;
  const uint64_t generation = get_le64 (p + 8);
  const uint64_t stamp = get_le64 (p) == 0 && generation == 0 ? 0 : lba + 1;
  size_t i;

  for (i = 0; i < lbs; i += 16)
    if (get_le64 (p + i) != stamp || get_le64 (p + i + 8) != generation)
      return -1;
  return (int64_t) generation;
}
