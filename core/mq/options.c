/* SPDX-License-Identifier: BSD-3-Clause */
/* The options of the I/O path by name: one table, one setter a kind. */
#include <config.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include "base/bytes.h"
#include "base/error.h"
#include "base/parse.h"
#include "mq/mq.h"

const char mq_options_help[] =
  "async_depth=N             requests inside that are not reads (default: depth)\n"
  "control=PATH              unix socket that answers with counters\n"
  "depth=N                   requests of a class inside (default: twice the tags)\n"
  "fifo_batch=N              requests in sector order before a new choice (default 16)\n"
  "front_merges=0|1          join requests at their front, too (default 1)\n"
  "hwqs=N                    hardware queues; more connections share (default 64)\n"
  "prio=rt|be|idle           class of requests without one (default be)\n"
  "prio_aging_expire=MS      then a lower class goes all the same (default 10000)\n"
  "read_expire=MS            deadline of reads (default 500)\n"
  "reserved_tags=N           tags for probes and error handling (default 4)\n"
  "run=own|all               hardware queues that a completion runs (default own)\n"
  "sched=deadline|none       scheduler (default deadline)\n"
  "tags=N                    requests that the device holds at once (default 128)\n"
  "tagset=NAME               share the tags with other processes under this name\n"
  "write_expire=MS           deadline of writes (default 5000)\n"
  "writes_starved=N          choices of reads over waiting writes (default 2)\n"
  "zoned_writes=zone|qd1     writes to sequential zones at once: one to each zone\n"
  "                          (default), or one altogether\n";

static const char *const scheds[] = { "deadline", "none", NULL };
static const char *const runs[] = { "own", "all", NULL };
static const char *const zoned_writes[] = { "zone", "qd1", NULL };
static const char *const prios[] = { "rt", "be", "idle", NULL };

enum kind { UNSIGNED, WORD, TEXT, TUNABLE };

static const struct option {
  const char *name;
  enum kind kind;
  size_t offset;                /* in struct mq_options */
  uint64_t min, max;            /* UNSIGNED; max is the size of a TEXT */
  const char *const *words;     /* WORD; the member is an enum */
  unsigned first;               /* value of the first word */
} table[] = {
#define AT(member) offsetof (struct mq_options, member)
  { "async_depth", UNSIGNED, AT (async_depth), 1, INT_MAX },
  { "control", TEXT, AT (control), 1, sizeof ((struct mq_options *) 0)->control },
  { "depth", UNSIGNED, AT (depth), 1, INT_MAX },
  { "fifo_batch", TUNABLE, AT (tunables.fifo_batch) },
  { "front_merges", TUNABLE, AT (tunables.front_merges) },
  { "hwqs", UNSIGNED, AT (hwqs), 1, MQ_MAX_HWQS },
  { "prio", WORD, AT (prio), 0, 0, prios, BDEV_PRIO_RT },
  { "prio_aging_expire", TUNABLE, AT (tunables.prio_aging_expire_ms) },
  { "read_expire", TUNABLE, AT (tunables.read_expire_ms) },
  { "reserved_tags", UNSIGNED, AT (reserved_tags), 0, TAGSET_MAX_RESERVED },
  { "run", WORD, AT (run), 0, 0, runs, MQ_RUN_OWN },
  { "sched", WORD, AT (sched), 0, 0, scheds, MQ_DEADLINE },
  { "tags", UNSIGNED, AT (tags), 1, TAGSET_MAX_TAGS },
  { "tagset", TEXT, AT (tagset), 1, TAGSET_NAME_MAX + 1 },
  { "write_expire", TUNABLE, AT (tunables.write_expire_ms) },
  { "writes_starved", TUNABLE, AT (tunables.writes_starved) },
  { "zoned_writes", WORD, AT (zoned_writes), 0, 0, zoned_writes, MQ_ONE_A_ZONE },
#undef AT
};

void
mq_options_init (struct mq_options *options)
{
  memset (options, 0, sizeof *options);
  options->tags = 128;
  options->reserved_tags = 4;
  options->hwqs = 64;
  options->sched = MQ_DEADLINE;
  options->run = MQ_RUN_OWN;
  options->zoned_writes = MQ_ONE_A_ZONE;
  options->prio = BDEV_PRIO_BE;
  options->tunables = dl_default_tunables;
}

/* As the kernel's sysfs: any whole number; what is out of range is brought into
   it by dl_set_tunables. */
static int
set_tunable (int64_t *member, const char *name, const char *value, struct sh_error *err)
{
  char *end;
  long long number;

  errno = 0;
  number = strtoll (value, &end, 10);
  if (end == value || *end || errno != 0 ||
      (*value != '-' && (*value < '0' || *value > '9')))
    return sh_fail (err, EINVAL, "%s=%s: not a whole number from %lld to %lld", name, value,
                    LLONG_MIN, LLONG_MAX);
  *member = number;
  return 0;
}

static int
set_text (char *member, size_t size, const char *name, const char *value, struct sh_error *err)
{
  if (*value == '\0' || strlen (value) >= size)
    return sh_fail (err, EINVAL, "%s=%s: must have from 1 to %zu characters", name, value,
                    size - 1);
  strcpy (member, value);
  return 0;
}

static int
set (struct mq_options *options, const struct option *o, const char *value, struct sh_error *err)
{
  void *member = (char *) options + o->offset;
  uint64_t number;
  unsigned word;

  switch (o->kind) {
  case UNSIGNED:
    if (sh_parse_uint (o->name, value, o->min, o->max, &number, err) == -1)
      return -1;
    *(unsigned *) member = (unsigned) number;
    return 0;
  case WORD:
    if (sh_parse_word (o->name, value, o->words, &word, err) == -1)
      return -1;
    *(unsigned *) member = o->first + word;
    return 0;
  case TEXT:
    return set_text (member, o->max, o->name, value, err);
  case TUNABLE:
    return set_tunable (member, o->name, value, err);
  }
  return 0;
}

/* The same name, or with '-' for '_'. */
static bool
same_name (const char *name, const char *key)
{
  for (; *name && *key; ++name, ++key)
    if (*name != (*key == '-' ? '_' : *key))
      return false;
  return *name == *key;
}

int
mq_option (struct mq_options *options, const char *key, const char *value, struct sh_error *err)
{
  size_t i;

  for (i = 0; i < ARRAY_SIZE (table); ++i)
    if (same_name (table[i].name, key))
      return sh_parse_once (table[i].name, &options->given, i, err) == -1 ||
             set (options, &table[i], value, err) == -1 ? -1 : 1;
  return 0;
}
