/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a record of calls: what is in it, what is merged, and what is refused, and where. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/kiln/recorded.h"

/* ---- Lines that are made up ---- */

static kiln_gemm_desc some_gemm(void)
{
    return (kiln_gemm_desc){.head = {sizeof(kiln_gemm_desc), KILN_GEMM_DYNAMIC_M},
                            .m = 8,
                            .n = 96,
                            .k = 64,
                            .batch = 1,
                            .a_type = KILN_F32,
                            .b_type = KILN_F32,
                            .d_type = KILN_F32};
}

/* The digits of `size` bytes; one text at a time. */
static const char *hex(const void *bytes, size_t size)
{
    static char text[2 * RECORDED_MAXIMUM_DESCRIPTOR + 64];
    assert_true(2 * size < sizeof text);
    text[0] = '\0';
    for (size_t i = 0; i < size; i++)
        snprintf(text + 2 * i, 3, "%02x", ((const unsigned char *)bytes)[i]);
    return text;
}

/* A line of a GEMM, with `more` members. In memory that the caller frees. */
static char *line_of(const kiln_gemm_desc *desc, const char *more)
{
    return tool_text("{\"record\":1,\"operator\":\"kiln.gemm/1\",\"backend\":\"ref\",\"device\":"
                     "\"host\",\"text\":\"\",\"descriptor\":\"%s\",%s}\n",
                     hex(desc, desc->head.struct_size), more);
}

static bool read_text(const char *text, recorded_calls *calls)
{
    FILE *file = tmpfile();
    assert_non_null(file);
    fputs(text, file);
    rewind(file);
    bool good = recorded_read_stream(file, "calls.jsonl", calls);
    fclose(file);
    return good;
}

static void read_good(const char *text, recorded_calls *calls)
{
    if (!read_text(text, calls))
        fail_msg("%s", calls->errors[0]);
    assert_int_equal(calls->error_count, 0);
}

/* The text is refused with these words. */
static void refuses(const char *text, const char *words)
{
    recorded_calls calls;
    if (read_text(text, &calls))
        fail_msg("accepted: %s", text);
    assert_true(calls.error_count > 0);
    if (!strstr(calls.errors[0], words))
        fail_msg("'%s' lacks '%s'", calls.errors[0], words);
    recorded_free(&calls);
}

/* ---- What is in it ---- */

static void test_a_line(void **state)
{
    (void)state;
    recorded_calls calls;
    kiln_gemm_desc desc = some_gemm();
    char *line = line_of(&desc, "\"sizes\":{\"m\":5,\"n\":96,\"k\":64,\"batch\":1},\"runs\":17");
    read_good(line, &calls);
    assert_int_equal(calls.count, 1);
    const recorded_call *call = &calls.calls[0];
    assert_string_equal(call->operator_name, "kiln.gemm/1");
    assert_string_equal(call->backend, "ref");
    assert_string_equal(call->device, "host");
    assert_string_equal(call->home, "host");
    assert_int_equal(call->runs, 17);
    assert_int_equal(call->line, 1);
    assert_int_equal(call->descriptor_size, sizeof desc);
    assert_memory_equal(call->descriptor, &desc, sizeof desc);
    recorded_gemm gemm;
    char text[320];
    assert_true(recorded_gemm_read(call, &gemm, text, sizeof text));
    assert_true(gemm.sizes_told);
    assert_int_equal(gemm.planned.m, 8);
    assert_int_equal(gemm.planned.head.flags, KILN_GEMM_DYNAMIC_M);
    assert_int_equal(gemm.actual.m, 5);
    assert_int_equal(gemm.actual.n, 96);
    assert_int_equal(gemm.actual.head.flags, 0);
    recorded_free(&calls);
    free(line);
}

/* Nothing is asked of a vendor's operator but that its descriptor says how long it is. */
static void test_other_operators_and_unknown_keys(void **state)
{
    (void)state;
    recorded_calls calls;
    read_good(
        "\n  \t\n{\"record\":1,\"operator\":\"acme.sort/1\",\"descriptor\":\"0800000000000000\","
        "\"runs\":3,\"later\":{\"x\":[1,2]},\"home\":\"acme:0\"}\n\n",
        &calls);
    assert_int_equal(calls.count, 1);
    assert_int_equal(calls.lines, 1);
    assert_int_equal(calls.calls[0].line, 3);
    assert_int_equal(calls.calls[0].size_count, 0);
    assert_string_equal(calls.calls[0].backend, "");
    assert_string_equal(calls.calls[0].home, "acme:0");
    recorded_gemm gemm;
    char text[320];
    assert_false(recorded_gemm_read(&calls.calls[0], &gemm, text, sizeof text));
    assert_non_null(strstr(text, "acme.sort/1"));
    recorded_free(&calls);
}

static void test_a_last_line_without_an_end(void **state)
{
    (void)state;
    recorded_calls calls;
    kiln_gemm_desc desc = some_gemm();
    char *line = line_of(&desc, "\"runs\":1");
    line[strlen(line) - 1] = '\0';
    read_good(line, &calls);
    assert_int_equal(calls.count, 1);
    recorded_free(&calls);
    read_good("", &calls);
    assert_int_equal(calls.count, 0);
    recorded_free(&calls);
    free(line);
}

/* ---- Merging ---- */

/* Lines that differ in anything but their counts stay apart; the order of sizes does not matter. */
static void test_equal_lines_are_one(void **state)
{
    (void)state;
    recorded_calls calls;
    kiln_gemm_desc desc = some_gemm(), other = some_gemm();
    other.k = 32;
    char *lines[] = {
        line_of(&desc, "\"sizes\":{\"m\":5,\"n\":96,\"k\":64,\"batch\":1},\"runs\":1"),
        line_of(&desc, "\"sizes\":{\"m\":6,\"n\":96,\"k\":64,\"batch\":1},\"runs\":10"),
        line_of(&other, "\"sizes\":{\"m\":5,\"n\":96,\"k\":32,\"batch\":1},\"runs\":100"),
        line_of(&desc, "\"sizes\":{\"batch\":1,\"k\":64,\"n\":96,\"m\":5},\"runs\":1000"),
        line_of(&desc, "\"runs\":10000"),
        line_of(&desc, "\"sizes\":{\"m\":6,\"n\":96,\"k\":64,\"batch\":1},\"runs\":0"),
        line_of(&desc, "\"home\":\"npu:0\",\"sizes\":{\"m\":5,\"n\":96,\"k\":64,\"batch\":1},"
                       "\"runs\":100000"),
        line_of(&desc, "\"sizes\":{\"m\":5,\"n\":96,\"k\":64,\"batch\":1},\"runs\":1000000"),
    };
    enum { LINES = sizeof lines / sizeof *lines };
    char *text = tool_text("%s", "");
    for (int i = 0; i < LINES; i++) {
        char *longer = tool_text("%s%s", text, lines[i]);
        free(text);
        free(lines[i]);
        text = longer;
    }
    read_good(text, &calls);
    free(text);
    assert_int_equal(calls.lines, LINES);
    static const int64_t expected[][2] = {{1, 1001001}, {2, 10}, {3, 100}, {5, 10000}, {7, 100000}};
    assert_int_equal(calls.count, 5);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(calls.calls[i].line, expected[i][0]);
        assert_int_equal(calls.calls[i].runs, expected[i][1]);
    }
    recorded_free(&calls);
}

static void test_counts_beyond_counting(void **state)
{
    (void)state;
    kiln_gemm_desc desc = some_gemm();
    char *line = line_of(&desc, "\"runs\":9223372036854775807");
    char *text = tool_text("%s%s", line, line);
    refuses(text,
            "calls.jsonl:2: with this line, \"runs\" of equal calls add up to more than 2^63");
    free(text);
    free(line);
}

/* ---- What is wrong, and where ---- */

static void test_malformed_lines(void **state)
{
    (void)state;
#define HEAD "{\"record\":1,\"operator\":\"a/1\",\"descriptor\":\"0800000000000000\",\"runs\":1"
    static const struct {
        const char *text, *words;
    } cases[] = {
        {"x\n", "calls.jsonl:1: not JSON, at column 1"},
        {"\n\n{\"record\":1\n", "calls.jsonl:3: not JSON"},
        {HEAD "} {}\n", "calls.jsonl:1: not JSON"},
        {HEAD ",\"runs\":2}\n", "calls.jsonl:1: not JSON, at column"}, /* twice the same key */
        {HEAD "}\n" HEAD ",\"text\":\"\xff\"}\n", "calls.jsonl:2: not JSON"},
        {"[1]\n", "a line of a record is a JSON object"},
        {"1\n", "calls.jsonl:1: "},
        {"{}\n", "\"record\" is missing, or no whole number"},
        {"{\"record\":2}\n", "record 2 is not known"},
        {"{\"record\":1.0}\n", "\"record\" is missing, or no whole number"},
        {"{\"record\":1}\n", "\"operator\" is missing"},
        {"{\"record\":1,\"operator\":7}\n", "\"operator\" is missing, or no text"},
        {"{\"record\":1,\"operator\":\"\"}\n", "\"operator\" has 0 bytes"},
        {"{\"record\":1,\"operator\":\"a/"
         "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"}\n",
         "\"operator\" has 67 bytes; 1 to 63 are possible"},
        {"{\"record\":1,\"operator\":\"a/1\"}\n", "\"runs\" is missing"},
        {"{\"record\":1,\"operator\":\"a/1\",\"runs\":-1}\n", "\"runs\" is missing, or no whole"},
        {"{\"record\":1,\"operator\":\"a/1\",\"runs\":1e3}\n", "\"runs\" is missing, or no whole"},
        {"{\"record\":1,\"operator\":\"a/1\",\"runs\":99999999999999999999}\n", "not JSON"},
        {"{\"record\":1,\"operator\":\"a/1\",\"runs\":1}\n", "\"descriptor\" is missing"},
        {"{\"record\":1,\"operator\":\"a1\",\"runs\":1,\"descriptor\":\"0800000000000000\"}\n",
         "'a1' is no operator"},
        {"{\"record\":1,\"operator\":\"a/1\",\"runs\":1,\"descriptor\":\"08000000000000\"}\n",
         "hexadecimal digits of 8 to 1024 bytes"},
        {"{\"record\":1,\"operator\":\"a/1\",\"runs\":1,\"descriptor\":\"080000000000000\"}\n",
         "hexadecimal digits of 8 to 1024 bytes"},
        {"{\"record\":1,\"operator\":\"a/1\",\"runs\":1,\"descriptor\":\"08000000000000zz\"}\n",
         "\"descriptor\" has 'zz'"},
        {"{\"record\":1,\"operator\":\"a/1\",\"runs\":1,\"descriptor\":\"0900000000000000\"}\n",
         "says that it has 9 bytes, but there are 8"},
        {HEAD ",\"sizes\":[]}\n", "\"sizes\" is no object"},
        {HEAD ",\"sizes\":{\"m\":-1}}\n", "\"m\" is missing, or no whole number"},
        {HEAD ",\"sizes\":{\"\":1}}\n", "\"sizes\" has the name ''"},
        {HEAD ",\"sizes\":{\"aaaaaaaaaaaaaaaa\":1}}\n",
         "\"sizes\" has the name 'aaaaaaaaaaaaaaaa'"},
        {HEAD ",\"sizes\":{\"a\":1,\"b\":1,\"c\":1,\"d\":1,\"e\":1,\"f\":1,\"g\":1,\"h\":1,"
              "\"i\":1}}\n",
         "\"sizes\" is no object of at most 8"},
        {HEAD ",\"home\":3}\n", "\"home\" is missing, or no text"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refuses(cases[i].text, cases[i].words);
    /* What stands in the file cannot command a terminal. */
    recorded_calls calls;
    assert_false(read_text("{\"record\":1,\"operator\":\"\\u001b[31m\\u0007\",\"runs\":1,"
                           "\"descriptor\":\"0800000000000000\"}\n",
                           &calls));
    assert_non_null(strstr(calls.errors[0], "'?[31m?' is no operator"));
    recorded_free(&calls);
}

/* All lines are read; the first errors are told, and how many there are. */
static void test_many_errors(void **state)
{
    (void)state;
    recorded_calls calls;
    char text[200] = "";
    for (int i = 0; i < 25; i++)
        strcat(text, i == 3 ? HEAD "}\n" : "x\n");
    assert_false(read_text(text, &calls));
    assert_int_equal(calls.error_count, 24);
    assert_int_equal(calls.count, 1);
    assert_non_null(strstr(calls.errors[0], "calls.jsonl:1: "));
    assert_non_null(strstr(calls.errors[3], "calls.jsonl:5: "));
    assert_non_null(calls.errors[RECORDED_MAXIMUM_ERRORS - 1]);
    recorded_free(&calls);
}

static void test_long_lines(void **state)
{
    (void)state;
    size_t size = 3 * RECORDED_MAXIMUM_LINE;
    char *text = calloc(size + 1, 1);
    recorded_calls calls;
    assert_non_null(text);
    memset(text, ' ', size);
    text[size - 1] = '\n';
    refuses(text, "calls.jsonl:1: the line is longer than 65536 bytes");
    /* One that just fits, with a line behind it. */
    memcpy(text, HEAD "}", strlen(HEAD "}"));
    memcpy(text + RECORDED_MAXIMUM_LINE, "\nx\n", 4);
    assert_false(read_text(text, &calls));
    assert_int_equal(calls.count, 1);
    assert_int_equal(calls.error_count, 1);
    assert_non_null(strstr(calls.errors[0], "calls.jsonl:2: "));
    recorded_free(&calls);
    free(text);
}

static void test_files_that_cannot_be_read(void **state)
{
    (void)state;
    recorded_calls calls;
    assert_false(recorded_read("/nonexistent/calls.jsonl", &calls));
    assert_string_equal(calls.errors[0],
                        "/nonexistent/calls.jsonl: cannot be read: No such file or directory");
    recorded_free(&calls);
    assert_false(recorded_read("/", &calls));
    assert_string_equal(calls.errors[0], "/: cannot be read: Is a directory");
    recorded_free(&calls);
}

/* ---- GEMMs ---- */

/* The descriptor with these sizes is refused with these words; NULL: it is taken. */
static void judges(const kiln_gemm_desc *desc, const char *more, const char *words)
{
    recorded_calls calls;
    recorded_gemm gemm;
    char *line = line_of(desc, more), text[320] = "";
    read_good(line, &calls);
    bool taken = recorded_gemm_read(&calls.calls[0], &gemm, text, sizeof text);
    if (taken != !words || (words && !strstr(text, words)))
        fail_msg("%s: '%s' instead of '%s'", more, text, words ? words : "");
    recorded_free(&calls);
    free(line);
}

static void test_sizes_that_do_not_fit(void **state)
{
    (void)state;
    kiln_gemm_desc desc = some_gemm();
    judges(&desc, "\"sizes\":{\"m\":8,\"n\":96,\"k\":64,\"batch\":1},\"runs\":1", NULL);
    judges(&desc, "\"sizes\":{\"m\":0,\"n\":96,\"k\":64,\"batch\":1},\"runs\":1", NULL);
    judges(&desc, "\"sizes\":{\"m\":8},\"runs\":1", NULL); /* the others are fixed */
    judges(&desc, "\"sizes\":{\"m\":9,\"n\":96,\"k\":64},\"runs\":1",
           "m is 9, but the plan was made for at most 8");
    judges(&desc, "\"sizes\":{\"m\":8,\"n\":95,\"k\":64},\"runs\":1",
           "n is 95, but the plan was made for 96");
    judges(&desc, "\"sizes\":{\"n\":96},\"runs\":1", "m is dynamic, and its size is not told");
    judges(&desc, "\"sizes\":{\"m\":8,\"q\":1},\"runs\":1",
           "sizes that this version does not know");
}

static void test_descriptors_of_other_versions(void **state)
{
    (void)state;
    struct {
        kiln_gemm_desc desc;
        int64_t later;
    } longer = {some_gemm(), 0};
    longer.desc.head.struct_size = sizeof longer;
    judges(&longer.desc, "\"runs\":1", NULL); /* nothing is said beyond what is known */
    longer.later = 1;
    judges(&longer.desc, "\"runs\":1", "fields that this version does not know");
    kiln_gemm_desc desc = some_gemm();
    desc.head.struct_size = offsetof(kiln_gemm_desc, epilogues); /* shorter: zero beyond */
    judges(&desc, "\"runs\":1", NULL);
    desc.head.struct_size = 16;
    judges(&desc, "\"runs\":1", "a_type is 0");
}

static void test_descriptors_that_make_no_sense(void **state)
{
    (void)state;
#define REFUSED(member, value, words)       \
    do {                                    \
        kiln_gemm_desc desc = some_gemm();  \
        desc.member = value;                \
        judges(&desc, "\"runs\":1", words); \
    } while (0)
    REFUSED(m, -1, "none may be negative");
    REFUSED(batch, INT64_MIN, "none may be negative");
    REFUSED(a_type, 77, "a_type is 77");
    REFUSED(c_type, 77, "c_type is 77");
    REFUSED(accumulator, 99, "accumulator is 99");
    REFUSED(epilogue_count, 9, "it has 9 epilogues; 8 are possible");
    REFUSED(epilogue_count, 1, "epilogue 0 has kind 0");
    REFUSED(grouping, 9, "grouping 9");
    REFUSED(grouping, KILN_GROUPING_MASKED, "grouping 2 with 0 groups");
    REFUSED(groups, 3, "grouping 0 with 3 groups");
    REFUSED(a_quantization.scale_type, KILN_F32, "a scale for every 0 x 0 elements");
    REFUSED(b_quantization.block[1], -2, "a scale for every 0 x -2 elements");
    REFUSED(d_quantization.zero_type, 200, "the type of zero points is 200");
    kiln_gemm_desc desc = some_gemm();
    desc.epilogue_count = 1;
    desc.epilogues[0] = (kiln_epilogue){.kind = KILN_EPILOGUE_BIAS, .operand = 5};
    judges(&desc, "\"runs\":1", "operand shape 5");
    desc.epilogues[0].operand = KILN_OPERAND_ROW;
    judges(&desc, "\"runs\":1", "the type of an epilogue's operand is 0");
}

/* Without their sizes, dynamic plans are told to be unknown; fixed ones are what they are. */
static void test_sizes_that_are_not_told(void **state)
{
    (void)state;
    for (int dynamic = 0; dynamic < 2; dynamic++) {
        recorded_calls calls;
        recorded_gemm gemm;
        kiln_gemm_desc desc = some_gemm();
        desc.head.flags = dynamic ? KILN_GEMM_DYNAMIC_M : 0;
        char *line = line_of(&desc, "\"runs\":1"), text[320];
        read_good(line, &calls);
        assert_true(recorded_gemm_read(&calls.calls[0], &gemm, text, sizeof text));
        assert_int_equal(gemm.sizes_told, !dynamic);
        assert_int_equal(gemm.actual.m, 8);
        recorded_free(&calls);
        free(line);
    }
}

/* Contiguous operands keep only what their rows allow. */
static void test_alignments_are_lowered(void **state)
{
    (void)state;
    recorded_calls calls;
    recorded_gemm gemm;
    kiln_gemm_desc desc = some_gemm();
    desc.n = 30; /* rows of 120 bytes */
    desc.a_alignment = desc.b_alignment = desc.d_alignment = 64;
    char *line = line_of(&desc, "\"runs\":1"), text[320];
    read_good(line, &calls);
    assert_true(recorded_gemm_read(&calls.calls[0], &gemm, text, sizeof text));
    assert_int_equal(gemm.planned.a_alignment, 64);
    assert_int_equal(gemm.planned.b_alignment, 8);
    assert_int_equal(gemm.actual.d_alignment, 8);
    recorded_free(&calls);
    free(line);
}

static void test_words(void **state)
{
    (void)state;
    char text[256];
    kiln_gemm_desc desc = some_gemm();
    desc.a_alignment = desc.b_alignment = desc.d_alignment = 64;
    assert_string_equal(recorded_gemm_words(&desc, text, sizeof text), "m<=8 n=96 k=64");
    desc.head.flags = KILN_GEMM_TRANSPOSE_B | KILN_GEMM_SATURATE;
    desc.batch = 3;
    desc.c_type = KILN_F16;
    desc.c_alignment = 64;
    desc.epilogue_count = 4;
    desc.epilogues[0] = (kiln_epilogue){KILN_EPILOGUE_BIAS, KILN_OPERAND_COLUMN, KILN_F16, 0, 0, 0};
    desc.epilogues[1] = (kiln_epilogue){.kind = KILN_EPILOGUE_SCALE, .p0 = 0.1};
    desc.epilogues[2] = (kiln_epilogue){.kind = KILN_EPILOGUE_CLIP, .p0 = -1.0 / 3, .p1 = 6};
    desc.epilogues[3] =
        (kiln_epilogue){KILN_EPILOGUE_MULTIPLY, KILN_OPERAND_MATRIX, KILN_F32, 0, 0, 0};
    assert_string_equal(recorded_gemm_words(&desc, text, sizeof text),
                        "m=8 n=96 k=64 batch=3 transpose_b beta=1 c=f16 epilogues=bias:column:f16,"
                        "scale:0.1,clip:-0.33333333333333331:6,multiply saturate");
    desc = some_gemm();
    assert_string_equal(recorded_gemm_words(&desc, text, sizeof text),
                        "m<=8 n=96 k=64 alignment=4");
    desc.a_alignment = 16;
    assert_string_equal(recorded_gemm_words(&desc, text, sizeof text),
                        "m<=8 n=96 k=64 [aligned: a 16 b 4 c 4 d 4]");
    desc.grouping = KILN_GROUPING_CONTIGUOUS;
    desc.groups = 4;
    desc.b_quantization = (kiln_quantization){KILN_F32, KILN_TYPE_NONE, {128, -1}};
    char small[12];
    recorded_gemm_words(&desc, text, sizeof text);
    assert_non_null(strstr(text, " b_scale=f32 b_block=128xall"));
    assert_non_null(strstr(text, " groups=contiguous:4"));
    assert_string_equal(recorded_gemm_words(&desc, small, sizeof small), "m<=8 n=96 k");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_line),
        cmocka_unit_test(test_other_operators_and_unknown_keys),
        cmocka_unit_test(test_a_last_line_without_an_end),
        cmocka_unit_test(test_equal_lines_are_one),
        cmocka_unit_test(test_counts_beyond_counting),
        cmocka_unit_test(test_malformed_lines),
        cmocka_unit_test(test_many_errors),
        cmocka_unit_test(test_long_lines),
        cmocka_unit_test(test_files_that_cannot_be_read),
        cmocka_unit_test(test_sizes_that_do_not_fit),
        cmocka_unit_test(test_descriptors_of_other_versions),
        cmocka_unit_test(test_descriptors_that_make_no_sense),
        cmocka_unit_test(test_sizes_that_are_not_told),
        cmocka_unit_test(test_alignments_are_lowered),
        cmocka_unit_test(test_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
