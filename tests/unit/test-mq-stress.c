/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Processes that share one tag set, with threads that begin, give up and end
 * requests of every kind, while they change schedulers, tunables and the number of
 * tags, and while their parent kills them at random and starts others.
 *
 * Right: every request ends exactly once, nobody hangs, and once all is over every
 * tag is free.  Runs for 4 seconds, or SHINGLE_STRESS_SECONDS (600 is a good
 * number before a release).
 */
#include <config.h>
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "mq/mq.h"

#define PROCESSES 4
#define THREADS 12
#define TAGS 12
#define NR_ZONES 8

/* Where the parent sees what its children do. */
struct child {
  atomic_ullong begun, ended, gave_up;
  atomic_bool stop, clean;
};
static struct child *children;
#define SETS "/dev/shm"
#define PREFIX "shingle-tags.stress-"
static char set_name[40], set_path[80];

struct process {
  struct child *child;
  struct mq *mq;
  atomic_uint zone_inside[NR_ZONES];
  atomic_bool leaving;          /* clients disconnect */
};

static unsigned
dice (unsigned *seed, unsigned sides)
{
  *seed = *seed * 1103515245u + 12345u;
  return (*seed >> 8) % sides;
}

static void
must (bool right, const char *what)
{
  if (right)
    return;
  fprintf (stderr, "test-mq-stress: %s\n", what);
  abort ();
}

static bool
client_left (void *device)
{
  return atomic_load (&((struct process *) device)->leaving);
}

static void
issue_nothing (void *device, struct mq_request **rq, unsigned n)
{
  abort ();
}

static const struct mq_device_ops ops = { .issue = issue_nothing, .give_up = client_left };

/* -- one process ------------------------------------------------------------------------- */

static void
describe (struct process *p, struct mq_request *rq, unsigned *seed)
{
  mq_request_init (rq);
  rq->hwq = dice (seed, mq_nr_hwqs (p->mq));
  rq->dl.sector = dice (seed, 1000 * NR_ZONES);
  rq->dl.nr_sectors = 1;
  rq->dl.nr_segments = 1;
  rq->dl.dir = dice (seed, 2);
  rq->dl.prio_class = dice (seed, 3);
  rq->dl.mergeable = dice (seed, 2);
  if (dice (seed, 20) == 0) {
    rq->kind = MQ_DIRECT;
    rq->reserved = dice (seed, 2);
  }
  else if (rq->dl.dir == DL_WRITE && dice (seed, 2))
    rq->zone = rq->dl.sector / 1000;
  rq->dl.merge_key = rq->zone != MQ_NO_ZONE;
}

static void
one_request (struct process *p, unsigned *seed)
{
  struct mq_request rq;

  describe (p, &rq, seed);
  atomic_fetch_add (&p->child->begun, 1);
  switch (mq_begin (p->mq, &rq)) {
  case MQ_GO:
    if (rq.zone != MQ_NO_ZONE)
      must (atomic_fetch_add (&p->zone_inside[rq.zone], 1) == 0, "two writes in one zone");
    if (dice (seed, 10) == 0)
      sh_sleep (&sh_clock_monotonic, dice (seed, 2000) * NS_PER_US);
    if (rq.zone != MQ_NO_ZONE)
      atomic_fetch_sub (&p->zone_inside[rq.zone], 1);
    mq_end (p->mq, &rq, 0);
    break;
  case MQ_DONE:
    break;
  case MQ_GAVE_UP:
    atomic_fetch_add (&p->child->gave_up, 1);
    break;
  }
  atomic_fetch_add (&p->child->ended, 1);
}

struct worker {
  struct process *process;
  unsigned seed;
  pthread_t thread;
};

static void *
work (void *opaque)
{
  struct worker *w = opaque;

  while (!atomic_load (&w->process->child->stop))
    one_request (w->process, &w->seed);
  return NULL;
}

static void
change_something (struct process *p, unsigned *seed)
{
  static const char *const changes[][2] = {
    { "sched", "none" }, { "sched", "deadline" }, { "tags", "1" }, { "tags", "12" },
    { "tags", "40" }, { "async_depth", "1" }, { "async_depth", "100" }, { "fifo_batch", "0" },
    { "fifo_batch", "16" }, { "run", "all" }, { "run", "own" }, { "depth", "2" },
    { "depth", "80" }, { "prio_aging_expire", "5" }, { "prio_aging_expire", "10000" },
  };
  const unsigned i = dice (seed, ARRAY_SIZE (changes));
  struct sh_error err = { 0 };

  must (mq_set_option (p->mq, changes[i][0], changes[i][1], &err) == 0, err.message);
  atomic_store (&p->leaving, dice (seed, 4) == 0);
  sh_sleep (&sh_clock_monotonic, dice (seed, 5) * NS_PER_MS);
}

static void
run_process (struct child *child, unsigned seed)
{
  const struct tagset_options to = { .tags = TAGS, .reserved = 2, .name = set_name };
  struct process p = { .child = child };
  struct worker w[THREADS];
  struct sh_error err = { 0 };
  struct mq_config config = {
    .name = "stress", .ops = &ops, .device = &p, .zone_sectors = 1000, .nr_zones = NR_ZONES,
    .limits = { .max_sectors = 64, .max_segments = 16 },
  };
  unsigned i;

  prctl (PR_SET_PDEATHSIG, SIGKILL);
  mq_options_init (&config.options);
  config.options.hwqs = 5;
  must (tagset_open (&to, &config.tagset, &err) == 0, err.message);
  must (mq_create (&config, &p.mq, &err) == 0, err.message);
  for (i = 0; i < THREADS; ++i) {
    w[i] = (struct worker) { &p, seed * 100 + i, 0 };
    pthread_create (&w[i].thread, NULL, work, &w[i]);
  }
  while (!atomic_load (&child->stop))
    change_something (&p, &seed);
  for (i = 0; i < THREADS; ++i)
    pthread_join (w[i].thread, NULL);
  must (atomic_load (&child->begun) == atomic_load (&child->ended), "a request did not end once");
  mq_destroy (p.mq);            /* checks that nothing is left */
  tagset_close (config.tagset);
  atomic_store (&child->clean, true);
  _exit (0);
}

/* -- the parent -------------------------------------------------------------------------------- */

static pid_t
start_process (unsigned i, unsigned seed)
{
  pid_t pid;

  memset (&children[i], 0, sizeof children[i]);
  pid = fork ();
  must (pid != -1, "fork");
  if (pid == 0)
    run_process (&children[i], seed);
  return pid;
}

/* It moves: a request ends within 20 seconds. */
static void
check_progress (unsigned i)
{
  const unsigned long long before = atomic_load (&children[i].ended);
  unsigned n;

  for (n = 0; n < 2000; ++n) {
    if (atomic_load (&children[i].ended) != before)
      return;
    sh_sleep (&sh_clock_monotonic, 10 * NS_PER_MS);
  }
  must (false, "a process hangs");
}

static void
stop_process (unsigned i, pid_t pid)
{
  int status;

  atomic_store (&children[i].stop, true);
  must (waitpid (pid, &status, 0) == pid, "waitpid");
  must (WIFEXITED (status) && WEXITSTATUS (status) == 0 && atomic_load (&children[i].clean),
        "a process did not end well");
}

static void
stress (uint64_t seconds)
{
  const uint64_t until = sh_now (&sh_clock_monotonic) + seconds * NS_PER_S;
  const struct tagset_options to = { .tags = TAGS, .reserved = 2, .name = set_name };
  struct sh_error err = { 0 };
  struct tagset *set;
  pid_t pid[PROCESSES];
  unsigned long long ended = 0;
  unsigned i, seed = getpid (), kills = 0;

  children = mmap (NULL, PROCESSES * sizeof *children, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  must (children != MAP_FAILED, "mmap");
  must (tagset_open (&to, &set, &err) == 0, err.message);
  for (i = 0; i < PROCESSES; ++i)
    pid[i] = start_process (i, seed + i);
  while (sh_now (&sh_clock_monotonic) < until) {
    sh_sleep (&sh_clock_monotonic, (100 + dice (&seed, 300)) * NS_PER_MS);
    i = dice (&seed, PROCESSES);
    check_progress (i);
    if (dice (&seed, 2)) {
      ended += atomic_load (&children[i].ended);
      kill (pid[i], SIGKILL);
      waitpid (pid[i], NULL, 0);
      pid[i] = start_process (i, seed);
      ++kills;
    }
  }
  for (i = 0; i < PROCESSES; ++i) {
    check_progress (i);
    stop_process (i, pid[i]);
    ended += atomic_load (&children[i].ended);
  }
  tagset_reap (set);
  must (tagset_free (set) == tagset_depth (set), "a tag was lost");
  tagset_close (set);
  must (access (set_path, F_OK) == -1, "the last one to leave did not remove the tag set");
  printf ("%llu requests, %u processes killed\n", ended, kills);
}

/* -- and who cleans up after it, however it ends --------------------------------------------------- */

/* Left by runs that were killed altogether. */
static void
remove_sets_of_the_dead (void)
{
  DIR *dir = opendir (SETS);
  struct dirent *e;

  while (dir && (e = readdir (dir)) != NULL) {
    int pid, end = 0;

    if (sscanf (e->d_name, PREFIX "%d%n", &pid, &end) == 1 && e->d_name[end] == '\0' && pid > 0 &&
        kill (pid, 0) == -1 && errno == ESRCH)
      unlinkat (dirfd (dir), e->d_name, 0);
  }
  if (dir)
    closedir (dir);
}

/* True: it went well.  Signals that end this process end the run first. */
static bool
wait_for_run (pid_t run, const sigset_t *signals)
{
  int status, sig;

  do {
    sig = sigwaitinfo (signals, NULL);
    if (sig != -1 && sig != SIGCHLD)
      kill (run, SIGKILL);
  } while (waitpid (run, &status, sig == -1 || sig == SIGCHLD ? WNOHANG : 0) == 0);
  return WIFEXITED (status) && WEXITSTATUS (status) == 0;
}

int
main (void)
{
  const char *seconds = getenv ("SHINGLE_STRESS_SECONDS");
  sigset_t signals;
  pid_t run;
  bool good;

  remove_sets_of_the_dead ();
  snprintf (set_name, sizeof set_name, "stress-%d", (int) getpid ());
  snprintf (set_path, sizeof set_path, SETS "/shingle-tags.%s", set_name);
  sigemptyset (&signals);
  sigaddset (&signals, SIGCHLD);
  sigaddset (&signals, SIGHUP);
  sigaddset (&signals, SIGINT);
  sigaddset (&signals, SIGTERM);
  sigprocmask (SIG_BLOCK, &signals, NULL);
  run = fork ();
  must (run != -1, "fork");
  if (run == 0) {
    prctl (PR_SET_PDEATHSIG, SIGKILL);
    sigprocmask (SIG_UNBLOCK, &signals, NULL);
    stress (seconds ? strtoul (seconds, NULL, 10) : 4);
    exit (0);
  }
  good = wait_for_run (run, &signals);
  unlink (set_path);
  return !good;
}
