/* SPDX-License-Identifier: Apache-2.0 */
/* Runtimes with one plugin, guarded memory, and threads for the checks of plugins. */
#include "conformance/plugin/session.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "conformance/plugin/profile.h"

enum { DEFAULT_THREADS = 2 };

/* ---- Sessions ---- */

/* A plugin that never opens fails checks of the level abi, and there is no more to say. One that
 * opens there but not here, with other threads, is wrong. */
static void blame(const conformance_subject *subject, const conformance_session_options *options,
                  const char *reason, conformance_report *report)
{
    conformance_report loading = {.verdict = CONFORMANCE_CHECK_PASSED};
    conformance_plugin plugin;
    conformance_instance instance;
    char other[640] = "";
    if (!conformance_load(&plugin, subject, &loading) ||
        conformance_try_open(&instance, &plugin, NULL, other, sizeof other) != KILN_OK) {
        conformance_skip(report, "the plugin is not open (%.640s): see the checks of the level abi",
                         reason);
        return;
    }
    conformance_close(&instance);
    if (options->parallel_for)
        conformance_fail(report,
                         "the plugin opens with threads of Kiln's, but not with a team of %lld of "
                         "the caller's: %.640s",
                         (long long)options->parallel_threads, reason);
    else
        conformance_fail(report, "the plugin opens, but not with threads.count %lld: %.640s",
                         (long long)(options->threads > 0 ? options->threads : DEFAULT_THREADS),
                         reason);
}

static bool open_watched(const conformance_subject *subject, conformance_report *report,
                         conformance_session *session)
{
    conformance_report loading = {.verdict = CONFORMANCE_CHECK_PASSED};
    char reason[640] = "";
    if (!conformance_load(&session->loaded, subject, &loading)) {
        conformance_skip(report, "%.900s: see the checks of the level abi", loading.text);
        return false;
    }
    session->loaded.report = report;
    if (conformance_try_open(&session->opened, &session->loaded, NULL, reason, sizeof reason) !=
        KILN_OK) {
        conformance_skip(report, "%s: see the checks of the level abi", reason);
        return false;
    }
    session->runtime = session->opened.runtime;
    session->instance = session->opened.instance;
    return true;
}

static bool open_plain(const conformance_subject *subject,
                       const conformance_session_options *options, conformance_report *report,
                       conformance_session *session)
{
    char *profile = conformance_profile(
        subject, subject->options, options->threads > 0 ? options->threads : DEFAULT_THREADS, true);
    if (!profile) {
        conformance_fail(report, "no memory for a profile");
        return false;
    }
    kiln_runtime_options wanted = {.struct_size = sizeof wanted,
                                   .flags = KILN_RUNTIME_ISOLATED,
                                   .profile_text = profile,
                                   .parallel_for = options->parallel_for,
                                   .parallel_context = options->parallel_context,
                                   .parallel_threads = options->parallel_threads};
    kiln_status status = kiln_runtime_open(&wanted, &session->runtime);
    free(profile);
    char reason[640];
    if (status == KILN_OK &&
        conformance_plugin_state(session->runtime, subject->name, reason, sizeof reason) == KILN_OK)
        return true;
    if (status == KILN_OK)
        conformance_session_close(session);
    else
        snprintf(reason, sizeof reason, "no runtime can be opened: %s", kiln_last_error());
    blame(subject, options, reason, report);
    return false;
}

bool conformance_session_open(const conformance_subject *subject,
                              const conformance_session_options *options,
                              conformance_report *report, conformance_session *session)
{
    static const conformance_session_options plain;
    if (!options)
        options = &plain;
    memset(session, 0, sizeof *session);
    session->name = subject->name;
    if (options->watched ? !open_watched(subject, report, session)
                         : !open_plain(subject, options, report, session))
        return false;
    char name[48];
    snprintf(name, sizeof name, "%s:0", subject->name);
    session->host = kiln_device_find(session->runtime, name, &session->device) != KILN_OK;
    if (session->host)
        session->device = kiln_device_at(session->runtime, 0);
    return true;
}

void conformance_session_close(conformance_session *session)
{
    if (session->opened.runtime)
        conformance_close(&session->opened);
    else
        kiln_runtime_close(session->runtime);
    session->runtime = NULL;
}

bool conformance_session_offers(const conformance_session *session, const char *interface)
{
    size_t length = strlen(interface);
    for (int64_t i = 0; i < kiln_plugin_count(session->runtime); i++) {
        kiln_plugin_info info = {.struct_size = sizeof info};
        if (kiln_plugin_at(session->runtime, i, &info) != KILN_OK ||
            strcmp(info.name, session->name) != 0 || strcmp(info.state, "open") != 0)
            continue;
        for (const char *at = info.operators; (at = strstr(at, interface)); at += length)
            if ((at == info.operators || at[-1] == ' ') &&
                (at[length] == '\0' || at[length] == ','))
                return true;
    }
    return false;
}

/* ---- Guarded memory ---- */

bool conformance_guard(int64_t bytes, int64_t alignment, bool at_start, conformance_guarded *memory)
{
    int64_t page = sysconf(_SC_PAGESIZE), body = (bytes + page - 1) / page * page;
    memset(memory, 0, sizeof *memory);
    if (body == 0)
        body = page;
    uint8_t *mapping = mmap(NULL, (size_t)(body + 2 * page), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED)
        return false;
    mprotect(mapping, (size_t)page, PROT_NONE);
    mprotect(mapping + page + body, (size_t)page, PROT_NONE);
    memset(mapping + page, 0xff, (size_t)body);
    memory->mapping = mapping;
    memory->mapped = body + 2 * page;
    memory->bytes = bytes;
    memory->data =
        at_start ? mapping + page : mapping + page + (body - bytes) / alignment * alignment;
    return true;
}

void conformance_guard_protect(const conformance_guarded *memory, bool readable)
{
    int64_t page = sysconf(_SC_PAGESIZE);
    mprotect((uint8_t *)memory->mapping + page, (size_t)(memory->mapped - 2 * page),
             readable ? PROT_READ : PROT_NONE);
}

void conformance_guard_release(conformance_guarded *memory)
{
    if (memory->mapping)
        munmap(memory->mapping, (size_t)memory->mapped);
    memset(memory, 0, sizeof *memory);
}

/* ---- Threads ---- */

/* They start together so that what can clash does. */
typedef struct team {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    enum { TEAM_WAITS, TEAM_GOES, TEAM_GIVES_UP } state;
    void (*function)(void *argument, int64_t index);
    void *argument;
} team;

typedef struct member {
    team *team;
    int64_t index;
    pthread_t thread;
} member;

static void *member_main(void *argument)
{
    member *self = argument;
    team *all = self->team;
    pthread_mutex_lock(&all->mutex);
    while (all->state == TEAM_WAITS)
        pthread_cond_wait(&all->changed, &all->mutex);
    bool goes = all->state == TEAM_GOES;
    pthread_mutex_unlock(&all->mutex);
    if (goes)
        all->function(all->argument, self->index);
    return NULL;
}

bool conformance_threads(int64_t count, void (*function)(void *argument, int64_t index),
                         void *argument)
{
    team all = {.mutex = PTHREAD_MUTEX_INITIALIZER,
                .changed = PTHREAD_COND_INITIALIZER,
                .state = TEAM_WAITS,
                .function = function,
                .argument = argument};
    member members[CONFORMANCE_MAX_THREADS];
    int64_t made = 0;
    while (made < count && made < CONFORMANCE_MAX_THREADS) {
        members[made] = (member){.team = &all, .index = made};
        if (pthread_create(&members[made].thread, NULL, member_main, &members[made]) != 0)
            break;
        made++;
    }
    pthread_mutex_lock(&all.mutex);
    all.state = made == count ? TEAM_GOES : TEAM_GIVES_UP;
    pthread_cond_broadcast(&all.changed);
    pthread_mutex_unlock(&all.mutex);
    for (int64_t i = 0; i < made; i++)
        pthread_join(members[i].thread, NULL);
    return made == count;
}
