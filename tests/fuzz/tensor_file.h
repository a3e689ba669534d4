/* SPDX-License-Identifier: Apache-2.0 */
/* What the fuzz targets of tensor files share. */
#ifndef KILN_TESTS_FUZZ_TENSOR_FILE_H
#define KILN_TESTS_FUZZ_TENSOR_FILE_H

#include <stdlib.h>

#include "tools/io/digest.h"
#include "tools/io/tensor_file.h"

/* Opens the bytes as a file of that name, reads every element of every tensor that can be had, and
 * stops the program where a promise of the interface is broken. Returns 0. */
static inline int read_all_tensors(const char *name, const uint8_t *bytes, size_t size)
{
    tensor_file *file = NULL;
    io_error error = {""};
    if (tensor_file_open_memory(name, bytes, size, &file, &error) != KILN_OK) {
        if (file || !error.text[0])
            abort();
        return 0;
    }
    for (int64_t i = 0; i < tensor_file_count(file); i++) {
        const tensor_entry *entry = tensor_file_at(file, i);
        kiln_tensor tensor;
        kiln_status status = tensor_file_get(file, entry->name, &tensor, &error);
        if ((status == KILN_UNSUPPORTED) != (entry->refusal != NULL))
            abort();
        char digest[TENSOR_DIGEST_BYTES];
        int64_t elements = status ? 0 : kiln_tensor_elements(&tensor);
        if (elements > 0 && tensor_digest(&tensor, digest, &error) != KILN_OK)
            abort();
    }
    tensor_file_close(file);
    return 0;
}

#endif
