/* SPDX-License-Identifier: Apache-2.0 */
/* Asking the oracle of GEMM. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/conformance/question.h"

static void put(question *q, int place, kiln_tensor *tensor, uint32_t type, uint32_t rank,
                const int64_t *shape, const double *values)
{
    *tensor = kiln_tensor_host(type, q->memory[place], rank, shape);
    int64_t count = kiln_tensor_elements(tensor), row = shape[rank - 1];
    for (int64_t i = 0; values && i < count; i++) {
        int64_t line = i / row, bytes = kiln_type_row_bytes(type, row);
        kiln_store_f64(type, (char *)q->memory[place] + line * bytes, i % row, values[i], 0);
    }
}

void slot(question *q, uint32_t index, uint32_t type, uint32_t rank, const int64_t *shape,
          const double *values)
{
    put(q, (int)index, &q->tensors[index], type, rank, shape, values);
}

void scales(question *q, int operand, uint32_t type, uint32_t rank, const int64_t *shape,
            const double *values, int32_t rows, int32_t columns)
{
    kiln_quantization *quantization = operand ? &q->desc.b_quantization : &q->desc.a_quantization;
    put(q, KILN_GEMM_SLOTS + operand, &q->scales[operand], type, rank, shape, values);
    q->tensors[operand].scale = &q->scales[operand];
    quantization->scale_type = type;
    quantization->block[0] = rows;
    quantization->block[1] = columns;
}

void zero_points(question *q, int operand, uint32_t rank, const int64_t *shape,
                 const double *values)
{
    uint32_t type = q->tensors[operand].type;
    put(q, KILN_GEMM_SLOTS + 2 + operand, &q->zero_points[operand], type, rank, shape, values);
    q->tensors[operand].zero_point = &q->zero_points[operand];
    (operand ? &q->desc.b_quantization : &q->desc.a_quantization)->zero_type = type;
}

question *question_begin(double alpha, double beta)
{
    question *q = calloc(1, sizeof *q);
    assert_non_null(q);
    q->args = (kiln_gemm_args){{sizeof q->args, KILN_GEMM_SLOTS, q->tensors}, alpha, beta};
    q->desc.head.struct_size = sizeof q->desc;
    return q;
}

void add_epilogue(question *q, kiln_epilogue epilogue)
{
    q->desc.epilogues[q->desc.epilogue_count++] = epilogue;
}

void ask(question *q)
{
    const char *reason = "";
    q->desc.batch = 1;
    q->desc.a_type = q->tensors[KILN_GEMM_A].type;
    q->desc.b_type = q->tensors[KILN_GEMM_B].type;
    q->desc.c_type = q->tensors[KILN_GEMM_C].type;
    q->desc.d_type = q->tensors[KILN_GEMM_D].type;
    if (conformance_gemm_oracle(&q->desc, &q->args, 0, &q->expected, &reason) != KILN_OK)
        fail_msg("%s", reason);
}

void question_end(question *q)
{
    conformance_gemm_expected_free(&q->expected);
    free(q);
}

void expect(const double *got, int count, const double *wanted)
{
    for (int i = 0; i < count; i++)
        if (!(fabs(got[i] - wanted[i]) <= 1e-12 * fabs(wanted[i])))
            fail_msg("element %d is %.17g instead of %.17g", i, got[i], wanted[i]);
}

void expect_bound(double got, double wanted)
{
    if (!(got >= wanted && got <= wanted * 1.001))
        fail_msg("a bound is %.17g instead of %.17g", got, wanted);
}

double gamma_of(double roundings)
{
    return roundings * 0x1p-24 / (1 - roundings * 0x1p-24);
}
