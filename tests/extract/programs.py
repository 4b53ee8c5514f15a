"""Frozen graphs of real programs, made once a process."""

from __future__ import annotations

from functools import cache
from typing import Any

from eqkir.extract.choose import problem
from eqkir.extract.cost import cost_model
from eqkir.extract.graph import FrozenGraph
from eqkir.extract.problem import Problem
from eqkir.program.abstract import Abstract
from eqkir.rules.saturate import saturate
from eqkir.targets import Target, load_target
from eqkir.terms.decode import decode

from ..terms import samples

H200 = "triton:nvidia-h200"
SHAPES: dict[str, dict[str, int]] = {
    "softmax": {"R": 32768, "C": 4096},
    "gemm": {"M": 4096, "N": 4096, "K": 4096},
    "two": {"R": 32768, "C": 4096, "P": 1 << 24},
    "argmax": {},
    "in_place": {},
}


@cache
def target(spec: str = H200) -> Target:
    return load_target(spec)


@cache
def saturated(name: str) -> tuple[Abstract, FrozenGraph]:
    a: Abstract = getattr(samples, name)()
    return a, saturate(a).graph


@cache
def made(name: str, model: str = "roofline") -> tuple[Abstract, FrozenGraph, Problem]:
    a, g = saturated(name)
    return a, g, problem(g, a, target(), SHAPES[name], cost_model(model))[0]


def decoder(a: Abstract) -> Any:
    return lambda g, s, bindings, options: decode(g, s, a, bindings, options)
