"""Which kernels later layers do not take yet: a name leaves this list when its kernel passes every check."""

from __future__ import annotations

PENDING: frozenset[str] = frozenset(
    {
        "linear_attention_causal_bf16", "gated_delta_prepare_f32", "gated_delta_rule_f32",
        "bitonic_sort_rows_f32", "fft_radix2_f32", "haar_f32", "cholesky_f32",
        "triangular_solve_f32", "householder_qr_f32", "viterbi_f32", "smith_waterman_i32", "helper_effects",
    }
)  # fmt: skip
