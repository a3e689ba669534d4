/* SPDX-License-Identifier: Apache-2.0 */
/* Copies and fills of a device, beside plain loops over host memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conformance/plugin/device/device.h"
#include "conformance/plugin/guard.h"

enum { AREA = 16384, MOST_ELEMENTS = 600, STRIDED_CASES = 240 };

typedef enum direction { TO_DEVICE, FROM_DEVICE, ON_DEVICE, DIRECTIONS } direction;

static const char *const direction_names[] = {"from host to device", "from device to host",
                                              "within the device"};

/* Two areas, each with its image in host memory; the device's own two; and what the destination
 * must be in the end. Host areas end where nothing may be touched. */
typedef struct scene {
    conformance_bed *bed;
    conformance_guard_pages source_guard, destination_guard;
    unsigned char *source, *destination; /* as many bytes as the request reaches over */
    int64_t source_bytes, destination_bytes;
    unsigned char before[AREA], expected[AREA], found[AREA];
    void *source_memory, *destination_memory; /* AREA bytes each */
} scene;

static bool scene_open(scene *self, conformance_bed *bed)
{
    self->bed = bed;
    self->source_memory = conformance_bed_alloc(bed, AREA);
    self->destination_memory = conformance_bed_alloc(bed, AREA);
    return self->source_memory && self->destination_memory &&
           conformance_guard_make(&self->source_guard, AREA) &&
           conformance_guard_make(&self->destination_guard, AREA);
}

static void scene_close(scene *self)
{
    if (self->source_memory)
        conformance_bed_free(self->bed, self->source_memory);
    if (self->destination_memory)
        conformance_bed_free(self->bed, self->destination_memory);
    conformance_guard_free(&self->source_guard);
    conformance_guard_free(&self->destination_guard);
}

/* ---- Requests ---- */

static int64_t reach(int64_t element_bytes, int64_t rank, const int64_t *shape,
                     const kiln_copy_side *side)
{
    int64_t bytes = side->byte_offset + element_bytes;
    for (int64_t i = 0; i < rank; i++) {
        if (shape[i] == 0)
            return 0;
        bytes += (shape[i] - 1) * side->strides[i];
    }
    return bytes;
}

/* Strides that do not overlap, in some order of the dimensions, with gaps here and there. */
static void choose_strides(conformance_bed *bed, int64_t element_bytes, int64_t rank,
                           const int64_t *shape, kiln_copy_side *side)
{
    int64_t order[KILN_MAX_RANK], next = element_bytes;
    for (int64_t i = 0; i < rank; i++)
        order[i] = rank - 1 - i;
    if (conformance_bed_random(bed, 0, 3) == 0)
        for (int64_t i = rank - 1; i > 0; i--) {
            int64_t j = conformance_bed_random(bed, 0, i), swap = order[i];
            order[i] = order[j];
            order[j] = swap;
        }
    for (int64_t i = 0; i < rank; i++) {
        if (conformance_bed_random(bed, 0, 2) == 0)
            next += element_bytes * conformance_bed_random(bed, 1, 3);
        side->strides[order[i]] = next;
        next *= shape[order[i]] > 0 ? shape[order[i]] : 1;
    }
    side->byte_offset = conformance_bed_random(bed, 0, 40);
}

static void choose_request(conformance_bed *bed, int64_t rank, kiln_copy_request *request)
{
    do {
        int64_t elements = 1;
        memset(request, 0, sizeof *request);
        request->struct_size = sizeof *request;
        request->element_bytes = INT64_C(1) << conformance_bed_random(bed, 0, 3);
        request->rank = rank;
        for (int64_t i = 0; i < rank; i++) {
            int64_t most = MOST_ELEMENTS / elements;
            request->shape[i] = conformance_bed_random(bed, 1, most < 7 ? most : rank < 3 ? 24 : 5);
            elements *= request->shape[i];
        }
        choose_strides(bed, request->element_bytes, rank, request->shape, &request->destination);
        choose_strides(bed, request->element_bytes, rank, request->shape, &request->source);
    } while (reach(request->element_bytes, rank, request->shape, &request->destination) > AREA ||
             reach(request->element_bytes, rank, request->shape, &request->source) > AREA);
}

/* ---- Trying one ---- */

/* What a device must do, element by element. `source` is NULL for a fill. */
static void model(unsigned char *to, const unsigned char *from, int64_t element_bytes, int64_t rank,
                  const int64_t *shape, const int64_t *to_strides, const int64_t *from_strides,
                  int64_t level)
{
    if (level == rank) {
        memcpy(to, from, (size_t)element_bytes);
        return;
    }
    for (int64_t i = 0; i < shape[level]; i++)
        model(to + i * to_strides[level], from + (from_strides ? i * from_strides[level] : 0),
              element_bytes, rank, shape, to_strides, from_strides, level + 1);
}

/* Random bytes on both sides; and on the device where a side is there. */
static bool set_scene(scene *self, const kiln_copy_request *request, direction way)
{
    conformance_bed *bed = self->bed;
    self->source_bytes =
        reach(request->element_bytes, request->rank, request->shape, &request->source);
    self->destination_bytes =
        reach(request->element_bytes, request->rank, request->shape, &request->destination);
    if (self->source_bytes == 0)
        self->source_bytes = self->destination_bytes = 64;
    self->source = conformance_guard_end(&self->source_guard, (size_t)self->source_bytes);
    self->destination =
        conformance_guard_end(&self->destination_guard, (size_t)self->destination_bytes);
    conformance_bed_random_bytes(bed, self->source, (size_t)self->source_bytes);
    conformance_bed_random_bytes(bed, self->before, AREA);
    memcpy(self->expected, self->before, AREA);
    memcpy(self->destination, self->before, (size_t)self->destination_bytes);
    conformance_bed_hash(bed, request, sizeof *request);
    conformance_bed_hash(bed, self->source, (size_t)self->source_bytes);
    bool set = true;
    if (way != TO_DEVICE)
        set = conformance_bed_write(bed, self->source_memory, 0, self->source, self->source_bytes);
    if (set && way != FROM_DEVICE)
        set = conformance_bed_write(bed, self->destination_memory, 0, self->before, AREA);
    return set;
}

static bool compare(scene *self, direction way, const char *what)
{
    conformance_bed *bed = self->bed;
    int64_t bytes = way == FROM_DEVICE ? self->destination_bytes : AREA;
    if (way == FROM_DEVICE)
        memcpy(self->found, self->destination, (size_t)bytes);
    else if (!conformance_bed_read(bed, self->destination_memory, 0, self->found, AREA))
        return false;
    for (int64_t i = 0; i < bytes; i++)
        if (self->found[i] != self->expected[i]) {
            bool gap = self->expected[i] == self->before[i];
            conformance_fail(bed->report,
                             "%s: byte %lld of the destination is 0x%02x, not 0x%02x%s", what,
                             (long long)i, self->found[i], self->expected[i],
                             gap ? "; it lies in a gap, or was to stay as it was" : "");
            return false;
        }
    if (way == FROM_DEVICE &&
        !conformance_guard_whole(&self->destination_guard, (size_t)self->destination_bytes))
        conformance_fail(bed->report, "%s: bytes before the destination were written", what);
    return true;
}

/* Makes the request's sides those of the scene, runs it and compares. */
static bool try_copy(scene *self, kiln_copy_request *request, direction way, const char *extra)
{
    conformance_bed *bed = self->bed;
    char what[160];
    if (!set_scene(self, request, way))
        return false;
    if (way == TO_DEVICE)
        request->source.host = (char *)self->source;
    else
        request->source.memory = self->source_memory;
    if (way == FROM_DEVICE)
        request->destination.host = (char *)self->destination;
    else
        request->destination.memory = self->destination_memory;
    model(self->expected + request->destination.byte_offset,
          self->source + request->source.byte_offset, request->element_bytes, request->rank,
          request->shape, request->destination.strides, request->source.strides, 0);
    bed->report->cases++;
    snprintf(what, sizeof what, "a copy %s of rank %lld with elements of %lld bytes%s",
             direction_names[way], (long long)request->rank, (long long)request->element_bytes,
             extra);
    kiln_status status = BED_CALL(bed, copy, bed->device, bed->stream, request);
    if (!conformance_bed_ok(bed, status, what) ||
        !BED_OK(bed, stream_wait, bed->device, bed->stream))
        return false;
    return compare(self, way, what);
}

/* Opens everything, calls `play`, and closes. */
static void with_scene(const conformance_subject *subject, conformance_report *report,
                       void (*play)(scene *self))
{
    static scene self;
    conformance_bed bed;
    if (!conformance_bed_open(&bed, subject, report))
        return;
    memset(&self, 0, sizeof self);
    if (scene_open(&self, &bed))
        play(&self);
    scene_close(&self);
    conformance_bed_close(&bed);
}

/* ---- Copies ---- */

static void play_bytes(scene *self)
{
    static const int64_t sizes[] = {1, 2, 3, 7, 8, 31, 63, 64, 65, 511, 4096, 9999};
    bool good = true;
    for (int way = 0; way < DIRECTIONS; way++)
        for (size_t i = 0; good && i < sizeof sizes / sizeof sizes[0]; i++)
            for (int64_t offset = 0; good && offset < 70; offset += offset < 4 ? 1 : 31) {
                kiln_copy_request request = {.struct_size = sizeof request,
                                             .element_bytes = 1,
                                             .rank = 1,
                                             .shape = {sizes[i]}};
                request.source.strides[0] = request.destination.strides[0] = 1;
                request.source.byte_offset = offset;
                request.destination.byte_offset = 70 - offset;
                good = try_copy(self, &request, (direction)way, ", contiguous");
            }
}

void conformance_device_copy_bytes(const conformance_subject *subject, conformance_report *report)
{
    with_scene(subject, report, play_bytes);
}

static void play_strided(scene *self)
{
    for (int i = 0; i < STRIDED_CASES; i++) {
        kiln_copy_request request;
        choose_request(self->bed, i % (KILN_MAX_RANK + 1), &request);
        if (!try_copy(self, &request, (direction)(i % DIRECTIONS), ""))
            return;
    }
    for (int i = 0; i < STRIDED_CASES; i++) { /* every rank in every direction */
        kiln_copy_request request;
        choose_request(self->bed, i / DIRECTIONS % (KILN_MAX_RANK + 1), &request);
        if (!try_copy(self, &request, (direction)(i % DIRECTIONS), ""))
            return;
    }
}

void conformance_device_copy_strided(const conformance_subject *subject, conformance_report *report)
{
    with_scene(subject, report, play_strided);
}

static void play_broadcast(scene *self)
{
    for (int i = 0; i < 60; i++) {
        kiln_copy_request request;
        int64_t rank = 1 + i / DIRECTIONS % KILN_MAX_RANK;
        choose_request(self->bed, rank, &request);
        request.source.strides[conformance_bed_random(self->bed, 0, rank - 1)] = 0;
        if (!try_copy(self, &request, (direction)(i % DIRECTIONS), ", a source stride being 0"))
            return;
    }
}

void conformance_device_copy_broadcast(const conformance_subject *subject,
                                       conformance_report *report)
{
    with_scene(subject, report, play_broadcast);
}

static void play_empty(scene *self)
{
    for (int i = 0; i < 3 * KILN_MAX_RANK * DIRECTIONS; i++) {
        kiln_copy_request request;
        int64_t rank = 1 + i / DIRECTIONS % KILN_MAX_RANK;
        choose_request(self->bed, rank, &request);
        request.shape[conformance_bed_random(self->bed, 0, rank - 1)] = 0;
        if (!try_copy(self, &request, (direction)(i % DIRECTIONS), ", an extent being 0"))
            return;
    }
}

void conformance_device_copy_empty(const conformance_subject *subject, conformance_report *report)
{
    with_scene(subject, report, play_empty);
}

/* From one place of an allocation to another. What overlaps may be refused, or come out as it will,
 * but harms nothing around it. */
static void play_within(scene *self)
{
    conformance_bed *bed = self->bed;
    for (int i = 0; i < 60; i++) {
        bool overlaps = i % 4 == 3;
        int64_t bytes = conformance_bed_random(bed, 16, 4000),
                from = conformance_bed_random(bed, 0, 2000),
                to = from + (overlaps ? bytes / 2 : bytes) + conformance_bed_random(bed, 0, 7);
        conformance_bed_random_bytes(bed, self->before, AREA);
        memcpy(self->expected, self->before, AREA);
        if (!conformance_bed_write(bed, self->destination_memory, 0, self->before, AREA))
            return;
        kiln_status status = conformance_bed_queue_move(bed, bed->stream, self->destination_memory,
                                                        to, self->destination_memory, from, bytes);
        bed->report->cases++;
        if ((!overlaps && !conformance_bed_ok(bed, status, "a copy within an allocation")) ||
            !BED_OK(bed, stream_wait, bed->device, bed->stream) ||
            !conformance_bed_read(bed, self->destination_memory, 0, self->found, AREA))
            return;
        if (overlaps)
            memcpy(self->expected + to, self->found + to, (size_t)bytes);
        else
            memcpy(self->expected + to, self->before + from, (size_t)bytes);
        if (!compare(self, ON_DEVICE,
                     overlaps ? "a copy that overlaps" : "a copy within an allocation"))
            return;
    }
}

void conformance_device_copy_within(const conformance_subject *subject, conformance_report *report)
{
    with_scene(subject, report, play_within);
}

/* ---- Every element type, by the public functions ---- */

enum { ROWS = 5, COLUMNS = 7, ROW_STRIDE = 16 };

static bool same_elements(const kiln_tensor *tensor, const unsigned char *a, const unsigned char *b)
{
    int64_t row_bytes = ROW_STRIDE * kiln_type_bits(tensor->type) / 8;
    for (int64_t i = 0; i < ROWS; i++)
        for (int64_t j = 0; j < COLUMNS; j++) {
            double x = kiln_load_f64(tensor->type, a + i * row_bytes, j),
                   y = kiln_load_f64(tensor->type, b + i * row_bytes, j);
            if (memcmp(&x, &y, sizeof x) != 0 && (x == x || y == y))
                return false;
        }
    return true;
}

static bool try_type(conformance_bed *bed, uint32_t type)
{
    unsigned char source[ROWS * ROW_STRIDE * 8], result[sizeof source];
    kiln_runtime *runtime = bed->instance.runtime;
    kiln_buffer *buffer;
    kiln_tensor from = kiln_matrix(type, source, ROWS, COLUMNS, ROW_STRIDE),
                to = kiln_matrix(type, result, ROWS, COLUMNS, ROW_STRIDE), middle = from;
    if (!conformance_bed_ok(
            bed,
            kiln_buffer_alloc(bed->handle, conformance_bed_space(bed), sizeof source + 8, &buffer),
            "alloc"))
        return false;
    middle.data = NULL;
    middle.buffer = buffer;
    middle.byte_offset = 8;
    conformance_bed_random_bytes(bed, source, sizeof source);
    memset(result, 0, sizeof result);
    bed->report->cases++;
    bool good = conformance_bed_ok(bed, kiln_copy(NULL, runtime, &middle, &from),
                                   "kiln_copy to the device") &&
                conformance_bed_ok(bed, kiln_copy(NULL, runtime, &to, &middle),
                                   "kiln_copy from the device");
    if (good && !same_elements(&from, source, result))
        conformance_fail(bed->report,
                         "a matrix of %s comes back from the device with other elements",
                         kiln_type_name(type));
    kiln_buffer_release(buffer);
    return good;
}

void conformance_device_copy_types(const conformance_subject *subject, conformance_report *report)
{
    conformance_bed bed;
    if (!conformance_bed_open(&bed, subject, report))
        return;
    for (uint32_t type = 1; type < KILN_TYPE_COUNT; type++)
        if (!try_type(&bed, type))
            break;
    conformance_bed_close(&bed);
}

/* ---- Fills ---- */

static bool try_fill(scene *self, const kiln_copy_request *shape, int64_t element_bytes)
{
    conformance_bed *bed = self->bed;
    char what[160];
    kiln_fill_request request = {.struct_size = sizeof request,
                                 .element_bytes = element_bytes,
                                 .rank = shape->rank,
                                 .destination = shape->destination};
    memcpy(request.shape, shape->shape, sizeof request.shape);
    conformance_bed_random_bytes(bed, request.pattern, sizeof request.pattern);
    if (!set_scene(self, shape, ON_DEVICE))
        return false;
    request.destination.memory = self->destination_memory;
    model(self->expected + request.destination.byte_offset, request.pattern, element_bytes,
          request.rank, request.shape, request.destination.strides, NULL, 0);
    bed->report->cases++;
    snprintf(what, sizeof what, "a fill of rank %lld with %lld bytes", (long long)request.rank,
             (long long)element_bytes);
    kiln_status status = BED_CALL(bed, fill, bed->device, bed->stream, &request);
    return conformance_bed_ok(bed, status, what) &&
           BED_OK(bed, stream_wait, bed->device, bed->stream) && compare(self, ON_DEVICE, what);
}

static bool has_fill(scene *self)
{
    if (!self->bed->table.fill)
        conformance_skip(self->bed->report, "it has no fill");
    return self->bed->table.fill != NULL;
}

static void play_fill(scene *self)
{
    static const int64_t counts[] = {1, 2, 3, 15, 16, 17, 63, 64, 65, 600};
    for (int64_t element_bytes = 1; has_fill(self) && element_bytes <= 16; element_bytes *= 2)
        for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
            kiln_copy_request shape = {.struct_size = sizeof shape,
                                       .element_bytes = element_bytes,
                                       .rank = 1,
                                       .shape = {counts[i]}};
            shape.destination.strides[0] = shape.source.strides[0] = element_bytes;
            shape.destination.byte_offset = element_bytes * (int64_t)(i % 3);
            if (!try_fill(self, &shape, element_bytes))
                return;
        }
}

void conformance_device_fill(const conformance_subject *subject, conformance_report *report)
{
    with_scene(subject, report, play_fill);
}

static void play_fill_strided(scene *self)
{
    for (int i = 0; has_fill(self) && i < 90; i++) {
        kiln_copy_request shape;
        choose_request(self->bed, i % (KILN_MAX_RANK + 1), &shape);
        if (i % 10 == 9 && shape.rank > 0)
            shape.shape[0] = 0;
        if (!try_fill(self, &shape, shape.element_bytes))
            return;
    }
}

void conformance_device_fill_strided(const conformance_subject *subject, conformance_report *report)
{
    with_scene(subject, report, play_fill_strided);
}
