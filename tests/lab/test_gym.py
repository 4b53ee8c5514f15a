"""The exchange format: what is read is written again; what is not such a file is refused with a pointer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from eqkir.base.diagnostics import EqkirError
from eqkir.extract.plain.prepare import prepare
from eqkir.lab import gym

from .gyms import LOOP, SHARED, document, files, needs_gym


@needs_gym
@pytest.mark.parametrize("path", files, ids=lambda f: f"{f.parent.name}/{f.stem}")
def test_a_file_of_the_corpus_reads_prepares_and_writes_what_it_said(path: Path) -> None:
    found = json.loads(path.read_text())
    g = gym.from_json(found)
    assert gym.to_json(g) == {"class_data": {}, **found}
    assert prepare(g).feasible


def test_what_is_written_reads_back(tmp_path: Path) -> None:
    d = document({"a/b~": ("c0", 0.0, []), "f": ("c1", 2.5, ["a/b~", "a/b~"]), "g": ("c1", -1, ["f"])}, "c1", "c0", comment="kept")
    d["nodes"]["g"]["subsumed"] = True
    d["class_data"] = {"c1": {"type": "E"}}
    gym.write(gym.from_json(d), tmp_path / "x.json")
    assert json.loads((tmp_path / "x.json").read_text()) == d
    assert gym.summary(gym.read(tmp_path / "x.json")) == {"classes": 2, "enodes": 3, "roots": 2, "subsumed": 1, "zero": 1, "negative": 1}


def test_defaults_of_egraph_serialize() -> None:
    g = gym.from_json({"nodes": {"a": {"op": "x", "eclass": "0"}}, "root_eclasses": ["0"]})
    assert g.classes[0][0].cost == 1.0 and g.classes[0][0].kids == () and not g.classes[0][0].subsumed


def broken(change: Any) -> dict[str, Any]:
    d = json.loads(json.dumps(SHARED))
    change(d)
    return d


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        (lambda d: d.pop("nodes"), "/nodes"),
        (lambda d: d["nodes"].update(z=3), "/nodes/z"),
        (lambda d: d["nodes"]["a"].pop("eclass"), "/nodes/a/eclass"),
        (lambda d: d["nodes"]["a"].update(cost="1"), "/nodes/a/cost"),
        (lambda d: d["nodes"]["a"].update(cost=float("nan")), "/nodes/a/cost"),
        (lambda d: d["nodes"]["top"]["children"].append("zz"), "/nodes/top/children/2"),
        (lambda d: d.update(root_eclasses=["no"]), "/root_eclasses"),
        (lambda d: d.update(root_eclasses=[]), "/root_eclasses"),
        (lambda d: d.update(root_eclasses=[3]), "/root_eclasses"),
        (lambda d: d.update(class_data=[]), "/class_data"),
    ],
)
def test_bad_files_are_refused_at_the_place(change: Any, pointer: str) -> None:
    with pytest.raises(EqkirError) as e:
        gym.from_json(broken(change))
    assert e.value.diagnostics[0].code == "EQK-GYM-FORMAT" and e.value.diagnostics[0].pointer == pointer


def test_not_json(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("[")
    with pytest.raises(EqkirError, match="EQK-GYM-FORMAT"):
        gym.read(tmp_path / "x.json")


def test_loops_are_read() -> None:
    assert len(prepare(gym.from_json(LOOP)).cyclic) == 2
