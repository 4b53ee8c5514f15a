"""Every enclosure holds what the exact operation gives at any points of its operands, special values included."""

from __future__ import annotations

import numpy as np
import pytest

from eqkir.base.dtypes import NUMPY
from eqkir.kir import elementwise, interval, interval_functions, interval_reduce
from eqkir.kir import interval_arithmetic as arithmetic
from eqkir.kir import interval_decision as decision
from eqkir.kir.floats import FORMATS
from eqkir.kir.inputs import special_values
from eqkir.kir.interval import Num, exact
from eqkir.kir.model import UNARY
from eqkir.kir.reference_codes import Trap
from eqkir.kir.reference_structured import accumulate

FLOAT = ["f32", "f64", "f16", "bf16", "f8e5m2"]
SIZE = 4000


def operand(dtype: str, rng: np.random.Generator, shape: tuple[int, ...] = (1, SIZE), tame: bool = False) -> tuple[Num, list[np.ndarray]]:
    """Random enclosures (points, narrow and wide intervals, NaN) and three draws of values inside."""
    f = FORMATS[dtype]
    span = (-4, 5) if tame else (f.emin - f.p, int(np.log2(f.max)))
    x = np.ldexp(rng.uniform(-1, 1, shape), rng.integers(*span, shape))
    x = np.where(rng.random(shape) < 0.5, rng.standard_normal(shape), x)
    special = special_values(dtype).astype(np.float64)
    if tame:
        special = special[np.isfinite(special) & (np.abs(special) <= 1)]
    x = np.where(rng.random(shape) < 0.2, special[rng.integers(0, len(special), shape)], x)
    with np.errstate(all="ignore"):
        x = x.astype(NUMPY[dtype]).astype(np.float64)
        width = rng.choice([0.0, 0.0, 1e-3, 1.0, 5.0], shape) * np.abs(np.where(np.isfinite(x), x, 1.0))
        top = np.where(np.isfinite(x), x + width, x).astype(NUMPY[dtype]).astype(np.float64)
        top = np.where(width == 0, x, top)
    nan = np.isnan(x)
    lo, hi = np.where(nan, 0.0, x), np.where(nan, 0.0, top)
    num = Num(dtype, lo, hi, nan if nan.any() else None)
    draws = []
    for t in (0.0, 1.0, rng.random(shape)):
        with np.errstate(all="ignore"):
            inner = lo + (hi - lo) * t
            v = np.where(np.isfinite(inner), np.clip(inner, lo, hi), np.where(np.asarray(t) == 0, lo, hi))
            v = np.clip(v.astype(NUMPY[dtype]).astype(np.float64), lo, hi)
        v = np.where((lo == hi), lo, v)
        draws.append(np.where(nan, np.nan, v).astype(NUMPY[dtype]))
    return num, draws


def assert_inside(e: Num, y: np.ndarray, what: str) -> None:
    v = y.astype(np.float64)
    amb = np.zeros(e.shape, bool) if e.amb is None else e.amb
    nan = np.zeros(e.shape, bool) if e.nan is None else e.nan
    signed = (e.lo == 0) & (e.hi == 0) & (np.signbit(e.lo) == np.signbit(e.hi))
    ok = np.where(nan, np.isnan(v), (v >= e.lo) & (v <= e.hi) & ~(signed & (np.signbit(v) != np.signbit(e.lo))))
    bad = np.argwhere(~(ok | amb))
    assert not len(bad), f"{what}: {len(bad)}, first {v[tuple(bad[0])]!r} outside [{e.lo[tuple(bad[0])]!r}, {e.hi[tuple(bad[0])]!r}]"


@pytest.mark.parametrize("dtype", FLOAT)
@pytest.mark.parametrize("fn", ["add", "sub", "mul", "div", "maximum", "minimum", "maximum_num", "minimum_num"])
def test_binary_operations_are_enclosed(fn: str, dtype: str) -> None:
    rng = np.random.default_rng(1)
    with np.errstate(all="ignore"):
        for _ in range(3):
            (x, xs), (y, ys) = operand(dtype, rng), operand(dtype, rng)
            f = {
                "add": arithmetic.add,
                "sub": lambda a, b: arithmetic.add(a, arithmetic.neg(b)),
                "mul": arithmetic.mul,
                "div": arithmetic.div,
            }
            e = f[fn](x, y) if fn in f else arithmetic.extremum(fn, x, y)
            with interval.enclosing_reals():
                wide = f[fn](x, y) if fn in f else arithmetic.extremum(fn, x, y)
            for a in xs:
                for b in ys:
                    assert_inside(e, elementwise.binary(fn, a, b), fn)
                    assert_inside(wide, elementwise.binary(fn, a, b), fn)
            if fn in ("add", "sub", "mul", "div"):
                known = interval.known(x) & interval.known(y)
                sharp = e.lo == e.hi if e.amb is None else (e.lo == e.hi) | (e.amb & False)
                undecided = np.zeros(e.shape, bool) if e.nan is None else e.nan
                assert (sharp | undecided | ~known).all(), "exact operands give exact results"


@pytest.mark.parametrize("dtype", FLOAT)
def test_fused_multiply_add_is_enclosed(dtype: str) -> None:
    rng = np.random.default_rng(2)
    with np.errstate(all="ignore"):
        (x, xs), (y, ys), (z, zs) = (operand(dtype, rng) for _ in range(3))
        fused, split = arithmetic.fma(x, y, z), arithmetic.add(arithmetic.mul(x, y), z)
        for a, b, c in zip(xs, ys, zs):
            r = elementwise.fma(a, b, c)
            assert_inside(fused, r, "fma")
            assert_inside(split, r, "fused a * b + c")
            assert_inside(split, elementwise.binary("add", elementwise.binary("mul", a, b), c), "a * b + c")


@pytest.mark.parametrize("dtype", FLOAT)
@pytest.mark.parametrize("fn", [f for f in UNARY if f != "not"])
def test_unary_functions_are_enclosed(fn: str, dtype: str) -> None:
    rng = np.random.default_rng(3)
    with np.errstate(all="ignore"):
        x, xs = operand(dtype, rng)
        e = interval_functions.unary(fn, x)
        for a in xs:
            y = elementwise.unary(fn, a)
            if e.dtype == "bool":
                assert ((y == e.lo) | (False if e.amb is None else e.amb)).all()
            else:
                assert_inside(e, y, fn)


@pytest.mark.parametrize("dtype", FLOAT)
def test_comparisons_and_selections_are_enclosed(dtype: str) -> None:
    rng = np.random.default_rng(4)
    (x, xs), (y, ys), (p, ps), (q, qs) = (operand(dtype, rng) for _ in range(4))
    for fn in ("eq", "ne", "lt", "le", "gt", "ge"):
        e = decision.compare(fn, x, y)
        s = decision.select(e, p, q)
        for a, b, c, d in zip(xs, ys, ps, qs):
            r = elementwise.compare(fn, a, b)
            assert ((r == e.lo) | (False if e.amb is None else e.amb)).all(), fn
            assert_inside(s, np.where(r, c, d), f"select {fn}")


@pytest.mark.parametrize("target", [*FLOAT, "bool", "i8", "u16", "i64", "u64"])
@pytest.mark.parametrize("dtype", FLOAT)
def test_casts_are_enclosed(dtype: str, target: str) -> None:
    rng = np.random.default_rng(5)
    x, xs = operand(dtype, rng, tame=target in ("i8", "u16", "i64", "u64"))
    with np.errstate(all="ignore"):
        if target in FORMATS:
            for a in xs:
                assert_inside(decision.cast(x, target), elementwise.cast(a, target), target)
            return
        if target != "bool":  # certain invalid input is diagnosed by both: keep the rest
            keep = (x.hi < 100) & (x.lo > (-100 if target in ("i8", "i64") else -1))
            keep &= True if x.nan is None else ~x.nan
            x, xs = Num(dtype, x.lo[keep][None], x.hi[keep][None]), [a[keep][None] for a in xs]
        e = decision.cast(x, target)
        for a in xs:
            assert ((elementwise.cast(a, target) == e.lo) | (False if e.amb is None else e.amb)).all()


@pytest.mark.parametrize("dtype", ["f32", "f64", "f16"])
@pytest.mark.parametrize("fn", ["sum", "max", "min", "prod"])
def test_reductions_are_enclosed_in_every_tree(fn: str, dtype: str) -> None:
    rng = np.random.default_rng(6)
    acc = "f32" if fn == "sum" and dtype == "f16" else dtype
    for tame in (True, False):
        for n in (1, 2, 3, 9):
            x, xs = operand(dtype, rng, (1, 600, n), tame)
            with np.errstate(all="ignore"):
                e = interval_reduce.builtin(fn, x, acc)
                for a in xs:
                    wide = elementwise.cast(a, acc)
                    for order in ("plain", "forward", "reversed", "pairwise"):
                        assert_inside(e, accumulate(fn, wide, order), f"{fn} {order}")
            if tame and e.amb is not None and fn != "prod":
                assert not e.amb.any()


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_contractions_of_intervals_are_enclosed(dtype: str) -> None:
    rng = np.random.default_rng(7)
    for tame in (True, False):
        for k in (1, 2, 5):
            x, xs = operand(dtype, rng, (1, 30, k), tame)
            y, ys = operand(dtype, rng, (1, k, 25), tame)
            with np.errstate(all="ignore"):
                e = interval_reduce.contract(x, y, dtype)
                for a in xs:
                    for b in ys:
                        s = elementwise.binary("mul", a[..., :1], b[:, :1])
                        f = s
                        for i in range(1, k):
                            p, q = a[..., i : i + 1], b[:, i : i + 1]
                            s = elementwise.binary("add", s, elementwise.binary("mul", p, q))
                            f = elementwise.fma(p, q, f)
                        assert_inside(e, s, f"contract k={k}")
                        assert_inside(e, f, f"fused contract k={k}")


@pytest.mark.parametrize("fn", ["and", "or", "xor"])
def test_three_valued_logic(fn: str) -> None:
    values = [(v, a) for v in (False, True) for a in (False, True)]
    pairs = [(p, q) for p in values for q in values]
    x = Num("bool", *[np.asarray([p[0] for p, _ in pairs])] * 2, amb=np.asarray([p[1] for p, _ in pairs]))
    y = Num("bool", *[np.asarray([q[0] for _, q in pairs])] * 2, amb=np.asarray([q[1] for _, q in pairs]))
    e = decision.logic(fn, x, y)
    for i, ((v, a), (w, b)) in enumerate(pairs):
        possible = {
            bool(elementwise.binary(fn, np.asarray(s), np.asarray(t)))
            for s in ((True, False) if a else (v,))
            for t in ((True, False) if b else (w,))
        }
        amb = False if e.amb is None else bool(e.amb[i])
        assert amb == (len(possible) == 2) and (amb or possible == {bool(e.lo[i])})


def test_integers_in_doubt_do_not_trap() -> None:
    x = Num("i32", *[np.asarray([7, 7], np.int32)] * 2)
    y = Num("i32", *[np.asarray([0, 2], np.int32)] * 2, amb=np.asarray([True, False]))
    e = decision.integer("floordiv", x, y)
    assert e.amb is not None and e.amb.tolist() == [True, False] and e.lo[1] == 3
    with pytest.raises(Trap):
        decision.integer("floordiv", x, exact(np.asarray([0, 2], np.int32)))
