/* SPDX-License-Identifier: BSD-3-Clause */
/* READ, WRITE, VERIFY, WRITE SAME, UNMAP, SYNCHRONIZE CACHE. */
#include <config.h>
#include <assert.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include "transport/emu/internal.h"

#define CDB1_FUA  0x08
#define CDB1_BYTCHK 0x06
#define SAME_ANCHOR 0x10
#define SAME_UNMAP  0x08
#define SAME_NDOB   0x01

/* ---- blocks in the store ---- */

/* The piece of [lba, lba+blocks) that does not wrap (virtual_gb). */
static uint64_t
store_piece (const struct emu *emu, uint64_t lba, uint64_t blocks, uint64_t *off_bytes)
{
  const uint64_t in_store = lba % emu->store_blocks;

  *off_bytes = blocks_to_bytes (emu, in_store);
  return MIN (blocks, emu->store_blocks - in_store);
}

static int
media_read_bytes (struct emu *emu, uint64_t lba, uint64_t bytes, struct cursor *to)
{
  while (bytes > 0) {
    uint64_t off;
    const uint64_t blocks = DIV_ROUND_UP (bytes, UINT64_C (1) << emu->lbs_shift);
    const uint64_t n = store_piece (emu, lba, blocks, &off);
    const uint64_t len = MIN (bytes, blocks_to_bytes (emu, n));

    if (emu->store->ops->read (emu->store, off, len, to) == -1)
      return -1;
    lba += n;
    bytes -= len;
  }
  return 0;
}

int
media_read (struct emu *emu, uint64_t lba, uint64_t blocks, struct cursor *to)
{
  return media_read_bytes (emu, lba, blocks_to_bytes (emu, blocks), to);
}

int
media_write (struct emu *emu, uint64_t lba, uint64_t blocks, struct cursor *from)
{
  while (blocks > 0) {
    uint64_t off;
    const uint64_t n = store_piece (emu, lba, blocks, &off);

    if (emu->store->ops->write (emu->store, off, blocks_to_bytes (emu, n), from) == -1)
      return -1;
    lba += n;
    blocks -= n;
  }
  return 0;
}

int
media_zero (struct emu *emu, uint64_t lba, uint64_t blocks)
{
  while (blocks > 0) {
    uint64_t off;
    const uint64_t n = store_piece (emu, lba, blocks, &off);

    if (emu->store->ops->zero (emu->store, off, blocks_to_bytes (emu, n)) == -1)
      return -1;
    lba += n;
    blocks -= n;
  }
  return 0;
}

/* ---- common checks ---- */

static bool
range_ok (struct task *t)
{
  const struct emu *emu = t->emu;

  if (t->lba > emu->nr_blocks || t->blocks > emu->nr_blocks - t->lba) {
    task_fail_info (t, SENSE_LBA_RANGE, MAX (t->lba, emu->nr_blocks));
    return false;
  }
  return true;
}

static bool
transfer_ok (struct task *t)
{
  const struct emu *emu = t->emu;

  if (!range_ok (t))
    return false;
  if (emu->s.max_transfer != 0 && t->blocks > emu->s.max_transfer) {
    task_fail_field (t, t->cmd->cdb_len >= 16 ? 10 : 7, -1);
    return false;
  }
  return true;
}

static bool
write_allowed (struct task *t)
{
  if (!t->emu->s.wp)
    return true;
  task_fail (t, SENSE_WRITE_PROTECTED);
  return false;
}

/* ---- reading ---- */

/* Moves `bytes` of the blocks from lba on; what lies behind a write pointer
   reads as zeroes. */
static int
read_bytes (struct emu *emu, uint64_t lba, uint64_t bytes, struct cursor *to)
{
  while (bytes > 0) {
    const uint64_t blocks = DIV_ROUND_UP (bytes, UINT64_C (1) << emu->lbs_shift);
    uint64_t span;
    const uint64_t readable = zones_readable (emu, lba, blocks, &span);
    const uint64_t span_bytes = MIN (bytes, blocks_to_bytes (emu, span));
    const uint64_t media_bytes = MIN (span_bytes, blocks_to_bytes (emu, readable));

    if (media_read_bytes (emu, lba, media_bytes, to) == -1)
      return -1;
    cursor_zero (to, span_bytes - media_bytes);
    lba += span;
    bytes -= span_bytes;
  }
  return 0;
}

/* READ with FUA: cached data of these blocks goes to the medium first. */
static void
read_fua (struct task *t)
{
  struct emu *emu = t->emu;

  if (t->cmd->cdb_len == 6 || !(t->cmd->cdb[1] & CDB1_FUA))
    return;
  cache_lock (emu);
  cache_sync_locked (emu, t->lba, t->blocks);
  cache_unlock (emu);
}

void
op_read (struct task *t)
{
  struct emu *emu = t->emu;
  uint64_t bytes;
  uint32_t sense;

  if (!transfer_ok (t))
    return;
  sense = zones_check_read (emu, t->lba, t->blocks);
  if (sense) {
    task_fail (t, sense);
    return;
  }
  read_fua (t);
  bytes = blocks_to_bytes (emu, MIN (t->blocks, t->do_blocks));
  if (bytes > 0 && t->cmd->xfer != SH_XFER_FROM_DEVICE) {
    t->cmd->host_status = SH_HOST_ERROR;
    return;
  }
  bytes = MIN (bytes, t->cmd->data_len);
  if (read_bytes (emu, t->lba, bytes, &t->data) == -1) {
    task_fail_info (t, SENSE_READ_ERROR, t->lba);
    return;
  }
  t->moved = bytes;
  count (emu, CNT_READ_BYTES, bytes);
}

/* ---- writing ---- */

/* What is written: the command's data, or one block repeated. */
struct source {
  struct cursor *data;          /* NULL: repeat */
  const uint8_t *block;         /* NULL: zeroes */
};

#define REPEAT_BYTES (64 * KiB)

static int
write_repeated (struct emu *emu, uint64_t lba, uint64_t blocks, const uint8_t *block)
{
  const uint64_t per_piece = REPEAT_BYTES >> emu->lbs_shift;
  const size_t lbs = (size_t) 1 << emu->lbs_shift;
  uint8_t *piece = malloc (REPEAT_BYTES);
  uint64_t i;
  int r = 0;

  if (piece == NULL)
    return -1;
  for (i = 0; i < per_piece; ++i)
    memcpy (piece + i * lbs, block, lbs);
  while (blocks > 0 && r == 0) {
    const uint64_t n = MIN (blocks, per_piece);
    const struct iovec iov = { piece, blocks_to_bytes (emu, n) };
    struct cursor c = { .iov = &iov, .iovcnt = 1 };

    r = media_write (emu, lba, n, &c);
    lba += n;
    blocks -= n;
  }
  free (piece);
  return r;
}

static int
write_source (struct emu *emu, uint64_t lba, uint64_t blocks, const struct source *src)
{
  if (src->data)
    return media_write (emu, lba, blocks, src->data);
  if (src->block)
    return write_repeated (emu, lba, blocks, src->block);
  return media_zero (emu, lba, blocks);
}

static uint64_t
blocks_to_do (const struct task *t)
{
  return MIN (t->blocks, t->do_blocks);
}

/* Blocks without a write pointer. */
static bool
write_anywhere (struct task *t, const struct source *src)
{
  struct emu *emu = t->emu;
  const uint64_t n = blocks_to_do (t);

  if (cache_before_blocks_locked (emu, t->lba, n) == 0 &&
      write_source (emu, t->lba, n, src) == 0)
    return true;
  task_fail_info (t, SENSE_WRITE_ERROR, t->lba);
  return false;
}

/* Conventional zones: the last must be conventional too, and none in between
   may be out of use. */
static uint32_t
check_conventional (struct emu *emu, uint64_t lba, uint64_t blocks)
{
  const uint32_t last = zone_of (emu, lba + blocks - 1);
  uint32_t zone;

  for (zone = zone_of (emu, lba); zone <= last; ++zone) {
    const struct zone_rec rec = zone_load (emu, zone);

    if (rec.cond == ZONE_OFFLINE)
      return SENSE_ZONE_OFFLINE;
    if (rec_sequential (&rec))
      return SENSE_WRITE_BOUNDARY;
    if (rec.cond == ZONE_READ_ONLY)
      return SENSE_ZONE_READ_ONLY;
  }
  return 0;
}

static bool
write_conventional (struct task *t, const struct source *src)
{
  const uint32_t sense = check_conventional (t->emu, t->lba, t->blocks);

  if (sense) {
    task_fail (t, sense);
    return false;
  }
  return write_anywhere (t, src);
}

/* The order is boundary, full, pointer, resources. */
static uint32_t
check_sequential (const struct emu *emu, uint32_t zone, const struct zone_rec *rec,
                  uint64_t lba, uint64_t blocks)
{
  const uint64_t off = lba - zone_start (emu, zone);
  const uint64_t cap = zone_cap (emu, zone, rec);
  const uint64_t physical = UINT64_C (1) << emu->s.physblk_exp;

  if (rec->cond == ZONE_OFFLINE)
    return SENSE_ZONE_OFFLINE;
  if (off >= cap)
    return SENSE_GAP_ZONE;
  if (blocks > cap - off)
    return SENSE_WRITE_BOUNDARY;
  if (rec->cond == ZONE_READ_ONLY)
    return SENSE_ZONE_READ_ONLY;
  if (rec->cond == ZONE_FULL)
    return SENSE_FIELD_IN_CDB;
  if (off != rec->wp)
    return SENSE_UNALIGNED_WRITE;
  if (emu->s.write_align && blocks % physical != 0)
    return SENSE_UNALIGNED_WRITE;
  return 0;
}

/* Makes the zone open for a write; its lock is held. */
static enum zone_open
open_for_write_locked (struct emu *emu, uint32_t zone, struct zone_rec *rec)
{
  if (rec_open (rec))
    return ZONE_OPEN_OK;
  return zone_open_locked (emu, zone, rec, false);
}

static bool
append_locked (struct task *t, uint32_t zone, struct zone_rec rec, const struct source *src)
{
  struct emu *emu = t->emu;
  const uint64_t n = blocks_to_do (t);

  if (cache_before_append_locked (emu, zone, rec, t->lba, n) == -1 ||
      write_source (emu, t->lba, n, src) == -1) {
    task_fail_info (t, SENSE_WRITE_ERROR, t->lba);
    return false;
  }
  rec.wp += (uint32_t) n;
  if (rec.wp == zone_cap (emu, zone, &rec))
    rec.cond = ZONE_FULL;
  /* The data is in the store before the pointer covers it. */
  zone_change_locked (emu, zone, rec);
  return true;
}

/* One try; AGAIN as zone_open_locked. */
static enum zone_open
try_sequential (struct task *t, const struct source *src, bool *ok)
{
  struct emu *emu = t->emu;
  const uint32_t zone = zone_of (emu, t->lba);
  struct zone_rec rec;
  enum zone_open open = ZONE_OPEN_OK;
  uint32_t sense;

  *ok = false;
  zone_lock (emu, zone);
  rec = zone_load (emu, zone);
  sense = check_sequential (emu, zone, &rec, t->lba, t->blocks);
  if (sense == 0) {
    open = open_for_write_locked (emu, zone, &rec);
    if (open == ZONE_OPEN_NO_RESOURCES)
      sense = SENSE_ZONE_RESOURCES;
    else if (open == ZONE_OPEN_OK)
      *ok = append_locked (t, zone, rec, src);
  }
  zone_unlock (emu, zone);
  if (sense)
    task_fail (t, sense);
  return open;
}

static bool
write_sequential (struct task *t, const struct source *src)
{
  bool ok;

  while (try_sequential (t, src, &ok) == ZONE_OPEN_AGAIN)
    sched_yield ();
  return ok;
}

/* Sequential write preferred: anywhere in the zone; the pointer goes to the
   highest block written. */
static bool
write_preferred_zone (struct task *t, uint64_t lba, uint64_t blocks, const struct source *src)
{
  struct emu *emu = t->emu;
  const uint32_t zone = zone_of (emu, lba);
  const uint64_t off = lba - zone_start (emu, zone);
  struct zone_rec rec;
  bool ok;

  zone_lock (emu, zone);
  rec = zone_load (emu, zone);
  ok = cache_before_append_locked (emu, zone, rec, lba, blocks) == 0;
  if (ok && off > rec.wp)       /* the hole below must not show old bytes */
    ok = media_zero (emu, zone_start (emu, zone) + rec.wp, off - rec.wp) == 0;
  ok = ok && write_source (emu, lba, blocks, src) == 0;
  if (ok) {
    if (off != rec.wp)
      rec.flags |= REC_NON_SEQ;
    rec.wp = (uint32_t) MAX (rec.wp, off + blocks);
    if (rec.wp == zone_cap (emu, zone, &rec))
      rec.cond = ZONE_FULL;
    else if (!rec_open (&rec))
      rec.cond = ZONE_IMPLICIT_OPEN;
    zone_change_locked (emu, zone, rec);
  }
  zone_unlock (emu, zone);
  if (!ok)
    task_fail_info (t, SENSE_WRITE_ERROR, lba);
  return ok;
}

static uint32_t
check_preferred (struct emu *emu, uint64_t lba, uint64_t blocks)
{
  const uint64_t end = lba + blocks;

  while (lba < end) {
    const uint32_t zone = zone_of (emu, lba);
    const struct zone_rec rec = zone_load (emu, zone);
    const uint64_t zone_end = zone_start (emu, zone) + zone_cap (emu, zone, &rec);

    if (rec.cond == ZONE_OFFLINE)
      return SENSE_ZONE_OFFLINE;
    if (lba >= zone_end)
      return SENSE_GAP_ZONE;
    if (rec.type == ZONE_CONVENTIONAL)
      return SENSE_WRITE_BOUNDARY;
    if (rec.cond == ZONE_READ_ONLY)
      return SENSE_ZONE_READ_ONLY;
    lba = zone_end;
  }
  return 0;
}

static bool
write_preferred (struct task *t, const struct source *src)
{
  struct emu *emu = t->emu;
  const uint32_t sense = check_preferred (emu, t->lba, t->blocks);
  const uint64_t end = t->lba + blocks_to_do (t);
  uint64_t lba = t->lba;

  if (sense) {
    task_fail (t, sense);
    return false;
  }
  while (lba < end) {
    const uint64_t zone_end = zone_start (emu, zone_of (emu, lba) + 1);
    const uint64_t n = MIN (end, zone_end) - lba;

    if (!write_preferred_zone (t, lba, n, src))
      return false;
    lba += n;
  }
  return true;
}

static bool
write_by_zone_type (struct task *t, const struct source *src)
{
  struct emu *emu = t->emu;

  if (!emu_zoned (emu))
    return write_anywhere (t, src);
  switch (zone_load (emu, zone_of (emu, t->lba)).type) {
  case ZONE_CONVENTIONAL:
    return write_conventional (t, src);
  case ZONE_SEQ_PREFERRED:
    return write_preferred (t, src);
  default:
    return write_sequential (t, src);
  }
}

/* The range was checked and is not empty. */
static bool
write_blocks (struct task *t, const struct source *src, bool fua)
{
  struct emu *emu = t->emu;
  bool ok;

  cache_lock (emu);
  ok = write_by_zone_type (t, src);
  if (ok && fua)
    cache_sync_locked (emu, t->lba, blocks_to_do (t));
  cache_unlock (emu);
  return ok;
}

/* `durable`: as a write with FUA. */
static void
write_data (struct task *t, bool durable)
{
  struct emu *emu = t->emu;
  const struct source src = { .data = &t->data };

  if (!transfer_ok (t) || !write_allowed (t) || t->blocks == 0)
    return;
  if (t->cmd->xfer != SH_XFER_TO_DEVICE ||
      t->cmd->data_len < blocks_to_bytes (emu, t->blocks)) {
    t->cmd->host_status = SH_HOST_ERROR;
    return;
  }
  if (!write_blocks (t, &src, durable))
    return;
  t->moved = blocks_to_bytes (emu, blocks_to_do (t));
  count (emu, CNT_WRITTEN_BYTES, t->moved);
}

void
op_write (struct task *t)
{
  const bool fua = t->cmd->cdb_len > 6 && t->cmd->cdb[1] & CDB1_FUA;

  write_data (t, fua);
  if (fua)
    count (t->emu, CNT_FUA_WRITES, 1);
}

/* Durable at once, so that no power cut can tear it. */
void
op_write_atomic (struct task *t)
{
  const uint64_t boundary = get_be16 (t->cmd->cdb + 10);

  if (t->lba % ATOMIC_ALIGN != 0)
    task_fail_field (t, 2, -1);
  else if (boundary > ATOMIC_MAX || boundary % ATOMIC_ALIGN != 0)
    task_fail_field (t, 10, -1);
  else if (t->blocks > ATOMIC_MAX || t->blocks % ATOMIC_ALIGN != 0)
    task_fail_field (t, 12, -1);
  else
    write_data (t, true);
}

/* ---- WRITE SAME ---- */

static bool
same_flags_ok (struct task *t)
{
  const struct emu *emu = t->emu;
  const uint8_t flags = t->cmd->cdb[1];
  const bool can_unmap = t->cmd->cdb_len == 16 ? emu->s.lbpws : emu->s.lbpws10;

  if (flags & SAME_ANCHOR) {
    task_fail_field (t, 1, 4);
    return false;
  }
  if (flags & SAME_UNMAP && !can_unmap) {
    task_fail_field (t, 1, 3);
    return false;
  }
  if (t->blocks > emu->s.write_same_length) {
    task_fail_field (t, t->cmd->cdb_len == 16 ? 10 : 7, -1);
    return false;
  }
  return true;
}

static bool
is_zero (const uint8_t *p, size_t len)
{
  return p[0] == 0 && memcmp (p, p + 1, len - 1) == 0;
}

void
op_write_same (struct task *t)
{
  struct emu *emu = t->emu;
  const bool no_data = t->cmd->cdb_len == 16 && t->cmd->cdb[1] & SAME_NDOB;
  const size_t lbs = (size_t) 1 << emu->lbs_shift;
  uint8_t block[4096];
  struct source src = { .block = block };

  if (t->blocks == 0 && t->lba <= emu->nr_blocks)       /* to the end */
    t->blocks = emu->nr_blocks - t->lba;
  if (!range_ok (t) || !same_flags_ok (t) || !write_allowed (t))
    return;
  if (!no_data && !task_receive (t, block, lbs))
    return;
  if (no_data || is_zero (block, lbs))
    src.block = NULL;
  if (t->blocks == 0 || !write_blocks (t, &src, false))
    return;
  count (emu, CNT_WRITTEN_BYTES, blocks_to_bytes (emu, blocks_to_do (t)));
}

/* ---- UNMAP ---- */

/* Blocks of conventional zones (or of a drive without zones) lose their
   content; sequential zones ignore the hint. */
static int
unmap_blocks_locked (struct emu *emu, uint64_t lba, uint64_t blocks)
{
  uint8_t ones[4096];

  if (cache_before_blocks_locked (emu, lba, blocks) == -1)
    return -1;
  if (emu->s.lbprz != 2)
    return media_zero (emu, lba, blocks);
  memset (ones, 0xff, sizeof ones);
  return write_repeated (emu, lba, blocks, ones);
}

static int
unmap_range_locked (struct emu *emu, uint64_t lba, uint64_t blocks)
{
  const uint64_t end = lba + blocks;

  if (emu->s.lbprz == 0)
    return 0;
  while (lba < end) {
    uint64_t n = end - lba;
    bool random = true;

    if (emu_zoned (emu)) {
      const uint32_t zone = zone_of (emu, lba);
      const struct zone_rec rec = zone_load (emu, zone);

      n = MIN (n, zone_start (emu, zone) + zone_len (emu, zone) - lba);
      random = rec.cond == ZONE_NOT_WP;
    }
    if (random && unmap_blocks_locked (emu, lba, n) == -1)
      return -1;
    lba += n;
  }
  return 0;
}

/* Checks all descriptors before any takes effect. */
static bool
unmap_list_ok (struct task *t, const uint8_t *list, size_t nr)
{
  const struct emu *emu = t->emu;
  size_t i;

  for (i = 0; i < nr; ++i) {
    const uint8_t *d = list + 8 + 16 * i;

    t->lba = get_be64 (d);
    t->blocks = get_be32 (d + 8);
    if (!range_ok (t))
      return false;
    if (t->blocks > emu->s.unmap_max_blocks) {
      task_fail_parameter (t, (unsigned) (8 + 16 * i + 8), -1);
      return false;
    }
  }
  return true;
}

/* Blocks at the edges that do not fill a granule stay. */
static void
trim_to_granules (const struct emu *emu, uint64_t *lba, uint64_t *blocks)
{
  const uint64_t granule = MAX (emu->s.unmap_granularity, 1u);
  const uint64_t skew = emu->s.unmap_alignment;
  const uint64_t end = *lba + *blocks;
  const uint64_t first = *lba <= skew ? skew
    : skew + DIV_ROUND_UP (*lba - skew, granule) * granule;
  const uint64_t last = end < skew ? skew : skew + (end - skew) / granule * granule;

  *lba = first;
  *blocks = last > first ? last - first : 0;
}

static int
unmap_list (struct emu *emu, const uint8_t *list, size_t nr)
{
  size_t i;
  int r = 0;

  cache_lock (emu);
  for (i = 0; i < nr && r == 0; ++i) {
    uint64_t lba = get_be64 (list + 8 + 16 * i);
    uint64_t blocks = get_be32 (list + 8 + 16 * i + 8);

    trim_to_granules (emu, &lba, &blocks);
    r = unmap_range_locked (emu, lba, blocks);
  }
  cache_unlock (emu);
  return r;
}

void
op_unmap (struct task *t)
{
  const struct emu *emu = t->emu;
  const size_t len = get_be16 (t->cmd->cdb + 7);
  uint8_t list[8 + 16 * 256];
  size_t nr;

  if (!write_allowed (t))
    return;
  if (t->cmd->cdb[1] & 1) {
    task_fail_field (t, 1, 0);
    return;
  }
  if (len == 0)
    return;
  if (len < 8) {
    task_fail (t, SENSE_PARAMETER_LENGTH);
    return;
  }
  if (!task_receive (t, list, MIN (len, sizeof list)))
    return;
  nr = MIN ((size_t) get_be16 (list + 2), len - 8) / 16;
  if (nr > emu->s.unmap_max_desc) {
    task_fail_parameter (t, 2, -1);
    return;
  }
  if (unmap_list_ok (t, list, nr) && unmap_list (t->emu, list, nr) == -1)
    task_fail (t, SENSE_WRITE_ERROR);
}

/* ---- VERIFY ---- */

/* The blocks from t->lba on against the data, a piece at a time. */
static void
compare_blocks (struct task *t, bool one_block)
{
  struct emu *emu = t->emu;
  const size_t lbs = (size_t) 1 << emu->lbs_shift;
  uint8_t want[4096], have[4096];
  uint64_t i;

  if (one_block && !task_receive (t, want, lbs))
    return;
  for (i = 0; i < t->blocks; ++i) {
    const struct iovec iov = { have, lbs };
    struct cursor to = { .iov = &iov, .iovcnt = 1 };

    if (!one_block && !task_receive (t, want, lbs))
      return;
    if (read_bytes (emu, t->lba + i, lbs, &to) == -1) {
      task_fail_info (t, SENSE_READ_ERROR, t->lba + i);
      return;
    }
    if (memcmp (want, have, lbs) != 0) {
      task_fail (t, SENSE_MISCOMPARE);
      return;
    }
  }
}

void
op_verify (struct task *t)
{
  const unsigned bytchk = (t->cmd->cdb[1] & CDB1_BYTCHK) >> 1;
  uint32_t sense;

  if (!range_ok (t))
    return;
  if (bytchk == 2) {
    task_fail_field (t, 1, 2);
    return;
  }
  sense = zones_check_read (t->emu, t->lba, t->blocks);
  if (sense)
    task_fail (t, sense);
  else if (bytchk != 0 && t->blocks != 0)
    compare_blocks (t, bytchk == 3);
}

/* ---- SYNCHRONIZE CACHE ---- */

void
op_sync_cache (struct task *t)
{
  struct emu *emu = t->emu;

  if (!range_ok (t))
    return;
  cache_lock (emu);
  cache_sync_locked (emu, t->lba, t->blocks ? t->blocks : emu->nr_blocks - t->lba);
  cache_unlock (emu);
}
