/* SPDX-License-Identifier: Apache-2.0 */
/* The process of a peer: loads it, makes the same operands as the parent, checks results, times
 * slices. */
#include "bench/peer.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#if defined(__linux__)
#include <sys/prctl.h>
#endif

enum { CHECKED_PLACES = 64 };

typedef struct server {
    const bench_peer *peer;
    const char *path;
    int64_t threads;
    bench_gemm gemm;
    bench_operands operands;
    void *state;
    bool prepared;
} server;

static void release(server *self)
{
    if (!self->prepared)
        return;
    self->peer->release(self->state);
    bench_operands_free(&self->operands);
    self->prepared = false;
}

/* Prepares, computes once and checks `places` places (0 = all). */
static bool prepare(server *self, const bench_gemm *gemm, int64_t places, bench_message *message)
{
    release(self);
    if (!self->peer->accepts(gemm, message) || !bench_operands_make(gemm, &self->operands, message))
        return false;
    self->gemm = *gemm;
    if (!self->peer->prepare(&self->gemm, &self->operands, &self->state, message)) {
        bench_operands_free(&self->operands);
        return false;
    }
    self->prepared = true;
    self->peer->run(self->state);
    if (bench_gemm_check(gemm, &self->operands, places, message))
        return true;
    release(self);
    return false;
}

/* Old builds have computed wrong results on newer CPUs: every element of shapes that take different
 * paths must be right. */
static bool prove(server *self, bench_message *message)
{
    static const struct {
        int64_t m, n, k;
        uint32_t flags;
        double beta;
    } shapes[] = {
        {64, 64, 64, 0, 0},
        {37, 53, 129, KILN_GEMM_TRANSPOSE_B, 0},
        {130, 66, 7, KILN_GEMM_TRANSPOSE_A, 0.5},
        {1, 64, 300, 0, 0},
        {65, 1, 200, KILN_GEMM_TRANSPOSE_B, 0},
        {200, 210, 220, KILN_GEMM_TRANSPOSE_A | KILN_GEMM_TRANSPOSE_B, 0},
    };
    static const uint32_t types[] = {KILN_F32, KILN_F64};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (size_t t = 0; t < 2; t++) {
            bench_gemm gemm = {.alpha = 1.25, .beta = shapes[i].beta, .seed = 1 + i};
            gemm.desc = (kiln_gemm_desc){.head = {sizeof gemm.desc, shapes[i].flags},
                                         .m = shapes[i].m,
                                         .n = shapes[i].n,
                                         .k = shapes[i].k,
                                         .batch = 1,
                                         .a_type = types[t],
                                         .b_type = types[t],
                                         .d_type = types[t]};
            if (gemm.beta != 0)
                gemm.desc.c_type = types[t];
            bench_message ignored;
            if (self->peer->accepts(&gemm, &ignored) && !prepare(self, &gemm, 0, message))
                return false;
        }
    release(self);
    return true;
}

static bool hello(server *self, bench_reply *reply)
{
    return self->peer->open(self->path, self->threads, &reply->identity, &reply->message) &&
           prove(self, &reply->message);
}

static bool run(server *self, int64_t calls, bench_reply *reply)
{
    if (!self->prepared)
        return bench_say(&reply->message, "%s has nothing prepared", self->peer->name);
    int64_t begin = bench_now(NULL);
    for (int64_t call = 0; call < calls; call++)
        self->peer->run(self->state);
    int64_t elapsed = bench_now(NULL) - begin;
    reply->elapsed_ns = elapsed > 0 ? elapsed : 1;
    return true;
}

static bool answer(server *self, const bench_request *request, bench_reply *reply)
{
    switch (request->kind) {
    case BENCH_PEER_HELLO:
        return hello(self, reply);
    case BENCH_PEER_PREPARE:
        return prepare(self, &request->gemm, CHECKED_PLACES, &reply->message);
    case BENCH_PEER_RUN:
        return run(self, request->calls, reply);
    case BENCH_PEER_RELEASE:
        release(self);
        return true;
    default:
        return bench_say(&reply->message, "unknown request %lld", (long long)request->kind);
    }
}

/* The parent alone decides when this process ends: an interrupt from the terminal is the parent's
 * to handle, and a parent that is gone must not leave a stopped process behind. Crashes end it as
 * the system does, so that the parent sees the signal. */
static void set_signals(void)
{
    static const int defaults[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    for (size_t i = 0; i < sizeof defaults / sizeof *defaults; i++)
        signal(defaults[i], SIG_DFL);
#if defined(__linux__)
    prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
}

static bool receive(void *memory, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t got = recv(BENCH_PEER_SOCKET, (char *)memory + done, size - done, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        done += (size_t)got;
    }
    return true;
}

int bench_peer_serve(const char *name, const char *path, int64_t threads)
{
    server self = {.peer = bench_peer_find(name), .path = path, .threads = threads};
    if (!self.peer) {
        fprintf(stderr, "kiln bench: there is no peer '%s'\n", name);
        return 2;
    }
    set_signals();
    bench_request request;
    while (receive(&request, sizeof request)) {
        bench_reply reply;
        memset(&reply, 0, sizeof reply);
        if (!answer(&self, &request, &reply))
            reply.elapsed_ns = -1;
        if (send(BENCH_PEER_SOCKET, &reply, sizeof reply, MSG_NOSIGNAL) != (ssize_t)sizeof reply)
            break;
    }
    release(&self);
    return 0;
}
