"""Pointwise productions: every function, every dtype, casts and the values' special cases."""

from __future__ import annotations

from eqkir.base.dtypes import bits
from eqkir.kir import ops
from eqkir.kir.values import Value
from tests.fuzz.state import FLOAT, INT, NARROW, SIGNED, UNSIGNED, State, finite, production

SAME = ("neg", "abs")
FLOAT_UNARY = tuple(f for f in ops.UNARY if f not in ("not", *SAME))
MODES = ("exp2", "tanh")
PERMISSIONS = ("approximate", "flush_to_zero")


@production(5)
def unary(g: State) -> Value:
    x = g.value((*FLOAT, *INT, "bool"))
    if x.dtype == "bool":
        return ~x
    return x.unary(g.pick((*SAME, "not"))) if x.dtype in INT else x.unary(g.pick((*FLOAT_UNARY, *SAME)))


@production(3, wishes=(*FLOAT_UNARY, *SAME))
def function(g: State) -> Value:
    """A function of a float: every one as often as the others."""
    return g.value(FLOAT).unary(g.choose((*FLOAT_UNARY, *SAME)))


@production(1)
def integer_unary(g: State) -> Value:
    return g.value(INT).unary(g.choose(("neg", "abs", "not")))


@production(1, wishes=[f"{fn} {mark}" for fn in (*MODES, "div") for mark in PERMISSIONS])
def permitted(g: State) -> Value:
    """A value with its own permissions."""
    x = g.value(("f32",))
    asked, _, mark = g.wish.partition(" ")
    marks = {p: g.chance(0.4) or p == mark for p in PERMISSIONS}
    if asked == "div" or not asked and g.chance(0.4):
        return g.k.one(ops.Binary, fn="div", x=x.id, y=g.like(x).id, **marks)
    return g.k.one(ops.Unary, fn=asked or g.pick(MODES), x=x.id, **marks)


@production(6, wishes=("div", "maximum", "minimum", "maximum_num", "minimum_num"))
def arithmetic(g: State) -> Value:
    x = g.value(FLOAT if g.wish == "div" else (*FLOAT, *INT))
    fns = ("add", "sub", "mul", "add", "mul", "maximum", "minimum", "maximum_num", "minimum_num")
    y = g.like(x)
    return g.k.binary(g.choose((*fns, "div") if x.dtype in FLOAT else fns), *((x, y) if g.chance(0.7) else (y, x)))


@production(2)
def fused(g: State) -> Value:
    """a·b ± c, which may become one rounding."""
    x = g.value(FLOAT)
    p = x * g.like(x)
    return p + g.like(p) if g.chance(0.5) else g.like(p) - p


@production(3, wishes=("floordiv", "mod", "shl", "shr", "and", "or", "xor"))
def integer_arithmetic(g: State) -> Value:
    x = g.value(INT)
    fn = g.choose(("floordiv", "mod", "shl", "shr", "and", "or", "xor", "add", "sub", "mul"))
    y = g.like(x)
    if fn in ("floordiv", "mod"):
        y = (y & 7) + 1
    if fn in ("shl", "shr"):
        y = y & (bits(x.dtype) - 1)
    return g.k.binary(fn, x, y)


@production(2)
def logic(g: State) -> Value:
    x = g.value(("bool",))
    return g.k.binary(g.pick(("and", "or", "xor")), x, g.like(x))


@production(3, wishes=ops.COMPARE)
def compare(g: State) -> Value:
    x = g.value((*FLOAT, *INT, "bool"))
    if x.dtype == "bool":
        x = x.cast("i32")
    return g.k.binary(g.choose(ops.COMPARE), x, g.like(x))


@production(3)
def select(g: State) -> Value:
    x = g.value((*FLOAT, *INT, "bool"))
    c = g.like(x, "bool")
    if c.rank == 0 or g.chance(0.5):
        c = x.isnan() if x.dtype in FLOAT and g.chance(0.3) else g.k.binary(g.pick(("lt", "ge")), x, g.like(x)) if x.dtype != "bool" else x
    return g.k.where(c, x, g.like(x))


@production(2)
def fma(g: State) -> Value:
    x = g.value(FLOAT)
    return g.k.fma(x, g.like(x), g.like(x))


def cast_to(x: Value, to: str) -> Value:
    """A valid cast between any two dtypes."""
    if x.dtype in FLOAT and to in INT:
        n = bits(to)
        low, high = (0.0, 200.0) if to in UNSIGNED else (-100.0, 100.0)
        if n >= 32 and x.dtype in ("f32", "f64"):
            low, high = low * 1e6, high * 1e6
        return finite(x, low, high).cast(to)
    if x.dtype in NARROW:
        return x.cast("f32") if to not in FLOAT else x.cast(to)
    if to == "f8e4m3fn":
        wide = x if x.dtype in FLOAT else x.cast("f32")
        return wide.maximum(-448.0).minimum(448.0).cast(to)
    return x.cast(to)


@production(4, wishes=(*FLOAT, *INT, *NARROW))
def cast(g: State) -> Value:
    x = g.value(tuple(d for d in FLOAT if d != g.wish) if g.wish else (*FLOAT, *INT, "bool", *NARROW))
    if g.wish:
        return cast_to(x, g.wish)
    if x.dtype in NARROW:
        return x.cast(g.pick(FLOAT))
    if x.dtype == "bool":
        return x.cast(g.pick((*INT, "f32", "f16")))
    to = g.dtype((*FLOAT, *INT, *NARROW)) if x.dtype in FLOAT else g.dtype((*INT, *FLOAT))
    return cast_to(x, to)


@production(1)
def narrow(g: State) -> Value:
    """Through one of the small formats and back."""
    return cast_to(g.value(FLOAT), g.pick((*NARROW, "f16", "bf16"))).cast("f32")


@production(1)
def bitcast(g: State) -> Value:
    x = g.value((*FLOAT, *INT))
    same = {8: ("i8", "u8"), 16: ("i16", "u16", "f16", "bf16"), 32: ("i32", "u32", "f32"), 64: ("i64", "u64", "f64")}[bits(x.dtype)]
    return x.bitcast(g.pick([d for d in same if d != x.dtype]))


@production(1)
def constant(g: State) -> Value:
    return g.constant(g.dtype())


@production(1, wishes=("random_bits", "random_uniform"))
def random_number(g: State) -> Value:
    """Philox by coordinates, with a seed that is a constant, a scalar or a tensor."""
    i = g.value(INT)
    c = (i & 127).cast("u64") if i.dtype in SIGNED else i.cast("u64")
    seed = g.pick((g.k.const(0, "u64"), g.k.const(0x1234567890ABCDEF, "u64"), c))
    return g.k.random_bits(seed, c) if g.choose(("random_bits", "random_uniform")) == "random_bits" else g.k.random_uniform(seed, c)


@production(1, pure=False)
def scalar_parameter(g: State) -> Value:
    """A run-time scalar, or a compile-time one."""
    n = len(g.k._params)
    if g.chance(0.35):
        return g.k.constexpr(f"c{n}", g.pick((True, 3, 0.5)))
    return g.k.scalar(f"s{n}", g.dtype((*FLOAT, *INT)))
