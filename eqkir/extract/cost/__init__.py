"""Cost models: `cost_model("roofline")` is the default; ``node_count`` and ``weighted_ops`` are the plain ones."""

from __future__ import annotations

from eqkir.extract.cost import roofline as _roofline  # noqa: F401  (registers)
from eqkir.extract.cost import simple as _simple  # noqa: F401  (registers)
from eqkir.extract.cost.model import Contract, Cost, CostModel, Part, Weights, checked, cost_model, cost_models

__all__ = ["Contract", "Cost", "CostModel", "Part", "Weights", "checked", "cost_model", "cost_models"]
