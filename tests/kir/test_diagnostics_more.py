"""Mistakes with control, buffers, records, helpers, folds, atomics and encodings: one code each, at the right place."""

from __future__ import annotations

import json
from typing import Any

import pytest

from eqkir.base.diagnostics import EqkirError
from eqkir.kir import load_bytes, verify
from eqkir.kir import migrate as migration
from tests.kir.kit import N, found, op, text

B, B1, B2 = (f"/kernels/0/body/{N + i}" for i in range(3))


def arg(id: str, dtype: str = "f32", *shape: Any, **more: Any) -> dict[str, Any]:
    return {"id": id, "dtype": dtype, **({"shape": list(shape)} if shape else {}), **more}


def region(args: list[dict[str, Any]], *body: Any, yields: str = "") -> dict[str, Any]:
    return {"args": args, "body": list(body), "yields": yields.split()}


def for_(*body: Any, inits: str = "", args: Any = (), yields: str = "", results: str = "", **more: Any) -> dict[str, Any]:
    inner = region([arg("p", "index"), *args], *body, yields=yields)
    return op("for", results, **{"domain": "dm", "inits": inits.split(), "body": inner, **more})


def while_(cond: dict[str, Any], body: dict[str, Any], **more: Any) -> dict[str, Any]:
    return op("while", "w", inits=["n3"], cond=cond, body=body, **more)


COND = region([arg("a", "i32")], op("compare", "z", fn="lt", x="a", y="n3"), yields="z")
STEP = region([arg("b", "i32")], op("binary", "z2", fn="add", x="b", y="n3"), yields="z2")
F1, F2 = arg("k", "f32"), arg("k2", "f32")
MINE = op("buffer", "m", dtype="f32", shape=["N"], init="one")
BARE = op("buffer", "m", dtype="f32", shape=["N"])
REC = op("make_record", "rec", names=["a", "b"], values=["x", "n3"])


def fold(summarize: Any = None, combine: Any = None, name: str = "region_fold", results: str = "q", **more: Any) -> dict[str, Any]:
    s = summarize or region(
        [arg("sl", "domain"), arg("xs", "f32", "M", "sl")], op("reduce", "sm", xs=["xs"], axes=[0, 1], fn="sum"), yields="sm"
    )
    c = combine or region([arg("l"), arg("h")], op("binary", "lh", fn="add", x="l", y="h"), yields="lh")
    fields = {"domain": "dn", "xs": ["x"], "axes": [1], "identity": ["one"], "summarize": s, "combine": c}
    return op(name, results, **{**fields, **more})


def scan(emit: dict[str, Any], **more: Any) -> dict[str, Any]:
    apply = region([arg("tr"), arg("st")], op("binary", "ts", fn="add", x="tr", y="st"), yields="ts")
    return fold(name="region_scan", results="q q2", **{"init": ["one"], "apply": apply, "emit": emit, "out_axes": [1], **more})


SLICE = [arg("s2", "domain"), arg("x2", "f32", "M", "s2"), arg("before")]
EMIT = region(SLICE, op("binary", "e", fn="add", x="x2", y="before"), yields="e")


def module(*body: Any, helpers: list[Any], **kernel: Any) -> bytes:
    return json.dumps({**json.loads(text(*body, **kernel)), "helpers": helpers}).encode()


def helper(*body: Any, name: str = "h", args: Any = None, yields: str = "hy", **more: Any) -> dict[str, Any]:
    given = [arg("hx", "f32", "A", "B")] if args is None else args
    return {"name": name, "symbols": ["A", "B"], "args": given, "body": list(body), "yields": yields.split(), **more}


TWICE = op("binary", "hy", fn="add", x="hx", y="hx")
CALL = op("call", "q", helper="h", args=["x"])
U8 = [op("constant", "z8", dtype="u8", value=0)]


def full(id: str, value: str, *shape: Any) -> dict[str, Any]:
    return op("full", id, value=value, shape=list(shape))


EXAMPLES: list[tuple[str, bytes, str]] = [
    # control
    ("CARRY", text(for_(inits="one", args=[arg("k", "i32")], yields="k", results="q")), f"{B}/body/args/1"),
    ("CARRY", text(for_(inits="one", args=[F1], yields="p", results="q")), f"{B}/body/yields/0"),
    ("CARRY", text(for_(inits="im", args=[arg("k", "index", "N")], yields="k", results="q")), f"{B}/body/args/1"),
    (
        "CARRY",
        text(for_(op("break", cond="t", values=["n3"]), inits="one", args=[F1], yields="k", results="q")),
        f"{B}/body/body/0/values/0",
    ),
    ("CARRY", text(for_(op("continue", cond="t"), inits="one", args=[F1], yields="k", results="q")), f"{B}/body/body/0/values"),
    ("CARRY", text(op("if", "q", cond="t", then=region([], yields="one"), otherwise=region([], yields="n3"))), f"{B}/otherwise/yields/0"),
    ("RESULTS", text(for_(inits="one", args=[F1], yields="k")), f"{B}/results"),
    ("REGION", text(for_(inits="one", args=[F1], results="q")), f"{B}/body/yields"),
    ("REGION", text(for_(inits="one", yields="one", results="q")), f"{B}/body/args"),
    ("REGION", text(op("if", "q", cond="t", then=region([arg("k")], yields="k"))), f"{B}/then/args"),
    ("REGION", text(op("if", "q", cond="t", then=region([], yields="one"))), f"{B}/otherwise/yields"),
    ("REGION", text(while_({**COND, "yields": ["a"]}, STEP)), f"{B}/cond/yields/0"),
    ("KIND-OF-VALUE", text(for_(domain="c")), f"{B}/domain"),
    ("DTYPE", text(op("if", cond="n3", then=region([]))), f"{B}/cond"),
    ("SHAPE", text(op("compare", "q", fn="lt", x="x", y="x"), op("if", cond="q", then=region([]))), f"{B1}/cond"),
    ("LOOP", text(op("break", cond="t")), f"{B}/op"),
    ("LOOP", text(op("if", cond="t", then=region([], op("continue", cond="t")))), f"{B}/then/body/0/op"),
    (
        "LOOP",  # a parallel is not left
        text(for_(op("parallel", domains=["dn"], body=region([arg("j", "index")], op("break", cond="t"))))),
        f"{B}/body/body/0/body/body/0/op",
    ),
    ("LOOP", text(while_(region([arg("a", "i32")], op("break", cond="t", values=["a"]), yields="t"), STEP)), f"{B}/cond/body/0/op"),
    ("SCOPE", text(for_(op("cast", "q", x="p", dtype="i32")), op("cast", "w", x="q", dtype="i64")), f"{B1}/x"),
    (
        "SCOPE",
        text(op("if", cond="t", then=region([], op("cast", "q", x="one", dtype="f16"))), op("cast", "w", x="q", dtype="f32")),
        f"{B1}/x",
    ),
    # effects
    (
        "PURITY",
        text(while_(region([arg("a", "i32")], op("store", view="V", coords=["c"], value="a"), yields="t"), STEP)),
        f"{B}/cond/body/0",
    ),
    (
        "PURITY",
        text(while_(region([arg("a", "i32")], op("atomic_load", "q", view="V", coords=["c"]), yields="t"), STEP)),
        f"{B}/cond/body/0",
    ),
    (
        "PURITY",
        text(
            fold(
                combine=region(
                    [arg("l"), arg("h")], op("constant", "j", dtype="i32", value=0), op("load", "lh", view="W", coords=["j"]), yields="lh"
                )
            )
        ),
        f"{B}/combine/body/1",
    ),
    (
        "PURITY",
        text(
            fold(
                summarize=region(
                    [arg("sl", "domain"), arg("xs", "f32", "M", "sl")],
                    op("reduce", "sm", xs=["xs"], axes=[0, 1], fn="sum"),
                    op("constant", "j", dtype="i32", value=0),
                    op("store", view="W", coords=["j"], value="sm"),
                    yields="sm",
                )
            )
        ),
        f"{B}/summarize/body/2",
    ),
    ("UNWRITTEN", text(BARE, op("load", "q", view="m", coords=["c"])), f"{B1}/view"),
    ("UNWRITTEN", text(BARE, op("atomic_add", "q", view="m", coords=["c"], value="one")), f"{B1}/view"),
    ("READ-OUT", text(op("scatter_reduce", view="Y", coords=["r", "c"], value="x", fn="add")), f"{B}/view"),
    ("WRITE-IN", text(op("atomic_add", "q", view="X", coords=["r", "c"], value="x")), f"{B}/view"),
    ("NO-EFFECT", text(MINE, op("store", view="m", coords=["c"], value="one"), store=False), "/kernels/0/body"),
    ("BOUNDS", text(MINE, op("binary", "q", fn="add", x="c", y="i1"), op("store", view="m", coords=["q"], value="one")), f"{B2}/coords/0"),
    (
        "BOUNDS",
        text(for_(op("constant", "i5", dtype="index", value=5), op("load", "q", view="W", coords=["i5"]))),
        f"{B}/body/body/1/coords/0",
    ),
    (
        "CONFLICT",  # a buffer outside the parallel
        text(MINE, op("parallel", domains=["dm"], body=region([arg("j", "index")], op("store", view="m", coords=["i0"], value="one")))),
        f"{B1}/body/body/0",
    ),
    # resources
    ("VIEW", text(op("load", "q", view="x", coords=["c"])), f"{B}/view"),
    ("VIEW", text(op("assume_in_bounds", "q", x="c", view="Q", axis=0)), f"{B}/view"),
    ("AXIS", text(op("assume_in_bounds", "q", x="c", view="V", axis=1)), f"{B}/axis"),
    ("KIND-OF-VALUE", text(MINE, op("cast", "q", x="m", dtype="f16")), f"{B1}/x"),
    ("SHAPE", text(op("buffer", "m", dtype="f32", shape=["N"], init="x")), f"{B}/init"),
    ("DTYPE", text(op("buffer", "m", dtype="f32", shape=["N"], init="n3")), f"{B}/init"),
    ("ORDER", text(op("load", "q", view="m", coords=["c"]), MINE), f"{B}/view"),
    ("COORDS", text(op("gather", "q", x="x", coords=["c"])), f"{B}/coords"),
    ("DTYPE", text(op("scatter_reduce", view="W", coords=["i0"], value="one", fn="xor")), f"{B}/fn"),
    ("ATOMIC", text(op("atomic_or", "q", view="W", coords=["i0"], value="one")), f"{B}/view"),
    (
        "ATOMIC",
        text(op("buffer", "m", dtype="bool", shape=[4], init="t"), op("atomic_exchange", "q", view="m", coords=["i0"], value="t")),
        f"{B1}/view",
    ),
    ("VALUE", text(op("atomic_store", view="W", coords=["i0"], value="one", order="acquire")), f"{B}/order"),
    ("DTYPE", text(op("atomic_compare_exchange", "q w", view="V", coords=["i0"], expected="n3", value="one")), f"{B}/value"),
    # parts of domains, extents that are values
    ("SUBREGION", text(op("domain", "d", end="N", step=2), op("subregion", "q", domain="d", begin=0, end="N")), f"{B1}/domain"),
    ("SUBREGION", text(op("subregion", "q", domain="dn", begin=-1, end=1)), f"{B}/begin"),
    ("SUBREGION", text(op("domain", "d", end=3), op("subregion", "q", domain="d", begin=0, end=4)), f"{B1}/end"),
    ("SYMBOL", text(op("domain", "q", end="one")), f"{B}/end"),
    ("ORDER", text(op("domain", "q", end="w"), op("constant", "w", dtype="index", value=3)), f"{B}/end"),
    ("SCOPE", text(for_(op("constant", "w", dtype="index", value=3)), op("full", "q", value="one", shape=["w"])), f"{B1}/shape/0"),
    # scans, arg-reductions, histograms
    ("AXIS", text(op("scan", "q", xs=["x"], axis=2, fn="cumsum")), f"{B}/axis"),
    ("REGION", text(op("scan", "q", xs=["x"], axis=1)), B),
    (
        "REGION",  # an exclusive scan needs its identity
        text(op("scan", "q", xs=["x"], axis=1, exclusive=True, combine=region([arg("l"), arg("h")], yields="h"))),
        f"{B}/identities",
    ),
    ("DTYPE", text(op("arg_reduce", "q w", fn="argmax", x="x", axis=0, dtype="f32")), f"{B}/dtype"),
    ("RESULTS", text(op("arg_reduce", "q", fn="argmax", x="x", axis=0)), f"{B}/results"),
    ("DTYPE", text(op("histogram", "q", x="x", bins=4)), f"{B}/x"),
    ("DTYPE", text(op("random_bits", "q", seed="eps", counter="c")), f"{B}/seed"),
    ("APPROXIMATE", text(op("unary", "q", fn="exp", x="x", approximate=True)), f"{B}/approximate"),
    (
        "APPROXIMATE",
        text(op("cast", "q", x="x", dtype="f16"), op("binary", "w", fn="div", x="q", y="q", flush_to_zero=True)),
        f"{B1}/flush_to_zero",
    ),
    # records
    ("RECORD", text(op("make_record", "q", names=["a", "a"], values=["x", "x"])), f"{B}/names/1"),
    ("RECORD", text(op("make_record", "q", names=["a"], values=["x", "x"])), f"{B}/names"),
    ("RECORD", text(REC, op("get_field", "q", x="rec", name="c")), f"{B1}/name"),
    ("RECORD", text(op("get_field", "q", x="x", name="a")), f"{B}/x"),
    ("KIND-OF-VALUE", text(REC, op("cast", "q", x="rec", dtype="f16")), f"{B1}/x"),
    ("KIND-OF-VALUE", text(op("make_record", "q", names=["a"], values=["dm"])), f"{B}/values/0"),
    (
        "RECORD",
        text(for_(inits="one", args=[arg("k", "f32", fields=[{"name": "a", "dtype": "f32"}])], yields="k", results="q")),
        f"{B}/body/args/1/fields",
    ),
    (
        "CARRY",
        text(REC, for_(inits="rec", args=[arg("k", "record", fields=[{"name": "a", "dtype": "f32"}])], yields="k", results="q")),
        f"{B1}/body/args/1",
    ),
    # folds over slices
    (
        "SLICE",
        text(
            fold(
                summarize=region(
                    [arg("sl", "domain"), arg("xs", "f32", "M", "sl")],
                    op("extent", "e", extent="sl"),
                    op("cast", "sm", x="e", dtype="f32"),
                    yields="sm",
                )
            )
        ),
        f"{B}/summarize/body/0/extent",
    ),
    (
        "SLICE",
        text(
            fold(
                summarize=region(
                    [arg("sl", "domain"), arg("xs", "f32", "M", "sl")],
                    op("domain", "e", end="sl"),
                    op("reduce", "sm", xs=["xs"], axes=[0, 1], fn="sum"),
                    yields="sm",
                )
            )
        ),
        f"{B}/summarize/body/0/end",
    ),
    (
        "SLICE",
        text(
            fold(
                summarize=region(
                    [arg("sl", "domain"), arg("xs", "f32", "M", "sl")],
                    op("subregion", "e", domain="sl", begin=0, end=1),
                    op("reduce", "sm", xs=["xs"], axes=[0, 1], fn="sum"),
                    yields="sm",
                )
            )
        ),
        f"{B}/summarize/body/0/domain",
    ),
    (
        "REGION",  # a value from outside that is no capture
        text(
            fold(
                summarize=region(
                    [arg("sl", "domain"), arg("xs", "f32", "M", "sl")],
                    op("binary", "e", fn="mul", x="xs", y="one"),
                    op("reduce", "sm", xs=["e"], axes=[0, 1], fn="sum"),
                    yields="sm",
                )
            )
        ),
        f"{B}/summarize/body/0/y",
    ),
    ("REGION", text(fold(captures=["eps"])), f"{B}/summarize/args"),
    ("REGION", text(fold(identity=["n3"])), f"{B}/summarize/yields/0"),
    ("SHAPE", text(fold(domain="dm")), f"{B}/xs/0"),
    ("AXIS", text(fold(axes=[])), f"{B}/axes"),
    ("SHAPE", text(scan(EMIT, out_axes=[0])), f"{B}/emit/yields/0"),
    ("AXIS", text(scan(EMIT, out_axes=[])), f"{B}/out_axes"),
    (
        "SLICE",  # the slice's extent along a second axis
        text(scan(region(SLICE, op("contract", "e", lhs="x2", rhs="x2", reduce=[[0, 0]], acc="f32"), yields="e"))),
        f"{B}/emit/yields/0",
    ),
    # helpers
    ("HELPER", module(CALL, helpers=[helper(TWICE, name="g")]), f"{B}/helper"),
    ("HELPER", module(op("call", "q", helper="h"), helpers=[helper(TWICE)]), f"{B}/args"),
    ("HELPER", module(op("call", "q", helper="h", args=["c"]), helpers=[helper(TWICE)]), f"{B}/args/0"),
    ("HELPER", module(CALL, helpers=[helper(TWICE, constexprs=[{"id": "f", "type": "int", "default": 1}])]), f"{B}/helper"),
    ("HELPER", module(helpers=[helper(TWICE, symbols=["A", "B", "C"])]), "/helpers/0/symbols/2"),
    (
        "HELPER",
        module(
            helpers=[
                helper(
                    op("load", "n", view="hv", coords=[]),
                    op("full", "hy", value="hz", shape=["n"]),
                    args=[arg("hz")],
                    symbols=[],
                    views=[{"id": "hv", "role": "in", "dtype": "i32", "shape": []}],
                )
            ]
        ),
        "/helpers/0/yields/0",
    ),
    ("RECURSION", module(helpers=[helper(op("call", "hy", helper="h", args=["hx"]))]), "/helpers/0"),
    ("NAME", module(CALL, helpers=[helper(TWICE), helper(TWICE)]), "/helpers/1/name"),
    ("ID", module(CALL, helpers=[helper(op("binary", "hy", fn="add", x="hx", y="one"))]), "/helpers/0/body/0/y"),
    ("DTYPE", module(CALL, helpers=[helper(op("unary", "hy", fn="not", x="hx"))]), "/helpers/0/body/0/x"),
    (
        "PURITY",
        module(
            op("call", helper="h", args=["n3"], views=["V"]),
            helpers=[
                helper(
                    op("domain", "d", end="A"),
                    op("indices", "i", domain="d"),
                    op("store", view="hv", coords=["i"], value="hx"),
                    args=[arg("hx", "i32")],
                    symbols=["A"],
                    yields="",
                    effect="pure",
                    views=[{"id": "hv", "role": "inout", "dtype": "i32", "shape": ["A"]}],
                )
            ],
        ),
        "/helpers/0/body/2",
    ),
    (
        "WRITE-IN",  # an effect of a helper is said at its call
        module(
            op("call", helper="h", args=["n3"], views=["V"]),
            params=[{**v, "role": "in"} if v.get("id") == "V" else v for v in json.loads(text())["kernels"][0]["params"]],
            helpers=[
                helper(
                    op("domain", "d", end="A"),
                    op("indices", "i", domain="d"),
                    op("store", view="hv", coords=["i"], value="hx"),
                    args=[arg("hx", "i32")],
                    symbols=["A"],
                    yields="",
                    effect="effectful",
                    views=[{"id": "hv", "role": "inout", "dtype": "i32", "shape": ["A"]}],
                )
            ],
        ),
        B,
    ),
    # encodings
    (
        "FORMAT",
        text(
            *U8,
            full("a", "z8", 3, 2, 16),
            full("sa", "z8", 3, 2),
            full("b", "z8", 2, 16, 5),
            full("sb", "z8", 2, 5),
            op("scaled_contract", "q", lhs="a", lhs_scale="sa", rhs="b", rhs_scale="sb", lhs_format="e2m1", rhs_format="e4m3"),
        ),
        f"/kernels/0/body/{N + 5}/rhs",
    ),
    ("FORMAT", text(op("quantize", "q", x="x")), f"{B}/x"),
    (
        "FORMAT",
        text(*U8, full("a", "z8", 3, 144), full("b", "z8", 2, 292), op("quantized_dot", "q", lhs="a", rhs="b")),
        f"/kernels/0/body/{N + 3}/rhs",
    ),
    (
        "FORMAT",
        text(
            *U8,
            full("b", "one", 6, "N"),
            full("a", "one", "M", 3),
            full("e", "z8", "M", 3),
            op("sparse_contract", "q", lhs="a", meta="e", rhs="b", pattern="two_of_four", acc="f32"),
        ),
        f"/kernels/0/body/{N + 4}/rhs",
    ),
]


@pytest.mark.parametrize(("key", "data", "pointer"), EXAMPLES, ids=[f"{i}-{k}" for i, (k, *_) in enumerate(EXAMPLES)])
def test_one_mistake_gives_its_code_and_place_alone(key: str, data: bytes, pointer: str) -> None:
    ds = found(data)
    assert [(d.code, d.pointer) for d in ds] == [(f"EQK-KIR-{key}", pointer)], "\n".join(map(str, ds))


def test_the_bases_of_the_examples_are_sound() -> None:
    sound = [
        text(for_(inits="one", args=[F1], yields="k", results="q")), text(while_(COND, STEP)), text(fold()), text(scan(EMIT)),
        text(MINE, op("load", "q", view="m", coords=["c"])), text(REC, op("get_field", "q", x="rec", name="a")),
        module(CALL, helpers=[helper(TWICE)]), text(op("subregion", "q", domain="dn", begin="s", end="N")),
    ]  # fmt: skip
    assert [found(s) for s in sound] == [[]] * len(sound)


def test_a_mistake_in_a_helper_is_said_once_and_leaves_other_kernels() -> None:
    data = json.loads(module(CALL, helpers=[helper(op("unary", "hy", fn="not", x="hx"))]))
    data["kernels"].append({**json.loads(text())["kernels"][0], "name": "other"})
    assert [d.pointer for d in verify(load_bytes(json.dumps(data).encode()))] == ["/helpers/0/body/0/x"]


def test_what_a_condition_guards_is_not_judged() -> None:
    outside = op("load", "q", view="W", coords=["i9"])
    nine = op("constant", "i9", dtype="index", value=9)
    assert found(text(nine, op("if", cond="t", then=region([], outside)))) == []
    assert found(text(nine, for_(op("break", cond="t"), outside))) == []
    assert [d.code for d in found(text(nine, outside))] == ["EQK-KIR-BOUNDS"]


def test_an_older_version_is_migrated_and_a_newer_one_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    old = text().replace(b'"kir": 1', b'"kir": 0').replace(b'"end":', b'"stop":')

    def step(data: dict[str, Any]) -> dict[str, Any]:
        renamed = json.loads(json.dumps(data).replace('"stop":', '"end":'))
        assert isinstance(renamed, dict)
        return renamed

    with pytest.raises(EqkirError, match="EQK-KIR-VERSION"):
        load_bytes(old)
    monkeypatch.setitem(migration.STEPS, 0, step)
    assert load_bytes(old) == load_bytes(text())
    with pytest.raises(EqkirError, match="newer"):
        load_bytes(text().replace(b'"kir": 1', b'"kir": 2'))
    monkeypatch.setitem(migration.STEPS, 0, lambda data: data["no such key"])
    with pytest.raises(EqkirError, match="EQK-KIR-VALUE"):
        load_bytes(old)
