/* SPDX-License-Identifier: Apache-2.0 */
/* Certifying a plugin: named checks at four levels, each run in processes of its own, so that a
 * plugin that crashes, hangs or exits fails a check and no more. The program that asks never loads
 * the plugin itself. `kiln check-plugin` is this with a command line; the public API and the vendor
 * contract (kiln/plugin.h) are all that it uses. */
#ifndef KILN_CONFORMANCE_PLUGIN_H
#define KILN_CONFORMANCE_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is looked at. Each level includes those before it. */
typedef enum conformance_level {
    CONFORMANCE_LEVEL_ABI = 1,    /* the shared object, its entry and its tables, by themselves */
    CONFORMANCE_LEVEL_DEVICE = 2, /* kiln.device/1: memory, copies, streams, events, faults */
    CONFORMANCE_LEVEL_OP = 3,     /* every operator that the kit knows: results and refusals */
    CONFORMANCE_LEVEL_STRESS = 4  /* threads, fork, many cycles, repeated bits, leaks */
} conformance_level;

typedef struct conformance_subject {
    const char *path;    /* the plugin's file, absolute */
    const char *name;    /* the plugin's name: the file's without .so */
    const char *options; /* YAML of options.<name> in the profile, or "" */
    uint64_t seed;
    int64_t cases; /* random cases of an operator's sweep */
    /* Asked while a check runs: true ends it, as failed. NULL = never. */
    bool (*interrupted)(void);
    int time_limit_s;    /* of each check, in place of its own; 0 = its own. Each plan may take as
                            long beside */
    bool known_to_print; /* abi.silent has failed: other checks do not fail for what is printed */
} conformance_subject;

typedef enum conformance_verdict {
    CONFORMANCE_CHECK_PASSED = 0,
    CONFORMANCE_CHECK_FAILED = 1,
    CONFORMANCE_CHECK_NOT_APPLICABLE = 2 /* the plugin offers nothing of the kind */
} conformance_verdict;

/* What a check finds. Begins as PASSED without text. */
typedef struct conformance_report {
    conformance_verdict verdict;
    int64_t cases;    /* things tried */
    int64_t declined; /* of them, those that the plugin said it does not serve */
    int64_t judged;   /* computed results that were compared with what they must be */
    uint64_t vectors; /* hash of the inputs that were tried; 0 = none worth naming */
    char text[1024];  /* why not; for a pass a remark or "" */
} conformance_report;

/* Sets the verdict to FAILED with a sentence, unless it is already so: the first failure counts. */
void conformance_fail(conformance_report *report, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Nothing can be said: the verdict becomes NOT_APPLICABLE, unless something has failed. */
void conformance_skip(conformance_report *report, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* One check. Names are "level.what" in lower case with hyphens ("abi.one-symbol",
 * "device.copy-strided", "op.gemm.nan", "stress.threads") and never change their meaning. */
typedef struct conformance_check {
    const char *name;
    conformance_level level;
    const char *what; /* a sentence: what the plugin must do */
    /* Called in a fresh process that has loaded no plugin and opened no runtime, with nothing
     * printed to or read from the terminal. A crash, an exit or the time limit fails the check. */
    void (*run)(const conformance_subject *subject, conformance_report *report);
    int time_limit_s; /* 0 = 60; or CONFORMANCE_LIMIT_BY_CASES */
} conformance_check;

/* 60 seconds, and one more for every 10 of subject->cases. */
enum { CONFORMANCE_LIMIT_BY_CASES = -1 };

/* The checks of a level, in order; one array per folder of conformance/plugin/. */
extern const conformance_check conformance_abi_checks[], conformance_device_checks[],
    conformance_op_checks[], conformance_stress_checks[];
extern const size_t conformance_abi_check_count, conformance_device_check_count,
    conformance_op_check_count, conformance_stress_check_count;

/* Runs one check in a process of its own and waits for it. */
void conformance_run_check(const conformance_check *check, const conformance_subject *subject,
                           conformance_report *report);

#endif
