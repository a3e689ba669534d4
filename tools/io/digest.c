/* SPDX-License-Identifier: Apache-2.0 */
/* Digests of tensors and of files. */
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

/* Writes the digest as text and frees the state. */
static void finish(XXH3_state_t *state, char digest[TENSOR_DIGEST_BYTES])
{
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state));
    XXH3_freeState(state);
    for (size_t i = 0; i < sizeof canonical.digest; i++)
        snprintf(digest + 2 * i, 3, "%02x", canonical.digest[i]);
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
    finish(state, digest);
    return KILN_OK;
}

bool file_digest(const char *path, char digest[TENSOR_DIGEST_BYTES])
{
    FILE *file = fopen(path, "rb");
    XXH3_state_t *state = file ? XXH3_createState() : NULL;
    bool whole = false;
    if (state) {
        uint8_t part[1 << 14];
        size_t size;
        XXH3_128bits_reset(state);
        while ((size = fread(part, 1, sizeof part, file)) > 0)
            XXH3_128bits_update(state, part, size);
        whole = !ferror(file);
        finish(state, digest);
    }
    if (file)
        fclose(file);
    return whole;
}
