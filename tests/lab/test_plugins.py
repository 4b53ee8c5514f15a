"""Extractors from elsewhere: an entry point is found, run and held to its claims."""

from __future__ import annotations

from typing import Any

import pytest

from eqkir.base.diagnostics import EqkirError
from eqkir.extract.extractors import extractor, plain_names
from eqkir.extract.plain import protocol
from eqkir.extract.plain.graph import Choice
from eqkir.extract.plain.prepare import Prepared
from eqkir.extract.plain.protocol import Claims, Clock, Outcome, solve
from eqkir.lab import gym

from .gyms import SHARED


class First:
    """Takes the first alternative everywhere."""

    name, claims = "first", Claims("none")

    def run(self, p: Prepared, clock: Clock, seed: int, warm: Choice | None) -> Outcome:
        return Outcome(p.graph.restricted({c: os[0].index for c, os in p.options.items()}), "heuristic")


class Entry:
    name = "first"

    def load(self) -> Any:
        return First


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "entry_points", lambda group: [Entry()] if group == "eqkir.plain_extractors" else [])


def test_an_entry_point_is_an_extractor_like_the_others(installed: None) -> None:
    assert "first" in protocol.names() and "first" in plain_names()
    assert solve(gym.from_json(SHARED), "first").cost == 6.0
    assert extractor("first").name == "first"


def test_without_it_the_name_is_unknown() -> None:
    with pytest.raises(EqkirError, match="EQK-EXTRACT-EXTRACTOR"):
        extractor("first")
