"""Constructed programs compute the formula: every store at every point, against numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from eqkir.kir.builder import Builder
from eqkir.program.construct import construct
from eqkir.program.lower import conservative
from eqkir.program.verify import verify
from tests.construct.brute import run

rng = np.random.default_rng(7)
SIZES = [(3, 5), (1, 1), (4, 4), (2, 0), (0, 3), (5, 1)]


def build(fill: Callable[[Builder], None], name: str = "k", **constexprs: Any) -> Any:
    k = Builder(name)
    fill(k)
    return construct(k.build(), constexprs=constexprs)


def f32(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def close(a: np.ndarray, b: np.ndarray) -> None:
    np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-5)


def softmax(k: Builder) -> None:
    M, N = k.symbols("M", "N")
    X, Y = k.view("X", "in", "f32", (M, N)), k.view("Y", "out", "f32", (M, N))
    k.noalias(X, Y)
    e = (X[:, :] - X[:, :].max(axis=1, keepdims=True)).exp()
    Y[:, :] = e / e.sum(axis=1, keepdims=True)


def square_softmax(axis: int, transposed: bool) -> Callable[[Builder], None]:
    def fill(k: Builder) -> None:
        (S,) = k.symbols("S")
        X, Y = k.view("X", "in", "f32", (S, S)), k.view("Y", "out", "f32", (S, S))
        k.noalias(X, Y)
        x = X[:, :]
        e = (x - x.max(axis=axis, keepdims=True)).exp()
        y = e / e.sum(axis=axis, keepdims=True)
        Y[:, :] = y.transpose(1, 0) if transposed else y

    return fill


def np_softmax(x: np.ndarray, axis: int = 1) -> np.ndarray:
    e = np.exp(x - x.max(axis=axis, keepdims=True, initial=-np.inf))
    return e / e.sum(axis=axis, keepdims=True)


@pytest.mark.parametrize("m,n", SIZES)
def test_softmax(m: int, n: int) -> None:
    p = build(softmax)
    x, y = f32(m, n), np.zeros((m, n), np.float32)
    run(p, {"X": x, "Y": y})
    close(y, np_softmax(x))


def test_softmax_shares_one_loop_axis_and_one_load() -> None:
    p = build(softmax)
    assert [(a.name, a.kind) for a in p.axes] == [("i0", "own"), ("c0", "loop")]
    assert [g.axes for g in p.groups] == [("i0",)]
    assert sum(n.op == "Load" for n in p.nodes) == 1


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("transposed", [False, True])
def test_equal_extents_do_not_capture(axis: int, transposed: bool) -> None:
    p = build(square_softmax(axis, transposed))
    x, y = f32(4, 4), np.zeros((4, 4), np.float32)
    run(p, {"X": x, "Y": y})
    want = np_softmax(x, axis)
    close(y, want.T if transposed else want)


def test_chain_of_square_products() -> None:
    """((A B) A^T) with a row sum of another product, all extents one symbol."""

    def fill(k: Builder) -> None:
        (S,) = k.symbols("S")
        A, B, C = (k.view(n, r, "f32", (S, S)) for n, r in (("A", "in"), ("B", "in"), ("C", "out")))
        k.noalias(A, B, C)
        a, b = A[:, :], B[:, :]
        ab = k.matmul(a, b)
        C[:, :] = k.matmul(ab, a.T) + k.matmul(b, a).sum(axis=1, keepdims=True) * ab.T

    p = build(fill)
    a, b, c = f32(3, 3), f32(3, 3), np.zeros((3, 3), np.float32)
    run(p, {"A": a, "B": b, "C": c})
    close(c, a @ b @ a.T + (b @ a).sum(1, keepdims=True) * (a @ b).T)


@pytest.mark.parametrize("m,n", SIZES)
def test_layer_norm_with_statistics(m: int, n: int) -> None:
    def fill(k: Builder) -> None:
        M, N = k.symbols("M", "N")
        X, W, B = k.view("X", "in", "f32", (M, N)), k.view("W", "in", "f32", (N,)), k.view("B", "in", "f32", (N,))
        Y, U, R = k.view("Y", "out", "f32", (M, N)), k.view("U", "out", "f32", (M,)), k.view("R", "out", "f32", (M,))
        Z = k.view("Z", "out", "f32", (N,))
        k.noalias(X, W, B, Y, U, R, Z)
        x = X[:, :]
        mean = x.sum(axis=1) / N
        d = x - mean[:, None]
        rstd = ((d * d).sum(axis=1) / N + 1e-5).rsqrt()
        Y[:, :] = d * rstd[:, None] * W[:] + B[:]
        U[:] = mean
        R[:] = rstd
        Z[:] = W[:] + B[:]

    p = build(fill)
    assert [len(g.phases[0]) for g in p.groups] == [3, 1]
    assert all(len(g.phases) == 1 for g in p.groups)
    x, w, b = f32(m, n), f32(n), f32(n)
    y, u, r, z = np.zeros((m, n), np.float32), np.zeros(m, np.float32), np.zeros(m, np.float32), np.zeros(n, np.float32)
    with np.errstate(all="ignore"):
        run(p, {"X": x, "W": w, "B": b, "Y": y, "U": u, "R": r, "Z": z})
        mean = x.sum(1) / np.float32(n)
        rstd = 1 / np.sqrt(((x - mean[:, None]) ** 2).sum(1) / np.float32(n) + np.float32(1e-5))
    close(u, mean)
    close(r, rstd)
    close(y, (x - mean[:, None]) * rstd[:, None] * w + b)
    close(z, w + b)


@pytest.mark.parametrize("dims", [(2, 3, 4), (3, 3, 3), (2, 0, 2), (0, 1, 1)])
def test_gemm_with_bias(dims: tuple[int, int, int]) -> None:
    m, n, q = dims

    def fill(k: Builder) -> None:
        M, N, K = k.symbols("M", "N", "K")
        A, B, C, D = (
            k.view("A", "in", "bf16", (M, K)),
            k.view("B", "in", "bf16", (K, N)),
            k.view("C", "in", "f32", (N,)),
            k.view("D", "out", "f32", (M, N)),
        )
        k.noalias(A, B, C, D)
        D[:, :] = k.matmul(A[:, :], B[:, :]) + C[:]

    p = build(fill)
    from ml_dtypes import bfloat16

    a, b, c, d = f32(m, n).astype(bfloat16), f32(n, q).astype(bfloat16), f32(q), np.zeros((m, q), np.float32)
    run(p, {"A": a, "B": b, "C": c, "D": d})
    close(d, a.astype(np.float32) @ b.astype(np.float32) + c)
    con = next(x for x in p.nodes if x.op == "Con")
    assert con.dtype == "f32" and {p.nodes[i].dtype for i in con.args} == {"bf16"}


def test_contract_over_two_pairs_with_batch() -> None:
    def fill(k: Builder) -> None:
        B, M, P, Q, N = k.symbols("B", "M", "P", "Q", "N")
        X, W, Y = k.view("X", "in", "f32", (M, B, P, Q)), k.view("W", "in", "f32", (Q, P, N, B)), k.view("Y", "out", "f32", (B, M, N))
        k.noalias(X, W, Y)
        Y[:, :, :] = k.contract(X[:, :, :, :], W[:, :, :, :], [(2, 1), (3, 0)], [(1, 3)])

    p = build(fill)
    x, w, y = f32(2, 3, 2, 3), f32(3, 2, 2, 3), np.zeros((3, 2, 2), np.float32)
    run(p, {"X": x, "W": w, "Y": y})
    close(y, np.einsum("mbpq,qpnb->bmn", x, w))


@pytest.mark.parametrize("axis", [0, 1])
def test_argmax_is_a_reduction_of_tuples(axis: int) -> None:
    def fill(k: Builder) -> None:
        M, N = k.symbols("M", "N")
        X = k.view("X", "in", "f32", (M, N))
        D = (N, M)[axis]
        V, I = k.view("V", "out", "f32", (D,)), k.view("I", "out", "index", (D,))
        k.noalias(X, V, I)
        v, i = k.argmax(X[:, :], axis)
        V[:] = v
        I[:] = i

    p = build(fill)
    x = rng.integers(0, 3, (4, 6)).astype(np.float32)
    x[1, 2] = np.nan
    d = x.shape[1 - axis]
    v, i = np.zeros(d, np.float32), np.zeros(d, np.int64)
    run(p, {"X": x, "V": v, "I": i})
    np.testing.assert_array_equal(v, x.max(axis))
    np.testing.assert_array_equal(i, np.argmax(x, axis))
    assert len(p.groups) == 1 and len(p.groups[0].phases) == 1


def test_reduction_over_several_axes_and_generic_combine() -> None:
    def fill(k: Builder) -> None:
        A, B, C = k.symbols("A", "B", "C")
        X, Y, Z = k.view("X", "in", "i8", (A, B, C)), k.view("Y", "out", "i32", (B,)), k.view("Z", "out", "i8", (B,))
        k.noalias(X, Y, Z)
        x = X[:, :, :]
        Y[:] = x.sum(axis=(0, 2))
        (z,) = k.reduce((x,), (0, 2), (0,), lambda l, r: (l[0] ^ r[0],))
        Z[:] = z

    p = build(fill)
    x = rng.integers(-128, 127, (3, 2, 4)).astype(np.int8)
    y, z = np.zeros(2, np.int32), np.zeros(2, np.int8)
    run(p, {"X": x, "Y": y, "Z": z})
    np.testing.assert_array_equal(y, x.astype(np.int32).sum((0, 2)))
    np.testing.assert_array_equal(z, np.bitwise_xor.reduce(np.bitwise_xor.reduce(x, 2), 0))


def test_reduction_of_a_broadcast_counts_every_member() -> None:
    def fill(k: Builder) -> None:
        M, N = k.symbols("M", "N")
        X, Y = k.view("X", "in", "f32", (M,)), k.view("Y", "out", "f32", (M,))
        k.noalias(X, Y)
        x = X[:][:, None].broadcast_to((M, N))
        Y[:] = x.sum(axis=1) + k.full((N,), 2.0).sum(axis=0) + k.matmul(x, x.T).max(axis=1)

    p = build(fill)
    x, y = f32(3), np.zeros(3, np.float32)
    run(p, {"X": x, "Y": y}, {"N": 4})
    close(y, 4 * x + 8 + (4 * x[:, None] * x).max(1))


def test_no_axis_is_traversed_inside_a_loop_over_itself() -> None:
    """A row sum and a column maximum of one store, and a chain that alternates between the axes."""

    def fill(k: Builder) -> None:
        M, N = k.symbols("M", "N")
        X, Y, Z = k.view("X", "in", "f32", (M, N)), k.view("Y", "out", "f32", (M, N)), k.view("Z", "out", "f32", (M, N))
        k.noalias(X, Y, Z)
        x = X[:, :]
        Y[:, :] = x * x.sum(axis=1, keepdims=True) + x.max(axis=0, keepdims=True)
        for axis in (0, 1, 0):
            x = x - x.max(axis=axis, keepdims=True)
        Z[:, :] = x

    p = build(fill)
    assert verify(conservative(p)) == []
    x, y, z = f32(3, 4), np.zeros((3, 4), np.float32), np.zeros((3, 4), np.float32)
    run(p, {"X": x, "Y": y, "Z": z})
    close(y, x * x.sum(1, keepdims=True) + x.max(0))
    for axis in (0, 1, 0):
        x = x - x.max(axis, keepdims=True)
    close(z, x)


def test_transpose_add() -> None:
    def fill(k: Builder) -> None:
        (S,) = k.symbols("S")
        X, Y = k.view("X", "in", "f32", (S, S)), k.view("Y", "out", "f32", (S, S))
        k.noalias(X, Y)
        Y[:, :] = X[:, :] + X[:, :].T

    x, y = f32(5, 5), np.zeros((5, 5), np.float32)
    run(build(fill), {"X": x, "Y": y})
    close(y, x + x.T)


def test_strided_domains_reverse_and_scalars() -> None:
    def fill(k: Builder) -> None:
        (N,) = k.symbols("N")
        X, Y = k.view("X", "in", "f32", (N,)), k.view("Y", "inout", "f32", (N,))
        k.noalias(X, Y)
        b, a = k.scalar("b", "i32"), k.scalar("a", "f32")
        d = k.domain(b, N, 3)
        i = k.indices(d)
        Y.store(i, X.load(N - 1 - i) * a)

    p = build(fill)
    for n, b in ((11, 2), (4, 7), (0, 0), (9, 0)):
        x, y = f32(n), np.zeros(n, np.float32)
        want = y.copy()
        run(p, {"X": x, "Y": y}, scalars={"b": b, "a": np.float32(2)})
        want[b::3] = (2 * x[::-1])[b::3]
        close(y, want)


@pytest.mark.parametrize(
    "shapes", [((4, 6), (24,)), ((24,), (2, 3, 4)), ((2, 12), (6, 4)), ((1, 4, 1, 6), (4, 6)), ((2, 3, 4), (4, 3, 2)), ((0, 3), (3, 0))]
)
def test_reshape_keeps_row_major_order(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    src, dst = shapes

    def fill(k: Builder) -> None:
        X, Y = k.view("X", "in", "f32", src), k.view("Y", "out", "f32", dst)
        k.noalias(X, Y)
        Y[(slice(None),) * len(dst)] = X[(slice(None),) * len(src)].reshape(dst)

    x, y = f32(*src), np.zeros(dst, np.float32)
    run(build(fill), {"X": x, "Y": y})
    np.testing.assert_array_equal(y, x.reshape(dst))


def test_merging_what_was_split_gives_plain_coordinates() -> None:
    def fill(k: Builder) -> None:
        T, H, D = k.symbols("T", "H", "D")
        X, Y = k.view("X", "in", "f32", (T, H, D)), k.view("Y", "out", "f32", (T, H, D))
        k.noalias(X, Y)
        Y[:, :, :] = X[:, :, :].reshape(T * H, D).reshape(T, H * D).reshape(T * H * D).reshape(T, H, D)

    p = build(fill)
    load = next(n for n in p.nodes if n.op == "Load")
    assert [str(e) for e in load.attrs[2]] == ["i0", "i1", "i2"]


def test_a_gather_reads_coordinates_from_data() -> None:
    def fill(k: Builder) -> None:
        M, N = k.symbols("M", "N")
        X, I, Y = k.view("X", "in", "f32", (M, N)), k.view("I", "in", "i32", (M,)), k.view("Y", "out", "f32", (M, N))
        k.noalias(X, I, Y)
        row = I[:][:, None].cast("index")
        Y[:, :] = X.load((M - 1 - row, k.indices(N)), valid=row >= 0, fill=-1.0)

    p = build(fill)
    x, y, i = f32(4, 3), np.zeros((4, 3), np.float32), np.array([2, -1, 0, 3], np.int32)
    run(p, {"X": x, "I": i, "Y": y})
    close(y, np.where(i[:, None] >= 0, x[np.minimum(3 - i, 3)], -1))


def test_constexprs_choose_and_size() -> None:
    def fill(k: Builder) -> None:
        M, N = k.symbols("M", "N")
        X, Y = k.view("X", "in", "f32", (M, N)), k.view("Y", "out", "f32", (M, N))
        k.noalias(X, Y)
        causal, mode, shift = k.constexpr("causal", True), k.constexpr("mode", "a", ("a", "b")), k.constexpr("shift", 1)
        i, j = k.indices(M)[:, None], k.indices(N)
        x = k.where(mode == "b", X[:, :] * 2.0, X[:, :])
        Y[:, :] = k.where((j <= i + shift) | ~causal, x, 0.0)

    for causal in (True, False):
        for mode, shift in (("a", 0), ("b", 2)):
            p = build(fill, causal=causal, mode=mode, shift=shift)
            x, y = f32(4, 6), np.zeros((4, 6), np.float32)
            run(p, {"X": x, "Y": y})
            want = x * (2 if mode == "b" else 1)
            i, j = np.indices((4, 6))
            close(y, np.where((j <= i + shift) | (not causal), want, 0))
            assert any(n.op == "Tri" for n in p.nodes) == causal
            assert dict(p.abi.constexprs)["mode"] == ("1" if mode == "b" else "0")


def test_equal_symbols_are_one() -> None:
    def fill(k: Builder) -> None:
        M, N = k.symbol("M", min=2), k.symbol("N", max=64, multiple_of=2)
        k.equal(M, N)
        X, Y = k.view("X", "in", "f32", (M, N)), k.view("Y", "out", "f32", (N, M))
        k.noalias(X, Y)
        Y[:, :] = X[:, :] + X[:, :].T

    p = build(fill)
    assert [(s.name, s.lo, s.hi, s.multiple_of) for s in p.abi.symbols] == [("M", 2, 64, 2)]
    x, y = f32(4, 4), np.zeros((4, 4), np.float32)
    run(p, {"X": x, "Y": y})
    close(y, x + x.T)


def test_an_empty_output_does_not_cancel_another() -> None:
    def fill(k: Builder) -> None:
        M, N, L = k.symbols("M", "N", "L")
        X, Y, Z = k.view("X", "in", "f32", (M, N)), k.view("Y", "out", "f32", (M,)), k.view("Z", "out", "f32", (M, L))
        k.noalias(X, Y, Z)
        s = X[:, :].sum(axis=1)
        Y[:] = s
        Z[:, :] = s[:, None].broadcast_to((M, L))

    p = build(fill)
    assert len(p.groups) == 1
    x, y, z = f32(3, 4), np.zeros(3, np.float32), np.zeros((3, 0), np.float32)
    run(p, {"X": x, "Y": y, "Z": z})
    close(y, x.sum(1))
