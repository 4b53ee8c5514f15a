#!/usr/bin/env python3
"""`make show ISSUE=n`: every Show line of an issue with its figure, pass or fail. Exit 1 when a line fails."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    issue = sys.argv[1] if len(sys.argv) > 1 else "2"
    sys.path.insert(0, str(ROOT))
    try:
        lines = importlib.import_module(f"tests.show.issue{issue}").LINES
    except ModuleNotFoundError:
        known = sorted(p.stem.removeprefix("issue") for p in (ROOT / "tests/show").glob("issue*.py"))
        print(f"no show for issue {issue}; there is {', '.join(known)}", file=sys.stderr)
        return 2
    only = {int(a) for a in sys.argv[2:]}
    failed = 0
    for number, (title, run) in enumerate(lines, 1):
        if only and number not in only:
            continue
        print(f"{number}. {title}", flush=True)
        try:
            ok, figure = run()
        except Exception as e:  # a line that cannot be run is a line that fails
            ok, figure = False, f"{type(e).__name__}: {e}"
        failed += not ok
        print(f"   {'PASS' if ok else 'FAIL'}  {figure}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
