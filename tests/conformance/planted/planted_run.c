/* SPDX-License-Identifier: Apache-2.0 */
/* Runs of kiln.gemm/1, on the host and on the device, and what can be wrong with them. */
#include "planted_gemm.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- Tensors ---- */

static bool is_read(const planted_plan *self, const planted_product *work, uint32_t slot)
{
    const kiln_gemm_desc *desc = &self->desc;
    if (slot == KILN_GEMM_A || slot == KILN_GEMM_B || slot >= PLANTED_SCALE)
        return work->args.alpha != 0 || planted(READS_A);
    if (slot == KILN_GEMM_C)
        return work->args.beta != 0 || planted(READS_C);
    if (slot == KILN_GEMM_GROUPS)
        return desc->grouping != KILN_GROUPING_NONE;
    if (slot == KILN_GEMM_D_SCALE)
        return desc->d_quantization.scale_type != KILN_TYPE_NONE;
    return slot == KILN_GEMM_D || (slot - KILN_GEMM_OPERAND < desc->epilogue_count &&
                                   desc->epilogues[slot - KILN_GEMM_OPERAND].operand);
}

/* Finds out where a tensor lies: host addresses now, the device's when the run is executed. */
static const char *bind(const planted_plan *self, uint32_t slot, kiln_tensor *tensor,
                        const void *memory, char **address)
{
    const kiln_host *host = self->instance->host;
    bool packed = tensor->layout == KILN_LAYOUT_PACKED;
    int64_t room =
        tensor->buffer ? host->buffer_bytes(tensor->buffer) - tensor->byte_offset : INT64_MAX;
    if (packed && room < planted_blob_bytes(tensor))
        return "a packed operand has no room for what it must hold";
    *address = self->device
                   ? planted_reach(self->device, memory, tensor->byte_offset,
                                   packed ? planted_blob_bytes(tensor) : planted_span(tensor))
                   : kiln_tensor_address(host, tensor);
    if (!*address)
        return planted_span(tensor) > 0 ? "a tensor is not in this memory" : NULL;
    if (!packed)
        return NULL;
    const char *problem = planted_blob_problem(slot, tensor, *address, room);
    if (problem)
        return problem;
    *address += PAYLOAD_AT;
    uint32_t last = tensor->rank - 1;
    tensor->strides[last] = 1;
    tensor->strides[last - 1] = tensor->shape[last];
    if (tensor->rank == 3) /* one entry serves any batch */
        tensor->strides[0] = tensor->shape[0] == 1 ? 0 : tensor->shape[1] * tensor->shape[2];
    return NULL;
}

static const char *bind_all(const planted_plan *self, planted_product *work, void *const *memories)
{
    const char *problem = NULL;
    for (uint32_t slot = 0; !problem && slot < PLANTED_TENSORS; slot++)
        if (work->tensors[slot].type != KILN_TYPE_NONE && is_read(self, work, slot))
            problem = bind(self, slot, &work->tensors[slot], memories ? memories[slot] : NULL,
                           &work->addresses[slot]);
    return problem;
}

/* ---- Arguments ---- */

static void take_tensors(const kiln_args_head *arguments, planted_product *work)
{
    for (uint32_t i = 0; i < arguments->tensor_count && i < KILN_GEMM_SLOTS; i++)
        work->tensors[i] = arguments->tensors[i];
    for (uint32_t slot = KILN_GEMM_A; slot <= KILN_GEMM_B; slot++) {
        const kiln_quantization *quantization =
            slot == KILN_GEMM_A ? &work->desc->a_quantization : &work->desc->b_quantization;
        const kiln_tensor *tensor = &work->tensors[slot];
        if (quantization->scale_type && tensor->scale)
            work->tensors[PLANTED_SCALE + slot] = *tensor->scale;
        if (quantization->zero_type && tensor->zero_point)
            work->tensors[PLANTED_ZERO_POINT + slot] = *tensor->zero_point;
    }
}

static void take_sizes(planted_product *work)
{
    const kiln_gemm_desc *desc = work->desc;
    const kiln_tensor *a = &work->tensors[KILN_GEMM_A], *d = &work->tensors[KILN_GEMM_D];
    bool pairs = planted_find(desc, KILN_EPILOGUE_SWIGLU) < desc->epilogue_count;
    work->entries = d->rank == 3 ? d->shape[0] : 1;
    work->m = d->shape[d->rank - 2];
    work->columns = d->shape[d->rank - 1];
    work->n = work->columns * (pairs ? 2 : 1);
    work->k = a->shape[desc->head.flags & KILN_GEMM_TRANSPOSE_A ? a->rank - 2 : a->rank - 1];
    work->end = work->entries * work->m;
    work->end_column = work->columns;
}

static bool take(const planted_plan *self, const kiln_args_head *arguments, planted_product *work)
{
    const kiln_host *host = self->instance->host;
    const unsigned char *bytes = (const unsigned char *)arguments;
    if (arguments->struct_size < sizeof work->args) {
        host->set_error(KILN_INVALID, "planted: the arguments have %u bytes",
                        (unsigned)arguments->struct_size);
        return false;
    }
    for (size_t i = sizeof work->args; i < arguments->struct_size; i++)
        if (bytes[i] && !planted(OBEYS_LONG_ARGUMENTS)) {
            host->set_error(KILN_UNSUPPORTED,
                            "planted: the arguments say more than this plugin knows");
            return false;
        }
    memset(work, 0, sizeof *work);
    work->desc = &self->desc;
    work->threads = host->thread_count(host);
    memcpy(&work->args, arguments, sizeof work->args);
    work->args.alpha = kiln_gemm_factor(&self->desc, work->args.alpha);
    work->args.beta = kiln_gemm_factor(&self->desc, work->args.beta);
    take_tensors(arguments, work);
    take_sizes(work);
    return true;
}

/* What has been clamped is told. */
static kiln_status capacity_of(const planted_plan *self, const planted_product *work)
{
    return planted_groups_exceed(work)
               ? self->instance->host->set_error(
                     KILN_CAPACITY, "planted: GROUPS says more than the plan was made for")
               : KILN_OK;
}

/* ---- On the host ---- */

typedef struct planted_team {
    const planted_plan *plan;
    const planted_product *whole;
    char *workspace;
    int64_t parts;
    bool called_in_shares; /* by the caller, one call for each */
    _Atomic bool first_has_begun;
    _Atomic int64_t begun; /* parts */
} planted_team;

/* Sums over rows want all rows of a column: then columns are shared out, else rows. */
static void take_share(planted_product *work, int64_t part, int64_t parts)
{
    const kiln_gemm_desc *desc = work->desc;
    if (planted_find(desc, KILN_EPILOGUE_BIAS_GRADIENT) == desc->epilogue_count) {
        int64_t rows = work->end;
        work->begin = rows * part / parts;
        work->end = rows * (part + 1) / parts;
        return;
    }
    int64_t block = planted_quantized_block(work), unit = block > 0 ? block : 1,
            units = (work->columns + unit - 1) / unit, end = units * (part + 1) / parts * unit;
    work->first_column = units * part / parts * unit;
    work->end_column = end < work->columns ? end : work->columns;
}

static void compute_share(const planted_team *team, int64_t part, int64_t slot)
{
    planted_product work = *team->whole;
    take_share(&work, part, team->parts);
    work.share = team->called_in_shares ? part : 0;
    char *slots = team->plan->scratch ? team->plan->scratch : team->workspace;
    work.sums = slots ? (double *)(void *)(slots + slot * team->plan->slot_bytes) : NULL;
    work.room = slots ? team->plan->desc.n : team->plan->piece;
    if (planted(LOSES_SHARE) && team->parts > 8 && part == team->parts - 1)
        return;
    planted_compute(&work);
}

static void compute_part(void *argument, int64_t part)
{
    planted_team *all = argument;
    if (planted(TASKS_WAIT)) { /* for the first part, as if that were always taken first */
        atomic_store(&all->first_has_begun, part == 0 || atomic_load(&all->first_has_begun));
        for (int waits = 0; waits < 300 && !atomic_load(&all->first_has_begun); waits++)
            usleep(1000);
        if (!atomic_load(&all->first_has_begun))
            return;
    }
    if (planted(TASKS_MEET)) { /* as if each had a thread of its own */
        atomic_fetch_add(&all->begun, 1);
        for (int waits = 0; waits < 1000 && atomic_load(&all->begun) < all->parts; waits++)
            usleep(1000);
        if (atomic_load(&all->begun) < all->parts)
            return;
    }
    compute_share(all, part, part);
}

/* A thread that computes for all runs, where one is planted: it is not there in a child process. */
typedef struct planted_helper {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    const planted_team *wanted;
} planted_helper;

static planted_helper the_helper = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, NULL};

static void *helper_main(void *argument)
{
    planted_helper *self = argument;
    pthread_mutex_lock(&self->mutex);
    for (;;) {
        while (!self->wanted)
            pthread_cond_wait(&self->changed, &self->mutex);
        compute_share(self->wanted, 0, 0);
        self->wanted = NULL;
        pthread_cond_broadcast(&self->changed);
    }
    return NULL;
}

static void start_helper(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, helper_main, &the_helper) == 0)
        pthread_detach(thread);
}

static void let_help(const planted_team *team)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, start_helper);
    pthread_mutex_lock(&the_helper.mutex);
    while (the_helper.wanted)
        pthread_cond_wait(&the_helper.changed, &the_helper.mutex);
    the_helper.wanted = team;
    pthread_cond_broadcast(&the_helper.changed);
    while (the_helper.wanted == team)
        pthread_cond_wait(&the_helper.changed, &the_helper.mutex);
    pthread_mutex_unlock(&the_helper.mutex);
}

/* Another instance of this plugin; the same when there is none. */
static planted_instance *other_than(const planted_instance *self, planted_instance *fallback)
{
    for (int i = 0; i < PLANTED_INSTANCES; i++)
        if (planted_instances[i] && planted_instances[i] != self)
            return planted_instances[i];
    return fallback;
}

static void run_in_team(planted_plan *self, planted_team *team)
{
    const kiln_host *host = self->instance->host;
    if (planted(NEEDS_HELPER)) {
        team->parts = 1;
        let_help(team);
        return;
    }
    planted_instance *other = other_than(self->instance, NULL);
    bool both = planted(LOCKS_ANOTHER) && other;
    if (both) { /* in the order in which the other does not */
        pthread_mutex_lock(&self->instance->mutex);
        usleep(100);
        pthread_mutex_lock(&other->mutex);
    }
    host->parallel_for(host, team->parts, compute_part, team);
    if (both) {
        pthread_mutex_unlock(&other->mutex);
        pthread_mutex_unlock(&self->instance->mutex);
    }
}

static kiln_status run_on_host(planted_plan *self, const kiln_run_context *context,
                               planted_product *work)
{
    const kiln_host *host = self->instance->host;
    if (planted(WRONG_ON_HOST))
        work->args.beta = 0;
    const char *problem = bind_all(self, work, NULL);
    if (problem)
        return host->set_error(KILN_INVALID, "planted: %s", problem);
    if (planted(BLOCKS_SIGNAL)) {
        sigset_t blocked;
        sigemptyset(&blocked);
        sigaddset(&blocked, SIGUSR2);
        pthread_sigmask(SIG_BLOCK, &blocked, NULL);
    }
    int64_t slots = self->slot_bytes > 0 ? context->workspace_bytes / self->slot_bytes : 1;
    planted_team team = {.plan = self, .whole = work, .workspace = context->workspace};
    if (context->parts > 0) {
        team.parts = context->parts;
        team.called_in_shares = true;
        compute_share(&team, context->part, 0);
        return capacity_of(self, work);
    }
    int64_t parts = host->thread_count(host);
    if (planted(WORKSPACE_TOO_SMALL) && slots < parts)
        slots++;
    team.parts = parts < slots ? parts : slots > 0 ? slots : 1;
    if (work->m < self->instance->rows_per_part)
        team.parts = 1;
    run_in_team(self, &team);
    return capacity_of(self, work);
}

/* ---- On the device ---- */

typedef struct planted_queued {
    planted_plan *plan;
    planted_product work;
    void *memories[PLANTED_TENSORS];
} planted_queued;

static planted_queued last_queued;

static kiln_status run_queued(void *argument, kiln_status status)
{
    planted_queued *queued = argument, *self = planted(MIXES_RUNS_UP) ? &last_queued : queued;
    if (status == KILN_OK || planted(RUNS_BEHIND_FAULT)) {
        const char *problem = bind_all(self->plan, &self->work, self->memories);
        if (problem) {
            status = self->plan->instance->host->set_error(KILN_FAULT, "planted: %s", problem);
        } else {
            planted_compute(&self->work);
            status = capacity_of(self->plan, &self->work);
        }
    }
    free(queued);
    return status;
}

static kiln_status run_on_device(planted_plan *self, const kiln_run_context *context,
                                 const planted_product *work)
{
    const kiln_host *host = self->instance->host;
    planted_queued *made = calloc(1, sizeof *made);
    if (!made)
        return host->set_error(KILN_NO_MEMORY, "planted: no memory for a run");
    made->plan = self;
    made->work = *work;
    made->work.room = self->piece;
    for (uint32_t i = 0; i < PLANTED_TENSORS; i++)
        if (work->tensors[i].buffer)
            made->memories[i] = host->buffer_native(work->tensors[i].buffer);
    if (planted(MIXES_RUNS_UP))
        last_queued = *made;
    return planted_enqueue(self->device, host->stream_native(context->stream), run_queued, made);
}

kiln_status planted_run(void *object, const kiln_run_context *context,
                        const kiln_args_head *arguments)
{
    planted_plan *self = object;
    planted_product work;
    if (!take(self, arguments, &work))
        return arguments->struct_size < sizeof work.args ? KILN_INVALID : KILN_UNSUPPORTED;
    if (!self->device)
        return run_on_host(self, context, &work);
    if (!context->stream)
        return self->instance->host->set_error(KILN_INVALID, "planted: a run needs a stream");
    return run_on_device(self, context, &work);
}
