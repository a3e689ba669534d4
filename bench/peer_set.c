/* SPDX-License-Identifier: Apache-2.0 */
/* Starting a peer's candidates and choosing among them. */
#include "bench/peer_set.h"

#include <stdio.h>
#include <string.h>

enum { TRIAL_NS = 5000000, TRIALS = 3 };

/* A candidate slower than this part of the best, in all types, is not tried on cases. */
static const double keep_from = 0.6;

static void note(bench_peer_set *set, const bench_client *client)
{
    size_t used = strlen(set->message.text);
    snprintf(set->message.text + used, sizeof set->message.text - used, "%s%s: %s",
             used ? "; " : "", client->core[0] ? client->core : "as it comes",
             client->message.text);
}

/* The kernels that a core's name led to may be another's: forcing a name that a build does not know
 * changes nothing. */
static bool is_double(const bench_peer_set *set, const bench_client *client)
{
    for (int64_t i = 0; i < set->count; i++)
        if (strcmp(set->clients[i].identity.kernel, client->identity.kernel) == 0)
            return true;
    return false;
}

static void start_one(bench_peer_set *set, const char *core, const char *path, int64_t threads)
{
    if (set->count == BENCH_MAXIMUM_CLIENTS)
        return;
    bench_client *client = &set->clients[set->count];
    bool started = bench_client_start(client, set->peer, core, path, threads);
    if (started && !is_double(set, client)) {
        set->count++;
        return;
    }
    if (!started)
        note(set, client);
    bench_client_stop(client);
}

/* Nanoseconds per run of what is prepared: the best of a few trials, since disturbance only slows.
 * Negative on failure. */
static double trial(bench_client *client, double give_up)
{
    int64_t calls = 1;
    double best = -1;
    for (int i = 0; i < TRIALS;) {
        int64_t elapsed = bench_client_run(client, calls);
        if (elapsed < 0)
            return -1;
        double each = (double)elapsed / (double)calls;
        best = best < 0 || each < best ? each : best;
        if (elapsed < TRIAL_NS)
            calls *= 2;
        else if (give_up > 0 && best > 2 * give_up)
            return best;
        else
            i++;
    }
    return best;
}

/* Time of a 512-cube in one type; negative when it fails. */
static double cube_time(bench_client *client, uint32_t type)
{
    bench_gemm gemm = {.alpha = 1, .seed = 512};
    gemm.desc = (kiln_gemm_desc){.head = {sizeof gemm.desc, 0},
                                 .m = 512,
                                 .n = 512,
                                 .k = 512,
                                 .batch = 1,
                                 .a_type = type,
                                 .b_type = type,
                                 .d_type = type};
    if (!bench_client_prepare(client, &gemm))
        return -1;
    double time = trial(client, 0);
    bench_client_release(client);
    return time;
}

/* Ends the candidates that are far behind in every type. */
static void prune(bench_peer_set *set)
{
    static const uint32_t types[] = {KILN_F32, KILN_F64};
    bool keep[BENCH_MAXIMUM_CLIENTS] = {false};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        double times[BENCH_MAXIMUM_CLIENTS], best = -1;
        for (int64_t i = 0; i < set->count; i++) {
            times[i] = cube_time(&set->clients[i], types[t]);
            if (times[i] > 0 && (best < 0 || times[i] < best))
                best = times[i];
        }
        for (int64_t i = 0; i < set->count; i++)
            keep[i] |= times[i] > 0 && best / times[i] >= keep_from;
    }
    int64_t kept = 0;
    for (int64_t i = 0; i < set->count; i++) {
        if (keep[i])
            set->clients[kept++] = set->clients[i];
        else
            bench_client_stop(&set->clients[i]);
    }
    if (kept == 0 && set->count > 0)
        note(set, &set->clients[0]);
    set->count = kept;
}

bool bench_peer_set_start(bench_peer_set *set, const bench_peer *peer, const char *core,
                          const char *path, int64_t threads)
{
    memset(set, 0, sizeof *set);
    set->peer = peer;
    start_one(set, core ? core : "", path, threads);
    /* A library that cannot be loaded will not load under another name of its kernels either. */
    bool forced = core || !peer->cores || strstr(set->message.text, "cannot open shared object");
    for (int64_t i = 0; !forced && peer->cores[i]; i++)
        start_one(set, peer->cores[i], path, threads);
    if (set->count > 1)
        prune(set);
    return set->count > 0;
}

void bench_peer_set_stop(bench_peer_set *set)
{
    for (int64_t i = 0; i < set->count; i++)
        bench_client_stop(&set->clients[i]);
    set->count = 0;
}

bench_client *bench_peer_set_choose(bench_peer_set *set, const bench_gemm *gemm,
                                    bench_message *message)
{
    bench_client *chosen = NULL;
    double best = -1;
    for (int64_t i = 0; i < set->count; i++) {
        bench_client *client = &set->clients[i];
        if (client->broken || !bench_client_prepare(client, gemm)) {
            *message = client->message;
            continue;
        }
        double time = set->count > 1 ? trial(client, best) : 0;
        if (time >= 0 && (!chosen || time < best)) {
            if (chosen)
                bench_client_release(chosen);
            chosen = client;
            best = time;
        } else {
            bench_client_release(client);
        }
    }
    return chosen;
}
