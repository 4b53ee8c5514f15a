"""The choice of a program: expected structures, verification in order, widening, P0 at last, determinism."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from eqkir.base.diagnostics import Diagnostic
from eqkir.extract.choose import Choice, choose
from eqkir.extract.cost import cost_models
from eqkir.extract.extractors import extractors
from eqkir.program.lower import conservative
from eqkir.program.model import Loop, Program
from eqkir.program.schedule import ScheduleError
from eqkir.program.serialize import digest

from .programs import SHAPES, decoder, saturated, target

NAMES = ("softmax", "gemm", "two", "argmax", "in_place")


def run(name: str, verify: Any = None, decode: Any = None, **kw: Any) -> Choice:
    a, g = saturated(name)
    shapes = kw.pop("shapes", SHAPES[name])
    return choose(
        g, a, target(), shapes=shapes, decode=decode or decoder(a), verify=verify or (lambda p: []), initial=conservative(a), **kw,
    )  # fmt: skip


def labels(p: Program) -> set[str]:
    out: set[str] = set()

    def walk(items: Any) -> None:
        for i in items:
            if isinstance(i, Loop):
                out.add(i.label)
                walk(i.body)
            else:
                out.update(i.dims)

    for s in p.segments:
        for ph in s.phases:
            walk(ph)
    return out


def test_row_softmax_reads_once() -> None:
    c = run("softmax")
    assert not c.fallback and "c0:W" in labels(c.program) and not any(isinstance(i, Loop) for i in c.program.segments[0].phases[0])
    assert c.cost.figures["dram_bytes"] == pytest.approx(2 * 32768 * 4096 * 2, rel=0.01)
    assert c.cost.total < 1.4 * 2 * 32768 * 4096 * 2 / target().dram_bytes_per_s * 1e9 and c.initial.total > 5 * c.cost.total


def test_gemm_uses_the_matrix_unit_with_large_tiles() -> None:
    c = run("gemm")
    loops = [i for i in c.program.segments[0].phases[0] if isinstance(i, Loop)]
    assert len(loops) == 1 and all("mma" in x.attrs for x in loops[0].carries)
    assert c.program.bindings["B:i0"] * c.program.bindings["B:i1"] >= 128 * 128 and c.program.bindings["C:c0"] >= 32
    assert c.cost.total < 1.6 * 2 * 4096**3 / target().dots[0].flops_per_s * 1e9


def test_segments_get_blocks_of_their_own_kind() -> None:
    c = run("two")
    assert c.program.bindings["B:i1"] >= 256 and "c0:W" in labels(c.program) | {"c0:W"}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("extractor", sorted(extractors()))
def test_every_extractor_gives_a_program(name: str, extractor: str) -> None:
    c = run(name, extractor_name=extractor, seed=3)
    assert not c.fallback and c.program.segments and c.tried == 1 and c.digest == digest(c.program)
    json.dumps(c.to_json())
    if extractor == "worst":
        assert c.cost.total >= run(name).cost.total


@pytest.mark.parametrize("model", sorted(cost_models()))
def test_every_cost_model_gives_a_program(model: str) -> None:
    assert not run("softmax", cost_model_name=model).fallback


def test_shapes_that_are_unknown() -> None:
    c = run("softmax", shapes={})
    assert not c.fallback and "c0:W" not in labels(c.program) and not c.program.preconditions
    c = run("softmax", shapes={"C": 100})
    assert c.program.preconditions if "c0:W" in labels(c.program) else True


def test_verification_in_order_of_cost_then_widening_then_p0() -> None:
    seen: list[float] = []
    bad = Diagnostic("EQK-X", "no")

    def refuse(n: int) -> Any:
        def verify(p: Program) -> list[Diagnostic]:
            seen.append(1.0)
            return [bad] if len(seen) <= n else []

        return verify

    best = run("softmax")
    third = run("softmax", verify=refuse(2))
    assert third.tried == 3 and len([r for r in third.rejected if "EQK-X" in r.reason]) == 2 and third.cost.total >= best.cost.total
    assert third.rejected[-2].digest == best.digest and third.rejected[-2].cost <= third.rejected[-1].cost <= third.cost.total
    none = run("softmax", verify=lambda p: [bad])
    p0 = replace(conservative(saturated("softmax")[0]), options={"num_warps": 1, "num_stages": 1})
    assert none.fallback and none.row is None and none.program == p0
    assert none.tried == len([r for r in none.rejected if "EQK-X" in r.reason]) > 20


def test_what_does_not_decode_is_recorded() -> None:
    a, _ = saturated("softmax")
    calls = 0

    def decode(g: Any, s: Any, b: Any, o: Any) -> Program:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise ScheduleError("no order")
        program: Program = decoder(a)(g, s, b, o)
        return program

    c = run("softmax", decode=decode)
    assert not c.fallback and any(r.reason == "decode: no order" for r in c.rejected)


def test_runner_up_and_counts() -> None:
    c = run("gemm")
    assert c.runner_up is not None and c.runner_up.cost >= c.cost.total and c.runner_up.digest != c.digest and c.runner_up.why
    assert c.rows >= c.feasible_rows > 0 and c.structures > 1 and c.candidates > c.structures and c.illegal
    j = c.to_json()
    assert {"row", "cost", "initial_cost", "runner_up", "rejected", "structures", "illegal"} <= set(j) and j["cost"]["parts"]


SCRIPT = """
import sys
sys.path.insert(0, {root!r})
from tests.extract.test_choose import run
from eqkir.program.serialize import dumps
import json
for n in ("softmax", "two"):
    for e in ("greedy-dag", "random", "worst"):
        c = run(n, extractor_name=e, seed=1)
        print(c.digest, json.dumps(c.to_json(), sort_keys=True))
"""


def test_the_same_bytes_whatever_the_hash_seed() -> None:
    from pathlib import Path

    root = str(Path(__file__).parents[2])
    out = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT.format(root=root)],
            env={"PYTHONHASHSEED": seed, "PATH": "/usr/bin:/bin"},
            capture_output=True,
            check=True,
            cwd=root,
        ).stdout
        for seed in ("0", "4242")
    }
    assert len(out) == 1 and b"softmax" not in next(iter(out))
