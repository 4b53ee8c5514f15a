"""Folds and scans over slices, wherever the slices are cut."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from eqkir.kir.builder import Builder
from eqkir.program.construct import construct
from tests.construct.ordered import close, f32, run_all

Pair = tuple[Any, ...]


def safe(k: Builder, z: Any) -> Any:
    return k.where(z == float("-inf"), 0.0, z)


def merge(left: Pair, right: Pair) -> Pair:
    (ma, la, oa), (mb, lb, ob) = left, right
    k = ma.k
    m = ma.maximum(mb)
    a, b = (ma - safe(k, m)).exp(), (mb - safe(k, m)).exp()
    return m, la * a + lb * b, oa * a[..., None] + ob * b[..., None]


def attention(k: Builder, causal: bool, with_sum: bool = False) -> None:
    M, N, D, E = k.symbols("M", "N", "D", "E")
    Q, K, V = k.view("Q", "in", "f32", (M, D)), k.view("K", "in", "f32", (N, D)), k.view("V", "in", "f32", (N, E))
    Y, L = k.view("Y", "out", "f32", (M, E)), k.view("L", "out", "f32", (M,))
    k.noalias(Q, K, V, Y, L)
    q, row = Q[:, :], k.indices(M)

    def summarize(s: Any, key: Any, value: Any) -> Pair:
        scores = k.contract(q, key, [(1, 1)])
        if causal:
            scores = k.where(k.indices(s) <= row[:, None], scores, float("-inf"))
        top = scores.max(axis=1)
        p = (scores - safe(k, top)[:, None]).exp()
        return top, p.sum(axis=1), k.contract(p, value, [(1, 0)])

    identity = (k.full((M,), float("-inf")), k.full((M,), 0.0), k.full((M, E), 0.0))
    m, total, o = k.region_fold(N, [K[:, :], V[:, :]], identity, summarize, merge)
    Y[:, :] = o / total[:, None]
    L[:] = total.log() + m


@pytest.mark.parametrize("causal", [False, True])
def test_attention_as_a_fold(causal: bool) -> None:
    k = Builder("k")
    attention(k, causal)
    p = construct(k.build())
    assert sum(n.op == "Fold" for n in p.nodes) == 2, "one for each store"
    for seed, (m, n, d, e) in enumerate([(3, 5, 2, 2), (1, 1, 1, 1), (2, 7, 3, 1), (2, 6, 1, 2)] * 3):
        q, key, v = f32(m, d), f32(n, d), f32(n, e)
        y, lse = np.zeros((m, e), np.float32), np.zeros(m, np.float32)
        run_all(p, {"Q": q, "K": key, "V": v, "Y": y, "L": lse}, seed=seed)
        s = q @ key.T
        if causal:
            s = np.where(np.arange(n) <= np.arange(m)[:, None], s, -np.inf)
        w = np.exp(s - s.max(1, keepdims=True))
        close(y, w @ v / w.sum(1, keepdims=True))
        close(lse, np.log(w.sum(1)) + s.max(1))


def test_an_empty_domain_gives_the_identity() -> None:
    k = Builder("k")
    M, N = k.symbols("M", "N")
    X, Y = k.view("X", "in", "f32", (M, N)), k.view("Y", "out", "f32", (M,))
    k.noalias(X, Y)
    one = k.full((M,), 0.0)
    (r,) = k.region_fold(
        N, [(X[:, :], 1)], (one,), lambda s, x: (1.0 / x.max(axis=1),), lambda a, b: (1.0 / (1.0 / a[0]).maximum(1.0 / b[0]),)
    )
    Y[:] = r
    p = construct(k.build())
    for seed in range(4):
        y = np.ones(3, np.float32)
        run_all(p, {"X": f32(3, 0), "Y": y}, seed=seed)
        assert (y == 0).all()


def chunked(k: Builder, stores: str = "plain") -> None:
    """h = a h + b by transitions (product of a, state from zero); emits h before each member, and a running count."""
    M, N = k.symbols("M", "N")
    A, B = k.view("A", "in", "f32", (M, N)), k.view("B", "in", "f32", (M, N))
    Y, H = k.view("Y", "out", "f32", {"plain": (M, N), "turned": (N, M), "back": (M, N)}[stores]), k.view("H", "out", "f32", (M,))
    k.noalias(A, B, Y, H)

    def summarize(s: Any, a: Any) -> Pair:
        return (a.sum(axis=1),)

    (y,), (h,) = k.region_scan(
        N, [(A[:, :], 1)], (k.full((M,), 0.0),), (k.full((M,), 2.0),), summarize, lambda a, b: (a[0] + b[0],), lambda t, s: (t[0] + s[0],),
        lambda s, a, state: (a * 3.0 + B[:, s] + 0.0 * state[0][:, None],), (1,),
    )  # fmt: skip
    if stores == "turned":
        Y[:, :] = y.T * 2.0
    elif stores == "back":
        Y[:, :] = y.gather((k.indices(M)[:, None], k.value(N) - 1 - k.indices(N)))
    else:
        Y[:, :] = y
    H[:] = h


@pytest.mark.parametrize("stores", ["plain", "turned", "back"])
def test_region_scan_emits_along_slices(stores: str) -> None:
    k = Builder("k")
    chunked(k, stores)
    p = construct(k.build())
    assert bool([v for v in p.abi.views if v.role == "workspace"]) == (stores == "back")
    for seed, (m, n) in enumerate([(2, 5), (1, 1), (3, 0), (0, 4), (2, 8)] * 3):
        a, b = f32(m, n), f32(m, n)
        y, h = np.zeros((n, m) if stores == "turned" else (m, n), np.float32), np.zeros(m, np.float32)
        run_all(p, {"A": a, "B": b, "Y": y, "H": h}, seed=seed)
        want = a * 3 + b
        close(y, {"plain": want, "turned": want.T * 2, "back": want[:, ::-1]}[stores])
        close(h, a.sum(1) + 2)


def test_the_state_before_a_slice_is_that_of_the_members_before_it() -> None:
    """The sum of all members up to and with each: the state, and a triangle inside the slice, by a contraction with the whole domain."""
    k = Builder("k")
    M, N = k.symbols("M", "N")
    A, Y = k.view("A", "in", "f32", (M, N)), k.view("Y", "out", "f32", (M, N))
    k.noalias(A, Y)
    total = k.full((M,), 0.0)
    (y,), _ = k.region_scan(
        N, [(A[:, :], 1)], (total,), (total,), lambda s, a: (a.sum(axis=1),), lambda a, b: (a[0] + b[0],), lambda t, s: (t[0] + s[0],),
        lambda s, a, state: (a + state[0][:, None],), (1,),
    )  # fmt: skip
    Y[:, :] = y
    p = construct(k.build())
    assert [x.kind for x in p.axes] == ["own", "seg", "mem"]
    a, y = f32(2, 6), np.zeros((2, 6), np.float32)
    from tests.construct.brute import Brute

    b = Brute(p, {"A": a, "Y": y}, {"M": 2, "N": 6}, {}, 0)
    b.slices["c0"] = [range(0, 2), range(2, 3), range(3, 6)]
    b.run()
    before = np.concatenate([np.repeat(a[:, :i].sum(1, keepdims=True), n, 1) for i, n in ((0, 2), (2, 1), (3, 3))], 1)
    close(y, a + before)
