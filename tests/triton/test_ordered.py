"""States, scans, slices, while loops, atomic stores and ordered loops with effects: structured = legal = emitted, and what is refused."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from eqkir.base.diagnostics import EqkirError
from eqkir.base.dtypes import NUMPY
from eqkir.base.expr import Coord, Dep, Int, Sym, conj, disj, evaluate, le, lt, select
from eqkir.emit.triton import emit
from eqkir.emit.triton.checks import EVEN, WIDE, Case, compile_batch, interpret_batch
from eqkir.emit.triton.legality import ATOMICS
from eqkir.program import ops
from eqkir.program.abi import Axis
from eqkir.program.lower import conservative
from eqkir.program.model import Barrier, Carry, Item, Let, Loop, Program, Region, Segment, Store
from eqkir.program.verify import verify
from eqkir.rules.saturate import saturate
from eqkir.terms.decode import DecodeError, decode
from tests.terms.samples import SAMPLES
from tests.terms.sampling import sample
from tests.triton import programs as P
from tests.triton.against import Trial, check_all, poisoned

NAMES = ("cumsum", "pair_scan", "recurrence", "attention", "halving", "running_buffer")
RNG = np.random.default_rng(11)


@cache
def candidates(name: str) -> tuple[Program, ...]:
    """P0 and verified random selections of the saturated graph, parameters 1, 4 and 16."""
    a, rng = SAMPLES[name](), random.Random(5)
    graph, out = saturate(a).graph, [conservative(a)]
    for n in range(60):
        sizes = {f"{q}:{x.name}": 16 if n % 2 else rng.choice((1, 4, 16)) for x in a.axes for q in "BC"}
        sizes |= {f"F:{x.name}": 16 for x in a.axes} | {"G:g0": 2, "P:g0": 3}
        try:
            p = decode(graph, sample(graph, rng), a, sizes, {})
        except DecodeError:
            continue
        if not verify(p):
            out.append(p)
    return tuple(out[:7])


def arrays(p: Program, symbols: dict[str, int]) -> dict[str, Any]:
    out = {}
    for v in p.abi.views:
        shape, t = [int(evaluate(e, symbols)) for e in v.shape], NUMPY[v.dtype]
        if v.role == "in":
            out[v.name] = (RNG.integers(-5, 99, shape) if v.dtype == "i32" else RNG.uniform(-1, 1, shape)).astype(t)
        elif v.role != "workspace":
            out[v.name] = poisoned(shape, t)
    return out


def sums(x: dict[str, Any]) -> dict[str, Any]:
    """Inputs are below 1 and axes have at most 11 members. Sums, recurrences and their scans stay below 11 after at most 2 · 11 + 2
    roundings; scores of attention (8 terms) err by 8 · 9 units, and so do their exponentials, twice in a quotient below 1, with
    2 · (11 + 4) roundings more. Either is below 264 units of 2**-24; doubled, since both sides round."""
    return {k: np.full(v.shape, 2 * 264 * 2.0**-24) for k, v in x.items() if v.dtype.kind == "f"}


@pytest.mark.interpreter
@pytest.mark.parametrize("name", NAMES)
def test_samples_and_their_candidates_agree(name: str) -> None:
    trials = []
    for k, p in enumerate(candidates(name)):
        for n in (4, 1) if k == 0 else (11, 0) if name == "cumsum" else (11,):
            symbols = {s.name: max(n - j, 1 if n else 0) for j, s in enumerate(p.abi.symbols)}
            trials.append(Trial(f"{name} {k} {n}", p, arrays(p, symbols), bound=sums))
    kept = [t for t in trials if not _refused(t.program)]
    assert len(kept) >= len(trials) // 2
    for a in check_all(kept):
        assert verify(a.legal) == []


def _refused(p: Program) -> bool:
    try:
        emit(p)
    except EqkirError as e:
        assert {d.code for d in e.diagnostics} <= {"EQK-TRI-DOT-SHAPE"}
        return True
    return False


@pytest.mark.compile
def test_samples_compile_for_three_architectures() -> None:
    jobs = []
    for name in NAMES:
        found = [p for p in candidates(name) if not _refused(p)]
        jobs += [(name, emit(p), c, s) for p in (found[0], found[-1]) for c, s in ((80, EVEN), (90, WIDE), (100, EVEN))]
    for (name, *_), c in zip(jobs, compile_batch([(a, c, s) for _, a, c, s in jobs], processes=2), strict=True):
        assert not c.error and not c.findings, f"{name} sm_{c.target}: {c.error} {c.findings}\n{c.log}"


@pytest.mark.compile
def test_threads_that_exchange_data_through_memory_meet() -> None:
    """Every barrier of the program is a barrier of the PTX, at any number of warps."""
    p = conservative(SAMPLES["running_buffer"]())
    inside = sum(_barriers(ph) for ph in p.segments[0].phases)
    assert inside >= 2
    arts = [emit(replace(p, options={"num_warps": w})) for w in (1, 4, 8)]
    for a, c in zip(arts, compile_batch([(a, 90, EVEN) for a in arts]), strict=True):
        assert a.source.count("tl.debug_barrier()") == inside + 1, "and one between the phases"
        assert not c.error and len(re.findall(r"\bbar\.sync", c.ptx)) >= inside + 1


def _barriers(items: Sequence[Item]) -> int:
    return sum(isinstance(i, Barrier) or (isinstance(i, Loop) and _barriers(i.body)) for i in items)


# ------------------------------------------------------------------------------------------------ scans
def scanned(fn: str, dtype: str, label: str = "c:W", lanes: int = 16) -> Program:
    """y = scan(x) over c, z = its last member."""
    b, r, d = P.Block(), "r:O1", ("r:O1", label)
    if label == "c:W":
        s = b.let("Scan", (fn, label), (b.load("x", ("r", "c"), d, dtype),), d, dtype)
        b.store("y", ("r", "c"), s, d)
        b.store("z", ("r",), b.let("Last", (label,), (s,), (r,), dtype), (r,))
    else:
        init, acc, body = b.load("x", ("r", 0), (r,), dtype), b.new(), b.body()
        x = body.load("x", ("r", "c"), d, dtype)
        last = body.let("Last", (label,), (x,), (r,), dtype)
        body.store("y", ("r", "c"), body.let("Scan", (fn, label), (x,), d, dtype), d)
        b.loop(label, body, (Carry(acc, "Phi", (), (last,), (init,), (r,), dtype),))
        b.store("z", ("r",), acc, (r,))
    a = P.abi("scanned", ("x", "in", dtype, ("M", "N")), ("y", "out", dtype, ("M", "N")), ("z", "out", dtype, ("M",)))
    return P.program(a, "r=M/own c=N/loop", ("TAx", r), b, **{"F_c" if label == "c:W" else "C_c": lanes})


@pytest.mark.interpreter
def test_the_last_lane_is_taken_bit_by_bit() -> None:
    """NaN payloads, both zeros and extreme integers survive; so do bools and 8-bit floats."""
    trials = []
    for dtype, fn in [(d, "max") for d in ("f32", "f64", "f16", "bf16", "i8", "u16", "i32", "u64", "index")] + [("bool", "any")]:
        t = NUMPY[dtype]
        for n in (1, 7, 16):
            x = np.frombuffer(RNG.bytes(3 * n * t.itemsize), t).reshape(3, n).copy() if dtype != "bool" else RNG.random((3, n)) < 0.3
            if dtype[0] in "fb" and dtype != "bool":
                x[0], x[1, -1], x[2, -1] = np.array(-0.0, t), np.array(np.nan, t), np.array(-np.inf, t)
            trials += [Trial(f"{dtype} {n} {p}", q, {"x": x, "y": poisoned([3, n], t), "z": poisoned([3], t)})
                       for p, q in (("W", scanned(fn, dtype)), ("LC", scanned(fn, dtype, "c:LC", 4)))]  # fmt: skip
    check_all(trials)


@pytest.mark.interpreter
def test_scans_keep_nan_rules_and_exact_integers() -> None:
    x = np.array([[1, np.nan, 3, -np.inf, 2], [-0.0, 0.0, -0.0, np.inf, 1], [0, 1, 2, 3, 4]], np.float32)
    ints = RNG.integers(-(2**31), 2**31, (3, 5)).astype(np.int32)
    trials = [Trial(f"{fn} f32", scanned(fn, "f32"), {"x": x, "y": poisoned([3, 5]), "z": poisoned([3])}) for fn in ("max", "min")]
    for fn in ("sum", "prod", "max", "min"):
        trials.append(Trial(fn, scanned(fn, "i32"), {"x": ints, "y": poisoned([3, 5], np.int32), "z": poisoned([3], np.int32)}))
    check_all(trials)


def test_a_scan_over_one_lane_is_its_operand() -> None:
    a = emit(conservative(SAMPLES["cumsum"]()))
    assert "associative_scan" not in a.source


# ------------------------------------------------------------------------------------------------ while loops
def walk(block: bool) -> Program:
    """y[i] = sum of x[p] for p = i, i + s, i + 2 s, … while 0 <= p < N: the loads are valid where the condition holds."""
    b, d = P.Block(), ("i:OB" if block else "i:O1",)
    start, stride = b.let("Index", P.exprs(("i",)), (), d, "index"), b.let("Scalar", ("s",), dtype="index")
    total, true = b.const("0.0"), b.true()
    p, acc, body, inner = b.new(), b.new(), b.body(), (*d, "w:L1")
    cond = body.let("Index", (conj(le(0, Dep(0)), lt(Dep(0), Sym("N"))),), (p,), inner, "bool")
    x = body.let("Load", ("x", 0, (Dep(0),), "ptr"), (true, total, p), inner)
    nxt, more = body.bin("add", p, stride, inner, "index"), body.bin("add", acc, x, inner)
    carries = (Carry(p, "Phi", (), (nxt,), (start,), d, "index"), Carry(acc, "Phi", (), (more,), (total,), d, "f32"))
    b.items.append(Loop("w", "w:L1", 0, carries, tuple(body.items), cond=cond))
    b.store("y", ("i",), acc, d)
    a = P.abi("walk", ("x", "in", "f32", ("N",)), ("y", "out", "f32", ("N",)), scalars=(("s", "index"),))
    axes = (Axis("i", Sym("N"), "own"), Axis("w", Int(0), "while"))
    return Program(a, axes, (Segment("g0", ("TAx", d[0]), "grid", (tuple(b.items),)),), {"B:i": 8} if block else {})


@pytest.mark.interpreter
def test_a_while_loop_touches_memory_where_its_condition_holds() -> None:
    """Strides that leave the array at once, late, and backwards; the guard of the interpreter sees every stray load."""
    trials = []
    for block in (False, True):
        assert verify(walk(block)) == []
        for n in (0, 1, 13):
            for s in (1, 3, -2, 1 << 40):
                x = RNG.integers(-9, 9, n).astype(np.float32)  # exact sums
                trials.append(Trial(f"{block} {n} {s}", walk(block), {"x": x, "y": poisoned([n])}, {"s": s}))
    for a in check_all(trials):
        assert verify(a.legal) == []


# ------------------------------------------------------------------------------------------------ atomic stores
COMBINING = {m: t for m, t in ATOMICS.items() if m in ops.COMBINING}


def scatter(mode: str, dtype: str, lanes: int = 8) -> Program:
    """y[k[i]] (mode)= x[i] where k[i] is inside y."""
    b, d = P.Block(), ("i:OB",)
    k = b.load("k", ("i",), d, "i32")
    inside = b.let("Index", (conj(le(0, Dep(0)), lt(Dep(0), Sym("M"))),), (k,), d, "bool")
    b.items.append(Store("y", 1, (Dep(0),), b.load("x", ("i",), d, dtype), inside, (k,), d, mode=mode, order="relaxed"))
    a = P.abi("scatter", ("k", "in", "i32", ("N",)), ("x", "in", dtype, ("N",)), ("y", "inout", dtype, ("M",)))
    return P.program(a, "i=N/own", ("TAx", "i:OB"), b, B_i=lanes)


@pytest.mark.interpreter
def test_atomic_stores_combine_whatever_meets() -> None:
    """Lanes and instances meet in few elements; masked lanes and those outside stay out. Sums of small integers are exact."""
    trials = []
    for mode, dtypes in COMBINING.items():
        for dtype in sorted(dtypes):
            t = NUMPY[dtype]
            x, y = (RNG.integers(0 if dtype[0] == "u" else -8, 8, n).astype(t) for n in (37, 5))
            trials.append(Trial(f"{mode} {dtype}", scatter(mode, dtype), {"k": RNG.integers(-2, 7, 37).astype(np.int32), "x": x, "y": y}))
    arts = check_all(trials)
    assert all(f"tl.atomic_{t.name.split()[0]}(" in a.source and 'sem="relaxed"' in a.source for t, a in zip(trials, arts, strict=True))


@pytest.mark.interpreter
def test_atomic_stores_under_a_scalar_predicate_stay_inside() -> None:
    """Rows chosen by data, columns in blocks of 64 lanes over 1 and 3 elements: the lanes behind them point outside."""
    trials = []
    for dtype in ("f32", "bf16", "i32"):
        for n in (1, 3):
            t = NUMPY[dtype]
            k, x = np.array([0, 1, 0, -1, 2], np.int32), RNG.integers(-8, 8, (5, n)).astype(t)
            trials.append(Trial(f"{dtype} {n}", rows("add", dtype), {"k": k, "x": x, "y": np.ones((2, n), t)}))
    check_all(trials)


@pytest.mark.interpreter
def test_the_guard_of_the_interpreter_reads_masks_as_the_interpreter_does() -> None:
    """Loads under a scalar predicate joined with a lane's, however it is carried; and without the mask the stray lanes are still seen."""
    b, d = P.Block(), ("i:O1", "j:OB")
    before = b.let("Index", (disj(lt(Int(0), Coord("j")), lt(Int(0), Coord("i"))),), (), d, "bool")
    b.store("y", ("i", "j"), b.load("x", (select(lt(Int(0), Coord("j")), Coord("i"), Coord("i") - 1), select(lt(Int(0), Coord("j")),
            Coord("j") - 1, Sym("N") - 1)), d, "i32", valid=before), d)  # fmt: skip
    a = P.abi("k", ("x", "in", "i32", ("M", "N")), ("y", "out", "i32", ("M", "N")))
    p = P.program(a, "i=M/own j=N/own", P.row_order(*d), b, B_j=64)
    cases = [{"x": RNG.integers(0, 9, (m, n)).astype(np.int32), "y": poisoned([m, n], np.int32)} for m, n in ((2, 130), (1, 1), (3, 7))]
    art = check_all([Trial(f"{c['x'].shape}", p, c) for c in cases])[0]
    stray = replace(art, source=re.sub(r"(tl\.load\(.*), mask=\w+, other=\w+", r"\1", art.source))
    assert stray.source != art.source
    ((outcome,),) = interpret_batch([(stray, [Case(cases[2])])])
    assert "out of bounds" in outcome.error


def rows(mode: str, dtype: str) -> Program:
    """y[k[i], j] (mode)= x[i, j] where k[i] is a row of y."""
    b, d = P.Block(), ("i:O1", "j:OB")
    k = b.load("k", ("i",), d[:1], "i32")
    inside = b.let("Index", (conj(le(0, Dep(0)), lt(Dep(0), Sym("M"))),), (k,), d[:1], "bool")
    x, at = b.load("x", ("i", "j"), d, dtype), (Dep(0), *P.exprs(("j",)))
    b.items.append(Store("y", 1, at, x, inside, (k,), d, mode=mode, order="relaxed"))
    a = P.abi("rows", ("k", "in", "i32", ("L",)), ("x", "in", dtype, ("L", "N")), ("y", "inout", dtype, ("M", "N")))
    return P.program(a, "i=L/own j=N/own", P.row_order(*d), b, B_j=64)


@pytest.mark.compile
def test_atomic_stores_compile() -> None:
    jobs = [(m, d, emit(scatter(m, d, 128))) for m, ds in COMBINING.items() for d in sorted(ds)]
    for (m, d, _), c in zip(jobs, compile_batch([(a, 90, EVEN) for *_, a in jobs], processes=2), strict=True):
        assert c.clean and re.search(r"\b(atom|red)\.", c.ptx), f"{m} {d}: {c.error} {c.findings}"


@pytest.mark.parametrize(
    ("mode", "dtype"), [("add", "f8e5m2"), ("add", "i8"), ("add", "u16"), ("max", "f32"), ("min", "f64"), ("max", "f16"), ("min", "i16")]
)
def test_atomics_that_triton_has_not_are_refused(mode: str, dtype: str) -> None:
    with pytest.raises(EqkirError, match="EQK-TRI-ATOMIC"):
        emit(scatter(mode, dtype))


def test_combine_functions_that_read_symbols_are_refused() -> None:
    arg = lambda i, side: Let(i, "Arg", (side, 0), (), (), "index")  # noqa: E731
    body = (arg(0, "l"), arg(1, "r"), Let(2, "Index", (Dep(0) + Dep(1) + Sym("N"),), (0, 1), (), "index"))
    b, d = P.Block(), ("r:O1", "c:W")
    x = b.load("x", ("r", "c"), d, "index")
    t = b.let("ScanN", ("c:W", Region(("index",), body, (2,))), (x,), d, "tuple")
    b.store("y", ("r", "c"), b.let("Pick", (0,), (t,), d, "index"), d)
    a = P.abi("k", ("x", "in", "index", ("M", "N")), ("y", "out", "index", ("M", "N")))
    with pytest.raises(EqkirError, match="EQK-TRI-REGION"):
        emit(P.program(a, "r=M/own c=N/loop", ("TAx", "r:O1"), b, F_c=16))
