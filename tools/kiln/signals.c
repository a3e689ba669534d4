/* SPDX-License-Identifier: Apache-2.0 */
/* Signal handlers of the program: stopping on request, and naming the plugin that crashed. */
#define _GNU_SOURCE /* sigaltstack */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "tools/kiln/command.h"

static volatile sig_atomic_t interrupt_signal;

int tool_interrupted(void)
{
    return interrupt_signal;
}

/* Whichever of the two signals comes next ends the program. */
static void on_interrupt(int number)
{
    interrupt_signal = number;
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
}

static void write_text(const char *text)
{
    size_t left = strlen(text);
    while (left > 0) {
        ssize_t written = write(STDERR_FILENO, text, left);
        if (written <= 0)
            return;
        text += written;
        left -= (size_t)written;
    }
}

static const char *signal_text(int number)
{
    switch (number) {
    case SIGSEGV:
        return "SIGSEGV";
    case SIGBUS:
        return "SIGBUS";
    case SIGILL:
        return "SIGILL";
    case SIGFPE:
        return "SIGFPE";
    default:
        return "SIGABRT";
    }
}

/* Only async-signal-safe calls: the process may have crashed inside malloc or stdio. */
static void on_crash(int number)
{
    const char *activity = kiln_activity();
    if (activity[0]) {
        write_text("\nkiln: crashed while ");
        write_text(activity);
        write_text(" (");
        write_text(signal_text(number));
        write_text(
            "): take the plugin out of `plugins:` in the profile or out of KILN_PLUGIN_PATH\n");
    } else {
        write_text("\nkiln: crashed outside of any plugin (");
        write_text(signal_text(number));
        write_text("): a defect in kiln itself, or a file that was cut short while it was read\n");
    }
    _exit(TOOL_FAILED);
}

void tool_catch_crashes(void)
{
    static const int crashes[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
    static char alternate_stack[64 * 1024];
    stack_t stack = {.ss_sp = alternate_stack, .ss_size = sizeof alternate_stack};
    sigaltstack(&stack, NULL);

    struct sigaction action;
    memset(&action, 0, sizeof action);
    sigemptyset(&action.sa_mask);
    action.sa_handler = on_crash;
    /* A crash inside the handler falls to the system's own. */
    action.sa_flags = SA_ONSTACK | SA_RESETHAND;
    for (size_t i = 0; i < sizeof crashes / sizeof crashes[0]; i++)
        sigaction(crashes[i], &action, NULL);
}

void tool_catch_interrupts(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    sigemptyset(&action.sa_mask);
    action.sa_handler = on_interrupt;
    action.sa_flags = SA_RESTART;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}
