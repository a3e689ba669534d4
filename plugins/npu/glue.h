/* SPDX-License-Identifier: Apache-2.0 */
/* The model as a plugin of Kiln: what the tables of its interfaces share. */
#ifndef NPU_GLUE_H
#define NPU_GLUE_H

#include "kiln/gemm.h"
#include "kiln/plugin.h"

#include "plugins/npu/device.h"
#include "plugins/npu/gemm.h"

#define NPU_VERSION "0.1.0"

/* What is open for one runtime. Its devices are equal. */
struct npu_instance {
    const kiln_host *host;
    struct npu_config config;
    int64_t devices;
    struct npu_system system;
};

/* A device as Kiln holds it. Streams and events are the engine's own; a memory object is the model
   address of its first byte, as a pointer that is never followed. */
struct npu_handle {
    struct npu_instance *instance;
    struct npu_device *engine;
};

static inline int64_t npu_memory_address(const void *memory)
{
    return (int64_t)(intptr_t)memory;
}

/* The tables of kiln.device/1 and kiln.gemm/1. */
extern const kiln_device_table npu_device_table;
extern const kiln_operator_table npu_gemm_table;

/* "npu model 0.1.0, L1 1048576 ...": equal for equal models. */
void npu_fingerprint(const struct npu_config *config, char *text, size_t size);

/* A GEMM plan. Immutable. */
struct npu_gemm_plan {
    struct npu_instance *instance;
    kiln_gemm_desc desc;
    struct npu_gemm gemm; /* product and read_c as the descriptor allows them */
    struct npu_gemm_blocks blocks;
    struct npu_program *program[2][2]; /* [product][read_c]; NULL where the descriptor forbids it */
    struct npu_program *pack;
    struct npu_program *unpack;
    kiln_pack_header header[2]; /* of packed A and B, but for the batch and what follows from it */
    char sentence[2][192];      /* for blobs that have another header */
};

/* What the engine is to compute. False, with the reason in answer, when it cannot. */
bool npu_gemm_accept(const struct npu_instance *instance, kiln_device *device,
                     const kiln_gemm_desc *desc, struct npu_gemm *gemm,
                     struct npu_gemm_blocks *blocks, kiln_answer *answer);

kiln_status npu_gemm_query(void *instance, kiln_device *device, const kiln_op_head *descriptor,
                           kiln_answer *answer);
kiln_status npu_gemm_space(void *instance, kiln_device *device, const kiln_op_head *descriptor,
                           kiln_status (*emit)(void *argument, const kiln_parameter *parameters,
                                               int64_t count),
                           void *argument);

/* ---- Packed operands ---- */

/* Fills in plan->header and the two programs. */
kiln_status npu_gemm_prepare_packing(struct npu_gemm_plan *plan);

kiln_status npu_gemm_pack_size(void *plan, uint32_t operand, int64_t *bytes);
kiln_status npu_gemm_pack(void *plan, const kiln_run_context *context, uint32_t operand,
                          const kiln_tensor *source, const kiln_tensor *packed);
kiln_status npu_gemm_unpack(void *plan, const kiln_run_context *context, uint32_t operand,
                            const kiln_tensor *packed, const kiln_tensor *destination);

/* Where a packed operand's payload lies, for a run. INVALID when the blob cannot be this plan's. */
kiln_status npu_gemm_packed_operand(const struct npu_gemm_plan *plan, uint32_t operand,
                                    const kiln_tensor *tensor, struct npu_gemm_operand *result);

/* Queues the check of a blob's header, which only the device can read. */
kiln_status npu_gemm_expect_blob(const struct npu_gemm_plan *plan, const kiln_run_context *context,
                                 uint32_t operand, const kiln_tensor *tensor);

/* A strided matrix or vector in the device's memory; INVALID when it is elsewhere. */
kiln_status npu_gemm_strided_operand(const struct npu_gemm_plan *plan, const kiln_tensor *tensor,
                                     uint32_t slot, struct npu_gemm_operand *result);

#endif
