/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MQ_MQ_H
#define MQ_MQ_H
#endif
