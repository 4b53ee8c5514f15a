"""The relation of encoded numbers and random numbers, from their definitions (kir.md section 6), bit by bit."""

from __future__ import annotations

from collections.abc import Callable

from eqkir.base import dtypes
from eqkir.base.expr import ONE, ZERO, Expr, Int, eq, floordiv, lt, mod
from eqkir.kir import model as kir
from eqkir.program.construction.relation import At, Body, K, Relation, Term, Val, choose, const, expands, number
from eqkir.program.construction.relation_loops import Part, Recurrence


class Bits:
    """Operations on terms of one dtype."""

    def __init__(self, r: Relation, dtype: str) -> None:
        self.r, self.dtype = r, dtype

    def op(self, fn: str, a: K, b: K | int | float, dtype: str = "") -> Term:
        b = const(b, self.dtype) if isinstance(b, (int, float)) else b
        return Term("Bin", (fn,), (a, b), dtype or self.dtype)

    def cast(self, a: K) -> K:
        return a if self.r.head(a).dtype == self.dtype else Term("Cast", (self.dtype,), (a,), self.dtype)

    def bits(self, a: K) -> K:
        return a if self.r.head(a).dtype == self.dtype else Term("Bitcast", (self.dtype,), (a,), self.dtype)

    def sum(self, v: Val, extent: Expr, f: Callable[[Expr], K]) -> Term:
        body = Body((extent,), lambda xs: (f(xs[0]),), v.frame, (const(0, self.dtype),))
        return Term("Red", ("sum", body), (), self.dtype, v.given)


# ------------------------------------------------------------------------------------------------ random numbers
MULTIPLIERS, WEYL, ROUNDS = (0xD2511F53, 0xCD9E8D57), (0x9E3779B9, 0xBB67AE85), 10


def philox(r: Relation, seed: K, counter: K) -> K:
    """Word ``counter % 4`` of block ``counter // 4``; numbers known beforehand are computed here."""
    w, d = Bits(r, "u32"), Bits(r, "u64")
    seed, counter = d.cast(seed), d.cast(counter)

    def high(x: K) -> K:
        return w.cast(d.op("shr", x, 32))

    def product(m: int, x: K | int) -> tuple[K | int, K | int]:
        if isinstance(x, int):
            return m * x >> 32, m * x & 0xFFFFFFFF
        wide = d.op("mul", const(m, "u64"), d.cast(x))
        return high(wide), w.cast(wide)

    def term(x: K | int) -> K:
        return const(x, "u32") if isinstance(x, int) else x

    def xor(a: K | int, b: K | int) -> K | int:
        if isinstance(a, int) and isinstance(b, int):
            return a ^ b
        return b if a == 0 else a if b == 0 else w.op("xor", term(a), term(b))

    block = d.op("shr", counter, 2)
    c: list[K | int] = [w.cast(block), high(block), 0, 0]
    key: list[K] = [w.cast(seed), high(seed)]
    for _ in range(ROUNDS):
        (h0, l0), (h1, l1) = product(MULTIPLIERS[0], c[0]), product(MULTIPLIERS[1], c[2])
        c = [xor(xor(h1, c[1]), key[0]), l1, xor(xor(h0, c[3]), key[1]), l0]
        key = [w.op("add", k, x) for k, x in zip(key, WEYL, strict=True)]
    word, out = d.op("and", counter, 3), term(c[3])
    for i in (2, 1, 0):
        out = choose(d.op("eq", word, i, "bool"), term(c[i]), out, "u32")
    return out


@expands("random_bits", "random_uniform")
def _random(r: Relation, op: kir.RandomBits | kir.RandomUniform, n: int, v: Val) -> K:
    bits = philox(r, r.operand(v, op.seed), r.operand(v, op.counter))
    if isinstance(op, kir.RandomBits):
        return bits
    f = Bits(r, "f32")
    return f.op("mul", f.cast(Bits(r, "u32").op("shr", bits, 8)), 2.0**-24)


# ------------------------------------------------------------------------------------------------ block-scaled
def e2m1(r: Relation, code: K) -> K:
    """0 .5 1 1.5 2 3 4 6 and a sign: as the bits of an f32."""
    i = Bits(r, "i32")
    magnitude = i.op("and", code, 7)
    exponent, fraction = i.op("shr", magnitude, 1), i.op("and", magnitude, 1)
    normal = i.op("or", i.op("shl", i.op("add", exponent, 126), 23), i.op("shl", fraction, 22))
    small = choose(i.op("eq", fraction, 0, "bool"), const(0, "i32"), const(126 << 23, "i32"), "i32")
    value = choose(i.op("eq", exponent, 0, "bool"), small, normal, "i32")
    return Bits(r, "f32").bits(i.op("or", value, i.op("shl", i.op("shr", i.op("and", code, 8), 3), 31)))


def e8m0(r: Relation, code: K) -> K:
    """2^(c - 127); 255 is NaN, 0 a subnormal."""
    i = Bits(r, "i32")
    c = i.cast(code)
    small = choose(i.op("eq", c, 0, "bool"), const(1 << 22, "i32"), i.op("shl", c, 23), "i32")
    return Bits(r, "f32").bits(choose(i.op("eq", c, 255, "bool"), const(0x7FC00000, "i32"), small, "i32"))


def element(r: Relation, v: Val, id: str, format: str, at: At, axis: int) -> K:
    if format == "e2m1":
        i = Bits(r, "i32")
        byte = i.cast(Val(id, (), (*at[:axis], floordiv(at[axis], 2), *at[axis + 1 :]), v.frame, v.given))
        low = number(eq(mod(at[axis], 2), ZERO), "bool")
        return e2m1(r, choose(low, i.op("and", byte, 15), i.op("shr", byte, 4), "i32"))
    x: K = Val(id, (), at, v.frame, v.given)
    x = Bits(r, "f8e4m3fn").bits(x) if r.dtype(id) == "u8" else x
    return Bits(r, "f32").cast(x)


@expands("scaled_contract")
def _scaled(r: Relation, op: kir.ScaledContract, n: int, v: Val) -> K:
    """Σ over groups of Σ over members."""
    lhs, f = r.shape(op.lhs), Bits(r, "f32")
    members = r.extent(lhs[2] * (2 if op.lhs_format == "e2m1" else 1))
    row, column = v.at

    def scale(id: str, at: At) -> K:
        x = Val(id, (), at, v.frame, v.given)
        return e8m0(r, x) if r.dtype(id) == "u8" else x

    def group(g: Expr) -> K:
        def operands(xs: At) -> tuple[K, ...]:
            a = element(r, v, op.lhs, op.lhs_format, (row, g, xs[0]), 2)
            b = element(r, v, op.rhs, op.rhs_format, (g, xs[0], column), 1)
            return f.op("mul", a, scale(op.lhs_scale, (row, g))), f.op("mul", b, scale(op.rhs_scale, (g, column)))

        return Term("Con", (Body((members,), operands, v.frame, (const(0, "f32"),)),), (), "f32", v.given)

    return f.sum(v, lhs[1], group)


@expands("sparse_contract")
def _sparse(r: Relation, op: kir.SparseContract, n: int, v: Val) -> K:
    """Element j of a row meets the row of the other operand that its place names."""
    size, present = (2, 1) if op.pattern == "one_of_two" else (4, 2)
    row, column = v.at

    def operands(xs: At) -> tuple[K, ...]:
        place = r.data(r.index(Val(op.meta, (), (row, xs[0]), v.frame, v.given)))
        other = floordiv(xs[0], present) * size + mod(place, size)
        return Val(op.lhs, (), (row, xs[0]), v.frame, v.given), Val(op.rhs, (), (other, column), v.frame, v.given)

    body = Body((r.shape(op.lhs)[1],), operands, v.frame, (const(0, op.acc),))
    return Term("Con", (body,), (), op.acc, v.given)


# ------------------------------------------------------------------------------------------------ q8_K
@expands("quantize")
def _quantize(r: Relation, op: kir.Quantize, n: int, v: Val) -> K:
    """A byte of a record: f32 scale, 256 numbers, 16 sums of i16."""
    f, i, u = Bits(r, "f32"), Bits(r, "i32"), Bits(r, "u8")
    *lead, byte = v.at

    def x(at: Expr) -> Val:
        return Val(op.x, (), (*lead, at), v.frame, v.given)

    def extreme(fn: str, g: Callable[[Expr], K]) -> Term:
        neutral = Term("Const", (dtypes.identity(fn, "f32"),), (), "f32")
        return Term("Red", (fn, Body((Int(256),), lambda xs: (g(xs[0]),), v.frame, (neutral,))), (), "f32", v.given)

    top = extreme("max", lambda t: Term("Un", ("abs",), (x(t),), "f32"))
    low = extreme("min", x)
    negative = f.op("eq", Term("Un", ("neg",), (low,), "f32"), top, "bool")
    none = f.op("eq", top, 0.0, "bool")
    inverse = f.op("div", const(-127.0, "f32"), choose(none, const(1.0, "f32"), choose(negative, low, top, "f32"), "f32"))
    scale = choose(none, const(0.0, "f32"), f.op("div", const(1.0, "f32"), inverse), "f32")

    def code(at: Expr) -> K:
        rounded = Term("Un", ("round_even",), (f.op("mul", x(at), inverse),), "f32")
        clamped = f.op("minimum", f.op("maximum", rounded, -128.0), 127.0)
        return i.cast(choose(none, const(0.0, "f32"), clamped, "f32"))

    def part(word: K, at: Expr) -> K:
        return u.cast(i.op("and", i.op("shr", word, i.cast(number(at * 8))), 255))

    group = floordiv(mod(byte - 260, 32), 2)
    sums = i.sum(v, Int(16), lambda m: code(group * 16 + m))
    tail = choose(number(lt(byte, 260), "bool"), u.cast(code(mod(byte - 4, 256))), part(sums, mod(byte - 260, 2)), "u8")
    return choose(number(lt(byte, 4), "bool"), part(i.bits(scale), mod(byte, 4)), tail, "u8")


# ------------------------------------------------------------------------------------------------ q4_K · q8_K
@expands("quantized_dot")
def _dot(r: Relation, op: kir.QuantizedDot, n: int, v: Val) -> K:
    """The records add in order from 0."""
    rec = dot(r, op, Val("", (), (), v.frame, v.given))
    return Term("Fold", (rec, (0, (), v.at)), (), "f32", v.given)


def dot(r: Relation, op: kir.QuantizedDot, outer: Val) -> Recurrence:
    rec = Recurrence("for", op, outer, r.shape(op.lhs)[-2], lambda part: "f32", fresh=lambda: dot(r, op, outer))
    here: list[Expr] = []

    def begin(x: Expr, active: Expr, place: Expr | None) -> None:
        here[:] = [x]

    def next(part: Part) -> K:
        return Bits(r, "f32").op("add", rec.form(part), record(r, op, part[2], here[0], outer))

    rec.init = lambda part: const(0.0, "f32")
    rec.begin, rec.next = begin, next
    return rec


def record(r: Relation, op: kir.QuantizedDot, at: At, k: Expr, v: Val) -> K:
    """R32(ds · R32(R32(d · S) − R32(dmin · T))); products of two such numbers are exact in f64."""
    f, i = Bits(r, "f32"), Bits(r, "i32")
    u16, wide = Bits(r, "u16"), Bits(r, "f64")

    def raw(id: str, place: Expr) -> Val:
        shape = r.shape(id)[:-2]
        lead = tuple(ZERO if e == ONE else x for e, x in zip(shape, at[len(at) - len(shape) :], strict=True))
        return Val(id, (), (*lead, k, place), v.frame, v.given)

    def byte(id: str, place: Expr) -> K:
        return i.cast(raw(id, place))

    def word(id: str, place: Expr, n: int) -> K:
        out = byte(id, place)
        for j in range(1, n):
            out = i.op("or", out, i.op("shl", byte(id, place + j), 8 * j))
        return out

    def half(place: int) -> K:
        return f.cast(Bits(r, "f16").bits(u16.cast(word(op.lhs, Int(place), 2))))

    def product(a: K, b: K) -> K:
        return f.cast(wide.op("mul", wide.cast(a), wide.cast(b)))

    def six(s: Expr, scale: bool) -> K:
        """The scale or the minimum of sub-block s."""
        t, low = mod(s, 4), number(lt(s, 4), "bool")
        b0, b4, b8 = (byte(op.lhs, t + (4 + 4 * j)) for j in range(3))
        first, rest = (b0, i.op("and", b8, 15)) if scale else (b4, i.op("shr", b8, 4))
        upper = i.op("shl", i.op("shr", first, 6), 4)
        return choose(low, i.op("and", first, 63), i.op("or", rest, upper), "i32")

    def weighted(s: Expr, m: Expr) -> K:
        packed = byte(op.lhs, floordiv(s, 2) * 32 + m + 16)
        w = choose(number(eq(mod(s, 2), ZERO), "bool"), i.op("and", packed, 15), i.op("shr", packed, 4), "i32")
        return i.op("mul", w, i.cast(Bits(r, "i8").bits(raw(op.rhs, s * 32 + m + 4))))

    def sums(s: Expr) -> K:
        out: K = const(0, "i32")
        for j in (0, 1):
            out = i.op("add", out, i.cast(Bits(r, "i16").bits(u16.cast(word(op.rhs, s * 4 + (260 + 2 * j), 2)))))
        return out

    total = i.sum(v, Int(8), lambda s: i.op("mul", six(s, True), i.sum(v, Int(32), lambda m: weighted(s, m))))
    least = i.sum(v, Int(8), lambda s: i.op("mul", six(s, False), sums(s)))
    inner = f.op("sub", product(half(0), total), product(half(2), least))
    return product(f.bits(word(op.rhs, ZERO, 4)), inner)


__all__ = ["Bits", "philox"]
