/* SPDX-License-Identifier: Apache-2.0 */
/* acme.axpy/1, an operator of our own: y = alpha * x + y over f32 vectors. */
#ifndef ACME_H
#define ACME_H

#include <kiln/kiln.h>

#define ACME_AXPY "acme.axpy/1"

/* Slots of the arguments' tensors, both f32 vectors of `count` contiguous elements in host memory.
 */
enum { ACME_AXPY_X = 0, ACME_AXPY_Y = 1, ACME_AXPY_SLOTS = 2 };

typedef struct acme_axpy_desc {
    kiln_op_head head; /* no flags */
    int64_t count;
} acme_axpy_desc;

typedef struct acme_axpy_args {
    kiln_args_head head;
    double alpha;
} acme_axpy_args;

#endif
