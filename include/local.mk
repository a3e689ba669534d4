# SPDX-License-Identifier: Apache-2.0
kilnincludedir = $(includedir)/kiln
kilninclude_HEADERS = \
	include/kiln/gemm.h \
	include/kiln/kiln.h \
	include/kiln/plugin.h \
	include/kiln/tensor.h
