"""Gathers, scatters and ragged data: workloads 38 to 41.

Bounds of ragged groups stand in one view of offsets, one entry more than there are groups; that it has that entry is assumed.
"""

from __future__ import annotations

from eqkir.kir.builder import Builder, DomainRef, Value, ViewRef, kernel


@kernel(name="embedding_bf16")
def embedding(k: Builder) -> None:
    """Rows of W by id; an id outside the table gives zeros."""
    T, V, D = k.symbols("T", "V", "D")
    I, W, Y = k.view("I", "in", "i64", (T,)), k.view("W", "in", "bf16", (V, D)), k.view("Y", "out", "bf16", (T, D))
    k.noalias(I, W, Y)
    row = I[:].cast("index")[:, None]
    Y[:, :] = W.load((row, k.indices(D)), valid=(row >= 0) & (row < V))


@kernel(name="embedding_backward_f32")
def embedding_backward(k: Builder) -> None:
    """Gradients of the rows by atomic addition."""
    T, V, D = k.symbols("T", "V", "D")
    I, DY, DW = k.view("I", "in", "i64", (T,)), k.view("DY", "in", "bf16", (T, D)), k.view("DW", "inout", "f32", (V, D))
    k.noalias(I, DY, DW)
    row = I[:].cast("index")[:, None]
    DW.atomic_add((row, k.indices(D)), DY[:, :].cast("f32"), valid=(row >= 0) & (row < V))


@kernel(name="index_add_f32")
def index_add(k: Builder) -> None:
    T, V, D = k.symbols("T", "V", "D")
    I, X, Y = k.view("I", "in", "i32", (T,)), k.view("X", "in", "f32", (T, D)), k.view("Y", "inout", "f32", (V, D))
    k.noalias(I, X, Y)
    row = I[:].cast("index")[:, None]
    Y.scatter_reduce("add", (row, k.indices(D)), X[:, :], valid=(row >= 0) & (row < V))


def group(members: DomainRef, offsets: ViewRef, g: Value) -> DomainRef:
    """``members[offsets[g] : offsets[g + 1]]``."""
    begin, end = offsets[offsets.assume_in_bounds(g, 0)], offsets[offsets.assume_in_bounds(g + 1, 0)]
    return members[begin.cast("index") : end.cast("index")]


@kernel(name="csr_spmv_f32")
def csr_spmv(k: Builder) -> None:
    R, E, N, C = k.symbols("R", "E", "N", "C")
    offsets, columns = k.view("offsets", "in", "i32", (E,)), k.view("columns", "in", "i32", (N,))
    A, X, Y = k.view("A", "in", "f32", (N,)), k.view("X", "in", "f32", (C,)), k.view("Y", "out", "f32", (R,))
    k.noalias(offsets, columns, A, X, Y)
    elements = k.domain(N)
    with k.parallel(R) as r:
        row = group(elements, offsets, r)
        Y[r] = (A[row] * X[X.assume_in_bounds(columns[row], 0)]).sum(axis=0)


@kernel(name="csr_spmm_f32")
def csr_spmm(k: Builder) -> None:
    R, E, N, C, D = k.symbols("R", "E", "N", "C", "D")
    offsets, columns = k.view("offsets", "in", "i32", (E,)), k.view("columns", "in", "i32", (N,))
    A, X, Y = k.view("A", "in", "f32", (N,)), k.view("X", "in", "f32", (C, D)), k.view("Y", "out", "f32", (R, D))
    k.noalias(offsets, columns, A, X, Y)
    elements = k.domain(N)
    with k.parallel(R) as r:
        row = group(elements, offsets, r)
        x = X[X.assume_in_bounds(columns[row], 0)[:, None], k.indices(D)]
        Y[r, :] = (A[row][:, None] * x).sum(axis=0)


@kernel(name="jagged_mean_f32")
def jagged_mean(k: Builder) -> None:
    """Means of the rows of each group; an empty group gives 0."""
    G, E, N, D = k.symbols("G", "E", "N", "D")
    offsets, X, Y = k.view("offsets", "in", "i32", (E,)), k.view("X", "in", "f32", (N, D)), k.view("Y", "out", "f32", (G, D))
    k.noalias(offsets, X, Y)
    rows = k.domain(N)
    with k.parallel(G) as g:
        members = group(rows, offsets, g)
        count = k.value(members.length).maximum(1).cast("f32")
        Y[g, :] = X[members, :].sum(axis=0) / count


@kernel(name="jagged_softmax_f32")
def jagged_softmax(k: Builder) -> None:
    """Softmax over the rows of each group, for each column."""
    N, D = k.symbols("N", "D")
    E = k.symbol("E", min=1)
    offsets, X, Y = k.view("offsets", "in", "i32", (E,)), k.view("X", "in", "f32", (N, D)), k.view("Y", "inout", "f32", (N, D))
    k.noalias(offsets, X, Y)
    rows = k.domain(N)
    with k.parallel(E - 1) as g:
        members = k.members(rows, offsets, g)
        x = X[members, :]
        e = (x - x.max(axis=0)).exp()
        Y[members, :] = e / e.sum(axis=0)


@kernel(name="segment_max_f32")
def segment_max(k: Builder) -> None:
    """Maxima of groups; an empty group gives -inf."""
    G, E, N = k.symbols("G", "E", "N")
    offsets, X, Y = k.view("offsets", "in", "i32", (E,)), k.view("X", "in", "f32", (N,)), k.view("Y", "out", "f32", (G,))
    k.noalias(offsets, X, Y)
    elements = k.domain(N)
    with k.parallel(G) as g:
        Y[g] = X[group(elements, offsets, g)].max(axis=0)


@kernel(name="segment_max_scattered_i32")
def segment_max_scattered(k: Builder) -> None:
    """Maxima by segment id, in any order."""
    N, G = k.symbols("N", "G")
    I, X, Y = k.view("I", "in", "i32", (N,)), k.view("X", "in", "i32", (N,)), k.view("Y", "inout", "i32", (G,))
    k.noalias(I, X, Y)
    i = I[:].cast("index")
    Y.scatter_reduce("max", i, X[:], valid=(i >= 0) & (i < G))


# ------------------------------------------------------------------------------------------------ mixtures of experts
@kernel(name="moe_grouped_gemm_bf16")
def moe_grouped_gemm(k: Builder) -> None:
    """Rows sorted by expert, each group of rows times its expert's weights."""
    T, D, N, X_, E = k.symbols("T", "D", "N", "X", "E")
    A, W, Y = k.view("A", "in", "bf16", (T, D)), k.view("W", "in", "bf16", (X_, D, N)), k.view("Y", "out", "bf16", (T, N))
    offsets = k.view("offsets", "in", "i32", (E,))
    k.noalias(A, W, Y, offsets)
    tokens = k.domain(T)
    with k.parallel(X_) as e:
        rows = group(tokens, offsets, e)
        Y[rows, :] = k.contract(A[rows, :], W[e, :, :], [(1, 0)]).cast("bf16")


@kernel(name="moe_align")
def moe_align(k: Builder) -> None:
    """Tokens sorted by expert, stable: counts, offsets, and the place of each token; an id out of range gets the place -1."""
    T, X_ = k.symbols("T", "X")
    I, places = k.view("I", "in", "i32", (T,)), k.view("places", "out", "i32", (T,))
    counts, offsets = k.view("counts", "out", "i32", (X_,)), k.view("offsets", "out", "i32", (X_,))
    k.noalias(I, places, counts, offsets)
    ids = I[:]
    valid = (ids >= 0) & (ids < X_)
    count = k.histogram(ids, X_, valid)
    begin = count.cumsum(0, exclusive=True)
    counts[:], offsets[:] = count, begin
    mine = (ids[:, None] == k.indices(X_).cast("i32")).cast("i32")
    rank = (mine.cumsum(0, exclusive=True) * mine).sum(axis=1)
    places[:] = k.where(valid, begin.gather((ids,), valid=valid) + rank, -1)


@kernel(name="moe_count")
def moe_count(k: Builder) -> None:
    """Counts by expert: a histogram of each part, added atomically."""
    P, R, X_ = k.symbols("P", "R", "X")
    I, counts = k.view("I", "in", "i32", (P, R)), k.view("counts", "inout", "i32", (X_,))
    k.noalias(I, counts)
    with k.parallel(P) as p:
        ids = I[p, :]
        counts.atomic_add(k.indices(X_), k.histogram(ids, X_, (ids >= 0) & (ids < X_)))


@kernel(name="moe_sort")
def moe_sort(k: Builder) -> None:
    """Tokens to their places (of `moe_align`), which are distinct."""
    T, D = k.symbols("T", "D")
    X, Y = k.view("X", "in", "bf16", (T, D)), k.view("Y", "inout", "bf16", (T, D))
    places = k.view("places", "in", "i32", (T,))
    k.noalias(X, Y, places)
    row = places[:].cast("index")[:, None]
    Y.unique_scatter((row, k.indices(D)), X[:, :], valid=(row >= 0) & (row < T))


KERNELS = [
    embedding, embedding_backward, index_add, csr_spmv, csr_spmm, jagged_mean, jagged_softmax, segment_max, segment_max_scattered,
    moe_grouped_gemm, moe_align, moe_count, moe_sort,
]  # fmt: skip
