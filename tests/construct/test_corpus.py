"""Every corpus kernel, constructed, stays inside the reference's error envelope: brute force and as the conservative program.

A case is a pattern of extents or a row of the kernel's test shapes. P0 runs an element at a time, so the fast suite takes the cases in
which it takes at most `STEPS` steps, and the one of all extents 1; the others are marked slow.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from eqkir.driver.work import steps
from eqkir.kir.helpers import link
from eqkir.kir.inputs import make_inputs
from eqkir.kir.load import load_file
from eqkir.kir.model import Kernel
from eqkir.program.construct import construct
from eqkir.program.lower import conservative
from tests.construct.against import agrees

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "corpus" / "json").glob("*.json"))
ENTRIES: dict[str, Any] = json.loads((ROOT / "tests" / "corpus_shapes.json").read_text())
STEPS = 1500
#: (pattern of extents, seed, variant, engines)
CASES = (
    *((p, 0, "plain", "bp") for p in ((3, 2, 4), (1, 1, 1), (0, 2, 3), (2, 0, 3), (2, 3, 0))),
    *(((2, 5, 3), 1, v, "bp") for v in ("special", "negative", "overlap")),
    ((7, 33, 5), 2, "plain", "p"),
)


def kernels(path: Path) -> tuple[Kernel, ...]:
    return link(load_file(path)).kernels


def sizes(k: Kernel, pattern: tuple[int, ...]) -> dict[str, int]:
    out: dict[str, int] = {}
    for i, s in enumerate(k.symbols):
        m = s.multiple_of
        out[s.id] = max(s.min, -(-pattern[i % len(pattern)] // m) * m)
    for a, b in k.equal:
        out[b] = out[a]
    return out


def check(k: Kernel, small: bool) -> int:
    """Run the small or the other cases; the number of valid ones. Where patterns miss a relation of the extents, test shapes have it."""
    p, entry = construct(k), ENTRIES[k.name]
    p0 = conservative(p)
    cases = [(sizes(k, pattern), *rest) for pattern, *rest in CASES]
    cases += [(row, seed, "plain", "bp") for seed, row in enumerate(entry["test"])]
    integers = {n: v for n, v in entry.get("scalars", {}).items() if isinstance(v, int)}
    n = 0
    for row, seed, variant, engines in cases:
        least = max(row.values(), default=0) <= 1
        if (least or steps(p0, {**integers, **row}) <= STEPS) == small:
            args = make_inputs(k, row, seed, variant, None, entry.get("scalars"), entry.get("data"))
            n += agrees(k, p, row, seed, engines=engines, args=args)
    return n


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_corpus_kernel(path: Path) -> None:
    for k in kernels(path):
        assert check(k, True) >= 3, "most inputs are valid"


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_corpus_kernel_in_larger_cases(path: Path) -> None:
    for k in kernels(path):
        check(k, False)


def test_construction_is_deterministic() -> None:
    for path in FILES:
        for k in kernels(path):
            a, b = construct(k), construct(k)
            assert (a.nodes, a.groups, a.axes, a.abi) == (b.nodes, b.groups, b.axes, b.abi)
