/* SPDX-License-Identifier: BSD-3-Clause */
#include <config.h>
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/bdev.h"
#include "base/bytes.h"
#include "fake-drive.h"
#include "scsi/cdb.h"

/* ---- data ---- */

static void
copy_out (const struct sh_command *c, const uint8_t *from, size_t n)
{
  n = MIN (n, c->data_len);
  for (int i = 0; i < c->iovcnt && n > 0; ++i) {
    const size_t k = MIN (n, c->iov[i].iov_len);

    memcpy (c->iov[i].iov_base, from, k);
    from += k;
    n -= k;
  }
}

static void
copy_in (const struct sh_command *c, uint8_t *to, size_t n)
{
  n = MIN (n, c->data_len);
  for (int i = 0; i < c->iovcnt && n > 0; ++i) {
    const size_t k = MIN (n, c->iov[i].iov_len);

    memcpy (to, c->iov[i].iov_base, k);
    to += k;
    n -= k;
  }
}

static int
good (struct sh_command *c, size_t moved)
{
  c->status = SH_STATUS_GOOD;
  c->resid = c->data_len - MIN (moved, c->data_len);
  return 0;
}

static int
check (struct sh_command *c, uint8_t key, uint8_t asc, uint8_t ascq)
{
  memset (c->sense, 0, 18);
  c->sense[0] = 0x70;
  c->sense[2] = key;
  c->sense[7] = 10;
  c->sense[12] = asc;
  c->sense[13] = ascq;
  c->sense_len = 18;
  c->status = SH_STATUS_CHECK_CONDITION;
  c->resid = c->data_len;
  return 0;
}

static int
send_page (struct sh_command *c, const struct fake_page *p)
{
  if (p->len == 0)
    return check (c, 5, 0x24, 0);
  copy_out (c, p->bytes, p->len);
  return good (c, p->len);
}

/* ---- zones ---- */

static struct fake_zone *
zone_of (struct fake_drive *f, uint64_t lba)
{
  for (unsigned i = 0; i < f->nr_zones; ++i)
    if (lba >= f->zones[i].start && lba - f->zones[i].start < f->zones[i].len)
      return &f->zones[i];
  return NULL;
}

static bool
is_seq (const struct fake_zone *z)
{
  return z && z->type == ZONE_SEQ_REQUIRED;
}

static unsigned
count_explicit (const struct fake_drive *f)
{
  unsigned n = 0;

  for (unsigned i = 0; i < f->nr_zones; ++i)
    n += f->zones[i].cond == ZONE_EXPLICIT_OPEN;
  return n;
}

static bool
wanted (const struct fake_zone *z, uint8_t option)
{
  switch (option) {
  case 0: return true;
  case 2: return z->cond == ZONE_IMPLICIT_OPEN;
  case 3: return z->cond == ZONE_EXPLICIT_OPEN;
  default: return false;
  }
}

static int
report_zones (struct fake_drive *f, struct sh_command *c)
{
  const uint64_t lba = get_be64 (c->cdb + 2);
  const bool partial = (c->cdb[14] & 0x80) != 0;
  const size_t slots = (c->data_len - 64) / 64;
  uint8_t *buf = calloc (1, 64 + 64 * (size_t) f->nr_zones);
  size_t n = 0, sent;

  if (f->nr_zones == 0 || (partial && f->no_partial) || lba >= f->nr_lbas) {
    free (buf);
    return f->nr_zones == 0 ? check (c, 5, 0x20, 0) :
           lba >= f->nr_lbas ? check (c, 5, 0x21, 0) : check (c, 5, 0x24, 0);
  }
  for (unsigned i = 0; i < f->nr_zones; ++i) {
    const struct fake_zone *z = &f->zones[i];
    uint8_t *p = buf + 64 + 64 * n;

    if (z->start + z->len <= lba || !wanted (z, c->cdb[14] & 0x3f))
      continue;
    p[0] = z->type;
    p[1] = (uint8_t) (z->cond << 4);
    put_be64 (p + 8, z->len);
    put_be64 (p + 16, z->start);
    put_be64 (p + 24, z->wp);
    ++n;
  }
  sent = MIN (n, slots);
  put_be32 (buf, (uint32_t) (64 * (partial ? sent : n)));
  put_be64 (buf + 8, f->nr_lbas - 1);
  copy_out (c, buf, 64 + 64 * sent);
  free (buf);
  return good (c, 64 + 64 * sent);
}

static int
zone_out (struct fake_drive *f, struct sh_command *c)
{
  struct fake_zone *z = zone_of (f, get_be64 (c->cdb + 2));

  if (c->cdb[14] & 1)
    return good (c, 0);
  if (!is_seq (z) || z->start != get_be64 (c->cdb + 2))
    return check (c, 5, 0x24, 0);
  switch (c->cdb[1]) {
  case ZONE_OUT_OPEN:
    if (f->open_limit && count_explicit (f) >= f->open_limit)
      return check (c, 7, 0x55, 0x0e);
    z->cond = ZONE_EXPLICIT_OPEN;
    break;
  case ZONE_OUT_CLOSE:
    z->cond = z->wp == z->start ? ZONE_EMPTY : ZONE_CLOSED;
    break;
  case ZONE_OUT_FINISH:
    z->cond = ZONE_FULL;
    z->wp = z->start + z->len;
    break;
  case ZONE_OUT_RESET:
    z->cond = ZONE_EMPTY;
    z->wp = z->start;
    break;
  }
  return good (c, 0);
}

/* ---- media ---- */

static void
rw_range (const struct sh_command *c, uint64_t *lba, uint64_t *blocks)
{
  *lba = cdb_lba (c);
  switch (c->cdb_len) {
  case 6: *blocks = c->cdb[4] ? c->cdb[4] : 256; break;
  case 10: *blocks = get_be16 (c->cdb + 7); break;
  default: *blocks = get_be32 (c->cdb + 10); break;
  }
}

static void
store (struct fake_drive *f, const struct sh_command *c, uint64_t lba, uint64_t blocks)
{
  struct fake_zone *z = zone_of (f, lba);

  if (c->cdb[0] == OP_WRITE_SAME_16)
    memset (f->data + lba * f->lbs, 0, blocks * f->lbs);
  else
    copy_in (c, f->data + lba * f->lbs, blocks * f->lbs);
  if (!is_seq (z))
    return;
  z->wp += blocks;
  if (z->cond != ZONE_EXPLICIT_OPEN)
    z->cond = ZONE_IMPLICIT_OPEN;
  if (z->wp == z->start + z->len)
    z->cond = ZONE_FULL;
}

static int
write_blocks (struct fake_drive *f, struct sh_command *c)
{
  uint64_t lba, blocks;
  struct fake_zone *z;

  rw_range (c, &lba, &blocks);
  if (lba + blocks > f->nr_lbas)
    return check (c, 5, 0x21, 0);
  z = zone_of (f, lba);
  if (is_seq (z)) {
    if (lba + blocks > z->start + z->len)
      return check (c, 5, 0x21, 5);
    if (z->cond == ZONE_FULL)
      return check (c, 5, 0x24, 0);
    if (lba != z->wp)
      return check (c, 5, 0x21, 4);
    if (f->open_limit && z->cond != ZONE_EXPLICIT_OPEN && z->cond != ZONE_IMPLICIT_OPEN &&
        count_explicit (f) >= f->open_limit)
      return check (c, 7, 0x55, 0x0e);
  }
  store (f, c, lba, blocks);
  return good (c, c->data_len);
}

static int
read_blocks (struct fake_drive *f, struct sh_command *c)
{
  uint64_t lba, blocks;

  rw_range (c, &lba, &blocks);
  if (lba + blocks > f->nr_lbas)
    return check (c, 5, 0x21, 0);
  copy_out (c, f->data + lba * f->lbs, blocks * f->lbs);
  return good (c, blocks * f->lbs);
}

static int
unmap (struct fake_drive *f, struct sh_command *c)
{
  uint8_t param[24];

  copy_in (c, param, sizeof param);
  memset (f->data + get_be64 (param + 8) * f->lbs, 0,
          (size_t) get_be32 (param + 16) * f->lbs);
  return good (c, c->data_len);
}

static int
run (struct fake_drive *f, struct sh_command *c)
{
  switch (c->cdb[0]) {
  case OP_TEST_UNIT_READY: case OP_START_STOP_UNIT:
    return good (c, 0);
  case OP_INQUIRY:
    return send_page (c, (c->cdb[1] & 1) ? &f->vpd[c->cdb[2]] : &f->inquiry);
  case OP_SERVICE_ACTION_IN_16:
    return f->no_capacity16 ? check (c, 5, 0x20, 0) : send_page (c, &f->capacity16);
  case OP_READ_CAPACITY_10: {
    uint8_t buf[8];

    put_be32 (buf, (uint32_t) MIN (f->nr_lbas - 1, UINT32_MAX));
    put_be32 (buf + 4, f->lbs);
    copy_out (c, buf, 8);
    return good (c, 8);
  }
  case OP_MODE_SENSE_10:
    return f->no_mode10 ? check (c, 5, 0x20, 0) : send_page (c, &f->mode10);
  case OP_MODE_SENSE_6:
    return f->no_mode6 ? check (c, 5, 0x20, 0) : send_page (c, &f->mode6);
  case OP_MAINTENANCE_IN:
    return send_page (c, &f->opcodes);
  case OP_ZONE_IN:
    return report_zones (f, c);
  case OP_ZONE_OUT:
    return zone_out (f, c);
  case OP_READ_16:
    return f->no_rw16 ? check (c, 5, 0x20, 0) : read_blocks (f, c);
  case OP_WRITE_16:
    return f->no_rw16 ? check (c, 5, 0x20, 0) : write_blocks (f, c);
  case OP_READ_10:
    return f->no_rw10 ? check (c, 5, 0x20, 0) : read_blocks (f, c);
  case OP_WRITE_10:
    return f->no_rw10 ? check (c, 5, 0x20, 0) : write_blocks (f, c);
  case OP_READ_6:
    return read_blocks (f, c);
  case OP_WRITE_6: case OP_WRITE_SAME_16:
    return write_blocks (f, c);
  case OP_UNMAP:
    return unmap (f, c);
  case OP_SYNCHRONIZE_CACHE_16:
    return f->no_sync16 ? check (c, 5, 0x20, 0) : good (c, 0);
  case OP_SYNCHRONIZE_CACHE_10:
    return f->no_sync10 ? check (c, 5, 0x20, 0) : good (c, 0);
  default:
    return check (c, 5, 0x20, 0);
  }
}

/* ---- scripts ---- */

static struct fake_script *
find_script (struct fake_drive *f, const struct sh_command *c)
{
  for (unsigned i = 0; i < f->nr_scripts; ++i) {
    struct fake_script *s = &f->scripts[i];

    if (s->opcode != -1 && s->opcode != c->cdb[0])
      continue;
    if (s->count == 0)
      continue;
    if (s->skip > 0) {
      --s->skip;
      continue;
    }
    return s;
  }
  return NULL;
}

static bool
moves_blocks (const struct sh_command *c)
{
  switch (c->cdb[0]) {
  case OP_READ_6: case OP_READ_10: case OP_READ_16: case OP_WRITE_6: case OP_WRITE_10:
  case OP_WRITE_16: case OP_WRITE_SAME_16:
    return true;
  default:
    return false;
  }
}

static void
take_effect (struct fake_drive *f, struct sh_command *c, enum fake_effect effect)
{
  uint64_t lba, blocks;

  if (effect == EFFECT_ALL)
    run (f, c);
  else if (effect == EFFECT_HALF && moves_blocks (c)) {
    rw_range (c, &lba, &blocks);
    if (is_seq (zone_of (f, lba)) && c->xfer == SH_XFER_TO_DEVICE &&
        lba != zone_of (f, lba)->wp)
      return;                   /* no drive writes elsewhere */
    if (c->xfer == SH_XFER_TO_DEVICE)
      store (f, c, lba, blocks / 2);
    else
      copy_out (c, f->data + lba * f->lbs, blocks / 2 * f->lbs);
  }
}

static int
play (struct fake_drive *f, struct fake_script *s, struct sh_command *c)
{
  if (s->count > 0)
    --s->count;
  f->now_ns += s->takes_ns;
  c->status = SH_STATUS_GOOD;
  take_effect (f, c, s->effect);
  if (c->status != SH_STATUS_GOOD)      /* it could not be done at all */
    return 0;
  if (s->errnum) {
    errno = s->errnum;
    return -1;
  }
  c->status = s->status;
  c->host_status = s->host_status;
  c->sense_len = s->sense_len;
  memcpy (c->sense, s->sense, sizeof s->sense);
  c->resid = s->resid;
  return 0;
}

static int
fake_execute (void *handle, struct sh_command *c)
{
  struct fake_drive *f = handle;
  struct fake_script *s = find_script (f, c);
  size_t described = 0;

  assert (f->nr_log < FAKE_LOG);
  assert (c->timeout_ms > 0);
  for (int i = 0; i < c->iovcnt; ++i)
    described += c->iov[i].iov_len;
  assert (described == c->data_len);
  f->log[f->nr_log++] = *c;
  c->host_status = SH_HOST_OK;
  c->sense_len = 0;
  return s ? play (f, s, c) : run (f, c);
}

static void
fake_limits (void *handle, struct sh_transport_limits *limits)
{
  *limits = ((struct fake_drive *) handle)->limits;
}

static int
fake_reopen (void *handle, char *message, size_t message_size)
{
  struct fake_drive *f = handle;

  ++f->reopens;
  errno = f->reopen_errnum;
  return f->reopen_errnum ? -1 : 0;
}

static void
fake_close (void *handle)
{
}

static const struct sh_transport_ops fake_ops = {
  .api = SH_TRANSPORT_API,
  .size = sizeof fake_ops,
  .name = "fake",
  .close = fake_close,
  .execute = fake_execute,
  .limits = fake_limits,
  .reopen = fake_reopen,
};

void
fake_transport (struct fake_drive *f, struct transport *t)
{
  *t = (struct transport) { .ops = &fake_ops, .handle = f, .name = "fake" };
}

struct fake_script *
fake_add (struct fake_drive *f, int opcode)
{
  struct fake_script *s = &f->scripts[f->nr_scripts++];

  assert (f->nr_scripts <= FAKE_SCRIPTS);
  *s = (struct fake_script) { .opcode = opcode, .count = 1 };
  return s;
}

struct fake_script *
fake_add_sense (struct fake_drive *f, int opcode, uint8_t key, uint8_t asc, uint8_t ascq)
{
  struct fake_script *s = fake_add (f, opcode);

  s->status = SH_STATUS_CHECK_CONDITION;
  s->sense[0] = 0x70;
  s->sense[2] = key;
  s->sense[7] = 10;
  s->sense[12] = asc;
  s->sense[13] = ascq;
  s->sense_len = 18;
  return s;
}

unsigned
fake_count (const struct fake_drive *f, int opcode)
{
  unsigned n = 0;

  for (unsigned i = 0; i < f->nr_log; ++i)
    n += f->log[i].cdb[0] == opcode;
  return n;
}

/* ---- clock ---- */

static uint64_t
clock_now (void *opaque)
{
  return ((struct fake_drive *) opaque)->now_ns;
}

static void
clock_sleep (void *opaque, uint64_t ns)
{
  struct fake_drive *f = opaque;

  f->now_ns += ns;
  f->slept_ns += ns;
}

struct sh_clock
fake_clock (struct fake_drive *f)
{
  return (struct sh_clock) {
    .now_ns = clock_now, .sleep_ns = clock_sleep, .opaque = f,
  };
}

/* ---- making one ---- */

static void
set_page (struct fake_page *p, uint8_t page, size_t payload)
{
  p->bytes[1] = page;
  put_be16 (p->bytes + 2, (uint16_t) payload);
  p->len = 4 + payload;
}

static void
set_vpd (struct fake_drive *f)
{
  static const uint8_t list[] = { 0x00, 0x80, 0x83, 0xb0, 0xb1, 0xb2, 0xb6 };
  static const uint8_t naa[] = { 0x01, 0x03, 0, 8, 0x50, 1, 2, 3, 4, 5, 6, 7 };

  set_page (&f->vpd[0x00], 0x00, sizeof list);
  memcpy (f->vpd[0x00].bytes + 4, list, sizeof list);
  set_page (&f->vpd[0x80], 0x80, 8);
  memcpy (f->vpd[0x80].bytes + 4, "  SN4711", 8);
  set_page (&f->vpd[0x83], 0x83, sizeof naa);
  memcpy (f->vpd[0x83].bytes + 4, naa, sizeof naa);
  set_page (&f->vpd[0xb0], 0xb0, 60);
  set_page (&f->vpd[0xb1], 0xb1, 60);
  put_be16 (f->vpd[0xb1].bytes + 4, 7200);
  set_page (&f->vpd[0xb2], 0xb2, 4);
  set_page (&f->vpd[0xb6], 0xb6, 60);
  f->vpd[0xb6].bytes[4] = 0x01;
  put_be32 (f->vpd[0xb6].bytes + 16, 8);
}

static void
set_modes (struct fake_drive *f)
{
  uint8_t *b = f->mode10.bytes;

  put_be16 (b, 26);             /* what follows */
  b[3] = 0x10;                  /* DPOFUA */
  b[8] = 0x08;
  b[9] = 18;
  b[10] = 0x04;                 /* WCE */
  f->mode10.len = 28;
  b = f->mode6.bytes;
  b[0] = 23;
  b[2] = 0x10;
  b[4] = 0x08;
  b[5] = 18;
  b[6] = 0x04;
  f->mode6.len = 24;
}

struct fake_drive *
fake_new (uint32_t lbs, unsigned nr_zones, uint64_t zone_lbas, unsigned nr_conv)
{
  struct fake_drive *f = calloc (1, sizeof *f);

  assert (f && nr_zones <= ARRAY_SIZE (f->zones));
  f->now_ns = NS_PER_S;         /* a clock never reads 0 */
  f->lbs = lbs;
  f->nr_zones = nr_zones;
  f->nr_lbas = nr_zones ? nr_zones * zone_lbas : zone_lbas;
  f->data = calloc (f->nr_lbas, lbs);
  assert (f->data);
  for (unsigned i = 0; i < nr_zones; ++i)
    f->zones[i] = (struct fake_zone) {
      .start = i * zone_lbas,
      .len = zone_lbas,
      .wp = i < nr_conv ? UINT64_MAX : i * zone_lbas,
      .type = i < nr_conv ? ZONE_CONVENTIONAL : ZONE_SEQ_REQUIRED,
      .cond = i < nr_conv ? ZONE_NOT_WP : ZONE_EMPTY,
    };
  f->inquiry.bytes[0] = nr_zones ? 0x14 : 0x00;
  f->inquiry.bytes[2] = 7;
  f->inquiry.bytes[4] = 91;
  memcpy (f->inquiry.bytes + 8, "MAKER   MODEL ZBC       0001", 28);
  f->inquiry.len = 96;
  set_vpd (f);
  set_modes (f);
  put_be64 (f->capacity16.bytes, f->nr_lbas - 1);
  put_be32 (f->capacity16.bytes + 8, lbs);
  f->capacity16.bytes[12] = 0x10;
  f->capacity16.len = 32;
  f->opcodes.bytes[1] = 0x03;
  put_be16 (f->opcodes.bytes + 2, 16);
  f->opcodes.bytes[4] = 0x93;
  f->opcodes.len = 20;
  return f;
}

void
fake_free (struct fake_drive *f)
{
  free (f->data);
  free (f);
}

/* ---- nothing at all ---- */

static int
null_execute (void *handle, struct sh_command *c)
{
  c->status = SH_STATUS_GOOD;
  c->host_status = SH_HOST_OK;
  c->resid = 0;
  return 0;
}

const struct sh_transport_ops null_transport = {
  .api = SH_TRANSPORT_API,
  .size = sizeof (struct sh_transport_ops),
  .name = "null",
  .close = fake_close,
  .execute = null_execute,
};
