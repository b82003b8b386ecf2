/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The transport interface: how SCSI commands reach a drive.
 *
 * A transport executes one command descriptor block (CDB) at a time for each
 * calling thread.  Shingle brings two (`sg`, `emu`); any other is a shared
 * object `shingle-NAME-transport.so` that exports the one symbol
 * `shingle_transport`, a `const struct sh_transport_ops`.
 *
 * Versioning: SH_TRANSPORT_API counts incompatible changes.  `size` lets the
 * table grow at its end: a member behind the object's `size` counts as NULL.
 *
 * Threads: `execute` is called by many threads at once on one handle, and
 * must not serialise them without need.  `open` and `close` are called once
 * each, by one thread, never together with `execute`.
 */
#ifndef SHINGLE_TRANSPORT_H
#define SHINGLE_TRANSPORT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SH_TRANSPORT_API 1

#define SH_CDB_MAX   32
#define SH_SENSE_MAX 252

/* Direction of the data phase, as seen from the host. */
enum sh_xfer {
  SH_XFER_NONE,
  SH_XFER_TO_DEVICE,
  SH_XFER_FROM_DEVICE,
};

/* SCSI status byte (SAM-5 5.3.1). */
enum sh_status {
  SH_STATUS_GOOD = 0x00,
  SH_STATUS_CHECK_CONDITION = 0x02,
  SH_STATUS_CONDITION_MET = 0x04,
  SH_STATUS_BUSY = 0x08,
  SH_STATUS_RESERVATION_CONFLICT = 0x18,
  SH_STATUS_TASK_SET_FULL = 0x28,
  SH_STATUS_ACA_ACTIVE = 0x30,
  SH_STATUS_TASK_ABORTED = 0x40,
};

/* What the host side says of a command, beside the SCSI status.  The numbers
   are those that Linux's SG_IO reports as host_status. */
enum sh_host_status {
  SH_HOST_OK = 0x00,
  SH_HOST_NO_CONNECT = 0x01,
  SH_HOST_BUS_BUSY = 0x02,
  SH_HOST_TIME_OUT = 0x03,
  SH_HOST_BAD_TARGET = 0x04,
  SH_HOST_ABORT = 0x05,
  SH_HOST_PARITY = 0x06,
  SH_HOST_ERROR = 0x07,
  SH_HOST_RESET = 0x08,
  SH_HOST_BAD_INTR = 0x09,
  SH_HOST_PASSTHROUGH = 0x0a,
  SH_HOST_SOFT_ERROR = 0x0b,
  SH_HOST_IMM_RETRY = 0x0c,
  SH_HOST_REQUEUE = 0x0d,
  SH_HOST_TRANSPORT_DISRUPTED = 0x0e,
  SH_HOST_TRANSPORT_FAILFAST = 0x0f,
  SH_HOST_TRANSPORT_MARGINAL = 0x14,
};

/* One command.  The caller owns everything that is pointed to until `execute`
   returns. */
struct sh_command {
  /* in */
  uint8_t cdb[SH_CDB_MAX];
  uint8_t cdb_len;              /* 6, 10, 12, 16 or 32 */
  enum sh_xfer xfer;
  const struct iovec *iov;      /* data; NULL when xfer is SH_XFER_NONE */
  int iovcnt;
  size_t data_len;              /* bytes described by iov */
  unsigned timeout_ms;          /* never 0 */

  /* out, valid only when `execute` returned 0 */
  uint8_t status;               /* enum sh_status */
  uint8_t host_status;          /* enum sh_host_status */
  uint8_t sense_len;            /* bytes of sense that are valid */
  uint8_t sense[SH_SENSE_MAX];
  size_t resid;                 /* data_len less the bytes transferred */
};

/* Limits of a transport; 0 means no limit. */
struct sh_transport_limits {
  size_t max_transfer_bytes;    /* of one command */
  int max_iov;                  /* segments of one command */
  unsigned max_inflight;        /* commands at a time; more wait inside */
};

#define SH_OPEN_READ_ONLY  1u   /* nothing will be written */
#define SH_OPEN_EXCLUSIVE  2u   /* nobody else may use the drive meanwhile */

struct sh_transport_ops {
  uint32_t api;                 /* SH_TRANSPORT_API */
  uint32_t size;                /* sizeof (struct sh_transport_ops) */
  const char *name;             /* letters, digits and dashes */

  /* Opens the drive that `args` names (the text behind "NAME:").  On failure
     returns -1 with errno, and may put a sentence that names the thing and
     what to do into `message` (`message_size` bytes, always terminated). */
  int (*open) (const char *args, unsigned flags, void **handle,
               char *message, size_t message_size);

  /* Closes it.  No command is in flight. */
  void (*close) (void *handle);

  /* Executes one command and waits for its end.  0: it was delivered and the
     out members are set, whatever the drive answered.  -1 with errno: it was
     not delivered or its fate is unknown (ENODEV: the drive is gone;
     ENOMEM, EINVAL: the host refused the command). */
  int (*execute) (void *handle, struct sh_command *command);

  /* Optional.  */
  void (*limits) (void *handle, struct sh_transport_limits *limits);

  /* Optional.  Called after `execute` failed with ENODEV, by one thread at a
     time, while others may be in `execute` (which fails for them): looks for
     the drive again.  0: a drive answers under this name, perhaps another
     one; -1 with errno and `message` as for open. */
  int (*reopen) (void *handle, char *message, size_t message_size);
};

/* The symbol that a loadable transport exports.  */
#define SH_TRANSPORT_SYMBOL "shingle_transport"
#define SH_TRANSPORT_EXPORT \
  __attribute__ ((visibility ("default"))) extern const struct sh_transport_ops shingle_transport; \
  __attribute__ ((visibility ("default"))) const struct sh_transport_ops shingle_transport

#ifdef __cplusplus
}
#endif

#endif /* SHINGLE_TRANSPORT_H */
