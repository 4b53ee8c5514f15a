"""What the numeric check runs on: aliased arguments, zeros, magnified values and edges; inputs described by a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eqkir.base.diagnostics import EqkirError
from eqkir.cli.optimize import options, read_inputs
from eqkir.driver import numeric
from eqkir.driver.options import Options
from eqkir.kir.builder import Builder
from eqkir.kir.inputs import make_inputs
from eqkir.kir.model import Kernel
from eqkir.program.construct import construct
from eqkir.program.lower import conservative


def pair(noalias: bool, dtype: str = "f32", role: str = "out") -> Kernel:
    k = Builder("pair")
    (N,) = k.symbols("N")
    X, Y = k.view("X", "in", dtype, (N,)), k.view("Y", role, dtype, (N,))
    if noalias:
        k.noalias(X, Y)
    Y[:] = X[:]
    return k.build()


@pytest.mark.parametrize("noalias", [False, True])
@pytest.mark.parametrize("role", ["out", "inout"])
def test_views_that_may_alias_do(noalias: bool, role: str) -> None:
    args = make_inputs(pair(noalias, role=role), {"N": 9}, 1, "alias")
    assert (args["X"] is args["Y"]) == (not noalias)
    assert not np.isnan(args["X"].array()).any()


def test_contents() -> None:
    k = pair(True)
    plain, zeros, large, edges = (make_inputs(k, {"N": 400}, 1, v)["X"].array() for v in ("plain", "zeros", "magnified", "edges"))
    assert np.abs(plain).max() < 10 and not zeros.any() and np.median(np.abs(large)) > 1e12 and np.isfinite(large).all()
    tiny = np.finfo(np.float32).tiny
    assert np.isfinite(edges).all() and (np.abs(edges) == tiny).any() and ((edges != 0) & (np.abs(edges) < tiny)).any()
    whole = make_inputs(pair(True, "i16"), {"N": 400}, 1, "edges")["X"].array()
    assert {-(2**15), 2**15 - 1} <= set(whole.tolist())


def test_outputs_of_bools_hold_both_values_before() -> None:
    k = Builder("flags")
    (N,) = k.symbols("N")
    X, Y = k.view("X", "in", "f32", (N,)), k.view("Y", "out", "bool", (N,))
    k.noalias(X, Y)
    Y[:] = X[:] > 0
    assert set(make_inputs(k.build(), {"N": 40}, 1)["Y"].array().tolist()) == {True, False}


def test_every_variant_is_a_case() -> None:
    found = {c.variant for c in numeric.cases(pair(False), {}, 0, lambda symbols: 0)}
    assert found == {"plain", *numeric.VARIANTS} and {"alias", "zeros", "magnified", "edges"} <= found


def squares() -> Kernel:
    """Y[i] = X[I[i]²]: that I must be small does not follow from what the inputs are inferred from."""
    k = Builder("squares")
    N, M = k.symbols("N", "M")
    I, X, Y = k.view("I", "in", "i32", (N,)), k.view("X", "in", "f32", (M,)), k.view("Y", "out", "f32", (N,))
    k.noalias(I, X, Y)
    i = I[:].cast("index")
    Y[:] = X[i * i]
    return k.build()


def test_inputs_are_what_the_file_says(tmp_path: Path) -> None:
    k = squares()
    program = conservative(construct(k))

    def verdict(o: Options) -> Any:
        engine, steps = numeric.interpreter(program), numeric.scalar_steps(program)
        return numeric.check(k, program, {}, {}, 0, engine, steps, described=o.described("squares"))

    path = tmp_path / "inputs.json"
    path.write_text(json.dumps({"squares": {"data": {"I": {"range": [0, 0]}}, "scalars": {}, "test": []}}))
    o = options(target="triton:nvidia-h200", shapes={}, inputs=read_inputs(path))
    assert o.inputs == {"squares": {"data": {"I": {"range": [0, 0]}}, "scalars": {}}}
    bare, told = verdict(Options()), verdict(o)
    assert bare.invalid > told.invalid and told.cases > bare.cases and told.ok
    assert "inputs" not in o.to_json(), "the result does not depend on it"


@pytest.mark.parametrize("text", ["[", "[1]", '{"k": 1}', '{"k": {"data": {"X": {}}}}', '{"k": {"scalars": 3}}'])
def test_files_that_describe_nothing_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "inputs.json"
    path.write_text(text)
    with pytest.raises(EqkirError, match="EQK-RUN-INPUTS"):
        read_inputs(path)
    with pytest.raises(EqkirError, match="EQK-RUN-INPUTS"):
        read_inputs(tmp_path / "nowhere.json")
