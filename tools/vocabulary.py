#!/usr/bin/env python3
"""Write the vocabulary reference of docs/rules.md from the operation table and the prelude."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from eqkir.authoring.reference import BEGIN, END, reference  # noqa: E402

PAGE = ROOT / "docs" / "rules.md"


def written(text: str) -> str:
    """The page with its reference as it should be."""
    return re.sub(f"{re.escape(BEGIN)}.*?{re.escape(END)}", lambda _: reference(), text, flags=re.DOTALL)


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
