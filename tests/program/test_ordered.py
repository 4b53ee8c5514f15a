"""Scans, folds over slices, while loops and memory that changes inside ordered loops: results, acceptance, and one code a fault."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from program_samples import Block, abi
from test_verify import carry, every, let, loop, store

from eqkir.base.dtypes import NUMPY
from eqkir.base.expr import Coord, Dep, Int, Sym, conj, evaluate, le, lt
from eqkir.program.abi import Axis
from eqkir.program.interp import Buffer, run, run_index_only
from eqkir.program.lower import conservative
from eqkir.program.model import Barrier, Carry, Item, Let, Loop, Program, Segment, Store
from eqkir.program.serialize import digest, dumps, loads
from eqkir.program.verify import CODES, verify
from tests.terms.samples import SAMPLES

NAMES = ("cumsum", "pair_scan", "recurrence", "attention", "halving", "running_buffer")
P0 = {n: conservative(SAMPLES[n]()) for n in NAMES}


def walk(guard: bool = True) -> Program:
    """y[0] = sum of x[p] for p = 0, s, 2 s, … while 0 <= p < N: the loads are valid where the condition holds."""
    b = Block()
    zero, stride = b.let("Index", (Int(0),), (), (), "index"), b.let("Scalar", ("s",), (), (), "index")
    total, true = b.const("0.0"), b.true()
    p, acc, body, d = b.new(), b.new(), b.body(), ("w:L1",)
    inside = conj(le(0, Dep(0)), lt(Dep(0), Sym("N"))) if guard else le(0, Dep(0))
    cond = body.let("Index", (inside,), (p,), d, "bool")
    x = body.let("Load", ("x", 0, (Dep(0),), "ptr"), (true, total, p), d)
    nxt, more = body.bin("add", p, stride, d, "index"), body.bin("add", acc, x, d)
    carries = (Carry(p, "Phi", (), (nxt,), (zero,), (), "index"), Carry(acc, "Phi", (), (more,), (total,), (), "f32"))
    b.items.append(Loop("w", "w:L1", 0, carries, tuple(body.items), cond=cond))
    b.store("y", (0,), acc, ())
    a = abi("walk", ("x", "in", "f32", ("N",)), ("y", "out", "f32", (1,)), scalars=(("s", "index"),))
    return Program(a, (Axis("w", Int(0), "while"),), (Segment("g0", ("TUnit",), "grid", (tuple(b.items),)),), {})


def expected(name: str, x: dict[str, np.ndarray[Any, Any]]) -> dict[str, np.ndarray[Any, Any]]:
    """What the samples mean, in numpy."""
    match name:
        case "cumsum":
            s = np.cumsum(x["X"], 1)
            return {"Y": s, "M": s.max(1, initial=-np.inf)}
        case "pair_scan" | "recurrence":
            h, out = np.zeros(len(x["A"])), []
            for t in range(x["A"].shape[1]):
                h = x["A"][:, t] * h + x["B"][:, t]
                out.append(h)
            y = np.stack(out, 1) if out else np.zeros_like(x["A"])
            return {"Y": y, "H": h} if name == "recurrence" else {"Y": y}
        case "attention":
            s = x["Q"].astype(np.float64) @ x["K"].T
            e = np.exp(s - s.max(1, keepdims=True))
            return {"Y": e / e.sum(1, keepdims=True) @ x["V"]}
        case "halving":
            return {"Y": np.array([max(int(v), 1).bit_length() - 1 for v in x["X"]])}
    return {"Y": np.cumsum(x["X"].sum(1))}


def execute(p: Program, symbols: dict[str, int], rng: np.random.Generator, **kw: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    arrays = {}
    for v in p.abi.views:
        shape = tuple(int(evaluate(e, symbols)) for e in v.shape)
        arrays[v.name] = (rng.integers(-5, 99, shape) if v.dtype == "i32" else rng.standard_normal(shape)).astype(NUMPY[v.dtype])
    before = {k: a.copy() for k, a in arrays.items()}
    run(p, {k: Buffer.of(a) for k, a in arrays.items()}, symbols, **kw)
    return before, arrays


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("order", ["tree", "reversed", "sequential"])
def test_samples_mean_what_they_say(name: str, order: str) -> None:
    rng = np.random.default_rng(0)
    for n in (1, 5, 16):
        before, after = execute(P0[name], {s.name: n + k for k, s in enumerate(P0[name].abi.symbols)}, rng, order=order)
        for k, want in expected(name, before).items():
            np.testing.assert_allclose(after[k], want, rtol=1e-4, atol=1e-4)


def test_a_while_loop_reads_where_its_condition_holds() -> None:
    for n, s in ((0, 1), (7, 1), (7, 3), (7, -1)):
        x, y = np.arange(n, dtype=np.float32), np.zeros(1, np.float32)
        run(walk(), {"x": Buffer.of(x), "y": Buffer.of(y), "s": s})
        assert y[0] == (x[::s].sum() if s > 0 else x[:1].sum())
    x = np.ones(3, np.float32)
    with pytest.raises(Exception, match="EQK-INT-ENDLESS"):
        run(walk(), {"x": Buffer.of(x), "y": Buffer.of(np.zeros(1, np.float32)), "s": 0})


@pytest.mark.parametrize("name", [*NAMES, "walk"])
def test_samples_are_accepted_and_round_trip(name: str) -> None:
    p = walk() if name == "walk" else P0[name]
    assert [str(d) for d in verify(p)] == []
    assert loads(dumps(p)) == p and digest(loads(dumps(p))) == digest(p)


def test_candidates_of_the_graph_agree_with_the_samples() -> None:
    """Random structures under random bindings: whatever is accepted computes the sample, and most are accepted."""
    from eqkir.rules.saturate import saturate
    from eqkir.terms.decode import DecodeError, decode
    from tests.terms.sampling import sample

    rng, data = random.Random(1), np.random.default_rng(1)
    for name in NAMES:
        a = SAMPLES[name]()
        g = saturate(a).graph
        accepted = 0
        for _ in range(8):
            sizes = {f"{q}:{x.name}": rng.choice((1, 2, 4, 8)) for x in a.axes for q in "BC"} | {f"F:{x.name}": 16 for x in a.axes}
            try:
                p = decode(g, sample(g, rng), a, sizes | {"G:g0": 2, "P:g0": 3}, {})
            except DecodeError:
                continue
            if verify(p):
                continue
            accepted += 1
            for seed in (0, 1):
                before, after = execute(p, {s.name: rng.choice((1, 5, 16)) for s in a.abi.symbols}, data, seed=seed)
                for k, want in expected(name, before).items():
                    np.testing.assert_allclose(after[k], want, rtol=1e-4, atol=1e-4)
        assert accepted >= 3, name


def test_index_arithmetic_of_slices() -> None:
    touches = run_index_only(P0["attention"], {"M": 3, "N": 5, "D": 2, "E": 2}, [0])
    assert sorted({int(t.ixs[0]) for t in touches if t.view == "V"}) == [0, 4]


# ------------------------------------------------------------------------------------------------ mutations
BUFFER = P0["running_buffer"]


def no_barriers(p: Program) -> Program:
    return every(p, lambda i: None if isinstance(i, Barrier) else i)


def body_of(p: Program, f: Callable[[tuple[Item, ...]], tuple[Item, ...]]) -> Program:
    """Changes the second phase of the running buffer: the items of its ordered loop."""
    s = p.segments[0]
    outer = next(i for i in s.phases[1] if isinstance(i, Loop))
    items = tuple(replace(i, body=f(i.body)) if i is outer else i for i in s.phases[1])
    return replace(p, segments=(replace(s, phases=(s.phases[0], items)),))


def halves() -> Program:
    """The ordered loop is split: all updates of the buffer, then all totals."""
    s = BUFFER.segments[0]
    k = next(n for n, i in enumerate(s.phases[1]) if isinstance(i, Loop))
    outer = s.phases[1][k]
    assert isinstance(outer, Loop)
    first, second = replace(outer, body=outer.body[:2]), replace(outer, body=outer.body[2:])
    return replace(BUFFER, segments=(replace(s, phases=(s.phases[0], (*s.phases[1][:k], first, Barrier(), second))),))


def outside() -> Program:
    """The store of the totals stands behind the loop."""
    p = body_of(BUFFER, lambda items: tuple(i for i in items if not isinstance(i, Store)))
    s = p.segments[0]
    p = replace(p, axes=(*p.axes, Axis("c3", Sym("T"), "loop")))
    total = Store("Y", 1, (Coord("c3"),), 1, 0, (), ("c3:L1",))
    return replace(p, segments=(replace(s, phases=(s.phases[0], (*s.phases[1], Loop("c3", "c3:L1", 9, (), (total,))))),))


def repeated() -> Program:
    """The store of the sum stands in the while loop."""
    p = walk()
    *rest, w, true, last = p.segments[0].phases[0]
    assert isinstance(w, Loop) and isinstance(last, Store)
    inside = replace(w, body=(*w.body, replace(last, valid=3)))
    return replace(p, segments=(replace(p.segments[0], phases=((*rest, inside, true),)),))


def chunked(p: Program) -> Program:
    return replace(p, bindings={"C:c0": 4})


def scan(x: Let) -> Let:
    return x if x.op != "Bin" else replace(x, op="Scan", attrs=("sum", "c0:LC"), args=x.args[:1], dims=("i0:O1", "c0:L1"))


BROKEN: dict[str, tuple[str, Program]] = {
    "members-of-nothing": ("INTERFACE", replace(P0["attention"], axes=tuple(a for a in P0["attention"].axes if a.name != "c0"))),
    "version-inside-an-ordinary-loop": ("INTERFACE", replace(BUFFER, inner={(2, 3): ("c1",)})),
    "condition-undefined": ("SCOPE", loop(P0["halving"], cond=99)),
    "while-that-reduces": ("STAGE", carry(walk(), op="RedLoop")),
    "while-without-condition": ("LABEL", loop(P0["halving"], cond=-1)),
    "condition-of-a-counted-loop": ("LABEL", loop(P0["recurrence"], cond=6)),
    "scan-over-another-traversal": ("LABEL", every(chunked(P0["recurrence"]), lambda i: scan(i) if isinstance(i, Let) else i)),
    "member-of-another-slice": ("LABEL", let(P0["attention"], "Load", 1, dims=("c0:SW", "c0.m:M1", "c1:L1"))),
    "condition-of-numbers": ("TYPE", loop(walk(), cond=7)),
    "member-without-slice": ("LABEL", let(P0["attention"], "Load", 1, dims=("c0.m:M1", "c1:L1"))),
    "load-that-ignores-the-step": ("DIMS", let(BUFFER, "Load", 0, dims=("c1:L1",))),
    "store-outside-its-loop": ("COVER", outside()),
    "walk-past-the-end": ("BOUNDS", walk(False)),
    "negative-version": ("EFFECT", store(P0["recurrence"], version=-1)),
    "ordered-loop-split": ("VERSION", halves()),
    "totals-before-the-update": ("PHASE", body_of(BUFFER, lambda items: (*items[2:], *items[:2], Barrier()))),
    "no-barriers-in-the-step": ("BARRIER", no_barriers(BUFFER)),
    "no-barrier-behind-the-update": ("BARRIER", body_of(BUFFER, lambda items: (items[0], *items[2:]))),
    "repeated-by-a-while-loop": ("COVER", repeated()),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_each_fault_of_ordered_programs_has_its_code(name: str) -> None:
    code, program = BROKEN[name]
    found = verify(program)
    assert {d.code for d in found} == {CODES[code]}, [str(d) for d in found]
