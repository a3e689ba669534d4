/* SPDX-License-Identifier: Apache-2.0 */
/* Other libraries, to compare with. One file implements one peer as a bench_peer and adds a line to
 * the table in peer.c.
 *
 * A peer works in a process of its own, one per candidate kernel: `kiln bench` starts itself again
 * with the environment that the candidate needs. So a peer's environment is read when its library
 * is loaded and not before; the copy of the same library inside a Kiln plugin neither sees it nor
 * shares threads or settings; a kernel that crashes on this CPU ends its process only; and while it
 * is not a peer's turn its process is stopped, spinning threads included. The peer times its own
 * slices, so that no message between processes is counted. */
#ifndef KILN_BENCH_PEER_H
#define KILN_BENCH_PEER_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/gemm.h"

/* Who answered. */
typedef struct bench_identity {
    char version[64];
    char kernel[64]; /* the library's word for the kernels that it chose */
} bench_identity;

/* Static description of a peer. The functions are called in the peer's own process, on one thread.
 */
typedef struct bench_peer {
    const char *name;
    const char *remedy;        /* where to get it, for the message when it is missing */
    const char *core_variable; /* environment variable that forces kernels; NULL = none */
    const char *const
        *cores; /* its values to try, besides leaving it unset; NULL-terminated; may be NULL */
    const char *const
        *clear; /* environment variables to unset: they would hamper the peer; NULL-terminated */
    const char *const *set; /* "NAME=value" to set; NULL-terminated */

    /* Loads the library, `path` or by its usual names when NULL, and prepares for `threads`
     * threads. */
    bool (*open)(const char *path, int64_t threads, bench_identity *identity,
                 bench_message *message);

    /* Whether it can compute this; false with the reason. Called before prepare. */
    bool (*accepts)(const bench_gemm *gemm, bench_message *message);

    /* Makes what a run needs. `operands` lives until release. Where gemm says that B is packed, the
     * peer may prepare B too. */
    bool (*prepare)(const bench_gemm *gemm, const bench_operands *operands, void **state,
                    bench_message *message);
    void (*run)(void *state); /* computes D once */
    void (*release)(void *state);
} bench_peer;

/* The peer of a name, NULL when there is none; and the peers by number, NULL at the end. */
const bench_peer *bench_peer_find(const char *name);
const bench_peer *bench_peer_at(int64_t index);

/* ---- The peer's process ---- */

/* The option by which `kiln bench` starts itself as a peer: --peer-server NAME [--peer-path FILE]
 * --threads N. */
#define BENCH_PEER_SERVER_OPTION "peer-server"

/* Serves requests on file descriptor 3 until it is closed. Returns an exit code. Ends with the
 * parent process. */
int bench_peer_serve(const char *name, const char *path, int64_t threads);

/* ---- The parent's side ---- */

typedef struct bench_client {
    const bench_peer *peer;
    char core[32]; /* as forced; "" = left to the library */
    bench_identity identity;
    int64_t process;
    int socket;
    bool broken;           /* died or answered nonsense: not to be asked any more */
    bench_message message; /* why the last call failed */
} bench_client;

/* Starts the peer with `core` forced ("" = none), loads it and checks a few results. NULL `program`
 * = this program. False with client->message. */
bool bench_client_start(bench_client *client, const bench_peer *peer, const char *core,
                        const char *path, int64_t threads);
void bench_client_stop(bench_client *client);

/* Prepares a GEMM and checks its result; one at a time. */
bool bench_client_prepare(bench_client *client, const bench_gemm *gemm);
void bench_client_release(bench_client *client);

/* For bench_contender: `context` is a bench_client with a GEMM prepared. */
int64_t bench_client_run(void *context, int64_t calls);

/* ---- Messages between the two: a request is answered by one reply ---- */

enum { BENCH_PEER_HELLO = 1, BENCH_PEER_PREPARE = 2, BENCH_PEER_RUN = 3, BENCH_PEER_RELEASE = 4 };
enum { BENCH_PEER_SOCKET = 3 };

typedef struct bench_request {
    int64_t kind;
    int64_t calls;
    bench_gemm gemm;
} bench_request;

typedef struct bench_reply {
    int64_t elapsed_ns; /* negative: failed, see message */
    bench_identity identity;
    bench_message message;
} bench_reply;

#endif
