/* SPDX-License-Identifier: Apache-2.0 */
/* What stays from case to case. */
#include "bench/session.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool bench_session_start(bench_session *session, bench_message *message)
{
    int64_t threads = kiln_thread_count(session->runtime);
    session->team = bench_team_create(threads);
    return session->team ||
           bench_say(message, "%lld threads for the ceiling loops cannot be started",
                     (long long)threads);
}

/* "openblas 0.3.21, kernels tried: SkylakeX, Haswell". */
static void note_peer(bench_session *session, const bench_peer_set *set)
{
    char text[sizeof set->message.text];
    int used = snprintf(text, sizeof text, "%s %s, kernels tried on the cases:", set->peer->name,
                        set->clients[0].identity.version);
    for (int64_t i = 0; i < set->count && used < (int)sizeof text; i++)
        used += snprintf(text + used, sizeof text - (size_t)used, "%s %s", i ? "," : "",
                         set->clients[i].identity.kernel);
    bench_report_note(session->report, text);
    if (set->message.text[0])
        bench_report_note(session->report, set->message.text);
}

bool bench_session_add_peer(bench_session *session, const bench_peer *peer, const char *core,
                            const char *path, bench_message *message)
{
    if (session->peer_count == BENCH_MAXIMUM_PEERS)
        return bench_say(message, "at most %d peers", BENCH_MAXIMUM_PEERS);
    bench_peer_set *set = malloc(sizeof *set);
    if (!set)
        return bench_say(message, "memory is exhausted");
    if (!bench_peer_set_start(set, peer, core, path, kiln_thread_count(session->runtime))) {
        bench_say(message, "no peer %s: %.300s (%s)", peer->name, set->message.text, peer->remedy);
        free(set);
        return false;
    }
    note_peer(session, set);
    session->peers[session->peer_count++] = set;
    return true;
}

void bench_session_end(bench_session *session)
{
    for (int64_t i = 0; i < session->peer_count; i++) {
        bench_peer_set_stop(session->peers[i]);
        free(session->peers[i]);
    }
    session->peer_count = 0;
    bench_team_destroy(session->team);
    session->team = NULL;
}

static bool is_integer(uint32_t type)
{
    return type == KILN_I8 || type == KILN_U8 || type == KILN_I4 || type == KILN_U4;
}

/* Whether every value of the type is one of bf16 as well. */
static bool fits_bf16(uint32_t type)
{
    return is_integer(type) || type == KILN_BF16 || type == KILN_E4M3 || type == KILN_E5M2 ||
           type == KILN_E2M1;
}

static bench_ceiling_kind ceiling_kind(const kiln_gemm_desc *desc)
{
    if (desc->a_type == KILN_F64)
        return BENCH_CEILING_F64;
    if (is_integer(desc->a_type) && is_integer(desc->b_type))
        return BENCH_CEILING_INT8;
    return fits_bf16(desc->a_type) && fits_bf16(desc->b_type) ? BENCH_CEILING_BF16
                                                              : BENCH_CEILING_F32;
}

bench_ceiling *bench_session_ceiling(bench_session *session, const kiln_gemm_desc *desc)
{
    bench_ceiling_kind kind = ceiling_kind(desc);
    bench_ceiling *ceiling = &session->ceilings[kind];
    if (!ceiling->loop)
        bench_ceiling_init(ceiling, kind, session->team, session->method.seed);
    return ceiling;
}

void bench_judge(double ceiling_pct, double self_ratio, char *reason, size_t size)
{
    reason[0] = 0;
    if (fabs(ceiling_pct - 100) > 1)
        snprintf(reason, size, "the ceiling loop in Kiln's place reads %.2f %%, not 100 ± 1",
                 ceiling_pct);
    else if (fabs(self_ratio - 1) > 0.01)
        snprintf(reason, size, "Kiln against itself reads %.3f, not 1.00 ± 0.01", self_ratio);
    if (reason[0])
        strncat(reason, ": the machine is not quiet", size - strlen(reason) - 1);
}
