"""A run of the CPU benchmark hides nothing: failed turns, missing peers and rows of other runs stay visible."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import cpu_list
import cpu_one
import cpu_run
import cpu_table
import pytest

ENTRY = next(e for e in cpu_list.entries() if e["name"] == "relu_f32-64x256")


class Scripted:
    """A worker whose turns take the given seconds; None fails."""

    def __init__(self, turns: list[float | None]) -> None:
        self.turns = list(turns)

    def ask(self, request: dict[str, Any], seconds: float) -> dict[str, Any]:
        if request["do"] == "prepare":
            return {"status": "ok", "wrong": []}
        t = self.turns.pop(0)
        return {"status": "process ended with -11"} if t is None else {"status": "ok", "times": [t]}

    def stop(self) -> None:
        return None


def row(turns: dict[str, list[float | None]], said: dict[str, str] | None = None) -> dict[str, Any]:
    bench = cpu_run.Bench(Path("absent"), list(turns), "", 1e6, 3, 0.0)
    words = {(ENTRY["name"], k, 1): (said or {}).get(k, "ok") for k in turns}
    return bench._row(ENTRY, 1, {k: Scripted(t) for k, t in turns.items()}, words)  # type: ignore[misc]


def test_a_ratio_is_the_median_over_the_rounds() -> None:
    got = row({"eqkir": [1.0, 2.0, 1.0], "numpy": [2.0, 6.0, 4.0]})
    assert got["status"] == "ok" and got["peers"]["numpy"]["ratio"] == 3.0 and got["ms"] == 1000.0


def test_the_copy_is_measured_in_turns_and_is_no_peer() -> None:
    got = row({"eqkir": [1.0, 1.0, 1.0], "copy": [2.0, 0.5, 0.5]})
    assert got["copy_bytes_per_s"] == ENTRY["bytes"] / 0.5 and "copy" not in got["peers"]
    assert cpu_table.share(got) == 50.0


def test_a_copy_moves_as_many_bytes_as_the_workload() -> None:
    for threads in (1, 3):
        c = cpu_one.Copying(1 << 20, threads)
        c()
        assert sum(a.nbytes + b.nbytes for b, a in c.parts) == 1 << 20 and all((b == 1).all() for b, _ in c.parts)


def test_a_failed_turn_of_a_peer_is_told_and_the_others_go_on() -> None:
    got = row({"eqkir": [1.0, 1.0, 1.0], "numpy": [2.0, None], "torch": [2.0, 2.0, 2.0]})
    assert "round 1" in got["peers"]["numpy"]["status"] and got["peers"]["torch"]["ratio"] == 2.0


def test_a_failed_turn_of_ours_fails_the_row() -> None:
    got = row({"eqkir": [1.0, None], "numpy": [2.0, 2.0, 2.0]})
    assert "round 1" in got["status"] and "numpy 0.10" not in cpu_table.line(got)


def test_a_peer_that_was_wrong_or_missing_is_told() -> None:
    got = row({"eqkir": [1.0] * 3, "compile": [1.0] * 3}, {"compile": "no C++ compiler"})
    assert got["peers"]["compile"] == {"status": "no C++ compiler"}
    assert row({"eqkir": [1.0] * 3}, {"eqkir": "wrong"})["status"] == "wrong"


def test_failures_count_in_the_mean_and_rows_that_were_not_run_do_not() -> None:
    good = {"status": "ok", "peers": {"numpy": {"ms": 1.0, "ratio": 10.0}}}
    assert cpu_table.mean([good, {"status": "process ended", "peers": {}}], "numpy") == "1.00 (2)"
    assert cpu_table.mean([good, {"status": "not run: no time left", "peers": {}}], "numpy") == "10.00 (1)"


def test_results_are_merged_by_machine_workload_and_threads(tmp_path: Path) -> None:
    path = tmp_path / "r.json"

    def put(on: str, workload: str, threads: int, status: str = "ok") -> None:
        r = cpu_run.Results(path)
        r.machines[on] = {}
        r.put(on, {"workload": workload, "threads": threads, "status": status})

    put("a", "x", 1)
    put("a", "y", 1)
    put("a", "x", 2)
    put("b", "x", 1)
    put("a", "x", 1, "process ended")
    put("a", "y", 1, "not run: no time left")
    rows = json.loads(path.read_text())["rows"]
    assert [(r["on"], r["workload"], r["threads"], r["status"]) for r in rows] == [
        ("a", "x", 1, "process ended"), ("a", "y", 1, "ok"), ("a", "x", 2, "ok"), ("b", "x", 1, "ok"),
    ]  # fmt: skip


def test_the_page_shows_rows_of_every_kind() -> None:
    rows = [row({"eqkir": [1.0] * 3, "numpy": [2.0] * 3}) | {"on": "a", "predicted_ms": 500.0}]
    rows.append(rows[0] | {"workload": "z", "status": "worse | luck"})
    machine = {"processor": "P", "cores": 2, "caches": "L1", "load": 0.5, "eqkir": {"python": "3"}, "numpy": {"numpy": "2"}}
    text = cpu_table.markdown({"a": machine}, rows, "notes")
    assert "| relu_f32-64x256 | 1000.0000 | 500.0000 | 0.50 |" in text and "- z: worse / luck" in text and text.endswith("notes")


@pytest.mark.parametrize("kind", ["eqkir", "torch"])
def test_processes_have_their_threads_and_no_choice_of_kernels(kind: str) -> None:
    import os

    os.environ["OPENBLAS_CORETYPE"] = "Haswell"
    bench = cpu_run.Bench(Path("absent"), [kind], "other", 1.0, 1, 0.1)
    w = bench.worker(kind, 2)
    assert "OPENBLAS_CORETYPE" not in w.environment and w.environment["OMP_NUM_THREADS"] == "2"
    assert (w.command[0] == "other") == (kind == "torch")
