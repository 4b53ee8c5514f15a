#!/usr/bin/env python3
"""`python bench/workloads.py`: write `bench/workloads.json`, the fixed list of what the GPU benchmark times.

An entry: name, kernel and its file, shapes, views, scalars, peers (E eager, C torch.compile, L library call), bytes (each view read or
written once) and, for contractions, flops and the dtype whose matrix rate bounds them. `priority` 1 are the lines of the issue.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from corpus.build import kernels  # noqa: E402
from corpus.shapes import entry_of  # noqa: E402
from eqkir.base.dtypes import itemsize  # noqa: E402

#: kernel, shapes
BANDWIDTH: list[tuple[str, dict[str, int]]] = [
    ("relu_f32", {"M": 4096, "N": 393216}),
    *((k, {"M": 8192, "N": 8192}) for k in ("swish_f32", "gelu_tanh_f32", "gelu_erf_f32", "bias_gelu_residual_bf16")),
    *((k, {"M": 8192, "N": 32768}) for k in ("swiglu_bf16", "geglu_bf16")),
    ("transpose_add_f32", {"M": 8192, "N": 8192}),
    *((k, {"M": 4096, "N": 393216}) for k in ("softmax_f32", "log_softmax_f32")),
    *((k, {"M": 32768, "N": 4096}) for k in ("softmax_bf16", "log_softmax_bf16")),
    ("layer_norm_bf16", {"M": 262144, "N": 4096}),
    *((k, {"M": 16384, "N": 8192}) for k in ("rms_norm_bf16", "fused_add_rms_norm_bf16")),
    *(
        (f"{fn}_{where}_f32", {"A": 128, "B": 4096, "C": 4095})
        for fn in ("sum", "mean", "max", "prod", "any")
        for where in ("inner", "middle", "outer")
    ),
    *(
        (k, {"A": 128, "B": 4096, "C": 4095})
        for k in ("argmax_inner_f32", "argmax_middle_f32", "argmin_inner_f32", "argmin_outer_f32", "min_index_inner_f32")
    ),
    ("variance_f32", {"M": 32768, "N": 8192}),
]
CUBE = {"M": 4096, "N": 4096, "K": 4096}
#: kernel, shapes, flops as a formula over the symbols, dtype of the matrix rate
CONTRACT: list[tuple[str, dict[str, int], str, str]] = [
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
ISSUE = (
    "softmax_bf16", "rms_norm_bf16", "bias_gelu_residual_bf16", "sum_inner_f32", "sum_middle_f32", "layer_norm_bf16", "gemm_nn_bf16",
    "gemm_bias_gelu_bf16",
)  # fmt: skip


def entry(kernel: str, shapes: dict[str, int], flops: str | None = None, dtype: str | None = None) -> dict[str, Any]:
    """One workload."""
    facts = entry_of(kernels()[kernel])
    size = 0
    for v in facts["views"].values():
        n = math.prod(shapes[e] if isinstance(e, str) else e for e in v["shape"]) * itemsize(v["dtype"])
        size += 2 * n if v["role"] == "inout" else n
    out: dict[str, Any] = {
        "name": f"{kernel}-{'x'.join(str(n) for n in shapes.values())}",
        "kernel": kernel,
        "file": f"corpus/json/{kernel}.json",
        "shapes": shapes,
        "views": facts["views"],
        "scalars": facts["scalars"],
        "peers": "L C" if flops else "E C",
        "bytes": size,
    }
    if flops:
        out |= {"flops_formula": flops, "flops": int(eval(flops, {}, dict(shapes))), "flop_dtype": dtype}
    if kernel in ISSUE and (kernel != "gemm_nn_bf16" or shapes == CUBE):
        out["priority"] = 1
    return out


def text() -> str:
    """The JSON, one workload on a line."""
    rows = [entry(*w) for w in [*BANDWIDTH, *CONTRACT]]
    return '{"workloads": [\n' + ",\n".join(json.dumps(r) for r in rows) + "\n]}\n"


if __name__ == "__main__":
    (HERE / "workloads.json").write_text(text(), encoding="utf-8")
