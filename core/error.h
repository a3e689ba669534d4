/* SPDX-License-Identifier: Apache-2.0 */
/* The sentence that explains a failure, one per thread. */
#ifndef KILN_CORE_ERROR_H
#define KILN_CORE_ERROR_H

#include <stdarg.h>

#include "kiln/kiln.h"

/* Sets this thread's sentence and returns `status`, so that `return kiln_fail(…)` reads well. The
 * arguments may point into the former sentence. */
kiln_status kiln_fail(kiln_status status, const char *format, ...) KILN_PRINTF(2, 3);
kiln_status kiln_fail_v(kiln_status status, const char *format, va_list arguments);

/* The usual sentence for exhausted memory; `what` is what was to be made. */
kiln_status kiln_fail_memory(const char *what);

/* Forgets this thread's sentence before foreign code is called, which may fail without one, and the
 * sentence it gave, else the general meaning of its status. */
void kiln_forget_error(void);
const char *kiln_reason(kiln_status status);

/* Names the foreign code that this thread is about to enter (see kiln_activity); "" when it has
 * come back. */
void kiln_set_activity(const char *verb, const char *path);

#endif
