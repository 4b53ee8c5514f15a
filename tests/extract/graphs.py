"""Hand-made frozen graphs, random graphs with and without cycles, and brute-force extraction to compare with."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import product
from math import inf

import numpy as np

from eqkir.extract.graph import ENode, FrozenGraph, Selection
from eqkir.extract.labels import Floats
from eqkir.extract.problem import Problem
from eqkir.extract.rows import Row

ROW = Row((), (("num_stages", 1), ("num_warps", 4)), "test")


def rows(n: int) -> list[Row]:
    return [Row((("B:i0", 1 << i),), ROW.options, "test") for i in range(n)]


def node(*kids: int, op: str = "FBin", tag: int = 0) -> ENode:
    return ENode(op, None, None, (tag,), kids)


def graph(*classes: tuple[ENode, ...], root: int = 0) -> FrozenGraph:
    return FrozenGraph(list(classes), ["F"] * len(classes), ["f32"] * len(classes), root)


def problem(g: FrozenGraph, weights: list[float] | Floats, n: int = 1) -> Problem:
    """A problem whose e-nodes have the given weights (the same under every row for a list)."""
    w = np.asarray(weights, float)
    return Problem(g, rows(n), w if w.ndim == 2 else np.repeat(w[:, None], n, 1))


def random_problem(
    rng: random.Random, classes: int, nrows: int = 3, cycles: float = 0.0, illegal: float = 0.1, segment: bool = True
) -> Problem:
    """Class 0 is the root; without cycles operands have larger numbers. Every class ends in a leaf alternative with probability one
    half."""
    alts: list[tuple[ENode, ...]] = []
    tag = 0
    for c in range(classes):
        nodes = []
        for _ in range(rng.randint(1, 3)):
            kids = []
            if c < classes - 2:
                for _ in range(rng.randint(0, 3)):
                    kids.append(rng.randrange(classes) if rng.random() < cycles else rng.randrange(c + 1, classes))
            tag += 1
            nodes.append(node(*kids, tag=tag))
        if rng.random() < 0.5:
            tag += 1
            nodes.append(node(tag=tag))
        alts.append(tuple(nodes))
    g = graph(*alts)
    nrng = np.random.default_rng(rng.randrange(1 << 30))
    w = nrng.uniform(0.5, 10, (g.enodes, nrows))
    w[nrng.random(w.shape) < illegal] = inf
    p = Problem(g, rows(nrows), w)
    if segment and classes > 3:  # the root's first alternative is a segment over its operands
        p.scale[0] = nrng.uniform(1, 20, nrows)
    return p


def selections(g: FrozenGraph) -> Iterator[Selection]:
    """Every acyclic selection, reduced to what the root reaches (each once)."""
    seen = set()
    for js in product(*(range(len(ns)) for ns in g.classes)):
        out: Selection = {}
        state: dict[int, int] = {}

        def visit(c: int, js: tuple[int, ...] = js, out: Selection = out, state: dict[int, int] = state) -> bool:
            if state.get(c) == 2:
                return True
            if state.get(c) == 1:
                return False
            state[c] = 1
            out[c] = js[c]
            if not all(visit(k) for k in g.classes[c][js[c]].kids):
                return False
            state[c] = 2
            return True

        if visit(g.root):
            key = tuple(sorted(out.items()))
            if key not in seen:
                seen.add(key)
                yield dict(key)


def best(p: Problem, row: int) -> float:
    """The least cost over all selections under a row."""
    return min((p.cost(s, row) for s in selections(p.graph)), default=inf)
