"""The cache of winners: what was chosen is found again by everything that the choice follows from, and trusted like a fresh choice."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import eqkir
from eqkir.api import KernelResult
from eqkir.cpu import implementations
from eqkir.driver import winners
from eqkir.driver.artifacts import canonical, digest
from eqkir.driver.chain import Chain
from eqkir.driver.job import kernel_of
from eqkir.driver.options import Options
from eqkir.driver.outcome import Outcome
from eqkir.driver.scan import scan
from eqkir.rules import saturate

KERNEL = Path(__file__).parents[2] / "corpus" / "json" / "relu_f32.json"
TARGET = "mojo:x86-64-v4"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EQKIR_CACHE", str(tmp_path))
    return tmp_path / "winners"


def chosen(**options: Any) -> KernelResult:
    return eqkir.optimize(KERNEL, TARGET, check=options.pop("check", "none"), winners=True, **options).kernels[0]


def chain(**options: Any) -> Chain:
    (task,) = scan(str(KERNEL))
    assert not isinstance(task, Outcome)
    return Chain(kernel_of(task), Options(**{"target": TARGET, "winners": True, **options}), Outcome(task.kernel, task.file))


def no_search(*a: Any, **k: Any) -> Any:
    raise AssertionError("searched again")


def test_a_winner_is_found_again_without_a_search(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = chosen()
    assert first.ok and len(list(cache.iterdir())) == 1
    monkeypatch.setattr(saturate, "saturate", no_search)
    again = chosen(check="static")
    assert again.ok and again.report["extraction"]["cached"] and "warnings" not in again.report
    assert (again.program_json, again.source, again.manifest, again.cost) == (first.program_json, first.source, first.manifest, first.cost)


def test_nothing_is_kept_or_asked_unless_wanted(cache: Path) -> None:
    assert eqkir.optimize(KERNEL, TARGET, check="none").ok and not cache.exists()
    assert chosen(top=2).ok and "cached" not in chosen(top=2).report["extraction"] and chosen().report["extraction"]["cached"]


def entry_of(cache: Path) -> tuple[Path, dict[str, Any]]:
    (path,) = cache.glob("*.json")
    return path, json.loads(path.read_text())


def other_question(e: dict[str, Any]) -> None:
    e["question"]["versions"]["eqkir"] = "0"


def other_program(e: dict[str, Any]) -> None:
    e["program"] = e["program"].replace('"maximum"', '"minimum"')


def broken_program(e: dict[str, Any]) -> None:
    """Well written, of the same interface, and wrong in itself."""
    p = json.loads(e["program"])
    p["segments"] = []
    e["program"] = canonical(p)
    e["digest"] = digest(e["program"])


def no_program(e: dict[str, Any]) -> None:
    e["program"], e["digest"] = "{}", digest("{}")


def other_interface(e: dict[str, Any]) -> None:
    e["program"] = e["program"].replace('"X"', '"X2"')
    e["digest"] = digest(e["program"])


CHANGES = (other_question, other_program, broken_program, no_program, other_interface)


@pytest.mark.parametrize("change", [*CHANGES, "cut", "no JSON", "another kind"], ids=lambda c: getattr(c, "__name__", c))
def test_a_damaged_or_stale_entry_is_ignored_named_and_replaced(change: Callable[[dict[str, Any]], None] | str, cache: Path) -> None:
    first = chosen()
    path, entry = entry_of(cache)
    good = path.read_bytes()
    if callable(change):
        change(entry)
        path.write_text(canonical(entry))
    else:
        path.write_bytes({"cut": good[: len(good) // 2], "no JSON": b"\x00", "another kind": b"[1]"}[change])
    assert path.read_bytes() != good
    again = chosen()
    assert again.ok and again.program_json == first.program_json
    assert [w["code"] for w in again.report["warnings"]] == ["EQK-RUN-WINNER"]
    assert path.read_bytes() == good and "warnings" not in chosen().report


def test_a_cache_that_cannot_be_written_costs_a_warning_alone(cache: Path) -> None:
    cache.write_text("a file")
    found = chosen()
    assert found.ok and {w["code"] for w in found.report["warnings"]} == {"EQK-RUN-WINNER"}


def test_an_entry_is_found_by_everything_that_the_choice_follows_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = tmp_path / "rows.json"
    data = json.loads((Path(eqkir.__file__).parent / "targets" / "rows" / "mojo-cpu.json").read_text())
    rows.write_text(json.dumps({**data, "limit": 8}))
    changes: dict[str, dict[str, Any]] = {
        "": {}, "shape": {"shapes": {"M": 64}}, "hardware": {"target": "mojo:x86-64-v3"}, "rows": {"rows": str(rows)},
        "extractor": {"extractor": "ilp"}, "seed": {"seed": 1}, "rules": {"without": ("access",)},
        "provider": {"target": "triton:nvidia-h200"},
        "permission": {"permit": ("zero_products",)}, "limits": {"limits": {"enodes": 5000.0}},
    }  # fmt: skip
    asked = {k: winners.path_of(winners.question(chain(**o))) for k, o in changes.items()}
    asked["kernel"] = winners.path_of(winners.question(renamed()))
    monkeypatch.setattr(implementations, "definitions", lambda: "others")
    asked["implementations"] = winners.path_of(winners.question(chain()))
    monkeypatch.undo()
    monkeypatch.setenv("EQKIR_CACHE", str(tmp_path))
    monkeypatch.setattr(winners, "sources", lambda: "others")
    asked["versions"] = winners.path_of(winners.question(chain()))
    assert len(set(asked.values())) == len(asked)
    monkeypatch.undo()
    monkeypatch.setenv("EQKIR_CACHE", str(tmp_path))
    assert winners.path_of(winners.question(chain(check="all"))) == asked[""]


def renamed() -> Chain:
    c = chain()
    c.kernel = c.kernel.model_copy(update={"name": "other"})
    return c


def test_writers_beside_each_other_leave_whole_entries(cache: Path) -> None:
    c = chain()
    winner = winners.Winner(c.program, 1.0, 2.0, {})
    faults: list[object] = []

    def write(n: int) -> None:
        for i in range(20):
            faults.extend(filter(None, [winners.keep(c, replace(winner, cost=float(100 * n + i)))]))

    writers = [threading.Thread(target=write, args=(n,)) for n in range(4)]
    for t in writers:
        t.start()
    path = winners.path_of(winners.question(c))
    while any(t.is_alive() for t in writers):
        json.loads(path.read_bytes())
    assert not faults and winners.find(c)[0] is not None and [p.name for p in cache.iterdir()] == [path.name]
