/* SPDX-License-Identifier: Apache-2.0 */
/* Measuring one GEMM: ceilings, Kiln, Kiln again, the ceiling in Kiln's place, peers. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/session.h"

enum { FEWEST_ROUNDS = 3, MODEL_ROUNDS = 3, MAXIMUM_CONTENDERS = 5 + BENCH_MAXIMUM_PEERS };

/* One case under way. Indices of contenders are -1 when they do not take part. */
typedef struct measurement {
    bench_session *session;
    const bench_gemm *gemm;
    bench_kiln kiln;
    bench_ceiling *ceiling;
    bench_memory memory;
    bench_client *clients[BENCH_MAXIMUM_PEERS]; /* prepared; in the order of the contenders from
                                                   `first_client` on */
    int64_t client_count;
    bench_contender contenders[MAXIMUM_CONTENDERS];
    int64_t count, arithmetic, bandwidth, in_place, kiln_index, again, first_client;
    double *samples; /* of all contenders */
    int64_t rounds;  /* that were whole */
    bench_message message;
} measurement;

static int64_t add(measurement *self, const char *name,
                   int64_t (*run)(void *context, int64_t calls), void *context, double operations)
{
    bench_contender *contender = &self->contenders[self->count];
    *contender =
        (bench_contender){.name = name, .run = run, .context = context, .operations = operations};
    contender->samples = self->samples + self->count * self->session->method.rounds;
    return self->count++;
}

/* Nanoseconds that a contender needs for the case, roughly: decides which ceiling binds. */
static double rough_time(const bench_contender *contender)
{
    int64_t calls = 1, elapsed = contender->run(contender->context, 1);
    while ((elapsed = contender->run(contender->context, calls)) < 2000000)
        calls *= 2;
    return (double)elapsed / ((double)calls * contender->operations);
}

/* Both ceilings take part; the one that allows less stands in Kiln's place too. */
static void add_ceilings(measurement *self)
{
    self->ceiling = bench_session_ceiling(self->session, &self->gemm->desc);
    bench_kiln_spans(&self->kiln, self->session->team, &self->memory);
    double share = self->ceiling->operations / bench_gemm_operations(self->gemm);
    self->arithmetic = add(self, "ceiling of arithmetic", bench_ceiling_run, self->ceiling, share);
    self->bandwidth = add(self, "ceiling of memory", bench_memory_run, &self->memory, 1);
    bool memory_binds = rough_time(&self->contenders[self->bandwidth]) >
                        rough_time(&self->contenders[self->arithmetic]);
    bench_contender binding = self->contenders[memory_binds ? self->bandwidth : self->arithmetic];
    self->in_place =
        add(self, "ceiling in Kiln's place", binding.run, binding.context, binding.operations);
}

static void add_peers(measurement *self)
{
    bench_session *session = self->session;
    void (*start)(bench_session * session, void *context) = session->start_peers;
    session->start_peers = NULL;
    if (start)
        start(session, session->peers_context);
    self->first_client = self->count;
    for (int64_t i = 0; i < session->peer_count; i++) {
        bench_message message = {""};
        bench_client *client = bench_peer_set_choose(session->peers[i], self->gemm, &message);
        if (!client) {
            snprintf(self->message.text, sizeof self->message.text, "%.400s", message.text);
            continue;
        }
        self->clients[self->client_count++] = client;
        add(self, client->peer->name, bench_client_run, client, 1);
    }
}

static bool set_contenders(measurement *self)
{
    self->samples =
        malloc((size_t)self->session->method.rounds * MAXIMUM_CONTENDERS * sizeof *self->samples);
    if (!self->samples)
        return bench_say(&self->message, "memory is exhausted");
    self->arithmetic = self->bandwidth = self->in_place = -1;
    if (!self->kiln.stream)
        add_ceilings(self);
    self->kiln_index = add(self, "kiln", bench_kiln_run, &self->kiln, 1);
    self->again = add(self, "kiln again", bench_kiln_run, &self->kiln, 1);
    add_peers(self);
    return true;
}

static double median_of(const measurement *self, int64_t contender)
{
    return bench_median(self->contenders[contender].samples, self->rounds);
}

/* The ceiling that binds by the whole measurement, -1 when there is none. */
static int64_t binding(const measurement *self)
{
    if (self->arithmetic < 0)
        return -1;
    return median_of(self, self->bandwidth) > median_of(self, self->arithmetic) ? self->bandwidth
                                                                                : self->arithmetic;
}

/* "memory 3145728+1048576" names the bytes read and written. */
static void ceiling_name(const measurement *self, int64_t contender, char *name, size_t size)
{
    const bench_memory *memory = &self->memory;
    int64_t reads = memory->reads[0].bytes + memory->reads[1].bytes + memory->reads[2].bytes;
    if (contender == self->arithmetic)
        snprintf(name, size, "%s", bench_ceiling_name(self->ceiling->kind));
    else
        snprintf(name, size, "memory %lld+%lld", (long long)reads, (long long)memory->write.bytes);
}

/* Turns the samples of a ceiling into rates and adds them to the report. */
static void report_ceiling(const measurement *self, int64_t contender)
{
    const bench_contender *ceiling = &self->contenders[contender];
    bool bytes = contender == self->bandwidth;
    double amount = bytes ? 0 : bench_gemm_operations(self->gemm);
    for (int i = 0; bytes && i < BENCH_MEMORY_SPANS; i++)
        amount += (double)self->memory.reads[i].bytes;
    amount += bytes ? (double)self->memory.write.bytes : 0;
    double *rates = malloc((size_t)self->rounds * sizeof *rates);
    if (!rates)
        return;
    for (int64_t i = 0; i < self->rounds; i++)
        rates[i] = amount / ceiling->samples[i];
    char name[64];
    ceiling_name(self, contender, name, sizeof name);
    bench_report_ceiling(self->session->report, name,
                         bytes ? bench_memory_kernel() : self->ceiling->loop->name, bytes,
                         bench_team_threads(self->session->team), rates, self->rounds);
    free(rates);
}

static void judge(const measurement *self, bench_result *result)
{
    result->check_self = median_of(self, self->again) / median_of(self, self->kiln_index);
    if (self->in_place >= 0) {
        bool memory = self->contenders[self->in_place].context == &self->memory;
        double ceiling = median_of(self, memory ? self->bandwidth : self->arithmetic);
        result->check_ceiling = 100 * ceiling / median_of(self, self->in_place);
    }
    bench_judge(result->check_ceiling, result->check_self, result->void_reason,
                sizeof result->void_reason);
}

static void add_peer_results(const measurement *self, bench_result *result)
{
    const double *kiln = self->contenders[self->kiln_index].samples;
    for (int64_t i = 0; i < self->client_count; i++) {
        const bench_contender *contender = &self->contenders[self->first_client + i];
        const bench_identity *identity = &self->clients[i]->identity;
        bench_peer_result *peer = &result->peers[result->peer_count++];
        memset(peer, 0, sizeof *peer);
        snprintf(peer->name, sizeof peer->name, "%s", contender->name);
        memcpy(peer->version, identity->version, sizeof peer->version);
        memcpy(peer->kernel, identity->kernel, sizeof peer->kernel);
        peer->samples = bench_samples_copy(contender->samples, self->rounds);
        peer->median_ns = bench_median(contender->samples, self->rounds);
        peer->ratio = bench_ratio_estimate(contender->samples, kiln, self->rounds,
                                           self->session->method.seed);
    }
}

/* What is known before anything is measured. */
static void describe(const measurement *self, bench_result *result)
{
    const kiln_plan_info *info = &self->kiln.info;
    snprintf(result->operator_name, sizeof result->operator_name, "%s", KILN_GEMM);
    snprintf(result->backend, sizeof result->backend, "%s", info->backend);
    snprintf(result->device, sizeof result->device, "%s", info->device);
    snprintf(result->kernel, sizeof result->kernel, "%s", info->kernel ? info->kernel : "");
    result->threads = kiln_thread_count(self->session->runtime);
    result->gflops = result->ceiling_pct = result->limit_ns = NAN;
    result->check_ceiling = result->check_self = NAN;
    result->model = self->kiln.model;
    result->attempts = 1;
}

static void conclude(const measurement *self, bench_result *result)
{
    const double *kiln = self->contenders[self->kiln_index].samples;
    result->samples = bench_samples_copy(kiln, self->rounds);
    result->median = bench_median_estimate(kiln, self->rounds);
    result->gflops = bench_gemm_operations(self->gemm) / result->median.value;
    int64_t ceiling = binding(self);
    if (ceiling >= 0) {
        result->ceiling_pct = 100 * median_of(self, ceiling) / result->median.value;
        ceiling_name(self, ceiling, result->ceiling, sizeof result->ceiling);
        report_ceiling(self, self->arithmetic);
        report_ceiling(self, self->bandwidth);
    }
    add_peer_results(self, result);
    snprintf(result->note, sizeof result->note, "%.250s", self->message.text);
}

static bench_end failed(measurement *self, const char *shape, const char *backend)
{
    bench_report_fail(self->session->report, shape, backend ? backend : "", &self->message);
    return BENCH_END_FAILED;
}

/* Why a contender could not go on. */
static void explain(measurement *self, int64_t contender)
{
    if (contender == self->kiln_index || contender == self->again)
        self->message = self->kiln.message;
    else if (contender >= self->first_client && contender - self->first_client < self->client_count)
        self->message = self->clients[contender - self->first_client]->message;
    else
        bench_say(&self->message, "memory is exhausted");
}

/* Measures until a measurement holds or the attempts are used up: only the checks decide, never the
 * result. */
static bench_end measure(measurement *self, bench_result *result)
{
    bench_session *session = self->session;
    for (result->attempts = 1;; result->attempts++) {
        int64_t failure;
        bench_outcome outcome =
            bench_measure(&session->method, self->contenders, self->count, &self->rounds, &failure);
        if (outcome == BENCH_FAILED) {
            explain(self, failure);
            return BENCH_END_FAILED;
        }
        if (outcome == BENCH_STOPPED && self->rounds < FEWEST_ROUNDS)
            return BENCH_END_INTERRUPTED;
        judge(self, result);
        if (outcome == BENCH_STOPPED || !result->void_reason[0] ||
            result->attempts >= session->attempts) {
            conclude(self, result);
            return outcome == BENCH_STOPPED ? BENCH_END_INTERRUPTED : BENCH_END_MEASURED;
        }
    }
}

/* A model: its clock is a formula, so that a few rounds show that it always says the same. */
static bench_end count_cycles(measurement *self, bench_result *result)
{
    const bench_method *method = &self->session->method;
    double cycles[MODEL_ROUNDS];
    int64_t rounds = 0;
    while (rounds < MODEL_ROUNDS && !(method->stop && method->stop(method->context))) {
        cycles[rounds] = bench_kiln_cycles(&self->kiln, 1);
        if (cycles[rounds++] < 0) {
            self->message = self->kiln.message;
            return BENCH_END_FAILED;
        }
    }
    if (rounds == 0)
        return BENCH_END_INTERRUPTED;
    result->samples = bench_samples_copy(cycles, rounds);
    result->median = bench_median_estimate(cycles, rounds);
    snprintf(result->note, sizeof result->note, "%s is a model: cycles by its timeline, no times",
             result->device);
    return BENCH_END_MEASURED;
}

/* With Kiln's side open: measures, and adds the result when there is one. */
static bench_end measure_open(measurement *self, bench_result *result)
{
    bench_session *session = self->session;
    describe(self, result);
    bench_end end = BENCH_END_FAILED;
    if (self->kiln.model)
        end = count_cycles(self, result);
    else if (set_contenders(self))
        end = measure(self, result);
    if (result->samples.count > 0 && bench_report_add(session->report, result) && session->row)
        session->row(result);
    for (int64_t i = 0; i < self->client_count; i++)
        bench_client_release(self->clients[i]);
    free(self->samples);
    return end;
}

bench_end bench_session_gemm(bench_session *session, const bench_gemm *gemm,
                             const bench_target *target, const char *shape, const char *dtype)
{
    bench_result result;
    bench_operands operands;
    measurement self;
    memset(&result, 0, sizeof result);
    memset(&self, 0, sizeof self);
    self.session = session;
    self.gemm = gemm;
    snprintf(result.shape, sizeof result.shape, "%s", shape);
    snprintf(result.dtype, sizeof result.dtype, "%s", dtype);
    if (!bench_operands_make(gemm, &operands, &self.message))
        return failed(&self, shape, target->backend);
    bench_end end = BENCH_END_FAILED;
    if (bench_kiln_open(&self.kiln, target, gemm, &operands)) {
        end = measure_open(&self, &result);
        bench_kiln_close(&self.kiln);
    } else {
        self.message = self.kiln.message;
    }
    bench_operands_free(&operands);
    return end == BENCH_END_FAILED ? failed(&self, shape, target->backend) : end;
}
