/* SPDX-License-Identifier: Apache-2.0 */
/* kiln explain: which backend would serve an operator, and why the others would not. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/yaml.h"
#include "tools/kiln/explain.h"
#include "tools/kiln/table.h"

enum { OPTION_MEASURE = TOOL_OPTION_OWN, OPTION_REPLAY, OPTION_ROUNDS, OPTION_SLICE };

static const struct option options[] = {
    TOOL_COMMON_OPTIONS,
    {"measure", no_argument, NULL, OPTION_MEASURE},
    {"replay", required_argument, NULL, OPTION_REPLAY},
    {"rounds", required_argument, NULL, OPTION_ROUNDS},
    {"slice", required_argument, NULL, OPTION_SLICE},
    {NULL, 0, NULL, 0},
};

static const char help[] =
    "usage: kiln explain [OPTION…] kiln.gemm/1 m=M n=N k=K type=TYPE [WORD…] [--measure]\n"
    "       kiln explain [OPTION…] OPERATOR [descriptor=HEX] [device=NAME] [backend=NAME]\n"
    "       kiln explain [OPTION…] --replay FILE [device=NAME] [backend=NAME]\n"
    "\n"
    "Asks every backend about one operator, prepares nothing, and shows what each says, in the\n"
    "order in which routing asks, and which one a plan would take. Exit code 1 when none.\n"
    "The second form takes any operator and a descriptor's bytes, as recorded calls have them\n"
    "(record.file); without them, an empty descriptor. kiln.gemm/1 may be called gemm.\n"
    "\n";

static const char own_help[] =
    "  --replay FILE        the calls of a record\n"
    "  --measure            where the time of a GEMM goes\n"
    "  --rounds N           of --measure (25)\n"
    "  --slice MS           of --measure: how long each contender's turn is (20)\n";

/* What is asked. */
typedef struct question {
    const char *operator_name;
    const kiln_op_head *descriptor;
    const char *device;  /* "" = the profile's */
    const char *backend; /* "" = by the profile */
    char shape[256];     /* the descriptor in words */
    gemm_words gemm;
    _Alignas(16) uint8_t bytes[4096]; /* a descriptor given as such */
} question;

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

json_t *explain_candidates_json(const kiln_candidate *candidates, int64_t count)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < count; i++)
        json_array_append_new(list, candidate_json(&candidates[i]));
    return list;
}

static int print_candidates_json(const tool_common *common, const question *asked,
                                 const char *device, const kiln_candidate *candidates,
                                 int64_t count)
{
    const kiln_candidate *chosen = explain_chosen(candidates, count);
    return tool_print_json(
        common, json_pack("{s:s, s:s, s:s, s:s?, s:o}", "operator", asked->operator_name, "shape",
                          asked->shape, "device", device, "chosen", chosen ? chosen->backend : NULL,
                          "candidates", explain_candidates_json(candidates, count)));
}

static void print_candidates(const question *asked, const char *device,
                             const kiln_candidate *candidates, int64_t count)
{
    char time[32], bytes[32];
    printf("%s  %s  on %s\n\n", asked->operator_name, asked->shape, device);
    if (count == 0)
        return;
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
    const kiln_candidate *chosen = explain_chosen(candidates, count);
    if (chosen)
        printf("\n* chosen: %s on %s%s\n", chosen->backend, chosen->device,
               chosen->staged ? "; the core copies the tensors there and back" : "");
    else
        puts(count ? "\nNo backend serves this."
                   : "No open plugin offers this operator; `kiln info` lists what was found.");
}

/* ---- Asking ---- */

kiln_candidate *explain_ask(kiln_runtime *runtime, const char *operator_name,
                            const kiln_op_head *descriptor, kiln_device *device,
                            const char *backend, int64_t *count)
{
    kiln_plan_options plan_options = {
        .struct_size = sizeof plan_options,
        .device = device,
        .backend = backend[0] ? backend : NULL,
    };
    int64_t capacity = 16;
    kiln_candidate *candidates = NULL;
    for (;;) {
        candidates = tool_grow(candidates, (size_t)capacity, sizeof *candidates);
        kiln_status status = kiln_explain(runtime, operator_name, descriptor, &plan_options,
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

const kiln_candidate *explain_chosen(const kiln_candidate *candidates, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (candidates[i].chosen)
            return &candidates[i];
    return NULL;
}

static int explain(const tool_common *common, kiln_runtime *runtime, const question *asked)
{
    kiln_device *device = kiln_device_default(runtime);
    if (asked->device[0] && kiln_device_find(runtime, asked->device, &device) != KILN_OK)
        return tool_fail(common, "%s", kiln_last_error());
    int64_t count = 0;
    kiln_candidate *candidates = explain_ask(runtime, asked->operator_name, asked->descriptor,
                                             device, asked->backend, &count);
    if (!candidates)
        return tool_fail(common, "%s", kiln_last_error());
    int code = explain_chosen(candidates, count) ? TOOL_OK : TOOL_FAILED;
    if (common->json) {
        int printed =
            print_candidates_json(common, asked, kiln_device_name(device), candidates, count);
        code = printed == TOOL_OK ? code : printed;
    } else {
        print_candidates(asked, kiln_device_name(device), candidates, count);
        print_choice(candidates, count);
    }
    free(candidates);
    return code;
}

/* ---- The command ---- */

static int read_gemm(const tool_common *common, int argc, char **argv, question *asked)
{
    gemm_problem problem;
    for (int i = 1; i < argc; i++)
        if (!gemm_words_read(&asked->gemm, argv[i], &problem))
            return tool_usage(common, "%s", problem.text);
    if (!gemm_words_finish(&asked->gemm, &problem))
        return tool_usage(common, "%s", problem.text);
    asked->descriptor = &asked->gemm.desc.head;
    asked->device = asked->gemm.device;
    asked->backend = asked->gemm.backend;
    gemm_describe(&asked->gemm.desc, asked->shape, sizeof asked->shape);
    return TOOL_OK;
}

/* The bytes of a descriptor, which begins with its own size. */
static bool read_descriptor(const char *text, question *asked)
{
    size_t size = strlen(text) / 2;
    if (strlen(text) % 2 || size < sizeof(kiln_op_head) || size > sizeof asked->bytes)
        return false;
    for (size_t i = 0; i < size; i++) {
        char digits[3] = {text[2 * i], text[2 * i + 1], '\0'}, *end;
        asked->bytes[i] = (uint8_t)strtoul(digits, &end, 16);
        if (!isxdigit((unsigned char)digits[0]) || end != digits + 2)
            return false;
    }
    kiln_op_head head;
    memcpy(&head, asked->bytes, sizeof head);
    return head.struct_size == size;
}

static int read_any(const tool_common *common, int argc, char **argv, question *asked)
{
    kiln_op_head empty = {.struct_size = sizeof empty};
    memcpy(asked->bytes, &empty, sizeof empty);
    asked->descriptor = (const kiln_op_head *)(const void *)asked->bytes;
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "device=", 7) == 0)
            asked->device = argv[i] + 7;
        else if (strncmp(argv[i], "backend=", 8) == 0)
            asked->backend = argv[i] + 8;
        else if (strncmp(argv[i], "descriptor=", 11) != 0)
            return tool_usage(common, "%s is described by descriptor=HEX; '%s' is not known",
                              argv[0], argv[i]);
        else if (!read_descriptor(argv[i] + 11, asked))
            return tool_usage(common,
                              "descriptor= takes the bytes as hexadecimal digits; the first four, "
                              "little-endian, are how many there are");
    }
    snprintf(asked->shape, sizeof asked->shape, "descriptor of %u bytes",
             asked->descriptor->struct_size);
    return TOOL_OK;
}

/* Our own operators are those that a slip of the pen may miss; a vendor's are taken as they are. */
static int read_words(const tool_common *common, int argc, char **argv, question *asked)
{
    static const char *const known[] = {KILN_GEMM};
    if (argc == 0)
        return tool_usage(common, "name an operator, such as %s", KILN_GEMM);
    bool ours = strcmp(argv[0], KILN_GEMM) == 0 || strcmp(argv[0], "gemm") == 0;
    asked->operator_name = ours ? KILN_GEMM : argv[0];
    asked->device = asked->backend = "";
    if (ours && (argc < 2 || strncmp(argv[1], "descriptor=", 11) != 0))
        return read_gemm(common, argc, argv, asked);
    if (!ours && (kiln_yaml_nearest(argv[0], known, 1) || !strchr(argv[0], '/')))
        return tool_usage(common, "'%s' is no operator; operators have names such as %s", argv[0],
                          KILN_GEMM);
    return read_any(common, argc, argv, asked);
}

/* What the options say. */
typedef struct explain_options {
    bool measure, help;
    const char *replay;
    explain_measure_options measuring;
} explain_options;

static bool read_number(const tool_common *common, const char *name, int64_t maximum,
                        int64_t *value)
{
    if (tool_read_integer(optarg, 1, maximum, value))
        return true;
    tool_usage(common, "--%s takes a whole number from 1 to %lld, not '%s'", name,
               (long long)maximum, optarg);
    return false;
}

static bool take_option(const tool_common *common, int option, explain_options *read)
{
    switch (option) {
    case OPTION_MEASURE:
        read->measure = true;
        return true;
    case OPTION_REPLAY:
        read->replay = optarg;
        return true;
    case OPTION_ROUNDS:
        return read_number(common, "rounds", 100000, &read->measuring.rounds);
    case OPTION_SLICE:
        return read_number(common, "slice", 10000, &read->measuring.slice_ms);
    default:
        read->help = option == TOOL_OPTION_HELP;
        return read->help;
    }
}

/* --replay takes words that say where and whom to ask. */
static int replay_command(const tool_common *common, const char *path, int argc, char **argv)
{
    const char *device = "", *backend = "";
    for (int i = 0; i < argc; i++) {
        if (strncmp(argv[i], "device=", 7) == 0)
            device = argv[i] + 7;
        else if (strncmp(argv[i], "backend=", 8) == 0)
            backend = argv[i] + 8;
        else
            return tool_usage(common, "--replay takes device=NAME and backend=NAME, not '%s'",
                              argv[i]);
    }
    return explain_replay(common, path, device, backend);
}

static int command(tool_common *common, int argc, char **argv)
{
    explain_options read = {.measuring = {.slice_ms = 20, .rounds = 25}};
    int option;
    while ((option = tool_next_option(common, argc, argv, options)) != -1)
        if (option == '?' || !take_option(common, option, &read))
            return TOOL_USAGE;
    if (read.help) {
        printf("%s%s\n%s\nWords for kiln.gemm/1:\n%s\nOptions:\n%s%s", help, explain_replay_help,
               explain_measure_help, gemm_words_help, own_help, TOOL_COMMON_HELP);
        return TOOL_OK;
    }
    if (read.replay && read.measure)
        return tool_usage(common, "--replay and --measure exclude each other: kiln bench --replay "
                                  "measures the calls of a record");
    if (read.replay)
        return replay_command(common, read.replay, argc - optind, argv + optind);
    question asked;
    memset(&asked, 0, sizeof asked);
    int code = read_words(common, argc - optind, argv + optind, &asked);
    if (code != TOOL_OK)
        return code;
    if (read.measure && asked.descriptor != &asked.gemm.desc.head)
        return tool_usage(common, "--measure takes a GEMM in words");
    kiln_runtime *runtime;
    if (read.measure)
        tool_catch_interrupts();
    if (!tool_runtime_open(common, &runtime))
        return TOOL_FAILED;
    code = read.measure ? explain_measure(common, runtime, &asked.gemm, &read.measuring)
                        : explain(common, runtime, &asked);
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
