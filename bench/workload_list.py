"""What the GPU benchmark times: kernels, shapes, and what is special about them. `workloads.py` writes it as JSON.

Shapes are those of the corpus's table where it names one; the others move tens of megabytes or more. A line's options: ``flops`` (a
formula over the sizes) with ``rate``, the dtype whose matrix rate bounds it; ``peers`` (E eager, C torch.compile, L library); ``data``
(see `contents`), ``scalars`` and ``constexprs`` instead of those of the tests; ``touched``: elements of a view that a launch reads or
writes at all, where that is not the whole view; ``permit``: numerical permissions of the compile call; ``note``.
"""

from __future__ import annotations

from typing import Any

Line = tuple[str, dict[str, int], dict[str, Any]]


def line(kernel: str, shapes: dict[str, int], **options: Any) -> Line:
    return kernel, shapes, options


SQUARE = {"M": 8192, "N": 8192}
TENSOR = {"A": 128, "B": 4096, "C": 4095}
CUBE = {"M": 4096, "N": 4096, "K": 4096}
ROWS = {"M": 32768, "N": 4096}
HALF = {"M": 16384, "N": 8192}
LOGITS = {"M": 8192, "N": 131072}
MANY = 1 << 26
#: masked blocks of scores and weights are skipped: their float products have a factor zero, the other of which may be infinite or NaN
ZERO = "zero_products"
NEAR_ONE = {"X": {"signed": [0.99, 1.01]}}

DENSE: list[Line] = [
    line("relu_f32", {"M": 4096, "N": 393216}, peers="E C"),
    *(line(k, SQUARE, peers="E C") for k in ("swish_f32", "gelu_tanh_f32", "gelu_erf_f32", "bias_gelu_residual_bf16")),
    *(line(k, {"M": 8192, "N": 32768}, peers="E C") for k in ("swiglu_bf16", "geglu_bf16")),
    line("rope_half_bf16", {"B": 4, "S": 4096, "H": 32, "D": 128}, peers="E C"),
    line("rope_interleaved_bf16", {"B": 4, "S": 4096, "H": 32, "P": 64}, peers="E C"),
    line("transpose_add_f32", SQUARE, peers="E C"),
    *(line(k, {"M": 4096, "N": 393216}, peers="E C") for k in ("softmax_f32", "log_softmax_f32")),
    *(line(k, ROWS, peers="E C") for k in ("softmax_bf16", "log_softmax_bf16")),
    line("layer_norm_bf16", {"M": 262144, "N": 4096}, peers="E C"),
    *(line(k, HALF, peers="E C") for k in ("rms_norm_bf16", "fused_add_rms_norm_bf16")),
    line("group_norm_f32", {"N": 112, "G": 8, "C": 8, "L": 262144}, peers="E C"),
    line("instance_norm_f32", {"N": 112, "C": 64, "H": 512, "W": 512}, peers="E C"),
    line("global_max_pool_f32", {"N": 112, "C": 64, "H": 512, "W": 512}, peers="E C"),
    line("batch_norm_infer_f32", {"N": 112, "C": 64, "L": 262144}, peers="E C"),
    line("layer_norm_backward_dx_bf16", ROWS, peers="E C"),
    line("softmax_backward_bf16", ROWS, peers="E C"),
    line("layer_norm_backward_dwdb_bf16", {"P": 128, "R": 256, "N": 4096}, peers="E C"),
    line("sum_parts_f32", {"P": 2048, "N": 16384}, peers="E C"),
    *(line(f"{fn}_{where}_f32", TENSOR, peers="E C") for fn in ("sum", "mean", "max", "any") for where in ("inner", "middle", "outer")),
    *(line(f"prod_{where}_f32", TENSOR, peers="E C", data=NEAR_ONE) for where in ("inner", "middle", "outer")),
    *(line(f"{fn}_f32", TENSOR, peers="E C") for fn in ("argmax_inner", "argmax_middle", "argmin_inner", "argmin_outer")),
    line("min_index_inner_f32", TENSOR, peers="E C"),
    line("variance_f32", {"M": 32768, "N": 8192}, peers="E C"),
    *(line(k, LOGITS, peers="E C") for k in ("logsumexp_bf16", "cross_entropy_bf16", "kl_div_bf16")),
    line("mse_partials_bf16", {"P": 8192, "R": 131072}, peers="E C"),
    *(line(k, {"N": 1 << 28}, peers="E C") for k in ("adamw_f32", "sgd_momentum_f32")),
    *(line(k, HALF, peers="C") for k in ("fp8_quantize_per_token", "rms_norm_fp8")),
    line("fp8_quantize_per_group", {"M": 16384, "G": 64}, peers="C"),
    line("two_outputs", {"M": 8192, "N": 8192, "L": 1 << 20}),
    *(
        line(k, SQUARE)
        for k in (
            "empty_output", "three_reductions", "add_in_place", "parallel_rows", "narrow_round_trip", "constexpr_epsilon", "integer_mix",
            "column_scale",
        )
    ),
    *(line(k, {"N": MANY}) for k in ("add_in_place_strided", "shift", "shift_in_place")),
    line("parallel_points", {"N": MANY}, touched={"Y": "N//2"}),
    line("reshape_heads", {"T": 16384, "H": 32, "D": 128}),
]  # fmt: skip

SCANS: list[Line] = [
    *(line(k, {"M": 32768, "N": 32768}, peers="E C") for k in ("cumsum_f32", "cumsum_exclusive_f32", "cumsum_reverse_f32", "cummax_f32")),
    line("linear_recurrence_f32", {"B": 8, "T": 2048, "C": 4096}),
    line("segmented_scan_rows_f32", {"M": 16384, "N": 4096}),
    line("segmented_parts_i32", {"P": 8192, "R": 8192}),
    line("segmented_carries_i32", {"P": 8192}, note="one row: as long as one program takes"),
    line("segmented_apply_i32", {"P": 8192, "R": 8192}),
    line("scan_running_sum", {"N": 1 << 20}, peers="E"),
    line("top_k_f32", {"M": 4096, "N": 4096, "K": 8}, peers="E C"),
    line("bitonic_sort_rows_f32", {"M": 4096}, constexprs={"width": 4096}, peers="E"),
    line("nucleus_partials_f32", SQUARE, peers="E C"),
    line("unique_consecutive_flags_i32", {"N": MANY}, peers="E"),
    line("unique_consecutive_parts_i32", {"P": 8192, "R": 8192}, touched={"Y": "2*P*R//3"}),
    line("nonzero_counts_i32", {"P": 8192, "R": 8192}, peers="E"),
    line("nonzero_offsets_i32", {"P": 65536}, peers="E", note="one row: as long as one program takes"),
    line("nonzero_positions_i32", {"P": 8192, "R": 8192, "N": MANY}, peers="E", touched={"Y": "2*P*R//3"}),
]

#: kernel, shapes, flops, dtype of the matrix rate
_GEMMS: list[tuple[str, dict[str, int], str, str]] = [
    ("gemm_nn_bf16", CUBE, "2*M*N*K", "bf16"),
    ("gemm_nn_bf16", {"M": 8192, "N": 8192, "K": 8192}, "2*M*N*K", "bf16"),
    ("gemm_nn_bf16", {"M": 4096, "N": 4096, "K": 4095}, "2*M*N*K", "bf16"),
    ("gemm_nt_bf16", CUBE, "2*M*N*K", "bf16"),
    ("gemm_tn_bf16", CUBE, "2*M*N*K", "bf16"),
    ("gemm_bias_gelu_bf16", {"M": 8192, "N": 8192, "K": 4096}, "2*M*N*K", "bf16"),
    ("dual_gemm_swiglu_bf16", {"M": 8192, "N": 8192, "K": 4096}, "4*M*N*K", "bf16"),
    ("batched_gemm_bf16", {"P": 128, "M": 512, "N": 1024, "K": 2048}, "2*P*M*N*K", "bf16"),
    ("head_gemm_bf16", {"T": 512, "H": 128, "D": 2048, "E": 1024}, "2*T*H*D*E", "bf16"),
    ("gemm_f32", CUBE, "2*M*N*K", "f32"),
    ("gemm_i8", CUBE, "2*M*N*K", "i8"),
    ("gemm_fp8", CUBE, "2*M*N*K", "f8e4m3fn"),
    ("gemv_bf16", {"M": 8192, "K": 8192}, "2*M*K", "bf16"),
    ("skinny_gemm_bf16", {"M": 16, "N": 8192, "K": 8192}, "2*M*N*K", "bf16"),
]
PRODUCTS: list[Line] = [
    *(line(k, shapes, flops=flops, rate=rate, peers="L C") for k, shapes, flops, rate in _GEMMS),
    *(line("weight_only_int4_bf16", {"M": m, "N": 8192, "G": 64}, flops="2*M*N*G*128", rate="bf16", peers="E C") for m in (16, 4096)),
    line("scaled_gemm_mxfp8", {"M": 4096, "N": 4096, "G": 128}, flops="2*M*N*G*32", rate="f8e4m3fn"),
    line("scaled_gemm_nvfp4", {"M": 4096, "N": 4096, "G": 256}, flops="2*M*N*G*16", rate="f8e4m3fn"),
    line("sparse_2to4_gemm_f16", {"M": 4096, "N": 4096, "G": 1024}, flops="4*M*N*G", rate="f16"),
    line("sparse_1to2_gemm_f32", {"M": 2048, "N": 2048, "G": 1024}, flops="2*M*N*G", rate="f32"),
    line("q8k_quantize", {"R": 65536}),
    line("q4k_gemv", {"N": 4096, "R": 16}),
    line("q4k_gemv", {"N": 16384, "R": 64}),
    line("conv2d_direct_f16", {"B": 64, "C": 64, "H": 128, "W": 128, "O": 64}, flops="18*B*O*H*W*C", rate="f16", peers="L C"),
    line("depthwise_causal_conv1d_bf16", {"B": 8, "T": 4096, "C": 2048}, peers="E L C"),
    line("max_pool2d_f32", {"B": 64, "C": 64, "H": 128, "W": 128, "P": 64, "Q": 64}, peers="E C"),
    line("kmeans_assign_f32", {"M": 1_000_000, "N": 1024, "K": 64}, flops="2*M*N*K", rate="f32", peers="E C"),
    line("pairwise_distance_f32", {"M": 16384, "N": 8192, "K": 64}, flops="2*M*N*K", rate="f32", peers="E C"),
    line("contract_of_scan", {"M": 2048, "N": 2048, "K": 2048}, flops="2*M*N*K", rate="f32", peers="E"),
]

_HEADS = {"B": 4, "H": 32, "S": 4096, "T": 4096, "D": 128}
_TRAINING = {"B": 4, "H": 32, "S": 2048, "D": 128}
_SCALE = {"scale": 0.08838834764831845}
_LSE: dict[str, Any] = {"scalars": _SCALE, "data": {"LSE": {"uniform": [7.5, 8.5]}}, "permit": (ZERO,)}
_LENGTHS = (8192, 6144, 4096, 4096, 3072, 2048, 1024, 512)
_SSM = {"B": 8, "C": 16, "L": 256, "H": 80, "P": 64, "N": 128}
_DELTA = {"B": 8, "H": 80, "C": 64, "D": 128, "E": 64, "L": 64}
MODELS: list[Line] = [
    line("attention_fwd_bf16", _HEADS, flops="4*B*H*S*T*D", rate="bf16", peers="L", scalars=_SCALE),
    line("attention_causal_bf16", _HEADS, flops="2*B*H*S*(T+1)*D", rate="bf16", peers="L", scalars=_SCALE, permit=(ZERO,)),
    line(
        "attention_window_bf16", _HEADS, flops="4*B*H*S*window*D", rate="bf16", peers="L", scalars={**_SCALE, "window": 1024},
        permit=(ZERO,),
    ),
    line("attention_bias_bf16", _HEADS, flops="4*B*H*S*T*D", rate="bf16", peers="L", scalars=_SCALE),
    line(
        "attention_gqa_bf16", {"B": 4, "H": 8, "G": 4, "S": 4096, "T": 4096, "D": 128}, flops="2*B*H*G*S*(T+1)*D", rate="bf16", peers="L",
        scalars=_SCALE, permit=(ZERO,),
    ),
    line("softmax_attention_bf16", {**_HEADS, "S": 1024, "T": 1024}, flops="2*B*H*S*(T+1)*D", rate="bf16", peers="L", scalars=_SCALE),
    line(
        "attention_decode_paged_bf16", {"B": 32, "H": 8, "G": 4, "D": 128, "P": 64, "pages": 4096, "slots": 128}, peers="L", scalars=_SCALE,
        data={"table": {"permuted": "pages"}, "lengths": {"constant": 8192}}, flops="4*B*H*G*P*128*D", rate="bf16",
    ),
    line("key_norm_attention_f32", {"S": 8192, "T": 8192, "D": 128}, flops="4*S*T*D", rate="f32", peers="E C", scalars=_SCALE),
    line("alibi_attention_bf16", {"H": 64, "S": 1024, "T": 1024, "D": 128}, flops="4*H*S*T*D", rate="bf16", peers="E C", scalars=_SCALE),
    line("keys_to_cache_bf16", {"T": 65536, "H": 32, "D": 128}, peers="E C"),
    line("attention_combine_bf16", {"B": 32, "H": 8, "G": 4, "D": 128, "P": 64}, peers="E"),
    line(
        "varlen_attention_bf16", {"T": sum(_LENGTHS), "H": 32, "D": 128, "E": len(_LENGTHS) + 1}, peers="L", rate="bf16", scalars=_SCALE,
        flops=f"2*H*D*{sum(n * n for n in _LENGTHS)}",
        data={"offsets": {"bounds": [sum(_LENGTHS[:i]) for i in range(len(_LENGTHS) + 1)]}},
    ),
    line(
        "mla_decode_bf16", {"B": 64, "H": 128, "T": 4096, "C": 512, "R": 64}, flops="2*B*H*T*(2*C+R)", rate="bf16", peers="E C",
        scalars={"scale": 576**-0.5}, data={"lengths": {"constant": "T"}}, permit=(ZERO,),
        note="lengths are data: predicted for half of T",
    ),
    line("attention_delta_bf16", {**_TRAINING, "S": 4096}, peers="E C"),
    line("attention_backward_dq_bf16", _TRAINING, flops="3*B*H*S*(S+1)*D", rate="bf16", peers="L", **_LSE),
    line("attention_backward_dkdv_bf16", _TRAINING, flops="4*B*H*S*(S+1)*D", rate="bf16", peers="L", **_LSE),
    line("linear_attention_causal_bf16", {"B": 8, "H": 32, "S": 4096, "D": 128, "E": 128}, flops="4*B*H*S*D*E", rate="bf16"),
    line("mamba2_chunk_state_bf16", _SSM, flops="2*B*C*L*H*P*N", rate="bf16", peers="E C"),
    line("mamba2_state_passing_f32", {k: v for k, v in _SSM.items() if k != "L"}, peers="E"),
    line("mamba2_chunk_scan_bf16", _SSM, flops="B*C*L*(L+1)*(N+H*P)+2*B*C*L*H*P*N", rate="bf16", peers="E C", permit=(ZERO,)),
    line(
        "gated_delta_prepare_f32", _DELTA, flops="B*H*C*L*(L+1)*(2*D+E)+B*H*C*L*L*L//3", rate="f32",
        data={"K": {"uniform": [-0.15, 0.15]}},
    ),
    line(
        "gated_delta_rule_f32", _DELTA, flops="2*B*H*C*(3*L*D*E+L*(L+1)//2*(D+E))", rate="f32",
        data={"K": {"uniform": [-0.15, 0.15]}, "W": {"uniform": [-0.02, 0.02]}},
    ),
]  # fmt: skip

_TRIANGLE = {"M": 4096, "N": 4096, "P": 4096}
BANDS: list[Line] = [
    line("triangle_sums_f32", {"M": 16384, "N": 16384}, touched={"X": "M*(N+1)//2"}),
    line("triangular_gemm_bf16", _TRIANGLE, flops="M*(N+1)*P", rate="bf16", touched={"L": "M*(N+1)//2"}, permit=(ZERO,)),
    line("triangular_gemm_i8", _TRIANGLE, flops="M*(N+1)*P", rate="i8", touched={"L": "M*(N+1)//2"}),
    line("sliding_mean_f32", SQUARE, scalars={"width": 64}),
    line("banded_matvec_f32", {"M": 32768, "N": 32768}, scalars={"below": 512, "above": 255}, touched={"A": "M*(below+above+1)"}),
]

_GROUPS = {"offsets": {"jittered": "N"}}
_JAGGED = {"N": 4096 * 512, "D": 128}
_MATRIX = {"R": 1_000_000, "E": 1_000_001, "N": 20_000_000, "C": 1_000_000}
RAGGED: list[Line] = [
    line("embedding_bf16", {"T": 65536, "V": 131072, "D": 4096}, peers="E C", touched={"W": "T*D"}),
    line("embedding_backward_f32", {"T": 65536, "V": 131072, "D": 4096}, peers="E C", touched={"DW": "min(T,V)*D"}),
    line("index_add_f32", {"T": 65536, "V": 131072, "D": 1024}, peers="E C", touched={"Y": "min(T,V)*D"}),
    line("csr_spmv_f32", _MATRIX, peers="L", data=_GROUPS),
    line("csr_spmm_f32", {**_MATRIX, "D": 32}, peers="L", data=_GROUPS),
    line("jagged_mean_f32", {"G": 4096, "E": 4097, **_JAGGED}, peers="E C", data=_GROUPS),
    line("jagged_softmax_f32", {**_JAGGED, "E": 4097}, peers="E C", data=_GROUPS),
    line("segment_max_f32", {"G": 65536, "E": 65537, "N": MANY}, peers="E C", data=_GROUPS),
    line("segment_max_scattered_i32", {"N": 1 << 24, "G": 65536}, peers="E"),
    line(
        "moe_grouped_gemm_bf16", {"T": 262144, "D": 2048, "N": 768, "X": 128, "E": 129}, flops="2*T*D*N", rate="bf16", peers="E L",
        data={"offsets": {"jittered": "T"}},
    ),
    line("moe_align", {"T": 32768, "X": 128}, note="one program"),
    line("moe_count", {"P": 4096, "R": 4096, "X": 128}, peers="E"),
    line("moe_sort", {"T": 65536, "D": 2048}, peers="E"),
    line("histogram_global_u8", {"P": 16384, "R": 16384}, peers="E"),
    line("histogram_parts_i32", {"P": 8192, "R": 8192}),
    line("histogram_scattered_u32", {"N": 1 << 24}),
    line("reduce_then_scatter", {"A": 128, "B": 4096, "C": 1024, "V": 1024}, peers="E"),
]  # fmt: skip

PROGRAMS: list[Line] = [
    line("dropout_bf16", {"N": 1 << 28}, peers="E C"),
    line("dropout_add_rms_norm_bf16", HALF, peers="E C"),
    line("monte_carlo_pi_partials", {"P": 32768}, scalars={"draws": 32768}),
    line("random_words_u32", {"M": 8192, "N": 16384}),
    line("fft_radix2_f32", {"M": 65536}, constexprs={"width": 1024, "bits": 10}, peers="L"),
    line("haar_f32", {"M": 65536}, constexprs={"width": 1024}),
    line("cholesky_f32", {"B": 16384, "N": 32}, peers="L"),
    line("triangular_solve_f32", {"B": 16384, "N": 32, "R": 32}, peers="L"),
    line("householder_qr_f32", {"B": 16384, "N": 32}, peers="L"),
    line("viterbi_f32", {"B": 4096, "S": 32, "T": 128}, peers="E"),
    line("smith_waterman_i32", {"B": 4096, "M": 128, "N": 128}),
    line("collatz_i64", {"N": 1 << 24}, data={"X": {"range": [-3, 1_000_000]}}),
    line("newton_sqrt_f32", {"N": 1 << 24}),
    line("skip_and_stop_i32", {"M": 65536, "N": 1024}, touched={"X": "190*M"}, note="rows end at their first zero"),
    *(
        line(k, {"N": 1 << 20, "S": 1 << 18}, note="later launches find what the first left")
        for k in ("claim_slots_i32", "first_arrivals_u32")
    ),
    line("bit_flags_u32", {"N": 1 << 20, "S": 1 << 15}),
    *(line(k, {"N": 1 << 20}) for k in ("tickets_i32", "publish_i32")),
    *(
        line(k, SQUARE)
        for k in (
            "helper_records", "approximate_sigmoid", "fold_sum_rows", "fold_last_place", "sign_and_fma", "arg_reduce_rows",
            "fold_with_epilogue",
        )
    ),
    line("helper_coordinates", {"M": 1 << 24}),
    line("helper_effects", {"M": 1024, "N": 1024}, note="rows in order: one program"),
    line("carried_record", {"M": 65536, "N": 512}),
    line("iteration_private_buffer", {"M": 65536, "N": 256}),
    line("iteration_private_unwritten", {"M": 512, "N": 4096}, note="rows in order: one program"),
    line("private_counts", SQUARE),
    line("private_permuted", {"M": 16384, "N": 4096}),
    line("workspace_transpose", {"M": 4096, "N": 4096}),
    line("workspace_counts", {"N": 1 << 22}),
    line("split_subregions", {"N": MANY}, scalars={"cut": (1 << 25) + 3}),
]  # fmt: skip

LINES = [*DENSE, *SCANS, *PRODUCTS, *MODELS, *BANDS, *RAGGED, *PROGRAMS]
#: the lines that an issue names: first in a run
NAMED = (
    "attention_fwd_bf16", "attention_causal_bf16", "attention_decode_paged_bf16", "varlen_attention_bf16", "mamba2_chunk_scan_bf16",
    "moe_grouped_gemm_bf16", "csr_spmv_f32", "cross_entropy_bf16", "softmax_bf16", "rms_norm_bf16", "bias_gelu_residual_bf16",
    "sum_inner_f32", "sum_middle_f32", "layer_norm_bf16", "gemm_nn_bf16", "gemm_bias_gelu_bf16",
)  # fmt: skip
