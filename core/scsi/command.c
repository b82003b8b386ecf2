/* SPDX-License-Identifier: BSD-3-Clause */
/* One command to its end: sends it, judges the answer by the table, waits or
 * helps where the table says so, and keeps the count. */
#include <config.h>
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "base/bytes.h"
#include "base/log.h"
#include "scsi/disk-internal.h"

static const struct {
  unsigned timeout_ms;
  const char *name;
} classes[DISK_NR_CLASSES] = {
  [DISK_CLASS_READ] = { 30 * 1000, "read" },
  [DISK_CLASS_WRITE] = { 30 * 1000, "write" },
  /* A full write cache of a busy SMR drive takes minutes to empty. */
  [DISK_CLASS_FLUSH] = { 300 * 1000, "flush" },
  [DISK_CLASS_WRITE_SAME] = { 120 * 1000, "write same" },
  [DISK_CLASS_UNMAP] = { 120 * 1000, "unmap" },
  [DISK_CLASS_ZONE_OUT] = { 120 * 1000, "zone command" },
  /* Behind a deep queue of writes it has been seen to take over 30 s. */
  [DISK_CLASS_ZONE_IN] = { 120 * 1000, "report zones" },
  [DISK_CLASS_PROBE] = { 10 * 1000, "probe" },
  [DISK_CLASS_START] = { 60 * 1000, "start unit" },
  [DISK_CLASS_INQUIRY] = { 20 * 1000, "inquiry" },
};

/* Delays double from the first to the last. */
#define FIRST_DELAY_NS (10 * NS_PER_MS)
#define LAST_DELAY_NS  (1 * NS_PER_S)

/* Below this a transfer is not cut finer for want of memory. */
#define SMALLEST_CUT_BYTES (64 * KiB)

#define LOG_LINES_A_SECOND 10

const char *
disk_class_name (enum disk_class class)
{
  return classes[class].name;
}

void
disk_log (struct disk *d, int level, const char *fmt, ...)
{
  const uint64_t second = sh_now (d->clock) / NS_PER_S;
  char text[512];
  unsigned dropped;
  va_list ap;

  if (atomic_exchange_explicit (&d->log_second, second, memory_order_relaxed) != second) {
    atomic_store_explicit (&d->log_lines, 0, memory_order_relaxed);
    dropped = atomic_exchange_explicit (&d->log_dropped, 0, memory_order_relaxed);
    if (dropped > 0)
      sh_log (d->log, level, "%s: %u more messages were dropped", d->bdev.info.name,
              dropped);
  }
  if (atomic_fetch_add_explicit (&d->log_lines, 1, memory_order_relaxed) >=
      LOG_LINES_A_SECOND) {
    atomic_fetch_add_explicit (&d->log_dropped, 1, memory_order_relaxed);
    return;
  }
  va_start (ap, fmt);
  vsnprintf (text, sizeof text, fmt, ap);
  va_end (ap);
  sh_log (d->log, level, "%s: %s", d->bdev.info.name, text);
}

void
attempt_init (struct attempt *a, enum disk_class class, unsigned policy)
{
  a->c.xfer = SH_XFER_NONE;
  a->c.iov = NULL;
  a->c.iovcnt = 0;
  a->c.data_len = 0;
  a->c.timeout_ms = classes[class].timeout_ms;
  a->class = class;
  a->policy = policy;
  a->errnum = 0;
  a->fate = FATE_RAN;
  a->doubt = a->refresh = a->started = a->closed = false;
  a->retries = a->attentions = 0;
  a->sent_ns = a->first_ns = a->delay_ns = 0;
  a->answer = NULL;
}

void
attempt_data (struct attempt *a, enum sh_xfer xfer, const struct iovec *iov,
              int iovcnt, size_t len)
{
  a->c.xfer = xfer;
  a->c.iov = iov;
  a->c.iovcnt = iovcnt;
  a->c.data_len = len;
}

/* "WRITE(16) at LBA 7: medium error (03/0C/00)" */
static void
describe (const struct attempt *a, char *buf, size_t size)
{
  const uint64_t lba = cdb_lba (&a->c);
  char where[40] = "", sense[24] = "";

  if (lba != UINT64_MAX)
    snprintf (where, sizeof where, " at LBA %" PRIu64, lba);
  if (a->sense.usable)
    snprintf (sense, sizeof sense, " (%02X/%02X/%02X)", a->sense.key, a->sense.asc,
              a->sense.ascq);
  snprintf (buf, size, "%s%s: %s%s", cdb_name (&a->c), where, a->answer->meaning, sense);
}

static enum step
fail (struct disk *d, struct attempt *a)
{
  char what[160];

  a->errnum = a->answer->errnum;
  assert (a->errnum != 0);
  if (!(a->policy & ATTEMPT_EXPECT_REFUSAL)) {
    describe (a, what, sizeof what);
    if (a->retries > 0)
      disk_log (d, SH_LOG_WARNING, "%s; given up after %u retries in %.1f s", what,
                a->retries, (double) (sh_now (d->clock) - a->first_ns) / NS_PER_S);
    else
      disk_log (d, SH_LOG_WARNING, "%s", what);
  }
  return STEP_FAILED;
}

static enum step
again (struct disk *d, struct attempt *a)
{
  COUNT (d, retries, 1);
  return STEP_AGAIN;
}

static bool
time_is_over (struct disk *d, const struct attempt *a)
{
  return sh_now (d->clock) - a->first_ns >
         (DISK_RETRIES + 1) * NS_PER_MS * classes[a->class].timeout_ms;
}

/* A probe is one command to the drive; one that the host did not even pass on
   does not count. */
static bool
is_final (const struct attempt *a)
{
  return (a->policy & ATTEMPT_NO_RETRY) &&
         (a->retries >= DISK_RETRIES ||
          (a->answer->action != ANSWER_REQUEUE && a->c.host_status != SH_HOST_BUS_BUSY));
}

static enum step
retry_counted (struct disk *d, struct attempt *a)
{
  if (is_final (a) || a->retries >= DISK_RETRIES || time_is_over (d, a))
    return fail (d, a);
  ++a->retries;
  return again (d, a);
}

static enum step
retry_delayed (struct disk *d, struct attempt *a)
{
  if (is_final (a) || time_is_over (d, a))
    return fail (d, a);
  ++a->retries;
  if (a->delay_ns == 0)
    a->delay_ns = a->answer->delay_ms ? NS_PER_MS * a->answer->delay_ms : FIRST_DELAY_NS;
  sh_sleep (d->clock, a->delay_ns);
  a->delay_ns = MIN (a->delay_ns * 2, LAST_DELAY_NS);
  return again (d, a);
}

static enum step
retry_attention (struct disk *d, struct attempt *a)
{
  const bool probe = (a->policy & ATTEMPT_NO_RETRY) != 0;

  if (a->attentions++ < (probe ? 1 : DISK_ATTENTIONS))
    return again (d, a);
  if (probe)                    /* more news: the caller knows what that means */
    a->policy |= ATTEMPT_EXPECT_REFUSAL;
  return fail (d, a);
}

/* A drive that refused to start may be on its way to ready: TEST UNIT READY says
   so, and is repeated until it is there. */
static bool
becomes_ready (struct disk *d, const struct attempt *a)
{
  struct attempt t;

  attempt_init (&t, DISK_CLASS_PROBE, a->policy & ATTEMPT_WHILE_GONE);
  cdb_test_unit_ready (&t.c);
  t.started = true;
  return attempt_all (d, &t) == 0;
}

static enum step
start_unit (struct disk *d, struct attempt *a)
{
  struct attempt s;

  if ((a->policy & ATTEMPT_NO_RETRY) || a->started || a->class == DISK_CLASS_START)
    return fail (d, a);
  a->started = true;
  COUNT (d, unit_starts, 1);
  disk_log (d, SH_LOG_INFO, "the drive is stopped; starting it");
  attempt_init (&s, DISK_CLASS_START, a->policy & ATTEMPT_WHILE_GONE);
  cdb_start_unit (&s.c);
  if (attempt_all (d, &s) == -1 && !becomes_ready (d, a))
    return fail (d, a);
  return again (d, a);
}

static enum step
close_zone (struct disk *d, struct attempt *a)
{
  if (a->closed)
    return fail (d, a);
  a->closed = true;
  if (!disk_close_some_zone (d, cdb_lba (&a->c)))
    return fail (d, a);
  return again (d, a);
}

static enum step
cut_smaller (struct disk *d, struct attempt *a)
{
  const size_t lbs = d->bdev.info.lbs_bytes;
  size_t now = atomic_load_explicit (&d->max_bytes, memory_order_relaxed);
  size_t half = a->c.data_len / 2;

  if (a->c.data_len < 2 * SMALLEST_CUT_BYTES ||
      (a->class != DISK_CLASS_READ && a->class != DISK_CLASS_WRITE))
    return retry_delayed (d, a);
  half -= half % lbs;
  while (now > half &&
         !atomic_compare_exchange_weak_explicit (&d->max_bytes, &now, half,
                                                 memory_order_relaxed,
                                                 memory_order_relaxed))
    ;
  disk_log (d, SH_LOG_INFO, "the host has no memory for %zu bytes at a time; going on "
            "with %zu", a->c.data_len, half);
  COUNT (d, retries, 1);
  return STEP_SMALLER;
}

static void
note_reset (struct disk *d, bool power_on)
{
  atomic_fetch_add (&d->resets, 1);
  if (power_on && d->bdev.info.write_cache && atomic_load (&d->unflushed)) {
    atomic_store (&d->deferred_errnum, EIO);
    disk_log (d, SH_LOG_ERROR, "the drive lost power with unflushed writes in its "
              "cache; the next flush will fail");
  }
}

static void
note_news (struct disk *d, const struct answer *answer)
{
  switch (answer->news) {
  case NEWS_NONE:
    break;
  case NEWS_RESET:
    note_reset (d, false);
    break;
  case NEWS_POWER_ON:
    note_reset (d, true);
    break;
  case NEWS_CAPACITY:
    COUNT (d, capacity_changes, 1);
    disk_log (d, SH_LOG_WARNING, "the drive reports that its capacity has changed");
    break;
  case NEWS_MODE:
    COUNT (d, mode_changes, 1);
    break;
  case NEWS_LUNS:
    break;
  case NEWS_DEFERRED_ERROR:
    COUNT (d, deferred_errors, 1);
    atomic_store (&d->deferred_errnum, EIO);
    disk_log (d, SH_LOG_ERROR, "the drive failed to write data that it had accepted; "
              "the next flush will fail");
    break;
  }
}

static void
note_kind (struct disk *d, const struct attempt *a)
{
  char what[160];

  if (a->answer->action == ANSWER_ATTENTION)
    COUNT (d, attentions, 1);
  if (a->answer->action == ANSWER_RETRY_DELAYED && !a->sense.usable)
    COUNT (d, busy, 1);
  if (a->answer->errnum == ETIMEDOUT) {
    COUNT (d, timeouts, 1);
    describe (a, what, sizeof what);
    if (a->sent_ns != 0)
      disk_log (d, SH_LOG_WARNING, "%s: gave up after %.1f s", what,
                (double) (sh_now (d->clock) - a->sent_ns) / NS_PER_S);
    else
      disk_log (d, SH_LOG_WARNING, "%s: gave up (%u s are allowed)", what,
                a->c.timeout_ms / 1000);
  }
}

/* The drive said CHECK CONDITION and no more: ask it why. */
static const struct answer *
ask_for_sense (struct disk *d, struct attempt *a)
{
  static const struct answer nothing = {
    .action = ANSWER_RETRY,
    .errnum = EIO,
    .fate = FATE_UNKNOWN,
    .meaning = "check condition without sense data",
  };
  struct sh_command c;
  struct iovec iov = { a->c.sense, sizeof a->c.sense };

  cdb_request_sense (&c, sizeof a->c.sense);
  c.xfer = SH_XFER_FROM_DEVICE;
  c.iov = &iov;
  c.iovcnt = 1;
  c.data_len = iov.iov_len;
  c.timeout_ms = classes[DISK_CLASS_INQUIRY].timeout_ms;
  COUNT (d, commands[DISK_CLASS_INQUIRY], 1);
  if (d->t.ops->execute (d->t.handle, &c) == -1 || c.status != SH_STATUS_GOOD ||
      c.host_status != SH_HOST_OK || c.resid > c.data_len)
    return &nothing;
  a->c.sense_len = (uint8_t) (c.data_len - c.resid);
  if (!sense_parse (a->c.sense, a->c.sense_len, &a->sense) || a->sense.key == SENSE_NONE)
    return &nothing;
  return answer_find (&a->c, 0, d->removable, &a->sense);
}

static enum step
act (struct disk *d, struct attempt *a)
{
  switch (a->answer->action) {
  case ANSWER_SUCCESS:
    return STEP_DONE;
  case ANSWER_FAIL:
  case ANSWER_UNSUPPORTED:
    return fail (d, a);
  case ANSWER_GONE:
    if (!atomic_exchange (&d->gone, true))
      disk_log (d, SH_LOG_ERROR, "the drive is gone");
    a->policy |= ATTEMPT_EXPECT_REFUSAL;
    return fail (d, a);
  case ANSWER_RETRY:
  case ANSWER_REQUEST_SENSE:
    return retry_counted (d, a);
  case ANSWER_RETRY_DELAYED:
  case ANSWER_REQUEUE:
    return retry_delayed (d, a);
  case ANSWER_ATTENTION:
    return retry_attention (d, a);
  case ANSWER_START_UNIT:
    return start_unit (d, a);
  case ANSWER_REFRESH_ZONE:
    a->refresh = true;
    return fail (d, a);
  case ANSWER_CLOSE_ZONE:
    return close_zone (d, a);
  case ANSWER_FALL_BACK:
    return STEP_NARROWER;
  case ANSWER_SMALLER:
    return cut_smaller (d, a);
  }
  __builtin_unreachable ();
}

static enum step
judge (struct disk *d, struct attempt *a, int errnum)
{
  if (errnum != 0)              /* then the out members mean nothing */
    a->c.status = a->c.host_status = a->c.sense_len = 0;
  a->answer = answer_find (&a->c, errnum, d->removable, &a->sense);
  if (a->answer->action == ANSWER_REQUEST_SENSE)
    a->answer = ask_for_sense (d, a);
  if (a->first_ns == 0)
    a->first_ns = a->sent_ns ? a->sent_ns : sh_now (d->clock);
  a->fate = a->answer->fate;
  a->doubt |= a->fate != FATE_NOT_RUN;
  note_news (d, a->answer);
  note_kind (d, a);
  return act (d, a);
}

/* The clock costs more than all the rest of a read that succeeds. */
static bool
wants_age (const struct attempt *a)
{
  return (a->class != DISK_CLASS_READ && a->class != DISK_CLASS_WRITE) || a->first_ns != 0;
}

enum step
attempt (struct disk *d, struct attempt *a)
{
  int r;

  if (__builtin_expect (atomic_load_explicit (&d->gone, memory_order_relaxed), 0) &&
      !(a->policy & ATTEMPT_WHILE_GONE)) {
    a->errnum = ENODEV;
    a->fate = FATE_NOT_RUN;
    return STEP_FAILED;
  }
  COUNT (d, commands[a->class], 1);
  if (wants_age (a))
    a->sent_ns = sh_now (d->clock);
  r = d->t.ops->execute (d->t.handle, &a->c);
  if (__builtin_expect (r == 0 && a->c.status == SH_STATUS_GOOD &&
                        a->c.host_status == SH_HOST_OK, 1))
    return STEP_DONE;
  return judge (d, a, r == 0 ? 0 : errno);
}

int
attempt_all (struct disk *d, struct attempt *a)
{
  enum step step;

  do
    step = attempt (d, a);
  while (step == STEP_AGAIN);
  if (step == STEP_DONE) {
    if (a->c.resid <= a->c.data_len)
      return 0;
    a->errnum = EPROTO;         /* more missing than was asked for */
  }
  else if (step != STEP_FAILED)
    a->errnum = a->answer->errnum;
  errno = a->errnum;
  return -1;
}
