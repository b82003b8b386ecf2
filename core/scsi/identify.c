/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening a disk: everything is learned from the drive itself, nothing from
 * sysfs.  What a drive does not say has a safe default: no limit on open
 * zones, a write cache that must be flushed, no unrestricted reads. */
#include <config.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "base/bytes.h"
#include "base/error.h"
#include "base/log.h"
#include "scsi/disk-internal.h"
#include "scsi/vpd.h"

/* Where neither the transport nor the drive names a limit. */
#define DEFAULT_MAX_BYTES ((size_t) 16 * MiB)
/* One WRITE SAME should end well within its timeout. */
#define MOST_ZEROES_BYTES (1 * GiB)

struct identity {
  struct inquiry inq;
  char serial[65];
  uint8_t wwid[16];
  unsigned wwid_len;
};

struct finding {                /* what the pages said, before it is judged */
  struct identity id;
  uint8_t pages[256];           /* VPD pages that the drive lists */
  size_t nr_pages;
  struct block_limits limits;
  struct characteristics traits;
  struct provisioning prov;
  struct zoned_limits zoned;
  struct capacity cap;
};

static int
say_failure (const struct disk *d, const struct attempt *a, struct sh_error *err)
{
  const char *why = a->answer ? a->answer->meaning : sh_drive_error (a->errnum);

  if (a->sense.usable)
    sh_fail (err, a->errnum, "%s: the drive answers %s with an error: %s (%02X/%02X/%02X)",
             d->bdev.info.name, cdb_name (&a->c), why, a->sense.key, a->sense.asc,
             a->sense.ascq);
  else
    sh_fail (err, a->errnum, "%s: no answer to %s: %s", d->bdev.info.name,
             cdb_name (&a->c), why);
  if (a->errnum == EPERM)
    sh_hint (err, "The system filters SCSI commands: run as root, or open the "
             "/dev/sgN node of the drive for writing.");
  return -1;
}

/* Runs the command that is encoded in `a` and reads its data into buf. */
static int
ask (struct disk *d, struct attempt *a, void *buf, size_t size, size_t *len)
{
  struct iovec iov = { buf, size };

  a->sense.usable = false;
  attempt_data (a, SH_XFER_FROM_DEVICE, &iov, 1, size);
  if (attempt_all (d, a) == -1)
    return -1;
  *len = size - a->c.resid;
  return 0;
}

#define ASKING (ATTEMPT_EXPECT_REFUSAL | ATTEMPT_WHILE_GONE)

/* A page that the drive does not have is no error: *n is then 0. */
static int
read_page (struct disk *d, const struct finding *f, enum vpd_page page, uint8_t *buf,
           size_t size, const uint8_t **p, size_t *n, struct sh_error *err)
{
  struct attempt a;
  size_t len;

  *p = NULL;
  *n = 0;
  if (page != VPD_SUPPORTED && f->nr_pages > 0 &&
      !vpd_lists (f->pages, f->nr_pages, page))
    return 0;
  attempt_init (&a, DISK_CLASS_INQUIRY, ASKING);
  cdb_vpd (&a.c, page, (uint16_t) size);
  if (ask (d, &a, buf, size, &len) == -1) {
    if (a.answer && a.answer->action == ANSWER_UNSUPPORTED)
      return 0;
    return say_failure (d, &a, err);
  }
  if (!vpd_payload (buf, len, page, p, n))
    disk_log (d, SH_LOG_WARNING, "the answer to VPD page %02Xh is not that page; "
              "going on without", page);
  return 0;
}

static int
read_inquiry (struct disk *d, struct inquiry *inq, struct sh_error *err)
{
  const char *name = d->bdev.info.name;
  uint8_t buf[96];
  struct attempt a;
  size_t len;

  attempt_init (&a, DISK_CLASS_INQUIRY, ASKING);
  cdb_inquiry (&a.c, sizeof buf);
  if (ask (d, &a, buf, sizeof buf, &len) == -1)
    return say_failure (d, &a, err);
  if (!inquiry_parse (buf, len, inq))
    return sh_fail (err, EPROTO, "%s: the answer to INQUIRY is too short (%zu bytes)",
                    name, len);
  if (inq->qualifier != 0)
    return sh_fail (err, ENODEV, "%s: no device is connected at this address "
                    "(peripheral qualifier %u)", name, inq->qualifier);
  if (inq->ptype != PTYPE_DISK && inq->ptype != PTYPE_ZONED) {
    sh_fail (err, ENOTBLK, "%s: is %s (device type %02Xh), not a disk", name,
             ptype_name (inq->ptype), inq->ptype);
    return sh_hint (err, "Name the node of a disk: 'lsscsi -g' lists them.");
  }
  return 0;
}

static int
read_identity (struct disk *d, struct finding *f, struct sh_error *err)
{
  struct identity *id = &f->id;
  uint8_t buf[512];
  const uint8_t *p;
  size_t n;

  if (read_inquiry (d, &id->inq, err) == -1)
    return -1;
  if (read_page (d, f, VPD_SUPPORTED, buf, sizeof buf, &p, &n, err) == -1)
    return -1;
  f->nr_pages = MIN (n, sizeof f->pages);
  if (f->nr_pages > 0)
    memcpy (f->pages, p, f->nr_pages);
  if (read_page (d, f, VPD_SERIAL, buf, sizeof buf, &p, &n, err) == -1)
    return -1;
  vpd_text (p, n, id->serial, sizeof id->serial);
  if (read_page (d, f, VPD_IDENTITY, buf, sizeof buf, &p, &n, err) == -1)
    return -1;
  id->wwid_len = vpd_identity (p, n, id->wwid);
  return 0;
}

static int
read_limits (struct disk *d, struct finding *f, struct sh_error *err)
{
  uint8_t buf[64];
  const uint8_t *p;
  size_t n;

  if (read_page (d, f, VPD_BLOCK_LIMITS, buf, sizeof buf, &p, &n, err) == -1)
    return -1;
  vpd_block_limits (p, n, &f->limits);
  if (read_page (d, f, VPD_CHARACTERISTICS, buf, sizeof buf, &p, &n, err) == -1)
    return -1;
  vpd_characteristics (p, n, &f->traits);
  if (read_page (d, f, VPD_PROVISIONING, buf, sizeof buf, &p, &n, err) == -1)
    return -1;
  vpd_provisioning (p, n, &f->prov);
  if (read_page (d, f, VPD_ZONED, buf, sizeof buf, &p, &n, err) == -1)
    return -1;
  vpd_zoned (p, n, &f->zoned);
  return 0;
}

static int
read_capacity_10 (struct disk *d, struct capacity *cap, struct sh_error *err)
{
  uint8_t buf[8];
  struct attempt a;
  size_t len;

  attempt_init (&a, DISK_CLASS_INQUIRY, ASKING);
  cdb_read_capacity_10 (&a.c);
  if (ask (d, &a, buf, sizeof buf, &len) == -1)
    return say_failure (d, &a, err);
  if (!capacity10_parse (buf, len, cap))
    return sh_fail (err, EPROTO, "%s: the answer to READ CAPACITY(10) is too short",
                    d->bdev.info.name);
  return 0;
}

static int
read_capacity (struct disk *d, struct capacity *cap, struct sh_error *err)
{
  uint8_t buf[32];
  struct attempt a;
  size_t len;

  attempt_init (&a, DISK_CLASS_INQUIRY, ASKING);
  cdb_read_capacity_16 (&a.c, sizeof buf);
  if (ask (d, &a, buf, sizeof buf, &len) == -1) {
    if (a.answer && a.answer->action == ANSWER_UNSUPPORTED)
      return read_capacity_10 (d, cap, err);
    return say_failure (d, &a, err);
  }
  if (!capacity16_parse (buf, len, cap))
    return sh_fail (err, EPROTO, "%s: the answer to READ CAPACITY(16) is too short",
                    d->bdev.info.name);
  return 0;
}

static int
take_capacity (struct disk *d, const struct capacity *cap, struct sh_error *err)
{
  struct bdev_info *info = &d->bdev.info;
  uint64_t bytes;

  if (!is_power_of_2 (cap->lbs_bytes) || cap->lbs_bytes < 512 || cap->lbs_bytes > 4096) {
    sh_fail (err, ENOTSUP, "%s: has logical blocks of %" PRIu32 " bytes", info->name,
             cap->lbs_bytes);
    return sh_hint (err, "Blocks of 512, 1024, 2048 and 4096 bytes can be used; a drive "
                    "with 520 or 528 byte blocks must be formatted anew (sg_format).");
  }
  d->lbs_shift = (unsigned) __builtin_ctz (cap->lbs_bytes);
  if (ADD_OVERFLOW (cap->last_lba, UINT64_C (1), &d->nr_lbas) ||
      MUL_OVERFLOW (d->nr_lbas, (uint64_t) cap->lbs_bytes, &bytes) || bytes > INT64_MAX)
    return sh_fail (err, EPROTO, "%s: reports an impossible size: last block %" PRIu64
                    " of %" PRIu32 " bytes each", info->name, cap->last_lba,
                    cap->lbs_bytes);
  info->size_bytes = bytes;
  info->lbs_bytes = cap->lbs_bytes;
  info->pbs_bytes = cap->pbs_bytes;
  return 0;
}

/* 1: the page came; 0: the drive does not know this command; -1: err. */
static int
mode_sense (struct disk *d, bool ten, uint8_t page, struct mode_sense *ms,
            struct sh_error *err)
{
  uint8_t buf[192];
  struct attempt a;
  size_t len;

  attempt_init (&a, DISK_CLASS_INQUIRY, ASKING);
  if (ten)
    cdb_mode_sense_10 (&a.c, page, sizeof buf);
  else
    cdb_mode_sense_6 (&a.c, page, sizeof buf);
  if (ask (d, &a, buf, sizeof buf, &len) == -1) {
    if (a.answer && a.answer->action == ANSWER_UNSUPPORTED)
      return 0;
    return say_failure (d, &a, err);
  }
  return mode_sense_parse (buf, len, ten, ms);
}

/* The caching page, or at least the header of all pages. */
static int
read_modes (struct disk *d, struct sh_error *err)
{
  static const struct { bool ten; uint8_t page; } tries[] = {
    { true, 0x08 }, { false, 0x08 }, { true, 0x3f }, { false, 0x3f },
  };
  struct bdev_info *info = &d->bdev.info;
  struct mode_sense ms = { 0 };
  int r = 0;

  for (size_t i = 0; i < ARRAY_SIZE (tries) && r == 0; ++i) {
    r = mode_sense (d, tries[i].ten, tries[i].page, &ms, err);
    if (r == -1)
      return -1;
  }
  info->write_protected = ms.write_protected;
  info->read_only |= ms.write_protected;
  info->fua = ms.dpofua;
  info->write_cache = !ms.has_caching || ms.wce;
  return 0;
}

static int
opcode_support (struct disk *d, uint8_t opcode, enum opcode_support *support,
                uint8_t *usage1, struct sh_error *err)
{
  uint8_t buf[64];
  struct attempt a;
  size_t len;

  *support = OPCODE_UNKNOWN;
  attempt_init (&a, DISK_CLASS_INQUIRY, ASKING);
  cdb_report_opcode (&a.c, opcode, sizeof buf);
  if (ask (d, &a, buf, sizeof buf, &len) == -1) {
    if (a.errnum == EPERM || (a.answer && a.answer->action == ANSWER_UNSUPPORTED))
      return 0;
    return say_failure (d, &a, err);
  }
  *support = opcode_support_parse (buf, len, usage1);
  return 0;
}

static int
learn_write_same (struct disk *d, const struct finding *f, struct sh_error *err)
{
  struct bdev_info *info = &d->bdev.info;
  const uint64_t most = f->limits.max_write_same_blocks;
  const bool hinted = most > 0 || f->prov.write_same_unmap;
  enum opcode_support support;
  uint8_t usage1 = 0;
  uint64_t blocks = MOST_ZEROES_BYTES >> d->lbs_shift;

  if (opcode_support (d, OP_WRITE_SAME_16, &support, &usage1, err) == -1)
    return -1;
  if (support == OPCODE_NOT_SUPPORTED || (support == OPCODE_UNKNOWN && !hinted))
    return 0;
  if (most > 0)
    blocks = MIN (blocks, most);
  info->max_zeroes_bytes = blocks << d->lbs_shift;
  d->write_same_ndob = (usage1 & 0x01) != 0;
  info->zeroes_unmap =
    f->prov.write_same_unmap && (f->prov.reads_zero || f->cap.lbprz);
  d->zero_block = calloc (1, info->lbs_bytes);
  if (d->zero_block == NULL)
    return sh_fail (err, ENOMEM, "%s: no memory", info->name);
  return 0;
}

static void
learn_unmap (struct disk *d, const struct finding *f)
{
  const struct block_limits *bl = &f->limits;

  d->unmap_max_blocks = bl->max_unmap_blocks;
  d->unmap_granularity = MAX (bl->unmap_granularity, 1u);
  d->unmap_alignment = bl->unmap_alignment;
  d->bdev.info.unmap = f->prov.unmap && bl->max_unmap_blocks > 0 &&
                       bl->max_unmap_descriptors > 0;
}

/* What the transport and the drive can move at a time. */
static int
learn_transfer_limits (struct disk *d, const struct finding *f, struct sh_error *err)
{
  const uint64_t lbs = d->bdev.info.lbs_bytes;
  uint64_t most = atomic_load (&d->max_bytes);

  if (f->limits.max_transfer_blocks > 0)
    most = MIN (most, f->limits.max_transfer_blocks * lbs);
  most -= most % lbs;
  if (most == 0)
    return sh_fail (err, EINVAL, "%s: the transport moves %zu bytes at a time, less than "
                    "a logical block of %" PRIu64 " bytes", d->bdev.info.name,
                    (size_t) atomic_load (&d->max_bytes), lbs);
  atomic_store (&d->max_bytes, (size_t) most);
  return 0;
}

static void
learn_model (struct disk *d, const struct finding *f)
{
  struct bdev_info *info = &d->bdev.info;

  if (f->id.inq.ptype == PTYPE_ZONED)
    info->model = BDEV_HOST_MANAGED;
  else if (f->traits.zoned == 1)
    info->model = BDEV_HOST_AWARE;
  else if (f->traits.zoned == 2)
    info->model = BDEV_DRIVE_MANAGED;
  else
    info->model = BDEV_NOT_ZONED;
  info->rotational = f->traits.rotational;
}

struct survey {                 /* of all zones, at opening */
  uint64_t zone_bytes;          /* of the first, with its gap */
  uint64_t nr;
  uint64_t start_bytes, len_bytes;      /* of the zone that is being looked at */
  uint64_t gap_bytes;           /* at its end: of gap zones */
};

/* All zones are of one size; the last may be shorter. */
static int
end_of_zone (struct disk *d, struct survey *s, struct sh_error *err)
{
  const bool last = s->start_bytes + s->len_bytes == d->bdev.info.size_bytes;

  if (s->nr == 0)
    return 0;
  if (s->nr == 1)
    s->zone_bytes = s->len_bytes;
  if (s->len_bytes == s->zone_bytes || (last && s->len_bytes < s->zone_bytes))
    return 0;
  sh_fail (err, ENOTSUP, "%s: has zones of different sizes: %" PRIu64 " bytes at byte %"
           PRIu64 ", %" PRIu64 " before", d->bdev.info.name, s->len_bytes,
           s->start_bytes, s->zone_bytes);
  if (s->gap_bytes > 0)
    return sh_hint (err, "The last %" PRIu64 " of these bytes are a gap zone (type 5h).  Only "
                    "drives whose zones are all of one size can be used.", s->gap_bytes);
  return sh_hint (err, "Only drives whose zones are all of one size can be used.");
}

static int
look_at_zone (struct disk *d, struct survey *s, const struct bdev_zone *zone,
              struct sh_error *err)
{
  if (zone->type == ZONE_GAP && s->nr > 0) {
    d->has_gaps = true;
    s->len_bytes += zone->len_bytes;
    s->gap_bytes += zone->len_bytes;
    return 0;
  }
  if (end_of_zone (d, s, err) == -1)
    return -1;
  ++s->nr;
  s->start_bytes = zone->start_bytes;
  s->len_bytes = zone->len_bytes;
  s->gap_bytes = 0;
  return 0;
}

static int
survey_zones (struct disk *d, struct sh_error *err)
{
  struct bdev_info *info = &d->bdev.info;
  struct survey s = { 0 };
  struct bdev_zone zone;
  struct zone_walk w;
  int r;

  if (zone_walk_begin (&w, d, 0, SIZE_MAX, err) == -1)
    return -1;
  while ((r = zone_walk_next (&w, &zone, err)) == 1)
    if (look_at_zone (d, &s, &zone, err) == -1) {
      r = -1;
      break;
    }
  zone_walk_end (&w);
  if (r == -1 || end_of_zone (d, &s, err) == -1)
    return -1;
  if (s.nr > UINT32_MAX)
    return sh_fail (err, ENOTSUP, "%s: has %" PRIu64 " zones, more than can be handled",
                    info->name, s.nr);
  info->zone_bytes = s.zone_bytes;
  info->nr_zones = (uint32_t) s.nr;
  return 0;
}

/* A host-managed drive may report the size of its conventional zones alone
   (RC BASIS 0); the zone report knows the rest. */
static int
learn_zones (struct disk *d, struct finding *f, struct sh_error *err)
{
  struct bdev_info *info = &d->bdev.info;
  struct report header;

  if (info->model != BDEV_HOST_MANAGED && info->model != BDEV_HOST_AWARE)
    return 0;
  if (disk_report_header (d, &header, err) == -1)
    return -1;
  if (info->model == BDEV_HOST_MANAGED && f->cap.rc_basis == 0 &&
      header.max_lba > f->cap.last_lba) {
    f->cap.last_lba = header.max_lba;
    if (take_capacity (d, &f->cap, err) == -1)
      return -1;
  }
  if (header.max_lba != f->cap.last_lba)
    return sh_fail (err, EPROTO, "%s: contradicts itself: READ CAPACITY says that the last "
                    "block is %" PRIu64 ", REPORT ZONES says %" PRIu64, info->name,
                    f->cap.last_lba, header.max_lba);
  info->urswrz = f->zoned.urswrz;
  if (info->model == BDEV_HOST_MANAGED)
    info->max_open_zones = f->zoned.max_open;
  return survey_zones (d, err);
}

static void
take_identity (struct disk *d, const struct identity *id)
{
  struct bdev_info *info = &d->bdev.info;

  memcpy (info->vendor, id->inq.vendor, sizeof info->vendor);
  memcpy (info->product, id->inq.product, sizeof info->product);
  memcpy (info->revision, id->inq.revision, sizeof info->revision);
  memcpy (info->serial, id->serial, sizeof info->serial);
  memcpy (info->wwid, id->wwid, sizeof info->wwid);
  info->wwid_len = id->wwid_len;
  d->removable = id->inq.removable;
}

/* READ and WRITE: zone rules are for the 16 byte forms, and beyond 2^32 blocks
   nothing else reaches. */
static enum rw_width
first_width (const struct disk *d)
{
  return d->bdev.info.model == BDEV_HOST_MANAGED ||
         d->bdev.info.model == BDEV_HOST_AWARE ||
         d->nr_lbas > UINT32_MAX ? RW_16 : RW_10;
}

static void
apply_transport_limits (struct disk *d)
{
  struct sh_transport_limits limits = { 0 };

  if (d->t.ops->limits)
    d->t.ops->limits (d->t.handle, &limits);
  atomic_store (&d->max_bytes, limits.max_transfer_bytes ?
                limits.max_transfer_bytes : DEFAULT_MAX_BYTES);
  d->max_iov = limits.max_iov > 0 ? limits.max_iov : INT32_MAX;
}

int
disk_identify (struct disk *d, bool read_only, struct sh_error *err)
{
  struct finding f = { .id.wwid_len = 0 };

  apply_transport_limits (d);
  if (read_identity (d, &f, err) == -1)
    return -1;
  take_identity (d, &f.id);
  if (read_limits (d, &f, err) == -1)
    return -1;
  learn_model (d, &f);
  if (read_capacity (d, &f.cap, err) == -1 || take_capacity (d, &f.cap, err) == -1)
    return -1;
  d->bdev.info.read_only = read_only;
  if (read_modes (d, err) == -1 ||
      learn_transfer_limits (d, &f, err) == -1 ||
      learn_write_same (d, &f, err) == -1)
    return -1;
  learn_unmap (d, &f);
  if (learn_zones (d, &f, err) == -1)
    return -1;
  atomic_store (&d->rw_width, first_width (d));
  return 0;
}

static int
another_drive (const struct disk *d, const struct identity *id, struct sh_error *err)
{
  const struct bdev_info *info = &d->bdev.info;

  sh_fail (err, ENODEV, "%s: another drive answers: %s %s, serial number '%s', instead of "
           "%s %s, '%s'", info->name, id->inq.vendor, id->inq.product, id->serial,
           info->vendor, info->product, info->serial);
  return sh_hint (err, "Connect the drive that was there before, or start anew.");
}

static bool
same_identity (const struct bdev_info *info, const struct identity *id)
{
  if (info->wwid_len > 0 || id->wwid_len > 0)
    return info->wwid_len == id->wwid_len &&
           memcmp (info->wwid, id->wwid, id->wwid_len) == 0 &&
           strcmp (info->serial, id->serial) == 0;
  return strcmp (info->serial, id->serial) == 0 &&
         strcmp (info->vendor, id->inq.vendor) == 0 &&
         strcmp (info->product, id->inq.product) == 0;
}

int
disk_identify_again (struct disk *d, struct sh_error *err)
{
  struct finding f = { .id.wwid_len = 0 };
  const struct bdev_info *info = &d->bdev.info;

  if (read_identity (d, &f, err) == -1 || read_capacity (d, &f.cap, err) == -1)
    return -1;
  if (!same_identity (info, &f.id))
    return another_drive (d, &f.id, err);
  if (f.cap.lbs_bytes != info->lbs_bytes || f.cap.last_lba >= d->nr_lbas ||
      (f.cap.rc_basis != 0 && f.cap.last_lba != d->nr_lbas - 1))
    return sh_fail (err, ENODEV, "%s: the drive came back with another size: last block %"
                    PRIu64 " of %" PRIu32 " bytes", info->name, f.cap.last_lba,
                    f.cap.lbs_bytes);
  return 0;
}
