"""The jobs of the benchmark as torch formulas: the peers that are timed, and the f64 reference that results are compared with.

A `Job` is keyed by the kernel's name. `call` takes the views that are read and the scalars by name and returns the outputs by name; on
f64 inputs it is the reference, on the kernel's own dtypes it is the peer (eager, and through torch.compile). `library` is one vendor
call, where there is a fair one. `scale` bounds the sum of the magnitudes that an output element accumulates over `terms` terms.

Tolerance, one for all: an element of the result may differ from the f64 reference by one unit in the last place of the output dtype and
by 8·√n·2⁻²⁴·scale for accumulation in f32 over n terms: the probabilistic bound of Higham and Mary (SIAM J. Sci. Comput. 41, 2019) with
λ = 8. Integers and bools must be equal.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

Tensors = dict[str, Any]


@dataclass(frozen=True)
class Job:
    call: Callable[[Tensors], Tensors]
    library: Callable[[Tensors], Tensors] | None = None
    #: f64 inputs, f64 outputs, extents -> per output the magnitude bound; none: the output's own magnitude
    scale: Callable[[Tensors, Tensors], Tensors] | None = None
    terms: Callable[[Tensors], int] = lambda t: 16


def _pointwise(f: Callable[..., torch.Tensor], *names: str) -> Job:
    """Output Y from these views, in torch's own arithmetic on their dtype."""
    return Job(
        lambda t: {"Y": f(*(t[n] for n in names))},
        scale=lambda t, o: {"Y": sum(t[n].abs() for n in names) + 1.0},
    )


def _gelu(x: torch.Tensor) -> torch.Tensor:
    return F.gelu(x, approximate="tanh")


def _rows(call: Callable[[Tensors], Tensors], scale: Callable[[Tensors, Tensors], Tensors] | None = None) -> Job:
    return Job(call, scale=scale, terms=lambda t: t["X"].shape[1])


def _softmax_scale(t: Tensors, o: Tensors) -> Tensors:
    x = t["X"]
    return {"Y": o["Y"] * (2.0 + (x.amax(1, keepdim=True) - x))}


def _log_softmax_scale(t: Tensors, o: Tensors) -> Tensors:
    return {"Y": 2.0 * t["X"].abs() + t["X"].abs().amax(1, keepdim=True) + o["Y"].abs() + 1.0}


def _layer_norm(t: Tensors) -> Tensors:
    x = t["X"]
    return {"Y": F.layer_norm(x, (x.shape[1],), t["W"], t["B"], t["eps"])}


def _layer_norm_scale(t: Tensors, o: Tensors) -> Tensors:
    x = t["X"]
    rstd = (x.var(1, keepdim=True, unbiased=False) + t["eps"]).rsqrt()
    return {"Y": (x.abs() + x.abs().mean(1, keepdim=True)) * rstd * t["W"].abs() + t["B"].abs()}


def _rms_norm(t: Tensors) -> Tensors:
    return {"Y": F.rms_norm(t["X"], (t["X"].shape[1],), t["W"], t["eps"])}


def _add_rms_norm(t: Tensors) -> Tensors:
    # the sum is rounded to the storage dtype, which the kernel asks for; the reference must do so too
    r = (t["X"] + t["R"]).to(torch.bfloat16).to(t["X"].dtype) if t["X"].dtype == torch.float64 else t["X"] + t["R"]
    return {"R": r, "Y": F.rms_norm(r, (r.shape[1],), t["W"], t["eps"])}


def _reduction(f: Callable[[torch.Tensor, int], torch.Tensor], axis: int, out: str = "Y", magnitude: bool = True) -> Job:
    return Job(
        lambda t: {out: f(t["X"], axis)},
        scale=(lambda t, o: {out: t["X"].abs().sum(axis)}) if magnitude else None,
        terms=lambda t: t["X"].shape[axis],
    )


def _variance(t: Tensors) -> Tensors:
    v, m = torch.var_mean(t["X"], 1, unbiased=False)
    return {"Y": v, "U": m}


def _variance_scale(t: Tensors, o: Tensors) -> Tensors:
    m = t["X"].abs().mean(1)
    return {"Y": 2.0 * o["Y"] + m * m, "U": m}


def _product(a: torch.Tensor, b: torch.Tensor, out: torch.dtype | None = None) -> torch.Tensor:
    if a.dtype == torch.float64:
        return a @ b
    if a.dtype == torch.int8:
        return torch._int_mm(a, b)
    if a.dtype == torch.float8_e4m3fn:
        one = torch.ones((), device=a.device)
        return torch._scaled_mm(a, b, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
    return a @ b


def _gemm(layout: str = "nn", library: bool = True) -> Job:
    def call(t: Tensors) -> Tensors:
        a = t["A"].t() if layout == "tn" else t["A"]
        b = t["B"].t() if layout == "nt" else t["B"]
        return {"Y": _product(a, b)}

    def scale(t: Tensors, o: Tensors) -> Tensors:
        return call({"A": t["A"].abs(), "B": t["B"].abs()})

    return Job(call, call if library else None, scale, lambda t: t["A"].shape[0 if layout == "tn" else -1])


def _gemm_bias_gelu(t: Tensors) -> Tensors:
    if t["A"].dtype == torch.float64:
        return {"Y": _gelu(t["A"] @ t["B"] + t["bias"])}
    return {"Y": _gelu(torch.addmm(t["bias"], t["A"], t["B"]))}


def _gemm_bias_gelu_scale(t: Tensors, o: Tensors) -> Tensors:
    return {"Y": 1.2 * (t["A"].abs() @ t["B"].abs() + t["bias"].abs())}


def _dual(t: Tensors) -> Tensors:
    return {"Y": F.silu(t["A"] @ t["G"]) * (t["A"] @ t["U"])}


def _dual_scale(t: Tensors, o: Tensors) -> Tensors:
    g, u = t["A"] @ t["G"], t["A"] @ t["U"]
    a = t["A"].abs()
    return {"Y": 1.2 * (a @ t["G"].abs() * u.abs() + F.silu(g).abs() * (a @ t["U"].abs()))}


def _head(t: Tensors) -> Tensors:
    return {"Y": torch.einsum("thd,hde->the", t["X"], t["W"])}


def _contraction(call: Callable[[Tensors], Tensors], first: str, library: bool = True) -> Job:
    return Job(
        call, call if library else None, lambda t, o: call({k: v.abs() if hasattr(v, "abs") else v for k, v in t.items()}),
        lambda t: t[first].shape[-1],
    )  # fmt: skip


_FNS: dict[str, tuple[Callable[[torch.Tensor, int], torch.Tensor], bool]] = {
    "sum": (lambda x, a: x.sum(a), True), "mean": (lambda x, a: x.mean(a), True), "max": (lambda x, a: x.amax(a), False),
    "prod": (lambda x, a: x.prod(a), False), "any": (lambda x, a: (x != 0).any(a), False),
    "argmax": (lambda x, a: x.argmax(a), False), "argmin": (lambda x, a: x.argmin(a), False),
}  # fmt: skip


def _min_index(t: Tensors) -> Tensors:
    return {"Y": t["X"].amin(2), "I": t["X"].argmin(2).to(torch.int32)}  # argmin promises the first of equal ones, min does not


JOBS: dict[str, Job] = {
    "relu_f32": _pointwise(torch.relu, "X"),
    "swish_f32": _pointwise(F.silu, "X"),
    "gelu_tanh_f32": _pointwise(_gelu, "X"),
    "gelu_erf_f32": _pointwise(F.gelu, "X"),
    "bias_gelu_residual_bf16": _pointwise(lambda x, b, r: _gelu(x + b) + r, "X", "B", "R"),
    "swiglu_bf16": _pointwise(lambda a, b: F.silu(a) * b, "A", "B"),
    "geglu_bf16": _pointwise(lambda a, b: _gelu(a) * b, "A", "B"),
    "transpose_add_f32": Job(lambda t: {"Y": t["A"] + t["B"].t()}),
    **{f"softmax_{d}": _rows(lambda t: {"Y": torch.softmax(t["X"], 1)}, _softmax_scale) for d in ("f32", "bf16")},
    **{f"log_softmax_{d}": _rows(lambda t: {"Y": torch.log_softmax(t["X"], 1)}, _log_softmax_scale) for d in ("f32", "bf16")},
    "layer_norm_bf16": _rows(_layer_norm, _layer_norm_scale),
    "rms_norm_bf16": _rows(_rms_norm),
    "fused_add_rms_norm_bf16": _rows(_add_rms_norm),
    **{
        f"{fn}_{where}_f32": _reduction(f, axis, magnitude=m)
        for fn, (f, m) in _FNS.items()
        for axis, where in enumerate(("outer", "middle", "inner"))
    },
    "min_index_inner_f32": Job(_min_index),
    "variance_f32": _rows(_variance, _variance_scale),
    "gemm_nn_bf16": _gemm(),
    "gemm_nt_bf16": _gemm("nt"),
    "gemm_tn_bf16": _gemm("tn"),
    "gemm_f32": _gemm(),
    "gemm_i8": _gemm(),
    "gemm_fp8": _gemm("nt"),
    "gemm_bias_gelu_bf16": Job(_gemm_bias_gelu, scale=_gemm_bias_gelu_scale, terms=lambda t: t["A"].shape[1]),
    "dual_gemm_swiglu_bf16": Job(_dual, scale=_dual_scale, terms=lambda t: t["A"].shape[1]),
    "batched_gemm_bf16": _contraction(lambda t: {"Y": t["A"] @ t["B"]}, "A"),
    "head_gemm_bf16": _contraction(_head, "X"),
    "gemv_bf16": _contraction(lambda t: {"Y": t["A"] @ t["X"]}, "A"),
    "skinny_gemm_bf16": _contraction(lambda t: {"Y": t["A"] @ t["B"]}, "A"),
}

#: bits of the significand, the hidden one included; smallest subnormal
PRECISION = {torch.bfloat16: (8, -133), torch.float16: (11, -24), torch.float32: (24, -149), torch.float64: (53, -1074)}


class Reference:
    """The f64 results of a job on one set of inputs (as the kernel sees them), and their error bounds' ingredients."""

    def __init__(self, job: Job, t: Tensors) -> None:
        wide = {k: v.double() if isinstance(v, torch.Tensor) and v.dtype != torch.bool else v for k, v in t.items()}
        self.want = job.call(wide)
        self.scales = job.scale(wide, self.want) if job.scale else {}
        self.terms = job.terms(t)

    def mistakes(self, got: Tensors) -> dict[str, str]:
        """What is wrong with the outputs `got`; empty when they are right. One line an output."""
        out = {}
        for name, w in self.want.items():
            g = got[name]
            if g.shape != w.shape:
                out[name] = f"shape {tuple(g.shape)} instead of {tuple(w.shape)}"
            elif not g.dtype.is_floating_point:
                bad = (g.double() != w.double()).sum().item()
                if bad:
                    out[name] = f"{bad} of {g.numel()} elements differ"
            else:
                scale = self.scales[name] if name in self.scales else w.abs()
                bad, worst = _beyond(g.reshape(-1), w.reshape(-1), scale.expand(w.shape).reshape(-1), self.terms)
                if bad:
                    out[name] = f"{bad} of {g.numel()} elements beyond the bound, worst {worst:.3g} times"
        return out


def _beyond(got: torch.Tensor, want: torch.Tensor, scale: torch.Tensor, terms: int, chunk: int = 1 << 27) -> tuple[int, float]:
    """How many elements lie beyond the bound (a NaN does), and the largest error / bound."""
    bits, lowest = PRECISION[got.dtype]
    bad, worst = 0, 0.0
    for i in range(0, got.numel(), chunk):
        w = want[i : i + chunk]
        bound = w.abs() * 2.0 ** (1 - bits) + 8 * math.sqrt(terms) * 2.0**-24 * scale[i : i + chunk] + 2.0**lowest
        error = (got[i : i + chunk].double() - w).abs()
        bad += int((~(error <= bound)).sum().item())
        worst = max(worst, (error / bound).nan_to_num(math.inf).max().item())
    return bad, worst
