/* SPDX-License-Identifier: Apache-2.0 */
/* kiln run gemm: a job of one step, made from options. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/kiln/gemm_words.h"
#include "tools/kiln/run.h"

enum {
    OPTION_A = RUN_OPTION_OWN,
    OPTION_B,
    OPTION_C,
    OPTION_BIAS,
    OPTION_RESIDUAL,
    OPTION_MULTIPLY,
    OPTION_SCALE,
    OPTION_EPILOGUE,
    OPTION_BIAS_GRADIENT,
    OPTION_A_TYPE,
    OPTION_B_TYPE,
    OPTION_A_SCALE,
    OPTION_B_SCALE,
    OPTION_A_ZERO_POINT,
    OPTION_B_ZERO_POINT,
    OPTION_A_BLOCK,
    OPTION_B_BLOCK,
    OPTION_D_SCALE,
    OPTION_D_SCALE_TYPE,
    OPTION_D_BLOCK,
    OPTION_GROUPS,
    OPTION_GROUP_ALIGNMENT,
    OPTION_PRECISION,
    OPTION_MAX_REL_ERROR,
    OPTION_TRANSPOSE_A,
    OPTION_TRANSPOSE_B,
    OPTION_ALPHA,
    OPTION_BETA,
    OPTION_TYPE_OUT,
    OPTION_BACKEND,
    OPTION_DEVICE,
    OPTION_OUT
};

static const struct option options_table[] = {
    TOOL_COMMON_OPTIONS,
    RUN_OPTIONS,
    {"a", required_argument, NULL, OPTION_A},
    {"b", required_argument, NULL, OPTION_B},
    {"c", required_argument, NULL, OPTION_C},
    {"bias", required_argument, NULL, OPTION_BIAS},
    {"residual", required_argument, NULL, OPTION_RESIDUAL},
    {"multiply", required_argument, NULL, OPTION_MULTIPLY},
    {"scale", required_argument, NULL, OPTION_SCALE},
    {"epilogue", required_argument, NULL, OPTION_EPILOGUE},
    {"bias-gradient", required_argument, NULL, OPTION_BIAS_GRADIENT},
    {"a-type", required_argument, NULL, OPTION_A_TYPE},
    {"b-type", required_argument, NULL, OPTION_B_TYPE},
    {"a-scale", required_argument, NULL, OPTION_A_SCALE},
    {"b-scale", required_argument, NULL, OPTION_B_SCALE},
    {"a-zero-point", required_argument, NULL, OPTION_A_ZERO_POINT},
    {"b-zero-point", required_argument, NULL, OPTION_B_ZERO_POINT},
    {"a-block", required_argument, NULL, OPTION_A_BLOCK},
    {"b-block", required_argument, NULL, OPTION_B_BLOCK},
    {"d-scale", required_argument, NULL, OPTION_D_SCALE},
    {"d-scale-type", required_argument, NULL, OPTION_D_SCALE_TYPE},
    {"d-block", required_argument, NULL, OPTION_D_BLOCK},
    {"groups", required_argument, NULL, OPTION_GROUPS},
    {"group-alignment", required_argument, NULL, OPTION_GROUP_ALIGNMENT},
    {"precision", required_argument, NULL, OPTION_PRECISION},
    {"max-rel-error", required_argument, NULL, OPTION_MAX_REL_ERROR},
    {"transpose-a", no_argument, NULL, OPTION_TRANSPOSE_A},
    {"transpose-b", no_argument, NULL, OPTION_TRANSPOSE_B},
    {"alpha", required_argument, NULL, OPTION_ALPHA},
    {"beta", required_argument, NULL, OPTION_BETA},
    {"type-out", required_argument, NULL, OPTION_TYPE_OUT},
    {"backend", required_argument, NULL, OPTION_BACKEND},
    {"device", required_argument, NULL, OPTION_DEVICE},
    {"out", required_argument, NULL, OPTION_OUT},
    {NULL, 0, NULL, 0},
};

static const char help[] =
    "usage: kiln run gemm --a A.npy --b B.npy --out D.npy [OPTION…]\n"
    "\n"
    "Computes D = epilogues(alpha op(A) op(B) + beta C). A FILE is an .npy file, or an .npz or\n"
    ".safetensors file followed by ':' and the name of the tensor in it.\n"
    "\n"
    "Options:\n"
    "  --a FILE, --b FILE   the matrices, or batches of them\n"
    "  --c FILE --beta Y    a matrix to add, times Y\n"
    "  --alpha X            factor of the product\n"
    "  --transpose-a        A is stored [K, M]\n"
    "  --transpose-b        B is stored [N, K]\n"
    "  --bias FILE          add a vector: [N], one per column, [M, 1], one per row, or [1]\n"
    "  --scale X|FILE       multiply by a number or such a vector\n"
    "  --residual FILE      add a matrix\n"
    "  --multiply FILE      multiply by a matrix, element by element\n"
    "  --epilogue NAME      relu, gelu_erf, gelu_tanh, silu, scale:X, clip:LOW:HIGH, swiglu,\n"
    "                       swiglu:halves, swiglu:COLUMNS\n"
    "                       (epilogues are applied in the order of the command line)\n"
    "  --bias-gradient FILE the sum of each column so far goes there\n"
    "  --a-type, --b-type TYPE  what whole numbers in the file stand for, such as e4m3 or i4\n"
    "  --a-scale, --b-scale FILE  A or B is quantised by these scales\n"
    "  --a-zero-point, --b-zero-point FILE\n"
    "                       and by these zero points\n"
    "  --a-block, --b-block RxC  rows and columns that share a scale (default: by the\n"
    "                       shapes: one, all or a power of two)\n"
    "  --groups KIND:FILE   contiguous, masked or k, with the vector that tells the groups\n"
    "  --group-alignment N  groups begin at multiples of N rows (or steps of k)\n"
    "  --precision NAME     exact (the default); fast; or auto, which is what\n"
    "                       --max-rel-error asks for\n"
    "  --max-rel-error X    how far results may be off for speed, from 0 to 1\n"
    "  --type-out TYPE      type of D (default: that of A or B, see kiln-run(1); i32 for\n"
    "                       integers)\n"
    "  --d-scale FILE       D is quantised, and its scales go there\n"
    "  --d-scale-type TYPE  f32 (the default), e4m3 or ue8m0\n"
    "  --d-block 1xC        columns that share a scale (default: all)\n"
    "  --out FILE           where D goes\n"
    "  --device NAME        where the tensors live: host, npu:0, …\n"
    "  --backend NAME       only this plugin\n" RUN_HELP TOOL_COMMON_HELP;

/* What is being built. The step is added to the job at the end. */
typedef struct building {
    tool_common *common;
    run_options *options;
    kiln_job *job;
    job_step step;
    const char *out, *d_scale_out;
    char *scales[4];      /* files of scales of A and B, and of zero points of A and B */
    uint32_t types[2];    /* that A and B are read as; 0 = what the files say */
    int32_t blocks[3][2]; /* of A, B and D; 0 = not told */
    uint64_t given;       /* bit per option of its own */
} building;

/* Splits FILE:TENSOR behind a suffix that holds several tensors; in place. */
static const char *split_entry(char *text)
{
    static const char *const suffixes[] = {".npz:", ".safetensors:"};
    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
        char *found = strstr(text, suffixes[i]);
        if (found) {
            found += strlen(suffixes[i]);
            found[-1] = '\0';
            return found;
        }
    }
    return NULL;
}

static int64_t add_file(building *build, const char *name, char *file)
{
    job_tensor *tensor = job_add_tensor(build->job);
    tensor->name = name;
    tensor->entry = split_entry(file);
    tensor->file = file;
    return build->job->tensor_count - 1;
}

static bool add_epilogue(building *build, const kiln_epilogue *epilogue, int64_t operand)
{
    job_step *step = &build->step;
    if (step->epilogue_count == KILN_GEMM_MAX_EPILOGUES) {
        tool_usage(build->common, "at most %d epilogues are possible", KILN_GEMM_MAX_EPILOGUES);
        return false;
    }
    step->epilogues[step->epilogue_count++] =
        (job_epilogue){.epilogue = *epilogue, .operand = operand};
    return true;
}

static bool add_operand_epilogue(building *build, const char *name, char *file)
{
    kiln_epilogue epilogue = {.kind = gemm_epilogue_kind(name)};
    if (epilogue.kind == KILN_EPILOGUE_SCALE && tool_read_number(file, &epilogue.p0))
        return add_epilogue(build, &epilogue, JOB_NONE);
    return add_epilogue(build, &epilogue, add_file(build, name, file));
}

static bool add_plain_epilogue(building *build, const char *text)
{
    kiln_epilogue epilogue;
    gemm_problem problem;
    if (!gemm_epilogue_read(text, &epilogue, &problem)) {
        tool_usage(build->common, "--epilogue: %s", problem.text);
        return false;
    }
    if (epilogue.operand != KILN_OPERAND_NONE) {
        const char *name = gemm_epilogue_name(epilogue.kind);
        bool gradient = epilogue.kind == KILN_EPILOGUE_BIAS_GRADIENT;
        tool_usage(build->common, "--epilogue %s needs a %s: write --%s FILE", name,
                   gradient ? "file to go to" : "tensor", gradient ? "bias-gradient" : name);
        return false;
    }
    return add_epilogue(build, &epilogue, JOB_NONE);
}

static bool take_number(building *build, const char *option, const char *text, double *value)
{
    if (tool_read_number(text, value))
        return true;
    tool_usage(build->common, "--%s takes a number, not '%s'", option, text);
    return false;
}

static bool take_type(building *build, const char *option, const char *text, uint32_t *type)
{
    *type = kiln_type_from_name(text);
    if (*type)
        return true;
    tool_usage(build->common,
               "--%s: there is no type '%s'; types are f64, f32, f16, bf16, i8, i32, …", option,
               text);
    return false;
}

static bool take_block(building *build, const char *option, const char *text, int32_t block[2])
{
    if (gemm_block_read(text, block))
        return true;
    tool_usage(build->common,
               "--%s takes the rows and columns that share a scale, each a number or all, as in "
               "1x128, not '%s'",
               option, text);
    return false;
}

static bool take_name(building *build, const char *option, const char *text, const char **name)
{
    *name = text;
    if (text[0])
        return true;
    tool_usage(build->common, "--%s takes a name; leave it out for what the profile says", option);
    return false;
}

/* KIND:FILE */
static bool take_groups(building *build, char *text)
{
    char *colon = strchr(text, ':');
    uint32_t kind = colon ? gemm_grouping_kind(text, (size_t)(colon - text)) : 0;
    if (!kind || !colon[1]) {
        tool_usage(build->common, "--groups takes contiguous:FILE, masked:FILE or k:FILE, not '%s'",
                   text);
        return false;
    }
    build->step.grouping = kind;
    build->step.groups = add_file(build, "groups", colon + 1);
    return true;
}

static bool take_group_alignment(building *build, const char *text)
{
    if (tool_read_integer(text, 1, INT64_C(1) << 40, &build->step.group_alignment))
        return true;
    tool_usage(build->common, "--group-alignment takes a whole number from 1 to %lld, not '%s'",
               1LL << 40, text);
    return false;
}

static bool take_precision(building *build, const char *text)
{
    if (gemm_precision_read(text, &build->step.precision))
        return true;
    tool_usage(build->common, "--precision takes exact, fast or auto, not '%s'", text);
    return false;
}

static bool take_max_rel_error(building *build, const char *text)
{
    double *limit = &build->step.max_rel_error;
    if (tool_read_number(text, limit) && *limit >= 0 && *limit <= 1)
        return true;
    tool_usage(build->common, "--max-rel-error takes a number from 0 to 1, not '%s'", text);
    return false;
}

/* What is summed becomes a result of the step, and an output. */
static bool add_bias_gradient(building *build, const char *file)
{
    kiln_epilogue epilogue = {.kind = KILN_EPILOGUE_BIAS_GRADIENT};
    job_tensor *tensor = job_add_tensor(build->job);
    tensor->name = "bias_gradient";
    tensor->producer = 0;
    int64_t index = build->job->tensor_count - 1;
    *job_add_output(build->job) =
        (job_output){.name = "bias_gradient", .tensor = index, .file = file};
    return add_epilogue(build, &epilogue, index);
}

/* Options about quantised matrices, groups and precision. */
static bool take_more(building *build, int option, char *value)
{
    job_step *step = &build->step;
    switch (option) {
    case OPTION_BIAS_GRADIENT:
        return add_bias_gradient(build, value);
    case OPTION_A_TYPE:
        return take_type(build, "a-type", value, &build->types[0]);
    case OPTION_B_TYPE:
        return take_type(build, "b-type", value, &build->types[1]);
    case OPTION_A_SCALE:
    case OPTION_B_SCALE:
    case OPTION_A_ZERO_POINT:
    case OPTION_B_ZERO_POINT:
        build->scales[option - OPTION_A_SCALE] = value;
        return true;
    case OPTION_A_BLOCK:
        return take_block(build, "a-block", value, build->blocks[0]);
    case OPTION_B_BLOCK:
        return take_block(build, "b-block", value, build->blocks[1]);
    case OPTION_D_BLOCK:
        return take_block(build, "d-block", value, build->blocks[2]);
    case OPTION_D_SCALE:
        build->d_scale_out = value;
        return true;
    case OPTION_D_SCALE_TYPE:
        return take_type(build, "d-scale-type", value, &step->d_scale_type);
    case OPTION_GROUPS:
        return take_groups(build, value);
    case OPTION_GROUP_ALIGNMENT:
        return take_group_alignment(build, value);
    case OPTION_PRECISION:
        return take_precision(build, value);
    case OPTION_MAX_REL_ERROR:
        return take_max_rel_error(build, value);
    default:
        return run_take_option(build->common, build->options, option, value);
    }
}

static uint64_t bit_of(int option)
{
    return UINT64_C(1) << (option - OPTION_A);
}

static bool is_given(const building *build, int option)
{
    return build->given & bit_of(option);
}

static bool is_epilogue(int option)
{
    return option >= OPTION_BIAS && option <= OPTION_EPILOGUE;
}

/* Options come once, but for epilogues, which form a list. */
static bool note_option(building *build, int option)
{
    if (option < OPTION_A)
        return true;
    if (is_given(build, option) && !is_epilogue(option)) {
        const struct option *row = options_table;
        while (row->val != option)
            row++;
        tool_usage(build->common, "--%s is given twice", row->name);
        return false;
    }
    build->given |= bit_of(option);
    return true;
}

static bool take_option(building *build, int option, char *value)
{
    job_step *step = &build->step;
    switch (option) {
    case OPTION_A:
        step->a = add_file(build, "a", value);
        return true;
    case OPTION_B:
        step->b = add_file(build, "b", value);
        return true;
    case OPTION_C:
        step->c = add_file(build, "c", value);
        return true;
    case OPTION_BIAS:
        return add_operand_epilogue(build, "bias", value);
    case OPTION_RESIDUAL:
        return add_operand_epilogue(build, "residual", value);
    case OPTION_MULTIPLY:
        return add_operand_epilogue(build, "multiply", value);
    case OPTION_SCALE:
        return add_operand_epilogue(build, "scale", value);
    case OPTION_EPILOGUE:
        return add_plain_epilogue(build, value);
    case OPTION_TRANSPOSE_A:
        return step->transpose_a = true;
    case OPTION_TRANSPOSE_B:
        return step->transpose_b = true;
    case OPTION_ALPHA:
        return take_number(build, "alpha", value, &step->alpha);
    case OPTION_BETA:
        return take_number(build, "beta", value, &step->beta);
    case OPTION_TYPE_OUT:
        return take_type(build, "type-out", value, &step->type_out);
    case OPTION_BACKEND:
        return take_name(build, "backend", value, &step->backend);
    case OPTION_DEVICE:
        return take_name(build, "device", value, &step->device);
    case OPTION_OUT:
        build->out = value;
        return true;
    default:
        return take_more(build, option, value);
    }
}

/* Scales and zero points of A and B. */
static bool finish_quantization(building *build, int64_t index, int which)
{
    static const char *const names[] = {"a_scale", "b_scale", "a_zero_point", "b_zero_point"};
    char *scale = build->scales[which], *zero_point = build->scales[2 + which];
    int64_t scale_index = scale ? add_file(build, names[which], scale) : JOB_NONE,
            zero_index = zero_point ? add_file(build, names[2 + which], zero_point) : JOB_NONE;
    job_tensor *tensor = &build->job->tensors[index];
    if (zero_point)
        build->job->tensors[zero_index].read_as = build->types[which];
    tensor->read_as = build->types[which];
    tensor->scale = scale_index;
    tensor->zero_point = zero_index;
    tensor->block_told = build->blocks[which][0] != 0;
    memcpy(tensor->block, build->blocks[which], sizeof tensor->block);
    if (scale || zero_point || !tensor->block[0])
        return true;
    tool_usage(build->common,
               "--%c-block is about --%c-scale or --%c-zero-point, of which there is none",
               'a' + which, 'a' + which, 'a' + which);
    return false;
}

/* D, and where the scales of a quantised one go. */
static bool finish_results(building *build)
{
    kiln_job *job = build->job;
    job_step *step = &build->step;
    const int32_t *block = build->blocks[2];
    bool quantizes = build->d_scale_out != NULL, about = step->d_scale_type || block[0];
    uint32_t last = step->epilogue_count - 1;
    bool asked =
        step->epilogue_count > 0 && step->epilogues[last].epilogue.kind == KILN_EPILOGUE_QUANTIZE;
    if (!quantizes && (about || asked)) {
        tool_usage(build->common, "a quantised D needs --d-scale FILE, where its scales go");
        return false;
    }
    if (block[0] > 1 || block[0] == -1) {
        tool_usage(build->common, "--d-block must be 1xCOLUMNS: the rows of D have scales of their "
                                  "own");
        return false;
    }
    job_tensor *d = job_add_tensor(job);
    d->name = "d";
    d->producer = 0;
    step->d = job->tensor_count - 1;
    if (build->out)
        *job_add_output(job) = (job_output){.name = "d", .tensor = step->d, .file = build->out};
    if (!quantizes)
        return true;
    job_tensor *scale = job_add_tensor(job);
    scale->name = "d_scale";
    scale->producer = 0;
    step->d_scale = job->tensor_count - 1;
    d = &job->tensors[step->d];
    d->scale = step->d_scale;
    d->block[0] = 1;
    d->block[1] = block[1] ? block[1] : -1;
    *job_add_output(job) =
        (job_output){.name = "d_scale", .tensor = step->d_scale, .file = build->d_scale_out};
    kiln_epilogue quantize = {.kind = KILN_EPILOGUE_QUANTIZE};
    return asked || add_epilogue(build, &quantize, JOB_NONE);
}

static int finish(building *build)
{
    job_step *step = &build->step;
    if (step->a == JOB_NONE || step->b == JOB_NONE)
        return tool_usage(build->common, "--%s FILE is missing", step->a == JOB_NONE ? "a" : "b");
    if (!build->out && !build->options->dry_run)
        return tool_usage(build->common, "--out FILE is missing");
    if (is_given(build, OPTION_C) != is_given(build, OPTION_BETA))
        return tool_usage(build->common, "--c and --beta go together");
    if (step->group_alignment && !step->grouping)
        return tool_usage(build->common, "--group-alignment is about --groups, which is missing");
    bool limited = is_given(build, OPTION_MAX_REL_ERROR);
    if (limited && !is_given(build, OPTION_PRECISION))
        step->precision = KILN_PRECISION_AUTO;
    if (limited != (step->precision == KILN_PRECISION_AUTO))
        return tool_usage(build->common, limited ? "--max-rel-error is for --precision auto"
                                                 : "--precision auto needs --max-rel-error");
    if (!run_check_options(build->common, build->options) ||
        !finish_quantization(build, step->a, 0) || !finish_quantization(build, step->b, 1) ||
        !finish_results(build))
        return TOOL_USAGE;
    step->name = "gemm";
    *job_add_step(build->job) = *step;
    return TOOL_OK;
}

int run_gemm_read(tool_common *common, run_options *options, int argc, char **argv, kiln_job *job)
{
    building build = {
        .common = common,
        .options = options,
        .job = job,
        .step = job_empty_step(),
    };
    int option;
    job->name = "gemm";
    job->folder = tool_text("%s", "");
    while ((option = tool_next_option(common, argc, argv, options_table)) != -1) {
        if (option == '?')
            return TOOL_USAGE;
        if (option == TOOL_OPTION_HELP)
            return fputs(help, stdout), RUN_HELPED;
        if (!note_option(&build, option) || !take_option(&build, option, optarg))
            return TOOL_USAGE;
    }
    if (optind < argc)
        return tool_usage(common, "takes options only, not '%s'", argv[optind]);
    return finish(&build);
}
