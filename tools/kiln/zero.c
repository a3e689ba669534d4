/* SPDX-License-Identifier: Apache-2.0 */
/* Running a job: memory that holds zeros. */
#include <string.h>

#include "tools/kiln/run.h"

/* Piece by piece, so that no second buffer of this size is needed. */
static kiln_status copy_zeros(kiln_runtime *runtime, kiln_tensor destination)
{
    static char zeros[1 << 16];
    int64_t bytes = destination.shape[0];
    kiln_status status = KILN_OK;
    while (status == KILN_OK && destination.byte_offset < bytes) {
        int64_t left = bytes - destination.byte_offset;
        destination.shape[0] = left < (int64_t)sizeof zeros ? left : (int64_t)sizeof zeros;
        kiln_tensor source = kiln_tensor_host(KILN_U8, zeros, 1, destination.shape);
        status = kiln_copy(NULL, runtime, &destination, &source);
        destination.byte_offset += destination.shape[0];
    }
    return status;
}

kiln_status run_zero(kiln_runtime *runtime, kiln_buffer *buffer)
{
    int64_t bytes = kiln_buffer_bytes(buffer);
    void *host = kiln_buffer_host(buffer);
    if (bytes == 0)
        return KILN_OK;
    if (host) {
        memset(host, 0, (size_t)bytes);
        return KILN_OK;
    }
    kiln_tensor all = kiln_tensor_host(KILN_U8, NULL, 1, &bytes);
    all.buffer = buffer;
    kiln_status status = kiln_fill(NULL, runtime, &all, 0);
    return status == KILN_UNSUPPORTED ? copy_zeros(runtime, all) : status;
}
