# SPDX-License-Identifier: Apache-2.0
# Each folder of tests has its own list. What may stand there is explained in the Makefile.am of the root.
include tests/support/local.mk
include tests/core/local.mk
if PLUGIN_REF
include tests/plugins/ref/local.mk
endif
if PLUGIN_NPU
include tests/plugins/npu/local.mk
endif
include tests/conformance/local.mk
if TOOLS
include tests/tools/local.mk
include tests/bench/local.mk
endif
include tests/fuzz/local.mk
