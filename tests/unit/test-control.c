/* SPDX-License-Identifier: BSD-3-Clause */
/* The control socket: lines in, lines out, whatever the clients do. */
#include <config.h>
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <json-c/json.h>

#include "base/bytes.h"
#include "base/error.h"
#include "stack/control.h"

static char folder[] = "/tmp/shingle-control.XXXXXX";
static char path[64];
static struct control *control;

static struct json_object *
echo (void *opaque, const struct json_object *request, struct sh_error *err)
{
  struct json_object *answer, *word;

  ck_assert_ptr_eq (opaque, folder);
  if (!json_object_object_get_ex (request, "say", &word)) {
    sh_fail (err, EINVAL, "nothing to say");
    sh_hint (err, "say something");
    return NULL;
  }
  answer = json_object_new_object ();
  json_object_object_add (answer, "said", json_object_get (word));
  return answer;
}

static void
set_up (void)
{
  struct sh_error err = { 0 };

  ck_assert_ptr_nonnull (mkdtemp (folder));
  snprintf (path, sizeof path, "%s/socket", folder);
  ck_assert_int_eq (control_open (path, echo, folder, NULL, &control, &err), 0);
  ck_assert_int_eq (control_start (control, &err), 0);
}

static void
tear_down (void)
{
  control_close (control);
  ck_assert_int_eq (access (path, F_OK), -1);
  rmdir (folder);
}

static int
dial (void)
{
  struct sockaddr_un address = { .sun_family = AF_UNIX };
  const int fd = socket (AF_UNIX, SOCK_STREAM, 0);

  strcpy (address.sun_path, path);
  ck_assert_int_eq (connect (fd, (struct sockaddr *) &address, sizeof address), 0);
  return fd;
}

static void
say (int fd, const char *text)
{
  ck_assert_int_eq (send (fd, text, strlen (text), MSG_NOSIGNAL), (ssize_t) strlen (text));
}

/* One line from the server, without its end; "" when it has hung up. */
static const char *
hear (int fd)
{
  static char line[4096];
  size_t n = 0;

  while (n < sizeof line - 1 && recv (fd, &line[n], 1, 0) == 1 && line[n] != '\n')
    n++;
  line[n] = '\0';
  return line;
}

START_TEST (test_a_line_in_a_line_out)
{
  const int fd = dial ();

  say (fd, "{\"say\": \"moin\"}\n");
  ck_assert_str_eq (hear (fd), "{\"said\":\"moin\",\"ok\":true}");
  /* In pieces, and two at once. */
  say (fd, "{\"say\":");
  usleep (10000);
  say (fd, " 1}\n{\"say\": 2}\n");
  ck_assert_str_eq (hear (fd), "{\"said\":1,\"ok\":true}");
  ck_assert_str_eq (hear (fd), "{\"said\":2,\"ok\":true}");
  close (fd);
}
END_TEST

START_TEST (test_refusals_leave_the_connection_alive)
{
  const int fd = dial ();

  say (fd, "{}\n");
  ck_assert_str_eq (hear (fd), "{\"ok\":false,\"error\":\"nothing to say\","
                               "\"hint\":\"say something\"}");
  say (fd, "this is no JSON\n[1]\n\n");
  ck_assert_ptr_nonnull (strstr (hear (fd), "\"ok\":false"));
  ck_assert_ptr_nonnull (strstr (hear (fd), "one JSON object"));
  ck_assert_ptr_nonnull (strstr (hear (fd), "one JSON object"));
  say (fd, "{\"say\":3}\n");
  ck_assert_str_eq (hear (fd), "{\"said\":3,\"ok\":true}");
  close (fd);
}
END_TEST

START_TEST (test_an_endless_line_is_refused)
{
  const int fd = dial ();
  char *flood = malloc (CONTROL_MAX_LINE);

  memset (flood, ' ', CONTROL_MAX_LINE);
  ck_assert_int_eq (send (fd, flood, CONTROL_MAX_LINE, MSG_NOSIGNAL), CONTROL_MAX_LINE);
  ck_assert_ptr_nonnull (strstr (hear (fd), "too long"));
  ck_assert_str_eq (hear (fd), "");
  free (flood);
  close (fd);
}
END_TEST

START_TEST (test_many_clients_come_and_go)
{
  int fds[CONTROL_MAX_CLIENTS + 1];
  unsigned round, i;

  for (round = 0; round < 20; ++round) {
    for (i = 0; i < CONTROL_MAX_CLIENTS; ++i) {
      static const char text[] = "{\"say\":4}\n";

      fds[i] = dial ();
      /* The last round's connections may still be about to end. */
      if (send (fds[i], text, strlen (text), MSG_NOSIGNAL) == -1
          || strcmp (hear (fds[i]), "{\"said\":4,\"ok\":true}") != 0) {
        close (fds[i]);
        usleep (1000);
        i--;
      }
    }
    fds[i] = dial ();
    ck_assert_ptr_nonnull (strstr (hear (fds[i]), "too many"));
    for (i = 0; i < ARRAY_SIZE (fds); ++i)
      close (fds[i]);
  }
}
END_TEST

START_TEST (test_a_client_that_waits_does_not_delay_the_end)
{
  const int idle = dial (), half = dial ();

  say (half, "{\"say\":");
  control_close (control);
  ck_assert_str_eq (hear (idle), "");
  ck_assert_str_eq (hear (half), "");
  close (idle);
  close (half);
  control = NULL;
}
END_TEST

START_TEST (test_the_socket_is_for_owner_and_group)
{
  struct stat st;

  ck_assert_int_eq (stat (path, &st), 0);
  ck_assert_int_eq (st.st_mode & 07777, 0660);
}
END_TEST

START_TEST (test_a_live_socket_is_kept_and_a_dead_one_replaced)
{
  struct sockaddr_un address = { .sun_family = AF_UNIX };
  struct sh_error err = { 0 };
  struct control *second = NULL;
  char other[80];
  int fd;

  ck_assert_int_eq (control_open (path, echo, folder, NULL, &second, &err), -1);
  ck_assert_int_eq (err.errnum, EADDRINUSE);
  ck_assert_ptr_nonnull (strstr (err.message, path));

  snprintf (other, sizeof other, "%s/other", folder);
  strcpy (address.sun_path, other);
  fd = socket (AF_UNIX, SOCK_STREAM, 0);
  ck_assert_int_eq (bind (fd, (struct sockaddr *) &address, sizeof address), 0);
  close (fd);
  sh_error_clear (&err);
  ck_assert_int_eq (control_open (other, echo, folder, NULL, &second, &err), 0);
  control_close (second);
  ck_assert_int_eq (access (other, F_OK), -1);
}
END_TEST

START_TEST (test_a_file_of_that_name_is_not_touched)
{
  struct sh_error err = { 0 };
  struct control *second = NULL;
  char file[80], long_path[200];

  snprintf (file, sizeof file, "%s/file", folder);
  fclose (fopen (file, "w"));
  ck_assert_int_eq (control_open (file, echo, folder, NULL, &second, &err), -1);
  ck_assert_int_eq (access (file, F_OK), 0);
  unlink (file);

  memset (long_path, 'x', sizeof long_path);
  long_path[0] = '/';
  long_path[sizeof long_path - 1] = '\0';
  sh_error_clear (&err);
  ck_assert_int_eq (control_open (long_path, echo, folder, NULL, &second, &err), -1);
  ck_assert_int_eq (err.errnum, ENAMETOOLONG);
}
END_TEST

int
main (void)
{
  Suite *suite = suite_create ("control");
  TCase *tcase = tcase_create ("socket");
  SRunner *runner = srunner_create (suite);
  int failed;

  tcase_add_checked_fixture (tcase, set_up, tear_down);
  tcase_add_test (tcase, test_a_line_in_a_line_out);
  tcase_add_test (tcase, test_refusals_leave_the_connection_alive);
  tcase_add_test (tcase, test_an_endless_line_is_refused);
  tcase_add_test (tcase, test_many_clients_come_and_go);
  tcase_add_test (tcase, test_a_client_that_waits_does_not_delay_the_end);
  tcase_add_test (tcase, test_the_socket_is_for_owner_and_group);
  tcase_add_test (tcase, test_a_live_socket_is_kept_and_a_dead_one_replaced);
  tcase_add_test (tcase, test_a_file_of_that_name_is_not_touched);
  suite_add_tcase (suite, tcase);
  srunner_run_all (runner, CK_NORMAL);
  failed = srunner_ntests_failed (runner);
  srunner_free (runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
