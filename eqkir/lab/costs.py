"""Cost models of the laboratory: those of `eqkir.extract.cost`, functions of a user's file, and models that measurements calibrate.

``roofline``, ``node_count``, ``weighted_ops``, plug-ins    by name
``path/to/file.py``, ``path/to/file.py:name``              a function ``cost(op, function, lanes, trips)`` in a file (`FunctionModel`)
``fitted``                                                 roofline, with one factor for contractions and one for the rest (`Fitted`)
``measured``                                               roofline, with one factor a kernel and row (`Measured`)

The last two read measurements of the repository (``bench/results``); other tables by ``fitted@FILE``, ``measured@FILE``.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from math import exp, log
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np

from eqkir.base.diagnostics import fail, register
from eqkir.extract.cost import Contract, Cost, CostModel, Part, Weights, cost_model
from eqkir.extract.cost.simple import weighed
from eqkir.extract.cost.walk import Shape, visits
from eqkir.extract.features import CONTRACTS, function
from eqkir.extract.graph import ENode, FrozenGraph
from eqkir.extract.labels import Bools, Floats, LabelTable
from eqkir.program.abi import Abi
from eqkir.program.model import Carry, Let, Program
from eqkir.targets import Machine

FILE = register(
    "EQK-LAB-MODEL",
    "no cost model in the file",
    "The file cannot be loaded, has no function of that name, or the function gives something that is no cost.",
)
DATA = register(
    "EQK-LAB-MEASUREMENTS", "no measurements", "The table of measurements is not there or has no rows with measured and predicted times."
)

Function = Callable[[str, str, Any, Any], Any]


class FunctionModel:
    """A user's function as a cost model. ``cost(op, function, lanes, trips)`` is called once an e-node with arrays over rows (lanes of one
    execution, executions of one instance) and once an item of a program with numbers, and returns what it is given: a cost that is not
    negative. The file may declare ``UNIT`` and ``MONOTONE`` (False where more lanes or trips may cost less); it is additive by
    construction."""

    def __init__(self, name: str, function: Function, unit: str = "units", monotone: bool = True) -> None:
        self.name, self.function = name, function
        self.contract = Contract(additive=True, monotone=monotone, unit=unit)

    def _call(self, op: str, fn: str, lanes: Any, trips: Any) -> Any:
        try:
            out = np.asarray(self.function(op, fn, lanes, trips), float)
        except Exception as e:
            raise fail(FILE, f"{self.name}: {type(e).__name__}: {str(e)[:200]}", stage="extract") from None
        return np.broadcast_to(out, np.shape(lanes))

    def weights(self, graph: FrozenGraph, table: LabelTable, abi: Abi, target: Machine, legal: Bools) -> Weights:
        def cost(n: ENode, lanes: Floats, trips: Floats) -> Floats:
            known = [np.nan_to_num(x, nan=1.0, posinf=1e15) for x in (lanes, trips)]
            out: Floats = self._call(n.op.removeprefix("F"), function(n), *known)
            return out

        return weighed(graph, table, cost)

    def program(self, program: Program, target: Machine, shapes: Mapping[str, int]) -> Cost:
        shape = Shape(program, shapes)
        parts = []
        for i, s in enumerate(program.segments):
            for v in visits(shape, i, s):
                it = v.item
                op = it.op if isinstance(it, (Let, Carry)) else "Store"
                fn = str(it.attrs[0]) if isinstance(it, (Let, Carry)) and it.attrs else op
                cost = float(self._call(op, fn, shape.product(v.labels), v.trips)) * shape.instances(s)
                parts.append(Part(v.where, op, "compute", cost))
        return Cost(sum(p.cost for p in parts), tuple(parts))


def contract_violations(model: FunctionModel) -> list[str]:
    """What a probe finds against the declared contract: negative or undefined costs, or a cost that falls as lanes or trips grow."""
    found = []
    grid = np.array([1.0, 2.0, 16.0, 256.0, 4096.0])
    for op, fn in (("Un", "exp"), ("Bin", "add"), ("Load", "X"), ("Store", "Y"), ("RedLoop", "sum"), ("ConWhole", "f32")):
        for what, lanes, trips in (("lanes", grid, np.full_like(grid, 4.0)), ("trips", np.full_like(grid, 64.0), grid)):
            out = np.asarray(model._call(op, fn, lanes, trips))
            if not (out >= 0).all():
                found.append(f"{op} {fn}: negative or undefined")
            elif model.contract.monotone and (np.diff(out) < 0).any():
                found.append(f"{op} {fn}: falls as {what} grow")
    return found


class _Calibrated:
    """Roofline with factors on the weights; whole programs cost what roofline says times their factor."""

    name: str
    contract = Contract(additive=False, monotone=True, unit="ns")

    def __init__(self) -> None:
        self.base: CostModel = cost_model("roofline")


class Fitted(_Calibrated):
    """Geometric mean of measured over predicted time, apart for kernels that the matrix rate bounds and for the others: two numbers, fitted
    to the whole table. Contractions weigh by the first, everything else by the second."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        super().__init__()
        self.name = "fitted"
        ratio = {m: [log(r["ms"] / r["predicted_ms"]) for r in rows if (r.get("bound") == "matrix") == m] for m in (True, False)}
        self.matrix, self.rest = (exp(fmean(ratio[m])) if ratio[m] else 1.0 for m in (True, False))

    def weights(self, graph: FrozenGraph, table: LabelTable, abi: Abi, target: Machine, legal: Bools) -> Weights:
        w = self.base.weights(graph, table, abi, target, legal)
        factor = np.array([self.matrix if n.op in CONTRACTS else self.rest for ns in graph.classes for n in ns])
        return Weights(w.weight * factor[:, None], w.scale)

    def program(self, program: Program, target: Machine, shapes: Mapping[str, int]) -> Cost:
        c = self.base.program(program, target, shapes)
        matrix = any(isinstance(it := v.item, (Let, Carry)) and it.op.startswith("Con") for i, s in enumerate(program.segments)
                     for v in visits(Shape(program, shapes), i, s))  # fmt: skip
        return Cost(c.total * (self.matrix if matrix else self.rest), c.parts, c.figures, c.reject)


class Measured(_Calibrated):
    """Tuning data of one kernel: a row that was measured weighs by its own factor (measured over predicted), the others by the median of
    the kernel's. A kernel without measurements weighs as in roofline. So rows are ranked by what was measured where something was."""

    def __init__(self, rows: list[dict[str, Any]], kernel: str) -> None:
        super().__init__()
        self.name = "measured"
        mine = [c for r in rows if r["kernel"] == kernel for c in r["candidates"].values() if c.get("ms") and c.get("cost_ns")]
        self.factors = {_row_key(c["bindings"], c["options"]): c["ms"] * 1e6 / c["cost_ns"] for c in mine}
        self.middle = float(median(self.factors.values())) if self.factors else 1.0

    def factor(self, bindings: Mapping[str, int], options: Mapping[str, int]) -> float:
        """Of a row: parameters that the measured program does not have do not count."""
        for (b, o), f in self.factors.items():
            if all(bindings.get(k) == v for k, v in b) and all(options.get(k) == v for k, v in o):
                return float(f)
        return float(self.middle)

    def weights(self, graph: FrozenGraph, table: LabelTable, abi: Abi, target: Machine, legal: Bools) -> Weights:
        w = self.base.weights(graph, table, abi, target, legal)
        return Weights(w.weight * np.array([self.factor(r.values, r.launch) for r in table.rows]), w.scale)

    def program(self, program: Program, target: Machine, shapes: Mapping[str, int]) -> Cost:
        c = self.base.program(program, target, shapes)
        return Cost(c.total * self.factor(program.bindings, program.options), c.parts, c.figures, c.reject)


def _row_key(bindings: Mapping[str, int], options: Mapping[str, int]) -> tuple[tuple[tuple[str, int], ...], tuple[tuple[str, int], ...]]:
    return tuple(sorted(bindings.items())), tuple(sorted(options.items()))


def default_measurements() -> list[Path]:
    """The committed tables: every workload with the candidate that was taken, and tuning data of some."""
    folder = Path(__file__).resolve().parents[2] / "bench" / "results"
    return [folder / "gpu.json", folder / "gpu_candidates.json"]


@lru_cache(maxsize=4)
def measurements(path: str) -> list[dict[str, Any]]:
    """Rows of a table of measurements that were right and have both times. Raises `EqkirError`, EQK-LAB-MEASUREMENTS."""
    try:
        found = json.loads(Path(path).read_text())
        rows = [r for r in found["rows"] if r.get("status") == "ok" and r.get("ms") and r.get("predicted_ms")]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as e:
        raise fail(DATA, f"{path}: {type(e).__name__}", stage="options") from None
    if not rows:
        raise fail(DATA, path, stage="options")
    return rows


def load_model(spec: str, kernel: str) -> CostModel:
    """A cost model by what stands on the command line; `kernel` is the one that it is for. Raises `EqkirError`: EQK-EXTRACT-COST,
    EQK-LAB-MODEL, EQK-LAB-MEASUREMENTS."""
    name, _, data = spec.partition("@")
    if name in ("fitted", "measured"):
        tables = [data] if data else [str(t) for t in default_measurements()]
        if name == "fitted":
            tables = tables[:1]
        rows = [r for t in tables for r in measurements(t)]
        return Fitted(rows) if name == "fitted" else Measured(rows, kernel)
    if ".py" in spec:
        return function_model(spec)
    return cost_model(spec)


@lru_cache(maxsize=8)
def function_model(spec: str) -> FunctionModel:
    """``file.py`` or ``file.py:function``; a function that breaks its contract is refused. Raises `EqkirError`, EQK-LAB-MODEL."""
    file, _, name = spec.partition(":")
    name = name or "cost"
    try:
        loader = importlib.util.spec_from_file_location("eqkir_user_cost_model", file)
        assert loader and loader.loader
        module = importlib.util.module_from_spec(loader)
        loader.loader.exec_module(module)
        function = getattr(module, name)
    except Exception as e:  # whatever the user's file raises
        raise fail(FILE, f"{spec}: {type(e).__name__}: {str(e)[:200]}", accepted="file.py:function", stage="options") from None
    model = FunctionModel(spec, function, str(getattr(module, "UNIT", "units")), bool(getattr(module, "MONOTONE", True)))
    if bad := contract_violations(model):
        raise fail(FILE, f"{spec} breaks its contract: {bad[0]}", stage="options")
    return model
