/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A drive that answers anything, from a seed:
 *   - random bytes of every length as sense data, pages and zone reports: each
 *     parser ends and never reads behind the end;
 *   - a drive whose pages are damaged, or that fails while it is opened: it is
 *     refused with a sentence, or what it is said to be makes sense;
 *   - a drive that answers reads and writes with any errors, with none, half or
 *     all of a write done: a write that is said to be done is there once, and
 *     after one that failed the part that is said to be done is.
 * Run under AddressSanitizer it must be silent.
 *
 * Usage: fuzz-scsi [ROUNDS [FIRST-SEED]]; a failure prints its seed.
 */
#undef NDEBUG
#include <config.h>
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/bdev.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/log.h"
#include "scsi/cdb.h"
#include "scsi/disk.h"
#include "scsi/report.h"
#include "scsi/sense.h"
#include "scsi/vpd.h"
#include "unit/fake-drive.h"

#define ROUNDS 1000
#define LBS 512u
#define ZONE_LBAS 256u

static uint64_t state, seed;

/* splitmix64 */
static uint64_t
dice (uint64_t sides)
{
  uint64_t z = state += UINT64_C (0x9e3779b97f4a7c15);

  z = (z ^ z >> 30) * UINT64_C (0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * UINT64_C (0x94d049bb133111eb);
  return (z ^ z >> 31) % sides;
}

static void
require (bool ok, const char *what)
{
  if (ok)
    return;
  fprintf (stderr, "seed %llu: %s (%s)\n", (unsigned long long) seed, what,
           strerror (errno));
  abort ();
}

/* ---- parsers ---- */

static void
parse_report (const uint8_t *p, size_t n)
{
  const struct report_limits limits = { dice (2) ? UINT64_MAX >> 12 : dice (1 << 20), 9 };
  struct report report;

  if (!report_parse (p, n, &report))
    return;
  for (size_t i = 0; i < report.nr; ++i) {
    struct sh_error err = { 0 };
    struct bdev_zone z;
    const uint64_t lba = dice (2) ? report_lba (&report, i) : dice (1 << 20);

    if (report_zone (&report, i, &limits, lba, &z, &err) == -1)
      require (err.errnum == EPROTO && err.message[0], "a zone is refused in silence");
    else
      require (z.start_bytes + z.len_bytes <= limits.nr_lbas << 9 && z.len_bytes > 0 &&
               (z.wp_bytes == UINT64_MAX || (z.wp_bytes >= z.start_bytes &&
                z.wp_bytes <= z.start_bytes + z.len_bytes)), "a zone makes no sense");
  }
}

static void
parse_bytes (void)
{
  const size_t n = dice (300);
  uint8_t *p = malloc (n ? n : 1);      /* exactly: the sanitizer sees its end */
  struct sense sense;
  struct inquiry inq;
  struct block_limits bl;
  struct characteristics ch;
  struct provisioning lp;
  struct zoned_limits zl;
  struct capacity cap;
  struct mode_sense ms;
  const uint8_t *payload;
  uint8_t id[16], usage;
  char text[17];
  size_t len;

  assert (p);
  for (size_t i = 0; i < n; ++i)
    p[i] = (uint8_t) (dice (3) ? dice (256) : dice (2) ? 0 : 0xff);
  if (n > 0 && dice (2))
    p[0] = (uint8_t) (0x70 + dice (4));
  sense_parse (p, n, &sense);
  require (sense.usable || (!sense.deferred && sense.key == 0), "sense out of nothing");
  if (n >= 4 && dice (2))
    put_be16 (p, 0);
  parse_report (p, n);
  inquiry_parse (p, n, &inq);
  vpd_block_limits (p, n, &bl);
  vpd_characteristics (p, n, &ch);
  vpd_provisioning (p, n, &lp);
  vpd_zoned (p, n, &zl);
  capacity10_parse (p, n, &cap);
  capacity16_parse (p, n, &cap);
  mode_sense_parse (p, n, dice (2), &ms);
  opcode_support_parse (p, n, &usage);
  require (vpd_identity (p, n, id) <= 16, "an identity of too many bytes");
  vpd_text (p, n, text, sizeof text);
  if (vpd_payload (p, n, (enum vpd_page) dice (256), &payload, &len))
    require (payload + len <= p + n, "a payload behind the end");
  free (p);
}

/* ---- answers that may come to any command ---- */

static void
random_answer (struct fake_drive *f, int opcode)
{
  struct fake_script *s = fake_add (f, opcode);
  static const uint8_t statuses[] = { 0x08, 0x18, 0x28, 0x30, 0x40, 0x02, 0x06 };
  static const int errors[] = { ENOMEM, EAGAIN, EINTR, EIO, ETIMEDOUT, EPERM };
  static const uint16_t codes[] = { 0x2100, 0x2104, 0x2105, 0x2400, 0x2900, 0x2901, 0x5d00,
                                    0x1100, 0x0c00, 0x0401, 0x0402, 0x550e, 0x4b03, 0x2000 };

  s->skip = (int) dice (3);
  s->count = (int) (1 + dice (3));
  s->effect = (enum fake_effect) dice (3);
  switch (dice (4)) {
  case 0:
    s->host_status = (uint8_t) (1 + dice (0x15));
    if (s->host_status == SH_HOST_PASSTHROUGH)  /* "believe the status": good */
      s->effect = EFFECT_ALL;
    break;
  case 1:
    s->status = statuses[dice (ARRAY_SIZE (statuses))];
    break;
  case 2:
    s->errnum = errors[dice (ARRAY_SIZE (errors))];
    break;
  default: {
    const uint16_t code = codes[dice (ARRAY_SIZE (codes))];

    s->status = SH_STATUS_CHECK_CONDITION;
    s->sense[0] = dice (16) ? 0x70 : 0x71;
    /* success is no error: it comes with all of the effect */
    s->sense[2] = (uint8_t) (2 + dice (14));
    s->sense[7] = 10;
    put_be16 (s->sense + 12, code);
    s->sense_len = (uint8_t) (dice (4) ? 18 : 3 + dice (16));
    break;
  }
  }
}

/* ---- opening ---- */

static void
damage (struct fake_page *p)
{
  for (uint64_t n = dice (4); n > 0; --n)
    p->bytes[dice (MAX (p->len, 4u))] = (uint8_t) (dice (2) ? dice (256) : dice (2) ? 0 : 0xff);
  if (dice (8) == 0)
    p->len = dice (p->len + 1);
}

static void
damage_zones (struct fake_drive *f)
{
  struct fake_zone *z = &f->zones[dice (f->nr_zones)];

  switch (dice (6)) {
  case 0: z->start = dice (2) ? dice (f->nr_lbas) : dice (UINT64_MAX); break;
  case 1: z->len = dice (2) ? dice (1000) : dice (UINT64_MAX); break;
  case 2: z->wp = dice (2) ? dice (f->nr_lbas) : dice (UINT64_MAX); break;
  case 3: z->type = (uint8_t) dice (16); break;
  case 4: z->cond = (uint8_t) dice (16); break;
  case 5: f->nr_zones = (unsigned) dice (f->nr_zones); break;
  }
}

static void
damage_drive (struct fake_drive *f)
{
  struct fake_page *const pages[] = {
    &f->inquiry, &f->vpd[0x00], &f->vpd[0x80], &f->vpd[0x83], &f->vpd[0xb0], &f->vpd[0xb1],
    &f->vpd[0xb2], &f->vpd[0xb6], &f->capacity16, &f->mode10, &f->mode6, &f->opcodes,
  };

  for (uint64_t n = dice (3); n > 0; --n)
    damage (pages[dice (ARRAY_SIZE (pages))]);
  if (dice (4) == 0 && f->nr_zones > 0)
    damage_zones (f);
  for (uint64_t n = dice (2) ? dice (3) : 0; n > 0; --n)
    random_answer (f, -1);
  if (dice (4) == 0)
    f->limits.max_transfer_bytes = 64 + dice (100000);
}

static void
check_info (const struct bdev_info *info)
{
  require (is_power_of_2 (info->lbs_bytes) && info->lbs_bytes >= 512 &&
           info->lbs_bytes <= 4096, "block size");
  require (info->size_bytes > 0 && info->size_bytes % info->lbs_bytes == 0, "size");
  require ((info->zone_bytes == 0) == (info->nr_zones == 0), "zones");
  if (info->zone_bytes)
    require (DIV_ROUND_UP (info->size_bytes, info->zone_bytes) == info->nr_zones,
             "number of zones");
  require (info->max_zeroes_bytes % info->lbs_bytes == 0, "zeroes");
  require (memchr (info->serial, 0, sizeof info->serial) && info->wwid_len <= 16, "identity");
}

static struct bdev *
open_drive (struct fake_drive *f, struct sh_clock *clock, struct sh_error *err)
{
  const struct disk_options options = { .clock = clock };
  struct transport t;
  struct bdev *bdev;

  *clock = fake_clock (f);
  fake_transport (f, &t);
  return disk_open (&t, &options, &bdev, err) == 0 ? bdev : NULL;
}

static bool
open_damaged (void)
{
  struct fake_drive *f = fake_new (dice (2) ? 512 : 4096, (unsigned) dice (20), 64,
                                   (unsigned) dice (4));
  struct sh_error err = { 0 };
  struct sh_clock clock;
  struct bdev *bdev;

  damage_drive (f);
  bdev = open_drive (f, &clock, &err);
  if (bdev == NULL)
    require (err.errnum > 0 && err.message[0] && strncmp (err.message, "fake: ", 6) == 0,
             "refused without a sentence");
  else {
    check_info (&bdev->info);
    bdev_close (bdev);
  }
  fake_free (f);
  return bdev != NULL;
}

/* ---- reads and writes ---- */

static uint8_t
byte_of (uint64_t off, unsigned generation)
{
  return (uint8_t) (off / LBS * 7 + off % LBS + generation * 13);
}

static void
check_bytes (const uint8_t *data, uint64_t off, uint64_t len, unsigned generation,
             const char *what)
{
  for (uint64_t i = 0; i < len; ++i)
    require (data[i] == byte_of (off + i, generation), what);
}

/* One write at a zone's pointer, or anywhere in a conventional zone. */
static void
write_once (struct fake_drive *f, struct bdev *bdev, unsigned generation)
{
  struct fake_zone *z = &f->zones[dice (f->nr_zones)];
  const bool seq = z->type == ZONE_SEQ_REQUIRED;
  const uint64_t lba = seq ? z->wp : z->start + dice (z->len);
  const uint64_t len = (1 + dice (z->len)) * LBS, off = lba * LBS;
  const uint64_t end = (z->start + z->len) * LBS;
  struct iovec iov;
  struct bdev_req req = { .op = BDEV_WRITE, .off_bytes = off, .iov = &iov, .iovcnt = 1,
                          .flags = dice (2) ? BDEV_FUA : 0 };
  uint8_t *buf;
  int r;

  if (off == end)
    return;
  req.len_bytes = MIN (len, end - off);
  buf = malloc (req.len_bytes);
  assert (buf);
  for (uint64_t i = 0; i < req.len_bytes; ++i)
    buf[i] = byte_of (off + i, generation);
  iov = (struct iovec) { buf, req.len_bytes };
  r = bdev_execute (bdev, &req);
  require (req.done_bytes <= req.len_bytes && req.done_bytes % LBS == 0, "done_bytes");
  require (r == -1 || req.done_bytes == req.len_bytes, "success without all done");
  check_bytes (f->data + off, off, req.done_bytes, generation, "what is done is not there");
  if (seq && r == 0)
    require (z->wp * LBS == off + req.len_bytes, "written more than once");
  if (seq && r == -1)
    require (z->wp * LBS >= off + req.done_bytes && z->wp * LBS <= off + req.len_bytes,
             "the pointer is elsewhere");
  free (buf);
}

static void
read_once (struct fake_drive *f, struct bdev *bdev)
{
  const uint64_t lba = dice (f->nr_lbas);
  const uint64_t len = (1 + dice (f->nr_lbas - lba)) * LBS;
  uint8_t *buf = malloc (len);

  assert (buf);
  if (bdev_read (bdev, buf, len, lba * LBS) == 0)
    require (memcmp (buf, f->data + lba * LBS, len) == 0, "read something else");
  free (buf);
}

static bool
work_with_errors (void)
{
  struct fake_drive *f = fake_new (LBS, 8, ZONE_LBAS, 2);
  struct sh_error err = { 0 };
  struct sh_clock clock;
  struct bdev *bdev;

  f->limits.max_transfer_bytes = (1 + dice (ZONE_LBAS)) * LBS;
  bdev = open_drive (f, &clock, &err);
  require (bdev != NULL, "a good drive is refused");
  for (unsigned i = 0; i < 30; ++i) {
    static const int opcodes[] = { OP_WRITE_16, OP_WRITE_16, OP_READ_16, OP_ZONE_IN, -1 };

    f->nr_log = f->nr_scripts = 0;
    for (uint64_t n = dice (3); n > 0; --n)
      random_answer (f, opcodes[dice (ARRAY_SIZE (opcodes))]);
    if (dice (3))
      write_once (f, bdev, i);
    else
      read_once (f, bdev);
  }
  bdev_close (bdev);
  fake_free (f);
  return true;
}

int
main (int argc, char **argv)
{
  const unsigned long rounds = argc > 1 ? strtoul (argv[1], NULL, 0) : ROUNDS;
  const uint64_t first = argc > 2 ? strtoull (argv[2], NULL, 0) : 1;
  unsigned long opened = 0;

  for (seed = first; seed < first + rounds; ++seed) {
    state = seed;
    for (int i = 0; i < 10; ++i)
      parse_bytes ();
    opened += open_damaged ();
    if (seed % 8 == 0)
      work_with_errors ();
  }
  printf ("%lu rounds, %lu damaged drives could be opened\n", rounds, opened);
  /* A driver that only ever meets refusals, or none, tests nothing. */
  return opened > rounds / 10 && opened < rounds ? EXIT_SUCCESS : EXIT_FAILURE;
}
