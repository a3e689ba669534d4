/* SPDX-License-Identifier: Apache-2.0 */
/* OpenBLAS as a peer: cblas_sgemm and cblas_dgemm; f16 and bf16 by converting to f32 and back,
 * shared among threads. */
#include "bench/peer.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/convert.h"
#include "bench/team.h"

enum { ROW_MAJOR = 101, NO_TRANSPOSE = 111, TRANSPOSE = 112 };

typedef void sgemm_fn(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha,
                      const float *a, int lda, const float *b, int ldb, float beta, float *c,
                      int ldc);
typedef void dgemm_fn(int order, int transpose_a, int transpose_b, int m, int n, int k,
                      double alpha, const double *a, int lda, const double *b, int ldb, double beta,
                      double *c, int ldc);

static struct {
    sgemm_fn *sgemm;
    dgemm_fn *dgemm;
    bench_team *team; /* for conversions */
} library;

/* Functions and data pointers have one size where dlsym exists; C has no cast for it. */
static bool find(void *handle, const char *name, void *function)
{
    void *symbol = dlsym(handle, name);
    memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

static void *load(const char *path, bench_message *message)
{
    void *handle = dlopen(path ? path : "libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    if (!handle && !path)
        handle = dlopen("libopenblas.so", RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        bench_say(message, "%s", dlerror());
    return handle;
}

static bool open_library(const char *path, int64_t threads, bench_identity *identity,
                         bench_message *message)
{
    void *handle = load(path, message);
    if (!handle)
        return false;
    char *(*config)(void) = NULL, *(*core)(void) = NULL;
    void (*set_threads)(int) = NULL;
    if (!find(handle, "cblas_sgemm", &library.sgemm) ||
        !find(handle, "cblas_dgemm", &library.dgemm) ||
        !find(handle, "openblas_set_num_threads", &set_threads) ||
        !find(handle, "openblas_get_config", &config) ||
        !find(handle, "openblas_get_corename", &core))
        return bench_say(message, "it lacks a function of OpenBLAS: %s", dlerror());
    if (strstr(config(), "USE64BITINT"))
        return bench_say(message, "it has 64-bit integers (ILP64); the LP64 build is needed");
    set_threads((int)threads);
    char version[32] = "unknown";
    sscanf(config(), "OpenBLAS %31s", version);
    snprintf(identity->version, sizeof identity->version, "%s", version);
    snprintf(identity->kernel, sizeof identity->kernel, "%s", core());
    library.team = bench_team_create(threads);
    return library.team || bench_say(message, "threads for conversions cannot be started");
}

static bool converts(uint32_t type)
{
    return type == KILN_F16 || type == KILN_BF16;
}

static bool accepts(const bench_gemm *gemm, bench_message *message)
{
    const kiln_gemm_desc *desc = &gemm->desc;
    if (desc->epilogue_count > 0)
        return bench_say(message, "OpenBLAS has no epilogues");
    if (desc->grouping)
        return bench_say(message, "OpenBLAS has no groups");
    if (desc->a_type != desc->b_type ||
        (desc->a_type != KILN_F32 && desc->a_type != KILN_F64 && !converts(desc->a_type)))
        return bench_say(message, "OpenBLAS does not multiply %s by %s",
                         kiln_type_name(desc->a_type), kiln_type_name(desc->b_type));
    bool as_is =
        desc->d_type == desc->a_type || (converts(desc->a_type) && desc->d_type == KILN_F32);
    if (!as_is || (desc->c_type != KILN_TYPE_NONE && desc->c_type != desc->d_type))
        return bench_say(message, "OpenBLAS has no output of type %s here",
                         kiln_type_name(desc->d_type));
    if (desc->m > INT_MAX || desc->n > INT_MAX || desc->k > INT_MAX)
        return bench_say(message, "OpenBLAS counts in 32 bits");
    return true;
}

/* Operands as cblas takes them: of f32 or f64. */
typedef struct state {
    const bench_gemm *gemm;
    const bench_operands *operands;
    float *a, *b; /* converted; NULL = as they are */
    float *d;
} state;

typedef struct conversion {
    uint32_t type;
    void *narrow;
    float *wide;
    int64_t count;
    bool widen;
} conversion;

static void convert_share(void *argument, int64_t thread)
{
    const conversion *job = argument;
    int64_t threads = bench_team_threads(library.team);
    int64_t first = job->count * thread / threads,
            count = job->count * (thread + 1) / threads - first;
    char *narrow = (char *)job->narrow + first * 2;
    if (job->widen)
        bench_widen(job->wide + first, job->type, narrow, count);
    else
        bench_narrow(job->type, narrow, job->wide + first, count);
}

/* Small ones are not worth waking threads for. */
static void convert(const kiln_tensor *tensor, float *wide, bool widen)
{
    conversion job = {tensor->type, tensor->data, wide, kiln_tensor_elements(tensor), widen};
    if (job.count > 65536) {
        bench_team_run(library.team, convert_share, &job);
    } else if (widen) {
        bench_widen(wide, tensor->type, tensor->data, job.count);
    } else {
        bench_narrow(tensor->type, tensor->data, wide, job.count);
    }
}

static float *wide_copy(const kiln_tensor *tensor)
{
    return aligned_alloc(64, ((size_t)kiln_tensor_elements(tensor) * sizeof(float) + 64) / 64 * 64);
}

static void release(void *pointer)
{
    state *self = pointer;
    free(self->a);
    free(self->b);
    free(self->d);
    free(self);
}

static bool prepare(const bench_gemm *gemm, const bench_operands *operands, void **result,
                    bench_message *message)
{
    state *self = calloc(1, sizeof *self);
    if (!self)
        return bench_say(message, "memory is exhausted");
    self->gemm = gemm;
    self->operands = operands;
    if (converts(gemm->desc.a_type)) {
        self->a = wide_copy(&operands->tensors[KILN_GEMM_A]);
        self->b = wide_copy(&operands->tensors[KILN_GEMM_B]);
        self->d = converts(gemm->desc.d_type) ? wide_copy(&operands->tensors[KILN_GEMM_D]) : NULL;
        if (!self->a || !self->b || (converts(gemm->desc.d_type) && !self->d)) {
            release(self);
            return bench_say(message, "memory is exhausted");
        }
        convert(&operands->tensors[KILN_GEMM_B], self->b, true);
    }
    *result = self;
    return true;
}

/* One matrix of the batch. cblas updates C in place, so C is copied to D first when there is one.
 */
static void multiply(const state *self, const void *a, const void *b, void *d)
{
    const kiln_gemm_desc *desc = &self->gemm->desc;
    int m = (int)desc->m, n = (int)desc->n, k = (int)desc->k;
    bool ta = desc->head.flags & KILN_GEMM_TRANSPOSE_A,
         tb = desc->head.flags & KILN_GEMM_TRANSPOSE_B;
    int lda = ta ? m : k, ldb = tb ? k : n, transpose_a = ta ? TRANSPOSE : NO_TRANSPOSE;
    int transpose_b = tb ? TRANSPOSE : NO_TRANSPOSE;
    lda = lda > 0 ? lda : 1;
    ldb = ldb > 0 ? ldb : 1;
    if (desc->a_type == KILN_F64)
        library.dgemm(ROW_MAJOR, transpose_a, transpose_b, m, n, k, self->gemm->alpha, a, lda, b,
                      ldb, self->gemm->beta, d, n > 0 ? n : 1);
    else
        library.sgemm(ROW_MAJOR, transpose_a, transpose_b, m, n, k, (float)self->gemm->alpha, a,
                      lda, b, ldb, (float)self->gemm->beta, d, n > 0 ? n : 1);
}

static void run(void *pointer)
{
    state *self = pointer;
    const kiln_gemm_desc *desc = &self->gemm->desc;
    const kiln_tensor *tensors = self->operands->tensors;
    int64_t batch = desc->batch > 1 ? desc->batch : 1;
    if (self->a)
        convert(&tensors[KILN_GEMM_A], self->a, true);
    if (self->b && !(desc->head.flags & KILN_GEMM_PACKED_B))
        convert(&tensors[KILN_GEMM_B], self->b, true);
    void *d = self->d ? (void *)self->d : tensors[KILN_GEMM_D].data;
    if (self->gemm->beta != 0) {
        if (self->d)
            convert(&tensors[KILN_GEMM_C], self->d, true);
        else
            memcpy(d, tensors[KILN_GEMM_C].data, (size_t)bench_tensor_bytes(&tensors[KILN_GEMM_C]));
    }
    const char *a = self->a ? (const void *)self->a : tensors[KILN_GEMM_A].data;
    const char *b = self->b ? (const void *)self->b : tensors[KILN_GEMM_B].data;
    int64_t size = desc->a_type == KILN_F64 ? 8 : 4;
    for (int64_t i = 0; i < batch; i++)
        multiply(self, a + i * desc->m * desc->k * size, b + i * desc->k * desc->n * size,
                 (char *)d + i * desc->m * desc->n * size);
    if (self->d)
        convert(&tensors[KILN_GEMM_D], self->d, false);
}

/* Packaged builds misjudge CPUs newer than they are: all that could fit are tried. */
static const char *const cores[] = {"SkylakeX", "Cooperlake", "SapphireRapids",
                                    "Haswell",  "Zen",        NULL};
static const char *const clear[] = {"OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS",
                                    NULL};

extern const bench_peer bench_peer_openblas;
const bench_peer bench_peer_openblas = {
    .name = "openblas",
    .remedy = "install libopenblas0-pthread, or name the library with --peer-path",
    .core_variable = "OPENBLAS_CORETYPE",
    .cores = cores,
    .clear = clear,
    .open = open_library,
    .accepts = accepts,
    .prepare = prepare,
    .run = run,
    .release = release,
};
