"""Every code of the KIR front end has an example that gives it, at the right place, and nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest

from eqkir.base.diagnostics import CODES, EqkirError
from eqkir.kir import codes, kernel, load_bytes, load_file
from tests.kir.kit import VIEWS, N, found, op, text

LOOP: Any = {"op": "parallel", "domains": ["dm"]}


def combine(*body: Any, args: str = "f32 f32", yields: str = "z", **fields: Any) -> dict[str, Any]:
    named = [{"id": f"a{i}", "dtype": d} for i, d in enumerate(args.split())]
    region = {"args": named, "body": list(body), "yields": yields.split()}
    return op("reduce", "q", **{"xs": ["x"], "axes": [1], "identities": ["one"], "combine": region, **fields})


ADD = op("binary", "z", fn="add", x="a0", y="a1")


def loop(*body: Any) -> dict[str, Any]:
    return {**LOOP, "body": {"args": [{"id": "p", "dtype": "index"}], "body": list(body)}}


def patched(**fields: Any) -> bytes:
    return json.dumps({**json.loads(text()), **fields}).encode()


B, B1 = f"/kernels/0/body/{N}", f"/kernels/0/body/{N + 1}"
EXAMPLES: list[tuple[str, bytes, str]] = [
    # reading
    ("UTF8", b'{"kir": "\xff"}', ""),
    ("UTF8", b"\xef\xbb\xbf{}", ""),
    ("UTF8", text().replace(b'"k"', b'"\\udc80"'), "/kernels/0/name"),
    ("JSON", text()[:-3], ""),
    ("JSON", text() + b"]", ""),
    ("DEPTH", b"[" * 100_000, ""),
    ("DEPTH", b"[" * 202 + b"]" * 202, "/0" * 201),
    ("SIZE", b"[" + b"1," * 1_000_000 + b"1]", ""),
    ("SIZE", b'{"kir": 1, "kernels": [' + b"{}," * 4096 + b"{}]}", "/kernels"),
    ("DUPKEY", text().replace(b'"kir": 1', b'"kir": 1, "kir": 1'), ""),
    ("NUMBER", text().replace(b'"value": 1.0', b'"value": NaN'), "/kernels/0/body/6/value"),
    ("NUMBER", text().replace(b'"value": 1.0', b'"value": 1e999'), "/kernels/0/body/6/value"),
    ("NUMBER", text().replace(b'"value": 1.0', b'"value": ' + b"9" * 5000), "/kernels/0/body/6/value"),
    ("VERSION", patched(kir=2), "/kir"),
    ("VERSION", patched(kir=True), "/kir"),
    ("VERSION", b"{}", ""),
    ("OP", text(op("conv")), f"{B}/op"),
    ("FIELD", text({"results": ["q"]}), B),
    ("KIND", text(params=[{"kind": "tensor", "id": "X"}]), "/kernels/0/params/0/kind"),
    ("FIELD", text(op("cast", "q", x="x")), B),
    ("FIELD", text(op("cast", "q", x="x", dtype="f16", mode="rne")), f"{B}/mode"),
    ("VALUE", b"[]", ""),
    ("VALUE", text(op("cast", "q", x="x", dtype="f12")), f"{B}/dtype"),
    ("VALUE", text(op("transpose", "q", x="x", perm=["1", 0])), f"{B}/perm/0"),
    ("VALUE", text(op("domain", "q", end="M", step=0)), f"{B}/step"),
    ("VALUE", text(op("domain", "q", end="M", step=-1)), f"{B}/step"),
    ("VALUE", text(op("extent", "q", extent=1.5)), f"{B}/extent"),
    ("VALUE", text(op("cast", "1q", x="x", dtype="f16")), f"{B}/results/0"),
    # names
    ("NAME", text(op("cast", "x", x="x", dtype="f16")), f"{B}/results/0"),
    ("NAME", text(symbols=[{"id": "M"}, {"id": "N"}, {"id": "M"}]), "/kernels/0/symbols/2/id"),
    ("NAME", json.dumps({"kir": 1, "kernels": json.loads(text())["kernels"] * 2}).encode(), "/kernels/1/name"),
    ("ID", text(op("cast", "q", x="nothing", dtype="f16")), f"{B}/x"),
    ("ID", text(op("cast", "q", x="X", dtype="f16")), f"{B}/x"),
    ("ID", text(op("cast", "q", x="M", dtype="f16")), f"{B}/x"),
    ("ORDER", text(op("cast", "q", x="w", dtype="f16"), op("cast", "w", x="x", dtype="f32")), f"{B}/x"),
    ("CYCLE", text(op("cast", "q", x="q", dtype="f16")), f"{B}/x"),
    ("CYCLE", text(op("cast", "q", x="w", dtype="f32"), op("cast", "w", x="q", dtype="f32")), f"{B}/x"),
    ("SCOPE", text(loop(op("cast", "q", x="p", dtype="i32")), op("cast", "w", x="q", dtype="i64")), f"{B1}/x"),
    ("SCOPE", text(combine(ADD), op("cast", "w", x="a0", dtype="f16")), f"{B1}/x"),
    ("SYMBOL", text(op("extent", "q", extent="K")), f"{B}/extent"),
    ("SYMBOL", text(op("full", "q", value="one", shape=[["mul", "M", "eps"]])), f"{B}/shape/0"),
    (
        "SYMBOL",
        text(params=[*VIEWS, {"kind": "view", "id": "Z", "role": "in", "dtype": "f32", "shape": ["s"]}]),
        "/kernels/0/params/6/shape/0",
    ),
    ("SYMBOL", text(equal=[["M", "K"]]), "/kernels/0/equal/0/1"),
    ("SYMBOL", text(symbols=[{"id": "M", "min": 3, "max": 4, "multiple_of": 5}, {"id": "N"}]), "/kernels/0/symbols/0"),
    ("EXTENT", text(op("full", "q", value="one", shape=[-1])), f"{B}/shape/0"),
    ("EXTENT", text(op("extent", "q", extent=["pow", "M", 2])), f"{B}/extent"),
    ("EXTENT", text(op("extent", "q", extent=["floordiv", "M", 0])), f"{B}/extent"),
    ("EXTENT", text(op("extent", "q", extent=["mod", "M", "N"])), f"{B}/extent"),
    ("EXTENT", text(op("extent", "q", extent=1 << 63)), f"{B}/extent"),
    ("VIEW", text(op("load", "q", view="Z", coords=["r", "c"])), f"{B}/view"),
    ("VIEW", text(noalias=[["X", "Z"]]), "/kernels/0/noalias/0/1"),
    ("NOALIAS", text(noalias=[["X", "X"]]), "/kernels/0/noalias/0/1"),
    ("NOALIAS", text(noalias=[["X"]]), "/kernels/0/noalias/0"),
    ("CONSTEXPR", text(params=[*VIEWS, {"kind": "constexpr", "id": "f", "type": "int", "default": 1.5}]), "/kernels/0/params/6/default"),
    (
        "CONSTEXPR",
        text(params=[*VIEWS, {"kind": "constexpr", "id": "f", "type": "enum", "default": "c", "choices": ["a", "b"]}]),
        "/kernels/0/params/6/choices",
    ),
    # types
    ("KIND-OF-VALUE", text(op("cast", "q", x="dm", dtype="i32")), f"{B}/x"),
    ("KIND-OF-VALUE", text(op("indices", "q", domain="c")), f"{B}/domain"),
    ("DTYPE", text(op("binary", "q", fn="add", x="x", y="n3")), f"{B}/y"),
    ("DTYPE", text(op("binary", "q", fn="div", x="n3", y="n3")), f"{B}/x"),
    ("DTYPE", text(op("binary", "q", fn="floordiv", x="x", y="x")), f"{B}/x"),
    ("DTYPE", text(op("unary", "q", fn="exp", x="n3")), f"{B}/x"),
    ("DTYPE", text(op("select", "q", cond="x", x="x", y="x")), f"{B}/cond"),
    ("DTYPE", text(op("bitcast", "q", x="x", dtype="i64")), f"{B}/dtype"),
    ("DTYPE", text(op("load", "q", view="X", coords=["r", "one"])), f"{B}/coords/1"),
    ("DTYPE", text(op("load", "q", view="X", coords=["r", "c"], fill="n3")), f"{B}/fill"),
    ("DTYPE", text(op("store", view="V", coords=["c"], value="one")), f"{B}/value"),
    ("DTYPE", text(op("reduce", "q", xs=["x"], axes=[1], fn="any")), f"{B}/xs/0"),
    ("DTYPE", text(op("contract", "q", lhs="x", rhs="x", reduce=[[1, 1]], acc="f16")), f"{B}/acc"),
    ("SHAPE", text(op("binary", "q", fn="add", x="im", y="c")), f"{B}/y"),
    ("SHAPE", text(op("reshape", "q", x="x", shape=["M", "M"])), f"{B}/shape"),
    ("SHAPE", text(op("broadcast", "q", x="x", shape=["M", 1])), f"{B}/shape"),
    ("SHAPE", text(op("cast", "q", x="c", dtype="i32"), op("store", view="V", coords=["i0"], value="q")), f"{B1}/value"),
    ("SHAPE", text(op("full", "q", value="x", shape=[2])), f"{B}/value"),
    ("SHAPE", text(op("contract", "q", lhs="x", rhs="x", reduce=[[0, 1]], acc="f32")), f"{B}/reduce/0"),
    ("AXIS", text(op("reduce", "q", xs=["x"], axes=[2], fn="sum")), f"{B}/axes/0"),
    ("AXIS", text(op("reduce", "q", xs=["x"], axes=[0, 0], fn="sum")), f"{B}/axes/1"),
    ("AXIS", text(op("reduce", "q", xs=["x"], axes=[], fn="sum")), f"{B}/axes"),
    ("AXIS", text(op("transpose", "q", x="x", perm=[0])), f"{B}/perm"),
    ("AXIS", text(op("contract", "q", lhs="x", rhs="x", reduce=[[1, 1]], batch=[[1, 0]], acc="f32")), f"{B}/reduce/0/0"),
    ("COORDS", text(op("load", "q", view="X", coords=["r"])), f"{B}/coords"),
    ("RESULTS", text(op("cast", "q w", x="x", dtype="f16")), f"{B}/results"),
    ("RESULTS", text(op("store", "q", view="V", coords=["c"], value="n3")), f"{B}/results"),
    ("CONSTANT", text(op("constant", "q", dtype="i8", value=300)), f"{B}/value"),
    ("CONSTANT", text(op("constant", "q", dtype="i8", value=1.0)), f"{B}/value"),
    ("CONSTANT", text(op("constant", "q", dtype="bool", value=1)), f"{B}/value"),
    ("CONSTANT", text(op("constant", "q", dtype="f32", value=True)), f"{B}/value"),
    ("CONSTANT", text(op("constant", "q", dtype="f32", value="one")), f"{B}/value"),
    ("CONSTANT", text(op("constant", "q", dtype="f8e4m3fn", value=500.0)), f"{B}/value"),
    ("REGION", text(combine(ADD, args="f32 f32 f32")), f"{B}/combine/args"),
    ("REGION", text(combine(ADD, args="f32 f64")), f"{B}/combine/args"),
    ("REGION", text(combine(ADD, yields="z z")), f"{B}/combine/yields"),
    ("REGION", text(combine(op("compare", "z", fn="lt", x="a0", y="a1"))), f"{B}/combine/yields/0"),
    ("REGION", text(combine(ADD, identities=[])), f"{B}/identities"),
    ("REGION", text(combine(op("constant", "j", dtype="i32", value=0), op("load", "z", view="W", coords=["j"]))), f"{B}/combine/body/1"),
    ("REGION", text(combine(op("binary", "z", fn="add", x="a0", y="one"))), f"{B}/combine/body/0/y"),
    ("REGION", text(combine(op("binary", "z", fn="add", x="a0", y="eps"))), f"{B}/combine/body/0/y"),
    ("REGION", text(op("reduce", "q", xs=["x"], axes=[1])), B),
    ("REGION", text(op("reduce", "q", xs=["x"], axes=[1], fn="sum", identities=["one"])), f"{B}/identities"),
    ("REGION", text({**LOOP, "body": {"args": []}}), f"{B}/body/args"),
    # effects
    ("READ-OUT", text(op("load", "q", view="Y", coords=["r", "c"])), f"{B}/view"),
    ("WRITE-IN", text(op("store", view="X", coords=["r", "c"], value="x")), f"{B}/view"),
    ("NO-EFFECT", text(store=False), "/kernels/0/body"),
    ("CONFLICT", text(loop(op("store", view="V", coords=["i0"], value="n3"))), f"{B}/body/body/0"),
    ("CONFLICT", text(op("binary", "q", fn="mul", x="c", y="i0"), op("store", view="V", coords=["q"], value="n3")), B1),
    (
        "CONFLICT",  # two points write i + j
        text(
            {
                "op": "parallel",
                "domains": ["dm", "dn"],
                "body": {
                    "args": [{"id": "p", "dtype": "index"}, {"id": "q", "dtype": "index"}],
                    "body": [op("binary", "w", fn="add", x="p", y="q"), op("store", view="V", coords=["w"], value="n3")],
                },
            }
        ),
        f"{B}/body/body/1",
    ),
    (
        "CONFLICT",  # a point writes what the next one reads
        text(
            loop(
                op("binary", "w", fn="add", x="p", y="i1"),
                op("load", "l", view="V", coords=["w"]),
                op("store", view="V", coords=["p"], value="l"),
            )
        ),
        f"{B}/body/body/2",
    ),
    ("BOUNDS", text(op("constant", "q", dtype="i32", value=-1), op("load", "w", view="X", coords=["q", "c"])), f"{B1}/coords/0"),
    ("BOUNDS", text(op("constant", "q", dtype="i32", value=4), op("load", "w", view="W", coords=["q"])), f"{B1}/coords/0"),
    ("BOUNDS", text(op("binary", "q", fn="add", x="c", y="i1"), op("load", "w", view="V", coords=["q"])), f"{B1}/coords/0"),
    ("SHIFT", text(op("constant", "q", dtype="i32", value=32), op("binary", "w", fn="shl", x="n3", y="q")), f"{B1}/y"),
    ("SHIFT", text(op("constant", "q", dtype="i32", value=-1), op("binary", "w", fn="shr", x="n3", y="q")), f"{B1}/y"),
    ("DIVISION", text(op("constant", "q", dtype="i32", value=0), op("binary", "w", fn="mod", x="n3", y="q")), f"{B1}/y"),
    ("CAST", text(op("constant", "q", dtype="f32", value="nan"), op("cast", "w", x="q", dtype="i32")), f"{B1}/x"),
    ("CAST", text(op("constant", "q", dtype="f32", value=300.5), op("cast", "w", x="q", dtype="u8")), f"{B1}/x"),
    ("CAST", text(op("constant", "q", dtype="f32", value=500.0), op("cast", "w", x="q", dtype="f8e4m3fn")), f"{B1}/x"),
]  # fmt: skip


@pytest.mark.parametrize(("key", "data", "pointer"), EXAMPLES, ids=[f"{i}-{k}" for i, (k, *_) in enumerate(EXAMPLES)])
def test_one_mistake_gives_its_code_and_place_alone(key: str, data: bytes, pointer: str) -> None:
    ds = found(data)
    assert [(d.code, d.pointer) for d in ds] == [(f"EQK-KIR-{key}", pointer)], "\n".join(map(str, ds))


def test_the_base_of_the_examples_is_sound() -> None:
    assert found(text()) == []
    assert found(text(combine(ADD))) == []
    assert found(text(loop(op("cast", "q", x="p", dtype="i32")))) == []


def test_every_code_has_an_example_and_an_explanation() -> None:
    from tests.kir.test_diagnostics_more import EXAMPLES as MORE

    elsewhere = {"FILE", "BUILD"} | {k for k, *_ in MORE}
    assert {k for k, *_ in EXAMPLES} | elsewhere == set(codes.CODES)
    assert all(len(CODES[c][1]) > 20 for c in codes.CODES.values())


def test_a_file_that_cannot_be_read(tmp_path: Any) -> None:
    for path in (tmp_path / "none.json", tmp_path, "a\0b"):
        with pytest.raises(EqkirError, match="EQK-KIR-FILE"):
            load_file(path)


def test_the_builder_reports_the_statement() -> None:
    with pytest.raises(EqkirError) as e:

        @kernel
        def wrong(k: Any) -> None:
            (n,) = k.symbols("N")
            x = k.view("X", "inout", "f32", (n,))
            x[:] = "text"  # this line

    (d,) = e.value.diagnostics
    assert (d.code, d.file) == ("EQK-KIR-BUILD", "test_diagnostics.py")
    assert d.line and "# this line" in open(__file__, encoding="utf-8").readlines()[d.line - 1]


def test_several_mistakes_are_reported_at_once_with_their_lines() -> None:
    data = text(op("cast", "q", x="a", dtype="f16"), op("unary", "w", fn="exp", x="n3"), op("cast", "u", x="w", dtype="f16"))
    from eqkir.kir import survey, verify

    reading = survey(data, "k.json")
    ds = verify(reading.whole(), reading.positions)
    assert [d.code for d in ds] == ["EQK-KIR-ID", "EQK-KIR-DTYPE"]
    lines = data.decode().splitlines()
    for d, word in zip(ds, ('"x": "a"', '"x": "n3"'), strict=True):
        assert d.file == "k.json" and d.line and word in lines[d.line - 1]


def test_at_most_twenty_are_raised() -> None:
    from eqkir.kir import check

    with pytest.raises(EqkirError) as e:
        check(load_bytes(text(*(op("cast", f"q{i}", x="a", dtype="f16") for i in range(50)))))
    assert len(e.value.diagnostics) == 20
