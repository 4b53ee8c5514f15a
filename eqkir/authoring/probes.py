"""Kernels that rules are tried on: small, and between them with every shape of program that the vocabulary speaks of.

They are no benchmarks: each holds several reuses, broadcasts, dtypes and orders in which a wrong rule shows.
"""

from __future__ import annotations

from collections.abc import Callable

from eqkir.kir import ops
from eqkir.kir.builder import Builder, kernel
from eqkir.kir.model import Kernel
from eqkir.kir.values import Value

PROBES: list[Kernel] = []


def probe(fn: Callable[[Builder], None]) -> Kernel:
    """Build a kernel and keep it among the probes."""
    k = kernel(fn)
    PROBES.append(k)
    return k


@probe
def products(k: Builder) -> None:
    """a*b ± c, the products used once and used twice, and of several dtypes."""
    M, N = k.symbols("M", "N")
    A, B, C = (k.view(n, "in", "f32", (M, N)) for n in "ABC")
    outs = [k.view(f"Y{i}", "out", "f32", (M, N)) for i in range(6)]
    k.noalias(A, B, C, *outs)
    a, b, c = A[:, :], B[:, :], C[:, :]
    shared = a * c
    values = (a * b + c, c + b * a, b * c - a, b - c * a, shared - b, shared)
    for y, v in zip(outs, values, strict=True):
        y[:, :] = v


@probe
def cancelled(k: Builder) -> None:
    """A product less its own rounded maximum: what is rounded once for all of its readers must stay so."""
    M, N = k.symbols("M", "N")
    A, B = k.view("A", "in", "f32", (M, N)), k.view("B", "in", "f32", (M, N))
    outs = [k.view(f"Y{i}", "out", "f32", (M, N)) for i in range(4)]
    k.noalias(A, B, *outs)
    p = A[:, :] * B[:, :]
    top = p.max(axis=1, keepdims=True)
    for y, v in zip(outs, (p - top, top - p, p + -top, -top + p), strict=True):
        y[:, :] = v * 1e6


@probe
def narrow_products(k: Builder) -> None:
    """Products of narrow floats."""
    M, N = k.symbols("M", "N")
    A, B, C = (k.view(n, "in", "f16", (M, N)) for n in "ABC")
    Y, Z = k.view("Y", "out", "f16", (M, N)), k.view("Z", "out", "f16", (M,))
    k.noalias(A, B, C, Y, Z)
    a, b, c = A[:, :], B[:, :], C[:, :]
    Y[:, :] = a * b + c
    Z[:] = (a * b).sum(axis=1).cast("f16")


@probe
def integers(k: Builder) -> None:
    """Arithmetic of integers, which wraps."""
    M, N = k.symbols("M", "N")
    A, B, C = (k.view(n, "in", "i32", (M, N)) for n in "ABC")
    outs = [k.view(f"Y{i}", "out", "i32", (M, N)) for i in range(3)] + [k.view("Z", "out", "i32", (M,))]
    k.noalias(A, B, C, *outs)
    a, b, c = A[:, :], B[:, :], C[:, :]
    outs[0][:, :] = a * b + c
    outs[1][:, :] = (a - b) * c
    outs[2][:, :] = (a & 7) + (b ^ c)
    outs[3][:] = (a * b).sum(axis=1)


@probe
def casts(k: Builder) -> None:
    """There and back, through wider and narrower types."""
    M, N = k.symbols("M", "N")
    X, H, W = k.view("X", "in", "f32", (M, N)), k.view("H", "in", "bf16", (M, N)), k.view("W", "in", "f16", (M, N))
    outs = [k.view("Y0", "out", "bf16", (M, N)), k.view("Y1", "out", "f32", (M, N)), k.view("Y2", "out", "f16", (M, N))]
    outs += [k.view("Y3", "out", "bf16", (M, N)), k.view("Y4", "out", "f16", (M, N))]
    k.noalias(X, H, W, *outs)
    outs[0][:, :] = H[:, :].cast("f32").cast("bf16")
    outs[1][:, :] = X[:, :].cast("bf16").cast("f32")
    outs[2][:, :] = W[:, :].cast("f32").cast("f16")
    outs[3][:, :] = X[:, :].cast("f32").cast("bf16").cast("f32").cast("bf16")
    outs[4][:, :] = H[:, :].cast("f32").cast("f16").cast("f32").cast("f16")


@probe
def elementary(k: Builder) -> None:
    """Signs, zeros, selects and comparisons."""
    M, N = k.symbols("M", "N")
    A, B, c = k.view("A", "in", "f32", (M, N)), k.view("B", "in", "f32", (N,)), k.scalar("c", "f32")
    outs = [k.view(f"Y{i}", "out", "f32", (M, N)) for i in range(12)]
    k.noalias(A, B, *outs)
    a, b = A[:, :], B[:]
    values: list[Value] = [
        a + 0.0,
        a * 1.0,
        a - a,
        a * 0.0,
        a.unary("neg").unary("neg"),
        a / 2.0,
        (a + b) - b,
        k.where(a < b, a, b),
        abs(-a),
        a.maximum(b) + c,
        (a + b) + c,
        a / a,
    ]
    for y, v in zip(outs, values, strict=True):
        y[:, :] = v


@probe
def distributed(k: Builder) -> None:
    """Sums of products, quotients, roots and exponentials that algebra would rewrite."""
    M, N = k.symbols("M", "N")
    A, B, C = (k.view(n, "in", "f32", (M, N)) for n in "ABC")
    outs = [k.view(f"Y{i}", "out", "f32", (M, N)) for i in range(7)]
    k.noalias(A, B, C, *outs)
    a, b, c = A[:, :], B[:, :], C[:, :]
    values = [a * b + a * c, (a * b) * c, (a / b) * c, (a * b).sqrt(), a.exp() * b.exp(), a.exp().log(), 1.0 / b.sqrt()]
    for y, v in zip(outs, values, strict=True):
        y[:, :] = v


@probe
def rows(k: Builder) -> None:
    """Reductions of one row in two passes and in one, kept and dropped axes."""
    M, N = k.symbols("M", "N")
    X, Y, S = k.view("X", "in", "f32", (M, N)), k.view("Y", "out", "f32", (M, N)), k.view("S", "out", "f32", (M,))
    k.noalias(X, Y, S)
    x = X[:, :]
    e = (x - x.max(axis=1, keepdims=True)).exp()
    s = e.sum(axis=1, keepdims=True)
    Y[:, :] = e / s
    S[:] = (x * x).sum(axis=1)


@probe
def planes(k: Builder) -> None:
    """Reductions over two axes, in both orders, of floats and integers."""
    M, N, K = k.symbols("M", "N", "K")
    X, I = k.view("X", "in", "f32", (M, N, K)), k.view("I", "in", "i32", (M, N, K))
    outs = [k.view(n, "out", d, (M,)) for n, d in (("A", "f32"), ("B", "i32"), ("C", "f32"), ("D", "f32"), ("E", "i32"))]
    k.noalias(X, I, *outs)
    outs[0][:] = X[:, :, :].max(axis=2).max(axis=1)
    outs[1][:] = I[:, :, :].sum(axis=2).sum(axis=1)
    outs[2][:] = X[:, :, :].sum(axis=2).max(axis=1)
    outs[3][:] = X[:, :, :].sum(axis=1).sum(axis=1)
    outs[4][:] = I[:, :, :].sum(axis=1).max(axis=1)


@probe
def outer_sums(k: Builder) -> None:
    """Sums of products whose factors lack an axis of the sum."""
    M, N = k.symbols("M", "N")
    A, B, C = k.view("A", "in", "f32", (M, N)), k.view("B", "in", "f32", (N,)), k.view("C", "in", "f32", (M, 1))
    outs = [k.view(f"Y{i}", "out", "f32", (M,)) for i in range(3)]
    k.noalias(A, B, C, *outs)
    a, b, c = A[:, :], B[:], C[:, :]
    outs[0][:] = (a * b).sum(axis=1)
    outs[1][:] = (a * c).sum(axis=1)
    outs[2][:] = (c * a).sum(axis=1)


@probe
def matmul(k: Builder) -> None:
    """Contractions with an addend: used once, used twice, of another shape, and left of the sum."""
    M, N, K = k.symbols("M", "N", "K")
    A, B = k.view("A", "in", "bf16", (M, K)), k.view("B", "in", "bf16", (K, N))
    C, R = k.view("C", "in", "f32", (M, N)), k.view("R", "in", "f32", (N,))
    outs = [k.view(f"Y{i}", "out", "f32", (M, N)) for i in range(4)]
    k.noalias(A, B, C, R, *outs)
    a, b = A[:, :], B[:, :]
    outs[0][:, :] = k.matmul(a, b) + C[:, :]
    outs[1][:, :] = R[:] + k.matmul(a + a, b)
    shared = k.matmul(a, b + b)
    outs[2][:, :] = shared + C[:, :]
    outs[3][:, :] = shared


@probe
def wide_addend(k: Builder) -> None:
    """A contraction of vectors, added to a matrix: the addend has axes that the contraction lacks."""
    M, K = k.symbols("M", "K")
    A, B = k.view("A", "in", "f32", (M, K)), k.view("B", "in", "f32", (K,))
    C, Y = k.view("C", "in", "f32", (3, M)), k.view("Y", "out", "f32", (3, M))
    k.noalias(A, B, C, Y)
    Y[:, :] = C[:, :] + k.contract(A[:, :], B[:], [(1, 0)])


@probe
def batched(k: Builder) -> None:
    """Contractions with a batch axis."""
    M, N, K = k.symbols("M", "N", "K")
    A, B = k.view("A", "in", "f16", (2, M, K)), k.view("B", "in", "f16", (2, K, N))
    Y, V = k.view("Y", "out", "f32", (2, M, N)), k.view("V", "out", "f32", (2, M))
    k.noalias(A, B, Y, V)
    y = k.contract(A[:, :, :], B[:, :, :], [(2, 1)], [(0, 0)])
    Y[:, :, :] = y
    V[:, :] = y.max(axis=2)


@probe
def scans(k: Builder) -> None:
    """Scans of rows."""
    M, N = k.symbols("M", "N")
    X = k.view("X", "in", "f32", (M, N))
    outs = [k.view(f"Y{i}", "out", "f32", (M, N)) for i in range(3)]
    k.noalias(X, *outs)
    x = X[:, :]
    outs[0][:, :] = x._scan("cumsum", 1, False, False)
    outs[1][:, :] = x._scan("cummax", 1, True, False)
    outs[2][:, :] = x._scan("cumsum", 0, False, True)


@probe
def own_combines(k: Builder) -> None:
    """Generic reductions and scans; the scan's combine does not commute."""
    M, N = k.symbols("M", "N")
    X, I = k.view("X", "in", "f32", (M, N)), k.view("I", "in", "i64", (M, N))
    V, W = k.view("V", "out", "f32", (M,)), k.view("W", "out", "i64", (M,))
    S = k.view("S", "out", "i64", (M, N))
    k.noalias(X, I, V, W, S)
    best, at = k.argmax(X[:, :], 1, "i64")
    V[:] = best
    W[:] = at
    one, two = k.scan([I[:, :], I[:, :] + 1], 1, lambda a, b: (a[0] * b[0], b[0] * a[1] + b[1]), (1, 0), False, False)
    S[:, :] = one + two


@probe
def groups(k: Builder) -> None:
    """Outputs of one domain, of others, and one that is read again."""
    M, N, L = k.symbols("M", "N", "L")
    X, U = k.view("X", "in", "f32", (M, N)), k.view("U", "in", "f32", (L,))
    Y, Z, V = k.view("Y", "out", "f32", (M, N)), k.view("Z", "out", "f32", (M, N)), k.view("V", "out", "f32", (L,))
    k.noalias(X, U, Y, Z, V)
    Y[:, :] = X[:, :] * 2.0
    Z[:, :] = X[:, :] + 1.0
    V[:] = U[:].exp()


@probe
def dependent(k: Builder) -> None:
    """Read after write, write after read and write after write, between groups of one domain."""
    M, N = k.symbols("M", "N")
    X, Y, Z = k.view("X", "inout", "f32", (M, N)), k.view("Y", "inout", "f32", (M, N)), k.view("Z", "out", "f32", (M, N))
    k.noalias(X, Y, Z)
    Y[:, :] = X[:, :] * 2.0
    Z[:, :] = Y[:, :].sum(axis=1, keepdims=True) + X[:, :]
    X[:, :] = Z[:, :] - 1.0
    Y[:, :] = X[:, :].sum(axis=1, keepdims=True) + Y[:, :]


@probe
def aliased(k: Builder) -> None:
    """Views that may share memory."""
    M, N = k.symbols("M", "N")
    X, Y, Z = k.view("X", "in", "f32", (M, N)), k.view("Y", "out", "f32", (M, N)), k.view("Z", "out", "f32", (M, N))
    Y[:, :] = X[:, :] * 2.0
    Z[:, :] = X[:, :] + 1.0


@probe
def masked(k: Builder) -> None:
    """Loads that are valid in part, and a select beside them."""
    M, N = k.symbols("M", "N")
    X, Y, Z = k.view("X", "in", "f32", (M, N)), k.view("Y", "out", "f32", (M, N)), k.view("Z", "out", "f32", (M,))
    k.noalias(X, Y, Z)
    i, j = k.indices(M), k.indices(N)
    seen = j <= i[:, None]
    x = k.where(seen, X[:, :], 0.0)
    Y[:, :] = k.where(seen, X[:, :], float("-inf"))
    Z[:] = x.sum(axis=1)


@probe
def attention(k: Builder) -> None:
    """Softmax of scores, causal, weighted sum: rows that see nothing among them."""
    M, N, D = k.symbols("M", "N", "D")
    Q, K, V = k.view("Q", "in", "f32", (M, D)), k.view("K", "in", "f32", (N, D)), k.view("V", "in", "f32", (N, D))
    O, P = k.view("O", "out", "f32", (M, D)), k.view("P", "out", "f32", (M,))
    k.noalias(Q, K, V, O, P)
    s = k.where(k.indices(N) < k.indices(M)[:, None], k.contract(Q[:, :], K[:, :], [(1, 1)]), float("-inf"))
    top = s.max(axis=1, keepdims=True)
    e = k.where(top == float("-inf"), 0.0, (s - top).exp())
    total = e.sum(axis=1, keepdims=True)
    p = k.where(total == 0.0, 0.0, e / k.where(total == 0.0, 1.0, total))
    O[:, :] = k.contract(p, V[:, :], [(1, 0)])
    P[:] = total.sum(axis=1)


@probe
def plain_attention(k: Builder) -> None:
    """Scores, their softmax, and a contraction with it."""
    M, N, D = k.symbols("M", "N", "D")
    Q, K, V = k.view("Q", "in", "f32", (M, D)), k.view("K", "in", "f32", (N, D)), k.view("V", "in", "f32", (N, D))
    O = k.view("O", "out", "f32", (M, D))
    k.noalias(Q, K, V, O)
    s = k.contract(Q[:, :], K[:, :], [(1, 1)])
    e = (s - s.max(axis=1, keepdims=True)).exp()
    O[:, :] = k.contract(e / e.sum(axis=1, keepdims=True), V[:, :], [(1, 0)])


@probe
def approximate(k: Builder) -> None:
    """Operations under `approximate` and `flush_to_zero`."""
    M, N = k.symbols("M", "N")
    X = k.view("X", "in", "f32", (M, N))
    outs = [k.view(f"Y{i}", "out", "f32", (M, N)) for i in range(6)]
    k.noalias(X, *outs)
    x = X[:, :]

    def one(fn: str, **marks: bool) -> Value:
        return k.one(ops.Unary, fn=fn, x=x.id, **marks)

    values = [one("exp2", approximate=True), one("tanh", approximate=True, flush_to_zero=True), k.div(x, x + 1.0, approximate=True)]
    values += [one("exp2", flush_to_zero=True), one("exp2"), k.div(x, x + 2.0, flush_to_zero=True)]
    for y, v in zip(outs, values, strict=True):
        y[:, :] = v


@probe
def windows(k: Builder) -> None:
    """Members between bounds that vary, masked loads under a select."""
    M, N = k.symbols("M", "N")
    X, Y, width = k.view("X", "in", "f32", (M, N)), k.view("Y", "out", "f32", (M, N)), k.scalar("width", "i32")
    k.noalias(X, Y)
    points, w = k.domain(N), width.cast("index").maximum(1)
    with k.parallel(M, N) as (m, n):
        Y[m, n] = X[m, points[(n + 1 - w).maximum(0) : n + 1]].sum(axis=0)


@probe
def halving(k: Builder) -> None:
    """A loop that runs while a condition holds."""
    (M,) = k.symbols("M")
    X, Y = k.view("X", "in", "i64", (M,)), k.view("Y", "out", "i32", (M,))
    k.noalias(X, Y)
    with k.parallel(M) as i:
        with k.while_(X[i] & 1023, k.const(0, "i32")) as loop:
            n, steps = loop.test(loop.carried[0] > 1)
            loop.yield_(k.where((n & 1) == 0, n >> 1, n - 3), steps + 1)
        Y[i] = loop.results[1]


@probe
def centred(k: Builder) -> None:
    """A store over two loops whose order is free."""
    M, N, K = k.symbols("M", "N", "K")
    X, Y = k.view("X", "in", "f32", (M, N, K)), k.view("Y", "out", "f32", (M, N, K))
    k.noalias(X, Y)
    x = X[:, :, :]
    Y[:, :, :] = x - x.max(axis=2, keepdims=True).max(axis=1, keepdims=True)


@probe
def ragged(k: Builder) -> None:
    """Sums over the members of groups, and rows that take part in the group that holds them."""
    R, E, N = k.symbols("R", "E", "N")
    offsets = k.view("offsets", "in", "i32", (E,))
    A, W = k.view("A", "in", "f32", (N,)), k.view("W", "in", "f32", (R,))
    Y = k.view("Y", "out", "f32", (R,))
    k.noalias(offsets, A, W, Y)
    elements = k.domain(N)
    with k.parallel(R) as r:
        row = k.members(elements, offsets, r)
        Y[r] = (A[row] * W[r]).sum(axis=0)


@probe
def narrow_attention(k: Builder) -> None:
    """Weights that are narrowed before the contraction; a normaliser that may be 1 instead of 0."""
    M, N, D = k.symbols("M", "N", "D")
    Q, K, V = k.view("Q", "in", "bf16", (M, D)), k.view("K", "in", "bf16", (N, D)), k.view("V", "in", "bf16", (N, D))
    O, P = k.view("O", "out", "f32", (M, D)), k.view("P", "out", "f32", (M, D))
    k.noalias(Q, K, V, O, P)
    s = k.contract(Q[:, :], K[:, :], [(1, 1)])
    e = (s - s.max(axis=1, keepdims=True)).exp()
    total = e.sum(axis=1, keepdims=True)
    O[:, :] = k.contract((e / total).cast("bf16"), V[:, :], [(1, 0)])
    P[:, :] = k.contract((e / k.where(total == 0.0, 1.0, total)).cast("bf16"), V[:, :], [(1, 0)])
