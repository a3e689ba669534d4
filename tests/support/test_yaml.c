/* SPDX-License-Identifier: Apache-2.0 */
/* The YAML reader: trees, places, limits, conversions. */
#define _GNU_SOURCE /* mkdtemp */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/yaml.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static kiln_yaml *parse(const char *text)
{
    kiln_yaml *tree = NULL;
    kiln_yaml_error error = {""};
    if (kiln_yaml_parse("t.yaml", text, strlen(text), &tree, &error) != KILN_YAML_OK)
        fail_msg("%s", error.text);
    return tree;
}

/* The text must be refused with exactly this sentence. */
static void refuse_bytes(const char *text, size_t size, const char *sentence)
{
    kiln_yaml *tree = NULL;
    kiln_yaml_error error = {""};
    assert_int_equal(kiln_yaml_parse("t.yaml", text, size, &tree, &error), KILN_YAML_MALFORMED);
    assert_null(tree);
    assert_string_equal(error.text, sentence);
}

static void assert_node(const kiln_yaml_node *node, kiln_yaml_kind kind, int line, int column,
                        const char *text)
{
    assert_non_null(node);
    assert_int_equal(node->kind, kind);
    assert_int_equal(node->line, line);
    assert_int_equal(node->column, column);
    assert_string_equal(node->name, "t.yaml");
    if (text)
        assert_string_equal(node->text, text);
    else
        assert_null(node->text);
}

static void places_and_kinds(void **state)
{
    (void)state;
    kiln_yaml *tree = parse("# remark\n"
                            "a: 1\n"
                            "list:\n"
                            "  - x\n"
                            "  - 'y z'\n"
                            "m: {d: é, \"e\": []}\n"
                            "block: |\n"
                            "  two\n"
                            "  lines\n");
    const kiln_yaml_node *root = kiln_yaml_root(tree);
    assert_node(root, KILN_YAML_MAPPING, 2, 1, NULL);
    assert_int_equal(root->count, 4);
    assert_node(root->keys[1], KILN_YAML_SCALAR, 3, 1, "list");
    assert_node(kiln_yaml_get(root, "a"), KILN_YAML_SCALAR, 2, 4, "1");
    assert_false(kiln_yaml_get(root, "a")->quoted);

    const kiln_yaml_node *list = kiln_yaml_get(root, "list");
    assert_node(list, KILN_YAML_SEQUENCE, 4, 3, NULL);
    assert_int_equal(list->count, 2);
    assert_node(list->items[1], KILN_YAML_SCALAR, 5, 5, "y z");
    assert_true(list->items[1]->quoted);
    assert_false(list->items[0]->quoted);
    assert_null(list->keys);
    assert_null(kiln_yaml_get(list, "x"));

    const kiln_yaml_node *mapping = kiln_yaml_get(root, "m");
    assert_node(mapping->keys[1], KILN_YAML_SCALAR, 6, 11, "e"); /* é counts once */
    assert_int_equal(kiln_yaml_get(mapping, "e")->count, 0);
    assert_string_equal(kiln_yaml_get(root, "block")->text, "two\nlines\n");
    assert_true(kiln_yaml_get(root, "block")->quoted);
    assert_null(kiln_yaml_get(root, "absent"));
    kiln_yaml_free(tree);
    kiln_yaml_free(NULL);
}

static void top_may_be_anything(void **state)
{
    (void)state;
    kiln_yaml *tree = parse("[a, b]");
    assert_int_equal(kiln_yaml_root(tree)->count, 2);
    kiln_yaml_free(tree);
    tree = parse("--- 12\n...\n");
    assert_string_equal(kiln_yaml_root(tree)->text, "12");
    kiln_yaml_free(tree);
}

static void nulls(void **state)
{
    (void)state;
    kiln_yaml *tree = parse("[~, null, '', \"null\", nil, {a: }]");
    static const bool expected[] = {true, true, false, false, false, false};
    const kiln_yaml_node *root = kiln_yaml_root(tree);
    for (size_t i = 0; i < COUNT(expected); i++)
        assert_int_equal(kiln_yaml_is_null(root->items[i]), expected[i]);
    assert_true(kiln_yaml_is_null(kiln_yaml_get(root->items[5], "a")));
    kiln_yaml_free(tree);
}

static void malformed(void **state)
{
    (void)state;
    static const struct {
        const char *text, *sentence;
    } cases[] = {
        {"", "t.yaml:1:1: there is nothing in it; write one document"},
        {"# only a remark\n", "t.yaml:1:1: there is nothing in it; write one document"},
        {"a: 1\nb: 2\na: 3", "t.yaml:3:1: duplicate key 'a', first on line 1"},
        {"{x: {a: 1, \"a\": 2}}", "t.yaml:1:12: duplicate key 'a', first on line 1"},
        {"a: 1\n---\nb: 2", "t.yaml:2:1: a second document; only one is allowed"},
        {"? [a]\n: 1", "t.yaml:1:3: a key must be plain text, not a list or a mapping"},
        {"a:\n  <<: {}", "t.yaml:2:3: merge keys (<<) are not supported; repeat the keys"},
        {"a: !x 1", "t.yaml:1:4: tags (!x) are not supported; leave it out"},
        {"!!map {}", "t.yaml:1:1: tags (tag:yaml.org,2002:map) are not supported; leave it out"},
        {"[!!seq []]", "t.yaml:1:2: tags (tag:yaml.org,2002:seq) are not supported; leave it out"},
        {"a: &x [*x]", "t.yaml:1:8: the alias *x lies within its own anchor"},
        {"a: *y", "t.yaml:1:4: no anchor &y stands before this alias"},
        {"a: \"\\0\"", "t.yaml:1:4: text may not hold a NUL character"},
        {"a: b: c", "t.yaml:1:5: mapping values are not allowed in this context"},
        {"a: [1, 2\n", "t.yaml:2:1: did not find expected ',' or ']' while parsing a flow "
                       "sequence that begins on line 1"},
        {"%YAML 3.0\n---\na", "t.yaml:1:1: found incompatible YAML document"},
        {"é: \xff", "t.yaml:1:4: invalid leading UTF-8 octet; the text must be UTF-8 without "
                    "control characters"},
        {"a: 1\nb: \x01", "t.yaml:2:4: control characters are not allowed; the text must be UTF-8 "
                          "without control characters"},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        refuse_bytes(cases[i].text, strlen(cases[i].text), cases[i].sentence);
    refuse_bytes("a\0b: 1", 6,
                 "t.yaml:1:2: control characters are not allowed; the text must be "
                 "UTF-8 without control characters");
    refuse_bytes("\xfe\xff\0a", 4,
                 "t.yaml:1:1: invalid leading UTF-8 octet; the text must be "
                 "UTF-8 without control characters");
}

static void long_keys(void **state)
{
    (void)state;
    char text[160];
    snprintf(text, sizeof text, "%0128d: 1", 1);
    kiln_yaml_free(parse(text));
    snprintf(text, sizeof text, "%0129d: 1", 1);
    refuse_bytes(text, strlen(text), "t.yaml:1:1: a key may have at most 128 bytes");
}

static void depth(void **state)
{
    (void)state;
    char text[64] = "";
    memset(text, '[', 16);
    memset(text + 16, ']', 16);
    kiln_yaml_free(parse(text));
    memset(text, '[', 17);
    memset(text + 17, ']', 17);
    refuse_bytes(text, 34, "t.yaml:1:17: nested deeper than 16 levels");
    /* Half as deep twice, through an alias. */
    kiln_yaml_free(parse("{a: &a [[[[[[[[[[1]]]]]]]]]], b: [[[[[*a]]]]]}"));
    const char *deep = "{a: &a [[[[[[[[[[1]]]]]]]]]], b: [[[[[[*a]]]]]]}";
    refuse_bytes(deep, strlen(deep), "t.yaml:1:40: nested deeper than 16 levels");
    /* An alias to what holds an alias. */
    const char *chain = "[&a [[[[[[1]]]]]], &b [[[[*a]]]], [[[[[[*b]]]]]]]";
    refuse_bytes(chain, strlen(chain), "t.yaml:1:41: nested deeper than 16 levels");
}

static void size_limits(void **state)
{
    (void)state;
    size_t size = KILN_YAML_MAX_BYTES + 1;
    char *text = malloc(size);
    assert_non_null(text);
    memset(text, ' ', size);
    memcpy(text, "a: 1\n#", 6);
    refuse_bytes(text, size, "t.yaml:1:1: larger than 1048576 bytes");
    kiln_yaml *tree = NULL;
    kiln_yaml_error error;
    assert_int_equal(kiln_yaml_parse("t.yaml", text, size - 1, &tree, &error), KILN_YAML_OK);
    kiln_yaml_free(tree);

    /* The list itself counts, so the last of 20,000 items is one too many. */
    size = 0;
    for (int i = 0; i < KILN_YAML_MAX_NODES - 1; i++)
        size += (size_t)sprintf(text + size, "- x\n");
    assert_int_equal(kiln_yaml_parse("t.yaml", text, size, &tree, &error), KILN_YAML_OK);
    assert_int_equal(kiln_yaml_root(tree)->count, KILN_YAML_MAX_NODES - 1);
    kiln_yaml_free(tree);
    size += (size_t)sprintf(text + size, "- x\n");
    refuse_bytes(text, size,
                 "t.yaml:20000:3: more than 20000 values, counting what aliases repeat");
    free(text);
}

static void aliases(void **state)
{
    (void)state;
    kiln_yaml *tree = parse("a: &x {k: [1]}\nb: *x\nc: &y s\nd: [*y, *x]\n");
    const kiln_yaml_node *root = kiln_yaml_root(tree);
    assert_ptr_equal(kiln_yaml_get(root, "a"), kiln_yaml_get(root, "b"));
    assert_string_equal(kiln_yaml_get(root, "d")->items[0]->text, "s");
    kiln_yaml_free(tree);

    tree = parse("[&x 1, &x 2, *x]"); /* the last anchor of a name counts */
    assert_string_equal(kiln_yaml_root(tree)->items[2]->text, "2");
    kiln_yaml_free(tree);

    /* A billion laughs. */
    const char *laughs = "a: &a [l, l, l, l, l, l, l, l, l, l]\n"
                         "b: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a, *a]\n"
                         "c: &c [*b, *b, *b, *b, *b, *b, *b, *b, *b, *b]\n"
                         "d: &d [*c, *c, *c, *c, *c, *c, *c, *c, *c, *c]\n"
                         "e: &e [*d, *d, *d, *d, *d, *d, *d, *d, *d, *d]\n";
    refuse_bytes(laughs, strlen(laughs),
                 "t.yaml:5:8: more than 20000 values, counting what aliases repeat");

    char text[1024] = "- &x 1\n";
    for (int i = 0; i < KILN_YAML_MAX_ALIASES; i++)
        strcat(text, "- *x\n");
    kiln_yaml_free(parse(text));
    strcat(text, "- *x\n");
    refuse_bytes(text, strlen(text), "t.yaml:66:3: more than 64 aliases");

    text[0] = '\0';
    for (int i = 0; i <= KILN_YAML_MAX_ALIASES; i++)
        strcat(text, "- &x 1\n");
    refuse_bytes(text, strlen(text), "t.yaml:65:3: more than 64 anchors");
}

static void integers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool size, valid;
        int64_t value;
    } cases[] = {
        {"0", false, true, 0},
        {"-7", false, true, -7},
        {"+7", false, true, 7},
        {"0x1F", false, true, 31},
        {"9223372036854775807", false, true, INT64_MAX},
        {"-9223372036854775808", false, true, INT64_MIN},
        {"9223372036854775808", false, false, 0},
        {"010", false, false, 0},
        {"0x", false, false, 0},
        {"1e3", false, false, 0},
        {"1.0", false, false, 0},
        {"1_000", false, false, 0},
        {"--1", false, false, 0},
        {"'1'", false, false, 0},
        {"four", false, false, 0},
        {"~", false, false, 0},
        {"[1]", false, false, 0},
        {"4KiB", false, false, 0},
        {"4KiB", true, true, 4096},
        {"4 KiB", true, true, 4096},
        {"3MiB", true, true, 3145728},
        {"2GiB", true, true, 2147483648},
        {"0x10KiB", true, true, 16384},
        {"4KB", true, false, 0},
        {"4K", true, false, 0},
        {"KiB", true, false, 0},
        {"8589934592GiB", true, false, 0}, /* 2^63 */
        {"8589934591GiB", true, true, INT64_C(8589934591) << 30},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        kiln_yaml *tree = parse(cases[i].text);
        kiln_yaml_error error = {""};
        int64_t value = 99;
        bool valid = kiln_yaml_integer(kiln_yaml_root(tree), "k", INT64_MIN, INT64_MAX,
                                       cases[i].size, &value, &error);
        if (valid != cases[i].valid || value != (valid ? cases[i].value : 99))
            fail_msg("%s: valid %d, value %" PRId64, cases[i].text, valid, value);
        kiln_yaml_free(tree);
    }
}

static void numbers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool valid;
        double value;
    } cases[] = {
        {"0.5", true, 0.5},   {"-1", true, -1},    {".5", true, 0.5}, {"5.", true, 5},
        {"1e-3", true, 1e-3}, {"1E+2", true, 100}, {"1e", false, 0},  {".", false, 0},
        {"1,5", false, 0},    {".inf", false, 0},  {"inf", false, 0}, {"nan", false, 0},
        {"0x1p3", false, 0},  {"1e999", false, 0}, {"'1'", false, 0}, {"1.5x", false, 0},
        {"[]", false, 0},     {"1e+", false, 0},   {"e5", false, 0},
    };
    /* A comma for the point, where the machine has such a locale. */
    bool german = setlocale(LC_NUMERIC, "de_DE.UTF-8") != NULL;
    print_message("# decimal comma: %s\n", german ? "tested" : "no such locale here");
    for (size_t i = 0; i < COUNT(cases); i++) {
        kiln_yaml *tree = parse(cases[i].text);
        kiln_yaml_error error = {""};
        double value = 99;
        bool valid = kiln_yaml_number(kiln_yaml_root(tree), "k", -1e300, 1e300, &value, &error);
        if (valid != cases[i].valid || value != (valid ? cases[i].value : 99))
            fail_msg("%s: valid %d, value %g", cases[i].text, valid, value);
        kiln_yaml_free(tree);
    }
    setlocale(LC_NUMERIC, "C");
}

static void refused_values(void **state)
{
    (void)state;
    kiln_yaml *tree = parse("a: {b: yes, c: '4', d: [1], e: , f: \"x\\ny\"}");
    const kiln_yaml_node *root = kiln_yaml_get(kiln_yaml_root(tree), "a");
    kiln_yaml_error error;
    bool truth;
    int64_t integer;
    double number;
    size_t index;
    const char *text;
    static const char *const names[] = {"red", "green"};

    assert_false(kiln_yaml_boolean(kiln_yaml_get(root, "b"), "a.b", &truth, &error));
    assert_string_equal(error.text, "t.yaml:1:8: a.b: expected true or false (yes, no, on, off, 1, "
                                    "0 are not taken), found 'yes'");
    assert_false(kiln_yaml_integer(kiln_yaml_get(root, "c"), "a.c", 0, 9, false, &integer, &error));
    assert_string_equal(error.text, "t.yaml:1:16: a.c: expected an integer from 0 to 9, found '4', "
                                    "which is text for its quotes");
    assert_false(
        kiln_yaml_integer(kiln_yaml_get(root, "d"), "a.d", 1, 4096, true, &integer, &error));
    assert_string_equal(error.text, "t.yaml:1:24: a.d: expected an integer from 1 to 4096 (KiB, "
                                    "MiB or GiB may follow), found a list");
    assert_false(kiln_yaml_number(kiln_yaml_get(root, "e"), "a.e", 0, 0.5, &number, &error));
    assert_string_equal(error.text,
                        "t.yaml:1:32: a.e: expected a number from 0 to 0.5, found nothing");
    assert_false(kiln_yaml_choice(kiln_yaml_get(root, "f"), "a.f", names, 2, &index, &error));
    assert_string_equal(error.text, "t.yaml:1:37: a.f: expected one of red, green, found 'x?y', "
                                    "which is text for its quotes");
    assert_false(kiln_yaml_text(kiln_yaml_get(root, "e"), "a.e", &text, &error));
    assert_string_equal(error.text, "t.yaml:1:32: a.e: expected text, found nothing");
    assert_false(kiln_yaml_text(root, "a", &text, &error));
    assert_string_equal(error.text, "t.yaml:1:4: a: expected text, found a mapping");
    assert_false(kiln_yaml_expect(root, "a", KILN_YAML_SEQUENCE, &error));
    assert_string_equal(error.text,
                        "t.yaml:1:4: a: expected a list such as [a, b], found a mapping");
    kiln_yaml_free(tree);
}

static void taken_values(void **state)
{
    (void)state;
    kiln_yaml *tree = parse("[true, false, green, '', 1.0]");
    kiln_yaml_node **items = kiln_yaml_root(tree)->items;
    kiln_yaml_error error;
    bool truth = false;
    size_t index = 0;
    const char *text = NULL;
    static const char *const names[] = {"red", "green"};
    assert_true(kiln_yaml_boolean(items[0], "k", &truth, &error) && truth);
    assert_true(kiln_yaml_boolean(items[1], "k", &truth, &error) && !truth);
    assert_true(kiln_yaml_choice(items[2], "k", names, 2, &index, &error) && index == 1);
    assert_true(kiln_yaml_text(items[3], "k", &text, &error) && !*text);
    assert_true(kiln_yaml_text(items[4], "k", &text, &error));
    assert_string_equal(text, "1.0");
    kiln_yaml_free(tree);
}

static void long_values_are_cut_between_characters(void **state)
{
    (void)state;
    char text[400];
    strcpy(text, "'x");
    for (int i = 0; i < 100; i++)
        strcat(text, "é");
    strcat(text, "'");
    kiln_yaml *tree = parse(text);
    kiln_yaml_error error;
    int64_t value;
    assert_false(kiln_yaml_integer(kiln_yaml_root(tree), "k", 0, 9, false, &value, &error));
    const char *cut = strstr(error.text, "found 'x") + strlen("found 'x");
    assert_int_equal(strcspn(cut, "'"), 58); /* 29 whole characters */
    kiln_yaml_free(tree);
}

static void unknown_keys(void **state)
{
    (void)state;
    static const char *const names[] = {"threads", "tuning", "staging"};
    kiln_yaml *tree = parse("tuning: 1\nthraeds: 2\n");
    kiln_yaml_error error;
    assert_false(kiln_yaml_expect_keys(kiln_yaml_root(tree), "t", names, 3, &error));
    assert_string_equal(error.text, "t.yaml:2:1: unknown key 'thraeds' (did you mean 'threads'?)");
    kiln_yaml_free(tree);
    tree = parse("tuning: 1\nxyzzy: 2\n");
    assert_false(kiln_yaml_expect_keys(kiln_yaml_root(tree), "t", names, 3, &error));
    assert_string_equal(error.text,
                        "t.yaml:2:1: unknown key 'xyzzy'; known: threads, tuning, staging");
    kiln_yaml_free(tree);
    tree = parse("{staging: 1, threads: 2}");
    assert_true(kiln_yaml_expect_keys(kiln_yaml_root(tree), "t", names, 3, &error));
    kiln_yaml_free(tree);
    tree = parse("[staging]");
    assert_false(kiln_yaml_expect_keys(kiln_yaml_root(tree), "the top", names, 3, &error));
    assert_string_equal(
        error.text, "t.yaml:1:1: the top: expected a mapping such as {key: value}, found a list");
    kiln_yaml_free(tree);
}

static void nearest_names(void **state)
{
    (void)state;
    static const char *const names[] = {"count", "spin_us", "affinity", "cache_entries", "m"};
    assert_string_equal(kiln_yaml_nearest("cuont", names, 5), "count"); /* a swap is one edit */
    assert_string_equal(kiln_yaml_nearest("coun", names, 5), "count");
    assert_string_equal(kiln_yaml_nearest("spinus", names, 5), "spin_us");
    assert_string_equal(kiln_yaml_nearest("cache_entires", names, 5), "cache_entries");
    assert_string_equal(kiln_yaml_nearest("count", names, 5), "count");
    assert_null(kiln_yaml_nearest("zzz", names, 5));
    assert_null(kiln_yaml_nearest("k", names, 5)); /* every letter would change */
    assert_null(kiln_yaml_nearest("", names, 5));
    assert_null(kiln_yaml_nearest("count", names, 0));
    char endless[200];
    memset(endless, 'a', sizeof endless - 1);
    endless[sizeof endless - 1] = '\0';
    assert_null(kiln_yaml_nearest(endless, names, 5));
}

/* Writes a character as UTF-8. */
static void encode(uint32_t code, char text[5])
{
    size_t more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    memset(text, 0, 5);
    for (size_t i = more; i > 0; i--, code >>= 6)
        text[i] = (char)(0x80 | (code & 0x3f));
    text[0] = (char)(more ? (0xf00u >> (more + 1) & 0xf0) | code : code);
}

/* Every character there is comes back as it was, in whatever stands around it. */
static void escapes(void **state)
{
    (void)state;
    for (uint32_t code = 1; code <= 0x10ffff; code += code < 0x3000 || code > 0xfe00 ? 1 : 0x101) {
        char text[16] = "a \"", document[40] = "\"";
        if (code >= 0xd800 && code <= 0xdfff)
            continue;
        encode(code, text + 3);
        size_t length = strlen(text + 3);
        strcat(text, " \\b");
        for (const char *c = text; *c;) {
            char escaped[8];
            size_t size = kiln_yaml_escape(c, escaped);
            assert_int_equal(size, c == text + 3 ? length : 1);
            strcat(document, escaped);
            c += size;
        }
        strcat(document, "\"");
        kiln_yaml *tree = parse(document);
        assert_string_equal(kiln_yaml_root(tree)->text, text);
        kiln_yaml_free(tree);
    }
    static const char *const wrong[] = {"",
                                        "\x80",
                                        "\xbf",
                                        "\xc3",
                                        "\xc3x",
                                        "\xc0\x80",
                                        "\xc1\xbf",
                                        "\xe0\x9f\xbf",
                                        "\xe2\x82",
                                        "\xed\xa0\x80",
                                        "\xf0\x8f\xbf\xbf",
                                        "\xf4\x90\x80\x80",
                                        "\xf8\x88\x80\x80\x80",
                                        "\xff"};
    for (size_t i = 0; i < COUNT(wrong); i++) {
        char escaped[8] = "before";
        assert_int_equal(kiln_yaml_escape(wrong[i], escaped), 0);
        assert_string_equal(escaped, "");
    }
}

static void files(void **state)
{
    (void)state;
    char folder[] = "test_yaml.XXXXXX";
    assert_non_null(mkdtemp(folder));
    char path[64];
    snprintf(path, sizeof path, "%s/a.yaml", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("a: 1\nb: [", file);
    fclose(file);
    kiln_yaml *tree = NULL;
    kiln_yaml_error error;
    char expected[128];
    assert_int_equal(kiln_yaml_read(path, &tree, &error), KILN_YAML_MALFORMED);
    snprintf(expected, sizeof expected, "%s:3:1: ", path);
    assert_memory_equal(error.text, expected, strlen(expected));
    file = fopen(path, "a");
    assert_non_null(file);
    fputs("]\n", file);
    fclose(file);
    assert_int_equal(kiln_yaml_read(path, &tree, &error), KILN_YAML_OK);
    assert_string_equal(kiln_yaml_root(tree)->name, path);
    kiln_yaml_free(tree);

    tree = NULL;
    assert_int_equal(kiln_yaml_read(folder, &tree, &error), KILN_YAML_UNREADABLE);
    snprintf(expected, sizeof expected, "%s: cannot be read: Is a directory", folder);
    assert_string_equal(error.text, expected);
    unlink(path);
    assert_int_equal(kiln_yaml_read(path, &tree, &error), KILN_YAML_UNREADABLE);
    snprintf(expected, sizeof expected, "%s: cannot be read: No such file or directory", path);
    assert_string_equal(error.text, expected);
    assert_int_equal(kiln_yaml_read("/dev/zero", &tree, &error), KILN_YAML_MALFORMED);
    assert_string_equal(error.text, "/dev/zero:1:1: larger than 1048576 bytes");
    assert_null(tree);
    rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(places_and_kinds),
        cmocka_unit_test(top_may_be_anything),
        cmocka_unit_test(nulls),
        cmocka_unit_test(malformed),
        cmocka_unit_test(long_keys),
        cmocka_unit_test(depth),
        cmocka_unit_test(size_limits),
        cmocka_unit_test(aliases),
        cmocka_unit_test(integers),
        cmocka_unit_test(numbers),
        cmocka_unit_test(refused_values),
        cmocka_unit_test(taken_values),
        cmocka_unit_test(long_values_are_cut_between_characters),
        cmocka_unit_test(unknown_keys),
        cmocka_unit_test(nearest_names),
        cmocka_unit_test(escapes),
        cmocka_unit_test(files),
    };
    return cmocka_run_group_tests_name("yaml", tests, NULL, NULL);
}
