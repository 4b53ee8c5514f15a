"""Kernels for what the language has beside operations: helpers, records, buffers, subregions, permissions."""

from __future__ import annotations

from collections.abc import Sequence

from eqkir.kir.builder import Builder, DomainRef, MemoryRef, Value, helper, kernel


@helper({"re": ("f32", ("P", "Q")), "im": ("f32", ("P", "Q"))})
def square(k: Builder, re: Value, im: Value) -> Value:
    """The square of a complex number as a record."""
    return k.record(re=re * re - im * im, im=2.0 * re * im)


@helper({"x": ("f32", ("P", "Q"))})
def fourth_power(k: Builder, x: Value) -> Value:
    """Of x + x i: a helper that calls another, twice."""
    once = k.call(square, x, x)
    twice: Value = k.call(square, once["re"], once["im"])
    return twice["re"]


@helper({"i": "index", "j": "index"}, constexprs={"stride": 3})
def place(k: Builder, i: Value, j: Value) -> Value:
    """Coordinates keep their identity through a helper."""
    return i * k.constexprs["stride"] + j


@helper({"row": "index"}, {"X": ("in", "f32", ("P", "Q")), "Y": ("inout", "f32", ("Q",))}, effect="effectful")
def accumulate(k: Builder, row: Value, X: MemoryRef, Y: MemoryRef) -> None:
    """Add a row to a vector."""
    Y[:] = Y[:] + X[row, :]


@kernel
def helper_records(k: Builder) -> None:
    M, N = k.symbols("M", "N")
    X, Y = k.view("X", "in", "f32", (M, N)), k.view("Y", "out", "f32", (M, N))
    k.noalias(X, Y)
    x = X[:, :]
    z = k.record(value=k.call(square, x, 1.0 + x), size=k.tuple_of(x.abs().max(axis=1), x.sum(axis=1)))
    Y[:, :] = z["value"]["re"] + z["value"]["im"] * z["size"][0][:, None] + k.call(fourth_power, x) * 0.5


@kernel
def helper_coordinates(k: Builder) -> None:
    """Every third place, through a helper that captures a constexpr."""
    (M,) = k.symbols("M")
    X, Y = k.view("X", "in", "f32", (M, 3)), k.view("Y", "out", "f32", (M, 3))
    k.constexpr("stride", 3)
    k.noalias(X, Y)
    with k.parallel(M, 3) as (i, j):
        at = k.call(place, i, j)
        Y[at // 3, at % 3] = X[i, j] * 2.0


@kernel
def helper_effects(k: Builder) -> None:
    """Rows added up in order by a helper that writes the buffer it is given."""
    M, N = k.symbols("M", "N")
    X, Y = k.view("X", "in", "f32", (M, N)), k.view("Y", "out", "f32", (N,))
    k.noalias(X, Y)
    total = k.buffer("f32", (N,), 0.0)
    with k.for_(M) as loop:
        k.call(accumulate, loop.i, views=(X, total))
    Y[:] = total[:]


@kernel
def carried_record(k: Builder) -> None:
    """Mean and spread of each row by one record carried through a loop."""
    M, N = k.symbols("M", "N")
    X, Y, Z = k.view("X", "in", "f32", (M, N)), k.view("Y", "out", "f32", (M,)), k.view("Z", "out", "f32", (M,))
    k.noalias(X, Y, Z)
    start = k.record(mean=k.full((M,), 0.0, "f32"), spread=k.full((M,), 0.0, "f32"))
    with k.for_(N, start) as loop:
        (s,) = loop.carried
        x, n = X[:, loop.i], (loop.i + 1).cast("f32")
        d = x - s["mean"]
        mean = s["mean"] + d / n
        loop.yield_(k.record(mean=mean, spread=s["spread"] + d * (x - mean)))
    Y[:], Z[:] = loop.result["mean"], loop.result["spread"]


@kernel
def iteration_private_buffer(k: Builder) -> None:
    """A buffer of every iteration, initialised anew each time: running windows of three."""
    M, N = k.symbols("M", "N")
    X, Y = k.view("X", "in", "i32", (M, N)), k.view("Y", "out", "i32", (M, N))
    k.noalias(X, Y)
    with k.parallel(M) as m:
        with k.for_(N) as loop:
            window = k.buffer("i32", (3,), 0)
            j, at = loop.i, k.indices(3)
            window[at] = X.load((m, j - at), valid=j - at >= 0)
            with k.if_((j % 2) == 0):
                window[1] = window[1] * 2
            Y[m, j] = window[:].sum(axis=0)


@kernel
def iteration_private_unwritten(k: Builder) -> None:
    """A buffer without initial value, written before it is read in each iteration: rows reversed by way of it."""
    M, N = k.symbols("M", "N")
    X, Y = k.view("X", "in", "i32", (M, N)), k.view("Y", "out", "i32", (M, N))
    k.noalias(X, Y)
    with k.for_(M) as loop:
        row = k.buffer("i32", (N,))
        row[N - 1 - k.indices(N)] = X[loop.i, :]
        Y[loop.i, :] = row[:]


@kernel
def private_counts(k: Builder) -> None:
    """A zeroed buffer of every row counts what the row brings."""
    M, N = k.symbols("M", "N")
    X, Y = k.view("X", "in", "u8", (M, N)), k.view("Y", "out", "i32", (M, 16))
    k.noalias(X, Y)
    with k.parallel(M) as m:
        counts = k.buffer("i32", (16,), 0)
        counts.scatter_reduce("add", (X[m, :] & 15).cast("index"), k.const(1, "i32"))
        Y[m, :] = counts[:] * 2


@kernel
def private_permuted(k: Builder) -> None:
    """A buffer of every row without initial value: that a permutation fills it is its author's word."""
    M, N = k.symbols("M", "N")
    I, X, Y = k.view("I", "in", "i32", (N,)), k.view("X", "in", "f32", (M, N)), k.view("Y", "out", "f32", (M, N))
    k.noalias(I, X, Y)
    with k.parallel(M) as m:
        row = k.buffer("f32", (N,))
        row.unique_scatter(I[:], X[m, :])
        Y[m, :] = row[:]


@kernel
def workspace_transpose(k: Builder) -> None:
    """A buffer of the whole kernel that one forall fills and another reads elsewhere."""
    M, N = k.symbols("M", "N")
    X, Y = k.view("X", "in", "f32", (M, N)), k.view("Y", "out", "f32", (N, M))
    k.noalias(X, Y)
    between = k.buffer("f32", (N, M))
    with k.parallel(M) as m:
        x = X[m, :]
        between[:, m] = x / (1.0 + x.abs().sum(axis=0))
    with k.parallel(N) as n:
        x = between[n, :]
        Y[n, :] = x - x.max(axis=0)


@kernel
def workspace_counts(k: Builder) -> None:
    """A zeroed buffer counts atomically what all points bring; then it is read."""
    (N,) = k.symbols("N")
    X, Y = k.view("X", "in", "u8", (N,)), k.view("Y", "out", "i32", (16,))
    k.noalias(X, Y)
    counts = k.buffer("i32", (16,), 0)
    with k.parallel(N) as i:
        counts.atomic_add((X[i] & 15).cast("index"), 1)
    Y[:] = counts[:] * 2


@kernel
def split_subregions(k: Builder) -> None:
    """Two parts of one domain, cut where a scalar says; the cut may be at either end. Coordinates are absolute."""
    (N,) = k.symbols("N")
    X, Y = k.view("X", "in", "f32", (N,)), k.view("Y", "out", "f32", (N,))
    cut = k.scalar("cut", "i32")
    k.noalias(X, Y)
    d = k.domain(N)
    at = cut.cast("index").maximum(0).minimum(N)
    left, right = d[0:at], d[at:N]
    Y[left] = X[left] + k.indices(left).cast("f32")
    Y[right] = X[right] * 2.0 - k.indices(right).cast("f32")


@kernel
def approximate_sigmoid(k: Builder) -> None:
    """Quotient and exponential with the permission to be approximate and to flush."""
    M, N = k.symbols("M", "N")
    X, Y = k.view("X", "in", "f32", (M, N)), k.view("Y", "out", "f32", (M, N))
    k.noalias(X, Y)
    e = k.unary("exp2", X[:, :] * -1.4426950408889634, approximate=True, flush_to_zero=True)
    Y[:, :] = k.unary("tanh", k.div(1.0, 1.0 + e, approximate=True), approximate=True)


# ------------------------------------------------------------------------------------------------ small folds, compositions
@kernel
def fold_sum_rows(k: Builder) -> None:
    """Row sums as a fold over slices."""
    M, N = k.symbols("M", "N")
    X, Y = k.view("X", "in", "f32", (M, N)), k.view("Y", "out", "f32", (M,))
    k.noalias(X, Y)
    zero = k.full((M,), 0.0, "f32")
    Y[:] = k.region_fold(N, [(X[:, :], 1)], (zero,), lambda s, x: x.sum(axis=1), lambda a, b: a[0] + b[0])[0]


@kernel
def fold_last_place(k: Builder) -> None:
    """Order matters: the last place of a positive value in each row, -1 where there is none. The slice gives absolute coordinates."""
    M, N = k.symbols("M", "N")
    X, Y = k.view("X", "in", "f32", (M, N)), k.view("Y", "out", "index", (M,))
    k.noalias(X, Y)

    def summarize(s: DomainRef, x: Value) -> Value:
        return k.where(x > 0.0, k.indices(s), -1).max(axis=1)

    def later(a: Sequence[Value], b: Sequence[Value]) -> Value:
        return k.where(b[0] >= 0, b[0], a[0])

    (Y[:],) = k.region_fold(N, [(X[:, :], 1)], (k.full((M,), -1, "index"),), summarize, later)


@kernel
def scan_running_sum(k: Builder) -> None:
    """Running sums of a vector by slices, and the total."""
    (N,) = k.symbols("N")
    X, Y, F = k.view("X", "in", "f32", (N,)), k.view("Y", "out", "f32", (N,)), k.view("F", "out", "f32", ())
    k.noalias(X, Y, F)
    zero = k.const(0.0, "f32")

    def add(a: Sequence[Value], b: Sequence[Value]) -> Value:
        return a[0] + b[0]

    (y,), (f,) = k.region_scan(
        N, [X[:]], (zero,), (zero,), lambda s, x: x.sum(), add, add, lambda s, x, before: x.cumsum(0) + before[0]
    )
    Y[:], F[()] = y, f


@kernel
def sign_and_fma(k: Builder) -> None:
    """The sign bit of X on the fused x·y + 1."""
    M, N = k.symbols("M", "N")
    X, Y = k.view("X", "in", "f32", (M, N)), k.view("Y", "inout", "f32", (M, N))
    k.noalias(X, Y)
    x = X[:, :]
    value = k.fma(x, Y[:, :], 1.0).abs().bitcast("u32")
    Y[:, :] = (value | (x.bitcast("u32") & 0x80000000)).bitcast("f32")


@kernel
def arg_reduce_rows(k: Builder) -> None:
    """Built-in arg-reductions: both extremes of each row and where they are."""
    M, N = k.symbols("M", "N")
    X, Y, I, J = k.view("X", "in", "f32", (M, N)), k.view("Y", "out", "f32", (M,)), *(k.view(n, "out", "i32", (M,)) for n in "IJ")
    k.noalias(X, Y, I, J)
    Y[:], I[:] = k.arg_reduce("argmax", X[:, :], 1, "i32")
    J[:] = k.arg_reduce("argmin", X[:, :], 1, "i32")[1]


@kernel
def contract_of_scan(k: Builder) -> None:
    """A matrix product of running sums."""
    M, N, K = k.symbols("M", "N", "K")
    A, B, Y = k.view("A", "in", "f32", (M, K)), k.view("B", "in", "f32", (K, N)), k.view("Y", "out", "f32", (M, N))
    k.noalias(A, B, Y)
    Y[:, :] = k.matmul(A[:, :].cumsum(1), B[:, :])


@kernel
def reduce_then_scatter(k: Builder) -> None:
    """Sums over two axes, scattered by data."""
    A, B, C = k.symbols("A", "B", "C")
    V = k.symbol("V")
    X, I, Y = k.view("X", "in", "f32", (A, B, C)), k.view("I", "in", "i32", (B,)), k.view("Y", "inout", "f32", (V,))
    k.noalias(X, I, Y)
    i = I[:].cast("index")
    Y.scatter_reduce("add", i, X[:, :, :].sum(axis=(0, 2)), valid=(i >= 0) & (i < V))


@kernel
def fold_with_epilogue(k: Builder) -> None:
    """A fold of maxima and their sum, whose results steer a gather and a sort of clamp."""
    M, N = k.symbols("M", "N")
    X, Y = k.view("X", "in", "f32", (M, N)), k.view("Y", "out", "f32", (M, N))
    k.noalias(X, Y)
    x = X[:, :]

    def merge(a: Sequence[Value], b: Sequence[Value]) -> tuple[Value, Value]:
        return a[0].maximum(b[0]), a[1] + b[1]

    start = (k.full((M,), 0.0, "f32"), k.full((M,), 0, "i32"))
    top, count = k.region_fold(
        N, [(x, 1)], start, lambda s, part: (part.maximum(0.0).max(axis=1).maximum(0.0), (part > 0.0).cast("i32").sum(axis=1)), merge
    )
    m, n = k.indices(M)[:, None], k.indices(N)
    shifted = n + count.cast("index")[:, None]
    Y[:, :] = x.gather((m, shifted), valid=shifted < N, fill=-1.0).minimum(top[:, None] * 0.5)


KERNELS = [
    fold_sum_rows, fold_last_place, scan_running_sum, sign_and_fma, arg_reduce_rows, contract_of_scan, reduce_then_scatter,
    fold_with_epilogue, helper_records, helper_coordinates, helper_effects, carried_record,
    iteration_private_buffer, iteration_private_unwritten, private_counts, private_permuted,
    workspace_transpose, workspace_counts, split_subregions, approximate_sigmoid,
]  # fmt: skip
HELPERS = [square, fourth_power, place, accumulate]
