"""The reference page: its example is real, its tables are complete, and its recipe for a new operation works."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from eqkir.kir import canonical, kernel, load_bytes, module
from eqkir.kir.model import BINARY, COMPARE, OPERATIONS, UNARY, Helper, Module

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "kir.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    return re.search(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)[1]  # type: ignore[index]


def test_the_example_in_python_is_the_example_in_json() -> None:
    names: dict[str, object] = {"kernel": kernel}
    exec(block("python"), names)
    assert canonical(module(names["softmax"])) == canonical(load_bytes(block("json").encode()))  # type: ignore[arg-type]
    assert json.loads(block("json")) == json.loads(canonical(load_bytes(block("json").encode())))


def test_every_piece_of_json_is_of_the_schema() -> None:
    blocks = [json.loads(b) for b in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)]
    assert len(blocks) >= 4
    for b in blocks:
        if "kir" in b:
            Module.model_validate_json(json.dumps(b))
        elif "op" in b:
            OPERATIONS[b["op"]].model_validate_json(json.dumps(b))
        else:
            Helper.model_validate_json(json.dumps(b))


def test_the_page_of_operations_is_what_the_tool_writes() -> None:
    from tools.operations import examples, page

    assert (ROOT / "docs" / "operations.md").read_text(encoding="utf-8") == page()
    assert set(examples()) == set(OPERATIONS)


def test_every_operation_and_function_is_listed() -> None:
    words = set(re.findall(r"[a-z_0-9]+", PAGE))
    assert not {*OPERATIONS, *UNARY, *BINARY, *COMPARE} - words


EXTENSION = '''
from typing import ClassVar, Literal
from eqkir.kir import Kernel, TensorType, check, load_bytes, operation, refresh, schema, type_rule
from eqkir.kir.node import Id, Op, Region

@operation
class Twice(Op):
    """x + x."""
    op: Literal["twice"] = "twice"
    x: Id
    operand_fields: ClassVar[tuple[str, ...]] = ("x",)
    pointwise: ClassVar[bool] = True

@type_rule("twice")
def _twice(op, ctx):
    return (ctx.tensor(op.x, "x"),)

refresh()
from tests.kir.kit import op, text
m = load_bytes(text(op("twice", "q", x="x"), op("parallel", domains=["dm"], body={"args": [{"id": "p", "dtype": "index"}],
    "body": [op("twice", "w", x="p")]})))
types = check(m)["k"]
assert types["q"].dtype == "f32" and types["w"] == TensorType("index") and "Twice" in schema()["$defs"]
from eqkir.kir import canonical
assert canonical(load_bytes(canonical(m))) == canonical(m) and b'"twice"' in canonical(m)
'''


def test_a_new_operation_touches_no_other() -> None:
    subprocess.run([sys.executable, "-c", EXTENSION], cwd=ROOT, check=True)
