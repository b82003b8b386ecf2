/* SPDX-License-Identifier: BSD-3-Clause */
/* The names are scsi_debug's where it has one, plus the ones that people
 * expect of `emu create` (size, zone_size, conventional, model, lbs, ...). */
#include <config.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/bytes.h"
#include "base/error.h"
#include "base/size.h"
#include "transport/emu/settings.h"

#define PTYPE_MANAGED 0x14

/* ---- values ---- */

static int
parse_number (const char *value, int64_t *number)
{
  char *end;

  if (!isdigit ((unsigned char) value[0]) && value[0] != '-')
    return -1;
  errno = 0;
  *number = strtoll (value, &end, 0);
  if (errno == 0 && (*end == 'h' || *end == 'H') && end[1] == '\0')
    *number = strtoll (value, &end, 16), ++end;
  return errno != 0 || *end != '\0' ? -1 : 0;
}

static int
parse_u32 (const char *value, uint32_t *number)
{
  int64_t n;

  if (parse_number (value, &n) == -1 || n < 0 || n > UINT32_MAX)
    return -1;
  *number = (uint32_t) n;
  return 0;
}

static int
parse_bool (const char *value, bool *result)
{
  static const char *const yes[] = { "1", "yes", "true", "on", NULL };
  static const char *const no[] = { "0", "no", "false", "off", NULL };
  size_t i;

  for (i = 0; yes[i]; ++i) {
    if (strcasecmp (value, yes[i]) == 0 || strcasecmp (value, no[i]) == 0) {
      *result = strcasecmp (value, yes[i]) == 0;
      return 0;
    }
  }
  return -1;
}

static int
set_mib (uint64_t *bytes, const char *value)
{
  uint32_t n;

  if (parse_u32 (value, &n) == -1)
    return -1;
  *bytes = n * MiB;
  return 0;
}

/* ---- settings that are more than a value ---- */

static int
set_dev_size_mb (struct emu_settings *s, const char *value)
{
  return set_mib (&s->size_bytes, value);
}

static int
set_zone_size_mb (struct emu_settings *s, const char *value)
{
  return set_mib (&s->zone_bytes, value);
}

static int
set_zone_cap_mb (struct emu_settings *s, const char *value)
{
  return set_mib (&s->zone_cap_bytes, value);
}

static int
set_zbc (struct emu_settings *s, const char *value)
{
  static const char *const names[][2] = {
    [EMU_REGULAR] = { "none", "0" },
    [EMU_HOST_AWARE] = { "aware", "1" },
    [EMU_HOST_MANAGED] = { "managed", "2" },
  };
  size_t i;

  if (strncmp (value, "host-", 5) == 0)
    value += 5;
  for (i = 0; i < ARRAY_SIZE (names); ++i) {
    if (strcmp (value, names[i][0]) == 0 || strcmp (value, names[i][1]) == 0) {
      s->model = (uint32_t) i;
      return 0;
    }
  }
  return -1;
}

static int
set_pbs (struct emu_settings *s, const char *value)
{
  uint64_t bytes;

  if (size_parse (value, &bytes) == -1 || !is_power_of_2 (bytes) ||
      bytes < s->lbs_bytes || bytes / s->lbs_bytes > 1 << 15)
    return -1;
  s->physblk_exp = (uint32_t) __builtin_ctzll (bytes / s->lbs_bytes);
  return 0;
}

static int
set_format (struct emu_settings *s, const char *value)
{
  static const struct { const char *name; uint32_t lbs_bytes, exp; } formats[] = {
    { "512n", 512, 0 }, { "512e", 512, 3 }, { "4Kn", 4096, 0 }, { "4kn", 4096, 0 },
  };
  size_t i;

  for (i = 0; i < ARRAY_SIZE (formats); ++i) {
    if (strcmp (value, formats[i].name) == 0) {
      s->lbs_bytes = formats[i].lbs_bytes;
      s->physblk_exp = formats[i].exp;
      return 0;
    }
  }
  return -1;
}

static int
set_ptype (struct emu_settings *s, const char *value)
{
  int64_t n;

  if (parse_number (value, &n) == -1 || n < -1 || n > 0x1f)
    return -1;
  if (n == PTYPE_MANAGED) {
    s->model = EMU_HOST_MANAGED;
    n = -1;
  }
  s->ptype = (int32_t) n;
  return 0;
}

/* Calls fn for each range of "0-3+17"; -1 when the text is no such list. */
static int
each_range (const char *list, bool (*fn) (void *opaque, uint32_t first, uint32_t last),
            void *opaque)
{
  const char *p = list;

  for (;;) {
    unsigned long first, last;
    char *end;

    if (!isdigit ((unsigned char) *p))
      return -1;
    first = last = strtoul (p, &end, 10);
    if (*end == '-') {
      if (!isdigit ((unsigned char) end[1]))
        return -1;
      last = strtoul (end + 1, &end, 10);
    }
    if (last < first || last > UINT32_MAX - 1)
      return -1;
    if (fn (opaque, (uint32_t) first, (uint32_t) last))
      return 1;
    if (*end == '\0')
      return 0;
    if (*end != '+')
      return -1;
    p = end + 1;
  }
}

static bool
accept_range (void *opaque, uint32_t first, uint32_t last)
{
  return false;
}

static int
set_conv (struct emu_settings *s, const char *value)
{
  uint32_t n;

  if (strcmp (value, "all") == 0) {
    s->nr_conv = EMU_CONV_ALL;
    s->conv_list[0] = '\0';
    return 0;
  }
  if (strchr (value, '-') == NULL && strchr (value, '+') == NULL) {
    if (parse_u32 (value, &n) == -1 || n == EMU_CONV_ALL)
      return -1;
    s->nr_conv = n;
    s->conv_list[0] = '\0';
    return 0;
  }
  if (strlen (value) >= sizeof s->conv_list || each_range (value, accept_range, NULL) == -1)
    return -1;
  s->nr_conv = 0;
  strcpy (s->conv_list, value);
  return 0;
}

/* ---- the table ---- */

static const char *const model_choices[] = {
  [EMU_REGULAR] = "regular",
  [EMU_HOST_AWARE] = "host-aware",
  [EMU_HOST_MANAGED] = "host-managed",
  NULL
};
static const char *const cache_choices[] = {
  [EMU_CACHE_OFF] = "off",
  [EMU_CACHE_SAFE] = "safe",
  [EMU_CACHE_TRACKED] = "tracked",
  NULL
};
static const char *const time_choices[] = {
  [EMU_TIME_NONE] = "none",
  [EMU_TIME_FIXED] = "fixed",
  [EMU_TIME_DISK] = "disk",
  NULL
};

#define AT(field) .offset = offsetof (struct emu_settings, field)
#define BOOL(n, field, h) \
  { .name = n, .kind = EMU_SET_BOOL, AT (field), .max = 1, .help = h }
#define U32(n, field, lo, hi, h) \
  { .name = n, .kind = EMU_SET_U32, AT (field), .min = lo, .max = hi, .help = h }
#define I32(n, field, h) \
  { .name = n, .kind = EMU_SET_I32, AT (field), .max = INT32_MAX, .help = h }
#define TEXT(n, field, h) \
  { .name = n, .kind = EMU_SET_TEXT, AT (field), \
    .max = sizeof ((struct emu_settings *) NULL)->field, .help = h }
#define SHAPE_SIZE(n, field, h) \
  { .name = n, .kind = EMU_SET_SIZE, AT (field), .max = INT64_MAX, .shape = true, .help = h }
#define SHAPE_ALIAS(n, fn, h) \
  { .name = n, .kind = EMU_SET_SPECIAL, .set = fn, .shape = true, .alias = true, .help = h }

const struct emu_setting emu_setting_table[] = {
  SHAPE_SIZE ("size", size_bytes, "size of the drive"),
  { .name = "virtual_gb", .kind = EMU_SET_U32, AT (virtual_gb), .max = 1 << 24, .shape = true,
    .help = "report this capacity in GiB; accesses wrap at the size" },
  { .name = "lbs", .kind = EMU_SET_U32, AT (lbs_bytes), .min = 512, .max = 4096, .shape = true,
    .help = "logical block: 512, 1024, 2048 or 4096 bytes" },
  { .name = "physblk_exp", .kind = EMU_SET_U32, AT (physblk_exp), .max = 15, .shape = true,
    .help = "physical block is the logical one times 2^this" },
  { .name = "model", .kind = EMU_SET_CHOICE, AT (model), .choices = model_choices,
    .shape = true, .help = "host-managed, host-aware or regular" },
  SHAPE_SIZE ("zone_size", zone_bytes, "size of a zone, a power of two"),
  SHAPE_SIZE ("zone_cap", zone_cap_bytes, "writable part of a sequential zone"),
  { .name = "conventional", .kind = EMU_SET_CONV, AT (nr_conv), .set = set_conv,
    .shape = true, .help = "conventional zones: a count, 'all', or a list as 0-3+17" },
  SHAPE_SIZE ("segment", segment_bytes, "largest part of the data in one file"),
  { .name = "serial", .kind = EMU_SET_TEXT, AT (serial),
    .max = sizeof ((struct emu_settings *) NULL)->serial, .shape = true,
    .help = "serial number; random when not given" },
  { .name = "num_parts", .kind = EMU_SET_BOOL, AT (num_parts), .max = 1, .shape = true,
    .help = "an MS-DOS partition table with one partition" },

  TEXT ("inq_vendor", vendor, "vendor in INQUIRY, up to 8 characters"),
  TEXT ("inq_product", product, "product in INQUIRY, up to 16 characters"),
  TEXT ("inq_rev", revision, "revision in INQUIRY, up to 4 characters"),
  { .name = "ptype", .kind = EMU_SET_SPECIAL, AT (ptype), .set = set_ptype,
    .help = "peripheral device type; -1: as the model asks" },
  U32 ("scsi_level", scsi_level, 0, 7, "version in INQUIRY"),
  BOOL ("removable", removable, "removable medium"),
  BOOL ("dsense", dsense, "descriptor format sense"),
  U32 ("lowest_aligned", lowest_aligned, 0, 0x3fff, "lowest aligned logical block"),
  U32 ("opt_blks", opt_blks, 0, UINT32_MAX, "optimal transfer length in blocks"),
  U32 ("opt_xferlen_exp", opt_xferlen_exp, 0, 15, "optimal transfer granularity exponent"),
  U32 ("max_transfer", max_transfer, 0, UINT32_MAX, "longest READ or WRITE in blocks; 0: any"),
  U32 ("rotation_rate", rotation_rate, 0, 0xfffe, "rpm; 1: does not rotate"),
  BOOL ("urswrz", urswrz, "sequential zones may be read anywhere"),
  U32 ("zone_max_open", max_open, 0, UINT32_MAX - 1, "zones open at a time; 0: any number"),
  BOOL ("wp", wp, "write protected"),
  BOOL ("strict", strict, "refuse reserved bits in CDBs"),
  BOOL ("fake_rw", fake_rw, "media commands succeed and move no data"),
  BOOL ("write_align", write_align, "sequential zones take whole physical blocks only"),
  BOOL ("lbpu", lbpu, "UNMAP is supported"),
  BOOL ("lbpws", lbpws, "WRITE SAME(16) can unmap"),
  BOOL ("lbpws10", lbpws10, "WRITE SAME(10) can unmap"),
  U32 ("lbprz", lbprz, 0, 2, "unmapped blocks: 0 keep, 1 read zeroes, 2 read FFh"),
  U32 ("write_same_length", write_same_length, 0, UINT32_MAX, "longest WRITE SAME in blocks"),
  BOOL ("atomic_wr", atomic_wr, "WRITE ATOMIC(16) is supported"),
  U32 ("uuid_ctl", uuid_ctl, 0, 2, "UUID in VPD 83h: 0 none, 1 the drive's, 2 the same for all"),
  U32 ("unmap_alignment", unmap_alignment, 0, UINT32_MAX, "alignment of UNMAP"),
  U32 ("unmap_granularity", unmap_granularity, 1, UINT32_MAX, "granularity of UNMAP"),
  U32 ("unmap_max_blocks", unmap_max_blocks, 0, UINT32_MAX, "longest UNMAP in blocks"),
  U32 ("unmap_max_desc", unmap_max_desc, 0, 256, "most descriptors of one UNMAP"),

  { .name = "cache", .kind = EMU_SET_CHOICE, AT (cache), .choices = cache_choices,
    .help = "volatile write cache: off, safe (survives), tracked (power_cut loses it)" },
  { .name = "cache_size", .kind = EMU_SET_SIZE, AT (cache_bytes), .max = INT64_MAX,
    .help = "tracked cache; older data counts as written" },

  U32 ("opts", opts, 0, UINT32_MAX, "scsi_debug's fault bits"),
  I32 ("every_nth", every_nth, "faults of opts hit each n-th command"),
  U32 ("medium_error_start", medium_error_start, 0, UINT32_MAX, "first bad LBA of opts=2"),
  U32 ("medium_error_count", medium_error_count, 0, UINT32_MAX, "bad LBAs of opts=2"),
  U32 ("tur_ms_to_ready", tur_ms_to_ready, 0, INT32_MAX, "not ready for this long"),
  I32 ("no_answer_ms", no_answer_ms,
       "how long the host waits for an answer that never comes; -1: its timeout"),
  U32 ("max_queue", max_queue, 1, 4096, "commands in the drive at a time"),

  I32 ("delay", delay_ticks, "duration of a command in ticks of 4 ms"),
  U32 ("ndelay", ndelay_ns, 0, UINT32_MAX, "duration in ns; overrides delay"),
  BOOL ("random", random, "durations are uniform between 0 and delay"),
  { .name = "time", .kind = EMU_SET_CHOICE, AT (time_model), .choices = time_choices,
    .help = "time model: none, fixed (latency_us, units) or disk" },
  U32 ("latency_us", latency_us, 0, UINT32_MAX, "time=fixed: duration of a command"),
  U32 ("units", units, 1, 4096, "time=fixed: commands served at a time"),
  U32 ("seek_us", seek_us, 0, UINT32_MAX, "time=disk: a full seek"),
  U32 ("transfer_mbps", transfer_mbps, 1, UINT32_MAX, "time=disk: MB/s at the outer edge"),
  BOOL ("sleep", sleep, "commands take their time; no: only add it up"),
  BOOL ("statistics", statistics, "count commands and bytes"),

  /* Other names. */
  SHAPE_ALIAS ("dev_size_mb", set_dev_size_mb, "size in MiB"),
  SHAPE_ALIAS ("zone_size_mb", set_zone_size_mb, "zone_size in MiB"),
  SHAPE_ALIAS ("zone_cap_mb", set_zone_cap_mb, "zone_cap in MiB"),
  SHAPE_ALIAS ("zone_nr_conv", set_conv, "number of leading conventional zones"),
  SHAPE_ALIAS ("zbc", set_zbc, "none, aware or managed"),
  SHAPE_ALIAS ("pbs", set_pbs, "physical block in bytes; give it after lbs"),
  SHAPE_ALIAS ("format", set_format, "512n, 512e or 4Kn: lbs and physblk_exp in one"),
  { .name = "sector_size", .kind = EMU_SET_U32, AT (lbs_bytes), .min = 512, .max = 4096,
    .shape = true, .alias = true, .help = "as lbs" },
  { .name = "max_open", .kind = EMU_SET_U32, AT (max_open), .max = UINT32_MAX - 1,
    .alias = true, .help = "as zone_max_open" },
  { NULL }
};

void
emu_settings_init (struct emu_settings *s)
{
  *s = (struct emu_settings) {
    .size_bytes = 128 * MiB,
    .lbs_bytes = 512,
    .model = EMU_HOST_MANAGED,
    .nr_conv = 1,
    .segment_bytes = 8 * TiB,
    .vendor = "Shingle",
    .product = "emulated drive",
    .revision = "0001",
    .ptype = -1,
    .scsi_level = 7,
    .opt_blks = 1024,
    .rotation_rate = 7200,
    .urswrz = true,
    .max_open = 8,
    .lbprz = 1,
    .write_same_length = 0xffff,
    .unmap_granularity = 1,
    .unmap_max_blocks = UINT32_MAX,
    .unmap_max_desc = 256,
    .cache = EMU_CACHE_SAFE,
    .cache_bytes = 256 * MiB,
    .medium_error_start = 0x1234,
    .medium_error_count = 10,
    .no_answer_ms = -1,
    .max_queue = 4096,
    .latency_us = 100,
    .units = 1,
    .seek_us = 15000,
    .transfer_mbps = 250,
    .sleep = true,
    .statistics = true,
  };
}

/* ---- find, set, show ---- */

static bool
same_name (const char *name, const char *text, size_t len)
{
  size_t i;

  for (i = 0; i < len && name[i]; ++i) {
    const char c = text[i] == '-' ? '_' : text[i];

    if (c != name[i])
      return false;
  }
  return i == len && name[i] == '\0';
}

const struct emu_setting *
emu_setting_find (const char *name, size_t len)
{
  const struct emu_setting *d;

  for (d = emu_setting_table; d->name; ++d)
    if (same_name (d->name, name, len))
      return d;
  return NULL;
}

static int
set_choice (const struct emu_setting *def, const char *value, uint32_t *field)
{
  uint32_t i;

  for (i = 0; def->choices[i]; ++i) {
    if (strcmp (def->choices[i], value) == 0) {
      *field = i;
      return 0;
    }
  }
  return -1;
}

/* Printable ASCII without the characters that separate settings. */
static int
set_text (const struct emu_setting *def, const char *value, char *field)
{
  const char *p;

  if (strlen (value) >= def->max)
    return -1;
  for (p = value; *p; ++p)
    if (*p < ' ' || *p > '~' || *p == ',')
      return -1;
  strcpy (field, value);
  return 0;
}

static int
set_value (struct emu_settings *s, const struct emu_setting *def, const char *value)
{
  void *field = (char *) s + def->offset;
  int64_t number;
  uint64_t size;

  switch (def->kind) {
  case EMU_SET_BOOL:
    return parse_bool (value, field);
  case EMU_SET_U32:
    if (parse_number (value, &number) == -1 || number < 0 ||
        (uint64_t) number < def->min || (uint64_t) number > def->max)
      return -1;
    *(uint32_t *) field = (uint32_t) number;
    return 0;
  case EMU_SET_I32:
    if (parse_number (value, &number) == -1 || number < INT32_MIN || number > INT32_MAX)
      return -1;
    *(int32_t *) field = (int32_t) number;
    return 0;
  case EMU_SET_SIZE:
    if (size_parse (value, &size) == -1 || size > def->max)
      return -1;
    *(uint64_t *) field = size;
    return 0;
  case EMU_SET_TEXT:
    return set_text (def, value, field);
  case EMU_SET_CHOICE:
    /* "managed", "aware", "none" as scsi_debug's zbc says. */
    if (field == &s->model && set_zbc (s, value) == 0)
      return 0;
    return set_choice (def, value, field);
  case EMU_SET_CONV:
  case EMU_SET_SPECIAL:
    return def->set (s, value);
  }
  return -1;
}

static void
hint_range (const struct emu_setting *def, struct sh_error *err)
{
  switch (def->kind) {
  case EMU_SET_BOOL:
    sh_hint (err, "%s is 0 or 1 (%s)", def->name, def->help);
    break;
  case EMU_SET_U32:
    sh_hint (err, "%s is a number from %" PRIu64 " to %" PRIu64 " (%s)",
             def->name, def->min, def->max, def->help);
    break;
  case EMU_SET_SIZE:
    sh_hint (err, "%s is a number of bytes, with K, M, G or T if you like (%s)",
             def->name, def->help);
    break;
  case EMU_SET_TEXT:
    sh_hint (err, "%s is text of at most %" PRIu64 " printable characters without a comma",
             def->name, def->max - 1);
    break;
  default:
    sh_hint (err, "%s", def->help);
  }
}

int
emu_settings_set (struct emu_settings *s, const char *name, const char *value,
                  struct sh_error *err)
{
  const struct emu_setting *def = emu_setting_find (name, strlen (name));

  if (def == NULL) {
    sh_fail (err, ENOENT, "an emulated drive has no setting named '%s'", name);
    return sh_hint (err, "'shingle emu create --help' lists them");
  }
  if (set_value (s, def, value) == -1) {
    sh_fail (err, EINVAL, "%s=%s: this value is not possible", def->name, value);
    hint_range (def, err);
    return -1;
  }
  return 0;
}

static const char *
conv_text (const struct emu_settings *s, char *buf, size_t size)
{
  if (s->nr_conv == EMU_CONV_ALL)
    snprintf (buf, size, "all");
  else if (s->conv_list[0] != '\0')
    snprintf (buf, size, "%s", s->conv_list);
  else
    snprintf (buf, size, "%" PRIu32, s->nr_conv);
  return buf;
}

const char *
emu_setting_text (const struct emu_settings *s, const struct emu_setting *def,
                  char *buf, size_t size)
{
  const void *field = (const char *) s + def->offset;

  switch (def->kind) {
  case EMU_SET_BOOL:
    snprintf (buf, size, "%d", *(const bool *) field);
    break;
  case EMU_SET_U32:
    snprintf (buf, size, "%" PRIu32, *(const uint32_t *) field);
    break;
  case EMU_SET_I32:
  case EMU_SET_SPECIAL:
    snprintf (buf, size, "%" PRId32, *(const int32_t *) field);
    break;
  case EMU_SET_SIZE:
    return size_format (*(const uint64_t *) field, buf, size);
  case EMU_SET_TEXT:
    snprintf (buf, size, "%s", (const char *) field);
    break;
  case EMU_SET_CHOICE:
    snprintf (buf, size, "%s", def->choices[*(const uint32_t *) field]);
    break;
  case EMU_SET_CONV:
    return conv_text (s, buf, size);
  }
  return buf;
}

/* ---- together ---- */

static bool
range_has (void *opaque, uint32_t first, uint32_t last)
{
  const uint32_t *zone = opaque;

  return *zone >= first && *zone <= last;
}

bool
emu_settings_conventional (const struct emu_settings *s, uint32_t zone)
{
  if (zone < s->nr_conv)
    return true;
  return s->conv_list[0] != '\0' && each_range (s->conv_list, range_has, &zone) == 1;
}

uint64_t
emu_settings_capacity (const struct emu_settings *s)
{
  return s->virtual_gb ? s->virtual_gb * GiB : s->size_bytes;
}

/* scsi_debug's rule: 128 MiB, halved until at least 4 zones fit. */
static void
choose_zone_size (struct emu_settings *s)
{
  s->zone_bytes = 128 * MiB;
  while (s->zone_bytes > 64 * KiB && emu_settings_capacity (s) / s->zone_bytes < 4)
    s->zone_bytes /= 2;
}

/* Twice those of 28 TB with the smallest zones of real drives: more memory and time
   than that is a slip of the pen. */
#define ZONES_MAX (UINT32_C (64) << 20)

static int
complete_zones (struct emu_settings *s, struct sh_error *err)
{
  const uint64_t capacity = emu_settings_capacity (s);
  char a[SIZE_FORMAT_MAX], b[SIZE_FORMAT_MAX];
  uint64_t nr_zones;

  if (s->zone_bytes == 0)
    choose_zone_size (s);
  if (!is_power_of_2 (s->zone_bytes) || s->zone_bytes < 64 * KiB || s->zone_bytes > TiB)
    return sh_fail (err, EINVAL, "zone_size=%s: a zone is a power of two from 64K to 1T",
                    size_format (s->zone_bytes, a, sizeof a));
  if (s->zone_bytes >= capacity)
    return sh_fail (err, EINVAL, "zone_size=%s: must be smaller than the drive (%s)",
                    size_format (s->zone_bytes, a, sizeof a),
                    size_format (capacity, b, sizeof b));
  if (s->zone_cap_bytes == 0)
    s->zone_cap_bytes = s->zone_bytes;
  if (s->zone_cap_bytes > s->zone_bytes || s->zone_cap_bytes % s->lbs_bytes != 0)
    return sh_fail (err, EINVAL,
                    "zone_cap=%s: whole blocks, and not more than the zone size (%s)",
                    size_format (s->zone_cap_bytes, a, sizeof a),
                    size_format (s->zone_bytes, b, sizeof b));
  nr_zones = DIV_ROUND_UP (capacity, s->zone_bytes);
  if (nr_zones > ZONES_MAX)
    return sh_fail (err, EINVAL, "zone_size=%s: a drive of %s would have too many zones",
                    size_format (s->zone_bytes, a, sizeof a),
                    size_format (capacity, b, sizeof b));
  if (s->nr_conv != EMU_CONV_ALL && s->nr_conv > nr_zones)
    return sh_fail (err, EINVAL, "conventional=%" PRIu32 ": the drive has only %" PRIu64
                    " zones", s->nr_conv, nr_zones);
  if (s->model == EMU_HOST_AWARE)
    s->max_open = 0;
  else if (s->max_open != 0 && s->max_open >= nr_zones - 1)
    s->max_open = MAX ((nr_zones - 1) / 2, 1);
  return 0;
}

int
emu_settings_complete (struct emu_settings *s, struct sh_error *err)
{
  char a[SIZE_FORMAT_MAX];

  if (!is_power_of_2 (s->lbs_bytes))
    return sh_fail (err, EINVAL, "lbs=%" PRIu32 ": a logical block is 512, 1024, 2048 or "
                    "4096 bytes", s->lbs_bytes);
  if (s->size_bytes == 0 || s->size_bytes % s->lbs_bytes != 0 || s->size_bytes > 1024 * 1024 * TiB)
    return sh_fail (err, EINVAL, "size=%s: must be whole logical blocks of %" PRIu32
                    " bytes, and at most 1 EiB", size_format (s->size_bytes, a, sizeof a),
                    s->lbs_bytes);
  if (s->virtual_gb != 0 && s->virtual_gb * GiB < s->size_bytes)
    return sh_fail (err, EINVAL, "virtual_gb=%" PRIu32 ": smaller than the size", s->virtual_gb);
  if (s->segment_bytes < MiB || s->segment_bytes % MiB != 0)
    return sh_fail (err, EINVAL, "segment=%s: must be whole MiB",
                    size_format (s->segment_bytes, a, sizeof a));
  if (s->unmap_alignment >= s->unmap_granularity && s->unmap_alignment != 0)
    return sh_fail (err, EINVAL, "unmap_granularity=%" PRIu32 ": must be larger than "
                    "unmap_alignment=%" PRIu32, s->unmap_granularity, s->unmap_alignment);
  return s->model == EMU_REGULAR ? 0 : complete_zones (s, err);
}
