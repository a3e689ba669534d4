/* SPDX-License-Identifier: Apache-2.0 */
/* What a profile says of plugins: backends of operators, options. */
#include "tests/core/profile_world.h"

/* ---- Operators ---- */

static void backends_of_operators(void **state)
{
    (void)state;
    kiln_profile *profile = load_text("schema: 1\n"
                                      "operators:\n"
                                      "  kiln.gemm/1: [npu, ref]\n"
                                      "  kiln.topk/1:\n"
                                      "    backends: [cpu, npu, ref]\n"
                                      "    deny: [npu]\n"
                                      "    types: {f16: [npu, ref], i8: []}\n"
                                      "  kiln.tile/1: {deny: []}\n"
                                      "  kiln.filter/1: {types: {f32: [cpu]}}\n"
                                      "  default:\n"
                                      "    backends: [ref, old, cpu]\n"
                                      "    deny: [old, ref]\n"
                                      "    types: {bf16: [npu]}\n");
    assert_backends(profile, "kiln.gemm/1", KILN_BF16, "npu");    /* ref by the general denial */
    assert_backends(profile, "kiln.topk/1", KILN_F32, "cpu ref"); /* its own denial replaces that */
    assert_backends(profile, "kiln.topk/1", KILN_F16, "ref");
    assert_backends(profile, "kiln.topk/1", KILN_I8, "");
    assert_backends(profile, "kiln.tile/1", KILN_F32, "ref old cpu");
    assert_backends(profile, "kiln.tile/1", KILN_BF16, "npu");
    assert_backends(profile, "kiln.filter/1", KILN_F32, "cpu");
    assert_backends(profile, "kiln.filter/1", KILN_F64,
                    "cpu"); /* default's order, less the denied */
    assert_backends(profile, "acme.sort/1", KILN_TYPE_NONE, "cpu");
    assert_backends(profile, "acme.sort/1", KILN_BF16, "npu");
    const char *names[1] = {NULL};
    assert_int_equal(kiln_profile_backends(profile, "kiln.tile/1", KILN_F32, names, 1), 3);
    assert_string_equal(names[0], "ref");
    assert_true(kiln_profile_denied(profile, "kiln.topk/1", "npu"));
    assert_false(kiln_profile_denied(profile, "kiln.topk/1", "old"));
    assert_true(kiln_profile_denied(profile, "kiln.gemm/1", "old"));
    assert_true(kiln_profile_denied(profile, "acme.sort/1", "old"));
    assert_false(kiln_profile_denied(profile, "kiln.tile/1", "old"));
    kiln_profile_free(profile);

    profile = load_text("schema: 1\noperators: {default: {deny: [x]}}");
    assert_backends(profile, "kiln.gemm/1", KILN_F32, "(plugins)");
    assert_true(kiln_profile_denied(profile, "kiln.gemm/1", "x"));
    assert_false(kiln_profile_denied(profile, "kiln.gemm/1", "y"));
    kiln_profile_free(profile);
    profile = load_text("schema: 1");
    assert_backends(profile, "kiln.gemm/1", KILN_F32, "(plugins)");
    assert_false(kiln_profile_denied(profile, "kiln.gemm/1", "x"));
    kiln_profile_free(profile);
}

/* ---- Options of plugins ---- */

static const kiln_option acme_options[] = {
    {"cores", "1", "how many cores", NULL, 1, 64, KILN_OPTION_INTEGER, 0},
    {"ub_bytes", "256KiB", "size of the buffer", NULL, 1024, 1 << 20, KILN_OPTION_INTEGER, 0},
    {"any", "-5", "no limit", NULL, 0, 0, KILN_OPTION_INTEGER, 0},
    {"ratio", "0.5", "a ratio", NULL, 0, 1, KILN_OPTION_NUMBER, 0},
    {"fast", "false", "whether to be fast", NULL, 0, 0, KILN_OPTION_BOOLEAN, 0},
    {"label", NULL, "a name", NULL, 0, 0, KILN_OPTION_STRING, 0},
    {"order", "program", "the order", "program|reversed|round-robin", 0, 0, KILN_OPTION_CHOICE, 0},
};
static const kiln_plugin acme = {.struct_size = sizeof acme,
                                 .name = "acme",
                                 .options = acme_options,
                                 .option_count = COUNT(acme_options)};

static void default_options(void **state)
{
    (void)state;
    kiln_profile *profile = load_text("schema: 1\noptions: {other: {cores: 9}}");
    kiln_option_value values[COUNT(acme_options)];
    int64_t before = kiln_profile_setting_count(profile);
    assert_int_equal(kiln_profile_plugin_options(profile, &acme, values), KILN_OK);
    assert_int_equal(values[0].integer, 1);
    assert_int_equal(values[1].integer, 256 << 10);
    assert_string_equal(values[1].text, "256KiB");
    assert_int_equal(values[2].integer, -5);
    assert_true(values[3].number == 0.5);
    assert_int_equal(values[4].integer, 0);
    assert_string_equal(values[5].text, "");
    assert_int_equal(values[6].integer, 0);
    assert_string_equal(values[6].text, "program");
    assert_int_equal(kiln_profile_setting_count(profile), before + (int64_t)COUNT(acme_options));
    assert_setting(profile, "options.acme.ub_bytes", "256KiB", "built-in");
    assert_int_equal(kiln_profile_plugin_options(profile, &acme, values), KILN_OK);
    assert_int_equal(kiln_profile_setting_count(profile), before + (int64_t)COUNT(acme_options));
    kiln_profile_free(profile);
}

static void given_options(void **state)
{
    (void)state;
    kiln_profile *profile = load_text(
        "schema: 1\n"
        "options:\n"
        "  acme: {cores: 64, ub_bytes: 1MiB, any: 9223372036854775807, ratio: 1, fast: true,\n"
        "         label: 'two words', order: round-robin}\n");
    kiln_option_value values[COUNT(acme_options)];
    assert_int_equal(kiln_profile_plugin_options(profile, &acme, values), KILN_OK);
    assert_int_equal(values[0].integer, 64);
    assert_int_equal(values[1].integer, 1 << 20);
    assert_true(values[2].integer == INT64_MAX);
    assert_true(values[3].number == 1);
    assert_int_equal(values[4].integer, 1);
    assert_string_equal(values[5].text, "two words");
    assert_int_equal(values[6].integer, 2);
    for (int64_t i = 0; i < kiln_profile_setting_count(profile); i++) {
        kiln_setting_info info = {.struct_size = sizeof info};
        kiln_profile_setting_at(profile, i, &info);
        if (strcmp(info.path, "options.acme.cores") == 0)
            assert_string_equal(info.help, "how many cores");
    }
    kiln_profile_free(profile);
}

static void wrong_options(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"{corse: 1}",
         "profile_text:2:18: unknown option of plugin acme 'corse' (did you mean 'cores'?)"},
        {"{xyzzy: 1}", "profile_text:2:18: unknown option of plugin acme 'xyzzy'; known: cores, "
                       "ub_bytes, any, ratio, fast, "
                       "label, order"},
        {"{cores: 65}", "profile_text:2:25: options.acme.cores: expected an integer from 1 to 64 "
                        "(KiB, MiB or GiB may "
                        "follow), found '65'"},
        {"{any: x}", "profile_text:2:23: options.acme.any: expected an integer (KiB, MiB or GiB "
                     "may follow), found 'x'"},
        {"{ratio: 1.5}",
         "profile_text:2:25: options.acme.ratio: expected a number from 0 to 1, found '1.5'"},
        {"{fast: on}", "profile_text:2:24: options.acme.fast: expected true or false (yes, no, on, "
                       "off, 1, 0 are not "
                       "taken), found 'on'"},
        {"{order: random}", "profile_text:2:25: options.acme.order: expected one of program, "
                            "reversed, round-robin, found 'random'"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char text[256];
        kiln_option_value values[COUNT(acme_options)];
        snprintf(text, sizeof text, "schema: 1\noptions: {acme: %s}", cases[i][0]);
        kiln_profile *profile = load_text(text);
        assert_int_equal(kiln_profile_plugin_options(profile, &acme, values), KILN_PARSE);
        assert_string_equal(kiln_last_error(), cases[i][1]);
        kiln_profile_free(profile);
    }
}

static void wrong_declarations(void **state)
{
    (void)state;
    static const struct {
        kiln_option option;
        const char *sentence;
    } cases[] = {
        {{NULL, "1", "", NULL, 0, 0, KILN_OPTION_INTEGER, 0},
         "plugin bad declares option 0 ('') wrongly: its key is missing, longer than 63 bytes, or "
         "has '.', ':' or space in it"},
        {{"a.b", "1", "", NULL, 0, 0, KILN_OPTION_INTEGER, 0},
         "plugin bad declares option 0 ('a.b') wrongly: its key is missing, longer than 63 bytes, "
         "or has '.', ':' or space in "
         "it"},
        {{"a", "1", "", NULL, 0, 0, 99, 0},
         "plugin bad declares option 0 ('a') wrongly: its type is unknown"},
        {{"a", "1", "", NULL, 0, 0, KILN_OPTION_CHOICE, 0},
         "plugin bad declares option 0 ('a') wrongly: it is a choice without choices"},
        {{"a", "7", "", NULL, 1, 2, KILN_OPTION_INTEGER, 0},
         "plugin bad: default of options.bad.a:1:1: options.bad.a: expected an integer from 1 to 2 "
         "(KiB, MiB or GiB may "
         "follow), found '7'"},
        {{"a", "[", "", NULL, 0, 0, KILN_OPTION_STRING, 0},
         "plugin bad: default of options.bad.a:2:1: did not find expected node content while "
         "parsing a flow node"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        kiln_plugin bad = {.struct_size = sizeof bad,
                           .name = "bad",
                           .options = &cases[i].option,
                           .option_count = 1};
        kiln_option_value value;
        kiln_profile *profile = load_text("schema: 1");
        assert_int_equal(kiln_profile_plugin_options(profile, &bad, &value), KILN_PLUGIN);
        assert_string_equal(kiln_last_error(), cases[i].sentence);
        kiln_profile_free(profile);
    }
    kiln_plugin absent = {.struct_size = sizeof absent, .name = "bad", .option_count = 3};
    kiln_profile *empty = load_text("schema: 1");
    assert_int_equal(kiln_profile_plugin_options(empty, &absent, NULL), KILN_PLUGIN);
    assert_string_equal(kiln_last_error(), "plugin bad declares 3 options but no array of them");
    absent.options = acme_options;
    absent.option_count = 1000;
    assert_int_equal(kiln_profile_plugin_options(empty, &absent, NULL), KILN_PLUGIN);
    assert_string_equal(kiln_last_error(),
                        "plugin bad declares 1000 options; at most 256 are allowed");
    kiln_profile_free(empty);
    kiln_plugin none = {.struct_size = sizeof none, .name = "none"};
    kiln_profile *profile = load_text("schema: 1\noptions: {none: {a: 1}}");
    assert_int_equal(kiln_profile_plugin_options(profile, &none, NULL), KILN_PARSE);
    assert_string_equal(kiln_last_error(),
                        "profile_text:2:18: unknown option of plugin none 'a'; known: none");
    kiln_profile_free(profile);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(backends_of_operators), cmocka_unit_test(default_options),
        cmocka_unit_test(given_options),         cmocka_unit_test(wrong_options),
        cmocka_unit_test(wrong_declarations),
    };
    return cmocka_run_group_tests_name("profile_plugins", tests, NULL, NULL);
}
