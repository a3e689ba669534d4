/* SPDX-License-Identifier: Apache-2.0 */
/* What a check must know of the sanitizers that it may have been built with. */
#ifndef KILN_CONFORMANCE_SANITIZERS_H
#define KILN_CONFORMANCE_SANITIZERS_H

#include <stdbool.h>
#include <stddef.h>

#if defined(__SANITIZE_ADDRESS__)
#define CONFORMANCE_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CONFORMANCE_ASAN 1
#endif
#endif
#ifndef CONFORMANCE_ASAN
#define CONFORMANCE_ASAN 0
#endif

#if defined(__SANITIZE_THREAD__)
#define CONFORMANCE_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define CONFORMANCE_TSAN 1
#endif
#endif
#ifndef CONFORMANCE_TSAN
#define CONFORMANCE_TSAN 0
#endif

/* They have signal handlers, threads and memory of their own, and make everything slower. */
#define CONFORMANCE_SANITIZED (CONFORMANCE_ASAN || CONFORMANCE_TSAN)

#if CONFORMANCE_SANITIZED
void __sanitizer_set_death_callback(void (*callback)(void));
#endif
#if CONFORMANCE_ASAN
int __lsan_do_recoverable_leak_check(void) __attribute__((weak));
#endif

/* Calls `callback` before a sanitizer ends the process. */
static inline void conformance_on_sanitizer_death(void (*callback)(void))
{
#if CONFORMANCE_SANITIZED
    __sanitizer_set_death_callback(callback);
#else
    (void)callback;
#endif
}

/* True when a sanitizer finds memory that nobody can free any more; its report is on standard
 * error.
 */
static inline bool conformance_leaks(void)
{
#if CONFORMANCE_ASAN
    return __lsan_do_recoverable_leak_check && __lsan_do_recoverable_leak_check();
#else
    return false;
#endif
}

#endif
