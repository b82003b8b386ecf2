/* SPDX-License-Identifier: BSD-3-Clause */
/* One command from its CDB to its status, in the order of checks of
 * blk-semantics 3.2. */
#include <config.h>
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "transport/emu/internal.h"

/* ---- sense ---- */

/* What may go with a sense code. */
struct sense_extra {
  bool has_information;
  uint64_t information;
  bool has_field;
  bool in_cdb;                  /* the field pointer is into the CDB */
  unsigned field_byte;
  int field_bit;                /* -1: the whole byte */
};

static void
put_field_pointer (uint8_t *p, const struct sense_extra *x)
{
  p[0] = (uint8_t) (0x80 | (x->in_cdb ? 0x40 : 0));
  if (x->field_bit >= 0)
    p[0] |= (uint8_t) (0x08 | x->field_bit);
  put_be16 (p + 1, (uint16_t) x->field_byte);
}

static size_t
build_fixed (uint32_t code, const struct sense_extra *x, uint8_t *buf)
{
  memset (buf, 0, 18);
  buf[0] = 0x70;
  buf[2] = code >> 16 & 0x0f;
  buf[7] = 10;
  buf[12] = code >> 8 & 0xff;
  buf[13] = code & 0xff;
  if (x->has_information && x->information <= UINT32_MAX) {
    buf[0] |= 0x80;             /* VALID */
    put_be32 (buf + 3, (uint32_t) x->information);
  }
  if (x->has_field)
    put_field_pointer (buf + 15, x);
  return 18;
}

static size_t
build_descriptor (uint32_t code, const struct sense_extra *x, uint8_t *buf)
{
  size_t len = 8;

  memset (buf, 0, 8 + 12 + 8);
  buf[0] = 0x72;
  buf[1] = code >> 16 & 0x0f;
  buf[2] = code >> 8 & 0xff;
  buf[3] = code & 0xff;
  if (x->has_information) {
    buf[len + 1] = 10;
    buf[len + 2] = 0x80;        /* VALID */
    put_be64 (buf + len + 4, x->information);
    len += 12;
  }
  if (x->has_field) {
    buf[len] = 2;               /* sense key specific */
    buf[len + 1] = 6;
    put_field_pointer (buf + len + 4, x);
    len += 8;
  }
  buf[7] = (uint8_t) (len - 8);
  return len;
}

size_t
emu_build_sense (bool descriptor, uint32_t code, uint8_t *buf)
{
  static const struct sense_extra none;

  return descriptor ? build_descriptor (code, &none, buf) : build_fixed (code, &none, buf);
}

static void
fail_extra (struct task *t, uint32_t code, const struct sense_extra *x)
{
  struct sh_command *c = t->cmd;

  c->status = SH_STATUS_CHECK_CONDITION;
  c->sense_len = (uint8_t) (t->emu->s.dsense ? build_descriptor (code, x, c->sense)
                            : build_fixed (code, x, c->sense));
}

void
task_fail (struct task *t, uint32_t sense)
{
  static const struct sense_extra none;

  fail_extra (t, sense, &none);
}

void
task_fail_info (struct task *t, uint32_t sense, uint64_t information)
{
  const struct sense_extra x = { .has_information = true, .information = information };

  fail_extra (t, sense, &x);
}

static void
fail_pointer (struct task *t, uint32_t sense, bool in_cdb, unsigned byte, int bit)
{
  const struct sense_extra x = {
    .has_field = true, .in_cdb = in_cdb, .field_byte = byte, .field_bit = bit,
  };

  fail_extra (t, sense, &x);
}

void
task_fail_field (struct task *t, unsigned byte, int bit)
{
  fail_pointer (t, SENSE_FIELD_IN_CDB, true, byte, bit);
}

void
task_fail_parameter (struct task *t, unsigned byte, int bit)
{
  fail_pointer (t, SENSE_FIELD_IN_PARAMETERS, false, byte, bit);
}

/* ---- data ---- */

void
task_send (struct task *t, const void *data, size_t len, size_t allocation)
{
  len = MIN (len, allocation);
  if (len == 0)
    return;
  if (t->cmd->xfer != SH_XFER_FROM_DEVICE) {
    t->cmd->host_status = SH_HOST_ERROR;
    return;
  }
  len = MIN (len, t->cmd->data_len);
  cursor_put (&t->data, data, len);
  t->moved += len;
}

bool
task_receive (struct task *t, void *data, size_t len)
{
  if (t->cmd->xfer != SH_XFER_TO_DEVICE || t->cmd->data_len - t->moved < len) {
    t->cmd->host_status = SH_HOST_ERROR;
    return false;
  }
  cursor_get (&t->data, data, len);
  t->moved += len;
  return true;
}

static bool
task_good (const struct task *t)
{
  return t->cmd->status == SH_STATUS_GOOD && t->cmd->host_status == SH_HOST_OK;
}

/* ---- unit attentions and readiness ---- */

bool
emu_take_attention (struct emu *emu, uint32_t *sense)
{
  static const uint32_t codes[NR_UA] = {
    [UA_RESET] = 0x062900,
    [UA_POWER_ON] = 0x062901,
    [UA_BUS_RESET] = 0x062902,
    [UA_MODE_CHANGED] = 0x062a01,
    [UA_CAPACITY] = 0x062a09,
    [UA_READY] = 0x062800,
  };
  uint32_t pending = atomic_load_explicit (&emu->ua_pending, memory_order_relaxed);

  while (pending != 0) {
    const unsigned first = (unsigned) __builtin_ctz (pending);

    if (atomic_compare_exchange_weak (&emu->ua_pending, &pending,
                                      pending & ~(UINT32_C (1) << first))) {
      *sense = first == UA_OTHER ? 0x060000 | atomic_load (&emu->ua_other) : codes[first];
      return true;
    }
  }
  return false;
}

bool
emu_becoming_ready (const struct emu *emu)
{
  const uint64_t ready_ns = atomic_load_explicit (&emu->ready_ns, memory_order_relaxed);

  return ready_ns != 0 && emu_now_ns (emu) < ready_ns;
}

static bool
ready (struct task *t)
{
  struct emu *emu = t->emu;

  if (atomic_load_explicit (&emu->stopped, memory_order_relaxed)) {
    task_fail (t, SENSE_STOPPED);
    return false;
  }
  if (!emu_becoming_ready (emu))
    return true;
  if (t->op->run == op_test_unit_ready)
    task_fail_info (t, SENSE_BECOMING_READY,
                    (emu->ready_ns - emu_now_ns (emu)) / NS_PER_MS);
  else
    task_fail (t, SENSE_STOPPED);
  return false;
}

/* ---- decoding ---- */

static void
decode (struct task *t)
{
  const uint8_t *cdb = t->cmd->cdb;

  if (t->op->flags & OP_ZONE_LBA) {
    t->lba = get_be64 (cdb + 2);
    return;
  }
  if (!(t->op->flags & OP_FIELDS_LBA))
    return;
  if (t->op->flags & OP_ATOMIC) {       /* bytes 10-11 are the boundary */
    t->lba = get_be64 (cdb + 2);
    t->blocks = get_be16 (cdb + 12);
    return;
  }
  switch (t->op->cdb_len) {
  case 6:
    t->lba = get_be24 (cdb + 1) & 0x1fffff;
    t->blocks = cdb[4] ? cdb[4] : 256;
    break;
  case 10:
    t->lba = get_be32 (cdb + 2);
    t->blocks = get_be16 (cdb + 7);
    break;
  case 12:
    t->lba = get_be32 (cdb + 2);
    t->blocks = get_be32 (cdb + 6);
    break;
  default:
    t->lba = get_be64 (cdb + 2);
    t->blocks = get_be32 (cdb + 10);
  }
}

/* Step 5: opcode and service action. */
static bool
find_op (struct task *t)
{
  bool known;

  t->op = emu_find_op (t->emu, t->cmd->cdb, &known);
  if (t->op && t->cmd->cdb_len >= t->op->cdb_len) {
    decode (t);
    return true;
  }
  return false;
}

static void
fail_no_op (struct task *t)
{
  bool known;

  count (t->emu, CNT_UNKNOWN_OPCODES, 1);
  if (emu_find_op (t->emu, t->cmd->cdb, &known) == NULL && known)
    task_fail_field (t, 1, 4);
  else
    task_fail (t, SENSE_UNKNOWN_OPCODE);
}

/* Step 7: a bit that the table does not name. */
static bool
reserved_clear (struct task *t)
{
  unsigned i;

  for (i = 1; i < t->op->cdb_len; ++i) {
    const uint8_t bad = (uint8_t) (t->cmd->cdb[i] & ~t->op->usage[i]);

    if (bad) {
      task_fail_field (t, i, 31 - __builtin_clz (bad));
      return false;
    }
  }
  return true;
}

/* ---- faults ---- */

/* The command gets no answer: the host gives up on it. */
static void
no_answer (struct task *t)
{
  const int32_t ms = t->emu->s.no_answer_ms;

  emu_sleep_ns (t->emu, (ms < 0 ? t->cmd->timeout_ms : (uint32_t) ms) * NS_PER_MS);
  t->cmd->status = SH_STATUS_GOOD;
  t->cmd->host_status = SH_HOST_TIME_OUT;
  t->cmd->sense_len = 0;
  t->moved = 0;
}

/* The answer of a programmed fault; -1: the drive is gone. */
static int
fault_answer (struct task *t, const struct fault *f)
{
  struct sh_command *c = t->cmd;

  switch (f->answer) {
  case FAULT_NO_CHANGE:
    return 0;
  case FAULT_STATUS:
    c->status = f->status;
    break;
  case FAULT_SENSE:
    if (f->has_information)
      task_fail_info (t, f->sense, f->information);
    else
      task_fail (t, f->sense);
    break;
  case FAULT_HOST:
    c->host_status = f->host_status;
    break;
  case FAULT_TIMEOUT:
    no_answer (t);
    break;
  case FAULT_GONE:
    atomic_store (&t->emu->gone, true);
    emu_update_special (t->emu);
    errno = ENODEV;
    return -1;
  }
  return 0;
}

/* Overwrites bytes of the data that the command returned. */
static void
patch_data (struct task *t, const struct fault *f)
{
  struct cursor c = { .iov = t->cmd->iov, .iovcnt = t->cmd->iovcnt };
  size_t off = f->patch_off, step;
  struct iovec skipped;

  if (t->cmd->xfer != SH_XFER_FROM_DEVICE || f->patch_len == 0 || off >= t->moved)
    return;
  while (off > 0) {
    cursor_take (&c, off, &skipped, 1, &step);
    off -= step;
  }
  cursor_put (&c, f->patch, MIN (f->patch_len, t->moved - f->patch_off));
}

static void
fault_side_effects (struct task *t, const struct fault *f)
{
  struct emu *emu = t->emu;

  if (f->attention)
    emu_unit_attention (emu, f->attention >> 8 & 0xff, f->attention & 0xff);
  if (f->zone_cond >= 0 && emu_zoned (emu) && t->lba < emu->nr_blocks) {
    const uint32_t zone = zone_of (emu, t->lba);
    struct zone_rec rec;

    zone_lock (emu, zone);
    rec = zone_load (emu, zone);
    rec.cond = (uint8_t) f->zone_cond;
    zone_change_locked (emu, zone, rec);
    zone_unlock (emu, zone);
  }
}

/* opts=2: reads that touch the bad range. */
static bool
medium_error (struct task *t)
{
  const struct emu_settings *s = &t->emu->s;
  const uint64_t first = s->medium_error_start;
  const uint64_t end = first + s->medium_error_count;

  if (!(s->opts & OPT_MEDIUM_ERROR) || !(t->op->flags & OP_READ) ||
      t->lba >= end || t->lba + t->blocks <= first)
    return false;
  count (t->emu, CNT_FAULTS, 1);
  task_fail_info (t, SENSE_READ_ERROR, MAX (t->lba, first));
  return true;
}

/* Which bits of opts a command can use before and after it is executed. */
static uint32_t
usable_before (const struct op *op)
{
  return OPT_NO_ANSWER | (op->flags & OP_MEDIA ? OPT_NO_MEDIA_ANSWER : 0) |
    (op->flags & OP_READ ? OPT_SHORT : 0) | (op->flags & OP_WRITE ? OPT_UNALIGNED : 0);
}

static uint32_t
usable_after (const struct op *op)
{
  const uint32_t rw = op->flags & (OP_READ | OP_WRITE)
    ? OPT_RECOVERED | OPT_TRANSPORT | OPT_DIF | OPT_DIX : 0;

  return rw | OPT_ABORTED;
}

/* Step 11 and what changes the execution; true: the command ends here. */
static bool
inject_before (struct task *t)
{
  const uint32_t bits = faults_inject (t->emu, usable_before (t->op));

  if (bits & (OPT_NO_ANSWER | OPT_NO_MEDIA_ANSWER)) {
    no_answer (t);
    return true;
  }
  if (bits & OPT_UNALIGNED) {
    task_fail (t, SENSE_UNALIGNED_WRITE);
    return true;
  }
  if (bits & OPT_SHORT)
    t->do_blocks = t->blocks / 2;
  return medium_error (t);
}

static void
inject_after (struct task *t)
{
  const uint32_t bits = task_good (t) ? faults_inject (t->emu, usable_after (t->op)) : 0;

  if (bits & OPT_RECOVERED)
    task_fail (t, SENSE_DEFECT_RECOVERED);
  else if (bits & OPT_TRANSPORT)
    task_fail (t, 0x0b4b03);
  else if (bits & (OPT_DIF | OPT_DIX)) {
    task_fail (t, bits & OPT_DIF ? 0x0b1001 : 0x051001);
    t->cmd->host_status = SH_HOST_ABORT;
  }
  else if (bits & OPT_ABORTED)
    t->cmd->host_status = SH_HOST_ABORT;
}

/* ---- the order of checks ---- */

/* Steps 5 to 9; false: answered. */
static bool
admit (struct task *t)
{
  struct emu *emu = t->emu;
  uint32_t sense;

  if (t->op == NULL) {
    fail_no_op (t);
    return false;
  }
  if (emu->s.strict && !reserved_clear (t))
    return false;
  if (!(t->op->flags & OP_ALWAYS) && emu_take_attention (emu, &sense)) {
    task_fail (t, sense);
    return false;
  }
  return !(t->op->flags & OP_MEDIA) || ready (t);
}

static void
run (struct task *t)
{
  if (t->emu->s.fake_rw && t->op->flags & (OP_READ | OP_WRITE | OP_FLUSH))
    t->moved = t->cmd->data_len;        /* the residual stays 0 */
  else
    t->op->run (t);
}

/* Steps 5 to 12 when something out of the ordinary may happen. */
static int
execute_special (struct task *t)
{
  struct emu *emu = t->emu;
  const uint64_t started_ns = emu_now_ns (emu);
  struct fault fault;
  bool hit;

  if (faults_inject (emu, OPT_HOST_BUSY)) {
    t->cmd->host_status = SH_HOST_REQUEUE;
    return 0;
  }
  hit = faults_find (t, &fault);
  if (hit) {
    if (fault.delay_ms)
      emu_sleep_ns (emu, fault.delay_ms * NS_PER_MS);
    if (!fault.executes) {
      fault_side_effects (t, &fault);
      return fault_answer (t, &fault);
    }
    t->do_blocks = fault.half ? t->blocks / 2 : fault.do_blocks;
  }
  if (!admit (t))
    return 0;
  if (!inject_before (t)) {
    run (t);
    inject_after (t);
  }
  time_spend (t, started_ns);
  if (hit && task_good (t)) {
    patch_data (t, &fault);
    fault_side_effects (t, &fault);
    return fault_answer (t, &fault);
  }
  return 0;
}

/* ---- the queue ---- */

/* False: the task set is full (opts=800h). */
static bool
queue_enter (struct task *t)
{
  struct emu *emu = t->emu;
  bool full;

  if (emu->s.max_queue >= 4096)
    return true;
  pthread_mutex_lock (&emu->queue_lock);
  full = emu->in_flight >= emu->s.max_queue;
  if (full && faults_inject (emu, OPT_QUEUE_FULL)) {
    pthread_mutex_unlock (&emu->queue_lock);
    t->cmd->status = SH_STATUS_TASK_SET_FULL;
    return false;
  }
  while (emu->in_flight >= emu->s.max_queue)
    pthread_cond_wait (&emu->queue_cond, &emu->queue_lock);
  emu->in_flight++;
  pthread_mutex_unlock (&emu->queue_lock);
  return true;
}

static void
queue_leave (struct emu *emu)
{
  if (emu->s.max_queue >= 4096)
    return;
  pthread_mutex_lock (&emu->queue_lock);
  emu->in_flight--;
  pthread_cond_signal (&emu->queue_cond);
  pthread_mutex_unlock (&emu->queue_lock);
}

static int
execute_queued (struct task *t)
{
  int r;

  if (!queue_enter (t))
    return 0;
  r = execute_special (t);
  queue_leave (t->emu);
  return r;
}

/* ---- emu_execute ---- */

static void
begin (struct task *t)
{
  struct sh_command *c = t->cmd;

  c->status = SH_STATUS_GOOD;
  c->host_status = SH_HOST_OK;
  c->sense_len = 0;
  c->resid = c->data_len;
  count (t->emu, CNT_COMMANDS, 1);
  if (find_op (t))
    count (t->emu, CNT_OPS + (unsigned) (t->op - emu_ops), 1);
}

int
emu_execute (struct emu *emu, struct sh_command *cmd)
{
  struct task t = {
    .emu = emu,
    .cmd = cmd,
    .data = { .iov = cmd->iov, .iovcnt = cmd->iovcnt },
    .do_blocks = UINT64_MAX,
  };
  int r = 0;

  begin (&t);
  if (atomic_load_explicit (&emu->special, memory_order_relaxed)) {
    if (atomic_load (&emu->gone)) {
      errno = ENODEV;
      return -1;
    }
    faults_tick (emu);
    r = execute_queued (&t);
  }
  else if (admit (&t))
    run (&t);
  cmd->resid = cmd->data_len - t.moved;
  if (cmd->status == SH_STATUS_CHECK_CONDITION)
    count (emu, CNT_CHECK_CONDITIONS, 1);
  if (emu->hook)
    emu->hook (emu->hook_opaque, emu, cmd);
  return r;
}
