"""Canonical JSON: one text for kernels that differ in names of values, spelling of defaults and locations; stable everywhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from eqkir.kir import Module, canonical, digest, dumps, load_bytes, schema, to_json
from tests.kir.kit import op, text

ROOT = Path(__file__).parents[2]
CORPUS = sorted((ROOT / "corpus" / "json").glob("*.json"))


def test_names_of_values_defaults_and_locations_do_not_count() -> None:
    a = load_bytes(text(op("cast", "q", x="x", dtype="f16")))
    other = text(op("cast", "other", x="x", dtype="f16", loc={"file": "a.py", "line": 3}))
    b = load_bytes(other.replace(b'"end": "M"', b'"begin": 0, "step": 1, "end": "M"'))
    assert a != b and canonical(a) == canonical(b) and digest(a) == digest(b)
    assert b'"loc"' not in canonical(b) and '"loc"' in dumps(b)


def test_what_a_kernel_means_counts() -> None:
    base = digest(load_bytes(text()))
    others = [
        text(op("cast", "q", x="x", dtype="f16")),
        text(noalias=[["X", "Y"]]),
        text().replace(b'"value": 1.0', b'"value": 2.0'),
        text().replace(b'"role": "in"', b'"role": "inout"'),
        text(symbols=[{"id": "M", "multiple_of": 2}, {"id": "N"}]),
    ]
    assert len({base, *(digest(load_bytes(t)) for t in others)}) == 6


@pytest.mark.parametrize(
    ("written", "dtype", "value"), [(1, "f32", 1.0), (0.1, "f32", 0.10000000149011612), (1e-50, "f32", 0.0), ("nan", "bf16", "nan")]
)
def test_constants_are_rounded_to_their_dtype(written: object, dtype: str, value: object) -> None:
    m = load_bytes(text(op("constant", "q", dtype=dtype, value=written)))
    (constant,) = [o for o in to_json(m)["kernels"][0]["body"] if o["op"] == "constant" and o["dtype"] == dtype][-1:]
    assert constant["value"] == value and type(constant["value"]) is type(value)


def test_negative_zero_is_not_zero() -> None:
    a, b = (load_bytes(text(op("constant", "q", dtype="f32", value=v))) for v in (0.0, -0.0))
    assert digest(a) != digest(b) and canonical(load_bytes(canonical(b))) == canonical(b)


def test_canonical_ids_avoid_the_names_of_parameters() -> None:
    t = text().replace(b'"eps"', b'"v1"')
    body = to_json(load_bytes(t))["kernels"][0]["body"]
    assert [x for o in body for x in o.get("results", [])][:3] == ["v0", "v2", "v3"]
    assert canonical(load_bytes(canonical(load_bytes(t)))) == canonical(load_bytes(t))


def test_the_digest_does_not_depend_on_the_hash_seed() -> None:
    code = "import sys; from eqkir.kir import digest, load_file, schema; import json\n"
    code += "print([digest(load_file(p)) for p in sys.argv[1:]], json.dumps(schema()))"
    files = [str(p) for p in CORPUS[:20]]
    command = [sys.executable, "-c", code, *files]
    outs = {
        subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": s}, capture_output=True, check=True).stdout
        for s in ("0", "1", "4242")
    }
    assert len(outs) == 1


def test_readable_text_reads_back() -> None:
    for p in CORPUS:
        m = load_bytes(p.read_bytes())
        assert dumps(m) == p.read_text(encoding="utf-8")


def test_the_schema_names_every_operation() -> None:
    s = schema()
    assert json.loads(json.dumps(s)) == s
    assert set(s["$defs"]["Kernel"]["properties"]["body"]["items"]["discriminator"]["mapping"]) == {
        "arg_reduce", "assume_in_bounds", "atomic_add", "atomic_and", "atomic_compare_exchange", "atomic_exchange", "atomic_load",
        "atomic_max", "atomic_min", "atomic_or", "atomic_store", "atomic_xor", "binary", "bitcast", "break", "broadcast", "buffer", "call",
        "cast", "compare", "constant", "continue", "contract", "domain", "extent", "fma", "for", "full", "gather", "get_field",
        "histogram", "if", "indices", "join", "load", "make_record", "parallel", "quantize", "quantized_dot", "random_bits",
        "random_uniform", "reduce", "region_fold", "region_scan", "reshape", "scaled_contract", "scan", "scatter_reduce", "select",
        "sparse_contract", "store", "subregion", "transpose", "unary", "unique_scatter", "while",
    }  # fmt: skip
    assert isinstance(load_bytes(text()), Module)
