/* SPDX-License-Identifier: Apache-2.0 */
/* The checks of the abi level, by file. */
#ifndef KILN_CONFORMANCE_PLUGIN_ABI_H
#define KILN_CONFORMANCE_PLUGIN_ABI_H

#include "conformance/plugin/load.h"

#define CONFORMANCE_RUN(name) \
    void name(const conformance_subject *subject, conformance_report *report)

/* plugin/abi/file.c: the shared object, without loading it */
CONFORMANCE_RUN(conformance_abi_file_name);
CONFORMANCE_RUN(conformance_abi_one_symbol);
CONFORMANCE_RUN(conformance_abi_no_kiln);

/* plugin/abi/static.c: what its entry gives, before anything is opened */
CONFORMANCE_RUN(conformance_abi_loads);
CONFORMANCE_RUN(conformance_abi_entry);
CONFORMANCE_RUN(conformance_abi_table);
CONFORMANCE_RUN(conformance_abi_static_data);
CONFORMANCE_RUN(conformance_abi_interfaces);
CONFORMANCE_RUN(conformance_abi_probe);

/* plugin/abi/options.c: the options that it declares */
CONFORMANCE_RUN(conformance_abi_options);
CONFORMANCE_RUN(conformance_abi_option_values);

/* plugin/abi/open.c: instances, and what opening and closing leave behind */
CONFORMANCE_RUN(conformance_abi_opens);
CONFORMANCE_RUN(conformance_abi_newer_host);
CONFORMANCE_RUN(conformance_abi_two_instances);
CONFORMANCE_RUN(conformance_abi_reopen_threads);
CONFORMANCE_RUN(conformance_abi_reopen_descriptors);
CONFORMANCE_RUN(conformance_abi_reopen_handlers);
CONFORMANCE_RUN(conformance_abi_reopen_exit);
CONFORMANCE_RUN(conformance_abi_reopen_memory);
CONFORMANCE_RUN(conformance_abi_thread_state);
CONFORMANCE_RUN(conformance_abi_process_state);
CONFORMANCE_RUN(conformance_abi_silent);
CONFORMANCE_RUN(conformance_abi_exit);

/* plugin/abi/interface.c: the tables of its interfaces */
CONFORMANCE_RUN(conformance_abi_interface_names);
CONFORMANCE_RUN(conformance_abi_interface_unknown);
CONFORMANCE_RUN(conformance_abi_interface_tables);
CONFORMANCE_RUN(conformance_abi_required_functions);

/* plugin/abi/query.c and plugin/abi/refuse.c: query and plan of its operators */
CONFORMANCE_RUN(conformance_abi_query_answer);
CONFORMANCE_RUN(conformance_abi_query_answer_size);
CONFORMANCE_RUN(conformance_abi_query_stable);
CONFORMANCE_RUN(conformance_abi_query_longer);
CONFORMANCE_RUN(conformance_abi_query_tail);
CONFORMANCE_RUN(conformance_abi_query_shorter);
CONFORMANCE_RUN(conformance_abi_query_headless);
CONFORMANCE_RUN(conformance_abi_query_flags);
CONFORMANCE_RUN(conformance_abi_query_enums);
CONFORMANCE_RUN(conformance_abi_plan);
CONFORMANCE_RUN(conformance_abi_plan_refuses);
CONFORMANCE_RUN(conformance_abi_plan_request);

/* What a check does with an instance that stands for all that it can do without computing: asks for
 * every interface, queries, plans and frees, opens its devices and makes a stream and memory. */
void conformance_exercise(conformance_instance *instance);

#endif
