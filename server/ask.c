/* SPDX-License-Identifier: BSD-3-Clause */
#include <config.h>
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <json-c/json.h>

#include "ask.h"
#include "base/error.h"

#define MAX_ANSWER (64u << 20)

static int
dial (const char *path, unsigned timeout_s, struct sh_error *err)
{
  struct sockaddr_un address = { .sun_family = AF_UNIX };
  const struct timeval timeout = { .tv_sec = timeout_s };
  const int fd = socket (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

  if (fd == -1)
    return sh_fail (err, errno, "socket: %s", strerror (errno));
  if (strlen (path) >= sizeof address.sun_path) {
    close (fd);
    return sh_fail (err, ENAMETOOLONG, "%s: too long for a socket's name", path);
  }
  strcpy (address.sun_path, path);
  setsockopt (fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
  setsockopt (fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
  if (connect (fd, (struct sockaddr *) &address, sizeof address) == -1) {
    const int errnum = errno;

    close (fd);
    errno = errnum;
    if (errnum != ENOENT && errnum != ECONNREFUSED)
      return sh_fail_file (err, path);
    sh_fail (err, errnum, "%s: %s", path, strerror (errnum));
    return sh_hint (err, "no server has its control socket there; 'shingle serve' prints "
                    "where it is");
  }
  return fd;
}

/* One line, without its newline; malloc'd. */
static char *
read_line (int fd, const char *path, struct sh_error *err)
{
  char *line = NULL;
  size_t used = 0, size = 0;
  ssize_t n;

  for (;;) {
    if (size - used < 2) {
      char *more = size < MAX_ANSWER ? realloc (line, size ? size * 2 : 65536) : NULL;

      if (!more) {
        sh_fail (err, ENOMEM, "%s: the answer is too long", path);
        break;
      }
      line = more;
      size = size ? size * 2 : 65536;
    }
    n = recv (fd, line + used, size - used - 1, 0);
    if (n == -1 && errno == EINTR)
      continue;
    if (n <= 0) {
      sh_fail (err, n == 0 ? EPIPE : errno, "%s: %s", path,
               n == 0 ? "the server hung up"
               : errno == EAGAIN ? "the server does not answer" : strerror (errno));
      break;
    }
    used += n;
    if (line[used - 1] == '\n') {
      line[used - 1] = '\0';
      return line;
    }
  }
  free (line);
  return NULL;
}

/* The answer to an object; refusals become err. */
static int
judge (const char *path, const char *line, struct json_object **answer,
       struct sh_error *err)
{
  struct json_object *o = json_tokener_parse (line), *ok, *text;

  if (!json_object_is_type (o, json_type_object)
      || !json_object_object_get_ex (o, "ok", &ok)) {
    json_object_put (o);
    return sh_fail (err, EPROTO, "%s: whoever answers there is no Shingle server", path);
  }
  if (json_object_get_boolean (ok)) {
    *answer = o;
    return 0;
  }
  if (json_object_object_get_ex (o, "error", &text))
    sh_fail (err, EINVAL, "%s", json_object_get_string (text));
  else
    sh_fail (err, EINVAL, "%s: refused", path);
  if (json_object_object_get_ex (o, "hint", &text))
    sh_hint (err, "%s", json_object_get_string (text));
  json_object_put (o);
  return -1;
}

int
ask (const char *socket_path, const char *request, unsigned timeout_s,
     struct json_object **answer, struct sh_error *err)
{
  const int fd = dial (socket_path, timeout_s, err);
  char *line, *sent = NULL;
  int len, r;

  if (fd == -1)
    return -1;
  len = asprintf (&sent, "%s\n", request);
  if (len == -1 || send (fd, sent, len, MSG_NOSIGNAL) != len) {
    sh_fail (err, errno, "%s: %s", socket_path, strerror (errno));
    free (sent);
    close (fd);
    return -1;
  }
  free (sent);
  line = read_line (fd, socket_path, err);
  close (fd);
  if (!line)
    return -1;
  r = judge (socket_path, line, answer, err);
  free (line);
  return r;
}

char *
ask_find_socket (struct sh_error *err)
{
  const char *user_folder = getenv ("XDG_RUNTIME_DIR");
  char pattern[512];
  char *found = NULL;
  glob_t g;

  if (geteuid () == 0)
    snprintf (pattern, sizeof pattern, "/run/shingle/*.control");
  else if (user_folder && user_folder[0] == '/')
    snprintf (pattern, sizeof pattern, "%s/shingle/*.control", user_folder);
  else
    snprintf (pattern, sizeof pattern, "/tmp/shingle-%u/*.control", (unsigned) geteuid ());

  if (glob (pattern, 0, NULL, &g) != 0) {
    sh_fail (err, ENOENT, "which server? There is no %s", pattern);
    sh_hint (err, "give its control socket, which 'shingle serve' prints");
    return NULL;
  }
  if (g.gl_pathc == 1)
    found = strdup (g.gl_pathv[0]);
  else {
    sh_fail (err, EINVAL, "which server? There are %zu of %s", g.gl_pathc, pattern);
    sh_hint (err, "give one of them, for example %s", g.gl_pathv[0]);
  }
  globfree (&g);
  return found;
}
