"""Every pointwise operation of the Mojo provider, on every dtype, against the reference semantics: exact ones bit by bit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from eqkir.base.dtypes import FLOATS, INTS, NUMPY, SIGNED, bits, literal
from eqkir.emit.mojo import ops, toolchain
from eqkir.kir import elementwise as E
from eqkir.program import interp_scalar as S
from tests.mojo.opsuite import DTYPES, Case, Suite, cases, stores

pytestmark = [pytest.mark.compile, pytest.mark.skipif(not toolchain.available(), reason="no Mojo compiler")]
Array = np.ndarray[Any, Any]
PROVIDED = {**dict.fromkeys(ops.FUNCTIONS), "exp2_fast": None, "tanh_fast": None}
EXACT = [c for c in cases() if not (c.op == "Un" and c.attrs[0] in PROVIDED)]
FUNCTIONS = [c for c in cases() if c.op == "Un" and c.attrs[0] in PROVIDED]


@pytest.fixture(scope="module")
def suite() -> Suite:
    return Suite(EXACT)


@pytest.fixture(scope="module")
def functions() -> Suite:
    return Suite(FUNCTIONS)


def values(dtype: str) -> Array:
    """Everything of 8 and 16-bit dtypes; otherwise borders, ties of every narrower format, subnormals, random bits and ordinary numbers."""
    r, t = np.random.default_rng(1), NUMPY[dtype]
    if dtype == "bool":
        return np.array([False, True])
    if bits(dtype) <= 16:
        return np.arange(1 << bits(dtype), dtype=f"u{t.itemsize}").view(t)
    raw = np.frombuffer(r.bytes(20000 * t.itemsize), f"u{t.itemsize}").view(t)
    if dtype in INTS:
        i = np.iinfo(t)
        near = [b + d for b in [1 << k for k in range(bits(dtype))] for d in (-1, 0, 1)]
        near += [-n for n in near]
        return np.concatenate([np.array([n for n in [0, 3, 5, 7, *near] if i.min <= n <= i.max], t), raw])
    with np.errstate(all="ignore"):
        borders = np.array(
            [0.0, -0.0, 1, -1, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, np.inf, -np.inf, np.nan, 65504, 65519, 65520, 65521, 448, 464, 464.1, 465]
            + [57344, 61439, 61440, 61441, 127.5, 128, -128.5, -129, 255, 256, 2.0**31, 2.0**31 - 1, -(2.0**31), -(2.0**31) - 1, 2.0**32]
            + [2.0**63, -(2.0**63), 2.0**64, 1e300, -1e300, 1e38, 3.5e38]
        ).astype(t)  # fmt: skip
        subnormal = np.arange(1, 50, dtype=f"u{t.itemsize}").view(t)
        ties = (np.arange(0, 4000) * 2.0**-27).astype(t)
        common = (r.standard_normal(20000) * np.exp(r.standard_normal(20000) * 6)).astype(t)
        around = [np.nextafter(ties, t.type(1)), np.nextafter(ties, t.type(-1))]
    return np.concatenate([borders, raw, subnormal, -subnormal, ties, -ties, *around, common])


def operands(dtypes: tuple[str, ...]) -> list[Array]:
    """Values for each operand: all of one, all pairs of few, a sample of many pairs and triples together with all pairs of borders."""
    xs = [values(d) for d in dtypes]
    if len(xs) == 1:
        return xs
    r, n = np.random.default_rng(2), 100000 if len(xs) == 2 else 20000
    if len(xs) == 2 and len(xs[0]) <= 256:
        return [g.ravel() for g in np.meshgrid(*xs)]
    sample = [x[r.integers(0, len(x), n)] for x in xs]
    heads = [g.ravel() for g in np.meshgrid(*[x[:120] for x in xs[:2]])]
    rest = [x[r.integers(0, len(x), heads[0].size)] for x in xs[2:]]
    return [np.concatenate(p) for p in zip(sample, [*heads, *rest], strict=True)]


def valid(case: Case, xs: list[Array]) -> Array:
    """Where the operands are valid input (kir.md section 5)."""
    ok = np.ones(xs[0].shape, np.bool_)
    fn, src = case.attrs[0], case.args[0]
    if fn in ("shl", "shr"):
        ok = (xs[1] >= 0) & (xs[1] < bits(src))
    elif fn in ("floordiv", "mod"):
        ok = xs[1] != 0
        if src in SIGNED:
            ok &= ~((xs[1] == -1) & (xs[0] == np.iinfo(NUMPY[src]).min))
    elif case.op == "Cast" and src in FLOATS and case.dtype in INTS:
        t, info = np.trunc(xs[0].astype(np.float64)), np.iinfo(NUMPY[case.dtype])
        ok = (t >= float(info.min)) & (t < 2.0 ** (bits(case.dtype) - (case.dtype in SIGNED)))
    return ok


def overflows(case: Case, xs: list[Array]) -> Array:
    """Where the exact result of an operation that rounds to f8e4m3fn is past its largest value: invalid input, it has no infinity.

    A result of at most 464 rounds to 448; what moves bits or changes a sign never overflows. Sums and products of such values are exact in
    f64, and a quotient or an integer on one side of 464 stays there.
    """
    if case.dtype != "f8e4m3fn" or case.op == "Bitcast" or case.attrs[0] in ("select", "neg", "abs"):
        return np.zeros(xs[0].shape, np.bool_)
    wide = [x.astype(np.float64) for x in xs]
    exact = wide[0] if case.op == "Cast" else reference(replace(case, args=("f64",) * len(xs), dtype="f64"), wide)
    return np.abs(exact) > 464


def reference(case: Case, xs: list[Array]) -> Array:
    fn = case.attrs[0]
    match case.op:
        case "Un":
            return E.unary(fn, xs[0])
        case "Bin" if fn in ("eq", "ne", "lt", "le", "gt", "ge"):
            return E.compare(fn, *xs)
        case "Bin":
            return E.binary("div" if fn == "div_fast" else fn, *xs)
        case "Tri":
            return np.where(*xs) if fn == "select" else E.fma(*xs)
        case "Cast":
            return E.cast(xs[0], case.dtype)
    return E.bitcast(xs[0], case.dtype)


def different(got: Array, want: Array, dtype: str) -> Array:
    raw = f"u{got.dtype.itemsize}"
    d = got.view(raw) != want.view(raw)
    return d & ~(np.isnan(got.astype(np.float64)) & np.isnan(want.astype(np.float64))) if dtype in FLOATS else d


@pytest.mark.parametrize("case", EXACT, ids=str)
def test_an_exact_operation_has_the_bits_of_the_reference(suite: Suite, case: Case) -> None:
    xs = operands(case.args)
    with np.errstate(all="ignore"):
        keep = valid(case, xs) & ~overflows(case, xs)
        everywhere = suite.run(case, *xs)  # invalid input included: nothing faults
        xs, got = [x[keep] for x in xs], everywhere[keep]
        want = reference(case, xs)
        wrong = np.flatnonzero(different(got, want, case.dtype))
    assert not wrong.size, [(*(x[k] for x in xs), got[k], want[k]) for k in wrong[:3]]


def test_f8e4m3fn_overflows_where_the_reference_says(suite: Suite) -> None:
    x = values("f32")
    got = suite.run(Case("Cast", ("f8e4m3fn",), ("f32",), "f8e4m3fn"), x)
    assert np.array_equal(np.isnan(got.astype(np.float32)), ~(np.abs(x) <= 464))


@pytest.mark.parametrize("case", [c for c in FUNCTIONS if c.dtype in ops.NARROW], ids=str)
def test_a_function_of_a_narrow_float_is_that_of_f32_rounded_once(functions: Suite, case: Case) -> None:
    x = values(case.dtype)
    wide = functions.run(Case("Un", case.attrs, ("f32",), "f32"), x.astype(np.float32))
    with np.errstate(all="ignore"):
        want = wide.astype(NUMPY[case.dtype])
    got = functions.run(case, x)
    assert not different(got, want, case.dtype).any()


REDUCTIONS = [(f, d, w) for f in ops.COMBINE for d in DTYPES for w in (1, 8) if (d == "bool") == (f in ("any", "all"))]


def some(dtype: str) -> Array:
    x = values(dtype)
    return x[:: max(1, x.size // 40)]


def lanes(dtype: str) -> Array:
    return np.array([0, 1, 1, 0, 1, 1, 0, 1], np.bool_) if dtype == "bool" else np.arange(1, 9).astype(NUMPY[dtype])


@pytest.fixture(scope="module")
def stored() -> dict[Any, Any]:
    def one(v: Any, d: str) -> str:
        return ops.constant(literal(v, d), d, 1)

    bodies: dict[Any, tuple[str, list[str]]] = {}
    for d in DTYPES:
        bodies[d] = (d, [f"    p.unsafe_store({k}, {one(v, d)})" for k, v in enumerate(some(d).tolist())])
        bodies[d, 4] = (d, [f"    p.unsafe_store({4 * k}, {ops.constant(literal(v, d), d, 4)})" for k, v in enumerate(some(d).tolist())])
    for f, d, w in REDUCTIONS:
        xs = [one(v, d) for v in lanes(d)[:w].tolist()]
        vector = f"{ops.mojo_type(d, w)}({', '.join(xs)})" if w > 1 else xs[0]
        bodies[f, d, w] = (d, [f"    p.unsafe_store(0, {ops.reduce_expression(f, vector, d, w)})"])
    return stores(bodies)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_constant_keeps_its_bits(stored: dict[Any, Any], dtype: str) -> None:
    x = some(dtype)
    got = np.zeros(x.shape, NUMPY[dtype])
    stored[dtype](got.ctypes.data)
    assert not different(got, x, dtype).any()
    wide = np.zeros(4 * x.size, NUMPY[dtype])
    stored[dtype, 4](wide.ctypes.data)
    assert not different(wide, np.repeat(x, 4), dtype).any()


@pytest.mark.parametrize("fn, dtype, width", REDUCTIONS)
def test_lanes_reduce_pairwise_by_halves(stored: dict[Any, Any], fn: str, dtype: str, width: int) -> None:
    got, x = np.zeros(1, NUMPY[dtype]), lanes(dtype)[:width]
    stored[fn, dtype, width](got.ctypes.data)
    while x.size > 1:
        h = x.size // 2
        with np.errstate(over="ignore"):
            x = np.concatenate([S.combine(fn, x[:h], x[h:], dtype)])
    assert got[0] == x[0] or (got[0] != got[0] and x[0] != x[0])


def test_every_expression_has_its_helpers() -> None:
    from eqkir.emit.mojo.library import blocks, helpers_in
    from tests.mojo.opsuite import body

    names = {h for c in cases() for h in helpers_in(body(c, "kt_x"))}
    assert {n for n in names if not n.startswith("eqk_reduce_")} <= blocks().keys()


@pytest.mark.parametrize(
    "op, attrs, dtypes", [("Un", ("sqrt",), ("i32",)), ("Bin", ("add",), ("bool", "bool")), ("Red", ("sum",), ("f32",))]
)
def test_what_kir_does_not_have_is_refused(op: str, attrs: tuple[str, ...], dtypes: tuple[str, ...]) -> None:
    with pytest.raises(ops.Unsupported):
        ops.expression(op, attrs, ["a", "b"][: len(dtypes)], dtypes, dtypes[0], 4)
