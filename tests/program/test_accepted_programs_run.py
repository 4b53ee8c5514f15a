"""Whatever the verifier accepts runs without a violation, and no garbage counts: checked on randomly damaged good programs."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from test_ordered import P0, walk
from test_verify import GOOD, paths

from eqkir.base.diagnostics import EqkirError
from eqkir.base.dtypes import NUMPY
from eqkir.base.expr import evaluate
from eqkir.program.interp import Buffer, run
from eqkir.program.model import Program
from eqkir.program.serialize import dumps, from_json
from eqkir.program.verify import verify

POOL = {**GOOD, **P0, "walk": walk()}
WORDS = ("0.0", "1.0", "-inf", "x", "y", "i", "j", "c", "lt", "le", "add", "sub", "max", "sum")
EXTENTS = tuple(dict(zip("MNKHRCDET", n)) for n in ((5, 7, 3, 4, 3, 5, 2, 4, 3), (1,) * 9, (4, 16, 16, 9, 4, 8, 3, 5, 6), (3, *[0] * 8)))


def arguments(p: Program, symbols: dict[str, int], seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    args: dict[str, Any] = {s.name: 1 for s in p.abi.scalars}
    shared: dict[int, np.ndarray[Any, Any]] = {}
    for v in p.abi.views:
        if v.role != "workspace":
            shape = tuple(int(evaluate(e, symbols)) for e in v.shape)
            a = rng.integers(-3, 9, shape).astype(NUMPY[v.dtype])
            old = shared.setdefault(v.alias, a)
            args[v.name] = Buffer.of(old if old.shape == a.shape and old.dtype == a.dtype else a)
    return args


def outputs(p: Program, symbols: dict[str, int], seed: int) -> dict[str, Any] | None:
    """Memory after a run; None where the preconditions do not hold or a loop does not end. Raises EqkirError for a violation."""
    args = arguments(p, symbols, 1)
    try:
        run(p, args, symbols, seed=seed)
    except EqkirError as e:
        if e.diagnostics[0].code in ("EQK-INT-ARGS", "EQK-INT-ENDLESS"):
            return None
        raise
    return {k: b.array().copy() for k, b in args.items() if isinstance(b, Buffer)}


def damaged(draw: st.DataObject) -> Program | None:
    j = json.loads(dumps(POOL[draw.draw(st.sampled_from(sorted(POOL)))]))
    labels = ["c:W", "i:OB", "r:O1", "c:LC", "c:L1", "k:W", "j:OB"]
    for _ in range(draw.draw(st.integers(1, 2))):
        where = draw.draw(st.sampled_from(paths(j["segments"])[1:]))
        parent = j["segments"]
        for k in where[:-1]:
            parent = parent[k]
        old = parent[where[-1]]
        if isinstance(old, bool):
            parent[where[-1]] = not old
        elif isinstance(old, int):
            parent[where[-1]] = old + draw.draw(st.sampled_from([-2, -1, 1, 2]))
        elif isinstance(old, str):
            parent[where[-1]] = draw.draw(st.sampled_from([*labels, *WORDS]))
        elif isinstance(old, list) and old and draw.draw(st.booleans()):
            del old[draw.draw(st.integers(0, len(old) - 1))]
        elif isinstance(old, list) and len(old) > 1:
            k = draw.draw(st.integers(0, len(old) - 2))
            old[k], old[k + 1] = old[k + 1], old[k]
    try:
        return from_json(j)
    except EqkirError:
        return None


def judge(p: Program | None) -> bool:
    """Whether the program was accepted (and then kept its promise)."""
    if p is None or verify(p):
        return False
    for symbols in EXTENTS:
        first = outputs(p, {s.name: symbols[s.name] for s in p.abi.symbols}, 0)
        again = outputs(p, {s.name: symbols[s.name] for s in p.abi.symbols}, 1)
        if first is not None and again is not None:
            for k in first:
                np.testing.assert_array_equal(first[k], again[k])
    return True


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.data())
def test_accepted_programs_do_not_violate(data: st.DataObject) -> None:
    judge(damaged(data))


def test_good_programs_do_not_violate() -> None:
    for p in POOL.values():
        assert judge(p)
