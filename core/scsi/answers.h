/* SPDX-License-Identifier: BSD-3-Clause */
/* What to do with each answer of a drive, as one table (answers.c).
 *
 * An answer is the end of one command as the transport tells it: an errno, a
 * host status, a SCSI status, sense data.  The first row that matches says
 * what happens next, which errno the caller gets when it is final, and
 * whether the command may have run. */
#ifndef SCSI_ANSWERS_H
#define SCSI_ANSWERS_H

#include <stdbool.h>
#include <stdint.h>
#include "scsi/sense.h"
#include "shingle/transport.h"

enum answer_action {
  ANSWER_SUCCESS,
  ANSWER_FAIL,
  ANSWER_GONE,                  /* the drive is away: fail, and all that follows */
  ANSWER_UNSUPPORTED,           /* fail; do not send this opcode again where that matters */
  ANSWER_RETRY,                 /* at once, counted */
  ANSWER_RETRY_DELAYED,         /* after a growing delay, until the total time is over */
  ANSWER_REQUEUE,               /* after a short delay, until the total time is over */
  ANSWER_ATTENTION,             /* unit attention: at once, counted apart */
  ANSWER_REQUEST_SENSE,         /* ask for the sense that is missing, judge that */
  ANSWER_START_UNIT,            /* START STOP UNIT, then retry; once */
  ANSWER_REFRESH_ZONE,          /* zone rule broken: read the write pointer; fail */
  ANSWER_CLOSE_ZONE,            /* close another zone, then retry; once */
  ANSWER_FALL_BACK,             /* use the next shorter form of the CDB */
  ANSWER_SMALLER,               /* the host cannot move so much at a time: split finer */
};

/* Whether the command had an effect.  A write to a sequential zone that MAY
   have run is settled by its write pointer before it is sent again. */
enum answer_fate {
  FATE_NOT_RUN,
  FATE_UNKNOWN,
  FATE_RAN,                     /* it ended: well, or with an error while it ran */
};

/* News that the answer brings, counted by the disk. */
enum answer_news {
  NEWS_NONE,
  NEWS_RESET,                   /* 06/29: open zones are closed */
  NEWS_POWER_ON,                /* 06/29/01: and the write cache is empty */
  NEWS_CAPACITY,                /* 06/2A/09 */
  NEWS_MODE,                    /* 06/2A/01 */
  NEWS_LUNS,                    /* 06/3F/0E */
  NEWS_DEFERRED_ERROR,          /* an earlier write failed: the next flush says so */
};

struct answer {
  enum answer_action action;
  int errnum;                   /* when final; 0 only with ANSWER_SUCCESS */
  enum answer_fate fate;
  enum answer_news news;
  unsigned delay_ms;            /* first delay; 0: the default of the action */
  const char *meaning;          /* "medium error", for messages */
};

enum answer_source {
  FROM_ERRNO,                   /* `execute` returned -1 */
  FROM_HOST,
  FROM_STATUS,
  FROM_SENSE,
};

/* Rows that hold for some commands or drives alone. */
enum answer_only {
  ONLY_RW = 1u,                 /* READ and WRITE of 10 or 16 bytes */
  ONLY_REMOVABLE = 2u,
  ONLY_DEFERRED = 4u,           /* deferred sense; every other row: current sense */
};

#define ANSWER_ANY (-1)

struct answer_rule {
  enum answer_source source;
  int code;                     /* errno, host status, status or sense key */
  int asc, ascq;                /* ANSWER_ANY matches all */
  unsigned only;                /* enum answer_only */
  struct answer answer;
};

/* All rows, first match wins. */
extern const struct answer_rule answer_rules[];
extern const unsigned answer_nr_rules;

/* The answer to `c`.  errnum: 0 when `execute` returned 0, else its errno.
   `sense` is set to what c->sense holds. */
const struct answer *answer_find (const struct sh_command *c, int errnum,
                                  bool removable, struct sense *sense);

#endif
