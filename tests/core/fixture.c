/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/core/fixture.h"

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Absurd sizes must come back as NULL, as they do without the sanitizers, whose runtime looks for
 * these names. */
KILN_API const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

KILN_API const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "allocator_may_return_null=1";
}

/* ---- Runtimes ---- */

static pthread_mutex_t log_mutex = PTHREAD_MUTEX_INITIALIZER;
static char log_text[16384];

static void capture(void *context, int level, const char *message)
{
    (void)context, (void)level;
    pthread_mutex_lock(&log_mutex);
    size_t used = strlen(log_text);
    snprintf(log_text + used, sizeof log_text - used, "%s\n", message);
    pthread_mutex_unlock(&log_mutex);
}

const char *fixture_log(void)
{
    return log_text;
}

void fixture_clear_log(void)
{
    pthread_mutex_lock(&log_mutex);
    log_text[0] = '\0';
    pthread_mutex_unlock(&log_mutex);
}

kiln_status fixture_try_open(const char *profile, uint64_t flags, kiln_runtime **runtime)
{
    char text[4096];
    snprintf(text, sizeof text, "schema: 1\n%s", profile ? profile : "");
    kiln_runtime_options options = {
        .struct_size = sizeof options, .flags = flags, .profile_text = text, .log = capture};
    return kiln_runtime_open(&options, runtime);
}

kiln_runtime *fixture_open(const char *profile)
{
    kiln_runtime *runtime = NULL;
    kiln_status status = fixture_try_open(profile, KILN_RUNTIME_ISOLATED, &runtime);
    if (status != KILN_OK)
        fail_msg("the runtime does not open: %s", kiln_last_error());
    return runtime;
}

/* ---- Expectations ---- */

void fixture_assert_fails(kiln_status got, kiln_status wanted, const char *words, const char *call,
                          const char *file, int line)
{
    if (got != wanted) {
        print_error("%s: %s instead of %s (%s)\n", call, kiln_status_name(got),
                    kiln_status_name(wanted), got == KILN_OK ? "no failure" : kiln_last_error());
        _fail(file, line);
    }
    fixture_assert_says(kiln_last_error(), words, file, line);
}

void fixture_assert_ok(kiln_status got, const char *call, const char *file, int line)
{
    if (got == KILN_OK)
        return;
    print_error("%s: %s: %s\n", call, kiln_status_name(got), kiln_last_error());
    _fail(file, line);
}

void fixture_assert_says(const char *text, const char *words, const char *file, int line)
{
    if (text && strstr(text, words))
        return;
    print_error("'%s' does not have '%s' in it\n", text ? text : "(null)", words);
    _fail(file, line);
}

/* ---- Random numbers: xorshift64* ---- */

int64_t fixture_random(int64_t low, int64_t high)
{
    static uint64_t state;
    if (!state) {
        const char *seed = getenv("KILN_TEST_SEED");
        state =
            seed ? strtoull(seed, NULL, 0) : (uint64_t)time(NULL) * 1000003 + (uint64_t)getpid();
        state |= state == 0;
        print_message("seed: KILN_TEST_SEED=%llu\n", (unsigned long long)state);
    }
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return low + (int64_t)(state * 0x2545f4914f6cdd1dull % ((uint64_t)high - (uint64_t)low + 1));
}

/* ---- Files ---- */

enum { MAX_FOLDERS = 32 };
static char folders[MAX_FOLDERS][256];
static int folder_count;
static pid_t folder_owner;

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *place)
{
    (void)status, (void)kind, (void)place;
    return remove(path);
}

static void remove_folders(void)
{
    for (int i = 0; i < folder_count && getpid() == folder_owner; i++)
        nftw(folders[i], remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

const char *fixture_folder(void)
{
    const char *parent = getenv("TMPDIR");
    assert_true(folder_count < MAX_FOLDERS);
    char *folder = folders[folder_count];
    snprintf(folder, sizeof folders[0], "%s/kiln-test.XXXXXX", parent ? parent : "/tmp");
    if (!mkdtemp(folder))
        fail_msg("cannot make %s: %s", folder, strerror(errno));
    if (folder_count++ == 0) {
        folder_owner = getpid();
        atexit(remove_folders);
    }
    return folder;
}

const char *fixture_plugin_folder(void)
{
    static char folder[4096];
    const char *build = getenv("KILN_TEST_BUILDDIR");
    if (getenv("KILN_TEST_STATIC"))
        skip();
    snprintf(folder, sizeof folder, "%s/tests/core/plugins/.libs", build ? build : ".");
    if (access(folder, R_OK) != 0)
        fail_msg("%s: %s; KILN_TEST_BUILDDIR names the build folder", folder, strerror(errno));
    return folder;
}

/* ---- Processes and threads ---- */

void fixture_needs_fork(void)
{
    if (FIXTURE_TSAN)
        skip();
}

/* How many threads of this process are neither asleep nor the one that asks. */
static int64_t threads_awake(void)
{
    int64_t awake = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (const struct dirent *task; tasks && (task = readdir(tasks));) {
        char path[64], text[256];
        snprintf(path, sizeof path, "/proc/self/task/%.20s/stat", task->d_name);
        bool other = task->d_name[0] != '.' && atoi(task->d_name) != gettid();
        FILE *file = other ? fopen(path, "r") : NULL;
        if (!file)
            continue;
        const char *name_end = fgets(text, sizeof text, file) ? strrchr(text, ')') : NULL;
        awake += name_end && name_end[1] && name_end[2] != 'S';
        fclose(file);
    }
    if (tasks)
        closedir(tasks);
    return awake;
}

/* AddressSanitizer does not survive a fork while a thread is just beginning. A thread that has
 * begun sleeps soon, unless it waits for this one and spins. */
static void let_threads_begin(void)
{
    for (int looks = 0; looks < 2000 && threads_awake() > 0; looks++)
        fixture_sleep_us(1000);
}

int fixture_in_child(int (*function)(void *argument), void *argument)
{
    fflush(NULL);
    if (FIXTURE_ASAN)
        let_threads_begin();
    pid_t child = fork();
    if (child == 0) {
        alarm(240); /* a child that hangs must not hang the test */
        _exit(function(argument));
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 200 + WTERMSIG(status);
}

typedef struct thread_call {
    pthread_t thread;
    void (*function)(void *argument, int64_t index);
    void *argument;
    int64_t index;
    pthread_barrier_t *barrier;
} thread_call;

static void *thread_main(void *argument)
{
    thread_call *call = argument;
    pthread_barrier_wait(call->barrier);
    call->function(call->argument, call->index);
    return NULL;
}

void fixture_threads(int64_t count, void (*function)(void *argument, int64_t index), void *argument)
{
    pthread_barrier_t barrier;
    thread_call *calls = calloc((size_t)count, sizeof *calls);
    assert_non_null(calls);
    pthread_barrier_init(&barrier, NULL, (unsigned)count);
    for (int64_t i = 0; i < count; i++) {
        calls[i] = (thread_call){
            .function = function, .argument = argument, .index = i, .barrier = &barrier};
        assert_int_equal(pthread_create(&calls[i].thread, NULL, thread_main, &calls[i]), 0);
    }
    for (int64_t i = 0; i < count; i++)
        pthread_join(calls[i].thread, NULL);
    pthread_barrier_destroy(&barrier);
    free(calls);
}

void fixture_sleep_us(int64_t microseconds)
{
    struct timespec time = {.tv_sec = microseconds / 1000000,
                            .tv_nsec = microseconds % 1000000 * 1000};
    nanosleep(&time, NULL);
}
