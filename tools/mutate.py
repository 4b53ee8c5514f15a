#!/usr/bin/env python3
"""Mutants of emitted kernels against the checks.

    python -m tools.mutate                         the campaign over the corpus; report on standard output and under out/mutation/
    python -m tools.mutate --summary               counts of the last report
    python -m tools.mutate --kernel softmax_f32    every mutant of one kernel
    python -m tools.mutate --list softmax_f32      the mutants themselves, nothing is run

A missing barrier between threads is no mutant here: an interpreter runs the threads of a program as one. The static verifier looks for it
in the legalized program (EQK-PRG-BARRIER, with mutation tests of its own).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from tests.mutation import campaign  # noqa: E402

OUT = ROOT / "out" / "mutation"
SHARE = 0.95


def main(argv: Sequence[str] | None = None) -> int:
    p = argparse.ArgumentParser(description="mutants of emitted kernels against the checks")
    p.add_argument("--summary", action="store_true", help="print the counts of the last report")
    p.add_argument("--kernel", help="every mutant of one kernel")
    p.add_argument("--config", default="chosen", help="which program of that kernel: chosen, worst, random-0, …")
    p.add_argument("--list", metavar="KERNEL", help="print the mutants of a kernel")
    p.add_argument("--per-operator", type=int, default=campaign.PER_OPERATOR)
    p.add_argument("--limit", type=int, help="only the first so many kernels")
    p.add_argument("--jobs", type=int, default=2)
    a = p.parse_args(argv)
    if a.summary:
        path = OUT / "report.json"
        if not path.is_file():
            print("no report yet: python -m tools.mutate", file=sys.stderr)
            return 2
        print(campaign.report([campaign.Verdict(**v) for v in json.loads(path.read_text())]))
        return 0
    if a.list:
        for e in campaign.sites(a.list, a.config):
            print(e)
        return 0
    start = time.perf_counter()
    verdicts = campaign.run(a.kernel, a.config, None) if a.kernel else campaign.campaign(a.per_operator, a.limit, a.jobs)
    text = campaign.report(verdicts)
    print(text)
    print(f"{time.perf_counter() - start:.0f} s")
    if not a.kernel:
        OUT.mkdir(parents=True, exist_ok=True)
        (OUT / "report.txt").write_text(text + "\n")
        (OUT / "report.json").write_text(campaign.to_json(verdicts))
    return 0 if sum(bool(v.caught) for v in verdicts) >= SHARE * len(verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
