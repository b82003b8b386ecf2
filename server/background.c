/* SPDX-License-Identifier: BSD-3-Clause */
#include <config.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <syslog.h>
#include <unistd.h>

#include "background.h"
#include "base/error.h"
#include "base/log.h"
#include "commands.h"

static int ready_fd = -1;       /* to the waiting process; -1: there is none */
static bool detached;
static bool verbose;

/*--- messages ---------------------------------------------------------------*/

static void
log_message (void *opaque, enum sh_log_level level, const char *message)
{
  static const int priorities[] = {
    [SH_LOG_ERROR] = LOG_ERR,
    [SH_LOG_WARNING] = LOG_WARNING,
    [SH_LOG_INFO] = LOG_INFO,
    [SH_LOG_DEBUG] = LOG_DEBUG,
  };

  if (level == SH_LOG_DEBUG && !verbose)
    return;
  if (detached)
    syslog (priorities[level], "%s", message);
  else
    fprintf (stderr, "shingle: %s\n", message);
}

const struct sh_log background_log = { .fn = log_message };

void
background_set_verbose (bool on)
{
  verbose = on;
}

void
background_report (const struct sh_error *err)
{
  sh_log (&background_log, SH_LOG_ERROR, "%s%s%s", err->message,
          err->hint[0] ? "; " : "", err->hint);
}

/*--- the waiting process ----------------------------------------------------*/

static void
end_child (pid_t child)
{
  int i, status;

  kill (child, SIGTERM);
  for (i = 0; i < 50; ++i) {
    if (waitpid (child, &status, WNOHANG) != 0)
      return;
    usleep (100000);
  }
  kill (child, SIGKILL);
}

/* Ends the process with what the child came to. */
static void
wait_for_child (pid_t child, int fd, unsigned timeout_s)
{
  struct pollfd p = { .fd = fd, .events = POLLIN };
  char c;
  int status;

  if (poll (&p, 1, (int) timeout_s * 1000) == 0) {
    fprintf (stderr, "shingle: not serving after %u seconds; gave up\n", timeout_s);
    end_child (child);
    _exit (STATUS_FAILED);
  }
  if (read (fd, &c, 1) == 1)
    _exit (STATUS_OK);
  while (waitpid (child, &status, 0) == -1)
    if (errno != EINTR)
      _exit (STATUS_FAILED);
  if (WIFSIGNALED (status)) {
    fprintf (stderr, "shingle: %s before serving\n", strsignal (WTERMSIG (status)));
    _exit (STATUS_FAILED);
  }
  _exit (WEXITSTATUS (status) ? WEXITSTATUS (status) : STATUS_FAILED);
}

int
background_begin (bool stay, unsigned timeout_s, struct sh_error *err)
{
  int fds[2];
  pid_t child;

  signal (SIGPIPE, SIG_IGN);
  if (stay)
    return 0;
  if (pipe2 (fds, O_CLOEXEC) == -1)
    return sh_fail (err, errno, "pipe: %s", strerror (errno));
  child = fork ();
  if (child == -1) {
    close (fds[0]);
    close (fds[1]);
    return sh_fail (err, errno, "fork: %s", strerror (errno));
  }
  if (child > 0) {
    close (fds[1]);
    wait_for_child (child, fds[0], timeout_s);
  }
  close (fds[0]);
  ready_fd = fds[1];
  return 0;
}

/*--- the serving process ----------------------------------------------------*/

int
pid_file_check (const char *path, struct sh_error *err)
{
  char text[24];
  struct stat st;
  ssize_t n;
  int fd;

  if (lstat (path, &st) == -1)
    return errno == ENOENT ? 0 : sh_fail_file (err, path);
  fd = S_ISREG (st.st_mode) ? open (path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC) : -1;
  n = fd == -1 ? -1 : read (fd, text, sizeof text - 1);
  if (fd != -1)
    close (fd);
  text[n > 0 ? n : 0] = '\0';
  if (n >= 0 && st.st_size == n && text[strspn (text, "0123456789\n")] == '\0')
    return 0;
  sh_fail (err, EEXIST, "pid file %s: what is there is no pid file", path);
  return sh_hint (err, "give --pid-file another name; nothing was changed");
}

static int
write_pid_file (const char *path, struct sh_error *err)
{
  FILE *out = fopen (path, "we");

  if (!out)
    return sh_fail_file (err, path);
  fprintf (out, "%ld\n", (long) getpid ());
  if (fclose (out) != 0)
    return sh_fail (err, errno, "pid file %s: %s", path, strerror (errno));
  return 0;
}

/* systemd's protocol: one datagram to the socket it names. */
static void
notify_systemd (void)
{
  static const char message[] = "READY=1";
  const char *path = getenv ("NOTIFY_SOCKET");
  struct sockaddr_un address = { .sun_family = AF_UNIX };
  socklen_t len;
  int fd;

  if (!path || path[0] == '\0' || strlen (path) >= sizeof address.sun_path)
    return;
  strcpy (address.sun_path, path);
  len = offsetof (struct sockaddr_un, sun_path) + strlen (path);
  if (address.sun_path[0] == '@')
    address.sun_path[0] = '\0';
  fd = socket (AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd == -1)
    return;
  if (sendto (fd, message, strlen (message), 0, (struct sockaddr *) &address, len) == -1)
    sh_log (&background_log, SH_LOG_WARNING, "telling systemd: %s", strerror (errno));
  close (fd);
}

static void
leave_terminal (void)
{
  const int null = open ("/dev/null", O_RDWR);

  openlog ("shingle", LOG_PID, LOG_DAEMON);
  setsid ();
  if (null != -1) {
    dup2 (null, STDIN_FILENO);
    dup2 (null, STDOUT_FILENO);
    dup2 (null, STDERR_FILENO);
    if (null > STDERR_FILENO)
      close (null);
  }
  detached = true;
}

int
background_ready (const char *pid_file, struct sh_error *err)
{
  if (pid_file && write_pid_file (pid_file, err) == -1)
    return -1;
  notify_systemd ();
  if (ready_fd != -1) {
    if (chdir ("/") == -1)
      return sh_fail (err, errno, "chdir /: %s", strerror (errno));
    leave_terminal ();
    if (write (ready_fd, "R", 1) == -1)
      return sh_fail (err, errno, "the waiting command has gone");
    close (ready_fd);
    ready_fd = -1;
  }
  return 0;
}
