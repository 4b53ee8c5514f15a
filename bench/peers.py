"""What eqkir's kernels are timed beside, in torch: eager formulas (also what torch.compile gets) and vendor libraries' calls.

``EAGER[kernel](t, s)`` computes the job from the views `t` in their own dtypes and the sizes `s`. ``LIBRARY[kernel](t, s)`` prepares
(layouts, sparse tensors, autograd graphs) and returns the call that is timed. Neither is the reference of anything.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

Tensors = dict[str, Any]
Eager = Callable[[Tensors, dict[str, Any]], Any]
Library = Callable[[Tensors, dict[str, Any]], Callable[[], Any]]


def _gelu(x: torch.Tensor) -> torch.Tensor:
    return F.gelu(x, approximate="tanh")


# ------------------------------------------------------------------------------------------------ dense
def _rope_half(t: Tensors, s: dict[str, Any]) -> Any:
    x = t["X"]
    a, b = x.chunk(2, -1)
    return (x * t["C"][:, None] + torch.cat([-b, a], -1) * t["N"][:, None]).to(x.dtype)


def _rope_interleaved(t: Tensors, s: dict[str, Any]) -> Any:
    a, b = t["X"].unbind(-1)
    c, n = t["C"][:, None], t["N"][:, None]
    return torch.stack([a * c - b * n, a * n + b * c], -1).to(t["X"].dtype)


def _add_rms_norm(t: Tensors, s: dict[str, Any]) -> Any:
    r = t["X"] + t["R"]
    return r, F.rms_norm(r, (r.shape[1],), t["W"], s["eps"])


def _layer_norm_dx(t: Tensors, s: dict[str, Any]) -> Any:
    r = t["rstd"][:, None]
    x, g = (t["X"].float() - t["mean"][:, None]) * r, t["DY"].float() * t["W"].float()
    return ((g - (x * (x * g).mean(1, keepdim=True) + g.mean(1, keepdim=True))) * r).to(t["X"].dtype)


def _layer_norm_dwdb(t: Tensors, s: dict[str, Any]) -> Any:
    g = t["DY"].float()
    return (g * (t["X"].float() - t["mean"][..., None]) * t["rstd"][..., None]).sum(1), g.sum(1)


def _key_norm_attention(t: Tensors, s: dict[str, Any]) -> Any:
    k = t["K"] * (t["K"].square().mean(1, keepdim=True) + 1e-6).rsqrt()
    return torch.softmax(t["Q"] @ k.t() * s["scale"], 1) @ t["V"]


def _alibi_attention(t: Tensors, s: dict[str, Any]) -> Any:
    d = torch.arange(s["S"], device=t["Q"].device)[:, None] - torch.arange(s["T"], device=t["Q"].device)
    scores = (t["Q"] @ t["K"].transpose(1, 2)).float() * s["scale"] - t["slope"][:, None, None] * d.abs()
    return torch.softmax(torch.where(d >= 0, scores, -1e9), 2).to(t["V"].dtype) @ t["V"]


def _softmax_backward(t: Tensors, s: dict[str, Any]) -> Any:
    y, g = t["Y"].float(), t["DY"].float()
    return (y * (g - (y * g).sum(1, keepdim=True))).to(t["Y"].dtype)


def _kl(t: Tensors, s: dict[str, Any]) -> Any:
    return F.kl_div(t["X"].float(), t["T"].float(), reduction="none").sum(1)


def _adamw(t: Tensors, s: dict[str, Any]) -> Any:
    m = s["beta1"] * t["M"] + (1 - s["beta1"]) * t["G"]
    v = s["beta2"] * t["V"] + (1 - s["beta2"]) * t["G"] * t["G"]
    w = t["W"] * (1 - s["rate"] * s["decay"]) - s["rate"] * ((m / s["c1"]) / ((v / s["c2"]).sqrt() + s["eps"]))
    return m, v, w


def _sgd(t: Tensors, s: dict[str, Any]) -> Any:
    m = s["momentum"] * t["M"] + t["G"] + s["decay"] * t["W"]
    return m, t["W"] - s["rate"] * m


def _fp8(x: torch.Tensor) -> Any:
    scale = x.abs().amax(-1, keepdim=True).clamp_min(1e-12) / 448.0
    return (x / scale).clamp(-448.0, 448.0).to(torch.float8_e4m3fn), scale[..., 0]


def _cross_entropy(t: Tensors, s: dict[str, Any]) -> Any:
    return F.cross_entropy(t["X"], torch.where((t["T"] >= 0) & (t["T"] < s["N"]), t["T"], -100), reduction="none", ignore_index=-100)


_AXES = {"outer": 0, "middle": 1, "inner": 2}
_REDUCTIONS: dict[str, Callable[[torch.Tensor, int], Any]] = {
    "sum": lambda x, a: x.sum(a), "mean": lambda x, a: x.mean(a), "max": lambda x, a: x.amax(a), "prod": lambda x, a: x.prod(a),
    "any": lambda x, a: (x != 0).any(a), "argmax": lambda x, a: x.argmax(a), "argmin": lambda x, a: x.argmin(a),
}  # fmt: skip


def _reduction(fn: str, axis: int) -> Eager:
    return lambda t, s: _REDUCTIONS[fn](t["X"], axis)


EAGER: dict[str, Eager] = {
    "relu_f32": lambda t, s: torch.relu(t["X"]),
    "swish_f32": lambda t, s: F.silu(t["X"]),
    "gelu_tanh_f32": lambda t, s: _gelu(t["X"]),
    "gelu_erf_f32": lambda t, s: F.gelu(t["X"]),
    "bias_gelu_residual_bf16": lambda t, s: _gelu(t["X"] + t["B"]) + t["R"],
    "swiglu_bf16": lambda t, s: F.silu(t["A"]) * t["B"],
    "geglu_bf16": lambda t, s: _gelu(t["A"]) * t["B"],
    "rope_half_bf16": _rope_half,
    "rope_interleaved_bf16": _rope_interleaved,
    "transpose_add_f32": lambda t, s: t["A"] + t["B"].t(),
    **{f"softmax_{d}": (lambda t, s: torch.softmax(t["X"], 1)) for d in ("f32", "bf16")},
    **{f"log_softmax_{d}": (lambda t, s: torch.log_softmax(t["X"], 1)) for d in ("f32", "bf16")},
    "layer_norm_bf16": lambda t, s: F.layer_norm(t["X"], (s["N"],), t["W"], t["B"], s["eps"]),
    "rms_norm_bf16": lambda t, s: F.rms_norm(t["X"], (s["N"],), t["W"], s["eps"]),
    "fused_add_rms_norm_bf16": _add_rms_norm,
    "group_norm_f32": lambda t, s: F.group_norm(t["X"].flatten(1, 2), s["G"], t["W"].flatten(), t["B"].flatten(), s["eps"]),
    "global_max_pool_f32": lambda t, s: t["X"].amax((2, 3)),
    "keys_to_cache_bf16": lambda t, s: ((x := t["K"].transpose(0, 1)).contiguous(), x.float().abs().amax(2)),
    "key_norm_attention_f32": _key_norm_attention,
    "alibi_attention_bf16": _alibi_attention,
    "instance_norm_f32": lambda t, s: F.instance_norm(t["X"], eps=s["eps"]),
    "batch_norm_infer_f32": lambda t, s: F.batch_norm(t["X"], t["mean"], t["variance"], t["W"], t["B"], False, 0.0, s["eps"]),
    "layer_norm_backward_dx_bf16": _layer_norm_dx,
    "layer_norm_backward_dwdb_bf16": _layer_norm_dwdb,
    "softmax_backward_bf16": _softmax_backward,
    "sum_parts_f32": lambda t, s: t["X"].sum(0),
    **{f"{fn}_{where}_f32": _reduction(fn, axis) for fn in _REDUCTIONS for where, axis in _AXES.items()},
    "min_index_inner_f32": lambda t, s: (t["X"].amin(2), t["X"].argmin(2).to(torch.int32)),
    "variance_f32": lambda t, s: torch.var_mean(t["X"], 1, unbiased=False),
    "logsumexp_bf16": lambda t, s: torch.logsumexp(t["X"].float(), 1),
    "cross_entropy_bf16": _cross_entropy,
    "kl_div_bf16": _kl,
    "mse_partials_bf16": lambda t, s: F.mse_loss(t["X"].float(), t["T"].float(), reduction="none").sum(1),
    "adamw_f32": _adamw,
    "sgd_momentum_f32": _sgd,
    "fp8_quantize_per_token": lambda t, s: _fp8(t["X"].float()),
    "fp8_quantize_per_group": lambda t, s: _fp8(t["X"].float()),
    "rms_norm_fp8": lambda t, s: _fp8(F.rms_norm(t["X"].float(), (s["N"],), t["W"].float(), s["eps"])),
}


# ------------------------------------------------------------------------------------------------ scans, selection, counting
def _exclusive(x: torch.Tensor) -> torch.Tensor:
    return x.cumsum(1) - x


def _nucleus(t: Tensors, s: dict[str, Any]) -> Any:
    needed = _exclusive(t["X"]) < s["mass"]
    return needed.sum(1), torch.where(needed, t["X"], 0.0).sum(1)


EAGER |= {
    "cumsum_f32": lambda t, s: t["X"].cumsum(1),
    "cumsum_exclusive_f32": lambda t, s: _exclusive(t["X"]),
    "cumsum_reverse_f32": lambda t, s: t["X"].flip(1).cumsum(1).flip(1),
    "cummax_f32": lambda t, s: t["X"].cummax(1).values,
    "scan_running_sum": lambda t, s: (t["X"].cumsum(0), t["X"].sum()),
    "top_k_f32": lambda t, s: torch.topk(t["X"], s["K"], 1),
    "bitonic_sort_rows_f32": lambda t, s: t["X"].sort(1).values,
    "nucleus_partials_f32": _nucleus,
    "unique_consecutive_flags_i32": lambda t, s: torch.unique_consecutive(t["X"]),
    "nonzero_counts_i32": lambda t, s: t["X"].count_nonzero(1),
    "nonzero_offsets_i32": lambda t, s: t["C"].cumsum(0) - t["C"],
    "nonzero_positions_i32": lambda t, s: t["X"].view(-1).nonzero(),
    "histogram_global_u8": lambda t, s: torch.bincount(t["X"].view(-1), minlength=256),
    "moe_count": lambda t, s: torch.bincount(t["I"].clamp(0, s["X"] - 1).view(-1), minlength=s["X"]),
    "dropout_bf16": lambda t, s: F.dropout(t["X"], s["p"]),
}


# ------------------------------------------------------------------------------------------------ products
def _int4(t: Tensors, s: dict[str, Any]) -> Any:
    q = t["Q"].view(torch.int32)
    code = torch.stack([(q >> (4 * i)) & 15 for i in range(8)], 2).reshape(s["G"], 128, s["N"])
    w = ((code - t["Z"].int()[:, None]).to(torch.bfloat16) * t["S"][:, None]).reshape(-1, s["N"])
    return t["X"].reshape(s["M"], -1) @ w


def _depthwise(t: Tensors, s: dict[str, Any]) -> Any:
    x, k = F.pad(t["X"], (0, 0, 3, 0)), t["K"]
    n = s["T"]
    return x[:, :n] * k[0] + x[:, 1 : n + 1] * k[1] + x[:, 2 : n + 2] * k[2] + x[:, 3:] * k[3]


def _max_pool(t: Tensors, s: dict[str, Any]) -> Any:
    return F.max_pool2d(t["X"], 3, 2, 1, return_indices=True)


EAGER |= {
    "gemm_bias_gelu_bf16": lambda t, s: _gelu(torch.addmm(t["bias"], t["A"], t["B"])),
    "dual_gemm_swiglu_bf16": lambda t, s: F.silu(t["A"] @ t["G"]) * (t["A"] @ t["U"]),
    "weight_only_int4_bf16": _int4,
    "depthwise_causal_conv1d_bf16": _depthwise,
    "max_pool2d_f32": _max_pool,
    "kmeans_assign_f32": lambda t, s: ((t["C"] * t["C"]).sum(1) - 2.0 * (t["X"] @ t["C"].t())).argmin(1),
    "pairwise_distance_f32": lambda t, s: torch.cdist(t["X"], t["C"]),
    "contract_of_scan": lambda t, s: t["A"].cumsum(1) @ t["B"],
}


def _fp8_mm(t: Tensors, s: dict[str, Any]) -> Callable[[], Any]:
    one = torch.ones((), device=t["A"].device)
    return lambda: torch._scaled_mm(t["A"], t["B"].t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16)


def _timed(call: Eager) -> Library:
    return lambda t, s: lambda: call(t, s)


LIBRARY: dict[str, Library] = {
    "gemm_nn_bf16": _timed(lambda t, s: t["A"] @ t["B"]),
    "gemm_f32": _timed(lambda t, s: t["A"] @ t["B"]),
    "gemm_nt_bf16": _timed(lambda t, s: t["A"] @ t["B"].t()),
    "gemm_tn_bf16": _timed(lambda t, s: t["A"].t() @ t["B"]),
    "gemm_i8": _timed(lambda t, s: torch._int_mm(t["A"], t["B"])),
    "gemm_fp8": _fp8_mm,
    "gemm_bias_gelu_bf16": _timed(EAGER["gemm_bias_gelu_bf16"]),
    "dual_gemm_swiglu_bf16": _timed(EAGER["dual_gemm_swiglu_bf16"]),
    "batched_gemm_bf16": _timed(lambda t, s: t["A"] @ t["B"]),
    "head_gemm_bf16": _timed(lambda t, s: torch.einsum("thd,hde->the", t["X"], t["W"])),
    "gemv_bf16": _timed(lambda t, s: t["A"] @ t["X"]),
    "skinny_gemm_bf16": _timed(lambda t, s: t["A"] @ t["B"]),
    "conv2d_direct_f16": _timed(lambda t, s: F.conv2d(t["X"], t["K"], padding=1)),
    "depthwise_causal_conv1d_bf16": _timed(
        lambda t, s: F.conv1d(t["X"].transpose(1, 2), t["K"].t()[:, None], padding=3, groups=s["C"])[..., : s["T"]]
    ),
    "fft_radix2_f32": lambda t, s: (lambda x: lambda: torch.fft.fft(x, dim=-1))(torch.complex(t["XR"], t["XI"])),
    "cholesky_f32": _timed(lambda t, s: torch.linalg.cholesky_ex(t["A"]).L),
    "triangular_solve_f32": _timed(lambda t, s: torch.linalg.solve_triangular(t["L"], t["X"], upper=False)),
    "householder_qr_f32": _timed(lambda t, s: torch.geqrf(t["A"])),
}
for _name in ("gemm_nn_bf16", "gemm_f32", "batched_gemm_bf16", "skinny_gemm_bf16"):
    EAGER[_name] = lambda t, s: t["A"] @ t["B"]
EAGER["gemm_nt_bf16"] = lambda t, s: t["A"] @ t["B"].t()
EAGER["gemm_tn_bf16"] = lambda t, s: t["A"].t() @ t["B"]
EAGER["gemm_i8"] = lambda t, s: torch._int_mm(t["A"], t["B"])
EAGER["head_gemm_bf16"] = lambda t, s: torch.einsum("thd,hde->the", t["X"], t["W"])
EAGER["gemv_bf16"] = lambda t, s: t["A"] @ t["X"]
EAGER["conv2d_direct_f16"] = lambda t, s: F.conv2d(t["X"], t["K"], padding=1)


# ------------------------------------------------------------------------------------------------ attention
def _sdpa(causal: bool = False, mask: Callable[[Tensors, dict[str, Any]], Any] | None = None) -> Library:
    def prepare(t: Tensors, s: dict[str, Any]) -> Callable[[], Any]:
        bias = mask(t, s) if mask else None
        return lambda: F.scaled_dot_product_attention(t["Q"], t["K"], t["V"], attn_mask=bias, is_causal=causal, scale=s["scale"])

    return prepare


def _window(t: Tensors, s: dict[str, Any]) -> Any:
    at = torch.arange(s["T"], device=t["Q"].device)
    last = at[-s["S"] :, None]
    return (at <= last) & (at > last - s["window"])


def _gqa(t: Tensors, s: dict[str, Any]) -> Callable[[], Any]:
    q = t["Q"].flatten(1, 2)
    return lambda: F.scaled_dot_product_attention(q, t["K"], t["V"], is_causal=True, scale=s["scale"], enable_gqa=True)


def _varlen(t: Tensors, s: dict[str, Any]) -> Callable[[], Any]:
    """One call a sequence."""
    bounds = t["offsets"].tolist()
    parts = [[t[n][a:b].transpose(0, 1)[None] for n in ("Q", "K", "V")] for a, b in zip(bounds, bounds[1:])]
    return lambda: [F.scaled_dot_product_attention(*p, is_causal=True, scale=s["scale"]) for p in parts]


def _paged(t: Tensors, s: dict[str, Any]) -> Callable[[], Any]:
    """Pages gathered, then attention; all lengths are full."""
    q, table = t["Q"].flatten(1, 2)[:, :, None], t["table"].long()

    def call() -> Any:
        k, v = (t[n][table].flatten(1, 2).transpose(1, 2) for n in ("K", "V"))
        return F.scaled_dot_product_attention(q, k, v, scale=s["scale"], enable_gqa=True)

    return call


def _combine(t: Tensors, s: dict[str, Any]) -> Any:
    w = torch.exp(t["M"] - t["M"].amax(3, keepdim=True))
    return ((t["O"] * w[..., None]).sum(3) / (t["L"] * w).sum(3)[..., None]).to(torch.bfloat16)


def _mla(t: Tensors, s: dict[str, Any]) -> Any:
    scores = (t["QC"] @ t["KC"].transpose(1, 2) + t["QR"] @ t["KR"].transpose(1, 2)) * s["scale"]
    return torch.softmax(scores, 2) @ t["KC"]


def _backward(t: Tensors, s: dict[str, Any]) -> Callable[[], Any]:
    """All three gradients."""
    q, k, v = (t[n].detach().clone().requires_grad_() for n in ("Q", "K", "V"))
    o = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=s["scale"])
    return lambda: torch.autograd.grad(o, (q, k, v), t["DO"], retain_graph=True)


LIBRARY |= {
    "attention_fwd_bf16": _sdpa(),
    "attention_causal_bf16": _sdpa(causal=True),
    "softmax_attention_bf16": _sdpa(causal=True),
    "attention_window_bf16": _sdpa(mask=_window),
    "attention_bias_bf16": _sdpa(mask=lambda t, s: t["bias"].to(torch.bfloat16)[None]),
    "attention_gqa_bf16": _gqa,
    "varlen_attention_bf16": _varlen,
    "attention_decode_paged_bf16": _paged,
    "attention_backward_dq_bf16": _backward,
    "attention_backward_dkdv_bf16": _backward,
}


# ------------------------------------------------------------------------------------------------ state spaces
def _chunk_state(t: Tensors, s: dict[str, Any]) -> Any:
    w = (torch.exp(t["A"][..., -1:] - t["A"]) * t["DT"]).permute(0, 2, 3, 1)[..., None]
    return torch.einsum("bclhp,bcln->bchpn", (t["X"] * w).to(torch.bfloat16), t["Bm"])


def _chunk_scan(t: Tensors, s: dict[str, Any]) -> Any:
    a, dt = t["A"].transpose(1, 2), t["DT"].transpose(1, 2)
    scores = torch.einsum("bcln,bcmn->bclm", t["Cm"], t["Bm"])[:, :, None].float()
    decay = torch.exp((a[..., None] - a[..., None, :]).clamp_max(0.0)).tril()
    w = (scores * decay * dt[..., None, :]).to(torch.bfloat16)
    inside = torch.einsum("bchlm,bcmhp->bclhp", w, t["X"])
    before = torch.einsum("bchpn,bcln->bclhp", t["S"], t["Cm"]) * torch.exp(a).transpose(2, 3)[..., None]
    return (inside + before).to(torch.bfloat16)


def _state_passing(t: Tensors, s: dict[str, Any]) -> Any:
    state, out = torch.zeros_like(t["X"][:, 0]), []
    for c in range(s["C"]):
        out.append(state)
        state = state * torch.exp(t["G"][:, :, c])[..., None, None] + t["X"][:, c]
    return torch.stack(out, 1), state


EAGER |= {
    "attention_combine_bf16": _combine,
    "attention_delta_bf16": lambda t, s: (t["O"].float() * t["DO"].float()).sum(3),
    "mla_decode_bf16": _mla,
    "mamba2_chunk_state_bf16": _chunk_state,
    "mamba2_chunk_scan_bf16": _chunk_scan,
    "mamba2_state_passing_f32": _state_passing,
}


# ------------------------------------------------------------------------------------------------ ragged
def _rows(ids: torch.Tensor, n: int) -> Any:
    return torch.where((ids >= 0) & (ids < n), ids, 0).long()


def _csr(t: Tensors, s: dict[str, Any]) -> Callable[[], Any]:
    m = torch.sparse_csr_tensor(t["offsets"], t["columns"], t["A"], size=(s["R"], s["C"]))
    return lambda: m @ t["X"]


def _jagged_softmax(t: Tensors, s: dict[str, Any]) -> Any:
    lengths = t["offsets"].diff().long()
    top = torch.segment_reduce(t["X"], "max", lengths=lengths)
    e = torch.exp(t["X"] - top.repeat_interleave(lengths, 0))
    return e / torch.segment_reduce(e, "sum", lengths=lengths).repeat_interleave(lengths, 0)


def _experts(t: Tensors, s: dict[str, Any]) -> Any:
    bounds = t["offsets"].tolist()
    return torch.cat([t["A"][a:b] @ t["W"][e] for e, (a, b) in enumerate(zip(bounds, bounds[1:]))])


def _grouped(t: Tensors, s: dict[str, Any]) -> Callable[[], Any]:
    ends = t["offsets"][1:].contiguous()
    return lambda: torch._grouped_mm(t["A"], t["W"], offs=ends)


def _moe_sort(t: Tensors, s: dict[str, Any]) -> Any:
    return t["Y"].index_copy(0, _rows(t["places"], s["T"]), t["X"])


def _viterbi(t: Tensors, s: dict[str, Any]) -> Any:
    score, back = t["P"] + t["E"][:, 0], []
    for i in range(1, s["T"]):
        best = (score[:, :, None] + t["A"]).max(1)
        score = best.values + t["E"][:, i]
        back.append(best.indices)
    path = [score.argmax(1)]
    for at in reversed(back):
        path.append(at.gather(1, path[-1][:, None])[:, 0])
    return torch.stack(path[::-1], 1), score.amax(1)


def _dropout_norm(t: Tensors, s: dict[str, Any]) -> Any:
    r = F.dropout(t["X"], s["p"]) + t["R"]
    return r, F.rms_norm(r, (s["N"],), t["W"], s["eps"])


EAGER |= {
    "dropout_add_rms_norm_bf16": _dropout_norm,
    "embedding_bf16": lambda t, s: F.embedding(_rows(t["I"], s["V"]), t["W"]),
    "embedding_backward_f32": lambda t, s: t["DW"].index_add_(0, _rows(t["I"], s["V"]), t["DY"].float()),
    "index_add_f32": lambda t, s: t["Y"].index_add_(0, _rows(t["I"], s["V"]), t["X"]),
    "jagged_mean_f32": lambda t, s: torch.segment_reduce(t["X"], "mean", lengths=t["offsets"].diff().long()),
    "jagged_softmax_f32": _jagged_softmax,
    "segment_max_f32": lambda t, s: torch.segment_reduce(t["X"], "max", lengths=t["offsets"].diff().long()),
    "segment_max_scattered_i32": lambda t, s: t["Y"].scatter_reduce(0, _rows(t["I"], s["G"]), t["X"], "amax"),
    "moe_grouped_gemm_bf16": _experts,
    "moe_sort": _moe_sort,
    "reduce_then_scatter": lambda t, s: t["Y"].index_add(0, _rows(t["I"], s["V"]), t["X"].sum((0, 2))),
    "viterbi_f32": _viterbi,
}
LIBRARY |= {
    "csr_spmv_f32": _csr,
    "csr_spmm_f32": _csr,
    "moe_grouped_gemm_bf16": _grouped,
}
