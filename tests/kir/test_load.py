"""Any bytes give a module or coded diagnostics; what is wrong with one kernel costs that kernel alone."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path

import pytest

from eqkir.base.diagnostics import CODES, EqkirError
from eqkir.kir import Module, canonical, load_bytes, survey, verify
from eqkir.kir.positions import Positions

CORPUS = sorted((Path(__file__).parents[2] / "corpus" / "json").glob("*.json"))
GOOD = next(p for p in CORPUS if p.stem == "argmax_inner_f32").read_bytes()


def outcome(data: bytes) -> Module | None:
    """The module, or None after checking the diagnostics; any other exception fails the test."""
    try:
        m = load_bytes(data, "x.json")
    except EqkirError as e:
        assert 1 <= len(e.diagnostics) <= 20
        assert all(d.code in CODES and d.file == "x.json" and (d.line or 0) >= 1 for d in e.diagnostics)
        return None
    verify(m)
    return m


def test_every_prefix_is_refused() -> None:
    whole = GOOD.rstrip()
    for n in range(0, len(whole), 7):
        assert outcome(whole[:n]) is None


def test_flipped_bytes_never_escape() -> None:
    rng = random.Random(7)
    for _ in range(600):
        data = bytearray(GOOD)
        for _ in range(rng.randint(1, 3)):
            data[rng.randrange(len(data))] = rng.choice(b'{}[]",:0129-eE.\\ntM\x00\xff')
        outcome(bytes(data))


def test_values_of_any_type_anywhere_never_escape() -> None:
    rng = random.Random(11)
    base = json.loads(GOOD)
    junk = [None, True, 0, -1, 1.5, 2**63, 10**30, "", "x", "M", "v3", [], {}, [[]], ["mul", "M", "N"], {"op": "load"}, "\u2603", "a/b~c"]

    def places(x: object, path: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
        items = x.items() if isinstance(x, dict) else enumerate(x) if isinstance(x, list) else ()
        return [path, *(p for k, y in items for p in places(y, (*path, k)))]

    spots = [p for p in places(base) if p]
    for _ in range(800):
        data = json.loads(GOOD)
        for path in rng.sample(spots, 2):
            at = data
            try:
                for part in path[:-1]:
                    at = at[part]  # type: ignore[index]
                if rng.random() < 0.3:
                    del at[path[-1]]
                else:
                    at[path[-1]] = rng.choice(junk)
            except (KeyError, IndexError, TypeError, AttributeError):
                continue
        outcome(json.dumps(data).encode())


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 10_000_000, b'{"a":' * 2_000_000, b" " * 10_000_000, b"\x00" * 10_000_000, bytes(range(256)) * 40_000,
        b"[" + b"1," * 5_000_000 + b"1]", b'"' + b"a" * 10_000_000 + b'"', b"9" * 10_000_000, b"-" * 10_000_000,
        b'{"kir":1,"kernels":[' + b"1," * 4_000 + b"1]}",
        b'{"kir":1,"kernels":[{"name":"a","params":[],"body":[' + b"1," * 900_000 + b"1]}]}",
        b'{"kir":1,"kernels":[{"name":"a","params":[],"body":[{"op":"load","coords":[' + b"1," * 900_000 + b"1]}]}]}",
        b'{"kir":1,"kernels":[{"name":"a","params":[],"body":[' + b'{"op":"x"},' * 200_000 + b"1]}]}",
    ],
    ids=range(13),
)  # fmt: skip
def test_megabytes_of_junk_are_refused_and_do_not_hang(data: bytes) -> None:
    start = time.process_time()
    assert outcome(data) is None
    assert time.process_time() - start < 60


def test_nested_regions_to_the_limit() -> None:
    for depth in (10, 60, 190):
        body = '{"op":"parallel","domains":[],"body":{"body":[' * depth + "]}}" * depth
        outcome(f'{{"kir":1,"kernels":[{{"name":"a","params":[],"body":[{body}]}}]}}'.encode())


@pytest.mark.parametrize("fn", ["add", "min", "max", "sub"])
def test_a_deep_extent(fn: str) -> None:
    for depth in (20, 150):
        extent = f'["{fn}",' * depth + '"M"' + ",1]" * depth
        op = f'{{"op":"extent","results":["e"],"extent":{extent}}}'
        m = load_bytes(f'{{"kir":1,"kernels":[{{"name":"a","symbols":[{{"id":"M"}}],"params":[],"body":[{op}]}}]}}'.encode())
        assert [d.code for d in verify(m)] == ["EQK-KIR-NO-EFFECT"]


def test_a_broken_kernel_leaves_the_others() -> None:
    data = json.loads(GOOD)
    good = data["kernels"][0]
    data["kernels"] = [{**good, "name": "a"}, {"name": "b"}, 5, {**good, "name": "c"}]
    reading = survey(json.dumps(data, indent=1).encode(), "x.json")
    assert [k.name for k in reading.module.kernels] == ["a", "c"] and reading.indices == (0, 3)
    assert [(b.index, b.name) for b in reading.broken] == [(1, "b"), (2, None)]
    assert all(d.pointer.startswith(f"/kernels/{b.index}") for b in reading.broken for d in b.diagnostics)
    with pytest.raises(EqkirError):
        reading.whole()


def test_loading_the_corpus_and_its_canonical_text_agree() -> None:
    for p in CORPUS:
        m = load_bytes(p.read_bytes())
        assert canonical(load_bytes(canonical(m))) == canonical(m)


def test_lines_of_pointers() -> None:
    text = '{\n "a": [1,\n  {"b/c": 2,\n   "d~": [\n    3, 4]}],\n "a2": {}\n}\n'
    p = Positions(text, "f")
    want = {"": 1, "/a": 2, "/a/0": 2, "/a/1": 3, "/a/1/b~1c": 3, "/a/1/d~0/1": 5, "/a/1/d~0": 4, "/a2": 6, "/a2/x/y": 6}
    want |= {"/a/7": 2, "/zz": 1}
    assert {k: p.locate(k)[1] for k in want} == want
