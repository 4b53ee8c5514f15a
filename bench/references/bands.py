"""Triangles, windows and bands: reductions over a part of an axis that depends on the point."""

from __future__ import annotations

from typing import Any

from references.core import Out, Sizes, Views, formula, product, total


def lower(xp: Any, s: Sizes) -> Any:
    """[M, N]: on or below the main diagonal."""
    return xp.arange(s["N"]) <= xp.arange(s["M"])[:, None]


@formula("triangle_sums_f32")
def triangle_sums(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    return {"Y": total(xp, xp.where(lower(xp, s), v["X"], 0.0), 1)}


@formula("triangular_gemm_bf16")
def triangular_gemm(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    return {"Y": product(xp, "mn,np->mp", xp.where(lower(xp, s), v["L"], 0.0), v["X"], s["N"])}


@formula("triangular_gemm_i8")
def triangular_gemm_i8(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    """Sums below 2^53 are exact in f64."""
    low = xp.where(lower(xp, s), xp.f64(v["L"]), 0.0)
    return {"Y": xp.i64(xp.einsum("mn,np->mp", low, xp.f64(v["X"])))}


@formula("sliding_mean_f32")
def sliding_mean(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    """Windows' sums as differences of running sums in f64: 29 bits to spare over f32 for windows that are not much less than the row."""
    x, n, width = v["X"], s["N"], max(s["width"], 1)
    i = xp.arange(n)
    first, count = xp.maximum(i - width, -1) + 1, xp.minimum(i + 1, width)
    edge = xp.full((s["M"], 1), 0.0)

    def mean(a: Any) -> Any:
        sums = xp.concat([edge, xp.cumsum(a, 1)], 1)
        return (sums[:, 1:] - sums[:, first]) / count

    return {"Y": Out(mean(x), mean(abs(x)), min(width, n) + 1)}


@formula("banded_matvec_f32")
def banded_matvec(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    gap = xp.arange(s["N"]) - xp.arange(s["M"])[:, None]
    terms = xp.where((gap >= -s["below"]) & (gap <= s["above"]), v["A"] * v["X"], 0.0)
    out = total(xp, terms, 1)
    return {"Y": Out(out.value, out.scale, min(s["below"] + s["above"] + 1, s["N"]))}
