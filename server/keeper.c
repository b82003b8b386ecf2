/* SPDX-License-Identifier: BSD-3-Clause */
#include <config.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "keeper.h"

/* What the serving process says through the pipe. */
enum { MOUNTED = 'm', UNMOUNTED = 'u' };

#define TRIES 100
#define TRY_US 100000

/* The last that was said before the other end was closed. */
static char
last_word (int fd)
{
  char said = UNMOUNTED, c;
  ssize_t r;

  while ((r = read (fd, &c, 1)) != 0) {
    if (r == 1)
      said = c;
    else if (errno != EINTR)
      break;
  }
  return said;
}

/* The kernel still tears the mount down when the pipe is closed: until that is
   done, its answer is another one. */
static bool
is_dead_mount (const char *mountpoint)
{
  struct statx st;

  return statx (AT_FDCWD, mountpoint, AT_STATX_FORCE_SYNC, STATX_BASIC_STATS, &st) == -1
         && errno == ENOTCONN;
}

static void
keep (int fd, const char *mountpoint)
{
  int i;

  if (last_word (fd) != MOUNTED)
    return;
  for (i = 0; i < TRIES && !is_dead_mount (mountpoint); ++i)
    usleep (TRY_US);
  if (i < TRIES)
    execlp ("fusermount3", "fusermount3", "-u", "-z", "-q", "--", mountpoint, NULL);
}

/* Away from the terminal and from signals to the group of the serving process;
   of what it has open, only the pipe is kept. */
static void
leave_all (int fd)
{
  const int null = open ("/dev/null", O_RDWR | O_CLOEXEC);
  int i;

  setsid ();
  signal (SIGHUP, SIG_IGN);
  signal (SIGINT, SIG_IGN);
  signal (SIGTERM, SIG_IGN);
  prctl (PR_SET_NAME, "shingle-keeper");
  for (i = STDIN_FILENO; i <= STDERR_FILENO; ++i)
    if (null != -1)
      dup2 (null, i);
  if (fd > STDERR_FILENO + 1)
    close_range (STDERR_FILENO + 1, fd - 1, 0);
  close_range (fd + 1, ~0U, 0);
}

int
keeper_start (struct keeper *k, const char *mountpoint, struct sh_error *err)
{
  int fds[2];
  pid_t child;

  k->fd = -1;
  if (pipe2 (fds, O_CLOEXEC) == -1)
    return sh_fail (err, errno, "pipe: %s", strerror (errno));
  child = fork ();
  if (child == -1) {
    sh_fail (err, errno, "fork: %s", strerror (errno));
    close (fds[0]);
    close (fds[1]);
    return -1;
  }
  if (child == 0) {
    leave_all (fds[0]);
    if (chdir ("/") == 0)
      keep (fds[0], mountpoint);
    _exit (0);
  }
  close (fds[0]);
  k->fd = fds[1];
  return 0;
}

static void
say (struct keeper *k, char word)
{
  if (k->fd != -1 && write (k->fd, &word, 1) == -1)
    return;                     /* the keeper was killed */
}

void
keeper_mounted (struct keeper *k)
{
  say (k, MOUNTED);
}

void
keeper_stop (struct keeper *k)
{
  say (k, UNMOUNTED);
  if (k->fd != -1)
    close (k->fd);
  k->fd = -1;
}
