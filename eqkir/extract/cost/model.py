"""Cost models are plug-ins with a declared contract.

A model says two things. `weights`: a non-negative number for every e-node and row, which extractors add up over distinct classes
(segments multiply their body by `scale`); and `program`: the cost of one whole decoded program. The contract states how they relate:

``additive``   the cost of a program is the sum of its nodes' costs (each node counted once, times its executions)
``monotone``   adding a node, a lane, an execution or a byte never makes a program cheaper
``unit``       what the numbers are
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import Any, Protocol

import numpy as np

from eqkir.base.diagnostics import fail, register
from eqkir.extract.graph import FrozenGraph
from eqkir.extract.labels import Bools, Floats, LabelTable
from eqkir.program.abi import Abi
from eqkir.program.model import Program
from eqkir.targets import Machine

UNKNOWN = register(
    "EQK-EXTRACT-COST", "unknown cost model", "The name is neither built in nor registered under the entry point group eqkir.cost_models."
)
BROKEN = register(
    "EQK-EXTRACT-CONTRACT",
    "cost model breaks its contract",
    "A cost model gave a weight that is negative or not a number, or a wrong shape.",
)


@dataclass(frozen=True, slots=True)
class Contract:
    additive: bool
    monotone: bool
    unit: str


@dataclass(frozen=True, slots=True)
class Part:
    """One node's share: `where` is ``segment/phase/id`` (or a segment); `kind` is ``memory``, ``compute``, ``latency`` or ``fixed``."""

    where: str
    what: str
    kind: str
    cost: float
    details: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of one program: `total` in the model's unit, parts by node, and whole-program figures (registers, shared bytes, bytes, flops …).

    `reject` names a whole-program limit that the program breaks (then it must not be chosen).
    """

    total: float
    parts: tuple[Part, ...]
    figures: Mapping[str, float] = field(default_factory=dict)
    reject: str = ""

    def to_json(self) -> dict[str, Any]:
        parts = [
            {
                "where": p.where,
                "what": p.what,
                "kind": p.kind,
                "cost": round(p.cost, 3),
                **{k: round(v, 3) for k, v in sorted(p.details.items())},
            }
            for p in self.parts
        ]
        out = {"total": round(self.total, 3), "parts": parts, "figures": {k: round(v, 3) for k, v in sorted(self.figures.items())}}
        return {**out, "reject": self.reject} if self.reject else out


@dataclass(frozen=True, slots=True)
class Weights:
    """`weight[e, r]` >= 0 (legality is applied by the caller); `scale[e]` for ``Seg`` e-nodes: what its body is multiplied by."""

    weight: Floats
    scale: Mapping[int, Floats]


class CostModel(Protocol):
    name: str
    contract: Contract

    def weights(self, graph: FrozenGraph, table: LabelTable, abi: Abi, target: Machine, legal: Bools) -> Weights: ...

    def program(self, program: Program, target: Machine, shapes: Mapping[str, int]) -> Cost: ...


def checked(model: CostModel, weights: Weights, legal: Bools) -> Floats:
    """The weights with inf where illegal. Raises `EqkirError` (EQK-EXTRACT-CONTRACT)."""
    w = weights.weight
    if w.shape != legal.shape:
        raise fail(BROKEN, f"{model.name}: weights have shape {w.shape}, not {legal.shape}", stage="extract")
    out = np.where(legal, w, np.inf)
    if not (out >= 0).all() or not all((np.asarray(s)[np.isfinite(s)] >= 0).all() for s in weights.scale.values()):
        raise fail(BROKEN, f"{model.name}: a weight is negative or not a number", stage="extract")
    return out


_MODELS: dict[str, CostModel] = {}


def register_model(model: CostModel) -> CostModel:
    """Make a built-in model known by its name."""
    _MODELS[model.name] = model
    return model


def cost_models() -> dict[str, CostModel]:
    """Every cost model by name; a plug-in may not take a built-in name."""
    out: dict[str, CostModel] = {}
    for e in sorted(entry_points(group="eqkir.cost_models"), key=lambda e: e.name):
        made = e.load()
        made = made() if isinstance(made, type) else made
        out[made.name] = made
    out.update(_MODELS)
    return dict(sorted(out.items()))


def cost_model(name: str) -> CostModel:
    """Raises `EqkirError` (EQK-EXTRACT-COST)."""
    known = cost_models()
    if name not in known:
        raise fail(UNKNOWN, f"unknown cost model {name!r}", accepted=", ".join(known), stage="extract")
    return known[name]
