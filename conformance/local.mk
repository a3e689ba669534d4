# SPDX-License-Identifier: Apache-2.0
# What operators must compute, by the public interface alone: for the tests and for "kiln check-plugin".
noinst_LTLIBRARIES += conformance/libconformance.la
conformance_libconformance_la_SOURCES = \
	conformance/conformance.h \
	conformance/gemm_bound.c \
	conformance/gemm_check.c \
	conformance/gemm_generate.c \
	conformance/gemm_numeric.h \
	conformance/gemm_oracle.c \
	conformance/gemm_sweep.c \
	conformance/lines.h
