/* SPDX-License-Identifier: Apache-2.0 */
/* A runtime with the plugins of this build, opened once, for fuzz targets that need one. */
#ifndef KILN_TESTS_FUZZ_PLUGINS_H
#define KILN_TESTS_FUZZ_PLUGINS_H

#include "kiln/gemm.h"
#include "kiln/plugin.h"
#include "tests/fuzz/must.h"

const kiln_plugin *ref_LTX_kiln_plugin_v1(int64_t host_abi_minor);

static inline kiln_runtime *open_runtime(void)
{
    static kiln_runtime *runtime;
    kiln_runtime_options options = {.struct_size = sizeof options,
                                    .flags = KILN_RUNTIME_ISOLATED,
                                    .profile_text = "schema: 1\nthreads: {count: 1}"};
    if (runtime)
        return runtime;
    must(kiln_plugin_register("ref", ref_LTX_kiln_plugin_v1) == KILN_OK);
    must(kiln_runtime_open(&options, &runtime) == KILN_OK);
    return runtime;
}

#endif
