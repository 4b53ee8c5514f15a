"""Members counted from where each lane's group starts: what candidates make of it, for any data, and what costs expect of it."""

from __future__ import annotations

import random
from functools import cache

import numpy as np
import pytest

from eqkir.base.expr import Coord, Dep, conj, le, lt
from eqkir.emit.triton.legalize import legalize
from eqkir.extract.choose import choose
from eqkir.extract.extents import Extents
from eqkir.extract.narrowed import of_abstract
from eqkir.program.abstract import Abstract, Group
from eqkir.program.interp import Buffer, run
from eqkir.program.lower import conservative
from eqkir.program.model import Program
from eqkir.program.ranges import with_ranges
from eqkir.program.serialize import dumps, loads
from eqkir.program.verify import verify
from eqkir.rules.saturate import saturate
from eqkir.targets import load_target
from eqkir.terms.decode import decode
from tests.terms.samples import load, program, put
from tests.terms.sampling import sample
from tests.terms.test_narrow import codes, loops, outcome, parameters, saturated, shifted, source

KERNELS = {
    "csr_spmv_f32": [(9, 10, 37, 7), (5, 6, 0, 3), (0, 1, 0, 1)],
    "csr_spmm_f32": [(9, 10, 37, 7, 3), (3, 4, 0, 2, 2)],
    "jagged_mean_f32": [(3, 4, 37, 2), (2, 3, 0, 1)],
    "segment_max_f32": [(5, 6, 37), (3, 4, 0)],
}


def sums(fn: str = "sum", masked: bool = True) -> Abstract:
    """y[g] = fn of x[c] over starts[g] <= c < ends[g]."""
    views = [("starts", "in", "i32", ("G",)), ("ends", "in", "i32", ("G",)), ("x", "in", "i32", ("N",)), ("y", "out", "i32", ("G",))]
    p = program(views, ["G", "N"], [("i0", "G", "own"), ("c0", "N", "loop")])  # type: ignore[arg-type]
    ends = tuple(p.make("Cast", ("index",), (load(p, v, "i0"),), "index") for v in ("starts", "ends"))
    valid = p.make("Index", (conj(le(Dep(0), Coord("c0")), lt(Coord("c0"), Dep(1))),), ends, "bool")
    zero = p.const("0" if fn == "sum" else str(-(2**31)), "i32")
    if masked:
        x = p.make("Load", ("x", 0, (Coord("c0"),)), (valid, zero), "i32")
    else:  # loaded wherever it is, selected afterwards
        x = p.make("Tri", ("select",), (valid, load(p, "x", "c0"), zero), "i32")
    p.groups = (Group("g0", ("i0",), ((put(p, "y", ("i0",), p.make("Red", (fn, "c0"), (x,), "i32")),),)),)
    return with_ranges(p)


def counting(p: Program) -> bool:
    return any(x.axis == "c0k" and x.hi >= 0 for x in loops(p))


def candidates(p: Abstract, n: int, without: tuple[str, ...] = ()) -> list[Program]:
    graph, rng, out = saturate(p, without=without).graph, random.Random(2), dict[bytes, Program]()
    for _ in range(500):
        q = decode(graph, sample(graph, rng), p, parameters(p, 4), {})
        if counting(q):
            out.setdefault(dumps(q), q)
        if len(out) == n:
            break
    return list(out.values())


@pytest.mark.parametrize(("fn", "masked"), [("sum", True), ("sum", False), ("max", True), ("max", False)])
def test_any_groups_keep_their_members(fn: str, masked: bool) -> None:
    found = candidates(sums(fn, masked), 4)
    assert len(found) == 4
    for q in found:
        legal = legalize(q)
        assert not verify(q) and not verify(legal) and loads(dumps(q)) == q
        for g, n, seed in ((9, 37, 0), (17, 5, 1), (4, 0, 2), (0, 7, 3), (1, 64, 4)):
            rng = np.random.default_rng(seed)
            starts, ends = (rng.integers(-9, n + 9, g).astype(np.int32) for _ in range(2))
            x = rng.integers(-99, 99, n).astype(np.int32)
            parts = [x[max(0, a) : max(0, a, b)] for a, b in zip(starts, ends, strict=True)]
            want = np.array([(v.sum() if fn == "sum" else v.max(initial=-(2**31))) for v in parts], np.int32).reshape(g)
            for form in (q, legal):
                y = Buffer.of(np.full(g, 77, np.int32))
                run(form, {"starts": Buffer.of(starts), "ends": Buffer.of(ends), "x": Buffer.of(x), "y": y})
                assert np.array_equal(y.array(), want)


@cache
def of_kernel(name: str) -> tuple[Program, ...]:
    p, graph, rng, out = source(name, ()), saturated(name, ()).graph, random.Random(4), dict[bytes, Program]()
    for _ in range(500):
        q = decode(graph, sample(graph, rng), p, parameters(p, 4), {})
        if counting(q):
            out.setdefault(dumps(q), q)
        if len(out) == 3:
            break
    return tuple(out.values())


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_over_groups_are_verified_and_right(name: str) -> None:
    found = of_kernel(name)
    assert found
    for q in found:
        legal = legalize(q)
        assert not verify(q) and not verify(legal)
        for row in KERNELS[name]:
            assert outcome(name, q, row).ok and outcome(name, legal, row).ok


def test_a_bound_that_leaves_out_a_member_is_refused_and_a_loose_one_is_not() -> None:
    q = of_kernel("csr_spmv_f32")[0]
    for form in (lambda p: p, legalize):
        assert codes(form(shifted(q, "hi", -1))) == {"EQK-PRG-NARROW"} and not codes(form(shifted(q, "hi", 1)))
    assert not outcome("csr_spmv_f32", shifted(q, "hi", -4), (9, 10, 37, 7)).ok


def test_without_the_family_members_are_not_counted() -> None:
    assert not candidates(sums(), 1, ("narrow",))


def test_an_axis_that_several_reductions_share_and_a_bound_that_is_the_same_for_all_lanes_stay() -> None:
    assert not source("triangle_sums_f32", ()).ranges.counted  # type: ignore[union-attr]  # no lower bound
    assert not source("jagged_softmax_f32", ()).ranges.counted  # type: ignore[union-attr]  # two reductions
    assert len(source("csr_spmv_f32", ()).ranges.counted) == 1  # type: ignore[union-attr]


def test_it_is_chosen_for_many_short_groups() -> None:
    name, shapes = "csr_spmv_f32", {"R": 1_000_000, "E": 1_000_001, "N": 20_000_000, "C": 1_000_000}
    p, target = source(name, ()), load_target("triton:nvidia-h200")
    found = choose(
        saturated(name, ()).graph, p, target, shapes=shapes, verify=verify, initial=conservative(p),
        decode=lambda g, s, b, o: decode(g, s, p, b, o),
    )  # fmt: skip
    assert counting(found.program) and found.program.bindings["B:i0"] > 1


@pytest.mark.parametrize(("groups", "lanes"), [(512, 64), (256, 16), (1024, 1)])
def test_lanes_wait_for_the_longest_group(groups: int, lanes: int) -> None:
    n, rng, p = 65536, np.random.default_rng(groups), source("csr_spmv_f32", ())
    b = of_abstract(p, Extents(p.abi, {"R": groups, "E": groups + 1, "N": n, "C": 9}))["c0k"]
    counts = []
    for _ in range(20):
        at = np.concatenate([[0], np.sort(rng.integers(0, n + 1, groups - 1)), [n]])
        counts.append(np.mean(np.diff(at).reshape(-1, lanes).max(1)))
    expected = float(b.steps(1, n, lambda a: groups / lanes))
    assert 1 / 1.1 < expected / np.mean(counts) < 1.1
