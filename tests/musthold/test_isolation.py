"""``program.json`` is enough: without `eqkir.kir` and without origins the same source comes out, and the program verifies and runs."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tokenize
from pathlib import Path
from typing import Any

import pytest

from eqkir.driver import programs
from eqkir.emit.triton import emit
from tests.matrix.cells import REPRESENTATIVE, ROOT, Subject

#: runs in a process that refuses to import eqkir.kir; one line of JSON a program
SCRIPT = """
import json, sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name == "eqkir.kir" or name.startswith("eqkir.kir."):
            raise ImportError(f"{name} is blocked")

sys.meta_path.insert(0, Blocker())
try:
    import eqkir.kir
except ImportError:
    pass
else:
    sys.exit("the blocker does not block")
import numpy as np
from eqkir.base.dtypes import FLOATS, NUMPY
from eqkir.base.expr import evaluate
from eqkir.cli import emit as command
from eqkir.driver import programs
from eqkir.program.interp import Buffer, run
from eqkir.program.verify import verify
from pathlib import Path

for path in map(Path, sys.argv[1:]):
    program = programs.read(path)
    assert not program.origins
    found = verify(program) or []
    symbols = {s.name: max(s.lo, 5) if s.hi is None else min(max(s.lo, 5), s.hi) for s in program.abi.symbols}
    symbols = {k: -(-v // s.multiple_of) * s.multiple_of for (k, v), s in zip(symbols.items(), program.abi.symbols)}
    rng = np.random.default_rng(0)
    args = {}
    for v in program.abi.views:
        if v.role != "workspace":
            shape = tuple(int(evaluate(e, lambda a: symbols[a.args[0]])) for e in v.shape)
            b = Buffer.dense(shape, NUMPY[v.dtype])
            b.memory[...] = rng.standard_normal(b.memory.shape).astype(NUMPY[v.dtype]) if v.dtype in FLOATS else 1
            args[v.name] = b
    for s in program.abi.scalars:
        args[s.name] = NUMPY[s.dtype].type(1)
    report = run(program, args, symbols)
    assert command.main(path, path.with_suffix(".py")) == 0
    assert not any(m == "eqkir.kir" or m.startswith("eqkir.kir.") for m in sys.modules)
    seen = {"programs": report.programs, "unwritten": report.unwritten}
    print(json.dumps({"path": str(path), "diagnostics": [str(d) for d in found], **seen}))
"""


def source(emitted: Any) -> str:
    return emitted if isinstance(emitted, str) else str(emitted.source)


def code(text: str) -> list[tuple[int, str]]:
    """Tokens without comments (and without what only separates lines)."""
    skip = (tokenize.COMMENT, tokenize.NL)
    return [(t.type, t.string) for t in tokenize.generate_tokens(io.StringIO(text).readline) if t.type not in skip]


@pytest.mark.parametrize("config", ["chosen", "without-all"])
def test_a_process_without_kir_emits_verifies_and_interprets_the_same_program(tmp_path: Path, config: str) -> None:
    expected = {}
    for name in REPRESENTATIVE:
        program = Subject(name).program(config)
        assert program.origins, f"{name}: origins make the comments"
        data = json.loads(programs.dumps(program))
        data["origins"] = {}
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps(data))
        expected[str(path)] = source(emit(program))
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    r = subprocess.run([sys.executable, "-P", "-c", SCRIPT, *expected], env=env, capture_output=True, text=True, timeout=600, cwd="/")
    assert r.returncode == 0, r.stderr[-3000:]
    lines = [json.loads(x) for x in r.stdout.splitlines() if x.startswith("{")]
    assert len(lines) == len(expected)
    for line in lines:
        assert not line["diagnostics"] and line["programs"] > 0 and not line["unwritten"], line
        got = Path(line["path"]).with_suffix(".py").read_text()
        assert code(got) == code(expected[line["path"]]), line["path"]


def test_sources_differ_from_one_without_origins_by_comments_only() -> None:
    program = Subject("softmax_f32").program("chosen")
    full = source(emit(program))
    assert "#" in full and code(full)
