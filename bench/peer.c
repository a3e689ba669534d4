/* SPDX-License-Identifier: Apache-2.0 */
/* The table of peers, and the parent's side of talking to one. */
#include "bench/peer.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
extern const bench_peer bench_peer_openblas;

static const bench_peer *const peers[] = {&bench_peer_openblas, NULL};

const bench_peer *bench_peer_at(int64_t index)
{
    return peers[index];
}

const bench_peer *bench_peer_find(const char *name)
{
    for (int i = 0; peers[i]; i++)
        if (strcmp(peers[i]->name, name) == 0)
            return peers[i];
    return NULL;
}

/* Whether `entry`, "NAME=value", is of a variable in the list; entries of the list may have values
 * themselves. */
static bool listed(const char *entry, const char *const *list)
{
    size_t length = strcspn(entry, "=");
    for (; list && *list; list++)
        if (strncmp(entry, *list, length) == 0 && ((*list)[length] == '=' || (*list)[length] == 0))
            return true;
    return false;
}

static int64_t length_of(char *const *list)
{
    int64_t length = 0;
    while (list[length])
        length++;
    return length;
}

/* This process's environment without what hampers the peer, with what it needs. `core` is
 * "NAME=value" or "". The array is the caller's, its strings are not. NULL when memory is
 * exhausted. */
static char **peer_environment(const bench_peer *peer, char *core)
{
    int64_t own = length_of(environ), added = peer->set ? length_of((char *const *)peer->set) : 0;
    char **list = malloc((size_t)(own + added + 2) * sizeof *list);
    if (!list)
        return NULL;
    const char *forced[] = {peer->core_variable, NULL};
    int64_t count = 0;
    for (int64_t i = 0; i < own; i++)
        if (!listed(environ[i], peer->clear) && !listed(environ[i], peer->set) &&
            !listed(environ[i], forced))
            list[count++] = environ[i];
    for (int64_t i = 0; i < added; i++)
        list[count++] = (char *)(uintptr_t)peer->set[i];
    if (core[0])
        list[count++] = core;
    list[count] = NULL;
    return list;
}

/* Starts the process with `socket` as its descriptor 3 and nothing to print on. Returns an errno.
 */
static int spawn(bench_client *client, const char *path, int64_t threads, int socket,
                 char **environment)
{
    char count[24];
    snprintf(count, sizeof count, "%lld", (long long)threads);
    const char *arguments[] = {
        "kiln",      "bench", "--" BENCH_PEER_SERVER_OPTION, client->peer->name,
        "--threads", count,   path ? "--peer-path" : NULL,   path,
        NULL};
    posix_spawn_file_actions_t actions;
    int error = posix_spawn_file_actions_init(&actions);
    if (error)
        return error;
    pid_t process = -1;
    error = posix_spawn_file_actions_adddup2(&actions, socket, BENCH_PEER_SOCKET);
    if (!error)
        error = posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    if (!error)
        error = posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
    if (!error)
        error = posix_spawn(&process, "/proc/self/exe", &actions, NULL,
                            (char *const *)(uintptr_t)arguments, environment);
    posix_spawn_file_actions_destroy(&actions);
    client->process = process;
    return error;
}

/* Sends or receives all of `size` bytes. */
static bool transfer(int socket, void *memory, size_t size, bool sending)
{
    char *bytes = memory;
    while (size > 0) {
        ssize_t moved =
            sending ? send(socket, bytes, size, MSG_NOSIGNAL) : recv(socket, bytes, size, 0);
        if (moved < 0 && errno == EINTR)
            continue;
        if (moved <= 0)
            return false;
        bytes += moved;
        size -= (size_t)moved;
    }
    return true;
}

/* Says how the process ended, and forgets it. */
static void bury(bench_client *client)
{
    int status = 0;
    kill((pid_t)client->process, SIGKILL);
    while (waitpid((pid_t)client->process, &status, 0) < 0 && errno == EINTR)
        ;
    client->process = 0;
    client->broken = true;
    if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL)
        bench_say(&client->message, "%s%s%s was ended by signal %d (%s)", client->peer->name,
                  client->core[0] ? " as " : "", client->core, WTERMSIG(status),
                  strsignal(WTERMSIG(status)));
    else
        bench_say(&client->message, "%s%s%s ended without an answer", client->peer->name,
                  client->core[0] ? " as " : "", client->core);
}

/* One request and its reply; the process runs in between and is stopped outside. */
static bool ask(bench_client *client, const bench_request *request, bench_reply *reply)
{
    if (client->broken)
        return false;
    kill((pid_t)client->process, SIGCONT);
    bench_request sent = *request;
    if (!transfer(client->socket, &sent, sizeof sent, true) ||
        !transfer(client->socket, reply, sizeof *reply, false)) {
        bury(client);
        return false;
    }
    kill((pid_t)client->process, SIGSTOP);
    if (reply->elapsed_ns >= 0)
        return true;
    reply->message.text[sizeof reply->message.text - 1] = 0;
    client->message = reply->message;
    return false;
}

bool bench_client_start(bench_client *client, const bench_peer *peer, const char *core,
                        const char *path, int64_t threads)
{
    memset(client, 0, sizeof *client);
    client->peer = peer;
    client->socket = -1;
    client->broken = true;
    snprintf(client->core, sizeof client->core, "%s", core);
    char variable[128] = "";
    if (core[0])
        snprintf(variable, sizeof variable, "%s=%s", peer->core_variable, core);
    int sockets[2];
    char **environment = peer_environment(peer, variable);
    if (!environment || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) < 0) {
        free(environment);
        return bench_say(&client->message, "a process for %s cannot be prepared: %s", peer->name,
                         strerror(errno));
    }
    int error = spawn(client, path, threads, sockets[1], environment);
    free(environment);
    close(sockets[1]);
    client->socket = sockets[0];
    if (error)
        return bench_say(&client->message, "a process for %s cannot be started: %s", peer->name,
                         strerror(error));
    client->broken = false;
    bench_request request = {.kind = BENCH_PEER_HELLO};
    bench_reply reply;
    if (!ask(client, &request, &reply))
        return false;
    client->identity = reply.identity;
    return true;
}

void bench_client_stop(bench_client *client)
{
    bench_message kept = client->message;
    if (client->process > 0)
        bury(client);
    client->message = kept;
    if (client->socket >= 0)
        close(client->socket);
    client->socket = -1;
}

bool bench_client_prepare(bench_client *client, const bench_gemm *gemm)
{
    bench_request request = {.kind = BENCH_PEER_PREPARE, .gemm = *gemm};
    bench_reply reply;
    return ask(client, &request, &reply);
}

void bench_client_release(bench_client *client)
{
    bench_request request = {.kind = BENCH_PEER_RELEASE};
    bench_reply reply;
    ask(client, &request, &reply);
}

int64_t bench_client_run(void *context, int64_t calls)
{
    bench_request request = {.kind = BENCH_PEER_RUN, .calls = calls};
    bench_reply reply;
    return ask(context, &request, &reply) ? reply.elapsed_ns : -1;
}
