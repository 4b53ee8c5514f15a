"""Loops between bounds: what is known of ranges, what candidates make of it, and who notices a bound that excludes too much."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from corpus.build import every
from corpus.cases import DATA, SCALARS
from eqkir.base.expr import Coord, Expr, Int, Sym, conj, eq, evaluate, le, lt, negate
from eqkir.emit.triton.legalize import legalize
from eqkir.extract.choose import choose
from eqkir.extract.cost import cost_model
from eqkir.kir.envelope import Comparison, compare, envelope
from eqkir.kir.inputs import make_inputs
from eqkir.kir.memory import ViewArg, clone
from eqkir.kir.types import infer
from eqkir.program.abstract import Abstract, with_slices
from eqkir.program.construct import construct
from eqkir.program.interp import Buffer, run
from eqkir.program.lower import conservative
from eqkir.program.model import Item, Let, Loop, Program
from eqkir.program.ranges import half_spaces, with_ranges
from eqkir.program.schedule import ScheduleError
from eqkir.program.serialize import dumps, loads
from eqkir.program.verify import verify
from eqkir.rules.saturate import Saturated, saturate
from eqkir.targets import load_target
from eqkir.terms.decode import decode
from tests.terms.samples import plain_attention
from tests.terms.sampling import sample

ZERO = ("zero_products",)
#: kernel -> permissions, assignments: with empty ranges, ranges inside one block and over several
KERNELS: dict[str, tuple[tuple[str, ...], list[tuple[int, ...]]]] = {
    "triangle_sums_f32": ((), [(37, 40), (5, 19), (19, 5), (3, 0), (0, 3)]),
    "sliding_mean_f32": ((), [(2, 37), (3, 1), (2, 0)]),
    "banded_matvec_f32": ((), [(21, 37), (37, 21), (3, 0)]),
    "triangular_gemm_i8": ((), [(19, 40, 3), (37, 7, 2), (4, 0, 3)]),
    "triangular_gemm_bf16": (ZERO, [(19, 40, 3), (37, 7, 2), (4, 0, 3)]),
    "jagged_mean_f32": ((), [(3, 4, 37, 2), (2, 3, 0, 1), (5, 6, 9, 2)]),
    "moe_grouped_gemm_bf16": ((), [(37, 5, 3, 4, 5), (9, 3, 2, 3, 4), (0, 3, 2, 2, 3), (4, 0, 3, 2, 3)]),
    "jagged_softmax_f32": ((), [(37, 2, 4), (19, 3, 6), (0, 2, 3), (5, 0, 2)]),
    "segment_max_f32": ((), [(5, 6, 37), (3, 4, 0)]),
    "attention_causal_bf16": (ZERO, [(1, 1, 9, 19, 4), (1, 1, 19, 9, 4), (1, 1, 7, 3, 4), (1, 2, 3, 0, 4)]),
    "attention_window_bf16": (ZERO, [(1, 1, 9, 19, 4), (1, 1, 19, 9, 4), (1, 1, 3, 0, 4)]),
    "varlen_attention_bf16": (ZERO, [(21, 2, 4, 4), (9, 1, 3, 2), (0, 1, 3, 3)]),
}


@cache
def source(name: str, permit: tuple[str, ...]) -> Abstract:
    k = every()[name]
    return with_ranges(construct(k, infer(k), {}), permit)


@cache
def saturated(name: str, permit: tuple[str, ...]) -> Saturated:
    return saturate(source(name, permit), permit=permit)


def parameters(p: Abstract, step: int) -> dict[str, int]:
    return {f"{k}:{a.name}": step if k != "F" else 64 for a in p.axes for k in "BCF"} | {f"{k}:g0": 2 for k in "GP"}


@cache
def narrowed(name: str, permit: tuple[str, ...], n: int, step: int = 4) -> tuple[Program, ...]:
    """Different narrowed candidates, chosen at random."""
    p, s, rng = source(name, permit), saturated(name, permit), random.Random(5)
    out: dict[bytes, Program] = {}
    for _ in range(2000):
        try:
            q = decode(s.graph, sample(s.graph, rng), p, parameters(p, step), {})
        except Exception as e:
            assert type(e).__name__ == "ScheduleError"
            continue
        if any(x.ends for x in loops(q)) and not any("fits" in str(e) for e in q.preconditions):
            out.setdefault(dumps(q), q)
        if len(out) == n:
            break
    return tuple(out.values())


def items(p: Program) -> Iterator[Item]:
    def walk(xs: tuple[Item, ...]) -> Iterator[Item]:
        for x in xs:
            yield x
            if isinstance(x, Loop):
                yield from walk(x.body)

    for s in p.segments:
        for ph in s.phases:
            yield from walk(ph)


def loops(p: Program) -> list[Loop]:
    return [x for x in items(p) if isinstance(x, Loop)]


def outcome(name: str, p: Program, row: tuple[int, ...], seed: int = 0, permit: tuple[str, ...] = (), variant: str = "plain") -> Comparison:
    k = every()[name]
    symbols = {s.id: v for s, v in zip(k.symbols, row, strict=True)}
    args = make_inputs(k, symbols, seed, variant, {}, SCALARS.get(name), DATA.get(name))
    expected = envelope(k, clone(args), symbols, {}, permit)
    got = clone(args)
    buffers = {n: Buffer(a.memory, a.offset, a.shape, a.strides) if isinstance(a, ViewArg) else a for n, a in got.items()}
    with np.errstate(all="ignore"):
        run(p, buffers, symbols)
    return compare(expected, {n: got[n] for n in expected})


# ------------------------------------------------------------------------------------------------ bounds from predicates
def _predicates() -> list[Expr]:
    x, i, n = Coord("x"), Coord("i"), Sym("n")
    sides = [i + n, i - 3, n - i, Int(5), i * 2]
    out = [f(x, e) for f in (le, lt, eq) for e in sides] + [f(e, x) for f in (le, lt) for e in sides]
    out += [negate(f(x, e)) for f in (le, lt) for e in sides[:2]] + [le(x * 3 + i, n), lt(i - x * 2, n), le(n - x, i)]
    return [*out, conj(le(x, i), lt(i - n, x)), conj(le(0, x), lt(x * 2, n), eq(i, 3))]


@pytest.mark.parametrize("predicate", _predicates(), ids=str)
def test_bounds_hold_every_true_member_and_those_of_one_comparison_no_other(predicate: Expr) -> None:
    found = list(half_spaces(predicate, "x"))
    assert found
    for i in range(-4, 9):
        for n in range(-4, 9):

            def value(e: Expr, x: int, i: int = i, n: int = n) -> Any:
                return evaluate(e, {"x": x, "i": i, "n": n})

            inside = [x for x in range(-40, 60) if value(predicate, x)]
            kept = [x for x in range(-40, 60) if all((x < value(b.at, x)) if b.upper else (x >= value(b.at, x)) for b in found)]
            assert set(inside) <= set(kept)
            if predicate.op in ("le", "lt", "eq", "not"):
                assert inside == kept


def test_no_bound_follows_from_what_is_not_affine_or_not_a_conjunction() -> None:
    x, i = Coord("x"), Coord("i")
    for e in (le(x * x, i), le(x % 4, i), Expr("or", (le(x, i), le(x, 3))), lt(x * i, 7), le(i, 3)):
        assert not list(half_spaces(e, "x"))


def test_float_products_with_one_zero_factor_need_the_permission() -> None:
    assert not source("triangular_gemm_bf16", ()).ranges.bounds  # type: ignore[union-attr]
    assert source("triangular_gemm_bf16", ZERO).ranges.bounds  # type: ignore[union-attr]
    assert source("triangular_gemm_i8", ()).ranges.bounds  # type: ignore[union-attr]
    assert not source("attention_causal_bf16", ()).ranges.bounds  # type: ignore[union-attr]


def test_without_the_family_nothing_is_narrowed() -> None:
    p = source("triangle_sums_f32", ())
    s, rng = saturate(p, without=("narrow",)), random.Random(0)
    assert not any(x.ends for _ in range(60) for x in loops(decode(s.graph, sample(s.graph, rng), p, parameters(p, 4), {})))


# ------------------------------------------------------------------------------------------------ candidates
SLOW = ("attention_window_bf16", "varlen_attention_bf16")


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in KERNELS])
def test_narrowed_candidates_are_verified_and_right(name: str) -> None:
    permit, rows = KERNELS[name]
    found = narrowed(name, permit, 3)
    assert found
    for q in found:
        assert not verify(q)
        assert loads(dumps(q)) == q
        for row in rows:
            verdict = outcome(name, q, row, permit=permit)
            assert verdict.ok, (row, verdict)
    assert outcome(name, conservative(source(name, permit)), rows[0], permit=permit).ok


@pytest.mark.parametrize("name", ["triangle_sums_f32", "jagged_mean_f32", "sliding_mean_f32"])
def test_legalized_candidates_are_verified_and_right(name: str) -> None:
    permit, rows = KERNELS[name]
    q = legalize(narrowed(name, permit, 1)[0])
    assert any(x.ends for x in loops(q)) and not verify(q)
    for row in rows[:3]:
        assert outcome(name, q, row, permit=permit).ok


@pytest.mark.parametrize("name", ["triangle_sums_f32", "attention_causal_bf16"])
def test_special_values_beyond_the_bounds(name: str) -> None:
    permit, rows = KERNELS[name]
    for seed in range(2):
        assert outcome(name, narrowed(name, permit, 1)[0], rows[0], seed, permit, "special").ok


def test_causal_bounds_are_chosen_for_their_cost() -> None:
    name, shapes = "attention_causal_bf16", {"B": 4, "H": 32, "S": 4096, "T": 4096, "D": 128}
    p, target = source(name, ZERO), load_target("triton:nvidia-h200")
    best = []
    for without in ((), ("narrow",)):
        graph = saturate(p, without=without, permit=ZERO).graph
        found = choose(
            graph, p, target, shapes=shapes, verify=verify, initial=conservative(p), decode=lambda g, s, b, o: decode(g, s, p, b, o)
        )
        best.append(found)
    assert any(x.ends for x in loops(best[0].program)) and not any(x.ends for x in loops(best[1].program))
    assert best[0].cost.total < 0.7 * best[1].cost.total
    assert cost_model("roofline").program(best[0].program, target, shapes).total == best[0].cost.total


def test_plain_causal_softmax_attention_is_narrowed_by_rules_alone() -> None:
    permit = ("relaxed_normalization", *ZERO)
    p = with_ranges(with_slices(plain_attention(causal=True)), permit)
    s, rng = saturate(p, permit=permit), random.Random(2)
    m, n, d, e = 5, 13, 3, 6
    data = {k: np.random.default_rng(0).normal(size=z).astype(np.float32) for k, z in (("Q", (m, d)), ("K", (n, d)), ("V", (n, e)))}
    scores = np.where(np.arange(n) <= np.arange(m)[:, None] + n - m, data["Q"].astype(np.float64) @ data["K"].T, -np.inf)
    w = np.exp(scores)
    found = 0
    for _ in range(400):
        q = decode(s.graph, sample(s.graph, rng), p, parameters(p, 4), {})
        if any(x.ends and any(c.op == "Phi" for c in x.carries) for x in loops(q)):
            assert not verify(q)
            out = np.full((m, e), np.nan, np.float32)
            run(q, {k: Buffer.of(a.copy()) for k, a in data.items()} | {"Y": (y := Buffer.of(out))})
            assert np.max(np.abs(y.array() - w @ data["V"] / w.sum(1, keepdims=True))) < 2e-5
            found += 1
            if found == 3:
                break
    assert found == 3


# ------------------------------------------------------------------------------------------------ wrong bounds
def changed(p: Program, change: Any) -> Program:
    """The program with every item (and those of loops) as `change` gives it."""

    def walk(xs: tuple[Item, ...]) -> tuple[Item, ...]:
        return tuple(change(replace(x, body=walk(x.body)) if isinstance(x, Loop) else x) for x in xs)

    return replace(p, segments=tuple(replace(s, phases=tuple(walk(ph) for ph in s.phases)) for s in p.segments))


def shifted(p: Program, side: str, by: int) -> Program:
    """The program with its lower or upper bounds moved."""
    ends = {getattr(x, side) for x in loops(p)} - {-1}

    def change(x: Item) -> Item:
        return replace(x, attrs=(x.attrs[0] + by,)) if isinstance(x, Let) and x.id in ends and x.op == "Index" else x

    out = changed(p, change)
    assert out != p
    return out


def codes(p: Program) -> set[str]:
    return {d.code for d in verify(p)}


BOTH = [("triangle_sums_f32", "hi"), ("sliding_mean_f32", "lo"), ("sliding_mean_f32", "hi"), ("jagged_mean_f32", "lo"),
        ("triangular_gemm_bf16", "hi"), pytest.param("attention_causal_bf16", "hi", marks=pytest.mark.slow),
        pytest.param("attention_window_bf16", "lo", marks=pytest.mark.slow)]  # fmt: skip


@pytest.mark.parametrize("by", [1, 4])
@pytest.mark.parametrize(("name", "side"), BOTH)
def test_a_bound_that_excludes_an_active_member_is_refused_and_a_loose_one_is_not(name: str, side: str, by: int) -> None:
    q = next(q for q in narrowed(name, KERNELS[name][0], 12) if any(getattr(x, side) >= 0 for x in loops(q)))
    inward = by if side == "lo" else -by
    for form in (lambda p: p, legalize):
        assert codes(form(shifted(q, side, inward))) == {"EQK-PRG-NARROW"}
        assert not codes(form(shifted(q, side, -inward)))


@pytest.mark.parametrize(("name", "side"), [("triangle_sums_f32", "hi"), ("sliding_mean_f32", "lo"), ("attention_causal_bf16", "hi")])
def test_the_interpreter_shows_a_bound_that_is_a_block_short(name: str, side: str) -> None:
    permit, rows = KERNELS[name]
    q = shifted(narrowed(name, permit, 1)[0], side, 4 if side == "lo" else -4)
    assert not outcome(name, q, rows[0], permit=permit).ok
    assert not outcome(name, legalize(q), rows[0], permit=permit).ok


def test_a_narrowed_loop_needs_its_mask_its_permission_and_the_right_extreme() -> None:
    q = narrowed("triangular_gemm_bf16", ZERO, 1)[0]
    assert codes(replace(q, permissions=())) == {"EQK-PRG-NARROW"}
    true = changed(q, lambda x: replace(x, attrs=(le(Coord("c0"), Coord("i0") + 1),)) if isinstance(x, Let) and x.dtype == "bool"
                   and x.op == "Index" else x)  # fmt: skip
    assert true != q and codes(true) == {"EQK-PRG-NARROW"}
    wide = [p for p in narrowed("triangle_sums_f32", (), 12) if any("i0:OB" in x.dims for x in items(p) if isinstance(x, Let))]
    legal = legalize(wide[0])
    ends = {e for x in loops(legal) for e in x.ends}

    def least_of(x: Item) -> Item:
        return replace(x, attrs=("min", x.attrs[1])) if isinstance(x, Let) and x.op == "FragRed" and x.id in ends else x

    least = changed(legal, least_of)
    assert least != legal and "EQK-PRG-NARROW" in codes(least)


# ------------------------------------------------------------------------------------------------ groups that a block does not meet
def grouped() -> Program:
    """A candidate of a grouped product whose inner loop is left out for groups that the block of rows does not meet."""
    return next(p for p in narrowed("moe_grouped_gemm_bf16", (), 8) if any(x.on >= 0 for x in loops(p)))


def test_loops_whose_results_are_observed_by_no_lane_are_left_out() -> None:
    q = grouped()
    for form in (q, legalize(q)):
        assert not verify(form)
        for row in KERNELS["moe_grouped_gemm_bf16"][1]:
            assert outcome("moe_grouped_gemm_bf16", form, row).ok


def _on(p: Program, change: Any) -> Program:
    """The program whose loops count where something else holds: the copy of their condition, changed."""
    on = {x.on for x in loops(p)} - {-1}

    def copy(x: Let) -> Let:
        return replace(x, id=9000, attrs=(change(x.attrs[0]),))

    def walk(xs: tuple[Item, ...]) -> tuple[Item, ...]:
        out: list[Item] = []
        for x in xs:
            out.append(replace(x, body=walk(x.body), on=9000 if x.on >= 0 else -1) if isinstance(x, Loop) else x)
            if isinstance(x, Let) and x.id in on:
                out.append(copy(x))
        return tuple(out)

    return replace(p, segments=tuple(replace(s, phases=tuple(walk(ph) for ph in s.phases)) for s in p.segments))


def test_a_condition_that_leaves_out_a_lane_that_a_store_takes_is_refused() -> None:
    q = grouped()
    narrower, other = (_on(q, lambda e, k=k: conj(e, le(Coord("i0"), k))) for k in (3, 20))
    for wrong in (narrower, other):
        assert codes(wrong) == {"EQK-PRG-NARROW"} and "EQK-PRG-NARROW" in codes(legalize(wrong))
    assert not outcome("moe_grouped_gemm_bf16", narrower, (37, 5, 3, 4, 5)).ok
    wider = _on(q, lambda e: Expr("or", (e, le(Coord("i0"), 3))))
    assert not codes(wider) and outcome("moe_grouped_gemm_bf16", wider, (37, 5, 3, 4, 5)).ok
    true = max(x.id for x in items(q) if isinstance(x, Let)) + 1000
    bare = changed(q, lambda x: replace(x, valid=true) if not isinstance(x, (Let, Loop)) else x)
    always = Let(true, "Const", ("true",), (), (), "bool")
    bare = replace(bare, segments=tuple(replace(s, phases=tuple((always, *ph) for ph in s.phases)) for s in bare.segments))
    assert "EQK-PRG-NARROW" in codes(bare)


def jagged() -> Program:
    """A candidate whose two reductions over a group's rows, the second of which reads the first's result, are both between bounds and
    left out for groups that the block of rows does not meet."""
    found = narrowed("jagged_softmax_f32", (), 60)
    return next(
        p for p in found if sum(min(x.ends) >= 0 and len(x.ends) == 3 for x in loops(p) if x.ends) == 2 and "i0:OB" in str(p.segments)
    )


def test_reductions_that_follow_each_other_along_one_axis_are_narrowed_together() -> None:
    name, q = "jagged_softmax_f32", jagged()
    for form in (q, legalize(q)):
        assert not verify(form)
        for row in KERNELS[name][1]:
            assert outcome(name, form, row).ok
    for by, side in ((4, "lo"), (-4, "hi")):
        assert codes(shifted(q, side, by)) == {"EQK-PRG-NARROW"} and not outcome(name, shifted(q, side, by), (37, 2, 4)).ok
    short = _on(q, lambda e: conj(e, le(Coord("i0"), 3)))
    assert codes(short) == {"EQK-PRG-NARROW"} and not outcome(name, short, (37, 2, 4)).ok


def test_what_another_loop_has_taken_is_not_known_beyond_the_bounds() -> None:
    """exp(-inf - m) is neutral for a sum only where the maximum m is no NaN; m comes from an earlier loop over the same axis."""
    name = "softmax_attention_bf16"
    p, s, rng, tried = source(name, ()), saturated(name, ()), random.Random(0), 0
    for _ in range(400):
        try:
            q = decode(s.graph, sample(s.graph, rng), p, parameters(p, 4), {})
        except ScheduleError:
            continue
        kinds = {c.attrs[0]: x for x in loops(q) for c in x.carries if c.op == "RedLoop" and x.axis == "c1"}
        assert "sum" not in kinds or not kinds["sum"].ends
        if "sum" in kinds and "max" in kinds and kinds["max"].ends:
            assert not verify(q)
            late = changed(
                q,
                lambda x, hi=kinds["max"].hi: (
                    replace(x, hi=hi) if isinstance(x, Loop) and any(c.attrs[:1] == ("sum",) for c in x.carries) else x
                ),
            )
            if "EQK-PRG-SCOPE" in codes(late):  # the bound is made inside another loop
                continue
            assert codes(late) == {"EQK-PRG-NARROW"}
            tried += 1
            if tried == 2:
                break
    assert tried == 2


def test_a_loop_between_bounds_has_no_effects() -> None:
    q = narrowed("triangle_sums_f32", (), 1)[0]
    store = next(x for x in items(q) if not isinstance(x, (Let, Loop)))
    inside = changed(q, lambda x: replace(x, body=(*x.body, store)) if isinstance(x, Loop) and x.ends else x)
    assert codes(inside)
