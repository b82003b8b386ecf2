/* SPDX-License-Identifier: BSD-3-Clause */
#undef NDEBUG
#include <config.h>
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "base/bytes.h"
#include "fake-bdev.h"

static struct fake *
to_fake (struct bdev *bdev)
{
  return (struct fake *) bdev;
}

/* The zone that holds a byte. */
static struct bdev_zone *
zone_at (struct fake *f, uint64_t off)
{
  return &f->zones[MIN (off / f->bdev.info.zone_bytes, f->nr_zones - 1)];
}

static int
fail (int errnum)
{
  errno = errnum;
  return -1;
}

static bool
touches (const struct bdev_req *req, uint64_t from, uint64_t to)
{
  return req->off_bytes < to && from < req->off_bytes + req->len_bytes;
}

static int
check_range (struct fake *f, const struct bdev_req *req)
{
  const struct bdev_info *info = &f->bdev.info;
  struct bdev_zone *first, *last;
  int i;
  uint64_t n = 0;

  if (req->off_bytes % info->lbs_bytes || req->len_bytes % info->lbs_bytes ||
      req->len_bytes == 0 || req->off_bytes > info->size_bytes ||
      req->len_bytes > info->size_bytes - req->off_bytes)
    return fail (EREMOTEIO);
  for (i = 0; req->iov && i < req->iovcnt; ++i)
    n += req->iov[i].iov_len;
  assert (req->iov == NULL || n == req->len_bytes);
  first = zone_at (f, req->off_bytes);
  last = zone_at (f, req->off_bytes + req->len_bytes - 1);
  if (first != last && (first->type != ZONE_CONVENTIONAL || last->type != ZONE_CONVENTIONAL))
    return fail (EREMOTEIO);
  for (; first <= last; ++first)
    if (first->cond == ZONE_OFFLINE)
      return fail (EIO);
  return 0;
}

static int
do_read (struct fake *f, const struct bdev_req *req)
{
  const uint8_t *from = f->data + req->off_bytes;
  struct bdev_zone *z = zone_at (f, req->off_bytes);
  int i;

  if (touches (req, f->fail_read_from, f->fail_read_to))
    return fail (ENODATA);
  if (f->no_urswrz && z->type == ZONE_SEQ_REQUIRED && z->cond != ZONE_READ_ONLY &&
      req->off_bytes + req->len_bytes > (z->cond == ZONE_FULL ? z->start_bytes + z->len_bytes
                                         : z->wp_bytes))
    return fail (EREMOTEIO);
  for (i = 0; i < req->iovcnt; ++i) {
    memcpy (req->iov[i].iov_base, from, req->iov[i].iov_len);
    from += req->iov[i].iov_len;
  }
  f->bytes_read += req->len_bytes;
  return 0;
}

static void
advance (struct bdev_zone *z, uint64_t wp)
{
  z->wp_bytes = wp;
  if (wp == z->start_bytes + z->len_bytes)
    z->cond = ZONE_FULL;
  else if (z->cond != ZONE_EXPLICIT_OPEN)
    z->cond = ZONE_IMPLICIT_OPEN;
}

/* Common to data and zeroes: may it be written, and what it does to the zone. */
static int
begin_write (struct fake *f, const struct bdev_req *req)
{
  struct bdev_zone *z = zone_at (f, req->off_bytes);
  const uint64_t end = req->off_bytes + req->len_bytes;

  if (touches (req, f->fail_write_from, f->fail_write_to))
    return fail (EIO);
  if (z->cond == ZONE_READ_ONLY || f->bdev.info.read_only)
    return fail (EROFS);
  if (z->type == ZONE_SEQ_REQUIRED) {
    if (z->cond == ZONE_FULL || req->off_bytes != z->wp_bytes)
      return fail (EREMOTEIO);
    advance (z, end);
  }
  else if (z->type == ZONE_SEQ_PREFERRED && end > z->wp_bytes)
    advance (z, end);
  f->changes++;
  return 0;
}

static int
do_write (struct fake *f, const struct bdev_req *req)
{
  uint8_t *to = f->data + req->off_bytes;
  int i;

  if (begin_write (f, req) == -1)
    return -1;
  for (i = 0; i < req->iovcnt; ++i) {
    memcpy (to, req->iov[i].iov_base, req->iov[i].iov_len);
    to += req->iov[i].iov_len;
  }
  f->bytes_written += req->len_bytes;
  return 0;
}

/* Zeroes without touching pages that were never written. */
static void
forget (struct fake *f, uint64_t off, uint64_t len)
{
  const uint64_t from = DIV_ROUND_UP (off, 4096) * 4096, to = (off + len) / 4096 * 4096;

  if (from >= to) {
    memset (f->data + off, 0, len);
    return;
  }
  memset (f->data + off, 0, from - off);
  madvise (f->data + from, to - from, MADV_DONTNEED);
  memset (f->data + to, 0, off + len - to);
}

static int
do_zeroes (struct fake *f, const struct bdev_req *req)
{
  if (f->bdev.info.max_zeroes_bytes == 0)
    return fail (ENOTSUP);
  if (req->len_bytes > f->bdev.info.max_zeroes_bytes)
    return fail (EREMOTEIO);
  if (begin_write (f, req) == -1)
    return -1;
  forget (f, req->off_bytes, req->len_bytes);
  f->bytes_zeroed += req->len_bytes;
  return 0;
}

static int
reset_one (struct fake *f, struct bdev_zone *z)
{
  if (z->type == ZONE_CONVENTIONAL)
    return fail (EREMOTEIO);
  if (z->cond == ZONE_OFFLINE || z->cond == ZONE_READ_ONLY)
    return fail (EROFS);
  if (f->reset_lies && z == &f->zones[f->reset_lies])
    return 0;
  z->wp_bytes = z->start_bytes;
  z->cond = ZONE_EMPTY;
  forget (f, z->start_bytes, z->len_bytes);
  f->changes++;
  return 0;
}

static int
do_reset (struct fake *f, const struct bdev_req *req)
{
  uint32_t i;

  if (!(req->flags & BDEV_ALL)) {
    if (req->off_bytes % f->bdev.info.zone_bytes || req->off_bytes >= f->bdev.info.size_bytes)
      return fail (EREMOTEIO);
    return reset_one (f, zone_at (f, req->off_bytes));
  }
  if (f->no_reset_all)
    return fail (EREMOTEIO);
  for (i = 0; i < f->nr_zones; ++i)
    switch (i && i == f->reset_all_skips ? ZONE_EMPTY : f->zones[i].cond) {
    case ZONE_IMPLICIT_OPEN: case ZONE_EXPLICIT_OPEN: case ZONE_CLOSED: case ZONE_FULL:
      reset_one (f, &f->zones[i]);
      break;
    default:
      break;
    }
  return 0;
}

static int
execute_locked (struct fake *f, struct bdev_req *req)
{
  f->nr_ops[req->op]++;
  if (f->hook && f->hook (f, req, f->hook_opaque) == -1)
    return -1;
  switch (req->op) {
  case BDEV_READ:
    return check_range (f, req) == -1 ? -1 : do_read (f, req);
  case BDEV_WRITE:
    return check_range (f, req) == -1 ? -1 : do_write (f, req);
  case BDEV_WRITE_ZEROES:
    return check_range (f, req) == -1 ? -1 : do_zeroes (f, req);
  case BDEV_ZONE_RESET:
    return do_reset (f, req);
  case BDEV_FLUSH:
  case BDEV_PROBE:
    return 0;
  default:
    return fail (ENOTSUP);
  }
}

static int
fake_execute (struct bdev *bdev, struct bdev_req *req)
{
  struct fake *f = to_fake (bdev);
  int r;

  pthread_mutex_lock (&f->lock);
  r = execute_locked (f, req);
  req->done_bytes = r == 0 ? req->len_bytes : 0;
  pthread_mutex_unlock (&f->lock);
  return r;
}

static int
fake_report (struct bdev *bdev, uint64_t start_bytes, struct bdev_zone *zones,
             size_t max, size_t *nr)
{
  struct fake *f = to_fake (bdev);
  uint64_t i = start_bytes / bdev->info.zone_bytes;
  int r = 0;

  pthread_mutex_lock (&f->lock);
  f->nr_reports++;
  if (f->fail_report && --f->fail_report == 0)
    r = fail (f->fail_report_errno);
  for (*nr = 0; r == 0 && *nr < max && i < f->nr_zones; ++i)
    zones[(*nr)++] = f->zones[i];
  pthread_mutex_unlock (&f->lock);
  return r;
}

static void
fake_close (struct bdev *bdev)
{
  struct fake *f = to_fake (bdev);

  munmap (f->data, bdev->info.size_bytes);
  pthread_mutex_destroy (&f->lock);
  free (f->zones);
  free (f);
}

static const struct bdev_ops fake_ops = {
  .execute = fake_execute,
  .report_zones = fake_report,
  .close = fake_close,
};

static void
init_zone (struct bdev_zone *z, const struct fake_config *c, uint32_t i, uint64_t len)
{
  const uint32_t nr_conv = c->no_conv ? 0 : c->nr_conv ? c->nr_conv : 8;

  z->start_bytes = i * (c->zone_bytes ? c->zone_bytes : 4 * MiB);
  z->len_bytes = z->cap_bytes = len;
  z->type = i < nr_conv ? ZONE_CONVENTIONAL :
    c->host_aware ? ZONE_SEQ_PREFERRED : ZONE_SEQ_REQUIRED;
  z->cond = i < nr_conv ? ZONE_NOT_WP : ZONE_EMPTY;
  z->wp_bytes = i < nr_conv ? UINT64_MAX : z->start_bytes;
}

struct fake *
fake_new (const struct fake_config *c)
{
  const uint64_t zone_bytes = c->zone_bytes ? c->zone_bytes : 4 * MiB;
  const uint32_t full = c->nr_zones ? c->nr_zones : 32;
  struct fake *f = calloc (1, sizeof *f);
  struct bdev_info *info;
  uint32_t i;

  assert (f != NULL);
  info = &f->bdev.info;
  f->bdev.ops = &fake_ops;
  pthread_mutex_init (&f->lock, NULL);
  f->nr_zones = full + (c->runt_bytes != 0);
  f->zones = calloc (f->nr_zones, sizeof *f->zones);
  assert (f->zones != NULL);
  for (i = 0; i < f->nr_zones; ++i)
    init_zone (&f->zones[i], c, i, i < full ? zone_bytes : c->runt_bytes);
  snprintf (info->name, sizeof info->name, "fake");
  snprintf (info->vendor, sizeof info->vendor, "FAKE");
  snprintf (info->product, sizeof info->product, "ZONED DRIVE");
  snprintf (info->serial, sizeof info->serial, "F4K3");
  info->model = c->host_aware ? BDEV_HOST_AWARE : BDEV_HOST_MANAGED;
  info->lbs_bytes = c->lbs_bytes ? c->lbs_bytes : 512;
  info->pbs_bytes = c->pbs_bytes ? c->pbs_bytes : 4096;
  info->size_bytes = full * zone_bytes + c->runt_bytes;
  info->zone_bytes = zone_bytes;
  info->nr_zones = f->nr_zones;
  info->urswrz = !c->no_urswrz;
  info->fua = true;
  info->rotational = true;
  info->max_zeroes_bytes = c->max_zeroes_bytes;
  f->no_urswrz = c->no_urswrz;
  f->no_reset_all = c->no_reset_all;
  f->data = mmap (NULL, info->size_bytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  assert (f->data != MAP_FAILED);
  return f;
}

void
fake_set_wp (struct fake *f, uint32_t zone, uint64_t bytes)
{
  struct bdev_zone *z = &f->zones[zone];

  assert (z->type != ZONE_CONVENTIONAL && bytes <= z->len_bytes);
  z->wp_bytes = z->start_bytes + bytes;
  z->cond = bytes == 0 ? ZONE_EMPTY : bytes == z->len_bytes ? ZONE_FULL : ZONE_IMPLICIT_OPEN;
}

void
fake_set_cond (struct fake *f, uint32_t zone, enum bdev_zone_cond cond)
{
  pthread_mutex_lock (&f->lock);
  f->zones[zone].cond = cond;
  if (cond == ZONE_OFFLINE || cond == ZONE_READ_ONLY)
    f->zones[zone].wp_bytes = UINT64_MAX;
  pthread_mutex_unlock (&f->lock);
}
