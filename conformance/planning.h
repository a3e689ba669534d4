/* SPDX-License-Identifier: Apache-2.0 */
/* The time that goes into making plans, which may take seconds each: whoever limits the time of a
 * process of checks leaves it out. */
#ifndef KILN_CONFORMANCE_PLANNING_H
#define KILN_CONFORMANCE_PLANNING_H

#include <stdatomic.h>

#include "kiln/kiln.h"

/* Begins zeroed; may lie in memory that another process reads. Milliseconds of CLOCK_MONOTONIC. */
typedef struct conformance_planning {
    _Atomic int64_t since_ms; /* when the plan was begun that is being made; 0 = none is */
    _Atomic int64_t total_ms; /* of plans that were made */
} conformance_planning;

/* Where this process, and none that it forks, keeps its times from now on. */
void conformance_planning_keep(conformance_planning *kept);

/* Around whatever makes a plan, on any thread. */
void conformance_planning_begin(void);
void conformance_planning_end(void);

/* kiln_plan_create between these. */
kiln_status conformance_plan_create(kiln_runtime *runtime, const char *operator_name,
                                    const kiln_op_head *descriptor,
                                    const kiln_plan_options *options, kiln_plan **plan);

/* Now, and how much of the time since `begin_ms` is left of `limit_ms`: for all but plans, and for
 * the plan that is being made; the less of the two. */
int64_t conformance_planning_now_ms(void);
int64_t conformance_planning_left_ms(conformance_planning *kept, int64_t begin_ms,
                                     int64_t limit_ms);

#endif
