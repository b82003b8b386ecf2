/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZONED_ZONED_H
#define ZONED_ZONED_H
#endif
