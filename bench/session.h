/* SPDX-License-Identifier: Apache-2.0 */
/* A run of `kiln bench`: what stays from case to case, and the measurement of one case. */
#ifndef KILN_BENCH_SESSION_H
#define KILN_BENCH_SESSION_H

#include "bench/ceiling.h"
#include "bench/kiln_gemm.h"
#include "bench/peer_set.h"
#include "bench/result.h"

typedef struct bench_session bench_session;

/* Set the first members; the rest begins zeroed. */
struct bench_session {
    kiln_runtime *runtime;
    bench_method method;
    int64_t attempts; /* how often a case is measured anew while it comes out void, at least 1 */
    bench_report *report;
    void (*row)(const bench_result *result); /* called with each result; NULL = not */

    /* Called once, before the first case that is compared with peers: adds them. NULL = there are
     * none, or they are there already. */
    void (*start_peers)(bench_session *session, void *context);
    void *peers_context;

    bench_team *team;
    /* By the kind asked for; loop NULL = not chosen yet. */
    bench_ceiling ceilings[BENCH_CEILING_KINDS];
    bench_peer_set *peers[BENCH_MAXIMUM_PEERS];
    int64_t peer_count;
};

/* Starts the threads of the ceiling loops: as many as the runtime uses. */
bool bench_session_start(bench_session *session, bench_message *message);

/* Adds a peer; `core` and `path` as for bench_peer_set_start. False with the reason when it cannot
 * be had. */
bool bench_session_add_peer(bench_session *session, const bench_peer *peer, const char *core,
                            const char *path, bench_message *message);
void bench_session_end(bench_session *session);

/* The ceiling of the arithmetic that a GEMM of these types lives on, made when it is first asked
 * for. */
bench_ceiling *bench_session_ceiling(bench_session *session, const kiln_gemm_desc *desc);

/* How a measurement ended. Failures are in the report already. */
typedef enum bench_end {
    BENCH_END_MEASURED = 0,
    BENCH_END_FAILED = 1,
    BENCH_END_INTERRUPTED = 2
} bench_end;

/* Measures a GEMM on one backend and adds the result to the report. */
bench_end bench_session_gemm(bench_session *session, const bench_gemm *gemm,
                             const bench_target *target, const char *shape, const char *dtype);

/* Measures what the frame costs, on the backend that serves f32 GEMM on the host. The runtime
 * should have two threads. */
bench_end bench_session_overhead(bench_session *session, const bench_target *target);

/* Why a measurement does not hold, from its checks; "" when it does. NaN: that check was not made.
 */
void bench_judge(double ceiling_pct, double self_ratio, char *reason, size_t size);

#endif
