/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bdev requests as commands.
 *
 * READ, WRITE and WRITE SAME walk over the request with one cursor.  Each
 * round cuts a piece that one command can carry, sends it, and moves the
 * cursor by what is known to be done: the whole piece, what a residual left,
 * or what a write pointer says.
 *
 * Settling: a write to a sequential zone that may have run (no answer in time,
 * a reset, a lost transport, an error on the way) is never sent again blindly.
 * The zone is reported: where the pointer stands at the start of the piece
 * nothing was written, where it stands at its end all of it was, in between
 * the rest follows.  Anywhere else somebody else wrote, and the request fails.
 */
#include <config.h>
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include "base/bytes.h"
#include "base/log.h"
#include "scsi/disk-internal.h"

struct transfer {
  struct disk *d;
  struct bdev_req *req;         /* done_bytes is the cursor's offset */
  enum disk_class class;
  enum rw_width width;
  bool settled;                 /* a piece counts as written by its write pointer */

  /* The cursor's place in the data; unused by WRITE SAME. */
  const struct iovec *iov;
  int iovcnt;
  size_t skip;                  /* bytes of iov[0] that are done */

  /* The piece on its way. */
  uint64_t off_bytes;
  size_t len_bytes;
  struct attempt a;
};

static bool
has_data (const struct transfer *t)
{
  return t->class != DISK_CLASS_WRITE_SAME;
}

static void
advance (struct transfer *t, size_t bytes)
{
  t->req->done_bytes += bytes;
  if (!has_data (t))
    return;
  while (bytes > 0 || (t->iovcnt > 0 && t->skip == t->iov->iov_len)) {
    const size_t n = MIN (bytes, t->iov->iov_len - t->skip);

    assert (t->iovcnt > 0);
    t->skip += n;
    bytes -= n;
    if (t->skip == t->iov->iov_len) {
      ++t->iov;
      --t->iovcnt;
      t->skip = 0;
    }
  }
}

/* Takes segments for up to `most` bytes from the cursor on; returns how many
   bytes they hold. */
static size_t
gather (const struct transfer *t, size_t most, struct iovec *seg, int max_seg, int *nr)
{
  const struct iovec *iov = t->iov;
  size_t skip = t->skip, len = 0;
  int left = t->iovcnt;

  for (*nr = 0; len < most && *nr < max_seg && left > 0; ++iov, --left, skip = 0) {
    const size_t n = MIN (iov->iov_len - skip, most - len);

    if (n == 0)
      continue;
    seg[(*nr)++] = (struct iovec) { (char *) iov->iov_base + skip, n };
    len += n;
  }
  return len;
}

/* Cuts segments back to whole blocks; 0 when they hold less than one. */
static size_t
trim_to_blocks (struct iovec *seg, int *nr, size_t len, size_t lbs)
{
  size_t excess = len % lbs;

  while (excess > 0) {
    struct iovec *last = &seg[*nr - 1];
    const size_t n = MIN (excess, last->iov_len);

    last->iov_len -= n;
    excess -= n;
    if (last->iov_len == 0)
      --*nr;
  }
  return len - len % lbs;
}

static size_t
most_bytes (const struct transfer *t)
{
  const struct disk *d = t->d;
  const uint64_t left = t->req->len_bytes - t->req->done_bytes;

  if (!has_data (t))
    return (size_t) MIN (left, d->bdev.info.max_zeroes_bytes);
  return (size_t) MIN (MIN (left, (uint64_t) atomic_load_explicit (&d->max_bytes,
                                                                   memory_order_relaxed)),
                       cdb_rw_max_blocks (t->width) << d->lbs_shift);
}

/* Sets the piece and its data. */
static int
cut (struct transfer *t, struct iovec *seg)
{
  struct disk *d = t->d;
  const size_t most = most_bytes (t);
  const enum sh_xfer xfer =
    t->class == DISK_CLASS_READ ? SH_XFER_FROM_DEVICE : SH_XFER_TO_DEVICE;
  int nr;

  t->off_bytes = t->req->off_bytes + t->req->done_bytes;
  t->len_bytes = most;
  if (!has_data (t))
    return 0;
  if (most == t->req->len_bytes && t->iovcnt <= d->max_iov) {
    /* The whole request, as it came. */
    attempt_data (&t->a, xfer, t->iov, t->iovcnt, most);
    return 0;
  }
  t->len_bytes = gather (t, most, seg, MIN (d->max_iov, DISK_MAX_IOV), &nr);
  t->len_bytes = trim_to_blocks (seg, &nr, t->len_bytes, d->bdev.info.lbs_bytes);
  if (t->len_bytes == 0) {      /* a block scattered over too many segments */
    errno = EINVAL;
    return -1;
  }
  attempt_data (&t->a, xfer, seg, nr, t->len_bytes);
  return 0;
}

/* FUA is sent where it means something and this form of WRITE can carry it. */
static bool
fua_in_cdb (const struct transfer *t)
{
  const struct bdev_info *info = &t->d->bdev.info;

  return (t->req->flags & BDEV_FUA) && info->fua && info->write_cache &&
         t->class == DISK_CLASS_WRITE && t->width != RW_6;
}

static void
encode_write_same (struct transfer *t, uint64_t lba, uint32_t blocks,
                   struct iovec *zero)
{
  struct disk *d = t->d;
  const bool unmap = (t->req->flags & BDEV_ZEROES_MAY_UNMAP) && d->bdev.info.zeroes_unmap;

  cdb_write_same_16 (&t->a.c, lba, blocks, unmap, d->write_same_ndob);
  if (!d->write_same_ndob) {
    *zero = (struct iovec) { d->zero_block, d->bdev.info.lbs_bytes };
    attempt_data (&t->a, SH_XFER_TO_DEVICE, zero, 1, zero->iov_len);
  }
}

/* False: the position does not fit this form of the CDB. */
static bool
encode (struct transfer *t, struct iovec *zero)
{
  const uint64_t lba = t->off_bytes >> t->d->lbs_shift;
  const uint32_t blocks = (uint32_t) (t->len_bytes >> t->d->lbs_shift);

  if (t->class == DISK_CLASS_WRITE_SAME) {
    encode_write_same (t, lba, blocks, zero);
    return true;
  }
  if (!cdb_rw_fits (t->width, lba, blocks))
    return false;
  if (t->class == DISK_CLASS_READ)
    cdb_read (&t->a.c, t->width, lba, blocks);
  else
    cdb_write (&t->a.c, t->width, lba, blocks, fua_in_cdb (t));
  return true;
}

enum pointer {                  /* what a zone says of a write */
  POINTER_NONE,                 /* no sequential zone: may be sent again */
  POINTER_UNMOVED,
  POINTER_PART,                 /* stands inside the piece */
  POINTER_ALL,                  /* stands at its end */
  POINTER_ELSEWHERE,
  POINTER_UNREADABLE,
};

static enum pointer
judge_pointer (const struct transfer *t, const struct bdev_zone *z, size_t *written)
{
  const uint64_t start = t->off_bytes, end = start + t->len_bytes;

  if (z->type != ZONE_SEQ_REQUIRED)
    return POINTER_NONE;
  if (z->wp_bytes == start)
    return POINTER_UNMOVED;
  if (z->wp_bytes == end)
    return POINTER_ALL;
  if (z->wp_bytes < start || z->wp_bytes > end || z->cond == ZONE_FULL)
    return POINTER_ELSEWHERE;
  *written = z->wp_bytes - start;
  return POINTER_PART;
}

/* *written: bytes of the piece that the pointer vouches for. */
static enum pointer
ask_pointer (struct transfer *t, size_t *written)
{
  struct disk *d = t->d;
  struct bdev_zone zone;
  enum pointer p;

  *written = 0;
  if (t->class == DISK_CLASS_READ || d->bdev.info.model != BDEV_HOST_MANAGED)
    return POINTER_NONE;
  COUNT (d, settles, 1);
  if (disk_report_one (d, t->off_bytes >> d->lbs_shift, &zone) == -1)
    return POINTER_UNREADABLE;
  p = judge_pointer (t, &zone, written);
  if (p == POINTER_ALL)
    *written = t->len_bytes;
  disk_log (d, SH_LOG_INFO, "a write of %zu bytes at LBA %" PRIu64 " is in doubt; its "
            "zone says that %zu bytes were written", t->len_bytes,
            t->off_bytes >> d->lbs_shift, *written);
  return p;
}

static int
give_up (struct transfer *t, int errnum)
{
  COUNT (t->d, failures, 1);
  errno = errnum;
  return -1;
}

/* The piece did not simply succeed.  0: go on from the cursor. */
static int
settle (struct transfer *t, bool failed)
{
  const int errnum = failed ? t->a.errnum : t->a.answer->errnum;
  size_t written;
  enum pointer p;

  if (!t->a.doubt)              /* no try had any effect */
    return failed ? give_up (t, errnum) : 0;
  p = ask_pointer (t, &written);
  advance (t, written);
  switch (p) {
  case POINTER_ALL:
    /* An error that the drive reported for this data stands. */
    if (t->a.fate == FATE_RAN)
      return give_up (t, errnum);
    t->settled = true;
    attempt_init (&t->a, t->class, 0);
    return 0;
  case POINTER_NONE:
  case POINTER_UNMOVED:
  case POINTER_PART:
    return failed ? give_up (t, errnum) : 0;
  case POINTER_ELSEWHERE:
  case POINTER_UNREADABLE:
    return give_up (t, errnum);
  }
  __builtin_unreachable ();
}

/* GOOD with a residual: part of the data did not move. */
static int
short_transfer (struct transfer *t)
{
  struct disk *d = t->d;
  size_t moved;
  enum pointer p;

  COUNT (d, short_transfers, 1);
  if (t->a.c.resid > t->len_bytes)
    return give_up (t, EIO);
  moved = t->len_bytes - t->a.c.resid;
  moved -= moved % d->bdev.info.lbs_bytes;
  if (t->class == DISK_CLASS_WRITE) {
    size_t written;

    p = ask_pointer (t, &written);
    if (p == POINTER_ELSEWHERE || p == POINTER_UNREADABLE)
      return give_up (t, EIO);
    if (p != POINTER_NONE)
      moved = written;
  }
  if (moved == 0 && t->a.retries++ >= DISK_RETRIES)
    return give_up (t, EIO);
  if (moved > 0)
    attempt_init (&t->a, t->class, 0);
  COUNT (d, retries, 1);
  advance (t, moved);
  return 0;
}

static int
narrower (struct transfer *t)
{
  struct disk *d = t->d;
  const enum rw_width next = t->width == RW_16 ? RW_10 : RW_6;

  /* Zone rules exist for the 16 byte forms alone. */
  if (d->bdev.info.model == BDEV_HOST_MANAGED || t->width == RW_6)
    return give_up (t, t->a.answer->errnum);
  disk_log (d, SH_LOG_INFO, "%s is not supported; using the %d byte form",
            cdb_name (&t->a.c), next);
  atomic_store_explicit (&d->rw_width, next, memory_order_relaxed);
  t->width = next;
  return 0;
}

static bool
refused_for_good (const struct transfer *t)
{
  /* 05/24 may also mean a full zone. */
  return t->a.answer && t->a.answer->action == ANSWER_UNSUPPORTED &&
         (t->a.sense.asc == 0x20 || t->d->bdev.info.model != BDEV_HOST_MANAGED);
}

static int
failed (struct transfer *t)
{
  if (t->class == DISK_CLASS_WRITE_SAME && refused_for_good (t)) {
    atomic_store_explicit (&t->d->no_write_same, true, memory_order_relaxed);
    errno = ENOTSUP;
    return -1;
  }
  return settle (t, true);
}

static int
done (struct transfer *t)
{
  if (__builtin_expect (has_data (t) && t->a.c.resid != 0, 0))
    return short_transfer (t);
  if (__builtin_expect (t->len_bytes == t->req->len_bytes, 1))
    t->req->done_bytes = t->len_bytes;
  else {
    advance (t, t->len_bytes);
    attempt_init (&t->a, t->class, 0);
  }
  return 0;
}

static int
send_piece (struct transfer *t, struct iovec *seg)
{
  struct iovec zero;

  if (cut (t, seg) == -1)
    return -1;
  if (!encode (t, &zero))
    return give_up (t, EREMOTEIO);
  switch (attempt (t->d, &t->a)) {
  case STEP_DONE:
    return done (t);
  case STEP_AGAIN:
    return settle (t, false);
  case STEP_NARROWER:
    return narrower (t);
  case STEP_SMALLER:
    return 0;
  case STEP_FAILED:
    return failed (t);
  }
  __builtin_unreachable ();
}

static int
send_all (struct transfer *t)
{
  struct iovec seg[DISK_MAX_IOV];       /* not initialised: costs nothing */

  attempt_init (&t->a, t->class, 0);
  do {
    if (send_piece (t, seg) == -1)
      return -1;
  } while (t->req->done_bytes < t->req->len_bytes);
  return 0;
}

/* A host-managed drive must know the 16 byte form, any other disk the shorter
   one; the system may allow a user only the shorter one. */
static enum rw_width
sync_width (const struct disk *d, int form)
{
  const bool longer = d->bdev.info.model == BDEV_HOST_MANAGED;

  return longer == (form == 0) ? RW_16 : RW_10;
}

/* SYNCHRONIZE CACHE; a drive that knows neither form has nothing to flush. */
static int
synchronize (struct disk *d)
{
  struct attempt a;
  int form;

  while ((form = atomic_load_explicit (&d->sync_form, memory_order_relaxed)) < SYNC_NONE) {
    attempt_init (&a, DISK_CLASS_FLUSH, ATTEMPT_EXPECT_REFUSAL);
    cdb_synchronize_cache (&a.c, sync_width (d, form));
    if (attempt_all (d, &a) == 0)
      return 0;
    if (!(a.answer && a.answer->action == ANSWER_UNSUPPORTED) &&
        !(a.errnum == EPERM && form == 0)) {
      disk_log (d, SH_LOG_ERROR, "the flush failed: %s",
                a.answer ? a.answer->meaning : "the drive is gone");
      errno = a.errnum;
      return -1;
    }
    atomic_store_explicit (&d->sync_form, form + 1, memory_order_relaxed);
  }
  return 0;
}

static int
flush (struct disk *d)
{
  int errnum;

  /* Cleared first: a write that ends meanwhile is not covered. */
  atomic_store (&d->unflushed, false);
  if (synchronize (d) == -1) {
    atomic_store (&d->unflushed, true);
    COUNT (d, failures, 1);
    return -1;
  }
  errnum = atomic_exchange (&d->deferred_errnum, 0);
  if (errnum == 0)
    return 0;
  COUNT (d, failures, 1);
  errno = errnum;
  return -1;
}

static bool
must_flush_after (const struct transfer *t)
{
  return (t->req->flags & BDEV_FUA) && t->d->bdev.info.write_cache &&
         (t->settled || !fua_in_cdb (t));
}

static void
transfer_init (struct transfer *t, struct disk *d, struct bdev_req *req,
               enum disk_class class)
{
  t->d = d;
  t->req = req;
  t->class = class;
  t->width = atomic_load_explicit (&d->rw_width, memory_order_relaxed);
  t->settled = false;
  t->iov = req->iov;
  t->iovcnt = req->iovcnt;
  t->skip = 0;
}

static int
write_out (struct disk *d, struct bdev_req *req, enum disk_class class)
{
  struct transfer t;
  int r;

  transfer_init (&t, d, req, class);
  r = send_all (&t);
  if (!atomic_load_explicit (&d->unflushed, memory_order_relaxed))
    atomic_store (&d->unflushed, true);
  COUNT (d, written_bytes, req->done_bytes);
  if (r == 0 && must_flush_after (&t))
    r = flush (d);
  return r;
}

static int
read_in (struct disk *d, struct bdev_req *req)
{
  struct transfer t;
  int r;

  transfer_init (&t, d, req, DISK_CLASS_READ);
  r = send_all (&t);
  COUNT (d, read_bytes, req->done_bytes);
  return r;
}

static int
write_zeroes (struct disk *d, struct bdev_req *req)
{
  if (d->bdev.info.max_zeroes_bytes == 0 ||
      atomic_load_explicit (&d->no_write_same, memory_order_relaxed)) {
    errno = ENOTSUP;
    return -1;
  }
  return write_out (d, req, DISK_CLASS_WRITE_SAME);
}

/* One UNMAP of [lba, lba+blocks). */
static int
unmap_piece (struct disk *d, uint64_t lba, uint32_t blocks)
{
  uint8_t param[24] = { 0 };
  struct iovec iov = { param, sizeof param };
  struct attempt a;

  put_be16 (param, sizeof param - 2);
  put_be16 (param + 2, 16);
  put_be64 (param + 8, lba);
  put_be32 (param + 16, blocks);
  attempt_init (&a, DISK_CLASS_UNMAP, 0);
  cdb_unmap (&a.c, sizeof param);
  attempt_data (&a, SH_XFER_TO_DEVICE, &iov, 1, sizeof param);
  if (attempt_all (d, &a) == 0)
    return 0;
  if (a.answer && a.answer->action == ANSWER_UNSUPPORTED) {
    atomic_store_explicit (&d->no_unmap, true, memory_order_relaxed);
    a.errnum = ENOTSUP;
  }
  else
    COUNT (d, failures, 1);
  errno = a.errnum;
  return -1;
}

/* The first LBA from `lba` on where the drive's unmap units begin. */
static uint64_t
unmap_unit_from (const struct disk *d, uint64_t lba)
{
  const uint64_t g = d->unmap_granularity;
  const uint64_t excess = (lba + g - d->unmap_alignment % g) % g;

  return excess == 0 ? lba : lba + (g - excess);
}

/* Whole units alone: the rest of the range keeps its content, which UNMAP
   allows. */
static int
unmap (struct disk *d, struct bdev_req *req)
{
  const uint64_t end = (req->off_bytes + req->len_bytes) >> d->lbs_shift;
  const uint64_t most = MAX (d->unmap_max_blocks / d->unmap_granularity, 1u) *
                        (uint64_t) d->unmap_granularity;
  uint64_t lba = unmap_unit_from (d, req->off_bytes >> d->lbs_shift);

  if (!d->bdev.info.unmap || atomic_load_explicit (&d->no_unmap, memory_order_relaxed)) {
    errno = ENOTSUP;
    return -1;
  }
  while (lba < end) {
    uint64_t blocks = MIN (end - lba, most);

    blocks -= blocks % d->unmap_granularity;
    if (blocks == 0)
      break;
    if (unmap_piece (d, lba, (uint32_t) blocks) == -1)
      return -1;
    lba += blocks;
    req->done_bytes = (lba << d->lbs_shift) - req->off_bytes;
  }
  req->done_bytes = req->len_bytes;
  return 0;
}

static int
zone_out (struct disk *d, const struct bdev_req *req)
{
  static const enum zone_out_action actions[BDEV_NR_OPS] = {
    [BDEV_ZONE_OPEN] = ZONE_OUT_OPEN,
    [BDEV_ZONE_CLOSE] = ZONE_OUT_CLOSE,
    [BDEV_ZONE_FINISH] = ZONE_OUT_FINISH,
    [BDEV_ZONE_RESET] = ZONE_OUT_RESET,
  };
  struct attempt a;

  if (d->bdev.info.zone_bytes == 0) {
    errno = ENOTSUP;
    return -1;
  }
  attempt_init (&a, DISK_CLASS_ZONE_OUT, 0);
  cdb_zone_out (&a.c, actions[req->op], req->off_bytes >> d->lbs_shift,
                (req->flags & BDEV_ALL) != 0);
  if (attempt_all (d, &a) == 0)
    return 0;
  COUNT (d, failures, 1);
  errno = a.errnum;
  return -1;
}

/* It has more news, or more to do than it can take: it is alive. */
static bool
answers_at_all (const struct attempt *a)
{
  return a->answer && (a->answer->action == ANSWER_ATTENTION ||
                       (a->errnum == EIO && a->c.host_status == SH_HOST_OK &&
                        (a->c.status == SH_STATUS_BUSY ||
                         a->c.status == SH_STATUS_TASK_SET_FULL)));
}

static int
probe (struct disk *d)
{
  struct attempt a;

  if (atomic_load (&d->gone) && disk_return (d) == -1)
    return -1;
  attempt_init (&a, DISK_CLASS_PROBE, ATTEMPT_NO_RETRY);
  cdb_test_unit_ready (&a.c);
  if (attempt_all (d, &a) == 0)
    return 0;
  if (answers_at_all (&a))
    return 0;
  errno = a.errnum;
  return -1;
}

static bool
in_range (const struct disk *d, const struct bdev_req *req)
{
  const uint64_t mask = d->bdev.info.lbs_bytes - 1;
  uint64_t end;

  return ((req->off_bytes | req->len_bytes) & mask) == 0 &&
         !ADD_OVERFLOW (req->off_bytes, req->len_bytes, &end) &&
         end <= d->bdev.info.size_bytes;
}

static int
invalid (void)
{
  errno = EINVAL;
  return -1;
}

static int
read_only (void)
{
  errno = EROFS;
  return -1;
}

int
disk_execute (struct bdev *bdev, struct bdev_req *req)
{
  struct disk *d = disk_of (bdev);
  const bool ro = bdev->info.read_only;

  req->done_bytes = 0;
  switch (req->op) {
  case BDEV_READ:
  case BDEV_WRITE:
  case BDEV_WRITE_ZEROES:
  case BDEV_UNMAP:
    if (!in_range (d, req))
      return invalid ();
    if (req->len_bytes == 0)
      return 0;
    if (req->op == BDEV_READ)
      return read_in (d, req);
    if (ro)
      return read_only ();
    return req->op == BDEV_WRITE ? write_out (d, req, DISK_CLASS_WRITE) :
           req->op == BDEV_UNMAP ? unmap (d, req) : write_zeroes (d, req);
  case BDEV_FLUSH:
    return ro ? 0 : flush (d);
  case BDEV_ZONE_OPEN:
  case BDEV_ZONE_CLOSE:
  case BDEV_ZONE_FINISH:
  case BDEV_ZONE_RESET:
    if (req->off_bytes >= bdev->info.size_bytes)
      return invalid ();
    return ro ? read_only () : zone_out (d, req);
  case BDEV_PROBE:
    return probe (d);
  }
  return invalid ();
}
