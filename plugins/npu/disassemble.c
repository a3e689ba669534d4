/* SPDX-License-Identifier: Apache-2.0 */
/* Instructions as text. */
#include "plugins/npu/program.h"

#include <stdio.h>

static const char *type_name(enum npu_type type)
{
    static const char *const names[NPU_TYPES] = {
        [NPU_F16] = "f16", [NPU_BF16] = "bf16", [NPU_I8] = "i8",
        [NPU_F32] = "f32", [NPU_I32] = "i32",
    };
    return names[type];
}

static const char *function_name(enum npu_function function)
{
    static const char *const names[NPU_FUNCTIONS] = {
        [NPU_FILL] = "fill",         [NPU_MOVE] = "move",
        [NPU_CONVERT] = "convert",   [NPU_ADD] = "add",
        [NPU_MUL] = "mul",           [NPU_SCALE] = "scale",
        [NPU_BLEND] = "blend",       [NPU_RELU] = "relu",
        [NPU_GELU_ERF] = "gelu_erf", [NPU_GELU_TANH] = "gelu_tanh",
        [NPU_SILU] = "silu",         [NPU_CLIP] = "clip",
    };
    return names[function];
}

/* "r3", "r3+64", "min(r3-64, 256)" or "128". */
struct value_text {
    char text[64];
};

static struct value_text value(struct npu_value operand)
{
    struct value_text text;
    char sum[32];
    long long offset = operand.offset;
    if (operand.reg < 0)
        snprintf(sum, sizeof sum, "%lld", offset);
    else if (offset)
        snprintf(sum, sizeof sum, "r%d%+lld", operand.reg, offset);
    else
        snprintf(sum, sizeof sum, "r%d", operand.reg);
    if (operand.most)
        snprintf(text.text, sizeof text.text, "min(%s, %lld)", sum, (long long)operand.most);
    else
        snprintf(text.text, sizeof text.text, "%s", sum);
    return text;
}

static void print_copy(const struct npu_copy *copy, bool in, char *text, size_t size)
{
    char local[64], global[192];
    snprintf(local, sizeof local, "%s[%#llx %s pitch %lld]", npu_memory_name(copy->memory),
             (long long)copy->local, copy->layout == NPU_ROWS ? "rows" : "fractals",
             (long long)copy->pitch);
    snprintf(global, sizeof global, "GM[%s row %lld stride %s]", value(copy->global).text,
             (long long)copy->first_row, value(copy->stride).text);
    snprintf(text, size, "copy_%s.%s %s <- %s, %s x %s", in ? "in" : "out", type_name(copy->type),
             in ? local : global, in ? global : local, value(copy->rows).text,
             value(copy->columns).text);
}

static void print_load(const struct npu_load *load, char *text, size_t size)
{
    snprintf(text, size, "load.%s%s %s[%#llx] <- L1[%#llx pitch %lld], %s x k %s",
             type_name(load->type), load->transpose ? ".transpose" : "",
             npu_memory_name(load->memory), (long long)load->destination, (long long)load->source,
             (long long)load->pitch, value(load->extent).text, value(load->k).text);
}

static void print_multiply(const struct npu_multiply *multiply, char *text, size_t size)
{
    snprintf(text, size,
             "multiply.%s L0C[%#llx pitch %lld] %s L0A[%#llx] * L0B[%#llx], %s x %s x k %s",
             type_name(multiply->type), (long long)multiply->c, (long long)multiply->pitch,
             multiply->accumulate ? "+=" : "=", (long long)multiply->a, (long long)multiply->b,
             value(multiply->m).text, value(multiply->n).text, value(multiply->k).text);
}

static void print_scalars(const struct npu_elementwise *e, char *text, size_t size)
{
    size_t length = 0;
    int count = e->function == NPU_BLEND || e->function == NPU_CLIP   ? 2
                : e->function == NPU_FILL || e->function == NPU_SCALE ? 1
                                                                      : 0;
    text[0] = 0;
    for (int i = 0; i < count && length < size; i++) {
        int written = e->scalar[i].reg < 0
                          ? snprintf(text + length, size - length, ", %g", e->scalar[i].value)
                          : snprintf(text + length, size - length, ", r%d", e->scalar[i].reg);
        length += written > 0 ? (size_t)written : 0;
    }
}

static void print_elementwise(const struct npu_elementwise *e, char *text, size_t size)
{
    static const char *const spreads[] = {"", " per column", " per row"};
    char sources[96] = "", scalars[64];
    int count = npu_vector_sources(e->function);
    size_t length = 0;
    for (int i = 0; i < count && length < sizeof sources; i++) {
        int written = snprintf(sources + length, sizeof sources - length, ", %s %s[%#llx]%s",
                               type_name(e->source[i].type), e->function == NPU_MOVE ? "L0C" : "UB",
                               (long long)e->source[i].address, i == 1 ? spreads[e->spread] : "");
        length += written > 0 ? (size_t)written : 0;
    }
    print_scalars(e, scalars, sizeof scalars);
    snprintf(text, size, "%s %s UB[%#llx]%s%s, %s x %s", function_name(e->function),
             type_name(e->destination.type), (long long)e->destination.address, sources, scalars,
             value(e->rows).text, value(e->columns).text);
}

static void print_flag(const struct npu_flag *flag, const char *name, char *text, size_t size)
{
    snprintf(text, size, "%s %s -> %s, %u", name, npu_pipe_name(flag->source),
             npu_pipe_name(flag->destination), flag->id);
}

void npu_instruction_print(const struct npu_instruction *instruction, char *text, size_t size)
{
    switch (instruction->opcode) {
    case NPU_COPY_IN:
    case NPU_COPY_OUT:
        print_copy(&instruction->as.copy, instruction->opcode == NPU_COPY_IN, text, size);
        break;
    case NPU_LOAD:
        print_load(&instruction->as.load, text, size);
        break;
    case NPU_MULTIPLY:
        print_multiply(&instruction->as.multiply, text, size);
        break;
    case NPU_ELEMENTWISE:
        print_elementwise(&instruction->as.elementwise, text, size);
        break;
    case NPU_SET_FLAG:
        print_flag(&instruction->as.flag, "set_flag", text, size);
        break;
    case NPU_WAIT_FLAG:
        print_flag(&instruction->as.flag, "wait_flag", text, size);
        break;
    default:
        snprintf(text, size, "barrier");
        break;
    }
}
