/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of every main of a Check program. */
#ifndef RUN_SUITE_H
#define RUN_SUITE_H

#include <check.h>
#include <stdlib.h>

static inline int
run_suite (Suite *suite)
{
  SRunner *const r = srunner_create (suite);
  int failed;

  srunner_run_all (r, CK_ENV);
  failed = srunner_ntests_failed (r);
  srunner_free (r);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#endif
