/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin "fake", linked into the test: devices whose memory the host reaches only by copying.
 * Behind it is host memory, but it is named by offsets from 4096, which all devices hand out alike.
 * Every stream has a thread of its own.
 *
 * It is strict: what touches memory that was freed, or lies outside of an allocation, faults the
 * stream. */
#ifndef TESTS_CORE_FAKE_DEVICE_H
#define TESTS_CORE_FAKE_DEVICE_H

#include <stdatomic.h>

#include "tests/core/fake_backend.h"

/* Options: devices (2), delay_us before every command (0), omit ('': a function that the device
 * table lacks), addressable (false), workspace (0) bytes that its operators want. It offers
 * kiln.gemm/1 as fake_gemm() does it, packs B of it, and acme.axpy/1, which faults when alpha is
 * not a number. */

typedef struct fake_device_counts {
    _Atomic int64_t instances, devices, memories, streams, events; /* alive */
    _Atomic int64_t copies, runs;                                  /* since the reset */
    _Atomic int64_t workspaces; /* different ones that runs were given */
    _Atomic int64_t wrong;      /* calls that broke the contract */
} fake_device_counts;

extern fake_device_counts fake_device_counted;

/* Registers the plugin and checks, before and after a test, that nothing of it is alive. */
#define FAKE_DEVICE_TEST(name) \
    cmocka_unit_test_setup_teardown(name, fake_device_set_up, fake_device_tear_down)
int fake_device_set_up(void **state);
int fake_device_tear_down(void **state);

/* A runtime with the plugin and these options ("devices: 2, delay_us: 100"), and its devices: host,
 * fake:0, fake:1. */
kiln_runtime *fake_device_open(const char *options, kiln_device *devices[3]);

#endif
