/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * deadline-replay FILE...: feeds recorded decisions of Linux's mq-deadline to
 * core/mq/deadline.c and compares every answer.  The format of the files is in
 * tests/data/mq-deadline/README.md.
 *
 * One line a file.  Status 0: no difference; 1: a file differs (the first
 * difference is printed) or cannot be read; 2: usage.
 */
#include <config.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/bytes.h"
#include "base/clock.h"
#include "mq/deadline.h"

/* The recorded kernel's clock: 250 Hz. */
#define TICK_NS (4 * NS_PER_MS)

struct traced {
  struct dl_request rq;
  struct list link;             /* on replay.all, in order of insertion */
  bool in_flight;
};

struct event {
  uint64_t time_ns;
  char name[16];
  char op;                      /* 'R', 'W'; '-' for an empty pop */
  uint64_t sector, nr_sectors;
  unsigned io_class;            /* as in ioprio: 0 none, 1 RT, 2 BE, 3 idle */
};

struct replay {
  const char *file;
  unsigned long line;
  struct deadline dl;
  struct list all;
  unsigned long events, pops;
};

/* Always -1. */
static int
differs (const struct replay *r, const char *fmt, ...)
  __attribute__ ((format (printf, 2, 3)));

static int
differs (const struct replay *r, const char *fmt, ...)
{
  va_list ap;

  printf ("%s:%lu: ", r->file, r->line);
  va_start (ap, fmt);
  vprintf (fmt, ap);
  va_end (ap);
  putchar ('\n');
  return -1;
}

static enum dl_class
class_of (unsigned io_class)
{
  return io_class == 1 ? DL_RT : io_class == 3 ? DL_IDLE : DL_BE;
}

static void
describe (const struct event *e, struct dl_request *data)
{
  dl_request_init (data);
  data->sector = e->sector;
  data->nr_sectors = e->nr_sectors;
  data->nr_segments = 1;
  data->dir = e->op == 'W' ? DL_WRITE : DL_READ;
  data->prio_class = class_of (e->io_class);
  data->mergeable = true;
}

static void
forget (struct traced *t)
{
  list_remove (&t->link);
  free (t);
}

static int
on_insert (struct replay *r, const struct event *e)
{
  struct traced *t = calloc (1, sizeof *t);

  if (t == NULL)
    return differs (r, "out of memory");
  describe (e, &t->rq);
  list_push_back (&r->all, &t->link);
  dl_insert (&r->dl, &t->rq, false, e->time_ns);
  return 0;
}

static int
on_merge (struct replay *r, const struct event *e, enum dl_merge expected)
{
  static const char *const names[] = { "no merge", "a back merge", "a front merge" };
  struct dl_request data, *rq;
  enum dl_merge how;

  describe (e, &data);
  how = dl_find_merge (&r->dl, &data, &rq);
  if (how != expected)
    return differs (r, "the kernel made %s of %c %" PRIu64 " + %" PRIu64 ", we make %s",
                    names[expected], e->op, e->sector, e->nr_sectors, names[how]);
  dl_merge (&r->dl, how, rq, e->nr_sectors, 1);
  return 0;
}

/* The queued request that can absorb the neighbour behind it which `data` names;
   several may end at that sector. */
static struct dl_request *
find_absorber (struct replay *r, const struct dl_request *data)
{
  struct list *l;

  for (l = r->all.next; l != &r->all; l = l->next) {
    struct traced *t = LIST_ENTRY (l, struct traced, link);
    const struct dl_request *next = t->in_flight ? NULL : dl_joinable_after (&r->dl, &t->rq);

    if (next && next->sector == data->sector && next->nr_sectors == data->nr_sectors &&
        next->dir == data->dir && next->prio_class == data->prio_class)
      return &t->rq;
  }
  return NULL;
}

static bool
is_queued (const struct replay *r, const struct dl_request *data)
{
  struct list *l;

  for (l = r->all.next; l != &r->all; l = l->next) {
    const struct traced *t = LIST_ENTRY (l, struct traced, link);

    if (!t->in_flight && t->rq.sector == data->sector && t->rq.dir == data->dir &&
        t->rq.nr_sectors == data->nr_sectors && t->rq.prio_class == data->prio_class)
      return true;
  }
  return false;
}

/* The kernel joined two queued requests, or merged a whole request while it was
   being inserted. */
static int
on_join (struct replay *r, const struct event *e)
{
  struct dl_request data, *low, *by, *gone;

  describe (e, &data);
  low = find_absorber (r, &data);
  if (low) {
    gone = dl_join (&r->dl, low, &by);
    dl_count_completed (&r->dl, gone->prio_class);
    forget (LIST_ENTRY (gone, struct traced, rq));
    return 0;
  }
  if (is_queued (r, &data) || dl_find_merge (&r->dl, &data, &low) != DL_BACK_MERGE)
    return differs (r, "the kernel joined %c %" PRIu64 " + %" PRIu64
                    " to a queued request that ends there, we do not",
                    e->op, e->sector, e->nr_sectors);
  dl_merge (&r->dl, DL_BACK_MERGE, low, e->nr_sectors, 1);
  return 0;
}

static int
on_pop (struct replay *r, const struct event *e)
{
  struct dl_request *rq = dl_dispatch (&r->dl, e->time_ns);
  const char op = rq == NULL ? '-' : rq->dir == DL_WRITE ? 'W' : 'R';
  const uint64_t sector = rq ? rq->sector : 0, nr = rq ? rq->nr_sectors : 0;

  ++r->pops;
  if (op != e->op || sector != e->sector || nr != e->nr_sectors)
    return differs (r, "the kernel took %c %" PRIu64 " + %" PRIu64 ", we take %c %" PRIu64
                    " + %" PRIu64, e->op, e->sector, e->nr_sectors, op, sector, nr);
  if (rq)
    LIST_ENTRY (rq, struct traced, rq)->in_flight = true;
  return 0;
}

static int
on_complete (struct replay *r, const struct event *e)
{
  const enum dl_dir dir = e->op == 'W' ? DL_WRITE : DL_READ;
  struct list *l;

  for (l = r->all.next; l != &r->all; l = l->next) {
    struct traced *t = LIST_ENTRY (l, struct traced, link);

    if (t->in_flight && t->rq.sector == e->sector && t->rq.dir == dir) {
      dl_count_completed (&r->dl, t->rq.prio_class);
      forget (t);
      return 0;
    }
  }
  return differs (r, "%c %" PRIu64 " completes but is not in flight", e->op, e->sector);
}

static int
replay_event (struct replay *r, const struct event *e)
{
  ++r->events;
  if (strcmp (e->name, "insert") == 0)
    return on_insert (r, e);
  if (strcmp (e->name, "backmerge") == 0)
    return on_merge (r, e, DL_BACK_MERGE);
  if (strcmp (e->name, "frontmerge") == 0)
    return on_merge (r, e, DL_FRONT_MERGE);
  if (strcmp (e->name, "rqmerge") == 0)
    return on_join (r, e);
  if (strcmp (e->name, "pop") == 0)
    return on_pop (r, e);
  if (strcmp (e->name, "complete") == 0)
    return on_complete (r, e);
  return differs (r, "'%s' is no event", e->name);
}

/* The first line: name=value of the tunables; others are left alone. */
static int
replay_header (struct replay *r, char *text)
{
  struct dl_tunables t = dl_default_tunables;
  const struct { const char *name; int64_t *value; } known[] = {
    { "read_expire", &t.read_expire_ms },
    { "write_expire", &t.write_expire_ms },
    { "fifo_batch", &t.fifo_batch },
    { "writes_starved", &t.writes_starved },
    { "front_merges", &t.front_merges },
    { "prio_aging_expire", &t.prio_aging_expire_ms },
  };
  char *word, *save = NULL, *end;
  size_t i;

  for (word = strtok_r (text, "# \t\n", &save); word;
       word = strtok_r (NULL, "# \t\n", &save)) {
    char *value = strchr (word, '=');

    if (value == NULL)
      return differs (r, "'%s' is no name=value", word);
    *value++ = '\0';
    for (i = 0; i < ARRAY_SIZE (known); ++i) {
      if (strcmp (word, known[i].name) != 0)
        continue;
      errno = 0;
      *known[i].value = strtoll (value, &end, 10);
      if (errno || end == value || *end)
        return differs (r, "%s: '%s' is no number", word, value);
    }
  }
  dl_set_tunables (&r->dl, &t);
  return 0;
}

static int
replay_line (struct replay *r, char *text)
{
  struct event e = { 0 };
  uint64_t time_us;
  char extra;

  ++r->line;
  if (text[0] == '#')
    return replay_header (r, text);
  if (text[strspn (text, " \t\r\n")] == '\0')
    return 0;
  if (sscanf (text, "%" SCNu64 " %15s %c %" SCNu64 " %" SCNu64 " %u %c", &time_us, e.name,
              &e.op, &e.sector, &e.nr_sectors, &e.io_class, &extra) != 6 ||
      strchr ("RW-", e.op) == NULL || (e.op == '-' && strcmp (e.name, "pop") != 0) ||
      MUL_OVERFLOW (time_us, NS_PER_US, &e.time_ns) || e.time_ns > INT64_MAX)
    return differs (r, "cannot be read as TIME_us EVENT OP SECTOR NSECTORS CLASS");
  return replay_event (r, &e);
}

static void
replay_init (struct replay *r, const char *file)
{
  const struct dl_limits limits = {
    .max_sectors = UINT64_MAX,
    .max_segments = UINT_MAX,
  };

  memset (r, 0, sizeof *r);
  r->file = file;
  list_init (&r->all);
  dl_init (&r->dl, TICK_NS);
  dl_set_limits (&r->dl, &limits);
}

static int
replay_file (const char *file)
{
  struct replay r;
  char *text = NULL;
  size_t size = 0;
  FILE *fp = fopen (file, "r");
  int ret = 0;

  if (fp == NULL) {
    printf ("%s: %s\n", file, strerror (errno));
    return -1;
  }
  replay_init (&r, file);
  while (ret == 0 && getline (&text, &size, fp) != -1) {
    ret = replay_line (&r, text);
    dl_check (&r.dl);
  }
  if (ret == 0 && (ferror (fp) || r.pops == 0))
    ret = differs (&r, ferror (fp) ? "cannot be read" : "holds no decision");
  if (ret == 0)
    printf ("%s: %lu events, %lu decisions, no difference\n", file, r.events, r.pops);
  while (!list_empty (&r.all))
    forget (LIST_ENTRY (r.all.next, struct traced, link));
  free (text);
  fclose (fp);
  return ret;
}

int
main (int argc, char **argv)
{
  int i, status = 0;

  if (argc < 2) {
    fprintf (stderr, "Usage: deadline-replay FILE...\n");
    return 2;
  }
  for (i = 1; i < argc; ++i)
    if (replay_file (argv[i]) == -1)
      status = 1;
  return status;
}
