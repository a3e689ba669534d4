/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: packed operands of kiln.gemm/1, which may come from a file. The first byte chooses
 * the operand, its type and its shape, the second cuts the blob; the rest is laid over a good blob,
 * by exclusive or. What unpacks, packs again to the same blob but for bytes that mean nothing.
 * Plugin: plugins/ref */
#include "tests/fuzz/plugins.h"

/* One more than the panels of the plugin have, and not many: copies are element by element. */
enum { KINDS = 16, M = 9, N = 65, K = 2, BATCH = 2, MAX_BYTES = BATCH * M * N * 4 };

/* One operand to pack: its plan, a good blob, and room to work in. */
typedef struct kind {
    kiln_plan *plan, *packed_plan;
    uint32_t operand;
    int64_t bytes;
    kiln_tensor strided;
    char *good;
} kind;

static kind kinds[KINDS];
static char elements[MAX_BYTES];

/* Bits: B rather than A, transposed, a batch, a type of two bytes. */
static void make(kind *made, unsigned bits)
{
    uint32_t type = bits & 8 ? KILN_BF16 : KILN_F32;
    bool is_b = bits & 1, transposed = bits & 2;
    kiln_gemm_desc desc = {.head = {sizeof desc, 0}, .m = M, .n = N, .k = K, .batch = 1};
    desc.a_type = desc.b_type = desc.d_type = type;
    if (transposed)
        desc.head.flags = is_b ? KILN_GEMM_TRANSPOSE_B : KILN_GEMM_TRANSPOSE_A;
    desc.batch = bits & 4 ? BATCH : 1;
    made->operand = is_b ? KILN_GEMM_B : KILN_GEMM_A;
    int64_t rows = is_b ? desc.k : desc.m, columns = is_b ? desc.n : desc.k;
    int64_t shape[3] = {desc.batch, transposed ? columns : rows, transposed ? rows : columns};
    bool batch = desc.batch > 1;
    made->strided = kiln_tensor_host(type, elements, batch ? 3 : 2, batch ? shape : shape + 1);
    must(kiln_plan_create(open_runtime(), KILN_GEMM, &desc.head, NULL, &made->plan) == KILN_OK);
    desc.head.flags |= is_b ? KILN_GEMM_PACKED_B : KILN_GEMM_PACKED_A;
    must(kiln_plan_create(open_runtime(), KILN_GEMM, &desc.head, NULL, &made->packed_plan) ==
         KILN_OK);
    must(kiln_plan_pack_size(made->plan, made->operand, &made->bytes) == KILN_OK);
    made->good = malloc((size_t)made->bytes);
    must(made->good);
}

static kiln_tensor blob_of(const kind *chosen, void *data)
{
    kiln_tensor blob = chosen->strided;
    blob.data = data;
    blob.layout = KILN_LAYOUT_PACKED;
    return blob;
}

static void make_all(void)
{
    for (size_t i = 0; i < sizeof elements; i++)
        elements[i] = (char)(i % 100 + 1);
    for (unsigned i = 0; i < KINDS; i++) {
        make(&kinds[i], i);
        kiln_tensor blob = blob_of(&kinds[i], kinds[i].good);
        must(kiln_plan_pack(kinds[i].plan, NULL, kinds[i].operand, &kinds[i].strided, &blob) ==
             KILN_OK);
    }
}

/* ---- One execution ---- */

static bool same_text(const char *a, const char *b)
{
    return strncmp(a, b, sizeof((kiln_pack_header *)0)->backend) == 0;
}

static void check_header(const kind *chosen, const char *blob)
{
    kiln_pack_header found, good;
    memcpy(&found, blob, sizeof found);
    memcpy(&good, chosen->good, sizeof good);
    must(memcmp(found.magic, good.magic, sizeof good.magic) == 0 && found.version == good.version &&
         found.header_bytes == good.header_bytes && same_text(found.backend, good.backend) &&
         same_text(found.format, good.format) && found.type == good.type &&
         found.operand == good.operand && found.bytes == good.bytes &&
         memcmp(found.shape, good.shape, sizeof good.shape) == 0);
}

/* The elements of the good blob have no zero byte, so its zeros are padding. */
static void check_payload(const kind *chosen, const char *blob, const kiln_tensor *unpacked)
{
    kiln_pack_header header;
    char *again = malloc((size_t)chosen->bytes);
    must(again);
    kiln_tensor packed = blob_of(chosen, again);
    must(kiln_plan_pack(chosen->plan, NULL, chosen->operand, unpacked, &packed) == KILN_OK);
    memcpy(&header, again, sizeof header);
    for (int64_t i = header.header_bytes; i < chosen->bytes; i++)
        must(again[i] == (chosen->good[i] ? blob[i] : 0));
    free(again);
}

/* D of a product with the operand as given, in memory of the caller. */
static kiln_status multiply(kiln_plan *plan, const kind *chosen, const kiln_tensor *operand,
                            char d[MAX_BYTES])
{
    kiln_tensor tensors[KILN_GEMM_SLOTS];
    kiln_gemm_args arguments = {{sizeof arguments, KILN_GEMM_SLOTS, tensors}, 1, 0};
    uint32_t rank = chosen->strided.rank, other = 1 - chosen->operand;
    bool is_b = other == KILN_GEMM_B;
    int64_t batch = rank == 3 ? BATCH : 1;
    int64_t shape[3] = {batch, is_b ? K : M, is_b ? N : K}, d_shape[3] = {batch, M, N};
    memset(tensors, 0, sizeof tensors);
    tensors[chosen->operand] = *operand;
    tensors[other] =
        kiln_tensor_host(chosen->strided.type, elements, rank, rank == 3 ? shape : shape + 1);
    tensors[KILN_GEMM_D] =
        kiln_tensor_host(chosen->strided.type, d, rank, rank == 3 ? d_shape : d_shape + 1);
    return kiln_plan_run(plan, NULL, &arguments.head);
}

static void check_products(const kind *chosen, const kiln_tensor *blob, const kiln_tensor *unpacked)
{
    static char packed[MAX_BYTES], plain[MAX_BYTES];
    must(multiply(chosen->packed_plan, chosen, blob, packed) == KILN_OK);
    must(multiply(chosen->plan, chosen, unpacked, plain) == KILN_OK);
    must(memcmp(packed, plain, sizeof plain) == 0);
}

static void read_blob(const kind *chosen, char *blob, int64_t bytes, bool multiplied)
{
    static char unpacked[MAX_BYTES];
    kiln_tensor packed = blob_of(chosen, NULL), strided = chosen->strided;
    must(kiln_buffer_wrap(open_runtime(), blob, bytes, NULL, NULL, &packed.buffer) == KILN_OK);
    strided.data = unpacked;
    kiln_status status = kiln_plan_unpack(chosen->plan, NULL, chosen->operand, &packed, &strided);
    if (status == KILN_OK) {
        must(bytes >= chosen->bytes);
        check_header(chosen, blob);
        check_payload(chosen, blob, &strided);
        if (multiplied)
            check_products(chosen, &packed, &strided);
    } else {
        static char d[MAX_BYTES];
        must(status == KILN_INVALID && *kiln_last_error());
        must(multiply(chosen->packed_plan, chosen, &packed, d) == KILN_INVALID);
    }
    kiln_buffer_release(packed.buffer);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    if (!kinds[0].plan)
        make_all();
    if (size < 2)
        return 0;
    const kind *chosen = &kinds[bytes[0] % KINDS];
    int64_t room = bytes[1] ? chosen->bytes * bytes[1] / 255 : chosen->bytes;
    char *blob = malloc((size_t)room + 1);
    must(blob);
    memcpy(blob, chosen->good, (size_t)room);
    for (int64_t i = 0; i < room && i < (int64_t)size - 2; i++)
        blob[i] ^= (char)bytes[i + 2];
    read_blob(chosen, blob, room, size % 64 == 0);
    free(blob);
    return 0;
}
