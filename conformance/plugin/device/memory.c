/* SPDX-License-Identifier: Apache-2.0 */
/* What a device says of itself, and its memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conformance/plugin/device/device.h"
#include "conformance/plugin/guard.h"

enum {
    KNOWN_DEVICE_FLAGS = KILN_DEVICE_HOST_ADDRESSABLE | KILN_DEVICE_MODEL | KILN_DEVICE_FORK_SAFE,
    BEYOND = 64
};

/* ---- Count and info ---- */

void conformance_device_count_stable(const conformance_subject *subject, conformance_report *report)
{
    conformance_bed bed;
    if (!conformance_bed_open(&bed, subject, report))
        return;
    for (int i = 0; i < 3; i++) {
        int64_t count = -1;
        report->cases++;
        if (!BED_OK(&bed, count, bed.instance.instance, &count))
            break;
        if (count != conformance_device_count(&bed.instance))
            conformance_fail(report, "count gives %lld devices and then %lld",
                             (long long)conformance_device_count(&bed.instance), (long long)count);
    }
    conformance_bed_close(&bed);
}

static bool is_text(const char *text, size_t size)
{
    return memchr(text, '\0', size) && text[0];
}

static void judge_info(int64_t index, const kiln_device_info *info, conformance_report *report)
{
    long long i = (long long)index;
    if (!is_text(info->name, sizeof info->name) ||
        !is_text(info->fingerprint, sizeof info->fingerprint))
        conformance_fail(report, "info of device %lld: name and fingerprint must be texts", i);
    if (info->struct_size != sizeof *info)
        conformance_fail(report, "info of device %lld changes struct_size to %llu", i,
                         (unsigned long long)info->struct_size);
    if (!(info->spaces & 1u << KILN_SPACE_DEVICE))
        conformance_fail(report, "info of device %lld: spaces 0x%llx lack KILN_SPACE_DEVICE", i,
                         (unsigned long long)info->spaces);
    if (info->spaces >> (KILN_SPACE_SHARED + 1))
        conformance_fail(report, "info of device %lld: spaces 0x%llx have unknown bits", i,
                         (unsigned long long)info->spaces);
    if (info->flags & ~(uint64_t)KNOWN_DEVICE_FLAGS)
        conformance_fail(report, "info of device %lld: flags 0x%llx have unknown bits", i,
                         (unsigned long long)info->flags);
    if (info->memory_bytes < 0 || info->compute_units < 0 || info->vector_bytes < 0 ||
        info->copy_bytes_per_second < 0 || info->matrix_shape[0] < 0 || info->matrix_shape[1] < 0 ||
        info->matrix_shape[2] < 0)
        conformance_fail(report, "info of device %lld has a negative number", i);
    if (info->memory_count < 0 || info->memory_count > KILN_MAX_MEMORIES) {
        conformance_fail(report, "info of device %lld: memory_count is %lld", i,
                         (long long)info->memory_count);
        return;
    }
    for (int64_t j = 0; j < info->memory_count; j++)
        if (!is_text(info->memories[j].name, sizeof info->memories[j].name) ||
            info->memories[j].bytes < 0 || info->memories[j].instances < 0)
            conformance_fail(report, "info of device %lld: memory %lld has no name or no size", i,
                             (long long)j);
}

void conformance_device_info(const conformance_subject *subject, conformance_report *report)
{
    conformance_bed bed;
    if (!conformance_bed_open(&bed, subject, report))
        return;
    int64_t count = conformance_device_count(&bed.instance);
    for (int64_t i = 0; i < count; i++) {
        kiln_device_info before = {.struct_size = sizeof before},
                         again = {.struct_size = sizeof again};
        report->cases++;
        /* The first device is open by now, the others are not; the library asked before. */
        if (!BED_OK(&bed, info, bed.instance.instance, i, &again))
            break;
        kiln_device_get_info(conformance_device(&bed.instance, i), &before);
        judge_info(i, &again, report);
        if (memcmp(&before, &again, sizeof again) != 0)
            conformance_fail(report, "info of device %lld says something else the second time",
                             (long long)i);
    }
    const int64_t wrong[] = {-1, count, INT64_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        kiln_device_info info = {.struct_size = sizeof info};
        int64_t errors = conformance_errors_set(&bed.instance);
        report->cases++;
        if (BED_CALL(&bed, info, bed.instance.instance, wrong[i], &info) >= 0)
            conformance_fail(report, "info describes device %lld of %lld", (long long)wrong[i],
                             (long long)count);
        else if (conformance_errors_set(&bed.instance) == errors)
            conformance_fail(report, "info fails without a sentence through host->set_error");
    }
    conformance_bed_close(&bed);
}

void conformance_device_info_size(const conformance_subject *subject, conformance_report *report)
{
    conformance_bed bed;
    conformance_guard_pages guard;
    if (!conformance_bed_open(&bed, subject, report))
        return;
    const size_t sizes[] = {sizeof(kiln_device_info), sizeof(kiln_device_info) + BEYOND};
    for (size_t i = 0; i < 2 && conformance_guard_make(&guard, sizeof(kiln_device_info) + BEYOND);
         i++) {
        kiln_device_info *info = conformance_guard_end(&guard, sizes[i]);
        memset(info, 0, sizes[i]);
        info->struct_size = sizes[i];
        report->cases++;
        BED_OK(&bed, info, bed.instance.instance, 0, info);
        const unsigned char *beyond = (const unsigned char *)(info + 1);
        for (size_t j = 0; j < sizes[i] - sizeof *info; j++)
            if (beyond[j] && bed.plugin.table.abi_minor <= KILN_PLUGIN_ABI_MINOR)
                conformance_fail(report, "info writes beyond what it knows");
        if (!conformance_guard_whole(&guard, sizes[i]))
            conformance_fail(report, "info writes before the struct");
        conformance_guard_free(&guard);
    }
    conformance_bed_close(&bed);
}

/* ---- Allocation ---- */

/* One allocation of one space: aligned, and the host's to touch where it gives an address. */
static void try_alloc(conformance_bed *bed, const kiln_device_info *info, uint32_t space,
                      int64_t bytes, int64_t alignment)
{
    void *memory = NULL, *host = NULL;
    bed->report->cases++;
    if (!BED_OK(bed, alloc, bed->device, space, bytes, alignment, &memory, &host))
        return;
    if (!memory)
        conformance_fail(bed->report, "alloc of %lld bytes gives no object", (long long)bytes);
    if (host && (uintptr_t)host % (uintptr_t)alignment)
        conformance_fail(bed->report, "alloc of %lld bytes gives %p, which is not aligned to %lld",
                         (long long)bytes, host, (long long)alignment);
    if ((space == KILN_SPACE_HOST || space == KILN_SPACE_PINNED ||
         (info->flags & KILN_DEVICE_HOST_ADDRESSABLE)) &&
        !host && bytes > 0)
        conformance_fail(bed->report, "alloc of space %u gives no host address", space);
    if (host && bytes > 0) {
        memset(host, 0x5a, (size_t)bytes);
        unsigned char *copy = malloc((size_t)bytes);
        if (copy && conformance_bed_read(bed, memory, 0, copy, bytes))
            for (int64_t i = 0; i < bytes; i++)
                if (copy[i] != 0x5a) {
                    conformance_fail(bed->report,
                                     "what the host writes at the address that alloc gave is not "
                                     "what the device copies, from byte %lld",
                                     (long long)i);
                    break;
                }
        free(copy);
    }
    conformance_bed_free(bed, memory);
}

void conformance_device_alloc(const conformance_subject *subject, conformance_report *report)
{
    static const int64_t sizes[] = {0, 1, 2, 63, 64, 65, 4095, 4097, 1 << 20, (1 << 20) + 3};
    static const int64_t alignments[] = {1, 16, 64};
    conformance_bed bed;
    kiln_device_info info = {.struct_size = sizeof info};
    if (!conformance_bed_open(&bed, subject, report))
        return;
    kiln_device_get_info(bed.handle, &info);
    for (uint32_t space = 0; space <= KILN_SPACE_SHARED; space++)
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
            for (size_t j = 0; j < 3 && (info.spaces >> space & 1); j++)
                try_alloc(&bed, &info, space, sizes[i], alignments[j]);
    conformance_bed_close(&bed);
}

enum { APART = 24, APART_BYTES = 5000 };

/* Every allocation keeps its own bytes, also after some of its neighbours were freed. */
void conformance_device_alloc_apart(const conformance_subject *subject, conformance_report *report)
{
    static unsigned char bytes[APART_BYTES];
    conformance_bed bed;
    void *memories[APART];
    int64_t sizes[APART];
    bool kept = true;
    if (!conformance_bed_open(&bed, subject, report))
        return;
    for (int round = 0; round < 3 && report->verdict == CONFORMANCE_CHECK_PASSED; round++) {
        for (int i = 0; i < APART; i++) {
            if (round > 0 && i % 2 == 0)
                continue; /* kept from the round before */
            sizes[i] = conformance_bed_random(&bed, 1, APART_BYTES);
            memories[i] = conformance_bed_alloc(&bed, sizes[i]);
            memset(bytes, i + 1, (size_t)sizes[i]);
            kept =
                kept && memories[i] && conformance_bed_write(&bed, memories[i], 0, bytes, sizes[i]);
        }
        for (int i = 0; kept && i < APART; i++) {
            report->cases++;
            kept = conformance_bed_read(&bed, memories[i], 0, bytes, sizes[i]);
            for (int64_t j = 0; kept && j < sizes[i]; j++)
                if (bytes[j] != i + 1) {
                    conformance_fail(report,
                                     "byte %lld of an allocation of %lld bytes was changed by "
                                     "writing to another",
                                     (long long)j, (long long)sizes[i]);
                    break;
                }
        }
        for (int i = 0; i < APART; i++)
            if (kept && (round == 2 || i % 2))
                conformance_bed_free(&bed, memories[i]);
    }
    conformance_bed_close(&bed);
}

void conformance_device_alloc_refuses(const conformance_subject *subject,
                                      conformance_report *report)
{
    conformance_bed bed;
    kiln_device_info info = {.struct_size = sizeof info};
    if (!conformance_bed_open(&bed, subject, report))
        return;
    kiln_device_get_info(bed.handle, &info);
    for (uint32_t space = 0; space < 64; space++) {
        void *memory = NULL, *host = NULL;
        int64_t errors = conformance_errors_set(&bed.instance);
        if (info.spaces >> space & 1)
            continue;
        report->cases++;
        if (BED_CALL(&bed, alloc, bed.device, space, 64, 64, &memory, &host) >= 0)
            conformance_fail(report, "alloc gives memory of space %u, which info does not offer",
                             space);
        else if (conformance_errors_set(&bed.instance) == errors)
            conformance_fail(report, "alloc fails without a sentence through host->set_error");
    }
    conformance_bed_close(&bed);
}

enum { MOST_PIECES = 64 };

/* Bytes that the device cannot have are refused, and it goes on. */
static void demand_no_memory(conformance_bed *bed, int64_t bytes)
{
    void *memory = NULL, *host = NULL;
    int64_t errors = conformance_errors_set(&bed->instance);
    bed->report->cases++;
    kiln_status status =
        BED_CALL(bed, alloc, bed->device, conformance_bed_space(bed), bytes, 64, &memory, &host);
    if (status == KILN_OK)
        conformance_bed_free(bed, memory);
    if (status != KILN_NO_MEMORY)
        conformance_fail(bed->report, "alloc of %lld bytes returns %s, not NO_MEMORY",
                         (long long)bytes, kiln_status_name(status));
    else if (conformance_errors_set(&bed->instance) == errors)
        conformance_fail(bed->report, "alloc fails without a sentence through host->set_error");
}

void conformance_device_alloc_exhausted(const conformance_subject *subject,
                                        conformance_report *report)
{
    conformance_bed bed;
    kiln_device_info info = {.struct_size = sizeof info};
    void *pieces[MOST_PIECES], *host;
    int count = 0;
    kiln_status status = KILN_OK;
    if (!conformance_bed_open(&bed, subject, report))
        return;
    kiln_device_get_info(bed.handle, &info);
    demand_no_memory(&bed, INT64_MAX);
    demand_no_memory(&bed, INT64_MAX - 63);
    demand_no_memory(&bed, INT64_C(1) << 60);
    int64_t piece = info.memory_bytes / 12;
    while (piece > 0 && count < MOST_PIECES && status == KILN_OK) {
        status = BED_CALL(&bed, alloc, bed.device, conformance_bed_space(&bed), piece, 64,
                          &pieces[count], &host);
        count += status == KILN_OK;
    }
    report->cases += count;
    if (status != KILN_OK && status != KILN_NO_MEMORY)
        conformance_fail(report, "alloc returns %s when memory is exhausted, not NO_MEMORY",
                         kiln_status_name(status));
    if (piece > 0 && count == 0)
        conformance_fail(report, "not even a twelfth of memory_bytes (%lld) can be had",
                         (long long)info.memory_bytes);
    for (int i = 0; i < count; i++)
        conformance_bed_free(&bed, pieces[i]);
    /* What was freed is there again. */
    for (int i = 0; i < count && report->verdict == CONFORMANCE_CHECK_PASSED; i++)
        pieces[i] = conformance_bed_alloc(&bed, piece);
    for (int i = 0; i < count && report->verdict == CONFORMANCE_CHECK_PASSED; i++)
        conformance_bed_free(&bed, pieces[i]);
    conformance_bed_close(&bed);
}

/* Far more than the device has, in turn. */
void conformance_device_alloc_cycles(const conformance_subject *subject, conformance_report *report)
{
    conformance_bed bed;
    kiln_device_info info = {.struct_size = sizeof info};
    if (!conformance_bed_open(&bed, subject, report))
        return;
    kiln_device_get_info(bed.handle, &info);
    int64_t most = info.memory_bytes > 0 ? info.memory_bytes / 8 : 1 << 24;
    for (int i = 0; i < 1000 && report->verdict == CONFORMANCE_CHECK_PASSED; i++) {
        void *first = conformance_bed_alloc(&bed, conformance_bed_random(&bed, 1, most));
        void *second = conformance_bed_alloc(&bed, conformance_bed_random(&bed, 1, 100000));
        report->cases += 2;
        if (first)
            conformance_bed_free(&bed, first);
        if (second)
            conformance_bed_free(&bed, second);
    }
    conformance_bed_close(&bed);
}
