/* SPDX-License-Identifier: Apache-2.0 */
/* Counts the random GEMM cases that one backend serves and those that it declines:
 * CONFORMANCE_GEMM_CELLS consecutive ones of seed 1, which ask for every cell of types × layouts ×
 * kinds × groupings once. tests/conformance/counts/ holds what each backend of the tree gave, so
 * that one that begins to decline what it served is noticed.
 *
 *     ./run tests/conformance/count_cases ref >SOURCE/tests/conformance/counts/ref.txt
 */
#include <stdio.h>
#include <string.h>

#include "conformance/gemm.h"

typedef struct counted {
    int64_t served, declined;
} counted;

static counted types[CONFORMANCE_GEMM_TYPES][CONFORMANCE_GEMM_GROUPINGS];
static counted layouts[CONFORMANCE_GEMM_LAYOUTS], kinds[CONFORMANCE_GEMM_KINDS], all;

static void count(counted *one, bool served)
{
    one->served += served;
    one->declined += !served;
}

static void count_case(const conformance_gemm_case *test, bool served)
{
    const kiln_gemm_desc *desc = &test->desc;
    bool occurs[CONFORMANCE_GEMM_KINDS] = {desc->epilogue_count == 0};
    for (uint32_t i = 0; i < desc->epilogue_count; i++)
        occurs[desc->epilogues[i].kind] = true;
    for (int kind = 0; kind < CONFORMANCE_GEMM_KINDS; kind++)
        if (occurs[kind])
            count(&kinds[kind], served);
    count(&types[test->type][desc->grouping], served);
    count(&layouts[(desc->head.flags & KILN_GEMM_TRANSPOSE_A ? 2 : 0) +
                   (desc->head.flags & KILN_GEMM_TRANSPOSE_B ? 1 : 0)],
          served);
    count(&all, served);
}

static void print_all(const char *backend)
{
    printf("# Cases of GEMM that %s serves and declines: seed 1, cases 0 to %d.\n", backend,
           CONFORMANCE_GEMM_CELLS - 1);
    printf("# Made by: ./run tests/conformance/count_cases %s\n", backend);
    printf("%-16s %-10s %6s %8s\n", "types", "grouping", "served", "declined");
    for (int type = 0; type < CONFORMANCE_GEMM_TYPES; type++)
        for (int grouping = 0; grouping < CONFORMANCE_GEMM_GROUPINGS; grouping++)
            printf("%-16s %-10s %6lld %8lld\n", conformance_gemm_types[type].name,
                   conformance_gemm_groupings[grouping], (long long)types[type][grouping].served,
                   (long long)types[type][grouping].declined);
    printf("%-27s %6s %8s\n", "layout", "served", "declined");
    for (int layout = 0; layout < CONFORMANCE_GEMM_LAYOUTS; layout++)
        printf("%-27s %6lld %8lld\n", conformance_gemm_layouts[layout],
               (long long)layouts[layout].served, (long long)layouts[layout].declined);
    printf("%-27s %6s %8s\n", "epilogue that occurs", "served", "declined");
    for (int kind = 0; kind < CONFORMANCE_GEMM_KINDS; kind++)
        printf("%-27s %6lld %8lld\n", conformance_gemm_kinds[kind], (long long)kinds[kind].served,
               (long long)kinds[kind].declined);
    printf("%-27s %6lld %8lld\n", "all", (long long)all.served, (long long)all.declined);
}

/* Cases without anything special, which are run and judged: a backend that serves little serves
 * these. */
static bool print_plain(kiln_runtime *runtime, const char *backend)
{
    enum { EACH = 24 };
    bool good = true;
    printf("# The first %d of each type without batch, groups, epilogues and packing, run and "
           "judged.\n",
           EACH);
    printf("%-27s %6s %8s\n", "types", "passed", "declined");
    for (int type = 0; type < CONFORMANCE_GEMM_TYPES; type++) {
        const conformance_gemm_filter filter = {
            .types = 1u << type,
            .groupings = 1u << KILN_GROUPING_NONE,
            .kinds = 1u << KILN_EPILOGUE_NONE,
            .without = CONFORMANCE_GEMM_BATCHED | CONFORMANCE_GEMM_PACKED |
                       CONFORMANCE_GEMM_SATURATING | CONFORMANCE_GEMM_APPROXIMATE};
        conformance_gemm_summary summary;
        memset(&summary, 0, sizeof summary);
        if (conformance_gemm_sweep_of(runtime, backend, &filter, 1, 0, EACH, &summary) != KILN_OK ||
            summary.failed) {
            fprintf(stderr, "count_cases: %s\n", summary.first_failure);
            good = false;
        }
        printf("%-27s %6lld %8lld\n", conformance_gemm_types[type].name, (long long)summary.passed,
               (long long)summary.declined);
    }
    return good;
}

/* True when it is planned; an error other than that it is not offered ends the counting. */
static bool plan(kiln_runtime *runtime, kiln_device *device, const char *backend,
                 const conformance_gemm_case *test, bool *broken)
{
    kiln_plan_options options = {.struct_size = sizeof options,
                                 .device = device,
                                 .backend = backend,
                                 .staging = KILN_STAGING_DENY};
    kiln_plan *made = NULL;
    kiln_status status = kiln_plan_create(runtime, KILN_GEMM, &test->desc.head, &options, &made);
    *broken = status != KILN_OK && status != KILN_UNSUPPORTED;
    kiln_plan_release(made);
    return status == KILN_OK;
}

int main(int argc, char **argv)
{
    char profile[128], name[64];
    kiln_runtime *runtime;
    kiln_device *device;
    bool broken = false;
    if (argc != 2) {
        fprintf(stderr, "usage: count_cases BACKEND\n");
        return 2;
    }
    snprintf(profile, sizeof profile, "schema: 1\nplugins: [%.31s]\n", argv[1]);
    snprintf(name, sizeof name, "%.31s:0", argv[1]);
    kiln_runtime_options options = {.struct_size = sizeof options, .profile_text = profile};
    if (kiln_runtime_open(&options, &runtime) != KILN_OK) {
        fprintf(stderr, "count_cases: %s\n", kiln_last_error());
        return 1;
    }
    conformance_gemm_summary none;
    memset(&none, 0, sizeof none);
    if (conformance_gemm_sweep(runtime, argv[1], 1, 0, 0, &none) != KILN_OK) {
        fprintf(stderr, "count_cases: the plugin %s is not open; kiln info says why\n", argv[1]);
        kiln_runtime_close(runtime);
        return 1;
    }
    if (kiln_device_find(runtime, name, &device) != KILN_OK)
        device = kiln_device_at(runtime, 0);
    for (int64_t index = 0; index < CONFORMANCE_GEMM_CELLS && !broken; index++) {
        conformance_gemm_case *test = conformance_gemm_case_create(1, index);
        if (!test) {
            fprintf(stderr, "count_cases: no memory for case %lld\n", (long long)index);
            return 1;
        }
        count_case(test, plan(runtime, device, argv[1], test, &broken));
        if (broken)
            fprintf(stderr, "count_cases: case %lld: %s\n", (long long)index, kiln_last_error());
        conformance_gemm_case_free(test);
    }
    if (!broken) {
        print_all(argv[1]);
        broken = !print_plain(runtime, argv[1]);
    }
    kiln_runtime_close(runtime);
    return broken;
}
