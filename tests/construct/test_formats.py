"""Random numbers and encoded numbers: bit-exact by the definitions of kir.md section 6."""

from __future__ import annotations

import numpy as np
import pytest

from eqkir.kir import encodings, randomness
from eqkir.kir.builder import Builder
from eqkir.program.abstract import Abstract
from eqkir.program.construct import construct
from tests.construct.ordered import close, run_all

rng = np.random.default_rng(3)


def u8(*shape: int) -> np.ndarray:
    return rng.integers(0, 256, shape, np.uint8)


def q4k(*shape: int) -> np.ndarray:
    r = u8(*shape, 144)
    r[..., 1] &= 0x3B  # finite d and dmin
    r[..., 3] &= 0x3B
    return r


def test_random_bits_and_uniform() -> None:
    k = Builder("k")
    (N,) = k.symbols("N")
    S, C = k.view("S", "in", "u64", (1,)), k.view("C", "in", "u64", (N,))
    B, U = k.view("B", "out", "u32", (N,)), k.view("U", "out", "f32", (N,))
    k.noalias(S, C, B, U)
    B[:] = k.random_bits(S[0], C[:])
    U[:] = k.random_uniform(S[0], C[:])
    p = construct(k.build())
    seed, c = rng.integers(0, 2**64, 1, np.uint64), rng.integers(0, 2**64, 50, np.uint64)
    c[:6] = (0, 1, 2, 3, 4, 2**34 + 3)
    b, u = np.zeros(50, np.uint32), np.zeros(50, np.float32)
    run_all(p, {"S": seed, "C": c, "B": b, "U": u})
    want = randomness.philox(np.broadcast_to(seed, c.shape), c)
    np.testing.assert_array_equal(b, want)
    np.testing.assert_array_equal(u, randomness.uniform(want))


def scaled(lf: str, rf: str, scale: str) -> Abstract:
    k = Builder("k")
    M, G, N = k.symbols("M", "G", "N")
    lw, rw = (16 if f == "e2m1" else 32 for f in (lf, rf))
    A, B = k.view("A", "in", "u8", (M, G, lw)), k.view("B", "in", "u8", (G, rw, N))
    SA, SB, Y = k.view("SA", "in", scale, (M, G)), k.view("SB", "in", scale, (G, N)), k.view("Y", "out", "f32", (M, N))
    k.noalias(A, B, SA, SB, Y)
    Y[:, :] = k.scaled_contract(A[:, :, :], SA[:, :], B[:, :, :], SB[:, :], lf, rf)
    return construct(k.build())


@pytest.mark.parametrize("lf", ["e2m1", "e4m3"])
@pytest.mark.parametrize("rf", ["e2m1", "e4m3"])
@pytest.mark.parametrize("scale", ["u8", "f32"])
def test_scaled_contract(lf: str, rf: str, scale: str) -> None:
    p = scaled(lf, rf, scale)
    for m, g, n in ((3, 2, 4), (2, 0, 1), (0, 2, 3)):
        a, b = u8(m, g, 16 if lf == "e2m1" else 32), u8(g, 16 if rf == "e2m1" else 32, n)
        for x, f in ((a, lf), (b, rf)):
            if f == "e4m3":
                x &= 0xF7  # no NaN
        sa, sb = (
            s if scale == "u8" else rng.standard_normal(s.shape).astype(np.float32) for s in (u8(m, g) // 8 + 112, u8(g, n) // 8 + 112)
        )
        y = np.zeros((m, n), np.float32)
        run_all(p, {"A": a, "B": b, "SA": sa, "SB": sb, "Y": y})
        left = encodings.elements(a, lf, 2).astype(np.float64) * encodings.scale(sa)[..., None]
        right = encodings.elements(b, rf, 1).astype(np.float64) * encodings.scale(sb)[:, None, :]
        want = np.einsum("mgc,gcn->mn", left, right)
        np.testing.assert_allclose(y, want, rtol=1e-4, atol=1e-4 * max(np.abs(left).max(initial=0) * np.abs(right).max(initial=0), 1))


def test_every_code_of_a_scale() -> None:
    p = scaled("e2m1", "e2m1", "u8")
    sa = np.arange(256, dtype=np.uint8).reshape(256, 1)
    a, b = np.zeros((256, 1, 16), np.uint8), np.zeros((1, 16, 1), np.uint8)
    a[:, 0, 0] = b[0, 0, 0] = 2  # one in the first member
    y = np.zeros((256, 1), np.float32)
    run_all(p, {"A": a, "B": b, "SA": sa, "SB": np.full((1, 1), 127, np.uint8), "Y": y})
    np.testing.assert_array_equal(y[:, 0], encodings.scale(sa)[:, 0])


@pytest.mark.parametrize("pattern", ["one_of_two", "two_of_four"])
def test_sparse_contract(pattern: str) -> None:
    k = Builder("k")
    M, N = k.symbols("M", "N")
    A, P, B = k.view("A", "in", "f32", (M, 8)), k.view("P", "in", "u8", (M, 8)), k.view("B", "in", "f32", (16, N))
    Y = k.view("Y", "out", "f32", (M, N))
    k.noalias(A, P, B, Y)
    Y[:, :] = k.sparse_contract(A[:, :], P[:, :], B[:, :], pattern)
    p = construct(k.build())
    m, n = 3, 5
    a, b = rng.standard_normal((m, 8)).astype(np.float32), rng.standard_normal((16, n)).astype(np.float32)
    if pattern == "one_of_two":
        places = rng.integers(0, 2, (m, 8)).astype(np.uint8)
    else:
        places = np.stack([np.sort(rng.choice(4, 2, replace=False)) for _ in range(m * 4)]).reshape(m, 8).astype(np.uint8)
    y = np.zeros((m, n), np.float32)
    run_all(p, {"A": a, "P": places, "B": b, "Y": y})
    at = encodings.places(places, pattern)
    dense = np.zeros((m, 16), np.float32)
    np.put_along_axis(dense, at, a, 1)
    close(y, dense @ b)


def test_quantize() -> None:
    k = Builder("k")
    (M,) = k.symbols("M")
    X, Y = k.view("X", "in", "f32", (M, 256)), k.view("Y", "out", "u8", (M, 292))
    k.noalias(X, Y)
    Y[:, :] = k.quantize(X[:, :])
    p = construct(k.build())
    x = rng.standard_normal((2, 256)).astype(np.float32)
    x[1] = 0.0
    x[0, 3], x[0, 9] = 7.5, -7.5
    y = np.zeros((2, 292), np.uint8)
    run_all(p, {"X": x, "Y": y})
    np.testing.assert_array_equal(y, encodings.quantize_q8k(x))


def test_quantized_dot() -> None:
    k = Builder("k")
    M, N, R = k.symbols("M", "N", "R")
    A, B, Y = k.view("A", "in", "u8", (M, 1, R, 144)), k.view("B", "in", "u8", (N, R, 292)), k.view("Y", "out", "f32", (M, N))
    k.noalias(A, B, Y)
    Y[:, :] = k.quantized_dot(A[:, :, :, :], B[:, :, :])
    p = construct(k.build())
    for m, n, r in ((2, 2, 2), (1, 1, 0)):
        a, b = q4k(m, 1, r), np.zeros((n, r, 292), np.uint8)
        if r:
            b = encodings.quantize_q8k(rng.standard_normal((n, r, 256)).astype(np.float32) * 3)
        y = np.ones((m, n), np.float32)
        run_all(p, {"A": a, "B": b, "Y": y})
        np.testing.assert_array_equal(y, encodings.dot_q4k_q8k(a, b[None]) if r else 0)
