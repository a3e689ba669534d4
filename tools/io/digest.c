/* SPDX-License-Identifier: Apache-2.0 */
/* A tensor's digest. */
#include <stdio.h>
#include <xxhash.h>

#include "tools/io/digest.h"
#include "tools/io/internal.h"

static void hash_description(XXH3_state_t *state, const kiln_tensor *tensor)
{
    char text[32 + KILN_MAX_RANK * 24];
    size_t used = (size_t)snprintf(text, sizeof text, "%s[", kiln_type_name(tensor->type));
    for (uint32_t i = 0; i < tensor->rank; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, i ? ",%lld" : "%lld",
                                 (long long)tensor->shape[i]);
    used += (size_t)snprintf(text + used, sizeof text - used, "]");
    XXH3_128bits_update(state, text, used + 1);
}

kiln_status tensor_digest(const kiln_tensor *tensor, char digest[TENSOR_DIGEST_BYTES],
                          io_error *error)
{
    row_major elements;
    const char *wrong = row_major_open(&elements, tensor);
    if (wrong)
        return io_fail(error, KILN_INVALID, "a tensor cannot be hashed: %s", wrong);
    XXH3_state_t *state = XXH3_createState();
    if (!state)
        return io_fail_memory(error, "hashing a tensor");
    XXH3_128bits_reset(state);
    hash_description(state, tensor);
    uint8_t part[1 << 14];
    size_t size;
    while ((size = row_major_read(&elements, part, sizeof part)) > 0)
        XXH3_128bits_update(state, part, size);
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state));
    XXH3_freeState(state);
    for (size_t i = 0; i < sizeof canonical.digest; i++)
        snprintf(digest + 2 * i, 3, "%02x", canonical.digest[i]);
    return KILN_OK;
}
