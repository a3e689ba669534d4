/* SPDX-License-Identifier: Apache-2.0 */
/* The vector unit. */
#include "plugins/npu/units.h"

#define PANEL NPU_FRACTAL_ROWS

/* Element `index` of a row, converted to a type that holds it exactly. */
static double load_f64(enum npu_type type, const uint8_t *row, int64_t index)
{
    union {
        float f32;
        int32_t i32;
        uint16_t bits;
    } element;
    memcpy(&element, row + index * npu_type_bytes(type), (size_t)npu_type_bytes(type));
    switch (type) {
    case NPU_F16:
        return npu_f16_to_f32(element.bits);
    case NPU_BF16:
        return npu_bf16_to_f32(element.bits);
    case NPU_F32:
        return element.f32;
    case NPU_I32:
        return element.i32;
    default:
        return (int8_t)row[index];
    }
}

/* Rounds once. */
static int32_t round_to_i32(double value)
{
    if (!(value > -0x1p31))
        return value <= -0x1p31 ? INT32_MIN : 0;
    return value >= 0x1p31 - 0.5 ? INT32_MAX : (int32_t)rint(value);
}

static int8_t round_to_i8(double value)
{
    int32_t wide = round_to_i32(value);
    return (int8_t)(wide > INT8_MAX ? INT8_MAX : wide < INT8_MIN ? INT8_MIN : wide);
}

static uint16_t narrow(enum npu_type type, float value, bool saturate)
{
    bool clamp = saturate && isfinite(value);
    if (type == NPU_F16) {
        uint16_t half = npu_f32_to_f16(value);
        return clamp && (half & 0x7fffu) == 0x7c00u ? (uint16_t)(half - 1) : half;
    }
    uint16_t bf16 = npu_f32_to_bf16(value);
    return clamp && (bf16 & 0x7fffu) == 0x7f80u ? (uint16_t)(bf16 - 1) : bf16;
}

/* `value` is exact, or is to be rounded here for the first time. */
static void store_f64(enum npu_type type, uint8_t *row, int64_t index, double value, bool saturate)
{
    union {
        float f32;
        int32_t i32;
        uint16_t bits;
        int8_t i8;
    } element;
    switch (type) {
    case NPU_F16:
    case NPU_BF16:
        element.bits = narrow(type, (float)value, saturate);
        break;
    case NPU_F32:
        element.f32 = (float)value;
        break;
    case NPU_I32:
        element.i32 = round_to_i32(value);
        break;
    default:
        element.i8 = round_to_i8(value);
        break;
    }
    memcpy(row + index * npu_type_bytes(type), &element, (size_t)npu_type_bytes(type));
}

static float gelu_erf(float x)
{
    if (x == -INFINITY)
        return -0.0f;
    return 0.5f * x * erfcf(-x * 0x1.6a09e6p-1f); /* 1/sqrt 2; 1 + erf(x) without cancellation */
}

static float gelu_tanh(float x)
{
    if (x == -INFINITY)
        return -0.0f;
    float u = 0x1.988454p-1f * (x + 0.044715f * x * x * x); /* sqrt(2/pi) */
    return x / (1.0f + expf(-2.0f * u));                    /* (1 + tanh u)/2 = 1/(1 + exp -2u) */
}

static float silu(float x)
{
    return x == -INFINITY ? -0.0f : x / (1.0f + expf(-x));
}

static float unary(enum npu_function function, float x, const float *scalar)
{
    switch (function) {
    case NPU_FILL:
        return scalar[0];
    case NPU_SCALE:
        return x * scalar[0];
    case NPU_RELU:
        return x < 0 ? 0 : x;
    case NPU_GELU_ERF:
        return gelu_erf(x);
    case NPU_GELU_TANH:
        return gelu_tanh(x);
    case NPU_SILU:
        return silu(x);
    case NPU_CLIP:
        return x < scalar[0] ? scalar[0] : x > scalar[1] ? scalar[1] : x;
    default:
        return x;
    }
}

/* Operands of one row; per_row: source[1] gives one value for the row. */
struct row {
    uint8_t *destination;
    const uint8_t *source[2];
    bool per_row;
};

static float load_f32(const uint8_t *row, int64_t index)
{
    float value;
    memcpy(&value, row + index * 4, sizeof value);
    return value;
}

static void store_f32(uint8_t *row, int64_t index, float value)
{
    memcpy(row + index * 4, &value, sizeof value);
}

static void binary_row(const struct row *row, enum npu_function function, int64_t columns)
{
    for (int64_t j = 0; j < columns; j++) {
        float x = load_f32(row->source[0], j);
        float y = load_f32(row->source[1], row->per_row ? 0 : j);
        store_f32(row->destination, j, function == NPU_ADD ? x + y : x * y);
    }
}

static void unary_row(const struct row *row, const struct npu_elementwise *e, const double *scalar,
                      int64_t columns)
{
    float narrow_scalar[2] = {(float)scalar[0], (float)scalar[1]};
    for (int64_t j = 0; j < columns; j++) {
        float x = row->source[0] ? load_f32(row->source[0], j) : 0;
        store_f32(row->destination, j, unary(e->function, x, narrow_scalar));
    }
}

static void convert_row(const struct row *row, const struct npu_elementwise *e, int64_t columns)
{
    for (int64_t j = 0; j < columns; j++)
        store_f64(e->destination.type, row->destination, j,
                  load_f64(e->source[0].type, row->source[0], j), e->saturate);
}

/* SCALE and BLEND in double. */
static void wide_row(const struct row *row, const struct npu_elementwise *e, const double *scalar,
                     int64_t columns)
{
    for (int64_t j = 0; j < columns; j++) {
        double value = scalar[0] * load_f64(e->source[0].type, row->source[0], j);
        if (e->function == NPU_BLEND)
            value += scalar[1] * load_f64(e->source[1].type, row->source[1], j);
        store_f64(e->destination.type, row->destination, j, value, false);
    }
}

/* A row of accumulators, 16 columns from each panel. */
static void move_row(const struct row *row, const struct npu_elementwise *e, int64_t columns)
{
    int64_t panel_bytes = e->source[0].pitch * PANEL * 4;
    for (int64_t j = 0; j < columns; j += PANEL) {
        const uint8_t *panel = row->source[0] + j / PANEL * panel_bytes;
        int64_t count = columns - j < PANEL ? columns - j : PANEL;
        for (int64_t i = 0; i < count; i++)
            store_f64(e->destination.type, row->destination, j + i,
                      load_f64(e->source[0].type, panel, i), e->saturate);
    }
}

static bool is_wide(const struct npu_elementwise *e)
{
    return e->destination.type != NPU_F32 ||
           (npu_vector_sources(e->function) > 0 && e->source[0].type != NPU_F32);
}

void npu_elementwise(struct npu_core *core, const struct npu_elementwise *e,
                     const int64_t *registers)
{
    int64_t rows = npu_value_of(e->rows, registers);
    int64_t columns = npu_value_of(e->columns, registers);
    int sources = npu_vector_sources(e->function);
    double scalar[2] = {npu_scalar_of(e->scalar[0], registers),
                        npu_scalar_of(e->scalar[1], registers)};
    bool move = e->function == NPU_MOVE;
    bool wide = e->function == NPU_BLEND || (e->function == NPU_SCALE && is_wide(e));
    for (int64_t i = 0; i < rows; i++) {
        struct row row = {core->local[NPU_UB] + e->destination.address + i * e->destination.pitch,
                          {NULL, NULL},
                          e->spread == NPU_PER_ROW};
        if (sources > 0)
            row.source[0] = core->local[move ? NPU_L0C : NPU_UB] + e->source[0].address +
                            i * (move ? PANEL * 4 : e->source[0].pitch);
        if (sources > 1)
            row.source[1] = core->local[NPU_UB] + e->source[1].address +
                            (e->spread == NPU_PER_COLUMN ? 0 : i * e->source[1].pitch);
        if (move)
            move_row(&row, e, columns);
        else if (e->function == NPU_CONVERT)
            convert_row(&row, e, columns);
        else if (wide)
            wide_row(&row, e, scalar, columns);
        else if (sources > 1)
            binary_row(&row, e->function, columns);
        else
            unary_row(&row, e, scalar, columns);
    }
}
