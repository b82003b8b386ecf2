/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The answer table.
 *
 * Sources: SAM-5 5.3 (status), SPC-5 4.4 and annex F (sense), ZBC-2 4.4 (zone
 * rules), and what Linux's own disk driver does with host statuses.  Where
 * this table differs from what a read or write of /dev/sdX would report:
 * - a command that timed out is ETIMEDOUT, so that "slow or hung" can be told
 *   from "said no";
 * - write protection and read-only zones are EROFS;
 * - a drive that cannot be reached is ENODEV.
 */
#include <config.h>
#include <errno.h>
#include "base/bytes.h"
#include "scsi/answers.h"
#include "scsi/cdb.h"

#define ANY ANSWER_ANY

/* action, errno, fate, meaning, then what is rare */
#define A(act, err, fate_, mean, ...) \
  { .action = ANSWER_##act, .errnum = err, .fate = FATE_##fate_, .meaning = mean, ##__VA_ARGS__ }

#define ERRNO(e, ...)  { FROM_ERRNO, e, ANY, ANY, 0, A (__VA_ARGS__) }
#define HOST(h, ...)   { FROM_HOST, h, ANY, ANY, 0, A (__VA_ARGS__) }
#define STATUS(s, ...) { FROM_STATUS, s, ANY, ANY, 0, A (__VA_ARGS__) }
#define SENSE(key, asc, ascq, ...) { FROM_SENSE, key, asc, ascq, 0, A (__VA_ARGS__) }
#define SENSE_ONLY(only, key, asc, ascq, ...) \
  { FROM_SENSE, key, asc, ascq, only, A (__VA_ARGS__) }
#define NOT_READY_YET(ascq, mean) \
  SENSE (SENSE_NOT_READY, 0x04, ascq, RETRY_DELAYED, EIO, NOT_RUN, mean)

const struct answer_rule answer_rules[] = {
  /* The transport did not deliver the command, or does not know its fate. */
  ERRNO (ENODEV, GONE, ENODEV, UNKNOWN, "the drive is gone"),
  ERRNO (ENXIO, GONE, ENODEV, UNKNOWN, "the drive is gone"),
  ERRNO (ESHUTDOWN, GONE, ENODEV, UNKNOWN, "the drive is gone"),
  ERRNO (ENOMEM, SMALLER, ENOMEM, NOT_RUN, "the host is short of memory"),
  ERRNO (EAGAIN, REQUEUE, EIO, NOT_RUN, "the host queue is full"),
  ERRNO (EBUSY, REQUEUE, EIO, NOT_RUN, "the host is busy"),
  ERRNO (EDOM, REQUEUE, EIO, NOT_RUN, "the host queue is full"),
  ERRNO (EINTR, RETRY, EIO, UNKNOWN, "the command was interrupted"),
  ERRNO (EPERM, FAIL, EPERM, NOT_RUN, "the system does not allow this command"),
  ERRNO (EACCES, FAIL, EPERM, NOT_RUN, "the system does not allow this command"),
  ERRNO (EINVAL, FAIL, EINVAL, NOT_RUN, "the host refused the command"),
  ERRNO (EMSGSIZE, FAIL, EINVAL, NOT_RUN, "the host refused the command's length"),
  ERRNO (ENOSYS, FAIL, EINVAL, NOT_RUN, "the host does not know the request"),
  ERRNO (ETIMEDOUT, RETRY, ETIMEDOUT, UNKNOWN, "no answer in time"),
  ERRNO (ANY, FAIL, EIO, UNKNOWN, "the transport failed"),

  /* Host status.  Where sense data came along with an aborted command it is
     the reason (answer_find). */
  HOST (SH_HOST_NO_CONNECT, FAIL, ENODEV, UNKNOWN, "no connection to the drive"),
  HOST (SH_HOST_BAD_TARGET, FAIL, ENODEV, UNKNOWN, "no connection to the drive"),
  HOST (SH_HOST_BUS_BUSY, RETRY, EIO, UNKNOWN, "bus busy"),
  HOST (SH_HOST_PARITY, RETRY, EIO, UNKNOWN, "parity error on the bus"),
  HOST (SH_HOST_ERROR, RETRY, EIO, UNKNOWN, "host adapter error"),
  HOST (SH_HOST_SOFT_ERROR, RETRY, EIO, UNKNOWN, "host adapter soft error"),
  HOST (SH_HOST_TIME_OUT, RETRY, ETIMEDOUT, UNKNOWN, "no answer in time"),
  HOST (SH_HOST_RESET, RETRY, EIO, UNKNOWN, "the bus was reset"),
  HOST (SH_HOST_IMM_RETRY, REQUEUE, EIO, UNKNOWN, "the host asks to retry"),
  HOST (SH_HOST_REQUEUE, REQUEUE, EIO, UNKNOWN, "the host asks to requeue"),
  HOST (SH_HOST_TRANSPORT_DISRUPTED, RETRY, EIO, UNKNOWN, "transport disrupted"),
  HOST (SH_HOST_TRANSPORT_FAILFAST, FAIL, ENOLINK, UNKNOWN, "transport down"),
  HOST (SH_HOST_TRANSPORT_MARGINAL, FAIL, ENOLINK, UNKNOWN, "transport marginal"),
  HOST (ANY, RETRY, EIO, UNKNOWN, "host adapter error"),

  /* SCSI status. */
  STATUS (SH_STATUS_GOOD, SUCCESS, 0, RAN, "good"),
  STATUS (SH_STATUS_CONDITION_MET, SUCCESS, 0, RAN, "condition met"),
  STATUS (SH_STATUS_CHECK_CONDITION, REQUEST_SENSE, EIO, UNKNOWN, "no sense data"),
  STATUS (SH_STATUS_BUSY, RETRY_DELAYED, EIO, NOT_RUN, "drive busy"),
  STATUS (SH_STATUS_RESERVATION_CONFLICT, FAIL, EBADE, NOT_RUN, "reserved by another host"),
  STATUS (SH_STATUS_TASK_SET_FULL, RETRY_DELAYED, EIO, NOT_RUN, "drive queue full",
          .delay_ms = 1),
  STATUS (SH_STATUS_ACA_ACTIVE, FAIL, EIO, NOT_RUN, "ACA active"),
  STATUS (SH_STATUS_TASK_ABORTED, RETRY, EIO, UNKNOWN, "task aborted"),
  STATUS (ANY, FAIL, EIO, UNKNOWN, "unknown status"),

  /* Deferred errors: the command that carries one did not run. */
  SENSE_ONLY (ONLY_DEFERRED, SENSE_NONE, ANY, ANY, RETRY, EIO, NOT_RUN, "deferred notice"),
  SENSE_ONLY (ONLY_DEFERRED, SENSE_RECOVERED, ANY, ANY, RETRY, EIO, NOT_RUN,
              "deferred recovered error"),
  SENSE_ONLY (ONLY_DEFERRED, ANY, ANY, ANY, RETRY, EIO, NOT_RUN, "deferred error",
              .news = NEWS_DEFERRED_ERROR),

  SENSE (SENSE_NONE, ANY, ANY, SUCCESS, 0, RAN, "no sense"),
  SENSE (SENSE_RECOVERED, ANY, ANY, SUCCESS, 0, RAN, "recovered error"),

  NOT_READY_YET (0x01, "becoming ready"),
  NOT_READY_YET (0x04, "format in progress"),
  NOT_READY_YET (0x05, "rebuild in progress"),
  NOT_READY_YET (0x06, "recalculation in progress"),
  NOT_READY_YET (0x07, "operation in progress"),
  NOT_READY_YET (0x08, "long write in progress"),
  NOT_READY_YET (0x09, "self-test in progress"),
  NOT_READY_YET (0x11, "notify (enable spinup) required"),
  NOT_READY_YET (0x14, "space allocation in progress"),
  NOT_READY_YET (0x1a, "start stop unit in progress"),
  NOT_READY_YET (0x1b, "sanitize in progress"),
  NOT_READY_YET (0x1d, "configuration in progress"),
  SENSE (SENSE_NOT_READY, 0x04, 0x0a, RETRY_DELAYED, EIO, NOT_RUN,
         "path state changing", .delay_ms = 1000),
  SENSE (SENSE_NOT_READY, 0x04, 0x02, START_UNIT, EIO, NOT_RUN, "the drive is stopped"),
  SENSE (SENSE_NOT_READY, 0x04, 0x24, FAIL, EIO, NOT_RUN, "depopulation in progress"),
  SENSE (SENSE_NOT_READY, 0x04, 0x25, FAIL, EIO, NOT_RUN, "depopulation in progress"),
  SENSE (SENSE_NOT_READY, 0x3a, ANY, FAIL, EIO, NOT_RUN, "no medium"),
  SENSE (SENSE_NOT_READY, ANY, ANY, FAIL, EIO, NOT_RUN, "not ready"),

  SENSE (SENSE_MEDIUM, 0x11, ANY, FAIL, ENODATA, RAN, "unrecovered read error"),
  SENSE (SENSE_MEDIUM, 0x13, ANY, FAIL, ENODATA, RAN, "address mark not found"),
  SENSE (SENSE_MEDIUM, 0x14, ANY, FAIL, ENODATA, RAN, "recorded entity not found"),
  SENSE (SENSE_MEDIUM, ANY, ANY, RETRY, EIO, RAN, "medium error"),

  SENSE (SENSE_HARDWARE, ANY, ANY, FAIL, EREMOTEIO, RAN, "hardware error"),

  SENSE_ONLY (ONLY_RW, SENSE_ILLEGAL, 0x20, ANY, FALL_BACK, EREMOTEIO, NOT_RUN,
              "command not supported"),
  SENSE (SENSE_ILLEGAL, 0x20, ANY, UNSUPPORTED, EREMOTEIO, NOT_RUN, "command not supported"),
  SENSE (SENSE_ILLEGAL, 0x24, ANY, UNSUPPORTED, EREMOTEIO, NOT_RUN, "invalid field in CDB"),
  SENSE (SENSE_ILLEGAL, 0x10, ANY, FAIL, EILSEQ, RAN, "protection information error"),
  SENSE (SENSE_ILLEGAL, 0x21, 0x04, REFRESH_ZONE, EREMOTEIO, NOT_RUN,
         "write not at the write pointer"),
  SENSE (SENSE_ILLEGAL, 0x21, 0x05, REFRESH_ZONE, EREMOTEIO, NOT_RUN,
         "write across a zone boundary"),
  SENSE (SENSE_ILLEGAL, 0x21, 0x06, REFRESH_ZONE, EREMOTEIO, NOT_RUN,
         "read of unwritten blocks or across zone types"),
  SENSE (SENSE_ILLEGAL, 0x21, 0x07, REFRESH_ZONE, EREMOTEIO, NOT_RUN,
         "read across a zone boundary"),
  SENSE (SENSE_ILLEGAL, 0x21, 0x08, REFRESH_ZONE, EREMOTEIO, NOT_RUN,
         "access to an inactive zone"),
  SENSE (SENSE_ILLEGAL, 0x21, 0x09, REFRESH_ZONE, EREMOTEIO, NOT_RUN,
         "access to a gap zone"),
  SENSE (SENSE_ILLEGAL, 0x21, ANY, FAIL, EREMOTEIO, NOT_RUN, "block address out of range"),
  SENSE (SENSE_ILLEGAL, 0x22, ANY, FAIL, EREMOTEIO, NOT_RUN, "illegal function"),
  SENSE (SENSE_ILLEGAL, 0x26, ANY, FAIL, EREMOTEIO, NOT_RUN, "invalid field in parameter list"),
  SENSE (SENSE_ILLEGAL, ANY, ANY, FAIL, EIO, NOT_RUN, "illegal request"),

  SENSE (SENSE_ATTENTION, 0x29, 0x01, ATTENTION, EIO, NOT_RUN, "power on occurred",
         .news = NEWS_POWER_ON),
  SENSE (SENSE_ATTENTION, 0x29, ANY, ATTENTION, EIO, NOT_RUN, "reset occurred",
         .news = NEWS_RESET),
  SENSE_ONLY (ONLY_REMOVABLE, SENSE_ATTENTION, 0x28, ANY, FAIL, EIO, NOT_RUN,
              "medium may have changed"),
  SENSE (SENSE_ATTENTION, 0x2a, 0x01, ATTENTION, EIO, NOT_RUN, "mode parameters changed",
         .news = NEWS_MODE),
  SENSE (SENSE_ATTENTION, 0x2a, 0x09, ATTENTION, EIO, NOT_RUN, "capacity changed",
         .news = NEWS_CAPACITY),
  SENSE (SENSE_ATTENTION, 0x3f, 0x0e, ATTENTION, EIO, NOT_RUN, "LUNs changed",
         .news = NEWS_LUNS),
  SENSE (SENSE_ATTENTION, ANY, ANY, ATTENTION, EIO, NOT_RUN, "unit attention"),

  SENSE (SENSE_PROTECT, 0x27, 0x07, FAIL, ENOSPC, NOT_RUN, "space allocation failed"),
  SENSE (SENSE_PROTECT, 0x27, 0x08, FAIL, EROFS, NOT_RUN, "the zone is read only"),
  SENSE (SENSE_PROTECT, 0x27, ANY, FAIL, EROFS, NOT_RUN, "write protected"),
  SENSE (SENSE_PROTECT, 0x2c, 0x0e, FAIL, EIO, NOT_RUN, "the zone is offline"),
  SENSE (SENSE_PROTECT, 0x55, 0x0e, CLOSE_ZONE, ETOOMANYREFS, NOT_RUN, "too many open zones"),
  SENSE (SENSE_PROTECT, 0x55, 0x0f, CLOSE_ZONE, ETOOMANYREFS, NOT_RUN, "too many active zones"),
  SENSE (SENSE_PROTECT, 0x0c, 0x12, CLOSE_ZONE, ETOOMANYREFS, NOT_RUN, "too many open zones"),
  SENSE (SENSE_PROTECT, ANY, ANY, FAIL, EIO, NOT_RUN, "data protect"),

  SENSE (SENSE_BLANK, ANY, ANY, FAIL, EIO, RAN, "blank check"),
  SENSE (SENSE_OVERFLOW, ANY, ANY, FAIL, EIO, RAN, "volume overflow"),
  SENSE (SENSE_MISCOMPARE, ANY, ANY, FAIL, EIO, RAN, "miscompare"),

  SENSE (SENSE_ABORTED, 0x10, ANY, FAIL, EILSEQ, RAN, "protection information error"),
  SENSE (SENSE_ABORTED, 0x2e, 0x01, FAIL, ETIME, UNKNOWN, "duration limit exceeded"),
  SENSE (SENSE_ABORTED, 0x2e, 0x02, FAIL, ETIME, UNKNOWN, "duration limit exceeded"),
  SENSE (SENSE_ABORTED, ANY, ANY, RETRY, EIO, UNKNOWN, "command aborted"),

  SENSE (ANY, ANY, ANY, FAIL, EIO, RAN, "unknown sense key"),
};
const unsigned answer_nr_rules = ARRAY_SIZE (answer_rules);

static bool
is_long_rw (const struct sh_command *c)
{
  switch (c->cdb[0]) {
  case OP_READ_10: case OP_WRITE_10: case OP_READ_16: case OP_WRITE_16:
    return true;
  default:
    return false;
  }
}

/* The row for (source, code, asc, ascq) among those that hold for `traits`
   (enum answer_only).  Every source ends with a row that matches all. */
static const struct answer *
find_row (enum answer_source source, int code, int asc, int ascq, unsigned traits)
{
  for (unsigned i = 0; i < ARRAY_SIZE (answer_rules); ++i) {
    const struct answer_rule *r = &answer_rules[i];

    if (r->source == source &&
        (r->code == ANY || r->code == code) &&
        (r->asc == ANY || r->asc == asc) &&
        (r->ascq == ANY || r->ascq == ascq) &&
        (r->only & ~traits) == 0 &&
        (traits & ONLY_DEFERRED) == (r->only & ONLY_DEFERRED))
      return &r->answer;
  }
  __builtin_unreachable ();
}

/* Is the sense data the reason?  With an aborted command it is when it names
   an error; no other host status leaves it any meaning. */
static bool
sense_counts (uint8_t host_status, const struct sense *sense)
{
  return host_status == SH_HOST_OK || host_status == SH_HOST_PASSTHROUGH ||
         (host_status == SH_HOST_ABORT && sense->key > SENSE_RECOVERED);
}

static const struct answer *
find_by_sense (const struct sh_command *c, bool removable, const struct sense *sense)
{
  const unsigned traits = (is_long_rw (c) ? ONLY_RW : 0) |
                          (removable ? ONLY_REMOVABLE : 0) |
                          (sense->deferred ? ONLY_DEFERRED : 0);

  return find_row (FROM_SENSE, sense->key, sense->asc, sense->ascq, traits);
}

const struct answer *
answer_find (const struct sh_command *c, int errnum, bool removable,
             struct sense *sense)
{
  *sense = (struct sense) { .usable = false };
  if (errnum != 0)
    return find_row (FROM_ERRNO, errnum, 0, 0, 0);
  if (c->status == SH_STATUS_CHECK_CONDITION &&
      sense_parse (c->sense, MIN (c->sense_len, SH_SENSE_MAX), sense) &&
      sense_counts (c->host_status, sense))
    return find_by_sense (c, removable, sense);
  if (c->host_status != SH_HOST_OK && c->host_status != SH_HOST_PASSTHROUGH)
    return find_row (FROM_HOST, c->host_status, 0, 0, 0);
  return find_row (FROM_STATUS, c->status, 0, 0, 0);
}
