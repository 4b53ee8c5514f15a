"""Every corpus kernel, constructed, stays inside the reference's error envelope: brute force and as the conservative program."""

from __future__ import annotations

from pathlib import Path

import pytest

from eqkir.kir.model import Kernel, Module
from eqkir.program.construct import construct
from tests.construct.against import agrees

FILES = sorted((Path(__file__).parents[2] / "corpus" / "json").glob("*.json"))


def kernels(path: Path) -> tuple[Kernel, ...]:
    return Module.model_validate_json(path.read_bytes()).kernels


def sizes(k: Kernel, pattern: tuple[int, ...]) -> dict[str, int]:
    out: dict[str, int] = {}
    for i, s in enumerate(k.symbols):
        m = s.multiple_of
        out[s.id] = max(s.min, -(-pattern[i % len(pattern)] // m) * m)
    for a, b in k.equal:
        out[b] = out[a]
    return out


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_corpus_kernel(path: Path) -> None:
    for k in kernels(path):
        p = construct(k)
        n = 0
        for pattern in ((3, 2, 4), (1, 1, 1), (0, 2, 3), (2, 0, 3), (2, 3, 0)):
            n += agrees(k, p, sizes(k, pattern))
        for variant in ("special", "negative", "overlap"):
            n += agrees(k, p, sizes(k, (2, 5, 3)), 1, variant)
        n += agrees(k, p, sizes(k, (7, 33, 5)), 2, engines="p")
        assert n >= 4, "most inputs are valid"


def test_construction_is_deterministic() -> None:
    for path in FILES:
        for k in kernels(path):
            a, b = construct(k), construct(k)
            assert (a.nodes, a.groups, a.axes, a.abi) == (b.nodes, b.groups, b.axes, b.abi)
