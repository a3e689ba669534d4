/* SPDX-License-Identifier: Apache-2.0 */
/* The checks of the level op. */
#include "conformance/plugin/op/op.h"

#define OP(name, function, what)                            \
    {                                                       \
        "op." name, CONFORMANCE_LEVEL_OP, what, function, 0 \
    }
#define OP_BY_CASES(name, function, what)                                            \
    {                                                                                \
        "op." name, CONFORMANCE_LEVEL_OP, what, function, CONFORMANCE_LIMIT_BY_CASES \
    }

const conformance_check conformance_op_checks[] = {
    OP("gemm.serves-something", conformance_op_gemm_serves,
       "A backend of kiln.gemm/1 serves at least one descriptor."),
    OP("gemm.query-keeps-its-word", conformance_op_gemm_word,
       "What query serves can be planned and run, and query never contradicts itself."),
    OP("gemm.reasons", conformance_op_gemm_reasons, "What is declined is declined with a reason."),
    OP("gemm.parameters", conformance_op_gemm_parameters,
       "plan takes the tuning parameters that space offers."),
    OP_BY_CASES("gemm.correct", conformance_op_gemm_correct,
                "Random cases of all kinds are as exact as the bound says."),
    OP_BY_CASES("gemm.correct-on-host", conformance_op_gemm_on_host,
                "What a plugin with devices serves in host memory as well is as exact there."),
    OP("gemm.layouts", conformance_op_gemm_layouts, "All four transposes, odd sizes and one row."),
    OP("gemm.tails", conformance_op_gemm_tails, "Sizes beside powers of two."),
    OP("gemm.zero-sizes", conformance_op_gemm_zero_sizes,
       "Sizes of zero are valid, and K = 0 leaves beta C."),
    OP("gemm.dynamic-sizes", conformance_op_gemm_dynamic,
       "One plan serves every size up to its maximum."),
    OP("gemm.strides", conformance_op_gemm_strides, "Rows of the inputs may be apart."),
    OP("gemm.gaps-survive", conformance_op_gemm_gaps,
       "Nothing is written between the rows of D or beside them."),
    OP("gemm.offsets", conformance_op_gemm_offsets,
       "Tensors begin at any byte that the descriptor allows."),
    OP("gemm.alignment-promises", conformance_op_gemm_alignments,
       "A promised alignment is relied on no further than promised."),
    OP("gemm.batches", conformance_op_gemm_batches, "Batches, and inputs that they share."),
    OP("gemm.factors", conformance_op_gemm_factors, "Alpha and beta are applied once."),
    OP("gemm.c-is-d", conformance_op_gemm_alias, "C may be D."),
    OP("gemm.nan-inf", conformance_op_gemm_nan,
       "NaN and Inf propagate, through relu and clip too, and stay in their row or column."),
    OP("gemm.denormals", conformance_op_gemm_denormals,
       "Denormals count, unless the answer says that they are flushed."),
    OP("gemm.saturation", conformance_op_gemm_saturation,
       "Results beyond the range become Inf, or the largest value where that is asked."),
    OP("gemm.rounding", conformance_op_gemm_rounding,
       "What lies half-way between two values of D becomes the even one."),
    OP("gemm.scales", conformance_op_gemm_scales,
       "Scales and zero points by blocks, whole or not, wherever these lie."),
    OP("gemm.beta-zero-reads-no-c", conformance_op_gemm_beta_zero, "Beta 0 does not read C."),
    OP("gemm.alpha-zero-reads-nothing", conformance_op_gemm_alpha_zero,
       "Alpha 0 reads neither A nor B."),
    OP("gemm.epilogues", conformance_op_gemm_epilogues,
       "Each epilogue with each shape and type of operand."),
    OP("gemm.epilogue-order", conformance_op_gemm_epilogue_order,
       "Epilogues are applied in the order given."),
    OP("gemm.guard-pages", conformance_op_gemm_guards,
       "Nothing outside of the tensors is touched, and inputs are not written."),
    OP("gemm.workspace-bound", conformance_op_gemm_workspace,
       "A run needs no more workspace than query said."),
    OP("gemm.parts", conformance_op_gemm_parts, "A run in shares computes the whole."),
    OP("gemm.argument-structs", conformance_op_gemm_arguments,
       "Argument structs that are too short, or say more than is known, are refused."),
    OP("gemm.groups", conformance_op_gemm_groups,
       "Contiguous, masked and k-grouped GEMMs, with padding and empty groups."),
    OP("gemm.capacity-violations", conformance_op_gemm_capacity,
       "Indices, counts and offsets beyond their limits are clamped and reported."),
    OP("gemm.pack-unpack-exact", conformance_op_gemm_pack_exact,
       "Unpacking gives back every byte that was packed."),
    OP("gemm.packed-as-plain", conformance_op_gemm_pack_plain,
       "Packed operands give what plain ones give."),
    OP("gemm.foreign-blobs", conformance_op_gemm_blobs,
       "Packed operands that are damaged or another backend's are refused."),
};

const size_t conformance_op_check_count =
    sizeof conformance_op_checks / sizeof conformance_op_checks[0];
