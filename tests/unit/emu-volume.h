/* SPDX-License-Identifier: BSD-3-Clause */
/* A volume on an emulated drive in RAM, through transport and disk. */
#ifndef EMU_VOLUME_H
#define EMU_VOLUME_H

#include <pthread.h>
#include <stdint.h>
#include "base/bdev.h"
#include "base/error.h"
#include "run-suite.h"
#include "shingle/volume.h"
#include "transport/emu/emu.h"

/* "name=value" pairs, NULL at the end. */
struct emu *emu_drive (const char *const settings[]);
void emu_format (struct emu *emu, uint32_t reserved);
/* The drive as a SCSI disk. */
struct bdev *emu_disk (struct emu *emu);
struct sh_volume *emu_volume (struct emu *emu, const struct sh_volume_options *options,
                              bool start);

/* Aborts with the message if r is -1. */
void emu_must (int r, const struct sh_error *err);
pthread_t emu_thread (void *(*fn) (void *));

#endif
