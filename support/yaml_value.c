/* SPDX-License-Identifier: Apache-2.0 */
/* Values of nodes: look-ups, conversions with located errors, the nearest name. */
#define _GNU_SOURCE /* strtod_l */
#include "support/yaml.h"

#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_WORD = 64, MAX_SHOWN_NAME = 300 };

bool kiln_yaml_fail(kiln_yaml_error *error, const kiln_yaml_node *node, const char *format, ...)
{
    size_t length = strlen(node->name); /* of a very long path the end says most */
    const char *name = length > MAX_SHOWN_NAME ? node->name + length - MAX_SHOWN_NAME : node->name;
    int used =
        snprintf(error->text, sizeof error->text, "%s:%d:%d: ", name, node->line, node->column);
    char *sentence = error->text + used;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof error->text - (size_t)used, format, arguments);
    va_end(arguments);
    for (char *c = sentence; *c; c++) /* one line, whatever the document quoted */
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
    return false;
}

bool kiln_yaml_is_null(const kiln_yaml_node *node)
{
    return node->kind == KILN_YAML_SCALAR && !node->quoted &&
           (!*node->text || !strcmp(node->text, "~") || !strcmp(node->text, "null"));
}

const kiln_yaml_node *kiln_yaml_get(const kiln_yaml_node *mapping, const char *key)
{
    if (mapping->kind == KILN_YAML_MAPPING)
        for (size_t i = 0; i < mapping->count; i++)
            if (strcmp(mapping->keys[i]->text, key) == 0)
                return mapping->items[i];
    return NULL;
}

static bool expected(kiln_yaml_error *error, const kiln_yaml_node *node, const char *what,
                     const char *expectation)
{
    static const char *const kinds[] = {[KILN_YAML_SCALAR] = "",
                                        [KILN_YAML_SEQUENCE] = "a list",
                                        [KILN_YAML_MAPPING] = "a mapping"};
    if (node->kind != KILN_YAML_SCALAR)
        return kiln_yaml_fail(error, node, "%s: expected %s, found %s", what, expectation,
                              kinds[node->kind]);
    if (kiln_yaml_is_null(node))
        return kiln_yaml_fail(error, node, "%s: expected %s, found nothing", what, expectation);
    int shown = 60; /* bytes, never half a character */
    if (strlen(node->text) > 60)
        while (((unsigned char)node->text[shown] & 0xc0) == 0x80)
            shown--;
    return kiln_yaml_fail(error, node, "%s: expected %s, found '%.*s'%s", what, expectation, shown,
                          node->text, node->quoted ? ", which is text for its quotes" : "");
}

bool kiln_yaml_expect(const kiln_yaml_node *node, const char *what, kiln_yaml_kind kind,
                      kiln_yaml_error *error)
{
    static const char *const kinds[] = {[KILN_YAML_SCALAR] = "one value",
                                        [KILN_YAML_SEQUENCE] = "a list such as [a, b]",
                                        [KILN_YAML_MAPPING] = "a mapping such as {key: value}"};
    return node->kind == kind || expected(error, node, what, kinds[kind]);
}

bool kiln_yaml_expect_keys(const kiln_yaml_node *node, const char *what, const char *const *names,
                           size_t count, kiln_yaml_error *error)
{
    if (!kiln_yaml_expect(node, what, KILN_YAML_MAPPING, error))
        return false;
    for (size_t i = 0; i < node->count; i++) {
        const char *key = node->keys[i]->text;
        size_t known = 0;
        while (known < count && strcmp(names[known], key))
            known++;
        if (known == count)
            return kiln_yaml_fail_unknown(node->keys[i], "key", key, names, count, error);
    }
    return true;
}

bool kiln_yaml_fail_unknown(const kiln_yaml_node *node, const char *what, const char *word,
                            const char *const *names, size_t count, kiln_yaml_error *error)
{
    const char *near = kiln_yaml_nearest(word, names, count);
    if (near)
        return kiln_yaml_fail(error, node, "unknown %s '%s' (did you mean '%s'?)", what, word,
                              near);
    char list[400] = "none";
    size_t used = 0;
    for (size_t i = 0; i < count && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", names[i]);
    return kiln_yaml_fail(error, node, "unknown %s '%s'; known: %s", what, word, list);
}

/* Digits, with a sign before them; leaves *end behind the last. Refuses what strtoll takes for
 * octal. */
static bool scan_integer(const char *text, int64_t *value, const char **end)
{
    const char *digits = text + (*text == '-' || *text == '+');
    bool hexadecimal = digits[0] == '0' && digits[1] == 'x';
    const char *allowed = hexadecimal ? "0123456789abcdefABCDEF" : "0123456789";
    size_t length = strspn(digits + 2 * hexadecimal, allowed);
    if (!length || (!hexadecimal && length > 1 && digits[0] == '0'))
        return false;
    errno = 0;
    *value = strtoll(text, NULL, hexadecimal ? 16 : 10);
    *end = digits + 2 * hexadecimal + length;
    return errno == 0;
}

/* `text` after a number: nothing, or a unit. */
static bool scan_unit(const char *text, int64_t *factor)
{
    static const char *const units[] = {"", "KiB", "MiB", "GiB"};
    text += *text == ' ';
    for (int i = 0; i < 4; i++)
        if (strcmp(text, units[i]) == 0) {
            *factor = INT64_C(1) << 10 * i;
            return true;
        }
    return false;
}

bool kiln_yaml_integer(const kiln_yaml_node *node, const char *what, int64_t minimum,
                       int64_t maximum, bool size, int64_t *value, kiln_yaml_error *error)
{
    const char *rest = "";
    int64_t number = 0, factor = 1;
    if (node->kind == KILN_YAML_SCALAR && !node->quoted &&
        scan_integer(node->text, &number, &rest) && (size ? scan_unit(rest, &factor) : !*rest) &&
        !__builtin_mul_overflow(number, factor, &number) && number >= minimum &&
        number <= maximum) {
        *value = number;
        return true;
    }
    char expectation[160];
    int used = snprintf(expectation, sizeof expectation, "an integer");
    if (minimum != INT64_MIN || maximum != INT64_MAX)
        used += snprintf(expectation + used, sizeof expectation - (size_t)used,
                         " from %" PRId64 " to %" PRId64, minimum, maximum);
    snprintf(expectation + used, sizeof expectation - (size_t)used, "%s",
             size ? " (KiB, MiB or GiB may follow)" : "");
    return expected(error, node, what, expectation);
}

/* strtod for plain decimal notation in the C locale; -1 when the text is something else. */
static int scan_number(const char *text, double *value)
{
    const char *c = text + (*text == '-' || *text == '+');
    size_t whole = strspn(c, "0123456789"), fraction = 0;
    c += whole;
    if (*c == '.') {
        fraction = strspn(++c, "0123456789");
        c += fraction;
    }
    if (whole + fraction && (*c == 'e' || *c == 'E')) {
        c += 1 + (c[1] == '-' || c[1] == '+');
        size_t exponent = strspn(c, "0123456789");
        c = exponent ? c + exponent : text;
    }
    if (!(whole + fraction) || *c)
        return -1;
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!plain)
        return -1;
    *value = strtod_l(text, NULL, plain);
    freelocale(plain);
    return 0;
}

bool kiln_yaml_number(const kiln_yaml_node *node, const char *what, double minimum, double maximum,
                      double *value, kiln_yaml_error *error)
{
    double number;
    if (node->kind == KILN_YAML_SCALAR && !node->quoted && scan_number(node->text, &number) == 0 &&
        number >= minimum && number <= maximum) {
        *value = number;
        return true;
    }
    char expectation[160];
    int used = snprintf(expectation, sizeof expectation, "a number");
    if (minimum != -DBL_MAX || maximum != DBL_MAX)
        snprintf(expectation + used, sizeof expectation - (size_t)used, " from %g to %g", minimum,
                 maximum);
    return expected(error, node, what, expectation);
}

bool kiln_yaml_boolean(const kiln_yaml_node *node, const char *what, bool *value,
                       kiln_yaml_error *error)
{
    if (node->kind == KILN_YAML_SCALAR && !node->quoted) {
        bool is_true = strcmp(node->text, "true") == 0;
        if (is_true || strcmp(node->text, "false") == 0) {
            *value = is_true;
            return true;
        }
    }
    return expected(error, node, what, "true or false (yes, no, on, off, 1, 0 are not taken)");
}

bool kiln_yaml_text(const kiln_yaml_node *node, const char *what, const char **value,
                    kiln_yaml_error *error)
{
    if (node->kind != KILN_YAML_SCALAR || kiln_yaml_is_null(node))
        return expected(error, node, what, "text");
    *value = node->text;
    return true;
}

bool kiln_yaml_choice(const kiln_yaml_node *node, const char *what, const char *const *names,
                      size_t count, size_t *index, kiln_yaml_error *error)
{
    char expectation[320] = "one of ";
    size_t used = strlen(expectation);
    for (size_t i = 0; i < count; i++) {
        if (node->kind == KILN_YAML_SCALAR && strcmp(node->text, names[i]) == 0) {
            *index = i;
            return true;
        }
        if (used < sizeof expectation)
            used += (size_t)snprintf(expectation + used, sizeof expectation - used, "%s%s",
                                     i ? ", " : "", names[i]);
    }
    return expected(error, node, what, expectation);
}

/* The bytes of the character at `text`; 0 for what is not UTF-8 as RFC 3629 has it, and for NUL. */
static size_t decode(const char *text, uint32_t *code)
{
    static const uint32_t least[] = {1, 0x80, 0x800, 0x10000};
    unsigned char first = (unsigned char)*text;
    size_t more = first < 0x80 ? 0 : first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
    if ((first >= 0x80 && first < 0xc0) || first >= 0xf8)
        return 0;
    *code = more ? first & (0x3fu >> more) : first;
    for (size_t i = 1; i <= more; i++) {
        if (((unsigned char)text[i] & 0xc0) != 0x80)
            return 0;
        *code = *code << 6 | ((unsigned char)text[i] & 0x3f);
    }
    bool surrogate = *code >= 0xd800 && *code <= 0xdfff;
    return *code < least[more] || surrogate || *code > 0x10ffff ? 0 : more + 1;
}

/* Whether YAML refuses the character, or takes it for the end of a line, unless it is escaped. */
static bool needs_escape(uint32_t code)
{
    return code < ' ' || (code >= 0x7f && code < 0xa0) || code == 0x2028 || code == 0x2029 ||
           code == 0xfeff || code == 0xfffe || code == 0xffff;
}

size_t kiln_yaml_escape(const char *text, char escaped[8])
{
    uint32_t code;
    size_t size = decode(text, &code);
    if (size && needs_escape(code)) /* all of which have at most 16 bits */
        snprintf(escaped, 8, "\\u%04x", (unsigned)code & 0xffff);
    else
        snprintf(escaped, 8, "%s%.*s", size && (code == '"' || code == '\\') ? "\\" : "", (int)size,
                 text);
    return size;
}

/* Insertions, deletions, replacements and swaps of neighbours that turn one word into the other;
 * MAX_WORD when either is longer than that. */
static size_t edit_distance(const char *a, const char *b)
{
    size_t m = strlen(a), n = strlen(b);
    if (m >= MAX_WORD || n >= MAX_WORD)
        return MAX_WORD;
    size_t rows[3][MAX_WORD + 1]; /* rows i-2, i-1 and i, in turn */
    for (size_t j = 0; j <= n; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= m; i++) {
        const size_t *before = rows[(i - 1) % 3], *two_before = rows[(i + 1) % 3];
        size_t *row = rows[i % 3];
        row[0] = i;
        for (size_t j = 1; j <= n; j++) {
            size_t least = before[j - 1] + (a[i - 1] != b[j - 1]);
            if (before[j] + 1 < least)
                least = before[j] + 1;
            if (row[j - 1] + 1 < least)
                least = row[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                two_before[j - 2] + 1 < least)
                least = two_before[j - 2] + 1;
            row[j] = least;
        }
    }
    return rows[m % 3][n];
}

const char *kiln_yaml_nearest(const char *word, const char *const *names, size_t count)
{
    const char *nearest = NULL;
    size_t limit = 1 + strlen(word) / 4; /* more edits than that make another word */
    for (size_t i = 0; i < count; i++) {
        size_t distance = edit_distance(word, names[i]);
        if (distance <= limit && distance < strlen(names[i])) {
            limit = distance ? distance - 1 : 0;
            nearest = names[i];
            if (!distance)
                break;
        }
    }
    return nearest;
}
