"""Reductions over one axis of three: workloads 12 to 14."""

from __future__ import annotations

from eqkir.kir.builder import Builder, ViewRef, kernel
from eqkir.kir.model import Kernel
from eqkir.kir.values import Value

Triple = tuple[Value, Value, Value]
AXES = {"outer": 0, "middle": 1, "inner": 2}


def operands(k: Builder, axis: int, dtype: str, *outs: str) -> tuple[ViewRef, ...]:
    """X[A, B, C] and an output a dtype of `outs`, without the axis."""
    dims = k.symbols("A", "B", "C")
    kept = tuple(d for i, d in enumerate(dims) if i != axis)
    X = k.view("X", "in", dtype, dims)
    ys = [k.view(n, "out", d, kept) for n, d in zip(("Y", "I"), outs, strict=False)]
    k.noalias(X, *ys)
    return (X, *ys)


def builtin(fn: str, where: str) -> Kernel:
    """sum, max, prod; mean = sum / extent; any = any(x != 0)."""
    axis = AXES[where]

    @kernel(name=f"{fn}_{where}_f32")
    def reduction(k: Builder) -> None:
        X, Y = operands(k, axis, "f32", "bool" if fn == "any" else "f32")
        x = X[:, :, :]
        if fn == "mean":
            Y[:, :] = x.sum(axis) / X.shape[axis]
        elif fn == "any":
            Y[:, :] = (x != 0.0).any(axis)
        else:
            Y[:, :] = x.reduce(fn, axis)

    return reduction


def arg(fn: str, where: str) -> Kernel:
    """argmax, argmin: the index alone; min_index: the value too."""
    axis = AXES[where]

    @kernel(name=f"{fn}_{where}_f32")
    def reduction(k: Builder) -> None:
        if fn == "min_index":
            X, Y, I = operands(k, axis, "f32", "f32", "i32")
            Y[:, :], I[:, :] = k.argmin(X[:, :, :], axis, "i32")
        else:
            X, Y = operands(k, axis, "f32", "i64")
            Y[:, :] = (k.argmax if fn == "argmax" else k.argmin)(X[:, :, :], axis, "i64")[1]

    return reduction


@kernel(name="variance_f32")
def variance(k: Builder) -> None:
    """Welford's combine (Chan et al. 1979) on (mean, sum of squared deviations, count); population variance."""
    M, N = k.symbols("M", "N")
    X, Y, U = k.view("X", "in", "f32", (M, N)), k.view("Y", "out", "f32", (M,)), k.view("U", "out", "f32", (M,))
    k.noalias(X, Y, U)
    x = X[:, :]

    def combine(left: Triple, right: Triple) -> Triple:
        (ma, sa, na), (mb, sb, nb) = left, right
        n, d = na + nb, mb - ma
        share = nb / n
        mean, squares = ma + d * share, sa + sb + d * (d * na * share)
        empty_a, empty_b = na == 0.0, nb == 0.0  # the identity is neutral for infinities too
        return k.where(empty_a, mb, k.where(empty_b, ma, mean)), k.where(empty_a, sb, k.where(empty_b, sa, squares)), n

    mean, squares, count = k.reduce((x, k.full((M, N), 0.0, "f32"), k.full((M, N), 1.0, "f32")), 1, (0.0, 0.0, 0.0), combine)
    U[:] = mean
    Y[:] = squares / count


@kernel(name="global_max_pool_f32")
def global_max_pool(k: Builder) -> None:
    """The largest pixel of every channel: a reduction of two axes."""
    N, C, H, W = k.symbols("N", "C", "H", "W")
    X, Y = k.view("X", "in", "f32", (N, C, H, W)), k.view("Y", "out", "f32", (N, C))
    k.noalias(X, Y)
    Y[:, :] = X[:, :, :, :].max(axis=(2, 3))


KERNELS = [
    *(builtin(fn, where) for fn in ("sum", "mean", "max", "prod", "any") for where in AXES),
    *(arg("argmax", where) for where in ("inner", "middle")),
    *(arg("argmin", where) for where in ("inner", "outer")),
    arg("min_index", "inner"),
]
