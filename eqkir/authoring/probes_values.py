"""Kernels in which one condition of a rule on values is what keeps it right: rounding, guards, constants that are not the usual ones."""

from __future__ import annotations

from eqkir.authoring.probes import probe
from eqkir.kir.builder import Builder
from eqkir.kir.values import Value


@probe
def absorbed(k: Builder) -> None:
    """Sums of ones beside 2^24, which takes in none of them alone; a sum that is also read elsewhere is added as a whole."""
    M, N, K = k.symbols("M", "N", "K")
    outs = [k.view(f"Y{i}", "out", "f32", (M, N)) for i in range(4)]
    k.noalias(*outs)
    a = (k.indices(M)[:, None] * 0 + k.indices(K) * 0 + 1).cast("f32")
    b = (k.indices(K)[:, None] * 0 + k.indices(N) * 0 + 1).cast("f32")
    big = (k.indices(M)[:, None] * 0 + k.indices(N) * 0 + 16777216).cast("f32")
    shared = k.matmul(a, b)
    outs[0][:, :] = shared + big
    outs[1][:, :] = shared
    outs[2][:, :] = big + shared
    outs[3][:, :] = k.matmul(a, b + b) + big


@probe
def integer_joins(k: Builder) -> None:
    """a*b - c and c - a*b of integers, which have no fused multiply and add."""
    M, N = k.symbols("M", "N")
    A, B, C = (k.view(n, "in", "i32", (M, N)) for n in "ABC")
    outs = [k.view(f"Y{i}", "out", "i32", (M, N)) for i in range(2)]
    k.noalias(A, B, C, *outs)
    a, b, c = A[:, :], B[:, :], C[:, :]
    outs[0][:, :] = a * b - c
    outs[1][:, :] = c - b * a


@probe
def tall_addend(k: Builder) -> None:
    """A contraction of vectors, plus a matrix: the addend has axes that the contraction lacks."""
    M, K = k.symbols("M", "K")
    A, B = k.view("A", "in", "f32", (M, K)), k.view("B", "in", "f32", (K,))
    C, Y = k.view("C", "in", "f32", (3, M)), k.view("Y", "out", "f32", (3, M))
    k.noalias(A, B, C, Y)
    Y[:, :] = k.contract(A[:, :], B[:], [(1, 0)]) + C[:, :]


@probe
def filled(k: Builder) -> None:
    """Loads that are valid in part, beside another constant and beside what is loaded elsewhere."""
    M, N = k.symbols("M", "N")
    X, U = k.view("X", "in", "f32", (M, N)), k.view("U", "in", "f32", (M, N))
    Y, Z = k.view("Y", "out", "f32", (M, N)), k.view("Z", "out", "f32", (M, N))
    k.noalias(X, U, Y, Z)
    j = k.indices(N)
    seen = (j > 0) & (k.indices(M)[:, None] >= 0)
    before = X.load((k.indices(M)[:, None], j - 1), valid=seen, fill=1.0)
    Y[:, :] = k.where(seen, before, U[:, :])
    Z[:, :] = k.where(seen, before, 7.0)


@probe
def staged(k: Builder) -> None:
    """Contractions that start at what an earlier loop gives, below every kind of loop: such a value has two stages."""
    M, N, K = k.symbols("M", "N", "K")
    A, B, C = k.view("A", "in", "f32", (M, K)), k.view("B", "in", "f32", (K, N)), k.view("C", "in", "f32", (M, K))
    D = k.view("D", "in", "f32", (N, N))
    outs = [k.view(f"Y{i}", "out", "f32", (M,)) for i in range(3)]
    Z, I, G = k.view("Z", "out", "f32", (M, N)), k.view("I", "out", "i64", (M,)), k.view("G", "out", "f32", (M, N))
    k.noalias(A, B, C, D, Z, I, G, *outs)
    start = C[:, :].sum(axis=1, keepdims=True)
    v = k.matmul(A[:, :], B[:, :]) + start
    outs[0][:] = v.max(axis=1)
    best, at = k.argmax(v, 1, "i64")
    outs[1][:], I[:] = best, at
    outs[2][:] = (v * v).sum(axis=1)
    Z[:, :] = k.matmul(v, D[:, :])
    G[:, :] = k.matmul(v, D[:, :]) + start


@probe
def staged_while(k: Builder) -> None:
    """A loop with a condition that starts at such a value."""
    M, K = k.symbols("M", "K")
    A, B, C = k.view("A", "in", "f32", (M, K)), k.view("B", "in", "f32", (K,)), k.view("C", "in", "f32", (M, K))
    Y = k.view("Y", "out", "f32", (M,))
    k.noalias(A, B, C, Y)
    v = k.contract(A[:, :], B[:], [(1, 0)]) + C[:, :].sum(axis=1)
    with k.parallel(M) as i:
        start = (k.contract(A[i, :], B[:], [(0, 0)]) + C[i, :].sum(axis=0)).minimum(20.0)
        with k.while_(start, k.const(0, "i32")) as loop:
            n, steps = loop.test(loop.carried[0] > 1.0)
            loop.yield_(n - 1.0, steps + 1)
        Y[i] = loop.results[0]
    del v


def _weights(k: Builder, a: Value) -> tuple[Value, Value]:
    e = (a - a.max(axis=1, keepdims=True)).exp()
    return e, e.sum(axis=1, keepdims=True)


@probe
def doubled_attention(k: Builder) -> None:
    """Softmax in f64, narrowed: no rule of f32 may take it."""
    M, N, D = k.symbols("M", "N", "D")
    A, V, O, P = (k.view(n, r, d, s) for n, r, d, s in (
        ("A", "in", "f64", (M, N)), ("V", "in", "f32", (N, D)), ("O", "out", "f32", (M, D)), ("P", "out", "f32", (M, D))))  # fmt: skip
    Q = k.view("Q", "out", "f64", (M, N))
    k.noalias(A, V, O, P, Q)
    e, s = _weights(k, A[:, :])
    O[:, :] = k.contract((e / s).cast("f32"), V[:, :], [(1, 0)])
    P[:, :] = k.contract((e / k.where(s == 0.0, 1.0, s)).cast("f32"), V[:, :], [(1, 0)])
    Q[:, :] = e / s


@probe
def guarded(k: Builder) -> None:
    """Quotients with guards that are not quite those of a normaliser: another constant, another test, another divisor, another sum."""
    M, N = k.symbols("M", "N")
    A, U = k.view("A", "in", "f32", (M, N)), k.view("U", "in", "f32", (M,))
    outs = [k.view(f"Y{i}", "out", "f32", (M, N)) for i in range(6)]
    k.noalias(A, U, *outs)
    u, one, zero = U[:].reshape(M, 1), k.const(1.0, "f32"), k.const(0.0, "f32")
    e, s = _weights(k, A[:, :])
    j = k.indices(M)[:, None] * 0 + k.indices(N)
    flat, ends = _weights(k, (j * 0).cast("f32")), (j * 2 - 1).cast("f32")  # every weight is 1; -1, 1, ...
    masked = k.where(j < k.indices(M)[:, None], A[:, :], float("-inf"))
    top = masked.max(axis=1, keepdims=True)
    f = k.where(top == float("-inf"), 0.0, (masked - top).exp())  # rows without weights
    t, r = f.sum(axis=1, keepdims=True), ends.sum(axis=1, keepdims=True)
    values = (
        k.where(flat[1] == 2.0, 2.0, flat[0] / k.where(flat[1] == 2.0, one, flat[1])),
        k.where(u == 0.0, zero, e / k.where(u == 0.0, one, s)),
        k.where(t == 0.0, zero, f / t),
        k.where(u == 0.0, zero, e / k.where(u == 0.0, one, u)),
        k.where(r == 0.0, zero, ends / k.where(r == 0.0, one, r)),
        k.where(s == 0.0, zero, e / k.where(s == 0.0, one, s)),
    )
    for y, v in zip(outs, values, strict=True):
        y[:, :] = v


@probe
def other_divisors(k: Builder) -> None:
    """Contractions of weights that were divided, and narrowed, by what is no normaliser of theirs."""
    M, N, D = k.symbols("M", "N", "D")
    A, U, V = k.view("A", "in", "f32", (M, N)), k.view("U", "in", "f32", (M,)), k.view("V", "in", "bf16", (N, D))
    outs = [k.view(f"O{i}", "out", "f32", (M, D)) for i in range(3)]
    k.noalias(A, U, V, *outs)
    e, s = _weights(k, A[:, :])
    rows = A[:, :].exp().sum(axis=0, keepdims=True)
    outs[0][:, :] = k.contract((e / U[:].reshape(M, 1)).cast("bf16"), V[:, :], [(1, 0)])
    outs[1][:, :] = k.contract((e / k.where(rows == 0.0, 1.0, rows)).cast("bf16"), V[:, :], [(1, 0)])
    outs[2][:, :] = k.contract((e / s).cast("bf16"), V[:, :], [(1, 0)])


@probe
def other_maxima(k: Builder) -> None:
    """Exponentials less what is no maximum of theirs, beside maxima over the same axis."""
    M, N, D = k.symbols("M", "N", "D")
    A, B, U, V = (k.view(n, "in", "f32", s) for n, s in (("A", (M, N)), ("B", (M, N)), ("U", (M,)), ("V", (N, D))))
    outs = [k.view(f"O{i}", "out", "f32", (M, D)) for i in range(3)]
    k.noalias(A, B, U, V, *outs)
    a, u = A[:, :], U[:].reshape(M, 1)
    e = (a - u).exp()
    s = e.sum(axis=1, keepdims=True)
    f, t = _weights(k, B[:, :])
    v = V[:, :]
    outs[0][:, :] = k.contract(e, v, [(1, 0)]) / s
    outs[1][:, :] = k.contract(f, v, [(1, 0)]) / t + s
    outs[2][:, :] = k.contract(f, v, [(1, 0)]) / s


@probe
def bare_attention(k: Builder) -> None:
    """A weighted sum over its normaliser, which is 0/0 without members; elsewhere the same normaliser with a guard."""
    M, N, D = k.symbols("M", "N", "D")
    A, V = k.view("A", "in", "f32", (M, N)), k.view("V", "in", "f32", (N, D))
    O, P = k.view("O", "out", "f32", (M, D)), k.view("P", "out", "f32", (M,))
    k.noalias(A, V, O, P)
    e, s = _weights(k, A[:, :])
    O[:, :] = k.contract(e, V[:, :], [(1, 0)]) / s
    P[:] = (1.0 / k.where(s == 0.0, 1.0, s)).reshape(M)


@probe
def centred_attention(k: Builder) -> None:
    """Scores less their own mean and less a contraction over the same members."""
    M, N, D = k.symbols("M", "N", "D")
    A, W, V = k.view("A", "in", "f32", (M, N)), k.view("W", "in", "f32", (N,)), k.view("V", "in", "f32", (N, D))
    O = k.view("O", "out", "f32", (M, D))
    k.noalias(A, W, V, O)
    a = A[:, :]
    a = a - a.sum(axis=1, keepdims=True) - k.contract(A[:, :], W[:], [(1, 0)]).reshape(M, 1)
    e, s = _weights(k, a)
    O[:, :] = k.contract(e, V[:, :], [(1, 0)]) / s


@probe
def gathered_attention(k: Builder) -> None:
    """Scores and values in the order of a table."""
    M, N, D = k.symbols("M", "N", "D")
    A, T, V = k.view("A", "in", "f32", (M, N)), k.view("T", "in", "i32", (N,)), k.view("V", "in", "f32", (N, D))
    O = k.view("O", "out", "f32", (M, D))
    k.noalias(A, T, V, O)
    t = T[:]
    ok = (t >= 0) & (t < N)
    a = A.load((k.indices(M)[:, None], t), valid=ok, fill=0.0) + (t.cast("index") + k.indices(N)).cast("f32")
    e, s = _weights(k, a)
    O[:, :] = k.contract(e, V.load((t[:, None], k.indices(D)), valid=ok[:, None], fill=0.0), [(1, 0)]) / s
