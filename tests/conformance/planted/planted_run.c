/* SPDX-License-Identifier: Apache-2.0 */
/* Runs of kiln.gemm/1, on the host and on the device, and what can be wrong with them. */
#include "planted.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static bool is_read(const planted_plan *self, const kiln_gemm_args *args, uint32_t slot)
{
    if (slot == KILN_GEMM_A || slot == KILN_GEMM_B)
        return args->alpha != 0 || planted(READS_A);
    if (slot == KILN_GEMM_C)
        return args->beta != 0 || planted(READS_C);
    return slot == KILN_GEMM_D || (slot - KILN_GEMM_OPERAND < self->desc.epilogue_count &&
                                   self->desc.epilogues[slot - KILN_GEMM_OPERAND].operand);
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
    tensor->strides[last - 1] = tensor->shape[last];
    if (tensor->rank == 3) /* one entry serves any batch */
        tensor->strides[0] = tensor->shape[0] == 1 ? 0 : tensor->shape[1] * tensor->shape[2];
    return NULL;
}

static const char *bind_all(const planted_plan *self, planted_product *work, void *const *memories)
{
    const char *problem = NULL;
    for (uint32_t slot = 0; !problem && slot < KILN_GEMM_SLOTS; slot++)
        if (work->tensors[slot].type != KILN_TYPE_NONE && is_read(self, &work->args, slot))
            problem = bind(self, slot, &work->tensors[slot], memories ? memories[slot] : NULL,
                           &work->addresses[slot]);
    return problem;
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
    for (uint32_t i = 0; i < arguments->tensor_count && i < KILN_GEMM_SLOTS; i++)
        work->tensors[i] = arguments->tensors[i];
    return true;
}

static int64_t rows_of(const planted_product *work)
{
    const kiln_tensor *d = &work->tensors[KILN_GEMM_D];
    return d->shape[d->rank - 2] * (d->rank == 3 ? d->shape[0] : 1);
}

/* ---- On the host ---- */

typedef struct planted_team {
    const planted_plan *plan;
    const planted_product *whole;
    char *workspace;
    int64_t parts;
    bool called_in_shares; /* by the caller, one call for each */
    _Atomic bool first_has_begun;
} planted_team;

static void compute_share(const planted_team *team, int64_t part, int64_t slot)
{
    planted_product work = *team->whole;
    int64_t rows = rows_of(&work);
    work.begin = rows * part / team->parts;
    work.end = rows * (part + 1) / team->parts;
    work.share = team->called_in_shares ? part : 0;
    work.room = team->plan->desc.n > 0 ? team->plan->desc.n : 1;
    char *slots = team->plan->scratch ? team->plan->scratch : team->workspace;
    work.sums = (double *)(void *)(slots + slot * team->plan->slot_bytes);
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
        return KILN_OK;
    }
    int64_t parts = host->thread_count(host);
    if (planted(WORKSPACE_TOO_SMALL) && slots < parts)
        slots++;
    team.parts = parts < slots ? parts : slots > 0 ? slots : 1;
    if (work->tensors[KILN_GEMM_D].shape[work->tensors[KILN_GEMM_D].rank - 2] <
        self->instance->rows_per_part)
        team.parts = 1;
    run_in_team(self, &team);
    return KILN_OK;
}

/* ---- On the device ---- */

typedef struct planted_queued {
    planted_plan *plan;
    planted_product work;
    void *memories[KILN_GEMM_SLOTS];
} planted_queued;

static kiln_status run_queued(void *argument, kiln_status status)
{
    planted_queued *self = argument;
    if (status == KILN_OK || planted(RUNS_BEHIND_FAULT)) {
        const char *problem = bind_all(self->plan, &self->work, self->memories);
        self->work.end = rows_of(&self->work);
        if (problem)
            status = self->plan->instance->host->set_error(KILN_FAULT, "planted: %s", problem);
        else
            planted_compute(&self->work);
    }
    free(self);
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
    for (uint32_t i = 0; i < KILN_GEMM_SLOTS; i++)
        if (work->tensors[i].buffer)
            made->memories[i] = host->buffer_native(work->tensors[i].buffer);
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
