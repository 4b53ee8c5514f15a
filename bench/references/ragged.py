"""Gathers, scatters and ragged groups: workloads 38 to 41."""

from __future__ import annotations

import math
from typing import Any

from references.core import Out, Sizes, Views, formula, product


def valid(at: Any, n: int) -> Any:
    return (at >= 0) & (at < n)


def groups(xp: Any, offsets: Any, n: int) -> Any:
    """The group of each of n elements."""
    return xp.searchsorted(offsets, xp.arange(n)) - 1


def longest(xp: Any, offsets: Any) -> int:
    return int(xp.item((offsets[1:] - offsets[:-1]).max())) if offsets.shape[0] > 1 else 1


@formula("embedding_bf16")
def embedding(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    fine = valid(v["I"], s["V"])
    return {"Y": Out(xp.where(fine[:, None], v["W"][xp.where(fine, v["I"], 0)], 0.0), n=0)}


def added(xp: Any, base: Any, at: Any, x: Any) -> Out:
    """Rows of x added to rows of base; rows outside are left out."""
    fine = valid(at, base.shape[0])
    at, x = at[fine], x[fine]
    n = int(xp.item(xp.bincount(at, base.shape[0]).max())) + 1 if at.shape[0] else 1
    return Out(xp.index_add(base, at, x), xp.index_add(abs(base), at, abs(x)), n)


@formula("embedding_backward_f32")
def embedding_backward(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    return {"DW": added(xp, v["DW"], v["I"], v["DY"])}


@formula("index_add_f32")
def index_add(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    return {"Y": added(xp, v["Y"], v["I"], v["X"])}


@formula("csr_spmv_f32")
def csr_spmv(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    row, zero = groups(xp, v["offsets"], s["N"]), xp.full((s["R"],), 0.0)
    terms = v["A"] * v["X"][v["columns"]]
    return {"Y": Out(xp.index_add(zero, row, terms), xp.index_add(zero, row, abs(terms)), longest(xp, v["offsets"]))}


@formula("csr_spmm_f32")
def csr_spmm(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    row, zero = groups(xp, v["offsets"], s["N"]), xp.full((s["R"], s["D"]), 0.0)
    terms = v["A"][:, None] * v["X"][v["columns"]]
    return {"Y": Out(xp.index_add(zero, row, terms), xp.index_add(zero, row, abs(terms)), longest(xp, v["offsets"]))}


@formula("jagged_mean_f32")
def jagged_mean(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    row, zero = groups(xp, v["offsets"], s["N"]), xp.full((s["G"], s["D"]), 0.0)
    count = xp.f64(xp.maximum(v["offsets"][1:] - v["offsets"][:-1], 1))[:, None]
    sums, sizes = xp.index_add(zero, row, v["X"]), xp.index_add(zero, row, abs(v["X"]))
    return {"Y": Out(sums / count, sizes / count, longest(xp, v["offsets"]))}


@formula("jagged_softmax_f32")
def jagged_softmax(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    x, g = v["X"], v["offsets"].shape[0] - 1
    row = groups(xp, v["offsets"], s["N"])
    below = xp.index_max(xp.full((g, s["D"]), -math.inf), row, x)[row] - x
    e = xp.exp(-below)
    y = e / xp.index_add(xp.full((g, s["D"]), 0.0), row, e)[row]
    return {"Y": Out(y, y * (2.0 + below), longest(xp, v["offsets"]))}


@formula("segment_max_f32")
def segment_max(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    row = groups(xp, v["offsets"], s["N"])
    return {"Y": Out(xp.index_max(xp.full((s["G"],), -math.inf), row, v["X"]), n=0)}


@formula("segment_max_scattered_i32")
def segment_max_scattered(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    fine = valid(v["I"], s["G"])
    return {"Y": xp.index_max(v["Y"], v["I"][fine], v["X"][fine])}


@formula("reduce_then_scatter")
def reduce_then_scatter(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    sums, sizes = xp.sum(v["X"], (0, 2)), xp.sum(abs(v["X"]), (0, 2))
    fine = valid(v["I"], s["V"])
    at = v["I"][fine]
    value, scale = xp.index_add(v["Y"], at, sums[fine]), xp.index_add(abs(v["Y"]), at, sizes[fine])
    return {"Y": Out(value, scale, s["A"] * s["C"] * s["B"])}


# ------------------------------------------------------------------------------------------------ mixtures of experts
@formula("moe_grouped_gemm_bf16")
def moe_grouped_gemm(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    bounds, parts = [int(xp.item(x)) for x in v["offsets"]], []
    for e in range(s["X"]):
        parts.append(product(xp, "td,dn->tn", v["A"][bounds[e] : bounds[e + 1]], v["W"][e], s["D"]))
    return {"Y": Out(xp.concat([p.value for p in parts], 0), xp.concat([p.scale for p in parts], 0), s["D"])}


@formula("moe_align")
def moe_align(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    """The place of a token: where its expert begins, and how many of its kind stand before it."""
    ids, fine = v["I"], valid(v["I"], s["X"])
    mine = xp.i64(xp.where(fine, ids, -1)[:, None] == xp.arange(s["X"]))
    counts = xp.sum(mine, 0)
    begin = xp.cumsum(counts, 0) - counts
    place = xp.sum((xp.cumsum(mine, 0) - mine + begin) * mine, 1)
    return {"counts": counts, "offsets": begin, "places": xp.where(fine, place, -1)}


@formula("moe_count")
def moe_count(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    ids = v["I"].reshape(-1)
    return {"counts": v["counts"] + xp.bincount(ids[valid(ids, s["X"])], s["X"])}


@formula("moe_sort")
def moe_sort(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    fine = valid(v["places"], s["T"])
    y = xp.clone(v["Y"])
    y[v["places"][fine]] = v["X"][fine]
    return {"Y": Out(y, n=0)}
