"""Kernels in which one condition of a rule on places is what keeps it right: groups that depend on each other in one way alone, axes that
several operations traverse, loops between bounds."""

from __future__ import annotations

from collections.abc import Sequence

from eqkir.authoring.probes import probe
from eqkir.kir.builder import Builder
from eqkir.kir.values import Value


@probe
def read_after_write(k: Builder) -> None:
    """The second group reads what the first wrote, one place further."""
    (N,) = k.symbols("N")
    X, Y, Z = (k.view(n, r, "f32", (N,)) for n, r in (("X", "in"), ("Y", "out"), ("Z", "out")))
    k.noalias(X, Y, Z)
    i = k.indices(N)
    Y[:] = X[:] * 2.0
    Z[:] = Y.load(i - 1, valid=i >= 1, fill=0.0)


@probe
def write_after_read(k: Builder) -> None:
    """The second group writes what the first reads, one place further."""
    (N,) = k.symbols("N")
    X, Y, U = (k.view(n, r, "f32", (N,)) for n, r in (("X", "inout"), ("Y", "out"), ("U", "in")))
    k.noalias(X, Y, U)
    i = k.indices(N)
    Y[:] = X.load(i - 1, valid=i >= 1, fill=0.0)
    X[:] = U[:]


@probe
def write_after_write(k: Builder) -> None:
    """The second group writes over what the first wrote, one place further."""
    (N,) = k.symbols("N")
    X, Y, U = (k.view(n, r, "f32", (N,)) for n, r in (("X", "in"), ("Y", "out"), ("U", "in")))
    k.noalias(X, Y, U)
    i = k.indices(N)
    Y[:] = X[:]
    Y.store(i - 1, U[:], valid=i >= 1)


@probe
def across(k: Builder) -> None:
    """Groups over different axes, each pair of neighbours dependent in one way."""
    M, N = k.symbols("M", "N")
    X, Y, U = k.view("X", "inout", "f32", (M, N)), k.view("Y", "out", "f32", (M, N)), k.view("U", "in", "f32", (N,))
    R, C = k.view("R", "out", "f32", (M,)), k.view("C", "out", "f32", (N,))
    k.noalias(X, Y, U, R, C)
    Y[:, :] = X[:, :] * 2.0
    C[:] = Y[:, :].sum(axis=0)
    R[:] = X[:, :].sum(axis=1)
    X[:, :] = U[:] + 1.0
    C[:] = U[:] * 3.0


@probe
def read_across(k: Builder) -> None:
    """A group of columns reads what a group of elements wrote."""
    M, N = k.symbols("M", "N")
    X, Y, C = k.view("X", "in", "f32", (M, N)), k.view("Y", "out", "f32", (M, N)), k.view("C", "out", "f32", (N,))
    k.noalias(X, Y, C)
    Y[:, :] = X[:, :] * 2.0
    C[:] = Y[:, :].sum(axis=0)


@probe
def write_across(k: Builder) -> None:
    """A group of rows writes over what a group of columns reads."""
    M, N = k.symbols("M", "N")
    X, U, C = k.view("X", "inout", "f32", (M, N)), k.view("U", "in", "f32", (M, N)), k.view("C", "out", "f32", (N,))
    k.noalias(X, U, C)
    C[:] = X[:, :].sum(axis=0)
    X[:, :] = U[:, :] + 1.0


@probe
def twice_across(k: Builder) -> None:
    """A group of one element writes over what a group of all elements wrote."""
    M, N = k.symbols("M", "N")
    X, Y, U = k.view("X", "in", "f32", (M, N)), k.view("Y", "out", "f32", (M, N)), k.view("U", "in", "f32", (M,))
    k.noalias(X, Y, U)
    Y[:, :] = X[:, :]
    Y.store((k.indices(M), k.indices(M) * 0), U[:], valid=k.indices(M) * 0 < N)


@probe
def in_one_phase(k: Builder) -> None:
    """Stores of one phase, one of which writes over what the other reads."""
    M, N = k.symbols("M", "N")
    X, Y, Z = k.view("X", "inout", "f32", (M, N)), k.view("Y", "out", "f32", (M, N)), k.view("Z", "out", "f32", (M, N))
    k.noalias(X, Y, Z)
    x = X[:, :]
    Y[:, :] = x * 2.0
    X[:, :] = x + 1.0
    Z[:, :] = x * 2.0 + x


@probe
def two_phases(k: Builder) -> None:
    """A group of two phases beside a group of the same axes that depends on neither; before it and after it."""
    M, N = k.symbols("M", "N")
    X, U = k.view("X", "in", "f32", (M, N)), k.view("U", "in", "f32", (M,))
    Y, R, S, T = (
        k.view("Y", "out", "f32", (M, N)),
        k.view("R", "out", "f32", (M,)),
        k.view("S", "out", "f32", (M,)),
        k.view("T", "out", "f32", (M,)),
    )
    k.noalias(X, U, Y, R, S, T)
    S[:] = U[:].exp()
    Y[:, :] = X[:, :] * 2.0
    R[:] = Y[:, :].sum(axis=1)
    T[:] = U[:] + 1.0


@probe
def prefix_planes(k: Builder) -> None:
    """Scans along one axis of scans along another."""
    M, N = k.symbols("M", "N")
    X, I = k.view("X", "in", "f32", (M, N)), k.view("I", "in", "i64", (M, N))
    Y, S = k.view("Y", "out", "f32", (M, N)), k.view("S", "out", "i64", (M, N))
    k.noalias(X, I, Y, S)
    Y[:, :] = X[:, :]._scan("cumsum", 1, False, False)._scan("cumsum", 0, False, False)

    def affine(a: Sequence[Value], b: Sequence[Value]) -> tuple[Value, Value]:
        return a[0] * b[0], b[0] * a[1] + b[1]

    one, two = k.scan([I[:, :], I[:, :] + 1], 1, affine, (1, 0), False, False)
    S[:, :] = k.scan([one + two, two], 0, affine, (1, 0), False, False)[1]


@probe
def bounded_and_not(k: Builder) -> None:
    """A sum between bounds and others over the same members without bounds."""
    M, N = k.symbols("M", "N")
    X = k.view("X", "in", "f32", (M, N))
    outs = [k.view(f"Y{i}", "out", "f32", (M,)) for i in range(3)]
    k.noalias(X, *outs)
    seen = k.indices(N) <= k.indices(M)[:, None]
    outs[0][:] = k.where(seen, X[:, :], 0.0).sum(axis=1)
    outs[1][:] = X[:, :].sum(axis=1)
    outs[2][:] = X[:, :].max(axis=1)


@probe
def ragged_softmax(k: Builder) -> None:
    """Softmax of the members of groups: a maximum and a sum between the same bounds, one below the other."""
    R, E, N = k.symbols("R", "E", "N")
    offsets, A, Y = k.view("offsets", "in", "i32", (E,)), k.view("A", "in", "f32", (N,)), k.view("Y", "out", "f32", (N,))
    k.noalias(offsets, A, Y)
    elements = k.domain(N)
    with k.parallel(R) as r:
        row = k.members(elements, offsets, r)
        a = A[row]
        e = (a - a.max(axis=0)).exp()
        Y[row] = e / e.sum(axis=0)


@probe
def grouped(k: Builder) -> None:
    """Rows sorted by group, each times its group's weight."""
    T, D, G, E = k.symbols("T", "D", "G", "E")
    A, W, Y = k.view("A", "in", "f32", (T, D)), k.view("W", "in", "f32", (G, D)), k.view("Y", "out", "f32", (T, D))
    offsets = k.view("offsets", "in", "i32", (E,))
    k.noalias(A, W, Y, offsets)
    rows = k.domain(T)
    with k.parallel(G) as g:
        mine = k.members(rows, offsets, g)
        Y[mine, :] = A[mine, :] * W[g, :]


@probe
def folded(k: Builder) -> None:
    """Folds of slices, in order."""
    M, N = k.symbols("M", "N")
    X, Y, Z = k.view("X", "in", "f32", (M, N)), k.view("Y", "out", "f32", (M,)), k.view("Z", "out", "index", (M,))
    k.noalias(X, Y, Z)
    zero = k.full((M,), 0.0, "f32")
    Y[:] = k.region_fold(N, [(X[:, :], 1)], (zero,), lambda s, x: x.sum(axis=1), lambda a, b: a[0] + b[0])[0]
    last = lambda s, x: k.where(x > 0.0, k.indices(s), -1).max(axis=1)  # noqa: E731
    later = lambda a, b: k.where(b[0] >= 0, b[0], a[0])  # noqa: E731
    (Z[:],) = k.region_fold(N, [(X[:, :], 1)], (k.full((M,), -1, "index"),), last, later)


@probe
def stages(k: Builder) -> None:
    """A value that may be finished by the first loop over an axis or by the second, read in loops over the same axis."""
    M, K = k.symbols("M", "K")
    A, B, C = k.view("A", "in", "f32", (M, K)), k.view("B", "in", "f32", (K,)), k.view("C", "in", "f32", (M, K))
    Y = k.view("Y", "out", "f32", (M,))
    k.noalias(A, B, C, Y)
    v = k.contract(A[:, :], B[:], [(1, 0)]) + C[:, :].sum(axis=1)
    Y[:] = (A[:, :] + v.reshape(M, 1)).max(axis=1)


@probe
def stages_of_reductions(k: Builder) -> None:
    """The same one reduction further."""
    M, K = k.symbols("M", "K")
    A, B, C = k.view("A", "in", "f32", (M, K)), k.view("B", "in", "f32", (K,)), k.view("C", "in", "f32", (M, K))
    Y = k.view("Y", "out", "f32", (M,))
    k.noalias(A, B, C, Y)
    v = k.contract(A[:, :], B[:], [(1, 0)]) + C[:, :].sum(axis=1)
    top = (A[:, :] + v.reshape(M, 1)).max(axis=1, keepdims=True)
    Y[:] = (A[:, :] - top).exp().sum(axis=1)


@probe
def stages_of_combines(k: Builder) -> None:
    """The same with a generic reduction."""
    M, K = k.symbols("M", "K")
    A, B, C = k.view("A", "in", "f32", (M, K)), k.view("B", "in", "f32", (K,)), k.view("C", "in", "f32", (M, K))
    Y = k.view("Y", "out", "f32", (M,))
    k.noalias(A, B, C, Y)
    v = k.contract(A[:, :], B[:], [(1, 0)]) + C[:, :].sum(axis=1)
    best, _ = k.argmax(A[:, :] + v.reshape(M, 1), 1, "i64")
    Y[:] = (A[:, :] - best.reshape(M, 1)).max(axis=1)


@probe
def stages_of_contractions(k: Builder) -> None:
    """The same with contractions of fragments, one of which starts at an earlier sum."""
    M, N, K = k.symbols("M", "N", "K")
    A, B, C, W = (
        k.view("A", "in", "f16", (M, K)),
        k.view("B", "in", "f16", (K, N)),
        k.view("C", "in", "f32", (M, K)),
        k.view("W", "in", "f32", (K,)),
    )
    Y, Z = k.view("Y", "out", "f32", (M, N)), k.view("Z", "out", "f32", (M, N))
    k.noalias(A, B, C, W, Y, Z)
    start = C[:, :].sum(axis=1, keepdims=True)
    u = k.matmul(A[:, :], B[:, :]) + start
    Y[:, :] = (u.reshape(M, N, 1) + W[:]).max(axis=2)
    v = k.contract(C[:, :], W[:], [(1, 0)]) + C[:, :].sum(axis=1)
    r = k.matmul((A[:, :].cast("f32") + v.reshape(M, 1)).cast("f16"), B[:, :])
    Z[:, :] = (r.reshape(M, N, 1) + W[:]).max(axis=2)


@probe
def stages_of_folds(k: Builder) -> None:
    """The same with folds of slices."""
    M, K = k.symbols("M", "K")
    A, B, C = k.view("A", "in", "f32", (M, K)), k.view("B", "in", "f32", (K,)), k.view("C", "in", "f32", (M, K))
    Y = k.view("Y", "out", "f32", (M,))
    k.noalias(A, B, C, Y)
    v = k.contract(A[:, :], B[:], [(1, 0)]) + C[:, :].sum(axis=1)
    zero = k.full((M,), 0.0, "f32")
    add = lambda a, b: a[0] + b[0]  # noqa: E731
    first = k.region_fold(K, [(A[:, :] + v.reshape(M, 1), 1)], (zero,), lambda s, x: x.sum(axis=1), add)[0]
    Y[:] = k.region_fold(K, [(C[:, :] - first.reshape(M, 1), 1)], (zero,), lambda s, x: x.sum(axis=1), add)[0]


@probe
def rows_in_order(k: Builder) -> None:
    """Each row from the one before, neighbours of it: the steps of the loop around the stores are ordered, the columns are not."""
    N, R = k.symbols("N", "R")
    X, Y = k.view("X", "in", "f32", (N, R)), k.view("Y", "out", "f32", (N, R))
    k.noalias(X, Y)
    rows, j = k.domain(N), k.indices(R)
    y = k.buffer("f32", (N, R), 0.0)
    with k.for_(rows) as loop:
        i = loop.i
        before = y.load((i - 1, j - 1), valid=(i >= 1) & (j >= 1), fill=0.0)
        y[i, :] = X[i, :] + before * 0.5
    Y[:, :] = y[:, :]
