"""An experiment from end to end on small instances: rows, resuming, refusals, the report and the data release."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from eqkir.base.diagnostics import EqkirError
from eqkir.driver.options import Options
from eqkir.extract.plain.protocol import solve
from eqkir.lab import gym
from eqkir.lab.cells import COLUMNS
from eqkir.lab.experiment import Plan, read, run
from eqkir.lab.figures import groups
from eqkir.lab.release import release
from eqkir.lab.report import write_report

from .gyms import LOOP, SHARED

CORPUS = Path(__file__).resolve().parents[2] / "corpus" / "json"
MODEL = "UNIT = 'steps'\ndef cost(op, function, lanes, trips):\n    return trips * (5 if op.startswith('Load') else 1)\n"


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Plan]:
    base = tmp_path_factory.mktemp("lab")
    (base / "in").mkdir()
    (base / "in" / "shared.json").write_text(json.dumps(SHARED))
    (base / "in" / "loop.json").write_text(json.dumps(LOOP))
    (base / "in" / "relu_f32.json").write_text((CORPUS / "relu_f32.json").read_text())
    (base / "in" / "broken.json").write_text("{")
    (base / "model.py").write_text(MODEL)
    models = ["roofline", "node_count", f"{base / 'model.py'}:cost"]
    plan = Plan([base / "in"], models, ["greedy-dag", "ilp", "frontier", "random", "worst"], seeds=2, limit=5.0)
    n, left = run(plan, base / "out")
    assert n == 3 * 6 + 2 * 6 and len(left) == 1 and "broken.json" in left[0]
    return base / "out", plan


def test_every_cell_has_a_row_and_claims_agree(done: tuple[Path, Plan]) -> None:
    rows = read(done[0] / "cells.csv")
    assert tuple(rows[0]) == COLUMNS and len(rows) == 30
    assert {r["status"] for r in rows} <= {"optimal", "heuristic"}
    for g in groups(rows):
        assert g.closed and g.bound <= g.best * (1 + 1e-6)
        assert all(c.cost <= g.best * (1 + 1e-6) for c in g.cells if c.status == "optimal")
    plain = {(r["instance"], r["extractor"]): float(r["cost"]) for r in rows if r["kind"] == "plain"}
    assert plain["shared", "ilp"] == plain["shared", "frontier"] == 5.5 and plain["shared", "greedy-dag"] == 6.0
    assert plain["loop", "ilp"] == 11.0


def test_what_is_there_is_not_run_again_and_a_torn_line_is(done: tuple[Path, Plan], tmp_path: Path) -> None:
    out, plan = done
    assert run(plan, out)[0] == 0
    for f in ("manifest.json", "instances.csv", "cells.csv"):
        (tmp_path / f).write_bytes((out / f).read_bytes())
    (tmp_path / "graphs").symlink_to(out / "graphs")
    text = (tmp_path / "cells.csv").read_text()
    (tmp_path / "cells.csv").write_text(text[:-25])
    assert run(plan, tmp_path)[0] == 1
    key = lambda r: (r["instance"], r["cost_model"], r["extractor"], r["seed"], r["cost"], r["row"])  # noqa: E731
    assert sorted(map(key, read(tmp_path / "cells.csv"))) == sorted(map(key, read(out / "cells.csv")))


def test_another_plan_in_the_same_folder_is_refused(done: tuple[Path, Plan]) -> None:
    out, plan = done
    other = Plan(plan.paths, ["roofline"], ["greedy-dag"], options=Options(check="none", shapes={"N": 7}))
    with pytest.raises(EqkirError, match="EQK-LAB-PLAN"):
        run(other, out)


def test_nothing_and_unknown_names_are_refused(tmp_path: Path, done: tuple[Path, Plan]) -> None:
    with pytest.raises(EqkirError, match="EQK-LAB-EMPTY"):
        run(Plan([tmp_path], ["roofline"], ["greedy-dag"]), tmp_path / "o")
    with pytest.raises(EqkirError, match="EQK-EXTRACT-EXTRACTOR"):
        run(Plan(done[1].paths, ["roofline"], ["none"]), tmp_path / "o")
    with pytest.raises(EqkirError, match="EQK-EXTRACT-COST"):
        run(Plan(done[1].paths, ["none"], ["greedy-dag"]), tmp_path / "o")


def test_the_report_is_offline_and_its_links_lead_somewhere(done: tuple[Path, Plan], tmp_path: Path) -> None:
    index = write_report(done[0], tmp_path / "report")
    pages = {p.name: p.read_text() for p in index.parent.glob("*.html")}
    ids = {name: set(re.findall(r'id="(\w+)"', text)) for name, text in pages.items()}
    links = [x for text in pages.values() for x in re.findall(r'(?:href|src)="([^"]+)"', text)]
    assert any(x.startswith("cells.html#r") for x in links)
    for x in links:
        name, _, anchor = x.partition("#")
        assert (index.parent / name).exists() and (not anchor or anchor in ids[name]), x
    assert not re.findall(r"https?://(?!www\.w3\.org/2000/svg)", "".join(pages.values())) and "<script" not in "".join(pages.values())
    assert len(list(index.parent.glob("*.svg"))) >= 3


def test_a_release_reads_back_and_costs_what_its_manifest_says(done: tuple[Path, Plan], tmp_path: Path) -> None:
    n, left = release([CORPUS / "relu_f32.json"], tmp_path, "roofline", "best", 1, Options(check="none"))
    assert (n, left) == (1, [])
    entry = json.loads((tmp_path / "manifest.json").read_text())["graphs"]["relu_f32"]
    g = gym.read(tmp_path / "relu_f32.json")
    assert gym.to_json(g) == json.loads((tmp_path / "relu_f32.json").read_text())
    best = [float(r["cost"]) for r in read(done[0] / "cells.csv") if r["instance"] == "relu_f32" and r["cost_model"] == "roofline"]
    assert entry["enodes"] == g.enodes and entry["greedy_dag"] == pytest.approx(min(best))
    assert solve(g, "ilp", 5.0).cost == pytest.approx(min(best))
