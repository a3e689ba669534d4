/* SPDX-License-Identifier: Apache-2.0 */
/* A small right plugin, in which one defect at a time can be planted: -DPLANT_<NAME> builds it
 * broken in one way, and defects.txt says which check must find that. Without one, it passes all.
 *
 * It offers kiln.gemm/1 for f32, f16, e4m3, i8 and u8, in host memory, or with -DPLANTED_DEVICE in
 * the memory of a device of its own, which the host reaches only by copying. */
#ifndef TESTS_CONFORMANCE_PLANTED_H
#define TESTS_CONFORMANCE_PLANTED_H

#include <pthread.h>
#include <stdatomic.h>

#include <kiln/gemm.h>
#include <kiln/plugin.h>

/* 1 in the build -DPLANT_<NAME>, else 0: a constant, so that every build compiles every defect.
 * PLANT_<NAME> is 1 or no macro at all, and the 1 turns into a comma, so that the 1 after it
 * becomes the second argument. */
#define planted(name)                 PLANTED_EXPANDED(PLANT_##name)
#define PLANTED_EXPANDED(value)       PLANTED_VALUE(value)
#define PLANTED_VALUE(value)          PLANTED_COMMA(PLANTED_IF_##value)
#define PLANTED_COMMA(comma)          PLANTED_SECOND(comma 1, 0, 0)
#define PLANTED_IF_1                  0,
#define PLANTED_SECOND(one, two, ...) two

#if defined(PLANTED_DEVICE)
enum { ON_DEVICE = 1 };
#else
enum { ON_DEVICE = 0 };
#endif

typedef struct planted_instance {
    const kiln_host *host;
    int64_t rows_per_part;
    pthread_mutex_t mutex; /* for what must not nest */

    /* What only defects need: */
    bool counted;                /* its devices */
    _Atomic int64_t large_plans; /* how many there are now */
} planted_instance;

enum { PLANTED_INSTANCES = 8, PLANTED_PIECE = 64 };
extern planted_instance *planted_instances[PLANTED_INSTANCES]; /* those that are open */

/* ---- planted_plan.c ---- */

extern const kiln_operator_table planted_gemm_table;

typedef struct planted_plan {
    planted_instance *instance;
    struct planted_device *device; /* NULL = the host */
    kiln_gemm_desc desc;
    int64_t slot_bytes; /* workspace of one share */
    int64_t piece;      /* columns that are computed at a time where there is no workspace */
    char *scratch;      /* where a plan has one for all its runs */
} planted_plan;

/* ---- planted_run.c ---- */

kiln_status planted_run(void *plan, const kiln_run_context *context,
                        const kiln_args_head *arguments);

/* ---- planted_pack.c ---- */

kiln_status planted_pack_size(void *plan, uint32_t operand, int64_t *bytes);
kiln_status planted_pack(void *plan, const kiln_run_context *context, uint32_t operand,
                         const kiln_tensor *source, const kiln_tensor *packed);
kiln_status planted_unpack(void *plan, const kiln_run_context *context, uint32_t operand,
                           const kiln_tensor *packed, const kiln_tensor *destination);

/* ---- planted_device.c ---- */

extern const kiln_device_table planted_device_table;

/* The bytes of a tensor's memory, NULL when they are not all in it. */
char *planted_reach(struct planted_device *device, const void *memory, int64_t offset,
                    int64_t bytes);

/* ---- planted_stream.c ---- */

/* Queues a function on one of the device's own streams. */
kiln_status planted_enqueue(void *device, void *stream, kiln_stream_fn function, void *argument);

#endif
