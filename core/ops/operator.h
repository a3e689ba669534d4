/* SPDX-License-Identifier: Apache-2.0 */
/* What the core knows of an operator beyond its table: one constant per operator, in
 * core/ops/<operator>.c. A vendor's own operators have none and pass through unchecked. */
#ifndef KILN_CORE_OPERATOR_H
#define KILN_CORE_OPERATOR_H

#include "core/device.h"

enum { KILN_OPERATOR_PREPARED = 128, KILN_OPERATOR_SIZES = 8 };

/* A size that a run's arguments give. */
typedef struct kiln_size {
    const char *name; /* static */
    int64_t value;
} kiln_size;

typedef struct kiln_operator {
    const char *name;
    size_t descriptor_size;

    /* Checks a descriptor of descriptor_size bytes and brings it into its one canonical form, in
     * place. */
    kiln_status (*canonicalise)(void *descriptor);

    /* The element type that limits by type in a profile speak of. */
    uint32_t (*principal_type)(const void *descriptor);

    /* Tensor slots that a run writes. */
    uint64_t (*outputs)(const void *descriptor);

    /* Tensor slots that a run with these arguments, which have been checked, reads. */
    uint64_t (*inputs)(const void *descriptor, const kiln_args_head *arguments);

    /* Works out, once per plan, what makes checks fast: up to KILN_OPERATOR_PREPARED bytes. `home`
     * is where the tensors must live. */
    void (*prepare)(const void *descriptor, kiln_device *home, void *prepared);

    /* Refuses arguments that can be seen to be wrong; sets *empty when there is nothing to do. */
    kiln_status (*check)(const void *descriptor, const void *prepared, kiln_device *home,
                         const kiln_args_head *arguments, bool *empty);

    /* Refuses a source or packed tensor that does not fit the operand. */
    kiln_status (*check_packed)(const void *descriptor, uint32_t operand,
                                const kiln_tensor *strided, const kiln_tensor *packed);

    /* The sizes of a run with these arguments, which have been checked, all of a descriptor's in
     * their one order: dynamic ones as they are, not as their maxima. Returns how many, 1 to
     * KILN_OPERATOR_SIZES. */
    int64_t (*sizes)(const void *descriptor, const kiln_args_head *arguments,
                     kiln_size sizes[KILN_OPERATOR_SIZES]);

    /* A few words for people: "m<=4096 n=128 k=64 f16*f16->f32". */
    void (*describe)(const void *descriptor, char *text, size_t size);
} kiln_operator;

/* NULL when the core does not know the operator. */
const kiln_operator *kiln_operator_find(const char *name);

extern const kiln_operator kiln_gemm_operator;

#endif
