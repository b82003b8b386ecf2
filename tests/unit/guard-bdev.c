/* SPDX-License-Identifier: BSD-3-Clause */
#undef NDEBUG
#include <config.h>
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/bytes.h"
#include "guard-bdev.h"

static struct guard *
to_guard (struct bdev *bdev)
{
  return (struct guard *) bdev;
}

static void
load_zones (struct guard *g)
{
  struct bdev_zone z[64];
  uint64_t at = 0;
  size_t nr, i;

  for (;;) {
    assert (bdev_report_zones (g->inner, at, z, ARRAY_SIZE (z), &nr) == 0);
    if (nr == 0)
      return;
    for (i = 0; i < nr; ++i) {
      struct guard_zone *const w = &g->zones[z[i].start_bytes / g->bdev.info.zone_bytes];

      w->seq = z[i].type != ZONE_CONVENTIONAL;
      w->wp_bytes = z[i].cond == ZONE_FULL ? z[i].start_bytes + z[i].len_bytes : z[i].wp_bytes;
      at = z[i].start_bytes + z[i].len_bytes;
    }
    if (at >= g->bdev.info.size_bytes)
      return;
  }
}

static void
begin_reset_all (struct guard *g)
{
  uint32_t i;

  for (i = 0; i < g->bdev.info.nr_zones; ++i)
    if (g->zones[i].seq) {
      assert (g->zones[i].reads == 0 && g->zones[i].writes == 0);
      g->zones[i].resetting = true;
    }
}

static void
end_reset_all (struct guard *g, bool ok)
{
  uint32_t i;

  for (i = 0; i < g->bdev.info.nr_zones; ++i) {
    g->zones[i].resetting = false;
    if (g->zones[i].seq && ok)
      g->zones[i].wp_bytes = i * g->bdev.info.zone_bytes;
  }
}

static void
begin (struct guard *g, const struct bdev_req *req)
{
  const uint64_t zb = g->bdev.info.zone_bytes, id = req->off_bytes / zb;
  struct guard_zone *const z = &g->zones[id];
  const uint64_t end = req->off_bytes + req->len_bytes;

  switch (req->op) {
  case BDEV_READ:
    z->reads++;
    g->bytes_read += req->len_bytes;
    if (z->seq) {
      assert (!z->resetting);
      assert (end <= (id + 1) * zb);
      assert (g->lenient || end <= z->wp_bytes);
    }
    break;
  case BDEV_WRITE:
  case BDEV_WRITE_ZEROES:
    g->bytes_written += req->len_bytes;
    if (z->seq) {
      assert (z->writes == 0 && !z->resetting);
      assert (end <= (id + 1) * zb);
      assert (g->lenient || req->off_bytes == z->wp_bytes);
    }
    z->writes++;
    break;
  case BDEV_ZONE_RESET:
    if (req->flags & BDEV_ALL) {
      begin_reset_all (g);
      break;
    }
    assert (z->seq && z->reads == 0 && z->writes == 0 && !z->resetting);
    z->resetting = true;
    break;
  default:
    break;
  }
}

static void
end (struct guard *g, const struct bdev_req *req, bool ok)
{
  struct guard_zone *const z = &g->zones[req->off_bytes / g->bdev.info.zone_bytes];

  switch (req->op) {
  case BDEV_READ:
    z->reads--;
    break;
  case BDEV_WRITE:
  case BDEV_WRITE_ZEROES:
    z->writes--;
    if (z->seq)
      z->wp_bytes += ok ? req->len_bytes : req->done_bytes;
    break;
  case BDEV_ZONE_RESET:
    if (req->flags & BDEV_ALL) {
      end_reset_all (g, ok);
      break;
    }
    z->resetting = false;
    if (ok)
      z->wp_bytes = req->off_bytes;
    break;
  default:
    break;
  }
}

static void
remember (struct guard *g, const struct bdev_req *req, uint64_t len, size_t issued)
{
  struct guard_entry *e;
  uint64_t at = 0;
  int i;

  if (!g->journal || req->op == BDEV_READ || req->op == BDEV_PROBE)
    return;
  if (g->nr_entries == g->room) {
    g->room = g->room ? 2 * g->room : 256;
    g->entries = realloc (g->entries, g->room * sizeof g->entries[0]);
    assert (g->entries != NULL);
  }
  e = &g->entries[g->nr_entries++];
  *e = (struct guard_entry) { req->op, req->flags, req->off_bytes, len, NULL, issued };
  if (req->op != BDEV_WRITE)
    return;
  e->data = malloc (len + 1);
  assert (e->data != NULL);
  for (i = 0; i < req->iovcnt && at < len; ++i) {
    const uint64_t n = MIN (req->iov[i].iov_len, len - at);

    memcpy (e->data + at, req->iov[i].iov_base, n);
    at += n;
  }
}

/* Writes the first `len` bytes of a write that then fails. */
static void
write_part (struct guard *g, const struct bdev_req *req, uint64_t len)
{
  uint8_t *const buf = malloc (len + 1);
  uint64_t at = 0;
  int i;

  assert (buf != NULL);
  for (i = 0; i < req->iovcnt && at < len; ++i) {
    const uint64_t n = MIN (req->iov[i].iov_len, len - at);

    memcpy (buf + at, req->iov[i].iov_base, n);
    at += n;
  }
  assert (bdev_write (g->inner, buf, len, req->off_bytes, 0) == 0);
  free (buf);
}

static int
guard_execute (struct bdev *bdev, struct bdev_req *req)
{
  struct guard *const g = to_guard (bdev);
  size_t issued;
  int r, e;

  req->done_bytes = 0;
  pthread_mutex_lock (&g->lock);
  issued = g->nr_entries;
  g->nr_ops[req->op]++;
  begin (g, req);
  pthread_mutex_unlock (&g->lock);
  r = g->fault ? g->fault (g, req, g->opaque) : 0;
  e = errno;
  if (r == 0) {
    r = bdev_execute (g->inner, req);
    e = errno;
  }
  else if (req->op == BDEV_WRITE && req->done_bytes > 0)
    write_part (g, req, req->done_bytes);
  pthread_mutex_lock (&g->lock);
  if (r == -1)
    g->nr_failed++;
  end (g, req, r == 0);
  if (r == 0 || req->done_bytes > 0)
    remember (g, req, r == 0 ? req->len_bytes : req->done_bytes, issued);
  pthread_mutex_unlock (&g->lock);
  errno = e;
  return r;
}

static int
guard_report (struct bdev *bdev, uint64_t start_bytes, struct bdev_zone *zones,
              size_t max, size_t *nr)
{
  struct guard *const g = to_guard (bdev);
  size_t i;
  int r;

  r = bdev_report_zones (g->inner, start_bytes, zones, max, nr);
  pthread_mutex_lock (&g->lock);
  g->nr_reports++;
  for (i = 0; r == 0 && i < *nr; ++i)
    if (zones[i].type != ZONE_CONVENTIONAL && zones[i].cond != ZONE_FULL)
      g->zones[zones[i].start_bytes / bdev->info.zone_bytes].wp_bytes = zones[i].wp_bytes;
  pthread_mutex_unlock (&g->lock);
  return r;
}

void
guard_forget_journal (struct guard *g)
{
  while (g->nr_entries > 0)
    free (g->entries[--g->nr_entries].data);
  free (g->entries);
  g->entries = NULL;
  g->room = 0;
}

static void
guard_close (struct bdev *bdev)
{
  struct guard *const g = to_guard (bdev);

  guard_forget_journal (g);
  if (!g->keep_inner)
    bdev_close (g->inner);
  pthread_mutex_destroy (&g->lock);
  free (g->zones);
  free (g);
}

static const struct bdev_ops guard_ops = {
  .execute = guard_execute,
  .report_zones = guard_report,
  .close = guard_close,
};

struct guard *
guard_new (struct bdev *inner)
{
  struct guard *const g = calloc (1, sizeof *g);

  assert (g != NULL);
  g->bdev.ops = &guard_ops;
  g->bdev.info = inner->info;
  g->inner = inner;
  pthread_mutex_init (&g->lock, NULL);
  g->zones = calloc (inner->info.nr_zones + 1, sizeof g->zones[0]);
  assert (g->zones != NULL);
  load_zones (g);
  return g;
}
