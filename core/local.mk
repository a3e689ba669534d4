# SPDX-License-Identifier: Apache-2.0
# libkiln. core/libcore.la holds all of it, so that tests can link the functions that libkiln hides.
noinst_LTLIBRARIES += core/libcore.la
core_libcore_la_SOURCES = \
	core/copy.c \
	core/copy.h \
	core/device.c \
	core/device.h \
	core/error.c \
	core/error.h \
	core/fork.c \
	core/fork.h \
	core/host_device.c \
	core/host_info.c \
	core/host_table.c \
	core/json.c \
	core/json.h \
	core/loader.c \
	core/loader.h \
	core/module.c \
	core/module.h \
	core/ops/gemm.c \
	core/ops/gemm.h \
	core/ops/gemm_check.c \
	core/ops/gemm_descriptor.c \
	core/ops/gemm_tensors.c \
	core/ops/operator.c \
	core/ops/operator.h \
	core/pack.c \
	core/plan.c \
	core/plan.h \
	core/plan_cache.c \
	core/pool.c \
	core/pool.h \
	core/profile/environment.c \
	core/profile/internal.h \
	core/profile/keys.c \
	core/profile/layers.c \
	core/profile/machine.c \
	core/profile/operators.c \
	core/profile/options.c \
	core/profile/profile.c \
	core/profile/profile.h \
	core/profile/schema.c \
	core/record.c \
	core/record.h \
	core/route.c \
	core/run.c \
	core/runtime.c \
	core/runtime.h \
	core/staging.c \
	core/stream.c \
	core/trace.c \
	core/tuning.c \
	core/tuning.h \
	core/workspace.c \
	core/workspace.h \
	support/pause.h
# The core rounds no pairs (see configure.ac), and copies its structs faster with it.
core_libcore_la_CFLAGS = $(AM_CFLAGS) -ftree-slp-vectorize
core_libcore_la_CPPFLAGS = $(AM_CPPFLAGS) $(YAML_CFLAGS) \
	-DKILN_VERSION='"$(PACKAGE_VERSION)"' \
	-DKILN_PLUGIN_DIR='"$(plugindir)"' \
	-DKILN_PROFILE_DIR='"$(profiledir)"' \
	-DKILN_SYSCONF_DIR='"$(kilnsysconfdir)"'
core_libcore_la_LIBADD = support/libkilnsupport.la $(LTDL_LIBS) -lm

# Every function that include/kiln declares with KILN_API stands in libkiln.map; build-aux/check-symbols.sh compares.
lib_LTLIBRARIES += libkiln.la
libkiln_la_SOURCES =
libkiln_la_LIBADD = core/libcore.la
libkiln_la_LDFLAGS = -version-info 0:0:0 $(KILN_ZDEFS) -Wl,--version-script=$(srcdir)/core/libkiln.map
EXTRA_libkiln_la_DEPENDENCIES = core/libkiln.map
EXTRA_DIST += core/libkiln.map
