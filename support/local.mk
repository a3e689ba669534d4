# SPDX-License-Identifier: Apache-2.0
# The YAML reader that the core and the command line share. A convenience library: its symbols stay hidden.
noinst_LTLIBRARIES += support/libkilnsupport.la
support_libkilnsupport_la_SOURCES = support/yaml.h support/yaml.c support/yaml_value.c
support_libkilnsupport_la_CPPFLAGS = $(AM_CPPFLAGS) $(YAML_CFLAGS)
support_libkilnsupport_la_LIBADD = $(YAML_LIBS)
