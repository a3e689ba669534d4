/* SPDX-License-Identifier: Apache-2.0 */
/* Strided copies and fills. */
#include "plugins/npu/transfer.h"

#include <stdio.h>
#include <string.h>

/* Bytes from the first to the last that a side touches, or -1 when they cannot be counted. */
static int64_t span(const struct npu_transfer *transfer, const struct npu_side *side)
{
    int64_t bytes = transfer->element_bytes;
    for (int64_t i = 0; i < transfer->rank; i++) {
        int64_t step;
        if (side->strides[i] < 0 ||
            __builtin_mul_overflow(transfer->shape[i] - 1, side->strides[i], &step) ||
            __builtin_add_overflow(bytes, step, &bytes))
            return -1;
    }
    return bytes;
}

static bool is_empty(const struct npu_transfer *transfer)
{
    for (int64_t i = 0; i < transfer->rank; i++)
        if (transfer->shape[i] == 0)
            return true;
    return false;
}

static int check_side(struct npu_global *global, const struct npu_transfer *transfer,
                      const struct npu_side *side, const char *verb, char *error, size_t size)
{
    int64_t bytes = span(transfer, side);
    if (bytes < 0) {
        snprintf(error, size, "a transfer %s with a negative stride or beyond 2^63 bytes", verb);
        return -1;
    }
    if (side->host)
        return 0;
    if (side->address < NPU_GM_BASE || bytes > global->size ||
        !npu_global_holds(global, side->address, side->address + bytes)) {
        snprintf(error, size,
                 "a transfer %s %lld bytes of global memory at %#llx, which do not lie within one "
                 "allocation",
                 verb, (long long)bytes, (long long)side->address);
        return -1;
    }
    return 0;
}

int npu_transfer_check(struct npu_global *global, const struct npu_transfer *transfer, char *error,
                       size_t size)
{
    if (transfer->rank < 0 || transfer->rank > NPU_RANK || transfer->element_bytes < 1 ||
        (transfer->fill && transfer->element_bytes > (int64_t)sizeof transfer->pattern)) {
        snprintf(error, size, "a transfer of rank %lld with elements of %lld bytes is not possible",
                 (long long)transfer->rank, (long long)transfer->element_bytes);
        return -1;
    }
    for (int64_t i = 0; i < transfer->rank; i++)
        if (transfer->shape[i] < 0) {
            snprintf(error, size, "extent %lld of a transfer is negative: %lld", (long long)i,
                     (long long)transfer->shape[i]);
            return -1;
        }
    if (is_empty(transfer))
        return 0;
    if (check_side(global, transfer, &transfer->destination, "writes", error, size))
        return -1;
    return transfer->fill ? 0
                          : check_side(global, transfer, &transfer->source, "reads", error, size);
}

/* A transfer on its way: innermost dimensions that are contiguous on both sides are one run. */
struct walk {
    const struct npu_transfer *transfer;
    int64_t rank; /* dimensions that are left outside the run */
    int64_t run;  /* bytes */
    int64_t written;
};

static void move_run(struct walk *walk, uint8_t *to, const uint8_t *from)
{
    const struct npu_transfer *transfer = walk->transfer;
    walk->written += walk->run;
    if (!transfer->fill) {
        memmove(to, from, (size_t)walk->run);
        return;
    }
    for (int64_t i = 0; i < walk->run; i += transfer->element_bytes)
        memcpy(to + i, transfer->pattern, (size_t)transfer->element_bytes);
}

static void walk_from(struct walk *walk, int64_t dimension, uint8_t *to, const uint8_t *from)
{
    const struct npu_transfer *transfer = walk->transfer;
    if (dimension == walk->rank) {
        move_run(walk, to, from);
        return;
    }
    for (int64_t i = 0; i < transfer->shape[dimension]; i++) {
        walk_from(walk, dimension + 1, to, from);
        to += transfer->destination.strides[dimension];
        if (from)
            from += transfer->source.strides[dimension];
    }
}

int64_t npu_transfer_run(const struct npu_global *global, const struct npu_transfer *transfer)
{
    struct walk walk = {transfer, transfer->rank, transfer->element_bytes, 0};
    if (is_empty(transfer))
        return 0;
    while (walk.rank > 0) {
        int64_t inner = walk.rank - 1;
        if (transfer->destination.strides[inner] != walk.run ||
            (!transfer->fill && transfer->source.strides[inner] != walk.run))
            break;
        walk.run *= transfer->shape[inner];
        walk.rank = inner;
    }
    const struct npu_side *to = &transfer->destination, *from = &transfer->source;
    walk_from(&walk, 0, to->host ? to->host : npu_global_at(global, to->address),
              transfer->fill ? NULL
              : from->host   ? from->host
                             : npu_global_at(global, from->address));
    return walk.written;
}
