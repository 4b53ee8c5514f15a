"""Names of a kernel's interface never meet names of the emitted module: keywords, builtins, its own variables, look-alikes."""

from __future__ import annotations

import json

import pytest

from eqkir.driver.chain import Chain
from eqkir.driver.options import Options
from eqkir.driver.outcome import Outcome
from eqkir.emit.triton import emit
from eqkir.emit.triton.checks import Case, interpret_batch
from eqkir.kir.envelope import compare, envelope
from eqkir.kir.inputs import make_inputs
from eqkir.kir.load import load_bytes
from tests.matrix.cells import CORPUS, TARGET
from tests.matrix.provider import arrays

pytestmark = pytest.mark.interpreter

#: view, view, symbol, symbol, … drawn in turn; each row is one attack
ROWS = [
    ("tl", "triton", "kernel", "launch", "pid", "lid"),
    ("for", "lambda", "None", "True", "class", "def"),
    ("c0", "i0", "c1", "i1", "v1", "m2"),
    ("i0_at", "i0_lane", "c0_from", "c0_at", "acc4", "v3"),
    ("X_s0", "X", "X_s1", "Y_s0", "programs", "instance"),
    ("IDX", "SPREAD", "KERNEL", "OPTIONS", "EVEN_i0_OB", "EVEN_c0_LC"),
    ("max", "min", "abs", "tuple", "int", "float"),
    ("key", "plan", "device", "reach", "flags", "driver"),
    ("A_b", "_A_b", "A__b", "_", "__", "___"),
    ("_max_f32", "_sum_f32", "_combine0", "_sigmoid", "_PLANS", "_plan"),
    ("order_id", "band_id", "order_columns", "band_rows", "first", "segment_g0"),
    ("X_shape", "X_strides", "X_p", "self", "tensors", "pointers"),
    ("float64", "struct", "torch", "libdevice", "range", "isinstance"),
]


def renamed(kernel: str, row: tuple[str, ...]) -> bytes:
    """The corpus kernel with its parameters and symbols called otherwise."""
    text = json.loads((CORPUS / f"{kernel}.json").read_text())
    k = text["kernels"][0]
    old = [p["id"] for p in k["params"]] + [s["id"] for s in k["symbols"]]
    new = dict(zip(old, row, strict=False))
    new |= {name: f"other{i}" for i, name in enumerate(old[len(row) :])}

    def walk(x: object, field: str = "") -> object:
        if isinstance(x, dict):
            return {f: walk(v, f) for f, v in x.items()}
        if isinstance(x, list):
            return [walk(v, field) for v in x]
        return new.get(x, x) if isinstance(x, str) and field in NAMED else x

    k = walk(k)
    return json.dumps({**text, "kernels": [k]}).encode()


#: JSON fields that hold names of parameters and symbols (`results` and operands are other names)
NAMED = ("id", "view", "shape", "end", "begin", "noalias", "equal", "name_of", "scalar")


@pytest.mark.parametrize(
    "kernel", ["softmax_f32", *(pytest.param(k, marks=pytest.mark.slow) for k in ("argmax_middle_f32", "two_outputs", "gemm_f32"))]
)
def test_hostile_names_change_nothing(kernel: str) -> None:
    work = []
    for row in ROWS:
        data = renamed(kernel, row)
        k = load_bytes(data, "renamed.json").kernels[0]
        for config in ({"extractor": "greedy-dag"}, {"extractor": "random", "seed": 3}):
            program = Chain(k, Options(target=TARGET, **config), Outcome(kernel, "")).program  # type: ignore[arg-type]
            symbols = {s.id: n for s, n in zip(k.symbols, (3, 17, 5, 7), strict=False)}
            args = make_inputs(k, symbols, 4, "strided")
            work.append((row, emit(program), Case(*arrays(args)), envelope(k, args, symbols)))
    for (row, _, _, expected), (o,) in zip(work, interpret_batch([(a, [c]) for _, a, c, _ in work]), strict=True):
        assert not o.error, f"{row}: {o.error}"
        verdict = compare(expected, {n: o.arrays[n] for n in expected})
        assert verdict.ok, f"{row}: {verdict.first}"
