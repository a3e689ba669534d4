/* SPDX-License-Identifier: Apache-2.0 */
/* The hint that a spinning thread gives its processor. */
#ifndef KILN_SUPPORT_PAUSE_H
#define KILN_SUPPORT_PAUSE_H

static inline void pause_briefly(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb");
#endif
}

#endif
