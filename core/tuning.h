/* SPDX-License-Identifier: Apache-2.0 */
/* Tuning records: best known parameters for one descriptor on one device. */
#ifndef KILN_CORE_TUNING_H
#define KILN_CORE_TUNING_H

#include "core/runtime.h"

enum { KILN_TUNING_PARAMETERS = 32 };

/* Reads the file if it exists; lines that cannot be read are passed over with a warning to the log.
 * `path` "" keeps records in memory only. */
kiln_status kiln_tuning_open(kiln_runtime *runtime, const char *path, bool use,
                             kiln_tuning **tuning);
void kiln_tuning_close(kiln_tuning *tuning);

/* Copies at most `capacity` parameters and returns their number; 0 when there is no record.
 * `measured_ns` may be NULL. */
int64_t kiln_tuning_find(kiln_tuning *tuning, const char *operator_name, const void *descriptor,
                         size_t size, const char *fingerprint, const char *backend,
                         kiln_parameter *parameters, int64_t capacity, int64_t *measured_ns);

#endif
