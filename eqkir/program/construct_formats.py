"""Encoded numbers (kir.md section 6): decoding is integer and bit arithmetic of the carriers; then ordinary contractions.

The roundings of ``quantize`` and ``quantized_dot`` are those that section 6 states, one node each. Products that feed an addition are
formed in f64, where they are exact, and cast: so they are rounded once, and are no part of a multiply-add.
"""

from __future__ import annotations

from collections.abc import Generator

from eqkir.base.expr import ZERO, Coord, Expr, Int, Sym, eq, floordiv, lift, lt, mod
from eqkir.kir import model as kir
from eqkir.program import construct_index as ix
from eqkir.program.construct_env import Ixs, Request, Steps, construction, made
from eqkir.program.construct_loops import choice
from eqkir.program.construct_ops import bound
from eqkir.program.construct_values import Values

Nodes = Generator[Request, int, int]


class Bits:
    """Arithmetic on nodes of one dtype."""

    def __init__(self, v: Values, dtype: str) -> None:
        self.v, self.dtype = v, dtype

    def const(self, x: float | int) -> int:
        return self.v.const(x, self.dtype)

    def cast(self, x: int) -> int:
        return x if self.v.program.nodes[x].dtype == self.dtype else self.v.make("Cast", (self.dtype,), (x,), self.dtype)

    def bits(self, x: int) -> int:
        return self.v.make("Bitcast", (self.dtype,), (x,), self.dtype)

    def __call__(self, fn: str, a: int, b: int | float) -> int:
        return self.v.make("Bin", (fn,), (a, self.const(b)), self.dtype)

    def op(self, fn: str, a: int, b: int) -> int:
        return self.v.make("Bin", (fn,), (a, b), self.dtype)

    def test(self, fn: str, a: int, b: int | float) -> int:
        return self.v.make("Bin", (fn,), (a, self.const(b)), "bool")

    def sum(self, x: int, axis: str) -> int:
        return self.v.make("Red", ("sum", axis), (self.v.spread(x, axis),), self.dtype)


def product(v: Values, a: int, b: int) -> int:
    """R32 of the product of two numbers that f64 holds with their product: rounded by itself, for no freedom crosses a cast."""
    wide = Bits(v, "f64")
    return v.make("Cast", ("f32",), (wide.op("mul", wide.cast(a), wide.cast(b)),), "f32")


# ------------------------------------------------------------------------------------------------ decoding
def e2m1(v: Values, code: int) -> int:
    """f32 of a code in an i32: ±0 .5 1 1.5 2 3 4 6."""
    i = Bits(v, "i32")
    magnitude = i("and", code, 7)
    exponent, fraction = i("shr", magnitude, 1), i("and", magnitude, 1)
    normal = i.op("or", i("shl", i("add", exponent, 126), 23), i("shl", fraction, 22))
    small = choice(v, i.test("eq", fraction, 0), i.const(0), i.const(126 << 23))
    value = choice(v, i.test("eq", exponent, 0), small, normal)
    return Bits(v, "f32").bits(i.op("or", value, i("shl", i("shr", i("and", code, 8), 3), 31)))


def e8m0(v: Values, code: int) -> int:
    """f32 of a u8: 2^(c - 127), 255 is NaN. 2^-127 is subnormal."""
    i = Bits(v, "i32")
    c = i.cast(code)
    small = choice(v, i.test("eq", c, 0), i.const(1 << 22), i("shl", c, 23))
    return Bits(v, "f32").bits(choice(v, i.test("eq", c, 255), i.const(0x7FC00000), small))


def element(v: Values, id: str, format: str, ixs: Ixs, axis: int) -> Nodes:
    """f32 of a decoded element; `axis` counts elements."""
    if format == "e2m1":
        at, half = v.fold(floordiv(ixs[axis], lift(2))), v.index(eq(mod(ixs[axis], lift(2)), ZERO), (), "bool")
        i = Bits(v, "i32")
        byte = i.cast((yield id, (*ixs[:axis], at, *ixs[axis + 1 :])))
        return e2m1(v, choice(v, half, i("and", byte, 15), i("shr", byte, 4)))
    x = yield id, ixs
    if v.program.nodes[x].dtype == "u8":
        x = v.make("Bitcast", ("f8e4m3fn",), (x,), "f8e4m3fn")
    return v.make("Cast", ("f32",), (x,), "f32")


def scale(v: Values, id: str, ixs: Ixs) -> Nodes:
    x = yield id, ixs
    return e8m0(v, x) if v.program.nodes[x].dtype == "u8" else x


@construction("scaled_contract", "lhs lhs_scale rhs rhs_scale lhs_format rhs_format")
def _scaled(v: Values, op: kir.ScaledContract, n: int, ixs: Ixs) -> Steps:
    """Σ_g Σ_c of the scaled elements."""
    lhs, taken = v.shape(op.lhs), v.taken(op.results[0], ixs)
    members = v.extent(lhs[2] * (2 if op.lhs_format == "e2m1" else 1))
    g, ga = bound(v, lhs[1], taken)
    c, ca = bound(v, members, taken)
    f = Bits(v, "f32")
    a = yield from element(v, op.lhs, op.lhs_format, (ixs[0], g, c), 2)
    sa = yield from scale(v, op.lhs_scale, (ixs[0], g))
    b = yield from element(v, op.rhs, op.rhs_format, (g, c, ixs[1]), 1)
    sb = yield from scale(v, op.rhs_scale, (g, ixs[1]))
    out = v.make("Con", (ca,), (v.spread(f.op("mul", a, sa), ca), v.spread(f.op("mul", b, sb), ca)), "f32")
    return v.make("Red", ("sum", ga), (v.spread(out, ga),), "f32")


@construction("sparse_contract", "lhs meta rhs pattern acc")
def _sparse(v: Values, op: kir.SparseContract, n: int, ixs: Ixs) -> Steps:
    """Σ_j lhs[m, j] · rhs[place, n]: a gather along the members."""
    taken = v.taken(op.results[0], ixs)
    j, axis = bound(v, v.shape(op.lhs)[1], taken)
    x = yield op.lhs, (ixs[0], j)
    place = v.widened((yield op.meta, (ixs[0], j)))
    size, present = (2, 1) if op.pattern == "one_of_two" else (4, 2)
    # the place inside a group is data; masked to the group's size, so that the row lies inside the operand
    inside = ix.arithmetic(v, "mod", place, v.const(size, "index"))
    if inside is None:
        inside = v.make("Bin", ("mod",), (place, v.const(size, "index")), "index")
    base = v.index(floordiv(j, Int(present)) * size, (), "index")
    row = ix.arithmetic(v, "add", base, inside)
    if row is None:
        row = v.make("Bin", ("add",), (base, inside), "index")
    y = yield op.rhs, (Sym(f"#{row}.{v.const(True, 'bool')}"), ixs[1])
    return v.make("Con", (axis,), (v.spread(x, axis), v.spread(y, axis)), op.acc)


# ------------------------------------------------------------------------------------------------ q8_K
@construction("quantize", "x format")
def _quantize(v: Values, op: kir.Quantize, n: int, ixs: Ixs) -> Steps:
    """One byte of a record: f32 scale, i8 q[256], i16 sums of 16 q each."""
    f, i, byte = Bits(v, "f32"), Bits(v, "i32"), ixs[-1]
    taken = v.taken(op.results[0], ixs)
    x, axis = bound(v, lift(256), taken)
    value = yield op.x, (*ixs[:-1], x)
    top = v.make("Red", ("max", axis), (v.make("Un", ("abs",), (value,), "f32"),), "f32")
    low = v.make("Red", ("min", axis), (value,), "f32")
    negative = v.make("Bin", ("eq",), (v.make("Un", ("neg",), (low,), "f32"), top), "bool")
    extreme = choice(v, negative, low, top)
    none = f.test("eq", top, 0.0)
    inverse = f.op("div", f.const(-127.0), choice(v, none, f.const(1.0), extreme))
    ds = choice(v, none, f.const(0.0), f.op("div", f.const(1.0), inverse))

    def code(at: Expr) -> Nodes:
        element = yield op.x, (*ixs[:-1], at)
        scaled = v.make("Un", ("round_even",), (f.op("mul", element, inverse),), "f32")
        clamped = f.op("minimum", f.op("maximum", scaled, f.const(-128.0)), f.const(127.0))
        return i.cast(choice(v, none, f.const(0.0), clamped))

    def part(word: int, at: Expr) -> int:
        """A byte of a little-endian word in an i32."""
        shift = v.make("Cast", ("i32",), (v.index(at * 8, (), "index"),), "i32")
        return v.make("Cast", ("u8",), (i("and", i.op("shr", word, shift), 255),), "u8")

    # positions outside of a field are brought into it: what is read there is not chosen
    def clipped(e: Expr, size: int) -> Expr:
        return v.fold(mod(e, Int(size)))

    head = part(i.bits(ds), clipped(byte, 4))
    q = yield from code(clipped(byte - 4, 256))
    m, ma = bound(v, lift(16), taken)
    group = v.fold(floordiv(clipped(byte - 260, 32), Int(2)))
    sums = i.sum((yield from code(v.fold(group * 16 + m))), ma)
    tail = part(sums, clipped(byte - 260, 2))
    body = v.make("Cast", ("u8",), (q,), "u8")
    return choice(v, v.index(lt(byte, Int(4)), (), "bool"), head, choice(v, v.index(lt(byte, Int(260)), (), "bool"), body, tail))


# ------------------------------------------------------------------------------------------------ q4_K · q8_K
@construction("quantized_dot", "lhs rhs lhs_format rhs_format")
def _dot(v: Values, op: kir.QuantizedDot, n: int, ixs: Ixs) -> Steps:
    """Records add in order: a fold over them, one by one."""
    taken = v.taken(op.results[0], ixs)
    records = v.shape(op.lhs)[-2]
    axis = v.axis(records, taken, "strict")
    taken.add(axis)
    term = yield from _record(v, op, ixs, Coord(axis), taken)
    f = Bits(v, "f32")
    name = f"f{made(v, op.results[0], v.env, (ixs, axis))}"
    form = v.make("Form", (name, 0, tuple(sorted(v.program.free(term) | {axis}))), (), "f32")
    t = v.make("Fold", (axis, name, 1), (f.const(0.0), f.op("add", form, term)), "tuple")
    return v.make("Pick", (0,), (t,), "f32")


def _record(v: Values, op: kir.QuantizedDot, ixs: Ixs, r: Expr, taken: set[str]) -> Nodes:
    f, i = Bits(v, "f32"), Bits(v, "i32")
    lead = {id: (*v.aligned(v.shape(id)[:-2], ixs), r) for id in (op.lhs, op.rhs)}

    def byte(id: str, at: Expr) -> Nodes:
        return i.cast((yield id, (*lead[id], v.fold(at))))

    def word(id: str, at: Expr, n: int) -> Nodes:
        out = yield from byte(id, at)
        for k in range(1, n):
            more = yield from byte(id, at + k)
            out = i.op("or", out, i("shl", more, 8 * k))
        return out

    def half(at: int) -> Nodes:
        bits = yield from word(op.lhs, Int(at), 2)
        return v.make("Cast", ("f32",), (v.make("Bitcast", ("f16",), (v.make("Cast", ("u16",), (bits,), "u16"),), "f16"),), "f32")

    s, sa = bound(v, lift(8), taken)
    m, ma = bound(v, lift(32), taken)
    low = v.index(lt(s, Int(4)), (), "bool")
    t = v.fold(mod(s, Int(4)))
    b0 = yield from byte(op.lhs, t + 4)
    b4 = yield from byte(op.lhs, t + 8)
    b8 = yield from byte(op.lhs, t + 12)

    def high(b: int) -> int:
        return i("shl", i("shr", b, 6), 4)

    sc = choice(v, low, i("and", b0, 63), i.op("or", i("and", b8, 15), high(b0)))
    mn = choice(v, low, i("and", b4, 63), i.op("or", i("shr", b8, 4), high(b4)))
    # weight i = 32 s + m: byte 16 + 32 (s // 2) + m, low nibble for even s
    packed = yield from byte(op.lhs, floordiv(s, Int(2)) * 32 + m + 16)
    w = choice(v, v.index(eq(mod(s, Int(2)), ZERO), (), "bool"), i("and", packed, 15), i("shr", packed, 4))
    signed = v.make("Bitcast", ("i8",), ((yield op.rhs, (*lead[op.rhs], v.fold(s * 32 + m + 4))),), "i8")
    inner = i.sum(i.op("mul", w, i.cast(signed)), ma)
    total = i.sum(i.op("mul", sc, inner), sa)
    sums = i.const(0)
    for k in (0, 1):
        bits = yield from word(op.rhs, s * 4 + (260 + 2 * k), 2)
        sums = i.op("add", sums, i.cast(v.make("Bitcast", ("i16",), (v.make("Cast", ("u16",), (bits,), "u16"),), "i16")))
    least = i.sum(i.op("mul", mn, sums), sa)
    d = yield from half(0)
    dmin = yield from half(2)
    ds = f.bits((yield from word(op.rhs, ZERO, 4)))
    return product(v, ds, f.op("sub", product(v, d, total), product(v, dmin, least)))


__all__ = ["Bits", "e2m1", "e8m0"]
