/* SPDX-License-Identifier: Apache-2.0 */
/* The table of keys for other readers: a JSON schema for editors, a Markdown table for people. */
#define _GNU_SOURCE /* open_memstream */
#include "core/profile/internal.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define PLUGIN_PATTERN "^[a-z][a-z0-9-]{0,30}$"

static void write_string(FILE *out, const char *text)
{
    fputc('"', out);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', out);
        fputc(*text, out);
    }
    fputc('"', out);
}

static void write_choices(FILE *out, const char *choices)
{
    fputs("\"enum\": [", out);
    for (const char *at = choices; at; at = strchr(at, '|') ? strchr(at, '|') + 1 : NULL)
        fprintf(out, "%s\"%.*s\"", at == choices ? "" : ", ", (int)strcspn(at, "|"), at);
    fputc(']', out);
}

/* What one value must be; the members of a JSON object, without its braces. */
static void write_type(FILE *out, const kiln_key *key)
{
    switch (key->type) {
    case KILN_KEY_INTEGER:
        fprintf(out, "\"type\": \"integer\", \"minimum\": %" PRId64 ", \"maximum\": %" PRId64,
                key->minimum, key->maximum);
        break;
    case KILN_KEY_SIZE:
        fprintf(out,
                "\"anyOf\": [{\"type\": \"integer\", \"minimum\": %" PRId64
                ", \"maximum\": %" PRId64
                "}, {\"type\": \"string\", \"pattern\": \"^[0-9]+ ?[KMG]iB$\"}]",
                key->minimum, key->maximum);
        break;
    case KILN_KEY_BOOLEAN:
        fputs("\"type\": \"boolean\"", out);
        break;
    case KILN_KEY_TEXT:
        fputs("\"type\": [\"string\", \"number\", \"boolean\"]", out);
        break;
    case KILN_KEY_CHOICE:
        write_choices(out, key->choices);
        break;
    case KILN_KEY_DEVICE:
        fputs("\"type\": \"string\", \"pattern\": \"^(host|[a-z][a-z0-9-]{0,30}:[0-9]{1,4})$\"",
              out);
        break;
    case KILN_KEY_LIST:
        fprintf(out,
                "\"type\": \"array\", \"maxItems\": %d, \"uniqueItems\": true, \"items\": "
                "{\"type\": \"string\", \"minLength\": 1}",
                KILN_PROFILE_MAX_LIST);
        break;
    case KILN_KEY_NAMES:
        fputs("\"$ref\": \"#/$defs/plugins\"", out);
        break;
    case KILN_KEY_PLUGINS:
        fprintf(out,
                "\"type\": \"array\", \"maxItems\": %d, \"uniqueItems\": true, \"items\": "
                "{\"anyOf\": [{\"const\": \"*\"}, "
                "{\"type\": \"string\", \"pattern\": \"" PLUGIN_PATTERN "\"}]}",
                KILN_PROFILE_MAX_LIST);
        break;
    case KILN_KEY_OPERATORS:
        fputs("\"type\": \"object\", \"additionalProperties\": false, \"patternProperties\": "
              "{\"^(default|[a-z][a-z0-9._-]*/[1-9][0-9]*)$\": {\"$ref\": \"#/$defs/operator\"}}",
              out);
        break;
    case KILN_KEY_OPTIONS:
        fputs("\"type\": \"object\", \"additionalProperties\": false, \"patternProperties\": "
              "{\"" PLUGIN_PATTERN "\": {\"type\": \"object\", \"additionalProperties\": "
              "{\"type\": [\"string\", \"number\", \"boolean\"]}}}",
              out);
        break;
    }
}

static void write_property(FILE *out, const kiln_key *key, const char *name, const char *indent)
{
    fprintf(out, "%s\"%s\": {", indent, name);
    write_type(out, key);
    fputs(", \"description\": ", out);
    write_string(out, key->help);
    fputc('}', out);
}

static void write_definitions(FILE *out)
{
    fprintf(
        out,
        "  \"$defs\": {\n"
        "    \"plugins\": {\"type\": \"array\", \"maxItems\": %d, \"uniqueItems\": true, "
        "\"items\": {\"type\": \"string\", "
        "\"pattern\": \"" PLUGIN_PATTERN "\"}},\n"
        "    \"operator\": {\"anyOf\": [{\"$ref\": \"#/$defs/plugins\"}, {\"type\": \"object\", "
        "\"additionalProperties\": false, \"properties\": {\n"
        "      \"backends\": {\"$ref\": \"#/$defs/plugins\"},\n"
        "      \"deny\": {\"$ref\": \"#/$defs/plugins\"},\n"
        "      \"types\": {\"type\": \"object\", \"additionalProperties\": false, \"properties\": "
        "{",
        KILN_PROFILE_MAX_LIST);
    for (uint32_t type = 1; type < KILN_TYPE_COUNT; type++)
        fprintf(out, "%s\"%s\": {\"$ref\": \"#/$defs/plugins\"}", type > 1 ? ", " : "",
                kiln_type_name(type));
    fputs("}}\n    }}]}\n  }\n", out);
}

/* Rows of one section stand together in the table. */
static void write_schema(FILE *out)
{
    fputs("{\n"
          "  \"$schema\": \"https://json-schema.org/draft/2020-12/schema\",\n"
          "  \"title\": \"Kiln profile\",\n"
          "  \"type\": \"object\",\n"
          "  \"required\": [\"schema\"],\n"
          "  \"additionalProperties\": false,\n"
          "  \"properties\": {\n",
          out);
    for (size_t i = 0; i < kiln_key_count;) {
        const char *dot = strchr(kiln_keys[i].path, '.');
        fputs(i ? ",\n" : "", out);
        if (!dot) {
            write_property(out, &kiln_keys[i], kiln_keys[i].path, "    ");
            i++;
            continue;
        }
        size_t section = (size_t)(dot + 1 - kiln_keys[i].path);
        const char *first = kiln_keys[i].path, *between = "";
        fprintf(out,
                "    \"%.*s\": {\"type\": \"object\", \"additionalProperties\": false, "
                "\"properties\": {\n",
                (int)section - 1, first);
        for (; i < kiln_key_count && strncmp(kiln_keys[i].path, first, section) == 0; i++) {
            fputs(between, out);
            write_property(out, &kiln_keys[i], kiln_keys[i].path + section, "      ");
            between = ",\n";
        }
        fputs("\n    }}", out);
    }
    fputs("\n  },\n", out);
    write_definitions(out);
    fputs("}\n", out);
}

static void write_kind(FILE *out, const kiln_key *key)
{
    static const char *const words[] = {
        [KILN_KEY_INTEGER] = "integer",
        [KILN_KEY_SIZE] = "size",
        [KILN_KEY_BOOLEAN] = "`true`, `false`",
        [KILN_KEY_TEXT] = "text",
        [KILN_KEY_CHOICE] = "",
        [KILN_KEY_DEVICE] = "device",
        [KILN_KEY_LIST] = "list of text",
        [KILN_KEY_NAMES] = "list of names",
        [KILN_KEY_PLUGINS] = "list of plugins",
        [KILN_KEY_OPERATORS] = "mapping",
        [KILN_KEY_OPTIONS] = "mapping",
    };
    fputs(words[key->type], out);
    if (key->type == KILN_KEY_INTEGER)
        fprintf(out, ", %" PRId64 " to %" PRId64, key->minimum, key->maximum);
    if (key->type == KILN_KEY_SIZE)
        fprintf(out, ", %" PRId64 "MiB to %" PRId64 "GiB", key->minimum >> 20, key->maximum >> 30);
    for (const char *at = key->choices; at; at = strchr(at, '|') ? strchr(at, '|') + 1 : NULL)
        fprintf(out, "%s`%.*s`", at == key->choices ? "" : ", ", (int)strcspn(at, "|"), at);
}

static void write_reference(FILE *out)
{
    fputs("| key | value | default | meaning |\n|---|---|---|---|\n", out);
    for (size_t i = 0; i < kiln_key_count; i++) {
        const kiln_key *key = &kiln_keys[i];
        const char *open = key->type == KILN_KEY_OPERATORS ? ".OPERATOR"
                           : key->type == KILN_KEY_OPTIONS ? ".PLUGIN.KEY"
                                                           : "";
        fprintf(out, "| `%s%s` | ", key->path, open);
        write_kind(out, key);
        fputs(" | ", out);
        if (key->default_value)
            fprintf(out, "`%s`", key->default_value);
        fprintf(out, " | %s |\n", key->help);
    }
}

static pthread_once_t made = PTHREAD_ONCE_INIT;
static char *schema, *reference;

static char *written(void (*write)(FILE *out))
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return NULL;
    write(out);
    bool failed = ferror(out);
    if (fclose(out) == 0 && !failed)
        return text;
    free(text);
    return NULL;
}

static void make(void)
{
    schema = written(write_schema);
    reference = written(write_reference);
}

const char *kiln_profile_schema(void)
{
    pthread_once(&made, make);
    return schema;
}

const char *kiln_profile_reference(void)
{
    pthread_once(&made, make);
    return reference;
}
