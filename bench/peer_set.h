/* SPDX-License-Identifier: Apache-2.0 */
/* A peer at its best: one process per candidate kernel, the fastest right one chosen for each case.
 */
#ifndef KILN_BENCH_PEER_SET_H
#define KILN_BENCH_PEER_SET_H

#include "bench/peer.h"

enum { BENCH_MAXIMUM_CLIENTS = 12 };

typedef struct bench_peer_set {
    const bench_peer *peer;
    bench_client clients[BENCH_MAXIMUM_CLIENTS];
    int64_t count;
    bench_message
        message; /* what is to be known: why it is missing, which candidates were dropped */
} bench_peer_set;

/* Starts the peer once as the library itself chooses and once per core that it names, or only with
 * `core` when that is given. Drops candidates that give wrong results or crash, those that turn out
 * to be the same kernels, and those far slower than the best. False with set->message when none is
 * left; nothing runs then. */
bool bench_peer_set_start(bench_peer_set *set, const bench_peer *peer, const char *core,
                          const char *path, int64_t threads);
void bench_peer_set_stop(bench_peer_set *set);

/* The fastest candidate for a GEMM, prepared; NULL with the reason when none can compute it. */
bench_client *bench_peer_set_choose(bench_peer_set *set, const bench_gemm *gemm,
                                    bench_message *message);

#endif
