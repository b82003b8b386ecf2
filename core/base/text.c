/* SPDX-License-Identifier: BSD-3-Clause */
#include <config.h>
#include "base/text.h"

const char *
sh_printable (const char *from, char *text, size_t size)
{
  size_t i;

  for (i = 0; from[i] != '\0' && i + 1 < size; ++i)
    text[i] = (unsigned char) from[i] < 0x20 || from[i] == 0x7f ? '?' : from[i];
  text[i] = '\0';
  return text;
}
