# SPDX-License-Identifier: Apache-2.0
# Tensor files: .npy, .npz, .safetensors; digests of tensors.
noinst_LTLIBRARIES += tools/io/libkilnio.la
tools_io_libkilnio_la_SOURCES = \
	tools/io/digest.c tools/io/digest.h \
	tools/io/internal.h \
	tools/io/npy.c \
	tools/io/npz.c \
	tools/io/row_major.c tools/io/row_major.h \
	tools/io/safetensors.c \
	tools/io/tensor_file.c tools/io/tensor_file.h \
	tools/io/write.c
tools_io_libkilnio_la_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS) $(LIBZIP_CFLAGS) $(XXHASH_CFLAGS)
tools_io_libkilnio_la_LIBADD = $(JANSSON_LIBS) $(LIBZIP_LIBS) $(XXHASH_LIBS) -lm
