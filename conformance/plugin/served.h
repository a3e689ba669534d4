/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors that a plugin may say yes to, for checks of how it asks and answers rather than of
 * what it computes. */
#ifndef KILN_CONFORMANCE_PLUGIN_SERVED_H
#define KILN_CONFORMANCE_PLUGIN_SERVED_H

#include "conformance/plugin/load.h"
#include "kiln/gemm.h"

enum { CONFORMANCE_SERVED = 320 };

/* One descriptor that is served on one device. */
typedef struct conformance_served {
    kiln_device *device;
    kiln_gemm_desc desc;
    const char *name; /* of its types, "bf16": for messages */
} conformance_served;

/* Small GEMMs of every kind of operand, exact or else fast, on the host and the plugin's devices,
 * that query says yes to. */
int64_t conformance_find_served(const conformance_instance *instance,
                                const kiln_operator_table *table,
                                conformance_served served[CONFORMANCE_SERVED]);

/* Puts one of those questions; `answer` is zeroed and given its size. */
kiln_status conformance_query(const conformance_instance *instance,
                              const kiln_operator_table *table, kiln_device *device,
                              const kiln_op_head *descriptor, kiln_answer *answer);

/* Calls plan. */
kiln_status conformance_make_plan(const conformance_instance *instance,
                                  const kiln_operator_table *table,
                                  const kiln_plan_request *request, void **plan);

#endif
