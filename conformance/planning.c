/* SPDX-License-Identifier: Apache-2.0 */
/* The time that goes into making plans. */
#include "conformance/planning.h"

#include <time.h>
#include <unistd.h>

static conformance_planning *times;
static pid_t owner;
static _Atomic int64_t running; /* plans that are being made at once: their time counts once */

void conformance_planning_keep(conformance_planning *kept)
{
    times = kept;
    owner = getpid();
}

int64_t conformance_planning_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void conformance_planning_begin(void)
{
    if (times && getpid() == owner && atomic_fetch_add(&running, 1) == 0)
        atomic_store(&times->since_ms, conformance_planning_now_ms());
}

/* Between this and the beginning of a plan on another thread, some of its time may be lost. */
void conformance_planning_end(void)
{
    if (!times || getpid() != owner || atomic_fetch_sub(&running, 1) != 1)
        return;
    int64_t since = atomic_load(&times->since_ms);
    if (since)
        atomic_fetch_add(&times->total_ms, conformance_planning_now_ms() - since);
    atomic_store(&times->since_ms, 0);
}

kiln_status conformance_plan_create(kiln_runtime *runtime, const char *operator_name,
                                    const kiln_op_head *descriptor,
                                    const kiln_plan_options *options, kiln_plan **plan)
{
    conformance_planning_begin();
    kiln_status status = kiln_plan_create(runtime, operator_name, descriptor, options, plan);
    conformance_planning_end();
    return status;
}

int64_t conformance_planning_left_ms(conformance_planning *kept, int64_t begin_ms, int64_t limit_ms)
{
    /* In this order a plan that ends meanwhile counts twice for a moment, and never not at all. */
    int64_t since = atomic_load(&kept->since_ms), total = atomic_load(&kept->total_ms),
            now = conformance_planning_now_ms(), current = since && now > since ? now - since : 0,
            others = now - begin_ms - total - current;
    return limit_ms - (current > others ? current : others);
}
