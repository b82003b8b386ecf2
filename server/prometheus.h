/* SPDX-License-Identifier: BSD-3-Clause */
/* Stats in the text format that Prometheus reads. */
#ifndef SERVER_PROMETHEUS_H
#define SERVER_PROMETHEUS_H

#include <stdio.h>

#include "view.h"

void prometheus_print (FILE *out, const struct view *v);

#endif
