/* SPDX-License-Identifier: BSD-3-Clause */
/* core/scsi: sense data and pages of every length.  Each buffer is exactly as
 * long as it says, so that the address sanitizer sees any read behind it. */
#include <config.h>
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include "base/bytes.h"
#include "base/error.h"
#include "scsi/report.h"
#include "scsi/sense.h"
#include "scsi/vpd.h"

static uint8_t *
exactly (const uint8_t *from, size_t len)
{
  uint8_t *p = malloc (len ? len : 1);

  memcpy (p, from, len);
  return p;
}

static bool
parse (const uint8_t *buf, size_t len, struct sense *s)
{
  uint8_t *p = exactly (buf, len);
  const bool r = sense_parse (p, len, s);

  free (p);
  return r;
}

static const uint8_t fixed[18] = {
  0xf0, 0, 0x23, 0x00, 0x01, 0x02, 0x03, 10, 0, 0, 0, 0, 0x11, 0x04, 0, 0, 0, 0,
};
static const uint8_t descriptor[20] = {
  0x72, 0x03, 0x11, 0x04, 0, 0, 0, 12, 0x00, 0x0a, 0x80, 0, 0, 0, 0, 1, 2, 3, 4, 5,
};

START_TEST (both_formats_tell_the_same)
{
  struct sense s;

  ck_assert (parse (fixed, sizeof fixed, &s));
  ck_assert (s.usable && !s.deferred && s.has_information);
  ck_assert_int_eq (s.key, SENSE_MEDIUM);
  ck_assert_int_eq (s.asc << 8 | s.ascq, 0x1104);
  ck_assert_uint_eq (s.information, 0x010203);
  ck_assert (parse (descriptor, sizeof descriptor, &s));
  ck_assert (s.usable && !s.deferred && s.has_information);
  ck_assert_int_eq (s.key, SENSE_MEDIUM);
  ck_assert_int_eq (s.asc << 8 | s.ascq, 0x1104);
  ck_assert_uint_eq (s.information, UINT64_C (0x0102030405));
}
END_TEST

START_TEST (deferred_formats_are_told)
{
  uint8_t buf[20];
  struct sense s;

  memcpy (buf, fixed, sizeof fixed);
  buf[0] = 0x71;
  ck_assert (parse (buf, sizeof fixed, &s) && s.deferred);
  memcpy (buf, descriptor, sizeof descriptor);
  buf[0] = 0x73;
  ck_assert (parse (buf, sizeof descriptor, &s) && s.deferred);
}
END_TEST

START_TEST (short_sense_is_read_as_far_as_it_goes)
{
  struct sense s;

  for (size_t len = 0; len <= sizeof fixed; ++len) {
    ck_assert (parse (fixed, len, &s) == (len >= 3));
    ck_assert_int_eq (s.key, len >= 3 ? 3 : 0);
    ck_assert_int_eq (s.asc, len >= 13 ? 0x11 : 0);
    ck_assert_int_eq (s.ascq, len >= 14 ? 0x04 : 0);
    ck_assert (s.has_information == (len >= 7));
  }
  for (size_t len = 0; len <= sizeof descriptor; ++len) {
    ck_assert (parse (descriptor, len, &s) == (len >= 2));
    ck_assert_int_eq (s.key, len >= 2 ? 3 : 0);
    ck_assert_int_eq (s.asc, len >= 3 ? 0x11 : 0);
    ck_assert_int_eq (s.ascq, len >= 4 ? 0x04 : 0);
    ck_assert (s.has_information == (len >= 20));
  }
}
END_TEST

/* The buffer is long, but the drive says that it filled eight bytes. */
START_TEST (bytes_behind_the_additional_length_are_no_sense)
{
  uint8_t buf[18];
  struct sense s;

  memcpy (buf, fixed, sizeof buf);
  buf[7] = 0;
  ck_assert (parse (buf, sizeof buf, &s));
  ck_assert_int_eq (s.key, 3);
  ck_assert_int_eq (s.asc, 0);
  buf[7] = 255;                 /* and more than there is cannot be read */
  ck_assert (parse (buf, sizeof buf, &s));
  ck_assert_int_eq (s.asc, 0x11);
}
END_TEST

START_TEST (descriptors_that_lie_about_their_length_end_the_search)
{
  uint8_t buf[20];
  struct sense s;

  memcpy (buf, descriptor, sizeof buf);
  buf[9] = 200;
  ck_assert (parse (buf, sizeof buf, &s) && !s.has_information);
  memcpy (buf, descriptor, sizeof buf);
  buf[8] = 0x02;                /* another descriptor */
  ck_assert (parse (buf, sizeof buf, &s) && !s.has_information);
}
END_TEST

START_TEST (unknown_formats_hold_no_sense)
{
  for (unsigned code = 0; code < 256; ++code) {
    uint8_t buf[18] = { (uint8_t) code, 5, 5, [7] = 10 };
    struct sense s;
    const bool known = (code & 0x7f) >= 0x70 && (code & 0x7f) <= 0x73;

    ck_assert (parse (buf, sizeof buf, &s) == known);
    ck_assert (s.usable == known && (known || (s.key == 0 && !s.deferred)));
  }
  for (unsigned key = 0; key < 16; ++key)
    ck_assert_ptr_nonnull (sense_key_name ((uint8_t) key));
}
END_TEST

/* Pages of every length, full of ones: what does not arrive reads as zero. */
START_TEST (pages_of_any_length_are_read_as_far_as_they_go)
{
  uint8_t ones[256], *p;

  memset (ones, 0xff, sizeof ones);
  for (size_t n = 0; n <= 80; ++n) {
    struct block_limits bl;
    struct characteristics ch;
    struct provisioning lp;
    struct zoned_limits zl;
    struct capacity cap;
    struct mode_sense ms;
    struct inquiry inq;
    struct report report;
    uint8_t id[16], usage;
    char text[8];

    p = exactly (ones, n);
    vpd_block_limits (p, n, &bl);
    ck_assert_uint_eq (bl.max_transfer_blocks, n >= 8 ? UINT32_MAX : 0);
    ck_assert_uint_eq (bl.max_write_same_blocks, n >= 40 ? UINT64_MAX : 0);
    vpd_characteristics (p, n, &ch);
    ck_assert (ch.rotational && ch.zoned == (n >= 5 ? 3 : 0));
    vpd_provisioning (p, n, &lp);
    ck_assert (lp.unmap == (n >= 2));
    vpd_zoned (p, n, &zl);
    ck_assert (zl.max_open == 0 && zl.urswrz == (n >= 1));
    ck_assert (capacity10_parse (p, n, &cap) == (n >= 8));
    ck_assert (capacity16_parse (p, n, &cap) == (n >= 12));
    ck_assert (mode_sense_parse (p, n, true, &ms) == (n >= 8));
    ck_assert (mode_sense_parse (p, n, false, &ms) == (n >= 4));
    ck_assert (inquiry_parse (p, n, &inq) == (n >= 36));
    ck_assert (report_parse (p, n, &report) == (n >= 64));
    ck_assert_uint_eq (vpd_identity (p, n, id), 0);
    opcode_support_parse (p, n, &usage);
    vpd_lists (p, n, 0x80);
    vpd_text (p, n, text, sizeof text);
    ck_assert_uint_eq (strlen (text), MIN (n, 7u));
    free (p);
  }
}
END_TEST

START_TEST (a_page_is_taken_only_for_what_it_is)
{
  const uint8_t page[] = { 0x00, 0xb0, 0x00, 0x04, 1, 2, 3, 4 };
  const uint8_t *p;
  size_t n;

  ck_assert (vpd_payload (page, sizeof page, VPD_BLOCK_LIMITS, &p, &n));
  ck_assert_uint_eq (n, 4);
  ck_assert (vpd_payload (page, 6, VPD_BLOCK_LIMITS, &p, &n));
  ck_assert_uint_eq (n, 2);
  ck_assert (!vpd_payload (page, sizeof page, VPD_ZONED, &p, &n));
  ck_assert (!vpd_payload (page, 3, VPD_BLOCK_LIMITS, &p, &n));
  ck_assert_uint_eq (n, 0);
}
END_TEST

START_TEST (the_best_designator_of_the_unit_is_taken)
{
  static const uint8_t pages[] = {
    0x02, 0x01, 0, 4, 'M', 'A', 'K', 'E',               /* T10 vendor */
    0x01, 0x13, 0, 8, 1, 1, 1, 1, 1, 1, 1, 1,           /* NAA of a port */
    0x01, 0x03, 0, 8, 0x50, 2, 2, 2, 2, 2, 2, 2,        /* NAA of the unit */
    0x01, 0x02, 0, 8, 3, 3, 3, 3, 3, 3, 3, 3,           /* EUI-64 */
  };
  uint8_t id[16];

  ck_assert_uint_eq (vpd_identity (pages, sizeof pages, id), 8);
  ck_assert_int_eq (id[0], 0x50);
  ck_assert_uint_eq (vpd_identity (pages, 20, id), 4);
  ck_assert_int_eq (id[0], 'M');
  ck_assert_uint_eq (vpd_identity (pages, 31, id), 4);  /* cut short: not taken */
}
END_TEST

START_TEST (names_are_trimmed_and_printable)
{
  char out[9];

  vpd_text ((const uint8_t *) "  ab\x01\xff  ", 8, out, sizeof out);
  ck_assert_str_eq (out, "ab??");
  vpd_text ((const uint8_t *) "        ", 8, out, sizeof out);
  ck_assert_str_eq (out, "");
  vpd_text ((const uint8_t *) "abcdefgh\0\0", 10, out, sizeof out);
  ck_assert_str_eq (out, "abcdefgh");
}
END_TEST

int
main (void)
{
  Suite *suite = suite_create ("sense");
  TCase *tcase = tcase_create ("sense");
  SRunner *runner;
  int failed;

  tcase_add_test (tcase, both_formats_tell_the_same);
  tcase_add_test (tcase, deferred_formats_are_told);
  tcase_add_test (tcase, short_sense_is_read_as_far_as_it_goes);
  tcase_add_test (tcase, bytes_behind_the_additional_length_are_no_sense);
  tcase_add_test (tcase, descriptors_that_lie_about_their_length_end_the_search);
  tcase_add_test (tcase, unknown_formats_hold_no_sense);
  tcase_add_test (tcase, pages_of_any_length_are_read_as_far_as_they_go);
  tcase_add_test (tcase, a_page_is_taken_only_for_what_it_is);
  tcase_add_test (tcase, the_best_designator_of_the_unit_is_taken);
  tcase_add_test (tcase, names_are_trimmed_and_printable);
  suite_add_tcase (suite, tcase);
  runner = srunner_create (suite);
  srunner_run_all (runner, CK_ENV);
  failed = srunner_ntests_failed (runner);
  srunner_free (runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
