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
    "  --epilogue NAME      relu, gelu_erf, gelu_tanh, silu, scale:X, clip:LOW:HIGH\n"
    "                       (epilogues are applied in the order of the command line)\n"
    "  --type-out TYPE      type of D (default: A's; i32 for i8)\n"
    "  --out FILE           where D goes\n"
    "  --device NAME        where the tensors live: host, npu:0, …\n"
    "  --backend NAME       only this plugin\n" RUN_HELP TOOL_COMMON_HELP;

/* What is being built. The step is added to the job at the end. */
typedef struct building {
    tool_common *common;
    run_options *options;
    kiln_job *job;
    job_step step;
    const char *out;
    bool beta;
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
        tool_usage(build->common, "--epilogue %s needs a tensor: write --%s FILE", name, name);
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

static bool take_type(building *build, const char *text)
{
    build->step.type_out = kiln_type_from_name(text);
    if (build->step.type_out)
        return true;
    tool_usage(build->common,
               "--type-out: there is no type '%s'; types are f64, f32, f16, bf16, i8, i32, …",
               text);
    return false;
}

/* a, b and c: each once. */
static bool take_matrix(building *build, const char *name, char *file, int64_t *index)
{
    if (*index != JOB_NONE) {
        tool_usage(build->common, "--%s is given twice", name);
        return false;
    }
    *index = add_file(build, name, file);
    return true;
}

static bool take_option(building *build, int option, char *value)
{
    job_step *step = &build->step;
    switch (option) {
    case OPTION_A:
        return take_matrix(build, "a", value, &step->a);
    case OPTION_B:
        return take_matrix(build, "b", value, &step->b);
    case OPTION_C:
        return take_matrix(build, "c", value, &step->c);
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
        build->beta = true;
        return take_number(build, "beta", value, &step->beta);
    case OPTION_TYPE_OUT:
        return take_type(build, value);
    case OPTION_BACKEND:
        step->backend = value;
        return true;
    case OPTION_DEVICE:
        step->device = value;
        return true;
    case OPTION_OUT:
        build->out = value;
        return true;
    default:
        return run_take_option(build->common, build->options, option, value);
    }
}

static int finish(building *build)
{
    kiln_job *job = build->job;
    if (build->step.a == JOB_NONE || build->step.b == JOB_NONE)
        return tool_usage(build->common, "--%s FILE is missing",
                          build->step.a == JOB_NONE ? "a" : "b");
    if (!build->out && !build->options->dry_run)
        return tool_usage(build->common, "--out FILE is missing");
    if ((build->step.c != JOB_NONE) != build->beta)
        return tool_usage(build->common, "--c and --beta go together");
    if (!run_check_options(build->common, build->options))
        return TOOL_USAGE;
    job_tensor *d = job_add_tensor(job);
    d->name = "d";
    d->producer = 0;
    build->step.name = "gemm";
    build->step.d = job->tensor_count - 1;
    *job_add_step(job) = build->step;
    if (build->out)
        *job_add_output(job) =
            (job_output){.name = "d", .tensor = build->step.d, .file = build->out};
    return TOOL_OK;
}

int run_gemm_read(tool_common *common, run_options *options, int argc, char **argv, kiln_job *job)
{
    building build = {
        .common = common,
        .options = options,
        .job = job,
        .step = {.a = JOB_NONE, .b = JOB_NONE, .c = JOB_NONE, .d = JOB_NONE, .alpha = 1},
    };
    int option;
    job->name = "gemm";
    job->folder = tool_text("%s", "");
    while ((option = tool_next_option(common, argc, argv, options_table)) != -1) {
        if (option == '?')
            return TOOL_USAGE;
        if (option == TOOL_OPTION_HELP)
            return fputs(help, stdout), RUN_HELPED;
        if (!take_option(&build, option, optarg))
            return TOOL_USAGE;
    }
    if (optind < argc)
        return tool_usage(common, "takes options only, not '%s'", argv[optind]);
    return finish(&build);
}
