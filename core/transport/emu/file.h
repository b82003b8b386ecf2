/* SPDX-License-Identifier: BSD-3-Clause */
/* What file.c and file-create.c share: the layout of a drive's file. */
#ifndef EMU_FILE_H
#define EMU_FILE_H

#include "transport/emu/internal.h"

#define MAGIC          "ShingleEmuDrive"        /* 16 bytes with the NUL */
#define FORMAT_VERSION 1
#define SLOT_BYTES     (64 * KiB)
#define COUNTERS_OFF   (2 * SLOT_BYTES)
#define TABLE_OFF      (COUNTERS_OFF + COUNTERS_BYTES)
#define SEGMENT_DATA   MiB
#define BYTE_ORDER_MARK 0x01020304u
#define MAX_SEGMENTS   4096

struct head {
  char magic[16];
  uint32_t version;
  uint32_t byte_order;
  uint32_t crc;                 /* of the slot, this field taken as 0 */
  uint32_t text_bytes;          /* settings behind the head, in the slot */
  uint64_t sequence;
  uint8_t uuid[16];             /* the same in all segments */
  uint32_t segment;             /* 0: the drive's file */
  uint32_t nr_segments;
  uint32_t nr_zones;
  uint32_t lbs_bytes;
  uint64_t size_bytes;
  uint64_t segment_bytes;
  uint64_t data_off_bytes;
};
_Static_assert (sizeof (struct head) == 96, "the layout of a drive's file");

#define TEXT_MAX (SLOT_BYTES - sizeof (struct head))

struct emu_file {
  char *path;
  int fd;                       /* of FILE; the lock is on it */
  bool read_only;               /* the file cannot be written: changes stay in memory */
  struct head head;
  unsigned slot;                /* the one that counts */
  void *map;                    /* counters and zone table */
  size_t map_bytes;
};

struct text {
  char *buf;                    /* TEXT_MAX bytes */
  size_t len;
  bool full;
};

/* FILE, or FILE.N; NULL without memory. */
char *file_segment_name (const char *path, unsigned segment);

/* open, which never waits: a pipe may lie in the place of a file.  New files get the
   usual rights. */
int file_open (const char *path, int flags);

/* The error for a path that is no regular file; always -1. */
int file_refuse_kind (const char *path, struct sh_error *err);

/* Fills t, whose buf the caller owns. */
int file_settings_text (struct emu *emu, struct text *t, struct sh_error *err);

int file_pwrite (int fd, const void *buf, size_t len, off_t off);
int file_write_slot (int fd, unsigned slot, const struct head *head, const struct text *t);

/* Reads both slots into buf (2 * SLOT_BYTES); *slot is the one that counts. */
int file_read_slots (int fd, const char *path, uint8_t *buf, struct head *head,
                     unsigned *slot, struct sh_error *err);

/* flock without waiting; `how` is LOCK_EX or LOCK_SH. */
int file_lock (int fd, const char *path, int how, struct sh_error *err);

/* Where the data begins in FILE, and how long the file of a segment is. */
uint64_t file_data_offset (uint32_t nr_zones);
uint64_t file_segment_bytes (const struct head *h, unsigned segment);

#endif
