/* SPDX-License-Identifier: BSD-3-Clause */
/* `shingle serve`: nbdkit with our plugin, started the right way, and the
 * commands of its clients to paste. */
#include <config.h>
#include <errno.h>
#include <grp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "args.h"
#include "background.h"
#include "base/bytes.h"
#include "base/error.h"
#include "commands.h"
#include "find.h"
#include "stack/stack.h"

#define NAME "shingle serve"
#define MAX_WORDS 256
#define NBD_PORT "10809"

enum {
  INSECURE = 256, IP, PLUGIN, PRINT, TLS_CERTIFICATES, TLS_PSK, TLS_VERIFY_PEER,
  FILTER, CONTROL,
};

static const struct arg_option options[] = {
  { CONTROL, 0, "control", "SOCKET", "for shingle stat, top and reclaim; - for none" },
  { FILTER, 0, "filter", "NAME", "an nbdkit filter in front; may come again", true },
  { 'f', 'f', "foreground", NULL, "stay in the foreground" },
  { 'g', 'g', "group", "GROUP", "run as this group once the drive is open" },
  { INSECURE, 0, "insecure", NULL, "listen beyond this machine without TLS" },
  { IP, 0, "ip", "ADDRESS", "listen there (default 127.0.0.1); implies --port" },
  { 'P', 'P', "pid-file", "FILE", "write the process id there" },
  { PLUGIN, 0, "plugin", "NAME", "zoned (default), or sg: the drive as it is" },
  { 'p', 'p', "port", "PORT", "listen on TCP (NBD's port is " NBD_PORT ")" },
  { PRINT, 0, "print", NULL, "only print nbdkit's command line" },
  { 'r', 'r', "read-only", NULL, "nothing is written" },
  { 'U', 'U', "socket", "PATH", "listen on this unix socket" },
  { 't', 't', "threads", "N", "requests at once for each connection (default 16)" },
  { TLS_CERTIFICATES, 0, "tls-certificates", "DIR", "require TLS with X.509 certificates" },
  { TLS_PSK, 0, "tls-psk", "FILE", "require TLS with pre-shared keys" },
  { TLS_VERIFY_PEER, 0, "tls-verify-peer", NULL, "clients need a certificate, too" },
  { 'u', 'u', "user", "USER", "run as this user once the drive is open" },
  { 'v', 'v', "verbose", NULL, "nbdkit says what it does" },
  { 0 }
};

struct serve {
  const char *plugin, *socket, *port, *ip, *pid_file, *control;
  const char *tls_certificates, *tls_psk, *user, *group, *threads;
  const char *filters[16];
  unsigned nr_filters;
  bool foreground, insecure, print, read_only, tls_verify_peer, verbose;
  bool activated;               /* systemd has opened the socket */
  char *parameters[MAX_WORDS];  /* key=value for the plugin; malloc'd */
  unsigned nr_parameters, nr_devices;
  char *words[MAX_WORDS];       /* nbdkit's argv; malloc'd */
  unsigned nr_words;
  /* Defaults that were made up; malloc'd. */
  char *made_socket, *made_pid_file, *made_control;
};

static void
help (void)
{
  printf ("Serves drives over NBD, each as an ordinary disk.\n\n"
          "Usage: shingle serve DEVICE... [OPTIONS]\n\n"
          "DEVICE is /dev/sgN or emu:FILE.  Without --socket and --port a unix socket is\n"
          "made whose name is printed, with the commands of clients to paste.\n\n");
  args_print_options (options);
  printf ("\nOptions of the volumes:\n" STACK_OPTIONS_HELP
          "\nExamples:\n"
          "  shingle serve /dev/sg1\n"
          "  shingle serve emu:drive.img reclaim_low=20 -U /tmp/drive.sock\n"
          "  shingle serve /dev/sg1 --ip 0.0.0.0 --tls-psk /etc/shingle/keys.psk\n");
}

/*--- arguments --------------------------------------------------------------*/

/* The socket may be named as the plugin takes it, too. */
static int
set_control (struct serve *s, const char *value)
{
  if (s->control || value[0] == '\0') {
    fprintf (stderr, NAME ": control=%s: %s; --control=SOCKET names the socket for shingle "
             "stat\n", value, s->control ? "it is given more than once" : "names none");
    return -1;
  }
  s->control = value;
  return 0;
}

static int
add_parameter (struct serve *s, const char *key, const char *value)
{
  char *p;

  if (strcmp (key, "control") == 0)
    return set_control (s, value);

  if (s->nr_parameters == ARRAY_SIZE (s->parameters)) {
    fprintf (stderr, NAME ": too many arguments\n");
    return -1;
  }
  if (asprintf (&s->parameters[s->nr_parameters], "%s=%s", key, value) == -1)
    return -1;
  for (p = s->parameters[s->nr_parameters]; *p != '='; ++p)
    if (*p == '-')
      *p = '_';
  s->nr_parameters++;
  return 0;
}

/* DEVICE, or name=value of the plugin as nbdkit takes it. */
static int
add_word (struct serve *s, const char *word)
{
  const size_t key = strspn (word, "abcdefghijklmnopqrstuvwxyz_");

  if (key > 0 && word[key] == '=') {
    char name[64];

    snprintf (name, sizeof name, "%.*s", (int) MIN (key, sizeof name - 1), word);
    return add_parameter (s, name, word + key + 1);
  }
  s->nr_devices++;
  return add_parameter (s, "device", word);
}

static int
set_option (struct serve *s, const struct args *a, int id)
{
  unsigned long n;

  switch (id) {
  case CONTROL: return set_control (s, a->value);
  case FILTER:
    if (s->nr_filters == ARRAY_SIZE (s->filters)) {
      fprintf (stderr, NAME ": more than %u filters\n", s->nr_filters);
      return -1;
    }
    s->filters[s->nr_filters++] = a->value;
    return 0;
  case 'f': s->foreground = true; return 0;
  case 'g': s->group = a->value; return 0;
  case INSECURE: s->insecure = true; return 0;
  case IP: s->ip = a->value; return 0;
  case 'P': s->pid_file = a->value; return 0;
  case PLUGIN: s->plugin = a->value; return 0;
  case 'p': s->port = a->value; return args_number (a, "port", a->value, 1, 65535, &n);
  case PRINT: s->print = true; return 0;
  case 'r': s->read_only = true; return 0;
  case 'U': s->socket = a->value; return 0;
  case 't': s->threads = a->value; return args_number (a, "threads", a->value, 1, 1024, &n);
  case TLS_CERTIFICATES: s->tls_certificates = a->value; return 0;
  case TLS_PSK: s->tls_psk = a->value; return 0;
  case TLS_VERIFY_PEER: s->tls_verify_peer = true; return 0;
  case 'u': s->user = a->value; return 0;
  case 'v': s->verbose = true; return 0;
  case ARGS_WORD: return add_word (s, a->value);
  case ARGS_OTHER: return add_parameter (s, a->name, a->value ? a->value : "true");
  case ARGS_COMMAND: fprintf (stderr, NAME ": '[' is of no use here\n"); return -1;
  }
  return -1;
}

/*--- safety -----------------------------------------------------------------*/

static bool
is_loopback (const struct sockaddr *sa)
{
  if (sa->sa_family == AF_INET)
    return ntohl (((const struct sockaddr_in *) sa)->sin_addr.s_addr) >> 24 == 127;
  if (sa->sa_family == AF_INET6)
    return IN6_IS_ADDR_LOOPBACK (&((const struct sockaddr_in6 *) sa)->sin6_addr);
  return false;
}

/* True when every address that `ip` stands for is this machine's own. */
static bool
stays_local (const char *ip)
{
  const struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE };
  struct addrinfo *list, *a;
  bool local = true;

  if (getaddrinfo (ip, NBD_PORT, &hints, &list) != 0)
    return false;
  for (a = list; a; a = a->ai_next)
    local &= is_loopback (a->ai_addr);
  freeaddrinfo (list);
  return local;
}

static bool
uses_tls (const struct serve *s)
{
  return s->tls_certificates || s->tls_psk;
}

static bool
has_parameter (const struct serve *s, const char *key)
{
  const size_t len = strlen (key);
  unsigned i;

  for (i = 0; i < s->nr_parameters; ++i)
    if (strncmp (s->parameters[i], key, len) == 0 && s->parameters[i][len] == '=')
      return true;
  return false;
}

/* A name or a number, as nbdkit takes it; asked before the drive is opened. */
static bool
is_number (const char *text)
{
  return text[0] != '\0' && text[strspn (text, "0123456789")] == '\0';
}

static int
check_identity (const struct serve *s)
{
  if (s->user && !is_number (s->user) && getpwnam (s->user) == NULL) {
    fprintf (stderr, NAME ": --user=%s: there is no such user ('getent passwd' lists them)\n",
             s->user);
    return -1;
  }
  if (s->group && !is_number (s->group) && getgrnam (s->group) == NULL) {
    fprintf (stderr, NAME ": --group=%s: there is no such group ('getent group' lists "
             "them)\n", s->group);
    return -1;
  }
  return 0;
}

static int
check (struct serve *s)
{
  if (s->nr_devices == 0) {
    fprintf (stderr, NAME ": which drive? For example: shingle serve /dev/sg1\n"
             "  'shingle doctor' lists the drives of this machine\n");
    return -1;
  }
  if (strcmp (s->plugin, "zoned") != 0 && strcmp (s->plugin, "sg") != 0) {
    fprintf (stderr, NAME ": --plugin is zoned or sg, not '%s'\n", s->plugin);
    return -1;
  }
  if (s->read_only && has_parameter (s, "readonly")) {
    fprintf (stderr, NAME ": --read-only and readonly=; choose one\n");
    return -1;
  }
  if (s->control && strcmp (s->control, "-") != 0 && strcmp (s->plugin, "zoned") != 0) {
    fprintf (stderr, NAME ": --control goes with --plugin=zoned; the plugin sg has no "
             "counters to tell\n");
    return -1;
  }
  if (s->socket && (s->port || s->ip)) {
    fprintf (stderr, NAME ": --socket is for this machine, --port and --ip for TCP; "
             "choose one\n");
    return -1;
  }
  if (s->activated && (s->socket || s->port || s->ip)) {
    fprintf (stderr, NAME ": systemd has opened the socket; --socket, --port and --ip "
             "are of no use\n");
    return -1;
  }
  if (s->ip && !uses_tls (s) && !s->insecure && !stays_local (s->ip)) {
    fprintf (stderr, NAME ": whoever can reach %s could read and write the drive: "
             "this needs TLS\n"
             "  give --tls-psk FILE or --tls-certificates DIR ('man shingle-serve' shows "
             "how to make them),\n"
             "  or --insecure if every machine that can connect is trusted\n", s->ip);
    return -1;
  }
  if (s->tls_certificates && s->tls_psk) {
    fprintf (stderr, NAME ": either --tls-certificates or --tls-psk\n");
    return -1;
  }
  if (s->tls_verify_peer && !s->tls_certificates) {
    fprintf (stderr, NAME ": --tls-verify-peer goes with --tls-certificates\n");
    return -1;
  }
  return check_identity (s);
}

/*--- defaults ---------------------------------------------------------------*/

/* /run/shingle for root, else under the user's runtime folder; made if it is
   missing.  malloc'd. */
static char *
runtime_folder (void)
{
  const char *user_folder = getenv ("XDG_RUNTIME_DIR");
  char *folder;
  struct stat st;
  int r;

  if (geteuid () == 0)
    r = asprintf (&folder, "/run/shingle");
  else if (user_folder && user_folder[0] == '/')
    r = asprintf (&folder, "%s/shingle", user_folder);
  else
    r = asprintf (&folder, "/tmp/shingle-%u", (unsigned) geteuid ());
  if (r == -1)
    return NULL;
  if (mkdir (folder, geteuid () == 0 ? 0755 : 0700) == -1 && errno != EEXIST)
    fprintf (stderr, NAME ": %s: %s\n", folder, strerror (errno));
  else if (lstat (folder, &st) == 0 && S_ISDIR (st.st_mode) && st.st_uid == geteuid ())
    return folder;
  else
    fprintf (stderr, NAME ": %s belongs to somebody else; give --socket\n", folder);
  free (folder);
  return NULL;
}

/* The last part of the first device's name. */
static void
short_name (const struct serve *s, char name[64])
{
  const char *device = NULL, *p;
  unsigned i;

  for (i = 0; !device && i < s->nr_parameters; ++i)
    if (strncmp (s->parameters[i], "device=", 7) == 0)
      device = s->parameters[i] + 7;
  p = device ? strrchr (device, '/') : NULL;
  p = p ? p + 1 : device ? device : "";
  if (strncmp (p, "emu:", 4) == 0)
    p += 4;
  snprintf (name, 64, "%.60s", p[0] ? p : "drive");
}

/* Names for what was not named, side by side with the socket. */
static int
make_names (struct serve *s)
{
  char name[64], base[256];
  char *folder;

  if (s->socket)
    snprintf (base, sizeof base, "%s", s->socket);
  else {
    folder = runtime_folder ();
    if (!folder)
      return s->control && s->pid_file && (s->port || s->activated) ? 0 : -1;
    short_name (s, name);
    snprintf (base, sizeof base, "%.190s/%s", folder, name);
    free (folder);
    if (!s->port && !s->activated) {
      if (asprintf (&s->made_socket, "%s.sock", base) == -1)
        return -1;
      s->socket = s->made_socket;
    }
  }
  if (!s->control && strcmp (s->plugin, "zoned") == 0) {
    if (asprintf (&s->made_control, "%s.control", base) == -1)
      return -1;
    s->control = s->made_control;
  }
  if (!s->pid_file && !s->foreground) {
    if (asprintf (&s->made_pid_file, "%s.pid", base) == -1)
      return -1;
    s->pid_file = s->made_pid_file;
  }
  return 0;
}

/* nbdkit leaves its socket behind; one that nobody listens to is in the way. */
static void
remove_dead_socket (const char *path)
{
  struct sockaddr_un address = { .sun_family = AF_UNIX };
  struct stat st;
  int fd;

  if (strlen (path) >= sizeof address.sun_path || lstat (path, &st) == -1
      || !S_ISSOCK (st.st_mode))
    return;
  strcpy (address.sun_path, path);
  fd = socket (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd == -1)
    return;
  if (connect (fd, (struct sockaddr *) &address, sizeof address) == -1
      && errno == ECONNREFUSED)
    unlink (path);
  close (fd);
}

/*--- nbdkit's command line --------------------------------------------------*/

static int __attribute__ ((format (printf, 2, 3)))
word (struct serve *s, const char *fmt, ...)
{
  va_list ap;
  int r;

  if (s->nr_words == MAX_WORDS - 1)
    return -1;
  va_start (ap, fmt);
  r = vasprintf (&s->words[s->nr_words], fmt, ap);
  va_end (ap);
  if (r == -1)
    return -1;
  s->words[++s->nr_words] = NULL;
  return 0;
}

static int
object_words (struct serve *s)
{
  char *path;
  bool found;
  unsigned i;
  int r = 0;

  for (i = 0; r == 0 && i < s->nr_filters; ++i) {
    path = find_nbdkit_object ("filter", s->filters[i], &found);
    r = path ? word (s, "--filter=%s", path) : -1;
    free (path);
  }
  path = find_nbdkit_object ("plugin", s->plugin, &found);
  if (r == 0)
    r = path ? word (s, "%s", path) : -1;
  free (path);
  return r;
}

static int
build_words (struct serve *s)
{
  unsigned i;
  int r = word (s, "nbdkit");

  if (s->foreground && !s->activated)
    r |= word (s, "--foreground");
  if (s->verbose)
    r |= word (s, "--verbose");
  if (s->read_only)
    r |= word (s, "--readonly");
  if (s->socket)
    r |= word (s, "--unix=%s", s->socket);
  if (s->port) {
    r |= word (s, "--ipaddr=%s", s->ip ? s->ip : "127.0.0.1");
    r |= word (s, "--port=%s", s->port);
  }
  if (s->pid_file)
    r |= word (s, "--pidfile=%s", s->pid_file);
  if (s->threads)
    r |= word (s, "--threads=%s", s->threads);
  if (s->user)
    r |= word (s, "--user=%s", s->user);
  if (s->group)
    r |= word (s, "--group=%s", s->group);
  if (uses_tls (s))
    r |= word (s, "--tls=require");
  if (s->tls_certificates)
    r |= word (s, "--tls-certificates=%s", s->tls_certificates);
  if (s->tls_psk)
    r |= word (s, "--tls-psk=%s", s->tls_psk);
  if (s->tls_verify_peer)
    r |= word (s, "--tls-verify-peer");
  r |= object_words (s);
  for (i = 0; i < s->nr_parameters; ++i)
    r |= word (s, "%s", s->parameters[i]);
  if (s->read_only)
    r |= word (s, "readonly=true");
  if (s->control && strcmp (s->control, "-") != 0)
    r |= word (s, "control=%s", s->control);
  if (r != 0)
    fprintf (stderr, NAME ": too many arguments, or no memory\n");
  return r == 0 ? 0 : -1;
}

/* As a shell takes it. */
static void
print_quoted (const char *text)
{
  if (text[0] != '\0'
      && strspn (text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                       "-_=/.,:+@") == strlen (text)) {
    fputs (text, stdout);
    return;
  }
  putchar ('\'');
  for (; *text; ++text)
    if (*text == '\'')
      fputs ("'\\''", stdout);
    else
      putchar (*text);
  putchar ('\'');
}

/*--- what to do next --------------------------------------------------------*/

static void
print_uri (const struct serve *s, char uri[512])
{
  const char *tls = uses_tls (s) ? "s" : "";

  if (s->socket)
    snprintf (uri, 512, "nbd%s+unix:///?socket=%s", tls, s->socket);
  else {
    const char *host = s->ip ? s->ip : "127.0.0.1";
    const bool v6 = strchr (host, ':') != NULL;

    if (strcmp (host, "0.0.0.0") == 0 || strcmp (host, "::") == 0)
      snprintf (uri, 512, "nbd%s://THIS-MACHINE:%s", tls, s->port);
    else
      snprintf (uri, 512, "nbd%s://%s%s%s:%s", tls, v6 ? "[" : "", host, v6 ? "]" : "",
                s->port);
  }
  if (s->tls_psk)
    snprintf (uri + strlen (uri), 512 - strlen (uri), "%ctls-psk-file=%s",
              s->socket ? '&' : '?', s->tls_psk);
  else if (s->tls_certificates)
    snprintf (uri + strlen (uri), 512 - strlen (uri), "%ctls-certificates=DIR",
              s->socket ? '&' : '?');
}

static void
print_clients (const struct serve *s)
{
  char uri[512];

  if (s->activated)
    return;
  print_uri (s, uri);
  printf ("Serving at %s\n\n"
          "What is there:          nbdinfo --list '%s'\n"
          "As a file:              shingle mount '%s' MOUNTPOINT\n"
          "                    or  nbdfuse MOUNTPOINT '%s'\n"
          "In a virtual machine:   qemu-system-x86_64 -drive 'file=%s,format=raw,if=virtio'\n",
          uri, uri, uri, uri, uri);
  if (s->socket && !uses_tls (s))
    printf ("As a block device:      nbd-client -unix '%s' /dev/nbd0 -C 4 -t 90\n", s->socket);
  else if (!uses_tls (s))
    printf ("As a block device:      nbd-client %s %s /dev/nbd0 -C 4 -t 90\n",
            s->ip ? s->ip : "127.0.0.1", s->port);
  if (s->control && strcmp (s->control, "-") != 0)
    printf ("Watch it:               shingle top '%s'\n", s->control);
  if (s->pid_file)
    printf ("End it:                 kill $(cat '%s')\n", s->pid_file);
  fflush (stdout);
}

/* nbdkit's command returns a moment before its server has written the file. */
static bool
wait_for_pid_file (const char *path)
{
  struct stat st;
  unsigned i;

  for (i = 0; i < 1000; ++i) {
    if (stat (path, &st) == 0 && st.st_size > 0)
      return true;
    usleep (10000);
  }
  fprintf (stderr, NAME ": the server has not written %s\n", path);
  return false;
}

static int
run_and_print (struct serve *s)
{
  pid_t child;
  int status;

  if (s->pid_file)
    unlink (s->pid_file);       /* an old one would be mistaken for ours */
  child = fork ();
  if (child == -1) {
    perror (NAME ": fork");
    return STATUS_FAILED;
  }
  if (child == 0) {
    execvp ("nbdkit", s->words);
    fprintf (stderr, NAME ": nbdkit: %s\n  install it: apt-get install nbdkit\n",
             strerror (errno));
    _exit (127);
  }
  while (waitpid (child, &status, 0) == -1)
    if (errno != EINTR)
      return STATUS_FAILED;
  if (!WIFEXITED (status) || WEXITSTATUS (status) != 0)
    return STATUS_FAILED;       /* nbdkit has said why */
  if (s->pid_file && !wait_for_pid_file (s->pid_file))
    return STATUS_FAILED;
  print_clients (s);
  return STATUS_OK;
}

static int
go (struct serve *s)
{
  struct sh_error err = { 0 };
  unsigned i;

  if (s->print) {
    for (i = 0; i < s->nr_words; ++i) {
      if (i > 0)
        putchar (' ');
      print_quoted (s->words[i]);
    }
    putchar ('\n');
    return STATUS_OK;
  }
  if (s->pid_file && pid_file_check (s->pid_file, &err) == -1) {
    print_error (NAME, &err);
    return STATUS_FAILED;
  }
  if (s->socket)
    remove_dead_socket (s->socket);
  if (!s->foreground && !s->activated)
    return run_and_print (s);
  print_clients (s);
  execvp ("nbdkit", s->words);
  fprintf (stderr, NAME ": nbdkit: %s\n  install it: apt-get install nbdkit\n",
           strerror (errno));
  return STATUS_FAILED;
}

static bool
is_activated (void)
{
  const char *pid = getenv ("LISTEN_PID"), *fds = getenv ("LISTEN_FDS");

  return pid && fds && strtol (pid, NULL, 10) == (long) getpid ();
}

static int
run (struct serve *s, int argc, char **argv)
{
  struct args a;
  int id;

  args_init (&a, NAME, options, argc, argv);
  while ((id = args_next (&a)) != ARGS_END) {
    if (id == ARGS_HELP) {
      help ();
      return STATUS_OK;
    }
    if (id == ARGS_ERROR || set_option (s, &a, id) == -1)
      return STATUS_USAGE;
  }
  if (s->ip && !s->port)
    s->port = NBD_PORT;
  s->activated = is_activated ();
  if (check (s) == -1)
    return STATUS_USAGE;
  if (make_names (s) == -1 || build_words (s) == -1)
    return STATUS_FAILED;
  return go (s);
}

int
command_serve (int argc, char **argv)
{
  struct serve s = { .plugin = "zoned" };
  const int status = run (&s, argc, argv);
  unsigned i;

  for (i = 0; i < s.nr_parameters; ++i)
    free (s.parameters[i]);
  for (i = 0; i < s.nr_words; ++i)
    free (s.words[i]);
  free (s.made_socket);
  free (s.made_pid_file);
  free (s.made_control);
  return status;
}
