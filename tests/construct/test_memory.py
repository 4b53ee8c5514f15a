"""Memory order: versions, groups, instances, phases and copies give the result of KIR's snapshots on any overlapping memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from eqkir.kir.builder import Builder
from eqkir.kir.memory import ViewArg, row_major
from eqkir.kir.model import Kernel
from eqkir.program.abstract import Abstract
from eqkir.program.construct import construct
from tests.construct.against import agrees

Fill = Callable[[Builder], None]


def make(fill: Fill) -> tuple[Kernel, Abstract]:
    k = Builder("k")
    fill(k)
    kernel = k.build()
    return kernel, construct(kernel)


def shape(p: Abstract) -> list[tuple[tuple[str, ...], list[list[str]]]]:
    """(instance axes, views stored by phase) of each group."""
    return [(g.axes, [[s.view for s in ph] for ph in g.phases]) for g in p.groups]


def layout(base: np.ndarray, **views: tuple[int, tuple[int, ...]]) -> dict[str, Any]:
    """Views (offset, shape) on one memory."""
    return {n: ViewArg(base, o, s, row_major(s)) for n, (o, s) in views.items()}


def every_overlap(kernel: Kernel, p: Abstract, n: int, names: tuple[str, ...], symbols: Mapping[str, int], size: tuple[int, ...]) -> int:
    """Run with the views at all small distances from each other; how many of the inputs the reference accepts."""
    rng = np.random.default_rng(1)
    ran = 0
    total = int(np.prod(size))
    for d in range(-3, 4):
        for e in (0, 1, -2):
            base = rng.standard_normal(3 * total + 16).astype(np.float32)
            at = [total + 4, total + 4 + d, total + 4 + e][: len(names)]
            ran += agrees(kernel, p, symbols, args=layout(base, **{v: (o, size) for v, o in zip(names, at, strict=True)}))
    return ran


def test_a_shift_between_views_that_may_alias_reads_before_it_writes() -> None:
    def fill(k: Builder) -> None:
        (N,) = k.symbols("N")
        X, Y = k.view("X", "in", "f32", (N,)), k.view("Y", "out", "f32", (N,))
        i = k.indices(N)
        Y[:] = X.load(i - 1, valid=i >= 1)

    kernel, p = make(fill)
    assert shape(p) == [((), [["ws0"], ["Y"]])]
    assert every_overlap(kernel, p, 7, ("X", "Y"), {"N": 7}, (7,)) > 10


def test_a_shift_between_disjoint_views_is_parallel() -> None:
    def fill(k: Builder) -> None:
        (N,) = k.symbols("N")
        X, Y = k.view("X", "in", "f32", (N,)), k.view("Y", "out", "f32", (N,))
        k.noalias(X, Y)
        i = k.indices(N)
        Y[:] = X.load(i - 1, valid=i >= 1)

    assert shape(make(fill)[1]) == [(("i0",), [["Y"]])]


def in_place(body: Callable[[Any], Any], rank: int = 2) -> Fill:
    def fill(k: Builder) -> None:
        dims = k.symbols("M", "N", "D")[:rank]
        X = k.view("X", "inout", "f32", dims)
        at = (slice(None),) * rank
        X[at] = body(X[at])

    return fill


def softmax(x: Any, axis: int = 1) -> Any:
    e = (x - x.max(axis=axis, keepdims=True)).exp()
    return e / e.sum(axis=axis, keepdims=True)


SAME_PLACE: dict[str, tuple[Fill, list[tuple[tuple[str, ...], int]]]] = {
    "pointwise": (in_place(lambda x: x * 2.0 + 1.0), [(("i0", "i1"), 1)]),
    "row softmax": (in_place(softmax), [(("i0",), 1)]),
    "column softmax": (in_place(lambda x: softmax(x, 0)), [(("i0",), 1)]),
    "middle softmax": (in_place(lambda x: softmax(x, 1), 3), [(("i0", "i1"), 1)]),
    "row reversed": (in_place(lambda x: x.max(axis=1, keepdims=True) - x), [(("i0",), 1)]),
    # a reduction that is read inside the store's loops would meet what they overwrote: copied first
    "two reductions": (in_place(lambda x: x * x.sum(axis=1, keepdims=True) + x.max(axis=0, keepdims=True)), [((), 2)]),
    "two reductions of planes": (in_place(lambda x: x * x.sum(axis=2, keepdims=True) + x.max(axis=1, keepdims=True), 3), [(("i0",), 2)]),
}


@pytest.mark.parametrize("name", SAME_PLACE)
def test_in_place(name: str) -> None:
    fill, want = SAME_PLACE[name]
    kernel, p = make(fill)
    assert [(g.axes, len(g.phases)) for g in p.groups] == want
    for n, seed in ((3, 0), (1, 1), (4, 2)):
        assert agrees(kernel, p, {"M": n, "N": 3, "D": 2}, seed)


def test_in_place_transposition_copies_in_one_instance() -> None:
    def fill(k: Builder) -> None:
        (S,) = k.symbols("S")
        X = k.view("X", "inout", "f32", (S, S))
        X[:, :] = X[:, :].T

    kernel, p = make(fill)
    assert shape(p) == [((), [["ws0"], ["X"]])]
    assert agrees(kernel, p, {"S": 4})


def test_in_place_transposition_of_a_batch_keeps_the_batch_parallel() -> None:
    def fill(k: Builder) -> None:
        B, S = k.symbols("B", "S")
        X = k.view("X", "inout", "f32", (S, B, S))
        X[:, :, :] = X[:, :, :].transpose(2, 1, 0)

    kernel, p = make(fill)
    assert [(g.axes, len(g.phases)) for g in p.groups] == [(("i0",), 2)]
    assert p.axis("i0").extent.args == ("B",)
    assert agrees(kernel, p, {"B": 3, "S": 4})


def test_residual_in_place_with_a_late_reader_stays_in_one_phase() -> None:
    def fill(k: Builder) -> None:
        M, N = k.symbols("M", "N")
        X, R, Y = k.view("X", "inout", "f32", (M, N)), k.view("R", "in", "f32", (M, N)), k.view("Y", "out", "f32", (M, N))
        k.noalias(X, R, Y)
        s = X[:, :] + R[:, :]
        X[:, :] = s
        Y[:, :] = s / (s * s).sum(axis=1, keepdims=True)

    kernel, p = make(fill)
    assert shape(p) == [(("i0",), [["X", "Y"]])]
    assert agrees(kernel, p, {"M": 3, "N": 4})


def test_a_late_reader_of_another_shape_goes_to_an_earlier_phase() -> None:
    def fill(k: Builder) -> None:
        M, N = k.symbols("M", "N")
        X, Y = k.view("X", "inout", "f32", (M, N)), k.view("Y", "out", "f32", (N, M))
        k.noalias(X, Y)
        x = X[:, :]
        X[:, :] = x - x.max(axis=1, keepdims=True)
        Y[:, :] = (x * x.max(axis=1, keepdims=True)).T

    kernel, p = make(fill)
    assert not [v for v in p.abi.views if v.role == "workspace"]
    assert agrees(kernel, p, {"M": 3, "N": 4})


@pytest.mark.parametrize("apart", [True, False])
def test_swap(apart: bool) -> None:
    def fill(k: Builder) -> None:
        (N,) = k.symbols("N")
        X, Y = k.view("X", "inout", "f32", (N,)), k.view("Y", "inout", "f32", (N,))
        if apart:
            k.noalias(X, Y)
        x, y = X[:], Y[:]
        X[:] = y
        Y[:] = x * 2.0

    kernel, p = make(fill)
    assert shape(p)[0][0] == (("i0",) if apart else ())
    assert agrees(kernel, p, {"N": 5})
    if not apart:
        assert every_overlap(kernel, p, 5, ("X", "Y"), {"N": 5}, (5,)) > 10


def test_a_transposed_swap_copies_what_no_order_can_save() -> None:
    def fill(k: Builder) -> None:
        (S,) = k.symbols("S")
        X, Y = k.view("X", "inout", "f32", (S, S)), k.view("Y", "inout", "f32", (S, S))
        k.noalias(X, Y)
        x, y = X[:, :], Y[:, :]
        X[:, :] = y.T
        Y[:, :] = x.T

    kernel, p = make(fill)
    assert agrees(kernel, p, {"S": 3})


def test_a_store_is_seen_by_a_later_load_of_the_view() -> None:
    def fill(k: Builder) -> None:
        M, N = k.symbols("M", "N")
        X, T, Y = k.view("X", "in", "f32", (M, N)), k.view("T", "inout", "f32", (M, N)), k.view("Y", "out", "f32", (M, N))
        k.noalias(X, T, Y)
        T[:, :] = X[:, :].exp()
        t = T[:, :]
        Y[:, :] = t / t.sum(axis=1, keepdims=True)

    kernel, p = make(fill)
    assert shape(p) == [(("i0",), [["T"], ["Y"]])]
    load = next(n for n in p.nodes if n.op == "Load" and n.attrs[0] == "T")
    assert load.attrs[1] == 1
    assert agrees(kernel, p, {"M": 3, "N": 4})


def test_a_later_read_across_instances_makes_one_instance() -> None:
    def fill(k: Builder) -> None:
        (N,) = k.symbols("N")
        X, T, Y = k.view("X", "in", "f32", (N,)), k.view("T", "inout", "f32", (N,)), k.view("Y", "out", "f32", (N,))
        k.noalias(X, T, Y)
        T[:] = X[:] + 1.0
        Y[:] = T.load(k.value(N, "index") - 1 - k.indices(N))

    kernel, p = make(fill)
    assert shape(p) == [((), [["T"], ["Y"]])]
    assert agrees(kernel, p, {"N": 5})


def test_overwriting_keeps_program_order() -> None:
    def fill(k: Builder) -> None:
        (N,) = k.symbols("N")
        X, Y = k.view("X", "in", "f32", (N,)), k.view("Y", "inout", "f32", (N,))
        k.noalias(X, Y)
        i = k.indices(N)
        Y[:] = X[:]
        Y.store(i, X[:] * 2.0, valid=i % 2 == 0)
        Y.store(k.value(N, "index") - 1 - i, X[:] * 3.0, valid=i % 3 == 0)

    kernel, p = make(fill)
    assert shape(p) == [((), [["Y"], ["Y"], ["Y"]])]
    assert agrees(kernel, p, {"N": 7})


def test_disjoint_slices_of_one_view_are_independent_groups() -> None:
    def fill(k: Builder) -> None:
        (N,) = k.symbols("N")
        X, Y, Z = k.view("X", "in", "f32", (N,)), k.view("Z", "in", "f32", (N,)), k.view("Y", "out", "f32", (N, 2))
        k.noalias(X, Y, Z)
        Z[:, 0] = X[:]
        Z[:, 1] = Y[:] * 2.0

    kernel, p = make(fill)
    assert shape(p) == [(("i0",), [["Y"]]), (("i0",), [["Y"]])]
    assert agrees(kernel, p, {"N": 5})


def test_three_views_that_may_alias() -> None:
    def fill(k: Builder) -> None:
        (N,) = k.symbols("N")
        X, Y, Z = k.view("X", "in", "f32", (N,)), k.view("Y", "inout", "f32", (N,)), k.view("Z", "inout", "f32", (N,))
        x, y = X[:], Y[:]
        Z[:] = x + y
        Y[:] = x - y + Z[:]

    kernel, p = make(fill)
    assert every_overlap(kernel, p, 5, ("X", "Y", "Z"), {"N": 5}, (5,)) > 10


@pytest.mark.parametrize("apart", [True, False])
def test_parallel_bodies_keep_the_order_of_one_point(apart: bool) -> None:
    def fill(k: Builder) -> None:
        M, N = k.symbols("M", "N")
        X, Y, S = k.view("X", "inout", "f32", (M, N)), k.view("Y", "inout", "f32", (M, N)), k.view("S", "inout", "f32", (M,))
        if apart:
            k.noalias(X, Y, S)
        with k.parallel(M) as m:
            x = X[m, :]
            S[m] = x.sum(axis=0)
            Y[m, :] = x * S[m]
            X[m, :] = Y[m, :] - X[m, :]

    kernel, p = make(fill)
    assert shape(p)[0][0] == (("i0",) if apart else ()), "nothing tells instances that views which may overlap do not"
    assert agrees(kernel, p, {"M": 3, "N": 4})
    if not apart:
        size = 3 * 4
        for y in (4 + size, 4):  # beside X, and on top of X: each point touches its own row only
            base = np.random.default_rng(0).standard_normal(64).astype(np.float32)
            views = layout(base, X=(4, (3, 4)), Y=(y, (3, 4)), S=(4 + 2 * size, (3,)))
            assert agrees(kernel, p, {"M": 3, "N": 4}, args=views)


def test_a_value_loaded_outside_a_parallel_is_a_snapshot() -> None:
    def fill(k: Builder) -> None:
        (N,) = k.symbols("N")
        X = k.view("X", "inout", "f32", (N,))
        x = X[:]
        total = x.sum(axis=0)
        with k.parallel(N) as i:
            X[i] = total - X[i]

    kernel, p = make(fill)
    assert shape(p)[0][0] == ()
    assert agrees(kernel, p, {"N": 5})


def test_nested_and_masked_parallel_points() -> None:
    def fill(k: Builder) -> None:
        M, N = k.symbols("M", "N")
        X, Y, C = k.view("X", "in", "f32", (M, N)), k.view("Y", "out", "f32", (N, M)), k.view("C", "inout", "f32", (1,))
        k.noalias(X, Y, C)
        with k.parallel(M) as m, k.parallel(k.domain(0, N, 2)) as n:
            Y[n, m] = X[m, n] * 2.0
            C.store(0, X[m, n], valid=(m == 1) & (n == 2))
        with k.parallel(M, k.domain(1, N, 2)) as (m, n):
            Y[n, m] = X[m, n] * 3.0

    kernel, p = make(fill)
    assert agrees(kernel, p, {"M": 3, "N": 5})
    assert agrees(kernel, p, {"M": 0, "N": 5})
    assert agrees(kernel, p, {"M": 1, "N": 4})


def test_readers_through_a_map_that_is_not_injective_come_first() -> None:
    def fill(k: Builder) -> None:
        (N,) = k.symbols("N")
        X, Y = k.view("X", "inout", "f32", (N,)), k.view("Y", "out", "f32", (N,))
        k.noalias(X, Y)
        i = k.indices(N)
        x = X.load(i // 2)
        X.store(i // 2, x * 2.0, valid=i % 2 == 0)
        Y[:] = x

    kernel, p = make(fill)
    assert shape(p) == [((), [["ws0", "Y"], ["X"]])]
    assert agrees(kernel, p, {"N": 6})


def test_readers_in_another_loop_nest_do_not_share_the_phase() -> None:
    def fill(k: Builder) -> None:
        M, N = k.symbols("M", "N")
        X, Y = k.view("X", "inout", "f32", (M, N)), k.view("Y", "inout", "f32", (N, M))
        Z = k.view("Z", "in", "f32", (M, N))
        k.noalias(X, Y, Z)
        x, y, z = X[:, :], Y[:, :], Z[:, :]
        X[:, :] = y.T + z.max(axis=(0, 1))
        Y[:, :] = x.T

    kernel, p = make(fill)
    assert [(g.axes, len(g.phases)) for g in p.groups] == [((), 3)]
    assert agrees(kernel, p, {"M": 3, "N": 2})


def test_rotation_of_halves_in_place_needs_no_copy() -> None:
    def fill(k: Builder) -> None:
        M, D = k.symbols("M", "D")
        X, C = k.view("X", "inout", "f32", (M, 2, D)), k.view("C", "in", "f32", (D,))
        k.noalias(X, C)
        a, b, c = X[:, 0, :], X[:, 1, :], C[:]
        X[:, 0, :] = a * c - b
        X[:, 1, :] = b * c + a

    kernel, p = make(fill)
    assert shape(p) == [(("i0", "i1"), [["X", "X"]])]
    assert agrees(kernel, p, {"M": 3, "D": 4})
