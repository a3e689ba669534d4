/* SPDX-License-Identifier: Apache-2.0 */
/* Strided copies and fills in host memory, as requests of the device table. */
#ifndef KILN_CORE_COPY_H
#define KILN_CORE_COPY_H

#include "kiln/plugin.h"

/* The host address of a side whose memory, if any, is host memory at `base`. */
void kiln_host_copy(const kiln_copy_request *request, char *destination, const char *source);
void kiln_host_fill(const kiln_fill_request *request, char *destination);

#endif
