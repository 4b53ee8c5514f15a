"""Cost models of the laboratory: a user's function keeps its contract or is refused; calibrated models scale roofline."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from eqkir.base.diagnostics import EqkirError
from eqkir.extract.choose import problem
from eqkir.lab.costs import (
    Fitted,
    FunctionModel,
    Measured,
    contract_violations,
    default_measurements,
    function_model,
    load_model,
    measurements,
)

from ..extract import programs

ROWS = [
    {"kernel": "k", "status": "ok", "ms": 2.0, "predicted_ms": 1.0, "bound": "memory",
     "candidates": {"0": {"bindings": {"B:i0": 4}, "options": {"num_warps": 4}, "ms": 3.0, "cost_ns": 1e6},
                    "1": {"bindings": {"B:i0": 8}, "options": {"num_warps": 4}, "ms": 1.0, "cost_ns": 1e6}}},
    {"kernel": "g", "status": "ok", "ms": 4.0, "predicted_ms": 1.0, "bound": "matrix", "candidates": {}},
]  # fmt: skip


def test_a_function_of_a_file(tmp_path: Path) -> None:
    f = tmp_path / "m.py"
    f.write_text("UNIT = 'u'\ndef mine(op, function, lanes, trips):\n    return lanes * trips\n")
    m = function_model(f"{f}:mine")
    assert m.contract.unit == "u" and m.contract.additive and m.contract.monotone
    a, g, p = programs.made("softmax")
    q, _ = problem(g, a, programs.target(), programs.SHAPES["softmax"], m)
    assert (q.weight >= 0).all() and np.isfinite(q.weight).any() and set(q.scale) == set(p.scale)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("return -1", "negative"),
        ("return 1 / lanes", "falls as lanes grow"),
        ("return trips * float('nan')", "undefined"),
        ("return missing", "NameError"),
    ],
)
def test_a_function_that_breaks_its_contract_is_refused(tmp_path: Path, body: str, why: str) -> None:
    (tmp_path / "m.py").write_text(f"def cost(op, function, lanes, trips):\n    {body}\n")
    with pytest.raises(EqkirError, match="EQK-LAB-MODEL") as e:
        function_model(f"{tmp_path / 'm.py'}")
    assert why in str(e.value)


def test_a_declared_exception_from_monotony_is_granted() -> None:
    assert contract_violations(FunctionModel("x", lambda op, fn, lanes, trips: trips / lanes)) != []
    assert contract_violations(FunctionModel("x", lambda op, fn, lanes, trips: trips / lanes, monotone=False)) == []


def test_no_such_file_or_function(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text("x = 1\n")
    for spec in (f"{tmp_path}/none.py", f"{tmp_path}/m.py:cost"):
        with pytest.raises(EqkirError, match="EQK-LAB-MODEL"):
            load_model(spec, "k")


def test_fitted_and_measured_factors() -> None:
    f = Fitted(ROWS)
    assert f.rest == pytest.approx(2.0) and f.matrix == pytest.approx(4.0)
    m = Measured(ROWS, "k")
    assert m.factor({"B:i0": 4, "C:c": 2}, {"num_warps": 4, "num_stages": 1}) == 3.0
    assert m.factor({"B:i0": 16}, {"num_warps": 4}) == 2.0
    assert Measured(ROWS, "other").factor({}, {}) == 1.0


def test_the_committed_table_is_read(tmp_path: Path) -> None:
    rows = measurements(str(default_measurements()[0]))
    assert len(rows) > 100 and 0.1 < Fitted(rows).rest < 10
    (tmp_path / "x.json").write_text(json.dumps({"rows": []}))
    with pytest.raises(EqkirError, match="EQK-LAB-MEASUREMENTS"):
        load_model(f"fitted@{tmp_path / 'x.json'}", "k")
