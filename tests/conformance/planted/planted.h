/* SPDX-License-Identifier: Apache-2.0 */
/* A small right plugin, in which one defect at a time can be planted: -DPLANT_<NAME> builds it
 * broken in one way, and defects.txt says which check must find that. Without one, it passes all.
 *
 * It offers kiln.gemm/1 for f32, f16 and i8, in host memory, or with -DPLANTED_DEVICE in the memory
 * of a device of its own, which the host reaches only by copying. */
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

/* ---- planted_gemm.c ---- */

/* One run, or a share of it, where the tensors are. */
typedef struct planted_product {
    const kiln_gemm_desc *desc;
    kiln_gemm_args args;
    kiln_tensor tensors[KILN_GEMM_SLOTS];
    char *addresses[KILN_GEMM_SLOTS];
    int64_t begin, end; /* rows, counted over the whole batch */
    int64_t share;      /* when the caller calls for each by itself */
    int64_t threads;
    double *sums; /* of one row; NULL = on the stack, in pieces */
    int64_t room; /* in sums */
} planted_product;

void planted_compute(const planted_product *product);

/* Bytes from a tensor's first element to the end of its last. */
int64_t planted_span(const kiln_tensor *tensor);

/* ---- planted_run.c ---- */

kiln_status planted_run(void *plan, const kiln_run_context *context,
                        const kiln_args_head *arguments);

/* ---- planted_pack.c ---- */

kiln_status planted_pack_size(void *plan, uint32_t operand, int64_t *bytes);
kiln_status planted_pack(void *plan, const kiln_run_context *context, uint32_t operand,
                         const kiln_tensor *source, const kiln_tensor *packed);
kiln_status planted_unpack(void *plan, const kiln_run_context *context, uint32_t operand,
                           const kiln_tensor *packed, const kiln_tensor *destination);

enum { PAYLOAD_AT = 192 };

/* Whether `blob` is this plugin's packing of such a tensor; else a static sentence. */
const char *planted_blob_problem(uint32_t operand, const kiln_tensor *tensor, const char *blob,
                                 int64_t room);
int64_t planted_blob_bytes(const kiln_tensor *tensor);

/* ---- planted_device.c ---- */

extern const kiln_device_table planted_device_table;

/* The bytes of a tensor's memory, NULL when they are not all in it. */
char *planted_reach(struct planted_device *device, const void *memory, int64_t offset,
                    int64_t bytes);

/* Queues a function on one of the device's own streams. */
kiln_status planted_enqueue(void *device, void *stream, kiln_stream_fn function, void *argument);

#endif
