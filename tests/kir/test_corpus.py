"""The corpus: files up to date, every kernel sound, and computing what its name says."""

from __future__ import annotations

import importlib.util
import json
import math
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from corpus.build import every, helpers, kernels, pending, stale
from corpus.data import overrides
from eqkir.base.dtypes import NUMPY
from eqkir.kir import Kernel, View
from eqkir.kir.helpers import Library, inline, library
from eqkir.kir.model import Constexpr
from eqkir.kir.reference import ViewArg, run
from eqkir.kir.verify import check_kernel
from tests.kir import formulas_dense, formulas_ordered

ROOT = Path(__file__).parents[2]
ENTRIES = {k: v for n in ("corpus", "pending") for k, v in json.loads((ROOT / "tests" / f"{n}_shapes.json").read_text()).items()}
KERNELS = every()
LIBRARY: Library = library(tuple({h.name: h for r in helpers().values() for h in (*r.calls, r.helper)}.values()))


def test_the_committed_json_is_what_the_scripts_give() -> None:
    assert stale() == []


def test_the_committed_workloads_are_what_the_script_gives() -> None:
    spec = importlib.util.spec_from_file_location("workloads", ROOT / "bench" / "workloads.py")
    assert spec and spec.loader
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert (ROOT / "bench" / "workloads.json").read_text(encoding="utf-8") == script.text()


def test_test_shapes_are_small_and_odd() -> None:
    assert set(kernels()) | set(pending()) == set(ENTRIES) and not set(kernels()) & set(pending())
    for name, k in KERNELS.items():
        rows = ENTRIES[name]["test"]
        sizes = {p.id: p.default for p in k.params if isinstance(p, Constexpr) and p.type == "int"}
        assert len(rows) >= 4 and any(0 in r.values() for r in rows) and any(1 in r.values() for r in rows)
        for r in rows:
            assert all(s.min <= r[s.id] <= (s.max or 10**9) and r[s.id] % s.multiple_of == 0 for s in k.symbols)
            for p in k.params:
                if isinstance(p, View):
                    assert math.prod({**sizes, **r}[e] if isinstance(e, str) else e for e in p.shape) <= 4000


def test_all_but_the_named_kernels_declare_noalias() -> None:
    bare = {n for n, k in KERNELS.items() if not k.noalias and sum(isinstance(p, View) for p in k.params) > 1}
    assert bare == {"shift"}


@pytest.mark.parametrize("name", KERNELS)
def test_every_kernel_verifies(name: str) -> None:
    assert check_kernel(KERNELS[name], helpers=LIBRARY)


# ------------------------------------------------------------------------------------------------ meaning
def sigmoid(x: Any) -> Any:
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-x))


def erf(x: Any) -> Any:
    return np.vectorize(math.erf, otypes=[np.float64])(x) if x.size else x


def gelu(x: Any) -> Any:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(1, keepdims=True, initial=-np.inf))
    return e / e.sum(1, keepdims=True)


def log_softmax(x: Any) -> Any:
    d = x - x.max(1, keepdims=True, initial=-np.inf)
    return d - np.log(np.exp(d).sum(1, keepdims=True))


def normalised(x: Any) -> Any:
    return (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)


def rms(x: Any) -> Any:
    return x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-5)


def residual(t: Any) -> Any:
    return (t["X"] + t["R"]).astype(ml_dtypes.bfloat16).astype(np.float64)


AXIS = {"outer": 0, "middle": 1, "inner": 2}
REDUCE = {
    "sum": np.sum, "mean": np.mean, "prod": np.prod, "max": lambda x, axis: x.max(axis, initial=-np.inf),
    "any": lambda x, axis: (x != 0).any(axis),
}  # fmt: skip
WANT: dict[str, Any] = {
    "relu_f32": lambda t: np.maximum(t["X"], 0), "swish_f32": lambda t: t["X"] * sigmoid(t["X"]), "gelu_tanh_f32": lambda t: gelu(t["X"]),
    "gelu_erf_f32": lambda t: 0.5 * t["X"] * (1 + erf(t["X"] / math.sqrt(2))),
    "bias_gelu_residual_bf16": lambda t: gelu(t["X"] + t["B"]) + t["R"], "swiglu_bf16": lambda t: t["A"] * sigmoid(t["A"]) * t["B"],
    "geglu_bf16": lambda t: gelu(t["A"]) * t["B"], "transpose_add_f32": lambda t: t["A"] + t["B"].T,
    **{f"softmax_{d}": lambda t: softmax(t["X"]) for d in ("f32", "bf16")},
    **{f"log_softmax_{d}": lambda t: log_softmax(t["X"]) for d in ("f32", "bf16")},
    "layer_norm_bf16": lambda t: normalised(t["X"]) * t["W"] + t["B"], "rms_norm_bf16": lambda t: rms(t["X"]) * t["W"],
    "fused_add_rms_norm_bf16": lambda t: {"R": residual(t), "Y": rms(residual(t)) * t["W"]},
    **{f"{f}_{w}_f32": (lambda t, g=g, a=a: g(t["X"], axis=a)) for f, g in REDUCE.items() for w, a in AXIS.items()},
    **{f"{f}_{w}_f32": (lambda t, f=f, a=a: getattr(t["X"], f)(a)) for f in ("argmax", "argmin") for w, a in AXIS.items()},
    "min_index_inner_f32": lambda t: {"Y": t["X"].min(2), "I": t["X"].argmin(2)},
    "variance_f32": lambda t: {"Y": t["X"].var(1), "U": t["X"].mean(1) if t["X"].shape[1] else np.zeros(len(t["X"]))},
    **dict.fromkeys(("gemm_nn_bf16", "gemm_f32", "gemm_i8", "skinny_gemm_bf16", "batched_gemm_bf16"), lambda t: t["A"] @ t["B"]),
    **dict.fromkeys(("gemm_nt_bf16", "gemm_fp8"), lambda t: t["A"] @ t["B"].T), "gemm_tn_bf16": lambda t: t["A"].T @ t["B"],
    "gemv_bf16": lambda t: t["A"] @ t["X"], "gemm_bias_gelu_bf16": lambda t: gelu(t["A"] @ t["B"] + t["bias"]),
    "dual_gemm_swiglu_bf16": lambda t: (g := t["A"] @ t["G"]) * sigmoid(g) * (t["A"] @ t["U"]),
    "head_gemm_bf16": lambda t: np.einsum("thd,hde->the", t["X"], t["W"]),
    "two_outputs": lambda t: {"Y": t["X"] * 2, "V": np.exp(t["U"])}, "empty_output": lambda t: {"Y": t["X"].sum(1), "E": t["Z"] + 1},
    "three_reductions": lambda t: {"S": t["X"].sum(1), "T": t["X"].max(0, initial=-np.inf), "Y": t["X"] / 2},
    "add_in_place": lambda t: {"X": t["X"] + 1},
    "add_in_place_strided": lambda t: {"X": np.where(np.arange(t["X"].size) % 2 == 0, t["X"] * 3 + 1, t["X"])},
    "shift": lambda t: np.concatenate([[0], t["X"]])[:-1] if t["X"].size else t["X"],
    "shift_in_place": lambda t: {"X": np.concatenate([[-1], t["X"]])[: t["X"].size]},
    "parallel_rows": lambda t: {"S": t["X"].sum(1), "Y": t["X"] - t["X"].sum(1, keepdims=True)},
    "parallel_points": lambda t: np.where(np.arange(t["X"].size) % 2 == 1, t["X"] + np.append(t["X"][1:], 7)[: t["X"].size], t["Y"]),
    "reshape_heads": lambda t: (y := t["X"] * t["W"]) / np.sqrt((y * y).sum(2, keepdims=True)),
    "narrow_round_trip": lambda t: t["X"].astype(np.float16).astype(np.float64) * 2,
    "constexpr_epsilon": lambda t: t["X"] / np.sqrt((t["X"] ** 2).mean(1, keepdims=True) + 1e-6),
    "integer_mix": lambda t: {
        "Y": (t["X"] // 7) * 16 + (t["X"] % -5) - (t["X"] >> 3) + ((t["X"] & 0xFF) ^ (t["X"] << 2)),
        "Z": ((t["X"] % 256) >> 1) | 0x80,
    },
    "column_scale": lambda t: t["X"][:, ::-1] + t["U"][:, None] * t["V"],
}  # fmt: skip


WANT |= formulas_dense.WANT | formulas_ordered.WANT
#: kernel -> how much wider than for one operation the allowed difference is: long sums, recurrences, intermediate roundings
WIDER = {
    "newton_sqrt_f32": 4, "householder_qr_f32": 20, "gated_delta_prepare_f32": 4, "gated_delta_rule_f32": 8, "cholesky_f32": 2,
    "scaled_gemm_nvfp4": 20, "scaled_gemm_mxfp8": 4, "pairwise_distance_f32": 40, "adamw_f32": 4, "rms_norm_fp8": 10,
    "fp8_quantize_per_token": 4, "fp8_quantize_per_group": 4, "attention_backward_dq_bf16": 4, "attention_backward_dkdv_bf16": 4,
    "attention_decode_paged_bf16": 4000, "linear_attention_causal_bf16": 8, "weight_only_int4_bf16": 40, "mamba2_chunk_scan_bf16": 4,
    "mamba2_chunk_state_bf16": 4000, "conv2d_direct_f16": 4, "helper_records": 8, "carried_record": 4, "batch_norm_infer_f32": 4,
}  # fmt: skip


def inputs(k: Kernel, entry: dict[str, Any], shape: dict[str, int], seed: int) -> dict[str, Any]:
    """Well-conditioned random views: this test is about the kernel's meaning, not about rounding or special values."""
    rng = np.random.default_rng(seed)
    special = overrides(k, entry.get("data", {}), shape, seed)
    sizes = {p.id: p.default for p in k.params if isinstance(p, Constexpr)}
    out: dict[str, Any] = {}
    for p in k.params:
        if isinstance(p, View):
            dims = [{**sizes, **shape}[e] if isinstance(e, str) else e for e in p.shape]
            values = rng.integers(-20, 20, dims) if p.dtype.startswith("i") else rng.normal(size=dims).round(2)
            if p.dtype.startswith("u"):
                values = rng.integers(0, 1 << 8 * NUMPY[p.dtype].itemsize, dims)
            if p.dtype == "bool":
                values = rng.random(dims) < 0.3
            out[p.id] = special[p.id] if p.id in special else np.asarray(values).astype(NUMPY[p.dtype])
    return out


def test_every_kernel_has_a_formula() -> None:
    assert set(KERNELS) <= set(WANT)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", KERNELS)
def test_the_kernel_computes_what_its_name_says(name: str) -> None:
    k, entry = inline(KERNELS[name], LIBRARY)[0], ENTRIES[name]
    for i, shape in enumerate(entry["test"]):
        if name.startswith(("arg", "min_index")) and 0 in shape.values():
            continue  # numpy has no index of nothing
        arrays = inputs(k, entry, shape, i)
        views = {n: ViewArg.of(a) for n, a in arrays.items()}
        wide = {n: a.astype(np.int64 if a.dtype.kind in "iu" else bool if a.dtype.kind == "b" else np.float64) for n, a in arrays.items()}
        scalars = entry.get("scalars", {})
        run(k, {**views, **scalars}, shape)
        with np.errstate(all="ignore"):
            want = WANT[name]({**wide, **scalars})
        for out, w in (want if isinstance(want, dict) else {"Y": want}).items():
            got = views[out].array()
            if out in entry.get("unordered", []):
                got = np.sort(got)
            if got.dtype.kind in "iub":
                np.testing.assert_array_equal(got, np.asarray(w).astype(got.dtype), err_msg=f"{out} {shape}")
            else:
                step = float(ml_dtypes.finfo(got.dtype).eps)
                wider = WIDER.get(name, 1)
                atol = 40 * max(step * 0.1, 2.0**-22)
                np.testing.assert_allclose(got.astype(np.float64), w, rtol=2 * step * wider, atol=atol * wider, err_msg=f"{out} {shape}")
