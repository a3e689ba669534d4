/* SPDX-License-Identifier: Apache-2.0 */
/* One line on a terminal that says what a slow command is doing. */
#define _GNU_SOURCE /* pthread_condattr_setclock */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tools/kiln/command.h"

enum { DELAY_NS = 2000000000, PERIOD_NS = 250000000 };

/* A thread repeats the line, so that it appears in the middle of a long step too. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    bool running;
    bool stop;
    bool shown;
    int64_t begin_ns;
    const char *command;
    char text[160];
} progress = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void show_line(void)
{
    int64_t elapsed = tool_now_ns() - progress.begin_ns;
    if (elapsed < DELAY_NS || !progress.text[0])
        return;
    fprintf(stderr, "\r\033[K%s: %s (%lld s)", progress.command, progress.text,
            (long long)(elapsed / 1000000000));
    fflush(stderr);
    progress.shown = true;
}

static void *repeat_line(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&progress.lock);
    while (!progress.stop) {
        show_line();
        int64_t wake = tool_now_ns() + PERIOD_NS;
        struct timespec until = {.tv_sec = wake / 1000000000, .tv_nsec = wake % 1000000000};
        pthread_cond_timedwait(&progress.changed, &progress.lock, &until);
    }
    if (progress.shown)
        fputs("\r\033[K", stderr);
    pthread_mutex_unlock(&progress.lock);
    return NULL;
}

void tool_progress_begin(const tool_common *common)
{
    if (progress.running || !isatty(STDERR_FILENO))
        return;
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&progress.changed, &attributes);
    pthread_condattr_destroy(&attributes);
    progress.stop = progress.shown = false;
    progress.begin_ns = tool_now_ns();
    progress.command = common->command;
    progress.text[0] = '\0';
    progress.running = pthread_create(&progress.thread, NULL, repeat_line, NULL) == 0;
}

void tool_progress(const char *format, ...)
{
    if (!progress.running)
        return;
    va_list arguments;
    va_start(arguments, format);
    pthread_mutex_lock(&progress.lock);
    vsnprintf(progress.text, sizeof progress.text, format, arguments);
    pthread_mutex_unlock(&progress.lock);
    va_end(arguments);
}

void tool_progress_end(void)
{
    if (!progress.running)
        return;
    pthread_mutex_lock(&progress.lock);
    progress.stop = true;
    pthread_cond_signal(&progress.changed);
    pthread_mutex_unlock(&progress.lock);
    pthread_join(progress.thread, NULL);
    pthread_cond_destroy(&progress.changed);
    progress.running = false;
}
