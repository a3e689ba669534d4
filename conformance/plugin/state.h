/* SPDX-License-Identifier: Apache-2.0 */
/* What a call must leave as it found it: of the process and of the thread. */
#ifndef KILN_CONFORMANCE_PLUGIN_STATE_H
#define KILN_CONFORMANCE_PLUGIN_STATE_H

#include <signal.h>
#include <sched.h>

#include "conformance/plugin.h"

enum { CONFORMANCE_SIGNALS = 65, CONFORMANCE_DESCRIPTORS = 1024 };

typedef struct conformance_state {
    /* Of the process. Exit handlers are counted modulo 32, and -1 where they cannot be. */
    int64_t threads, mappings, mapped_bytes, heap_bytes, exit_handlers;
    unsigned char descriptors[CONFORMANCE_DESCRIPTORS]; /* 1 = open */
    struct sigaction handlers[CONFORMANCE_SIGNALS];
    uint64_t environment, locale, limits, timers;
    char folder[512];
    unsigned file_mask;
    /* Of the calling thread. */
    sigset_t mask;
    int rounding;
    uint64_t arithmetic; /* control bits: flushing denormals, rounding, traps */
    void *own_locale;
    stack_t signal_stack;
    cpu_set_t affinity;
} conformance_state;

/* Exit handlers are counted by a child process; ask for them only where they are needed. */
void conformance_state_take(conformance_state *state, bool exit_handlers);

/* Parts of a state. */
enum {
    CONFORMANCE_STATE_THREAD = 1,  /* all that belongs to the calling thread */
    CONFORMANCE_STATE_PROCESS = 2, /* environment, locale, folder, limits, timers, file mask */
    CONFORMANCE_STATE_THREADS = 4, /* their number */
    CONFORMANCE_STATE_DESCRIPTORS = 8,
    CONFORMANCE_STATE_HANDLERS = 16, /* of signals */
    CONFORMANCE_STATE_EXIT = 32      /* handlers of exit */
};

/* What differs, in words ("the signal mask"), NULL when nothing does. `text` holds it. */
const char *conformance_state_difference(const conformance_state *before,
                                         const conformance_state *after, unsigned parts,
                                         char text[256]);

int64_t conformance_thread_count(void);

/* Waits, at most a second, until there are no more threads than that: a thread that was joined may
 * be seen a little longer. Returns how many there are. */
int64_t conformance_threads_settled(int64_t threads);

/* Puts the calling thread into a state that no call expects (rounding up, denormals flushed, a
 * signal blocked), and back. */
typedef struct conformance_oddness {
    sigset_t mask;
    int rounding;
    uint64_t arithmetic;
} conformance_oddness;

void conformance_oddness_begin(conformance_oddness *former);
void conformance_oddness_end(const conformance_oddness *former);

#endif
