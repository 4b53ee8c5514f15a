"""Several axes through one slice at once: pairs and triples of the points of a slice, wherever the slices are cut."""

from __future__ import annotations

import random
from typing import Any

import pytest

from eqkir.kir.builder import Builder
from eqkir.kir.envelope import compare, envelope
from eqkir.kir.inputs import make_inputs
from eqkir.kir.memory import ViewArg, clone
from eqkir.kir.model import Kernel, View
from eqkir.kir.types import infer
from eqkir.program.construct import construct
from eqkir.program.construction import verify_construction
from eqkir.program.interp import Buffer, run
from eqkir.program.lower import conservative
from eqkir.program.verify import verify
from eqkir.rules.saturate import saturate
from eqkir.terms.decode import decode
from tests.construct.against import agrees
from tests.terms.sampling import sample
from tests.terms.test_encode_decode import bindings


def retention() -> Kernel:
    """o[t] = q[t] Σ_{u <= t} k[u] v[u]: inside a slice by pairs of points, before it by the state."""
    k = Builder("retention")
    B, S, E = k.symbols("B", "S", "E")
    Q, K, V = k.view("Q", "in", "f32", (B, S)), k.view("K", "in", "f32", (B, S)), k.view("V", "in", "f32", (B, S, E))
    O, F = k.view("O", "out", "f32", (B, S, E)), k.view("F", "out", "f32", (B, E))
    k.noalias(Q, K, V, O, F)

    def summarize(s: Any, q: Any, key: Any, value: Any) -> Any:
        return (k.contract(key, value, [(1, 1)], [(0, 0)]),)

    def emit(s: Any, q: Any, key: Any, value: Any, state: Any) -> Any:
        t = k.indices(s)
        scores = k.where(t <= t[:, None], q[:, :, None] * key[:, None, :], 0.0)
        return (q[:, :, None] * state[0][:, None, :] + k.contract(scores, value, [(2, 1)], [(0, 0)]),)

    def add(left: Any, right: Any) -> Any:
        return (left[0] + right[0],)

    zero = (k.full((B, E), 0.0, "f32"),)
    (o,), (last,) = k.region_scan(S, [(Q[:, :], 1), (K[:, :], 1), (V[:, :, :], 1)], zero, zero, summarize, add, add, emit, out_axes=(1,))
    O[:, :, :], F[:, :] = o, last
    return k.build()


def pairs(causal: bool) -> Kernel:
    """Σ_t Σ_u x[t] y[u], or over u <= t only, by slices: each slice's pairs, and those across slices from the sums."""
    k = Builder("pairs")
    M, N = k.symbols("M", "N")
    X, Y, P = k.view("X", "in", "f32", (M, N)), k.view("Y", "in", "f32", (M, N)), k.view("P", "out", "f32", (M,))
    k.noalias(X, Y, P)

    def summarize(s: Any, x: Any, y: Any) -> Any:
        t = k.indices(s)
        both = x[:, :, None] * y[:, None, :]
        both = k.where(t <= t[:, None], both, 0.0) if causal else both
        return x.sum(axis=1), y.sum(axis=1), both.sum(axis=2).sum(axis=1)

    def combine(a: Any, b: Any) -> Any:
        across = b[0] * a[1] if causal else b[0] * a[1] + a[0] * b[1]
        return a[0] + b[0], a[1] + b[1], a[2] + b[2] + across

    zero = tuple(k.full((M,), 0.0, "f32") for _ in range(3))
    P[:] = k.region_fold(N, [(X[:, :], 1), (Y[:, :], 1)], zero, summarize, combine)[2]
    return k.build()


def triples() -> Kernel:
    """The largest x[t] + x[u] + x[w] of one domain: three axes through a slice, a maximum that crosses slices by its parts."""
    k = Builder("triples")
    (N,) = k.symbols("N")
    X, P = k.view("X", "in", "i32", (N,)), k.view("P", "out", "i32", (1,))
    k.noalias(X, P)

    def summarize(s: Any, x: Any) -> Any:
        three = x[:, None, None] // 4 + x[None, :, None] // 4 + x[None, None, :] // 4
        return ((three).max(axis=2).max(axis=1).max(axis=0),)

    def combine(a: Any, b: Any) -> Any:
        return (a[0].maximum(b[0]),)

    P[0] = k.region_fold(N, [X[:]], (k.full((), -(1 << 31), "i32"),), summarize, combine)[0]
    return k.build()


KERNELS = {"retention": retention, "pairs": lambda: pairs(False), "causal_pairs": lambda: pairs(True), "triples": triples}
ROWS = ((1, 1, 1), (2, 7, 3), (3, 4, 2), (2, 0, 3), (0, 3, 2), (1, 13, 4))


def rows(k: Kernel) -> list[dict[str, int]]:
    names = [s.id for s in k.symbols]
    return [dict(zip(names, r[3 - len(names) :] if len(names) < 3 else r, strict=True)) for r in ROWS]


@pytest.mark.parametrize("name", KERNELS)
def test_construction_is_verified_and_the_conservative_program_is_right(name: str) -> None:
    k = KERNELS[name]()
    p = construct(k)
    assert any(a.name.endswith(".m1") for a in p.axes)
    p0 = conservative(p)
    assert verify_construction(k, infer(k), p, p0) == [] and verify(p0) == []
    for seed, row in enumerate(rows(k)):
        assert agrees(k, p, row, seed)


@pytest.mark.parametrize("name", KERNELS)
def test_candidates_in_slices_of_several_points_are_right(name: str) -> None:
    k = KERNELS[name]()
    p = construct(k)
    s, rng, sliced = saturate(p), random.Random(5), 0
    assert s.report.stop == "saturated"
    cases = []
    for seed, row in enumerate(rows(k)):
        given = make_inputs(k, row, seed, "plain", None)
        cases.append((row, given, envelope(k, clone(given), row, None)))
    for _ in range(12):
        q = decode(s.graph, sample(s.graph, rng), p, bindings(p), {})
        assert verify(q) == []
        sliced += "SC" in str(q) or "SW" in str(q)
        for row, given, expected in cases:
            env = {**q.bindings, **row}
            from eqkir.base.expr import evaluate

            if all(evaluate(c, env) for c in q.preconditions):
                got = clone(given)
                run(q, {n: Buffer(a.memory, a.offset, a.shape, a.strides) if isinstance(a, ViewArg) else a for n, a in got.items()}, row)
                verdict = compare(expected, {v.id: got[v.id] for v in k.params if isinstance(v, View)})
                assert verdict.ok, (name, row, str(verdict)[:300])
    assert sliced >= 2
