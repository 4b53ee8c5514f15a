"""The Show lines of issue 5: (title, function that returns whether it holds and the figure)."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tests.show.tools import closing_line, eqkir, json_lines, run

WRONG, MINUTES = 25, 10.0


def soundness() -> tuple[bool, str]:
    start = time.monotonic()
    rows = json_lines(eqkir("rules", "check", "--corpus", "corpus", "--conditions", "-j", 2, "--json").stdout)
    minutes = (time.monotonic() - start) / 60
    rules = Counter(r["verdict"] for r in rows if "condition" not in r)
    conditions = Counter(r["verdict"] for r in rows if "condition" in r)
    listed = "; ".join(f"{r['rule']} without {r['condition']}: {r['verdict']}" for r in rows if r.get("condition") and r["verdict"] in (
        "survives", "no difference"))  # fmt: skip
    with tempfile.TemporaryDirectory() as d:
        wrong = json_lines(eqkir("rules", "check", "tests/rules/wrong", "-j", 2, "--json", "-o", d).stdout)
    refuted = [r for r in wrong if r["verdict"] == "refuted"]
    replays = sum(len(r.get("counterexample", ())) >= 3 for r in refuted)
    good = bool(rules) and set(rules) <= {"proved", "tested"} and len(refuted) == len(wrong) == replays >= WRONG and minutes <= MINUTES
    good &= bool(conditions) and set(conditions) <= {"refuted", "binds"}
    figure = f"{dict(rules)} in {minutes:.1f} min; wrong rules refuted {len(refuted)} of {len(wrong)}, {replays} replay; "
    return good, figure + f"deleted conditions {dict(conditions)}" + (f": {listed[:1500]}" if listed else "")


def impact() -> tuple[bool, str]:
    with tempfile.TemporaryDirectory() as d:
        page, rows = Path(d, "impact.html"), Path(d, "impact.json")
        r = eqkir("rules", "impact", "--corpus", "corpus", "-j", 2, "--html", page, "-o", rows)
        table = json.loads(rows.read_text())["rules"] if rows.is_file() else []
    idle = [x["rule"] for x in table if x["without_effect"]]
    return bool(table) and not idle, f"{len(table)} rules; without effect: {', '.join(idle) or 'none'}; {closing_line(r.stdout)}"


def tutorial() -> tuple[bool, str]:
    r = run(sys.executable, "-m", "pytest", "-q", "tests/authoring/test_tutorial.py")
    return r.returncode == 0, closing_line(r.stdout)


def hostile() -> tuple[bool, str]:
    r = run(sys.executable, "-m", "pytest", "-q", "tests/rules/test_hostile.py", "tests/rules/test_rule_files.py")
    return r.returncode == 0, closing_line(r.stdout)


def explorer() -> tuple[bool, str]:
    files = ("tests/authoring/test_explorer.py", "tests/authoring/test_explorer_browser.py")
    r = run(sys.executable, "-m", "pytest", "-q", "-m", "slow or not slow", *files)
    return r.returncode == 0 and "skipped" not in closing_line(r.stdout), closing_line(r.stdout)


LINES: list[tuple[str, Callable[[], tuple[bool, str]]]] = [
    ("every shipped rule proved or tested, wrong rules and deleted conditions refuted", soundness),
    ("every shipped rule changes something", impact),
    ("the tutorial's rules, in three commands each", tutorial),
    ("hostile rule files", hostile),
    ("the explorer of an e-graph, in a browser", explorer),
]
