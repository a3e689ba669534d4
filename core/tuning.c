/* SPDX-License-Identifier: Apache-2.0 */
/* The store is a list in memory and an append-only file of JSON lines, which are YAML flow mappings
 * and are read as such. Of several records for one key the last counts. */
#include "core/tuning.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/json.h"
#include "core/plan.h"
#include "support/yaml.h"

typedef struct tuning_record {
    struct tuning_record *next;
    char operator_name[64];
    char backend[32];
    char fingerprint[128];
    size_t size;
    unsigned char *descriptor;
    int64_t measured_ns;
    int64_t count;
    kiln_parameter parameters[KILN_TUNING_PARAMETERS];
} tuning_record;

struct kiln_tuning {
    pthread_rwlock_t lock;
    tuning_record *records; /* newest first */
    char *path;
    bool use;
};

static void free_record(tuning_record *record)
{
    free(record->descriptor);
    free(record);
}

static bool take_text(const kiln_yaml_node *line, const char *key, char *text, size_t size)
{
    const kiln_yaml_node *node = kiln_yaml_get(line, key);
    return node && node->text && (size_t)snprintf(text, size, "%s", node->text) < size;
}

static bool take_hex(const kiln_yaml_node *node, tuning_record *record)
{
    size_t length = node && node->text ? strlen(node->text) : 0;
    if (length == 0 || length % 2 || length / 2 > KILN_MAX_DESCRIPTOR)
        return false;
    record->size = length / 2;
    record->descriptor = malloc(record->size);
    for (size_t i = 0; record->descriptor && i < record->size; i++) {
        unsigned byte;
        char pair[3] = {node->text[2 * i], node->text[2 * i + 1], '\0'};
        if (strspn(pair, "0123456789abcdef") != 2 || sscanf(pair, "%2x", &byte) != 1)
            return false;
        record->descriptor[i] = (unsigned char)byte;
    }
    return record->descriptor != NULL;
}

static bool take_parameters(const kiln_yaml_node *node, tuning_record *record,
                            kiln_yaml_error *error)
{
    if (!node || node->kind != KILN_YAML_MAPPING || node->count > KILN_TUNING_PARAMETERS)
        return false;
    for (size_t i = 0; i < node->count; i++) {
        kiln_parameter *parameter = &record->parameters[record->count++];
        if (strlen(node->keys[i]->text) >= sizeof parameter->name ||
            !kiln_yaml_integer(node->items[i], "parameter", INT64_MIN, INT64_MAX, false,
                               &parameter->value, error))
            return false;
        snprintf(parameter->name, sizeof parameter->name, "%s", node->keys[i]->text);
    }
    return true;
}

static tuning_record *parse_line(const char *name, const char *text, size_t size)
{
    kiln_yaml *tree;
    kiln_yaml_error error;
    if (kiln_yaml_parse(name, text, size, &tree, &error) != KILN_YAML_OK)
        return NULL;
    const kiln_yaml_node *line = kiln_yaml_root(tree),
                         *measured = kiln_yaml_get(line, "measured_ns");
    tuning_record *record = calloc(1, sizeof *record);
    bool good = record &&
                take_text(line, "operator", record->operator_name, sizeof record->operator_name) &&
                take_text(line, "backend", record->backend, sizeof record->backend) &&
                take_text(line, "fingerprint", record->fingerprint, sizeof record->fingerprint) &&
                measured &&
                kiln_yaml_integer(measured, "measured_ns", 0, INT64_MAX, false,
                                  &record->measured_ns, &error) &&
                take_hex(kiln_yaml_get(line, "descriptor"), record) &&
                take_parameters(kiln_yaml_get(line, "parameters"), record, &error);
    kiln_yaml_free(tree);
    if (good)
        return record;
    if (record)
        free_record(record);
    return NULL;
}

static void log_unreadable(kiln_runtime *runtime, const kiln_tuning *tuning)
{
    kiln_runtime_log(runtime, KILN_LOG_WARNING, "tuning records in %s cannot be read: %s",
                     tuning->path, strerror(errno));
}

/* NULL with errno. A FIFO or a device could block, or never end. */
static FILE *open_regular(const char *path)
{
    struct stat status;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0)
        return NULL;
    if (fstat(file, &status) == 0 && S_ISREG(status.st_mode))
        return fdopen(file, "r");
    close(file);
    errno = EINVAL;
    return NULL;
}

static void read_file(kiln_runtime *runtime, kiln_tuning *tuning)
{
    FILE *file = open_regular(tuning->path);
    char *line = NULL;
    size_t capacity = 0;
    ssize_t size;
    if (!file) {
        if (errno != ENOENT)
            log_unreadable(runtime, tuning);
        return;
    }
    for (int64_t number = 1; (size = getline(&line, &capacity, file)) > 0; number++) {
        tuning_record *record = parse_line(tuning->path, line, (size_t)size);
        if (record) {
            record->next = tuning->records;
            tuning->records = record;
        } else {
            kiln_runtime_log(runtime, KILN_LOG_WARNING, "%s:%lld: not a tuning record; passed over",
                             tuning->path, (long long)number);
        }
    }
    if (ferror(file))
        log_unreadable(runtime, tuning);
    free(line);
    fclose(file);
}

kiln_status kiln_tuning_open(kiln_runtime *runtime, const char *path, bool use,
                             kiln_tuning **result)
{
    kiln_tuning *tuning = calloc(1, sizeof *tuning);
    if (tuning)
        tuning->path = strdup(path);
    if (!tuning || !tuning->path) {
        free(tuning);
        return kiln_fail_memory("the tuning records");
    }
    tuning->use = use;
    pthread_rwlock_init(&tuning->lock, NULL);
    if (*path)
        read_file(runtime, tuning);
    *result = tuning;
    return KILN_OK;
}

void kiln_tuning_close(kiln_tuning *tuning)
{
    if (!tuning)
        return;
    for (tuning_record *record = tuning->records, *next; record; record = next) {
        next = record->next;
        free_record(record);
    }
    pthread_rwlock_destroy(&tuning->lock);
    free(tuning->path);
    free(tuning);
}

/* With the lock held. */
static const tuning_record *find(const kiln_tuning *tuning, const char *operator_name,
                                 const void *descriptor, size_t size, const char *fingerprint,
                                 const char *backend)
{
    for (const tuning_record *record = tuning->records; record; record = record->next)
        if (record->size == size && memcmp(record->descriptor, descriptor, size) == 0 &&
            strcmp(record->operator_name, operator_name) == 0 &&
            strcmp(record->backend, backend) == 0 && strcmp(record->fingerprint, fingerprint) == 0)
            return record;
    return NULL;
}

static int64_t copy_out(kiln_tuning *tuning, const char *operator_name, const void *descriptor,
                        size_t size, const char *fingerprint, const char *backend,
                        kiln_parameter *parameters, int64_t capacity, int64_t *measured_ns)
{
    pthread_rwlock_rdlock(&tuning->lock);
    const tuning_record *record =
        find(tuning, operator_name, descriptor, size, fingerprint, backend);
    int64_t count = record ? record->count : -1;
    if (record) {
        int64_t copied = count < capacity ? count : capacity;
        if (copied > 0)
            memcpy(parameters, record->parameters, (size_t)copied * sizeof *parameters);
        if (measured_ns)
            *measured_ns = record->measured_ns;
    }
    pthread_rwlock_unlock(&tuning->lock);
    return count;
}

int64_t kiln_tuning_find(kiln_tuning *tuning, const char *operator_name, const void *descriptor,
                         size_t size, const char *fingerprint, const char *backend,
                         kiln_parameter *parameters, int64_t capacity, int64_t *measured_ns)
{
    if (!tuning->use)
        return 0;
    int64_t count = copy_out(tuning, operator_name, descriptor, size, fingerprint, backend,
                             parameters, capacity, measured_ns);
    return count < 0 ? 0 : count;
}

/* Whether a name in an array of that size ends there, and can be read back from the file. */
static bool is_name(const char *name, size_t size)
{
    size_t length = strnlen(name, size);
    if (length == 0 || length == size)
        return false;
    for (size_t i = 0; i < length; i++)
        if (name[i] < ' ' || name[i] > '~')
            return false;
    return true;
}

static bool are_names(const kiln_parameter *parameters, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        if (!is_name(parameters[i].name, sizeof parameters[i].name))
            return false;
        for (int64_t k = 0; k < i; k++)
            if (strcmp(parameters[i].name, parameters[k].name) == 0)
                return false;
    }
    return true;
}

/* The record that the arguments of kiln_tuning_store describe. */
static kiln_status make_record(const kiln_request *request, kiln_device *device,
                               const char *backend, const kiln_parameter *parameters, int64_t count,
                               int64_t measured_ns, tuning_record **result)
{
    if (device->runtime != request->runtime)
        return kiln_fail(KILN_INVALID, "device %s belongs to another runtime", device->name);
    if (count < 0 || count > KILN_TUNING_PARAMETERS || (count > 0 && !parameters) ||
        measured_ns < 0 || !backend || !is_name(backend, 32))
        return kiln_fail(KILN_INVALID,
                         "a tuning record takes 0 to %d parameters, a time that is not negative "
                         "and a backend's name",
                         KILN_TUNING_PARAMETERS);
    if (!are_names(parameters, count))
        return kiln_fail(KILN_INVALID, "tuning parameters have distinct names of 1 to 23 printable "
                                       "ASCII characters");
    tuning_record *record = calloc(1, sizeof *record);
    if (record)
        record->descriptor = malloc(request->descriptor_size);
    if (!record || !record->descriptor) {
        free(record);
        return kiln_fail_memory("a tuning record");
    }
    snprintf(record->operator_name, sizeof record->operator_name, "%s", request->operator_name);
    snprintf(record->backend, sizeof record->backend, "%s", backend);
    memcpy(record->fingerprint, device->info.fingerprint, sizeof record->fingerprint);
    record->size = request->descriptor_size;
    memcpy(record->descriptor, request->descriptor, record->size);
    record->measured_ns = measured_ns;
    record->count = count;
    if (count > 0)
        memcpy(record->parameters, parameters, (size_t)count * sizeof *parameters);
    *result = record;
    return KILN_OK;
}

static kiln_status append_to_file(const kiln_tuning *tuning, const tuning_record *record)
{
    kiln_line line = {0};
    kiln_line_text(&line, "{\"operator\":");
    kiln_line_string(&line, record->operator_name);
    kiln_line_text(&line, ",\"backend\":");
    kiln_line_string(&line, record->backend);
    kiln_line_text(&line, ",\"fingerprint\":");
    kiln_line_string(&line, record->fingerprint);
    kiln_line_text(&line, ",\"descriptor\":");
    kiln_line_hex(&line, record->descriptor, record->size);
    kiln_line_text(&line, ",\"measured_ns\":");
    kiln_line_integer(&line, record->measured_ns);
    kiln_line_text(&line, ",\"parameters\":{");
    for (int64_t i = 0; i < record->count; i++) {
        char name[sizeof record->parameters[i].name + 1] = "";
        memcpy(name, record->parameters[i].name, sizeof record->parameters[i].name);
        kiln_line_text(&line, i ? "," : "");
        kiln_line_string(&line, name);
        kiln_line_text(&line, ":");
        kiln_line_integer(&line, record->parameters[i].value);
    }
    kiln_line_text(&line, "}}\n");
    kiln_status status = KILN_OK;
    if (line.failed)
        status = kiln_fail_memory("a tuning record");
    else if (!kiln_line_append(&line, tuning->path))
        status = kiln_fail(
            KILN_IO,
            "the tuning record cannot be written to %s: %s; set tuning.file to a file that can",
            tuning->path, strerror(errno));
    free(line.text);
    return status;
}

kiln_status kiln_tuning_store(kiln_runtime *runtime, const char *operator_name,
                              const kiln_op_head *descriptor, kiln_device *device,
                              const char *backend, const kiln_parameter *parameters, int64_t count,
                              int64_t measured_ns)
{
    kiln_tuning *tuning = runtime->tuning;
    kiln_request request;
    tuning_record *record = NULL;
    kiln_status status = kiln_request_make(runtime, operator_name, descriptor, NULL, &request);
    if (status == KILN_OK)
        status = make_record(&request, device, backend, parameters, count, measured_ns, &record);
    if (status != KILN_OK)
        return status;
    pthread_rwlock_wrlock(&tuning->lock);
    if (*tuning->path)
        status = append_to_file(tuning, record);
    if (status == KILN_OK) {
        record->next = tuning->records;
        tuning->records = record;
    }
    pthread_rwlock_unlock(&tuning->lock);
    if (status == KILN_OK)
        kiln_plan_cache_clear(runtime->plans); /* so that plans of the same calls take it up */
    else
        free_record(record);
    return status;
}

kiln_status kiln_tuning_lookup(kiln_runtime *runtime, const char *operator_name,
                               const kiln_op_head *descriptor, kiln_device *device,
                               const char *backend, kiln_parameter *parameters, int64_t capacity,
                               int64_t *count, int64_t *measured_ns)
{
    kiln_request request;
    kiln_status status = kiln_request_make(runtime, operator_name, descriptor, NULL, &request);
    if (status != KILN_OK)
        return status;
    int64_t found =
        copy_out(runtime->tuning, operator_name, request.descriptor, request.descriptor_size,
                 device->info.fingerprint, backend, parameters, capacity, measured_ns);
    if (found < 0)
        return kiln_fail(KILN_NOT_FOUND, "no tuning record of %s for this descriptor on %s",
                         backend, device->name);
    *count = found;
    return KILN_OK;
}
