/* SPDX-License-Identifier: BSD-3-Clause */
#include <config.h>
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <json-c/json.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/log.h"
#include "stack/control.h"

struct client {
  struct control *control;
  int fd;                       /* -1: a free place; guarded by the lock */
};

struct control {
  char *path;
  control_handler handler;
  void *opaque;
  const struct sh_log *log;
  int listen_fd;
  int stop_fd;                  /* eventfd: the acceptor is to end */
  pthread_t acceptor;
  bool started;
  dev_t socket_dev;             /* so that only our own socket is removed */
  ino_t socket_ino;

  pthread_mutex_t lock;
  pthread_cond_t ended;         /* a client's thread has ended */
  struct client clients[CONTROL_MAX_CLIENTS];
  unsigned nr_clients;          /* guarded by the lock */
  bool stopping;                /* guarded by the lock */
};

/*--- one connection ---------------------------------------------------------*/

static bool
send_all (int fd, const char *text, size_t len)
{
  while (len > 0) {
    const ssize_t n = send (fd, text, len, MSG_NOSIGNAL);

    if (n == -1 && errno == EINTR)
      continue;
    if (n <= 0)
      return false;
    text += n;
    len -= n;
  }
  return true;
}

static bool
send_answer (int fd, struct json_object *answer)
{
  const char *text = json_object_to_json_string_ext (answer, JSON_C_TO_STRING_PLAIN);

  return send_all (fd, text, strlen (text)) && send_all (fd, "\n", 1);
}

static bool
send_refusal (int fd, const struct sh_error *err)
{
  struct json_object *answer = json_object_new_object ();
  bool sent;

  json_object_object_add (answer, "ok", json_object_new_boolean (false));
  json_object_object_add (answer, "error", json_object_new_string (err->message));
  if (err->hint[0])
    json_object_object_add (answer, "hint", json_object_new_string (err->hint));
  sent = send_answer (fd, answer);
  json_object_put (answer);
  return sent;
}

/* `line` ends with NUL.  False: the connection is to end. */
static bool
answer_line (struct control *c, int fd, const char *line)
{
  struct json_object *request = json_tokener_parse (line);
  struct json_object *answer = NULL;
  struct sh_error err = { 0 };
  bool sent;

  if (json_object_is_type (request, json_type_object))
    answer = c->handler (c->opaque, request, &err);
  else
    sh_fail (&err, EINVAL, "a request is one JSON object on one line");
  json_object_put (request);
  if (!answer)
    return send_refusal (fd, &err);
  json_object_object_add (answer, "ok", json_object_new_boolean (true));
  sent = send_answer (fd, answer);
  json_object_put (answer);
  return sent;
}

static void
talk (struct control *c, int fd)
{
  static const struct sh_error too_long = { .message = "the request is too long" };
  char *buf = malloc (CONTROL_MAX_LINE + 1);
  size_t used = 0;
  ssize_t n;
  bool on = buf != NULL;

  while (on && (n = recv (fd, buf + used, CONTROL_MAX_LINE - used, 0)) != 0) {
    char *end;

    if (n == -1 && errno == EINTR)
      continue;
    if (n == -1)
      break;
    used += n;
    while (on && (end = memchr (buf, '\n', used)) != NULL) {
      *end = '\0';
      on = answer_line (c, fd, buf);
      used -= end + 1 - buf;
      memmove (buf, end + 1, used);
    }
    if (used == CONTROL_MAX_LINE) {
      send_refusal (fd, &too_long);
      on = false;
    }
  }
  free (buf);
}

static void *
client_thread (void *arg)
{
  struct client *client = arg;
  struct control *c = client->control;

  talk (c, client->fd);
  pthread_mutex_lock (&c->lock);
  close (client->fd);
  client->fd = -1;
  c->nr_clients--;
  pthread_cond_signal (&c->ended);
  pthread_mutex_unlock (&c->lock);
  return NULL;
}

/*--- accepting --------------------------------------------------------------*/

static struct client *
free_place_locked (struct control *c)
{
  size_t i;

  for (i = 0; i < ARRAY_SIZE (c->clients); ++i)
    if (c->clients[i].fd == -1)
      return &c->clients[i];
  return NULL;
}

/* False: no place, or no thread. */
static bool
start_client_locked (struct control *c, int fd)
{
  struct client *client = free_place_locked (c);
  pthread_attr_t attr;
  pthread_t id;
  int r;

  if (!client || c->stopping)
    return false;
  client->fd = fd;
  pthread_attr_init (&attr);
  pthread_attr_setdetachstate (&attr, PTHREAD_CREATE_DETACHED);
  r = pthread_create (&id, &attr, client_thread, client);
  pthread_attr_destroy (&attr);
  if (r != 0) {
    client->fd = -1;
    return false;
  }
  c->nr_clients++;
  return true;
}

static void
accept_one (struct control *c)
{
  static const struct sh_error busy = { .message = "too many control connections" };
  const int fd = accept4 (c->listen_fd, NULL, NULL, SOCK_CLOEXEC);
  bool started;

  if (fd == -1)
    return;
  pthread_mutex_lock (&c->lock);
  started = start_client_locked (c, fd);
  pthread_mutex_unlock (&c->lock);
  if (!started) {
    send_refusal (fd, &busy);
    close (fd);
  }
}

static void *
acceptor_thread (void *arg)
{
  struct control *c = arg;
  struct pollfd p[2] = {
    { .fd = c->listen_fd, .events = POLLIN },
    { .fd = c->stop_fd, .events = POLLIN },
  };

  for (;;) {
    if (poll (p, 2, -1) == -1)
      continue;
    if (p[1].revents)
      return NULL;
    if (p[0].revents)
      accept_one (c);
  }
}

/*--- life -------------------------------------------------------------------*/

/* A socket that nobody listens to, left by a server that was killed. */
static bool
is_dead_socket (const struct sockaddr_un *address)
{
  struct stat st;
  int fd, r;

  if (lstat (address->sun_path, &st) == -1 || !S_ISSOCK (st.st_mode))
    return false;
  fd = socket (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd == -1)
    return false;
  r = connect (fd, (const struct sockaddr *) address, sizeof *address);
  r = r == -1 && errno == ECONNREFUSED;
  close (fd);
  return r;
}

static int
bind_socket (struct control *c, struct sh_error *err)
{
  struct sockaddr_un address = { .sun_family = AF_UNIX };
  struct stat st;
  mode_t mask;
  int r;

  if (strlen (c->path) >= sizeof address.sun_path)
    return sh_fail (err, ENAMETOOLONG, "control socket %s: a socket's path has at most "
                    "%zu bytes", c->path, sizeof address.sun_path - 1);
  strcpy (address.sun_path, c->path);
  c->listen_fd = socket (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (c->listen_fd == -1)
    return sh_fail (err, errno, "socket: %s", strerror (errno));
  if (is_dead_socket (&address))
    unlink (c->path);
  mask = umask (0117);
  r = bind (c->listen_fd, (const struct sockaddr *) &address, sizeof address);
  umask (mask);
  if (r == -1) {
    sh_fail (err, errno, "control socket %s: %s", c->path, strerror (errno));
    return sh_hint (err, errno == EADDRINUSE ? "another server listens there, or it is no socket"
                    : "its folder must be there, and you must be allowed to write to it");
  }
  if (listen (c->listen_fd, 16) == -1 || stat (c->path, &st) == -1)
    return sh_fail (err, errno, "control socket %s: %s", c->path, strerror (errno));
  c->socket_dev = st.st_dev;
  c->socket_ino = st.st_ino;
  return 0;
}

int
control_open (const char *path, control_handler handler, void *opaque,
              const struct sh_log *log, struct control **control, struct sh_error *err)
{
  struct control *c = calloc (1, sizeof *c);
  size_t i;

  if (!c)
    return sh_fail (err, ENOMEM, "no memory for the control socket");
  pthread_mutex_init (&c->lock, NULL);
  pthread_cond_init (&c->ended, NULL);
  c->listen_fd = -1;
  c->handler = handler;
  c->opaque = opaque;
  c->log = log;
  c->path = path[0] == '/' ? strdup (path) : NULL;
  if (path[0] != '/') {
    char *folder = getcwd (NULL, 0);

    if (folder && asprintf (&c->path, "%s/%s", folder, path) == -1)
      c->path = NULL;
    free (folder);
  }
  for (i = 0; i < ARRAY_SIZE (c->clients); ++i)
    c->clients[i] = (struct client) { .control = c, .fd = -1 };
  c->stop_fd = eventfd (0, EFD_CLOEXEC);
  if (!c->path || c->stop_fd == -1)
    sh_fail (err, ENOMEM, "no memory for the control socket");
  else if (bind_socket (c, err) == 0) {
    *control = c;
    return 0;
  }
  control_close (c);
  errno = err->errnum;
  return -1;
}

int
control_start (struct control *c, struct sh_error *err)
{
  const int r = pthread_create (&c->acceptor, NULL, acceptor_thread, c);

  if (r != 0)
    return sh_fail (err, r, "starting the control thread: %s", strerror (r));
  c->started = true;
  return 0;
}

static void
end_clients (struct control *c)
{
  size_t i;

  pthread_mutex_lock (&c->lock);
  c->stopping = true;
  for (i = 0; i < ARRAY_SIZE (c->clients); ++i)
    if (c->clients[i].fd != -1)
      shutdown (c->clients[i].fd, SHUT_RDWR);
  while (c->nr_clients > 0)
    pthread_cond_wait (&c->ended, &c->lock);
  pthread_mutex_unlock (&c->lock);
}

static void
remove_socket (const struct control *c)
{
  struct stat st;

  if (stat (c->path, &st) == 0 && st.st_dev == c->socket_dev
      && st.st_ino == c->socket_ino)
    unlink (c->path);
}

void
control_close (struct control *c)
{
  const uint64_t one = 1;

  if (!c)
    return;
  if (c->started) {
    if (write (c->stop_fd, &one, sizeof one) != sizeof one)
      abort ();                 /* an eventfd with room takes it */
    pthread_join (c->acceptor, NULL);
    end_clients (c);
  }
  if (c->socket_ino != 0)
    remove_socket (c);
  if (c->listen_fd != -1)
    close (c->listen_fd);
  if (c->stop_fd != -1)
    close (c->stop_fd);
  pthread_cond_destroy (&c->ended);
  pthread_mutex_destroy (&c->lock);
  free (c->path);
  free (c);
}
