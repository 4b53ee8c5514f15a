"""Productions of structured operations: reductions, scans, contractions, histograms, encoded numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eqkir.base.dtypes import bits
from eqkir.kir.values import Value
from tests.fuzz.state import FLOAT, INT, NARROW, State, finite, key, production, whole

FORMATS = tuple(f"{a} by {b}" for a in ("e4m3", "e2m1") for b in ("e4m3", "e2m1"))


def _axis(g: State, x: Value) -> int:
    return g.rng.randrange(x.rank)


@production(6, wishes=("sum", "max", "min", "prod", "prod"))
def reduce(g: State) -> Value:
    x = g.value((*FLOAT, *INT) if g.wish else (*FLOAT, *INT, "bool"), 1)
    fn = g.pick(("any", "all")) if x.dtype == "bool" else g.choose(("sum", "sum", "max", "min", "prod"))
    axes = sorted(g.rng.sample(range(x.rank), g.pick((1, 1, 1, min(2, x.rank), x.rank))))
    return x.reduce(fn, axes, g.chance(0.4))


@production(2, wishes=("any", "all") * 2)
def reduce_logic(g: State) -> Value:
    x = g.value(("bool",), 1)
    return x.reduce(g.choose(("any", "all")), _axis(g, x), g.chance(0.4))


@production(2)
def normalized(g: State) -> Value:
    """A value against a reduction of itself."""
    x = g.value(FLOAT, 1)
    a = _axis(g, x)
    m = x.max(axis=a, keepdims=True)
    if g.chance(0.5):
        return x - m
    e = (x - m).exp()
    return e / e.sum(axis=a, keepdims=True).cast(x.dtype)


@production(2)
def sum_of_products(g: State) -> Value:
    """A sum of products, which may become a contraction."""
    x = g.value(FLOAT, 1)
    p = x * g.like(x)
    if not p.rank:
        p = p.broadcast_to((g.dim(),))
    return p.sum(axis=_axis(g, p))


def _combine(g: State, dtype: str, ordered: bool) -> tuple[int, tuple[Any, ...], Callable[..., Any]]:
    """(components, identities, combine) of a lawful generic combination; `ordered` ones do not commute."""
    k = g.k
    if dtype in FLOAT:  # the neutral element of addition is -0
        inf = float("inf")
        table: list[tuple[int, tuple[Any, ...], Callable[..., Any]]] = [
            (1, (-0.0,), lambda a, b: (a[0] + b[0],)),
            (2, (-0.0, -inf), lambda a, b: (a[0] + b[0], a[1].maximum(b[1]))),
            (2, (inf, -inf), lambda a, b: (a[0].minimum(b[0]), a[1].maximum(b[1]))),
            (2, (-0.0, 1.0), lambda a, b: (a[0] + b[0], a[1] * b[1])),
        ]
        return g.pick(table)
    wide: list[tuple[int, tuple[Any, ...], Callable[..., Any]]] = [
        (1, (0,), lambda a, b: (a[0] ^ b[0],)),
        (2, (0, 1), lambda a, b: (a[0] + b[0], a[1] * b[1])),
        (2, (-1 if dtype[0] == "i" else (1 << bits(dtype)) - 1, 0), lambda a, b: (a[0] & b[0], a[1] | b[1])),
        (2, (0, 0), lambda a, b: (a[0] + b[0], a[1].maximum(b[1]) if dtype[0] == "u" else a[1] + b[1])),
    ]
    if ordered:  # affine maps modulo 2^n, and the last element that is not zero
        wide = [
            *wide[:2], (2, (1, 0), lambda a, b: (a[0] * b[0], b[0] * a[1] + b[1])),
            (1, (0,), lambda a, b: (k.where(b[0] != 0, b[0], a[0]),)),
        ]  # fmt: skip
    return g.pick(wide)


def _operands(g: State, n: int, dtypes: tuple[str, ...]) -> list[Value]:
    x = g.value(dtypes, 1)
    xs = [x]
    while len(xs) < n:
        y = g.like(x)
        xs.append(y.broadcast_to(x.shape) if y.rank < x.rank or [*map(key, y.shape)] != [*map(key, x.shape)] else y)
    return xs


@production(4)
def generic_reduce(g: State) -> list[Value]:
    dtype = g.dtype((*FLOAT, "i32", "i64", "u32", "u8"))
    n, identities, combine = _combine(g, dtype, False)
    xs = _operands(g, n, (dtype,))
    axes = sorted(g.rng.sample(range(xs[0].rank), g.pick((1, 1, min(2, xs[0].rank)))))
    return list(_flat(g.k.reduce(tuple(xs), axes, identities, combine)))


def _flat(x: Any) -> tuple[Value, ...]:
    return (x,) if isinstance(x, Value) else tuple(x)


@production(2)
def lexicographic(g: State) -> list[Value]:
    """A generic reduction with a tie rule: the extreme and the lowest place of it."""
    x = g.value(("f32", "i32", "bf16"), 1)
    best, at = (g.k.argmax if g.chance(0.5) else g.k.argmin)(x, _axis(g, x))
    return [best, at.cast("i32") if g.chance(0.5) else at]


@production(3, wishes=("argmax", "argmin", "argmin"))
def arg_reduce(g: State) -> list[Value]:
    x = g.value((*FLOAT, *INT), 1)
    return list(g.k.arg_reduce(g.choose(("argmax", "argmin")), x, _axis(g, x), g.pick(("index", "i32", "i64"))))


@production(4, wishes=("cumsum", "cumprod", "cummax", "cummin", "exclusive", "reverse", "exclusive reverse"))
def scan(g: State) -> Value:
    x = g.value((*FLOAT, *INT), 1)
    marks = [g.chance(0.4) if g.wish[:1] not in ("e", "r") else mark in g.wish for mark in ("exclusive", "reverse")]
    return x._scan(g.choose(("cumsum", "cumprod", "cummax", "cummin")), _axis(g, x), *marks)


@production(3)
def generic_scan(g: State) -> list[Value]:
    dtype = g.dtype(("f32", "f64", "i32", "i64", "u32", "u8"))
    n, identities, combine = _combine(g, dtype, True)
    xs = _operands(g, n, (dtype,))
    return list(g.k.scan(xs, _axis(g, xs[0]), combine, identities, g.chance(0.4), g.chance(0.4)))


@production(2)
def recurrence(g: State) -> list[Value]:
    """h = a h + b as a scan of affine maps; numbers are finite and zeros positive, so that the identity is neutral."""
    xs = _operands(g, 2, (g.dtype(("f32", "f64")),))
    a, b = finite(xs[0], -1.0, 1.0), finite(xs[1], -100.0, 100.0) + 0.0
    return list(g.k.scan([a, b], _axis(g, a), affine, (1.0, 0.0), g.chance(0.3), g.chance(0.4)))


def affine(a: tuple[Value, Value], b: tuple[Value, Value]) -> tuple[Value, Value]:
    """First the map a, then the map b."""
    return a[0] * b[0], b[0] * a[1] + b[1]


def _accumulator(g: State, dtype: str) -> str:
    if dtype in ("f16", "bf16"):
        return g.pick(("f32", "f32", "f64"))
    if dtype in NARROW:
        return "f32"
    if dtype in FLOAT:
        return g.pick((dtype, "f64"))
    wide = "i" if dtype[0] == "i" else "u"
    return f"{wide}{g.pick((32, 64))}" if bits(dtype) <= 16 else "index" if dtype == "index" else f"{wide}{g.pick((bits(dtype), 64))}"


@production(5, wishes=("matmul", "batched", "two", "any", *("vector",) * 3, *("accumulated",) * 4))
def contract(g: State) -> Value:
    """Any pairing of axes: matrix products, batches, outer products over several axes."""
    dtype = g.dtype(FLOAT if g.wish == "accumulated" else (*FLOAT, *FLOAT, *NARROW, "i8", "u8", "i32", "i64"))
    m, n, c = g.dim(), g.dim(), g.dim()
    summed = g.wish == "accumulated" or g.chance(0.3)
    match "matmul" if g.wish == "accumulated" else g.choose(("matmul", "matmul", "batched", "vector", "two", "any")):
        case "matmul":
            a, b, r, w = (m, c), (c, n), [(1, 0)], []
        case "batched":
            d = g.pick((2, 3))
            a, b, r, w = (d, m, c), (d, c, n), [(2, 1)], [(0, 0)]
        case "vector":
            a, b, r, w = (m, c), (c,), [(1, 0)], []
        case "two":
            a, b, r, w = (m, c, 2), (2, c), [(1, 1), (2, 0)], []
        case _:
            x = g.value((dtype,), 1)
            i = _axis(g, x)
            y = g.take(lambda v: v.dtype == dtype and any(key(d) == key(x.shape[i]) for d in v.shape))
            y = x if y is None else y
            j = next((q for q, d in enumerate(y.shape) if key(d) == key(x.shape[i])), 0)
            return g.k.contract(x, y, [(i, j)], (), _accumulator(g, dtype))
    x, y = g.load(dtype, a), g.load(dtype, b)
    if g.chance(0.3) and dtype in FLOAT:
        x = x.unary(g.pick(("neg", "abs", "tanh")))
    out = g.k.contract(x, y, r, w, _accumulator(g, dtype))
    return out + g.like(out) if summed else out


@production(2)
def histogram(g: State) -> Value:
    x = g.value((*INT, "f32"), 1, 2)
    bins = g.pick((3, 5, 8, g.symbol("K")))
    i = whole(x, "i32" if x.dtype != "index" else "index")
    valid = None
    if g.chance(0.5):
        valid = (i >= 0) & (i < g.k.value(bins, i.dtype))
    else:
        i = i % g.k.value(bins, i.dtype).maximum(1)
        if not isinstance(bins, int):  # of no bins nothing may be counted
            valid = i < g.k.value(bins, i.dtype)
    return g.k.histogram(i, bins, valid, g.pick(("i32", "i64", "u32")))


@production(2, wishes=FORMATS)
def scaled_contract(g: State) -> Value:
    m, n, groups, width = g.dim(), g.dim(), g.pick((1, 2, 3)), g.pick((4, 8, 16))
    formats = g.choose(FORMATS).split(" by ")
    scales = [g.pick(("f32", "u8")) for _ in range(2)]
    both = []
    for f, axes in zip(formats, ("lhs", "rhs"), strict=True):
        packed = width // 2 if f == "e2m1" else width
        dtype = "u8" if f == "e2m1" else g.pick(("f8e4m3fn", "u8"))
        both.append(g.view("in", dtype, (m, groups, packed) if axes == "lhs" else (groups, packed, n))[:, :, :])
    s0 = g.view("in", scales[0], (m, groups))[:, :]
    s1 = g.view("in", scales[1], (groups, n))[:, :]
    return g.k.scaled_contract(both[0], s0, both[1], s1, formats[0], formats[1])


@production(2, wishes=("one_of_two", "two_of_four") * 2)
def sparse_contract(g: State) -> Value:
    pattern = g.choose(("one_of_two", "two_of_four"))
    m, n, half = g.dim(), g.dim(), g.pick((2, 4, 8))
    dtype = g.dtype(("f32", "f16", "bf16", "i8"))
    x, y = g.load(dtype, (m, half)), g.load(dtype, (2 * half, n))
    meta = g.view("in", "u8", (m, half))[:, :]
    return g.k.sparse_contract(x, meta, y, pattern, "i32" if dtype == "i8" else "f32")


@production(1, wishes=("", ""))
def quantize(g: State) -> Value:
    x = g.view("in", "f32", (*g.pick(((), (2,), (g.symbol("M"),))), 256))
    return g.k.quantize(x[(slice(None),) * len(x.shape)])


@production(1)
def quantized_dot(g: State) -> Value:
    m, r = g.pick((2, g.symbol("M"))), g.pick((1, 2))
    x = g.view("in", "u8", (m, r, 144))[:, :, :]
    y = g.view("in", "u8", (r, 292))[:, :]
    return g.k.quantized_dot(x, y)
