/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the core share: runtimes that depend on nothing outside of the test, captured
 * logs, expectations about failures, random numbers, child processes. */
#ifndef TESTS_CORE_FIXTURE_H
#define TESTS_CORE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kiln/gemm.h"
#include "kiln/plugin.h"

#define COUNT(array) ((int64_t)(sizeof(array) / sizeof(array)[0]))

#if defined(__SANITIZE_THREAD__)
#define FIXTURE_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define FIXTURE_TSAN 1
#endif
#endif
#ifndef FIXTURE_TSAN
#define FIXTURE_TSAN 0
#endif

#if defined(__SANITIZE_ADDRESS__)
#define FIXTURE_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FIXTURE_ASAN 1
#endif
#endif
#ifndef FIXTURE_ASAN
#define FIXTURE_ASAN 0
#endif

/* Runtimes whose profile is `schema: 1` and the lines given (may be NULL); their log is captured.
 * The first is isolated, and fails the test when it cannot be opened. */
kiln_runtime *fixture_open(const char *profile);
kiln_status fixture_try_open(const char *profile, uint64_t flags, kiln_runtime **runtime);

/* What was logged since it was last cleared. */
const char *fixture_log(void);
void fixture_clear_log(void);

/* The call fails with `status`, and the sentence has `words` in it. */
#define assert_fails(call, status, words) \
    fixture_assert_fails((call), (status), (words), #call, __FILE__, __LINE__)
void fixture_assert_fails(kiln_status got, kiln_status wanted, const char *words, const char *call,
                          const char *file, int line);

/* The call succeeds; else its sentence is shown. */
#define assert_ok(call) fixture_assert_ok((call), #call, __FILE__, __LINE__)
void fixture_assert_ok(kiln_status got, const char *call, const char *file, int line);

/* `text` has `words` in it. */
#define assert_says(text, words) fixture_assert_says((text), (words), __FILE__, __LINE__)
void fixture_assert_says(const char *text, const char *words, const char *file, int line);

/* Uniform in [low, high]. The seed is KILN_TEST_SEED or the time, and is printed at the first use.
 */
int64_t fixture_random(int64_t low, int64_t high);

/* A new empty folder; all of them are removed at the end of the process. */
const char *fixture_folder(void);

/* The folder of the plugins that were built for the tests of the core. Skips the test where there
 * are no shared objects. */
const char *fixture_plugin_folder(void);

/* Skips the test under ThreadSanitizer, which does not survive a fork. */
void fixture_needs_fork(void);

/* `function(argument)` in a child of fork; returns its result, 0 to 100, or 200 plus the signal
 * that ended it. */
int fixture_in_child(int (*function)(void *argument), void *argument);

/* Runs function(argument, index) in `count` threads at once and waits for them. */
void fixture_threads(int64_t count, void (*function)(void *argument, int64_t index),
                     void *argument);

void fixture_sleep_us(int64_t microseconds);

#endif
