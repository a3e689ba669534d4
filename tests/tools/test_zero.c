/* SPDX-License-Identifier: Apache-2.0 */
/* What `kiln run` zeroes: on the host, on a device, and on one that cannot fill. */
#include "tests/core/fake_device.h"
#include "tests/core/fixture.h"
#include "tools/kiln/run.h"

#include <string.h>

enum { BYTES = 3 * 65536 + 5 };

static kiln_tensor bytes_of(kiln_buffer *buffer, void *memory)
{
    int64_t count = BYTES;
    kiln_tensor all = kiln_tensor_host(KILN_U8, memory, 1, &count);
    all.buffer = buffer;
    return all;
}

static void zero_on(kiln_runtime *runtime, kiln_device *device)
{
    static unsigned char found[BYTES];
    kiln_buffer *buffer;
    memset(found, 0xff, sizeof found);
    assert_ok(kiln_buffer_alloc(device, KILN_SPACE_DEVICE, BYTES, &buffer));
    kiln_tensor there = bytes_of(buffer, NULL), here = bytes_of(NULL, found);
    assert_ok(kiln_copy(NULL, runtime, &there, &here));
    assert_ok(run_zero(runtime, buffer));
    assert_ok(kiln_copy(NULL, runtime, &here, &there));
    for (int64_t i = 0; i < BYTES; i++)
        if (found[i])
            fail_msg("byte %lld is %d", (long long)i, found[i]);
    kiln_buffer_release(buffer);
    assert_ok(kiln_buffer_alloc(device, KILN_SPACE_DEVICE, 0, &buffer));
    assert_ok(run_zero(runtime, buffer));
    kiln_buffer_release(buffer);
}

static void zero_with(const char *options)
{
    kiln_device *devices[3];
    kiln_runtime *runtime = fake_device_open(options, devices);
    zero_on(runtime, devices[0]);
    zero_on(runtime, devices[1]);
    kiln_runtime_close(runtime);
}

static void test_zero(void **state)
{
    (void)state;
    zero_with("");
}

static void test_addressable(void **state)
{
    (void)state;
    zero_with("addressable: true");
}

static void test_without_fill(void **state)
{
    (void)state;
    zero_with("omit: fill");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FAKE_DEVICE_TEST(test_zero),
        FAKE_DEVICE_TEST(test_addressable),
        FAKE_DEVICE_TEST(test_without_fill),
    };
    return cmocka_run_group_tests_name("zero", tests, NULL, NULL);
}
