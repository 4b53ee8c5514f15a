"""Scans: workloads 16 to 18."""

from __future__ import annotations

from typing import Any

from corpus.pointwise import matrices
from eqkir.kir.builder import Builder, Value, ViewRef, kernel
from eqkir.kir.model import Kernel

Pair = tuple[Value, Value]


def built_in(name: str, fn: str, exclusive: bool = False, reverse: bool = False) -> Kernel:
    @kernel(name=name)
    def scan(k: Builder) -> None:
        X, Y = matrices(k, "f32", "X")
        x = X[:, :]
        Y[:, :] = (x.cumsum if fn == "cumsum" else x.cummax)(1, exclusive, reverse)

    return scan


@kernel(name="linear_recurrence_f32")
def linear_recurrence(k: Builder) -> None:
    """h[t] = a[t] h[t-1] + b[t] along T: a scan of affine maps."""
    B, T, C = k.symbols("B", "T", "C")
    A, X, Y = (k.view(n, r, "f32", (B, T, C)) for n, r in (("A", "in"), ("X", "in"), ("Y", "out")))
    k.noalias(A, X, Y)

    def after(first: Pair, then: Pair) -> Pair:
        (a, b), (c, d) = first, then
        return c * a, c * b + d

    Y[:, :, :] = k.scan((A[:, :, :], X[:, :, :]), 1, after)[1]


def segmented(first: Pair, then: Pair) -> Pair:
    """(begins a segment somewhere, sum since its last beginning)."""
    (f, v), (g, w) = first, then
    return f | g, v.k.where(g, w, v + w)


@kernel(name="segmented_scan_rows_f32")
def segmented_scan_rows(k: Builder) -> None:
    """Running sums of each row that restart where F is set."""
    M, N = k.symbols("M", "N")
    X, F, Y = k.view("X", "in", "f32", (M, N)), k.view("F", "in", "bool", (M, N)), k.view("Y", "out", "f32", (M, N))
    k.noalias(X, F, Y)
    Y[:, :] = k.scan((F[:, :], X[:, :]), 1, segmented)[1]


def begins(k: Builder, K: ViewRef, P: Any, R: Any) -> Value:
    """Where a key differs from the one before it, in row-major order of [P, R]."""
    p, r = k.indices(P)[:, None], k.indices(R)
    inside = r > 0
    exists = inside | (p > 0)
    before = K.load((k.where(inside, p, p - 1), k.where(inside, r - 1, R - 1)), valid=exists)
    return (K[p, r] != before) | ~exists


@kernel(name="segmented_parts_i32")
def segmented_parts(k: Builder) -> None:
    """First of three kernels: each part alone. Its running sums, whether it begins a segment, and its last sum."""
    P = k.symbol("P")
    R = k.symbol("R", min=1)
    K, X, Y = k.view("K", "in", "i32", (P, R)), k.view("X", "in", "i32", (P, R)), k.view("Y", "out", "i32", (P, R))
    F, S = k.view("F", "out", "bool", (P,)), k.view("S", "out", "i32", (P,))
    k.noalias(K, X, Y, F, S)
    flags, sums = k.scan((begins(k, K, P, R), X[:, :]), 1, segmented)
    Y[:, :] = sums
    last = (k.indices(P), k.full((P,), R - 1, "index"))
    F[:], S[:] = flags.gather(last), sums.gather(last)


@kernel(name="segmented_carries_i32")
def segmented_carries(k: Builder) -> None:
    """Second: what each part receives from those before it."""
    P = k.symbol("P")
    F, S, C = k.view("F", "in", "bool", (P,)), k.view("S", "in", "i32", (P,)), k.view("C", "out", "i32", (P,))
    k.noalias(F, S, C)
    C[:] = k.scan((F[:], S[:]), 0, segmented, (False, 0), exclusive=True)[1]


@kernel(name="segmented_apply_i32")
def segmented_apply(k: Builder) -> None:
    """Third: the carry goes to what stands before the first segment that a part begins; in place."""
    P = k.symbol("P")
    R = k.symbol("R", min=1)
    K, Y, C = k.view("K", "in", "i32", (P, R)), k.view("Y", "inout", "i32", (P, R)), k.view("C", "in", "i32", (P,))
    k.noalias(K, Y, C)
    begun = begins(k, K, P, R).cast("i32").cumsum(1) > 0
    Y[:, :] = k.where(begun, Y[:, :], Y[:, :] + C[:][:, None])


KERNELS = [
    built_in("cumsum_f32", "cumsum"), built_in("cumsum_exclusive_f32", "cumsum", exclusive=True),
    built_in("cumsum_reverse_f32", "cumsum", reverse=True), built_in("cummax_f32", "cummax"), linear_recurrence, segmented_scan_rows,
    segmented_parts, segmented_carries, segmented_apply,
]  # fmt: skip
