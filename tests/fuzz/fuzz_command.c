/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: the command lines of `kiln explain`, `kiln bench` and `kiln run gemm`, a word a
 * line; the first is the command. */
#include "tests/fuzz/words.h"

#include "tools/kiln/bench_options.h"
#include "tools/kiln/explain.c"
#include "tools/kiln/run.h"

static bool is_from(const char *text, int argc, char **argv)
{
    for (int i = 0; text && i < argc; i++)
        if (text >= argv[i] && text <= argv[i] + strlen(argv[i]) + 64)
            return true;
    return !text;
}

/* Settings are cut at their first '='. */
static void check_common(const tool_common *common)
{
    for (uint64_t i = 0; i < common->setting_count; i++)
        must(common->settings[i].path[0] && !strchr(common->settings[i].path, '=') &&
             common->settings[i].value ==
                 common->settings[i].path + strlen(common->settings[i].path) + 1);
}

/* The bytes of a descriptor are those that the last such word spells. */
static void check_descriptor(const question *asked, int argc, char **argv)
{
    const char *spelled = NULL;
    for (int i = 1; i < argc; i++)
        if (strncmp(argv[i], "descriptor=", 11) == 0)
            spelled = argv[i] + 11;
    must(spelled || asked->descriptor->struct_size == sizeof(kiln_op_head));
    for (size_t i = 0; spelled && i < strlen(spelled) / 2; i++) {
        char pair[3];
        snprintf(pair, sizeof pair, "%02x", asked->bytes[i]);
        must(tolower((unsigned char)spelled[2 * i]) == pair[0] &&
             tolower((unsigned char)spelled[2 * i + 1]) == pair[1]);
    }
    must(!spelled || asked->descriptor->struct_size == strlen(spelled) / 2);
}

static void read_explain(tool_common *common, int argc, char **argv)
{
    explain_options read = {.measuring = {.slice_ms = 20, .rounds = 25}};
    question asked;
    int option;
    memset(&asked, 0, sizeof asked);
    while ((option = tool_next_option(common, argc, argv, options)) != -1)
        if (option == '?' || !take_option(common, option, &read))
            return;
    must(read.measuring.slice_ms >= 1 && read.measuring.rounds >= 1);
    must(is_from(read.replay, argc, argv));
    if (read_words(common, argc - optind, argv + optind, &asked) != TOOL_OK)
        return;
    must(strchr(asked.operator_name, '/') && memchr(asked.shape, '\0', sizeof asked.shape));
    if (asked.descriptor == &asked.gemm.desc.head)
        must(asked.descriptor->struct_size == sizeof asked.gemm.desc);
    else
        check_descriptor(&asked, argc - optind, argv + optind);
}

static void read_bench(tool_common *common, int argc, char **argv)
{
    bench_options read = {.slice_ms = 20, .rounds = 25, .budget_s = 20, .attempts = 3};
    if (bench_options_read(&read, argc, argv)) {
        must(read.slice_ms >= 1 && read.slice_ms <= 10000 && read.rounds >= 1 && read.seed >= 0);
        must(read.budget_s >= 1 && read.attempts >= 1 && read.attempts <= 1000);
        must(read.backend_count <= BENCH_MAXIMUM_NAMES && read.peer_count <= BENCH_MAXIMUM_NAMES);
        must(is_from(read.device, argc, argv) && is_from(read.list, argc, argv));
        must(is_from(read.replay, argc, argv) && (!read.replay || read.top >= 0));
        must(!read.threads || (atoll(read.threads) >= 1 && atoll(read.threads) <= 4096));
    }
    *common = read.common;
}

static void read_gemm_run(tool_common *common, int argc, char **argv)
{
    kiln_job job;
    run_options run = {.tolerance = -1};
    memset(&job, 0, sizeof job);
    if (run_gemm_read(common, &run, argc, argv, &job) == TOOL_OK) {
        const job_step *step = job.steps;
        int64_t index;
        must(job.step_count == 1 && step->a >= 0 && step->b >= 0 && step->d >= 0);
        must((step->c == JOB_NONE) == (step->beta == 0) || step->c >= 0);
        for (int slot = job_next_input(&job, step, -1, &index); slot >= 0;
             slot = job_next_input(&job, step, slot, &index))
            must(index < job.tensor_count && is_from(job.tensors[index].file, argc, argv) &&
                 is_from(job.tensors[index].entry, argc, argv));
        must((step->groups != JOB_NONE) == (step->grouping != KILN_GROUPING_NONE));
        must(run.dry_run || job.output_count >= 1);
        for (int64_t i = 0; i < job.output_count; i++)
            must(job.tensors[job.outputs[i].tensor].producer == 0);
    }
    job_free(&job);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    char *text = text_of(bytes, size), *words[MAX_WORDS + 1];
    int count = split(text, "\n", words);
    tool_common common = {.command = "kiln"};
    optind = 0; /* glibc: begin anew */
    if (strcmp(words[0], "bench") == 0)
        read_bench(&common, count, words);
    else if (strcmp(words[0], "gemm") == 0)
        read_gemm_run(&common, count, words);
    else
        read_explain(&common, count, words);
    check_common(&common);
    tool_common_free(&common);
    free(text);
    return 0;
}
