#!/usr/bin/env python3
"""Random legal kernels through every stage, each stage compared with the reference.

    python -m tools.fuzz --n 5000                     the whole run: table operation x realised form, verdicts; exit status 1 on a mismatch
    python -m tools.fuzz --n 200 --seed 7 --json r.json
    python -m tools.fuzz --n 5000 --resume            goes on where the last run of this seed stopped
    python -m tools.fuzz --only 17 204                these cases
    python -m tools.fuzz replay FILE …                failures that were written, or regressions

Failing kernels are shrunk and written to OUT/seed-S/. A case depends on the seed and its number alone.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from eqkir.driver import pool  # noqa: E402
from tests.fuzz import report  # noqa: E402
from tests.fuzz.case import Result, case_seed, check  # noqa: E402

#: seconds that one case may take before its worker is ended; cases between two fresh sets of workers; failures that are shrunk
CASE_SECONDS, FRESH, SHRUNK = 120.0, 400, 40
SHRINK_SECONDS = 90.0


def run(
    n: int, seed: int = 0, jobs: int = 2, out: Path | None = None, resume: bool = False, only: Sequence[int] = (), progress: bool = False,
    shrink: bool = True,
) -> dict[str, Any]:  # fmt: skip
    """Run the cases 0 … n − 1 (or `only`) of a seed and return the summary. Results are kept in `out`, one line a case."""
    start = time.perf_counter()
    folder = None if out is None else out / f"seed-{seed}"
    kept = folder / "results.jsonl" if folder else None
    results: dict[int, Result] = {}
    if folder and kept:
        folder.mkdir(parents=True, exist_ok=True)
        if resume and kept.exists():
            results = {r.index: r for r in map(_read, kept.read_text().splitlines()) if r.index < n}
        else:
            kept.write_text("")
    todo = [i for i in (only or range(n)) if i not in results]
    bar = _bar(len(todo)) if progress else None
    for at in range(0, len(todo), FRESH):
        part = todo[at : at + FRESH]
        for k, answer in pool.run("tests.fuzz.case:run_case", [(seed, i, i % 2 == 0) for i in part], jobs, CASE_SECONDS):
            r = _result(answer, part[k])
            results[r.index] = r
            if kept:
                with kept.open("a") as f:
                    f.write(json.dumps(asdict(r)) + "\n")
            if bar:
                bar(r)
    if bar:
        bar(None)
    done = [results[i] for i in sorted(results)]
    if folder and shrink:
        _write_failures([r for r in done if not r.good], seed, folder, jobs)
    return report.summary(done, seed, time.perf_counter() - start)


def _read(line: str) -> Result:
    return Result(**json.loads(line))


def _result(answer: Any, index: int) -> Result:
    if isinstance(answer, Result):
        return answer
    assert isinstance(answer, pool.Failure)
    status = {"died": "died", "time": "time"}.get(answer.kind, "crash")
    return Result(index, status, "worker", "", f"{answer.message}\n{answer.traceback}"[:1500])


def _bar(total: int) -> Any:
    """A function of each result (and of None at the end) that shows how far the run is."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    p = Progress(*columns, console=Console(stderr=True))
    task = p.add_task("cases", total=total)
    counts: dict[str, int] = {}
    p.start()

    def step(r: Result | None) -> None:
        if r is None:
            p.stop()
            return
        counts[r.status] = counts.get(r.status, 0) + 1
        p.update(task, advance=1, description=" ".join(f"{k} {v}" for k, v in sorted(counts.items())))
        if not r.good:
            p.console.print(f"case {r.index} {r.status} at {r.stage} {r.code}: {r.message[:200]}", markup=False, highlight=False)

    return step


def _write_failures(failed: Sequence[Result], seed: int, folder: Path, jobs: int) -> None:
    """Shrink the first failures of each kind, and write all."""
    kinds: dict[tuple[str, str, str], int] = {}
    tasks = []
    for r in failed:
        kind = (r.status, r.stage, r.code)
        kinds[kind] = kinds.get(kind, 0) + 1
        if r.json:
            _write(folder / f"case-{r.index}.json", r.json, case_seed(seed, r.index), r)
            if kinds[kind] <= 4 and len(tasks) < SHRUNK:
                tasks.append((r.index, (r.json, case_seed(seed, r.index), r.index % 2 == 0, SHRINK_SECONDS)))
    for k, answer in pool.run("tests.fuzz.shrink:shrink", [t for _, t in tasks], jobs, 2 * SHRINK_SECONDS):
        if not isinstance(answer, pool.Failure):
            text, r = answer
            _write(folder / f"case-{tasks[k][0]}-small.json", text, tasks[k][1][1], r)


def _write(path: Path, text: str, seed: int, r: Result) -> None:
    """A case that can be replayed: the module, the seed of its inputs and candidates, and how it failed."""
    head = {"seed": seed, "status": r.status, "stage": r.stage, "code": r.code, "message": r.message}
    path.write_text(json.dumps({**head, "module": json.loads(text)}, indent=1) + "\n")


def replay(paths: Iterable[Path]) -> list[tuple[Path, Result]]:
    """Check written cases again, emitted code included."""
    out = []
    for path in paths:
        data = json.loads(path.read_text())
        out.append((path, check(json.dumps(data["module"]), data["seed"], True)))
    return out


def main(argv: Sequence[str] | None = None) -> int:
    args = list(sys.argv[1:] if argv is None else argv)
    if args[:1] == ["replay"]:
        replayed = replay(map(Path, args[1:]))
        for path, r in replayed:
            print(f"{path}: {r.status} at {r.stage} {r.code} {r.message}")
        return 0 if all(r.good for _, r in replayed) else 1
    p = argparse.ArgumentParser(description="random legal kernels through every stage")
    p.add_argument("--n", type=int, default=200, help="number of cases")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--jobs", "-j", type=int, default=2)
    p.add_argument("--only", type=int, nargs="*", default=(), help="numbers of cases")
    p.add_argument("--out", type=Path, default=ROOT / "out" / "fuzz")
    p.add_argument("--resume", action="store_true")
    p.add_argument("--no-shrink", action="store_true")
    p.add_argument("--json", type=Path, help="write the summary here")
    a = p.parse_args(args)
    s = run(a.n, a.seed, a.jobs, a.out, a.resume, a.only, progress=True, shrink=not a.no_shrink)
    print(report.text(s))
    if a.json:
        a.json.parent.mkdir(parents=True, exist_ok=True)
        a.json.write_text(json.dumps(s, indent=2) + "\n")
    return 0 if s["ok"] and not s["below"] else 1


if __name__ == "__main__":
    sys.exit(main())
