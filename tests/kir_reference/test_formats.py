"""Encoded numbers: exact definitions, bit for bit, and enclosures of contractions over them; permissions to approximate."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

from eqkir.base.dtypes import NUMPY
from eqkir.kir import encodings
from eqkir.kir.envelope import compare, envelope
from eqkir.kir.memory import ViewArg
from eqkir.kir.reference import Choices, run
from tests.kir_reference.support import indices, kernel, op, pointwise, refuses, view, within


def tensors(ins: dict[str, tuple[str, list[Any]]], out: tuple[str, list[Any]], body: list[dict[str, Any]], result: str) -> Any:
    """Load whole tensors (as ``x_NAME``), run `body`, store `result` to Y; all extents are numbers."""
    ops: list[dict[str, Any]] = []
    for n, (_, shape) in {**ins, "Y": out}.items():
        ops += [
            {**o, "results": [f"{n}_{r}" for r in o["results"]], **{f: f"{n}_{o[f]}" for f in ("domain", "x") if f in o}}
            for o in indices(shape)
        ]
    coords = {n: [f"{n}_i{k}" for k in range(len(s))] for n, (_, s) in {**ins, "Y": out}.items()}
    ops += [op("load", f"x_{n}", view=n, coords=coords[n]) for n in ins]
    params = [view(n, "in", d, *s) for n, (d, s) in ins.items()] + [view("Y", "out", out[0], *out[1])]
    return kernel(params, [*ops, *body, op("store", view="Y", coords=coords["Y"], value=result)])


def arguments(k: Any, **arrays: Any) -> dict[str, Any]:
    y = next(p for p in k.params if p.id == "Y")
    return {**{n: ViewArg.of(a) for n, a in arrays.items()}, "Y": ViewArg.of(np.zeros(y.shape, NUMPY[y.dtype]))}


# ------------------------------------------------------------------------------------------------ block-scaled
def test_codes_decode_as_defined() -> None:
    assert encodings.e2m1(np.asarray([0x10, 0x32, 0x54, 0x76, 0x98, 0xFE], np.uint8)).tolist() == [
        0,
        0.5,
        1,
        1.5,
        2,
        3,
        4,
        6,
        -0.0,
        -0.5,
        -4,
        -6,
    ]
    assert np.signbit(encodings.e2m1(np.asarray([8], np.uint8))).tolist() == [True, False]
    s = encodings.scale(np.asarray([0, 1, 126, 127, 128, 254, 255], np.uint8))
    assert s[:6].tolist() == [2.0**-127, 2.0**-126, 0.5, 1, 2, 2.0**127] and np.isnan(s[6])
    assert encodings.e4m3(np.asarray([0x7E, 0xFE, 1], np.uint8)).tolist() == [448, -448, 2**-9] and np.isnan(
        encodings.e4m3(np.asarray([0x7F], np.uint8))
    )


@pytest.mark.parametrize("formats", [("e2m1", "e2m1"), ("e4m3", "e4m3"), ("e4m3", "e2m1")])
@pytest.mark.parametrize("scales", ["u8", "f32"])
def test_scaled_contract(formats: tuple[str, str], scales: str) -> None:
    rng = np.random.default_rng(0)
    m, g, c, n = 3, 4, 8, 5
    shapes = ([m, g, c // (2 if formats[0] == "e2m1" else 1)], [g, c // (2 if formats[1] == "e2m1" else 1), n])
    ins = {"A": ("u8", shapes[0]), "S": (scales, [m, g]), "B": ("u8", shapes[1]), "T": (scales, [g, n])}
    body = [
        op("scaled_contract", "r", lhs="x_A", lhs_scale="x_S", rhs="x_B", rhs_scale="x_T", lhs_format=formats[0], rhs_format=formats[1])
    ]
    k = tensors(ins, ("f32", [m, n]), body, "r")
    a, b = (rng.integers(0, 256, s).astype(np.uint8) & 0xEE for s in shapes)
    s, t = (
        (rng.integers(120, 130, z).astype(np.uint8) if scales == "u8" else rng.uniform(0.5, 2, z).astype(np.float32))
        for z in ((m, g), (g, n))
    )
    args = arguments(k, A=a, S=s, B=b, T=t)
    e = within(k, args)
    left = encodings.elements(a, formats[0], 2).astype(float) * encodings.scale(s)[..., None]
    right = encodings.elements(b, formats[1], 1).astype(float) * encodings.scale(t)[:, None]
    want = np.einsum("mgc,gcn->mn", left, right)
    np.testing.assert_allclose(e["Y"].value, want, rtol=1e-5, atol=1e-4)
    assert not e["Y"].ambiguous.any() and not compare(e, {"Y": (want * 1.001 + 0.1).astype(np.float32)}).ok
    if scales == "u8":
        s[0, 0] = 255
        assert np.isnan(envelope(k, arguments(k, A=a, S=s, B=b, T=t))["Y"].lo[0]).all()


# ------------------------------------------------------------------------------------------------ sparse
@pytest.mark.parametrize("dtype", ["f16", "f32", "i8"])
@pytest.mark.parametrize("pattern", ["one_of_two", "two_of_four"])
def test_sparse_contract_uses_only_what_is_present(pattern: str, dtype: str) -> None:
    rng = np.random.default_rng(1)
    m, kk, n = 3, 16, 4
    acc = "i32" if dtype == "i8" else "f32"
    ins = {"A": (dtype, [m, kk // 2]), "M": ("u8", [m, kk // 2]), "B": (dtype, [kk, n])}
    k = tensors(ins, (acc, [m, n]), [op("sparse_contract", "r", lhs="x_A", meta="x_M", rhs="x_B", pattern=pattern, acc=acc)], "r")
    size = 2 if pattern == "one_of_two" else 4
    meta = np.stack([np.concatenate([np.sort(rng.permutation(size)[: size // 2]) for _ in range(kk // size)]) for _ in range(m)]).astype(
        np.uint8
    )
    a, b = (rng.integers(-9, 9, s).astype(NUMPY[dtype]) for s in ((m, kk // 2), (kk, n)))
    dense = np.zeros((m, kk))
    for r in range(m):
        for j in range(kk // 2):
            dense[r, (j if size == 2 else j // 2) * size + meta[r, j]] = a[r, j]
    e = within(k, arguments(k, A=a, M=meta, B=b))
    np.testing.assert_allclose(e["Y"].value, dense @ b.astype(float), atol=1e-3)
    if dtype != "i8":  # absent elements take part in no product
        unused = next(
            i
            for i in range(kk)
            if (dense[:1, i] == 0).all() and i not in [(j if size == 2 else j // 2) * size + meta[0, j] for j in range(kk // 2)]
        )
        b[unused] = np.nan
        assert np.isfinite(envelope(k, arguments(k, A=a, M=meta, B=b))["Y"].lo[0]).all()
    meta[0, 0] = size
    for f in (run, envelope):
        with refuses("METADATA"):
            f(k, arguments(k, A=a, M=meta, B=b))  # type: ignore[operator]


# ------------------------------------------------------------------------------------------------ quantised records
def q8k_record(x: Any) -> bytes:
    """One record by the words of the definition, value by value."""
    extreme = max(x.tolist(), key=lambda v: (abs(v), -v))
    if extreme == 0:
        return bytes(292)
    inverse = np.float32(-127) / np.float32(extreme)
    q = [max(-128, min(127, int(np.rint(np.float32(v) * inverse)))) for v in x]
    sums = [sum(q[16 * k : 16 * k + 16]) for k in range(16)]
    return struct.pack("<f256b16h", np.float32(1) / inverse, *q, *sums)


def test_quantize_gives_the_defined_bytes() -> None:
    rng = np.random.default_rng(2)
    x = rng.standard_normal((6, 256)).astype(np.float32)
    x[1] = 0
    x[2] = 0
    x[2, 5], x[2, 9] = 3, -3  # a tie: the smaller one
    x[3] *= 1e-30
    x[4] = np.round(x[4] * 8) / 8
    k = tensors({"A": ("f32", [6, 256])}, ("u8", [6, 292]), [op("quantize", "r", x="x_A")], "r")
    args = arguments(k, A=x)
    e = within(k, args)
    run(k, args)
    assert [bytes(r) for r in args["Y"].array()] == [q8k_record(r) for r in x]
    assert not e["Y"].ambiguous.any()
    x[0, 0] = np.inf
    with refuses("CAST"):
        run(k, arguments(k, A=x))


def test_quantize_of_computed_values_is_decided_where_it_can_be() -> None:
    k = tensors({"A": ("f32", [3, 256])}, ("u8", [3, 292]), [op("unary", "t", fn="exp", x="x_A"), op("quantize", "r", x="t")], "r")
    e = within(k, arguments(k, A=np.random.default_rng(3).standard_normal((3, 256)).astype(np.float32)))
    assert e["Y"].ambiguous[:, 4:260].mean() < 0.05


def dot_of_records(a: bytes, b: bytes) -> Any:
    """q4_K times q8_K by the words of the definition."""
    d, dmin = struct.unpack("<2e", a[:4])
    s, nib = a[4:16], a[16:]
    sc = [s[t] & 63 for t in range(4)] + [(s[8 + t] & 15) | (s[t] >> 6) << 4 for t in range(4)]
    mn = [s[4 + t] & 63 for t in range(4)] + [(s[8 + t] >> 4) | (s[4 + t] >> 6) << 4 for t in range(4)]
    w = [nib[32 * (i // 64) + i % 32] & 15 if i % 64 < 32 else nib[32 * (i // 64) + i % 32] >> 4 for i in range(256)]
    ds, *rest = struct.unpack("<f256b16h", b)
    q, bsum = rest[:256], rest[256:]
    big = sum(sc[i] * sum(w[j] * q[j] for j in range(32 * i, 32 * i + 32)) for i in range(8))
    low = sum(mn[i] * (bsum[2 * i] + bsum[2 * i + 1]) for i in range(8))
    return np.float32(ds) * np.float32(np.float32(float(d) * big) - np.float32(float(dmin) * low))


def test_quantized_dot_has_the_defined_roundings() -> None:
    rng = np.random.default_rng(4)
    m, n, r = 2, 3, 4
    w = encodings.pack_q4k(
        rng.uniform(0.01, 0.1, (m, 1, r)).astype(np.float32),
        rng.uniform(0.01, 0.1, (m, 1, r)).astype(np.float32),
        rng.integers(0, 64, (m, 1, r, 8)),
        rng.integers(0, 64, (m, 1, r, 8)),
        rng.integers(0, 16, (m, 1, r, 256)),
    )
    x = encodings.quantize_q8k(rng.standard_normal((n, r, 256)).astype(np.float32))
    k = tensors(
        {"A": ("u8", [m, 1, r, 144]), "B": ("u8", [n, r, 292])}, ("f32", [m, n]), [op("quantized_dot", "d", lhs="x_A", rhs="x_B")], "d"
    )
    args = arguments(k, A=w, B=x)
    e = within(k, args)
    run(k, args)
    for i in range(m):
        for j in range(n):
            total = np.float32(0)
            for t in range(r):
                total = np.float32(total + dot_of_records(bytes(w[i, 0, t]), bytes(x[j, t])))
            assert args["Y"].array()[i, j] == total == e["Y"].lo[i, j] == e["Y"].hi[i, j]
    parts = encodings.unpack_q4k(w)
    np.testing.assert_array_equal(encodings.pack_q4k(*parts), w)


# ------------------------------------------------------------------------------------------------ permissions
def permitted(fn: str, **more: Any) -> Any:
    name = "binary" if fn == "div" else "unary"
    ins = {"A": "f32", "B": "f32"} if fn == "div" else {"A": "f32"}
    return pointwise(ins, "f32", [op(name, "r", fn=fn, x="x_A", **({"y": "x_B"} if fn == "div" else {}), **more)], "r")


@pytest.mark.parametrize("fn", ["div", "exp2", "tanh"])
def test_permissions_widen_this_one_value(fn: str) -> None:
    rng = np.random.default_rng(5)
    a, b = rng.standard_normal((2, 200)).astype(np.float32)

    def args(k: Any, x: Any = a, y: Any = b) -> dict[str, Any]:
        return {"A": ViewArg.of(x), **({"B": ViewArg.of(y)} if fn == "div" else {}), "Y": ViewArg.of(np.zeros(x.shape, np.float32))}

    plain, loose = (envelope(permitted(fn, **m), args(permitted(fn)))["Y"] for m in ({}, {"approximate": True}))
    assert (loose.lo <= plain.lo).all() and (loose.hi >= plain.hi).all() and (loose.hi - loose.lo > plain.hi - plain.lo).all()
    relative = {"div": 2.0**-21, "exp2": 2.0**-20, "tanh": 2.0**-9}[fn]
    assert (loose.bound <= relative * np.abs(loose.value)).all()
    tiny = np.asarray([1e-40, -1e-41, 1.5e-38, 0.0, 1.0], np.float32)
    y = np.asarray([2, 2, 4, 1, 1], np.float32)
    k = permitted(fn, flush_to_zero=True)
    e = within(k, args(k, tiny, y), Choices(), Choices(flush=True))
    assert not e["Y"].ambiguous.any()
    if fn == "div":
        assert e["Y"].lo[0] == 0 < e["Y"].hi[0] and e["Y"].lo[2] == 0 < e["Y"].hi[2]
        assert not compare(envelope(permitted(fn), args(k, tiny, y)), {"Y": np.zeros(5, np.float32)}).ok


def test_a_huge_divisor_may_count_as_infinite() -> None:
    k = permitted("div", approximate=True)
    x, y = np.asarray([3e38, np.inf], np.float32), np.asarray([3e38, 3e38], np.float32)
    e = envelope(k, {"A": ViewArg.of(x), "B": ViewArg.of(y), "Y": ViewArg.of(np.zeros(2, np.float32))})["Y"]
    assert e.lo[0] <= 0 and e.hi[0] >= 1 and e.ambiguous.tolist() == [False, True]
