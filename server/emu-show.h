/* SPDX-License-Identifier: BSD-3-Clause */
/* What `shingle emu show` and `create` say of a drive, on stdout. */
#ifndef SERVER_EMU_SHOW_H
#define SERVER_EMU_SHOW_H

struct emu;

void show_created (struct emu *emu);    /* a line or two, with the files */
void show_text (struct emu *emu);
void show_json (struct emu *emu);

#endif
