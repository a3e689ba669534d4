/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots of what a plugin must leave alone. */
#include "conformance/plugin/state.h"

#include <dirent.h>
#include <fcntl.h>
#include <fenv.h>
#include <locale.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "conformance/hash.h"
#include "conformance/sanitizers.h"

extern char **environ;

/* ---- The control bits of floating-point arithmetic ---- */

#if defined(__x86_64__)
static uint64_t arithmetic_get(void)
{
    uint16_t x87;
    __asm__ volatile("fnstcw %0" : "=m"(x87));
    return (__builtin_ia32_stmxcsr() & 0xffc0u) | (uint64_t)x87 << 32;
}

static void arithmetic_set(uint64_t value)
{
    __builtin_ia32_ldmxcsr((unsigned)(value & 0xffc0u));
}

static uint64_t arithmetic_flushing(uint64_t value)
{
    return value | 0x8040u; /* flush to zero, denormals are zero */
}
#elif defined(__aarch64__)
static uint64_t arithmetic_get(void)
{
    uint64_t value;
    __asm__ volatile("mrs %0, fpcr" : "=r"(value));
    return value;
}

static void arithmetic_set(uint64_t value)
{
    __asm__ volatile("msr fpcr, %0" : : "r"(value));
}

static uint64_t arithmetic_flushing(uint64_t value)
{
    return value | (UINT64_C(1) << 24);
}
#else
/* Elsewhere only the rounding mode is seen. */
static uint64_t arithmetic_get(void)
{
    return 0;
}

static void arithmetic_set(uint64_t value)
{
    (void)value;
}

static uint64_t arithmetic_flushing(uint64_t value)
{
    return value;
}
#endif

void conformance_oddness_begin(conformance_oddness *former)
{
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR2);
    pthread_sigmask(SIG_SETMASK, &blocked, &former->mask);
    former->rounding = fegetround();
    former->arithmetic = arithmetic_get();
    fesetround(FE_UPWARD);
    arithmetic_set(arithmetic_flushing(arithmetic_get()));
}

void conformance_oddness_end(const conformance_oddness *former)
{
    arithmetic_set(former->arithmetic);
    fesetround(former->rounding);
    pthread_sigmask(SIG_SETMASK, &former->mask, NULL);
}

/* ---- Parts of a snapshot ---- */

static uint64_t hash_text(uint64_t hash, const char *text)
{
    return text ? conformance_hash(hash, text, strlen(text) + 1) : hash;
}

static int64_t count_entries(const char *folder)
{
    int64_t count = 0;
    DIR *directory = opendir(folder);
    if (!directory)
        return 0;
    for (struct dirent *entry; (entry = readdir(directory));)
        count += entry->d_name[0] != '.';
    closedir(directory);
    return count;
}

static void take_mappings(conformance_state *state)
{
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps && fgets(line, sizeof line, maps)) {
        unsigned long begin, end;
        if (sscanf(line, "%lx-%lx", &begin, &end) == 2) {
            state->mappings++;
            state->mapped_bytes += (int64_t)(end - begin);
        }
    }
    if (maps)
        fclose(maps);
}

static void take_descriptors(conformance_state *state)
{
    for (int i = 0; i < CONFORMANCE_DESCRIPTORS; i++)
        state->descriptors[i] = fcntl(i, F_GETFD) >= 0;
}

static void take_settings(conformance_state *state)
{
    static const int resources[] = {RLIMIT_AS,     RLIMIT_CORE,  RLIMIT_CPU,
                                    RLIMIT_DATA,   RLIMIT_FSIZE, RLIMIT_MEMLOCK,
                                    RLIMIT_NOFILE, RLIMIT_NPROC, RLIMIT_STACK};
    static const int timers[] = {ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF};
    for (char **entry = environ; entry && *entry; entry++)
        state->environment = hash_text(state->environment, *entry);
    state->locale = hash_text(0, setlocale(LC_ALL, NULL));
    for (size_t i = 0; i < sizeof resources / sizeof resources[0]; i++) {
        struct rlimit limit;
        if (getrlimit((unsigned)resources[i], &limit) == 0) {
            state->limits = conformance_hash(state->limits, &limit.rlim_cur, sizeof limit.rlim_cur);
            state->limits = conformance_hash(state->limits, &limit.rlim_max, sizeof limit.rlim_max);
        }
    }
    for (size_t i = 0; i < sizeof timers / sizeof timers[0]; i++) {
        struct itimerval timer;
        if (getitimer((unsigned)timers[i], &timer) == 0)
            state->timers = state->timers * 2 + (timer.it_value.tv_sec || timer.it_value.tv_usec);
    }
    if (!getcwd(state->folder, sizeof state->folder))
        state->folder[0] = '\0';
    state->file_mask = (unsigned)umask(0);
    umask((mode_t)state->file_mask);
}

static int64_t heap_bytes(void)
{
#if defined(__GLIBC__) && !CONFORMANCE_SANITIZED
#if __GLIBC_PREREQ(2, 33)
    struct mallinfo2 info = mallinfo2();
#else
    struct mallinfo info = mallinfo();
#endif
    return (int64_t)info.uordblks + (int64_t)info.hblkhd;
#else
    return 0;
#endif
}

static void do_nothing(void)
{
}

/* How many handlers of exit there are, modulo 32. The C library has no way to ask, but glibc keeps
 * them in blocks of 32 of which all but the first are allocated: a child registers some until the
 * heap grows. */
static int64_t count_exit_handlers(void)
{
#if defined(__GLIBC__) && !CONFORMANCE_SANITIZED
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        int64_t before = heap_bytes();
        int added = 0;
        while (added < 33 && heap_bytes() == before && atexit(do_nothing) == 0)
            added++;
        _exit(added);
    }
    if (child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
        WEXITSTATUS(status) <= 33)
        return (33 - WEXITSTATUS(status)) % 32;
    return -1;
#else
    (void)do_nothing;
    return -1;
#endif
}

void conformance_state_take(conformance_state *state, bool exit_handlers)
{
    memset(state, 0, sizeof *state);
    state->rounding = fegetround();
    state->arithmetic = arithmetic_get();
    pthread_sigmask(SIG_SETMASK, NULL, &state->mask);
    state->own_locale = (void *)uselocale((locale_t)0);
    sigaltstack(NULL, &state->signal_stack);
    sched_getaffinity(0, sizeof state->affinity, &state->affinity);
    state->heap_bytes = heap_bytes();
    state->threads = conformance_thread_count();
    take_mappings(state);
    take_descriptors(state);
    for (int number = 1; number < CONFORMANCE_SIGNALS; number++)
        sigaction(number, NULL, &state->handlers[number]);
    take_settings(state);
    state->exit_handlers = exit_handlers ? count_exit_handlers() : -1;
}

/* ---- Comparing ---- */

static bool same_mask(const sigset_t *a, const sigset_t *b)
{
    for (int number = 1; number < CONFORMANCE_SIGNALS; number++)
        if (sigismember(a, number) != sigismember(b, number))
            return false;
    return true;
}

static const char *thread_difference(const conformance_state *a, const conformance_state *b)
{
    if (!same_mask(&a->mask, &b->mask))
        return "the thread's signal mask";
    if (a->rounding != b->rounding)
        return "the rounding mode";
    if (a->arithmetic != b->arithmetic)
        return "how denormals, rounding or traps of arithmetic are handled (FTZ, DAZ, …)";
    if (a->own_locale != b->own_locale)
        return "the thread's locale";
    if (a->signal_stack.ss_sp != b->signal_stack.ss_sp)
        return "the thread's signal stack";
    if (!CPU_EQUAL(&a->affinity, &b->affinity))
        return "the processors that the thread may use";
    return NULL;
}

static const char *process_difference(const conformance_state *a, const conformance_state *b)
{
    return a->environment != b->environment    ? "the environment"
           : a->locale != b->locale            ? "the locale"
           : strcmp(a->folder, b->folder) != 0 ? "the current folder"
           : a->limits != b->limits            ? "resource limits"
           : a->timers != b->timers            ? "interval timers"
           : a->file_mask != b->file_mask      ? "the file mode mask"
                                               : NULL;
}

static bool same_handler(const struct sigaction *a, const struct sigaction *b)
{
    return a->sa_handler == b->sa_handler && a->sa_flags == b->sa_flags;
}

const char *conformance_state_difference(const conformance_state *before,
                                         const conformance_state *after, unsigned parts,
                                         char text[256])
{
    const char *found = parts & CONFORMANCE_STATE_THREAD ? thread_difference(before, after) : NULL;
    if (!found && (parts & CONFORMANCE_STATE_PROCESS))
        found = process_difference(before, after);
    text[0] = '\0';
    if (found)
        snprintf(text, 256, "%s", found);
    else if ((parts & CONFORMANCE_STATE_THREADS) && after->threads > before->threads)
        snprintf(text, 256, "the number of threads, from %lld to %lld", (long long)before->threads,
                 (long long)after->threads);
    for (int i = 0;
         !text[0] && (parts & CONFORMANCE_STATE_DESCRIPTORS) && i < CONFORMANCE_DESCRIPTORS; i++)
        if (before->descriptors[i] != after->descriptors[i])
            snprintf(text, 256, "file descriptor %d, which is %s now", i,
                     after->descriptors[i] ? "open" : "closed");
    for (int i = 1; !text[0] && (parts & CONFORMANCE_STATE_HANDLERS) && i < CONFORMANCE_SIGNALS;
         i++)
        if (!same_handler(&before->handlers[i], &after->handlers[i]))
            snprintf(text, 256, "the handler of signal %d (%s)", i, strsignal(i));
    if (!text[0] && (parts & CONFORMANCE_STATE_EXIT) && before->exit_handlers >= 0 &&
        after->exit_handlers >= 0 && before->exit_handlers != after->exit_handlers)
        snprintf(text, 256, "the handlers of exit");
    return text[0] ? text : NULL;
}

int64_t conformance_thread_count(void)
{
    return count_entries("/proc/self/task");
}

int64_t conformance_threads_settled(int64_t threads)
{
    int64_t count = 0;
    for (int i = 0; i < 200; i++) {
        count = conformance_thread_count();
        if (count <= threads)
            break;
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
    return count;
}
