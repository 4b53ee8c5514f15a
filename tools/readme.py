#!/usr/bin/env python3
"""Fill README.md's example with what eqkir prints now, and its numbers of kernels.

``python tools/readme.py`` after a change that alters emitted code or adds a kernel.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"


def example(text: str) -> str:
    """The first Python block."""
    m = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    assert m
    return m[1]


def kernel_part(source: str) -> str:
    """The function `kernel` of an emitted module, from where its program id is known."""
    body = source[source.index("def kernel(") :].split("\n\n\n")[0].splitlines()
    first = next(i for i, line in enumerate(body) if "pid" in line and "tl.program_id(0)" in line)
    return "\n".join(["@triton.jit", body[0], "    ...", *body[first:]])


def count(folder: str) -> int:
    """Kernels of a folder of the corpus."""
    return len(list((ROOT / "corpus" / folder).glob("*.json")))


def main() -> int:
    text = README.read_text()
    with tempfile.TemporaryDirectory() as folder:  # a file of the author's, so that comments name its lines
        file = Path(folder) / "rms_scale.py"
        file.write_text(example(text))
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        run = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, check=True, cwd=ROOT, env=env)
    table = subprocess.run(
        [sys.executable, "-m", "eqkir", "optimize", "corpus/json/softmax_bf16.json", "--check", "all"],
        capture_output=True, text=True, check=True, cwd=ROOT,
    ).stdout  # fmt: skip
    blocks = {
        "(argument handling left out):\n\n```python\n": kernel_part(run.stdout),
        "--check all\n": "\n".join(x.rstrip() for x in table.splitlines()),
    }
    for head, content in blocks.items():
        start = text.index(head) + len(head)
        end = text.index("\n```" if "python" in head else "\n$ ls", start)
        text = text[:start] + content + text[end:]
    for folder in ("json", "pending"):
        text = re.sub(rf"\d+( kernels)? of `corpus/{folder}`", rf"{count(folder)}\g<1> of `corpus/{folder}`", text)
    README.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
