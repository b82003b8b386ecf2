/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The device seam: what the zoned layer asks of whatever lies below it.
 *
 * A SCSI disk (scsi/disk.h) is a bdev; mq puts another one in front of it
 * that admits, queues and schedules; tests bring their own.  Everything is in
 * bytes; offsets and lengths are multiples of the logical block size.
 *
 * Threads: any number of threads may call bdev_execute and bdev_report_zones
 * on one bdev at once.  Both work in the caller's thread and return when the
 * work is done.  A caller that writes to a sequential zone has at most one
 * write of that zone in flight.
 *
 * Errors: -1 with errno, as scsi/answers.c maps a drive's answer: EIO,
 * ENODATA (medium error), EREMOTEIO (the drive refuses the command or the
 * position), EROFS (write protected, read-only zone), ENOSPC, ETOOMANYREFS
 * (too many open zones), ENODEV (the drive is gone), ETIMEDOUT.
 */
#ifndef BASE_BDEV_H
#define BASE_BDEV_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

enum bdev_op {
  BDEV_READ,
  BDEV_WRITE,
  BDEV_FLUSH,                   /* write cache to medium; off, len unused */
  BDEV_WRITE_ZEROES,            /* no data; ENOTSUP when info.max_zeroes_bytes is 0 */
  BDEV_UNMAP,                   /* no data; ENOTSUP when !info.unmap */
  BDEV_ZONE_OPEN,
  BDEV_ZONE_CLOSE,
  BDEV_ZONE_FINISH,
  BDEV_ZONE_RESET,              /* zone at off_bytes; len_bytes unused */
  BDEV_PROBE,                   /* one TEST UNIT READY; never called in the I/O path.  After
                                   ENODEV it also looks for the drive: 0 when the same
                                   one is back */
};
#define BDEV_NR_OPS (BDEV_PROBE + 1)

/* I/O priority classes, numbered as in Linux's ioprio. */
enum bdev_prio {
  BDEV_PRIO_NONE = 0,           /* treated as BE */
  BDEV_PRIO_RT = 1,
  BDEV_PRIO_BE = 2,
  BDEV_PRIO_IDLE = 3,
};

#define BDEV_FUA       1u       /* BDEV_WRITE, _WRITE_ZEROES: durable on return */
#define BDEV_ALL       2u       /* zone operations: every zone; off_bytes is 0 */
#define BDEV_RESERVED  4u       /* may use a reserved tag: probes, error handling */
#define BDEV_ZEROES_MAY_UNMAP 8u

struct bdev_req {
  enum bdev_op op;
  unsigned flags;
  enum bdev_prio prio;
  const atomic_uint *wanted;    /* with class IDLE, or NULL: not 0 while somebody waits for
                                   what this is part of; it counts as BE then, after
                                   bdev_raise also when it is queued already */
  unsigned hwq;                 /* hardware queue hint; folded by mq */
  uint64_t off_bytes;
  uint64_t len_bytes;
  const struct iovec *iov;      /* BDEV_READ, BDEV_WRITE: len_bytes in all */
  int iovcnt;

  /* out: bytes from the start that are known to be done.  len_bytes on
     success.  After a failed write to a sequential zone it is what the
     write pointer says. */
  uint64_t done_bytes;
};

/* Zone types and conditions, numbered as in ZBC (REPORT ZONES). */
enum bdev_zone_type {
  ZONE_CONVENTIONAL = 1,
  ZONE_SEQ_REQUIRED = 2,
  ZONE_SEQ_PREFERRED = 3,
  ZONE_SEQ_OR_BEFORE = 4,
  ZONE_GAP = 5,
};

enum bdev_zone_cond {
  ZONE_NOT_WP = 0x0,
  ZONE_EMPTY = 0x1,
  ZONE_IMPLICIT_OPEN = 0x2,
  ZONE_EXPLICIT_OPEN = 0x3,
  ZONE_CLOSED = 0x4,
  ZONE_READ_ONLY = 0xd,
  ZONE_FULL = 0xe,
  ZONE_OFFLINE = 0xf,
};

struct bdev_zone {
  uint64_t start_bytes;
  uint64_t len_bytes;
  uint64_t cap_bytes;           /* writable part; len_bytes where the drive says nothing */
  uint64_t wp_bytes;            /* absolute; start+cap of a full zone; UINT64_MAX if none */
  uint8_t type;                 /* enum bdev_zone_type */
  uint8_t cond;                 /* enum bdev_zone_cond */
  bool non_seq;                 /* NON_SEQ bit */
  bool reset_recommended;       /* RESET bit */
};

enum bdev_zoned_model {
  BDEV_NOT_ZONED,
  BDEV_DRIVE_MANAGED,
  BDEV_HOST_AWARE,
  BDEV_HOST_MANAGED,
};

/* Fixed while the bdev is open. */
struct bdev_info {
  char name[128];               /* as the user named the drive, for messages */
  char vendor[9], product[17], revision[5], serial[65];
  uint8_t wwid[16];             /* VPD 83h designator, first wwid_len bytes */
  unsigned wwid_len;
  enum bdev_zoned_model model;
  uint32_t lbs_bytes;           /* logical block size: 512 ... 4096 */
  uint32_t pbs_bytes;           /* physical block size */
  uint64_t size_bytes;
  uint64_t zone_bytes;          /* 0: not zoned */
  uint32_t nr_zones;            /* runt included, gap zones not */
  uint32_t max_open_zones;      /* 0: no limit */
  bool urswrz;                  /* unrestricted reads in sequential write zones */
  bool write_cache;             /* volatile write cache present and enabled */
  bool fua;                     /* FUA honoured (DPOFUA) */
  bool unmap;
  bool read_only;               /* write protected, or opened so */
  bool write_protected;         /* the drive itself refuses writes */
  bool rotational;
  uint64_t max_zeroes_bytes;    /* of one command; longer BDEV_WRITE_ZEROES are cut; 0:
                                   not supported */
  bool zeroes_unmap;            /* BDEV_ZEROES_MAY_UNMAP costs no media time */
};

struct bdev;

struct bdev_ops {
  int (*execute) (struct bdev *bdev, struct bdev_req *req);
  /* Zones from the one that holds start_bytes on; GAP zones are left out.
     *nr is how many were stored, 0 only at the end of the drive. */
  int (*report_zones) (struct bdev *bdev, uint64_t start_bytes,
                       struct bdev_zone *zones, size_t max, size_t *nr);
  /* Releases this bdev and what it owns below. */
  void (*close) (struct bdev *bdev);
  /* Optional, any thread: how often the drive said that it was reset or came
     back after being away (unit attention 29h).  A caller that sees the number
     change reads its zones again: open zones are closed, and what was not
     flushed may be gone. */
  uint64_t (*resets) (struct bdev *bdev);
  /* Optional, any thread, does not sleep: the `wanted` of some requests is no longer 0. */
  void (*raise) (struct bdev *bdev);
};

struct bdev {
  const struct bdev_ops *ops;
  struct bdev_info info;
};

static inline int
bdev_execute (struct bdev *bdev, struct bdev_req *req)
{
  return bdev->ops->execute (bdev, req);
}

static inline int
bdev_report_zones (struct bdev *bdev, uint64_t start_bytes,
                   struct bdev_zone *zones, size_t max, size_t *nr)
{
  return bdev->ops->report_zones (bdev, start_bytes, zones, max, nr);
}

static inline void
bdev_close (struct bdev *bdev)
{
  bdev->ops->close (bdev);
}

static inline uint64_t
bdev_resets (struct bdev *bdev)
{
  return bdev->ops->resets ? bdev->ops->resets (bdev) : 0;
}

static inline void
bdev_raise (struct bdev *bdev)
{
  if (bdev->ops->raise)
    bdev->ops->raise (bdev);
}

/* One buffer, class BE. */
int bdev_read (struct bdev *bdev, void *buf, uint64_t len_bytes, uint64_t off_bytes);
int bdev_write (struct bdev *bdev, const void *buf, uint64_t len_bytes,
                uint64_t off_bytes, unsigned flags);
int bdev_flush (struct bdev *bdev);
int bdev_zone_reset (struct bdev *bdev, uint64_t off_bytes);

#endif
