"""decode(encode(p)) == p, every prefix of saturation holds complete programs, and names do not depend on egglog."""

from __future__ import annotations

import random

import pytest

from eqkir.extract.graph import FrozenGraph
from eqkir.program.abstract import Abstract
from eqkir.program.lower import conservative
from eqkir.program.model import Program
from eqkir.rules.load import load_rules
from eqkir.rules.saturate import Limits, _Run, saturate
from eqkir.terms.decode import DecodeError, decode
from eqkir.terms.engine import Engine, session
from eqkir.terms.freeze import freeze
from tests.terms.samples import SAMPLES
from tests.terms.sampling import sample


def bindings(p: Abstract) -> dict[str, int]:
    return {f"{k}:{a.name}": 16 for a in p.axes for k in "BCF"} | {f"{k}:g{i}": 4 for k in "GP" for i in range(9)}


def graph(p: Abstract, rounds: int, engine: Engine) -> FrozenGraph:
    run = _Run(p, load_rules(), Limits())
    root = run.start(engine)
    for _ in range(rounds):
        if not run.step(engine)[0]:
            break
    return freeze(engine, root, p.abi)


@pytest.mark.parametrize("name", SAMPLES)
def test_decode_inverts_encode(name: str) -> None:
    p = SAMPLES[name]()
    with session() as e:
        g = graph(p, 0, e)
    assert all(len(ns) == 1 for ns in g.classes), "P0 has no alternatives"
    assert decode(g, dict.fromkeys(range(len(g.classes)), 0), p, {}, {}) == conservative(p)


@pytest.mark.parametrize("name", SAMPLES)
def test_every_prefix_of_saturation_decodes(name: str) -> None:
    p = SAMPLES[name]()
    rng = random.Random(1)
    for rounds in (1, 2, 3, 5, 8, 13, 30):
        with session() as e:
            g = graph(p, rounds, e)
        for _ in range(10):
            out = decode(g, sample(g, rng), p, bindings(p), {})
            assert isinstance(out, Program) and out.segments


def test_saturation_ends_by_itself_and_multiplies_structures() -> None:
    for name, make in SAMPLES.items():
        s = saturate(make())
        assert s.report.stop == "saturated", name
        assert s.report.enodes > s.report.initial_enodes


def test_frozen_graphs_are_equal_between_processes() -> None:
    a, b = saturate(SAMPLES["two"]()).graph, saturate(SAMPLES["two"]()).graph
    assert a == b


def test_cyclic_or_partial_selections_are_refused() -> None:
    p = SAMPLES["softmax"]()
    s = saturate(p)
    with pytest.raises(DecodeError):
        decode(s.graph, {}, p, {}, {})


def test_the_in_place_store_waits_for_every_read() -> None:
    """Whatever is chosen, loads of the first version come before the store that ends it, or the candidate is refused."""
    p = SAMPLES["in_place"]()
    s = saturate(p)
    rng = random.Random(3)
    n = 0
    for _ in range(60):
        try:
            decode(s.graph, sample(s.graph, rng), p, bindings(p), {})
            n += 1
        except DecodeError:
            pass
    assert n >= 30
