/* SPDX-License-Identifier: BSD-3-Clause */
/* INQUIRY and the vital product data pages. */
#include <config.h>
#include <stdio.h>
#include <string.h>
#include "transport/emu/internal.h"

#define EVPD     0x01
#define VPD_MAX  512

static uint8_t
device_type (const struct emu *emu)
{
  if (emu->s.ptype >= 0)
    return (uint8_t) emu->s.ptype;
  return emu->s.model == EMU_HOST_MANAGED ? 0x14 : 0x00;
}

static void
put_text (uint8_t *at, size_t len, const char *text)
{
  memset (at, ' ', len);
  memcpy (at, text, MIN (len, strlen (text)));
}

/* ---- pages: each writes what follows the 4-byte header, returns its length ---- */

static size_t page_supported (const struct emu *emu, uint8_t *p);

static size_t
page_serial (const struct emu *emu, uint8_t *p)
{
  const size_t len = strlen (emu->s.serial);

  memcpy (p, emu->s.serial, len);
  return len;
}

/* The UUID designator of uuid_ctl, from what identifies the drive anyway. */
static size_t
put_uuid (const struct emu *emu, uint8_t *d)
{
  if (emu->s.uuid_ctl == 0)
    return 0;
  d[0] = 0x01;
  d[1] = 0x0a;
  d[3] = 18;
  d[4] = 0x10;
  memset (d + 6, 0x5e, 16);
  if (emu->s.uuid_ctl == 1)
    memcpy (d + 14, emu->wwn, 8);
  d[12] = 0x40 | (d[12] & 0x0f);        /* version 4 */
  d[14] = 0x80 | (d[14] & 0x3f);        /* variant 1 */
  return 22;
}

static size_t
page_identification (const struct emu *emu, uint8_t *p)
{
  const size_t serial_len = strlen (emu->s.serial);
  uint8_t *d = p;

  /* T10 vendor identification, ASCII. */
  d[0] = 0x02;
  d[1] = 0x01;
  d[3] = (uint8_t) (24 + serial_len);
  put_text (d + 4, 8, emu->s.vendor);
  put_text (d + 12, 16, emu->s.product);
  memcpy (d + 28, emu->s.serial, serial_len);
  d += 4 + d[3];
  /* NAA, locally assigned. */
  d[0] = 0x01;
  d[1] = 0x03;
  d[3] = 8;
  memcpy (d + 4, emu->wwn, 8);
  d += 12;
  return (size_t) (d - p) + put_uuid (emu, d);
}

static size_t
page_block_limits (const struct emu *emu, uint8_t *p)
{
  const struct emu_settings *s = &emu->s;

  memset (p, 0, 0x3c);
  put_be16 (p + 2, (uint16_t) (1u << MAX (s->opt_xferlen_exp, s->physblk_exp)));
  put_be32 (p + 4, s->max_transfer);
  put_be32 (p + 8, s->opt_blks);
  if (s->lbpu) {
    put_be32 (p + 16, s->unmap_max_blocks);
    put_be32 (p + 20, s->unmap_max_desc);
    put_be32 (p + 24, s->unmap_granularity);
    put_be32 (p + 28, s->unmap_alignment | UINT32_C (1) << 31);
  }
  put_be64 (p + 32, s->write_same_length);
  if (s->atomic_wr) {
    put_be32 (p + 40, ATOMIC_MAX);
    put_be32 (p + 44, ATOMIC_ALIGN);
    put_be32 (p + 48, ATOMIC_ALIGN);    /* granularity */
    put_be32 (p + 52, ATOMIC_MAX);      /* with a boundary */
    put_be32 (p + 56, ATOMIC_MAX);
  }
  return 0x3c;
}

static size_t
page_characteristics (const struct emu *emu, uint8_t *p)
{
  memset (p, 0, 0x3c);
  put_be16 (p, (uint16_t) emu->s.rotation_rate);
  p[3] = 2;                     /* 3.5 inch */
  if (emu->s.model == EMU_HOST_AWARE)
    p[4] = 0x10;                /* ZONED: host-aware */
  return 0x3c;
}

static size_t
page_provisioning (const struct emu *emu, uint8_t *p)
{
  const struct emu_settings *s = &emu->s;
  const bool thin = s->lbpu || s->lbpws || s->lbpws10;

  memset (p, 0, 4);
  if (thin) {
    p[1] = (uint8_t) ((s->lbpu ? 0x80 : 0) | (s->lbpws ? 0x40 : 0) |
                      (s->lbpws10 ? 0x20 : 0) | (s->lbprz & 7) << 2);
    p[2] = 2;                   /* thin provisioned */
  }
  return 4;
}

static size_t
page_zoned (const struct emu *emu, uint8_t *p)
{
  memset (p, 0, 0x3c);
  p[0] = emu->s.urswrz ? 1 : 0;
  put_be32 (p + 4, UINT32_MAX);
  put_be32 (p + 8, UINT32_MAX);
  put_be32 (p + 12, emu->s.model == EMU_HOST_MANAGED && emu->z.max_open != 0
            ? emu->z.max_open : UINT32_MAX);
  if (emu->z.gaps) {
    p[19] = 8;                  /* constant start offset plus zone size */
    put_be64 (p + 20, emu->z.blocks);
  }
  return 0x3c;
}

static const struct vpd_page {
  uint8_t code;
  bool zoned;                   /* zoned drives only */
  size_t (*fill) (const struct emu *emu, uint8_t *p);
} pages[] = {
  { 0x00, false, page_supported },
  { 0x80, false, page_serial },
  { 0x83, false, page_identification },
  { 0xb0, false, page_block_limits },
  { 0xb1, false, page_characteristics },
  { 0xb2, false, page_provisioning },
  { 0xb6, true, page_zoned },
};

static bool
page_exists (const struct emu *emu, const struct vpd_page *page)
{
  return !page->zoned || emu_zoned (emu);
}

static size_t
page_supported (const struct emu *emu, uint8_t *p)
{
  size_t i, n = 0;

  for (i = 0; i < ARRAY_SIZE (pages); ++i)
    if (page_exists (emu, &pages[i]))
      p[n++] = pages[i].code;
  return n;
}

static void
send_vpd (struct task *t, size_t allocation)
{
  const struct emu *emu = t->emu;
  const uint8_t code = t->cmd->cdb[2];
  uint8_t buf[VPD_MAX] = { 0 };
  size_t i, len;

  for (i = 0; i < ARRAY_SIZE (pages); ++i) {
    if (pages[i].code == code && page_exists (emu, &pages[i])) {
      len = pages[i].fill (emu, buf + 4);
      buf[0] = device_type (emu);
      buf[1] = code;
      put_be16 (buf + 2, (uint16_t) len);
      task_send (t, buf, len + 4, allocation);
      return;
    }
  }
  task_fail_field (t, 2, 7);
}

/* ---- standard data ---- */

static void
send_standard (struct task *t, size_t allocation)
{
  const struct emu *emu = t->emu;
  /* SAM-5, SPC-5, SBC-4, and ZBC where there are zones. */
  static const uint16_t versions[] = { 0x00a2, 0x05c2, 0x0600, 0x0624 };
  uint8_t buf[96] = { 0 };
  size_t i;

  buf[0] = device_type (emu);
  buf[1] = emu->s.removable ? 0x80 : 0;
  buf[2] = (uint8_t) emu->s.scsi_level;
  buf[3] = 0x12;                /* HISUP, response format 2 */
  buf[4] = sizeof buf - 5;
  buf[7] = 0x02;                /* CMDQUE */
  put_text (buf + 8, 8, emu->s.vendor);
  put_text (buf + 16, 16, emu->s.product);
  put_text (buf + 32, 4, emu->s.revision);
  for (i = 0; i < ARRAY_SIZE (versions) - (emu_zoned (emu) ? 0 : 1); ++i)
    put_be16 (buf + 58 + 2 * i, versions[i]);
  task_send (t, buf, sizeof buf, allocation);
}

void
op_inquiry (struct task *t)
{
  const uint8_t *cdb = t->cmd->cdb;
  const size_t allocation = get_be16 (cdb + 3);

  if (cdb[1] & 0x02)            /* CMDDT is obsolete */
    task_fail_field (t, 1, 1);
  else if (cdb[1] & EVPD)
    send_vpd (t, allocation);
  else if (cdb[2] != 0)
    task_fail_field (t, 2, 7);
  else
    send_standard (t, allocation);
}
