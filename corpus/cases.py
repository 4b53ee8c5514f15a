"""Test cases of single kernels: assignments of their symbols, run-time scalars, and what their inputs must be like.

`DATA` says what the contents of a view are where any numbers will not do; `corpus.data` makes them.
"""

from __future__ import annotations

from typing import Any

Row = tuple[int, ...]
#: kernel -> assignments, in the order of its symbols
ROWS: dict[str, list[Row]] = {
    "rope_half_bf16": [(1, 1, 1, 2), (2, 5, 3, 14), (1, 7, 2, 34), (0, 3, 2, 4), (2, 3, 1, 0)],
    "rope_interleaved_bf16": [(1, 1, 1, 1), (2, 5, 3, 7), (1, 7, 2, 17), (0, 3, 2, 4), (2, 3, 1, 0)],
    "group_norm_f32": [(1, 1, 1, 1), (2, 3, 5, 7), (3, 2, 1, 33), (0, 2, 3, 4), (2, 3, 4, 1)],
    "instance_norm_f32": [(1, 1, 1, 1), (2, 3, 5, 7), (3, 2, 11, 3), (0, 2, 3, 4), (2, 3, 1, 37)],
    "global_max_pool_f32": [(1, 1, 1, 1), (2, 3, 5, 7), (3, 2, 11, 3), (0, 2, 3, 4), (2, 3, 1, 37), (2, 3, 0, 4)],
    "batch_norm_infer_f32": [(1, 1, 1), (2, 3, 35), (5, 17, 7), (0, 3, 5), (2, 0, 3), (3, 5, 0)],
    "layer_norm_backward_dwdb_bf16": [(1, 1, 1), (3, 7, 19), (2, 33, 5), (5, 0, 3), (0, 3, 2), (2, 3, 0)],
    "sum_parts_f32": [(1, 1), (7, 19), (33, 35), (0, 5), (3, 0)],
    "mse_partials_bf16": [(1, 1), (7, 19), (5, 130), (3, 0), (0, 5)],
    "linear_recurrence_f32": [(1, 1, 1), (2, 17, 5), (3, 37, 7), (2, 0, 3), (0, 3, 5)],
    "segmented_parts_i32": [(1, 1), (3, 7), (5, 35), (0, 3), (13, 1)],
    "segmented_carries_i32": [(1,), (7,), (130,), (0,)],
    "segmented_apply_i32": [(1, 1), (3, 7), (5, 35), (0, 3), (13, 1)],
    "weight_only_int4_bf16": [(1, 1, 1), (3, 5, 2), (7, 3, 1), (2, 3, 0), (0, 2, 1)],
    "scaled_gemm_mxfp8": [(1, 1, 1), (5, 7, 3), (3, 17, 2), (2, 3, 0), (0, 5, 1)],
    "scaled_gemm_nvfp4": [(1, 1, 1), (5, 7, 3), (3, 17, 5), (2, 3, 0), (0, 5, 1)],
    "sparse_2to4_gemm_f16": [(1, 1, 1), (5, 7, 3), (3, 17, 9), (2, 3, 0), (0, 5, 1)],
    "sparse_1to2_gemm_f32": [(1, 1, 1), (5, 7, 3), (3, 17, 9), (2, 3, 0), (0, 5, 1)],
    "q8k_quantize": [(1,), (3,), (5,), (0,)],
    "q4k_gemv": [(1, 1), (3, 2), (2, 3), (2, 0), (0, 1)],
    "fp8_quantize_per_group": [(1, 1), (3, 2), (7, 2), (0, 1), (3, 0)],
    "conv2d_direct_f16": [(1, 1, 1, 1, 1), (2, 3, 5, 4, 7), (1, 2, 3, 9, 5), (0, 2, 3, 3, 2), (2, 0, 3, 3, 2)],
    "depthwise_causal_conv1d_bf16": [(1, 1, 1), (2, 7, 5), (3, 2, 17), (0, 3, 2), (2, 0, 3)],
    "max_pool2d_f32": [(1, 1, 1, 1, 1, 1), (2, 3, 5, 7, 3, 4), (1, 2, 9, 4, 5, 2), (0, 2, 3, 3, 2, 2), (2, 3, 4, 4, 0, 2)],
    **dict.fromkeys(
        ("attention_fwd_bf16", "attention_causal_bf16", "attention_window_bf16", "attention_bias_bf16", "softmax_attention_bf16"),
        [(1, 1, 1, 1, 1), (2, 3, 5, 7, 4), (1, 2, 9, 19, 8), (2, 1, 7, 3, 4), (1, 2, 3, 0, 4), (0, 2, 3, 5, 4)],
    ),
    "key_norm_attention_f32": [(1, 1, 1), (5, 7, 4), (9, 19, 8), (17, 3, 5), (3, 0, 4), (0, 5, 4)],
    "alibi_attention_bf16": [(1, 1, 1, 1), (3, 5, 7, 4), (2, 9, 19, 8), (2, 7, 3, 5), (2, 3, 0, 4), (0, 3, 5, 4)],
    "attention_gqa_bf16": [(1, 1, 1, 1, 1, 1), (2, 3, 2, 5, 7, 4), (1, 2, 3, 4, 19, 8), (1, 2, 2, 3, 0, 4), (0, 2, 1, 3, 5, 4)],
    "attention_decode_paged_bf16": [(1, 1, 1, 1, 1, 1, 1), (2, 1, 3, 3, 2, 4, 2), (3, 2, 1, 2, 3, 3, 3), (0, 1, 1, 2, 1, 2, 1)],
    "attention_combine_bf16": [(1, 1, 1, 1, 1), (2, 3, 2, 7, 5), (1, 2, 3, 4, 0), (0, 2, 1, 3, 2)],
    "varlen_attention_bf16": [(1, 1, 1, 2), (19, 2, 5, 4), (33, 1, 8, 6), (0, 2, 3, 3), (5, 3, 4, 2)],
    "mla_decode_bf16": [(1, 1, 1, 1, 1), (2, 3, 7, 5, 3), (1, 5, 19, 8, 4), (2, 3, 0, 4, 2), (0, 2, 3, 4, 1)],
    **dict.fromkeys(
        ("attention_delta_bf16", "attention_backward_dq_bf16", "attention_backward_dkdv_bf16"),
        [(1, 1, 1, 1), (2, 3, 7, 5), (1, 2, 19, 8), (2, 1, 0, 4), (0, 2, 3, 4)],
    ),
    "linear_attention_causal_bf16": [(1, 1, 1, 1, 1), (2, 3, 7, 5, 4), (1, 2, 19, 8, 3), (2, 1, 0, 4, 3), (0, 2, 3, 4, 2)],
    "mamba2_chunk_state_bf16": [(1, 1, 1, 1, 1, 1), (2, 3, 2, 3, 5, 7), (1, 2, 3, 4, 2, 5), (2, 0, 1, 3, 2, 4)],
    "mamba2_state_passing_f32": [(1, 1, 1, 1, 1), (2, 3, 5, 3, 7), (1, 7, 2, 5, 3), (2, 0, 1, 3, 2), (0, 3, 2, 2, 2)],
    "mamba2_chunk_scan_bf16": [(1, 1, 1, 1, 1, 1), (2, 3, 5, 2, 3, 4), (1, 2, 7, 3, 4, 2), (2, 0, 3, 1, 3, 2)],
    "gated_delta_prepare_f32": [(1, 1, 1, 1, 1, 1), (2, 2, 3, 5, 4, 7), (1, 3, 2, 4, 3, 5), (2, 0, 1, 3, 2, 4)],
    "gated_delta_rule_f32": [(1, 1, 1, 1, 1, 1), (2, 2, 3, 5, 4, 7), (1, 3, 2, 4, 3, 5), (2, 1, 0, 3, 2, 4), (0, 2, 3, 2, 2, 3)],
    **dict.fromkeys(
        ("embedding_bf16", "embedding_backward_f32", "index_add_f32"), [(1, 1, 1), (7, 5, 19), (33, 11, 7), (0, 3, 5), (5, 0, 3), (3, 5, 0)]
    ),
    "csr_spmv_f32": [(1, 2, 1, 1), (7, 8, 35, 11), (5, 6, 0, 3), (0, 1, 0, 3), (33, 34, 61, 17)],
    "csr_spmm_f32": [(1, 2, 1, 1, 1), (7, 8, 35, 11, 5), (5, 6, 0, 3, 7), (0, 1, 0, 3, 2), (13, 14, 61, 17, 3)],
    "jagged_mean_f32": [(1, 2, 1, 1), (7, 8, 35, 5), (5, 6, 0, 3), (0, 1, 0, 3), (3, 4, 61, 17)],
    "jagged_softmax_f32": [(1, 1, 2), (35, 5, 8), (0, 3, 4), (61, 17, 5), (7, 0, 3)],
    "segment_max_f32": [(1, 2, 1), (7, 8, 35), (5, 6, 0), (0, 1, 0), (3, 4, 130)],
    "segment_max_scattered_i32": [(1, 1), (35, 7), (0, 3), (130, 5), (9, 0)],
    "moe_grouped_gemm_bf16": [(1, 1, 1, 1, 2), (19, 5, 7, 4, 5), (9, 8, 3, 7, 8), (0, 4, 3, 2, 3), (7, 0, 3, 2, 3)],
    "moe_align": [(1, 1), (19, 4), (61, 7), (0, 3), (33, 1)],
    "moe_count": [(1, 1, 1), (3, 19, 5), (5, 7, 11), (0, 3, 2), (2, 0, 3)],
    "moe_sort": [(1, 1), (19, 5), (33, 7), (0, 3), (5, 0)],
    "histogram_global_u8": [(1, 1), (3, 130), (7, 19), (0, 3), (2, 0)],
    "histogram_parts_i32": [(1, 1), (3, 130), (7, 19), (0, 3), (2, 0)],
    **dict.fromkeys(("unique_consecutive_parts_i32", "nonzero_counts_i32"), [(1, 1), (3, 35), (7, 19), (0, 3), (2, 0)]),
    "nonzero_offsets_i32": [(1,), (7,), (130,), (0,)],
    "nonzero_positions_i32": [(1, 1, 1), (3, 35, 105), (7, 19, 133), (0, 3, 0), (2, 0, 0)],
    **dict.fromkeys(("claim_slots_i32", "first_arrivals_u32", "bit_flags_u32"), [(1, 1), (35, 7), (0, 3), (130, 17), (9, 0)]),
    "monte_carlo_pi_partials": [(1,), (7,), (33,), (0,)],
    "top_k_f32": [(1, 1, 1), (3, 17, 5), (5, 40, 8), (0, 7, 3), (4, 3, 0)],
    "bitonic_sort_rows_f32": [(1,), (3,), (5,), (0,)],
    "fft_radix2_f32": [(1,), (3,), (5,), (0,)],
    "haar_f32": [(1,), (3,), (5,), (0,)],
    "nucleus_partials_f32": [(1, 1), (3, 17), (5, 33), (0, 7), (4, 0)],
    "cholesky_f32": [(1, 1), (3, 5), (2, 17), (0, 3), (2, 0)],
    "triangular_solve_f32": [(1, 1, 1), (3, 5, 2), (2, 17, 3), (0, 3, 1), (2, 0, 3)],
    "householder_qr_f32": [(1, 1), (3, 5), (2, 11), (0, 3), (2, 0)],
    "viterbi_f32": [(1, 1, 1), (3, 5, 7), (2, 3, 19), (0, 3, 2), (2, 1, 3)],
    "smith_waterman_i32": [(1, 1, 1), (3, 7, 5), (2, 9, 13), (0, 3, 2), (2, 0, 3), (2, 3, 0)],
    "kmeans_assign_f32": [(1, 1, 1), (19, 5, 7), (33, 17, 4), (0, 3, 2), (5, 3, 0)],
    **dict.fromkeys(
        ("triangular_gemm_bf16", "triangular_gemm_i8"), [(1, 1, 1), (19, 23, 17), (33, 7, 5), (9, 40, 3), (3, 0, 5), (0, 4, 7), (4, 3, 0)]
    ),
    "scan_running_sum": [(1,), (7,), (130,), (0,)],
    "contract_of_scan": [(1, 1, 1), (7, 5, 19), (3, 17, 33), (2, 3, 0), (0, 3, 2)],
    "reduce_then_scatter": [(1, 1, 1, 1), (3, 7, 19, 5), (5, 33, 2, 7), (2, 3, 0, 4), (0, 3, 2, 3), (2, 3, 4, 0)],
    "helper_coordinates": [(1,), (7,), (33,), (0,)],
}  # fmt: skip
#: kernel -> run-time scalars, where those of `corpus.shapes` are not meant
SCALARS: dict[str, dict[str, Any]] = {
    "attention_window_bf16": {"window": 4}, "monte_carlo_pi_partials": {"draws": 29}, "split_subregions": {"cut": 3},
    "sliding_mean_f32": {"width": 4}, "banded_matvec_f32": {"below": 2, "above": 1},
}  # fmt: skip

_OFFSETS = {"offsets": {"offsets": "N"}}
_IDS = {"I": {"around": "V"}}
_TOKENS = {"I": {"around": "X"}}
_SPREAD = {"uniform": [-2.0, 2.0]}
#: kernel -> view -> what its contents are; see `corpus.data`
DATA: dict[str, dict[str, Any]] = {
    "private_permuted": {"I": {"permuted": "N"}},
    **dict.fromkeys(("embedding_bf16", "embedding_backward_f32", "index_add_f32"), _IDS),
    "cross_entropy_bf16": {"T": {"around": "N"}},
    "alibi_attention_bf16": {"slope": {"uniform": [0.1, 1.0]}},
    "kl_div_bf16": {"T": {"uniform": [0.0, 1.0]}},
    "batch_norm_infer_f32": {"variance": {"uniform": [0.1, 2.0]}},
    "layer_norm_backward_dx_bf16": {"rstd": {"uniform": [0.5, 2.0]}},
    "segmented_parts_i32": {"K": {"range": [0, 1]}},
    "segmented_apply_i32": {"K": {"range": [0, 1]}},
    "segmented_scan_rows_f32": {"X": _SPREAD},
    "linear_recurrence_f32": {"A": {"uniform": [-1.0, 1.0]}},
    "weight_only_int4_bf16": {"Z": {"range": [0, 15]}},
    "scaled_gemm_mxfp8": {"SA": {"range": [120, 134]}, "SB": {"range": [120, 134]}},
    "sparse_2to4_gemm_f16": {"E": {"places": 4}},
    "sparse_1to2_gemm_f32": {"E": {"range": [0, 1]}},
    "q4k_gemv": {"W": {"records": "q4_K"}, "X": {"records": "q8_K"}},
    "attention_decode_paged_bf16": {"table": {"below": "pages"}, "lengths": {"upto": ["mul", "slots", 64]}},
    "attention_combine_bf16": {"L": {"uniform": [0.5, 4.0]}},
    "varlen_attention_bf16": {"offsets": {"offsets": "T"}},
    "mla_decode_bf16": {"lengths": {"upto": "T"}},
    **dict.fromkeys(("attention_backward_dq_bf16", "attention_backward_dkdv_bf16"), {"LSE": {"uniform": [1.0, 4.0]}}),
    **dict.fromkeys(("mamba2_chunk_state_bf16", "mamba2_chunk_scan_bf16"), {"A": {"falling": 0.3}, "DT": {"uniform": [0.1, 1.0]}}),
    "mamba2_state_passing_f32": {"G": {"uniform": [-1.0, 0.0]}},
    "gated_delta_prepare_f32": {"G": {"falling": 0.3}, "beta": {"uniform": [0.0, 1.0]}, "K": {"uniform": [-0.5, 0.5]}},
    "gated_delta_rule_f32": {"G": {"falling": 0.3}, "W": {"uniform": [-0.5, 0.5]}, "K": {"uniform": [-0.5, 0.5]}},
    "csr_spmv_f32": {**_OFFSETS, "columns": {"below": "C"}},
    "csr_spmm_f32": {**_OFFSETS, "columns": {"below": "C"}},
    **dict.fromkeys(("jagged_mean_f32", "jagged_softmax_f32", "segment_max_f32"), _OFFSETS),
    "segment_max_scattered_i32": {"I": {"around": "G"}},
    "moe_grouped_gemm_bf16": {"offsets": {"offsets": "T"}},
    **dict.fromkeys(("moe_align", "moe_count"), _TOKENS),
    "moe_sort": {"places": {"distinct": "T"}},
    "unique_consecutive_flags_i32": {"X": {"range": [0, 2]}},
    "unique_consecutive_parts_i32": {"X": {"range": [0, 2]}},
    "nonzero_counts_i32": {"X": {"range": [-1, 1]}},
    "nonzero_offsets_i32": {"C": {"range": [0, 50]}},
    "nonzero_positions_i32": {"X": {"range": [-1, 1]}, "O": {"places_of": "X"}},
    "tickets_i32": {"C": {"range": [0, 0]}},
    "claim_slots_i32": {"I": {"around": "S"}, "table": {"range": [0, 1]}},
    "first_arrivals_u32": {"I": {"around": "S"}, "flags": {"range": [0, 1]}},
    "bit_flags_u32": {"X": {"upto": ["mul", "S", 32]}},
    "adamw_f32": {"V": {"uniform": [0.0, 2.0]}},
    "dropout_add_rms_norm_bf16": {},
    "nucleus_partials_f32": {"X": {"probabilities": "descending"}},
    "cholesky_f32": {"A": {"matrix": "positive"}},
    "triangular_solve_f32": {"L": {"matrix": "lower"}},
    "householder_qr_f32": {"A": {"matrix": "positive"}},
    "smith_waterman_i32": {"X": {"range": [0, 3]}, "Z": {"range": [0, 3]}},
    "collatz_i64": {"X": {"range": [-3, 60]}},
    "newton_sqrt_f32": {"X": {"uniform": [-1.0, 1000.0]}},
    "skip_and_stop_i32": {"X": {"range": [-40, 150]}},
    "reduce_then_scatter": {"I": {"around": "V"}},
    "approximate_sigmoid": {"X": _SPREAD},
}  # fmt: skip
#: kernel -> outputs that are right in any order of their elements: what is compared is their sorted contents
UNORDERED: dict[str, list[str]] = {"tickets_i32": ["Y"], "claim_slots_i32": ["won"], "first_arrivals_u32": ["first"]}
#: kernel -> outputs that are not compared: they depend on the order of atomic operations
FREE: dict[str, list[str]] = {"claim_slots_i32": ["table"]}
