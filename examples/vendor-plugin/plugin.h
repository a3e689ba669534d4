/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the plugin share. */
#ifndef ACME_PLUGIN_H
#define ACME_PLUGIN_H

#include <kiln/plugin.h>

#include "acme.h"

/* One per runtime. */
typedef struct acme_instance {
    const kiln_host *host;
    int64_t rows_per_part;
} acme_instance;

extern const kiln_operator_table acme_gemm_table;
extern const kiln_operator_table acme_axpy_table;

#endif
