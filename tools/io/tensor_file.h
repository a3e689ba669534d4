/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor files of the command line: .npy, .npz and .safetensors, read and written whole.
 *
 * The suffix of a name says the kind and the content must agree. All three are little-endian
 * formats; files of other byte orders are refused.
 *
 * Element types: .npy and .npz hold f64, f32, f16, i8…i64, u8…u64 and bool. .safetensors holds
 * these and bf16, e4m3 (F8_E4M3), e5m2 (F8_E5M2), ue8m0 (F8_E8M0) and e2m1 (F4, low four bits
 * first, only with an even innermost extent, since that format does not start rows on a byte). i4
 * and u4 have no spelling in any of them.
 *
 * A failure returns a negative status and fills `error`; what was to be returned stays untouched.
 * Functions may be called from any thread, but one tensor_file belongs to one thread at a time. */
#ifndef KILN_TOOLS_IO_TENSOR_FILE_H
#define KILN_TOOLS_IO_TENSOR_FILE_H

#include <stddef.h>

#include "kiln/kiln.h"

/* One sentence, or two: file, place, value, what to do. Control characters of foreign text are
 * shown as '?'. */
typedef struct io_error {
    char text[1024];
} io_error;

typedef struct tensor_file tensor_file;

/* One tensor of a file. Under a refusal, which leaves the other tensors as good as they are,
 * `tensor` and `bytes` are zero. */
typedef struct tensor_entry {
    const char *name;    /* UTF-8; "" for the tensor of an .npy file */
    const char *refusal; /* why Kiln cannot read this one; NULL when it can */
    kiln_tensor tensor;  /* type, rank, shape, strides; `data` is set by tensor_file_get() */
    int64_t bytes;       /* of the elements */
} tensor_entry;

/* Opens a file and checks all that it declares against what it holds, reading no elements. The file
 * is mapped, read-only. The tensors of .npy and .safetensors are views of the mapping; a member of
 * .npz is read into memory when it is asked for, at its full size, which a deflated one reaches
 * from as little as 1/1032 of it. A file that another program shortens while it is open raises
 * SIGBUS in its reader, as with any mapping.
 *
 * NOT_FOUND, PERMISSION or IO: the system's refusal. INVALID: no known suffix. PARSE: malformed,
 * with the byte offset or the name of the member. */
kiln_status tensor_file_open(const char *path, tensor_file **file, io_error *error);

/* The same for `size` bytes in memory, which must stay unchanged until the file is closed; `name`
 * gives the suffix and stands in messages. */
kiln_status tensor_file_open_memory(const char *name, const void *bytes, size_t size,
                                    tensor_file **file, io_error *error);

/* Every view and entry of the file dies with it. NULL is accepted. */
void tensor_file_close(tensor_file *file);

/* Number of tensors, and one of them, in the order of the file (.safetensors: of the data). The
 * index must be in range. */
int64_t tensor_file_count(const tensor_file *file);
const tensor_entry *tensor_file_at(const tensor_file *file, int64_t index);

/* A view of the tensor `name`; NULL asks for the only one of a file that has one. Its memory
 * belongs to the file and must not be written: it may be a read-only mapping. It may be unaligned
 * for its type (.safetensors), and it is column-major, by its strides, when an .npy array was saved
 * in Fortran order.
 *
 * NOT_FOUND: no such name. UNSUPPORTED: the entry's refusal. PARSE: a member of .npz is damaged.
 * NO_MEMORY. */
kiln_status tensor_file_get(tensor_file *file, const char *name, kiln_tensor *tensor,
                            io_error *error);

/* One tensor to write. */
typedef struct tensor_output {
    const char *name; /* not used for .npy */
    kiln_tensor tensor;
} tensor_output;

/* Writes `count` tensors of host memory, in any strides, as row-major data: one to .npy, one or
 * more to .npz (stored uncompressed), any number to .safetensors. The same tensors give the same
 * bytes at any time.
 *
 * The file appears whole or not at all: it is written under a temporary name in the same folder,
 * synced, and renamed over `path`, whose permissions it keeps; on failure the temporary is removed
 * and an old file is left as it was. A symbolic link is followed. Tensors may be views of
 * the file that is replaced.
 *
 * INVALID: suffix, names, or a tensor that is not plain host memory. UNSUPPORTED: the format has no
 * such element type. CAPACITY: too many tensors for one header. PERMISSION or IO: the system's
 * refusal, disk full among them. NO_MEMORY. */
kiln_status tensor_file_write(const char *path, const tensor_output *outputs, int64_t count,
                              io_error *error);

/* The same in two steps, for several files that are to change together: each is prepared, under a
 * temporary name, and then all are given their names, in order. When one name cannot be given, the
 * files that already have theirs are taken back: an old file, which a hard link has kept
 * meanwhile, gets its name again. On a file system without hard links it cannot, and the sentence
 * names what stays changed. Only a process that is killed, or a machine that stops,
 * between the first name and the last leaves some files new and some old, each whole, and hidden
 * files ".kiln-*.tmp" beside them.
 *
 * Both commit and discard release what they are given; discard accepts NULL. */
typedef struct tensor_pending tensor_pending;
kiln_status tensor_file_prepare(const char *path, const tensor_output *outputs, int64_t count,
                                tensor_pending **pending, io_error *error);
kiln_status tensor_pending_commit(tensor_pending **pending, int64_t count, io_error *error);
void tensor_pending_discard(tensor_pending *pending);

#endif
