/* SPDX-License-Identifier: Apache-2.0 */
/* kiln explain: which backend would serve an operator, and why the others would not. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/yaml.h"
#include "tools/kiln/command.h"
#include "tools/kiln/gemm_words.h"
#include "tools/kiln/table.h"

static const struct option options[] = {
    TOOL_COMMON_OPTIONS,
    {NULL, 0, NULL, 0},
};

static const char help[] =
    "usage: kiln explain [OPTION…] kiln.gemm/1 m=M n=N k=K type=TYPE [WORD…]\n"
    "\n"
    "Asks every backend about one operator, prepares nothing, and shows what each says, in the\n"
    "order in which routing asks, and which one a plan would take. Exit code 1 when none.\n"
    "\n"
    "Words:\n";

static const char *support_name(int32_t support)
{
    switch (support) {
    case KILN_SUPPORT_NO:
        return "no";
    case KILN_SUPPORT_EMULATED:
        return "emulated";
    case KILN_SUPPORT_NATIVE:
        return "native";
    default:
        return "unknown";
    }
}

/* ---- Output ---- */

static json_t *candidate_json(const kiln_candidate *candidate)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:b, s:b, s:b, s:b}", "backend",
                     candidate->backend, "device", candidate->device, "support",
                     support_name(candidate->support), "kernel", candidate->kernel, "reason",
                     candidate->reason, "estimated_ns", (json_int_t)candidate->estimated_ns,
                     "workspace_bytes", (json_int_t)candidate->workspace_bytes, "reproducible",
                     (candidate->flags & KILN_ANSWER_REPRODUCIBLE) != 0, "flushes_denormals",
                     (candidate->flags & KILN_ANSWER_FLUSHES_DENORMALS) != 0, "staged",
                     candidate->staged != 0, "chosen", candidate->chosen != 0);
}

static int print_candidates_json(const tool_common *common, const gemm_words *words,
                                 const char *device, const kiln_candidate *candidates,
                                 int64_t count)
{
    char shape[256];
    json_t *list = json_array();
    const char *chosen = NULL;
    for (int64_t i = 0; i < count; i++) {
        json_array_append_new(list, candidate_json(&candidates[i]));
        if (candidates[i].chosen)
            chosen = candidates[i].backend;
    }
    return tool_print_json(common,
                           json_pack("{s:s, s:s, s:s, s:s?, s:o}", "operator", KILN_GEMM, "shape",
                                     gemm_describe(&words->desc, shape, sizeof shape), "device",
                                     device, "chosen", chosen, "candidates", list));
}

static void print_candidates(const gemm_words *words, const char *device,
                             const kiln_candidate *candidates, int64_t count)
{
    char shape[256], time[32], bytes[32];
    printf("%s  %s  on %s\n\n", KILN_GEMM, gemm_describe(&words->desc, shape, sizeof shape),
           device);
    tool_table *table =
        tool_table_new("|backend|device|support|kernel|>estimate|>workspace|reason");
    for (int64_t i = 0; i < count; i++) {
        const kiln_candidate *candidate = &candidates[i];
        bool yes = candidate->support != KILN_SUPPORT_NO;
        tool_table_cell(table, "%s", candidate->chosen ? "*" : "");
        tool_table_cell(table, "%s", candidate->backend);
        tool_table_cell(table, "%s", candidate->device);
        tool_table_cell(table, "%s%s", support_name(candidate->support),
                        candidate->staged ? ", staged" : "");
        tool_table_cell(table, "%s", yes ? candidate->kernel : "");
        tool_table_cell(table, "%s",
                        candidate->estimated_ns ? tool_time_text(candidate->estimated_ns, time)
                                                : "");
        tool_table_cell(table, "%s", yes ? tool_bytes_text(candidate->workspace_bytes, bytes) : "");
        tool_table_cell(table, "%s", candidate->reason);
    }
    tool_table_print(table, 0, stdout);
}

static void print_choice(const kiln_candidate *candidates, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (candidates[i].chosen) {
            printf("\n* chosen: %s on %s%s\n", candidates[i].backend, candidates[i].device,
                   candidates[i].staged ? "; the core copies the tensors there and back" : "");
            return;
        }
    puts("\nNo backend serves this.");
}

/* ---- Asking ---- */

/* All candidates, in allocated memory; NULL on failure, with the sentence in kiln_last_error(). */
static kiln_candidate *ask(kiln_runtime *runtime, const gemm_words *words, kiln_device *device,
                           int64_t *count)
{
    kiln_plan_options plan_options = {
        .struct_size = sizeof plan_options,
        .device = device,
        .backend = words->backend[0] ? words->backend : NULL,
    };
    int64_t capacity = 16;
    kiln_candidate *candidates = NULL;
    for (;;) {
        candidates = tool_grow(candidates, (size_t)capacity, sizeof *candidates);
        kiln_status status = kiln_explain(runtime, KILN_GEMM, &words->desc.head, &plan_options,
                                          candidates, capacity, count);
        if (status != KILN_OK) {
            free(candidates);
            return NULL;
        }
        if (*count <= capacity)
            return candidates;
        capacity = *count;
    }
}

static bool any_chosen(const kiln_candidate *candidates, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (candidates[i].chosen)
            return true;
    return false;
}

static int explain(const tool_common *common, kiln_runtime *runtime, const gemm_words *words)
{
    kiln_device *device = kiln_device_default(runtime);
    if (words->device[0] && kiln_device_find(runtime, words->device, &device) != KILN_OK)
        return tool_fail(common, "%s", kiln_last_error());
    int64_t count = 0;
    kiln_candidate *candidates = ask(runtime, words, device, &count);
    if (!candidates)
        return tool_fail(common, "%s", kiln_last_error());
    int code = any_chosen(candidates, count) ? TOOL_OK : TOOL_FAILED;
    if (common->json) {
        int printed =
            print_candidates_json(common, words, kiln_device_name(device), candidates, count);
        code = printed == TOOL_OK ? code : printed;
    } else {
        print_candidates(words, kiln_device_name(device), candidates, count);
        print_choice(candidates, count);
    }
    free(candidates);
    return code;
}

/* ---- The command ---- */

static int read_words(const tool_common *common, int argc, char **argv, gemm_words *words)
{
    static const char *const known[] = {KILN_GEMM};
    gemm_problem problem;
    if (argc == 0)
        return tool_usage(common, "name an operator, such as %s", KILN_GEMM);
    if (strcmp(argv[0], KILN_GEMM) != 0) {
        const char *near = kiln_yaml_nearest(argv[0], known, 1);
        return tool_usage(common, "no words are known for operator '%s'%s%s%s; '%s' has some",
                          argv[0], near ? " (did you mean '" : "", near ? near : "",
                          near ? "'?)" : "", KILN_GEMM);
    }
    for (int i = 1; i < argc; i++)
        if (!gemm_words_read(words, argv[i], &problem))
            return tool_usage(common, "%s", problem.text);
    if (!gemm_words_finish(words, &problem))
        return tool_usage(common, "%s", problem.text);
    return TOOL_OK;
}

static int command(tool_common *common, int argc, char **argv)
{
    int option;
    while ((option = tool_next_option(common, argc, argv, options)) != -1) {
        if (option == '?')
            return TOOL_USAGE;
        printf("%s%s\nOptions:\n%s", help, gemm_words_help, TOOL_COMMON_HELP);
        return TOOL_OK;
    }
    gemm_words words = {.type = KILN_TYPE_NONE};
    int code = read_words(common, argc - optind, argv + optind, &words);
    if (code != TOOL_OK)
        return code;
    kiln_runtime *runtime;
    if (!tool_runtime_open(common, &runtime))
        return TOOL_FAILED;
    code = explain(common, runtime, &words);
    kiln_runtime_close(runtime);
    return code;
}

int kiln_explain_main(int argc, char **argv)
{
    tool_common common = {.command = "kiln explain"};
    int code = command(&common, argc, argv);
    tool_common_free(&common);
    return code;
}
