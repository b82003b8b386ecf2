/* SPDX-License-Identifier: BSD-3-Clause */
#undef NDEBUG
#include <config.h>
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include "gate-bdev.h"

static struct gate *
of_bdev (struct bdev *bdev)
{
  return (struct gate *) bdev;
}

static bool
concerned (const struct gate *g, const struct bdev_req *req)
{
  return g->only_end == 0 ||
         (req->op == g->only_op && req->off_bytes >= g->only_from &&
          req->off_bytes < g->only_end);
}

static void
pass (struct gate *g, const struct bdev_req *req)
{
  pthread_mutex_lock (&g->lock);
  if (concerned (g, req)) {
    g->waiting++;
    pthread_cond_broadcast (&g->cond);
    while (g->closed)
      pthread_cond_wait (&g->cond, &g->lock);
    g->waiting--;
  }
  if (g->nr < GATE_LOG_MAX)
    g->log[g->nr++] = (struct gate_entry) { req->op, req->off_bytes, req->len_bytes };
  pthread_mutex_unlock (&g->lock);
}

static int
gate_execute (struct bdev *bdev, struct bdev_req *req)
{
  if (req->op == BDEV_READ || req->op == BDEV_WRITE)
    pass (of_bdev (bdev), req);
  return bdev_execute (of_bdev (bdev)->lower, req);
}

static int
gate_report (struct bdev *bdev, uint64_t start, struct bdev_zone *zones, size_t max,
             size_t *nr)
{
  return bdev_report_zones (of_bdev (bdev)->lower, start, zones, max, nr);
}

static void
gate_free (struct bdev *bdev)
{
  struct gate *const g = of_bdev (bdev);

  bdev_close (g->lower);
  pthread_cond_destroy (&g->cond);
  pthread_mutex_destroy (&g->lock);
  free (g);
}

static const struct bdev_ops gate_ops = {
  .execute = gate_execute,
  .report_zones = gate_report,
  .close = gate_free,
};

struct gate *
gate_new (struct bdev *lower)
{
  struct gate *const g = calloc (1, sizeof *g);

  assert (g != NULL);
  g->bdev.ops = &gate_ops;
  g->bdev.info = lower->info;
  g->lower = lower;
  pthread_mutex_init (&g->lock, NULL);
  pthread_cond_init (&g->cond, NULL);
  return g;
}

void
gate_close (struct gate *g)
{
  gate_close_for (g, BDEV_READ, 0, 0);
}

void
gate_close_for (struct gate *g, enum bdev_op op, uint64_t from, uint64_t end)
{
  pthread_mutex_lock (&g->lock);
  g->closed = true;
  g->only_op = op;
  g->only_from = from;
  g->only_end = end;
  g->nr = 0;
  pthread_mutex_unlock (&g->lock);
}

void
gate_open (struct gate *g)
{
  pthread_mutex_lock (&g->lock);
  g->closed = false;
  pthread_cond_broadcast (&g->cond);
  pthread_mutex_unlock (&g->lock);
}

void
gate_await (struct gate *g, unsigned n)
{
  pthread_mutex_lock (&g->lock);
  while (g->waiting != n)
    pthread_cond_wait (&g->cond, &g->lock);
  pthread_mutex_unlock (&g->lock);
}
