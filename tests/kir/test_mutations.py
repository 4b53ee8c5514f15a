"""Kernels with control, folds, helpers and atomics, broken at random places: coded diagnoses, or a kernel that links and reads back."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eqkir.base.diagnostics import EqkirError
from eqkir.kir import canonical, link, load_bytes, verify

ROOT = Path(__file__).parents[2] / "corpus"
FILES = sorted([*ROOT.glob("pending/*.json"), *ROOT.glob("json/*.json")])


def places(x: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    yield path, x
    for k, v in x.items() if isinstance(x, dict) else enumerate(x) if isinstance(x, list) else ():
        yield from places(v, (*path, k))


def mutate(data: Any, rng: random.Random) -> None:
    """Drop, repeat, exchange or replace one element."""
    every = [(p, x) for p, x in places(data) if p]
    (*outer, k), x = rng.choice(every)
    o = data
    for step in outer:
        o = o[step]
    if isinstance(x, list) and rng.random() < 0.5:
        o[k] = x + x[:1] if rng.random() < 0.5 else x[:-1]
    elif isinstance(x, str) and rng.random() < 0.7:
        o[k] = rng.choice([v for _, v in every if isinstance(v, str)])
    elif isinstance(x, int) and rng.random() < 0.7:
        o[k] = rng.choice([0, 1, 2, -1, 7])
    elif isinstance(o, list) and len(o) > 1 and rng.random() < 0.5:
        j = rng.randrange(len(o))
        o[k], o[j] = o[j], o[k]
    else:
        del o[k]


@pytest.mark.parametrize("seed", range(8))
def test_mutated_kernels_are_diagnosed_or_sound(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(60):
        data = json.loads(rng.choice(FILES).read_bytes())
        mutate(data, rng)
        try:
            m = load_bytes(json.dumps(data).encode())
        except EqkirError as e:
            assert all(d.code.startswith("EQK-KIR-") for d in e.diagnostics)
            continue
        found = verify(m)
        assert all(d.code.startswith("EQK-KIR-") for d in found)
        if not found:
            assert canonical(load_bytes(canonical(m))) == canonical(m)
            assert verify(link(m)) == []
