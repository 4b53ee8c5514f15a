"""Selection and sorting inside rows: workload 47."""

from __future__ import annotations

from eqkir.kir.builder import Builder, kernel


@kernel(name="top_k_f32")
def top_k(k: Builder) -> None:
    """The K largest of each row and their positions, one after another: each is the best of those after the last one found.

    Order: larger first, then lower position. K at most the row's length.
    """
    M, N, K = k.symbols("M", "N", "K")
    X, Y, I = k.view("X", "in", "f32", (M, N)), k.view("Y", "out", "f32", (M, K)), k.view("I", "out", "i32", (M, K))
    k.noalias(X, Y, I)
    with k.parallel(M) as m:
        x, at = X[m, :], k.indices(N)
        with k.for_(K, k.const("inf", "f32"), k.const(-1, "index")) as loop:
            value, place = loop.carried
            left = (x < value) | ((x == value) & (at > place))
            best, found = k.argmax(k.where(left, x, float("-inf")), 0)
            Y[m, loop.i], I[m, loop.i] = best, found.cast("i32")
            loop.yield_(best, found)


@kernel(name="bitonic_sort_rows_f32")
def bitonic_sort_rows(k: Builder) -> None:
    """Each row of `width` (a power of two) values ascending, by compare and exchange on a buffer."""
    M = k.symbol("M")
    k.constexpr("width", 32)
    X, Y = k.view("X", "in", "f32", (M, k.named("width"))), k.view("Y", "out", "f32", (M, k.named("width")))
    k.noalias(X, Y)
    with k.parallel(M) as m:
        row = k.buffer("f32", (k.named("width"),), X[m, :])
        i = k.indices(k.named("width"))
        width = k.value(k.named("width"))
        with k.while_(k.const(2, "index")) as outer:
            (size,) = outer.test(outer.carried[0] <= width)
            with k.while_(size // 2) as inner:
                (stride,) = inner.test(inner.carried[0] >= 1)
                partner = row.assume_in_bounds(i ^ stride, 0)
                mine, other = row[i], row[partner]
                ascending = (i & size) == 0
                keep_small = (i < partner) == ascending
                row[i] = k.where(keep_small, mine.minimum(other), mine.maximum(other))
                inner.yield_(stride // 2)
            outer.yield_(size * 2)
        Y[m, :] = row[:]


@kernel(name="nucleus_partials_f32")
def nucleus_partials(k: Builder) -> None:
    """Probabilities in descending order: how many are needed to reach `mass`, and their sum."""
    M, N = k.symbols("M", "N")
    X, C, S = k.view("X", "in", "f32", (M, N)), k.view("C", "out", "i32", (M,)), k.view("S", "out", "f32", (M,))
    mass = k.scalar("mass", "f32")
    k.noalias(X, C, S)
    x = X[:, :]
    needed = x.cumsum(1, exclusive=True) < mass
    C[:] = needed.cast("i32").sum(axis=1)
    S[:] = k.where(needed, x, 0.0).sum(axis=1)


KERNELS = [top_k, bitonic_sort_rows, nucleus_partials]
