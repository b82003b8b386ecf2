/* SPDX-License-Identifier: BSD-3-Clause */
/* A queue in front of a bdev, as a bdev. */
#include <config.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/bytes.h"
#include "base/error.h"
#include "mq/mq.h"

#define MAX_MERGED_BYTES MiB
#define MAX_MERGED_SEGMENTS 256
#define ZONES_AT_A_TIME 1024

struct mq_bdev {
  struct bdev bdev;             /* first: what others see */
  struct bdev *lower;
  struct mq *mq;
  struct tagset *own_set;       /* NULL: borrowed */
  uint8_t *sequential;          /* one bit a zone */
};

/* A request on its way, on its owner's stack. */
struct transit {
  struct mq_request rq;
  struct bdev_req *req;
  int errnum;                   /* the result, also when another carried it out */
};

static struct mq_bdev *
of_bdev (struct bdev *bdev)
{
  return (struct mq_bdev *) bdev;
}

static struct transit *
of_rq (struct mq_request *rq)
{
  return rq->opaque;
}

static bool
is_sequential (const struct mq_bdev *m, uint64_t zone)
{
  return zone < m->bdev.info.nr_zones && m->sequential[zone / 8] >> zone % 8 & 1;
}

static enum dl_class
class_of (const struct mq_bdev *m, const struct bdev_req *req)
{
  const enum bdev_prio prio =
    req->prio == BDEV_PRIO_NONE ? mq_get_options (m->mq)->prio : req->prio;

  if (prio == BDEV_PRIO_IDLE)
    return req->wanted && atomic_load (req->wanted) ? DL_BE : DL_IDLE;
  return prio == BDEV_PRIO_RT ? DL_RT : DL_BE;
}

static bool
is_scheduled (enum bdev_op op)
{
  return op == BDEV_READ || op == BDEV_WRITE || op == BDEV_WRITE_ZEROES || op == BDEV_UNMAP;
}

static void
describe (const struct mq_bdev *m, struct bdev_req *req, struct transit *t)
{
  struct mq_request *rq = &t->rq;
  const uint64_t zone_bytes = m->bdev.info.zone_bytes;

  t->req = req;
  mq_request_init (rq);
  rq->opaque = t;
  rq->hwq = req->hwq % mq_nr_hwqs (m->mq);
  rq->dl.prio_class = class_of (m, req);
  rq->wanted = req->wanted;
  rq->dl.dir = req->op == BDEV_READ ? DL_READ : DL_WRITE;
  if (!is_scheduled (req->op)) {
    rq->kind = MQ_DIRECT;
    rq->reserved = req->op == BDEV_PROBE || req->flags & BDEV_RESERVED;
    return;
  }
  rq->dl.sector = req->off_bytes;
  rq->dl.nr_sectors = req->len_bytes;
  rq->dl.nr_segments = req->iovcnt;
  rq->dl.merge_key = (uint32_t) req->op << 16 | (req->flags & 0xffff);
  rq->dl.mergeable = (req->op == BDEV_READ || req->op == BDEV_WRITE) && req->len_bytes > 0;
  if (zone_bytes && (req->op == BDEV_WRITE || req->op == BDEV_WRITE_ZEROES) &&
      is_sequential (m, req->off_bytes / zone_bytes))
    rq->zone = (uint32_t) (req->off_bytes / zone_bytes);
  if (req->flags & BDEV_RESERVED)
    rq->dl.prio_class = DL_RT;
}

/* One after the other: no memory for their joint vector. */
static void
execute_each (struct mq_bdev *m, struct mq_request *first)
{
  struct mq_request *rq;

  for (rq = first; rq; rq = rq->next_merged)
    of_rq (rq)->errnum = bdev_execute (m->lower, of_rq (rq)->req) == -1 ? errno : 0;
}

static struct iovec *
joint_vector (const struct bdev_req *joint, struct mq_request *first)
{
  struct iovec *iov = malloc (joint->iovcnt * sizeof *iov), *p = iov;
  struct mq_request *rq;

  for (rq = first; iov && rq; rq = rq->next_merged) {
    const struct bdev_req *req = of_rq (rq)->req;

    memcpy (p, req->iov, req->iovcnt * sizeof *p);
    p += req->iovcnt;
  }
  return iov;
}

/* What was done of the whole, said of each part.  Of a failed command only the
   parts that are known to be done have succeeded. */
static void
share_result (struct mq_request *first, const struct bdev_req *joint, int errnum)
{
  uint64_t left = errnum && joint->flags & BDEV_FUA ? 0 : joint->done_bytes;
  struct mq_request *rq;

  for (rq = first; rq; rq = rq->next_merged) {
    struct bdev_req *req = of_rq (rq)->req;

    req->done_bytes = MIN (left, req->len_bytes);
    left -= req->done_bytes;
    of_rq (rq)->errnum = errnum && req->done_bytes < req->len_bytes ? errnum : 0;
  }
}

/* Contiguous requests as one command. */
static void
execute_joint (struct mq_bdev *m, struct mq_request *leader)
{
  struct mq_request *first = leader->first;
  struct bdev_req joint = *of_rq (first)->req;
  struct iovec *iov;
  int errnum;

  joint.len_bytes = leader->dl.nr_sectors;
  joint.iovcnt = leader->dl.nr_segments;
  iov = joint_vector (&joint, first);
  if (iov == NULL) {
    execute_each (m, first);
    return;
  }
  joint.iov = iov;
  joint.done_bytes = 0;
  errnum = bdev_execute (m->lower, &joint) == -1 ? errno : 0;
  share_result (first, &joint, errnum);
  free (iov);
}

static int
mq_bdev_execute (struct bdev *bdev, struct bdev_req *req)
{
  struct mq_bdev *m = of_bdev (bdev);
  struct transit t;

  req->done_bytes = 0;
  describe (m, req, &t);
  if (mq_begin (m->mq, &t.rq) == MQ_GO) {
    if (t.rq.first != &t.rq || t.rq.next_merged)
      execute_joint (m, &t.rq);
    else
      t.errnum = bdev_execute (m->lower, req) == -1 ? errno : 0;
    mq_end (m->mq, &t.rq, t.errnum);
  }
  errno = t.errnum;
  return t.errnum ? -1 : 0;
}

static int
mq_bdev_report_zones (struct bdev *bdev, uint64_t start_bytes, struct bdev_zone *zones,
                      size_t max, size_t *nr)
{
  struct mq_bdev *m = of_bdev (bdev);
  struct mq_request rq;
  int r, errnum;

  mq_request_init (&rq);
  rq.kind = MQ_DIRECT;
  if (mq_begin (m->mq, &rq) != MQ_GO) {
    errno = ESHUTDOWN;
    return -1;
  }
  r = bdev_report_zones (m->lower, start_bytes, zones, max, nr);
  errnum = r == -1 ? errno : 0;
  mq_end (m->mq, &rq, errnum);
  errno = errnum;
  return r;
}

static void
mq_bdev_close (struct bdev *bdev)
{
  struct mq_bdev *m = of_bdev (bdev);

  mq_destroy (m->mq);
  if (m->own_set)
    tagset_close (m->own_set);
  bdev_close (m->lower);
  free (m->sequential);
  free (m);
}

static uint64_t
mq_bdev_resets (struct bdev *bdev)
{
  return bdev_resets (of_bdev (bdev)->lower);
}

static void
mq_bdev_raise (struct bdev *bdev)
{
  mq_raise (of_bdev (bdev)->mq);
}

static const struct bdev_ops mq_bdev_ops = {
  .execute = mq_bdev_execute,
  .report_zones = mq_bdev_report_zones,
  .close = mq_bdev_close,
  .resets = mq_bdev_resets,
  .raise = mq_bdev_raise,
};

/* Only synchronous owners use this queue. */
static void
issue_nothing (void *device, struct mq_request **rq, unsigned n)
{
  abort ();
}

static const struct mq_device_ops no_device = { .issue = issue_nothing };

static void
note_zone (struct mq_bdev *m, const struct bdev_zone *z)
{
  const uint64_t zone = z->start_bytes / m->bdev.info.zone_bytes;

  if (zone < m->bdev.info.nr_zones &&
      (z->type == ZONE_SEQ_REQUIRED || z->type == ZONE_SEQ_PREFERRED))
    m->sequential[zone / 8] |= 1 << zone % 8;
}

static int
learn_zones (struct mq_bdev *m, struct sh_error *err)
{
  struct bdev_zone *zones = calloc (ZONES_AT_A_TIME, sizeof *zones);
  uint64_t at = 0;
  size_t nr = 0, i;

  m->sequential = calloc (DIV_ROUND_UP (m->bdev.info.nr_zones, 8) + 1, 1);
  if (zones == NULL || m->sequential == NULL) {
    free (zones);
    return sh_fail (err, ENOMEM, "%s: %s", m->bdev.info.name, strerror (ENOMEM));
  }
  while (at < m->bdev.info.size_bytes) {
    if (bdev_report_zones (m->lower, at, zones, ZONES_AT_A_TIME, &nr) == -1) {
      free (zones);
      return sh_fail (err, errno, "%s: cannot read its zones: %s", m->bdev.info.name,
                      strerror (errno));
    }
    for (i = 0; i < nr; ++i)
      note_zone (m, &zones[i]);
    if (nr == 0 || zones[nr - 1].start_bytes + zones[nr - 1].len_bytes <= at)
      break;
    at = zones[nr - 1].start_bytes + zones[nr - 1].len_bytes;
  }
  free (zones);
  return 0;
}

int
mq_bdev_create (struct bdev *lower, struct tagset *set, bool own_set,
                const struct mq_options *options, struct bdev **out, struct sh_error *err)
{
  struct mq_config config = {
    .name = lower->info.name,
    .options = *options,
    .tagset = set,
    .ops = &no_device,
    .limits = { .max_sectors = MAX_MERGED_BYTES, .max_segments = MAX_MERGED_SEGMENTS },
    .zone_sectors = lower->info.zone_bytes,
    .nr_zones = lower->info.zone_bytes ? lower->info.nr_zones : 0,
  };
  struct mq_bdev *m = calloc (1, sizeof *m);

  if (m == NULL)
    return sh_fail (err, errno, "%s: %s", lower->info.name, strerror (errno));
  m->bdev.ops = &mq_bdev_ops;
  m->bdev.info = lower->info;
  m->lower = lower;
  if ((config.nr_zones && learn_zones (m, err) == -1) ||
      mq_create (&config, &m->mq, err) == -1) {
    free (m->sequential);
    free (m);
    return -1;
  }
  m->own_set = own_set ? set : NULL;
  *out = &m->bdev;
  return 0;
}

struct mq *
mq_of_bdev (struct bdev *bdev)
{
  return bdev->ops == &mq_bdev_ops ? of_bdev (bdev)->mq : NULL;
}
