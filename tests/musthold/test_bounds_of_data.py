"""Bounds that are data: any 64-bit number, and control that two copies of one value could decide differently."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from eqkir.base.expr import Coord, Dep, conj, le, lt
from eqkir.emit.triton.legalize import legalize
from eqkir.program.abstract import Abstract, Group, Put
from eqkir.program.interp import Buffer, run
from eqkir.program.lower import conservative
from eqkir.program.model import Program
from eqkir.program.ranges import with_ranges
from eqkir.program.verify import verify
from eqkir.rules.saturate import saturate
from eqkir.terms.decode import DecodeError, decode
from tests.terms.samples import load, program, put
from tests.terms.sampling import sample
from tests.terms.test_narrow import parameters

LEAST, MOST = -(2**63), 2**63 - 1
GROUPS = [("starts", "in", "i64", ("G",)), ("ends", "in", "i64", ("G",))]


def sums(masked: bool, inclusive: bool, dtype: str = "i64") -> Abstract:
    """y[g] = sum of x[c] over starts[g] <= c and c < (or <=) ends[g]."""
    views = [(n, r, dtype, s) for n, r, _, s in GROUPS] + [("x", "in", "i32", ("N",)), ("y", "out", "i32", ("G",))]
    p = program(views, ["G", "N"], [("i0", "G", "own"), ("c0", "N", "loop")])  # type: ignore[arg-type]
    ends = tuple(p.make("Cast", ("index",), (load(p, v, "i0"),), "index") for v in ("starts", "ends"))
    last = le(Coord("c0"), Dep(1)) if inclusive else lt(Coord("c0"), Dep(1))
    valid = p.make("Index", (conj(le(Dep(0), Coord("c0")), last),), ends, "bool")
    zero = p.const("0", "i32")
    if masked:
        x = p.make("Load", ("x", 0, (Coord("c0"),)), (valid, zero), "i32")
    else:
        x = p.make("Tri", ("select",), (valid, load(p, "x", "c0"), zero), "i32")
    p.groups = (Group("g0", ("i0",), ((put(p, "y", ("i0",), p.make("Red", ("sum", "c0"), (x,), "i32")),),)),)
    return with_ranges(p)


def rows() -> Abstract:
    """out[t] += x[g] for starts[g] <= t <= ends[g]."""
    views = [*GROUPS, ("x", "in", "i32", ("G",)), ("y", "inout", "i32", ("T",))]
    p = program(views, ["T", "G"], [("i0", "T", "own"), ("c0", "G", "loop")])  # type: ignore[arg-type]
    ends = tuple(p.make("Cast", ("index",), (load(p, v, "c0"),), "index") for v in ("starts", "ends"))
    valid = p.make("Index", (conj(le(Dep(0), Coord("i0")), le(Coord("i0"), Dep(1))),), ends, "bool")
    p.groups = (Group("g0", ("i0",), ((Put("y", 1, (Coord("i0"),), load(p, "x", "c0"), valid, (), "add", "relaxed"),),)),)
    return with_ranges(p)


def result(p: Program, data: dict[str, np.ndarray[Any, Any]]) -> list[int]:
    buffers = {k: Buffer.of(v.copy()) for k, v in data.items()}
    run(p, buffers)
    out: list[int] = buffers["y"].array().tolist()
    return out


CASES = {f"{'masked' if m else 'selected'}-{'inclusive' if i else 'half-open'}-{d}": (m, i, d) for m in (True, False) for i in (True, False)
         for d in ("i32", "i64")}  # fmt: skip


@pytest.mark.parametrize("case", [*CASES, "rows"])
def test_bounds_at_the_ends_of_their_type_lose_no_member(case: str) -> None:
    p = rows() if case == "rows" else sums(*CASES[case])
    dtype = np.dtype(np.int32 if case.endswith("i32") else np.int64)
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    graph, rng, drawn = saturate(p).graph, random.Random(2), []
    for _ in range(60):
        q = decode(graph, sample(graph, rng), p, parameters(p, 4), {})
        if not verify(q):
            drawn.append(q)
    assert len(drawn) > 20
    for starts, ends in (((0, most, 2), (6, most, 5)), ((0, 1, 2), (most, most, most)), ((least, least, 3), (2, least, most))):
        n = 8 if case != "rows" else 3
        data = {
            "starts": np.array(starts, dtype), "ends": np.array(ends, dtype), "x": np.arange(1, n + 1, dtype=np.int32),
            "y": np.zeros(3 if case != "rows" else 6, np.int32),
        }  # fmt: skip
        expected = result(conservative(p), data)
        for q in drawn:
            assert result(q, data) == expected
            assert result(legalize(q), data) == expected


def test_copies_at_counted_members_decide_as_the_source_does() -> None:
    """A group counts the members with a positive sum; beside it, each member says whether its sum is positive."""
    views = [("starts", "in", "i32", ("G",)), ("ends", "in", "i32", ("G",)), ("y", "out", "i32", ("G",)), ("z", "out", "i32", ("N",))]
    views += [(v, "in", "f32", ("N",)) for v in "xwb"]
    p = program(views, ["G", "N"], [("i0", "G", "own"), ("c0", "N", "loop"), ("i1", "N", "own")])  # type: ignore[arg-type]
    ends = tuple(p.make("Cast", ("index",), (load(p, v, "i0"),), "index") for v in ("starts", "ends"))
    valid = p.make("Index", (conj(le(Dep(0), Coord("c0")), lt(Coord("c0"), Dep(1))),), ends, "bool")
    one, none = p.const("1", "i32"), p.const("0", "i32")

    def positive(axis: str) -> int:
        s = p.make("Bin", ("add",), (p.make("Bin", ("mul",), (load(p, "x", axis), load(p, "w", axis)), "f32"), load(p, "b", axis)), "f32")
        return p.make("Tri", ("select",), (p.make("Bin", ("gt",), (s, p.const("0.0", "f32")), "bool"), one, none), "i32")

    y = p.make("Red", ("sum", "c0"), (p.make("Tri", ("select",), (valid, positive("c0"), none), "i32"),), "i32")
    p.groups = (Group("g0", ("i0",), ((put(p, "y", ("i0",), y),),)), Group("g1", ("i1",), ((put(p, "z", ("i1",), positive("i1")),),)))
    q = with_ranges(p)
    assert q.ranges is not None and q.ranges.counted
    r, n = np.random.default_rng(0), 64
    x, w = (1 + r.random(n)).astype(np.float32), (1 + r.random(n)).astype(np.float32)
    data = {"starts": np.array([0], np.int32), "ends": np.array([n], np.int32), "x": x, "w": w, "b": -(x * w)}
    graph, rng, decoded = saturate(q).graph, random.Random(2), 0
    for _ in range(150):
        try:
            c = decode(graph, sample(graph, rng), q, {"P:g0": 2, "P:g1": 2, **parameters(q, 4)}, {})
        except DecodeError:
            continue
        decoded += 1
        out = {"y": Buffer.of(np.zeros(1, np.int32)), "z": Buffer.of(np.zeros(n, np.int32))}
        run(c, {k: Buffer.of(v.copy()) for k, v in data.items()} | out)
        assert out["y"].array()[0] == out["z"].array().sum()
    assert decoded > 20
