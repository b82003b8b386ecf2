/* SPDX-License-Identifier: BSD-3-Clause */
/* READ CAPACITY, MODE SENSE and SELECT, TEST UNIT READY, REQUEST SENSE, START
 * STOP UNIT, REPORT LUNS. */
#include <config.h>
#include <string.h>
#include "transport/emu/internal.h"

/* ---- capacity ---- */

void
op_read_capacity_10 (struct task *t)
{
  const struct emu *emu = t->emu;
  uint8_t buf[8];

  put_be32 (buf, (uint32_t) MIN (emu->nr_blocks - 1, UINT32_MAX));
  put_be32 (buf + 4, emu->s.lbs_bytes);
  task_send (t, buf, sizeof buf, sizeof buf);
}

void
op_read_capacity_16 (struct task *t)
{
  const struct emu *emu = t->emu;
  const struct emu_settings *s = &emu->s;
  uint8_t buf[32] = { 0 };

  put_be64 (buf, emu->nr_blocks - 1);
  put_be32 (buf + 8, s->lbs_bytes);
  /* RC BASIS 1: the last LBA of all zones, not of the conventional ones. */
  buf[12] = emu_zoned (emu) ? 0x10 : 0;
  buf[13] = (uint8_t) s->physblk_exp;
  put_be16 (buf + 14, (uint16_t) s->lowest_aligned);
  if (s->lbpu || s->lbpws || s->lbpws10)
    buf[14] |= (uint8_t) (0x80 | (s->lbprz == 1 ? 0x40 : 0));
  task_send (t, buf, sizeof buf, get_be32 (t->cmd->cdb + 10));
}

/* ---- mode pages ---- */

#define PAGE_RECOVERY 0x01
#define PAGE_CACHING  0x08
#define PAGE_CONTROL  0x0a
#define PAGE_ALL      0x3f

enum page_control { PC_CURRENT, PC_CHANGEABLE, PC_DEFAULT, PC_SAVED };

static size_t
page_recovery (const struct emu *emu, enum page_control pc, uint8_t *p)
{
  static const uint8_t page[12] = { PAGE_RECOVERY, 0x0a, 0xc0, 11, 240, 0, 0, 0, 5, 0, 0xff, 0xff };

  memcpy (p, page, sizeof page);
  if (pc == PC_CHANGEABLE)
    memset (p + 2, 0, sizeof page - 2);
  return sizeof page;
}

static size_t
page_caching (const struct emu *emu, enum page_control pc, uint8_t *p)
{
  const bool wce = emu->s.cache != EMU_CACHE_OFF && !(emu->s.opts & OPT_NO_CACHE);

  memset (p, 0, 20);
  p[0] = PAGE_CACHING;
  p[1] = 18;
  if (wce || pc == PC_CHANGEABLE)
    p[2] = 0x04;                /* WCE */
  return 20;
}

static size_t
page_control_mode (const struct emu *emu, enum page_control pc, uint8_t *p)
{
  memset (p, 0, 12);
  p[0] = PAGE_CONTROL;
  p[1] = 10;
  if (emu->s.dsense || pc == PC_CHANGEABLE)
    p[2] = 0x04;                /* D_SENSE */
  return 12;
}

static const struct mode_page {
  uint8_t code;
  size_t (*fill) (const struct emu *emu, enum page_control pc, uint8_t *p);
} pages[] = {
  { PAGE_RECOVERY, page_recovery },
  { PAGE_CACHING, page_caching },
  { PAGE_CONTROL, page_control_mode },
};

static size_t
put_pages (const struct emu *emu, unsigned code, enum page_control pc, uint8_t *p)
{
  size_t i, len = 0;

  for (i = 0; i < ARRAY_SIZE (pages); ++i)
    if (code == PAGE_ALL || code == pages[i].code)
      len += pages[i].fill (emu, pc, p + len);
  return len;
}

static size_t
put_block_descriptor (const struct emu *emu, bool long_lba, uint8_t *p)
{
  if (long_lba) {
    put_be64 (p, emu->nr_blocks);
    put_be32 (p + 8, 0);
    put_be32 (p + 12, emu->s.lbs_bytes);
    return 16;
  }
  put_be32 (p, (uint32_t) MIN (emu->nr_blocks, UINT32_MAX));
  put_be32 (p + 4, emu->s.lbs_bytes);
  return 8;
}

static void
mode_sense (struct task *t, bool ten, size_t allocation)
{
  const struct emu *emu = t->emu;
  const uint8_t *cdb = t->cmd->cdb;
  const enum page_control pc = cdb[2] >> 6;
  const bool dbd = cdb[1] & 0x08, long_lba = ten && cdb[1] & 0x10;
  const size_t header = ten ? 8 : 4;
  const uint8_t dev_param = (uint8_t) (0x10 | (emu->s.wp ? 0x80 : 0));
  uint8_t buf[128] = { 0 };
  size_t desc_len = 0, page_len, len;

  if (pc == PC_SAVED) {
    task_fail (t, SENSE_SAVING_NOT_SUPPORTED);
    return;
  }
  if (!dbd)
    desc_len = put_block_descriptor (emu, long_lba, buf + header);
  page_len = put_pages (emu, cdb[2] & 0x3f, pc, buf + header + desc_len);
  if (page_len == 0 || (cdb[3] != 0 && cdb[3] != 0xff)) {
    task_fail_field (t, page_len == 0 ? 2 : 3, page_len == 0 ? 5 : -1);
    return;
  }
  len = header + desc_len + page_len;
  if (ten) {
    put_be16 (buf, (uint16_t) (len - 2));
    buf[3] = dev_param;
    buf[4] = long_lba ? 1 : 0;
    put_be16 (buf + 6, (uint16_t) desc_len);
  }
  else {
    buf[0] = (uint8_t) (len - 1);
    buf[2] = dev_param;
    buf[3] = (uint8_t) desc_len;
  }
  task_send (t, buf, len, allocation);
}

void
op_mode_sense_6 (struct task *t)
{
  mode_sense (t, false, t->cmd->cdb[4]);
}

void
op_mode_sense_10 (struct task *t)
{
  mode_sense (t, true, get_be16 (t->cmd->cdb + 7));
}

/* WCE and D_SENSE can be changed. */
static bool
select_page (struct task *t, const uint8_t *page)
{
  struct emu *emu = t->emu;
  const bool bit = page[2] & 0x04;

  switch (page[0] & 0x3f) {
  case PAGE_CACHING:
    if (!bit)
      emu->s.cache = EMU_CACHE_OFF;
    else if (emu->s.cache == EMU_CACHE_OFF)
      emu->s.cache = emu->cache.tracked ? EMU_CACHE_TRACKED : EMU_CACHE_SAFE;
    if (!bit) {                 /* what is cached goes to the medium */
      cache_lock (emu);
      cache_sync_locked (emu, 0, emu->nr_blocks);
      cache_unlock (emu);
    }
    return true;
  case PAGE_CONTROL:
    emu->s.dsense = bit;
    return true;
  case PAGE_RECOVERY:
    return true;
  default:
    return false;
  }
}

static void
mode_select (struct task *t, bool ten, size_t len)
{
  const size_t header = ten ? 8 : 4;
  uint8_t buf[256];
  size_t at;

  if (t->cmd->cdb[1] & 1 || !(t->cmd->cdb[1] & 0x10)) {
    task_fail_field (t, 1, t->cmd->cdb[1] & 1 ? 0 : 4);
    return;
  }
  if (len == 0)
    return;
  if (len < header || len > sizeof buf) {
    task_fail (t, SENSE_PARAMETER_LENGTH);
    return;
  }
  if (!task_receive (t, buf, len))
    return;
  at = header + (ten ? get_be16 (buf + 6) : buf[3]);
  while (at + 2 <= len) {
    const size_t page_len = 2 + (size_t) buf[at + 1];

    if (page_len < 3 || at + page_len > len) {
      task_fail (t, SENSE_PARAMETER_LENGTH);
      return;
    }
    if (!select_page (t, buf + at)) {
      task_fail_parameter (t, (unsigned) at, 5);
      return;
    }
    at += page_len;
  }
}

void
op_mode_select_6 (struct task *t)
{
  mode_select (t, false, t->cmd->cdb[4]);
}

void
op_mode_select_10 (struct task *t)
{
  mode_select (t, true, get_be16 (t->cmd->cdb + 7));
}

/* ---- readiness ---- */

void
op_test_unit_ready (struct task *t)
{
  /* What can make it fail was checked before. */
}

void
op_request_sense (struct task *t)
{
  struct emu *emu = t->emu;
  const bool descriptor = t->cmd->cdb[1] & 1;
  uint8_t buf[SH_SENSE_MAX];
  uint32_t code = 0;
  size_t len;

  if (!emu_take_attention (emu, &code) && atomic_load (&emu->stopped))
    code = SENSE_STOPPED;
  len = emu_build_sense (descriptor, code, buf);
  task_send (t, buf, len, t->cmd->cdb[4]);
}

void
op_start_stop (struct task *t)
{
  struct emu *emu = t->emu;
  const bool start = t->cmd->cdb[4] & 1;

  if (t->cmd->cdb[4] >> 4 != 0) {
    task_fail_field (t, 4, 7);
    return;
  }
  if (start && emu_becoming_ready (emu)) {
    task_fail_field (t, 4, 0);
    return;
  }
  atomic_store (&emu->stopped, !start);
  emu_update_special (emu);
}

/* ---- REPORT LUNS ---- */

void
op_report_luns (struct task *t)
{
  const uint8_t select = t->cmd->cdb[2];
  const uint32_t allocation = get_be32 (t->cmd->cdb + 6);
  uint8_t buf[16] = { 0 };

  if (select > 2) {
    task_fail_field (t, 2, -1);
    return;
  }
  if (allocation < 4) {
    task_fail_field (t, 6, -1);
    return;
  }
  /* 01h asks for well-known LUNs only: there is none. */
  put_be32 (buf, select == 1 ? 0 : 8);
  task_send (t, buf, select == 1 ? 8 : 16, allocation);
}
