"""Loops over the groups that a block of rows meets: what is known, what candidates make of it, and who notices a group that is left out.

The data are arbitrary: groups overlap, are empty or upside down, in any order, and reach beyond the rows.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from eqkir.base.expr import Coord, Dep, Int, conj, le, lt
from eqkir.emit.triton.legalize import legalize
from eqkir.extract.choose import choose
from eqkir.extract.extents import Extents
from eqkir.extract.narrowed import has_effects, of_abstract
from eqkir.program.abstract import Abstract, Group, Put
from eqkir.program.interp import Buffer, run
from eqkir.program.lower import conservative
from eqkir.program.model import Carry, Item, Let, Loop, Program, Store
from eqkir.program.ranges import with_ranges
from eqkir.program.serialize import dumps, loads
from eqkir.program.verify import verify
from eqkir.rules.saturate import saturate
from eqkir.targets import load_target
from eqkir.terms.decode import decode
from tests.terms.samples import load, program
from tests.terms.sampling import sample
from tests.terms.test_narrow import changed, codes, items, loops, narrowed, outcome, parameters, saturated, source

GROUPED = ("moe_grouped_gemm_bf16", "jagged_softmax_f32", "varlen_attention_bf16")
WRONG = "EQK-PRG-NARROW"


def overlapping(confined: int = 2) -> Abstract:
    """out[t] += x[g] wherever starts[g] <= t < ends[g]; `confined`: how many of the two comparisons there are."""
    views = [("starts", "in", "i32", ("G",)), ("ends", "in", "i32", ("G",)), ("x", "in", "i32", ("G",)), ("out", "inout", "i32", ("T",))]
    p = program(views, ["T", "G"], [("i0", "T", "own"), ("c0", "G", "loop")])  # type: ignore[arg-type]
    ends = tuple(p.make("Cast", ("index",), (load(p, v, "c0"),), "index") for v in ("starts", "ends"))
    both = (le(Dep(0), Coord("i0")), lt(Coord("i0"), Dep(1)))
    valid = p.make("Index", (conj(*both[:confined]),), ends[:confined], "bool")
    put = Put("out", 1, (Coord("i0"),), load(p, "x", "c0"), valid, (), "add", "relaxed")
    p.groups = (Group("g0", ("i0",), ((put,),)),)
    return with_ranges(p)


def data(t: int, g: int, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    starts, ends = rng.integers(-9, t + 9, g), rng.integers(-9, t + 9, g)
    if seed % 3 == 0:  # offsets of packed rows
        at = np.sort(np.concatenate([[0, t], rng.integers(0, t + 1, max(0, g - 1))]))[: g + 1]
        starts, ends = at[:g], at[1 : g + 1]
    return {"starts": starts.astype(np.int32), "ends": ends.astype(np.int32), "x": rng.integers(-99, 99, g).astype(np.int32)}


def wanted(d: dict[str, np.ndarray], t: int) -> np.ndarray:
    at = np.arange(t)[:, None]
    return (np.where((d["starts"] <= at) & (at < d["ends"]), d["x"], 0).sum(1) + at[:, 0]).astype(np.int32)


def result(p: Program, d: dict[str, np.ndarray], t: int) -> np.ndarray:
    out = Buffer.of(np.arange(t, dtype=np.int32))
    run(p, {**{k: Buffer.of(v.copy()) for k, v in d.items()}, "out": out})
    return np.asarray(out.array())


CASES = [(t, g, seed) for t, g in ((37, 9), (5, 3), (64, 1), (0, 4), (7, 0), (0, 0)) for seed in range(4)]


def right(p: Program) -> bool:
    return all(np.array_equal(result(p, d, t), wanted(d, t)) for t, g, seed in CASES for d in (data(t, g, seed),))


def visiting(p: Program) -> list[Loop]:
    """The loops over groups that are met."""
    return [x for x in loops(p) if x.ends and has_effects(x.body)]


@cache
def candidates(n: int = 12, without: tuple[str, ...] = ()) -> tuple[Program, ...]:
    """Different candidates of `overlapping` that visit the groups that are met."""
    p, rng = overlapping(), random.Random(3)
    graph = saturate(p, without=without).graph
    out: dict[bytes, Program] = {}
    for _ in range(600):
        q = decode(graph, sample(graph, rng), p, parameters(p, 4), {})
        if visiting(q):
            out.setdefault(dumps(q), q)
        if len(out) == n:
            break
    return tuple(out.values())


def block() -> Program:
    """A candidate in which an instance owns a block of rows."""
    wide = [q for q in candidates() if any(isinstance(x, Let) and x.op == "RedTree" for x in items(q))]
    return next(q for q in wide if visiting(q)[0].label == "c0:L1")


# ------------------------------------------------------------------------------------------------ what is known
def test_half_spaces_of_rows_are_found_where_every_store_has_them() -> None:
    for name in GROUPED:
        assert [[m.upper for m in ms] for ms in source(name, ()).ranges.met.values()] == [[True, False]]  # type: ignore[union-attr]
    for name in ("jagged_mean_f32", "segment_max_f32", "triangle_sums_f32"):  # groups are instances
        assert not source(name, ()).ranges.met  # type: ignore[union-attr]
    assert len(overlapping(1).ranges.met["c0"]) == 1  # type: ignore[union-attr]
    p = overlapping()
    (put,) = p.groups[0].phases[0]
    bare = replace(put, valid=p.const("true", "bool"))
    for puts in ((bare,), (put, replace(bare, version=2))):
        assert not with_ranges(replace(p, groups=(Group("g0", ("i0",), (puts,)),))).ranges.met  # type: ignore[union-attr]


def test_an_axis_along_which_something_is_reduced_is_left_alone() -> None:
    p = overlapping()
    (put,) = p.groups[0].phases[0]
    total = p.make("Red", ("sum", "c0"), (load(p, "x", "c0"),), "i32")
    both = Group("g0", ("i0",), ((replace(put, value=p.make("Bin", ("add",), (put.value, total), "i32")),),))
    assert not with_ranges(replace(p, groups=(both,))).ranges.met  # type: ignore[union-attr]


# ------------------------------------------------------------------------------------------------ candidates
def test_candidates_are_verified_and_right_for_any_groups() -> None:
    found = candidates()
    assert len(found) == 12
    for q in found:
        legal = legalize(q)
        assert not verify(q) and not verify(legal) and loads(dumps(q)) == q
        assert right(q) and right(legal)
    assert right(conservative(overlapping()))


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n.startswith("varlen") else n for n in GROUPED])
def test_kernels_visit_the_groups_that_a_block_meets(name: str) -> None:
    rows = {"moe_grouped_gemm_bf16": [(37, 5, 3, 4, 5), (0, 3, 2, 2, 3), (4, 0, 3, 2, 3)], "jagged_softmax_f32": [(37, 2, 4), (0, 2, 3)],
            "varlen_attention_bf16": [(21, 2, 4, 4), (0, 1, 3, 3)]}[name]  # fmt: skip
    found = [q for q in narrowed(name, (), 40) if visiting(q)][:3]
    assert found
    for q in found:
        legal = legalize(q)
        assert not verify(q) and not verify(legal)
        for row in rows:
            assert outcome(name, q, row).ok and outcome(name, legal, row).ok


@pytest.mark.parametrize("family", ["own", "narrow", "realize", "access", "algebra"])
def test_any_other_family_may_be_off(family: str) -> None:
    found = candidates(2, (family,))
    assert found and all(not verify(q) and not verify(legalize(q)) and right(q) for q in found)


def test_without_the_family_every_group_is_visited() -> None:
    p, rng = overlapping(), random.Random(0)
    graph = saturate(p, without=("regroup",)).graph
    assert not any(visiting(decode(graph, sample(graph, rng), p, parameters(p, 4), {})) for _ in range(60))


def test_it_is_chosen_for_its_cost() -> None:
    name, shapes = "moe_grouped_gemm_bf16", {"T": 1 << 18, "D": 2048, "N": 768, "X": 128, "E": 129}
    p, target = source(name, ()), load_target("triton:nvidia-h200")
    best = []
    for graph in (saturated(name, ()).graph, saturate(p, without=("regroup",)).graph):
        best.append(
            choose(graph, p, target, shapes=shapes, verify=verify, initial=conservative(p), decode=lambda g, s, b, o: decode(g, s, p, b, o))
        )
    assert visiting(best[0].program) and not visiting(best[1].program)
    assert best[0].cost.total < 0.5 * best[1].cost.total


@pytest.mark.parametrize(("groups", "block"), [(64, 32), (8, 64), (256, 16), (4, 1024)])
def test_expected_visits(groups: int, block: int) -> None:
    n, rng, p = 4096, np.random.default_rng(groups), source("moe_grouped_gemm_bf16", ())
    b = of_abstract(p, Extents(p.abi, {"T": n, "X": groups}))["c0"]
    counts = []
    for _ in range(20):
        at = np.concatenate([[0], np.sort(rng.integers(0, n + 1, groups - 1)), [n]])
        first = np.arange(n // block)[:, None] * block
        meets = (at[:-1] < first + block) & (at[1:] > first)
        counts.append(meets.sum(1).mean())
    size = {"c0": float(groups), "i0": n / block}
    expected = float(b.steps(1, groups, lambda a: size[a]))
    # of g groups and b blocks g + b - 1 pairs: the first group begins with the first block
    assert abs(expected - block / n - np.mean(counts)) < 0.05 * np.mean(counts)


# ------------------------------------------------------------------------------------------------ mutations
def edit(p: Program, change: Callable[[Let], Let]) -> Program:
    out = changed(p, lambda x: change(x) if isinstance(x, Let) else x)
    assert out != p
    return out


def carries(p: Program, change: Callable[[Carry], Carry]) -> Program:
    out = changed(p, lambda x: replace(x, carries=tuple(map(change, x.carries))) if isinstance(x, Loop) else x)
    assert out != p
    return out


def candidate(p: Program, fn: str) -> tuple[int, int]:
    """(the group, the value without a group) that the search takes an extreme of."""
    defs = {x.id: x for x in items(p) if isinstance(x, Let)}
    c = next(c for x in loops(p) for c in x.carries if c.op == "RedLoop" and c.attrs[0] == fn)
    return defs[c.args[0]].args[1], defs[c.args[0]].args[2]


def moved(p: Program, i: int, by: int) -> Program:
    return edit(p, lambda x: replace(x, attrs=(x.attrs[0] + by,)) if x.id == i else x)


def test_a_search_that_leaves_out_a_group_is_refused_and_a_loose_one_is_not() -> None:
    q = block()
    for form in (lambda p: p, legalize):
        for fn, inward in (("min", 1), ("max", -1)):
            found, none = candidate(q, fn)
            assert codes(form(moved(q, found, inward))) == {WRONG} and not right(moved(q, found, inward))
            assert not codes(form(moved(q, found, -inward))) and right(moved(q, found, -inward))
            assert not codes(form(moved(q, none, -inward))) and right(moved(q, none, -inward))


def _meets(x: Any) -> bool:
    return isinstance(x, Let) and x.op == "Index" and x.dtype == "bool" and len(x.args) == 4


def test_a_condition_that_misses_groups_is_refused() -> None:
    q = block()
    same = (le(Dep(0), Dep(0) + 1), lt(Dep(0), Dep(0)))
    always, never = (edit(q, lambda x, e=e: replace(x, attrs=(e,)) if _meets(x) else x) for e in same)
    (cond,) = (x.attrs[0] for x in items(q) if _meets(x) and isinstance(x, Let))
    for k, bad in ((0, conj(cond, lt(Dep(0), 20))), (1, conj(cond, lt(Dep(1), Dep(0)))), (2, conj(cond, lt(Coord("c0"), 3)))):
        wrong = edit(q, lambda x, e=bad: replace(x, attrs=(e,)) if _meets(x) else x)
        assert codes(wrong) == {WRONG} and codes(legalize(wrong)) == {WRONG}, k
        assert not right(wrong)
    assert codes(never) == {WRONG} and not codes(always) and right(always)


def test_the_least_and_the_greatest_row_and_group_are_not_exchanged() -> None:
    q = block()
    other = {"min": "max", "max": "min"}
    rows = edit(q, lambda x: replace(x, attrs=(other[x.attrs[0]], *x.attrs[1:])) if x.op == "RedTree" else x)
    found = carries(q, lambda c: replace(c, attrs=(other[c.attrs[0]], *c.attrs[1:])))
    ends = changed(q, lambda x: replace(x, lo=x.hi, hi=x.lo) if isinstance(x, Loop) and x.ends else x)
    for wrong in (rows, found, ends):
        assert codes(wrong) == {WRONG} and WRONG in codes(legalize(wrong)) and not right(wrong)


def test_the_search_reads_what_the_store_reads() -> None:
    q = block()
    search = next(x for x in loops(q) if any(c.op == "RedLoop" for c in x.carries))
    inside = {x.id for x in search.body if isinstance(x, Let) and x.op == "Load"}
    swap = {"starts": "ends", "ends": "starts"}
    wrong = edit(q, lambda x: replace(x, attrs=(swap[x.attrs[0]], *x.attrs[1:])) if x.id in inside else x)
    assert codes(wrong) == {WRONG} and not right(wrong)
    shared = replace(q, abi=replace(q.abi, noalias=(), views=tuple(replace(v, alias=0) for v in q.abi.views)))
    assert WRONG in codes(shared)  # what the search has read may have been overwritten


def test_the_search_takes_every_group() -> None:
    q = block()
    search = next(x for x in loops(q) if any(c.op == "RedLoop" for c in x.carries))
    two = Let(9000, "Index", (Int(2),), (), (), "index")

    def walk(xs: tuple[Item, ...]) -> tuple[Item, ...]:
        out: list[Item] = []
        for x in xs:
            out += [two, replace(x, hi=9000)] if x == search else [x]
        return tuple(out)

    short = replace(q, segments=tuple(replace(s, phases=tuple(walk(ph) for ph in s.phases)) for s in q.segments))
    assert codes(short) == {WRONG} and not right(short)


def test_a_store_that_is_not_confined_or_a_condition_besides_is_refused() -> None:
    q = block()
    valid = next(x.valid for x in items(q) if isinstance(x, Store))
    wider = edit(q, lambda x: replace(x, attrs=(le(Dep(0), Coord("i0")),), args=x.args[:1]) if x.id == valid else x)
    assert codes(wider) == {WRONG} and WRONG in codes(legalize(wider))
    defs = {x.id: x for x in items(q) if isinstance(x, Let)}
    true = Let(9000, "Const", ("true",), (), (), "bool")
    on = changed(q, lambda x: replace(x, on=9000) if isinstance(x, Loop) and x.ends else x)
    on = replace(on, segments=tuple(replace(s, phases=tuple((true, *ph) for ph in s.phases)) for s in on.segments))
    assert codes(on) == {WRONG} and valid in defs
