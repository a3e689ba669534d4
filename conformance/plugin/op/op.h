/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of the checks of operators and of stress, by file. What each asks stands in the
 * list of its level. */
#ifndef KILN_CONFORMANCE_PLUGIN_OP_H
#define KILN_CONFORMANCE_PLUGIN_OP_H

#include "conformance/plugin.h"

typedef void conformance_check_fn(const conformance_subject *subject, conformance_report *report);

/* plugin/op/gemm_correct.c */
conformance_check_fn conformance_op_gemm_correct, conformance_op_gemm_on_host;

/* plugin/op/gemm.c: results */
conformance_check_fn conformance_op_gemm_layouts, conformance_op_gemm_tails,
    conformance_op_gemm_strides, conformance_op_gemm_gaps, conformance_op_gemm_offsets,
    conformance_op_gemm_alignments, conformance_op_gemm_zero_sizes, conformance_op_gemm_factors,
    conformance_op_gemm_alias, conformance_op_gemm_batches, conformance_op_gemm_dynamic;

/* plugin/op/gemm_values.c: special values and epilogues */
conformance_check_fn conformance_op_gemm_nan, conformance_op_gemm_denormals,
    conformance_op_gemm_saturation, conformance_op_gemm_beta_zero, conformance_op_gemm_alpha_zero,
    conformance_op_gemm_epilogues, conformance_op_gemm_epilogue_order;

/* plugin/op/gemm_parts.c */
conformance_check_fn conformance_op_gemm_parts;

/* plugin/op/gemm_rounding.c, plugin/op/gemm_scales.c */
conformance_check_fn conformance_op_gemm_rounding, conformance_op_gemm_scales;

/* plugin/op/gemm_contract.c: query, memory, arguments */
conformance_check_fn conformance_op_gemm_serves, conformance_op_gemm_word,
    conformance_op_gemm_reasons, conformance_op_gemm_parameters, conformance_op_gemm_guards,
    conformance_op_gemm_workspace, conformance_op_gemm_arguments;

/* plugin/op/gemm_pack.c */
conformance_check_fn conformance_op_gemm_pack_exact, conformance_op_gemm_pack_plain,
    conformance_op_gemm_blobs;

/* plugin/op/gemm_groups.c */
conformance_check_fn conformance_op_gemm_groups, conformance_op_gemm_capacity;

/* plugin/stress/stress.c */
conformance_check_fn conformance_stress_threads, conformance_stress_streams,
    conformance_stress_faults, conformance_stress_runtimes, conformance_stress_team,
    conformance_stress_nested, conformance_stress_state;

/* plugin/stress/life.c */
conformance_check_fn conformance_stress_plans, conformance_stress_cycles, conformance_stress_fork;

/* plugin/stress/bits.c */
conformance_check_fn conformance_stress_bits_repeat, conformance_stress_bits_threads,
    conformance_stress_bits_neighbours, conformance_stress_bits_batch,
    conformance_stress_bits_parts;

#endif
