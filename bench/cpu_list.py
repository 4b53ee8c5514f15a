"""What the CPU benchmark times, fixed beforehand: kernels of the corpus and their extents. Contents, scalars and formulas are those of the
GPU benchmark's line of the same kernel (`workload_list.py`); sizes move one to a few hundred megabytes, or fit the caches where noted.

Kernels whose numbers numpy does not have (bf16) or cannot compute (erf) have no numpy peer.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

ITEMSIZE = {"bool": 1, "i8": 1, "u8": 1, "i16": 2, "u16": 2, "f16": 2, "bf16": 2, "i32": 4, "u32": 4, "f32": 4}

SQUARE = {"M": 4096, "N": 4096}
ROWS = {"M": 8192, "N": 2048}
TENSOR = {"A": 64, "B": 512, "C": 1024}
IMAGE = {"N": 16, "C": 64, "H": 128, "W": 128}

#: kernel, extents, whether memory alone should bound it
LIST: list[tuple[str, dict[str, int], bool]] = [
    ("relu_f32", SQUARE, True), ("swish_f32", SQUARE, True), ("gelu_tanh_f32", SQUARE, True), ("gelu_erf_f32", SQUARE, True),
    ("softmax_f32", ROWS, True), ("log_softmax_f32", ROWS, True),
    ("batch_norm_infer_f32", {"N": 16, "C": 64, "L": 16384}, True), ("group_norm_f32", {"N": 16, "G": 8, "C": 8, "L": 16384}, True),
    ("instance_norm_f32", IMAGE, True), ("global_max_pool_f32", IMAGE, True),
    ("sum_inner_f32", TENSOR, True), ("sum_middle_f32", TENSOR, True), ("sum_outer_f32", TENSOR, True), ("mean_inner_f32", TENSOR, True),
    ("max_inner_f32", TENSOR, True), ("max_outer_f32", TENSOR, True), ("prod_inner_f32", TENSOR, True), ("argmax_inner_f32", TENSOR, False),
    ("variance_f32", ROWS, True), ("cumsum_f32", ROWS, False), ("cummax_f32", ROWS, False),
    ("transpose_add_f32", SQUARE, False), ("adamw_f32", {"N": 1 << 22}, True), ("sgd_momentum_f32", {"N": 1 << 22}, True),
    ("add_in_place", SQUARE, True), ("three_reductions", SQUARE, True), ("column_scale", SQUARE, True), ("integer_mix", SQUARE, True),
    ("sign_and_fma", SQUARE, True), ("two_outputs", {"M": 4096, "N": 4096, "L": 1 << 20}, True),
    ("gemm_f32", {"M": 512, "N": 512, "K": 512}, False), ("gemm_f32", {"M": 1024, "N": 1024, "K": 1024}, False),
    ("gemm_f32", {"M": 2048, "N": 2048, "K": 2048}, False), ("pairwise_distance_f32", {"M": 2048, "N": 1024, "K": 64}, False),
    ("max_pool2d_f32", {"B": 8, "C": 32, "P": 64, "Q": 64, "H": 128, "W": 128}, False),
    ("softmax_bf16", ROWS, True), ("layer_norm_bf16", ROWS, True), ("rms_norm_bf16", ROWS, True), ("swiglu_bf16", SQUARE, True),
    ("gemm_nn_bf16", {"M": 512, "N": 512, "K": 512}, False), ("gemv_bf16", {"M": 8192, "K": 4096}, True),
    ("relu_f32", {"M": 64, "N": 256}, False), ("softmax_f32", {"M": 32, "N": 128}, False),
]  # fmt: skip


def entries() -> list[dict[str, Any]]:
    """The workloads as `workloads.json` describes them, at the extents of the list, with the bytes that a call moves."""
    known: dict[str, dict[str, Any]] = {}
    for w in json.loads((Path(__file__).parent / "workloads.json").read_text(encoding="utf-8"))["workloads"]:
        known.setdefault(w["kernel"], w)
    out = []
    for kernel, shapes, bound in LIST:
        w = known[kernel]
        if set(shapes) != set(w["shapes"]):
            raise ValueError(f"{kernel} has the extents {sorted(w['shapes'])}")
        moved = sum(
            math.prod(shapes[e] if isinstance(e, str) else e for e in v["shape"])
            * (8 if v["dtype"] in ("i64", "u64", "f64", "index") else ITEMSIZE[v["dtype"]]) * (2 if v["role"] == "inout" else 1)
            for v in w["views"].values()
        )  # fmt: skip
        name = f"{kernel}-{'x'.join(str(n) for n in shapes.values())}"
        out.append({**w, "name": name, "shapes": shapes, "bytes": moved, "memory": bound})
    return out
