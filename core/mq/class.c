/* SPDX-License-Identifier: BSD-3-Clause */
/* The dispatcher moves waiting requests to a better class: a write that others wait for,
 * idle work that somebody waits for. */
#include <config.h>
#include <assert.h>
#include "mq/express.h"
#include "mq/internal.h"

void
mq_change_class_uncounted (struct mq *mq, struct mq_request *rq, enum dl_class class)
{
  if (rq->counted_async) {
    atomic_fetch_add (&mq->async_inside[class], 1);
    atomic_fetch_sub (&mq->async_inside[rq->dl.prio_class], 1);
  }
  rq->dl.prio_class = class;
}

void
mq_change_class (struct mq *mq, struct mq_request *rq, enum dl_class class)
{
  const uint64_t before = atomic_fetch_add (&mq->state, STATE_ONE (class));

  atomic_fetch_sub (&mq->state, STATE_ONE (rq->dl.prio_class));
  if (before & STATE_EXPRESS && !(before & STATE_APART (class)))
    express_end (mq, true);
  mq_change_class_uncounted (mq, rq, class);
}

void
mq_lend_class (struct mq *mq, struct mq_request *rq, enum dl_class class)
{
  if (rq->place == MQ_HELD) {
    mq_unhold (mq, rq);
    mq_change_class (mq, rq, class);
    mq_insert (mq, rq);
    return;
  }
  assert (rq->place == MQ_IN_SCHED);
  if (rq->dl.state != DL_OUT) {
    dl_withdraw (&mq->dl, &rq->dl);
    mq_change_class (mq, rq, class);
    dl_insert (&mq->dl, &rq->dl, false, rq->arrived_ns);
  }
  else
    mq_change_class (mq, rq, class);
}

bool
mq_is_wanted (const struct mq_request *rq)
{
  for (rq = rq->first; rq; rq = rq->next_merged)
    if (rq->wanted && atomic_load (rq->wanted))
      return true;
  return false;
}

/* On one list; those that are not held stay on it. */
static void
raise_on_list (struct mq *mq, struct list *head)
{
  struct list *l, *next;

  for (l = head->next; l != head; l = next) {
    struct mq_request *rq = mq_of_link (l);

    next = l->next;
    if (rq->dl.prio_class != DL_IDLE || !mq_is_wanted (rq))
      continue;
    if (rq->place == MQ_PLUGGED)
      mq_lend_class_plugged (mq, rq, DL_BE);
    else
      mq_lend_class (mq, rq, DL_BE);
  }
}

void
mq_raise_wanted (struct mq *mq)
{
  unsigned i, d;

  for (i = 0; i < mq->nr_hwqs; ++i) {
    raise_on_list (mq, &mq->hwq[i].queued);
    for (d = 0; d < DL_NR_DIRS; ++d)
      raise_on_list (mq, &mq->hwq[i].held[DL_IDLE][d]);
  }
  raise_on_list (mq, &mq->plugged);
}
