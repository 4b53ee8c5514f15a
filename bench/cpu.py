#!/usr/bin/env python3
"""The CPU benchmark: native kernels beside numpy and torch, each in a process of its own, with one and two threads.

    python bench/cpu.py emit --target mojo:native --artifacts DIR       optimize and compile the workloads of cpu_list.py (needs eqkir[cpu])
    python bench/cpu.py run --artifacts DIR --json FILE --budget S      check, then time
    python bench/cpu.py table                                           bench/results/cpu.json as bench/RESULTS_CPU.md
    python bench/cpu.py calls --artifacts DIR                           what a bound and a checked call cost

torch is a peer where this interpreter has it, or the one that --torch-python (EQKIR_TORCH_PYTHON) names. On another machine `run` needs
numpy, ml_dtypes, `bench/`, `eqkir/__init__.py`, `eqkir/runtime/` and the artifacts: nothing of the optimizer and no compiler. torch.compile
needs a C++ compiler; where there is none, its column says so.

Timed is the bound call: packing, intermediate results, dispatch to threads and joins are inside; compilation, loading and the allocation of
outputs are outside. Processes take turns for a fraction of a second each, so that the machine's state is the same for all; a row's ratio
is the median over the rounds of peer's median / our median. A workload that computes something wrong is never timed. Rows of a file are
replaced by rows of the same machine, workload and number of threads; others stay.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from cpu_list import entries  # noqa: E402
from cpu_run import Bench, Results, identity  # noqa: E402
from cpu_table import line, markdown  # noqa: E402

ROOT = HERE.parent
RESULTS = HERE / "results" / "cpu.json"
TABLE, NOTES = HERE / "RESULTS_CPU.md", HERE / "cpu_notes.md"
ROUNDS, SECONDS, BUDGET = 5, 0.1, 3600.0
SMALL = "relu_f32-64x256"
PEERS = ("numpy", "torch", "compile")
KEPT = ("kernel.so", "pool.so", "native.json", "workload.json", "report.json", "kernel.mojo")


def chosen(pattern: str) -> list[dict[str, Any]]:
    return [e for e in entries() if pattern in e["name"]]


# ------------------------------------------------------------------------------------------------ emit
def emit(args: argparse.Namespace) -> int:
    """Artifacts of every workload; what is refused is listed and stays a row without a time."""
    import eqkir
    from eqkir.base.files import write_atomic
    from eqkir.driver.artifacts import canonical

    failed = 0
    for e in chosen(args.only):
        start, folder = time.perf_counter(), args.artifacts / e["name"]
        scratch = args.artifacts / ".emit"
        result = eqkir.optimize(
            ROOT / "corpus" / "json" / f"{e['kernel']}.json", target=args.target, kernels=[e["kernel"]],
            shapes={**e["shapes"], **e["constexprs"]}, out=scratch, jobs=0,
        )  # fmt: skip
        k = result.kernels[0]
        subprocess.run(["rm", "-rf", str(folder)], check=True)
        if k.ok:
            (scratch / e["kernel"]).rename(folder)
            for f in folder.iterdir():
                if f.name not in KEPT:
                    f.unlink()
            told = {"name": e["name"], "predicted_ms": (k.cost or 0.0) * 1e-6, "target": args.target}
            write_atomic(folder / "workload.json", canonical(told))
        failed += not k.ok
        words = "" if k.ok else f" {k.status} at {k.stage}: {'; '.join(map(str, k.diagnostics))[:300]}"
        print(f"{e['name']}: {'ok' if k.ok else 'FAIL'} {time.perf_counter() - start:.1f} s{words}", flush=True)
    return 1 if failed else 0


# ------------------------------------------------------------------------------------------------ run
def torch_python(args: argparse.Namespace) -> str:
    """The interpreter of torch's processes; an empty text where there is none."""
    given = args.torch_python or os.environ.get("EQKIR_TORCH_PYTHON", "")
    return given or (sys.executable if find_spec("torch") else "")


def run(args: argparse.Namespace) -> int:
    """Rows of the chosen workloads; the file is whole after each. 1 where a workload of ours failed."""
    python = torch_python(args)
    kinds = ["eqkir", *(p for p in PEERS if p in args.peers and (python or p == "numpy"))]
    bench = Bench(args.artifacts.resolve(), kinds, python, args.budget, args.rounds, args.seconds)
    machine = bench.machine()
    on, results, todo = identity(machine), Results(args.json), chosen(args.only)
    old = results.machines.get(on, {})
    results.machines[on] = {**machine, "calls": old.get("calls", [])}
    small = args.artifacts / SMALL
    if small.exists():
        results.machines[on]["calls"] = [{"threads": n, **_calls(bench, small, n)} for n in args.threads]
    said = bench.check(todo, args.threads)
    failures = 0

    def done(row: dict[str, Any]) -> None:
        nonlocal failures
        failures += row["status"] != "ok"
        results.put(on, row)
        print(line(row), flush=True)

    for n in args.threads:
        bench.time(todo, n, said, done)
    return 1 if failures else 0


def _calls(bench: Bench, folder: Path, threads: int) -> dict[str, float]:
    w = bench.worker("eqkir", threads)
    got = w.ask({"do": "calls", "folder": str(folder.resolve())}, 120)
    w.stop()
    return {k: v for k, v in got.items() if k.endswith("_us")}


def table(args: argparse.Namespace) -> int:
    """RESULTS_CPU.md."""
    r = Results(args.json)
    notes = NOTES.read_text(encoding="utf-8") if NOTES.exists() else ""
    TABLE.write_text(markdown(r.machines, list(r.rows.values()), notes), encoding="utf-8")
    return 0


def calls(args: argparse.Namespace) -> int:
    """Cost of a call, in microseconds: bound; checked; checked with new arrays. The median of many."""
    bench = Bench(args.artifacts, ["eqkir"], "", args.budget, 1, 0.1)
    for n in args.threads:
        got = _calls(bench, args.artifacts / SMALL, n)
        if not got:
            print(f"{args.artifacts / SMALL} cannot be called", file=sys.stderr)
            return 1
        what = ", ".join(f"{k.removesuffix('_us')} {v:.2f} us" for k, v in sorted(got.items()))
        print(f"{n} thread{'s' * (n > 1)}: {what}")
    return 0


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("step", choices=["emit", "run", "table", "calls"])
    p.add_argument("--artifacts", "--out", type=Path, default=Path("out/cpu"), help="folder of the artifacts")
    p.add_argument("--json", type=Path, default=RESULTS, help="file of the results, which a run adds to")
    p.add_argument("--target", default="mojo:native", help="mojo:x86-64-v4 makes artifacts for another machine")
    p.add_argument("--only", default="", help="workloads whose name contains this")
    p.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    p.add_argument("--peers", nargs="*", default=list(PEERS), choices=PEERS)
    p.add_argument("--torch-python", default="", help="interpreter that has torch and ml_dtypes (EQKIR_TORCH_PYTHON)")
    p.add_argument("--rounds", type=int, default=ROUNDS)
    p.add_argument("--seconds", type=float, default=SECONDS, help="of one turn")
    p.add_argument("--budget", type=float, default=BUDGET, help="seconds of the whole run")
    args = p.parse_args()
    return {"emit": emit, "run": run, "table": table, "calls": calls}[args.step](args)


if __name__ == "__main__":
    raise SystemExit(main())
